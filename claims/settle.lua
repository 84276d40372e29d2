-- Leaves at KEYS[1] the tombstone of the fence ARGV[1] and the owner ARGV[2],
-- with the outcome ARGV[3], for at least ARGV[4] ms, over any claim and over a
-- tombstone of an older fence, or of the same with another outcome. Repeated,
-- it finds its own, and leaves the time of the first.
local fence, owner, outcome, ttl = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local e = read()
if e and e.outcome and (newer(e.fence, fence) or e.fence == fence and e.outcome == outcome) then
  prolong(ttl)
  return 1
end
if e then ttl = math.max(ttl, redis.call('PTTL', KEYS[1])) end
local v = 'd' .. fence .. ' ' .. base36(now()) .. ' ' .. #outcome .. ':' .. outcome .. owner
redis.call('SET', KEYS[1], v, 'PX', ttl)
return 1
