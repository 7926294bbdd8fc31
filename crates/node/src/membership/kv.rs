//! What membership needs of a store of values: reads with a revision, changes from a revision on,
//! conditional writes, and leases. etcd is one; the tests have another.
//!
//! Names are relative to the cluster's prefix.

use std::fmt;
use std::future::Future;
use std::time::Duration;

/// A value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Name.
    pub key: String,
    /// Value.
    pub value: Vec<u8>,
    /// Revision at which the name was created.
    pub created: i64,
    /// Revision of the last change.
    pub revision: i64,
}

/// A change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A value was written.
    Put(Entry),
    /// A name was removed, or its lease has ended.
    Delete(String),
}

/// All values at one revision.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Snapshot {
    /// Revision of the store.
    pub revision: i64,
    /// Values.
    pub entries: Vec<Entry>,
}

/// Condition of a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Guard {
    /// The last change of a name has this revision; 0 if the name must not exist.
    Revision(String, i64),
    /// A name belongs to a lease.
    Lease(String, i64),
}

/// A write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Write {
    /// Writes a value, which is removed with the lease if there is one.
    Put(String, String, Option<i64>),
    /// Removes a name.
    Delete(String),
}

/// Reason for which the store has not done what was requested.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A store of values. Each operation ends within seconds, except for [`Changes::next`].
pub trait Kv: Send + Sync + 'static {
    /// Changes of values.
    type Changes: Changes;

    /// Reads all values.
    fn read(&self) -> impl Future<Output = Result<Snapshot, Failure>> + Send;

    /// Reads changes with this revision and later ones. Fails at once or at the first event if
    /// they are no longer there.
    fn watch(&self, from: i64) -> impl Future<Output = Result<Self::Changes, Failure>> + Send;

    /// Writes all values if all conditions hold. Returns whether they did.
    fn commit(
        &self,
        guards: Vec<Guard>,
        writes: Vec<Write>,
    ) -> impl Future<Output = Result<bool, Failure>> + Send;

    /// Makes a lease.
    fn grant(&self, time: Duration) -> impl Future<Output = Result<i64, Failure>> + Send;

    /// Renews a lease. Returns whether it exists.
    fn keep_alive(&self, lease: i64) -> impl Future<Output = Result<bool, Failure>> + Send;

    /// Name of what is used at present, for operators.
    fn endpoint(&self) -> String;
}

/// Changes of values in the order of revisions.
pub trait Changes: Send {
    /// Waits for changes. May be abandoned without losing any.
    fn next(&mut self) -> impl Future<Output = Result<Vec<Event>, Failure>> + Send;
}
