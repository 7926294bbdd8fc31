use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Insert(usize, Vec<u8>, Vec<u8>),
    Remove(usize),
    SetTail(usize, Vec<u8>),
    SetDeadline(usize, Option<u64>),
    SetOwn(Option<u64>),
    Settle,
    Purge(u64),
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..20),
        2 => prop::collection::vec(any::<u8>(), 120..140),
        1 => prop::collection::vec(any::<u8>(), 16_380..16_390),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let deadline = || prop::option::of(1..40u64);
    prop_oneof![
        6 => (any::<usize>(), bytes(), bytes()).prop_map(|(i, m, t)| Op::Insert(i, m, t)),
        2 => any::<usize>().prop_map(Op::Remove),
        2 => (any::<usize>(), bytes()).prop_map(|(i, t)| Op::SetTail(i, t)),
        4 => (any::<usize>(), deadline()).prop_map(|(i, d)| Op::SetDeadline(i, d)),
        1 => deadline().prop_map(Op::SetOwn),
        1 => Just(Op::Settle),
        1 => (0..40u64).prop_map(Op::Purge),
    ]
}

type Plain = Vec<(Vec<u8>, Vec<u8>, Option<Tick>)>;

fn fit(tail: Tail, mut bytes: Vec<u8>) -> Vec<u8> {
    match tail {
        Tail::Nothing => bytes.clear(),
        Tail::Score => bytes.resize(8, 7),
        Tail::Value => {}
    }
    bytes
}

fn apply(packed: &mut PackedElements, plain: &mut Plain, own: &mut Option<Tick>, op: Op) {
    let places: Vec<usize> = packed.iter().map(|e| e.at).chain([packed.end()]).collect();
    let pick = |i: usize| (!plain.is_empty()).then(|| i % plain.len());
    match op {
        Op::Insert(i, member, tail) => {
            let (i, tail) = (i % places.len(), fit(packed.tail, tail));
            let at = places[i].max(packed.start());
            packed.insert(at, &member, &tail);
            plain.insert(i, (member, tail, None));
        }
        Op::Remove(i) => {
            if let Some(i) = pick(i) {
                packed.remove(places[i]);
                plain.remove(i);
            }
        }
        Op::SetTail(i, tail) => {
            if let Some(i) = pick(i) {
                let tail = fit(packed.tail, tail);
                packed.set_tail(places[i], &tail);
                plain[i].1 = tail;
            }
        }
        Op::SetDeadline(i, deadline) => {
            if let Some(i) = pick(i) {
                let at = packed.set_deadline(places[i], deadline.map(Tick));
                plain[i].2 = deadline.map(Tick);
                assert_eq!(packed.at(at).expect("it is present").member, plain[i].0);
            }
        }
        Op::SetOwn(deadline) => {
            if packed.has_deadlines() {
                packed.set_own(deadline.map(Tick));
                *own = deadline.map(Tick);
            }
        }
        Op::Settle => packed.settle(),
        Op::Purge(now) => {
            let (mut reported, before) = (0, plain.len());
            let report = &mut |deadline: Tick, count| {
                assert!(deadline.0 < now);
                reported += count as usize;
            };
            packed.purge(Tick(now), &mut Budget(9), report, None);
            plain.retain(|(_, _, deadline)| deadline.is_none_or(|d| now <= d.0));
            assert_eq!(reported, before - plain.len());
        }
    }
    if !packed.has_deadlines() {
        *own = None;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn packed_elements_hold_what_a_plain_list_holds(
        tail in prop_oneof![Just(Tail::Nothing), Just(Tail::Value), Just(Tail::Score)],
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let (mut packed, mut plain, mut own) = (PackedElements::new(tail), Plain::new(), None);
        for op in ops {
            apply(&mut packed, &mut plain, &mut own, op);
            let held: Plain = packed
                .iter()
                .map(|e| (e.member.to_vec(), e.tail.to_vec(), e.deadline))
                .collect();
            prop_assert_eq!(&held, &plain);
            prop_assert_eq!(packed.own(), own);
            prop_assert_eq!(packed.is_empty(), plain.is_empty());
            let nearest = packed.deadlines().and_then(|deadlines| deadlines.nearest);
            prop_assert_eq!(nearest, plain.iter().filter_map(|e| e.2).min());
            packed = PackedElements::from_bytes(tail, packed.has_deadlines(), packed.into_bytes());
        }
    }
}
