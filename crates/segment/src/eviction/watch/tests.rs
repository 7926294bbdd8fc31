use super::*;
use policy::parts::chance::Chance;
use std::collections::BTreeMap;

const MEMORY: u64 = 64 << 20;
/// Number of keys in the model.
const KEYS: u64 = 600;

fn hash(number: u64) -> u64 {
    scramble(number) | 1 << 52
}

#[test]
fn the_table_takes_as_much_memory_as_the_docs_say() {
    // Cases in which an object has less than these fractions of its bytes of memory, which is
    // below one byte an object.
    for (memory, part) in [(64 << 20, 700), (1 << 30, 800), (64 << 30, 7_000)] {
        assert!(Watch::bytes_of(memory) <= memory / part, "{memory}");
    }
    for (memory, most) in [(1 << 20, 52_000), (512 << 10, 52_000), (256 << 10, 26_000)] {
        assert!(Watch::bytes_of(memory) <= most, "{memory}");
    }
    for memory in [0, 1, 1_000, 100_000, u64::MAX] {
        let entries = entry_count(memory);
        assert!(entries >= WAYS && entries.is_power_of_two());
        assert!(sample_count(entries) >= 1);
    }
    assert!(sample_count(entry_count(1 << 20)) >= 256);
    // A learner needs at least 128 samples.
    assert_eq!(sample_count(entry_count(MEMORY_MIN)), 128);
    let small = Watch::new();
    small.prepare(MEMORY_MIN - 1);
    assert_eq!((small.samples_max(), small.bytes(MEMORY_MIN - 1)), (0, 0));
}

#[test]
fn no_key_is_covered_before_a_sample() {
    let watch = Watch::new();
    assert!((0..1_000).all(|number| !watch.covers(hash(number))));
    watch.requested(hash(1), Tick(5));
    assert_eq!(watch.samples_max(), 0);
    assert!(watch.begin([0.0; 7], Tick(9), 10, Tick(5)).is_none());
}

/// Samples a segment of consecutive keys.
fn sampled(watch: &Watch, first: u64, objects: u32, now: Tick) -> bool {
    let begun = watch.begin([first as f32; 7], Tick(u64::MAX), objects, now);
    let mut begun = begun.expect("samples are left");
    for key in first..first + u64::from(objects) {
        if begun.covers(hash(key)) {
            begun.watch(hash(key), 2);
        }
    }
    begun.end(objects)
}

/// Regression test: all samples used to share the mask of the last one, so that keys of others
/// were watched but their requests ignored.
#[test]
fn utilities_are_right_for_segments_of_few_and_of_many_objects() {
    let watch = Watch::new();
    watch.prepare(MEMORY);
    let objects = [10_000, 2_000, 20, 10_000, 300, 10_000];
    let first = |index: usize| index as u64 * 100_000;
    for (index, &objects) in objects.iter().enumerate() {
        assert!(sampled(&watch, first(index), objects, Tick(1_000)));
    }
    let now = Tick(3_000);
    for (index, &objects) in objects.iter().enumerate() {
        let keys = first(index)..first(index) + u64::from(objects);
        let covered = keys.filter(|&key| watch.covers(hash(key)));
        covered.for_each(|key| watch.requested(hash(key), now));
    }
    let mut passed = vec![];
    watch.take(now, &mut |_, utility| passed.push(utility * 2.0 * 16.0));
    let is_near = |(passed, objects): (&f64, u32)| (passed - f64::from(objects)).abs() < 1e-6;
    assert!(passed.iter().zip(objects).all(is_near), "{passed:?}");
    assert!((0..1_000).all(|key| !watch.covers(hash(key))));
}

/// Regression test: samples with a time in the future used to keep their numbers until that
/// time.
#[test]
fn samples_from_before_a_step_back_of_the_clock_are_ended() {
    let watch = Watch::new();
    watch.prepare(MEMORY);
    let day = 86_400_000;
    let most = watch.samples_max() as u64;
    for number in 0..most {
        assert!(sampled(&watch, number * 100, 20, Tick(2 * day + number)));
    }
    for number in 0..most {
        assert!(sampled(&watch, number * 100, 20, Tick(day + number)));
    }
    assert_eq!(watch.sampled_before(Tick(2 * day)), most as usize);
    watch.requested(hash(0), Tick(day + 1_000));
    let mut passed = vec![];
    watch.take(Tick(day + 1), &mut |_, utility| passed.push(utility));
    assert!(passed.len() == 1 && passed[0] > 0.0, "{passed:?}");
}

/// A sample of the model: its utility so far, and the watched keys with their sizes in words.
#[derive(Default)]
struct ModelSample {
    number: f32,
    at: u64,
    deadline: u64,
    utility: f64,
    scale: f64,
    left: BTreeMap<u64, u32>,
}

/// Compares the table with a simple model: a map of keys for each sample.
#[test]
fn utilities_are_those_of_the_plainest_model() {
    let watch = Watch::new();
    watch.prepare(MEMORY);
    let mut chance = Chance::new(5);
    let mut samples: Vec<ModelSample> = vec![];
    let mut now = 1_000_000;
    for turn in 0..20_000u32 {
        now += chance.below(400);
        match chance.below(40) {
            0 if samples.len() < 100 => {
                let mut known = ModelSample {
                    number: turn as f32,
                    at: now,
                    deadline: now + chance.below(1_000_000),
                    ..ModelSample::default()
                };
                let deadline = Tick(known.deadline);
                // All keys are watched, or half of them, or one in sixteen.
                let objects = [12, 40, 300][chance.below(3) as usize];
                let mut begun = watch
                    .begin([known.number; 7], deadline, objects, Tick(now))
                    .expect("samples are left");
                let first = chance.below(KEYS - u64::from(objects));
                for key in first..first + u64::from(objects) {
                    let words = 1 + chance.below(100) as u32;
                    let before = begun.watched;
                    if begun.covers(hash(key)) {
                        begun.watch(hash(key), words);
                    }
                    if begun.watched > before {
                        known.left.insert(key, words);
                    }
                }
                known.scale = f64::from(objects) / known.left.len() as f64;
                if begun.end(objects) {
                    samples.push(known);
                }
            }
            1 => {
                let key = chance.below(KEYS);
                watch.forget(hash(key));
                samples
                    .iter_mut()
                    .for_each(|one| one.left.retain(|other, _| *other != key));
            }
            2 if chance.below(30) == 0 => {
                watch.flushed();
                samples.clear();
            }
            3 if chance.below(5) == 0 => {
                let before = now - chance.below(60_000);
                let mut passed = vec![];
                watch.take(Tick(before), &mut |features, utility| {
                    passed.push((features[0], utility));
                });
                let count = samples.iter().filter(|one| one.at < before).count();
                assert_eq!(passed.len(), count);
                for (known, (number, utility)) in samples.drain(..count).zip(passed) {
                    assert_eq!(known.number, number);
                    let expected = known.utility * known.scale;
                    assert!((utility - expected).abs() <= expected * 1e-9);
                }
            }
            _ => {
                let key = chance.below(KEYS);
                let is_covered = watch.covers(hash(key));
                if is_covered {
                    watch.requested(hash(key), Tick(now));
                }
                for one in &mut samples {
                    let words = one.left.remove(&key);
                    assert!(is_covered || words.is_none());
                    if let Some(words) = words.filter(|_| now <= one.deadline) {
                        let seconds = (now - one.at).max(500) as f64 / 1e3;
                        one.utility += 1.0 / (seconds * f64::from(words) * 8.0);
                    }
                }
            }
        }
    }
    assert_eq!(watch.sampled_before(Tick(u64::MAX)), samples.len());
}
