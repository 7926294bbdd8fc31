use super::*;
use crate::ManualClock;
use crate::budget::Budget;
use crate::object::{Head, read_all};
use crate::rules::freshness::Terms;
use crate::rules::vary::Selection;
use hyper::StatusCode;
use hyper::header::HeaderMap;
use proptest::prelude::*;
use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicU32;
use std::time::Duration;
use tokio::runtime::Runtime;

const NOW_MS: u64 = 1_700_000_000_000;

/// Folder that is deleted at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "mayfly-disk-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Relaxed)
        );
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("the folder is writable");
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Tier {
    disk: Option<Disk>,
    queue: Arc<Queue>,
    clock: ManualClock,
    folder: Folder,
    runtime: Runtime,
    bytes: u64,
}

impl Tier {
    fn new(bytes: u64) -> Self {
        let mut tier = Tier {
            disk: None,
            queue: Arc::default(),
            clock: ManualClock::new(NOW_MS),
            folder: Folder::new(),
            runtime: tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .build()
                .expect("the input is valid"),
            bytes,
        };
        tier.open();
        tier
    }

    fn open(&mut self) {
        self.queue = Arc::default();
        let settings = DiskConfig {
            folder: self.folder.0.clone(),
            bytes: self.bytes,
        };
        let config = Config {
            object_bytes_max: 300_000,
            clock: Clock::Manual(self.clock.clone()),
            ..Config::default()
        };
        let budget = Budget::new(config.memory_bytes);
        let queue = self.queue.clone();
        let disk = Disk::open(&config, &settings, &budget, queue, Box::new(|_| false));
        self.disk = Some(disk.expect("the folder is writable"));
    }

    /// Ends without the last footer, as a crash does, and opens the tier again.
    fn crash(&mut self) {
        self.disk = None;
        self.open();
    }

    fn disk(&self) -> &Disk {
        self.disk.as_ref().expect("the tier is open")
    }

    fn write(&self, name: u32, content: Vec<u8>, fresh_ms: u64) {
        let victim = Victim {
            key: key(name),
            resource: Arc::new(response(name, content, self.now_ms(), fresh_ms)),
            left: None,
            purge_count: 0,
        };
        self.queue.push(Job::Write(victim));
        self.disk().flush(false);
    }

    fn now_ms(&self) -> u64 {
        Clock::Manual(self.clock.clone()).now_ms()
    }

    /// Returns the content of a URL, and whether it is fresh.
    fn get(&self, name: u32) -> Option<(Vec<u8>, bool)> {
        let resource = self.runtime.block_on(self.disk().get(&key(name)))?;
        let object = resource.variants.first()?;
        let is_fresh = object.head.terms.is_fresh(self.now_ms());
        let all = crate::rules::ranges::Range {
            start: 0,
            end: object.length,
        };
        let chunks = match &object.extent {
            None => object.chunks.to_vec(),
            Some(extent) => {
                let reading = read_all(extent.read(all));
                self.runtime.block_on(reading).ok()?
            }
        };
        Some((chunks.concat(), is_fresh))
    }

    /// Checks the relations between index, segments and files.
    fn check(&self) {
        let shared = &self.disk().shared;
        let stats = self.disk().stats();
        let mut live = 0;
        shared
            .index
            .for_each(|_, place| live += u64::from(place.length));
        assert_eq!(stats.live_bytes, live);
        assert!(stats.bytes <= self.bytes, "{stats:?}");
        let mut files = 0;
        for file in std::fs::read_dir(&self.folder.0).expect("the folder is there") {
            let file = file.expect("the folder is there");
            if segment::number(&file.path()).is_some() {
                files += file.metadata().expect("the file is there").len();
            }
        }
        assert_eq!(files, stats.bytes);
        assert!(!stats.is_off);
    }
}

fn key(name: u32) -> Key {
    Key::new(false, "a", &format!("/{name}")).expect("the input is valid")
}

/// Returns the tag of a URL, one of three. Two of them have the same half in the index.
fn tag(name: u32) -> u64 {
    u64::from(name % 3) << 31
}

fn response(name: u32, content: Vec<u8>, now_ms: u64, fresh_ms: u64) -> Resource {
    let head = Head {
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        terms: Terms {
            received_ms: now_ms,
            initial_age_ms: 0,
            fresh_ms,
            revalidate_ms: 0,
            error_ms: 1_000,
            keep_ms: 0,
            is_always_validated: false,
            must_revalidate: false,
        },
        selection: Selection::default(),
        part: None,
        tags: [tag(name)].into(),
        coded: None,
    };
    let object = Object::new(Arc::new(head), vec![content.into()]);
    Resource {
        variants: vec![object],
        place: None,
        tagged: None,
    }
}

/// Returns content that differs by version and position.
fn content(version: u32, length: usize) -> Vec<u8> {
    let byte = |at: usize| (at as u32).wrapping_mul(31).wrapping_add(version * 7) as u8;
    (0..length).map(byte).collect()
}

/// Responses that the tier may have for a URL.
#[derive(Clone)]
struct Expected {
    content: Vec<u8>,
    fresh_until_ms: u64,
}

#[derive(Clone, Debug)]
enum Step {
    Write(u32, usize, u64),
    Get(u32),
    Remove(u32),
    Purge(u32, bool),
    PurgeTag(u32, bool),
    Advance(u64),
    Save,
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0_u32..24;
    prop_oneof![
        8 => (name.clone(), prop_oneof![0_usize..3_000, 60_000_usize..290_000], 1_u64..20_000)
            .prop_map(|(name, length, ms)| Step::Write(name, length, ms)),
        6 => name.clone().prop_map(Step::Get),
        1 => name.clone().prop_map(Step::Remove),
        1 => (name, any::<bool>()).prop_map(|(name, soft)| Step::Purge(name, soft)),
        1 => (0_u32..3, any::<bool>()).prop_map(|(tag, soft)| Step::PurgeTag(tag, soft)),
        2 => (1_u64..3_000).prop_map(Step::Advance),
        1 => Just(Step::Save),
        1 => Just(Step::Crash),
    ]
}

/// Applies steps to the tier and to a map, and compares them. `is_exact` means that nothing is
/// displaced.
fn compare(bytes: u64, steps: &[Step], is_exact: bool) {
    let mut tier = Tier::new(bytes);
    let mut model: HashMap<u32, Expected> = HashMap::new();
    let mut version = 0;
    let usable = |expected: &Expected, now_ms| now_ms < expected.fresh_until_ms + 1_000;
    for step in steps {
        let now_ms = tier.now_ms();
        let soften = |expected: &mut Expected| {
            expected.fresh_until_ms = expected.fresh_until_ms.min(now_ms);
        };
        match *step {
            Step::Write(name, length, fresh_ms) => {
                version += 1;
                let content = content(version, length);
                tier.write(name, content.clone(), fresh_ms);
                let fresh_until_ms = now_ms + fresh_ms;
                model.insert(
                    name,
                    Expected {
                        content,
                        fresh_until_ms,
                    },
                );
            }
            Step::Get(name) => {
                let found = tier.get(name);
                let expected = model.get(&name).filter(|expected| usable(expected, now_ms));
                let expected = expected
                    .map(|expected| (expected.content.clone(), now_ms < expected.fresh_until_ms));
                if is_exact || found.is_some() {
                    assert!(found == expected, "URL {name} after {step:?}");
                }
            }
            Step::Remove(name) => {
                tier.disk().remove(&key(name));
                model.remove(&name);
            }
            Step::Purge(name, is_soft) => {
                tier.disk()
                    .purge(&Target::Url(key(name)), is_soft, &HashSet::new());
                if is_soft {
                    model.get_mut(&name).map(soften);
                } else {
                    model.remove(&name);
                }
            }
            Step::PurgeTag(of, is_soft) => {
                let target = Target::Tag(tag(of));
                let count = tier.disk().purge(&target, is_soft, &HashSet::new());
                // The index has a record up to and including the millisecond of its deadline.
                let (mut least, mut most) = (0, 0);
                model.retain(|name, expected| {
                    let is_concerned = tag(*name) == tag(of);
                    least += usize::from(is_concerned && usable(expected, now_ms));
                    most += usize::from(is_concerned && usable(expected, now_ms - 1));
                    if is_concerned && is_soft {
                        soften(expected);
                    }
                    !is_concerned || is_soft
                });
                assert!(count <= most, "{count}, at most {most}");
                assert!(!is_exact || count >= least, "{count}, at least {least}");
            }
            Step::Advance(ms) => {
                tier.clock.advance(Duration::from_millis(ms));
                tier.disk().expire();
                tier.disk().flush(false);
            }
            Step::Save => tier.disk().save(std::iter::empty()),
            Step::Crash => tier.crash(),
        }
        tier.disk().flush(false);
        tier.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_tier_with_room_has_what_a_map_has(steps in proptest::collection::vec(step(), 1..60)) {
        compare(1 << 30, &steps, true);
    }

    #[test]
    fn a_full_tier_has_nothing_but_what_a_map_has(
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        compare(6 << 20, &steps, false);
    }
}

/// Regression: after a restart, only the last soft purge counted, so that a second one extended the
/// usable time.
#[test]
fn a_second_soft_purge_does_not_prolong_a_record_over_a_restart() {
    let steps = [
        Step::Write(2, 0, 29),
        Step::PurgeTag(2, true),
        Step::Advance(932),
        Step::PurgeTag(2, true),
        Step::Crash,
        Step::Advance(68),
        Step::Get(2),
    ];
    compare(1 << 30, &steps, true);
}

/// Regression: a record that was read moves to the newest segment when its own is deleted. A purge
/// that had begun before found it at neither place.
#[test]
fn a_purge_finds_records_that_are_moved_meanwhile() {
    for is_soft in [false, true] {
        let tier = Tier::new(6 << 20);
        tier.write(1, content(1, 100_000), 60_000);
        let shared = &tier.disk().shared;
        let before = shared.segments.all();
        let first = shared.index.peek(&key_hash(&key(1)));
        let place = || shared.index.peek(&key_hash(&key(1)));
        for name in 2.. {
            assert!(tier.get(1).is_some(), "it is moved because it is read");
            if place() != first {
                break;
            }
            tier.write(name, content(name, 100_000), 60_000);
        }
        let target = Target::Prefix(key(1).as_str().to_owned());
        let purged = shared.purge_segments(before, &target, is_soft, &HashSet::new());
        assert!(purged.is_ok_and(|count| count > 0));
        assert_ne!(tier.get(1).map(|(_, is_fresh)| is_fresh), Some(true));
        tier.check();
    }
}

/// Regression: a restart removes a segment that has no records. The next segment got its number, so
/// that a log line about a record of the first one removed the record at the same place in the
/// second.
#[test]
fn the_number_of_a_removed_segment_is_not_given_again() {
    let steps = [
        Step::Write(0, 0, 1),
        Step::PurgeTag(0, false),
        Step::Crash,
        Step::Write(1, 0, 1),
        Step::Crash,
        Step::Get(1),
    ];
    compare(1 << 30, &steps, true);
}

#[test]
fn records_that_are_read_outlast_their_segment() {
    let tier = Tier::new(12 << 20);
    tier.write(0, content(0, 200_000), 1_000_000);
    tier.write(1, content(1, 200_000), 1_000_000);
    for name in 2..200 {
        tier.write(name, content(name, 200_000), 1_000_000);
        assert!(tier.get(0).is_some(), "after {name}");
        tier.check();
    }
    assert_eq!(tier.get(1), None);
    let stats = tier.disk().stats();
    assert!(stats.reinserted_bytes > 0);
    assert!(
        stats.reinserted_bytes * 4 <= stats.written_bytes,
        "{stats:?}"
    );
}

#[test]
fn a_segment_without_records_is_deleted_at_once() {
    let tier = Tier::new(64 << 20);
    for name in 0..30 {
        tier.write(name, content(name, 200_000), 5_000);
    }
    assert!(tier.disk().stats().bytes > 5 << 20);
    tier.clock.advance(Duration::from_secs(7));
    tier.disk().expire();
    tier.disk().flush(true);
    tier.check();
    assert_eq!(tier.disk().stats().bytes, 0);
}

#[test]
fn a_torn_record_is_lost_and_the_others_are_not() {
    for cut in [1, 100, 4_000] {
        let mut tier = Tier::new(64 << 20);
        for name in 0..10 {
            tier.write(name, content(name, 2_000), 60_000);
        }
        tier.disk = None;
        let path = segment::path(&tier.folder.0, 0);
        let file = File::options().write(true).open(&path);
        let file = file.expect("the file is there");
        let length = file.metadata().expect("the file is there").len();
        file.set_len(length - cut).expect("the file is writable");
        tier.open();
        tier.check();
        let lost = 1 + cut as u32 / 3_000;
        for name in 0..10 {
            assert_eq!(tier.get(name).is_some(), name < 10 - lost, "{name}");
        }
        // The damage is not found a second time.
        tier.crash();
        tier.check();
        assert_eq!(tier.disk().stats().urls, u64::from(10 - lost));
    }
}

#[test]
fn flipped_bits_are_misses() {
    let mut step = 37;
    let length = {
        let tier = Tier::new(64 << 20);
        (0..4).for_each(|name| tier.write(name, content(name, 1_500), 60_000));
        tier.write(4, content(4, 250_000), 60_000);
        tier.disk().save(std::iter::empty());
        tier.disk().stats().bytes
    };
    let mut at = 5;
    while at < length {
        let mut tier = Tier::new(64 << 20);
        (0..4).for_each(|name| tier.write(name, content(name, 1_500), 60_000));
        tier.write(4, content(4, 250_000), 60_000);
        tier.disk().save(std::iter::empty());
        tier.disk = None;
        let path = segment::path(&tier.folder.0, 0);
        let file = File::options().read(true).write(true).open(&path);
        let file = file.expect("the file is there");
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).expect("the file is read");
        byte[0] ^= 4;
        file.write_all_at(&byte, at).expect("the file is writable");
        tier.open();
        for name in 0..5 {
            let length = if name == 4 { 250_000 } else { 1_500 };
            if let Some((found, _)) = tier.get(name) {
                assert!(found == content(name, length), "byte {at}, URL {name}");
            }
        }
        tier.check();
        at += step;
        step = step * 5 / 4;
    }
}

#[test]
fn a_failure_turns_the_tier_off() {
    let tier = Tier::new(16 << 20);
    tier.write(0, content(0, 1_000), 60_000);
    assert!(tier.get(0).is_some());
    std::fs::remove_dir_all(&tier.folder.0).expect("the folder is there");
    // The next segment cannot be created.
    for name in 1..10 {
        tier.write(name, content(name, 290_000), 60_000);
    }
    let stats = tier.disk().stats();
    assert!(stats.is_off, "{stats:?}");
    assert_eq!((stats.errors, stats.urls), (1, 0));
    assert_eq!(tier.get(0), None);
}

#[test]
fn a_folder_is_used_by_one_process() {
    let tier = Tier::new(16 << 20);
    let settings = DiskConfig {
        folder: tier.folder.0.clone(),
        bytes: 16 << 20,
    };
    let second = Disk::open(
        &Config::default(),
        &settings,
        &Budget::new(1 << 20),
        Arc::default(),
        Box::new(|_| false),
    );
    let error = second.err().expect("the folder is locked").to_string();
    assert!(error.contains("another process"), "{error}");
}

#[test]
fn an_object_takes_at_most_64_bytes_of_memory() {
    let tier = Tier::new(1 << 30);
    let shared = &tier.disk().shared;
    let count = 1_000_000;
    for number in 0..count {
        let place = Place {
            segment: 0,
            offset: number,
            length: 1,
        };
        let hash = twox_hash::XxHash3_64::oneshot(&number.to_le_bytes());
        let ttl = Duration::from_millis(1_000 + u64::from(number) * 77);
        shared.index.insert_with_ttl(hash, place, ttl);
    }
    let each = shared.index.stats().bytes as f64 / f64::from(count);
    assert!(each <= 64.0, "{each} bytes");
}

/// Verifies everything in steps of some bytes. Returns the damaged keys, and the bytes read.
fn scrub(tier: &Tier, bytes_max: u64) -> (Vec<Lost>, u64) {
    let (mut position, mut lost, mut bytes) = (Position::new(0), vec![], 0);
    loop {
        let step = tier.disk().scrub(&mut position, bytes_max);
        assert!(step.bytes < bytes_max + 300_000, "{step:?}");
        bytes += step.bytes;
        lost.extend(step.lost);
        if step.is_last {
            return (lost, bytes);
        }
    }
}

/// Changes a bit of the file that has a record, at an offset in the record.
fn flip(tier: &Tier, name: u32, at: u64) {
    let place = tier.disk().shared.index.peek(&key_hash(&key(name)));
    let place = place.expect("the record is there");
    let path = segment::path(&tier.folder.0, place.segment);
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path);
    let file = file.expect("the file is there");
    let mut byte = [0];
    let at = u64::from(place.offset) + at;
    file.read_exact_at(&mut byte, at)
        .expect("the byte is there");
    byte[0] ^= 16;
    file.write_all_at(&byte, at).expect("the file is writable");
}

#[test]
fn a_pass_finds_each_flipped_bit_and_nothing_else() {
    const COUNT: u32 = 60;
    let mut tier = Tier::new(1 << 30);
    let length = |name: u32| 1 + (name as usize * 9_973) % 250_000;
    for name in 0..COUNT {
        tier.write(name, content(name, length(name)), 60_000);
    }
    // Records of a finished segment, and of one that is still written.
    for is_saved in [false, true] {
        if is_saved {
            tier.disk().save(std::iter::empty());
        }
        let (lost, bytes) = scrub(&tier, 100_000);
        assert!(lost.is_empty());
        let live = tier.disk().stats().live_bytes;
        assert!(bytes >= live && bytes < live + u64::from(COUNT * FIRST_BYTES));
    }
    // The header, the description, the first and the last byte of the content.
    let last = |name: u32| {
        let place = tier.disk().shared.index.peek(&key_hash(&key(name)));
        u64::from(place.expect("the record is there").length) - 1
    };
    let flips = [
        (3, 9),
        (14, 70),
        (25, last(25)),
        (36, last(36) / 2),
        (COUNT - 1, 0),
    ];
    for (name, at) in flips {
        flip(&tier, name, at);
    }
    // What is no longer in the index is not read.
    flip(&tier, 40, 200);
    tier.disk().remove(&key(40));
    let (lost, _) = scrub(&tier, 1);
    let mut hashes: Vec<u64> = lost.iter().map(|lost| lost.hash).collect();
    let mut expected: Vec<u64> = flips
        .iter()
        .map(|(name, _)| key_hash(&key(*name)))
        .collect();
    hashes.sort_unstable();
    expected.sort_unstable();
    assert_eq!(hashes, expected);
    // The key is reported where the description is intact.
    let mut keys: Vec<Key> = vec![];
    keys.extend(lost.into_iter().filter_map(|lost| Some(lost.described?.0)));
    assert_eq!(keys, [key(25), key(36)]);
    let stats = tier.disk().stats();
    assert_eq!((stats.corrupt, stats.scrub_corrupt), (5, 5));
    assert_eq!((stats.scrub_passes, stats.errors), (3, 0));
    tier.check();
    // The damaged records are gone, also after a restart, and the others are intact.
    for is_again in [false, true] {
        if is_again {
            tier.crash();
        }
        assert!(scrub(&tier, 1 << 20).0.is_empty());
        for name in 0..COUNT {
            let is_gone = name == 40 || flips.iter().any(|(flipped, _)| *flipped == name);
            let found = tier.get(name).map(|(content, _)| content);
            assert_eq!(found, (!is_gone).then(|| content(name, length(name))));
        }
    }
}

#[test]
fn a_record_behind_the_end_of_a_file_is_damaged_and_no_failure() {
    let tier = Tier::new(1 << 30);
    for name in 0..3 {
        tier.write(name, content(name, 200_000), 60_000);
    }
    let place = tier.disk().shared.index.peek(&key_hash(&key(2)));
    let place = place.expect("the record is there");
    let path = segment::path(&tier.folder.0, place.segment);
    let file = std::fs::OpenOptions::new().write(true).open(path);
    let end = u64::from(place.offset) + 100_000;
    file.and_then(|file| file.set_len(end))
        .expect("the file is writable");
    let (lost, _) = scrub(&tier, 1 << 20);
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0].hash, key_hash(&key(2)));
    assert!(!tier.disk().stats().is_off);
    assert!(tier.get(1).is_some());
}

#[test]
fn segments_that_are_deleted_during_a_pass_are_left_out() {
    let tier = Tier::new(6 << 20);
    let mut position = Position::new(0);
    let mut passes = 0;
    for name in 0..200 {
        tier.write(name, content(name, 100_000), 60_000);
        let step = tier.disk().scrub(&mut position, 150_000);
        assert!(step.lost.is_empty(), "{step:?}");
        passes += u64::from(step.is_last);
    }
    assert!(passes > 1);
    assert!(tier.disk().stats().displaced > 100);
    tier.check();
}

/// Regression: the pass did not end, and read nothing in each step, so that its caller never
/// waited.
#[test]
fn a_pass_ends_when_the_tier_is_off() {
    let tier = Tier::new(64 << 20);
    for name in 0..10 {
        tier.write(name, content(name, 100_000), 60_000);
    }
    let mut position = Position::new(0);
    assert!(!tier.disk().scrub(&mut position, 150_000).is_last);
    tier.disk().shared.fail(&io::Error::other("a test"));
    let step = tier.disk().scrub(&mut position, 150_000);
    assert!(step.is_last);
    assert_eq!(step.bytes, 0);
    assert_eq!(tier.disk().stats().scrub_passes, 0);
}

/// Regression: a pass always began at the oldest segment, which is the next one to be deleted.
#[test]
fn a_pass_begins_at_any_segment_and_reads_each_one() {
    let tier = Tier::new(6 << 20);
    for name in 0..24 {
        tier.write(name, content(name, 200_000), 60_000);
    }
    let shared = &tier.disk().shared;
    let numbers: Vec<u32> = shared.segments.map().keys().copied().collect();
    assert!(numbers.len() > 2);
    for (seed, first) in (0..).zip(&numbers) {
        let mut order = shared.order(seed);
        order.reverse();
        assert_eq!(order[0], *first);
        // Each segment is followed by the next older one, and the oldest one by the newest.
        let steps: Vec<_> = order.windows(2).filter(|two| two[0] < two[1]).collect();
        assert!(steps.len() <= 1);
        order.sort_unstable();
        assert_eq!(order, numbers);
        let mut position = Position::new(seed);
        let step = tier.disk().scrub(&mut position, u64::MAX);
        assert!(step.is_last);
        assert!(step.bytes >= tier.disk().stats().live_bytes);
    }
}

/// Replaces the footer of each segment by one of the earlier version, without tags.
fn remove_tags(folder: &std::path::Path) {
    for file in std::fs::read_dir(folder).expect("the folder is there") {
        let path = file.expect("the folder is there").path();
        if segment::number(&path).is_none() {
            continue;
        }
        let mut bytes = std::fs::read(&path).expect("the file is there");
        let trailer = bytes.split_off(bytes.len() - 32);
        let number = |at: usize| {
            let part = trailer[at..at + 8].try_into();
            u64::from_le_bytes(part.expect("the length is 8"))
        };
        let (count, start) = (number(8) & 0xffff_ffff, number(16));
        bytes.truncate((start + 24 * count) as usize);
        for part in [0x3166_746f_6f66_796d, count, start] {
            bytes.extend_from_slice(&part.to_le_bytes());
        }
        let sum = record::checksum(&bytes[start as usize..]);
        bytes.extend_from_slice(&sum.to_le_bytes());
        std::fs::write(&path, bytes).expect("the file is writable");
    }
}

/// Regression: a purge by tag read the descriptions of all records.
#[test]
fn a_purge_by_tag_reads_the_records_with_the_tag() {
    let mut tier = Tier::new(64 << 20);
    let rare = u64::MAX;
    let write = |tier: &Tier, name: u32, tags: &[u64]| {
        let mut resource = response(name, content(name, 90_000), tier.now_ms(), 60_000);
        Arc::make_mut(&mut resource.variants[0].head).tags = tags.into();
        tier.queue.push(Job::Write(Victim {
            key: key(name),
            resource: Arc::new(resource),
            left: None,
            purge_count: 0,
        }));
    };
    let fill = |tier: &Tier| {
        for name in 0..100 {
            let tags = [tag(name), if name % 50 == 7 { rare } else { 5 << 32 }];
            write(tier, name, &tags);
        }
        tier.disk().flush(false);
    };
    let purge = |tier: &Tier| {
        let reads = || tier.disk().stats().purge_reads;
        let before = reads();
        let count = tier
            .disk()
            .purge(&Target::Tag(rare), false, &HashSet::new());
        (count, reads() - before)
    };
    // Complete segments and one that is being written.
    fill(&tier);
    assert!(tier.disk().stats().tag_bytes >= 200 * 8);
    assert_eq!(purge(&tier), (2, 2));
    assert_eq!(purge(&tier), (0, 0));
    // After a crash, and after a stop.
    fill(&tier);
    tier.crash();
    assert_eq!(purge(&tier), (2, 2));
    fill(&tier);
    tier.disk().save(std::iter::empty());
    tier.crash();
    assert_eq!(purge(&tier), (2, 2));
    // Segments of an earlier version are read as a whole.
    fill(&tier);
    tier.disk().save(std::iter::empty());
    tier.disk = None;
    remove_tags(&tier.folder.0);
    tier.open();
    assert_eq!(tier.disk().stats().tag_bytes, 0);
    assert_eq!(purge(&tier), (2, 100));
    assert!(tier.get(7).is_none() && tier.get(8).is_some());
}
