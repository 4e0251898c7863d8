"""The Lua scripts of admission and of the reconciliation. `inference.protocol.quotas` has the rest, and the keys."""

from __future__ import annotations

from inference.protocol.quotas import BOOKS, NOW

# KEYS spent, reserved, reservations, leases
# ARGV id, input, output, day, month, lease_ms, then for each subject: name, shadow, and its limits, '' for none, of
# requests, input and output tokens a minute, streams at once, tokens a day, a month, and in all
# Checks all limits, then takes from all, or from none; a limit in shadow only takes where there is room. Asking again
# for a message changes nothing. First of all, reservations whose lease has lapsed are dropped.
# Returns {1 when admitted, else 0, now}, and for each subject 1 when it had room, else 0, and of each limit that it has
# settled and reserved, as they are after this. What is settled of rates is in the buckets' unit.
ADMIT = (
    NOW
    + BOOKS
    + """
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', now, 'LIMIT', 0, 1000)) do drop(id) end
local id, input, output = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local needs = {1, input, output, 1, input + output, input + output, input + output}
local kinds = {'requests', 'input', 'output', 'streams', 'd' .. ARGV[4], 'm' .. ARGV[5], 'total'}
local again = redis.call('HEXISTS', KEYS[3], id) == 1

local function standing(first)
  local it = {name = ARGV[first], fields = {}, limits = {}, settled = {}, reserved = {}, fits = true}
  for i, kind in ipairs(kinds) do it.fields[i] = it.name .. '|' .. kind end
  local spent = redis.call('HMGET', KEYS[1], unpack(it.fields))
  local held = redis.call('HMGET', KEYS[2], unpack(it.fields))
  for i = 1, 7 do
    local limit = tonumber(ARGV[first + 1 + i])
    local unit = i <= 3 and UNIT or 1
    it.limits[i] = limit
    it.settled[i] = i > 3 and tonumber(spent[i] or 0) or used_of(spent[i], limit or 0)
    it.reserved[i] = tonumber(held[i] or 0)
    if limit and it.settled[i] + (it.reserved[i] + needs[i]) * unit > limit * unit then it.fits = again end
  end
  return it
end

local function take(it)
  local buckets, held = {}, {}
  for i = 1, 7 do
    if i <= 2 then it.settled[i] = it.settled[i] + needs[i] * UNIT
    else
      it.reserved[i] = it.reserved[i] + needs[i]
      held[#held + 1] = it.fields[i]
      held[#held + 1] = it.reserved[i]
    end
    if i <= 3 and it.limits[i] then
      buckets[#buckets + 1] = it.fields[i]
      buckets[#buckets + 1] = bucket_of(it.settled[i], it.limits[i])
    end
  end
  if #buckets > 0 then redis.call('HSET', KEYS[1], unpack(buckets)) end
  redis.call('HSET', KEYS[2], unpack(held))
end

local standings, admitted = {}, true
for first = 7, #ARGV, 9 do
  local it = standing(first)
  standings[#standings + 1] = it
  admitted = admitted and (it.fits or ARGV[first + 1] == '1')
end
if admitted and not again then
  local held = string.format('%d %d %d %d', input, output, ARGV[4], ARGV[5])
  for _, it in ipairs(standings) do
    if it.fits then
      take(it)
      held = held .. ' ' .. it.name
    end
  end
  redis.call('HSET', KEYS[3], id, held)
  redis.call('ZADD', KEYS[4], now + tonumber(ARGV[6]), id)
end
local reply = {admitted and 1 or 0, now}
for _, it in ipairs(standings) do
  reply[#reply + 1] = it.fits and 1 or 0
  for i = 1, 7 do
    if it.limits[i] then
      reply[#reply + 1] = it.settled[i]
      reply[#reply + 1] = it.reserved[i]
    end
  end
end
return reply
"""
)

# KEYS spent, reserved, reservations, leases  ARGV id
# Gives everything back that a message took which will not be served after all. Returns 0 when it had nothing.
GIVE_BACK = (
    NOW
    + BOOKS
    + """
local subjects, input = drop(ARGV[1])
if not subjects then return 0 end
for name in pairs(subjects) do
  add_used(name .. '|requests', -1)
  add_used(name .. '|input', -input)
end
return 1
"""
)

# KEYS spent, minute  ARGV day, month, minute_s, subject, tokens, …
# Lets what was counted of the messages of one minute be what the records say; who is not named used nothing. Returns
# {subject, correction, …}.
CORRECT = """
local corrections, named = {}, {}
local function correct(name, tokens)
  named[name] = true
  local by = tokens - tonumber(redis.call('HGET', KEYS[2], name) or 0)
  if by == 0 then return end
  redis.call('HSET', KEYS[2], name, tokens)
  for _, period in ipairs({'d' .. ARGV[1], 'm' .. ARGV[2], 'total'}) do
    redis.call('HINCRBY', KEYS[1], name .. '|' .. period, by)
  end
  corrections[#corrections + 1] = name
  corrections[#corrections + 1] = by
end
for i = 4, #ARGV, 2 do correct(ARGV[i], tonumber(ARGV[i + 1])) end
for _, name in ipairs(redis.call('HKEYS', KEYS[2])) do
  if not named[name] then correct(name, 0) end
end
if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('EXPIRE', KEYS[2], ARGV[3]) end
return corrections
"""

# KEYS spent  ARGV minute, field, tokens, …
# Adds what was used before anything was counted here, once. Returns 0 where that was done already.
SEED = """
if redis.call('HSETNX', KEYS[1], 'seeded', ARGV[1]) == 0 then return 0 end
for i = 2, #ARGV, 2 do redis.call('HINCRBY', KEYS[1], ARGV[i], ARGV[i + 1]) end
return 1
"""
