//! Requests that need the origin: one of them fetches, and the others follow it.
//!
//! A request with a stale response that may be used when the origin fails waits only a short time
//! for the origin. The fetch goes on without it.

use super::fetch::Fetched;
use super::reply::{self, Answer};
use super::{Lookup, Node};
use crate::flights::{Flight, Joined, Lead, Progress};
use crate::metrics::{Failure, Reply};
use crate::object::{Head, Object};
use crate::rules::freshness::Refusal;
use crate::rules::status::{CacheStatus, Forward};
use crate::store::Store;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{timeout, timeout_at};

/// Result of following another request's fetch.
enum Followed {
    /// The answer.
    Answer(Box<Answer>),
    /// The response does not suit, so that the request fetches for itself.
    Unsuited,
    /// The other request was abandoned, so that another one must fetch.
    Abandoned,
}

impl From<Option<Answer>> for Followed {
    fn from(answer: Option<Answer>) -> Self {
        answer.map_or(Followed::Unsuited, |answer| {
            Followed::Answer(Box::new(answer))
        })
    }
}

impl Node {
    /// Answers a request that needs the origin: fetches, or follows another request's fetch.
    pub(super) async fn fetch_or_follow(
        self: Arc<Self>,
        lookup: Lookup,
        stored: Option<Object>,
        forward: Forward,
    ) -> Answer {
        if let Some(object) = self.usable_when_failing(&lookup, stored.as_ref())
            && self.has_failed_now(&lookup)
        {
            return self.stale(&lookup, object, None);
        }
        if lookup.is_for_part()
            && let Some(flight) = self.whole_flight(&lookup)
        {
            let followed = self.follow(&lookup, stored.as_ref(), flight, forward);
            if let Followed::Answer(answer) = followed.await {
                return *answer;
            }
        }
        let is_passed = self.passed.contains_key(&lookup.passed_name());
        let mut is_alone = is_passed;
        let lead = loop {
            if is_alone {
                break None;
            }
            match self.join(&lookup) {
                Joined::Lead(lead) => break Some(lead),
                Joined::Follow(flight) => {
                    let followed = self.follow(&lookup, stored.as_ref(), flight, forward);
                    match followed.await {
                        Followed::Answer(answer) => return *answer,
                        Followed::Unsuited => is_alone = true,
                        Followed::Abandoned => {}
                    }
                }
            }
        };
        let forward = match is_passed && stored.is_none() {
            true => Forward::Bypass,
            false => forward,
        };
        if let Some(answer) = self.refuse_overrun() {
            let object = self.usable_when_failing(&lookup, stored.as_ref());
            return object.map_or(answer, |object| self.stale(&lookup, object, Some(forward)));
        }
        let mut stored = stored;
        if stored.is_none()
            && let Some(lead) = &lead
        {
            let (answer, adopted) = self.adopt(&lookup, lead).await;
            if let Some(answer) = answer {
                return answer;
            }
            stored = adopted;
        }
        match (lead, self.usable_when_failing(&lookup, stored.as_ref())) {
            (Some(lead), Some(object)) => self.fetch_or_stale(lookup, object, lead, forward).await,
            (lead, _) => {
                let sent = Instant::now();
                let fetched = self.clone().fetch(&lookup, stored.as_ref(), lead).await;
                let answer = self.conclude(&lookup, stored.as_ref(), forward, fetched);
                answer.after_origin(sent)
            }
        }
    }

    /// Fetches a response. If that takes too long, answers with the stale one.
    async fn fetch_or_stale(
        self: Arc<Self>,
        lookup: Lookup,
        stored: &Object,
        lead: Lead,
        forward: Forward,
    ) -> Answer {
        let (wait, sent) = (self.stale_wait(&lookup), Instant::now());
        let fetched = self
            .clone()
            .fetch_apart(lookup.clone(), stored.clone(), lead);
        match timeout(wait, fetched).await {
            Ok(Ok(fetched)) => {
                let answer = self.conclude(&lookup, Some(stored), forward, fetched);
                answer.after_origin(sent)
            }
            _ => {
                self.origins.doubt(lookup.key.host());
                self.stale(&lookup, stored, Some(forward))
            }
        }
    }

    /// Returns the stored response if it answers the request when the origin fails or is slow.
    fn usable_when_failing<'a>(
        &self,
        lookup: &Lookup,
        stored: Option<&'a Object>,
    ) -> Option<&'a Object> {
        let is_usable = |object: &&Object| {
            let terms = &object.head.terms;
            lookup.accepts_stale() && terms.is_usable_when_failing(self.now_ms())
        };
        stored.filter(is_usable)
    }

    /// Returns the time for which the origin is awaited before a stale response is used.
    fn stale_wait(&self, lookup: &Lookup) -> Duration {
        let host = lookup.key.host();
        let has_failed = || self.failed.contains_key(&lookup.flight());
        match self.origins.is_doubtful(host) || has_failed() {
            true => Duration::ZERO,
            false => self.config.limits.stale_wait,
        }
    }

    /// Answers with a stale response in place of one from the origin.
    fn stale(&self, lookup: &Lookup, stored: &Object, forward: Option<Forward>) -> Answer {
        let cache = CacheStatus {
            forward,
            detail: Some("stale-if-error"),
            ..CacheStatus::default()
        };
        reply::stored(lookup, stored, self.now_ms(), Reply::StaleOnError, cache)
    }

    /// Answers from another request's fetch.
    async fn follow(
        &self,
        lookup: &Lookup,
        stored: Option<&Object>,
        mut flight: Flight,
        forward: Forward,
    ) -> Followed {
        // A purge of tags may have come before this request. The tags are known when the head has
        // arrived.
        let is_outdated = {
            let later = self.store.purge_count();
            let begun = flight.purge_count;
            move |store: &Store, head: &Head| {
                begun != later && store.is_purged(begun, &lookup.key, &head.tags)
            }
        };
        let is_known = |progress: &Progress| !matches!(progress, Progress::Waiting);
        let known = flight.progress.wait_for(is_known);
        let known = match self.usable_when_failing(lookup, stored) {
            None => known.await,
            Some(object) => {
                let end = flight.began + self.stale_wait(lookup);
                match timeout_at(end, known).await {
                    Ok(known) => known,
                    Err(_) => return Some(self.stale(lookup, object, Some(forward))).into(),
                }
            }
        };
        let Ok(progress) = known.map(|progress| progress.clone()) else {
            return Followed::Abandoned;
        };
        let cache = CacheStatus {
            forward: Some(forward),
            is_collapsed: true,
            ..CacheStatus::default()
        };
        let answer = match progress {
            Progress::Waiting | Progress::Abandoned => return Followed::Abandoned,
            Progress::Alone => None,
            Progress::Failed(failure) => {
                let now_ms = self.now_ms();
                let is_usable = |object: &&Object| object.head.terms.is_usable_when_failing(now_ms);
                let stored = stored.filter(is_usable);
                // An error response was not shared, because this request may get another one.
                let is_shared = failure != Failure::Status || stored.is_some();
                is_shared.then(|| self.conclude(lookup, stored, forward, Err(failure)))
            }
            Progress::Confirmed(object) => {
                let is_same = object.head.selection.matches(&lookup.headers);
                let is_usable = is_same && !is_outdated(&self.store, &object.head);
                let object = match is_usable {
                    true => self.shared(lookup, object).await,
                    false => None,
                };
                let (now_ms, reply) = (self.now_ms(), Reply::Revalidated);
                object.map(|object| reply::stored(lookup, &object, now_ms, reply, cache))
            }
            Progress::Head(head, fill, length) => {
                let is_same =
                    head.selection.matches(&lookup.headers) && !is_outdated(&self.store, &head);
                let answer =
                    || reply::following(lookup, &head, &fill, length, self.now_ms(), cache);
                is_same.then(answer).flatten()
            }
        };
        answer.into()
    }

    /// Converts the result of a fetch to an answer.
    pub(super) fn conclude(
        &self,
        lookup: &Lookup,
        stored: Option<&Object>,
        forward: Forward,
        fetched: Result<Fetched, Failure>,
    ) -> Answer {
        let now_ms = self.now_ms();
        let mut cache = CacheStatus {
            forward: Some(forward),
            ..CacheStatus::default()
        };
        if fetched.is_err()
            && let Some(object) = stored
            && object.head.terms.is_usable_when_failing(now_ms)
        {
            return self.stale(lookup, object, Some(forward));
        }
        match fetched {
            Ok(Fetched::Confirmed(object, own)) => {
                cache.forward_status = Some(304);
                cache.is_stored = true;
                reply::stored(lookup, &object, now_ms, Reply::Revalidated, cache).with(own)
            }
            Ok(Fetched::Filling {
                head,
                fill,
                length,
                first,
                own,
                is_stored,
            }) => {
                cache.is_stored = is_stored;
                reply::leading(lookup, &head, &fill, first, length, now_ms, cache).with(own)
            }
            Ok(Fetched::Passed(response, refusal)) => {
                cache.detail = refusal.map(Refusal::name);
                self.passed(response, cache, lookup.is_head, lookup.wanted_coding)
            }
            Err(failure) => reply::failed(failure, cache),
        }
    }
}
