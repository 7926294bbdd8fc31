//! Effects of the commands of a batch that one worker runs while it holds all shards. They are
//! added to the feed together, because each append waits until the stores of the command before
//! have reached the cache, which otherwise overlap with the next command.
//!
//! Nobody else can change a key while all shards are held, so that the order of the feed stays that
//! of the changes. What is pending is added before anything else that the worker adds, before a
//! command that might look at the feed, and at the end of the client's batch, before its replies
//! are sent.

use crate::feed::{Batch, Feed};

/// Number of pending bytes from which on they are added to the feed.
const BYTES_MAX: usize = 32 << 10;
/// Length of a command in bytes from which on it is added at once, because to be pending is to be
/// copied.
const COMMAND_BYTES_MAX: usize = 4 << 10;

/// Commands that are not in the feed yet. Those that are left when it is dropped, by a panic, are
/// added.
pub struct Pending<'s> {
    feed: &'s Feed,
    batch: Batch,
}

impl<'s> Pending<'s> {
    /// Creates an empty list.
    pub fn new(feed: &'s Feed) -> Self {
        Pending {
            feed,
            batch: Batch::default(),
        }
    }

    /// Whether there are no commands.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Adds a command that changes a database. The caller holds all shards until the next
    /// [`Pending::flush`].
    pub fn add<'a>(&mut self, db: u8, args: impl ExactSizeIterator<Item = &'a [u8]> + Clone) {
        let bytes: usize = args.clone().map(<[u8]>::len).sum();
        if bytes >= COMMAND_BYTES_MAX {
            self.flush();
            return self.feed.append(db, args);
        }
        self.batch.add_iter(db, args);
        if self.batch.len() >= BYTES_MAX {
            self.flush();
        }
    }

    /// Adds the commands to the feed.
    #[inline]
    pub fn flush(&mut self) {
        if !self.batch.is_empty() {
            self.feed.append_separately(&mut self.batch);
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if self.feed.is_sound() {
            self.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::Taken;
    use std::time::Duration;

    /// Returns what the feed has added since the reader was.
    fn added(feed: &Feed, reader: u64) -> String {
        let mut bytes = Vec::new();
        while let Taken::Bytes(_) = feed.read(reader, &mut bytes, Duration::ZERO) {}
        String::from_utf8(bytes).expect("text")
    }

    fn set<'a>(value: &'a [u8]) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone {
        [&b"SET"[..], b"k", value].into_iter()
    }

    #[test]
    fn pending_commands_are_added_in_their_order_without_a_transaction() {
        let feed = Feed::default();
        let reader = feed.add_reader(0).expect("the feed is empty");
        let mut pending = Pending::new(&feed);
        pending.add(0, set(b"1"));
        pending.add(2, set(b"2"));
        assert_eq!(added(&feed, reader), "");
        pending.flush();
        feed.append(2, set(b"3"));
        let select = |db: u8| format!("*2\r\n$6\r\nSELECT\r\n$1\r\n{db}\r\n");
        let set = |value: u8| format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n{value}\r\n");
        let expected = [select(0), set(1), select(2), set(2), set(3)].concat();
        assert_eq!(added(&feed, reader), expected);
    }

    #[test]
    fn a_long_command_is_added_behind_what_is_pending() {
        let feed = Feed::default();
        let reader = feed.add_reader(0).expect("the feed is empty");
        let mut pending = Pending::new(&feed);
        pending.add(0, set(b"1"));
        pending.add(0, set(&[b'x'; COMMAND_BYTES_MAX]));
        assert!(pending.is_empty());
        let text = added(&feed, reader);
        assert!(text.find("$1\r\n1\r\n") < text.find("xxx"), "{text}");
    }

    #[test]
    fn pending_bytes_are_bounded() {
        let feed = Feed::default();
        let mut pending = Pending::new(&feed);
        let value = [b'x'; 1000];
        for _ in 0..200 {
            pending.add(0, set(&value));
            assert!(pending.batch.heap_bytes() <= 4 * BYTES_MAX);
        }
        assert!(feed.end() >= 160_000);
    }

    #[test]
    fn what_is_pending_at_a_panic_is_added() {
        let feed = Feed::default();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut pending = Pending::new(&feed);
            pending.add(0, set(b"1"));
            std::panic::resume_unwind(Box::new("a command"));
        }));
        assert!(panicked.is_err());
        assert!(feed.end() > 0);
    }
}
