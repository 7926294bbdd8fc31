//! Fetches that are under way, so that requests for the same response share one (request
//! coalescing).

use crate::fill::Fill;
use crate::metrics::Failure;
use crate::object::{Head, Object};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::watch;

/// What is known of a fetch.
#[derive(Clone)]
pub enum Progress {
    /// The head has not arrived.
    Waiting,
    /// A response that may be stored: its head, its content, and the content's length if the origin
    /// has said it.
    Head(Arc<Head>, Arc<Fill>, Option<u64>),
    /// The origin has confirmed what was stored.
    Confirmed(Object),
    /// The response is for one client alone, or the request was abandoned.
    Alone,
    /// The origin has not answered.
    Failed(Failure),
}

/// A fetch that is under way.
#[derive(Clone)]
pub struct Flight {
    /// What is known of it.
    pub progress: watch::Receiver<Progress>,
    /// Number of purges when it began.
    pub purge_count: u64,
}

/// Fetches by key.
#[derive(Default)]
pub struct Flights(Mutex<HashMap<String, Flight>>);

/// Result of [`Flights::join`].
pub enum Joined {
    /// The caller fetches, and others follow.
    Lead(Lead),
    /// Another request fetches.
    Follow(Flight),
}

/// Right to fetch. While it exists, others follow; dropping it notifies them.
pub struct Lead {
    flights: Arc<Flights>,
    key: String,
    progress: watch::Sender<Progress>,
}

impl Flights {
    fn map(&self) -> MutexGuard<'_, HashMap<String, Flight>> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// Joins the fetch of a key, or begins one after `purge_count` purges. One that `is_outdated`
    /// by the purges since its beginning is replaced: requests from now on do not follow it.
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
        };
        map.insert(key.clone(), flight);
        Joined::Lead(Lead {
            flights: self.clone(),
            key,
            progress,
        })
    }
}

impl Lead {
    /// Notifies those that follow.
    pub fn publish(&self, progress: Progress) {
        self.progress.send_replace(progress);
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        let own = self.progress.subscribe();
        let mut map = self.flights.map();
        // Another one may have replaced it.
        if map
            .get(&self.key)
            .is_some_and(|flight| flight.progress.same_channel(&own))
        {
            map.remove(&self.key);
        }
        drop(map);
        // A request that was abandoned before its head arrived: each of the others tries again.
        if matches!(*self.progress.borrow(), Progress::Waiting) {
            self.progress.send_replace(Progress::Alone);
        }
    }
}
