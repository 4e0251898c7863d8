"""What several scripts begin with."""

from __future__ import annotations

NOW = "local t = redis.call('TIME'); local now = t[1] * 1000 + math.floor(t[2] / 1000)\n"

# In `attempts` a claimed request has three fields: how often it was claimed, under its id; `id|lost`, how often a lease
# on it lapsed; and `id|pen`, a number that belongs to its last claim alone. Pens grow with time, and so even a Redis
# that has forgotten a claim gives the next one a later pen.
NEW_PEN = """
local function new_pen(attempts, id)
  local pen = math.max(now, tonumber(redis.call('HGET', attempts, id .. '|pen') or 0) + 1)
  redis.call('HSET', attempts, id .. '|pen', pen)
  return pen
end
"""
