//! A move of slots between two shards of two servers each. A shard's failover is one step here,
//! because the former primary no longer serves once the record names another server.

use super::Random;
use crate::record::Revision;
use crate::rule::Rule;
use crate::{End, Mark, ShardId, Slots, View};
use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

const SOURCE: usize = 0;
const TARGET: usize = 1;

#[derive(Clone, PartialEq, Eq, Hash)]
struct Shard {
    servers: [Slots; 2],
    primary: usize,
    /// Revision of the shard's record.
    since: Revision,
    /// Writes to the slots; all members of the shard have them.
    data: BTreeSet<u32>,
    /// Marks received before the next failover, each with the writes that precede it.
    imported: Vec<(Mark, BTreeSet<u32>)>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    owner: ShardId,
    map: Revision,
    movement: Revision,
    moves: bool,
    last: Revision,
    shards: [Shard; 2],
    marks: Vec<(Mark, BTreeSet<u32>)>,
    flights: Vec<End>,
    acknowledged: BTreeSet<u32>,
    /// Number of failovers and of started moves, which the exhaustive search limits.
    failovers: u32,
    begun: u32,
    without: Option<Rule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The operator begins a move.
    Begin,
    /// A server reads the store.
    Read(usize, usize),
    /// A client writes to a shard.
    Write(usize),
    /// The source holds commands and sends a mark.
    Hold,
    /// A mark arrives at the target.
    Import(usize),
    /// The target sends the commit of a mark.
    Commit(usize),
    /// The source, or anyone else, sends the cancellation.
    Cancel,
    /// A transaction reaches the store.
    Apply(usize),
    /// A replica of a shard becomes its primary.
    Failover(usize),
}

impl World {
    fn new(without: Option<Rule>) -> World {
        let mut world = World {
            owner: ShardId(SOURCE as u32),
            map: Revision(1),
            movement: Revision(2),
            moves: false,
            last: Revision(4),
            shards: [SOURCE, TARGET].map(|at| Shard {
                servers: [0, 1].map(|_| Slots::new(ShardId(at as u32), View::default())),
                primary: 0,
                since: Revision(3 + at as u64),
                data: BTreeSet::new(),
                imported: Vec::new(),
            }),
            marks: Vec::new(),
            flights: Vec::new(),
            acknowledged: BTreeSet::new(),
            failovers: 0,
            begun: 0,
            without,
        };
        let view = world.view();
        for server in world.shards.iter_mut().flat_map(|shard| &mut shard.servers) {
            server.read(view);
            server.without = without;
        }
        world
    }

    fn has(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    fn view(&self) -> View {
        View {
            at: self.last,
            owner: self.owner,
            map: self.map,
            source: self.shards[SOURCE].since,
            movement: self.movement,
            moves: self.moves,
        }
    }

    fn write(&mut self) -> Revision {
        self.last.0 += 1;
        self.last
    }

    fn executes(&self, shard: &Shard) -> bool {
        shard.servers[shard.primary].executes(shard.since)
    }

    fn failure(&self) -> Option<&'static str> {
        let executing: Vec<&Shard> = self.shards.iter().filter(|s| self.executes(s)).collect();
        match executing[..] {
            [_, _] => Some("two owners"),
            [shard] if !self.acknowledged.is_subset(&shard.data) => Some("a lost write"),
            _ => None,
        }
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = vec![Step::Failover(SOURCE), Step::Failover(TARGET)];
        for (at, shard) in self.shards.iter().enumerate() {
            for (server, slots) in shard.servers.iter().enumerate() {
                if slots.read_at() < self.last {
                    steps.push(Step::Read(at, server));
                }
            }
            if self.executes(shard) {
                steps.push(Step::Write(at));
            }
        }
        if !self.moves && self.owner.0 as usize == SOURCE {
            steps.push(Step::Begin);
        }
        let source = &self.shards[SOURCE];
        let slots = &source.servers[source.primary];
        if self.moves {
            steps.push(Step::Hold);
        }
        if slots.is_held() {
            steps.push(Step::Cancel);
        }
        steps.extend((0..self.shards[TARGET].imported.len()).map(Step::Commit));
        steps.extend((0..self.marks.len()).map(Step::Import));
        steps.extend((0..self.flights.len()).map(Step::Apply));
        steps
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Begin => {
                self.begun += 1;
                self.movement = self.write();
                self.moves = true;
            }
            Step::Read(at, server) => {
                let view = self.view();
                self.shards[at].servers[server].read(view);
            }
            Step::Write(at) => {
                let write = self.acknowledged.len() as u32;
                self.acknowledged.insert(write);
                self.shards[at].data.insert(write);
            }
            Step::Hold => {
                let source = &mut self.shards[SOURCE];
                let mark = source.servers[source.primary].hold(source.since);
                let writes = source.data.clone();
                self.marks.extend(mark.map(|mark| (mark, writes)));
            }
            Step::Import(at) => {
                let mark = self.marks.remove(at);
                self.shards[TARGET].imported.push(mark);
            }
            Step::Commit(at) => {
                let target = &self.shards[TARGET];
                let (mark, _) = target.imported[at];
                self.flights.push(Slots::commit(mark, target.since));
            }
            Step::Cancel => {
                let source = &self.shards[SOURCE];
                self.flights.extend(source.servers[source.primary].cancel());
            }
            Step::Apply(at) => self.apply(at),
            Step::Failover(at) => {
                self.failovers += 1;
                let since = self.write();
                let shard = &mut self.shards[at];
                shard.since = since;
                shard.primary = 1 - shard.primary;
                // A new primary of the target drops what was imported and not committed.
                shard.imported.clear();
            }
        }
    }

    fn apply(&mut self, at: usize) {
        let mut end = self.flights.remove(at);
        let mark = end.mark;
        let view = self.view();
        if !self.has(Rule::SourceGuard) {
            end.mark.source = view.source;
        }
        if !self.has(Rule::MoveGuard) {
            (end.mark.map, end.mark.movement) = (view.map, view.movement);
        }
        let target = self.shards[TARGET].since;
        if !self.has(Rule::TargetGuard) {
            end.target = end.target.map(|_| target);
        }
        if !end.applies(&view, target) {
            return;
        }
        self.movement = self.write();
        self.moves = false;
        if end.target.is_some() {
            self.map = self.movement;
            self.owner = ShardId(TARGET as u32);
            let shard = &mut self.shards[TARGET];
            let imported = shard.imported.drain(..).find(|(m, _)| *m == mark);
            shard
                .data
                .extend(imported.into_iter().flat_map(|(_, writes)| writes));
        }
    }
}

/// Runs a random schedule. Returns the failure and the steps before it.
fn random_schedule(seed: u64, without: Option<Rule>) -> Option<(&'static str, Vec<Step>)> {
    let mut random = Random(seed);
    let mut world = World::new(without);
    let mut taken = Vec::new();
    let rare = 1 + random.below(8);
    for _ in 0..80 {
        let mut steps = world.steps();
        let is_kept = |step: &Step| {
            !matches!(step, Step::Failover(_)) || (taken.len() as u64).is_multiple_of(rare)
        };
        steps.retain(is_kept);
        let Some(step) = steps.get(random.below(steps.len().max(1) as u64) as usize) else {
            continue;
        };
        taken.push(*step);
        world.step(*step);
        if let Some(failure) = world.failure() {
            return Some((failure, taken));
        }
    }
    None
}

#[test]
fn random_moves_keep_one_owner_and_all_writes() {
    for seed in 0..10_000 {
        if let Some((failure, steps)) = random_schedule(seed, None) {
            panic!("seed {seed}: {failure} after {steps:?}");
        }
    }
}

#[test]
fn some_move_fails_without_each_of_the_rules() {
    for rule in [
        Rule::FreshMap,
        Rule::HoldUntilOutcome,
        Rule::SourceGuard,
        Rule::TargetGuard,
        Rule::MoveGuard,
    ] {
        let found = (0..100_000).find(|seed| random_schedule(*seed, Some(rule)).is_some());
        assert!(found.is_some(), "no schedule needs the rule {rule:?}");
    }
}

/// Tries two failovers and two moves, each at any instant.
#[test]
fn all_short_moves_are_safe() {
    let mut seen = HashSet::new();
    let mut states = vec![World::new(None)];
    for _ in 0..11 {
        let mut next = Vec::new();
        for world in &states {
            for step in world.steps() {
                let mut world = world.clone();
                world.step(step);
                assert_eq!(world.failure(), None);
                let is_bounded = world.failovers <= 2 && world.begun <= 2;
                let mut hasher = DefaultHasher::new();
                world.hash(&mut hasher);
                if is_bounded && world.acknowledged.len() <= 3 && seen.insert(hasher.finish()) {
                    next.push(world);
                }
            }
        }
        states = next;
    }
    assert!(seen.len() > 100_000, "{}", seen.len());
}
