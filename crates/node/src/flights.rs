//! Fetches that are under way, so that requests for the same response share one (request
//! coalescing).

use crate::fill::Fill;
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
    /// The response is for one client alone, or the fetch has failed.
    Alone,
}

/// Fetches by key.
#[derive(Default)]
pub struct Flights(Mutex<HashMap<String, watch::Receiver<Progress>>>);

/// Result of [`Flights::join`].
pub enum Joined {
    /// The caller fetches, and others follow.
    Lead(Lead),
    /// Another request fetches.
    Follow(watch::Receiver<Progress>),
}

/// Right to fetch. While it exists, others follow; dropping it notifies them.
pub struct Lead {
    flights: Arc<Flights>,
    key: String,
    progress: watch::Sender<Progress>,
}

impl Flights {
    fn map(&self) -> MutexGuard<'_, HashMap<String, watch::Receiver<Progress>>> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// Joins the fetch of a key, or begins one.
    pub fn join(self: &Arc<Self>, key: String) -> Joined {
        let mut map = self.map();
        if let Some(flight) = map.get(&key) {
            return Joined::Follow(flight.clone());
        }
        let (progress, receiver) = watch::channel(Progress::Waiting);
        map.insert(key.clone(), receiver);
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
        self.flights.map().remove(&self.key);
        // A request that was abandoned before its head arrived: each of the others tries again.
        if matches!(*self.progress.borrow(), Progress::Waiting) {
            self.progress.send_replace(Progress::Alone);
        }
    }
}
