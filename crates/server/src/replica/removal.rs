//! Removal of expired entries on a replica.
//!
//! A replica hides entries that have expired by its own clock. It must not remove them by that
//! clock, because a later command of the primary, such as `PERSIST`, may have found the entry
//! alive. The removal therefore follows the primary. A Mayfly primary sends deletions on time.
//! Redis and Valkey may send them late; then the replica learns from a second connection that the
//! primary has reached an instant:
//!
//! ```text
//! TIME              ─▶ T
//! INFO replication  ─▶ position P of the history
//! ```
//!
//! The primary runs one command after the other, so every command after P runs later than T. Once
//! the replica has executed the history up to P, no later command finds an entry whose deadline
//! precedes T, regardless of the two clocks, and the replica removes these entries. A later
//! deletion by the primary finds nothing, which is harmless. A partial synchronization continues
//! the same history, so it did not need the removed entries either.
//!
//! The primary is queried only while something is due by the replica's own clock. A primary that is
//! itself a replica is not queried, because the commands did not run by its clock; nor is a Mayfly
//! primary, whose scripts and long commands on several threads run at the instant at which they
//! began.
//!
//! Keys written by clients of a writable replica expire by its own clock, because the primary does
//! not know them. A client's write removes expired entries that it finds.
//!
//! A replica that becomes a primary before the deletions have arrived also gives up the history
//! that it followed: its replicas and its append-only file need a snapshot.
//!
//! After [`FREES_AFTER`] without a connection, the replica removes entries by its own clock, and
//! gives up its position in the history: it requests a snapshot when the primary is back.

use super::stream::{Stream, line, refusal, send, wrong};
use crate::replication::primary;
use crate::state::Server;
use durability::replication::{ID_DIGITS, PrimaryState};
use session::clock::Clock;
use std::io::{self, BufReader, ErrorKind, Read};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use store::{Keyspace, Tick};

/// Time between two checks whether something is due.
const PAUSE: Duration = Duration::from_millis(50);
/// Time between two checks of a server that follows no primary or a Mayfly primary, and after an
/// error.
const LONG_PAUSE: Duration = Duration::from_secs(1);
/// Time without a connection after which a replica frees expired keys by its own clock.
pub const FREES_AFTER: Duration = Duration::from_secs(60);
/// Subtracted from the primary's time, because a command may have read the clock before TIME did.
const MARGIN_MS: u64 = 5;
/// Maximum length of a reply in bytes.
const REPLY_BYTES_MAX: u64 = 1 << 20;

/// State of the second connection.
struct Watch {
    connection: BufReader<Stream>,
    /// Number of the primary, see [`PrimaryState::number`].
    number: u64,
    /// An instant that takes effect once the history has reached a position.
    pending: Option<(u64, Tick)>,
}

/// Moves the removal limit of a replica forward until the server stops.
pub fn run(server: &Server) {
    let mut watch: Option<Watch> = None;
    let mut pause = LONG_PAUSE;
    let mut number = server.replication.number();
    while !server.lifecycle.stops() {
        server.replication.sleep(number, pause);
        number = server.replication.number();
        pause = LONG_PAUSE;
        let primary = server.replication.primary().filter(|p| p.is_connected);
        let Some(primary) = primary else {
            watch = None;
            continue;
        };
        if watch
            .as_ref()
            .is_some_and(|watch| watch.number != primary.number)
        {
            watch = None;
        }
        if !is_due(&server.data.keyspace, &server.clock) {
            pause = PAUSE;
            continue;
        }
        match observe(server, &primary, &mut watch) {
            Ok(true) => pause = PAUSE,
            Ok(false) => {}
            Err(error) => {
                log::debug!("the primary's time is not known: {error}");
                watch = None;
            }
        }
    }
}

/// Whether an entry is due by the own clock and not removed.
fn is_due(keyspace: &Keyspace, clock: &Clock) -> bool {
    let now = clock.now();
    let space = keyspace;
    (0..space.shard_count()).any(|shard| space.next_due(shard).is_some_and(|due| due < now))
}

/// Asks the primary, and moves the limit if the history has come far enough. Returns whether to ask
/// again soon.
fn observe(server: &Server, primary: &PrimaryState, watch: &mut Option<Watch>) -> io::Result<bool> {
    let watch = match watch {
        Some(watch) => watch,
        None => {
            let Some(connection) = connect(server, primary)? else {
                return Ok(false);
            };
            watch.insert(Watch {
                connection,
                number: primary.number,
                pending: None,
            })
        }
    };
    if watch.pending.is_none() {
        let time = ask_time(&mut watch.connection)?;
        let facts = ask_info(&mut watch.connection, "replication")?;
        let position = number_of(&facts, "master_repl_offset")?;
        let is_top = field_of(&facts, "role") == Some("master");
        let is_same = field_of(&facts, "master_replid") == Some(&server.replication.ids().0);
        if !is_top || !is_same {
            return Ok(false);
        }
        watch.pending = Some((position, Tick(time.saturating_sub(MARGIN_MS).max(1))));
    }
    if let Some((position, until)) = watch.pending
        && server.feed.end() >= position
    {
        watch.pending = None;
        let replication = &server.replication;
        let _applying = replication.lock_applying();
        let mut state = replication.state();
        if state.primary_number == watch.number {
            state.has_removed = true;
            drop(state);
            advance(server, until);
        }
    }
    Ok(true)
}

/// Moves the limit of a replica forward.
fn advance(server: &Server, until: Tick) {
    server.data.keyspace.set_removal_limit(Some(until));
    server.replication.removal_limits.fetch_add(1, Relaxed);
    server.workers.wake_all();
}

/// Opens the second connection. Returns `None` if the primary is a Mayfly.
fn connect(server: &Server, primary: &PrimaryState) -> io::Result<Option<BufReader<Stream>>> {
    let is_wanted = || server.replication.number() == primary.number && !server.lifecycle.stops();
    let address = (&primary.host[..], primary.port);
    let stream = Stream::open(&server.config, address, Duration::from_secs(5), is_wanted)?;
    let mut connection = BufReader::new(stream);
    if let Some(words) = Stream::login(&server.config) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        send(&mut connection, &words)?;
        let refused = |error: io::Error| match error.kind() {
            ErrorKind::InvalidData => wrong(&refusal("AUTH", &error.to_string())),
            _ => error,
        };
        line(&mut connection).map_err(refused)?;
    }
    let facts = ask_info(&mut connection, "server")?;
    Ok(field_of(&facts, "mayfly_version")
        .is_none()
        .then_some(connection))
}

fn bulk(connection: &mut BufReader<impl Read>) -> io::Result<String> {
    let head = line(connection)?;
    let len = head
        .strip_prefix('$')
        .and_then(|len| len.parse::<u64>().ok());
    let len = len
        .filter(|len| *len <= REPLY_BYTES_MAX)
        .ok_or_else(|| wrong("expected a string of at most 1 MiB"))?;
    let mut bytes = vec![0; len as usize + 2];
    connection.read_exact(&mut bytes)?;
    bytes.truncate(len as usize);
    String::from_utf8(bytes).map_err(|_| wrong("expected text"))
}

/// Returns the time in milliseconds.
fn ask_time(connection: &mut BufReader<Stream>) -> io::Result<u64> {
    send(connection, &["TIME"])?;
    if line(connection)? != "*2" {
        return Err(wrong("expected two numbers"));
    }
    let number = |text: String| text.parse::<u64>().map_err(|_| wrong("expected a number"));
    let (seconds, micros) = (number(bulk(connection)?)?, number(bulk(connection)?)?);
    Ok(seconds.saturating_mul(1000).saturating_add(micros / 1000))
}

fn ask_info(connection: &mut BufReader<Stream>, section: &str) -> io::Result<String> {
    send(connection, &["INFO", section])?;
    bulk(connection)
}

fn field_of<'f>(facts: &'f str, name: &str) -> Option<&'f str> {
    let mut fields = facts.lines().filter_map(|line| line.split_once(':'));
    fields.find(|field| field.0 == name).map(|field| field.1)
}

fn number_of(facts: &str, name: &str) -> io::Result<u64> {
    let text = field_of(facts, name);
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| wrong("expected a position"))
}

/// Removes entries by the replica's own clock if the connection to the primary was lost long ago
/// and something is due. The history is given up, because it may contain commands that need the
/// removed entries.
pub fn free_alone(server: &Server, down: Duration) {
    // A change of roles needs the history.
    let is_needed = server.replication.failover().is_some();
    if down < FREES_AFTER
        || is_needed
        || !server.data.keyspace.has_removal_limit()
        || !is_due(&server.data.keyspace, &server.clock)
    {
        return;
    }
    let new = primary::new_id();
    debug_assert_eq!(new.len(), ID_DIGITS);
    {
        let mut state = server.replication.state();
        (state.id, state.earlier) = (new, None);
        state.has_removed = true;
    }
    server.data.keyspace.set_removal_limit(None);
    log::info!(
        "the primary has been unreachable for {} s: what expires is removed by this server's \
         clock, and the next synchronization is a full one",
        down.as_secs()
    );
    server.workers.wake_all();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_and_damaged_ones_are_refused() {
        let read = |bytes: &[u8]| bulk(&mut BufReader::new(bytes));
        assert_eq!(read(b"$3\r\nabc\r\n").expect("a string"), "abc");
        for bytes in [
            &b""[..],
            b"$3\r\nab",
            b"$-1\r\n",
            b":1\r\n",
            b"-ERR no\r\n",
            b"$9999999\r\n",
        ] {
            assert!(read(bytes).is_err(), "{bytes:?}");
        }
        let facts = "# Replication\r\nrole:master\r\nmaster_repl_offset:12\r\n";
        assert_eq!(field_of(facts, "role"), Some("master"));
        assert_eq!(
            number_of(facts, "master_repl_offset").expect("a number"),
            12
        );
        assert!(number_of(facts, "role").is_err());
    }
}
