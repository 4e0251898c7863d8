"""What is counted by the minute, from the processes that count to the database."""

from __future__ import annotations

# KEYS changed, added, minute, …  ARGV number, added_ttl_s, late_s, kept_s, then: place of its key among the minutes
# (from 1), field, counts, …
# Adds what a process has counted to the minutes' hashes, once for each number. A field's value is JSON: kind -> part ->
# sum. `changed` has a new revision of each minute then. What is of a minute over `late_s` ago is left out, since its
# hash may be gone, and what is in the database would be replaced by less. Returns how many fields were left out.
ADD_MINUTES = """
if tonumber(redis.call('GET', KEYS[2]) or 0) >= tonumber(ARGV[1]) then return 0 end
redis.call('DEL', KEYS[2])
local late = 0
local oldest = math.floor((redis.call('TIME')[1] - ARGV[3]) / 60)
local touched = {}
for i = 5, #ARGV, 3 do
  local key = KEYS[ARGV[i] + 2]
  local minute = string.match(key, '%d+$')
  if tonumber(minute) < oldest then
    late = late + 1
  else
    local sums, before = cjson.decode(ARGV[i + 2]), redis.call('HGET', key, ARGV[i + 1])
    if before then
      local more = sums
      sums = cjson.decode(before)
      for kind, parts in pairs(more) do
        local known = sums[kind] or {}
        for part, by in pairs(parts) do known[part] = (known[part] or 0) + by end
        sums[kind] = known
      end
    end
    redis.call('HSET', key, ARGV[i + 1], cjson.encode(sums))
    touched[key] = minute
  end
end
for key, minute in pairs(touched) do
  redis.call('EXPIRE', key, ARGV[4])
  redis.call('HINCRBY', KEYS[1], minute, 1)
end
redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[2])
return late
"""

# KEYS changed, minute  ARGV minute, revision, kept_s
# Notes that a minute's counts are in the database as they were at a revision. Returns 1, 0 where more has come since.
STORED = """
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('EXPIRE', KEYS[2], ARGV[3])
return 1
"""
