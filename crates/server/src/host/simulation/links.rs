//! Simulated replication links: they carry the feed of a primary to a replica, and acknowledgements
//! and promises back, with delays. The real link is `replica/link.rs`.

use super::{KEYS, Without, World};
use crate::dispatch::apply::Applier;
use crate::replication::primary;
use crate::routing;
use crate::state::Server;
use durability::replication::{Phase, ReplicaState};
use session::feed::{ReaderId, Taken};
use session::message::Subscriber;
use session::session::SnapshotForm;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use store::Tick;
use wire::number::parse_i64;
use wire::{Args, Limits, Parsed, Parser};

/// Longest delay of bytes in milliseconds.
const DELAY_MS: u64 = 30;

/// What a replica sends to its primary.
enum Back {
    Position(u64),
    Promise([String; 2]),
}

/// A link.
pub struct Link {
    pub replica: usize,
    pub primary: usize,
    /// Number of the primary in the replica's state when the link began.
    number: u64,
    client: u64,
    reader: ReaderId,
    forth: VecDeque<(u64, Vec<u8>)>,
    /// Received bytes of a command that is not complete.
    rest: Vec<u8>,
    back: VecDeque<(u64, Back)>,
}

/// Returns the ranges of the complete commands at the beginning of received bytes.
fn complete(bytes: &mut [u8]) -> Vec<(usize, usize)> {
    let (mut parser, mut spans, mut at, mut found) =
        (Parser::new(Limits::of_feed()), Vec::new(), 0, Vec::new());
    while at < bytes.len() {
        spans.clear();
        match parser.parse(&mut bytes[at..], &mut spans) {
            Ok(Parsed::Command { consumed } | Parsed::Blank { consumed }) => {
                found.push((at, at + consumed));
                at += consumed;
            }
            Ok(Parsed::Incomplete { .. }) => break,
            Err(error) => panic!("the feed is damaged: {error}"),
        }
    }
    found
}

impl World {
    /// Begins and ends links, and moves what is due on them.
    pub fn move_links(&mut self) {
        let links = std::mem::take(&mut self.links);
        for mut link in links {
            match self.is_wanted(&link) && self.carry(&mut link) {
                true => self.links.push(link),
                false => self.end(&link),
            }
        }
        for replica in 0..self.nodes.len() {
            let is_paused = self.nodes[replica].paused_until > self.now;
            let is_linked = self.links.iter().any(|link| link.replica == replica);
            if !is_paused && !is_linked && self.random.is_one_in(10) {
                self.connect(replica);
            }
        }
    }

    fn is_wanted(&mut self, link: &Link) -> bool {
        let replica = &self.nodes[link.replica].server;
        let is_current = replica.replication.number() == link.number;
        let must_end = replica.replication.must_reconnect.swap(false, Relaxed);
        // A partition is noticed after a while.
        let is_cut = self.now < self.links_cut_until[link.replica][link.primary];
        is_current && !must_end && !(is_cut && self.random.is_one_in(50))
    }

    pub fn end(&mut self, link: &Link) {
        let server = &self.nodes[link.primary].server;
        primary::forget(
            &server.config,
            &server.feed,
            &server.replication,
            link.client,
        );
        let server = &self.nodes[link.replica].server;
        server.replication.is_connected.store(false, Relaxed);
    }

    fn connect(&mut self, replica: usize) {
        let follower = &self.nodes[replica].server;
        let Some(primary) = follower.replication.primary() else {
            return;
        };
        let at = usize::from(primary.port) - 7_000;
        let leader = &self.nodes[at];
        let is_cut = self.now < self.links_cut_until[replica][at];
        if is_cut || leader.paused_until > self.now {
            return;
        }
        follower.replication.must_reconnect.store(false, Relaxed);
        self.last_link += 1;
        let link = self.last_link;
        let Some([shard, epoch, _]) = follower.cluster.seat.introduction(link) else {
            return;
        };
        let epoch = parse_i64(epoch.as_bytes()).expect("it is a number");
        let is_accepted = primary::check_follower(&leader.server, shard.as_bytes(), epoch);
        if is_accepted.is_err() || !self.synchronize(replica, at) {
            return;
        }
        let (follower, leader) = (&self.nodes[replica].server, &self.nodes[at].server);
        let position = follower.feed.end();
        let reader = leader.feed.add_reader(position).expect("it is kept");
        let state = replica_state(follower, link, reader, position);
        let mut replication = leader.replication.state();
        replication.replicas.insert(link, state);
        let count = replication.replicas.len();
        drop(replication);
        leader.replication.replica_count.store(count, Relaxed);
        follower.replication.is_connected.store(true, Relaxed);
        self.links.push(Link {
            replica,
            primary: at,
            number: primary.number,
            client: link,
            reader,
            forth: VecDeque::new(),
            rest: Vec::new(),
            back: VecDeque::from([(
                self.now + self.random.below(DELAY_MS),
                Back::Position(position),
            )]),
        });
    }

    /// Makes the replica's history the primary's, by a snapshot if they differ. Returns false if
    /// the replica must keep its keys.
    fn synchronize(&mut self, replica: usize, at: usize) -> bool {
        let (follower, leader) = (&self.nodes[replica].server, &self.nodes[at].server);
        let (id, earlier) = leader.replication.ids();
        let (own, _) = follower.replication.ids();
        let position = follower.feed.end();
        let is_known =
            own == id || earlier.is_some_and(|(earlier, end)| earlier == own && position <= end);
        let reader = leader.feed.add_reader(position).filter(|_| is_known);
        let mut state = follower.replication.state();
        if own != id {
            state.earlier = reader.map(|_| (own, position));
            state.id = id;
        }
        drop(state);
        if let Some(reader) = reader {
            leader.feed.remove_reader(reader);
            return true;
        }
        if self.without != Without::Discard && !follower.cluster.seat.discard() {
            return false;
        }
        let (values, end) = match self.without {
            // The snapshot is received in part.
            Without::Discard => ([0; KEYS.len()], leader.feed.end()),
            _ => (self.nodes[at].values(), leader.feed.end()),
        };
        follower.feed.restart_at(end);
        self.nodes[replica].load(values);
        self.snapshot_count += 1;
        true
    }

    /// Moves what is due. Returns false if the link has ended.
    fn carry(&mut self, link: &mut Link) -> bool {
        let now = self.now;
        let is_cut = now < self.links_cut_until[link.replica][link.primary];
        if self.nodes[link.primary].paused_until <= now {
            let mut bytes = Vec::new();
            match self.nodes[link.primary]
                .server
                .feed
                .read(link.reader, &mut bytes, Duration::ZERO)
            {
                Taken::Bytes(_) => {
                    let after = link.forth.back().map_or(now, |(at, _)| *at);
                    let at = after.max(now + self.random.below(DELAY_MS));
                    link.forth.push_back((at, bytes));
                }
                Taken::Nothing => {}
                Taken::Ended => return false,
            }
        }
        let arrives = !is_cut && self.nodes[link.replica].paused_until <= now;
        while let Some((_, bytes)) = link.forth.front().filter(|(at, _)| arrives && *at <= now) {
            link.rest.extend_from_slice(bytes);
            link.forth.pop_front();
            self.execute(link);
        }
        let arrives = !is_cut && self.nodes[link.primary].paused_until <= now;
        let is_due = |(at, _): &(u64, Back)| arrives && *at <= now;
        while link.back.front().is_some_and(is_due) {
            let Some((_, back)) = link.back.pop_front() else {
                break;
            };
            let (server, name) = (&self.nodes[link.primary].server, super::name(link.replica));
            match back {
                Back::Position(position) => {
                    primary::acknowledge(server, link.client, position, None);
                }
                Back::Promise([epoch, sent]) => {
                    let number = |text: &str| text.parse().expect("it is a number");
                    server
                        .cluster
                        .seat
                        .promised(name.as_str(), number(&epoch), number(&sent));
                }
            }
        }
        true
    }

    fn execute(&mut self, link: &mut Link) {
        let server = &self.nodes[link.replica].server;
        let mut applier = Applier::new(server);
        let clock = routing::now(&server.clock);
        let (mut promise, mut is_asked) = (None, false);
        let mut end = 0;
        for (from, to) in complete(&mut link.rest) {
            end = to;
            let mut spans = Vec::new();
            let mut command = link.rest[from..to].to_vec();
            let parsed = Parser::new(Limits::of_feed()).parse(&mut command, &mut spans);
            parsed.expect("it was parsed before");
            let args = Args::new(&command, &spans);
            let applied = applier.apply(args, server.clock.now());
            applied.expect("it was executed before");
            server.feed.append_executed(&link.rest[from..to], Tick(1));
            if args.is(0, "replconf") {
                is_asked = true;
                promise = server.cluster.seat.asked(args, clock);
            }
        }
        link.rest.drain(..end);
        let at = self.now + self.random.below(DELAY_MS);
        let at = link.back.back().map_or(at, |(last, _)| at.max(*last));
        if is_asked || server.cluster.seat.acknowledges.load(Relaxed) {
            link.back.push_back((at, Back::Position(server.feed.end())));
        }
        link.back
            .extend(promise.map(|promise| (at, Back::Promise(promise))));
    }
}

fn replica_state(follower: &Server, link: u64, reader: ReaderId, acked: u64) -> ReplicaState {
    ReplicaState {
        client: Subscriber {
            worker: 0,
            slot: 0,
            client: link,
        },
        address: "127.0.0.1".to_owned(),
        port: follower.network.port.load(Relaxed),
        node_id: Some(crate::cluster::id(follower).to_string()),
        link,
        is_old: false,
        form: SnapshotForm::default(),
        is_snapshot_only: false,
        unread: None,
        phase: Phase::Follows,
        reader,
        acked,
        acked_file: 0,
        acked_at: Instant::now(),
    }
}
