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
# Opens a message's log with its first event. In the meta, `pen` is the claim that may write, `last` the id of the last
# event, `bytes` what the log takes: frames and token ids, and about 24 for each entry; `tokens` how many tokens its
# events release. A log that exists is left alone (returns 0). With a lease above 0 the opener is its first reader.
# `kept_s` is set where somebody comes for the message later, however late: then it needs no reader, and lives so long
# after its end, until that is deleted (FETCHED).
OPEN = (
    _NOW
    + """
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
redis.call('HSET', KEYS[2], 'pen', 0, 'last', 1, 'opened', now, 'organization', ARGV[4], 'bytes', #ARGV[1] + 24,
  'tokens', 0, unpack(ARGV, 6))
if tonumber(ARGV[5]) > 0 then redis.call('HSET', KEYS[2], 'readers', 1, 'read_until', now + tonumber(ARGV[5])) end
redis.call('XADD', KEYS[1], '1-0', 'f', ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
redis.call('EXPIRE', KEYS[2], ARGV[2])
redis.call('SET', KEYS[3], ARGV[4], 'EX', ARGV[3])
return 1
"""
)

# KEYS log, meta, owner
# Takes a log away whose request found no room in the queue; one that has its end was there before, and stays.
UNOPEN = """
if redis.call('HEXISTS', KEYS[2], 'ended') == 1 then return 0 end
return redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
"""

# KEYS meta, owner  ARGV organization, lease_ms
# Adds a reader. Returns {1 while the message runs, 2 when it has ended, ms since it came, id of its last event, key,
# model, created_at, input_tokens}, {0} when it is not this organisation's, {-1} when its log has expired.
JOIN = (
    _NOW
    + """
local found = redis.call('HMGET', KEYS[1], 'organization', 'ended', 'opened', 'spent_ms', 'last',
  'key', 'model', 'created_at', 'input_tokens')
if not found[1] then return {redis.call('GET', KEYS[2]) == ARGV[1] and -1 or 0} end
if found[1] ~= ARGV[1] then return {0} end
redis.call('HINCRBY', KEYS[1], 'readers', 1)
redis.call('HSET', KEYS[1], 'read_until', now + tonumber(ARGV[2]))
return {found[2] and 2 or 1, now - tonumber(found[3]) + tonumber(found[4]), tonumber(found[5]), unpack(found, 6)}
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
# window to find another reader. Returns 1 while there are others, 0 when it was the last, -1 when the log is gone.
LEAVE = (
    _NOW
    + """
if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
if redis.call('HINCRBY', KEYS[1], 'readers', -1) > 0 then return 1 end
if ARGV[2] ~= '' then redis.call('HSETNX', KEYS[1], 'cancel', ARGV[2])
else redis.call('HSET', KEYS[1], 'read_until', now + tonumber(ARGV[1])) end
return 0
"""
)

# KEYS meta  ARGV pen, age_ms, worker (where one takes it)
# Gives the log's pen to a claim, for ever taking it from earlier ones. A log that has its end is left alone.
# Returns {pen that was there, cancel reason or '', outcome or '', age_ms of the first that took it}, nil when a later
# claim has the pen, 0 when the log is gone. What nobody reads any more is cancelled before it is begun.
TAKE = """
local found = redis.call('HMGET', KEYS[1], 'pen', 'cancel', 'outcome', 'ended', 'read_until', 'kept_s')
if not found[1] then return 0 end
if not found[4] then
  if tonumber(found[1]) > tonumber(ARGV[1]) then return false end
  redis.call('HDEL', KEYS[1], '')
  redis.call('HSET', KEYS[1], 'pen', ARGV[1])
  if ARGV[3] then redis.call('HSET', KEYS[1], 'worker', ARGV[3]) end
  redis.call('HSETNX', KEYS[1], 'waited_ms', ARGV[2])
end
local cancel = found[2] or ''
local unread = found[5] and not found[6] and redis.call('TIME')[1] * 1000 > tonumber(found[5])
if cancel == '' and unread then cancel = 'abandoned' end
return {found[1], cancel, found[3] or '', redis.call('HGET', KEYS[1], 'waited_ms') or ARGV[2]}
"""

# KEYS log, meta, owner  ARGV pen, channel, first_id, deltas, outcome, ttl_s, frame, token_ids, …
# Appends events and announces them, if this claim has the pen. The outcome is '' while the message goes on. The
# announcement carries the frames as a short cut: "first last deltas ended\n" and the frames, ended being 0 or 1.
# Returns the cancel reason or '', -1 when fenced off. With no frames it only asks, so that a message which releases
# nothing this step still sees its cancel.
# Redis may have come back without its last seconds: where the log has an earlier pen, since ours was forgotten, or
# where the events do not follow what it has, nothing is written, and {last id, its frame} returned; -2 where there is
# no such log, and never was one.
APPEND = """
local meta = redis.call('HMGET', KEYS[2], 'pen', 'cancel', 'read_until', 'last', 'ended', 'bytes', 'tokens', 'kept_s')
if not meta[1] then return redis.call('EXISTS', KEYS[3]) == 1 and -1 or -2 end
local pen, mine = tonumber(meta[1]), tonumber(ARGV[1])
local last, first = tonumber(meta[4]), tonumber(ARGV[3])
local final = first + (#ARGV - 6) / 2 - 1
if pen > mine or (meta[5] and (pen < mine or final > last)) then return -1 end
if pen < mine or first ~= last + 1 then
  local entry = redis.call('XRANGE', KEYS[1], last .. '-0', last .. '-0')[1]
  local frame = entry and entry[2][2] or ''
  -- An append whose reply was lost comes again: what is there already stays.
  local again = first <= last and last <= final and ARGV[7 + 2 * (last - first)] == frame
  if pen < mine or not again then return {last, frame} end
end
local cancel = meta[2] or ''
local unread = meta[3] and not meta[8] and redis.call('TIME')[1] * 1000 > tonumber(meta[3])
if cancel == '' and unread then cancel = 'abandoned' end
local ended = ARGV[5] ~= ''
if ended then redis.call('HDEL', KEYS[2], '') end
if final < first then return cancel end
local frames = {}
local bytes, tokens = tonumber(meta[6]), tonumber(meta[7])
for id = first, final do
  local frame, token_ids = ARGV[7 + 2 * (id - first)], ARGV[8 + 2 * (id - first)]
  frames[#frames + 1] = frame
  if id > last then
    if token_ids == '' then redis.call('XADD', KEYS[1], id .. '-0', 'f', frame)
    else
      redis.call('XADD', KEYS[1], id .. '-0', 'f', frame, 't', token_ids)
      if tokens then tokens = tokens + 1 + select(2, string.gsub(token_ids, ',', '')) end
    end
    bytes = bytes + #frame + #token_ids + 24
  end
end
local counts = {'last', final, 'bytes', bytes}
if tokens then counts[5], counts[6] = 'tokens', tokens end
redis.call('HSET', KEYS[2], unpack(counts))
redis.call('PUBLISH', ARGV[2],
  ARGV[3] .. ' ' .. final .. ' ' .. ARGV[4] .. ' ' .. (ended and 1 or 0) .. '\\n' .. table.concat(frames))
if ended then
  redis.call('HSET', KEYS[2], 'ended', final, 'outcome', ARGV[5])
  redis.call('EXPIRE', KEYS[1], meta[8] or ARGV[6])
  redis.call('EXPIRE', KEYS[2], meta[8] or ARGV[6])
end
return cancel
"""

# KEYS triggers  ARGV trigger, …
# Tells of what safety checks found.
REPORT = """
redis.call('XDEL', KEYS[1], '0-1')
for i = 1, #ARGV do redis.call('XADD', KEYS[1], '*', 'r', ARGV[i]) end
return #ARGV
"""

# KEYS log, meta  ARGV id
# Returns {input_tokens, tokens that the events up to an id release}, nil where the count is not kept. Reads no more of
# the log than what follows the event.
USAGE = """
local meta = redis.call('HMGET', KEYS[2], 'input_tokens', 'tokens')
if not (meta[1] and meta[2]) then return false end
local tokens = tonumber(meta[2])
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '(' .. ARGV[1] .. '-0', '+')) do
  local token_ids = entry[2][4]
  if token_ids then tokens = tokens - 1 - select(2, string.gsub(token_ids, ',', '')) end
end
return {tonumber(meta[1]), tokens}
"""

# KEYS log, meta  ARGV ttl_s
# Notes that whoever comes later for a message has come: from now on its log lives as long as others after their end.
FETCHED = """
if redis.call('HDEL', KEYS[2], 'kept_s') == 0 then return 0 end
redis.call('EXPIRE', KEYS[1], ARGV[1])
redis.call('EXPIRE', KEYS[2], ARGV[1])
return 1
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

# In `attempts` a claimed request has three fields: how often it was claimed, under its id; `id|lost`, how often a lease
# on it lapsed; and `id|pen`, a number that belongs to its last claim alone. Pens grow with time, and so even a Redis
# that has forgotten a claim gives the next one a later pen.
_NEW_PEN = """
local function new_pen(attempts, id)
  local pen = math.max(now, tonumber(redis.call('HGET', attempts, id .. '|pen') or 0) + 1)
  redis.call('HSET', attempts, id .. '|pen', pen)
  return pen
end
"""

# KEYS ready, payloads, leases, attempts, wake  ARGV count, lease_ms, room, any
# Claims up to `count` requests, first those whose lease has lapsed. Of those that wait, no more than have `room`: in
# bytes of payload, as that is what is known of a request's size. The next stays in the queue, and nobody overtakes it;
# where `any` is 1 the first is claimed even so. Returns {id, attempt, pen, lost, age_ms, payload, …}: `lost` counts the
# leases that lapsed, `age_ms` is the time since the request came.
CLAIM = (
    _NOW
    + _NEW_PEN
    + """
local count = tonumber(ARGV[1])
redis.call('ZREM', KEYS[3], '')
local ids = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, count)
for _, id in ipairs(ids) do redis.call('HINCRBY', KEYS[4], id .. '|lost', 1) end
local room = tonumber(ARGV[3]) or math.huge
local next_ids = #ids < count and redis.call('ZRANGE', KEYS[1], 0, count - #ids - 1) or {}
for _, id in ipairs(next_ids) do
  local size = redis.call('HSTRLEN', KEYS[2], id)
  if size > room and not (#ids == 0 and ARGV[4] == '1') then break end
  room = room - size
  redis.call('ZREM', KEYS[1], id)
  ids[#ids + 1] = id
end
local claimed = {}
for _, id in ipairs(ids) do
  local payload = redis.call('HGET', KEYS[2], id)
  if payload then
    redis.call('ZADD', KEYS[3], now + tonumber(ARGV[2]), id)
    local bar = string.find(payload, '|', 1, true)
    claimed[#claimed + 1] = id
    claimed[#claimed + 1] = redis.call('HINCRBY', KEYS[4], id, 1)
    claimed[#claimed + 1] = new_pen(KEYS[4], id)
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

# KEYS leases, attempts  ARGV lease_ms, id, pen, …
# Renews leases from the step loop. Returns the ids whose claim is another by now, or forgotten.
RENEW = (
    _NOW
    + """
redis.call('ZREM', KEYS[1], '')
local lost = {}
for i = 2, #ARGV, 2 do
  if redis.call('HGET', KEYS[2], ARGV[i] .. '|pen') == ARGV[i + 1] then
    redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[1]), ARGV[i])
  else lost[#lost + 1] = ARGV[i] end
end
return lost
"""
)

# KEYS ready, payloads, leases, attempts  ARGV id, attempt, pen, lease_ms, age_ms, payload
# Makes a claim again that Redis has forgotten, and the request with it. Only whoever has the log's pen may ask for
# this. Returns 1, or 0 when a later claim is there.
RECLAIM = (
    _NOW
    + """
local pen = tonumber(redis.call('HGET', KEYS[4], ARGV[1] .. '|pen') or 0)
if pen > tonumber(ARGV[3]) then return 0 end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HSETNX', KEYS[2], ARGV[1], (now - tonumber(ARGV[5])) .. '|' .. ARGV[6])
redis.call('HSET', KEYS[4], ARGV[1], ARGV[2], ARGV[1] .. '|pen', ARGV[3])
redis.call('ZADD', KEYS[3], now + tonumber(ARGV[4]), ARGV[1])
return 1
"""
)

# KEYS ready, payloads, leases, attempts, wake  ARGV id, pen
# Gives a claimed request back to the front of the queue (a worker that drains). Its next claim is a new attempt, but
# no lease of it was lost.
RELEASE = """
if redis.call('HGET', KEYS[4], ARGV[1] .. '|pen') ~= ARGV[2] then return 0 end
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('ZADD', KEYS[1], 0, ARGV[1])
redis.call('LPUSH', KEYS[5], '1')
redis.call('LTRIM', KEYS[5], 0, 15)
return 1
"""

# KEYS ready, payloads, leases, attempts, settlements, outcomes  ARGV id, pen, settlement
# Ends a message's life in the queue and writes its one settlement, none where that is ''; counts the outcome in it.
# Returns 0 when the claim is another by now, or forgotten.
SETTLE = """
if redis.call('HGET', KEYS[4], ARGV[1] .. '|pen') ~= ARGV[2] then return 0 end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[4], ARGV[1], ARGV[1] .. '|lost', ARGV[1] .. '|pen')
if ARGV[3] == '' then return 1 end
redis.call('XADD', KEYS[5], '*', 'r', ARGV[3])
local outcome = string.match(ARGV[3], '"outcome":"([%a_]+)"')
if outcome then redis.call('HINCRBY', KEYS[6], outcome, 1) end
return 1
"""

# KEYS stream  ARGV kept, field, value, …
# Hands a report over, even in a Redis that is full: it cannot be had again. Of a stream that keeps only so many the
# oldest go; 0 keeps all. Returns its id.
SPOOL = """
redis.call('XDEL', KEYS[1], '0-1')
if ARGV[1] == '0' then return redis.call('XADD', KEYS[1], '*', unpack(ARGV, 2)) end
return redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', unpack(ARGV, 2))
"""

# KEYS counts, added  ARGV number, ttl_s, field, increment, …
# Adds what a process has counted, once for each number. Returns 0 where that was done already.
ADD_COUNTS = """
if tonumber(redis.call('GET', KEYS[2]) or 0) >= tonumber(ARGV[1]) then return 0 end
redis.call('DEL', KEYS[2])
for i = 3, #ARGV, 2 do redis.call('HINCRBY', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[2])
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
# so long ago that no worker can be there. A request may have more patience than others. Returns
# {id, attempt, pen, age_ms, payload, …}.
CLAIM_OVERDUE = (
    _NOW
    + _NEW_PEN
    + """
redis.call('ZREM', KEYS[3], '')
local claimed, count = {}, tonumber(ARGV[4])
local function take(id, payload, age)
  redis.call('ZREM', KEYS[1], id)
  redis.call('ZADD', KEYS[3], now + tonumber(ARGV[3]), id)
  local attempt = redis.call('HINCRBY', KEYS[4], id, 1)
  for _, value in ipairs({id, attempt, new_pen(KEYS[4], id), age, payload}) do claimed[#claimed + 1] = value end
end
-- Says whether some have more patience than that, and hide others that come after these.
local function look(ids, limit_new, limit_old)
  local patient = false
  for _, id in ipairs(ids) do
    local payload = redis.call('HGET', KEYS[2], id)
    if payload then
      local bar = string.find(payload, '|', 1, true)
      local age = now - tonumber(string.sub(payload, 1, bar - 1))
      local limit = redis.call('HEXISTS', KEYS[4], id) == 1 and limit_old or limit_new
      if age > tonumber(limit) then
        local patience = tonumber(string.match(payload, '"patience_s":(%d+)'))
        if not patience or age > patience * 1000 then take(id, string.sub(payload, bar + 1), age)
        else patient = true end
      end
    end
  end
  return patient
end
local first = 0
while look(redis.call('ZRANGE', KEYS[1], first, first + count - 1), ARGV[1], ARGV[2]) do first = first + count end
local function lapsed(first)
  return redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now - tonumber(ARGV[1]), 'LIMIT', first, count)
end
first = 0
while look(lapsed(first), 0, 0) do first = first + count end
return claimed
"""
)

# KEYS ready, payloads, leases, attempts  ARGV id, lease_ms
# Claims, for whoever wants to end it, one request that no worker is at. Returns {attempt, pen, age_ms, payload}, nil
# where a worker has it, or the queue does not.
CLAIM_IDLE = (
    _NOW
    + _NEW_PEN
    + """
local payload = redis.call('HGET', KEYS[2], ARGV[1])
if not payload then return false end
local lapses = tonumber(redis.call('ZSCORE', KEYS[3], ARGV[1]) or now)
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 and lapses > now - tonumber(ARGV[2]) then return false end
redis.call('ZADD', KEYS[3], now + tonumber(ARGV[2]), ARGV[1])
local bar = string.find(payload, '|', 1, true)
local age = now - tonumber(string.sub(payload, 1, bar - 1))
local attempt = redis.call('HINCRBY', KEYS[4], ARGV[1], 1)
return {attempt, new_pen(KEYS[4], ARGV[1]), age, string.sub(payload, bar + 1)}
"""
)

# KEYS payloads, leases, attempts  ARGV id, lease_ms
# Claims, for a reaper, a message that is in no queue any more. Returns its pen, 0 when it is in this queue after all.
CLAIM_LOST = (
    _NOW
    + _NEW_PEN
    + """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 0 end
redis.call('ZREM', KEYS[2], '')
redis.call('HSET', KEYS[1], ARGV[1], now .. '|')
redis.call('ZADD', KEYS[2], now + tonumber(ARGV[2]), ARGV[1])
return new_pen(KEYS[3], ARGV[1])
"""
)
