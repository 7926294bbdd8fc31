use super::*;
use crate::parts::chance::Chance;
use crate::suite::host::Host;

crate::index_suite!(Ebuckets);

const START: u64 = 1_763_640_000_123;

fn filled(deadlines: impl Iterator<Item = u64>) -> (Host<Link>, Ebuckets, Vec<Slot>) {
    let mut host = Host::new(Tick(START));
    let mut index = Ebuckets::new(Tick(START), &(), 1);
    let slots = deadlines.map(|deadline| {
        let slot = host.add(0, 1, Some(Tick(START + deadline)));
        host.hold(slot);
        index.insert(&mut host, slot);
        slot
    });
    let slots = slots.collect();
    index.check(&host);
    (host, index, slots)
}

#[test]
fn a_full_segment_splits_its_bucket_in_the_middle() {
    let (_, index, _) = filled((0..16).map(|number| 10 * number));
    assert_eq!((index.tree.len(), index.segments.len), (1, 1));
    let (host, index, _) = filled((0..17).map(|number| 10 * number));
    assert_eq!((index.tree.len(), index.segments.len), (2, 2));
    let first = index.tree.first().expect("it has buckets");
    assert_eq!(index.items(&host, first).len, 8);
}

#[test]
fn entries_of_one_deadline_stay_together_when_a_segment_splits() {
    // The middle nearest to 8 between two different deadlines is before the last 5.
    let (host, index, _) = filled([3; 11].into_iter().chain([42; 6]));
    let first = index.tree.first().expect("it has buckets");
    assert_eq!(index.items(&host, first).len, 11);
    assert_eq!(index.segments.len, 2);
}

#[test]
fn entries_of_one_deadline_extend_their_bucket() {
    let (mut host, mut index, slots) = filled((0..100).map(|_| 7));
    assert_eq!((index.tree.len(), index.segments.len), (1, 7));
    // Deadlines before and after that of the bucket get buckets of their own.
    for deadline in [6, 8] {
        let slot = host.add(0, 1, Some(Tick(START + deadline)));
        host.hold(slot);
        index.insert(&mut host, slot);
    }
    assert_eq!((index.tree.len(), index.segments.len), (3, 9));
    index.check(&host);
    for slot in slots {
        index.remove(&mut host, slot);
        host.free(slot);
        index.check(&host);
    }
    assert_eq!((index.tree.len(), index.segments.len), (2, 2));
}

#[test]
fn extended_buckets_stay_valid_when_their_segments_are_moved() {
    // Regression test: when the last segment of a bucket was freed, the one before it once kept
    // the former place of the first.
    let (mut host, mut index, mut slots) = filled((0..300).map(|number| number % 4));
    let mut chance = Chance::new(1);
    for round in 0..20_000 {
        let deadline = Tick(START + round / 150 + chance.below(4));
        let place = chance.below(slots.len() as u64) as usize;
        let slot = slots[place];
        if round % 3 == 0 {
            index.remove(&mut host, slot);
            host.free(slot);
            slots[place] = host.add(0, 1, Some(deadline));
            host.hold(slots[place]);
            index.insert(&mut host, slots[place]);
        } else {
            let old = host.set_deadline(slot, Some(deadline));
            index.update(&mut host, slot, old.expect("it had one"));
        }
        if round % 8 == 0 {
            index.check(&host);
        }
    }
}

#[test]
fn an_entry_takes_about_twenty_bytes_with_its_deadline() {
    const COUNT: u64 = 100_000;
    for spread in [10_000, 3_600_000, 30 * 86_400_000] {
        let mut chance = Chance::new(1);
        let (_, index, _) = filled((0..COUNT).map(|_| chance.below(spread)));
        let of_heap = index.heap_bytes() as f64 / COUNT as f64;
        let bytes = of_heap + (size_of::<u64>() + size_of::<u64>()) as f64;
        assert!((18.0..22.0).contains(&bytes), "{spread} ms: {bytes} bytes");
    }
}
