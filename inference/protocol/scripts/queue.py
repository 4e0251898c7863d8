"""A request's way through the queue: claimed under a lease, given back, settled once."""

from __future__ import annotations

from inference.protocol.scripts.parts import NEW_PEN, NOW

# KEYS ready, payloads, wake  ARGV id, payload, head_start_ms, limit
# Puts a request into the queue, once. Returns its length, or -1 when it is full. (One that comes again when it has been
# settled is claimed again, found to have its end, and settled again: a second account of a message replaces the first.)
ENQUEUE = (
    NOW
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

# KEYS ready, payloads, leases, attempts, wake  ARGV count, lease_ms, room, any
# Claims up to `count` requests, first those whose lease has lapsed. Of those that wait, no more than have `room`: in
# bytes of payload, as that is what is known of a request's size. The next stays in the queue, and nobody overtakes it;
# where `any` is 1 the first is claimed even so. Returns {id, attempt, pen, lost, age_ms, payload, …}: `lost` counts the
# leases that lapsed, `age_ms` is the time since the request came.
CLAIM = (
    NOW
    + NEW_PEN
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
    NOW
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
    NOW
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
# Gives a claimed request back to the front of the queue (a worker that drains), marked with its class. Its next claim
# is a new attempt, but no lease of it was lost.
RELEASE = """
if redis.call('HGET', KEYS[4], ARGV[1] .. '|pen') ~= ARGV[2] then return 0 end
redis.call('ZREM', KEYS[3], ARGV[1])
local class = string.match(redis.call('HGET', KEYS[2], ARGV[1]) or '', '"priority":"(%a+)"')
redis.call('ZADD', KEYS[1], class == 'priority' and 0.25 or class == 'batch' and 0.5 or 0, ARGV[1])
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

# KEYS ready
# Returns how many requests wait, by the class that their scores are marked with (`inference.protocol.queueing`).
QUEUED = """
local counts = {0, 0, 0}
local found = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 2, #found, 2 do
  local place = math.floor(tonumber(found[i]) % 1 * 4) + 1
  counts[place] = (counts[place] or 0) + 1
end
return counts
"""
