-- Gives the claim KEYS[1] back if it is held under the fence ARGV[1] by the
-- owner ARGV[2]. Repeated, it finds nothing, or the claim of somebody else.
if held_by(read(), ARGV[1], ARGV[2]) then redis.call('DEL', KEYS[1]) end
return 1
