//! Fuzz target of the records of a cluster. Whatever they contain, they are used or refused with a
//! reason, and a copy of what is used has the same topology.

use membership::directory::Directory;
use membership::kv::{Entry, Event};

/// Runs the target. Each line is the name of a record, a space, and its value; a line without a
/// space removes a record.
pub fn run(data: &[u8]) {
    let mut directory = Directory::default();
    for (at, line) in data.split(|byte| *byte == b'\n').enumerate() {
        let (key, value) = match line.iter().position(|byte| *byte == b' ') {
            Some(end) => (&line[..end], Some(&line[end + 1..])),
            None => (line, None),
        };
        let key = String::from_utf8_lossy(key).into_owned();
        let revision = at as i64 + 1;
        let refused = directory.refused();
        directory.apply(match value {
            None => Event::Delete(key.clone()),
            Some(value) => Event::Put(Entry {
                key: key.clone(),
                value: value.to_vec(),
                created: revision,
                revision,
            }),
        });
        let is_refused = directory.refused() > refused;
        let has_reason = directory
            .problems()
            .get(&key)
            .is_some_and(|text| !text.is_empty());
        assert!(!is_refused || has_reason, "{key}");
    }
    let mut copy = Directory::default();
    copy.load(directory.revision(), directory.entries());
    assert!(copy.problems().is_empty(), "{:?}", copy.problems());
    let shards = |directory: &Directory| directory.topology().map(|found| found.shards().to_vec());
    assert_eq!(shards(&copy), shards(&directory));
    let _ = directory.place("zone");
}
