//! Replication in both directions.
//!
//! As a *primary*, the server sends each replica a snapshot and then the feed ([`session::feed`])
//! from the instant of the snapshot on, or only the part of the feed that the replica has missed.
//! The worker of the replica's connection sends both (`net/worker/replicas.rs`), so that replicas
//! use the limits, the encryption and the list of other clients.
//!
//! As a *replica*, a thread (`link.rs`) connects to the primary, receives the snapshot into a file,
//! loads it in place of the present keys, and then executes the primary's commands
//! (`dispatch/apply.rs`). They find what has expired by this server's clock, because only the
//! primary decides what has expired; clients do not see it. `removal.rs` describes when its memory
//! is freed.
//!
//! A command that cannot be executed is never skipped: the connection ends, the position stays
//! before the command, and the next synchronization is a full one, after which the keys are again
//! those of the primary.
//!
//! The bytes of the primary's feed become this server's feed, with the same positions, so
//! that replicas of this server, and this server after a promotion, continue the same history.
//!
//! A history has an identifier. A promoted replica begins a new one and remembers the old one with
//! the position up to which it is the same.

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

/// Number of digits of a history's identifier.
pub const ID_DIGITS: usize = 40;

/// Horizon at which nothing has expired, for commands of a primary or of an append-only file.
pub const EARLIEST: Tick = Tick(1);

/// Error for writes on a replica.
pub const READ_ONLY: &str = "READONLY You can't write against a read only replica.";
/// Error for writes while too few replicas are up to date.
pub const TOO_FEW_REPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";

/// What a replica receives next.
#[derive(Clone, Debug)]
pub enum Phase {
    /// A snapshot that has not begun.
    Waits,
    /// A snapshot that is being written. The feed follows from this position on.
    Writes(u64),
    /// A snapshot that is complete: its file and length.
    Receives(u64, Arc<File>, u64),
    /// The feed.
    Follows,
}

/// A replica of this server.
#[derive(Clone, Debug)]
pub struct ReplicaState {
    /// Its connection.
    pub client: Subscriber,
    /// Address without the port, as the replica or its connection says.
    pub address: String,
    /// Port on which the replica listens.
    pub port: u16,
    /// Whether no line precedes its snapshot.
    pub is_old: bool,
    /// Snapshot that it requests.
    pub form: SnapshotForm,
    /// Whether the connection ends behind the snapshot.
    pub is_snapshot_only: bool,
    /// Version of a snapshot that it was sent, until it acknowledges a position.
    pub unread: Option<Version>,
    /// What it receives next.
    pub phase: Phase,
    /// Its reader of the feed; 0 before it has one.
    pub reader: u64,
    /// Position that it has acknowledged, and that it has on its disk.
    pub acked: u64,
    /// Position that its append-only file has on the disk.
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
    /// Whether commands of the feed are received.
    pub is_connected: bool,
    /// Whether a snapshot is received or loaded.
    pub is_syncing: bool,
    /// Whether a snapshot was ever loaded from it.
    pub has_synced: bool,
    /// Time of the last byte.
    pub last_byte: Instant,
    /// Time since which there is no connection.
    pub down_since: Instant,
    /// The reason for which the last connection was closed, if it was a command of the primary that
    /// could not be executed.
    pub refusal: Option<String>,
    /// Number that distinguishes this primary from earlier ones.
    pub number: u64,
}

/// A change of roles in progress.
#[derive(Clone, Debug)]
pub struct Failover {
    /// Replica that becomes the primary; any that is up to date if this is `None`.
    pub target: Option<(String, u16)>,
    /// End of the wait for the replica.
    pub deadline: Option<Instant>,
    /// Whether the target becomes the primary at the deadline even if it lacks writes.
    pub is_forced: bool,
    /// Number that distinguishes this change from earlier ones.
    pub number: u64,
    /// Whether no write is in progress that was not held.
    pub is_held: bool,
    /// Whether this server follows the target already.
    pub is_proceeding: bool,
    /// Whether the target was requested to take over. From then on it may be a primary, so that
    /// this server must not become one because a connection fails.
    pub is_requested: bool,
}

/// What one lock protects.
#[derive(Default)]
pub struct State {
    /// Identifier of the history.
    pub id: String,
    /// Identifier of the earlier history, and the position up to which it is the same.
    pub earlier: Option<(String, u64)>,
    /// Connected replicas by the identifier of their connection.
    pub replicas: BTreeMap<u64, ReplicaState>,
    /// The primary, on a replica.
    pub primary: Option<PrimaryState>,
    /// Number of the last primary.
    pub primary_number: u64,
    /// The change of roles in progress.
    pub failover: Option<Failover>,
    /// Number of the last change of roles.
    pub failover_number: u64,
    /// Database that the primary's feed has selected.
    pub stream_db: u8,
    /// Whether this replica may have removed what no command of its feed has removed.
    pub has_removed: bool,
    /// Whether a snapshot for replicas is in progress or requested.
    pub has_snapshot: bool,
    /// Time since which there is no replica.
    pub no_replicas_since: Option<Instant>,
}

/// State of replication.
#[derive(Default)]
pub struct Replication {
    /// What the lock protects.
    state: Mutex<State>,
    /// Whether the server follows a primary.
    pub is_replica: AtomicBool,
    /// Number of replicas.
    pub replica_count: AtomicUsize,
    /// Whether fewer good replicas are connected than writes need.
    pub lacks_replicas: AtomicBool,
    /// Held while the primary's commands are executed and added to the feed, while the primary
    /// changes, and while a snapshot begins. It is locked before shards.
    applying: Mutex<()>,
    /// Number of threads that wait for `applying` to change the role.
    changers: AtomicUsize,
    /// Rung when the primary changes.
    pub bell: Condvar,
    /// Number of complete and of partial synchronizations, and of refused partial ones.
    pub full_syncs: AtomicU64,
    /// Number of partial synchronizations.
    pub partial_syncs: AtomicU64,
    /// Number of partial synchronizations that were not possible.
    pub refused_syncs: AtomicU64,
    /// Number of commands of primaries that could not be executed.
    pub refused_commands: AtomicU64,
    /// Number of times that expiry on this replica was allowed up to a later instant.
    pub removal_limits: AtomicU64,
    /// Whether the connection to the primary is in place.
    pub is_connected: AtomicBool,
    /// Whether the connection to the primary is to be closed, so that it is opened again.
    pub must_reconnect: AtomicBool,
    /// Number of bytes received from primaries.
    pub input_bytes: AtomicU64,
    /// Number of bytes sent to replicas: snapshots and the feed.
    pub output_bytes: AtomicU64,
    /// Clients that wait for replicas or for the append-only file.
    pub waits: Waits,
}

impl Replication {
    /// Creates the state of a primary with this history.
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

    /// Sleeps for this time, or until the primary is another one than that with this number.
    /// Returns whether it is. The number is compared under the lock, so that no change is missed
    /// that came before the sleep.
    pub fn sleep(&self, number: u64, time: Duration) -> bool {
        let is_same = |state: &mut State| state.primary_number == number;
        let waited = self.bell.wait_timeout_while(self.state(), time, is_same);
        let (state, _) = waited.expect("the lock is not poisoned");
        state.primary_number != number
    }

    /// Returns the number of the present primary, or of the present state without one.
    pub fn number(&self) -> u64 {
        self.state().primary_number
    }

    /// Whether the server follows a primary.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.is_replica.load(Relaxed)
    }

    /// Whether the server follows a primary to which there is no connection.
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.is_replica() && !self.is_connected.load(Relaxed)
    }

    /// Whether there are replicas.
    #[inline]
    pub fn has_replicas(&self) -> bool {
        self.replica_count.load(Relaxed) > 0
    }

    /// Keeps the primary's commands from being executed.
    pub fn lock_applying(&self) -> MutexGuard<'_, ()> {
        self.applying.lock().expect("the lock is not poisoned")
    }

    /// As [`Self::lock_applying`], to change the role. A load of the primary's snapshot ends.
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

    /// Keeps the primary's commands from being executed, unless one is.
    pub fn try_lock_applying(&self) -> Option<MutexGuard<'_, ()>> {
        match self.applying.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(error)) => panic!("{error}"),
        }
    }

    /// Decides whether writes are refused, because fewer replicas than the settings require have
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

    /// Returns the identifier of the history, and the earlier one with the position up to which it
    /// is the same.
    pub fn ids(&self) -> (String, Option<(String, u64)>) {
        let state = self.state();
        (state.id.clone(), state.earlier.clone())
    }

    /// Returns the database that the commands of the feed select before the next `SELECT`.
    pub fn stream_db(&self) -> u8 {
        match self.is_replica() {
            true => self.state().stream_db,
            false => 0,
        }
    }

    /// Returns the replicas by the ids of their connections.
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
