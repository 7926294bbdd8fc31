//! Messages between workers: connections to serve, publications to deliver, replies to clients that
//! waited, clients to cut off.

use mio::net::TcpStream;
use std::net::SocketAddr;
use std::sync::Arc;
use wire::Reply;

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    /// Redis's.
    Resp,
    /// memcached's.
    Memcached,
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

/// One message, shared by all its receivers.
#[derive(Debug)]
pub struct Publication {
    /// Channel that it was published to.
    pub channel: Box<[u8]>,
    /// Content of the message.
    pub payload: Box<[u8]>,
    /// Whether it was published with SPUBLISH.
    pub is_sharded: bool,
}

impl Publication {
    /// Returns its size on the heap in bytes.
    pub fn bytes(&self) -> usize {
        self.channel.len() + self.payload.len()
    }

    /// Encodes the message for one subscriber. `pattern` is the pattern through which it matched.
    pub fn write(&self, pattern: Option<&[u8]>, reply: &mut Reply<'_>) {
        reply.push(if pattern.is_some() { 4 } else { 3 });
        match pattern {
            Some(pattern) => {
                reply.bulk(b"pmessage");
                reply.bulk(pattern);
            }
            None if self.is_sharded => reply.bulk(b"smessage"),
            None => reply.bulk(b"message"),
        }
        reply.bulk(&self.channel);
        reply.bulk(&self.payload);
    }
}

/// What one worker asks another to do.
pub enum Message {
    /// Serve this connection.
    Adopt(TcpStream, SocketAddr, Speech),
    /// Send this to a subscriber; with the pattern through which it comes.
    Deliver(Subscriber, Arc<Publication>, Option<Arc<[u8]>>),
    /// Cut off a client: its place, its id.
    Kill(usize, u64),
    /// End the wait of a client with this reply: its place, its id.
    Answer(usize, u64, Vec<u8>),
}
