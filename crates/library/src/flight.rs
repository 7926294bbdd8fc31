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
    Loading(Vec<Waker>),
    Done(Outcome<V>),
    /// The leader left without a result.
    Abandoned,
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
            state: Mutex::new(State::Loading(Vec::new())),
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
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

impl<K, V> Drop for Lead<K, V> {
    fn drop(&mut self) {
        self.end(State::Abandoned);
    }
}

/// Waits for the end of a load. The result is `None` if the leader left without one.
pub(crate) struct Wait<K, V>(pub(crate) Arc<Flight<K, V>>);

impl<K, V: Clone> Future for Wait<K, V> {
    type Output = Option<Outcome<V>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *lock(&self.0.state) {
            State::Loading(wakers) => {
                if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                    wakers.push(context.waker().clone());
                }
                Poll::Pending
            }
            State::Done(outcome) => Poll::Ready(Some(outcome.clone())),
            State::Abandoned => Poll::Ready(None),
        }
    }
}

impl<K, V: Clone> Wait<K, V> {
    /// Blocks the thread until the end.
    ///
    /// # Panics
    /// If the thread itself leads the load, because it would wait forever.
    pub(crate) fn block(self) -> Option<Outcome<V>> {
        assert_ne!(
            self.0.thread,
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
