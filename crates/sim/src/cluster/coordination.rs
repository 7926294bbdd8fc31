//! Messages by which servers keep or evict the parts of an object together.

/// Notifications that servers send each other in addition to the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Notifications {
    /// None: each server decides by its own requests.
    #[default]
    None,
    /// A hit that changed the policy state of a server that was read is sent to the servers of the
    /// unread parts. SIEVE changes state at the first hit of an object, S3-FIFO at the first three.
    Hits,
    /// A server that evicts a chunk or a copy notifies the others, which evict theirs.
    Evictions,
    /// Both hits and evictions.
    Both,
}

impl Notifications {
    pub(super) fn include_hits(self) -> bool {
        matches!(self, Notifications::Hits | Notifications::Both)
    }

    pub(super) fn include_evictions(self) -> bool {
        matches!(self, Notifications::Evictions | Notifications::Both)
    }
}

/// Order in which a server searches for victims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EvictionOrder {
    /// The order of the eviction policy.
    #[default]
    Policy,
    /// The order of a hash of the object, which is the same for all its chunks; see `ring.rs`.
    Hash,
    /// Hash order, with servers that exchange the position of the furthest hand with every read and
    /// write.
    SharedHash,
}

/// Coordination of reads and evictions between servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Coordination {
    /// Notifications that are sent.
    pub notifications: Notifications,
    /// Whether coded reads start at a random chunk instead of the first. Parity is then read as
    /// often as data, so that its servers see the same share of an object's hits.
    pub rotates_reads: bool,
    /// Order of eviction.
    pub order: EvictionOrder,
    /// Whether a lead that has no part of an object fetches it from the origin without probing its
    /// other servers, as in section 5.4 of the thesis.
    pub no_peer_probe: bool,
}

impl Coordination {
    /// Name in reports.
    pub fn name(self) -> &'static str {
        match (self.notifications, self.rotates_reads, self.no_peer_probe) {
            (Notifications::None, false, false) => "none",
            (Notifications::None, false, true) => "none, no peer probe",
            (Notifications::None, true, false) => "none, rotated reads",
            (Notifications::None, true, true) => "none, rotated reads, no peer probe",
            (Notifications::Hits, false, false) => "hits",
            (Notifications::Hits, false, true) => "hits, no peer probe",
            (Notifications::Hits, true, false) => "hits, rotated reads",
            (Notifications::Hits, true, true) => "hits, rotated reads, no peer probe",
            (Notifications::Evictions, _, false) => "evictions",
            (Notifications::Evictions, _, true) => "evictions, no peer probe",
            (Notifications::Both, _, false) => "both",
            (Notifications::Both, _, true) => "both, no peer probe",
        }
    }
}
