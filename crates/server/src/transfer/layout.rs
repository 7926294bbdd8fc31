//! Which primary has which slots.

use super::connection::{Connection, field};
use super::{Failure, Side};
use membership::records::join;
use std::collections::BTreeMap;
use wire::Value;
use wire::slot::SLOTS;

/// A primary.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Node {
    pub host: String,
    pub port: u16,
    /// Identifier in its cluster; empty for a server without one.
    pub id: String,
}

impl Node {
    pub fn address(&self) -> String {
        join(&self.host, self.port)
    }
}

/// Primaries, and the owner of each slot. A server without a cluster has all slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub is_cluster: bool,
    pub nodes: Vec<Node>,
    owners: Vec<Option<usize>>,
}

impl Layout {
    /// Reads the layout over a connection to the server at `side`.
    pub fn read(connection: &mut Connection, side: &Side) -> Result<Layout, Failure> {
        let reply = connection.try_call(&["CLUSTER", "SLOTS"])?;
        if let Some(text) = reply.as_error() {
            let text = String::from_utf8_lossy(text);
            if !text.contains("cluster support disabled") {
                return Err(format!("{}: CLUSTER SLOTS: {text}", connection.address));
            }
            let facts = connection.text(&["INFO", "replication"])?;
            return match field(&facts, "role") {
                Some("master") => Ok(Layout::alone(&side.host, side.port)),
                _ => Err(format!(
                    "{}: this server is a replica: expected its primary",
                    connection.address
                )),
            };
        }
        Layout::parse(&reply, &side.host)
            .ok_or_else(|| format!("{}: CLUSTER SLOTS: expected ranges", connection.address))
    }

    fn alone(host: &str, port: u16) -> Layout {
        let (host, id) = (host.to_owned(), String::new());
        Layout {
            is_cluster: false,
            nodes: vec![Node { host, port, id }],
            owners: vec![Some(0); usize::from(SLOTS)],
        }
    }

    /// Reads the reply to CLUSTER SLOTS. A node that gives no address is at `host`.
    fn parse(reply: &Value, host: &str) -> Option<Layout> {
        let mut ranges: BTreeMap<Node, Vec<(usize, usize)>> = BTreeMap::new();
        for range in reply.as_list()? {
            let [first, last, primary, ..] = range.as_list()? else {
                return None;
            };
            let [at, port, id, ..] = primary.as_list()? else {
                return None;
            };
            let at = match at.as_bytes() {
                Some(at) if !at.is_empty() && at != b"?" => std::str::from_utf8(at).ok()?,
                _ => host,
            };
            let node = Node {
                host: at.to_owned(),
                port: u16::try_from(port.as_integer()?).ok()?,
                id: std::str::from_utf8(id.as_bytes()?).ok()?.to_owned(),
            };
            let slot = |value: &Value| usize::try_from(value.as_integer()?).ok();
            let (first, last) = (slot(first)?, slot(last)?);
            if first > last || last >= usize::from(SLOTS) {
                return None;
            }
            ranges.entry(node).or_default().push((first, last));
        }
        let mut owners = vec![None; usize::from(SLOTS)];
        for (index, ranges) in ranges.values().enumerate() {
            for (first, last) in ranges {
                owners[*first..=*last].fill(Some(index));
            }
        }
        let (is_cluster, nodes) = (true, ranges.into_keys().collect());
        Some(Layout {
            is_cluster,
            nodes,
            owners,
        })
    }

    /// Returns the index of the node that has a slot.
    pub fn owner(&self, slot: u16) -> Option<usize> {
        self.owners.get(usize::from(slot)).copied().flatten()
    }

    /// Returns the first slot with an owner here and none in another layout.
    pub fn first_without(&self, other: &Layout) -> Option<u16> {
        (0..SLOTS).find(|slot| self.owner(*slot).is_some() && other.owner(*slot).is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &[u8]) -> Option<Layout> {
        let (value, _) = Value::decode(text).expect("a reply").expect("a whole one");
        Layout::parse(&value, "seed")
    }

    #[test]
    fn ranges_of_one_node_are_joined_and_slots_without_an_owner_stay_so() {
        let text = b"*3\r\n\
            *3\r\n:0\r\n:9\r\n*4\r\n$1\r\nb\r\n:7\r\n$1\r\ny\r\n*0\r\n\
            *4\r\n:20\r\n:29\r\n*3\r\n$-1\r\n:8\r\n$1\r\nx\r\n*3\r\n$1\r\nr\r\n:9\r\n$1\r\nz\r\n\
            *3\r\n:16383\r\n:16383\r\n*3\r\n$1\r\nb\r\n:7\r\n$1\r\ny\r\n";
        let layout = parse(text).expect("ranges");
        let addresses: Vec<String> = layout.nodes.iter().map(Node::address).collect();
        assert_eq!(addresses, ["b:7", "seed:8"]);
        let owners = [0, 9, 10, 20, 29, 30, 16383].map(|slot| layout.owner(slot));
        let expected = [Some(0), Some(0), None, Some(1), Some(1), None, Some(0)];
        assert_eq!(owners, expected);
        assert_eq!(Layout::alone("::1", 5).first_without(&layout), Some(10));
        assert_eq!(Layout::alone("::1", 5).nodes[0].address(), "[::1]:5");
        assert_eq!(layout.first_without(&Layout::alone("h", 5)), None);
    }

    #[test]
    fn damaged_ranges_are_refused() {
        for text in [
            &b"+OK\r\n"[..],
            b"*1\r\n:1\r\n",
            b"*1\r\n*2\r\n:0\r\n:9\r\n",
            b"*1\r\n*3\r\n:0\r\n:16384\r\n*3\r\n$1\r\nb\r\n:7\r\n$1\r\ny\r\n",
            b"*1\r\n*3\r\n:9\r\n:0\r\n*3\r\n$1\r\nb\r\n:7\r\n$1\r\ny\r\n",
            b"*1\r\n*3\r\n:0\r\n:9\r\n*3\r\n$1\r\nb\r\n:70000\r\n$1\r\ny\r\n",
            b"*1\r\n*3\r\n:-1\r\n:9\r\n*3\r\n$1\r\nb\r\n:7\r\n$1\r\ny\r\n",
        ] {
            assert_eq!(parse(text), None, "{:?}", text.escape_ascii().to_string());
        }
    }
}
