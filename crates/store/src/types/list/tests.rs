//! Tests that apply random operations to a list and to a plain deque, and compare the results.

use super::*;
use crate::collection::Collection;
use crate::limits::Limits;
use policy::Tick;
use proptest::prelude::*;
use std::collections::VecDeque;

type Plain = VecDeque<Vec<u8>>;

#[derive(Clone, Debug)]
enum Op {
    Push(bool, Vec<u8>),
    PushMany(bool, usize, usize),
    Pop(bool),
    PopMany(bool, usize),
    Set(usize, Vec<u8>),
    Insert(usize, Vec<u8>),
    Trim(usize, usize),
    RemoveEqual(Vec<u8>, bool, usize),
    Walk(bool, usize),
    Repack,
    Size(i64),
}

/// Generates one of few distinct values, so that equal values occur. The length of some needs more
/// than one byte, and some are longer than a chunk.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let byte = |len: usize| (0..3u8).prop_map(move |byte| vec![byte; len]);
    prop_oneof![
        8 => (0..4usize).prop_flat_map(byte),
        4 => (100..150usize).prop_flat_map(byte),
        2 => (1000..3000usize).prop_flat_map(byte),
        1 => prop_oneof![Just(16_383usize), Just(16_384), Just(40_000)].prop_flat_map(byte),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let index = any::<usize>;
    prop_oneof![
        8 => (any::<bool>(), value()).prop_map(|(end, value)| Op::Push(end, value)),
        4 => (any::<bool>(), 1..4000usize, 0..200usize).prop_map(|(end, count, len)| Op::PushMany(end, count, len)),
        6 => any::<bool>().prop_map(Op::Pop),
        2 => (any::<bool>(), 0..3000usize).prop_map(|(end, count)| Op::PopMany(end, count)),
        5 => (index(), value()).prop_map(|(i, value)| Op::Set(i, value)),
        6 => (index(), value()).prop_map(|(i, value)| Op::Insert(i, value)),
        1 => (index(), index()).prop_map(|(start, count)| Op::Trim(start, count)),
        2 => (value(), any::<bool>(), prop_oneof![0..5usize, Just(usize::MAX)]).prop_map(|(value, end, max)| Op::RemoveEqual(value, end, max)),
        4 => (any::<bool>(), index()).prop_map(|(end, i)| Op::Walk(end, i)),
        2 => Just(Op::Repack),
        1 => prop_oneof![-5..=-1i64, 1..5i64, Just(128)].prop_map(Op::Size),
    ]
}

fn end(is_left: bool) -> End {
    if is_left { End::Left } else { End::Right }
}

fn push(list: &mut List, plain: &mut Plain, to: End, value: Vec<u8>, scene: &Scene<'_>) {
    list.push(to, &value, scene);
    match to {
        End::Left => plain.push_front(value),
        End::Right => plain.push_back(value),
    }
}

fn pop(list: &mut List, plain: &mut Plain, from: End, scene: &Scene<'_>) {
    let wanted = match from {
        End::Left => plain.pop_front(),
        End::Right => plain.pop_back(),
    };
    let mut got = None;
    let is_done = list.pop(from, scene, |element| got = Some(element.to_vec()));
    assert_eq!(got, wanted);
    assert_eq!(is_done, wanted.is_some());
}

/// Removes equal elements from a plain deque, beginning at an end.
fn remove_equal(plain: &mut Plain, value: &[u8], from: End, max: usize) -> usize {
    let equal = |(i, element): (usize, &Vec<u8>)| (element == value).then_some(i);
    let mut places: Vec<usize> = plain.iter().enumerate().filter_map(equal).collect();
    match from {
        End::Left => places.truncate(max),
        End::Right => drop(places.drain(..places.len().saturating_sub(max))),
    }
    for place in places.iter().rev() {
        plain.remove(*place);
    }
    places.len()
}

fn apply(list: &mut List, plain: &mut Plain, op: Op, scene: &Scene<'_>) {
    let len = plain.len();
    match op {
        Op::Push(to, value) => push(list, plain, end(to), value, scene),
        Op::PushMany(to, count, value_len) => {
            for i in 0..count {
                push(list, plain, end(to), vec![i as u8 % 5; value_len], scene);
            }
        }
        Op::Pop(from) => pop(list, plain, end(from), scene),
        Op::PopMany(from, count) => {
            for _ in 0..count {
                pop(list, plain, end(from), scene);
            }
        }
        Op::Set(i, value) => {
            let i = i % (len + 1);
            assert_eq!(list.set(i, &value, scene), i < len);
            if i < len {
                plain[i] = value;
            }
        }
        Op::Insert(i, value) => {
            let i = i % (len + 1);
            list.insert(i, &value, scene);
            plain.insert(i, value);
        }
        Op::Trim(start, count) => {
            let (start, count) = (start % (len + 2), count % (len + 2));
            let mut waste = list.keep(start, count, scene);
            while waste.dismantle(3) {}
            assert!(waste.is_empty());
            *plain = plain.iter().skip(start).take(count).cloned().collect();
        }
        Op::RemoveEqual(value, from, max) => {
            let removed = list.remove_equal(&value, end(from), max, scene);
            assert_eq!(removed, remove_equal(plain, &value, end(from), max));
        }
        Op::Walk(from, i) => {
            let i = i % (len + 2);
            assert_eq!(list.get(i), plain.get(i).map(Vec::as_slice));
            let walk: Vec<&[u8]> = list.iter(end(from), i).take(100).collect();
            let wanted: Vec<&[u8]> = match end(from) {
                End::Left => plain.iter().skip(i).take(100).map(Vec::as_slice).collect(),
                End::Right if i >= len => Vec::new(),
                End::Right => plain
                    .iter()
                    .take(i + 1)
                    .rev()
                    .take(100)
                    .map(Vec::as_slice)
                    .collect(),
            };
            assert_eq!(walk, wanted);
        }
        Op::Repack => {
            *list = list.duplicate(scene);
            if let Some((tag, bytes)) = list.inline() {
                *list = List::unpack(tag, bytes.to_vec());
            }
        }
        Op::Size(size) => assert!(scene.limits.set("list_size", size)),
    }
}

fn check_limit(list: &List, scene: &Scene<'_>) {
    match &list.form {
        Form::Packed(small) => assert!(limit_of(scene).allows(small.len(), small.bytes_len())),
        Form::Large(large) => large.check_limit(limit_of(scene)),
    }
}

fn with_scene(run: impl FnOnce(&Scene<'_>)) {
    let limits = Limits::default();
    run(&Scene::of(Tick(1), &limits));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn a_list_holds_what_a_plain_deque_holds(ops in prop::collection::vec(op(), 1..120)) {
        with_scene(|scene| {
            let (mut list, mut plain) = (List::new(), Plain::new());
            let mut is_resized = false;
            for op in ops {
                is_resized |= matches!(op, Op::Size(_));
                apply(&mut list, &mut plain, op, scene);
                assert_eq!(list.len(), plain.len());
                list.check();
                // Chunks filled under another limit may exceed the present one.
                if !is_resized {
                    check_limit(&list, scene);
                }
            }
            let all: Vec<&[u8]> = list.iter(End::Left, 0).collect();
            assert_eq!(all, plain.iter().map(Vec::as_slice).collect::<Vec<_>>());
        });
    }
}

fn filled(count: usize, scene: &Scene<'_>) -> List {
    let mut list = List::new();
    for i in 0..count {
        list.push(End::Right, format!("element {i:07}").as_bytes(), scene);
    }
    list
}

#[test]
fn a_long_list_takes_few_bytes_beyond_its_elements() {
    with_scene(|scene| {
        let list = filled(1_000_000, scene);
        let per_element = list.heap_bytes() as f64 / 1e6;
        assert!(per_element < 15.0 + 2.2, "{per_element} bytes for 15");
        list.check();
    });
}

#[test]
fn a_queue_stays_small_however_much_passes_through() {
    with_scene(|scene| {
        for (to, from) in [(End::Left, End::Right), (End::Right, End::Left)] {
            let mut list = List::new();
            for i in 0..200_000 {
                list.push(to, format!("element {i:07}").as_bytes(), scene);
                if i >= 1000 {
                    assert!(list.pop(from, scene, |_| {}));
                }
                assert!(list.heap_bytes() < 64 << 10, "{} bytes", list.heap_bytes());
            }
            list.check();
        }
    });
}

#[test]
fn a_list_filled_from_its_middle_keeps_its_chunks_half_full() {
    with_scene(|scene| {
        let mut list = filled(10, scene);
        for i in 0..300_000usize {
            let index = list.len() / 2 + i % 3;
            list.insert(index, b"0123456789abcdef", scene);
        }
        assert!(list.heap_bytes() < 300_000 * 18 * 21 / 10);
        list.check();
        let removed = list.remove_equal(b"0123456789abcdef", End::Left, usize::MAX, scene);
        assert_eq!((removed, list.len()), (300_000, 10));
        assert!(list.is_packed());
    });
}

#[test]
fn a_large_list_is_freed_in_steps() {
    with_scene(|scene| {
        let mut list = filled(500_000, scene);
        let mut waste = list.keep(250_000, 5, scene);
        assert_eq!(list.len(), 5);
        assert!(waste.len() > 430_000);
        let mut calls = 0;
        while waste.dismantle(16) {
            calls += 1;
        }
        assert!(calls > 50, "{calls} calls");
        assert!(waste.heap_bytes() < 1000, "{} bytes", waste.heap_bytes());
    });
}

#[test]
fn a_list_is_packed_again_at_half_the_limit() {
    with_scene(|scene| {
        let mut list = List::new();
        while list.is_packed() {
            list.push(End::Right, b"0123456789", scene);
        }
        assert_eq!(list.len(), 8192 / 12 + 1);
        while !list.is_packed() {
            list.pop(End::Right, scene, |_| {});
        }
        assert_eq!(list.len(), 4096 / 12);
    });
}
