-- Prolongs the claim KEYS[1] to ARGV[3] ms from now if it is held under the
-- fence ARGV[1] by the owner ARGV[2]: 1, or else 0.
if not held_by(read(), ARGV[1], ARGV[2]) then return 0 end
prolong(tonumber(ARGV[3]))
return 1
