//! Moves of slots in which this node takes part as a primary: state that the host shares with
//! workers and with the threads that send keys.
//!
//! ```text
//! source                                   target
//! exporting.rs: a thread for each move     importing.rs: CLUSTER SYNCSLOTS, executed by workers
//!   START move link                 ───▶   removes what is left of an earlier attempt
//!   KEY, DEL: states of keys        ───▶   stores them; clients do not see them
//!   (commands on the slots are held)
//!   MARK revisions                  ───▶   host: one transaction gives the slots to the target
//! host: reads the outcome, releases the hold
//! ```
//!
//! Keys are sent as states, not as changes: a key that changes is sent again, as it is then. So no
//! message depends on an earlier one of another key, and a hot key costs no more than it can be
//! sent.

use ::cluster::{Mark, Name};
use durability::saving::Waiting;
use membership::moves::Move;
use membership::plan::Wanted;
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Maximum number of requests of clients that wait for the host.
const REQUESTS_MAX: usize = 256;

/// How far the target of a move is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Keys of an earlier attempt, or of an earlier owner, must be removed first.
    Clearing,
    /// Keys are stored.
    Receiving,
}

/// A move to this node.
#[derive(Debug)]
pub struct Arriving {
    /// Slots that arrive.
    pub slots: Arc<[RangeInclusive<u16>]>,
    /// Random number of the connection from which keys are accepted; 0 before the first one.
    pub link: u64,
    /// How far it is.
    pub phase: Phase,
    /// The source's mark, and the position in this node's feed after everything before the mark.
    pub mark: Option<(Mark, u64)>,
}

/// Outcome of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The target owns the slots.
    Committed,
    /// The commit cannot apply any more.
    Void,
}

/// What the host and the thread of a move from this node exchange.
#[derive(Debug, Default)]
pub struct Exchange {
    /// Whether the thread requests a mark: it holds the slots and has sent all keys.
    pub wants_mark: bool,
    /// The mark that the host has given. From now on the target may own the slots, until the
    /// outcome is known.
    pub mark: Option<Mark>,
    /// Whether the thread could not send the mark, so that the host voids the commit.
    pub wants_void: bool,
    /// Outcome of the mark.
    pub outcome: Option<Outcome>,
    /// Whether the thread must end. It does not end while the outcome of a mark is unknown.
    pub is_over: bool,
    /// Reason for which the move cannot go on.
    pub failure: Option<String>,
}

/// A move from this node.
#[derive(Debug)]
pub struct Leaving {
    /// The move.
    pub id: Name,
    /// Slots that leave.
    pub slots: Vec<RangeInclusive<u16>>,
    /// Address of the target's primary.
    pub target: (String, u16),
    exchange: Mutex<Exchange>,
    changed: Condvar,
    /// Reader of the feed; 0 while there is none.
    pub reader: AtomicU64,
    /// Number of keys that were sent, repeated ones included.
    pub sent_keys: AtomicU64,
    /// Number of bytes that were sent.
    pub sent_bytes: AtomicU64,
    /// Number of keys that are known to have changed since they were sent.
    pub left_keys: AtomicU64,
    /// Part of the keyspace that was walked, in percent.
    pub walked_percent: AtomicU64,
    /// Duration of the last hold in microseconds.
    pub hold_us: AtomicU64,
    /// Rate of the last second, in bytes.
    pub rate_bytes: AtomicU64,
}

impl Leaving {
    /// Creates the state at the beginning.
    pub fn new(id: Name, slots: Vec<RangeInclusive<u16>>, target: (String, u16)) -> Leaving {
        Leaving {
            id,
            slots,
            target,
            exchange: Mutex::default(),
            changed: Condvar::new(),
            reader: AtomicU64::new(0),
            sent_keys: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            left_keys: AtomicU64::new(0),
            walked_percent: AtomicU64::new(0),
            hold_us: AtomicU64::new(0),
            rate_bytes: AtomicU64::new(0),
        }
    }

    /// Whether a slot leaves.
    pub fn has(&self, slot: u16) -> bool {
        self.slots.iter().any(|range| range.contains(&slot))
    }

    /// Locks what the host and the thread exchange.
    pub fn exchange(&self) -> MutexGuard<'_, Exchange> {
        self.exchange.lock().expect("the lock is not poisoned")
    }

    /// Changes it and wakes the other side.
    pub fn change(&self, change: impl FnOnce(&mut Exchange)) {
        change(&mut self.exchange());
        self.changed.notify_all();
    }

    /// Wakes the other side.
    pub fn wake(&self) {
        self.changed.notify_all();
    }

    /// Waits until something has changed, for at most `patience`.
    pub fn wait(&self, patience: Duration) {
        let waited = self.changed.wait_timeout(self.exchange(), patience);
        drop(waited.expect("the lock is not poisoned"));
    }
}

/// What a client requests of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Creates moves.
    Create(Vec<Wanted>),
    /// Ends these moves.
    Cancel(Vec<Name>),
}

/// A request of a client.
#[derive(Debug)]
pub struct Request {
    /// What it requests.
    pub wish: Wish,
    /// The client that waits for the reply.
    pub waiting: Waiting,
    /// Reply if the records were written.
    pub answer: Answer,
}

/// Reply to a request that was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// `OK`.
    Ok,
    /// The name of the move.
    Name(Name),
    /// The number of moves.
    Count(i64),
}

/// Moves in which this node takes part, and all moves as the host has read them.
#[derive(Debug, Default)]
pub struct Moves {
    receiving: Mutex<()>,
    arriving: Mutex<BTreeMap<Name, Arriving>>,
    leaving: Mutex<BTreeMap<Name, Arc<Leaving>>>,
    listed: Mutex<Arc<Vec<(Name, Move)>>>,
    requests: Mutex<VecDeque<Request>>,
    active: AtomicUsize,
    /// Number of moves to this node.
    pub arriving_count: AtomicUsize,
    /// Lock for changes of the condition under which events are withheld.
    pub withholding: Mutex<()>,
    /// Whether keys may be stored whose slots are not this node's, which the host then removes.
    pub wants_sweep: AtomicBool,
    /// Number of moves of slots from this node that were committed.
    pub committed: AtomicU64,
    /// Number of commits of moves from this node that could not apply.
    pub voided: AtomicU64,
    /// Number of keys that were received, repeated ones included.
    pub received_keys: AtomicU64,
    /// Number of bytes that were sent by moves that have ended.
    pub sent_bytes: AtomicU64,
    /// Number of keys that were removed because their slots are not this node's.
    pub swept_keys: AtomicU64,
    /// Longest hold in microseconds.
    pub hold_us_max: AtomicU64,
}

impl Moves {
    /// Waits for the messages from sources that are being carried out, and keeps others waiting. A
    /// thread that holds this lock may lock shards and the moves to this node, but not the other
    /// way round. The host does not lock it, because a message may take long.
    pub fn receiving(&self) -> MutexGuard<'_, ()> {
        self.receiving.lock().expect("the lock is not poisoned")
    }

    /// Locks the moves to this node. A thread that holds this lock locks no shard.
    pub fn arriving(&self) -> MutexGuard<'_, BTreeMap<Name, Arriving>> {
        self.arriving.lock().expect("the lock is not poisoned")
    }

    /// Locks the moves from this node.
    pub fn leaving(&self) -> MutexGuard<'_, BTreeMap<Name, Arc<Leaving>>> {
        self.leaving.lock().expect("the lock is not poisoned")
    }

    /// Returns all moves as the host has read them, the oldest first.
    pub fn listed(&self) -> Arc<Vec<(Name, Move)>> {
        Arc::clone(&self.listed.lock().expect("the lock is not poisoned"))
    }

    /// Replaces the list of all moves.
    pub fn list(&self, moves: Vec<(Name, Move)>) {
        *self.listed.lock().expect("the lock is not poisoned") = Arc::new(moves);
    }

    /// Adds a request for the host. Returns false if too many wait.
    pub fn request(&self, request: Request) -> bool {
        let mut requests = self.requests.lock().expect("the lock is not poisoned");
        let has_room = requests.len() < REQUESTS_MAX;
        if has_room {
            requests.push_back(request);
        }
        has_room
    }

    /// Returns the oldest request.
    pub fn next_request(&self) -> Option<Request> {
        let mut requests = self.requests.lock().expect("the lock is not poisoned");
        requests.pop_front()
    }

    /// Whether a move is under way here. Databases are not emptied meanwhile, because only a part
    /// of their keys is this node's.
    pub fn is_active(&self) -> bool {
        self.active.load(Relaxed) > 0
    }

    /// Counts the moves that are under way here. The caller holds no lock of them.
    pub fn count_active(&self) {
        let (leaving, arriving) = (self.leaving().len(), self.arriving().len());
        self.arriving_count.store(arriving, Relaxed);
        self.active.store(leaving + arriving, Relaxed);
    }

    /// Number of keys of leaving slots that have changed since they were sent.
    pub fn left_keys(&self) -> u64 {
        let leaving = self.leaving();
        leaving
            .values()
            .map(|one| one.left_keys.load(Relaxed))
            .sum()
    }

    /// Number of bytes that moves from this node send per second.
    pub fn rate_bytes(&self) -> u64 {
        let leaving = self.leaving();
        leaving
            .values()
            .map(|one| one.rate_bytes.load(Relaxed))
            .sum()
    }

    /// Adds a hold to the statistics.
    pub fn count_hold(&self, leaving: &Leaving, held: Duration) {
        let micros = held.as_micros() as u64;
        leaving.hold_us.store(micros, Relaxed);
        self.hold_us_max.fetch_max(micros, Relaxed);
    }

    /// Counts the outcome of a mark.
    pub fn count_outcome(&self, outcome: Outcome) {
        let counter = match outcome {
            Outcome::Committed => &self.committed,
            Outcome::Void => &self.voided,
        };
        counter.fetch_add(1, Relaxed);
    }
}
