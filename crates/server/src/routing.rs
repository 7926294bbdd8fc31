//! What decides which commands a node of a cluster executes: the topology that its host has
//! installed, its fence, and the slots that are held for a move.

use crate::seat::Seat;
use ::cluster::{Instant, Name, Role, SLOTS, Topology};
use rustix::time::{ClockId, clock_gettime};
use session::clock::Clock;
use settings::Config;
use std::ops::RangeInclusive;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, OnceLock};

/// Words of a set of slots.
const WORDS: usize = SLOTS as usize / 64;

/// A set of slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotSet(Box<[u64]>);

impl Default for SlotSet {
    fn default() -> Self {
        SlotSet(vec![0; WORDS].into_boxed_slice())
    }
}

impl SlotSet {
    /// Whether a slot is in the set.
    #[inline]
    pub fn has(&self, slot: u16) -> bool {
        let word = self.0.get(usize::from(slot) / 64).copied();
        word.unwrap_or_default() >> (slot % 64) & 1 != 0
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Adds or removes slots.
    pub fn set(&mut self, range: &RangeInclusive<u16>, is_in: bool) {
        for slot in range.clone() {
            if let Some(word) = self.0.get_mut(usize::from(slot) / 64) {
                let bit = 1 << (slot % 64);
                *word = if is_in { *word | bit } else { *word & !bit };
            }
        }
    }
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
    /// Slots on which commands wait.
    pub held: SlotSet,
}

/// State of a node of a cluster.
pub struct Routing {
    /// Whether a topology decides which commands this node executes (`cluster-enabled yes`).
    is_routed: bool,
    /// Identifier of this node, see [`crate::cluster::id`].
    pub node_id: OnceLock<String>,
    routes: Mutex<Arc<Routes>>,
    /// Number of `routes`, so that workers notice a change without the lock.
    serial: AtomicU64,
    /// Instant in milliseconds at which the fence ends.
    fence_ms: AtomicU64,
    /// Place of this node in its shard.
    pub seat: Seat,
}

impl Routing {
    /// Creates the state of a node without a topology.
    pub fn new(config: &Config) -> Routing {
        let routes = Routes {
            serial: 0,
            installed: None,
            role: Role::Spare,
            held: SlotSet::default(),
        };
        Routing {
            is_routed: config.is_routed(),
            node_id: OnceLock::new(),
            routes: Mutex::new(Arc::new(routes)),
            serial: AtomicU64::new(0),
            fence_ms: AtomicU64::new(0),
            seat: Seat::default(),
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
        self.serial.store(next.serial, Release);
        *current = Arc::new(next);
        Ok(())
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
