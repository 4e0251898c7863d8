from typing import Any

import django.db.models.deletion
from django.db import migrations, models

OUTCOMES = [
    'end_turn', 'max_tokens', 'stop_sequence', 'tool_use', 'safety', 'cancelled', 'client_gone', 'abandoned',
    'timeout', 'worker_lost', 'oom', 'error',
]
LOOSE: dict[str, Any] = {'db_constraint': False, 'db_index': False, 'null': True, 'on_delete': django.db.models.deletion.DO_NOTHING}
DAY = {'sqlite': 'date(created_at)', 'postgresql': "(created_at AT TIME ZONE 'UTC')::date"}


def fill(apps: Any, schema_editor: Any) -> None:
    """Sum up the records there are."""
    schema_editor.execute(f"""
        INSERT INTO records_dailyusage
            (day, organization_id, key_id, model, outcome, requests, input_tokens, cached_tokens, output_tokens)
        SELECT {DAY[schema_editor.connection.vendor]}, organization_id, key_id, model, outcome,
            count(*), sum(input_tokens), sum(cached_tokens), sum(output_tokens)
        FROM records_requestrecord WHERE outcome <> '' GROUP BY 1, 2, 3, 4, 5
    """)


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0002_tenants'),
        ('records', '0003_cached_tokens'),
    ]

    operations = [
        migrations.CreateModel(
            name='DailyUsage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('model', models.CharField(max_length=200)),
                ('outcome', models.CharField(choices=[(outcome, outcome) for outcome in OUTCOMES], max_length=20)),
                ('requests', models.BigIntegerField(default=0)),
                ('input_tokens', models.BigIntegerField(default=0)),
                ('cached_tokens', models.BigIntegerField(default=0)),
                ('output_tokens', models.BigIntegerField(default=0)),
                ('key', models.ForeignKey(to='accounts.apikey', **LOOSE)),
                ('organization', models.ForeignKey(to='accounts.organization', **LOOSE)),
            ],
            options={
                'verbose_name': 'daily usage',
                'verbose_name_plural': 'daily usage',
                'ordering': ('-day', '-id'),
                'indexes': [models.Index(fields=['-day', '-id'], name='usage_by_day')],
                'constraints': [models.UniqueConstraint(fields=('organization', 'day', 'key', 'model', 'outcome'), name='one_sum_each')],
            },
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
