-- Takes the claim KEYS[1] for the owner ARGV[1], for ARGV[2] ms, under a fence
-- above the last one in KEYS[2], which is kept for ARGV[3] ms. Repeated, it
-- finds the claim that it took and prolongs it.
--
-- The time in microseconds takes over where the last fence is forgotten. Both
-- are below 2^53 until the year 2255.
local owner, ttl, kept = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local e = read()
if not e then
  local t = redis.call('TIME')
  local last = tonumber(redis.call('GET', KEYS[2]) or 0)
  local fence = string.format('%.0f', math.max(last + 1, t[1] * 1000000 + t[2]))
  redis.call('SET', KEYS[2], fence, 'PX', kept)
  write_claim(fence, owner, ttl)
  return {GRANTED, fence, owner, ttl}
end
if e.outcome then return done(e) end
if e.owner == owner then return {GRANTED, e.fence, owner, prolong(ttl)} end
return refuse(HELD, e)
