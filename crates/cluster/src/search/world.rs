//! A shard of a few servers with its store and its network, as states and steps.

use crate::rule::Rule;
use crate::{
    Action, Ask, Instant, Member, NodeId, Promise, Record, Revision, Start, Timing, Transaction,
    Versioned,
};
use std::collections::BTreeSet;

/// Lease and margin, in units of the simulated clock.
pub const LEASE: u64 = 300;
const MARGIN: u64 = 10;

/// One server: its process and the contents of its disk.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Node {
    /// Rules of the process; `None` while it is down.
    pub member: Option<Member>,
    /// Writes in order.
    pub log: Vec<u32>,
    /// Term in which the server follows a primary; its log is then a prefix of the primary's log.
    follows: Option<u64>,
    /// Rate of the server's clock in percent of real time.
    rate: u64,
    /// Newest term of the server's writes.
    epoch: u64,
    /// Whether the server has lost writes since it was complete.
    has_lost: bool,
}

/// A transaction on its way to the store.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Flight {
    transaction: Transaction,
    /// Process that awaits the outcome.
    awaited_by: Option<u32>,
}

/// A reply of the store on its way back.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Reply {
    transaction: Transaction,
    revision: Option<Revision>,
    process: u32,
}

/// State of the servers, the store and the network.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// Real time.
    pub now: u64,
    pub nodes: Vec<Node>,
    /// Number of processes started so far, and the process of each server.
    process_count: u32,
    processes: Vec<u32>,
    record: Versioned<Record>,
    beat: Revision,
    last: Revision,
    flights: Vec<Flight>,
    replies: Vec<Reply>,
    asks: Vec<Ask>,
    promises: Vec<Promise>,
    receipts: Vec<(usize, u64, u64)>,
    write_count: u32,
    acknowledged: BTreeSet<u32>,
    /// Crashes so far, which a bounded search limits.
    pub crashes: u32,
    pub changes: u32,
    without: Option<Rule>,
}

/// A step of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Real time passes.
    Pass(u64),
    /// A server performs the actions that are due.
    Tick(usize),
    /// A transaction reaches the store.
    Apply(usize),
    /// The sender of a transaction gives up waiting.
    GiveUp(usize),
    /// A reply arrives.
    Reply(usize),
    /// A reply is lost, and its receiver gives up waiting.
    LoseReply(usize),
    /// A server reads the record and the beat.
    Read(usize),
    /// A request for a promise arrives.
    Ask(usize),
    /// A promise arrives.
    Promise(usize),
    /// A client writes.
    Write(usize),
    /// A replica gets all writes of the primary that it follows.
    Replicate(usize),
    /// The primary receives a replica's position.
    Receipt(usize),
    /// A primary sends the replies to writes.
    Acknowledge(usize),
    /// A primary adds a replica.
    Enter(usize, usize),
    /// A primary removes a replica.
    Leave(usize, usize),
    /// A primary hands the shard over.
    HandOver(usize, usize),
    /// A process ends and loses a number of its last writes.
    Crash(usize, usize),
    /// A process starts, and may be known to be complete.
    Start(usize, bool),
}

impl World {
    /// Creates a shard in which server 0 is the primary and all others are in sync. One rule may be
    /// disabled.
    pub fn new(rates: &[u64], without: Option<Rule>) -> World {
        let in_sync = (1..rates.len()).map(node_id).collect();
        let record = Record {
            epoch: 1,
            primary: node_id(0),
            in_sync,
        };
        let node = |rate: &u64| Node {
            member: None,
            log: Vec::new(),
            follows: None,
            rate: *rate,
            epoch: 0,
            has_lost: false,
        };
        let mut world = World {
            now: 1_000,
            nodes: rates.iter().map(node).collect(),
            process_count: 0,
            processes: vec![0; rates.len()],
            record: Versioned {
                value: record,
                revision: Revision(1),
            },
            beat: Revision(2),
            last: Revision(2),
            flights: Vec::new(),
            replies: Vec::new(),
            asks: Vec::new(),
            promises: Vec::new(),
            receipts: Vec::new(),
            write_count: 0,
            acknowledged: BTreeSet::new(),
            crashes: 0,
            changes: 0,
            without,
        };
        for at in 0..rates.len() {
            world.start(at, true);
        }
        world
    }

    fn clock(&self, at: usize) -> Instant {
        Instant(self.now * self.nodes[at].rate / 100)
    }

    fn start(&mut self, at: usize, is_complete: bool) {
        let offset = self.nodes[at].log.len() as u64;
        let start = Start {
            is_complete,
            epoch: self.nodes[at].epoch,
            offset,
        };
        let timing = Timing::new(LEASE, MARGIN).expect("valid");
        let record = self.record.clone();
        let now = self.clock(at);
        let mut member = Member::new(node_id(at), timing, start, record, self.beat, now);
        member.set_without(self.without);
        self.process_count += 1;
        self.processes[at] = self.process_count;
        self.nodes[at].member = Some(member);
        self.nodes[at].follows = None;
    }

    /// Whether a server executes commands now.
    pub fn serves(&self, at: usize) -> bool {
        let member = self.nodes[at].member.as_ref();
        member.is_some_and(|member| member.serves(self.clock(at)))
    }

    /// Returns a description of the failure if this state is one.
    pub fn failure(&self) -> Option<String> {
        let serving: Vec<usize> = (0..self.nodes.len())
            .filter(|at| self.serves(*at))
            .collect();
        if serving.len() > 1 {
            return Some(format!("two primaries: {serving:?}"));
        }
        let at = *serving.first()?;
        let lost = |write: &&u32| !self.nodes[at].log.contains(write);
        let lost = self.acknowledged.iter().find(lost)?;
        Some(format!("server {at} lost the acknowledged write {lost}"))
    }

    /// Returns all steps that this state allows, apart from the passing of time.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for at in 0..self.flights.len() {
            steps.push(Step::Apply(at));
            if self.flights[at].awaited_by.is_some() {
                steps.push(Step::GiveUp(at));
            }
        }
        for at in 0..self.replies.len() {
            steps.extend([Step::Reply(at), Step::LoseReply(at)]);
        }
        steps.extend((0..self.asks.len()).map(Step::Ask));
        steps.extend((0..self.promises.len()).map(Step::Promise));
        steps.extend((0..self.receipts.len()).map(Step::Receipt));
        for at in 0..self.nodes.len() {
            self.steps_of(at, &mut steps);
        }
        steps
    }

    fn steps_of(&self, at: usize, steps: &mut Vec<Step>) {
        let Some(member) = &self.nodes[at].member else {
            steps.push(Step::Start(at, false));
            if !self.nodes[at].has_lost {
                steps.push(Step::Start(at, true));
            }
            return;
        };
        steps.push(Step::Tick(at));
        if member.record().revision < self.record.revision || member.beat < self.beat {
            steps.push(Step::Read(at));
        }
        let log = &self.nodes[at].log;
        for lost in 0..=log.len().min(2) {
            steps.push(Step::Crash(at, lost));
        }
        if self.leader_of(at).is_some() {
            steps.push(Step::Replicate(at));
        }
        if !self.serves(at) {
            return;
        }
        steps.push(Step::Write(at));
        let is_new = |write: &u32| !self.acknowledged.contains(write);
        let known = &log[..member.acknowledged() as usize];
        if known.iter().any(is_new) {
            steps.push(Step::Acknowledge(at));
        }
        for other in (0..self.nodes.len()).filter(|other| *other != at) {
            match member.record().value.in_sync.contains(&node_id(other)) {
                true => steps.extend([Step::Leave(at, other), Step::HandOver(at, other)]),
                false => steps.push(Step::Enter(at, other)),
            }
            if member.is_in_doubt(node_id(other)) {
                steps.push(Step::Leave(at, other));
            }
        }
    }

    /// Returns the server that a replica follows, if both have read the same record.
    fn leader_of(&self, at: usize) -> Option<(usize, u64)> {
        let record = &self.nodes[at].member.as_ref()?.record().value;
        let leader = record.primary.0 as usize;
        let other = self.nodes[leader].member.as_ref()?;
        let is_same = other.record().value.epoch == record.epoch;
        (leader != at && is_same && other.leads()).then_some((leader, record.epoch))
    }

    /// Takes a step.
    pub fn step(&mut self, step: Step) {
        match step {
            Step::Pass(time) => self.now += time,
            Step::Apply(at) => self.apply(at),
            Step::GiveUp(at) => {
                if let Some(process) = self.flights[at].awaited_by.take() {
                    let sent = self.flights[at].transaction.clone();
                    self.of_process(process, |member, _, _| member.unanswered(&sent));
                }
            }
            Step::Reply(at) => self.reply(at),
            Step::LoseReply(at) => {
                let reply = self.replies.remove(at);
                let sent = reply.transaction;
                self.of_process(reply.process, |member, _, _| member.unanswered(&sent));
            }
            Step::Ask(at) => {
                let ask = self.asks.remove(at);
                let now = self.clock(ask.to.0 as usize);
                let member = self.nodes[ask.to.0 as usize].member.as_mut();
                let promise = member.and_then(|member| member.asked(ask, now));
                self.promises.extend(promise);
            }
            Step::Promise(at) => {
                let promise = self.promises.remove(at);
                if let Some(member) = &mut self.nodes[promise.to.0 as usize].member {
                    member.promised(promise);
                }
            }
            Step::Replicate(at) => self.replicate(at),
            Step::Receipt(at) => self.receipt(at),
            Step::Crash(at, lost) => self.crash(at, lost),
            Step::Start(at, is_complete) => self.start(at, is_complete),
            Step::Tick(at)
            | Step::Read(at)
            | Step::Write(at)
            | Step::Acknowledge(at)
            | Step::Enter(at, _)
            | Step::Leave(at, _)
            | Step::HandOver(at, _) => self.act(at, step),
        }
    }

    /// Takes a step for one running server.
    fn act(&mut self, at: usize, step: Step) {
        let now = self.clock(at);
        let node = &mut self.nodes[at];
        let Some(member) = &mut node.member else {
            return;
        };
        let actions = match step {
            Step::Tick(_) => member.tick(now),
            Step::Read(_) => {
                let offset = node.log.len() as u64;
                member.read(self.record.clone(), self.beat, offset, now);
                Vec::new()
            }
            Step::Write(_) => {
                self.write_count += 1;
                node.log.push(self.write_count);
                node.epoch = member.record().value.epoch;
                node.has_lost = false;
                member.wrote(node.log.len() as u64);
                Vec::new()
            }
            Step::Acknowledge(_) => {
                let known = &node.log[..member.acknowledged() as usize];
                self.acknowledged.extend(known);
                Vec::new()
            }
            Step::Enter(_, other) => member.enter(node_id(other), now),
            Step::Leave(_, other) => member.leave(node_id(other), now),
            Step::HandOver(_, other) => member.hand_over(node_id(other), now),
            _ => Vec::new(),
        };
        if matches!(step, Step::Enter(..) | Step::Leave(..) | Step::HandOver(..)) {
            self.changes += 1;
        }
        for action in actions {
            match action {
                Action::Ask(ask) => self.asks.push(ask),
                Action::Send(transaction) => self.flights.push(Flight {
                    transaction,
                    awaited_by: Some(self.processes[at]),
                }),
            }
        }
    }

    fn of_process(&mut self, process: u32, f: impl FnOnce(&mut Member, u64, Instant)) {
        let Some(at) = self.processes.iter().position(|p| *p == process) else {
            return;
        };
        let now = self.clock(at);
        let node = &mut self.nodes[at];
        if let Some(member) = &mut node.member {
            f(member, node.log.len() as u64, now);
        }
    }

    fn apply(&mut self, at: usize) {
        let flight = self.flights.remove(at);
        let transaction = flight.transaction;
        let applies = transaction.applies(self.record.revision, self.beat);
        if applies {
            self.last.0 += 1;
            if let Some(record) = &transaction.record {
                self.forgive(record);
                self.record = Versioned {
                    value: record.clone(),
                    revision: self.last,
                };
            }
            self.beat = self.last;
        }
        if let Some(process) = flight.awaited_by {
            self.replies.push(Reply {
                transaction,
                revision: applies.then_some(self.last),
                process,
            });
        }
    }

    /// Excuses losses of a primary that restarted without any in-sync replica: it had the only
    /// copy.
    fn forgive(&mut self, record: &Record) {
        let is_new_term = record.epoch > self.record.value.epoch;
        let is_same = record.primary == self.record.value.primary;
        let node = &self.nodes[record.primary.0 as usize];
        let wrote_alone = record.in_sync.is_empty() && node.epoch == self.record.value.epoch;
        if is_new_term && is_same && wrote_alone {
            let log = &node.log;
            self.acknowledged.retain(|write| log.contains(write));
        }
    }

    fn reply(&mut self, at: usize) {
        let reply = self.replies.remove(at);
        let sent = reply.transaction;
        self.of_process(reply.process, |member, offset, now| match reply.revision {
            Some(revision) => member.applied(&sent, revision, offset, now),
            None => member.refused(&sent),
        });
    }

    fn replicate(&mut self, at: usize) {
        let Some((leader, epoch)) = self.leader_of(at) else {
            return;
        };
        self.nodes[at].log = self.nodes[leader].log.clone();
        self.nodes[at].follows = Some(epoch);
        self.nodes[at].has_lost = false;
        self.nodes[at].epoch = epoch;
        let offset = self.nodes[at].log.len() as u64;
        self.receipts.push((at, epoch, offset));
    }

    fn receipt(&mut self, at: usize) {
        let (replica, epoch, offset) = self.receipts.remove(at);
        let Some((leader, current)) = self.leader_of(replica) else {
            return;
        };
        if current != epoch || self.nodes[replica].follows != Some(epoch) {
            return;
        }
        let Some(member) = &mut self.nodes[leader].member else {
            return;
        };
        member.received(node_id(replica), epoch, offset);
        let has_caught_up = member.has_caught_up(node_id(replica));
        if let (true, Some(member)) = (has_caught_up, &mut self.nodes[replica].member) {
            member.caught_up(epoch);
        }
    }

    /// Ends a process. Messages on its connections are lost, but its transactions are not.
    fn crash(&mut self, at: usize, lost: usize) {
        self.crashes += 1;
        let node = &mut self.nodes[at];
        node.member = None;
        let before = node.log.len();
        let kept = before.saturating_sub(lost);
        node.log.truncate(kept);
        node.has_lost |= kept < before;
        let id = node_id(at);
        self.asks.retain(|ask| ask.from != id && ask.to != id);
        self.promises.retain(|p| p.from != id && p.to != id);
        self.receipts.retain(|(replica, ..)| *replica != at);
        let process = self.processes[at];
        for flight in &mut self.flights {
            flight.awaited_by = flight.awaited_by.filter(|by| *by != process);
        }
        self.replies.retain(|reply| reply.process != process);
    }
}

fn node_id(at: usize) -> NodeId {
    NodeId(at as u32)
}
