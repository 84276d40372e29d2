-- Returns the marker KEYS[1], and makes it with the value ARGV[1] when there is
-- none. Repeated, it finds what it made.
local marker = redis.call('GET', KEYS[1])
if not marker then
  marker = ARGV[1]
  redis.call('SET', KEYS[1], marker)
end
return marker
