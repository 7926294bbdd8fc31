//! Replication, as a primary and as a replica.
//!
//! As a *primary*, the server sends each replica a snapshot followed by the feed
//! ([`session::feed`]) from the instant of the snapshot, or only the part of the feed that the
//! replica missed. The worker that owns the replica's connection sends both
//! (`net/worker/replicas.rs`), so that replicas share the limits, the encryption and the client
//! list of other connections.
//!
//! As a *replica*, a thread (`link.rs`) connects to the primary, receives the snapshot into a file,
//! replaces all keys by it, and then executes the primary's commands (`dispatch/apply.rs`). These
//! commands still find keys that have expired by this server's clock, because only the primary
//! decides what expires. Clients do not see such keys. `removal.rs` describes when their memory is
//! freed.
//!
//! A command that cannot be executed is never skipped. The connection ends, the position stays
//! before the command, and the next synchronization is a full one, which makes the keys equal to
//! the primary's again.
//!
//! The primary's feed becomes this server's feed, byte for byte and with the same positions.
//! Replicas of this server, and this server after a promotion, therefore continue the same history.
//!
//! A history has an identifier. A promoted replica begins a new history and remembers the previous
//! one, with the position up to which both are the same.

pub mod waits;

use session::message::Subscriber;
use session::session::SnapshotForm;
use settings::{Config, Id};
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};
use store::Tick;
use waits::Waits;
use wire::rdb::Version;

/// Number of digits in a history's identifier.
pub const ID_DIGITS: usize = 40;

/// Horizon at which nothing has expired, used for commands from a primary or an append-only file.
pub const EARLIEST: Tick = Tick(1);

/// Error for write commands on a replica.
pub const READ_ONLY: &str = "READONLY You can't write against a read only replica.";
/// Error for write commands while too few replicas are up to date.
pub const TOO_FEW_REPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";

/// Data that a replica receives next.
#[derive(Clone, Debug)]
pub enum Phase {
    /// A snapshot that has not begun.
    Waits,
    /// A snapshot that is being written. The feed follows from this position.
    Writes(u64),
    /// A complete snapshot, with its file and length.
    Receives(u64, Arc<File>, u64),
    /// The replica follows the feed.
    Follows,
}

/// A replica of this server.
#[derive(Clone, Debug)]
pub struct ReplicaState {
    /// The replica's connection.
    pub client: Subscriber,
    /// Address without the port, as announced by the replica or taken from its connection.
    pub address: String,
    /// Port on which the replica listens.
    pub port: u16,
    /// Its identifier as a node of a cluster, if it has reported one.
    pub node_id: Option<String>,
    /// Random number of the connection in a cluster; 0 if it has sent none.
    pub link: u64,
    /// Whether the replica expects the snapshot without a line before it (SYNC).
    pub is_old: bool,
    /// Snapshot format that the replica requested.
    pub form: SnapshotForm,
    /// Whether the connection ends after the snapshot.
    pub is_snapshot_only: bool,
    /// Version of a snapshot that was sent to it, until it acknowledges a position.
    pub unread: Option<Version>,
    /// Data that the replica receives next.
    pub phase: Phase,
    /// The replica's reader of the feed; 0 before it has one.
    pub reader: u64,
    /// Position that the replica has acknowledged.
    pub acked: u64,
    /// Position up to which the replica's append-only file is on disk.
    pub acked_file: u64,
    /// Time of the last acknowledgement.
    pub acked_at: Instant,
}

/// The primary of this server and the state of the connection to it.
#[derive(Clone, Debug)]
pub struct PrimaryState {
    /// Host of the primary.
    pub host: String,
    /// Port of the primary.
    pub port: u16,
    /// Its identifier as a node of a cluster, if it has reported one.
    pub node_id: Option<String>,
    /// Whether this server is receiving commands of the feed.
    pub is_connected: bool,
    /// Whether a snapshot is being received or loaded.
    pub is_syncing: bool,
    /// Whether a snapshot from it was ever loaded.
    pub has_synced: bool,
    /// Time at which the last byte arrived.
    pub last_byte: Instant,
    /// Time at which the connection was lost.
    pub down_since: Instant,
    /// Reason why the last connection was closed, if a command of the primary could not be
    /// executed.
    pub refusal: Option<String>,
    /// Number that distinguishes this primary from earlier ones.
    pub number: u64,
}

/// A change of roles in progress.
#[derive(Clone, Debug)]
pub struct Failover {
    /// Replica that becomes the primary, or `None` for any replica that is up to date.
    pub target: Option<(String, u16)>,
    /// Deadline of the wait for the replica.
    pub deadline: Option<Instant>,
    /// Whether the target becomes the primary at the deadline even if it misses writes.
    pub is_forced: bool,
    /// Number that distinguishes this change from earlier ones.
    pub number: u64,
    /// Whether all writes are held, with none still in progress.
    pub is_held: bool,
    /// Whether this server already follows the target.
    pub is_proceeding: bool,
    /// Whether the target was requested to take over. It may be a primary from then on, so that
    /// this server must not become one if a connection fails.
    pub is_requested: bool,
}

/// State protected by one lock.
#[derive(Default)]
pub struct State {
    /// Identifier of the history.
    pub id: String,
    /// Identifier of the previous history, and the position up to which both are the same.
    pub earlier: Option<(String, u64)>,
    /// Connected replicas by connection id.
    pub replicas: BTreeMap<u64, ReplicaState>,
    /// The primary, if this server is a replica.
    pub primary: Option<PrimaryState>,
    /// Number of the most recent primary.
    pub primary_number: u64,
    /// The change of roles in progress.
    pub failover: Option<Failover>,
    /// Number of the last change of roles.
    pub failover_number: u64,
    /// Database selected by the primary's feed.
    pub stream_db: u8,
    /// Whether this replica may have removed keys that no command of its feed removed.
    pub has_removed: bool,
    /// Whether a snapshot for replicas is in progress or requested.
    pub has_snapshot: bool,
    /// Time since which there has been no replica.
    pub no_replicas_since: Option<Instant>,
}

/// State of replication.
#[derive(Default)]
pub struct Replication {
    /// State protected by the lock.
    state: Mutex<State>,
    /// Whether the server follows a primary.
    pub is_replica: AtomicBool,
    /// Number of replicas.
    pub replica_count: AtomicUsize,
    /// Whether fewer up-to-date replicas are connected than writes require.
    pub lacks_replicas: AtomicBool,
    /// Held while the primary's commands are executed and added to the feed, while the primary
    /// changes, and while a snapshot begins. It is locked before any shard.
    applying: Mutex<()>,
    /// Number of threads waiting for `applying` to change the role.
    changers: AtomicUsize,
    /// Notified when the primary changes.
    pub bell: Condvar,
    /// Number of full synchronizations.
    pub full_syncs: AtomicU64,
    /// Number of partial synchronizations.
    pub partial_syncs: AtomicU64,
    /// Number of refused partial synchronizations.
    pub refused_syncs: AtomicU64,
    /// Number of primaries' commands that could not be executed.
    pub refused_commands: AtomicU64,
    /// Number of times that the instant up to which this replica may remove expired keys was
    /// advanced.
    pub removal_limits: AtomicU64,
    /// Whether this server is connected to its primary.
    pub is_connected: AtomicBool,
    /// Whether the connection to the primary must be closed and reopened.
    pub must_reconnect: AtomicBool,
    /// Number of bytes received from primaries.
    pub input_bytes: AtomicU64,
    /// Number of bytes sent to replicas, in snapshots and the feed.
    pub output_bytes: AtomicU64,
    /// Clients waiting for replicas or the append-only file.
    pub waits: Waits,
}

impl Replication {
    /// Creates the state of a primary with this history identifier.
    pub fn new(id: String) -> Replication {
        Replication {
            state: Mutex::new(State {
                id,
                ..State::default()
            }),
            ..Replication::default()
        }
    }

    /// Locks the state.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the lock is not poisoned")
    }

    /// Sleeps for `time`, or until the primary's number is no longer `number`. Returns whether it
    /// has changed. The comparison is made under the lock, so that a change just before the sleep
    /// is not missed.
    pub fn sleep(&self, number: u64, time: Duration) -> bool {
        let is_same = |state: &mut State| state.primary_number == number;
        let waited = self.bell.wait_timeout_while(self.state(), time, is_same);
        let (state, _) = waited.expect("the lock is not poisoned");
        state.primary_number != number
    }

    /// Returns the number of the current primary, or of the current period without one.
    pub fn number(&self) -> u64 {
        self.state().primary_number
    }

    /// Whether the server follows a primary.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.is_replica.load(Relaxed)
    }

    /// Whether the server follows a primary but is not connected to it.
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.is_replica() && !self.is_connected.load(Relaxed)
    }

    /// Whether there are replicas.
    #[inline]
    pub fn has_replicas(&self) -> bool {
        self.replica_count.load(Relaxed) > 0
    }

    /// Prevents execution of the primary's commands while the guard is held.
    pub fn lock_applying(&self) -> MutexGuard<'_, ()> {
        self.applying.lock().expect("the lock is not poisoned")
    }

    /// Like [`Self::lock_applying`], but to change the role. Aborts loading of a snapshot from the
    /// primary.
    pub fn lock_role(&self) -> MutexGuard<'_, ()> {
        self.changers.fetch_add(1, Relaxed);
        let applying = self.lock_applying();
        self.changers.fetch_sub(1, Relaxed);
        applying
    }

    /// Whether the role is about to change.
    pub fn is_changing(&self) -> bool {
        self.changers.load(Relaxed) > 0
    }

    /// Like [`Self::lock_applying`], but returns `None` while a command of the primary is being
    /// executed.
    pub fn try_lock_applying(&self) -> Option<MutexGuard<'_, ()>> {
        match self.applying.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(error)) => panic!("{error}"),
        }
    }

    /// Updates whether writes are refused because fewer replicas than the settings require have
    /// acknowledged recently.
    pub fn count_good(&self, config: &Config) {
        let min = config.number(Id::MinReplicasToWrite) as usize;
        let lag = config.number(Id::MinReplicasMaxLag) as u64;
        let is_good = |replica: &&ReplicaState| {
            matches!(replica.phase, Phase::Follows) && replica.acked_at.elapsed().as_secs() <= lag
        };
        let is_required = min > 0 && lag > 0 && !self.is_replica();
        let lacks = is_required && self.state().replicas.values().filter(is_good).count() < min;
        self.lacks_replicas.store(lacks, Relaxed);
    }

    /// Whether writes are refused because too few replicas are up to date.
    #[inline]
    pub fn lacks_replicas(&self) -> bool {
        self.lacks_replicas.load(Relaxed)
    }

    /// Returns the identifier of the history, and the previous one with the position up to which
    /// both are the same.
    pub fn ids(&self) -> (String, Option<(String, u64)>) {
        let state = self.state();
        (state.id.clone(), state.earlier.clone())
    }

    /// Returns the database that applies to the feed's commands until the next `SELECT`.
    pub fn stream_db(&self) -> u8 {
        match self.is_replica() {
            true => self.state().stream_db,
            false => 0,
        }
    }

    /// Returns the replicas in order of connection id.
    pub fn replicas(&self) -> Vec<ReplicaState> {
        self.state().replicas.values().cloned().collect()
    }

    /// Returns the state of one replica.
    pub fn replica(&self, client: u64) -> Option<ReplicaState> {
        self.state().replicas.get(&client).cloned()
    }

    /// Returns the change of roles in progress.
    pub fn failover(&self) -> Option<Failover> {
        self.state().failover.clone()
    }

    /// Returns the primary.
    pub fn primary(&self) -> Option<PrimaryState> {
        self.state().primary.clone()
    }
}
