//! Interface to a store of values: reads with a revision, changes from a revision, conditional
//! writes, and leases. etcd implements it, and so does a store for tests.
//!
//! Names are relative to the cluster's prefix.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Value with its name and revisions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Name of the value.
    pub key: String,
    /// Content of the value.
    pub value: Vec<u8>,
    /// Revision at which the name was created.
    pub created: i64,
    /// Revision at which the value was last changed.
    pub revision: i64,
}

/// Change of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A value was written.
    Put(Entry),
    /// A value was removed, or its lease has ended.
    Delete(String),
}

/// All values at one revision.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Snapshot {
    /// Revision of the store.
    pub revision: i64,
    /// The values, each with its name and revisions.
    pub entries: Vec<Entry>,
}

/// Condition of a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Guard {
    /// The last change of a name has this revision, or the name does not exist if the revision is
    /// 0.
    Revision(String, i64),
    /// A name belongs to this lease.
    Lease(String, i64),
}

/// Operation of a conditional write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Write {
    /// Writes a value. If a lease is given, the value is removed when the lease ends.
    Put(String, String, Option<i64>),
    /// Removes a name.
    Delete(String),
}

/// Reason why the store has not performed a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Store of values. Each operation ends within seconds, except for [`Changes::next`].
pub trait Kv: Send + Sync + 'static {
    /// Stream of changes.
    type Changes: Changes;

    /// Reads all values.
    fn read(&self) -> impl Future<Output = Result<Snapshot, Failure>> + Send;

    /// Returns all changes from this revision on. If they are no longer available, it fails
    /// immediately or at the first event.
    fn watch(&self, from: i64) -> impl Future<Output = Result<Self::Changes, Failure>> + Send;

    /// Performs all writes if all conditions hold. Returns the revision of the writes, or `None` if
    /// a condition did not hold. After a failure, the writes may still be performed.
    fn commit(
        &self,
        guards: Vec<Guard>,
        writes: Vec<Write>,
    ) -> impl Future<Output = Result<Option<i64>, Failure>> + Send;

    /// Creates a lease.
    fn grant(&self, time: Duration) -> impl Future<Output = Result<i64, Failure>> + Send;

    /// Renews a lease. Returns false if it no longer exists.
    fn keep_alive(&self, lease: i64) -> impl Future<Output = Result<bool, Failure>> + Send;

    /// Returns the name of the endpoint in use, for operators.
    fn endpoint(&self) -> String;
}

/// A shared store is a store.
impl<T: Kv> Kv for Arc<T> {
    type Changes = T::Changes;

    async fn read(&self) -> Result<Snapshot, Failure> {
        T::read(self).await
    }

    async fn watch(&self, from: i64) -> Result<Self::Changes, Failure> {
        T::watch(self, from).await
    }

    async fn commit(&self, guards: Vec<Guard>, writes: Vec<Write>) -> Result<Option<i64>, Failure> {
        T::commit(self, guards, writes).await
    }

    async fn grant(&self, time: Duration) -> Result<i64, Failure> {
        T::grant(self, time).await
    }

    async fn keep_alive(&self, lease: i64) -> Result<bool, Failure> {
        T::keep_alive(self, lease).await
    }

    fn endpoint(&self) -> String {
        T::endpoint(self)
    }
}

/// Stream of changes, in the order of revisions.
pub trait Changes: Send {
    /// Waits for changes. The future can be dropped without losing any.
    fn next(&mut self) -> impl Future<Output = Result<Vec<Event>, Failure>> + Send;
}
