//! A connection to a server of either side, for commands and their replies.

use super::{Failure, Side};
use crate::replica::stream::{Stream, refusal};
use membership::records::join;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;
use wire::{ReplyScanner, Value, encode_command};

/// Time limit for a reply.
const REPLY_TIME: Duration = Duration::from_secs(30);
/// Number of bytes per read.
const READ_BYTES: usize = 64 << 10;

/// Numbers of keys, and of those with a deadline, by database.
pub(super) type Sizes = BTreeMap<u64, (u64, u64)>;
/// A cursor, and keys before it.
type Page = (String, Vec<Box<[u8]>>);

/// A connection that is logged in.
pub(super) struct Connection {
    stream: Stream,
    /// Address for error texts.
    pub address: String,
    input: Vec<u8>,
    scanner: ReplyScanner,
    output: Vec<u8>,
    /// Number of queued and sent commands whose replies were not read.
    waiting: usize,
    db: u64,
}

impl Connection {
    pub fn open(side: &Side, host: &str, port: u16) -> Result<Connection, Failure> {
        let address = join(host, port);
        let stream = Stream::open(&side.config, (host, port), REPLY_TIME, || true)
            .map_err(|error| format!("{address}: {error}"))?;
        let mut connection = Connection {
            stream,
            address,
            input: Vec::new(),
            scanner: ReplyScanner::default(),
            output: Vec::new(),
            waiting: 0,
            db: 0,
        };
        if let Some(words) = Stream::login(&side.config) {
            let reply = connection.try_call(&words)?;
            if let Some(text) = reply.as_error() {
                let text = String::from_utf8_lossy(text);
                let address = &connection.address;
                return Err(format!("{address}: {}", refusal("AUTH", &text)));
            }
        }
        Ok(connection)
    }

    /// Adds a command to those that are sent next.
    pub fn queue<A: AsRef<[u8]>>(&mut self, words: &[A]) {
        encode_command(&mut self.output, words);
        self.waiting += 1;
    }

    /// Sends the queued commands.
    pub fn send(&mut self) -> Result<(), Failure> {
        let sent = self.stream.write_all(&self.output);
        self.output.clear();
        sent.map_err(|error| format!("{}: {error}", self.address))
    }

    /// Returns the replies to all commands that were sent, errors included.
    pub fn replies(&mut self) -> Result<Vec<Value>, Failure> {
        let count = std::mem::take(&mut self.waiting);
        (0..count).map(|_| self.reply()).collect()
    }

    fn reply(&mut self) -> Result<Value, Failure> {
        let failed = |address: &str, why: String| format!("{address}: {why}");
        loop {
            match self.scanner.scan(&self.input) {
                Ok(None) => {}
                Ok(Some(len)) => {
                    let decoded = Value::decode(&self.input[..len]);
                    self.input.drain(..len);
                    return match decoded {
                        Ok(Some((value, _))) => Ok(value),
                        Ok(None) => Err(failed(&self.address, "a reply is cut".to_owned())),
                        Err(error) => Err(failed(&self.address, error.to_string())),
                    };
                }
                Err(error) => return Err(failed(&self.address, error.to_string())),
            }
            let before = self.input.len();
            self.input.resize(before + READ_BYTES, 0);
            let result = self.stream.read(&mut self.input[before..]);
            let len = *result.as_ref().unwrap_or(&0);
            self.input.truncate(before + len);
            match result {
                Ok(0) => return Err(failed(&self.address, "it closed the connection".to_owned())),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    let text = format!("no reply within {} s", REPLY_TIME.as_secs());
                    return Err(failed(&self.address, text));
                }
                Err(error) => return Err(failed(&self.address, error.to_string())),
            }
        }
    }

    /// Sends a command and returns its reply, which may be an error.
    pub fn try_call<A: AsRef<[u8]>>(&mut self, words: &[A]) -> Result<Value, Failure> {
        self.queue(words);
        self.send()?;
        self.waiting = 0;
        self.reply()
    }

    /// Sends a command and returns its reply, which must not be an error.
    pub fn call<A: AsRef<[u8]>>(&mut self, words: &[A]) -> Result<Value, Failure> {
        let reply = self.try_call(words)?;
        match reply.as_error() {
            None => Ok(reply),
            Some(text) => {
                let name = String::from_utf8_lossy(words[0].as_ref()).into_owned();
                let text = String::from_utf8_lossy(text);
                Err(format!("{}: {name}: {text}", self.address))
            }
        }
    }

    /// Sends a command whose reply is a text.
    pub fn text(&mut self, words: &[&str]) -> Result<String, Failure> {
        let reply = self.call(words)?;
        match reply.as_bytes() {
            Some(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
            None => Err(format!("{}: {}: expected a text", self.address, words[0])),
        }
    }

    /// Selects a database, if it is not selected already.
    pub fn select(&mut self, db: u64) -> Result<(), Failure> {
        if self.db != db {
            self.call(&["SELECT", &db.to_string()])?;
            self.db = db;
        }
        Ok(())
    }

    /// Returns the numbers of keys, and of those with a deadline, by database.
    pub fn sizes(&mut self) -> Result<Sizes, Failure> {
        Ok(sizes(&self.text(&["INFO", "keyspace"])?))
    }

    /// Returns some keys of a database, and the cursor of the next ones; 0 at the end.
    pub fn scan(&mut self, db: u64, cursor: &str) -> Result<Page, Failure> {
        self.select(db)?;
        let reply = self.call(&["SCAN", cursor, "COUNT", "512"])?;
        let parts = match reply.as_list() {
            Some([cursor, keys]) => cursor.as_bytes().zip(keys.as_list()),
            _ => None,
        };
        let (cursor, keys) =
            parts.ok_or_else(|| format!("{}: SCAN: expected a cursor and keys", self.address))?;
        let keys = keys.iter().filter_map(Value::as_bytes).map(Box::from);
        Ok((String::from_utf8_lossy(cursor).into_owned(), keys.collect()))
    }
}

/// Returns a field of INFO.
pub(super) fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let found = fields.find(|(field, _)| *field == name)?;
    Some(found.1.trim_end())
}

/// Reads the numbers of keys in INFO, such as `db0:keys=2,expires=1`.
fn sizes(text: &str) -> Sizes {
    let number = |facts: &str, name: &str| {
        let mut facts = facts.split(',').filter_map(|fact| fact.split_once('='));
        let found = facts.find(|(fact, _)| *fact == name)?;
        found.1.trim().parse::<u64>().ok()
    };
    let lines = text.lines().filter_map(|line| line.strip_prefix("db"));
    let found = lines.filter_map(|line| {
        let (db, facts) = line.split_once(':')?;
        let keys = number(facts, "keys")?;
        Some((db.parse().ok()?, (keys, number(facts, "expires")?)))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_found_in_info() {
        let text = "# Keyspace\r\ndb0:keys=7,expires=2,avg_ttl=0\r\ndb12:keys=1,expires=0\r\n";
        let expected = [(0, (7, 2)), (12, (1, 0))];
        assert_eq!(sizes(text), BTreeMap::from(expected));
        assert!(sizes("dbx:keys=1\r\ndb1:keys=\r\n").is_empty());
        let text = "# Replication\r\nrole:master\r\nmaster_repl_offset:12\r\n";
        assert_eq!(field(text, "role"), Some("master"));
        assert_eq!(field(text, "rol"), None);
    }
}
