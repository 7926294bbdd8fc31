//! A client of a cluster that follows redirections and survives failovers.

use crate::client::Client;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use wire::Value;

/// Time limit of one attempt. Failures of processes are seen at once; the limit is for a node that
/// holds a command.
const ATTEMPT: Duration = Duration::from_secs(5);
/// Pause before another attempt.
const RETRY_PAUSE: Duration = Duration::from_millis(2);

pub(super) struct Router {
    label: String,
    addresses: Vec<SocketAddr>,
    /// Number of the node that is asked.
    at: usize,
    client: Option<Client>,
    reads_replicas: bool,
}

/// A reply, and the number of the node that gave it.
pub(super) struct Answer {
    pub reply: Value,
    pub node: usize,
}

impl Router {
    /// Returns a client that first asks a node by its number.
    pub(super) fn new(label: &str, addresses: Vec<SocketAddr>, at: usize) -> Router {
        Router {
            label: label.into(),
            addresses,
            at,
            client: None,
            reads_replicas: false,
        }
    }

    /// Returns the client with leave to read from replicas (READONLY).
    pub(super) fn of_replicas(mut self) -> Router {
        self.reads_replicas = true;
        self
    }

    /// Sends a command until a node executes it; `None` if none has by this time.
    pub(super) fn persist(&mut self, command: &[&[u8]], until: Instant) -> Option<Answer> {
        while Instant::now() < until {
            match self.attempt(command) {
                Some(reply) if reply.as_error().is_none() => {
                    let node = self.at;
                    return Some(Answer { reply, node });
                }
                Some(refusal) if self.follow(&refusal) => {}
                _ => {
                    self.client = None;
                    self.at = (self.at + 1) % self.addresses.len();
                    std::thread::sleep(RETRY_PAUSE);
                }
            }
        }
        None
    }

    fn attempt(&mut self, command: &[&[u8]]) -> Option<Value> {
        if self.client.is_none() {
            let mut client = Client::connect(&self.label, self.addresses[self.at]).ok()?;
            if self.reads_replicas {
                client.call(&["READONLY"]).ok()?;
            }
            self.client = Some(client);
        }
        let client = self.client.as_mut()?;
        client.queue(command);
        client.flush().ok()?;
        client.receive_within(ATTEMPT).ok()?
    }

    /// Follows a redirection. Returns false if the reply is none.
    fn follow(&mut self, reply: &Value) -> bool {
        let Some(at) = redirection(reply, &self.addresses) else {
            return false;
        };
        if at == self.at {
            return false;
        }
        self.at = at;
        self.client = None;
        true
    }
}

/// Returns the number of the node that a redirection names.
pub(super) fn redirection(reply: &Value, addresses: &[SocketAddr]) -> Option<usize> {
    let text = std::str::from_utf8(reply.as_error()?).ok()?;
    let address = text.strip_prefix("MOVED ")?.split(' ').nth(1)?;
    let address: SocketAddr = address.parse().ok()?;
    addresses.iter().position(|known| *known == address)
}
