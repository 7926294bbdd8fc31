//! The target: stores states of keys on the primaries of their slots.

use super::connection::Connection;
use super::item::{Item, read_states};
use super::layout::Layout;
use super::{Failure, Side};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use wire::Value;
use wire::slot::slot;

/// Time for which keys are sent again, if none is stored.
const PATIENCE: Duration = Duration::from_secs(15);
/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// Beginnings of errors after which the same keys are sent again: the slots move, or a node is
/// replaced.
const PASSING: [&str; 9] = [
    "MOVED",
    "ASK",
    "TRYAGAIN",
    "CLUSTERDOWN",
    "LOADING",
    "READONLY",
    "MASTERDOWN",
    "UNCONFIRMED",
    "BUSY ",
];

/// Connections to the primaries of the target.
pub(super) struct Target<'a> {
    side: &'a Side,
    pub layout: Layout,
    stops: &'a AtomicBool,
    connections: HashMap<usize, Connection>,
    /// Number of connections that have failed. A node that has restarted, or its successor, may
    /// lack what was stored.
    pub failures: u64,
}

impl<'a> Target<'a> {
    pub fn new(side: &'a Side, layout: Layout, stops: &'a AtomicBool) -> Target<'a> {
        Target {
            side,
            layout,
            stops,
            connections: HashMap::new(),
            failures: 0,
        }
    }

    /// Returns a connection to a node.
    pub fn node(&mut self, index: usize) -> Result<&mut Connection, Failure> {
        if !self.connections.contains_key(&index) {
            let node = self.layout.nodes.get(index);
            let node = node.ok_or_else(|| "the nodes of the target have changed".to_owned())?;
            let connection = Connection::open(self.side, &node.host, node.port)?;
            self.connections.insert(index, connection);
        }
        Ok(self.connections.get_mut(&index).expect("it was inserted"))
    }

    /// Stores the states of keys of a database. What a node refuses for the moment is sent again.
    pub fn store(&mut self, db: u64, items: &[Item]) -> Result<(), Failure> {
        let mut left: Vec<&Item> = items.iter().collect();
        let mut progressed_at = Instant::now();
        loop {
            let before = left.len();
            let mut why = String::new();
            left = self.attempt(db, left, &mut why)?;
            if left.is_empty() {
                return Ok(());
            }
            if left.len() < before {
                progressed_at = Instant::now();
            }
            if progressed_at.elapsed() > PATIENCE || self.stops.load(Relaxed) {
                return Err(why);
            }
            std::thread::sleep(PAUSE);
            self.refresh();
        }
    }

    /// Reads keys of a database, each on the node that has it now. Returns them in any order.
    pub fn read(&mut self, db: u64, keys: &[&[u8]]) -> Result<Vec<Item>, Failure> {
        let begun = Instant::now();
        loop {
            match self.try_read(db, keys) {
                Err(error) if begun.elapsed() > PATIENCE || self.stops.load(Relaxed) => {
                    return Err(error);
                }
                Err(_) => {}
                items => return items,
            }
            // Replies may be on their way.
            self.connections.clear();
            self.failures += 1;
            std::thread::sleep(PAUSE);
            self.refresh();
        }
    }

    fn try_read(&mut self, db: u64, keys: &[&[u8]]) -> Result<Vec<Item>, Failure> {
        let mut by_node: HashMap<usize, Vec<&[u8]>> = HashMap::new();
        for key in keys {
            let slot = slot(key);
            let owner = self.layout.owner(slot);
            let owner = owner.ok_or_else(|| format!("slot {slot} has no owner in the target"))?;
            by_node.entry(owner).or_default().push(key);
        }
        let mut items = Vec::new();
        for (owner, keys) in by_node {
            items.extend(read_states(self.node(owner)?, db, keys.into_iter())?);
        }
        Ok(items)
    }

    /// Reads the layout again, from the first node that answers.
    fn refresh(&mut self) {
        let mut places = vec![(self.side.host.clone(), self.side.port)];
        places.extend(self.layout.nodes.iter().map(|n| (n.host.clone(), n.port)));
        for (host, port) in places {
            let read = Connection::open(self.side, &host, port)
                .and_then(|mut connection| Layout::read(&mut connection, self.side));
            if let Ok(layout) = read {
                if layout != self.layout {
                    (self.layout, self.connections) = (layout, HashMap::new());
                }
                return;
            }
        }
    }

    /// Sends states to all nodes, and then reads their replies. Returns the items that were not
    /// stored, and the reason for one of them.
    fn attempt<'i>(
        &mut self,
        db: u64,
        items: Vec<&'i Item>,
        why: &mut String,
    ) -> Result<Vec<&'i Item>, Failure> {
        let mut by_node: HashMap<usize, Vec<&Item>> = HashMap::new();
        let mut left = Vec::new();
        for item in items {
            let slot = slot(&item.key);
            match self.layout.owner(slot) {
                Some(owner) => by_node.entry(owner).or_default().push(item),
                None => {
                    *why = format!("slot {slot} has no owner in the target");
                    left.push(item);
                }
            }
        }
        let mut sent = Vec::new();
        for (owner, items) in by_node {
            match self.send(owner, db, &items) {
                Ok(()) => sent.push((owner, items)),
                Err(error) => {
                    self.connections.remove(&owner);
                    self.failures += 1;
                    if error.contains(": SELECT: ") {
                        return Err(error);
                    }
                    *why = error;
                    left.extend(items);
                }
            }
        }
        for (owner, items) in sent {
            let replies = self.node(owner).and_then(Connection::replies);
            match replies {
                Err(error) => {
                    self.connections.remove(&owner);
                    self.failures += 1;
                    *why = error;
                    left.extend(items);
                }
                Ok(replies) => {
                    for (item, reply) in items.into_iter().zip(&replies) {
                        if let Some(error) = self.refusal(owner, item, reply)? {
                            *why = error;
                            left.push(item);
                        }
                    }
                }
            }
        }
        Ok(left)
    }

    fn send(&mut self, owner: usize, db: u64, items: &[&Item]) -> Result<(), Failure> {
        let connection = self.node(owner)?;
        connection.select(db)?;
        for item in items {
            match &item.state {
                None => connection.queue(&[&b"DEL"[..], &item.key]),
                Some(state) => {
                    // 0 would mean none.
                    let deadline = state.deadline.map_or(0, |at| at.max(1)).to_string();
                    let mut words = vec![&b"RESTORE"[..], &item.key, deadline.as_bytes()];
                    words.extend([&state.payload[..], b"REPLACE"]);
                    words.extend(state.deadline.is_some().then_some(&b"ABSTTL"[..]));
                    connection.queue(&words);
                }
            }
        }
        connection.send()
    }

    /// Returns the reason for which an item must be sent again.
    ///
    /// # Errors
    /// It would be refused again.
    fn refusal(&self, owner: usize, item: &Item, reply: &Value) -> Result<Option<String>, Failure> {
        let Some(text) = reply.as_error() else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(text).into_owned();
        let address = self.layout.nodes[owner].address();
        if PASSING.iter().any(|word| text.starts_with(word)) {
            return Ok(Some(format!("{address}: {text}")));
        }
        let key = item.key.escape_ascii();
        Err(match text.starts_with("OOM") {
            true => format!("the target {address} has no memory for key '{key}': raise maxmemory"),
            false => format!("the target {address} refuses key '{key}': {text}"),
        })
    }
}
