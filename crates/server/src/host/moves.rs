//! Moves of slots between shards: which of them this node takes part in, the hold, and the
//! transactions that end them. The rules are `cluster::Slots`.

use super::{Host, Message};
use crate::exporting;
use crate::importing;
use crate::movement::{Answer, Arriving, Leaving, Outcome, Phase, Request, Wish};
use crate::saving::work::reply;
use ::cluster::{Instant, Mark, Name, Revision, ShardId, Slots, View};
use durability::saving::Waiting;
use membership::kv::{Failure, Kv};
use membership::moves::{self, Move, State};
use membership::plan::{self, Change, Revisions};
use membership::records::address;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::thread::Builder;

/// Time in milliseconds after which the commit of a hold is voided, for the first attempt: a target
/// that has all keys needs a few. Each further attempt has twice the time, up to the last one of
/// [`PATIENCE_DOUBLINGS`]: the target may need it for its replicas or its file.
const HOLD_MS_MAX: u64 = 500;
/// Number of times that the time for a commit is doubled.
const PATIENCE_DOUBLINGS: u32 = 5;
/// Number of bytes of the feed that a move's thread may not have taken. One that is so slow begins
/// again.
const FEED_LAG_MAX: u64 = 256 << 20;
/// Time in milliseconds after which the keys of slots that have left are removed, so that replicas
/// that answer reads have read of the new owner.
const SWEEP_MS: u64 = 1_000;
/// This node's shard, and any other one, for the rules.
const OWN: ShardId = ShardId(0);
const OTHER: ShardId = ShardId(1);

/// State of the moves in which this node takes part.
#[derive(Default)]
pub(super) struct Moving {
    exports: BTreeMap<Name, Export>,
    /// Commits whose outcome is not known, by move.
    commits: BTreeSet<Name>,
    /// Replies to clients that wait until this node has read what they have written.
    answers: Vec<(Revision, Waiting, Answer)>,
    /// Moves from this node whose threads must be started.
    pub(super) new: Vec<Arc<Leaving>>,
    /// Whether keys of other shards are being removed.
    is_sweeping: bool,
    /// Whether the thread that removes them must be started.
    pub(super) begins_sweep: bool,
    /// Instant at which the keys of slots that have left are removed.
    sweeps_at: Option<Instant>,
    /// Whether the list of moves is older than the records.
    pub(super) is_stale: bool,
    /// Term in which this node has last begun to serve.
    term: Revision,
}

/// A move from this node.
struct Export {
    slots: Slots,
    leaving: Arc<Leaving>,
    /// Instant at which the commit is voided, while the slots are held.
    voids_at: Option<Instant>,
    /// Number of commits that were voided.
    voids: u32,
    /// Whether a transaction that ends the move or voids its commit is under way.
    is_ending: bool,
}

/// This node as a primary that serves and whose records are recent.
#[derive(Clone, Copy)]
struct Own {
    shard: Name,
    since: Revision,
    /// Revision of the shard's record.
    record: Revision,
    /// Position up to which all members have the feed, and this node's file if it is written to the
    /// disk before replies are sent.
    acknowledged: u64,
}

fn revisions(mark: Mark) -> Revisions {
    let number = |revision: Revision| revision.0 as i64;
    (number(mark.map), number(mark.source), number(mark.movement))
}

impl<K: Kv> Host<K> {
    /// Begins, continues and ends moves.
    pub(super) fn pursue_moves(&mut self, now: Instant) {
        // The rules compare records as of one revision. With a record of this node that is newer
        // than the others, a commit that has applied would look void.
        if self.followed < self.noted {
            return;
        }
        if std::mem::take(&mut self.moving.is_stale) {
            let all = self.directory.moves().iter();
            let mut all: Vec<_> = all.collect();
            all.sort_by_key(|(id, (one, revision))| (one.created, *revision, **id));
            let all = all.into_iter().map(|(id, (one, _))| (*id, one.clone()));
            self.server.cluster.moves.list(all.collect());
        }
        let own = self.own(now);
        if let Some(own) = own.filter(|own| own.since != self.moving.term) {
            // What the former primary received, or had not removed yet.
            self.moving.term = own.since;
            self.server.cluster.moves.wants_sweep.store(true, Relaxed);
        }
        self.begin_exports(own);
        self.pursue_exports(own, now);
        self.pursue_imports(own);
        if self.moving.sweeps_at.take_if(|at| now >= *at).is_some() {
            self.server.cluster.moves.wants_sweep.store(true, Relaxed);
        }
        self.sweep(own);
        self.take_requests();
        self.answer_requests();
        self.server.cluster.moves.count_active();
    }

    /// Returns this node's shard if it may take part in moves.
    fn own(&self, now: Instant) -> Option<Own> {
        // A stop or a change of the primary has begun: the keys must not change any more.
        if importing::holds_writes(&self.server) {
            return None;
        }
        let mut place = self.server.cluster.seat.place();
        let place = place.as_mut().filter(|place| place.member.serves(now))?;
        place.member.wrote(self.server.feed.end());
        let since = place.member.since()?;
        let file = &self.server.persistence.aof;
        let synced = file.holds_replies().then(|| file.synced());
        let own = Own {
            shard: place.shard,
            since,
            record: place.member.record().revision,
            acknowledged: place.member.acknowledged().min(synced.unwrap_or(u64::MAX)),
        };
        (self.followed >= since && self.server.cluster.fence() > now).then_some(own)
    }

    /// Returns the address of a shard's primary.
    fn primary_of(&self, shard: Name) -> Option<(String, u16)> {
        let (record, _) = self.directory.shards().get(&shard)?;
        let known = self.directory.nodes().get(&record.primary?)?;
        address(&known.registration.node.inside)
    }

    /// Returns what the rules need of the records about a move.
    fn view(&self, id: Name, own: Name) -> View {
        let (map, map_revision) = match self.directory.map() {
            Some((map, revision)) => (Some(map), *revision),
            None => (None, 0),
        };
        let found = self.directory.moves().get(&id);
        let is_own = found
            .is_some_and(|(one, _)| map.and_then(|map| moves::owner(map, &one.slots)) == Some(own));
        let record = self.directory.shards().get(&own);
        View {
            at: self.followed,
            owner: if is_own { OWN } else { OTHER },
            map: Revision(map_revision as u64),
            source: Revision(record.map_or(0, |(_, revision)| *revision as u64)),
            movement: Revision(found.map_or(0, |(_, revision)| *revision as u64)),
            moves: found.is_some_and(|(one, _)| one.is_open() && one.from == own),
        }
    }

    /// Whether the map gives all of some slots to this node's shard.
    fn owns(&self, slots: &[RangeInclusive<u16>]) -> bool {
        let slots: Vec<(u16, u16)> = slots.iter().map(|one| (*one.start(), *one.end())).collect();
        let map = self.directory.map().map(|(map, _)| map);
        let owner = map.and_then(|map| moves::owner(map, &slots));
        owner.is_some() && owner == self.roles.shard
    }

    /// Begins each open move from this node.
    fn begin_exports(&mut self, own: Option<Own>) {
        let Some(own) = own else { return };
        let open = self.directory.moves().iter();
        let open = open.filter(|(_, (one, _))| one.is_open() && one.from == own.shard);
        let new: Vec<(Name, Move)> = open
            .filter(|(id, _)| !self.moving.exports.contains_key(id))
            .map(|(id, (one, _))| (*id, one.clone()))
            .collect();
        for (id, one) in new {
            let Some(target) = self.primary_of(one.to) else {
                continue;
            };
            let leaving = Arc::new(Leaving::new(id, one.ranges(), target));
            // Counted first, so that the feed stays on from now on.
            let moves = &self.server.cluster.moves;
            moves.leaving().insert(id, Arc::clone(&leaving));
            moves.count_active();
            self.moving.new.push(Arc::clone(&leaving));
            log::info!(
                "cluster: move {id} begins: slots leave for shard {}",
                one.to
            );
            let slots = Slots::new(OWN, self.view(id, own.shard));
            let export = Export {
                slots,
                leaving,
                voids_at: None,
                voids: 0,
                is_ending: false,
            };
            self.moving.exports.insert(id, export);
        }
    }

    fn pursue_exports(&mut self, own: Option<Own>, now: Instant) {
        let shard = self.roles.shard;
        let ids: Vec<Name> = self.moving.exports.keys().copied().collect();
        for id in ids {
            let (Some(shard), Some(mut export)) = (shard, self.moving.exports.remove(&id)) else {
                continue;
            };
            export.slots.read(self.view(id, shard));
            self.limit_feed(&export.leaving);
            if self.pursue_export(id, &mut export, own, now) {
                self.moving.exports.insert(id, export);
            } else {
                export.leaving.change(|exchange| exchange.is_over = true);
                self.server.cluster.moves.leaving().remove(&id);
                self.moving.sweeps_at = Some(now.after(SWEEP_MS));
            }
        }
    }

    /// Removes the reader of a thread that has not read the feed for too long, so that the feed
    /// does not grow further. The thread then begins again.
    fn limit_feed(&self, leaving: &Leaving) {
        let reader = leaving.reader.load(Relaxed);
        if reader > 0 && self.server.feed.lag(reader) > FEED_LAG_MAX {
            log::warn!(
                "cluster: move {}: {FEED_LAG_MAX} bytes of changes were not read; it begins again",
                leaving.id
            );
            self.server.feed.remove_reader(reader);
        }
    }

    /// Continues a move from this node. Returns false if it has ended.
    fn pursue_export(
        &mut self,
        id: Name,
        export: &mut Export,
        own: Option<Own>,
        now: Instant,
    ) -> bool {
        let record = self.directory.moves().get(&id).map(|(one, _)| one.clone());
        let is_open = record.as_ref().is_some_and(Move::is_open);
        let mut exchange = export.leaving.exchange();
        if exchange.mark.is_some() && exchange.outcome.is_none() && !export.slots.is_held() {
            let routes = self.server.cluster.routes();
            let has_left = !self.owns(&export.leaving.slots);
            // The topology without the slots must be in force before the hold ends.
            let mut firsts = export.leaving.slots.iter().map(|range| *range.start());
            if has_left && firsts.any(|slot| routes.is_own(slot)) {
                return true;
            }
            let outcome = if has_left {
                Outcome::Committed
            } else {
                Outcome::Void
            };
            exchange.outcome = Some(outcome);
            export.voids += u32::from(!has_left);
            (export.voids_at, export.is_ending) = (None, false);
        }
        let is_held = exchange.mark.is_some();
        let failure = exchange.failure.clone();
        let wants_void = exchange.wants_void;
        drop(exchange);
        export.leaving.wake();
        if is_held {
            if export.slots.is_held() && (wants_void || export.voids_at.is_some_and(|at| now >= at))
            {
                self.void_commit(id, export, now);
            }
            return true;
        }
        let (Some(own), Some(record), true) = (own, record, is_open) else {
            return false;
        };
        let terms = |shard: Name| {
            self.directory
                .shards()
                .get(&shard)
                .map(|(one, _)| one.epoch)
        };
        let has_changed = (terms(record.from), terms(record.to))
            != (Some(record.epochs.0), Some(record.epochs.1));
        let why = failure.or_else(|| has_changed.then(|| "a shard has failed over".to_owned()));
        if let Some(why) = why {
            self.end_move(id, export, &why);
            return true;
        }
        self.give_mark(export, own, now);
        true
    }

    /// Gives the thread of a move a mark if it requests one.
    fn give_mark(&self, export: &mut Export, own: Own, now: Instant) {
        let mut exchange = export.leaving.exchange();
        // Without etcd, no outcome could be read.
        if exchange.wants_mark
            && self.is_connected
            && let Some(mark) = export.slots.hold(own.since)
        {
            let patience_ms = HOLD_MS_MAX << export.voids.min(PATIENCE_DOUBLINGS);
            export.voids_at = Some(now.after(patience_ms));
            exchange.mark = Some(mark);
            drop(exchange);
            export.leaving.wake();
        }
    }

    /// Voids the commit of a hold that lasts too long. The move stays open.
    fn void_commit(&mut self, id: Name, export: &mut Export, now: Instant) {
        let Some(end) = export.slots.cancel().filter(|_| !export.is_ending) else {
            return;
        };
        let Some(change) = plan::void(&self.directory, id, revisions(end.mark)) else {
            return;
        };
        log::info!("cluster: move {id}: no commit in time; it is voided");
        export.is_ending = true;
        export.voids_at = Some(now.after(HOLD_MS_MAX));
        self.write_change(id, change);
    }

    fn end_move(&mut self, id: Name, export: &mut Export, why: &str) {
        let change = plan::end(&self.directory, id, State::Failed, why, self.seconds());
        if let Some(change) = change.filter(|_| !export.is_ending) {
            log::warn!("cluster: move {id} has failed: {why}");
            export.is_ending = true;
            self.write_change(id, change);
        }
    }

    fn seconds(&self) -> u64 {
        self.server.clock.now().0 / 1000
    }

    fn write_change(&self, id: Name, change: Change) {
        let kv = Arc::clone(&self.kv);
        let task = async move { kv.commit(change.guards, change.writes).await };
        self.spawn(task, move |result| Message::Moved(id, result));
    }

    /// Takes the outcome of a transaction about a move. The records have the result.
    pub(super) fn moved(&mut self, id: Name, result: Result<Option<i64>, Failure>) {
        self.moving.commits.remove(&id);
        if let Some(export) = self.moving.exports.get_mut(&id) {
            export.is_ending = false;
        }
        if let Err(failure) = result {
            log::warn!("cluster: move {id}: {failure}; the records decide");
            self.again.notify_one();
        }
    }

    /// Returns the shard of this node if the newest record names it as primary, whether or not it
    /// may serve now.
    fn led(&self) -> Option<Name> {
        let place = self.server.cluster.seat.place();
        let place = place.as_ref().filter(|place| place.member.is_primary());
        place.map(|place| place.shard)
    }

    /// Expects keys of each open move to this node, and commits those whose keys are complete.
    ///
    /// What has arrived is kept as long as a commit may apply: while the move is open and the
    /// record of the shard names this node. A fence that has ended changes neither.
    fn pursue_imports(&mut self, own: Option<Own>) {
        let mut ended = Vec::new();
        let mut commits = Vec::new();
        let (mut asks, led) = (false, self.led());
        {
            let mut arriving = self.server.cluster.moves.arriving();
            let is_expected = |one: &Move| one.is_open() && led == Some(one.to);
            let directory = &self.directory;
            arriving.retain(|id, one| {
                let record = directory.moves().get(id).map(|(record, _)| record);
                let is_kept = record.is_some_and(is_expected);
                if !is_kept {
                    let is_done = record.is_some_and(|record| record.state == State::Done);
                    ended.push((one.slots.clone(), is_done));
                }
                is_kept
            });
            for (id, (record, _)) in directory
                .moves()
                .iter()
                .filter(|(_, (one, _))| is_expected(one))
            {
                let one = arriving.entry(*id).or_insert_with(|| Arriving {
                    slots: record.ranges().into(),
                    link: 0,
                    phase: Phase::Clearing,
                    mark: None,
                });
                if let (Some((mark, position)), Some(own)) = (one.mark, own) {
                    match own.acknowledged >= position {
                        true => commits.push((*id, mark, own)),
                        false => asks = true,
                    }
                }
            }
        }
        for (slots, is_done) in ended {
            importing::end_events(&self.server, &slots, is_done);
            self.server.cluster.moves.wants_sweep.store(true, Relaxed);
        }
        if asks {
            self.ask_soon();
        }
        for (id, mark, own) in commits {
            self.commit_move(id, mark, own);
        }
    }

    /// Sends the transaction that gives slots to this node's shard. After one without a reply it is
    /// sent again: it applies at most once.
    fn commit_move(&mut self, id: Name, mark: Mark, own: Own) {
        let end = Slots::commit(mark, own.record);
        let target = end.target.map_or(0, |revision| revision.0 as i64);
        let now = self.seconds();
        let change = plan::commit(&self.directory, id, revisions(end.mark), target, now);
        if let Some(change) = change
            && self.moving.commits.insert(id)
        {
            self.write_change(id, change);
        }
    }

    /// Removes keys whose slots are not this node's, if there may be some.
    fn sweep(&mut self, own: Option<Own>) {
        if own.is_none() || self.moving.is_sweeping {
            return;
        }
        if !self.server.cluster.moves.wants_sweep.swap(false, AcqRel) {
            return;
        }
        (self.moving.is_sweeping, self.moving.begins_sweep) = (true, true);
    }

    /// Starts the threads of moves that have begun, and the one that removes the keys of other
    /// shards.
    pub(super) fn start_threads(&mut self) {
        for leaving in std::mem::take(&mut self.moving.new) {
            let (server, id) = (Arc::clone(&self.server), leaving.id);
            let spawned = Builder::new()
                .name("slots".to_owned())
                .spawn(move || exporting::run(&server, &leaving));
            if let Err(error) = spawned {
                log::warn!("cluster: thread of move {id}: {error}");
                self.moving.exports.remove(&id);
                self.server.cluster.moves.leaving().remove(&id);
            }
        }
        if std::mem::take(&mut self.moving.begins_sweep) {
            let server = Arc::clone(&self.server);
            let task = async move {
                let swept = tokio::task::spawn_blocking(move || importing::sweep(&server));
                swept.await.is_ok()
            };
            self.spawn(task, |_| Message::Swept);
        }
    }

    pub(super) fn swept(&mut self) {
        self.moving.is_sweeping = false;
    }

    /// Carries out what clients request.
    fn take_requests(&mut self) {
        while let Some(request) = self.server.cluster.moves.next_request() {
            match self.change_of(&request.wish) {
                Ok(change) => {
                    let kv = Arc::clone(&self.kv);
                    let task = async move { kv.commit(change.guards, change.writes).await };
                    self.spawn(task, move |result| Message::Wished(request, result));
                }
                Err(error) => self.refuse(&request, &error),
            }
        }
    }

    fn change_of(&self, wish: &Wish) -> Result<Change, String> {
        let now = self.seconds();
        let mut all = Change::default();
        let ids = match wish {
            Wish::Create(wanted) => return plan::create(&self.directory, wanted, now),
            Wish::Cancel(ids) => ids,
        };
        for id in ids {
            let change = plan::end(&self.directory, *id, State::Cancelled, "", now);
            let change = change.ok_or_else(|| format!("move {id} is not open"))?;
            all.guards.extend(change.guards);
            all.writes.extend(change.writes);
        }
        Ok(all)
    }

    fn refuse(&self, request: &Request, error: &str) {
        reply(&self.server.workers, request.waiting, |reply| {
            reply.error(&format!("ERR {error}"));
        });
    }

    /// Replies to the clients whose requests this node has read back, so that it lists the moves.
    fn answer_requests(&mut self) {
        let (followed, workers) = (self.followed, &self.server.workers);
        self.moving.answers.retain(|(revision, waiting, answer)| {
            if *revision > followed {
                return true;
            }
            reply(workers, *waiting, |reply| match answer {
                Answer::Ok => reply.ok(),
                Answer::Name(id) => reply.bulk(id.as_bytes()),
                Answer::Count(count) => reply.integer(*count),
            });
            false
        });
    }

    /// Takes the outcome of a client's request.
    pub(super) fn wished(&mut self, request: &Request, result: Result<Option<i64>, Failure>) {
        match result {
            Ok(Some(revision)) => {
                let revision = Revision(revision as u64);
                let answer = (revision, request.waiting, request.answer);
                self.moving.answers.push(answer);
            }
            Ok(None) => {
                self.again.notify_one();
                self.refuse(
                    request,
                    "the records have changed meanwhile: nothing was written",
                );
            }
            Err(failure) => {
                let text = format!("etcd: {failure}; the change may have been made");
                self.refuse(request, &text);
            }
        }
    }
}
