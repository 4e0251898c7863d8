"""Claims for those who end what no worker will."""

from __future__ import annotations

from inference.protocol.scripts.parts import NEW_PEN, NOW

# KEYS ready, payloads, leases, attempts  ARGV queue_timeout_ms, request_timeout_ms, lease_ms, count
# Claims, for a reaper, what no worker will end: requests that waited longer than they may, and those whose lease lapsed
# so long ago that no worker can be there. A request may have more patience than others. Returns
# {id, attempt, pen, age_ms, payload, …}.
CLAIM_OVERDUE = (
    NOW
    + NEW_PEN
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
    NOW
    + NEW_PEN
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
    NOW
    + NEW_PEN
    + """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 0 end
redis.call('ZREM', KEYS[2], '')
redis.call('HSET', KEYS[1], ARGV[1], now .. '|')
redis.call('ZADD', KEYS[2], now + tonumber(ARGV[2]), ARGV[1])
return new_pen(KEYS[3], ARGV[1])
"""
)
