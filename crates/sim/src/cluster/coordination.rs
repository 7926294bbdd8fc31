//! What servers do so that the parts of an object leave together.

use super::history::History;
use super::places::Row;
use super::servers::{Asked, Servers};
use policy::Slot;

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

impl Servers<'_> {
    /// What goes from one server to another carries how far the sender knows a hand to be.
    pub(super) fn tell_hand(&mut self, from: u16, to: u16) {
        if let Some(hand) = self.disks[usize::from(from)].furthest_hand() {
            self.disks[usize::from(to)].told_of_hand(hand);
        }
    }

    /// Servers of the row that keep a part and were not read hear of the hit.
    pub(super) fn tell_hit(&mut self, asked: Asked, row: Row<'_>, known: &[u16]) {
        for &server in row {
            if !known.contains(&server) && self.holds(server, asked.object) {
                self.disks[usize::from(server)].hit(Slot(asked.object), asked.now);
                self.work.messages += 1;
            }
        }
    }

    /// The other servers of an object that one has given up give it up, too.
    pub(super) fn tell_eviction(&mut self, victim: Slot, history: &History) {
        let is_coded = self.objects.is_coded(victim.0);
        let bucket = history.now().bucket_of(victim.0);
        let older = history.elsewhere(is_coded, bucket);
        for &server in history.row(is_coded, bucket).iter().chain(older) {
            if self.holds(server, victim.0) {
                self.disks[usize::from(server)].remove(victim);
                self.went(victim.0, server, history);
                self.work.messages += 1;
            }
        }
    }
}
