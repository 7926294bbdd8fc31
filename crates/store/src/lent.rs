//! The value of an entry whose own value was temporarily moved to another keyspace.

use crate::collection::{ChangedElements, Deadlines};
use crate::facts::Kind;
use policy::{Budget, Tick};

/// Replaces a value that a long command is using in a separate keyspace. The entry stays in the
/// table, with its type, its weight, its deadline and its state in the policy, so that it can still
/// be counted, scanned, expired and evicted.
///
/// Commands that name the key must wait until the value is back. A command that does not wait finds
/// a value of another type. The methods are those of a collection, for the macro of
/// [`crate::object`].
#[derive(Clone, Debug)]
pub(crate) struct Lent {
    /// Type of the value.
    pub kind: Kind,
    /// Number of bytes that the value occupies.
    pub bytes: usize,
}

impl Lent {
    pub fn heap_bytes(&self) -> usize {
        self.bytes
    }
    pub fn inline(&self) -> Option<(u8, &[u8])> {
        None
    }
    pub fn into_bytes(self) -> Vec<u8> {
        Vec::new()
    }
    pub fn trim(&mut self) {}
    pub fn is_void(&self) -> bool {
        false
    }
    /// The entry is filed under the key's own deadline only.
    pub fn is_dead(&self, _now: Tick) -> bool {
        false
    }
    pub fn deadlines(&self) -> Option<Deadlines> {
        None
    }
    pub fn embedded_deadline(&self) -> Option<Option<Tick>> {
        None
    }
    pub fn set_own(&mut self, _own: Option<Tick>) {}
    pub fn purge(
        &mut self,
        _now: Tick,
        _budget: &mut Budget,
        _expired: &mut dyn FnMut(Tick, u32),
        _names: Option<&ChangedElements>,
    ) {
    }
    pub fn dismantle(&mut self, _steps: u32) -> bool {
        false
    }
    pub fn check(&self) {}
}
