//! Messages of PUBLISH for the other nodes of a cluster, until the links have taken them.
//!
//! All links share one queue, and each has a position in it, so that a message is stored once and
//! a publisher does the same work for any number of nodes, unless messages are dropped. What all
//! links have taken is freed. A publisher waits for no link: beyond [`BYTES_MAX`] the oldest
//! messages are dropped, and counted for each link that had not taken them.

use ::cluster::Name;
use session::feed::put_command;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// Maximum bytes of waiting messages, except that a single longer message may wait.
pub const BYTES_MAX: usize = 64 << 20;
/// Bytes that a link takes in one step, except that it takes at least one message.
const TAKEN_BYTES: usize = 256 << 10;

/// A link that has been established.
#[derive(Clone, Copy, Debug)]
struct Reader {
    /// Number of the next message that it takes, at least that of the first one in the queue.
    position: u64,
    /// Bytes of all messages before that one.
    taken_bytes: u64,
    /// Number of messages that were dropped and not reported yet.
    dropped: u64,
    /// Unix time in milliseconds at which it was established.
    since_ms: u64,
}

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Vec<u8>>,
    /// Number of the first message in the queue.
    first: u64,
    /// Bytes of the messages in the queue, and of all messages so far.
    bytes: usize,
    end_bytes: u64,
    readers: BTreeMap<Name, Reader>,
}

impl Queue {
    fn end(&self) -> u64 {
        self.first + self.messages.len() as u64
    }

    fn pop(&mut self) {
        if let Some(message) = self.messages.pop_front() {
            self.first += 1;
            self.bytes -= message.len();
        }
    }

    /// Frees the messages that all links have taken.
    fn free(&mut self) {
        let positions = self.readers.values().map(|reader| reader.position);
        let slowest = positions.min().unwrap_or(self.end());
        while self.first < slowest && !self.messages.is_empty() {
            self.pop();
        }
    }
}

/// A link as CLUSTER LINKS shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linked {
    /// Node at the other end.
    pub node: Name,
    /// Unix time in milliseconds at which the link was established.
    pub since_ms: u64,
    /// Bytes of the messages that it has not taken.
    pub waiting_bytes: usize,
}

/// The queue.
#[derive(Debug, Default)]
pub struct Outbox {
    queue: Mutex<Queue>,
    has_news: Notify,
    /// Number of messages that were sent, once for each link.
    pub sent: AtomicU64,
    /// Number of messages that other nodes have sent.
    pub received: AtomicU64,
    /// Number of messages that a link did not send, once for each link.
    pub dropped: AtomicU64,
    /// Number of other nodes with an address.
    pub wanted: AtomicU64,
}

impl Outbox {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("the lock is not poisoned")
    }

    /// Adds a message for the subscribers of all nodes to which there is a link.
    pub fn publish(&self, channel: &[u8], payload: &[u8]) {
        if self.link_count() == 0 {
            return;
        }
        let words: [&[u8]; 4] = [b"REPLCONF", b"CLUSTER-MESSAGE", channel, payload];
        let mut message = Vec::new();
        put_command(&mut message, words.into_iter());
        self.push(message, BYTES_MAX);
    }

    fn push(&self, message: Vec<u8>, bytes_max: usize) {
        let mut queue = self.queue();
        if queue.readers.is_empty() {
            return;
        }
        queue.bytes += message.len();
        queue.end_bytes += message.len() as u64;
        queue.messages.push_back(message);
        let before = queue.first;
        while queue.bytes > bytes_max && queue.messages.len() > 1 {
            queue.pop();
        }
        if queue.first > before {
            let (first, first_bytes) = (queue.first, queue.end_bytes - queue.bytes as u64);
            let late = queue.readers.values_mut();
            for reader in late.filter(|reader| reader.position < first) {
                let lost = first - reader.position;
                reader.dropped += lost;
                (reader.position, reader.taken_bytes) = (first, first_bytes);
                self.dropped.fetch_add(lost, Relaxed);
            }
        }
        drop(queue);
        self.has_news.notify_one();
    }

    /// Waits until there is a message. One task waits, and wakes the links.
    pub async fn has_news(&self) {
        self.has_news.notified().await;
    }

    /// Adds a link, which takes the messages that are published from now on.
    pub fn join(&self, node: Name, now_ms: u64) {
        let mut queue = self.queue();
        let reader = Reader {
            position: queue.end(),
            taken_bytes: queue.end_bytes,
            dropped: 0,
            since_ms: now_ms,
        };
        queue.readers.insert(node, reader);
        queue.free();
    }

    /// Removes a link. The messages that it has not taken are dropped. Returns the number of
    /// dropped messages that were not reported.
    pub fn leave(&self, node: Name) -> u64 {
        let mut queue = self.queue();
        let Some(reader) = queue.readers.remove(&node) else {
            return 0;
        };
        let lost = queue.end() - reader.position;
        queue.free();
        self.dropped.fetch_add(lost, Relaxed);
        reader.dropped + lost
    }

    /// Returns the links with dropped messages that were not reported, and their numbers.
    pub fn take_dropped(&self) -> Vec<(Name, u64)> {
        let mut queue = self.queue();
        let dropped = queue.readers.iter_mut().map(|(node, reader)| {
            let count = std::mem::take(&mut reader.dropped);
            (*node, count)
        });
        dropped.filter(|(_, count)| *count > 0).collect()
    }

    /// Appends waiting messages of a link to its output.
    pub fn take(&self, node: Name, out: &mut Vec<u8>) {
        let mut queue = self.queue();
        let Some(reader) = queue.readers.get(&node) else {
            return;
        };
        let (from, begin) = (reader.position, out.len());
        let mut next = from;
        for message in queue.messages.iter().skip((from - queue.first) as usize) {
            if next > from && out.len() - begin + message.len() > TAKEN_BYTES {
                break;
            }
            out.extend_from_slice(message);
            next += 1;
        }
        if let Some(reader) = queue.readers.get_mut(&node) {
            reader.position = next;
            reader.taken_bytes += (out.len() - begin) as u64;
        }
        if from == queue.first {
            queue.free();
        }
        self.sent.fetch_add(next - from, Relaxed);
    }

    /// Returns the number of established links.
    pub fn link_count(&self) -> usize {
        self.queue().readers.len()
    }

    /// Returns the established links.
    pub fn links(&self) -> Vec<Linked> {
        let queue = self.queue();
        let linked = queue.readers.iter().map(|(node, reader)| Linked {
            node: *node,
            since_ms: reader.since_ms,
            waiting_bytes: (queue.end_bytes - reader.taken_bytes) as usize,
        });
        linked.collect()
    }

    /// Returns the bytes of all waiting messages.
    pub fn waiting_bytes(&self) -> usize {
        self.queue().bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(number: u8) -> Name {
        let digits = format!("{number:x}").repeat(40);
        Name::parse(digits.as_bytes()).expect("40 digits")
    }

    #[test]
    fn a_message_reaches_each_link_that_was_established_before() {
        let outbox = Outbox::default();
        outbox.publish(b"news", b"nobody is linked");
        assert_eq!(outbox.waiting_bytes(), 0);
        outbox.join(name(1), 5);
        outbox.publish(b"news", b"x");
        outbox.join(name(2), 6);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let waiting = outbox
            .links()
            .iter()
            .map(|link| link.waiting_bytes)
            .collect::<Vec<_>>();
        assert_eq!(waiting, [outbox.waiting_bytes(), 0]);
        outbox.take(name(1), &mut first);
        outbox.take(name(2), &mut second);
        assert_eq!(
            first,
            b"*4\r\n$8\r\nREPLCONF\r\n$15\r\nCLUSTER-MESSAGE\r\n$4\r\nnews\r\n$1\r\nx\r\n"
        );
        assert!(second.is_empty() && outbox.waiting_bytes() == 0);
        outbox.take(name(3), &mut second);
        assert!(second.is_empty());
    }

    #[test]
    fn messages_beyond_the_bound_are_dropped_and_counted() {
        let outbox = Outbox::default();
        outbox.join(name(1), 0);
        outbox.join(name(2), 0);
        outbox.push(vec![1; 10], 20);
        let mut quick = Vec::new();
        outbox.take(name(1), &mut quick);
        assert_eq!(quick, vec![1; 10]);
        outbox.push(vec![2; 10], 20);
        outbox.push(vec![3; 10], 20);
        assert_eq!(outbox.waiting_bytes(), 20);
        // A longer one than the bound waits alone.
        outbox.push(vec![4; 30], 20);
        assert_eq!(outbox.waiting_bytes(), 30);
        let mut slow = Vec::new();
        outbox.take(name(2), &mut slow);
        assert_eq!(slow, vec![4; 30]);
        assert_eq!(outbox.take_dropped(), [(name(1), 2), (name(2), 3)]);
        assert_eq!(outbox.take_dropped(), []);
        // It has not taken the last one.
        assert_eq!(outbox.leave(name(1)), 1);
        assert_eq!(outbox.dropped.load(Relaxed), 6);
        assert_eq!((outbox.waiting_bytes(), outbox.link_count()), (0, 1));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push(usize),
        Join(u8),
        Leave(u8),
        Take(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (1..60usize).prop_map(Step::Push),
            (1..5u8).prop_map(Step::Join),
            (1..5u8).prop_map(Step::Leave),
            (1..5u8).prop_map(Step::Take),
        ]
    }

    proptest! {
        #[test]
        fn each_link_gets_what_a_queue_of_its_own_would_give(steps in prop::collection::vec(step(), 1..200)) {
            const MAX: usize = 150;
            let outbox = Outbox::default();
            // Lengths of all messages; for each link its next message, and how many were dropped.
            let (mut all, mut links) = (Vec::<usize>::new(), BTreeMap::<u8, (usize, u64)>::new());
            for step in steps {
                match step {
                    Step::Push(len) => {
                        outbox.push(vec![all.len() as u8; len], MAX);
                        all.push(len);
                        for (at, dropped) in links.values_mut() {
                            while all[*at..].iter().sum::<usize>() > MAX && *at + 1 < all.len() {
                                *at += 1;
                                *dropped += 1;
                            }
                        }
                    }
                    Step::Join(link) => {
                        outbox.join(name(link), 0);
                        links.insert(link, (all.len(), 0));
                    }
                    Step::Leave(link) => {
                        let left = links.remove(&link);
                        let lost = left.map_or(0, |(at, dropped)| dropped + (all.len() - at) as u64);
                        prop_assert_eq!(outbox.leave(name(link)), lost);
                    }
                    Step::Take(link) => {
                        let mut out = Vec::new();
                        outbox.take(name(link), &mut out);
                        let from = links.get(&link).map_or(all.len(), |(at, _)| *at);
                        let expected: Vec<u8> = (from..all.len()).flat_map(|n| vec![n as u8; all[n]]).collect();
                        prop_assert_eq!(out, expected);
                        links.entry(link).and_modify(|(at, _)| *at = all.len());
                    }
                }
                let slowest = links.values().map(|(at, _)| *at).min().unwrap_or(all.len());
                prop_assert_eq!(outbox.waiting_bytes(), all[slowest..].iter().sum::<usize>());
                let waiting = links.iter().map(|(link, (at, _))| (name(*link), all[*at..].iter().sum::<usize>()));
                let shown = outbox.links().into_iter().map(|link| (link.node, link.waiting_bytes));
                prop_assert_eq!(shown.collect::<Vec<_>>(), waiting.collect::<Vec<_>>());
            }
            let dropped = links.iter().map(|(link, (_, dropped))| (name(*link), *dropped));
            let dropped: Vec<_> = dropped.filter(|(_, count)| *count > 0).collect();
            prop_assert_eq!(outbox.take_dropped(), dropped);
        }
    }
}
