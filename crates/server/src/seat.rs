//! A node's place in its shard: the rules' state machine, which the host of the cluster drives, and
//! which the replication link uses for promises.
//!
//! A primary adds a request to its feed three times per lease:
//!
//! ```text
//! REPLCONF CLUSTER-ASK epoch sent async|sync link…
//! ```
//!
//! `sent` is its own instant. With `sync`, replicas acknowledge whatever they have executed at
//! once. Each `link` is the random number of a connection whose replica has
//! caught up. A replica answers with an acknowledgement and, unless it may campaign, with
//!
//! ```text
//! REPLCONF CLUSTER-PROMISE epoch sent
//! ```

use ::cluster::{Ask, Instant, Member, Name, NodeId, Promise};
use membership::records::Strength;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, fence};
use std::sync::{Mutex, MutexGuard};
use wire::Args;
use wire::number::parse_i64;

/// Maximum number of links in a request. A shard has fewer replicas.
pub const LINKS_MAX: usize = 64;

/// Numbers that the rules use instead of names. There are as many as nodes that the record of the
/// shard has named, or that have followed this one, since the process started.
#[derive(Clone, Debug, Default)]
pub struct Numbers(Vec<Name>);

impl Numbers {
    /// Returns the number of a node.
    pub fn of(&mut self, name: Name) -> NodeId {
        let at = self.0.iter().position(|known| *known == name);
        let at = at.unwrap_or_else(|| {
            self.0.push(name);
            self.0.len() - 1
        });
        NodeId(at as u32)
    }

    /// Returns the name of a node that has a number.
    pub fn name(&self, number: NodeId) -> Option<Name> {
        self.0.get(number.0 as usize).copied()
    }
}

/// The place, while the node has one.
#[derive(Debug)]
pub struct Place {
    /// Shard of the node.
    pub shard: Name,
    /// Its state machine.
    pub member: Member,
    /// Numbers of the nodes.
    pub numbers: Numbers,
    /// Writes that all members have.
    pub confirmed: Confirmed,
}

/// Writes of this node that all members of its shard have: the replicas that may be promoted. A
/// failover does not lose them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Confirmed {
    /// Number of times that this node has become the primary. Positions of different times belong
    /// to different histories.
    pub tenure: u64,
    /// Position in the feed up to which all members have all writes.
    pub position: u64,
    /// Whether this node is the primary, so that the position may advance.
    pub is_primary: bool,
}

impl Place {
    /// Returns the place of a node.
    pub fn new(shard: Name, member: Member, numbers: Numbers) -> Place {
        Place {
            shard,
            member,
            numbers,
            confirmed: Confirmed::default(),
        }
    }

    /// Returns the writes that all members have; `end` is the end of the feed. A former primary
    /// keeps its last position.
    pub fn confirm(&mut self, end: u64) -> Confirmed {
        let confirmed = &mut self.confirmed;
        if !self.member.is_primary() {
            confirmed.is_primary = false;
            return *confirmed;
        }
        if !std::mem::replace(&mut confirmed.is_primary, true) {
            confirmed.tenure += 1;
        }
        self.member.wrote(end);
        confirmed.position = self.member.acknowledged();
        *confirmed
    }
}

/// State that the host shares with workers and with the thread that follows a primary.
#[derive(Debug, Default)]
pub struct Seat {
    place: Mutex<Option<Place>>,
    /// Random number of the connection to the primary; 0 if it began without a place.
    link: AtomicU64,
    /// Number of commands of this node that the history of a later primary does not have.
    pub lost_writes: AtomicU64,
    /// Whether the host has read the records and follows their changes.
    pub is_connected: AtomicBool,
    /// Number of requests to etcd that have failed.
    pub etcd_errors: AtomicU64,
    /// Instant on the clock of fences, in milliseconds, at which etcd has sent something; 0 before.
    pub read_at_ms: AtomicU64,
    /// Number of records that were refused.
    pub refused_records: AtomicU64,
    /// Whether writes are held because the shard is handed over.
    pub is_changing: AtomicBool,
    /// Whether a client has requested that this replica becomes the primary.
    pub wants_failover: AtomicBool,
    /// Whether a client has requested that this replica campaigns before others.
    pub is_forced: AtomicBool,
    /// Whether replies wait until all members have the writes that they depend on.
    is_sync: AtomicBool,
    /// Time in milliseconds after which a reply that still waits is given up.
    pub patience_ms: AtomicU64,
    /// Number of connections that were closed because their replies were given up.
    pub unconfirmed: AtomicU64,
    /// Position, plus one, up to which all in-sync replicas were known to have writes at the last
    /// step of the host; 0 if there is no in-sync replica, or this node is not the primary.
    least: AtomicU64,
    /// Instant at which the feed ended at that position or before.
    covered_ms: AtomicU64,
    /// Whether workers have replies that wait.
    is_awaited: AtomicBool,
    /// Whether this replica acknowledges whatever it has executed at once.
    pub acknowledges: AtomicBool,
}

impl Seat {
    /// Locks the place.
    pub fn place(&self) -> MutexGuard<'_, Option<Place>> {
        self.place.lock().expect("the lock is not poisoned")
    }

    /// Whether replies wait until all members have the writes that they depend on.
    #[inline]
    pub fn is_sync(&self) -> bool {
        self.is_sync.load(Relaxed)
    }

    /// Returns the strength that this node follows.
    pub fn strength(&self) -> Strength {
        match self.is_sync() {
            true => Strength::Sync,
            false => Strength::Async,
        }
    }

    /// Sets whether replies wait, and for how long. Returns whether that has changed.
    pub fn set_strength(&self, strength: Strength, patience_ms: u64) -> bool {
        self.patience_ms.store(patience_ms, Relaxed);
        let is_sync = strength == Strength::Sync;
        self.is_sync.swap(is_sync, AcqRel) != is_sync
    }

    /// Returns the writes that all members have; `end` is the end of the feed.
    pub fn confirmed(&self, end: u64) -> Confirmed {
        let mut place = self.place();
        let place = place.as_mut();
        place.map_or_else(Confirmed::default, |place| place.confirm(end))
    }

    /// Takes the position that a replica has acknowledged.
    pub fn received(&self, replica: &str, position: u64, end: u64) {
        let mut place = self.place();
        let (Some(place), Some(name)) = (place.as_mut(), Name::parse(replica.as_bytes())) else {
            return;
        };
        let (number, epoch) = (place.numbers.of(name), place.member.record().value.epoch);
        place.member.received(number, epoch, position);
        place.confirm(end);
    }

    /// Takes the position up to which all in-sync replicas have writes, and an instant at which the
    /// feed ended there or before; `None` if there is no in-sync replica.
    pub fn covered(&self, by_all: Option<(u64, Instant)>) {
        let at = by_all.map_or(0, |(_, at)| at.0);
        self.covered_ms.store(at, Relaxed);
        let least = by_all.map_or(0, |(least, _)| least + 1);
        self.least.store(least, Relaxed);
    }

    /// Returns the number of bytes of the feed, and the number of milliseconds of writes, that a
    /// failover would lose now at most; `None` if no replica may be promoted.
    pub fn loss(&self, end: u64, now: Instant) -> Option<(u64, u64)> {
        let least = self.least.load(Relaxed).checked_sub(1)?;
        let bytes = end.saturating_sub(least);
        let age = now.0.saturating_sub(self.covered_ms.load(Relaxed));
        Some((bytes, if bytes == 0 { 0 } else { age }))
    }

    /// Requests that workers are woken when something has changed for replies that wait. A worker
    /// calls this before it looks, so that it misses no change.
    pub fn await_change(&self) {
        self.is_awaited.store(true, Release);
        fence(SeqCst);
    }

    /// Whether workers must be woken, because something has changed for replies that wait.
    pub fn has_awaiting(&self) -> bool {
        fence(SeqCst);
        self.is_awaited.load(Acquire) && self.is_awaited.swap(false, AcqRel)
    }

    /// Begins a connection to a primary. Returns the words that introduce it, if this node has a
    /// place.
    pub fn introduction(&self, link: u64) -> Option<[String; 3]> {
        let place = self.place();
        self.link.store(place.as_ref().map_or(0, |_| link), Relaxed);
        let place = place.as_ref()?;
        let epoch = place.member.record().value.epoch;
        Some([place.shard.to_string(), epoch.to_string(), link.to_string()])
    }

    /// Takes the place of this node. Returns true if the connection to a primary, if there is one,
    /// began before, so that the primary does not know it as one of a member.
    pub fn take(&self, taken: Place) -> bool {
        let mut place = self.place();
        *place = Some(taken);
        self.link.load(Relaxed) == 0
    }

    /// Returns whether a replica of a shard may follow this node in a term, or the error for it.
    ///
    /// # Errors
    /// This node is not the primary of that term. The message is a reply.
    pub fn check_follower(&self, shard: &[u8], epoch: i64) -> Result<(), &'static str> {
        let place = self.place();
        let Some(place) = place.as_ref() else {
            return Err("ERR this node has no shard yet");
        };
        if place.shard.as_bytes() != shard {
            return Err("ERR this node belongs to another shard");
        }
        let is_leader = place.member.is_primary() && place.member.leads();
        match is_leader && i64::try_from(place.member.record().value.epoch) == Ok(epoch) {
            true => Ok(()),
            false => Err("ERR this node is not the primary in this term"),
        }
    }

    /// Handles a request of the primary. Returns the words of the promise, if this node makes one.
    pub fn asked(&self, args: Args<'_>, now: Instant) -> Option<[String; 2]> {
        let number = |at: usize| {
            args.get(at)
                .and_then(parse_i64)
                .and_then(|n| u64::try_from(n).ok())
        };
        let (epoch, sent) = (number(2)?, number(3)?);
        // A request without the word means `async`.
        let is_sync = args.get(4) == Some(Strength::Sync.word().as_bytes());
        self.acknowledges.store(is_sync, Relaxed);
        let mut place = self.place();
        let member = &mut place.as_mut()?.member;
        let own = self.link.load(Relaxed);
        if (4..args.len().min(5 + LINKS_MAX)).any(|at| number(at) == Some(own)) {
            member.caught_up(epoch);
        }
        let ask = Ask {
            from: member.record().value.primary,
            to: member.id(),
            epoch,
            sent: Instant(sent),
        };
        let promise = member.asked(ask, now)?;
        Some([promise.epoch.to_string(), promise.asked.0.to_string()])
    }

    /// Registers that this node discards its keys for a snapshot of the primary. Returns false if
    /// it must keep them, see [`Member::discard`].
    #[must_use]
    pub fn discard(&self) -> bool {
        let mut place = self.place();
        place.as_mut().is_none_or(|place| place.member.discard())
    }

    /// Takes a promise of a replica.
    pub fn promised(&self, replica: &str, epoch: u64, asked: u64) {
        let mut place = self.place();
        let (Some(place), Some(name)) = (place.as_mut(), Name::parse(replica.as_bytes())) else {
            return;
        };
        let promise = Promise {
            from: place.numbers.of(name),
            to: place.member.id(),
            epoch,
            asked: Instant(asked),
        };
        place.member.promised(promise);
    }
}

/// Returns the request to replicas as bytes of the feed.
pub fn ask(epoch: u64, sent: Instant, strength: Strength, links: &[u64]) -> Vec<u8> {
    let mut words = vec![
        "REPLCONF".to_owned(),
        "CLUSTER-ASK".to_owned(),
        epoch.to_string(),
        sent.0.to_string(),
        strength.word().to_owned(),
    ];
    words.extend(links.iter().map(u64::to_string));
    let mut bytes = Vec::new();
    session::feed::put_command(&mut bytes, words.iter().map(|word| word.as_bytes()));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::cluster::{Record, Revision, Start, Timing, Versioned};
    use wire::{Limits, Parsed, Parser};

    fn name(digit: &str) -> Name {
        Name::parse(digit.repeat(40).as_bytes()).expect("40 digits")
    }

    /// A node whose shard has the primary `a` and the in-sync replica `b`.
    fn seat(me: &str) -> Seat {
        let mut numbers = Numbers::default();
        let (primary, replica) = (numbers.of(name("a")), numbers.of(name("b")));
        let value = Record {
            epoch: 4,
            primary,
            in_sync: [replica].into(),
        };
        let revision = Revision(7);
        let record = Versioned { value, revision };
        let start = Start {
            is_complete: true,
            epoch: 4,
            offset: 0,
        };
        let timing = Timing::new(2_000, 100).expect("it covers the drift");
        let id = numbers.of(name(me));
        let member = Member::new(id, timing, start, record, Revision(8), Instant(1));
        let place = Place::new(name("f"), member, numbers);
        let seat = Seat::default();
        *seat.place() = Some(place);
        seat
    }

    fn answer(seat: &Seat, bytes: &[u8], now: u64) -> Option<[String; 2]> {
        let (mut bytes, mut spans) = (bytes.to_vec(), Vec::new());
        let parsed = Parser::new(Limits::of_feed()).parse(&mut bytes, &mut spans);
        assert!(matches!(parsed, Ok(Parsed::Command { consumed }) if consumed == bytes.len()));
        seat.asked(Args::new(&bytes, &spans), Instant(now))
    }

    #[test]
    fn a_replica_promises_to_the_primary_of_its_term_only() {
        let seat = seat("b");
        let request = |epoch| ask(epoch, Instant(55), Strength::Async, &[9]);
        // A campaign of an earlier process is in doubt until it is void.
        assert_eq!(answer(&seat, &request(4), 10), None);
        let withdrawal = seat
            .place()
            .as_mut()
            .map(|place| place.member.tick(Instant(10)));
        assert_eq!(withdrawal.map(|actions| actions.len()), Some(1));
        if let Some(place) = seat.place().as_mut() {
            let record = place.member.record().clone();
            place.member.read(record, Revision(9), 0, Instant(11));
        }
        assert_eq!(answer(&seat, &request(3), 12), None);
        let expected = Some(["4".to_owned(), "55".to_owned()]);
        assert_eq!(answer(&seat, &request(4), 12), expected);
        assert_eq!(
            answer(&seat, b"*2\r\n$8\r\nREPLCONF\r\n$1\r\nx\r\n", 12),
            None
        );
        assert_eq!(answer(&Seat::default(), &request(4), 12), None);
    }

    #[test]
    fn a_connection_that_began_without_a_place_begins_again() {
        let seated = seat("b");
        assert_eq!(
            seated.introduction(9).map(|words| words[2].clone()),
            Some("9".into())
        );
        let place = seated.place().take().expect("there is a place");
        assert!(!seated.take(place), "the connection was introduced");
        let place = seated.place().take().expect("there is a place");
        assert_eq!(seated.introduction(10), None);
        assert!(seated.take(place));
    }

    #[test]
    fn a_replica_follows_the_primary_of_its_shard_and_term_only() {
        let primary = seat("a");
        let shard = name("f");
        let error = primary.check_follower(shard.as_bytes(), 4);
        assert!(error.is_err(), "its term has not begun");
        let actions = primary
            .place()
            .as_mut()
            .map(|place| place.member.tick(Instant(2)));
        let Some([::cluster::Action::Send(resume)]) = actions.as_deref() else {
            panic!("expected the transaction that begins the term, found {actions:?}");
        };
        if let Some(place) = primary.place().as_mut() {
            place.member.applied(resume, Revision(9), 0, Instant(3));
        }
        assert_eq!(primary.check_follower(shard.as_bytes(), 5), Ok(()));
        for (shard, epoch) in [("f", 4), ("f", 6), ("f", -1), ("e", 5)] {
            let found = primary.check_follower(name(shard).as_bytes(), epoch);
            assert!(found.is_err(), "{shard} {epoch}");
        }
        assert!(Seat::default().check_follower(shard.as_bytes(), 5).is_err());
    }

    #[test]
    fn a_promise_extends_the_fence() {
        let primary = seat("a");
        let until = |seat: &Seat| {
            seat.place()
                .as_ref()
                .and_then(|place| place.member.serves_until())
        };
        let actions = primary
            .place()
            .as_mut()
            .map(|place| place.member.tick(Instant(2)));
        if let (Some([::cluster::Action::Send(resume)]), Some(place)) =
            (actions.as_deref(), primary.place().as_mut())
        {
            place.member.applied(resume, Revision(9), 0, Instant(3));
        }
        assert_eq!(until(&primary), Some(Instant(1_902)));
        primary.promised(name("b").as_str(), 4, 500);
        primary.promised("x", 5, 500);
        assert_eq!(until(&primary), Some(Instant(1_902)));
        primary.promised(name("b").as_str(), 5, 500);
        assert_eq!(until(&primary), Some(Instant(2_400)));
    }
}
