"""What is done to one message's log: its first event, the pen, more events, its end."""

from __future__ import annotations

from inference.protocol.scripts.parts import NOW

# KEYS log, meta, owner  ARGV frame, ttl_s, owner_ttl_s, organization, lease_ms, field, value, …
# Opens a message's log with its first event. In the meta, `pen` is the claim that may write, `last` the id of the last
# event, `bytes` what the log takes: frames and token ids, and about 24 for each entry; `tokens` how many tokens its
# events release. A log that exists is left alone (returns 0). With a lease above 0 the opener is its first reader.
# `kept_s` is set where somebody comes for the message later, however late: then it needs no reader, and lives so long
# after its end, until that is deleted (FETCHED).
OPEN = (
    NOW
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
# For whoever watches, `first_ms` is when the first tokens were released, `ended_ms` when the end was.
APPEND = """
local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
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
if tokens and tokens > 0 and meta[7] == '0' then counts[7], counts[8] = 'first_ms', now_ms() end
redis.call('HSET', KEYS[2], unpack(counts))
redis.call('PUBLISH', ARGV[2],
  ARGV[3] .. ' ' .. final .. ' ' .. ARGV[4] .. ' ' .. (ended and 1 or 0) .. '\\n' .. table.concat(frames))
if ended then
  redis.call('HSET', KEYS[2], 'ended', final, 'outcome', ARGV[5], 'ended_ms', now_ms())
  redis.call('EXPIRE', KEYS[1], meta[8] or ARGV[6])
  redis.call('EXPIRE', KEYS[2], meta[8] or ARGV[6])
end
return cancel
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
