-- Builds the environment of scripts. Stock Lua has no read-only tables: the environment and each
-- library are empty tables that read from hidden ones and refuse writes.
local native, libraries = ...
local G = _G
local type, error, select, tostring = type, error, select, tostring
local raw_pcall, raw_xpcall, pairs, raw_next = pcall, xpcall, pairs, next
local raw_get, raw_set = rawget, rawset
local raw_setmetatable, raw_getmetatable = setmetatable, getmetatable
local raw_loadstring, collectgarbage = loadstring, collectgarbage
local find, sub, byte, concat = string.find, string.sub, string.byte, table.concat
local caught, on_error = native.caught, native.on_error

local READONLY = "Attempt to modify a readonly table"
local contents = raw_setmetatable({}, { __mode = "k" })

local function refuse()
  error(READONLY, 2)
end

-- Makes an empty table read from a hidden one and refuse writes.
local function seal(guard, hidden)
  contents[guard] = hidden
  local metatable = { __index = hidden, __newindex = refuse }
  local shown = {}
  contents[shown] = { __index = guard }
  raw_setmetatable(shown, { __index = contents[shown], __newindex = refuse, __metatable = false })
  metatable.__metatable = shown
  return raw_setmetatable(guard, metatable), metatable
end

local function protect(hidden)
  return (seal({}, hidden))
end

-- All scripts share the metatable of decoded arrays. A function in it would run with the rights of
-- another user.
seal(native.array_metatable, {})

local function opened(table)
  return contents[table] or table
end

local real = {}
local env, guard_of_env = seal({}, real)

for _, name in pairs({
  "assert", "collectgarbage", "error", "gcinfo", "getmetatable", "ipairs", "next", "pairs",
  "rawequal", "rawget", "select", "tonumber", "tostring", "type", "_VERSION",
}) do
  real[name] = G[name]
end
real._G = env

-- Lua 5.1 computes the number of results in 32 bits, which overflow.
local RESULTS_MAX = 7999
local unpack = unpack
function real.unpack(list, first, last)
  if type(list) == "table" then
    local from = first == nil and 1 or tonumber(first)
    local to = last == nil and #list or tonumber(last)
    if from and to then
      if to < from then
        return
      elseif not (to - from < RESULTS_MAX and from >= -2 ^ 31 and to < 2 ^ 31) then
        native.raise("too many results to unpack")
      end
    end
  end
  -- The results take the place of the arguments, which count towards the limit.
  if last ~= nil then
    return unpack(list, first, last)
  elseif first ~= nil then
    return unpack(list, first)
  end
  return unpack(list)
end

local strict = {
  __index = function(_, name)
    local text = "Script attempted to access nonexistent global variable '" .. tostring(name) .. "'"
    error(text, 2)
  end,
}
raw_setmetatable(real, strict)

-- Functions that access tables without metamethods see and protect the hidden contents.
function real.rawget(table, key)
  return raw_get(opened(table), key)
end

function real.rawset(table, key, value)
  if contents[table] then
    native.fail(READONLY)
  end
  return raw_set(table, key, value)
end

function real.setmetatable(table, metatable)
  if contents[table] then
    native.fail(READONLY)
  end
  return raw_setmetatable(table, metatable)
end

function real.pairs(table)
  local hidden = contents[table]
  if not hidden then
    return pairs(table)
  end
  return function(_, key)
    return raw_next(hidden, key)
  end, table, nil
end

-- The collector serves all scripts, so that one script cannot stop it.
function real.collectgarbage(option, argument)
  if option == nil or option == "collect" or option == "count" then
    return collectgarbage(option or "collect")
  end
  if option == "step" then
    return collectgarbage("step", argument)
  end
  if option == "stop" or option == "restart" or option == "setpause" or option == "setstepmul" then
    return 0
  end
  return collectgarbage(option)
end

-- Errors of the libraries are turned into what scripts expect.
local function message(thrown)
  local text = type(thrown) == "table" and raw_get(thrown, "err")
  if type(text) == "string" then
    return text
  end
  return thrown
end

local function outcome(is_ok, ...)
  if is_ok then
    return true, ...
  end
  return false, message(caught((...)))
end

function real.pcall(...)
  return outcome(raw_pcall(...))
end

local function raw_outcome(is_ok, ...)
  if is_ok then
    return true, ...
  end
  return false, caught((...))
end

function real.xpcall(work, handler)
  return raw_outcome(raw_xpcall(work, function(thrown)
    return handler(caught(thrown))
  end))
end

-- Lua 5.1 does not bound the C stack of nested coroutines.
local RESUMES_MAX = 100
local resumed = 0
local raw_resume, raw_create = coroutine.resume, coroutine.create

local function resume_outcome(is_ok, ...)
  resumed = resumed - 1
  if is_ok then
    return true, ...
  end
  return false, caught((...))
end

local function resume(thread, ...)
  if type(thread) ~= "thread" then
    native.bad_argument(1, "resume", "coroutine", thread)
  end
  if resumed >= RESUMES_MAX then
    return false, "C stack overflow"
  end
  resumed = resumed + 1
  return resume_outcome(raw_resume(thread, ...))
end

local function unwrap(is_ok, ...)
  if is_ok then
    return ...
  end
  error((...), 2)
end

real.coroutine = protect({
  create = raw_create,
  running = coroutine.running,
  status = coroutine.status,
  yield = coroutine.yield,
  resume = resume,
  wrap = function(work)
    local thread = raw_create(work)
    return function(...)
      return unwrap(resume(thread, ...))
    end
  end,
})

-- The parser of Lua 5.1 does not keep the chunk's name alive while it reads and collects garbage;
-- here the name is an argument of the caller. It counts the equals signs of a long bracket in 32
-- bits, which no text of this length overflows.
local CODE_BYTES_MAX = 64 * 2 ^ 20
local TOO_LONG = "chunk is longer than 64 MB"

local function compile(text, name)
  if #text > CODE_BYTES_MAX then
    return nil, TOO_LONG
  elseif byte(text, 1) == 27 then
    return nil, "attempt to load a precompiled chunk"
  end
  local zero = find(name, "%z")
  if zero then
    name = sub(name, 1, zero - 1)
  end
  local chunk, why = raw_loadstring(text, name)
  return chunk, why
end

-- Returns the name of a chunk, which is the second argument of `caller`.
local function chunk_name(caller, name, default)
  if name == nil then
    return default
  elseif type(name) == "number" then
    return tostring(name)
  elseif type(name) ~= "string" then
    native.bad_argument(2, caller, "string", name)
  end
  return name
end

function real.loadstring(text, name)
  if type(text) == "number" then
    text = tostring(text)
  end
  if type(text) ~= "string" then
    native.bad_argument(1, "loadstring", "string", text)
  end
  return compile(text, chunk_name("loadstring", name, text))
end

-- The reader is never called by the parser, whose state an error, a yield or a collection of
-- garbage within the reader could invalidate: the pieces are read first.
function real.load(reader, name)
  name = chunk_name("load", name, "=(load)")
  if type(reader) ~= "function" then
    native.bad_argument(1, "load", "function", reader)
  end
  local pieces, bytes = {}, 0
  while true do
    local is_read, piece = raw_pcall(reader)
    if not is_read then
      return nil, (caught(piece))
    elseif piece == nil or piece == "" then
      break
    elseif type(piece) ~= "string" and type(piece) ~= "number" then
      return nil, "reader function must return a string"
    end
    piece = tostring(piece)
    bytes = bytes + #piece
    if bytes > CODE_BYTES_MAX then
      return nil, TOO_LONG
    end
    pieces[#pieces + 1] = piece
  end
  return compile(concat(pieces), name)
end

-- Lengths from which a function of C counts as work: Lua counts it as one instruction.
local LONG = 4096
local strings = {}
for name, value in pairs(string) do
  strings[name] = value
end
-- No function may be written as bytes, because bytes are not compiled.
strings.dump = nil

local rep = string.rep
function strings.rep(text, count)
  -- Without a length no limit of memory ends the repetition.
  if text == "" and tonumber(count) then
    return ""
  end
  return (rep(text, count))
end

-- The matcher of Lua 5.1 cannot be ended, and uses the C stack once per item of a pattern. It is
-- used for subjects that are short in relation to the pattern.
local PATTERN_MAX = 1000
local SUBJECTS_MAX = 1000
local subjects, subject_count = {}, 0

local function is_cheap(text, pattern)
  local max = subjects[pattern]
  if not max then
    if #pattern > PATTERN_MAX then
      native.check_pattern(pattern)
    end
    max = native.subject_max(pattern)
    if #pattern <= 100 then
      if subject_count >= SUBJECTS_MAX then
        subjects, subject_count = {}, 0
      end
      subjects[pattern] = max
      subject_count = subject_count + 1
    end
  end
  if #text > LONG then
    native.work(#text)
  end
  return #text <= max
end

-- Returns both arguments as strings if the call needs the bounded matcher.
local function costly(text, pattern)
  if type(text) == "number" then
    text = tostring(text)
  end
  if type(pattern) == "number" then
    pattern = tostring(pattern)
  end
  if type(text) == "string" and type(pattern) == "string" and not is_cheap(text, pattern) then
    return text, pattern
  end
end

local function captures(first, last, ...)
  if not first then
    return nil
  end
  return first, last, ...
end

local match, gmatch, gsub = string.match, string.gmatch, string.gsub

-- Whether a pattern has no special characters. As in C, a zero byte ends the search for them.
local function is_literal(pattern)
  local zero = find(pattern, "%z")
  return not find(zero and sub(pattern, 1, zero - 1) or pattern, "[%^%$%*%+%?%.%(%[%%%-]")
end

function strings.find(text, pattern, ...)
  local init, plain = ...
  local from = init == nil and 1 or tonumber(init)
  if from and type(text) == "string" and type(pattern) == "string" then
    local is_plain = plain
    if not is_plain and #text * #pattern > 1e8 then
      is_plain = is_literal(pattern)
    end
    if is_plain then
      if #text * #pattern > 1e8 then
        return captures(native.find_plain(text, pattern, from))
      end
      return find(text, pattern, ...)
    end
  end
  local long, item = costly(text, pattern)
  if long and from then
    if is_literal(item) then
      return captures(native.find_plain(long, item, from))
    end
    return captures(native.search(long, item, from, true))
  end
  return find(text, pattern, ...)
end

local function matched(text, first, last, ...)
  if not first then
    return nil
  elseif select("#", ...) == 0 then
    return sub(text, first, last)
  end
  return ...
end

function strings.match(text, pattern, ...)
  local init = ...
  local from = init == nil and 1 or tonumber(init)
  local long, item = costly(text, pattern)
  if long and from then
    return matched(long, native.search(long, item, from, true))
  end
  return match(text, pattern, ...)
end

function strings.gmatch(text, pattern)
  -- Here a caret is no anchor, so that the cost is that of a pattern without one.
  local is_caret = type(pattern) == "string" and byte(pattern, 1) == 94
  local long, item = costly(text, is_caret and "." .. pattern or pattern)
  if long and is_caret then
    item = pattern
  end
  if not long then
    return gmatch(text, pattern)
  end
  local at, len = 1, #long
  local function advance(first, last, ...)
    at = not first and len + 2 or last < first and first + 1 or last + 1
    return matched(long, first, last, ...)
  end
  return function()
    if at > len + 1 then
      return nil
    end
    return advance(native.search(long, item, at, false))
  end
end
strings.gfind = string.gfind and strings.gmatch

-- Returns the text that replaces a match, whose captures are from the third element.
local function replaced(replacement, whole, found)
  local value
  if type(replacement) == "string" then
    return (gsub(replacement, "%%(.?)", function(letter)
      if letter == "0" then
        return whole
      elseif letter == "" then
        return "\0"
      elseif not find(letter, "%d") then
        return letter
      elseif letter == "1" and found[3] == nil then
        return whole
      end
      local capture = found[2 + letter]
      if capture == nil then
        native.raise("invalid capture index")
      end
      return capture
    end))
  end
  local first = found[3] == nil and whole or found[3]
  if type(replacement) == "table" then
    value = replacement[first]
  else
    value = replacement(first, unpack(found, 4))
  end
  if not value then
    return whole
  elseif type(value) ~= "string" and type(value) ~= "number" then
    native.raise("invalid replacement value (a " .. type(value) .. ")")
  end
  return value
end

function strings.gsub(text, pattern, replacement, ...)
  local kind, max = type(replacement), ...
  local is_valid = kind == "string" or kind == "table" or kind == "function" or kind == "number"
  local long, item = costly(text, pattern)
  if not long or not is_valid or max ~= nil and not tonumber(max) then
    return gsub(text, pattern, replacement, ...)
  end
  if kind == "number" then
    replacement = tostring(replacement)
  end
  local pieces, count, at, copied, len = {}, 0, 1, 1, #long
  max = max == nil and len + 1 or tonumber(max)
  while count < max and at <= len + 1 do
    local found = { native.search(long, item, at, true) }
    local first, last = found[1], found[2]
    if not first then
      break
    end
    count = count + 1
    pieces[#pieces + 1] = sub(long, copied, first - 1)
    pieces[#pieces + 1] = replaced(replacement, sub(long, first, last), found)
    copied = last + 1
    at = last < first and first + 1 or last + 1
    if byte(item, 1) == 94 then
      break
    end
  end
  pieces[#pieces + 1] = sub(long, copied)
  return concat(pieces), count
end

-- Functions of tables move elements or visit them all.
local tables = {}
for name, value in pairs(table) do
  tables[name] = value
end
local POSITION_MIN = -1000000
local insert, remove, sort, maxn = table.insert, table.remove, table.sort, table.maxn

local function count_elements(list)
  if type(list) == "table" and #list > LONG then
    native.work(#list)
  end
end

function tables.insert(list, ...)
  if select("#", ...) == 2 then
    local position = tonumber((...))
    if position and not (position >= POSITION_MIN and position < 2 ^ 31) then
      native.raise("bad argument #2 to 'insert' (position out of bounds)")
    end
    count_elements(list)
  end
  insert(list, ...)
end

function tables.remove(list, ...)
  if (...) ~= nil then
    count_elements(list)
  end
  return (remove(list, ...))
end

function tables.concat(list, ...)
  count_elements(list)
  return (concat(list, ...))
end

function tables.sort(list, ...)
  count_elements(list)
  sort(list, ...)
end

function tables.maxn(list)
  count_elements(list)
  return (maxn(list))
end

real.string = protect(strings)
real.table = protect(tables)
real.math = protect(math)
real.os = protect({ clock = native.clock })
for name, library in pairs(libraries) do
  real[name] = protect(library)
end

local string_metatable = raw_getmetatable("")
string_metatable.__index = strings
local shown = {}
contents[shown] = { __index = real.string }
string_metatable.__metatable =
  raw_setmetatable(shown, { __index = contents[shown], __newindex = refuse, __metatable = false })

-- The collector starts when the memory has doubled, which is too late where the limit is less than
-- twice of what is in use. So this finalizer, which every collection calls, adapts the pace.
local limit_bytes = native.memory_bytes
local is_watched = false
local proxy = newproxy(true)
local new_proxy = newproxy

local function watch_collector()
  -- It is garbage at once, so that the next collection finalizes it. The first one stays.
  new_proxy(proxy)
  is_watched = true
end

raw_getmetatable(proxy).__gc = function()
  -- No function of Rust may be called while the state is closed.
  if limit_bytes < 0 then
    return
  end
  is_watched = false
  local used = collectgarbage("count") * 1024
  local pause, factor = 200, 200
  if used > limit_bytes / 4 then
    -- Half of the rest may be used until the next collection, which then runs at once.
    local percent = (used + limit_bytes) / 2 / used * 100
    pause, factor = percent > 200 and 200 or percent < 101 and 101 or percent, 0
  end
  collectgarbage("setpause", pause)
  collectgarbage("setstepmul", factor)
  native.collected()
  watch_collector()
end
watch_collector()

local function set_limit(bytes)
  limit_bytes = bytes
end

-- Tables of compiled scripts and functions, by number.
local chunks = {}

-- Returns how a table becomes a reply: the number of the form with its field, or 0 with the number
-- of elements before the first nil.
local kind_of
function kind_of(value)
  if type(value) ~= "table" then
    return 0
  end
  if raw_getmetatable(value) == nil then
    if type(value.err) == "string" then
      return 1, value.err
    elseif type(value.ok) == "string" then
      return 2, value.ok
    elseif type(value.double) == "number" then
      return 3, value.double
    elseif type(value.map) == "table" then
      return 4, value.map
    elseif type(value.set) == "table" then
      return 5, value.set
    elseif type(value.big_number) == "string" then
      return 6, value.big_number
    elseif type(value.verbatim_string) == "table" then
      return 7, value.verbatim_string
    end
    local count = 0
    while value[count + 1] ~= nil do
      count = count + 1
    end
    return 0, count
  end
  local plain = {}
  for _, name in pairs({
    "err", "ok", "double", "map", "set", "big_number", "verbatim_string",
  }) do
    plain[name] = raw_get(value, name)
  end
  local kind, field = kind_of(plain)
  if kind == 0 then
    while raw_get(value, field + 1) ~= nil do
      field = field + 1
    end
  end
  return kind, field
end

local function finish(is_ok, value)
  real.KEYS = nil
  real.ARGV = nil
  if not is_ok then
    return false
  end
  if type(value) == "table" then
    return true, value, kind_of(value)
  end
  return true, value
end

-- Runs a script that has many keys and arguments.
local function run_tables(chunk, keys, argv)
  real.KEYS = keys
  real.ARGV = argv
  resumed = 0
  return finish(raw_xpcall(chunks[chunk], on_error))
end

-- Calls a registered function with its keys and arguments in tables.
local function call_tables(chunk, keys, argv)
  local work = chunks[chunk]
  resumed = 0
  return finish(raw_xpcall(function()
    return work(keys, argv)
  end, on_error))
end

-- Calls a registered function with its keys and arguments on the stack. A further argument is nil.
local function call(chunk, count, ...)
  if count == 1 then
    return call_tables(chunk, { (...) }, { select(2, ...) })
  end
  local keys, argv = { ... }, {}
  for at = count + 1, #keys do
    argv[at - count] = keys[at]
    keys[at] = nil
  end
  return call_tables(chunk, keys, argv)
end

-- Environment of a library's code while it is loaded: only what registers functions.
local loading
if native.redis_of_loading then
  loading = raw_setmetatable(
    { redis = protect(raw_setmetatable(native.redis_of_loading, strict)) },
    strict
  )
end

local function expose(globals)
  guard_of_env.__index = globals
  contents[env] = globals
end

-- Runs the code of a library.
local function load(chunk)
  resumed = 0
  expose(loading)
  local is_done = raw_xpcall(chunks[chunk], on_error)
  expose(real)
  return is_done
end

-- Restores the state that a script which has failed may have left.
local function reset()
  resumed = 0
  if not is_watched then
    watch_collector()
  end
end

local by_tables = native.redis_of_loading and call_tables or run_tables
return env, chunks, call, by_tables, load, kind_of, real, reset, set_limit
