"""The Lua scripts: each is one atomic step on one hash slot, and each runs on Redis 6.2.

Times come from Redis itself (`TIME`), so that processes on different machines agree on them.

A Redis that is full refuses a script at its first write, unless that one frees memory. So the scripts that end things,
and those that keep a worker going until it has, begin with a removal, if need be of nothing.
"""

from __future__ import annotations

import functools
import hashlib

_NOW = "local t = redis.call('TIME'); local now = t[1] * 1000 + math.floor(t[2] / 1000)\n"


@functools.cache
def sha_of(script: str) -> str:
    """Return what EVALSHA calls a script."""
    return hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()


# KEYS log, meta, owner  ARGV frame, ttl_s, owner_ttl_s, organization, lease_ms, field, value, …
# Opens a message's log with its first event. `bytes` in the meta is what the log takes: frames and token ids, and about
# 24 for each entry. A log that exists is left alone (returns 0). With a lease above 0 the
# opener is its first reader.
OPEN = (
    _NOW
    + """
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
redis.call('HSET', KEYS[2], 'attempt', 0, 'organization', ARGV[4], 'bytes', #ARGV[1] + 24, unpack(ARGV, 6))
if tonumber(ARGV[5]) > 0 then redis.call('HSET', KEYS[2], 'readers', 1, 'read_until', now + tonumber(ARGV[5])) end
redis.call('XADD', KEYS[1], '1-0', 'f', ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
redis.call('EXPIRE', KEYS[2], ARGV[2])
redis.call('SET', KEYS[3], ARGV[4], 'EX', ARGV[3])
return 1
"""
)

# KEYS meta, owner  ARGV organization, lease_ms
# Adds a reader. Returns 1, 2 when the message has ended, 0 when it is not this organisation's, -1 when its log has
# expired.
JOIN = (
    _NOW
    + """
local found = redis.call('HMGET', KEYS[1], 'organization', 'ended')
if not found[1] then return redis.call('GET', KEYS[2]) == ARGV[1] and -1 or 0 end
if found[1] ~= ARGV[1] then return 0 end
redis.call('HINCRBY', KEYS[1], 'readers', 1)
redis.call('HSET', KEYS[1], 'read_until', now + tonumber(ARGV[2]))
return found[2] and 2 or 1
"""
)

# KEYS meta  ARGV lease_ms
# Says that a message still has readers here.
KEEP = (
    _NOW
    + """
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'read_until', now + tonumber(ARGV[1]))
return 1
"""
)

# KEYS meta  ARGV window_ms, reason
# Removes a reader. When it was the last one, the message is cancelled for `reason`, or, where that is empty, has the
# window to find another reader.
LEAVE = (
    _NOW
    + """
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if redis.call('HINCRBY', KEYS[1], 'readers', -1) > 0 then return 1 end
if ARGV[2] ~= '' then redis.call('HSETNX', KEYS[1], 'cancel', ARGV[2])
else redis.call('HSET', KEYS[1], 'read_until', now + tonumber(ARGV[1])) end
return 0
"""
)

# KEYS meta  ARGV attempt, age_ms
# Gives the log's pen to an attempt, for ever taking it from earlier ones. A log that has its end is left alone.
# Returns {attempt that had it, cancel reason or '', outcome or '', age_ms of the first that took it}, nil when a later
# attempt has the pen, 0 when the log is gone.
TAKE = """
local found = redis.call('HMGET', KEYS[1], 'attempt', 'cancel', 'outcome', 'ended')
if not found[1] then return 0 end
if not found[4] then
  if tonumber(found[1]) > tonumber(ARGV[1]) then return false end
  redis.call('HDEL', KEYS[1], '')
  redis.call('HSET', KEYS[1], 'attempt', ARGV[1])
  redis.call('HSETNX', KEYS[1], 'waited_ms', ARGV[2])
end
return {found[1], found[2] or '', found[3] or '', redis.call('HGET', KEYS[1], 'waited_ms') or ARGV[2]}
"""

# KEYS log, meta  ARGV attempt, channel, first_id, deltas, outcome, ttl_s, frame, token_ids, …
# Appends events and announces them, if the attempt still has the pen. The outcome is '' while the message goes on. The
# announcement carries the frames as a short cut: "first last deltas ended\n" and the frames, ended being 0 or 1.
# Returns -1 when fenced off, else the cancel reason or ''.
# With no frames it only asks, so that a message which releases nothing this step still sees its cancel.
APPEND = """
local meta = redis.call('HMGET', KEYS[2], 'attempt', 'cancel', 'read_until')
if meta[1] ~= ARGV[1] then return -1 end
local cancel = meta[2] or ''
if cancel == '' and meta[3] and redis.call('TIME')[1] * 1000 > tonumber(meta[3]) then cancel = 'abandoned' end
local ended = ARGV[5] ~= ''
if ended then redis.call('HDEL', KEYS[2], '') end
local id = tonumber(ARGV[3])
local frames = {}
local bytes = 0
for i = 7, #ARGV, 2 do
  local added
  if ARGV[i + 1] == '' then added = redis.pcall('XADD', KEYS[1], id .. '-0', 'f', ARGV[i])
  else added = redis.pcall('XADD', KEYS[1], id .. '-0', 'f', ARGV[i], 't', ARGV[i + 1]) end
  -- An append whose reply was lost comes again: what is there already stays.
  if type(added) == 'table' and added.err and not string.find(added.err, 'equal or smaller') then return added end
  frames[#frames + 1] = ARGV[i]
  bytes = bytes + #ARGV[i] + #ARGV[i + 1] + 24
  id = id + 1
end
if #frames > 0 then
  redis.call('HINCRBY', KEYS[2], 'bytes', bytes)
  redis.call('PUBLISH', ARGV[2],
    ARGV[3] .. ' ' .. (id - 1) .. ' ' .. ARGV[4] .. ' ' .. (ended and 1 or 0) .. '\\n' .. table.concat(frames))
end
if ended then
  redis.call('HSET', KEYS[2], 'ended', id - 1, 'outcome', ARGV[5])
  redis.call('EXPIRE', KEYS[1], ARGV[6])
  redis.call('EXPIRE', KEYS[2], ARGV[6])
end
return cancel
"""

# KEYS meta  ARGV reason
# Asks the worker to end a message; the first reason stays. Returns 0 when there is no such message, 1 when it has
# ended already, 2 when it will be cancelled.
CANCEL = """
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if redis.call('HEXISTS', KEYS[1], 'ended') == 1 then return 1 end
redis.call('HSETNX', KEYS[1], 'cancel', ARGV[1])
return 2
"""

# KEYS ready, payloads, wake  ARGV id, payload, head_start_ms, limit
# Puts a request into the queue, once. Returns its length, or -1 when it is full. (One that comes again when it has been
# settled is claimed again, found to have its end, and settled again: a second account of a message replaces the first.)
ENQUEUE = (
    _NOW
    + """
local length = redis.call('ZCARD', KEYS[1])
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then return length end
if length >= tonumber(ARGV[4]) then return -1 end
redis.call('HSET', KEYS[2], ARGV[1], now .. '|' .. ARGV[2])
redis.call('ZADD', KEYS[1], now - tonumber(ARGV[3]), ARGV[1])
redis.call('LPUSH', KEYS[3], '1')
redis.call('LTRIM', KEYS[3], 0, 15)
return length + 1
"""
)

# KEYS ready, payloads, leases, attempts, wake  ARGV count, lease_ms
# Claims up to `count` requests, first those whose lease has lapsed. Returns {id, attempt, lost, age_ms, payload, …}:
# `lost` counts the leases that lapsed, `age_ms` is the time since the request came.
CLAIM = (
    _NOW
    + """
local count = tonumber(ARGV[1])
redis.call('ZREM', KEYS[3], '')
local ids = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, count)
for _, id in ipairs(ids) do redis.call('HINCRBY', KEYS[4], id .. '|lost', 1) end
if #ids < count then
  local popped = redis.call('ZPOPMIN', KEYS[1], count - #ids)
  for i = 1, #popped, 2 do ids[#ids + 1] = popped[i] end
end
local claimed = {}
for _, id in ipairs(ids) do
  local payload = redis.call('HGET', KEYS[2], id)
  if payload then
    redis.call('ZADD', KEYS[3], now + tonumber(ARGV[2]), id)
    local bar = string.find(payload, '|', 1, true)
    claimed[#claimed + 1] = id
    claimed[#claimed + 1] = redis.call('HINCRBY', KEYS[4], id, 1)
    claimed[#claimed + 1] = tonumber(redis.call('HGET', KEYS[4], id .. '|lost') or 0)
    claimed[#claimed + 1] = now - tonumber(string.sub(payload, 1, bar - 1))
    claimed[#claimed + 1] = string.sub(payload, bar + 1)
  else
    redis.call('ZREM', KEYS[3], id)
    redis.call('HDEL', KEYS[4], id .. '|lost')
  end
end
if redis.call('ZCARD', KEYS[1]) == 0 then redis.call('DEL', KEYS[5]) end
return claimed
"""
)

# KEYS leases, attempts  ARGV lease_ms, id, attempt, …
# Renews leases from the step loop. Returns the ids that another attempt has taken over.
RENEW = (
    _NOW
    + """
redis.call('ZREM', KEYS[1], '')
local lost = {}
for i = 2, #ARGV, 2 do
  if redis.call('HGET', KEYS[2], ARGV[i]) == ARGV[i + 1] then
    redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[1]), ARGV[i])
  else lost[#lost + 1] = ARGV[i] end
end
return lost
"""
)

# KEYS ready, payloads, leases, attempts, wake  ARGV id, attempt
# Gives a claimed request back to the front of the queue (a worker that drains). Its next claim is a new attempt, but
# no lease of it was lost.
RELEASE = """
if redis.call('HGET', KEYS[4], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('ZADD', KEYS[1], 0, ARGV[1])
redis.call('LPUSH', KEYS[5], '1')
redis.call('LTRIM', KEYS[5], 0, 15)
return 1
"""

# KEYS ready, payloads, leases, attempts, settlements  ARGV id, attempt, settlement
# Ends a message's life in the queue and writes its one settlement, none where that is ''. Returns 0 when another
# attempt has it.
SETTLE = """
if redis.call('HGET', KEYS[4], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[4], ARGV[1], ARGV[1] .. '|lost')
if ARGV[3] ~= '' then redis.call('XADD', KEYS[5], '*', 'r', ARGV[3]) end
return 1
"""

# KEYS workers  ARGV worker, about
# Notes a heartbeat: `about`, a JSON object that is not empty, and `seen_at`, in seconds by the clock of Redis.
BEAT = """
redis.call('HDEL', KEYS[1], '')
local t = redis.call('TIME')
local seen_at = string.format('{"seen_at":%s.%06d,', t[1], t[2])
return redis.call('HSET', KEYS[1], ARGV[1], seen_at .. string.sub(ARGV[2], 2))
"""

# KEYS ready, payloads, leases, attempts  ARGV queue_timeout_ms, request_timeout_ms, lease_ms, count
# Claims, for a reaper, what no worker will end: requests that waited longer than they may, and those whose lease lapsed
# so long ago that no worker can be there. Returns {id, attempt, age_ms, payload, …}.
CLAIM_OVERDUE = (
    _NOW
    + """
redis.call('ZREM', KEYS[3], '')
local claimed = {}
local function take(id, payload, age)
  redis.call('ZREM', KEYS[1], id)
  redis.call('ZADD', KEYS[3], now + tonumber(ARGV[3]), id)
  for _, value in ipairs({id, redis.call('HINCRBY', KEYS[4], id, 1), age, payload}) do claimed[#claimed + 1] = value end
end
local function look(ids, limit_new, limit_old)
  for _, id in ipairs(ids) do
    local payload = redis.call('HGET', KEYS[2], id)
    if payload then
      local bar = string.find(payload, '|', 1, true)
      local age = now - tonumber(string.sub(payload, 1, bar - 1))
      local limit = redis.call('HEXISTS', KEYS[4], id) == 1 and limit_old or limit_new
      if age > tonumber(limit) then take(id, string.sub(payload, bar + 1), age) end
    end
  end
end
look(redis.call('ZRANGE', KEYS[1], 0, tonumber(ARGV[4]) - 1), ARGV[1], ARGV[2])
look(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now - tonumber(ARGV[1]), 'LIMIT', 0, ARGV[4]), 0, 0)
return claimed
"""
)
