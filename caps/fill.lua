-- Puts back units that a record says were spent, whether or not there is room.
-- The members of a scope are described in spend.lua.
--
-- KEYS  the scope
-- ARGV  for each unit: unit, unit+holder, window, time of the spend, the last
--       two in microseconds
local time = redis.call('TIME')
local now = time[1] * 1e6 + time[2]
local key = KEYS[1]

local function fill(unit, share, window, at)
  if at <= now - window then return end
  local found = redis.call('ZMSCORE', key, unit, share, '')
  local was, mine, span = tonumber(found[1]), tonumber(found[2]), tonumber(found[3])
  local from, shared = at, 0
  if was then
    from = math.max(at, math.floor(was / 2))
    if was % 2 == 1 or not mine then shared = 1 end
  end
  if mine then at = math.max(at, -mine) end
  redis.call('ZADD', key, 2 * from + shared, unit, -at, share, math.max(window, span or 0), '')
  if span and span >= window then
    redis.call('PEXPIREAT', key, math.ceil((from + span) / 1000), 'GT')
  else
    -- A longer window keeps everything that is here for longer.
    redis.call('PEXPIREAT', key, math.ceil(((span and now or from) + window) / 1000))
  end
end

for i = 1, #ARGV, 4 do
  -- A time to come is another clock's: it counts as now.
  fill(ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), math.min(tonumber(ARGV[i + 3]), now))
end
return now
