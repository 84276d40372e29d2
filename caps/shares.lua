-- Reads the times of one holder's shares, for refund.lua.
--
-- KEYS  the scopes, all of one slot
-- ARGV  unit+holder
-- gives a score for each scope, empty where there is none
local scores = {}
for i, key in ipairs(KEYS) do
  scores[i] = redis.call('ZSCORE', key, ARGV[1]) or ''
end
return scores
