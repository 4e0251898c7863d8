"""Names of everything in Redis.

Keys of a message share its hash tag, keys of a model's queue the model's, so that each script stays in one slot.
"""

from __future__ import annotations

WORKERS = "sluice:workers"  # hash: worker id -> heartbeat
DELIVERIES = "sluice:deliveries"  # stream of `Delivery`
LOGS = "sluice:logs"  # sorted set: message id of each log -> when it was opened
LOGS_FULL = "sluice:logs:full"  # "1" while running messages alone pass the logs' budget
JANITOR = "sluice:logs:janitor"  # held by the gateway whose turn it is to look


def log(message_id: str) -> str:
    """Stream of a message's events; entry `7-0` is the event with id 7: `f` its frame, `t` the tokens it releases."""
    return f"sluice:{{{message_id}}}:log"


def meta(message_id: str) -> str:
    """Hash of a message: who owns it, which claim may write, how long its log is, whether it is cancelled or ended."""
    return f"sluice:{{{message_id}}}:meta"


def owner(message_id: str) -> str:
    """Tombstone of a message: its organisation, kept for a day longer than the log."""
    return f"sluice:{{{message_id}}}:owner"


PUMP = "sluice:batches:pump"  # held by whoever runs the requests of batches


def idempotency(key: str, digest: str) -> str:
    """Claim of an idempotency key by an API key: digest of the body, `|`, message id."""
    return f"sluice:{{idem:{key}}}:{digest}"


def channel(message_id: str) -> str:
    """Channel on which a message's appended events are announced."""
    return f"sluice:{{{message_id}}}:events"


def ready(model: str) -> str:
    """Sorted set of waiting message ids, by arrival time less the priority's head start (ms)."""
    return f"sluice:{{q:{model}}}:ready"


def payloads(model: str) -> str:
    """Hash: message id -> arrival time in ms, `|`, encoded request. An entry lives until the message is settled."""
    return f"sluice:{{q:{model}}}:payloads"


def leases(model: str) -> str:
    """Sorted set of claimed message ids, by the time (ms) at which their lease lapses."""
    return f"sluice:{{q:{model}}}:leases"


def attempts(model: str) -> str:
    """Hash: message id -> how often it was claimed; `id|pen`, `id|lost`: its last claim's pen, how many were lost."""
    return f"sluice:{{q:{model}}}:attempts"


def settlements(model: str) -> str:
    """Stream of `Settlement`, read in bulk by Celery."""
    return f"sluice:{{q:{model}}}:settlements"


def triggers(model: str) -> str:
    """Stream of `Trigger`, read in bulk by Celery."""
    return f"sluice:{{q:{model}}}:triggers"


def outcomes(model: str) -> str:
    """Hash: outcome -> how many messages have ended so, ever."""
    return f"sluice:{{q:{model}}}:outcomes"


def wake(model: str) -> str:
    """List that idle workers block on; it never holds more than a few tokens."""
    return f"sluice:{{q:{model}}}:wake"


COUNTS = "sluice:{metrics}:counts"  # hash: name of a count -> its value over all processes, ever
GATEWAYS = "sluice:{metrics}:gateways"  # hash: gateway id -> heartbeat


def counted(process: str) -> str:
    """Number of the last batch of counts that came from a process."""
    return f"sluice:{{metrics}}:counted:{process}"


CELERY = "sluice:celery"  # expires `CELERY_S` after Celery's last periodic task
CELERY_S = 86_400


def drain(process: str) -> str:
    """Note that asks a process to drain, see `inference.protocol.drains`."""
    return f"sluice:drain:{process}"


# What the console's page of active streams lives on, see `console.live.table`.
TABLE = "sluice:console:table"  # channel of the table's changes
WATCHED = "sluice:console:watched"  # expires soon after the last page is closed
ASKED = "sluice:console:asked"  # set by who needs the whole table
TABLE_MAKER = "sluice:console:maker"  # held by whoever makes the table


MODELS = "sluice:models"  # set of model names that ever had a worker: whose settlements to read


MINUTES_CHANGED = "sluice:{minutes}:changed"  # hash: minute -> revision, of those that the database has not or not all


def minute(number: int) -> str:
    """Hash of what was counted in a minute (since the epoch): `model|organization` -> JSON."""
    return f"sluice:{{minutes}}:{number}"


def minutes_added(process: str) -> str:
    """Number of the last batch of minutes' counts that came from a process."""
    return f"sluice:{{minutes}}:added:{process}"
