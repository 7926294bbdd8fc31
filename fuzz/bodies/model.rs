//! A simple model of a keyspace of strings: ordered maps, an explicit clock, replies as values. It
//! implements the commands again from their documentation, not from the server's code. Comments
//! mark where Mayfly departs from Redis.

use std::collections::BTreeMap;
use wire::LongDouble;
use wire::Value;
use wire::number::parse_i64;

const DATABASES: usize = 16;
/// Largest deadline; later ones are reduced to it (a departure from Redis).
const DEADLINE_MAX: i64 = (1 << 48) - 1;
const BULK_BYTES_MAX: i64 = 512 << 20;

const SYNTAX: &str = "ERR syntax error";
const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
const NOT_FLOAT: &str = "ERR value is not a valid float";
const DB_RANGE: &str = "ERR DB index is out of range";
const SAME_OBJECT: &str = "ERR source and destination objects are the same";
const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

/// Names and arities (negative: minimum), as Redis's COMMAND reports them.
const ARITIES: &[(&str, isize)] = &[
    ("append", 3),
    ("copy", -3),
    ("dbsize", 1),
    ("decr", 2),
    ("decrby", 3),
    ("del", -2),
    ("delex", -2),
    ("exists", -2),
    ("expire", -3),
    ("expireat", -3),
    ("expiretime", 2),
    ("flushall", -1),
    ("flushdb", -1),
    ("get", 2),
    ("getdel", 2),
    ("getex", -2),
    ("getrange", 4),
    ("getset", 3),
    ("incr", 2),
    ("incrby", 3),
    ("incrbyfloat", 3),
    ("keys", 2),
    ("lcs", -3),
    ("mget", -2),
    ("move", 3),
    ("mset", -3),
    ("msetex", -4),
    ("msetnx", -3),
    ("persist", 2),
    ("pexpire", -3),
    ("pexpireat", -3),
    ("pexpiretime", 2),
    ("psetex", 4),
    ("pttl", -2),
    ("randomkey", 1),
    ("rename", 3),
    ("renamenx", 3),
    ("select", 2),
    ("set", -3),
    ("setex", 4),
    ("setnx", 3),
    ("setrange", 4),
    ("strlen", 2),
    ("substr", 4),
    ("swapdb", 3),
    ("touch", -2),
    ("ttl", -2),
    ("type", 2),
    ("unlink", -2),
];

type Args<'a> = &'a [Vec<u8>];
type Answer = Result<Value, String>;

/// A value and the last millisecond at which it can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub value: Vec<u8>,
    pub deadline: Option<i64>,
}

/// Effect of a write on the deadline.
#[derive(Clone, Copy)]
enum Fate {
    Clear,
    Keep,
    Until(i64),
}

/// All databases at one time, as one client sees them.
pub struct Model {
    pub databases: Vec<BTreeMap<Vec<u8>, Entry>>,
    pub db: usize,
    pub now: i64,
    pub is_resp3: bool,
    /// Keys whose deadlines have passed and whose `expired` event is due.
    pub owed: Vec<(usize, Vec<u8>)>,
    /// Such keys that were flushed: their event may occur or not.
    pub forgiven: Vec<(usize, Vec<u8>)>,
}

impl Model {
    pub fn new(now: i64, is_resp3: bool) -> Model {
        Model {
            databases: vec![BTreeMap::new(); DATABASES],
            db: 0,
            now,
            is_resp3,
            owed: Vec::new(),
            forgiven: Vec::new(),
        }
    }

    /// Moves the clock. A key is dead when the clock is beyond its deadline.
    pub fn advance(&mut self, span: i64) {
        self.now += span;
        for (db, keys) in self.databases.iter_mut().enumerate() {
            let is_dead =
                |entry: &Entry| entry.deadline.is_some_and(|deadline| self.now > deadline);
            self.owed.extend(
                keys.iter()
                    .filter(|(_, entry)| is_dead(entry))
                    .map(|(key, _)| (db, key.clone())),
            );
            keys.retain(|_, entry| !is_dead(entry));
        }
    }

    /// Returns the reply to a command; for RANDOMKEY and similar commands, one of the possible
    /// replies.
    pub fn exec(&mut self, args: Args<'_>) -> Value {
        let name = String::from_utf8_lossy(&args[0]).to_lowercase();
        let (_, arity) = ARITIES
            .iter()
            .find(|(known, _)| *known == name)
            .unwrap_or_else(|| panic!("the model does not know {name}"));
        let count = args.len() as isize;
        let answer = if (*arity >= 0 && count != *arity) || count < -arity {
            wrong_arity(&name)
        } else {
            self.run(&name, args)
        };
        answer.unwrap_or_else(|text| Value::Error(text.into_bytes()))
    }

    fn run(&mut self, name: &str, args: Args<'_>) -> Answer {
        match name {
            "get" => Ok(self.read(&args[1])),
            "set" => self.set(args),
            "setnx" => Ok(self.write_new(&args[1..])),
            "setex" => self.set_until(name, "EX", args),
            "psetex" => self.set_until(name, "PX", args),
            "getset" => {
                let old = self.read(&args[1]);
                self.store(&args[1], &args[2], Fate::Clear);
                Ok(old)
            }
            "getdel" => {
                let old = self.read(&args[1]);
                self.keys().remove(&args[1]);
                Ok(old)
            }
            "getex" => self.getex(args),
            "mget" => Ok(Value::Array(
                args[1..].iter().map(|key| self.read(key)).collect(),
            )),
            "mset" | "msetnx" if args.len().is_multiple_of(2) => wrong_arity(name),
            "mset" => {
                self.store_all(&args[1..], Fate::Clear);
                Ok(ok())
            }
            "msetnx" => Ok(self.write_new(&args[1..])),
            "msetex" => self.msetex(args),
            "append" | "strlen" | "getrange" | "substr" | "setrange" => self.run_part(name, args),
            "incr" | "decr" | "incrby" | "decrby" | "incrbyfloat" => self.run_number(name, args),
            "delex" => self.delex(args),
            "lcs" => Ok(Value::Integer(self.lcs_len(&args[1], &args[2]))),
            "expire" => self.expire(name, args, 1000, self.now),
            "pexpire" => self.expire(name, args, 1, self.now),
            "expireat" => self.expire(name, args, 1000, 0),
            "pexpireat" => self.expire(name, args, 1, 0),
            "ttl" | "pttl" if args.len() > 3 => wrong_arity(name),
            // TTL of a member: strings have none.
            "ttl" | "pttl" if args.len() == 3 => match self.keys().contains_key(&args[1]) {
                true => {
                    Err("WRONGTYPE Operation against a key holding the wrong kind of value".into())
                }
                false => Ok(Value::Integer(-2)),
            },
            "ttl" => Ok(self.reply_deadline(&args[1], 1000, self.now)),
            "pttl" => Ok(self.reply_deadline(&args[1], 1, self.now)),
            "expiretime" => Ok(self.reply_deadline(&args[1], 1000, 0)),
            "pexpiretime" => Ok(self.reply_deadline(&args[1], 1, 0)),
            "persist" => {
                let entry = self.keys().get_mut(&args[1]);
                Ok(flag(
                    entry.is_some_and(|entry| entry.deadline.take().is_some()),
                ))
            }
            _ => self.run_generic(name, args),
        }
    }

    fn run_generic(&mut self, name: &str, args: Args<'_>) -> Answer {
        match name {
            "del" | "unlink" => {
                let gone = args[1..]
                    .iter()
                    .filter(|key| self.keys().remove(*key).is_some());
                Ok(Value::Integer(gone.count() as i64))
            }
            "exists" | "touch" => {
                let found = args[1..]
                    .iter()
                    .filter(|key| self.keys().contains_key(*key));
                Ok(Value::Integer(found.count() as i64))
            }
            "type" => {
                let found = self.keys().contains_key(&args[1]);
                Ok(Value::Simple(if found { "string" } else { "none" }.into()))
            }
            "rename" | "renamenx" => self.rename(name == "rename", args),
            "copy" => self.copy(args),
            "move" => self.move_key(args),
            "dbsize" => Ok(Value::Integer(self.keys().len() as i64)),
            "keys" => Ok(self.list()),
            "randomkey" => Ok(match self.keys().keys().next() {
                Some(key) => Value::Bulk(key.clone()),
                None => self.null(),
            }),
            "select" => {
                self.db = database(&args[1], NOT_INTEGER)?;
                Ok(ok())
            }
            "swapdb" => self.swap(args),
            "flushdb" | "flushall" => self.flush(name == "flushall", args),
            _ => panic!("the model does not run {name}"),
        }
    }

    /// Returns the keys of the selected database.
    pub fn keys(&mut self) -> &mut BTreeMap<Vec<u8>, Entry> {
        &mut self.databases[self.db]
    }

    pub fn list(&mut self) -> Value {
        Value::Array(self.keys().keys().cloned().map(Value::Bulk).collect())
    }

    fn null(&self) -> Value {
        if self.is_resp3 {
            Value::Null
        } else {
            Value::NullBulk
        }
    }

    fn read(&mut self, key: &[u8]) -> Value {
        match self.keys().get(key) {
            Some(entry) => Value::Bulk(entry.value.clone()),
            None => self.null(),
        }
    }

    fn value(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.keys().get(key).map(|entry| entry.value.clone())
    }

    /// Replaces a value. With a new deadline that is not in the future, the key is removed at once,
    /// and an `expired` event is due. A kept deadline may be now.
    fn store(&mut self, key: &[u8], value: &[u8], fate: Fate) {
        let old = self.keys().get(key).and_then(|entry| entry.deadline);
        let entry = Entry {
            value: value.to_vec(),
            deadline: match fate {
                Fate::Clear => None,
                Fate::Keep => old,
                Fate::Until(deadline) => Some(deadline.min(DEADLINE_MAX)),
            },
        };
        self.keys().insert(key.to_vec(), entry);
        if matches!(fate, Fate::Until(deadline) if deadline <= self.now) {
            self.bury(key);
        }
    }

    fn bury(&mut self, key: &[u8]) {
        self.keys().remove(key);
        self.owed.push((self.db, key.to_vec()));
    }

    fn store_all(&mut self, pairs: Args<'_>, fate: Fate) {
        for pair in pairs.chunks(2) {
            self.store(&pair[0], &pair[1], fate);
        }
    }

    fn write_new(&mut self, pairs: Args<'_>) -> Value {
        let is_new = pairs
            .chunks(2)
            .all(|pair| !self.keys().contains_key(&pair[0]));
        if is_new {
            self.store_all(pairs, Fate::Clear);
        }
        flag(is_new)
    }

    fn set_until(&mut self, command: &str, unit: &str, args: Args<'_>) -> Answer {
        let deadline = self.deadline(command, unit, &args[2])?;
        self.store(&args[1], &args[3], Fate::Until(deadline));
        Ok(ok())
    }

    /// Returns the deadline of `EX n` and similar options: n must be positive, and the sum must not
    /// overflow.
    fn deadline(&self, command: &str, unit: &str, number: &[u8]) -> Result<i64, String> {
        let number = parse_i64(number).ok_or(NOT_INTEGER)?;
        let (factor, base) = match unit {
            "EX" => (1000, self.now),
            "PX" => (1, self.now),
            "EXAT" => (1000, 0),
            _ => (1, 0),
        };
        let instant = number
            .checked_mul(factor)
            .and_then(|span| span.checked_add(base));
        instant
            .filter(|_| number > 0)
            .ok_or_else(|| format!("ERR invalid expire time in '{command}' command"))
    }

    /// Returns the effect of these options on the deadline; `otherwise` if they have none.
    fn fate(&self, command: &str, options: &Options, otherwise: Fate) -> Result<Fate, String> {
        match &options.lifetime {
            None => Ok(otherwise),
            Some((word, _)) if word == "KEEPTTL" => Ok(Fate::Keep),
            Some((word, _)) if word == "PERSIST" => Ok(Fate::Clear),
            Some((unit, number)) => self.deadline(command, unit, number).map(Fate::Until),
        }
    }

    fn set(&mut self, args: Args<'_>) -> Answer {
        let words = [
            "NX", "XX", "GET", "IFEQ", "IFNE", "EX", "PX", "EXAT", "PXAT", "KEEPTTL",
        ];
        let options = Options::parse(&args[3..], &words)?;
        let fate = self.fate("set", &options, Fate::Clear)?;
        let old = self.value(&args[1]);
        let may_write = match &options.condition {
            None => true,
            Some((word, operand)) => match word.as_str() {
                "NX" => old.is_none(),
                "XX" => old.is_some(),
                "IFEQ" => old.as_ref() == Some(operand),
                _ => old.as_ref() != Some(operand),
            },
        };
        if may_write {
            self.store(&args[1], &args[2], fate);
        }
        Ok(match (options.is_get, may_write) {
            (true, _) => old.map_or_else(|| self.null(), Value::Bulk),
            (false, true) => ok(),
            (false, false) => self.null(),
        })
    }

    fn getex(&mut self, args: Args<'_>) -> Answer {
        let options = Options::parse(&args[2..], &["EX", "PX", "EXAT", "PXAT", "PERSIST"])?;
        let Some(value) = self.value(&args[1]) else {
            return Ok(self.null());
        };
        let fate = self.fate("getex", &options, Fate::Keep)?;
        self.store(&args[1], &value, fate);
        Ok(Value::Bulk(value))
    }

    fn msetex(&mut self, args: Args<'_>) -> Answer {
        let count = parse_i64(&args[1])
            .filter(|count| (1..=i64::from(i32::MAX)).contains(count))
            .ok_or("ERR invalid numkeys value")? as usize;
        let end = 2 + 2 * count;
        if end > args.len() {
            return Err("ERR wrong number of key-value pairs".into());
        }
        let words = ["NX", "XX", "EX", "PX", "EXAT", "PXAT", "KEEPTTL"];
        let options = Options::parse(&args[end..], &words)?;
        let pairs = &args[2..end];
        let fate = self.fate("msetex", &options, Fate::Clear)?;
        let wanted = options.condition.as_ref().map(|(word, _)| word == "XX");
        let may_write = wanted.is_none_or(|is_there| {
            pairs
                .chunks(2)
                .all(|pair| self.keys().contains_key(&pair[0]) == is_there)
        });
        if may_write {
            self.store_all(pairs, fate);
        }
        Ok(flag(may_write))
    }

    fn run_part(&mut self, name: &str, args: Args<'_>) -> Answer {
        let key = &args[1];
        match name {
            "append" => {
                let mut value = self.value(key).unwrap_or_default();
                value.extend_from_slice(&args[2]);
                Ok(self.replace(key, value))
            }
            "setrange" => {
                let offset = parse_i64(&args[2]).ok_or(NOT_INTEGER)?;
                if offset < 0 {
                    return Err("ERR offset is out of range".into());
                }
                let old = self.value(key);
                if args[3].is_empty() {
                    return Ok(Value::Integer(old.map_or(0, |value| value.len() as i64)));
                }
                if offset > BULK_BYTES_MAX - args[3].len() as i64 {
                    return Err(TOO_LONG.into());
                }
                let (start, end) = (offset as usize, offset as usize + args[3].len());
                let mut value = old.unwrap_or_default();
                let len = value.len().max(end);
                value.resize(len, 0);
                value[start..end].copy_from_slice(&args[3]);
                Ok(self.replace(key, value))
            }
            "strlen" => Ok(Value::Integer(
                self.value(key).map_or(0, |value| value.len() as i64),
            )),
            _ => {
                let start = parse_i64(&args[2]).ok_or(NOT_INTEGER)?;
                let end = parse_i64(&args[3]).ok_or(NOT_INTEGER)?;
                let value = self.value(key).unwrap_or_default();
                Ok(Value::Bulk(range(
                    &value,
                    i128::from(start),
                    i128::from(end),
                )))
            }
        }
    }

    /// Changes the value and keeps the deadline. Replies with the length.
    fn replace(&mut self, key: &[u8], value: Vec<u8>) -> Value {
        let len = value.len() as i64;
        let deadline = self.keys().get(key).and_then(|entry| entry.deadline);
        self.keys().insert(key.to_vec(), Entry { value, deadline });
        Value::Integer(len)
    }

    fn run_number(&mut self, name: &str, args: Args<'_>) -> Answer {
        let key = &args[1];
        let old = self.value(key).unwrap_or(b"0".to_vec());
        if name == "incrbyfloat" {
            let old = LongDouble::parse(&old).ok_or(NOT_FLOAT)?;
            let increment = LongDouble::parse(&args[2]).ok_or(NOT_FLOAT)?;
            let sum = old.plus(increment);
            let sum = sum.ok_or("ERR increment would produce NaN or Infinity")?;
            let mut text = Vec::new();
            sum.push_decimal(&mut text);
            self.replace(key, text.clone());
            return Ok(Value::Bulk(text));
        }
        let increment = match name {
            "incr" => 1,
            "decr" => -1,
            "incrby" => parse_i64(&args[2]).ok_or(NOT_INTEGER)?,
            _ => {
                let decrement = parse_i64(&args[2]).ok_or(NOT_INTEGER)?;
                decrement
                    .checked_neg()
                    .ok_or("ERR decrement would overflow")?
            }
        };
        let old = parse_i64(&old).ok_or(NOT_INTEGER)?;
        let sum = old.checked_add(increment);
        let sum = sum.ok_or("ERR increment or decrement would overflow")?;
        self.replace(key, sum.to_string().into_bytes());
        Ok(Value::Integer(sum))
    }

    fn delex(&mut self, args: Args<'_>) -> Answer {
        let Some(old) = self.value(&args[1]) else {
            let is_known = args.len() == 2 || args.len() == 4;
            return if is_known {
                Ok(flag(false))
            } else {
                wrong_arity("delex")
            };
        };
        let is_met = match args.len() {
            2 => true,
            4 if args[2].eq_ignore_ascii_case(b"IFEQ") => old == args[3],
            4 if args[2].eq_ignore_ascii_case(b"IFNE") => old != args[3],
            4 => return Err("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE".into()),
            _ => return wrong_arity("delex"),
        };
        if is_met {
            self.keys().remove(&args[1]);
        }
        Ok(flag(is_met))
    }

    /// Returns the length of the longest common subsequence, by the recursive definition over
    /// prefixes.
    fn lcs_len(&mut self, first: &[u8], second: &[u8]) -> i64 {
        let first = self.value(first).unwrap_or_default();
        let second = self.value(second).unwrap_or_default();
        let mut lengths = vec![vec![0; second.len() + 1]; first.len() + 1];
        for (row, a) in first.iter().enumerate() {
            for (column, b) in second.iter().enumerate() {
                lengths[row + 1][column + 1] = if a == b {
                    lengths[row][column] + 1
                } else {
                    lengths[row][column + 1].max(lengths[row + 1][column])
                };
            }
        }
        lengths[first.len()][second.len()]
    }

    fn expire(&mut self, name: &str, args: Args<'_>, factor: i64, base: i64) -> Answer {
        let mut words = Vec::new();
        for option in &args[3..] {
            let word = String::from_utf8_lossy(option).to_uppercase();
            if !["NX", "XX", "GT", "LT"].contains(&word.as_str()) {
                let shown = String::from_utf8_lossy(option);
                return Err(format!("ERR Unsupported option {shown}"));
            }
            words.push(word);
        }
        let has = |word: &str| words.iter().any(|known| known == word);
        if has("NX") && (has("XX") || has("GT") || has("LT")) {
            let text = "NX and XX, GT or LT options at the same time are not compatible";
            return Err(format!("ERR {text}"));
        }
        if has("GT") && has("LT") {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        let number = parse_i64(&args[2]).ok_or(NOT_INTEGER)?;
        let instant = number
            .checked_mul(factor)
            .and_then(|span| span.checked_add(base));
        let instant = instant.ok_or(format!("ERR invalid expire time in '{name}' command"))?;
        let instant = instant.min(DEADLINE_MAX);
        let now = self.now;
        let Some(entry) = self.keys().get_mut(&args[1]) else {
            return Ok(flag(false));
        };
        // A key without deadline does not expire.
        let old = entry.deadline.unwrap_or(i64::MAX);
        let is_refused = (has("NX") && entry.deadline.is_some())
            || (has("XX") && entry.deadline.is_none())
            || (has("GT") && instant <= old)
            || (has("LT") && instant >= old);
        if is_refused {
            return Ok(flag(false));
        }
        entry.deadline = Some(instant);
        if instant <= now {
            self.bury(&args[1]);
        }
        Ok(flag(true))
    }

    fn reply_deadline(&mut self, key: &[u8], factor: i64, base: i64) -> Value {
        Value::Integer(match self.keys().get(key) {
            None => -2,
            Some(Entry { deadline: None, .. }) => -1,
            // Seconds are rounded to the nearest.
            Some(Entry {
                deadline: Some(deadline),
                ..
            }) => (deadline - base + factor / 2) / factor,
        })
    }

    fn rename(&mut self, may_replace: bool, args: Args<'_>) -> Answer {
        let Some(entry) = self.keys().get(&args[1]).cloned() else {
            return Err("ERR no such key".into());
        };
        let is_done = may_replace || !self.keys().contains_key(&args[2]);
        if is_done && args[1] != args[2] {
            self.keys().remove(&args[1]);
            self.keys().insert(args[2].clone(), entry);
        }
        Ok(if may_replace { ok() } else { flag(is_done) })
    }

    fn copy(&mut self, args: Args<'_>) -> Answer {
        let (mut db, mut may_replace) = (self.db, false);
        let mut rest = args[3..].iter();
        while let Some(option) = rest.next() {
            match String::from_utf8_lossy(option).to_uppercase().as_str() {
                "REPLACE" => may_replace = true,
                "DB" => db = database(rest.next().ok_or(SYNTAX)?, NOT_INTEGER)?,
                _ => return Err(SYNTAX.into()),
            }
        }
        if db == self.db && args[1] == args[2] {
            return Err(SAME_OBJECT.into());
        }
        let Some(entry) = self.keys().get(&args[1]).cloned() else {
            return Ok(flag(false));
        };
        let target = &mut self.databases[db];
        let is_done = may_replace || !target.contains_key(&args[2]);
        if is_done {
            target.insert(args[2].clone(), entry);
        }
        Ok(flag(is_done))
    }

    fn move_key(&mut self, args: Args<'_>) -> Answer {
        let db = database(&args[2], NOT_INTEGER)?;
        if db == self.db {
            return Err(SAME_OBJECT.into());
        }
        if self.databases[db].contains_key(&args[1]) {
            return Ok(flag(false));
        }
        let entry = self.keys().remove(&args[1]);
        let is_done = entry.is_some();
        self.databases[db].extend(entry.map(|entry| (args[1].clone(), entry)));
        Ok(flag(is_done))
    }

    fn swap(&mut self, args: Args<'_>) -> Answer {
        let first = integer_of_32_bits(&args[1]).ok_or("ERR invalid first DB index")?;
        let second = integer_of_32_bits(&args[2]).ok_or("ERR invalid second DB index")?;
        let is_database = |index: &i64| (0..DATABASES as i64).contains(index);
        if !is_database(&first) || !is_database(&second) {
            return Err(DB_RANGE.into());
        }
        let (first, second) = (first as usize, second as usize);
        self.databases.swap(first, second);
        for (db, _) in &mut self.owed {
            *db = match *db {
                db if db == first => second,
                db if db == second => first,
                db => db,
            };
        }
        Ok(ok())
    }

    fn flush(&mut self, is_all: bool, args: Args<'_>) -> Answer {
        let is_mode = |word: &Vec<u8>| {
            word.eq_ignore_ascii_case(b"ASYNC") || word.eq_ignore_ascii_case(b"SYNC")
        };
        if args.len() > 2 || !args[1..].iter().all(is_mode) {
            return Err(SYNTAX.into());
        }
        let selected = self.db;
        let is_meant = |db: usize| is_all || db == selected;
        for db in (0..DATABASES).filter(|&db| is_meant(db)) {
            self.databases[db].clear();
        }
        let (forgiven, owed) = std::mem::take(&mut self.owed)
            .into_iter()
            .partition(|&(db, _)| is_meant(db));
        (self.forgiven, self.owed) = (forgiven, owed);
        Ok(ok())
    }
}

/// Options of SET, GETEX and MSETEX behind keys and values.
#[derive(Default)]
struct Options {
    is_get: bool,
    /// NX, XX, or a comparison with its operand.
    condition: Option<(String, Vec<u8>)>,
    /// KEEPTTL, PERSIST, or a unit with its number.
    lifetime: Option<(String, Vec<u8>)>,
}

impl Options {
    /// Parses options among `words`. Two different options of one kind are refused; of two equal
    /// ones the later counts.
    fn parse(args: Args<'_>, words: &[&str]) -> Result<Options, String> {
        let mut options = Options::default();
        let mut rest = args.iter();
        while let Some(option) = rest.next() {
            let word = String::from_utf8_lossy(option).to_uppercase();
            if !words.contains(&word.as_str()) {
                return Err(SYNTAX.into());
            }
            if word == "GET" {
                options.is_get = true;
                continue;
            }
            let has_operand = !["NX", "XX", "KEEPTTL", "PERSIST"].contains(&word.as_str());
            let operand = match has_operand {
                true => rest.next().ok_or(SYNTAX)?.clone(),
                false => Vec::new(),
            };
            let kind = match word.as_str() {
                "NX" | "XX" | "IFEQ" | "IFNE" => &mut options.condition,
                _ => &mut options.lifetime,
            };
            if kind.as_ref().is_some_and(|(other, _)| *other != word) {
                return Err(SYNTAX.into());
            }
            *kind = Some((word, operand));
        }
        Ok(options)
    }
}

fn ok() -> Value {
    Value::Simple(b"OK".to_vec())
}

fn flag(value: bool) -> Value {
    Value::Integer(i64::from(value))
}

fn wrong_arity(name: &str) -> Answer {
    Err(format!(
        "ERR wrong number of arguments for '{name}' command"
    ))
}

fn integer_of_32_bits(text: &[u8]) -> Option<i64> {
    parse_i64(text).filter(|number| i32::try_from(*number).is_ok())
}

fn database(text: &[u8], otherwise: &str) -> Result<usize, String> {
    let index = integer_of_32_bits(text).ok_or(otherwise)?;
    let index = usize::try_from(index)
        .ok()
        .filter(|&index| index < DATABASES);
    Ok(index.ok_or(DB_RANGE)?)
}

/// Returns the bytes from `start` to `end`, both inclusive, negative ones from the end, both
/// clamped to the value. Two negative ones in the wrong order give an empty range before clamping.
fn range(value: &[u8], start: i128, end: i128) -> Vec<u8> {
    let len = value.len() as i128;
    if start < 0 && end < 0 && start > end {
        return Vec::new();
    }
    let place = |index: i128| {
        if index < 0 {
            (index + len).max(0)
        } else {
            index
        }
    };
    let (start, end) = (place(start), place(end));
    let bytes = value.iter().enumerate();
    bytes
        .filter(|&(index, _)| start <= index as i128 && index as i128 <= end)
        .map(|(_, &byte)| byte)
        .collect()
}
