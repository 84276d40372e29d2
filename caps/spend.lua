-- Spends one unit on every scope, or on none when one of them is full.
--
-- KEYS  the scopes, all of one slot
-- ARGV  unit, unit+holder, then for each scope: limit, window in microseconds
-- gives {0, 0, now}, or {the first full scope, the longest wait, now}
--
-- A scope is a sorted set with three kinds of members, told apart by score:
--   unit          2 x the time it counts from, + 1 when it has had more than
--                 one holder
--   unit+holder   minus the time of that holder's share
--   ''            the longest window that was ever counted here
-- so that counting and finding the n-th unit never look at the members one by
-- one. Times are in microseconds by this server's clock; twice that is an
-- integer that a double holds until the year 2112.
local time = redis.call('TIME')
local now = time[1] * 1e6 + time[2]
local unit, share = ARGV[1], ARGV[2]

-- found is what each scope has of the unit, the share and the span; spans the
-- longest window of each, which this call may count in twice.
local found, spans = {}, {}
local full, wait = 0, 0
for i, key in ipairs(KEYS) do
  local limit, window = tonumber(ARGV[2 * i + 1]), tonumber(ARGV[2 * i + 2])
  -- A unit counts in a window that is open at its old end.
  local oldest = 2 * (now - window) + 2
  found[i] = redis.call('ZMSCORE', key, unit, share, '')
  spans[key] = math.max(spans[key] or tonumber(found[i][3]) or 0, window)
  local was = tonumber(found[i][1])
  if not was or was < oldest then
    local excess = redis.call('ZCOUNT', key, oldest, '+inf') - limit
    if excess >= 0 then
      -- Over the limit, more than one unit has to leave first.
      local last = redis.call('ZRANGE', key, oldest, '+inf', 'BYSCORE', 'LIMIT', excess, 1, 'WITHSCORES')
      wait = math.max(wait, math.floor(last[2] / 2) + window - now)
      if full == 0 then full = i end
    end
  end
end
if full > 0 then return {full, wait, now} end

for i, key in ipairs(KEYS) do
  local span = spans[key]
  local gone = now - span
  local was, mine = tonumber(found[i][1]) or 0, -(tonumber(found[i][2]) or 0)
  local at, shared = now, 0
  if math.floor(was / 2) > gone then
    -- Never back, should the clock have been set back.
    at = math.max(now, math.floor(was / 2))
    if was % 2 == 1 or mine <= gone then shared = 1 end
  end
  -- What no window counts any more goes; the scores of spans lie below those
  -- of units, and of shares below zero.
  redis.call('ZREMRANGEBYSCORE', key, 1e15, 2 * gone + 1)
  redis.call('ZREMRANGEBYSCORE', key, -gone, -1)
  redis.call('ZADD', key, 2 * at + shared, unit, -math.max(now, mine), share, span, '')
  redis.call('PEXPIREAT', key, math.ceil((now + span) / 1000))
end
return {0, 0, now}
