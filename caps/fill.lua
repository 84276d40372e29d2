-- Puts back a unit that a record says was spent, whether or not there is room.
-- The members of a scope are described in spend.lua.
--
-- KEYS  the scope
-- ARGV  unit, unit+holder, window, time of the spend, both in microseconds
-- gives this server's time
local time = redis.call('TIME')
local now = time[1] * 1e6 + time[2]
local key, unit, share = KEYS[1], ARGV[1], ARGV[2]
local window, at = tonumber(ARGV[3]), math.min(tonumber(ARGV[4]), now)
if at <= now - window then return now end

local span = redis.call('ZSCORE', key, '')
local was, mine = redis.call('ZSCORE', key, unit), redis.call('ZSCORE', key, share)
local from, shared = at, 0
if was then
  from = math.max(at, math.floor(was / 2))
  if was % 2 == 1 or not mine then shared = 1 end
end
if mine then at = math.max(at, -mine) end
redis.call('ZADD', key, 2 * from + shared, unit, -at, share)

if span and tonumber(span) >= window then
  redis.call('PEXPIREAT', key, math.ceil((from + tonumber(span)) / 1000), 'GT')
else
  -- A longer window keeps everything that is here for longer.
  redis.call('ZADD', key, window, '')
  redis.call('PEXPIREAT', key, math.ceil(((span and now or from) + window) / 1000))
end
return now
