use super::*;
use crate::limits::Limits;
use policy::Budget;
use proptest::prelude::*;
use std::collections::BTreeMap;

type Text = Vec<u8>;
/// Fields and values of an entry.
type Pairs = Vec<(Text, Text)>;

#[derive(Clone, Debug, Default)]
struct ModelGroup {
    last: StreamId,
    /// Time and number of deliveries, and consumer, of each pending entry.
    pending: BTreeMap<StreamId, (u64, u32, u8)>,
}

/// A stream in its simplest form: expired entries are removed immediately.
#[derive(Clone, Debug, Default)]
struct Model {
    entries: BTreeMap<StreamId, (Option<Tick>, Pairs)>,
    groups: BTreeMap<u8, ModelGroup>,
    last: StreamId,
    added: u64,
    max_age: u64,
}

impl Model {
    fn expire(&mut self, now: Tick) {
        let line = match self.max_age {
            0 => StreamId::MIN,
            age => StreamId::new(now.0.saturating_sub(age), 0),
        };
        let is_dead = |id: &StreamId, at: Option<Tick>| *id < line || at.is_some_and(|at| at < now);
        let dead: Vec<_> = self
            .entries
            .iter()
            .filter(|(id, e)| is_dead(id, e.0))
            .map(|e| *e.0)
            .collect();
        for id in dead {
            self.entries.remove(&id);
            self.groups
                .values_mut()
                .for_each(|group| _ = group.pending.remove(&id));
        }
        self.groups
            .values_mut()
            .for_each(|group| group.pending.retain(|id, _| *id >= line));
    }

    fn is_referenced(&self, id: StreamId) -> bool {
        let has = |group: &ModelGroup| group.last < id || group.pending.contains_key(&id);
        self.groups.values().any(has)
    }

    fn remove(&mut self, id: StreamId, references: References) -> Removed {
        let mut is_forgotten = false;
        match references {
            References::Acknowledged if self.is_referenced(id) => return Removed::Referenced,
            References::Delete => {
                for group in self.groups.values_mut() {
                    is_forgotten |= group.pending.remove(&id).is_some();
                }
            }
            _ => {}
        }
        match self.entries.remove(&id) {
            Some(_) => Removed::Done,
            None if is_forgotten => Removed::Forgotten,
            None => Removed::Missing,
        }
    }

    fn pending_len(&self) -> usize {
        self.groups.values().map(|group| group.pending.len()).sum()
    }

    fn forget_before(&mut self, end: StreamId) {
        for group in self.groups.values_mut() {
            group.pending.retain(|id, _| *id >= end);
        }
    }

    /// Returns the ID of the n-th entry, or an ID near it.
    fn nth(&self, n: usize) -> StreamId {
        let count = self.entries.len() + 1;
        let found = self.entries.keys().nth(n % count);
        *found.unwrap_or(&StreamId::new(n as u64 % 2000, 7))
    }
}

#[derive(Clone, Debug)]
enum Op {
    /// Advances of the time and the number, own deadline, and fields.
    Add(u64, u64, Option<u64>, u8),
    AddMany(u16, Option<u64>),
    Remove(usize, References),
    TrimLength(usize, References),
    TrimId(usize, References),
    TrimAbout(usize),
    SetDeadline(usize, Option<u64>),
    Advance(u64),
    Purge(u32),
    MaxAge(u64),
    Read(usize, usize),
    Create(u8, usize),
    Destroy(u8),
    Deliver(u8, u8, usize, bool),
    Again(u8, u8, usize),
    Acknowledge(u8, usize),
    Claim(u8, u8, usize, u64, bool),
    ClaimIdle(u8, u8, u64, usize),
    AutoClaim(u8, u8, usize, u64, usize),
    RemoveConsumer(u8, u8),
    Duplicate,
}

fn op() -> impl Strategy<Value = Op> {
    let at = any::<usize>;
    let references = || {
        prop_oneof![
            Just(References::Keep),
            Just(References::Delete),
            Just(References::Acknowledged)
        ]
    };
    let soon = || prop::option::weighted(0.3, 0..200u64);
    let (group, consumer) = (|| 0..3u8, || 0..3u8);
    prop_oneof![
        6 => (0..40u64, 0..3u64, soon(), 0..5u8).prop_map(|(ms, seq, d, f)| Op::Add(ms, seq, d, f)),
        3 => (1..300u16, soon()).prop_map(|(n, d)| Op::AddMany(n, d)),
        3 => (at(), references()).prop_map(|(i, r)| Op::Remove(i, r)),
        1 => (at(), references()).prop_map(|(i, r)| Op::TrimLength(i, r)),
        1 => (at(), references()).prop_map(|(i, r)| Op::TrimId(i, r)),
        1 => at().prop_map(Op::TrimAbout),
        2 => (at(), soon()).prop_map(|(i, d)| Op::SetDeadline(i, d)),
        3 => (0..60u64).prop_map(Op::Advance),
        3 => (0..20u32).prop_map(Op::Purge),
        1 => prop_oneof![Just(0), 1..300u64].prop_map(Op::MaxAge),
        2 => (at(), at()).prop_map(|(a, b)| Op::Read(a, b)),
        1 => (group(), at()).prop_map(|(g, i)| Op::Create(g, i)),
        1 => group().prop_map(Op::Destroy),
        4 => (group(), consumer(), 1..150usize, any::<bool>())
            .prop_map(|(g, c, n, p)| Op::Deliver(g, c, n, p)),
        2 => (group(), consumer(), at()).prop_map(|(g, c, i)| Op::Again(g, c, i)),
        2 => (group(), at()).prop_map(|(g, i)| Op::Acknowledge(g, i)),
        2 => (group(), consumer(), at(), 0..50u64, any::<bool>())
            .prop_map(|(g, c, i, ms, f)| Op::Claim(g, c, i, ms, f)),
        1 => (group(), consumer(), 0..50u64, 1..100usize)
            .prop_map(|(g, c, ms, n)| Op::ClaimIdle(g, c, ms, n)),
        1 => (group(), consumer(), at(), 0..50u64, 1..20usize)
            .prop_map(|(g, c, i, ms, n)| Op::AutoClaim(g, c, i, ms, n)),
        1 => (group(), consumer()).prop_map(|(g, c)| Op::RemoveConsumer(g, c)),
        1 => Just(Op::Duplicate),
    ]
}

/// Returns fields with the names of most entries, or other names, or several.
fn fields(kind: u8, number: u64) -> Vec<(Text, Text)> {
    let value = number.to_string().into_bytes();
    match kind {
        0..=2 => vec![(b"name".to_vec(), value)],
        3 => vec![(b"other".to_vec(), value), (b"name".to_vec(), vec![0; 300])],
        _ => vec![(Vec::new(), Vec::new())],
    }
}

struct Pair {
    stream: Stream,
    model: Model,
    limits: Limits,
    now: Tick,
}

impl Pair {
    fn new() -> Pair {
        let limits = Limits::default();
        assert!(limits.set("stream_entries", 40));
        Pair {
            stream: Stream::default(),
            model: Model::default(),
            limits,
            now: Tick(1000),
        }
    }

    fn add(&mut self, id: StreamId, deadline: Option<u64>, kind: u8) {
        let limits = Limits::default();
        limits.set("stream_entries", self.limits.stream_entries());
        let scene = Scene::of(self.now, &limits);
        if id <= self.model.last || self.stream.is_too_old(id, &scene) {
            return;
        }
        let deadline = deadline.map(|after| Tick(self.now.0 + after));
        let fields = fields(kind, self.model.added);
        let given = fields.iter().map(|(name, value)| (&name[..], &value[..]));
        self.stream.add(id, deadline, given, &scene);
        self.model.entries.insert(id, (deadline, fields));
        self.model.last = id;
        self.model.added += 1;
    }

    fn consumer(&mut self, group: u8, consumer: u8) -> Option<ConsumerIndex> {
        let scene = Scene::of(self.now, &self.limits);
        let found = self.stream.group(&[group])?.find(&[consumer]);
        found.or_else(|| self.stream.add_consumer(&[group], &[consumer], &scene)?)
    }

    fn apply(&mut self, op: Op) {
        self.model.expire(self.now);
        match op {
            Op::Add(ms, seq, deadline, kind) => {
                let last = self.model.last;
                let id = match ms {
                    0 => StreamId::new(last.ms, last.seq + 1 + seq),
                    _ => StreamId::new(last.ms + ms, seq),
                };
                self.add(id, deadline, kind);
            }
            Op::AddMany(count, deadline) => {
                for _ in 0..count {
                    let scene = Scene::of(self.now, &self.limits);
                    let id = self.stream.next_id(&scene).expect("IDs are left");
                    self.add(id, deadline, 0);
                }
            }
            Op::Advance(ms) => self.now = Tick(self.now.0 + ms),
            Op::Purge(steps) => {
                let mut budget = Budget(steps);
                self.stream.purge(
                    self.now,
                    &mut budget,
                    &mut |at, _| assert!(at < self.now),
                    None,
                );
            }
            Op::MaxAge(ms) => {
                self.stream
                    .set_max_age(ms, &Scene::of(self.now, &self.limits));
                self.model.max_age = ms;
            }
            Op::Duplicate => {
                let scene = Scene::of(self.now, &self.limits);
                self.stream = Collection::duplicate(&self.stream, &scene);
            }
            op => self.apply_to_entries(op),
        }
    }

    fn apply_to_entries(&mut self, op: Op) {
        let (stream, model) = (&mut self.stream, &mut self.model);
        let scene = Scene::of(self.now, &self.limits);
        match op {
            Op::Remove(at, references) => {
                let id = model.nth(at);
                let removed = stream.remove(id, references, &scene);
                assert_eq!(removed, model.remove(id, references));
            }
            Op::TrimLength(at, references) => {
                let max = at % (model.entries.len() + 1);
                let trim = Trim {
                    to: TrimTo::Length(max as u64),
                    is_approximate: false,
                    limit: None,
                    references,
                };
                let trimmed = stream.trim_to(&trim, &scene);
                let ids: Vec<_> = model.entries.keys().copied().collect();
                let (before, pending) = (ids.len(), model.pending_len());
                for id in ids {
                    if model.entries.len() > max {
                        model.remove(id, references);
                    }
                }
                let removed = before - model.entries.len();
                if references == References::Delete && removed > 0 {
                    let first = model.entries.keys().next();
                    let first = first.copied().unwrap_or(StreamId::MAX);
                    model.forget_before(first);
                }
                assert_eq!(trimmed.entries as usize, removed);
                assert_eq!(
                    trimmed.references,
                    match references {
                        References::Delete => pending - model.pending_len(),
                        _ => 0,
                    }
                );
            }
            Op::TrimId(at, references) => {
                let to = model.nth(at);
                let trim = Trim {
                    to: TrimTo::Id(to),
                    is_approximate: false,
                    limit: None,
                    references,
                };
                let trimmed = stream.trim_to(&trim, &scene);
                let ids: Vec<_> = model.entries.range(..to).map(|(id, _)| *id).collect();
                let pending = model.pending_len();
                if references == References::Delete {
                    model.forget_before(to);
                }
                let forgotten = pending - model.pending_len();
                let done = ids
                    .into_iter()
                    .filter(|id| model.remove(*id, references) == Removed::Done);
                assert_eq!(trimmed.entries as usize, done.count());
                assert_eq!(trimmed.references, forgotten);
            }
            Op::TrimAbout(at) => {
                let max = at % (model.entries.len() + 1);
                let trim = Trim {
                    to: TrimTo::Length(max as u64),
                    is_approximate: true,
                    limit: Some(100),
                    references: References::Keep,
                };
                let count = stream.trim_to(&trim, &scene).entries;
                assert!(count <= 100 && model.entries.len() as u64 - count >= max as u64);
                for _ in 0..count {
                    model.entries.pop_first();
                }
            }
            Op::SetDeadline(at, deadline) => {
                let id = model.nth(at);
                let deadline = deadline.map(|after| Tick(self.now.0 + after));
                let is_there = stream.set_deadline(id, deadline, &scene);
                let entry = model.entries.get_mut(&id);
                assert_eq!(is_there, entry.is_some());
                entry.into_iter().for_each(|entry| entry.0 = deadline);
            }
            Op::Read(a, b) => {
                let (from, to) = (model.nth(a), model.nth(b));
                let (from, to) = (from.min(to), to.max(from));
                let own = |e: Entry<'_>| {
                    let fields = e.fields().map(|(n, v)| (n.to_vec(), v.to_vec()));
                    (e.id, (e.deadline, fields.collect::<Vec<_>>()))
                };
                let found: Vec<_> = stream.range(from, to, &scene).map(own).collect();
                let wanted = model
                    .entries
                    .range(from..=to)
                    .map(|(id, e)| (*id, e.clone()));
                assert_eq!(found, wanted.collect::<Vec<_>>());
                let back = stream.range_back(from, to, &scene).map(|entry| entry.id);
                assert!(back.eq(found.iter().rev().map(|(id, _)| *id)));
            }
            op => self.apply_to_groups(op),
        }
    }

    fn apply_to_groups(&mut self, op: Op) {
        let now = self.now.0;
        match op {
            Op::Create(g, at) => {
                let last = self.model.nth(at);
                let is_new = self.stream.create_group(&[g], last, None);
                assert_eq!(is_new, !self.model.groups.contains_key(&g));
                let group = ModelGroup {
                    last,
                    ..ModelGroup::default()
                };
                self.model.groups.entry(g).or_insert(group);
            }
            Op::Destroy(g) => {
                let waste = self.stream.destroy_group(&[g]);
                assert_eq!(waste.is_some(), self.model.groups.remove(&g).is_some());
                if let Some(mut waste) = waste {
                    while waste.dismantle(3) {}
                }
            }
            Op::Deliver(g, c, count, becomes_pending) => {
                let Some(consumer) = self.consumer(g, c) else {
                    return;
                };
                let delivery = Delivery {
                    consumer,
                    count,
                    becomes_pending,
                };
                let (mut ids, scene) = (Vec::new(), Scene::of(self.now, &self.limits));
                self.stream
                    .deliver(&[g], &delivery, &scene, &mut |entry| ids.push(entry.id));
                let group = self.model.groups.get_mut(&g).expect("it has a consumer");
                let unread = self.model.entries.keys().filter(|id| **id > group.last);
                let unread: Vec<_> = unread.copied().take(count).collect();
                assert_eq!(ids, unread);
                for id in unread {
                    group.last = id;
                    if becomes_pending {
                        group.pending.insert(id, (now, 1, c));
                    }
                }
            }
            Op::Again(g, c, at) => {
                let Some(consumer) = self.consumer(g, c) else {
                    return;
                };
                let (from, scene) = (self.model.nth(at), Scene::of(self.now, &self.limits));
                let delivery = Delivery {
                    consumer,
                    count: 20,
                    becomes_pending: true,
                };
                let (mut ids, entries) = (Vec::new(), &self.model.entries);
                self.stream
                    .deliver_again(&[g], &delivery, from, &scene, &mut |id, entry| {
                        ids.push((id, entry.is_some()));
                    });
                let group = self.model.groups.get_mut(&g).expect("it has a consumer");
                let own = group
                    .pending
                    .range_mut(from..)
                    .filter(|(_, p)| p.2 == c)
                    .take(20);
                let wanted = own.map(|(id, pending)| {
                    let is_there = entries.contains_key(id);
                    if is_there {
                        *pending = (now, pending.1 + 1, c);
                    }
                    (*id, is_there)
                });
                assert_eq!(ids, wanted.collect::<Vec<_>>());
            }
            Op::Acknowledge(g, at) => {
                let (id, scene) = (self.model.nth(at), Scene::of(self.now, &self.limits));
                let count = self.stream.acknowledge(&[g], [id].into_iter(), &scene);
                let group = self.model.groups.get_mut(&g);
                let wanted = group.map(|group| usize::from(group.pending.remove(&id).is_some()));
                assert_eq!(count, wanted);
            }
            op => self.apply_claims(op),
        }
    }

    fn apply_claims(&mut self, op: Op) {
        let (now, limits) = (self.now.0, Limits::default());
        let scene = Scene::of(self.now, &limits);
        let claim = |consumer, idle_ms_min, may_create| Claim {
            consumer,
            idle_ms_min,
            delivered_ms: now,
            deliveries: None,
            keeps_deliveries: false,
            may_create,
        };
        match op {
            Op::Claim(g, c, at, idle, may_create) => {
                let Some(consumer) = self.consumer(g, c) else {
                    return;
                };
                let (id, claim) = (self.model.nth(at), claim(consumer, idle, may_create));
                let claimed = self.stream.claim(&[g], id, &claim, &scene);
                let pending = &mut self
                    .model
                    .groups
                    .get_mut(&g)
                    .expect("it has a consumer")
                    .pending;
                if !self.model.entries.contains_key(&id) {
                    let wanted = match pending.remove(&id) {
                        Some(_) => Claimed::Missing,
                        None => Claimed::Refused,
                    };
                    return assert_eq!(claimed, wanted);
                }
                let wanted = match pending.get(&id) {
                    None => may_create.then_some(1),
                    Some((at, count, _)) => (now - at >= idle).then_some(*count),
                };
                assert_eq!(claimed == Claimed::Done, wanted.is_some());
                wanted.map(|count| pending.insert(id, (now, count + 1, c)));
            }
            Op::ClaimIdle(g, c, idle, count) => {
                let Some(consumer) = self.consumer(g, c) else {
                    return;
                };
                let delivery = Delivery {
                    consumer,
                    count,
                    becomes_pending: true,
                };
                let mut ids = Vec::new();
                self.stream
                    .claim_idle(&[g], &delivery, idle, &scene, &mut |entry, ms, n| {
                        ids.push((entry.id, ms, n));
                    });
                let pending = &mut self
                    .model
                    .groups
                    .get_mut(&g)
                    .expect("it has a consumer")
                    .pending;
                let due = pending.iter().filter(|(_, p)| now - p.0 >= idle);
                let due = due.filter(|(id, _)| self.model.entries.contains_key(id));
                let mut due: Vec<_> = due.map(|(id, p)| (p.0, *id, p.1)).collect();
                due.sort_unstable();
                due.truncate(count);
                let wanted: Vec<_> = due.iter().map(|(at, id, n)| (*id, now - at, *n)).collect();
                assert_eq!(ids, wanted);
                for (_, id, n) in due {
                    pending.insert(id, (now, n + 1, c));
                }
            }
            Op::AutoClaim(g, c, at, idle, count) => {
                let Some(consumer) = self.consumer(g, c) else {
                    return;
                };
                let (from, claim) = (self.model.nth(at), claim(consumer, idle, false));
                let mut ids = Vec::new();
                let each = &mut |entry: &Entry<'_>| ids.push(entry.id);
                let result = self
                    .stream
                    .auto_claim(&[g], (from, count), &claim, &scene, each);
                let pending = &mut self
                    .model
                    .groups
                    .get_mut(&g)
                    .expect("it has a consumer")
                    .pending;
                for id in &result.missing {
                    assert!(!self.model.entries.contains_key(id));
                    assert!(pending.remove(id).is_some());
                }
                for id in &ids {
                    let entry = pending.get_mut(id).expect("it was pending");
                    assert!(now - entry.0 >= idle);
                    *entry = (now, entry.1 + 1, c);
                }
                assert!(ids.len() + result.missing.len() <= count);
            }
            Op::RemoveConsumer(g, c) => {
                let count = self.stream.remove_consumer(&[g], &[c], &scene);
                if let Some(group) = self.model.groups.get_mut(&g) {
                    let before = group.pending.len();
                    group.pending.retain(|_, pending| pending.2 != c);
                    let count = count.expect("the group exists");
                    assert_eq!(count.unwrap_or(0), before - group.pending.len());
                }
            }
            _ => unreachable!("the other operations are applied elsewhere"),
        }
    }

    fn compare(&mut self) {
        self.model.expire(self.now);
        let (stream, model) = (&self.stream, &self.model);
        let scene = Scene::of(self.now, &self.limits);
        stream.check();
        assert_eq!(stream.len(&scene), model.entries.len());
        let first = model.entries.keys().next().copied();
        assert_eq!(stream.first_id(&scene), first.unwrap_or_default());
        assert_eq!(
            stream.last_entry_id(&scene),
            model.entries.keys().next_back().copied()
        );
        assert_eq!(
            (stream.facts().last_id, stream.facts().entries_added),
            (model.last, model.added)
        );
        let expired = stream.expired(&scene);
        let names: Vec<_> = stream.groups().map(|(name, _)| name[0]).collect();
        assert!(names.iter().eq(model.groups.keys()));
        for (name, group) in stream.groups() {
            let of = &model.groups[&name[0]];
            assert_eq!(group.last_delivered, of.last);
            let listed = group.pending(StreamId::MIN, StreamId::MAX, &expired);
            let listed = listed.map(|(id, p)| {
                let consumer = group.consumer(p.consumer).name[0];
                (id, (p.delivered_ms, p.deliveries, consumer))
            });
            assert_eq!(listed.collect::<BTreeMap<_, _>>(), of.pending);
            assert_eq!(group.pending_count(&expired), of.pending.len());
            for (index, consumer) in group.consumers() {
                let own = of.pending.iter().filter(|(_, p)| p.2 == consumer.name[0]);
                let own: Vec<_> = own.map(|(id, _)| *id).collect();
                let listed = group.pending_of(index, StreamId::MIN, StreamId::MAX, &expired);
                assert!(listed.map(|(id, _)| id).eq(own.iter().copied()));
                assert_eq!(group.pending_count_of(index, &expired), own.len());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn a_stream_holds_what_a_plain_model_holds(ops in prop::collection::vec(op(), 1..80)) {
        let mut pair = Pair::new();
        for op in ops {
            pair.apply(op);
            pair.compare();
        }
        pair.now = Tick(pair.now.0 + 1000);
        let deadlines = pair.stream.deadlines().map(|d| d.nearest.expect("an element has one"));
        while pair.stream.deadlines().is_some_and(|d| d.nearest.is_some_and(|t| t < pair.now)) {
            pair.apply(Op::Purge(1));
            pair.compare();
        }
        prop_assert!(deadlines.is_none() || pair.stream.body.floor == StreamId::MIN);
        while pair.stream.dismantle(7) {}
    }
}

#[test]
fn a_whole_block_expires_in_one_step() {
    let (limits, now) = (Limits::default(), Tick(10_000));
    let (mut stream, scene) = (Stream::default(), Scene::of(now, &limits));
    stream.set_max_age(1000, &scene);
    for seq in 0..250 {
        stream.add(
            StreamId::new(now.0, seq + 1),
            None,
            [(&b"f"[..], &b"v"[..])].into_iter(),
            &scene,
        );
    }
    let filed = stream.deadlines().and_then(|deadlines| deadlines.nearest);
    assert_eq!(filed, Some(Tick(11_000)));
    let (mut count, later) = (0, Tick(11_001));
    let report = &mut |at, n| {
        assert_eq!(at, Tick(11_000));
        count += n;
    };
    stream.purge(later, &mut Budget(2), report, None);
    assert_eq!(count, 200);
    assert_eq!(stream.len(&Scene::of(later, &limits)), 0);
    stream.purge(later, &mut Budget(2), &mut |_, n| count += n, None);
    assert_eq!(count, 250);
    assert_eq!(stream.deadlines(), None);
    assert!(!stream.is_void());
}

#[test]
fn messages_are_forgotten_after_their_time_and_beyond_their_number() {
    let (limits, now) = (Limits::default(), Tick(10_000));
    let (mut stream, scene) = (Stream::default(), Scene::of(now, &limits));
    stream.set_idempotence(1, 2);
    for number in 0..3u8 {
        stream.add_message(b"p", &[number], StreamId::new(now.0, number.into()));
    }
    let facts = stream.idempotence();
    assert_eq!((facts.producers, facts.messages, facts.added), (1, 2, 3));
    assert_eq!(stream.find_message(b"p", &[0], &scene), None);
    assert_eq!(
        stream.find_message(b"p", &[2], &scene),
        Some(StreamId::new(now.0, 2))
    );
    let later = Scene::of(Tick(11_001), &limits);
    assert_eq!(stream.find_message(b"p", &[2], &later), None);
    let report = &mut |_, _| unreachable!("no entry expires");
    stream.purge(later.now, &mut Budget(100), report, None);
    assert_eq!(stream.idempotence().messages, 0);
    assert_eq!(stream.deadlines(), None);
}

#[test]
fn a_group_of_a_million_consumers_and_pending_entries_has_bounded_memory() {
    const COUNT: u32 = 1_000_000;
    /// Maximum heap bytes of a consumer with a name of seven bytes and one pending entry.
    const BYTES_MAX: usize = 320;
    let (limits, now) = (Limits::default(), Tick(10_000));
    let (mut stream, scene) = (Stream::default(), Scene::of(now, &limits));
    stream.create_group(b"g", StreamId::MIN, None);
    let empty = stream.heap_bytes();
    for number in 0..COUNT {
        let id = StreamId::new(now.0, u64::from(number) + 1);
        stream.add(id, None, [(&b"f"[..], &b"v"[..])].into_iter(), &scene);
        let name = format!("{number:07}");
        let consumer = stream.add_consumer(b"g", name.as_bytes(), &scene);
        let delivery = Delivery {
            consumer: consumer
                .flatten()
                .expect("the group exists, the consumer is new"),
            count: 1,
            becomes_pending: true,
        };
        stream.deliver(b"g", &delivery, &scene, &mut |entry| {
            assert_eq!(entry.id, id)
        });
    }
    let per_consumer = (stream.heap_bytes() - empty) / COUNT as usize;
    assert!(per_consumer <= BYTES_MAX, "{per_consumer} bytes");
    let group = stream.group(b"g").expect("it exists");
    assert_eq!(
        group.consumer_count() + group.pending_len(),
        2 * COUNT as usize
    );
    assert_eq!(
        stream.remove_consumer(b"g", b"0000000", &scene),
        Some(Some(1))
    );
    // A group that is destroyed is freed in steps, of which each has a bound.
    let mut waste = stream.destroy_group(b"g").expect("it exists");
    assert!(stream.heap_bytes() <= empty + COUNT as usize * 16);
    let mut steps = 0;
    while waste.dismantle(1000) {
        steps += 1;
    }
    assert!(steps >= COUNT / 1000, "{steps} steps");
}
