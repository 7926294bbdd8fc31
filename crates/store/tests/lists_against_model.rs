//! Random operations on lists by key against plain deques: the form of a list, moves and deferred
//! drops must not be visible, and its bytes must be counted correctly.

use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use store::{AnyCollection, End, Keyspace, Options, Tick};

const NAMES: [&[u8]; 6] = [b"a", b"b", b"c", b"d", b"e", b"f"];

type Model = BTreeMap<u8, VecDeque<Vec<u8>>>;

#[derive(Clone, Debug)]
enum Op {
    Push(u8, bool, usize, usize),
    Pop(u8, bool, usize),
    Keep(u8, usize, usize),
    Set(u8, usize, usize),
    Copy(u8, u8),
    Rename(u8, u8),
    Delete(u8),
    Read(u8),
    Tend(u32),
    Flush,
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0..6u8;
    let len = || prop_oneof![6 => 0..30usize, 1 => 100..3000usize, 1 => Just(20_000usize)];
    let count = || prop_oneof![6 => 1..5usize, 1 => 50..2000usize];
    prop_oneof![
        10 => (key(), any::<bool>(), count(), len()).prop_map(|(k, end, n, len)| Op::Push(k, end, n, len)),
        6 => (key(), any::<bool>(), count()).prop_map(|(k, end, n)| Op::Pop(k, end, n)),
        2 => (key(), any::<usize>(), any::<usize>()).prop_map(|(k, start, n)| Op::Keep(k, start, n)),
        3 => (key(), any::<usize>(), len()).prop_map(|(k, i, len)| Op::Set(k, i, len)),
        2 => (key(), key()).prop_map(|(a, b)| Op::Copy(a, b)),
        2 => (key(), key()).prop_map(|(a, b)| Op::Rename(a, b)),
        1 => key().prop_map(Op::Delete),
        3 => key().prop_map(Op::Read),
        3 => (1..200u32).prop_map(Op::Tend),
        1 => Just(Op::Flush),
    ]
}

fn end(is_left: bool) -> End {
    if is_left { End::Left } else { End::Right }
}

fn space() -> Keyspace {
    let options = Options {
        shards: 2,
        policy: "noeviction".into(),
        expiry: "wheel".into(),
        maxmemory: 0,
        hash_key: [1, 2],
        seed: 3,
    };
    Keyspace::new(&options, Tick(1)).expect("valid options")
}

fn tend(space: &Keyspace, steps: u32) -> bool {
    let mut events = Vec::new();
    let mut more = false;
    for shard in 0..space.shard_count() {
        more |= space.background_step(shard, Tick(1), steps, &mut events);
    }
    more
}

/// Returns distinct elements, so that their order is visible.
fn element(number: &mut usize, len: usize) -> Vec<u8> {
    *number += 1;
    let mut bytes = number.to_string().into_bytes();
    bytes.resize(len.max(bytes.len()), b'.');
    bytes
}

fn push(deque: &mut VecDeque<Vec<u8>>, to: End, value: Vec<u8>) {
    match to {
        End::Left => deque.push_front(value),
        End::Right => deque.push_back(value),
    }
}

fn pop(deque: &mut VecDeque<Vec<u8>>, from: End) -> Option<Vec<u8>> {
    match from {
        End::Left => deque.pop_front(),
        End::Right => deque.pop_back(),
    }
}

fn apply(space: &Keyspace, model: &mut Model, number: &mut usize, op: Op) {
    let mut view = space.lock_all(Tick(1));
    let key = |key: u8| space.key(0, NAMES[key as usize]);
    match op {
        Op::Push(k, to, count, len) => {
            let values: Vec<_> = (0..count).map(|_| element(number, len)).collect();
            let edited = view.edit_list(&key(k), true, |list, scene| {
                values
                    .iter()
                    .for_each(|value| list.push(end(to), value, scene));
                Some(list.len())
            });
            let deque = model.entry(k).or_default();
            values
                .into_iter()
                .for_each(|value| push(deque, end(to), value));
            let edited = edited.expect("a list").expect("it was changed");
            assert_eq!(edited.result, deque.len());
        }
        Op::Pop(k, from, count) => {
            let mut got = Vec::new();
            let edited = view.edit_list(&key(k), false, |list, scene| {
                for _ in 0..count {
                    list.pop(end(from), scene, |value| got.push(value.to_vec()));
                }
                Some(())
            });
            let wanted = (0..count).filter_map(|_| pop(model.get_mut(&k)?, end(from)));
            assert_eq!(got, wanted.collect::<Vec<_>>());
            let is_deleted = model.get(&k).is_some_and(VecDeque::is_empty);
            assert_eq!(
                edited
                    .expect("a list")
                    .is_some_and(|edited| edited.is_deleted),
                is_deleted
            );
        }
        Op::Keep(k, start, count) => {
            let len = model.get(&k).map_or(0, VecDeque::len);
            let (start, count) = (start % (len + 1), count % (len + 2));
            let edited = view.edit_list(&key(k), false, |list, scene| {
                Some(list.keep(start, count, scene))
            });
            if let Some(edited) = edited.expect("a list") {
                view.defer_drop(&key(k), AnyCollection::List(edited.result));
            }
            if let Some(deque) = model.get_mut(&k) {
                *deque = deque.iter().skip(start).take(count).cloned().collect();
            }
        }
        Op::Set(k, index, len) => {
            let Some(deque) = model.get_mut(&k) else {
                return;
            };
            let (index, value) = (index % deque.len(), element(number, len));
            let edited = view.edit_list(&key(k), false, |list, scene| {
                list.set(index, &value, scene).then_some(())
            });
            assert!(edited.expect("a list").is_some());
            deque[index] = value;
        }
        Op::Copy(from, to) => {
            if from != to {
                assert_eq!(view.copy(&key(from), &key(to)), model.contains_key(&from));
                if let Some(deque) = model.get(&from).cloned() {
                    model.insert(to, deque);
                }
            }
        }
        Op::Rename(from, to) => {
            if from != to {
                assert_eq!(view.rename(&key(from), &key(to)), model.contains_key(&from));
                if let Some(deque) = model.remove(&from) {
                    model.insert(to, deque);
                }
            }
        }
        Op::Delete(k) => assert_eq!(view.delete(&key(k)), model.remove(&k).is_some()),
        Op::Read(k) => {
            let read = view.read_list(&key(k), |list, _| {
                list.iter(End::Left, 0)
                    .map(<[u8]>::to_vec)
                    .collect::<VecDeque<_>>()
            });
            assert_eq!(read.expect("a list").as_ref(), model.get(&k));
        }
        Op::Tend(steps) => {
            drop(view);
            tend(space, steps);
        }
        Op::Flush => {
            view.flush(0);
            model.clear();
        }
    }
    model.retain(|_, deque| !deque.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn lists_by_key_hold_what_plain_deques_hold(ops in prop::collection::vec(op(), 1..100)) {
        let (space, mut model, mut number) = (space(), Model::new(), 0);
        for op in ops {
            apply(&space, &mut model, &mut number, op);
            space.check();
            assert_eq!(space.lock_all(Tick(1)).len(0), model.len());
        }
        for k in 0..6 {
            apply(&space, &mut model, &mut number, Op::Read(k));
            apply(&space, &mut model, &mut number, Op::Delete(k));
        }
        while tend(&space, 100) {}
        let facts = space.memory_facts();
        assert!(facts.entry_bytes < 1 << 10, "{} bytes of no entries", facts.entry_bytes);
    }
}
