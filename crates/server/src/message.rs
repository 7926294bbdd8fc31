//! Messages between workers: connections to serve, publications to deliver, replies to blocked
//! clients, clients to disconnect.

use crate::clients::ClientInfo;
use mio::net::TcpStream;
use std::net::SocketAddr;
use std::sync::Arc;
use wire::Reply;

/// Protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortProtocol {
    /// Redis's protocol.
    Resp,
    /// memcached's protocol.
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
    /// Returns the size of the message on the heap in bytes.
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

/// A request of one worker to another.
pub enum Message {
    /// Serve this connection.
    Adopt(TcpStream, SocketAddr, PortProtocol),
    /// Send a publication to a subscriber, with the pattern through which it matched.
    Deliver(Subscriber, Arc<Publication>, Option<Arc<[u8]>>),
    /// Send these bytes to a client.
    Send(Subscriber, Arc<[u8]>),
    /// Send the line of a command to a client, if it still monitors.
    Monitor(Subscriber, Arc<[u8]>),
    /// Request a client to drop keys from its cache: an array of keys in RESP, or all keys if there
    /// is none. True if another client redirects its invalidations to this one.
    Invalidate(Subscriber, Option<Arc<[u8]>>, bool),
    /// Disconnect the client with this connection index and id.
    Kill(usize, u64),
    /// Send this reply to the blocked client with this connection index and id.
    Answer(usize, u64, Vec<u8>),
}
