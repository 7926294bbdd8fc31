//! A topology: which shard owns which slots, which server is the primary of a shard, and where
//! clients connect to.

use std::fmt;
use std::ops::RangeInclusive;

/// Number of slots.
pub const SLOTS: u16 = 16_384;

/// Number of hexadecimal digits of a name.
const DIGITS: usize = 40;

/// Entry of a slot that no shard owns.
const NO_SHARD: u16 = u16::MAX;

/// Name of a server or a shard: 40 hexadecimal digits in lower case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name([u8; DIGITS]);

impl Name {
    /// Reads a name; `None` if the bytes are not 40 hexadecimal digits in lower case.
    pub fn parse(bytes: &[u8]) -> Option<Name> {
        let digits: [u8; DIGITS] = bytes.try_into().ok()?;
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        digits.iter().all(is_digit).then_some(Name(digits))
    }

    /// Returns the digits.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the digits.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hexadecimal digits are ASCII")
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// State of a server, for clients. No rule depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// It serves commands.
    #[default]
    Online,
    /// It receives or loads a snapshot.
    Loading,
    /// It cannot be reached.
    Fail,
}

/// A server of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name.
    pub id: Name,
    /// Address for clients without the port, or a host name; empty if there is none.
    pub ip: String,
    /// Port without TLS; 0 if there is none.
    pub port: u16,
    /// Port with TLS; 0 if there is none.
    pub tls_port: u16,
    /// Port of the cluster bus in replies, which nothing but the text depends on; 0 if there is
    /// none.
    pub bus_port: u16,
    /// Host name for clients; empty if there is none.
    pub hostname: String,
    /// Address and port for other servers; empty if there is none.
    pub inside: String,
    /// Zone; empty if there is none.
    pub zone: String,
    /// Version of the program; empty if it is unknown.
    pub version: String,
    /// Position in the feed when it was last reported.
    pub offset: u64,
    /// State when it was last reported.
    pub health: Health,
}

impl Node {
    /// Returns a node of which only the name is known, and with which there is no connection.
    pub fn unknown(id: Name) -> Node {
        Node {
            id,
            ip: String::new(),
            port: 0,
            tls_port: 0,
            bus_port: 0,
            hostname: String::new(),
            inside: String::new(),
            zone: String::new(),
            version: String::new(),
            offset: 0,
            health: Health::Fail,
        }
    }
}

/// A replica of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Its name.
    pub id: Name,
    /// Whether it may be promoted.
    pub is_in_sync: bool,
}

/// A shard: the servers that have the same keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Name.
    pub id: Name,
    /// Number of the primary's term.
    pub epoch: u64,
    /// Server that serves writes.
    pub primary: Name,
    /// Servers that copy the primary.
    pub replicas: Vec<Replica>,
}

/// Slots and the shard that owns them, as an index into the shards.
pub type Owned = (RangeInclusive<u16>, usize);

/// Role of a server in a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It is the primary of the shard with this index.
    Primary(usize),
    /// It is a replica of the shard with this index.
    Replica(usize),
    /// It has no shard.
    Spare,
}

impl Role {
    /// Returns the index of the shard, if there is one.
    pub fn shard(self) -> Option<usize> {
        match self {
            Role::Primary(shard) | Role::Replica(shard) => Some(shard),
            Role::Spare => None,
        }
    }
}

/// Reason why a topology is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologyError {
    /// Two servers have one name.
    TwoNodes(Name),
    /// Two shards have one name.
    TwoShards(Name),
    /// There are more shards than slots.
    TooManyShards(usize),
    /// A shard names a server that is not among the nodes.
    UnknownNode {
        /// The shard.
        shard: Name,
        /// The server.
        node: Name,
    },
    /// A server belongs to more than one shard, or is named twice in one.
    TwoRoles(Name),
    /// A range of slots is empty or ends beyond the last slot.
    Range(u16, u16),
    /// A range belongs to a shard that does not exist.
    UnknownShard(u16, u16),
    /// Two ranges contain this slot.
    Overlap(u16),
}

impl fmt::Display for TopologyError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TopologyError::TwoNodes(id) => write!(out, "node {id}: another node has this name"),
            TopologyError::TwoShards(id) => write!(out, "shard {id}: another shard has this name"),
            TopologyError::TooManyShards(count) => {
                write!(out, "{count} shards: expected at most {SLOTS}")
            }
            TopologyError::UnknownNode { shard, node } => {
                write!(out, "shard {shard}: node {node} is not among the nodes")
            }
            TopologyError::TwoRoles(id) => {
                write!(out, "node {id}: expected one role in one shard, found two")
            }
            TopologyError::Range(first, last) => write!(
                out,
                "slots {first}-{last}: expected first <= last < {SLOTS}"
            ),
            TopologyError::UnknownShard(first, last) => {
                write!(out, "slots {first}-{last}: their shard does not exist")
            }
            TopologyError::Overlap(slot) => write!(out, "slot {slot}: two ranges contain it"),
        }
    }
}

impl std::error::Error for TopologyError {}

/// Which shard owns which slots, and the servers of each shard. It does not change; a newer one
/// replaces it.
#[derive(Clone, PartialEq, Eq)]
pub struct Topology {
    version: u64,
    shards: Vec<Shard>,
    /// Sorted by name.
    nodes: Vec<Node>,
    /// Index of the shard that owns each slot.
    owners: Box<[u16]>,
}

impl fmt::Debug for Topology {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges: Vec<Owned> = self.all_ranges().collect();
        out.debug_struct("Topology")
            .field("version", &self.version)
            .field("shards", &self.shards)
            .field("nodes", &self.nodes)
            .field("ranges", &ranges)
            .finish()
    }
}

impl Topology {
    /// Creates a topology. A newer one has a higher `version`, such as the revision at which it was
    /// read. Slots that are in no range have no owner.
    ///
    /// # Errors
    /// The parts contradict each other.
    pub fn new(
        version: u64,
        shards: Vec<Shard>,
        mut nodes: Vec<Node>,
        ranges: &[Owned],
    ) -> Result<Topology, TopologyError> {
        nodes.sort_by_key(|node| node.id);
        if let Some(pair) = nodes.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(TopologyError::TwoNodes(pair[0].id));
        }
        check_shards(&shards, &nodes)?;
        let owners = owners(ranges, shards.len())?;
        Ok(Topology {
            version,
            shards,
            nodes,
            owners,
        })
    }

    /// Returns the version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the shards.
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// Returns the servers, sorted by name.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the server with a name.
    pub fn node(&self, id: Name) -> Option<&Node> {
        let at = self.nodes.binary_search_by_key(&id, |node| node.id).ok()?;
        self.nodes.get(at)
    }

    /// Returns the index of the shard that owns a slot; `None` if none does or there is no such
    /// slot.
    #[inline]
    pub fn owner(&self, slot: u16) -> Option<usize> {
        let shard = *self.owners.get(usize::from(slot))?;
        (shard != NO_SHARD).then_some(usize::from(shard))
    }

    /// Returns the primary of a shard.
    pub fn primary(&self, shard: usize) -> Option<&Node> {
        self.node(self.shards.get(shard)?.primary)
    }

    /// Returns the servers of a shard, the primary first.
    pub fn members(&self, shard: usize) -> impl Iterator<Item = &Node> {
        let shard = self.shards.get(shard);
        let ids = shard.into_iter().flat_map(|shard| {
            let replicas = shard.replicas.iter().map(|replica| replica.id);
            std::iter::once(shard.primary).chain(replicas)
        });
        ids.filter_map(|id| self.node(id))
    }

    /// Returns the role of a server.
    pub fn role(&self, id: Name) -> Role {
        for (index, shard) in self.shards.iter().enumerate() {
            if shard.primary == id {
                return Role::Primary(index);
            }
            if shard.replicas.iter().any(|replica| replica.id == id) {
                return Role::Replica(index);
            }
        }
        Role::Spare
    }

    /// Returns the slots of a shard as ranges in ascending order.
    pub fn ranges(&self, shard: usize) -> impl Iterator<Item = RangeInclusive<u16>> {
        let all = self.all_ranges();
        all.filter_map(move |(range, owner)| (owner == shard).then_some(range))
    }

    /// Returns all slots that have an owner as ranges in ascending order.
    pub fn all_ranges(&self) -> impl Iterator<Item = Owned> {
        let mut next = 0u16;
        std::iter::from_fn(move || {
            while next < SLOTS && self.owner(next).is_none() {
                next += 1;
            }
            let owner = self.owner(next)?;
            let first = next;
            while self.owner(next) == Some(owner) {
                next += 1;
            }
            Some((first..=next - 1, owner))
        })
    }

    /// Returns the number of slots that have an owner.
    pub fn assigned(&self) -> usize {
        self.owners.iter().filter(|at| **at != NO_SHARD).count()
    }

    /// Returns the number of shards that own slots.
    pub fn size(&self) -> usize {
        let mut owns = vec![false; self.shards.len()];
        for (_, owner) in self.all_ranges() {
            owns[owner] = true;
        }
        owns.iter().filter(|owns| **owns).count()
    }
}

/// Checks that shards have names of their own and servers that exist, each in one role.
fn check_shards(shards: &[Shard], nodes: &[Node]) -> Result<(), TopologyError> {
    if shards.len() > usize::from(SLOTS) {
        return Err(TopologyError::TooManyShards(shards.len()));
    }
    let mut ids: Vec<Name> = shards.iter().map(|shard| shard.id).collect();
    if let Some(id) = repeated(&mut ids) {
        return Err(TopologyError::TwoShards(id));
    }
    let mut members = Vec::new();
    for shard in shards {
        let replicas = shard.replicas.iter().map(|replica| replica.id);
        for id in std::iter::once(shard.primary).chain(replicas) {
            if nodes.binary_search_by_key(&id, |node| node.id).is_err() {
                let shard = shard.id;
                return Err(TopologyError::UnknownNode { shard, node: id });
            }
            members.push(id);
        }
    }
    repeated(&mut members).map_or(Ok(()), |id| Err(TopologyError::TwoRoles(id)))
}

/// Returns the least name that occurs more than once.
fn repeated(ids: &mut [Name]) -> Option<Name> {
    ids.sort_unstable();
    let pair = ids.windows(2).find(|pair| pair[0] == pair[1]);
    pair.map(|pair| pair[0])
}

/// Returns the index of the shard that owns each slot.
fn owners(ranges: &[Owned], shards: usize) -> Result<Box<[u16]>, TopologyError> {
    let mut owners = vec![NO_SHARD; usize::from(SLOTS)].into_boxed_slice();
    for (range, shard) in ranges {
        let (first, last) = (*range.start(), *range.end());
        if first > last || last >= SLOTS {
            return Err(TopologyError::Range(first, last));
        }
        if *shard >= shards {
            return Err(TopologyError::UnknownShard(first, last));
        }
        for slot in range.clone() {
            let owner = &mut owners[usize::from(slot)];
            if *owner != NO_SHARD {
                return Err(TopologyError::Overlap(slot));
            }
            *owner = *shard as u16;
        }
    }
    Ok(owners)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: u32) -> Name {
        Name::parse(format!("{number:040x}").as_bytes()).expect("40 digits")
    }

    fn node(number: u32) -> Node {
        Node {
            ip: format!("10.0.0.{number}"),
            port: 6379,
            health: Health::Online,
            ..Node::unknown(name(number))
        }
    }

    fn shard(number: u32, primary: u32, replicas: &[u32]) -> Shard {
        let replica = |number: &u32| Replica {
            id: name(*number),
            is_in_sync: true,
        };
        Shard {
            id: name(number),
            epoch: 1,
            primary: name(primary),
            replicas: replicas.iter().map(replica).collect(),
        }
    }

    fn topology(ranges: &[Owned]) -> Result<Topology, TopologyError> {
        let shards = vec![shard(100, 1, &[4]), shard(101, 2, &[])];
        Topology::new(7, shards, [2, 4, 1, 3].map(node).into(), ranges)
    }

    #[test]
    fn a_slot_has_the_owner_of_its_range() {
        let topology = topology(&[(5..=9, 1), (0..=4, 0), (20..=16_383, 0)]).expect("valid");
        assert_eq!(topology.owner(0), Some(0));
        assert_eq!(topology.owner(5), Some(1));
        assert_eq!(topology.owner(9), Some(1));
        assert_eq!(topology.owner(10), None);
        assert_eq!(topology.owner(16_383), Some(0));
        assert_eq!(topology.owner(16_384), None);
        let of_first: Vec<_> = topology.ranges(0).collect();
        assert_eq!(of_first, [0..=4, 20..=16_383]);
        assert_eq!(topology.ranges(1).collect::<Vec<_>>(), [5..=9]);
        assert_eq!(topology.assigned(), 16_384 - 10);
        assert_eq!((topology.size(), topology.version()), (2, 7));
    }

    #[test]
    fn neighbouring_ranges_of_one_shard_are_one_range() {
        let topology = topology(&[(3..=4, 0), (0..=2, 0)]).expect("valid");
        assert_eq!(topology.all_ranges().collect::<Vec<_>>(), [(0..=4, 0)]);
        assert_eq!(topology.size(), 1);
    }

    #[test]
    fn a_server_is_found_by_its_name() {
        let topology = topology(&[]).expect("valid");
        for number in 1..=4 {
            assert_eq!(topology.node(name(number)), Some(&node(number)));
        }
        assert_eq!(topology.node(name(9)), None);
        assert_eq!(topology.primary(1), Some(&node(2)));
        assert_eq!(topology.primary(2), None);
        let members: Vec<_> = topology.members(0).collect();
        assert_eq!(members, [&node(1), &node(4)]);
        assert_eq!(topology.role(name(1)), Role::Primary(0));
        assert_eq!(topology.role(name(4)), Role::Replica(0));
        assert_eq!(topology.role(name(3)), Role::Spare);
    }

    #[test]
    fn contradictions_are_refused() {
        use TopologyError::*;
        for (ranges, expected, text) in [
            (
                vec![(3..=5, 0), (5..=6, 1)],
                Overlap(5),
                "slot 5: two ranges",
            ),
            (
                vec![(0..=16_384, 0)],
                Range(0, 16_384),
                "slots 0-16384: expected first <= last < 16384",
            ),
            (
                vec![(RangeInclusive::new(4, 3), 0)],
                Range(4, 3),
                "slots 4-3: expected",
            ),
            (
                vec![(0..=1, 2)],
                UnknownShard(0, 1),
                "slots 0-1: their shard",
            ),
        ] {
            let error = topology(&ranges).expect_err(text);
            assert_eq!(error, expected);
            assert!(error.to_string().starts_with(text), "{error}");
        }
        let nodes = || [1, 2, 3].map(node).to_vec();
        for (shards, nodes, expected) in [
            (vec![], [1, 2, 1].map(node).to_vec(), TwoNodes(name(1))),
            (
                vec![shard(7, 1, &[]), shard(7, 2, &[])],
                nodes(),
                TwoShards(name(7)),
            ),
            (
                vec![shard(7, 4, &[])],
                nodes(),
                UnknownNode {
                    shard: name(7),
                    node: name(4),
                },
            ),
            (
                vec![shard(7, 1, &[5])],
                nodes(),
                UnknownNode {
                    shard: name(7),
                    node: name(5),
                },
            ),
            (
                vec![shard(7, 1, &[2]), shard(8, 2, &[])],
                nodes(),
                TwoRoles(name(2)),
            ),
            (vec![shard(7, 1, &[1])], nodes(), TwoRoles(name(1))),
        ] {
            let error = Topology::new(1, shards, nodes, &[]).expect_err("a contradiction");
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn a_name_has_forty_hexadecimal_digits() {
        let digits = "0123456789abcdef0123456789abcdef01234567";
        let name = Name::parse(digits.as_bytes()).expect("a name");
        assert_eq!(name.to_string(), digits);
        for wrong in ["", &digits[1..], &digits.to_uppercase(), &"g".repeat(40)] {
            assert_eq!(Name::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
