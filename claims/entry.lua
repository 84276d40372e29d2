-- What every script of claims begins with: what is alive under KEYS[1], and how
-- it is written.
--
--   claim      c<fence> <owner>
--   tombstone  d<fence> <settled, ms in base 36> <bytes of the outcome>:<outcome><owner>
--
-- Redis keeps a value of up to 44 bytes together with its header; base 36 keeps
-- the usual tombstone at that.
--
-- Fences are compared as decimals without leading zeros, because a number in
-- Lua is exact to 2^53 only. Times are the server's, and stand still while a
-- script runs.

local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function newer(a, b)
  if #a ~= #b then return #a > #b end
  return a > b
end

local function base36(n)
  local digits = ''
  repeat
    local d = n % 36
    digits = string.char(d < 10 and 48 + d or 87 + d) .. digits
    n = math.floor(n / 36)
  until n == 0
  return digits
end

-- read returns what is alive, or nil.
local function read()
  local v = redis.call('GET', KEYS[1])
  if not v then return nil end
  local fence, owner = string.match(v, '^c(%d+) (.*)$')
  if fence then return {fence = fence, owner = owner} end
  local settled, size, rest
  fence, settled, size, rest = string.match(v, '^d(%d+) (%w+) (%d+):(.*)$')
  if not fence then error('the claim ' .. KEYS[1] .. ' has an unknown form') end
  return {
    fence = fence, settled = tonumber(settled, 36),
    outcome = string.sub(rest, 1, tonumber(size)), owner = string.sub(rest, size + 1),
  }
end

local function held_by(e, fence, owner)
  return e and not e.outcome and e.fence == fence and e.owner == owner
end

-- prolong makes it live for at least ttl from now, and returns how long it lives.
local function prolong(ttl)
  local left = redis.call('PTTL', KEYS[1])
  if left >= ttl then return left end
  redis.call('PEXPIRE', KEYS[1], ttl)
  return ttl
end

local function write_claim(fence, owner, ttl)
  redis.call('SET', KEYS[1], 'c' .. fence .. ' ' .. owner, 'PX', ttl)
end

-- The answers, in the numbers of Status.
local GRANTED, HELD, DONE, STALE, CONFLICT = 1, 2, 3, 4, 5

local function refuse(status, e)
  return {status, e.fence, e.owner, redis.call('PTTL', KEYS[1])}
end

local function done(e)
  return {DONE, e.fence, e.owner, redis.call('PTTL', KEYS[1]), e.outcome, now() - e.settled}
end
