//! Messages between workers: connections to serve, publications to deliver, replies to blocked
//! clients, clients to disconnect.

use crate::clients::ClientInfo;
use crate::long::Job;
use crate::socket::{Peer, Stream};
use std::sync::{Arc, OnceLock};
use store::Loan;
use wire::rdb::Version;
use wire::{Output, Protocol, Reply};

/// A complete snapshot file.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Number of keys.
    pub keys: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Version of the file's format.
    pub version: Version,
}

/// Protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortProtocol {
    /// Redis's protocol.
    Resp,
    /// memcached's protocol.
    Memcached,
}

/// Protocol that clients use on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Protocol of requests and replies.
    pub protocol: PortProtocol,
    /// Whether connections are encrypted.
    pub has_tls: bool,
}

/// A subscribed connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscriber {
    /// Index of the worker that serves the connection.
    pub worker: usize,
    /// Index of the connection in that worker.
    pub slot: usize,
    /// Client id. It prevents delivery to a later connection at the same index.
    pub client: u64,
}

impl Subscriber {
    /// Returns the address of a client.
    pub fn of(info: &ClientInfo) -> Subscriber {
        Subscriber {
            worker: info.worker,
            slot: info.slot,
            client: info.id,
        }
    }
}

/// Messages of one subscription, encoded once and shared by all its subscribers.
#[derive(Debug, Default)]
pub struct Publication {
    /// The messages in RESP2, one after the other.
    resp2: Output,
    /// Offset of each message but the first.
    starts: Vec<u32>,
    /// The messages in RESP3, encoded for the first subscriber that uses it.
    resp3: OnceLock<Vec<u8>>,
}

impl Publication {
    /// Adds a message. `pattern` is the pattern through which the subscribers receive it.
    pub fn push(&mut self, source: Source<'_>, channel: &[u8], payload: &[u8]) {
        assert!(self.resp3.get().is_none(), "it has not been sent");
        if !self.resp2.is_empty() {
            let start = u32::try_from(self.resp2.len());
            self.starts
                .push(start.expect("an output is shorter than 4 GiB"));
        }
        let mut reply = Reply::new(&mut self.resp2, Protocol::Resp2);
        reply.push(if matches!(source, Source::Pattern(_)) {
            4
        } else {
            3
        });
        match source {
            Source::Channel => reply.bulk(b"message"),
            Source::Shard => reply.bulk(b"smessage"),
            Source::Pattern(pattern) => {
                reply.bulk(b"pmessage");
                reply.bulk(pattern);
            }
        }
        reply.bulk(channel);
        reply.bulk(payload);
    }

    /// Whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.resp2.is_empty()
    }

    /// Returns the size of the messages in bytes.
    pub fn bytes(&self) -> usize {
        self.resp2.len()
    }

    /// Returns the messages as a subscriber receives them. The protocols differ in the first byte
    /// of each message.
    pub fn encoded(&self, protocol: Protocol) -> &[u8] {
        match protocol {
            Protocol::Resp2 => &self.resp2,
            Protocol::Resp3 => self.resp3.get_or_init(|| {
                let mut bytes = self.resp2.to_vec();
                for &start in [0].iter().chain(&self.starts) {
                    if let Some(byte) = bytes.get_mut(start as usize) {
                        *byte = b'>';
                    }
                }
                bytes
            }),
        }
    }
}

/// Kind of the subscription through which a message is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// A channel.
    Channel,
    /// A shard channel.
    Shard,
    /// A pattern.
    Pattern(&'a [u8]),
}

/// A request of one worker to another.
pub enum Message {
    /// Serve this connection.
    Adopt(Stream, Peer, Port),
    /// Send messages to a subscriber.
    Deliver(Subscriber, Arc<Publication>),
    /// Send these bytes to a client.
    Send(Subscriber, Arc<[u8]>),
    /// Send the line of a command to a client, if it still monitors.
    Monitor(Subscriber, Arc<[u8]>),
    /// Request a client to drop keys from its cache: an array of keys in RESP, or all keys if there
    /// is no array. The flag is true if another client redirects its invalidations to this one.
    Invalidate(Subscriber, Option<Arc<[u8]>>, bool),
    /// Disconnect the client with this connection index and id.
    Kill(usize, u64),
    /// Send this reply to the blocked client with this connection index and id.
    Answer(usize, u64, Output),
    /// Reset the timer of the blocked client with this connection index and id, because the time of
    /// its next attempt has changed.
    Plan(usize, u64),
    /// Put back the values of this long command, which has run, and send its reply.
    Finished(Box<Job>),
    /// Put back this value, which the snapshot thread has encoded.
    Returned(Box<Loan>),
    /// End the snapshot with this number. The error is a message for the log.
    Saved(u32, Result<Written, String>),
    /// Load the snapshot file, and reply to this client. The file's keys replace the current ones,
    /// or are added to them if the last value is false.
    Reload(Subscriber, Protocol, bool),
    /// End the subscriptions to shard channels in slots that another node of the cluster owns.
    LostSlots,
}

impl Message {
    /// Returns the number of bytes that the message occupies in an inbox.
    pub fn bytes(&self) -> usize {
        let held = match self {
            Message::Deliver(_, publication) => publication.bytes(),
            Message::Send(_, bytes) | Message::Monitor(_, bytes) => bytes.len(),
            Message::Invalidate(_, keys, _) => keys.as_ref().map_or(0, |keys| keys.len()),
            Message::Answer(_, _, reply) => reply.len(),
            Message::Finished(job) => job.reply.len(),
            Message::Adopt(..)
            | Message::Kill(..)
            | Message::Plan(..)
            | Message::Returned(_)
            | Message::Reload(..)
            | Message::LostSlots
            | Message::Saved(..) => 0,
        };
        held + size_of::<Message>()
    }

    /// Whether the message may be refused for lack of space. The client is disconnected in that
    /// case.
    pub fn may_be_refused(&self) -> bool {
        match self {
            Message::Deliver(..)
            | Message::Send(..)
            | Message::Monitor(..)
            | Message::Invalidate(..) => true,
            Message::Answer(..)
            | Message::Finished(_)
            | Message::Adopt(..)
            | Message::Kill(..)
            | Message::Plan(..)
            | Message::Returned(_)
            | Message::Reload(..)
            | Message::LostSlots
            | Message::Saved(..) => false,
        }
    }
}
