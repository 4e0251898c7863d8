"""Who reads a message, so that one that nobody reads any more can be ended."""

from __future__ import annotations

from inference.protocol.scripts.parts import NOW

# KEYS meta, owner  ARGV organization, lease_ms, gateway (where one has it)
# Adds a reader. Returns {1 while the message runs, 2 when it has ended, ms since it came, id of its last event, key,
# model, created_at, input_tokens, nil unless it is detached}, {0} when it is not this organisation's, {-1} when its log
# has expired.
JOIN = (
    NOW
    + """
local found = redis.call('HMGET', KEYS[1], 'organization', 'ended', 'opened', 'spent_ms', 'last',
  'key', 'model', 'created_at', 'input_tokens', 'detached')
if not found[1] then return {redis.call('GET', KEYS[2]) == ARGV[1] and -1 or 0} end
if found[1] ~= ARGV[1] then return {0} end
redis.call('HINCRBY', KEYS[1], 'readers', 1)
redis.call('HSET', KEYS[1], 'read_until', now + tonumber(ARGV[2]))
if ARGV[3] and ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'gateway', ARGV[3]) end
return {found[2] and 2 or 1, now - tonumber(found[3]) + tonumber(found[4]), tonumber(found[5]), unpack(found, 6)}
"""
)

# KEYS meta  ARGV lease_ms
# Says that a message still has readers here.
KEEP = (
    NOW
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
    NOW
    + """
if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
if redis.call('HINCRBY', KEYS[1], 'readers', -1) > 0 then return 1 end
if ARGV[2] ~= '' then redis.call('HSETNX', KEYS[1], 'cancel', ARGV[2])
else redis.call('HSET', KEYS[1], 'read_until', now + tonumber(ARGV[1])) end
return 0
"""
)
