//! Fuzz target of streams: random additions, trims, deadlines and deliveries to groups, compared
//! with a plain model in which expired entries are removed at once. The keyspace expires them with
//! budgets that the bytes choose, so that entries and pending lists are often half removed.

use std::collections::BTreeMap;
use store::stream::{Delivery, Expired, Group, References, Removed, StreamId, Trim, TrimTo};
use store::{Keyspace, Options, Scene, Stream, Tick};

const START: Tick = Tick(1_700_000_000_000);
const KEY: &[u8] = b"stream";
const OPERATIONS_MAX: usize = 300;

#[derive(Default)]
struct Model {
    /// Own deadline of each entry.
    entries: BTreeMap<StreamId, Option<Tick>>,
    /// Last entry delivered to each group, and its pending entries.
    groups: BTreeMap<u8, (StreamId, BTreeMap<StreamId, ()>)>,
    max_age: u64,
}

impl Model {
    fn expire(&mut self, now: Tick) {
        let line = match self.max_age {
            0 => StreamId::MIN,
            age => StreamId::new(now.0.saturating_sub(age), 0),
        };
        let groups = &mut self.groups;
        self.entries.retain(|id, deadline| {
            let is_live = *id >= line && deadline.is_none_or(|deadline| now <= deadline);
            if !is_live {
                groups.values_mut().for_each(|group| _ = group.1.remove(id));
            }
            is_live
        });
        groups
            .values_mut()
            .for_each(|group| group.1.retain(|id, ()| *id >= line));
    }

    fn nth(&self, n: u8) -> StreamId {
        let found = self.entries.keys().nth(usize::from(n));
        found.copied().unwrap_or(StreamId::new(n.into(), 1))
    }
}

/// The bytes that determine the operations.
struct Source<'d>(&'d [u8]);

impl Source<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }
}

pub fn run(data: &[u8]) {
    let options = Options {
        shards: 1,
        policy: "noeviction".into(),
        expiry: "wheel".into(),
        maxmemory: 0,
        hash_key: [1, 2],
        seed: 3,
    };
    let space = Keyspace::new(&options, START).expect("valid options");
    let (mut model, mut now, mut source) = (Model::default(), START, Source(data));
    for _ in 0..OPERATIONS_MAX {
        let (Some(operation), Some(a), Some(b)) = (source.byte(), source.byte(), source.byte())
        else {
            break;
        };
        model.expire(now);
        match operation % 16 {
            14 => now = Tick(now.0 + u64::from(a) * u64::from(b % 8 + 1)),
            15 => {
                let mut events = Vec::new();
                space.expire(0, now, a.into(), &mut events, &mut |deadline, _| {
                    assert!(deadline < now);
                });
                space.background_step(0, now, b.into(), &mut events);
            }
            _ => edit(&space, now, |stream, scene| {
                apply(stream, &mut model, scene, operation % 16, (a, b));
            }),
        }
        model.expire(now);
        edit(&space, now, |stream, scene| compare(stream, &model, scene));
        space.check();
    }
}

fn edit(space: &Keyspace, now: Tick, work: impl FnOnce(&mut Stream, &Scene<'_>)) {
    let mut view = space.lock_one(0, now);
    let edited = view.edit_stream(&space.key(0, KEY), true, |stream, scene| {
        work(stream, scene);
        Some(())
    });
    assert!(edited.is_ok());
}

fn apply(stream: &mut Stream, model: &mut Model, scene: &Scene<'_>, kind: u8, (a, b): (u8, u8)) {
    let (group, id) = (a % 3, model.nth(b));
    let soon = |after: u8| (after < 200).then(|| Tick(scene.now.0 + u64::from(after)));
    match kind {
        0..4 => {
            for _ in 0..=a % 64 {
                let Some(id) = stream.next_id(scene) else {
                    return;
                };
                let id = if b % 5 == 0 {
                    StreamId::new(id.ms + 3, b.into())
                } else {
                    id
                };
                let value = vec![b; usize::from(a)];
                let fields = [
                    (&b"name"[..], &value[..]),
                    (&value[..usize::from(a % 2)], b"x"),
                ];
                stream.add(id, soon(b), fields.into_iter(), scene);
                model.entries.insert(id, soon(b));
            }
        }
        4 => {
            let is_there = model.entries.remove(&id).is_some();
            let wanted = if is_there {
                Removed::Done
            } else {
                Removed::Missing
            };
            assert_eq!(stream.remove(id, References::Keep, scene), wanted);
        }
        5 => {
            let trim = Trim {
                to: if a % 2 == 0 {
                    TrimTo::Id(id)
                } else {
                    TrimTo::Length(b.into())
                },
                is_approximate: a % 4 > 1,
                limit: None,
                references: References::Keep,
            };
            let removed = stream.trim_to(&trim, scene).entries;
            for _ in 0..removed {
                let first = model.entries.pop_first().map(|(id, _)| id);
                assert!(matches!(trim.to, TrimTo::Length(_)) || first < Some(id));
            }
            let is_done = match trim.to {
                TrimTo::Length(max) => model.entries.len() as u64 <= max,
                TrimTo::Id(id) => model.entries.keys().next().is_none_or(|first| *first >= id),
            };
            assert!(trim.is_approximate || is_done);
        }
        6 => {
            let is_there = stream.set_deadline(id, soon(a), scene);
            assert_eq!(is_there, model.entries.contains_key(&id));
            model
                .entries
                .entry(id)
                .and_modify(|deadline| *deadline = soon(a));
        }
        7 => {
            model.max_age = u64::from(a) * u64::from(b % 2);
            stream.set_max_age(model.max_age, scene);
        }
        8 => {
            stream.create_group(&[group], id, None);
            stream.add_consumer(&[group], b"consumer", scene);
            model.groups.entry(group).or_insert((id, BTreeMap::new()));
        }
        9..12 => deliver(stream, model, scene, (group, b)),
        12 => {
            let count = stream.acknowledge(&[group], std::iter::once(id), scene);
            let pending = model
                .groups
                .get_mut(&group)
                .map(|group| group.1.remove(&id));
            assert_eq!(count, pending.map(|before| usize::from(before.is_some())));
        }
        _ => {
            assert_eq!(
                stream.destroy_group(&[group]).is_some(),
                model.groups.remove(&group).is_some()
            );
        }
    }
}

fn deliver(stream: &mut Stream, model: &mut Model, scene: &Scene<'_>, (group, count): (u8, u8)) {
    let Some((last, pending)) = model.groups.get_mut(&group) else {
        return;
    };
    let found = stream
        .group(&[group])
        .and_then(|group| group.find(b"consumer"));
    let delivery = Delivery {
        consumer: found.expect("each group has a consumer"),
        count: count.into(),
        becomes_pending: count % 2 == 0,
    };
    let mut ids = Vec::new();
    stream.deliver(&[group], &delivery, scene, &mut |entry| ids.push(entry.id));
    let unread = model
        .entries
        .keys()
        .filter(|id| **id > *last)
        .take(count.into());
    assert!(unread.eq(&ids));
    for id in ids {
        *last = id;
        if delivery.becomes_pending {
            pending.insert(id, ());
        }
    }
}

fn compare(stream: &Stream, model: &Model, scene: &Scene<'_>) {
    assert_eq!(stream.len(scene), model.entries.len());
    let all = stream.range(StreamId::MIN, StreamId::MAX, scene);
    let all = all.map(|entry| (entry.id, entry.deadline));
    assert!(all.eq(model.entries.iter().map(|(id, deadline)| (*id, *deadline))));
    let expired: Expired = stream.expired(scene);
    let listed = |group: &Group| {
        let pending = group.pending(StreamId::MIN, StreamId::MAX, &expired);
        pending.map(|(id, _)| id).collect::<Vec<_>>()
    };
    for (name, group) in stream.groups() {
        let (last, pending) = &model.groups[&name[0]];
        assert_eq!(group.last_delivered, *last);
        assert!(listed(group).iter().eq(pending.keys()));
        assert_eq!(group.pending_count(&expired), pending.len());
    }
}
