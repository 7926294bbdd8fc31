//! What decides which commands a node of a cluster executes: the topology that its host has
//! installed, its fence, and the slots on which commands are held. It also has the place of the
//! node in its shard, and its messages for other nodes.

use crate::movement::Moves;
use crate::outbox::Outbox;
use crate::seat::Seat;
use ::cluster::{Instant, Name, Role, SLOTS, Topology};
use rustix::time::{ClockId, clock_gettime};
use session::clock::{Clock, Moment};
use settings::Config;
use std::ops::RangeInclusive;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

/// Words of a set of slots.
const WORDS: usize = SLOTS as usize / 64;
/// In place of a number of routes: the worker executes no command.
const RESTING: u64 = u64::MAX;
/// Time between two looks at the workers that still use earlier routes.
const USE_POLL: Duration = Duration::from_micros(50);

/// A set of slots.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SlotSet(Box<[u64]>);

impl Default for SlotSet {
    fn default() -> Self {
        SlotSet(vec![0; WORDS].into_boxed_slice())
    }
}

impl SlotSet {
    /// Whether a slot is in the set.
    #[inline]
    fn has(&self, slot: u16) -> bool {
        let word = self.0.get(usize::from(slot) / 64).copied();
        word.unwrap_or_default() >> (slot % 64) & 1 != 0
    }

    /// Whether the set is empty.
    fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Whether all slots of this set are in another one.
    fn is_within(&self, other: &SlotSet) -> bool {
        let mut words = self.0.iter().zip(&other.0);
        words.all(|(own, other)| own & !other == 0)
    }

    /// Adds or removes slots.
    fn set(&mut self, range: &RangeInclusive<u16>, is_in: bool) {
        for slot in range.clone() {
            if let Some(word) = self.0.get_mut(usize::from(slot) / 64) {
                let bit = 1 << (slot % 64);
                *word = if is_in { *word | bit } else { *word & !bit };
            }
        }
    }
}

/// Slots on which commands wait, and the moment since which they do.
#[derive(Clone, Debug)]
pub struct Hold {
    /// Number of the holder, which ends it.
    by: u64,
    slots: SlotSet,
    since: Moment,
}

/// How this node routes commands. It does not change; another replaces it.
#[derive(Clone, Debug)]
pub struct Routes {
    /// Number of this state; each change has a higher one.
    pub serial: u64,
    /// The topology and the name of this node in it, once they are installed.
    pub installed: Option<(Arc<Topology>, Name)>,
    /// Role of this node.
    pub role: Role,
    /// Slots of this node's shard.
    own: SlotSet,
    /// Slots on which commands wait.
    pub holds: Vec<Hold>,
    /// Number of times that this node has lost slots.
    pub losses: u64,
}

impl Routes {
    /// Returns the moment since which commands on a slot wait; `None` if they do not.
    #[inline]
    pub fn held_since(&self, slot: u16) -> Option<Moment> {
        let hold = self.holds.iter().find(|hold| hold.slots.has(slot));
        hold.map(|hold| hold.since)
    }

    /// Whether commands wait on some slots.
    #[inline]
    pub fn has_holds(&self) -> bool {
        !self.holds.is_empty()
    }

    /// Whether keys of a slot are this node's alone now: it is a primary, its shard owns the slot,
    /// and no other node may own it soon.
    pub fn has_alone(&self, slot: u16) -> bool {
        self.is_own(slot) && self.held_since(slot).is_none()
    }

    /// Begins to hold commands on slots.
    pub fn hold(&mut self, by: u64, ranges: &[RangeInclusive<u16>], since: Moment) {
        let mut slots = SlotSet::default();
        ranges.iter().for_each(|range| slots.set(range, true));
        self.holds.push(Hold { by, slots, since });
    }

    /// Ends the hold of slots by one holder.
    pub fn release(&mut self, by: u64, ranges: &[RangeInclusive<u16>]) {
        for hold in self.holds.iter_mut().filter(|hold| hold.by == by) {
            ranges.iter().for_each(|range| hold.slots.set(range, false));
        }
        self.holds.retain(|hold| !hold.slots.is_empty());
    }

    /// Whether the shard of this node owns a slot.
    #[inline]
    pub fn is_own(&self, slot: u16) -> bool {
        self.own.has(slot)
    }

    /// Whether this node is a replica that may be promoted.
    pub fn is_in_sync(&self) -> bool {
        let (Role::Replica(shard), Some((topology, me))) = (self.role, &self.installed) else {
            return false;
        };
        let shard = topology.shards().get(shard);
        let mut replicas = shard.into_iter().flat_map(|shard| &shard.replicas);
        replicas.any(|replica| replica.id == *me && replica.is_in_sync)
    }

    /// Replaces the topology.
    pub fn install(&mut self, topology: Topology, me: Name) {
        self.role = topology.role(me);
        let before = std::mem::take(&mut self.own);
        if let Some(shard) = self.role.shard() {
            let ranges = topology.ranges(shard);
            ranges.for_each(|range| self.own.set(&range, true));
        }
        self.installed = Some((Arc::new(topology), me));
        self.losses += u64::from(!before.is_within(&self.own));
    }

    /// Whether this node executes a command on a slot.
    ///
    /// # Errors
    /// The reason why not.
    #[inline]
    pub fn check(&self, slot: u16, how: How, at: Standing) -> Result<(), Refusal> {
        let is_plain = matches!(self.role, Role::Primary(_)) && self.holds.is_empty();
        if is_plain && at.is_fenced_in && self.is_own(slot) {
            return Ok(());
        }
        self.check_all(slot, how, at)
    }

    fn check_all(&self, slot: u16, how: How, at: Standing) -> Result<(), Refusal> {
        let Some((topology, _)) = &self.installed else {
            return Err(Refusal::Down);
        };
        let owner = topology.owner(slot).ok_or(Refusal::Unserved)?;
        let moved = Refusal::Moved(slot, owner);
        match self.role {
            Role::Primary(shard) if shard == owner => match self.held_since(slot) {
                _ if !at.is_fenced_in => Err(Refusal::Down),
                Some(since) => Err(Refusal::Held(slot, since)),
                None => Ok(()),
            },
            Role::Replica(shard) if shard == owner => match how {
                How::Subscribe => Ok(()),
                How::ReadAnywhere if at.is_fresh => Ok(()),
                _ => Err(moved),
            },
            _ => Err(moved),
        }
    }
}

/// What a command does with its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It writes, or only the primary may execute it.
    Write,
    /// It reads, for a client that has sent READONLY.
    ReadAnywhere,
    /// It subscribes to a channel of the slot.
    Subscribe,
}

/// What this node may execute at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whether a primary serves: its fence has not ended.
    pub is_fenced_in: bool,
    /// Whether a replica serves: its data is recent enough.
    pub is_fresh: bool,
}

/// Reason why this node does not execute a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The keys are in several slots.
    CrossSlot,
    /// The shard with this index owns the slot.
    Moved(u16, usize),
    /// No shard owns the slot.
    Unserved,
    /// There is no topology, or the fence has ended.
    Down,
    /// Commands on the slot wait since this moment.
    Held(u16, Moment),
    /// The command changes keys of any slot, and some slots are held. It does not wait: if the
    /// slots leave, their keys would miss the change.
    HandOver,
}

/// State of a node of a cluster.
pub struct Routing {
    /// Whether a topology decides which commands this node executes (`cluster-enabled yes`).
    is_routed: bool,
    /// Identifier of this node, see [`crate::cluster::id`].
    pub node_id: OnceLock<Name>,
    routes: Mutex<Arc<Routes>>,
    /// Number of `routes`, so that workers notice a change without the lock.
    serial: AtomicU64,
    /// For each worker the routes at the beginning of the work that it does now, see
    /// [`Routing::await_workers`].
    in_use: Vec<InUse>,
    /// Instant in milliseconds at which the fence ends.
    fence_ms: AtomicU64,
    /// Place of this node in its shard.
    pub seat: Seat,
    /// Messages for the other nodes.
    pub outbox: Outbox,
    /// Moves of slots in which this node takes part.
    pub moves: Moves,
    /// Counters of refused commands.
    pub counts: Counts,
}

/// Numbers of commands that were not executed here.
#[derive(Default)]
pub struct Counts {
    /// Answered with MOVED.
    pub moved: AtomicU64,
    /// Answered with CROSSSLOT.
    pub cross_slot: AtomicU64,
    /// Answered with TRYAGAIN.
    pub try_again: AtomicU64,
    /// Answered with CLUSTERDOWN.
    pub down: AtomicU64,
    /// Connections closed in place of replies, because the fence had ended.
    pub late: AtomicU64,
}

impl Routing {
    /// Creates the state of a node without a topology, with a number of worker threads.
    pub fn new(config: &Config, workers: usize) -> Routing {
        let routes = Arc::new(Routes {
            serial: 0,
            installed: None,
            role: Role::Spare,
            own: SlotSet::default(),
            holds: Vec::new(),
            losses: 0,
        });
        Routing {
            is_routed: config.is_routed(),
            node_id: OnceLock::new(),
            serial: AtomicU64::new(0),
            in_use: (0..workers).map(|_| InUse::new(&routes)).collect(),
            routes: Mutex::new(routes),
            fence_ms: AtomicU64::new(0),
            seat: Seat::default(),
            outbox: Outbox::default(),
            moves: Moves::default(),
            counts: Counts::default(),
        }
    }

    /// Whether a topology decides which commands this node executes.
    #[inline]
    pub fn is_routed(&self) -> bool {
        self.is_routed
    }

    /// Returns how commands are routed now.
    pub fn routes(&self) -> Arc<Routes> {
        Arc::clone(&self.routes.lock().expect("the lock is not poisoned"))
    }

    /// Returns the number of the current routes.
    #[inline]
    pub fn serial(&self) -> u64 {
        self.serial.load(Acquire)
    }

    /// Returns the installed topology.
    pub fn current(&self) -> Option<Arc<Topology>> {
        let routes = self.routes();
        let installed = routes.installed.as_ref();
        installed.map(|(topology, _)| Arc::clone(topology))
    }

    /// Sets the instant until which this node may serve as a primary. See [`now`] for the clock.
    pub fn set_fence(&self, end: Instant) {
        self.fence_ms.store(end.0, Relaxed);
    }

    /// Returns the instant until which this node may serve as a primary.
    #[inline]
    pub fn fence(&self) -> Instant {
        Instant(self.fence_ms.load(Relaxed))
    }

    /// Replaces the routes.
    ///
    /// # Errors
    /// The result of `change`, which then has no effect.
    pub fn change(
        &self,
        change: impl FnOnce(&mut Routes) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut current = self.routes.lock().expect("the lock is not poisoned");
        let mut next = Routes::clone(&current);
        change(&mut next)?;
        next.serial += 1;
        self.serial.store(next.serial, SeqCst);
        *current = Arc::new(next);
        Ok(())
    }

    /// Notes that a worker begins work, or that what it did until now is complete.
    #[inline]
    fn begin_work(&self, worker: usize) {
        let Some(used) = self.in_use.get(worker).filter(|_| self.is_routed) else {
            return;
        };
        loop {
            let serial = self.serial.load(SeqCst);
            if used.serial.load(Relaxed) == serial {
                return;
            }
            used.serial.store(serial, SeqCst);
            if used.stored.load(Relaxed) != serial {
                let routes = self.routes();
                used.stored.store(routes.serial, Relaxed);
                *used.routes.lock().expect("the lock is not poisoned") = routes;
            }
        }
    }

    fn end_work(&self, worker: usize) {
        if let Some(used) = self.in_use.get(worker).filter(|_| self.is_routed) {
            used.serial.store(RESTING, Release);
        }
    }

    /// Returns the routes at the beginning of the work that a worker does, for a script: they stay
    /// the same until its end. Returns the current ones if it does none.
    pub fn routes_of(&self, worker: usize) -> Arc<Routes> {
        let used = self.in_use.get(worker);
        match used.filter(|used| used.serial.load(Relaxed) != RESTING) {
            Some(used) => Arc::clone(&used.routes.lock().expect("the lock is not poisoned")),
            None => self.routes(),
        }
    }

    /// Waits until no worker executes a command that routes before the current ones may have
    /// allowed, or until `gives_up` returns true. The caller holds no lock that a command may need.
    ///
    /// A command is routed and executed in one piece of work. In between it may release its shards
    /// and lock them again: to make room in memory, or because it needs the whole keyspace in a
    /// transaction. So the locks of the shards alone do not separate commands before a change of
    /// the routes from those after it.
    pub fn await_workers(&self, gives_up: impl Fn() -> bool) {
        let serial = self.serial.load(SeqCst);
        for used in &self.in_use {
            while used.serial.load(SeqCst) < serial && !gives_up() {
                thread::sleep(USE_POLL);
            }
        }
    }
}

/// Routes in use by a worker.
struct InUse {
    /// Number of the routes; [`RESTING`] if the worker does no work.
    serial: AtomicU64,
    /// Number of `routes`, which are the last ones that the worker used.
    stored: AtomicU64,
    routes: Mutex<Arc<Routes>>,
}

impl InUse {
    fn new(routes: &Arc<Routes>) -> InUse {
        InUse {
            serial: AtomicU64::new(RESTING),
            stored: AtomicU64::new(routes.serial),
            routes: Mutex::new(Arc::clone(routes)),
        }
    }
}

/// A worker that executes commands. All that it executes between two calls of
/// [`WorkerRoutes::begin`] is one piece of work, during which no hold of slots and no topology
/// comes into force.
pub struct WorkerRoutes<'s> {
    routing: &'s Routing,
    worker: usize,
}

impl<'s> WorkerRoutes<'s> {
    /// Creates the state of a worker that executes nothing yet.
    pub fn new(routing: &'s Routing, worker: usize) -> WorkerRoutes<'s> {
        WorkerRoutes { routing, worker }
    }

    /// Begins a piece of work. No command is under way.
    #[inline]
    pub fn begin(&self) {
        self.routing.begin_work(self.worker);
    }

    /// Ends the work: the thread may sleep now.
    pub fn rest(&self) {
        self.routing.end_work(self.worker);
    }
}

impl Drop for WorkerRoutes<'_> {
    fn drop(&mut self) {
        self.rest();
    }
}

/// Returns the current instant on the clock of fences, which counts suspended time.
pub fn now(clock: &Clock) -> Instant {
    match clock {
        Clock::System => {
            let time = clock_gettime(ClockId::Boottime);
            Instant((time.tv_sec as u64) * 1000 + (time.tv_nsec as u64) / 1_000_000)
        }
        Clock::Manual(_) => Instant(clock.moment().0),
    }
}
