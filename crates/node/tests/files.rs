//! The disk tier of a process without any file descriptors left. It is a separate test, because the
//! limit applies to the whole process.

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::HeaderMap;
use node::object::{Head, Object};
use node::rules::freshness::Terms;
use node::rules::key::Key;
use node::rules::vary::Selection;
use node::store::Store;
use node::{Clock, Config, DiskConfig, ManualClock};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::Arc;

const NOW_MS: u64 = 1_700_000_000_000;

fn object() -> Object {
    let terms = Terms {
        received_ms: NOW_MS,
        initial_age_ms: 0,
        fresh_ms: 60_000,
        revalidate_ms: 0,
        error_ms: 0,
        keep_ms: 0,
        is_always_validated: false,
        must_revalidate: false,
    };
    let head = Head {
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        terms,
        selection: Selection::default(),
        part: None,
        tags: [].into(),
        coded: None,
    };
    Object::new(Arc::new(head), vec![Bytes::from(vec![7; 200_000])])
}

/// Regression: if clients took all file descriptors, the tier was turned off, which deletes files.
#[test]
fn a_lack_of_file_descriptors_keeps_the_disk_tier() {
    let folder = std::env::temp_dir().join(format!("mayfly-files-{}", std::process::id()));
    let config = Config {
        memory_bytes: 8 << 20,
        object_bytes_max: 300_000,
        disk: Some(DiskConfig {
            folder: folder.clone(),
            bytes: 16 << 20,
        }),
        clock: Clock::Manual(ManualClock::new(NOW_MS)),
        ..Config::default()
    };
    let store = Store::new(&config).expect("the folder is writable");
    let put = |numbers: std::ops::Range<u32>| {
        for number in numbers {
            let key = Key::parse(&format!("http://a/{number}")).expect("the text is valid");
            store.put(&key, &object(), store.purge_count());
        }
        store.flush();
        store.disk_stats().expect("there is a disk")
    };
    let before = put(0..60);
    assert!(before.urls > 0);
    // What is open stays open.
    let limit = getrlimit(Resource::Nofile);
    let few = Rlimit {
        current: Some(3),
        ..limit
    };
    setrlimit(Resource::Nofile, few).expect("a limit can be lowered");
    let during = put(60..200);
    setrlimit(Resource::Nofile, limit).expect("it is not above the maximum");
    assert!(!during.is_off);
    assert!(during.dropped > before.dropped);
    assert!(during.urls >= before.urls);
    let after = put(200..300);
    assert!(!after.is_off);
    assert!(after.written > during.written);
    drop(store);
    std::fs::remove_dir_all(&folder).expect("the folder is there");
}
