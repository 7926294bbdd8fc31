//! Requests to an owner that is late: the next owner may have the response, too, and a node that
//! does not answer at all is not waited for.
//!
//! # Idea
//! A forwarded request is late after the time in which the owner answers 95 % of its requests
//! ([`super::latency`]). Then two further requests are sent at once:
//! - to the next owner, which answers only if it has a fresh response or its head. It does not use
//!   the origin.
//! - a probe to the late owner. If the owner answers it, the owner works, and its answer takes long
//!   because of the origin or of its disk; it is awaited. If the owner does not answer it within
//!   the time of a bad answer, the request goes to the next owner, as if the late one were down.
//!
//! The first answer is used, and the other request is cancelled. So the origin receives a second
//! request for the same response only if the owner does not even answer a probe, and the next owner
//! does not have the response. Requests that have left the same late owner share one fetch there.
//!
//! # Bounds
//! At most [`PART`] of all forwarded requests are hedged, and [`BURST`] more after a time with
//! fewer. The others wait for their owner. A node that is late again and again is taken out soon,
//! so that its requests need no hedge.

use super::latency::BAD_MIN;
use super::peer::PeerFailure;
use super::{Cluster, Forwarded, Relayed, ServerId};
use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::time::timeout;

/// Number of forwarded requests for which one may be hedged.
const PART: u32 = 20;
/// Maximum number of hedged requests that are saved up.
const BURST: u32 = 20;

/// Account of hedged requests.
#[derive(Debug)]
pub(super) struct Hedges(Mutex<u32>);

impl Default for Hedges {
    fn default() -> Self {
        Hedges(Mutex::new(BURST * PART))
    }
}

impl Hedges {
    fn parts(&self) -> MutexGuard<'_, u32> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// Counts a forwarded request.
    fn earn(&self) {
        let mut parts = self.parts();
        *parts = (*parts + 1).min(BURST * PART);
    }

    /// Returns true if a request may be hedged, and counts it.
    fn spend(&self) -> bool {
        let mut parts = self.parts();
        let left = parts.checked_sub(PART);
        *parts = left.unwrap_or(*parts);
        left.is_some()
    }
}

impl Cluster {
    /// Forwards a request to a node. If the answer is late, another request is sent to the next
    /// owner.
    ///
    /// # Errors
    /// Returns the reason if the node does not answer, or [`PeerFailure::Late`] if the caller
    /// should not wait for it.
    pub async fn forward_hedged(
        self: &Arc<Self>,
        server: ServerId,
        next: Option<ServerId>,
        forwarded: &Forwarded<'_>,
    ) -> Result<Relayed, PeerFailure> {
        self.hedges.earn();
        let mut first = pin!(self.forward(server, forwarded));
        let delay = { self.liveness().latencies().delay(server) };
        if let Ok(answer) = timeout(delay, first.as_mut()).await {
            return answer;
        }
        if !self.hedges.spend() {
            self.counts.hedges_refused.fetch_add(1, Relaxed);
            return first.await;
        }
        self.counts.hedges.fetch_add(1, Relaxed);
        let mut probe = tokio::spawn(self.clone().answers_soon(server));
        let mut stored = pin!(self.stored_at(next, forwarded));
        let (mut has_looked, mut has_probed) = (false, false);
        loop {
            tokio::select! {
                answer = first.as_mut() => return answer,
                found = stored.as_mut(), if !has_looked => {
                    has_looked = true;
                    if let Some(relayed) = found {
                        self.counts.hedges_used.fetch_add(1, Relaxed);
                        return Ok(relayed);
                    }
                }
                answers = &mut probe, if !has_probed => {
                    has_probed = true;
                    if !answers.unwrap_or(true) {
                        self.counts.owners_left.fetch_add(1, Relaxed);
                        return Err(PeerFailure::Late);
                    }
                }
            }
        }
    }

    /// Returns false, and counts it, if a node does not answer a probe within the time of a bad
    /// answer.
    async fn answers_soon(self: Arc<Self>, server: ServerId) -> bool {
        let bad = { self.liveness().latencies().bad_time() };
        let answered = timeout(bad.unwrap_or(BAD_MIN), self.is_healthy(server)).await;
        if answered.is_err() && bad.is_some() {
            self.note_late(server);
        }
        answered.unwrap_or(false)
    }

    /// Returns the response that a node has stored, or its head; `None` if it has none.
    async fn stored_at(
        self: &Arc<Self>,
        server: Option<ServerId>,
        forwarded: &Forwarded<'_>,
    ) -> Option<Relayed> {
        let forwarded = Forwarded {
            method: forwarded.method.clone(),
            headers: forwarded.headers.clone(),
            is_for_stored: true,
            ..*forwarded
        };
        self.forward(server?, &forwarded).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_of_twenty_may_be_hedged() {
        let hedges = Hedges::default();
        let spend = || (0..1_000).filter(|_| hedges.spend()).count() as u32;
        assert_eq!(spend(), BURST);
        (0..5 * PART + 1).for_each(|_| hedges.earn());
        assert_eq!(spend(), 5);
        (0..1_000 * PART).for_each(|_| hedges.earn());
        assert_eq!(spend(), BURST);
    }
}
