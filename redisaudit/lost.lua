-- Keeps in KEYS[1] for ARGV[1] ms that Redis lost what it held, with the time at
-- which that was noticed, and returns for how long it is kept. It is never
-- shortened: repeated, and said by several who noticed, it lasts for the longest
-- of them. With ARGV[1] 0 it only reads.
local left, wanted = redis.call('PTTL', KEYS[1]), tonumber(ARGV[1])
if wanted > left and wanted > 0 then
  redis.call('SET', KEYS[1], redis.call('TIME')[1], 'PX', ARGV[1])
  left = wanted
end
return math.max(left, 0)
