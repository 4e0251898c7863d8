from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("records", "0006_safety_triggers")]

    operations = [
        migrations.AddIndex(
            model_name="requestrecord",
            index=models.Index(fields=["-ttft_ms", "-created_at"], name="record_by_ttft"),
        ),
    ]
