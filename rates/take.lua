-- Hands out the next slots of a pace.
--
-- KEYS  the pace
-- ARGV  node, turn, every, n, ahead, life: the last four in microseconds but n
-- gives {slots, when the first is from now on, or with none when to ask again, nodes}
--
-- A pace is a hash: 'next' is the time of the next slot; each node has a field
-- with its last turn, what that was given, and when it asked. The answer to a
-- turn is kept, so that a call whose reply was lost is answered the same, and one
-- that comes late, after a newer turn, takes nothing and is told to ask again.
local time = redis.call('TIME')
local now = time[1] * 1e6 + time[2]
local key, node, turn = KEYS[1], ARGV[1], tonumber(ARGV[2])
local every, n, ahead, life = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])

local next, nodes, last, given, start = 0, 1, 0, 0, 0
local all = redis.call('HGETALL', key)
for i = 1, #all, 2 do
  if all[i] == 'next' then
    next = tonumber(all[i + 1])
  else
    local t, g, s, seen = string.match(all[i + 1], '^(%d+) (%d+) (%d+) (%d+)$')
    if all[i] == node then
      last, given, start = tonumber(t), tonumber(g), tonumber(s)
    elseif tonumber(seen) < now - life then
      redis.call('HDEL', key, all[i])
    else
      nodes = nodes + 1
    end
  end
end

if turn < last then return {0, 1000, nodes} end
if turn > last then
  if next < now then next = now end
  -- The clock was set back, or slots were further apart before.
  if next > now + ahead + every then next = now + ahead end
  given, start = 0, next
  if next <= now + ahead then
    given = math.min(n, math.floor((now + ahead - next) / every) + 1)
    next = next + given * every
  end
  redis.call('HSET', key, 'next', string.format('%.0f', next),
    node, string.format('%.0f %d %.0f %.0f', turn, given, start, now))
  redis.call('PEXPIRE', key, math.ceil(math.max(life, ahead + 2 * every) / 1000))
end
if given == 0 then return {0, math.max(1, start - now - ahead), nodes} end
return {given, start - now, nodes}
