//! Transactions that create and end moves of slots ([`crate::moves`]).

use crate::directory::Directory;
use crate::kv::{Guard, Write};
use crate::moves::{MOVES, Move, PLAN, State, checked, owner, reassigned};
use crate::records::{MAP, Map, SHARDS, encode_map};
use cluster::Name;

/// Maximum number of open moves.
pub const OPEN_MAX: usize = 64;
/// Number of ended moves whose records are kept for operators.
const ENDED_MAX: usize = 64;

/// A guarded write.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// Conditions.
    pub guards: Vec<Guard>,
    /// Writes.
    pub writes: Vec<Write>,
}

/// A move that is to be created: its name, its slots, and the shard that owns them afterwards.
pub type Wanted = (Name, Vec<(u16, u16)>, Name);

/// Returns the write that creates moves of slots, each of which one shard owns, at a time in
/// seconds since 1970.
///
/// # Errors
/// A move is not possible. The message says why.
pub fn create(directory: &Directory, wanted: &[Wanted], now: u64) -> Result<Change, String> {
    let config = directory.config().ok_or("there is no cluster yet")?;
    let (map, map_revision) = directory.map().ok_or("there is no usable map")?;
    let all = directory.moves().iter();
    let open = all.filter(|(_, (other, _))| other.is_open());
    let mut open: Vec<(Name, Move)> = open.map(|(id, (other, _))| (*id, other.clone())).collect();
    let mut writes = Vec::new();
    for (id, slots, to) in wanted {
        let moved = created(directory, map, (slots, *to), now)?;
        if open.len() >= OPEN_MAX {
            return Err(format!("{OPEN_MAX} moves are open: expected fewer"));
        }
        for (other, record) in &open {
            let mut slots = moved.slots.iter().flat_map(|(first, last)| *first..=*last);
            if let Some(slot) = slots.find(|slot| record.has(*slot)) {
                return Err(format!("slot {slot} is part of move {other} already"));
            }
        }
        writes.push(Write::Put(
            format!("{MOVES}{id}"),
            moved.encode(config.cluster),
            None,
        ));
        open.push((*id, moved));
    }
    let (first, ..) = wanted.first().ok_or("expected at least one move")?;
    writes.push(Write::Put(PLAN.into(), first.to_string(), None));
    let ended = directory
        .moves()
        .iter()
        .filter(|(_, (other, _))| !other.is_open());
    let mut ended: Vec<(i64, Name)> = ended.map(|(id, (_, revision))| (*revision, *id)).collect();
    ended.sort_unstable();
    let surplus = (ended.len() + wanted.len()).saturating_sub(ENDED_MAX);
    let old = ended.into_iter().take(surplus);
    writes.extend(old.map(|(_, id)| Write::Delete(format!("{MOVES}{id}"))));
    let guards = vec![
        Guard::Revision(PLAN.into(), directory.planned()),
        Guard::Revision(MAP.into(), *map_revision),
    ];
    Ok(Change { guards, writes })
}

/// Returns the record of a new move.
fn created(
    directory: &Directory,
    map: &Map,
    (slots, to): (&[(u16, u16)], Name),
    now: u64,
) -> Result<Move, String> {
    let slots = checked(slots.to_vec()).map_err(|refusal| refusal.to_string())?;
    let from = owner(map, &slots).ok_or("the slots have several owners: expected one")?;
    let term = |shard: Name| {
        let record = directory.shards().get(&shard).map(|(record, _)| record);
        let record = record.ok_or_else(|| format!("shard {shard}: there is no such shard"))?;
        match record.primary {
            Some(_) => Ok(record.epoch),
            None => Err(format!("shard {shard} has no primary")),
        }
    };
    if from == to {
        return Err(format!("shard {to} owns the slots already"));
    }
    Ok(Move {
        epochs: (term(from)?, term(to)?),
        slots,
        from,
        to,
        state: State::Open,
        why: String::new(),
        attempts: 0,
        created: now,
        ended: 0,
    })
}

/// Returns the write that ends an open move without giving the slots away.
pub fn end(directory: &Directory, id: Name, state: State, why: &str, now: u64) -> Option<Change> {
    let cluster = directory.config()?.cluster;
    let (record, revision) = directory
        .moves()
        .get(&id)
        .filter(|(one, _)| one.is_open())?;
    let key = format!("{MOVES}{id}");
    Some(Change {
        guards: vec![Guard::Revision(key.clone(), *revision)],
        writes: vec![Write::Put(
            key,
            record.ended(state, why, now).encode(cluster),
            None,
        )],
    })
}

/// Revisions that guard the end of a move: those of the map, of the source's record and of the
/// move.
pub type Revisions = (i64, i64, i64);

fn guards(id: Name, record: &Move, (map, source, movement): Revisions) -> Vec<Guard> {
    vec![
        Guard::Revision(MAP.into(), map),
        Guard::Revision(format!("{SHARDS}{}", record.from), source),
        Guard::Revision(format!("{MOVES}{id}"), movement),
    ]
}

/// Returns the write that gives the slots of an open move to its target, whose record has revision
/// `target`. Returns `None` if it could not apply: a record has another revision already.
pub fn commit(
    directory: &Directory,
    id: Name,
    mark: Revisions,
    target: i64,
    now: u64,
) -> Option<Change> {
    let cluster = directory.config()?.cluster;
    let (map, map_revision) = directory.map()?;
    let (record, revision) = directory
        .moves()
        .get(&id)
        .filter(|(one, _)| one.is_open())?;
    let source = directory
        .shards()
        .get(&record.from)
        .map(|(_, revision)| *revision);
    if (*map_revision, source, *revision) != (mark.0, Some(mark.1), mark.2) {
        return None;
    }
    let mut guards = guards(id, record, mark);
    guards.push(Guard::Revision(format!("{SHARDS}{}", record.to), target));
    let map = reassigned(map, &record.slots, record.to);
    let done = record.ended(State::Done, "", now);
    Some(Change {
        guards,
        writes: vec![
            Write::Put(MAP.into(), encode_map(&map, cluster), None),
            Write::Put(format!("{MOVES}{id}"), done.encode(cluster), None),
        ],
    })
}

/// Returns the write that voids the commit of an open move with these revisions. The move stays
/// open.
pub fn void(directory: &Directory, id: Name, mark: Revisions) -> Option<Change> {
    let cluster = directory.config()?.cluster;
    let (record, _) = directory
        .moves()
        .get(&id)
        .filter(|(one, _)| one.is_open())?;
    let next = Move {
        attempts: record.attempts + 1,
        ..record.clone()
    };
    Some(Change {
        guards: guards(id, record, mark),
        writes: vec![Write::Put(
            format!("{MOVES}{id}"),
            next.encode(cluster),
            None,
        )],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::{Entry, Event};
    use crate::moves::owners;
    use crate::records::{
        CONFIG, Config, LEASE_MS_DEFAULT, SYNC_TIMEOUT_MS_DEFAULT, Shard, Strength,
    };
    use cluster::SLOTS;
    use std::collections::BTreeMap;

    fn id(number: u64) -> Name {
        Name::parse(format!("{number:040x}").as_bytes()).expect("40 digits")
    }

    /// A store that applies guarded writes, and a directory that has read it.
    #[derive(Default)]
    struct Store {
        revision: i64,
        values: BTreeMap<String, (String, i64)>,
        directory: Directory,
    }

    impl Store {
        fn write(&mut self, change: Change) -> bool {
            let holds = |guard: &Guard| match guard {
                Guard::Revision(key, revision) => {
                    self.values.get(key).map_or(0, |(_, found)| *found) == *revision
                }
                Guard::Lease(..) => false,
            };
            if !change.guards.iter().all(holds) {
                return false;
            }
            self.revision += 1;
            let revision = self.revision;
            for write in change.writes {
                match write {
                    Write::Put(key, value, _) => {
                        self.values.insert(key.clone(), (value.clone(), revision));
                        self.directory.apply(Event::Put(Entry {
                            key,
                            value: value.into_bytes(),
                            created: revision,
                            revision,
                        }));
                    }
                    Write::Delete(key) => {
                        self.values.remove(&key);
                        self.directory.apply(Event::Delete(key));
                    }
                }
            }
            true
        }

        fn put(&mut self, key: &str, value: String) {
            let writes = vec![Write::Put(key.to_owned(), value, None)];
            let guards = Vec::new();
            assert!(self.write(Change { guards, writes }));
        }

        /// Two shards with primaries: shard 1 has the slots up to 99, and shard 2 the others.
        fn new() -> Store {
            let mut store = Store::default();
            let config = Config {
                cluster: id(9),
                shards: 2,
                replicas: 0,
                lease_ms: LEASE_MS_DEFAULT,
                strength: Strength::Async,
                sync_timeout_ms: SYNC_TIMEOUT_MS_DEFAULT,
            };
            store.put(CONFIG, config.encode());
            for number in 1..=2 {
                let shard = Shard {
                    epoch: number,
                    primary: Some(id(10 + number)),
                    in_sync: Vec::new(),
                    position: 0,
                };
                store.put(&format!("{SHARDS}{}", id(number)), shard.encode(id(9)));
            }
            let map = vec![(0, 99, id(1)), (100, SLOTS - 1, id(2))];
            store.put(MAP, encode_map(&map, id(9)));
            store
        }

        fn create(&mut self, number: u64, slots: (u16, u16), to: u64) -> Result<(), String> {
            let wanted = [(id(number), vec![slots], id(to))];
            let change = create(&self.directory, &wanted, 5)?;
            assert!(self.write(change));
            Ok(())
        }

        fn mark(&self, number: u64) -> Revisions {
            let at = |key: String| self.values[&key].1;
            let source = at(format!("{SHARDS}{}", id(1)));
            (at(MAP.into()), source, at(format!("{MOVES}{}", id(number))))
        }

        fn target(&self) -> i64 {
            self.values[&format!("{SHARDS}{}", id(2))].1
        }
    }

    #[test]
    fn a_commit_gives_the_slots_to_the_target_once() {
        let mut store = Store::new();
        store.create(50, (10, 19), 2).expect("possible");
        let change = commit(&store.directory, id(50), store.mark(50), store.target(), 6);
        let change = change.expect("the records are as at the mark");
        assert!(store.write(change.clone()));
        let (map, _) = store.directory.map().expect("there is one");
        let parts = vec![
            (0, 9, id(1)),
            (10, 19, id(2)),
            (20, 99, id(1)),
            (100, SLOTS - 1, id(2)),
        ];
        assert_eq!(*map, parts);
        let (moved, _) = &store.directory.moves()[&id(50)];
        assert_eq!((moved.state, moved.ended), (State::Done, 6));
        assert!(!store.write(change), "the records have changed");
        assert_eq!(
            commit(&store.directory, id(50), store.mark(50), store.target(), 6),
            None
        );
    }

    #[test]
    fn any_change_of_a_record_voids_a_commit() {
        let keys = [
            MAP.to_owned(),
            format!("{SHARDS}{}", id(1)),
            format!("{SHARDS}{}", id(2)),
            format!("{MOVES}{}", id(50)),
        ];
        for key in keys {
            let mut store = Store::new();
            store.create(50, (10, 19), 2).expect("possible");
            let (mark, target) = (store.mark(50), store.target());
            let sent = commit(&store.directory, id(50), mark, target, 6);
            let value = store.values[&key].0.clone();
            store.put(&key, value);
            assert!(!store.write(sent.expect("possible")), "{key}");
            // It is not sent again: the host names the present record of the target.
            let again = commit(&store.directory, id(50), mark, store.target(), 6);
            assert_eq!(
                again.is_some(),
                key == format!("{SHARDS}{}", id(2)),
                "{key}"
            );
        }
        let mut store = Store::new();
        store.create(50, (10, 19), 2).expect("possible");
        let sent = commit(&store.directory, id(50), store.mark(50), store.target(), 6);
        let change = void(&store.directory, id(50), store.mark(50)).expect("it is open");
        assert!(store.write(change));
        assert!(!store.write(sent.expect("possible")));
        assert_eq!(store.directory.moves()[&id(50)].0.attempts, 1);
        let change = end(&store.directory, id(50), State::Cancelled, "", 7);
        assert!(store.write(change.expect("it is open")));
        assert_eq!(end(&store.directory, id(50), State::Failed, "", 7), None);
    }

    #[test]
    fn moves_of_one_slot_and_impossible_moves_are_refused() {
        let mut store = Store::new();
        store.create(50, (10, 19), 2).expect("possible");
        for (slots, to, expected) in [
            ((19, 20), 2, "slot 19 is part of move"),
            ((20, 30), 1, "owns the slots already"),
            ((90, 110), 2, "several owners"),
            ((20, 30), 3, "there is no such shard"),
            ((30, 20), 2, "slots 30-20: expected 0 <= first"),
            ((0, SLOTS), 2, "slots 0-16384: expected"),
        ] {
            let error = store.create(51, slots, to).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
        let wanted = [
            (id(51), vec![(20, 20)], id(2)),
            (id(52), vec![(20, 21)], id(2)),
        ];
        let error = create(&store.directory, &wanted, 5).expect_err("both have slot 20");
        assert!(error.contains("slot 20 is part of move"), "{error}");
        // Of two coordinators that plan at the same time, one succeeds.
        let first = create(&store.directory, &wanted[..1], 5).expect("possible");
        let second = create(&store.directory, &wanted[1..], 5).expect("possible");
        assert!(store.write(first) && !store.write(second));
    }

    #[test]
    fn open_and_ended_moves_are_bounded() {
        let mut store = Store::new();
        for number in 0..3 * ENDED_MAX as u64 {
            store.create(1000 + number, (10, 19), 2).expect("possible");
            let change = end(&store.directory, id(1000 + number), State::Failed, "x", 6);
            assert!(store.write(change.expect("it is open")));
            assert!(store.directory.moves().len() <= ENDED_MAX);
        }
        for number in 0..OPEN_MAX as u16 {
            store
                .create(u64::from(number), (number, number), 2)
                .expect("possible");
        }
        let error = store
            .create(99, (99, 99), 2)
            .expect_err("there are too many");
        assert!(error.contains("64 moves are open"), "{error}");
    }

    #[test]
    fn damaged_records_are_refused_and_end_the_move() {
        let mut store = Store::new();
        store.create(50, (10, 19), 2).expect("possible");
        let (moved, _) = store.directory.moves()[&id(50)].clone();
        let good = moved.encode(id(9));
        assert_eq!(Move::decode(good.as_bytes(), id(9)), Ok(moved));
        for end in 0..good.len() {
            assert!(
                Move::decode(&good.as_bytes()[..end], id(9)).is_err(),
                "cut at {end}"
            );
        }
        for (from, to, expected) in [
            ("\"format\":1", "\"format\":2", "format 2: expected 1"),
            (
                &id(9).to_string()[..],
                &id(8).to_string()[..],
                "another cluster",
            ),
            ("\"open\"", "\"begun\"", "state 'begun': expected open"),
            ("[10,19]", "[19,10]", "slots 19-10: expected"),
            ("[[10,19]]", "[]", "0 ranges of slots: expected 1"),
            (
                &id(2).to_string()[..],
                &id(1).to_string()[..],
                "expected two shards",
            ),
        ] {
            let changed = good.replace(from, to);
            let refusal = Move::decode(changed.as_bytes(), id(9)).expect_err(expected);
            assert!(refusal.to_string().contains(expected), "{refusal}");
            store.put(&format!("{MOVES}{}", id(50)), good.clone());
            store.put(&format!("{MOVES}{}", id(50)), changed);
            assert!(!store.directory.moves().contains_key(&id(50)));
            assert_eq!(store.directory.problems().len(), 1);
        }
    }

    #[test]
    fn maps_agree_with_a_plain_model() {
        let mut map: Map = vec![(0, SLOTS - 1, id(1))];
        let mut model = vec![id(1); usize::from(SLOTS)];
        let mut state = 7u64;
        for _ in 0..300 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let first = (state >> 33) as u16 % SLOTS;
            let last = first
                .saturating_add((state >> 50) as u16 % 500)
                .min(SLOTS - 1);
            let to = id(1 + (state >> 20) % 4);
            map = reassigned(&map, &[(first, last)], to);
            model[usize::from(first)..=usize::from(last)].fill(to);
            assert_eq!(owner(&map, &[(first, last)]), Some(to));
            assert!(
                map.windows(2)
                    .all(|pair| pair[0].2 != pair[1].2 && pair[0].1 + 1 == pair[1].0)
            );
        }
        let found = owners(&map);
        assert!(
            model
                .iter()
                .zip(found)
                .all(|(one, found)| found == Some(*one))
        );
    }
}
