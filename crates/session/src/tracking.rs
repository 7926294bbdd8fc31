//! Clients that cache keys (CLIENT TRACKING): their registry, and the delivery of invalidations.
//!
//! The store records which keys a client has read, and queues an invalidation when such a key is
//! changed, expires or is evicted (`store::Invalidation`). [`TrackingClients::send`] groups queued
//! invalidations by receiver, so that a client gets one message with all keys. A message takes the
//! same path as a publication: through the inbox of the receiver's worker, after the replies
//! written before the change.

use crate::clients::{ClientInfo, Registry, flag};
use crate::inbox::Inbox;
use crate::message::{Message, Subscriber};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use store::{Invalidation, InvalidationCause, Tracking};
use wire::{Output, Protocol, Reply};

/// Channel through which a client with RESP2 receives invalidations that another client redirects
/// to it.
pub const CHANNEL: &[u8] = b"__redis__:invalidate";

/// Maximum number of prefixes of a client.
pub const PREFIXES_MAX: usize = 4096;

/// Keys that a client is notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// The keys that it has read.
    #[default]
    Reads,
    /// The keys that it has read with a command after CLIENT CACHING YES.
    OptIn,
    /// The keys that it has read, except with a command after CLIENT CACHING NO.
    OptOut,
    /// All keys that begin with one of its prefixes, even if the client has not read them (BCAST).
    Broadcast,
}

/// Options of one client's CLIENT TRACKING.
#[derive(Clone, Debug, Default)]
pub struct TrackingOptions {
    /// Keys that the client is notified of.
    pub mode: Mode,
    /// Whether the client is not notified of keys that it changes itself.
    pub is_noloop: bool,
    /// Id of the client that receives the invalidations; 0 means the client itself.
    pub redirect: u64,
    /// Prefixes of [`Mode::Broadcast`] in ascending order. None begins with another one; an empty
    /// prefix includes all keys. There are at most [`PREFIXES_MAX`].
    pub prefixes: Vec<Vec<u8>>,
    /// Last CLIENT CACHING, until the end of the next command or transaction.
    pub caching: Option<bool>,
}

impl TrackingOptions {
    /// Whether the keys that the current command reads are tracked.
    pub fn tracks_reads(&self) -> bool {
        match self.mode {
            Mode::Reads => true,
            Mode::OptIn => self.caching == Some(true),
            Mode::OptOut => self.caching != Some(false),
            Mode::Broadcast => false,
        }
    }

    /// Returns the bytes that the prefixes take on the heap, here and in the table of all clients.
    pub fn heap_bytes(&self) -> usize {
        let prefixes = self.prefixes.iter();
        2 * prefixes.map(|prefix| prefix.len() + 64).sum::<usize>()
    }

    fn wants(&self, key: &[u8], cause: InvalidationCause, is_writer: bool) -> bool {
        if self.is_noloop && is_writer && cause == InvalidationCause::Command {
            return false;
        }
        self.mode != Mode::Broadcast || has_prefix(&self.prefixes, key)
    }
}

/// Whether a key begins with one of these prefixes, which are in ascending order and none of which
/// begins with another one. Only the greatest prefix that is not greater than the key can match:
/// any prefix between the two would begin with the same bytes.
fn has_prefix(prefixes: &[Vec<u8>], key: &[u8]) -> bool {
    let end = prefixes.partition_point(|prefix| prefix.as_slice() <= key);
    prefixes[..end]
        .last()
        .is_some_and(|prefix| key.starts_with(prefix))
}

#[derive(Debug)]
struct Receiver {
    info: Arc<ClientInfo>,
    options: TrackingOptions,
}

/// All clients that cache keys.
#[derive(Debug, Default)]
pub struct TrackingClients {
    all: RwLock<BTreeMap<u64, Receiver>>,
    count: AtomicUsize,
    /// Held while the registry and the keyspace's state are changed together. It is never taken
    /// while a shard is locked.
    change: Mutex<()>,
}

impl TrackingClients {
    /// Whether a client caches keys.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Returns the number of clients and the number of distinct prefixes.
    pub fn counts(&self) -> (usize, usize) {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        let mut prefixes: Vec<&[u8]> = all
            .values()
            .flat_map(|receiver| &receiver.options.prefixes)
            .map(Vec::as_slice)
            .collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        (all.len(), prefixes.len())
    }

    /// Registers a client, or removes it without options. Passes the resulting state to `apply`,
    /// which sets it in the keyspace. No shard may be locked.
    pub fn set(
        &self,
        info: &Arc<ClientInfo>,
        options: Option<TrackingOptions>,
        apply: impl FnOnce(Tracking),
    ) {
        let _change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let state = {
            let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
            let flags = match &options {
                None => 0,
                Some(options) if options.mode == Mode::Broadcast => {
                    flag::TRACKING | flag::BROADCAST
                }
                Some(_) => flag::TRACKING,
            };
            let redirect = options.as_ref().map_or(-1, |o| o.redirect as i64);
            info.redirect.store(redirect, Relaxed);
            let cleared = flag::TRACKING | flag::BROADCAST | flag::BROKEN_REDIRECT;
            info.flags.fetch_and(!cleared, Relaxed);
            info.flags.fetch_or(flags, Relaxed);
            match options {
                Some(options) => drop(all.insert(
                    info.id,
                    Receiver {
                        info: Arc::clone(info),
                        options,
                    },
                )),
                None => drop(all.remove(&info.id)),
            }
            self.count.store(all.len(), Relaxed);
            let broadcasts = |receiver: &Receiver| receiver.options.mode == Mode::Broadcast;
            match all.values().any(broadcasts) {
                true => Tracking::Broadcasts,
                false if all.is_empty() => Tracking::Off,
                false => Tracking::Reads,
            }
        };
        apply(state);
    }

    /// Sends invalidations to the clients that cache the keys. `writer` is the client whose command
    /// caused them, or 0.
    pub fn send(
        &self,
        inboxes: &[Inbox],
        clients: &Registry,
        invalidations: &[Invalidation],
        writer: u64,
    ) {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        if invalidations.iter().any(|i| i.key.is_none()) {
            all.values()
                .for_each(|r| deliver(inboxes, clients, r, None));
        }
        let mut keys: BTreeMap<u64, Vec<&[u8]>> = BTreeMap::new();
        let broadcasts: Vec<u64> = all
            .iter()
            .filter(|(_, receiver)| receiver.options.mode == Mode::Broadcast)
            .map(|(id, _)| *id)
            .collect();
        for Invalidation {
            key,
            readers,
            cause,
        } in invalidations
        {
            let Some(key) = key else { continue };
            // A client that broadcasts may have read keys before it switched.
            let readers = readers.iter().filter(|id| !broadcasts.contains(id));
            for id in readers.chain(&broadcasts) {
                let receiver = all.get(id);
                if receiver.is_some_and(|r| r.options.wants(key, *cause, *id == writer)) {
                    keys.entry(*id).or_default().push(key);
                }
            }
        }
        for (id, mut keys) in keys {
            if let Some(receiver) = all.get(&id) {
                keys.sort_unstable();
                keys.dedup();
                let mut array = Output::default();
                let mut reply = Reply::new(&mut array, Protocol::Resp2);
                reply.array(keys.len());
                keys.into_iter().for_each(|key| reply.bulk(key));
                // An array that is too long is replaced by the request to drop all keys.
                let keys = (!array.is_cut_off()).then(|| Arc::from(&array[..]));
                deliver(inboxes, clients, receiver, keys);
            }
        }
    }
}

/// Sends an array of keys, or the request to drop all keys, to a client or to the client that it
/// redirects to.
fn deliver(inboxes: &[Inbox], clients: &Registry, receiver: &Receiver, keys: Option<Arc<[u8]>>) {
    let info = &receiver.info;
    let is_redirected = receiver.options.redirect != 0;
    let to = match is_redirected {
        false => Subscriber::of(info),
        true => match clients.get(receiver.options.redirect) {
            Some(other) => Subscriber::of(&other),
            None => return report_broken(inboxes, receiver),
        },
    };
    let message = Message::Invalidate(to, keys, is_redirected);
    push(inboxes, to, message);
}

/// Informs a client with RESP3 that the client it redirects to is gone.
fn report_broken(inboxes: &[Inbox], receiver: &Receiver) {
    let info = &receiver.info;
    info.flags.fetch_or(flag::BROKEN_REDIRECT, Relaxed);
    if info.resp.load(Relaxed) < 3 {
        return;
    }
    let mut text = Output::default();
    let mut reply = Reply::new(&mut text, Protocol::Resp3);
    reply.push(2);
    reply.bulk(b"tracking-redir-broken");
    reply.integer(receiver.options.redirect as i64);
    let to = Subscriber::of(info);
    push(inboxes, to, Message::Send(to, Arc::from(&text[..])));
}

/// Adds a message to the inbox of the receiver's worker. A receiver whose message does not fit is
/// disconnected, which makes it drop its cache.
fn push(inboxes: &[Inbox], to: Subscriber, message: Message) {
    if let Some(inbox) = inboxes.get(to.worker)
        && !inbox.push(to.worker, message)
    {
        inbox.push(to.worker, Message::Kill(to.slot, to.client));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_found_among_sorted_ones_as_by_comparing_with_each() {
        let mut prefixes: Vec<Vec<u8>> = [
            "a:", "ab", "b", "ca", "cb:", "cc:1", "cc:2", "d:\u{7f}", "e\u{7f}",
        ]
        .iter()
        .map(|text| text.as_bytes().to_vec())
        .collect();
        prefixes.sort_unstable();
        let mut keys = vec![Vec::new()];
        for _ in 0..4 {
            let longer = |key: &Vec<u8>| {
                let bytes = b":12abcde\x7f".iter();
                let key = key.clone();
                bytes.map(move |byte| [key.as_slice(), &[*byte]].concat())
            };
            let more: Vec<Vec<u8>> = keys.iter().flat_map(longer).collect();
            keys.extend(more);
            keys.sort_unstable();
            keys.dedup();
        }
        for key in &keys {
            let expected = prefixes.iter().any(|prefix| key.starts_with(prefix));
            assert_eq!(has_prefix(&prefixes, key), expected, "{key:?}");
        }
        assert!(has_prefix(&[Vec::new()], b"") && has_prefix(&[Vec::new()], b"k"));
        assert!(!has_prefix(&[], b"k"));
    }
}
