from typing import Any

import django.db.models.deletion
from django.db import migrations, models

LOOSE: dict[str, Any] = {'db_constraint': False, 'db_index': False, 'null': True, 'on_delete': django.db.models.deletion.DO_NOTHING}


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0002_tenants'),
        ('records', '0004_daily_usage'),
    ]

    operations = [
        migrations.CreateModel(
            name='Retention',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('since', models.DateTimeField()),
            ],
        ),
        migrations.RemoveIndex(model_name='requestrecord', name='record_by_organization'),
        migrations.AlterField(
            model_name='requestrecord',
            name='key',
            field=models.ForeignKey(to='accounts.apikey', **LOOSE),
        ),
        migrations.AlterField(
            model_name='requestrecord',
            name='organization',
            field=models.ForeignKey(to='accounts.organization', **LOOSE),
        ),
        migrations.AddIndex(
            model_name='requestrecord',
            index=models.Index(fields=['organization', 'key', '-created_at', '-id'], name='record_by_key'),
        ),
        migrations.AddIndex(
            model_name='requestrecord',
            index=models.Index(fields=['model', '-created_at', '-id'], name='record_by_model'),
        ),
        migrations.AddIndex(
            model_name='requestrecord',
            index=models.Index(fields=['outcome', '-created_at', '-id'], name='record_by_outcome'),
        ),
        migrations.AddIndex(
            model_name='requestrecord',
            index=models.Index(
                fields=['organization', '-created_at', '-id', 'outcome', 'model'], name='record_of_organization'
            ),
        ),
    ]
