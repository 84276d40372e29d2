-- Puts ARGV[2] in the place of the mark KEYS[1] if that is ARGV[1], or if there
-- is none, and returns the mark that is there then. An empty ARGV[2] only reads.
local mark = redis.call('GET', KEYS[1])
if ARGV[2] ~= '' and (not mark or mark == ARGV[1]) then
  redis.call('SET', KEYS[1], ARGV[2])
  mark = ARGV[2]
end
return mark
