-- Turns the marker KEYS[1] from ARGV[1] into ARGV[2], and returns whether that
-- is what it is: 1 also when it was already, 0 when it is another one or gone.
local marker = redis.call('GET', KEYS[1])
if marker == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2])
elseif marker ~= ARGV[2] then
  return 0
end
return 1
