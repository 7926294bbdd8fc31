//! Connected clients and what they wait for.

use session::clients::Registry;
use session::monitor::Monitors;
use session::pubsub::PubSub;
use session::tracking::TrackingClients;
use session::waiting::Blocking;
use session::watches::Watches;
use std::sync::atomic::AtomicU64;

/// Connected clients and what they wait for.
#[derive(Default)]
pub struct Clients {
    /// Connected clients.
    pub registry: Registry,
    /// Blocked clients.
    pub blocking: Blocking,
    /// Watched keys waiting to be removed.
    pub watches: Watches,
    /// Subscriptions.
    pub pubsub: PubSub,
    /// Clients that cache keys.
    pub tracking: TrackingClients,
    /// Clients that sent MONITOR.
    pub monitors: Monitors,
    /// Number of clients whose commands CLIENT PAUSE holds.
    pub held: AtomicU64,
}
