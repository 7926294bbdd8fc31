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

local function protect(hidden)
  local guard = {}
  contents[guard] = hidden
  local metatable = { __index = hidden, __newindex = refuse }
  local shown = {}
  contents[shown] = { __index = guard }
  raw_setmetatable(shown, { __index = contents[shown], __newindex = refuse, __metatable = false })
  metatable.__metatable = shown
  return raw_setmetatable(guard, metatable)
end

local function opened(table)
  return contents[table] or table
end

local real = {}
local env = protect(real)

for _, name in pairs({
  "assert", "collectgarbage", "error", "gcinfo", "getmetatable", "ipairs", "next", "pairs",
  "rawequal", "rawget", "select", "tonumber", "tostring", "type", "unpack", "_VERSION",
}) do
  real[name] = G[name]
end
real._G = env

raw_setmetatable(real, {
  __index = function(_, name)
    local text = "Script attempted to access nonexistent global variable '" .. tostring(name) .. "'"
    error(text, 2)
  end,
})

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

-- The parser of Lua 5.1 does not keep the chunk's name alive; here it is an argument of the caller.
local function compile(text, name)
  if byte(text, 1) == 27 then
    return nil, "attempt to load a precompiled chunk"
  end
  local zero = find(name, "%z")
  if zero then
    name = sub(name, 1, zero - 1)
  end
  local chunk, why = raw_loadstring(text, name)
  return chunk, why
end

function real.loadstring(text, name)
  if type(text) == "number" then
    text = tostring(text)
  end
  if type(text) ~= "string" then
    native.bad_argument(1, "loadstring", "string", text)
  end
  return compile(text, type(name) == "string" and name or text)
end

function real.load(reader, name)
  if type(reader) ~= "function" then
    native.bad_argument(1, "load", "function", reader)
  end
  local pieces = {}
  while true do
    local piece = reader()
    if piece == nil or piece == "" then
      break
    end
    if type(piece) ~= "string" then
      return nil, "reader function must return a string"
    end
    pieces[#pieces + 1] = piece
  end
  return compile(concat(pieces), type(name) == "string" and name or "=(load)")
end

-- The matcher of Lua 5.1 uses the C stack once per item of a pattern.
local PATTERN_MAX = 1000
local strings = {}
for name, value in pairs(string) do
  strings[name] = value
end
for _, name in pairs({ "find", "match", "gmatch", "gsub", "gfind" }) do
  local search = string[name]
  if search then
    strings[name] = function(text, pattern, ...)
      if type(pattern) == "string" and #pattern > PATTERN_MAX then
        native.check_pattern(pattern)
      end
      return search(text, pattern, ...)
    end
  end
end

real.string = protect(strings)
real.table = protect(table)
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

-- Runs the code of a library.
local function load(chunk)
  resumed = 0
  return (raw_xpcall(chunks[chunk], on_error))
end

-- Restores the state that a script which has failed may have left.
local function reset()
  resumed = 0
end

local tables = native.is_for_functions and call_tables or run_tables
return env, chunks, call, tables, load, kind_of, real, reset
