//! Single flight: at most one load per key at a time.
//!
//! A caller that finds no value *joins* the key. The first caller leads and loads; the others wait
//! for its result. A caller that arrives after a change of the key does not wait for a load that
//! began before the change: the first such caller leads another load.
//!
//! If the leader panics or its future is dropped, the waiting callers try again, and one of them
//! leads. If the leader is a task whose load is stalled (see `pace.rs`), another caller leads as
//! well. The first value is returned to all; without one, the waiting callers receive the result of
//! the leader that began last. Callers wait by means of wakers, so that threads and tasks of any
//! runtime can wait for each other.

use crate::pace::{Pace, Watch};
use crate::sync::lock;
use std::any::Any;
use std::borrow::Borrow;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread, ThreadId};

/// Number of lists of flights, so that callers for different keys rarely need the same lock.
const LISTS: usize = 16;

/// An error of a loader, whose type only the caller knows.
pub(crate) type AnyError = Arc<dyn Any + Send + Sync>;

/// Result of a load.
pub(crate) enum Outcome<V> {
    Value(V),
    Absent,
    Error(AnyError),
}

impl<V: Clone> Clone for Outcome<V> {
    fn clone(&self) -> Self {
        match self {
            Outcome::Value(value) => Outcome::Value(value.clone()),
            Outcome::Absent => Outcome::Absent,
            Outcome::Error(error) => Outcome::Error(error.clone()),
        }
    }
}

enum State<V> {
    Loading(Loading),
    Done(Outcome<V>),
    /// The leader left without a result.
    Abandoned,
}

/// State of a flight that has not ended.
struct Loading {
    wakers: Wakers,
    /// The leader that began last. The waiting callers depend on it, because the flight ends when
    /// it ends.
    latest: Leader,
}

/// Kind of a loading caller.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Thread that is blocked during the load.
    Thread,
    /// Task of a runtime.
    Task,
    /// Caller that passes on the right to load, for example to another thread.
    Right,
}

/// Facts about a leader that waiting callers need.
#[derive(Clone)]
struct Leader {
    /// Number of the load in its shard.
    load: u64,
    /// Thread that the load blocks. It must not wait for itself.
    thread: Option<ThreadId>,
    /// Pace of the load, if the leader is a task.
    pace: Option<Arc<Pace>>,
}

impl Leader {
    fn is_stalled(&self) -> bool {
        self.pace.as_ref().is_some_and(|pace| pace.is_stalled())
    }
}

/// Wakers of the waiting callers, each at its own place, so that a caller that stops waiting can
/// remove its waker without a search. Wakers are dropped without the lock, because dropping one may
/// drop the waiting task.
#[derive(Default)]
struct Wakers {
    places: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl Wakers {
    /// Stores a waker at the caller's place, which is assigned at the first call. Returns the
    /// previous waker.
    fn set(&mut self, at: &mut Option<usize>, waker: &Waker) -> Option<Waker> {
        if let Some(at) = *at {
            let present = &mut self.places[at];
            if present.as_ref().is_some_and(|own| own.will_wake(waker)) {
                return None;
            }
            return present.replace(waker.clone());
        }
        let waker = waker.clone();
        let place = self.free.pop().unwrap_or(self.places.len());
        match self.places.get_mut(place) {
            Some(free) => *free = Some(waker),
            None => self.places.push(Some(waker)),
        }
        *at = Some(place);
        None
    }

    /// Frees a place and returns its waker.
    fn take(&mut self, at: usize) -> Option<Waker> {
        self.free.push(at);
        self.places[at].take()
    }
}

pub(crate) struct Flight<K, V> {
    hash: u64,
    key: K,
    state: Mutex<State<V>>,
}

/// Flights of all keys whose hashes select the same list.
type List<K, V> = Mutex<Vec<Arc<Flight<K, V>>>>;

/// Loads in progress.
pub(crate) struct Flights<K, V> {
    lists: [List<K, V>; LISTS],
    watch: Arc<Watch>,
}

/// Right to load a value, with the duty to report the result.
pub(crate) struct Lead<K, V> {
    flights: Arc<Flights<K, V>>,
    flight: Arc<Flight<K, V>>,
    leader: Leader,
    is_over: bool,
}

/// Result of [`Flights::join`].
pub(crate) enum Joined<K, V> {
    Lead(Lead<K, V>),
    Wait(Arc<Flight<K, V>>),
}

impl<K, V> Flight<K, V> {
    fn new(hash: u64, key: K, leader: Leader) -> Arc<Self> {
        let loading = Loading {
            wakers: Wakers::default(),
            latest: leader,
        };
        Arc::new(Flight {
            hash,
            key,
            state: Mutex::new(State::Loading(loading)),
        })
    }

    /// Returns the leader that began last; `None` if the flight has ended.
    fn leader(&self) -> Option<Leader> {
        match &*lock(&self.state) {
            State::Loading(loading) => Some(loading.latest.clone()),
            _ => None,
        }
    }

    /// Adds a leader to a flight whose latest leader is stalled.
    fn add(&self, leader: &Leader) {
        if let State::Loading(loading) = &mut *lock(&self.state) {
            loading.latest = leader.clone();
        }
    }

    /// Wakes the waiting callers if the latest leader is stalled, so that one of them leads.
    fn wake_if_stalled(&self) {
        let Some(leader) = self.leader() else { return };
        if let Some(pace) = leader.pace.as_ref().filter(|pace| !pace.is_stalled()) {
            pace.check_later();
            return;
        }
        let wakers = match &*lock(&self.state) {
            State::Loading(loading) if leader.is_stalled() => loading.wakers.places.clone(),
            _ => return,
        };
        wakers.into_iter().flatten().for_each(Waker::wake);
    }
}

impl<K, V> Flights<K, V> {
    pub(crate) fn new(watch: Watch) -> Self {
        Flights {
            lists: std::array::from_fn(|_| Mutex::new(Vec::new())),
            watch: Arc::new(watch),
        }
    }

    /// Returns the instant at which [`Flights::wake_stalled`] may have work, or `u64::MAX` if there
    /// is none.
    pub(crate) fn check_at(&self) -> u64 {
        self.watch.check_at()
    }

    /// Wakes the callers that wait for stalled loads, if the next check is due.
    pub(crate) fn wake_stalled(&self) {
        if self.watch.is_due() {
            for list in &self.lists {
                let flights = lock(list).clone();
                flights.iter().for_each(|flight| flight.wake_if_stalled());
            }
        }
    }

    /// Returns the right to a load that no other caller joins.
    pub(crate) fn lead_apart(self: &Arc<Self>, hash: u64, key: K, load: u64) -> Lead<K, V> {
        let leader = Leader {
            load,
            thread: None,
            pace: None,
        };
        Lead {
            flights: self.clone(),
            flight: Flight::new(hash, key, leader.clone()),
            leader,
            is_over: false,
        }
    }

    /// Joins the load of a key. `begin` begins a load and returns its number. `is_current` returns
    /// true if the key has not changed since the load with the given number began.
    pub(crate) fn join<Q>(
        self: &Arc<Self>,
        hash: u64,
        key: &Q,
        manner: Manner,
        begin: impl FnOnce() -> u64,
        is_current: impl FnOnce(u64) -> bool,
    ) -> Joined<K, V>
    where
        K: Borrow<Q>,
        Q: Eq + ToOwned<Owned = K> + ?Sized,
    {
        let leader = || Leader {
            load: begin(),
            thread: (manner == Manner::Thread).then(|| thread::current().id()),
            pace: (manner == Manner::Task).then(|| Arc::new(Pace::new(self.watch.clone()))),
        };
        let lead = |flight, leader| {
            Joined::Lead(Lead {
                flights: self.clone(),
                flight,
                leader,
                is_over: false,
            })
        };
        let mut list = lock(&self.lists[hash as usize % LISTS]);
        let found = list
            .iter()
            .position(|flight| flight.hash == hash && flight.key.borrow() == key);
        if let Some(at) = found {
            let flight = list[at].clone();
            let latest = flight.leader();
            if let Some(latest) = latest.filter(|latest| is_current(latest.load)) {
                if latest.is_stalled() {
                    let leader = leader();
                    flight.add(&leader);
                    drop(list);
                    if let Some(pace) = &leader.pace {
                        pace.expect_waiters();
                    }
                    return lead(flight, leader);
                }
                // The lock is released first, because this may wake a task of the program.
                drop(list);
                if let Some(pace) = latest.pace {
                    pace.expect_waiters();
                }
                return Joined::Wait(flight);
            }
            list.swap_remove(at);
        }
        // The caller's code may panic here, before the load has begun.
        let key = key.to_owned();
        let leader = leader();
        let flight = Flight::new(hash, key, leader.clone());
        list.push(flight.clone());
        lead(flight, leader)
    }
}

impl<K, V> Lead<K, V> {
    pub(crate) fn key(&self) -> &K {
        &self.flight.key
    }

    pub(crate) fn hash(&self) -> u64 {
        self.flight.hash
    }

    /// Returns the number of the load in its shard.
    pub(crate) fn load(&self) -> u64 {
        self.leader.load
    }

    /// Returns the pace of the load, if the leader is a task.
    pub(crate) fn pace(&self) -> Option<&Arc<Pace>> {
        self.leader.pace.as_ref()
    }

    /// Reports the result to the waiting callers.
    pub(crate) fn finish(mut self, outcome: Outcome<V>) {
        self.end(State::Done(outcome));
    }

    /// Ends the flight if this is the latest leader or the state has a value. The end of an earlier
    /// leader without a value does not affect the waiting callers.
    fn end(&mut self, state: State<V>) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        // The flight leaves the list under the same lock, so that no caller joins a load that has
        // ended.
        let mut list = lock(&self.flights.lists[self.flight.hash as usize % LISTS]);
        let mut current = lock(&self.flight.state);
        let State::Loading(loading) = &mut *current else {
            return;
        };
        let is_latest = loading.latest.load == self.leader.load;
        if !is_latest && !matches!(state, State::Done(Outcome::Value(_))) {
            return;
        }
        let before = std::mem::replace(&mut *current, state);
        drop(current);
        list.retain(|flight| !Arc::ptr_eq(flight, &self.flight));
        drop(list);
        if let State::Loading(loading) = before {
            let wakers = loading.wakers.places.into_iter();
            wakers.flatten().for_each(Waker::wake);
        }
    }
}

impl<K, V> Drop for Lead<K, V> {
    fn drop(&mut self) {
        self.end(State::Abandoned);
    }
}

/// Future that waits for the end of a load. Its output is `None` if the leader left without a
/// result or its load is stalled.
pub(crate) struct Wait<K, V> {
    flight: Arc<Flight<K, V>>,
    /// Place of the caller's waker.
    at: Option<usize>,
}

impl<K, V> Wait<K, V> {
    pub(crate) fn new(flight: Arc<Flight<K, V>>) -> Self {
        Wait { flight, at: None }
    }
}

impl<K, V> Drop for Wait<K, V> {
    fn drop(&mut self) {
        let Some(at) = self.at.take() else { return };
        let waker = match &mut *lock(&self.flight.state) {
            State::Loading(loading) => loading.wakers.take(at),
            _ => None,
        };
        drop(waker);
    }
}

impl<K, V: Clone> Future for Wait<K, V> {
    type Output = Option<Outcome<V>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Wait { flight, at } = self.get_mut();
        let before = match &mut *lock(&flight.state) {
            State::Loading(loading) if loading.latest.is_stalled() => return Poll::Ready(None),
            State::Loading(loading) => loading.wakers.set(at, context.waker()),
            State::Done(outcome) => return Poll::Ready(Some(outcome.clone())),
            State::Abandoned => return Poll::Ready(None),
        };
        drop(before);
        Poll::Pending
    }
}

impl<K, V: Clone> Wait<K, V> {
    /// Blocks the thread until the load has ended.
    ///
    /// # Panics
    /// Panics if the thread itself leads the load, because it would wait forever.
    pub(crate) fn block(self) -> Option<Outcome<V>> {
        let thread = self.flight.leader().and_then(|leader| leader.thread);
        assert_ne!(
            thread,
            Some(thread::current().id()),
            "a loader requested the key that it loads"
        );
        struct Unpark(Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut wait = pin!(self);
        loop {
            match wait.as_mut().poll(&mut context) {
                Poll::Ready(outcome) => return outcome,
                Poll::Pending => thread::park(),
            }
        }
    }
}
