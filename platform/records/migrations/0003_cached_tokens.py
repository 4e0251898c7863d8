from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('records', '0002_readers'),
    ]

    operations = [
        migrations.AddField(
            model_name='requestrecord',
            name='cached_tokens',
            field=models.PositiveIntegerField(default=0),
        ),
    ]
