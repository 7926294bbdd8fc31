//! Fetches in progress, so that requests for the same response share one fetch (request
//! coalescing).

use crate::fill::Fill;
use crate::metrics::Failure;
use crate::object::{Head, Object};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::Instant;

/// Progress of a fetch.
#[derive(Clone)]
pub enum Progress {
    /// The head has not arrived.
    Waiting,
    /// The response may be stored: its head, its content, and the length of the content if the
    /// origin announced it.
    Head(Arc<Head>, Arc<Fill>, Option<u64>),
    /// The origin has confirmed the stored response.
    Confirmed(Object),
    /// The response is for a single client.
    Alone,
    /// The request was abandoned before its head arrived.
    Abandoned,
    /// The origin did not answer.
    Failed(Failure),
}

/// Fetch in progress.
#[derive(Clone)]
pub struct Flight {
    /// Progress of the fetch.
    pub progress: watch::Receiver<Progress>,
    /// Number of purges before the fetch began.
    pub purge_count: u64,
    /// Start of the fetch.
    pub began: Instant,
}

/// Fetches in progress, by key.
#[derive(Default)]
pub struct Flights(Mutex<HashMap<String, Flight>>);

/// Result of [`Flights::join`].
pub enum Joined {
    /// The caller must fetch, and others follow it.
    Lead(Lead),
    /// Another request fetches.
    Follow(Flight),
}

/// Right to fetch. While it exists, other requests follow the fetch. Dropping it notifies them.
pub struct Lead {
    flights: Arc<Flights>,
    key: String,
    progress: watch::Sender<Progress>,
}

impl Flights {
    fn map(&self) -> MutexGuard<'_, HashMap<String, Flight>> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// Joins the fetch of a key, or begins one after `purge_count` purges. A fetch that is outdated
    /// by purges since its beginning (`is_outdated`) is replaced, so that later requests do not
    /// follow it.
    pub fn join(
        self: &Arc<Self>,
        key: String,
        purge_count: u64,
        is_outdated: impl FnOnce(u64) -> bool,
    ) -> Joined {
        let mut map = self.map();
        if let Some(flight) = map.get(&key)
            && !is_outdated(flight.purge_count)
        {
            return Joined::Follow(flight.clone());
        }
        let (progress, receiver) = watch::channel(Progress::Waiting);
        let flight = Flight {
            progress: receiver,
            purge_count,
            began: Instant::now(),
        };
        map.insert(key.clone(), flight);
        Joined::Lead(Lead {
            flights: self.clone(),
            key,
            progress,
        })
    }

    /// Returns the fetch of a key, if there is one that is not outdated.
    pub fn get(&self, key: &str, is_outdated: impl FnOnce(u64) -> bool) -> Option<Flight> {
        let flight = self.map().get(key).cloned()?;
        (!is_outdated(flight.purge_count)).then_some(flight)
    }
}

impl Lead {
    /// Notifies the followers of progress.
    pub fn publish(&self, progress: Progress) {
        self.progress.send_replace(progress);
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        let own = self.progress.subscribe();
        let mut map = self.flights.map();
        // Another fetch may have replaced this one.
        if map
            .get(&self.key)
            .is_some_and(|flight| flight.progress.same_channel(&own))
        {
            map.remove(&self.key);
        }
        drop(map);
        if matches!(*self.progress.borrow(), Progress::Waiting) {
            self.progress.send_replace(Progress::Abandoned);
        }
    }
}
