//! What servers do so that the parts of an object leave together.

/// What servers tell each other beyond the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Telling {
    /// Each decides by what it has seen itself.
    #[default]
    Nothing,
    /// Servers that keep a part which a hit did not need are told of the hit, if it changed anything
    /// for the policy of one that was read: SIEVE hears of the first hit, S3-FIFO of the first three.
    Hits,
    /// A server that gives up a chunk or a copy tells the others, which give up theirs.
    Evictions,
    /// Both.
    Both,
}

impl Telling {
    pub(super) fn has_hits(self) -> bool {
        matches!(self, Telling::Hits | Telling::Both)
    }

    pub(super) fn has_evictions(self) -> bool {
        matches!(self, Telling::Evictions | Telling::Both)
    }
}

/// In what order a server looks for what it can give up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// That of its policy.
    #[default]
    Policy,
    /// That of a hash of the object, which its chunks share: see `ring.rs`.
    Hash,
    /// The same, and servers that read or write at each other tell how far the furthest hand has come that they
    /// know of.
    SharedHash,
}

/// How servers work together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Coordination {
    /// What is told.
    pub telling: Telling,
    /// A coded read begins at any chunk instead of at the first, so that parity is read, too: its servers
    /// see of an object's hits as many as the others.
    pub reads_in_turn: bool,
    /// Who is given up.
    pub order: Order,
    /// A lead that has nothing of an object asks the origin at once, as section 5.4 of the thesis has it,
    /// instead of the object's other servers.
    pub lead_alone: bool,
}

impl Coordination {
    /// In words.
    pub fn name(self) -> &'static str {
        match (self.telling, self.reads_in_turn, self.lead_alone) {
            (Telling::Nothing, false, false) => "nothing",
            (Telling::Nothing, false, true) => "nothing, leads alone",
            (Telling::Nothing, true, false) => "nothing, reads in turn",
            (Telling::Nothing, true, true) => "nothing, reads in turn, leads alone",
            (Telling::Hits, false, false) => "hits",
            (Telling::Hits, false, true) => "hits, leads alone",
            (Telling::Hits, true, false) => "hits, reads in turn",
            (Telling::Hits, true, true) => "hits, reads in turn, leads alone",
            (Telling::Evictions, _, false) => "evictions",
            (Telling::Evictions, _, true) => "evictions, leads alone",
            (Telling::Both, _, false) => "both",
            (Telling::Both, _, true) => "both, leads alone",
        }
    }
}
