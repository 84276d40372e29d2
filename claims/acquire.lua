-- Takes the claim KEYS[1] for the fence ARGV[1] of the owner ARGV[2], for
-- ARGV[3] ms. Repeated, it finds the claim that it took and prolongs it.
local fence, owner, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3])
local e = read()
if not e then
  write_claim(fence, owner, ttl)
  return {GRANTED, fence, owner, ttl}
end
if held_by(e, fence, owner) then return {GRANTED, fence, owner, prolong(ttl)} end
if e.outcome then return done(e) end
if newer(e.fence, fence) then return refuse(STALE, e) end
if newer(fence, e.fence) then return refuse(HELD, e) end
return refuse(CONFLICT, e)
