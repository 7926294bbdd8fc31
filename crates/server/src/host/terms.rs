//! Records and transactions, as the rules and as etcd have them.

use super::{Host, Message};
use crate::seat::{Numbers, Place};
use ::cluster::{
    Action, Instant, Member, Name, Purpose, Record, Revision, Start, Transaction, Versioned,
};
use membership::kv::{Entry, Event, Failure, Guard, Kv, Write};
use membership::records::{BEATS, SHARDS, Shard, Strength};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Pause in milliseconds before a campaign for each in-sync replica that comes first: it has more
/// of the feed, or as much and a smaller name.
const RANK_MS: u64 = 200;
/// Number of the first term of a shard.
const FIRST_TERM: u64 = 1;
/// Number of times that the rules wait for silence before a primary that has restarted and may lack
/// writes begins a term (`async`) or logs that it waits (`sync`): no in-sync replica has replaced
/// it.
const SILENCES: u64 = 3;
/// Number of times that the rules wait for silence in which a requested campaign precedes others.
const FORCED_SILENCES: u64 = 3;

impl<K: Kv> Host<K> {
    /// Takes the node's place in its shard, once it is registered for one and has loaded its keys.
    pub(super) fn sit(&mut self, now: Instant) {
        let is_ready = self.is_connected && !self.server.persistence.loading.is_on();
        if !is_ready || self.is_claiming || self.server.cluster.seat.place().is_some() {
            return;
        }
        let Some(shard) = self.registered_shard() else {
            return;
        };
        let (Some(config), Some((record, revision))) =
            (self.directory.config(), self.directory.shards().get(&shard))
        else {
            return;
        };
        let timing = config.timing();
        let mut numbers = Numbers::default();
        let Some(value) = known(record, &mut numbers) else {
            let (cluster, revision) = (config.cluster, *revision);
            return self.claim(shard, cluster, revision);
        };
        // Before the first term nobody has written. This node may not know that its claim applied.
        let has_written = if value.epoch == FIRST_TERM {
            FIRST_TERM
        } else {
            0
        };
        let start = Start {
            is_complete: false,
            epoch: self.roles.term.max(has_written),
            offset: self.server.feed.end(),
        };
        let revision = Revision(*revision as u64);
        let beat = Revision(self.directory.beat(shard) as u64);
        let id = numbers.of(self.me);
        let record = Versioned { value, revision };
        let member = Member::new(id, timing, start, record, beat, now);
        self.roles.shard = Some(shard);
        self.roles.waits_since = now;
        let place = Place::new(shard, member, numbers);
        if self.server.cluster.seat.take(place) {
            self.server.replication.must_reconnect.store(true, Relaxed);
        }
        log::info!("cluster: this node belongs to shard {shard}");
    }

    /// Becomes the first primary of a shard.
    fn claim(&mut self, shard: Name, cluster: Name, revision: i64) {
        let record = Shard {
            epoch: FIRST_TERM,
            primary: Some(self.me),
            in_sync: Vec::new(),
            position: self.server.feed.end(),
        };
        let key = format!("{SHARDS}{shard}");
        let guards = vec![Guard::Revision(key.clone(), revision)];
        let writes = vec![
            Write::Put(key, record.encode(cluster), None),
            Write::Put(format!("{BEATS}{shard}"), self.me.to_string(), None),
        ];
        self.is_claiming = true;
        let kv = Arc::clone(&self.kv);
        self.spawn(
            async move { kv.commit(guards, writes).await },
            Message::Claimed,
        );
    }

    pub(super) fn claimed(&mut self, result: Result<Option<i64>, Failure>) {
        match result {
            // The keys of this node are the only ones of the term.
            Ok(Some(_)) => self.roles.term = FIRST_TERM,
            Ok(None) => {}
            Err(failure) => log::debug!("cluster: claim of a shard: {failure}"),
        }
        // The record must be read before another attempt.
        self.again.notify_one();
    }

    /// Passes the records to the rules.
    pub(super) fn read(&mut self, now: Instant) {
        let mut place = self.server.cluster.seat.place();
        let Some(place) = place.as_mut() else {
            return;
        };
        let Some((record, revision)) = self.directory.shards().get(&place.shard) else {
            return;
        };
        let beat = Revision(self.directory.beat(place.shard) as u64);
        let revision = Revision(*revision as u64);
        if let Some(value) = known(record, &mut place.numbers) {
            let record = Versioned { value, revision };
            place.member.read(record, beat, self.server.feed.end(), now);
        }
    }

    /// Sends the transactions that are due.
    pub(super) fn tick(&mut self, now: Instant) {
        let silence_ms = self.silence_ms();
        let strength = self
            .directory
            .config()
            .map_or(Strength::Sync, |config| config.strength);
        let mut place = self.server.cluster.seat.place();
        let Some(seated) = place.as_mut() else {
            return;
        };
        if self.server.cluster.seat.is_forced.swap(false, Relaxed) {
            self.roles.forced_until = now.after(FORCED_SILENCES * silence_ms);
        }
        let is_forced = now < self.roles.forced_until;
        // Counting from an earlier instant shortens the fence and delays the campaign.
        let early = match seated.member.is_primary() || is_forced {
            true => now,
            false => Instant(now.0.saturating_sub(RANK_MS * self.rank(seated))),
        };
        let mut actions = Vec::new();
        if let Some(resume) = self.roles.resume.take() {
            // An earlier request may have begun a term meanwhile, or another node.
            match seated.member.is_primary() && !seated.member.serves(now) {
                true => actions.push(Action::Send(resume)),
                false => seated.member.unanswered(&resume),
            }
        }
        actions.extend(seated.member.tick(early));
        let waits = now >= self.roles.waits_since.after(SILENCES * silence_ms);
        if seated.member.is_primary() && !seated.member.leads() && waits {
            match strength {
                Strength::Sync if !self.roles.has_warned => {
                    self.roles.has_warned = true;
                    log::error!(
                        "cluster: this primary has restarted and waits for a replica that has all acknowledged writes; if none comes back, 'mayfly cluster set --strength async' lets it begin a term with the keys that it has"
                    );
                }
                Strength::Sync => {}
                Strength::Async => {
                    let accepted = seated.member.accept_loss(now);
                    if !accepted.is_empty() {
                        log::warn!(
                            "cluster: no in-sync replica has replaced this node, which begins a term with the keys that it has"
                        );
                    }
                    actions.extend(accepted);
                }
            }
        }
        drop(place);
        self.send(actions);
    }

    fn silence_ms(&self) -> u64 {
        let config = self.directory.config();
        config.map_or(u64::MAX / SILENCES, |config| config.timing().silence_ms())
    }

    /// Number of in-sync replicas that should campaign before this one.
    fn rank(&self, place: &Place) -> u64 {
        let Some((record, _)) = self.directory.shards().get(&place.shard) else {
            return 0;
        };
        let own = self.server.feed.end();
        let comes_first = |id: &&Name| {
            let known = self.directory.nodes().get(*id);
            let is_ahead = known.is_some_and(|known| known.registration.node.offset > own);
            known.is_some_and(|known| known.revision != 0) && (is_ahead || **id < self.me)
        };
        record.in_sync.iter().filter(comes_first).count() as u64
    }

    /// Sends transactions. Requests to replicas are part of the feed (`lead.rs`).
    pub(super) fn send(&mut self, actions: Vec<Action>) {
        for action in actions {
            if let Action::Send(transaction) = action {
                self.send_one(transaction);
            }
        }
    }

    /// Sends a transaction. With `sync`, one that begins a term after a restart is sent once the
    /// local copy has the term: otherwise a process that ends before that would have an earlier
    /// term at its next start, and would wait for a replica with more writes, of which there may be
    /// none. With `async` it would not wait for long.
    fn send_one(&mut self, transaction: Transaction) {
        if let (Purpose::Resume, Some(record)) = (transaction.purpose, &transaction.record) {
            let term = record.epoch;
            let config = self.directory.config();
            let is_sync = config.is_some_and(|config| config.strength == Strength::Sync);
            self.note_term(term);
            if is_sync && !self.has_saved(term) {
                self.roles.resume = Some(transaction);
                return;
            }
        }
        let place = self.server.cluster.seat.place();
        let (Some(seated), Some(config)) = (place.as_ref(), self.directory.config()) else {
            return;
        };
        self.beats += 1;
        let key = format!("{SHARDS}{}", seated.shard);
        let beat = format!("{BEATS}{}", seated.shard);
        let mut guards = vec![Guard::Revision(key.clone(), transaction.record_is.0 as i64)];
        guards.extend(
            transaction
                .beat_is
                .map(|revision| Guard::Revision(beat.clone(), revision.0 as i64)),
        );
        let mut writes = vec![Write::Put(
            beat,
            format!("{} {}", self.me, self.beats),
            None,
        )];
        let record = transaction.record.as_ref().map(|record| {
            let before = self.directory.shards().get(&seated.shard);
            let position = match before {
                Some((shard, _)) if shard.epoch == record.epoch => shard.position,
                _ => self.server.feed.end(),
            };
            let record = written(record, &seated.numbers, position);
            (key, record.encode(config.cluster))
        });
        drop(place);
        writes.extend(
            record
                .clone()
                .map(|(key, value)| Write::Put(key, value, None)),
        );
        let kv = Arc::clone(&self.kv);
        let task = async move { kv.commit(guards, writes).await };
        self.spawn(task, move |result| {
            Message::Outcome(transaction, record, result)
        });
    }

    /// Passes the outcome of a transaction to the rules.
    pub(super) fn settle(
        &mut self,
        sent: &Transaction,
        record: Option<super::Record>,
        result: Result<Option<i64>, Failure>,
    ) {
        let (now, offset) = (self.now(), self.server.feed.end());
        {
            let mut place = self.server.cluster.seat.place();
            let Some(place) = place.as_mut() else {
                return;
            };
            match &result {
                Ok(Some(revision)) => {
                    let revision = Revision(*revision as u64);
                    place.member.applied(sent, revision, offset, now);
                }
                Ok(None) => place.member.refused(sent),
                Err(_) => place.member.unanswered(sent),
            }
        }
        match (result, record) {
            (Ok(Some(revision)), Some((key, value))) => {
                log::info!("cluster: {:?} has been written", sent.purpose);
                self.note_own(key, value, revision);
            }
            (Ok(Some(_)), None) => {}
            // The record or the beat has changed meanwhile.
            (Ok(None), _) => self.again.notify_one(),
            (Err(failure), _) => {
                self.lost(failure);
                // The changes may come from the endpoint that does not answer.
                self.again.notify_one();
            }
        }
    }

    /// Takes a record that this node has written, before its change arrives.
    fn note_own(&mut self, key: String, value: String, revision: i64) {
        self.noted = self.noted.max(Revision(revision as u64));
        let name = key
            .strip_prefix(SHARDS)
            .map(str::as_bytes)
            .and_then(Name::parse);
        let known = name.and_then(|name| self.directory.shards().get(&name));
        if known.is_some_and(|(_, known)| *known >= revision) {
            return;
        }
        self.directory.apply(Event::Put(Entry {
            key,
            value: value.into_bytes(),
            created: revision,
            revision,
        }));
        self.noted(true);
    }
}

/// Returns a record for the rules; `None` if the shard has had no primary.
fn known(shard: &Shard, numbers: &mut Numbers) -> Option<Record> {
    let primary = numbers.of(shard.primary?);
    Some(Record {
        epoch: shard.epoch,
        primary,
        in_sync: shard.in_sync.iter().map(|id| numbers.of(*id)).collect(),
    })
}

/// Returns a record for etcd.
fn written(record: &Record, numbers: &Numbers, position: u64) -> Shard {
    Shard {
        epoch: record.epoch,
        primary: numbers.name(record.primary),
        in_sync: record
            .in_sync
            .iter()
            .filter_map(|id| numbers.name(*id))
            .collect(),
        position,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_the_same_after_a_round_through_the_rules() {
        let name = |digit: &str| Name::parse(digit.repeat(40).as_bytes()).expect("40 digits");
        let shard = Shard {
            epoch: 3,
            primary: Some(name("b")),
            in_sync: vec![name("a"), name("c")],
            position: 9,
        };
        let mut numbers = Numbers::default();
        let record = known(&shard, &mut numbers).expect("it has a primary");
        assert_eq!(written(&record, &numbers, 9), shard);
        let again = known(&shard, &mut numbers).expect("it has a primary");
        assert_eq!(again, record);
        assert_eq!(known(&Shard::vacant(), &mut numbers), None);
    }
}
