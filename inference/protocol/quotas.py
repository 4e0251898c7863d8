"""How quotas are counted in Redis, and what every process may do to them: account for a message, keep it reserved.

All that is counted of an organisation shares its hash tag, so that one script sees it all. `spent` is what has been
used, `reserved` what the messages that run may still use: each has a reservation of its worst case, with a lease, so
that nothing is held for long by a process that died. An account takes the reservation's place. It is kept by message
id for a while: one that comes again, from the same claim or a later one, replaces the first.

Who admits is on the platform's side (`quotas.scripts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from inference.protocol.reports import Settlement
from inference.protocol.settings import Settings

ACCOUNT_S = 900  # how long an account is known by its message's id
MINUTE_S = 6 * 3600  # how long it is known what was spent on the messages of one minute

Call = tuple[str, tuple[str, ...], tuple[str | int, ...]]  # script, keys, arguments

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def spent(organization: str) -> str:
    """Hash, of each subject (a key, the organisation): `subject|dDAY`, `|mMONTH`, `|total`, tokens that were used up.

    And `subject|requests`, `|input`, `|output`, its buckets: `used at limit`, in tokens x 60,000, in ms, and a minute.
    `since` is the minute in which the first message was counted, `seeded` is set when what was used before is in.
    """
    return f"sluice:{{quota:{organization}}}:spent"


def reserved(organization: str) -> str:
    """Hash of sums over all reservations: `subject|streams`, `|output`, `|dDAY`, `|mMONTH`, `|total`."""
    return f"sluice:{{quota:{organization}}}:reserved"


def reservations(organization: str) -> str:
    """Hash: message id -> `input output day month`, and the subjects that it is reserved of."""
    return f"sluice:{{quota:{organization}}}:reservations"


def leases(organization: str) -> str:
    """Sorted set of the message ids that have reservations, by the time (ms) at which these lapse."""
    return f"sluice:{{quota:{organization}}}:leases"


def account(organization: str, message_id: str) -> str:
    """What a message was accounted for: `pen input output`."""
    return f"sluice:{{quota:{organization}}}:account:{message_id}"


def minute(organization: str, number: int) -> str:
    """Hash: subject -> tokens that were used up by the messages which came in one minute, counted from the epoch."""
    return f"sluice:{{quota:{organization}}}:minute:{number}"


def books(organization: str) -> tuple[str, str, str, str]:
    """Return the keys that all scripts on reservations begin with."""
    return spent(organization), reserved(organization), reservations(organization), leases(organization)


@dataclass(frozen=True, slots=True)
class Period:
    """The minute, the day (counted from the epoch) and the month (202612) that a message counts in: those it came in.

    They are those of its record, by the clock of the gateway that took it.
    """

    minute: int
    day: int
    month: int

    @classmethod
    def of(cls, created_at: float) -> Period:
        moment = moment_of(created_at)
        since = moment - _EPOCH
        return cls(since // timedelta(minutes=1), since.days, moment.year * 100 + moment.month)


def moment_of(seconds: float) -> datetime:
    """Return a time since the epoch as records have it: to the microsecond."""
    return _EPOCH + timedelta(seconds=seconds)


def lease_ms(settings: Settings) -> int:
    """Return how long a reservation lasts without being renewed.

    So long may a message be without a worker: in the queue, and after its worker's last renewal until the reaper comes.
    """
    return int((settings.queue_timeout_s + 3 * settings.lease_s) * 1000)


def long_lease_ms(settings: Settings) -> int:
    """Return how long a message may wait that a worker gave back: for as long as it may take in all."""
    return int(settings.request_timeout_s * 1000) + lease_ms(settings)


def accounting(settlement: Settlement, *, pen: int) -> Call:
    """Return the call that counts what a message used, in place of what it reserved.

    It belongs before whatever lets the message be forgotten: who dies between the two is followed by somebody who
    does both again.
    """
    s, period = settlement, Period.of(settlement.created_at)
    names = (*books(s.organization), account(s.organization, s.id), minute(s.organization, period.minute))
    used = (s.id, pen, s.input_tokens, s.output_tokens, period.day, period.month)
    return ACCOUNT, names, (*used, ACCOUNT_S, MINUTE_S, s.key, s.organization)


def renewing(organization: str, message_ids: Sequence[str], lease_ms: int) -> Call:
    """Return the call that keeps reservations for messages which are still at work."""
    return RENEW, (leases(organization),), (lease_ms, *message_ids)


# What is replaced where a test makes the time.
NOW = "local t = redis.call('TIME'); local now = t[1] * 1000 + math.floor(t[2] / 1000)\n"

# For scripts with KEYS spent, reserved, reservations, leases.
# A bucket refills by `limit` tokens a minute: by `limit` of its units, a token's 60,000th, each millisecond. So all
# that is counted is whole numbers.
BOOKS = """
local UNIT = 60000
local function used_of(bucket, limit)
  if not bucket then return 0 end
  local used, at = string.match(bucket, '^(%d+) (%d+)')
  return math.max(0, used - limit * math.max(0, now - at))
end
local function bucket_of(used, limit)
  return string.format('%d %d %d', math.max(0, used), now, limit)
end
local function add_used(name, tokens)
  local bucket = redis.call('HGET', KEYS[1], name)
  if not bucket then return end
  local limit = tonumber(string.match(bucket, '(%d+)$'))
  redis.call('HSET', KEYS[1], name, bucket_of(used_of(bucket, limit) + tokens * UNIT, limit))
end
local function drop(id)
  redis.call('ZREM', KEYS[4], id)
  local held = redis.call('HGET', KEYS[3], id)
  if not held then return nil end
  redis.call('HDEL', KEYS[3], id)
  local input, output, day, month, names = string.match(held, '^(%d+) (%d+) (%d+) (%d+)(.*)$')
  local both = input + output
  local taken = {1, tonumber(output), both, both, both}
  local subjects = {}
  for name in string.gmatch(names, '%S+') do
    subjects[name] = true
    local fields = {name .. '|streams', name .. '|output', name .. '|d' .. day, name .. '|m' .. month, name .. '|total'}
    local sums, left = redis.call('HMGET', KEYS[2], unpack(fields)), {}
    for i, field in ipairs(fields) do
      left[#left + 1] = field
      left[#left + 1] = math.max(0, tonumber(sums[i] or 0) - taken[i])
    end
    redis.call('HSET', KEYS[2], unpack(left))
  end
  if redis.call('EXISTS', KEYS[3]) == 0 then redis.call('DEL', KEYS[2]) end
  return subjects, tonumber(input)
end
"""

# KEYS spent, reserved, reservations, leases, account, minute
# ARGV id, pen, input, output, day, month, account_s, minute_s, subject, …
# Accounts for a message. Returns 1, or 0 when a later claim has done so.
ACCOUNT = (
    NOW
    + BOOKS
    + """
local id, pen, input, output = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local subjects = drop(id)
local known = redis.call('GET', KEYS[5])
local known_pen, known_input, known_output = string.match(known or '0 0 0', '^(%d+) (%d+) (%d+)$')
if tonumber(known_pen) > pen then return 0 end
redis.call('SET', KEYS[5], string.format('%d %d %d', pen, input, output), 'EX', ARGV[7])
redis.call('HSETNX', KEYS[1], 'since', math.floor(now / 60000))
local more_output = output - known_output
local more = input - known_input + more_output
if more == 0 and more_output == 0 then return 1 end
for i = 9, #ARGV do
  local name = ARGV[i]
  for _, period in ipairs({'d' .. ARGV[5], 'm' .. ARGV[6], 'total'}) do
    redis.call('HINCRBY', KEYS[1], name .. '|' .. period, more)
  end
  redis.call('HINCRBY', KEYS[6], name, more)
  -- A limit in shadow that would have refused the message has reserved nothing for it, and its bucket lost nothing.
  if not subjects or subjects[name] then add_used(name .. '|output', more_output) end
end
redis.call('EXPIRE', KEYS[6], ARGV[8])
return 1
"""
)

# KEYS leases  ARGV lease_ms, id, …
# Renews the leases of those that have one.
RENEW = (
    NOW
    + """
redis.call('ZREM', KEYS[1], '')
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[1]), ARGV[i]) end
return 1
"""
)
