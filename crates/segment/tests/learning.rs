//! Data that the engine passes to a learner, and its use of a ranking.

use policy::groups::{Features, Groups};
use policy::{Budget, Tick};
use segment::{Condition, Config, Eviction, Segcache, SegmentName, Value, Writer};

const START: u64 = 1_700_000_000_000;
/// Objects in one segment: 16 bytes of name and 75 of value, with 5 of metadata.
const BY_SEGMENT: u64 = 4096 / 96;

struct World {
    cache: Segcache,
    writer: Writer,
    now: Tick,
    value: Vec<u8>,
}

impl World {
    fn new(eviction: Eviction, segments: u64) -> World {
        let config = Config {
            memory_bytes: segments * 4_500 + 250_000,
            segment_bytes: 4 << 10,
            eviction,
            ..Config::default()
        };
        let cache: Segcache = Segcache::new(&config).expect("large enough");
        World {
            writer: cache.writer().expect("the first"),
            cache,
            now: Tick(START),
            value: vec![7; 75],
        }
    }

    fn set(&mut self, number: u64) {
        let name = format!("{number:016}");
        let key = self.cache.key(name.as_bytes());
        let value = Value::plain(&self.value);
        let always = Condition::Always;
        let stored = self
            .cache
            .set(&mut self.writer, &key, value, None, always, self.now);
        assert!(stored.is_ok(), "{stored:?}");
    }

    fn fill(&mut self, numbers: std::ops::Range<u64>) {
        numbers.for_each(|number| self.set(number));
    }

    fn is_there(&self, number: u64) -> bool {
        let name = format!("{number:016}");
        let key = self.cache.key(name.as_bytes());
        self.cache.contains(&key, self.now)
    }

    fn wait(&mut self, seconds: u64) {
        self.now = Tick(self.now.0 + 1000 * seconds);
    }

    /// Samples a segment. Few segments are sealed, so that many random numbers may find none.
    fn sample(&self) {
        assert!((0..1_000).any(|random| self.cache.sample(random, self.now)));
    }

    /// Returns all samples.
    fn samples(&self) -> Vec<(Features, f64)> {
        let mut samples = vec![];
        let mut each = |features: &Features, utility| samples.push((*features, utility));
        self.cache.take_samples(Tick(u64::MAX), &mut each);
        samples
    }

    fn groups(&self) -> Vec<(SegmentName, Features)> {
        let mut groups = vec![];
        let mut each = |name, features: &Features| groups.push((name, *features));
        self.cache.each_group(self.now, &mut each);
        groups
    }
}

#[test]
fn features_describe_how_a_segment_is_requested() {
    let mut world = World::new(Eviction::GlCache, 64);
    world.cache.set_rates(policy::groups::Rates {
        requests: 3.0,
        writes: 2.0,
        misses: 0.5,
    });
    world.fill(0..BY_SEGMENT + 1);
    for turn in 0..3 {
        world.wait(1);
        (0..10 + turn).for_each(|number| assert!(world.is_there(number)));
        // In the same second again: counted once.
        assert!(world.is_there(0));
    }
    let groups = world.groups();
    assert_eq!(groups.len(), 1, "the second is being filled");
    assert_eq!(groups[0].1, [3.0, 2.0, 0.5, 96.0, 3.0, 33.0, 12.0]);
    let extent = world.cache.extent();
    assert!((2..8).contains(&extent.groups));
    assert_eq!(
        (extent.entries, extent.begun, extent.writes),
        (BY_SEGMENT + 1, 2, BY_SEGMENT)
    );
}

/// Each time that a popular object was overwritten it used to count as another requested object.
#[test]
fn an_object_overwritten_in_its_segment_counts_once() {
    let mut world = World::new(Eviction::GlCache, 64);
    world.fill(0..10);
    world.wait(1);
    (0..2).for_each(|number| assert!(world.is_there(number)));
    (0..5).for_each(|_| world.set(0));
    world.fill(10..BY_SEGMENT - 5);
    // In the next segment, which then has one requested object, the overwritten one.
    world.set(1);
    world.fill(100..100 + BY_SEGMENT);
    let requested: Vec<f32> = world.groups().iter().map(|group| group.1[6]).collect();
    assert_eq!(requested, [2.0, 1.0]);
}

#[test]
fn each_object_of_a_sample_counts_once_wherever_it_is() {
    let mut world = World::new(Eviction::GlCache, 64);
    // Eight in a segment: so few that all are watched.
    world.value = vec![7; 483];
    world.fill(0..9);
    world.sample();
    world.wait(2);
    (0..3).for_each(|number| assert!(world.is_there(number)));
    world.wait(2);
    (0..5).for_each(|number| assert!(world.is_there(number)));
    // Deleted or overwritten before they were requested.
    let name = format!("{:016}", 5);
    let key = world.cache.key(name.as_bytes());
    let deleted = world.cache.delete(&key, Condition::Always, world.now);
    assert_eq!(deleted, Ok(true));
    world.set(6);
    // A request for an evicted object counts.
    world.fill(1_000..4_000);
    world.wait(6);
    (0..8).for_each(|number| _ = world.is_there(number));
    let samples = world.samples();
    assert_eq!(samples.len(), 1);
    assert_eq!(samples[0].0[4], 0.0, "its features are those of then");
    let expected = (3.0 / 2.0 + 2.0 / 4.0 + 1.0 / 10.0) / 504.0;
    let measured = samples[0].1;
    assert!(
        (measured - expected).abs() < expected / 1e6,
        "{measured} {expected}"
    );
    assert!(world.samples().is_empty());
}

#[test]
fn samples_from_before_a_flush_are_dropped() {
    let mut world = World::new(Eviction::GlCache, 64);
    world.fill(0..BY_SEGMENT * 4);
    (0..8).for_each(|_| world.sample());
    assert_eq!(world.cache.sampled_before(Tick(u64::MAX)), 8);
    world.cache.clear();
    world
        .cache
        .maintain(&mut world.writer, world.now, &mut Budget(u32::MAX));
    world.wait(1);
    (0..BY_SEGMENT * 4).for_each(|number| assert!(!world.is_there(number)));
    assert_eq!(world.cache.sampled_before(Tick(u64::MAX)), 0);
    assert!(world.samples().is_empty());
    assert!(!world.cache.sample(0, world.now), "nothing is there");
    assert!(world.groups().is_empty());
    world.fill(0..BY_SEGMENT * 4);
    world.sample();
    world.cache.check();
}

#[test]
fn the_least_useful_segment_is_merged_with_its_neighbours() {
    let mut world = World::new(Eviction::GlCache, 64);
    assert!(world.cache.wants_ranking());
    // A popular object in each segment.
    let first = |segment: u64| segment * BY_SEGMENT;
    world.fill(0..40 * BY_SEGMENT);
    world.wait(100);
    (0..40).for_each(|segment| assert!(world.is_there(first(segment))));
    world.wait(1);
    let groups = world.groups();
    // The 21st is ranked least.
    let names = [groups[20].0];
    world.cache.rank(&names, 1);
    assert!(!world.cache.wants_ranking());
    let mut number = 100_000;
    while !world.cache.wants_ranking() {
        world.set(number);
        number += 1;
    }
    // Finishes the writer's job.
    (0..2 * BY_SEGMENT).for_each(|more| world.set(number + more));
    let stats = world.cache.stats();
    assert_eq!(stats.segments_ranked, 5);
    let is_whole = |segment: u64| {
        let mut members = first(segment)..first(segment + 1);
        members.all(|member| world.is_there(member))
    };
    let whole: Vec<u64> = (0..40).filter(|&segment| is_whole(segment)).collect();
    let evicted: Vec<u64> = (0..40).filter(|segment| !whole.contains(segment)).collect();
    assert!(
        (20..25).all(|segment| evicted.contains(&segment)),
        "{evicted:?}"
    );
    let stays = |number: &u64| world.is_there(*number);
    let left: Vec<u64> = (first(20)..first(25)).filter(stays).collect();
    // One of them may have been in a line of the table that did not exist yet when it was
    // requested.
    let popular = (20..25).filter(|&segment| left.contains(&first(segment)));
    assert!(popular.count() >= 3, "{left:?}");
    assert!(left.len() < 60, "{left:?}");
    world.cache.check();
}

#[test]
fn rankings_of_freed_segments_and_for_other_evictions_are_ignored() {
    let mut world = World::new(Eviction::GlCache, 64);
    world.fill(0..20 * BY_SEGMENT);
    let names: Vec<_> = world.groups().into_iter().map(|(name, _)| name).collect();
    world.cache.clear();
    world
        .cache
        .maintain(&mut world.writer, world.now, &mut Budget(u32::MAX));
    world.cache.rank(&names, 10);
    world.fill(0..100 * BY_SEGMENT);
    assert_eq!(world.cache.stats().segments_ranked, 0);
    assert!(world.cache.wants_ranking());
    assert_eq!(world.cache.set_eviction(Eviction::Fifo), Ok(()));
    assert!(!world.cache.is_learning());
    let names: Vec<_> = world.groups().into_iter().map(|(name, _)| name).collect();
    world.cache.rank(&names, 10);
    world.fill(0..100 * BY_SEGMENT);
    assert_eq!(world.cache.set_eviction(Eviction::GlCache), Ok(()));
    world.fill(0..100 * BY_SEGMENT);
    assert_eq!(world.cache.stats().segments_ranked, 0);
    world.cache.rank(&[], 0);
    assert!(world.cache.wants_ranking());
    world.cache.check();
}

#[test]
fn few_segments_are_not_sampled_and_samples_are_limited() {
    let mut few = World::new(Eviction::GlCache, 8);
    few.cache = {
        let config = Config {
            memory_bytes: 130_000,
            segment_bytes: 4 << 10,
            eviction: Eviction::GlCache,
            ..Config::default()
        };
        Segcache::new(&config).expect("large enough")
    };
    few.writer = few.cache.writer().expect("the first");
    few.fill(0..100 * BY_SEGMENT);
    assert!(!few.cache.sample(1, few.now));

    let mut world = World::new(Eviction::GlCache, 64);
    world.fill(0..30 * BY_SEGMENT);
    let most = world.cache.samples_max();
    let taken = (0..40 * most as u64).filter(|&random| world.cache.sample(random, world.now));
    let taken = taken.count();
    // The same few segments repeatedly: the entries of their keys are used up before the samples
    // are.
    assert!((most / 2..=most).contains(&taken), "{taken} of {most}");
    assert_eq!(world.cache.sampled_before(Tick(u64::MAX)), taken);
    assert_eq!(world.samples().len(), taken);
    world.sample();
    world.cache.check();
}
