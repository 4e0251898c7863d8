"""What processes tell of themselves and of what they did: reports, counts, heartbeats."""

from __future__ import annotations

# KEYS triggers  ARGV trigger, …
# Tells of what safety checks found.
REPORT = """
redis.call('XDEL', KEYS[1], '0-1')
for i = 1, #ARGV do redis.call('XADD', KEYS[1], '*', 'r', ARGV[i]) end
return #ARGV
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
