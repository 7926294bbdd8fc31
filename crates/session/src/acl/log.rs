//! The log of denied commands and failed authentications (ACL LOG).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

/// Time within which equal events are counted in one entry, in milliseconds.
const SAME_MS: u64 = 60_000;
/// Number of the newest entries that are searched for an equal event.
const SEARCHED: usize = 10;
/// Maximum number of bytes of a key, a channel or a user's name in an entry.
const NAME_BYTES_MAX: usize = 128;

/// Reason of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The user may not run the command.
    Command,
    /// The user may not access a key.
    Key,
    /// The user may not use a channel.
    Channel,
    /// An authentication failed.
    Authentication,
    /// The name in a client's certificate does not belong to an enabled user.
    Certificate,
}

impl Reason {
    /// Returns the name in ACL LOG.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Channel => "channel",
            Reason::Authentication => "auth",
            Reason::Certificate => "tls-cert",
        }
    }
}

/// Context of a denied command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// The client sent it.
    TopLevel,
    /// The command was part of a transaction.
    Transaction,
    /// A script called it.
    Script,
}

impl Context {
    /// Returns the name in ACL LOG.
    pub fn name(self) -> &'static str {
        match self {
            Context::TopLevel => "toplevel",
            Context::Transaction => "multi",
            Context::Script => "lua",
        }
    }
}

/// An event to record.
#[derive(Debug)]
pub struct Event<'a> {
    /// Reason.
    pub reason: Reason,
    /// Context of the command.
    pub context: Context,
    /// Name of the command, the key or the channel.
    pub object: &'a [u8],
    /// Name of the user.
    pub user: &'a [u8],
    /// Line of the client in CLIENT LIST.
    pub client: String,
    /// Time in milliseconds.
    pub now_ms: u64,
}

/// An entry of the log.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Number of equal events.
    pub count: u64,
    /// Reason.
    pub reason: Reason,
    /// Context of the command.
    pub context: Context,
    /// Name of the command, the key or the channel, shortened.
    pub object: Vec<u8>,
    /// Name of the user, shortened.
    pub user: Vec<u8>,
    /// Line in CLIENT LIST of the last client.
    pub client: String,
    /// Number of the entry, counted since the server's start.
    pub id: u64,
    /// Time of the first event in milliseconds.
    pub created_ms: u64,
    /// Time of the last event in milliseconds.
    pub updated_ms: u64,
}

/// The newest events, the last one first, and the number of all events by reason.
#[derive(Debug, Default)]
pub struct Log {
    entries: Mutex<VecDeque<Entry>>,
    next_id: AtomicU64,
    counts: [AtomicU64; 5],
}

impl Log {
    fn entries(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.entries.lock().expect("the lock is not poisoned")
    }

    /// Returns the number of events with this reason.
    pub fn count(&self, reason: Reason) -> u64 {
        self.counts[reason as usize].load(Relaxed)
    }

    /// Records an event and keeps at most `len_max` entries.
    pub fn add(&self, event: Event<'_>, len_max: usize) {
        self.counts[event.reason as usize].fetch_add(1, Relaxed);
        let (object, user) = (cut(event.object), cut(event.user));
        let mut entries = self.entries();
        let is_same = |entry: &Entry| {
            (entry.reason, entry.context) == (event.reason, event.context)
                && event.now_ms.abs_diff(entry.updated_ms) <= SAME_MS
                && (&entry.object, &entry.user) == (&object, &user)
        };
        let found = entries.iter().take(SEARCHED).position(is_same);
        let entry = match found.and_then(|place| entries.remove(place)) {
            Some(entry) => Entry {
                count: entry.count + 1,
                client: event.client,
                updated_ms: event.now_ms,
                ..entry
            },
            None => Entry {
                count: 1,
                reason: event.reason,
                context: event.context,
                object,
                user,
                client: event.client,
                id: self.next_id.fetch_add(1, Relaxed),
                created_ms: event.now_ms,
                updated_ms: event.now_ms,
            },
        };
        entries.push_front(entry);
        entries.truncate(len_max);
    }

    /// Returns the newest `count` entries.
    pub fn newest(&self, count: usize) -> Vec<Entry> {
        self.entries().iter().take(count).cloned().collect()
    }

    /// Removes all entries.
    pub fn reset(&self) {
        self.entries().clear();
    }
}

/// Returns the beginning of a name, with the number of omitted bytes.
fn cut(name: &[u8]) -> Vec<u8> {
    let mut short = name[..name.len().min(NAME_BYTES_MAX)].to_vec();
    if name.len() > short.len() {
        let rest = name.len() - short.len();
        short.extend_from_slice(format!("... ({rest} more bytes)").as_bytes());
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(object: &[u8], now_ms: u64) -> Event<'_> {
        Event {
            reason: Reason::Key,
            context: Context::TopLevel,
            object,
            user: b"u",
            client: format!("at {now_ms}"),
            now_ms,
        }
    }

    #[test]
    fn equal_events_within_a_minute_are_one_entry_and_the_log_has_a_maximum() {
        let log = Log::default();
        for (object, now_ms) in [(b"a", 0), (b"b", 1), (b"a", 60_000), (b"b", 60_002)] {
            log.add(event(object, now_ms), 3);
        }
        let shown: Vec<_> = log
            .newest(10)
            .into_iter()
            .map(|entry| (entry.object, entry.count, entry.id, entry.client))
            .collect();
        assert_eq!(
            shown,
            [
                (b"b".to_vec(), 1, 2, "at 60002".to_owned()),
                (b"a".to_vec(), 2, 0, "at 60000".to_owned()),
                (b"b".to_vec(), 1, 1, "at 1".to_owned()),
            ]
        );
        log.add(event(&[b'x'; 1000], 60_003), 3);
        assert_eq!(log.newest(10).len(), 3);
        assert!(log.newest(1)[0].object.ends_with(b"... (872 more bytes)"));
        assert_eq!(log.count(Reason::Key), 5);
        log.add(event(b"a", 60_004), 0);
        assert!(log.newest(10).is_empty());
    }
}
