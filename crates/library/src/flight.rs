//! At most one load per key at a time.
//!
//! A caller that finds no value *joins* the key: the first one leads and loads, the others wait for
//! its result. If the leader panics or its future is dropped, those that wait try again, and one of
//! them leads. Waiting works by wakers, so that threads and tasks of any runtime can wait for each
//! other.

use crate::sync::lock;
use std::any::Any;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread, ThreadId};

/// Number of lists of flights, so that different keys rarely meet at a lock.
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
    Loading(Wakers),
    Done(Outcome<V>),
    /// The leader left without a result.
    Abandoned,
}

/// Wakers of those that wait, each at a place of its own, so that one that stops waiting is
/// forgotten and none is searched for. A waker is dropped without the lock, because that may drop
/// the task that waits.
#[derive(Default)]
struct Wakers {
    places: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl Wakers {
    /// Stores a waker at its place, which it receives with the first call. Returns the one before.
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
    /// Thread of a leader that blocks, which must not wait for itself.
    thread: Option<ThreadId>,
    state: Mutex<State<V>>,
}

/// Loads of keys whose hashes select the same list.
type List<K, V> = Mutex<Vec<Arc<Flight<K, V>>>>;

/// Loads in progress.
pub(crate) struct Flights<K, V> {
    lists: [List<K, V>; LISTS],
}

/// The right to load a value, and the duty to report the result.
pub(crate) struct Lead<K, V> {
    flights: Arc<Flights<K, V>>,
    flight: Arc<Flight<K, V>>,
}

/// Result of [`Flights::join`].
pub(crate) enum Joined<K, V> {
    Lead(Lead<K, V>),
    Wait(Arc<Flight<K, V>>),
}

impl<K, V> Default for Flights<K, V> {
    fn default() -> Self {
        Flights {
            lists: std::array::from_fn(|_| Mutex::new(Vec::new())),
        }
    }
}

impl<K: Eq, V> Flights<K, V> {
    /// Joins the load of a key. `blocks` says whether a leader would block its thread.
    pub(crate) fn join(self: &Arc<Self>, hash: u64, key: K, blocks: bool) -> Joined<K, V> {
        let mut list = lock(&self.lists[hash as usize % LISTS]);
        if let Some(flight) = list
            .iter()
            .find(|flight| flight.hash == hash && flight.key == key)
        {
            return Joined::Wait(flight.clone());
        }
        let flight = Arc::new(Flight {
            hash,
            key,
            thread: blocks.then(|| thread::current().id()),
            state: Mutex::new(State::Loading(Wakers::default())),
        });
        list.push(flight.clone());
        Joined::Lead(Lead {
            flights: self.clone(),
            flight,
        })
    }
}

impl<K, V> Lead<K, V> {
    pub(crate) fn key(&self) -> &K {
        &self.flight.key
    }

    pub(crate) fn hash(&self) -> u64 {
        self.flight.hash
    }

    /// Reports the result to those that wait.
    pub(crate) fn finish(self, outcome: Outcome<V>) {
        self.end(State::Done(outcome));
    }

    fn end(&self, state: State<V>) {
        // First out of the list, so that nobody joins a load that has ended.
        let mut list = lock(&self.flights.lists[self.flight.hash as usize % LISTS]);
        list.retain(|flight| !Arc::ptr_eq(flight, &self.flight));
        drop(list);
        let before = {
            let mut current = lock(&self.flight.state);
            match &*current {
                State::Loading(_) => std::mem::replace(&mut *current, state),
                _ => return,
            }
        };
        if let State::Loading(wakers) = before {
            wakers.places.into_iter().flatten().for_each(Waker::wake);
        }
    }
}

impl<K, V> Drop for Lead<K, V> {
    fn drop(&mut self) {
        self.end(State::Abandoned);
    }
}

/// Waits for the end of a load. The result is `None` if the leader left without one.
pub(crate) struct Wait<K, V> {
    flight: Arc<Flight<K, V>>,
    /// Place of the waker.
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
            State::Loading(wakers) => wakers.take(at),
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
            State::Loading(wakers) => wakers.set(at, context.waker()),
            State::Done(outcome) => return Poll::Ready(Some(outcome.clone())),
            State::Abandoned => return Poll::Ready(None),
        };
        drop(before);
        Poll::Pending
    }
}

impl<K, V: Clone> Wait<K, V> {
    /// Blocks the thread until the end.
    ///
    /// # Panics
    /// If the thread itself leads the load, because it would wait forever.
    pub(crate) fn block(self) -> Option<Outcome<V>> {
        assert_ne!(
            self.flight.thread,
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
