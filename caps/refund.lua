-- Takes one holder's shares in a unit away. The members of a scope are
-- described in spend.lua.
--
-- KEYS  the scopes, all of one slot
-- ARGV  unit, unit+holder, then for each scope the score that shares.lua gave
-- gives this server's time
--
-- A share that has another time by now belongs to a later spend: this is a
-- delayed copy, which must not take away what somebody else relies on.
local time = redis.call('TIME')
local unit, share = ARGV[1], ARGV[2]

-- others gives the latest time and the number of the unit's other shares.
local function others(key)
  local latest, n = 0, 0
  local members = redis.call('ZRANGE', key, '-inf', -1, 'BYSCORE', 'WITHSCORES')
  for i = 1, #members, 2 do
    if string.sub(members[i], 1, #unit) == unit then
      latest, n = math.max(latest, -members[i + 1]), n + 1
    end
  end
  return latest, n
end

for i, key in ipairs(KEYS) do
  local seen = tonumber(ARGV[i + 2])
  local mine = tonumber(redis.call('ZSCORE', key, share))
  if seen and mine == seen then
    redis.call('ZREM', key, share)
    local was = tonumber(redis.call('ZSCORE', key, unit))
    local latest, n = 0, 0
    if was and was % 2 == 1 then latest, n = others(key) end
    if n == 0 then
      redis.call('ZREM', key, unit)
    else
      redis.call('ZADD', key, 2 * latest + (n > 1 and 1 or 0), unit)
    end
    -- Nothing but the span is left: as if nothing had been spent.
    if redis.call('ZCARD', key) == 1 then redis.call('DEL', key) end
  end
end
return time[1] * 1e6 + time[2]
