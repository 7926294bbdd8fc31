//! A key may have its own deadline, elements with deadlines, or both. Policies and facts about keys
//! with a deadline must consider only the key's own.

use store::{DbFacts, Key, Keyspace, Kind, NewDeadline, Options, Tick};

const START: u64 = 1_700_000_000_000;
const NOW: Tick = Tick(START);

fn keyspace(policy: &str) -> Keyspace {
    let options = Options {
        shards: 1,
        policy: policy.into(),
        expiry: "wheel".into(),
        maxmemory: 0,
        hash_key: [7, 8],
        seed: 9,
    };
    Keyspace::new(&options, NOW).expect("valid options")
}

fn after(ttl: u64) -> Option<Tick> {
    Some(Tick(START + ttl))
}

/// Creates a hash of `count` fields.
fn fill(space: &Keyspace, key: &Key<'_>, count: u32) {
    let edited = space.lock_all(NOW).edit_hash(key, true, |hash, scene| {
        (0..count).for_each(|field| {
            hash.set(&field.to_le_bytes(), b"value", scene);
        });
        Some(())
    });
    edited.expect("it is a hash").expect("it is stored");
}

fn set_field_deadline(space: &Keyspace, key: &Key<'_>, field: u32, deadline: Option<Tick>) {
    let edited = space.lock_all(NOW).edit_hash(key, false, |hash, scene| {
        hash.set_deadline(&field.to_le_bytes(), deadline, scene)
            .then_some(())
    });
    edited.expect("it is a hash").expect("it has the field");
}

/// Returns whether a policy owns the key.
fn is_owned(space: &Keyspace, key: &Key<'_>) -> bool {
    space.check();
    let facts = space.lock_all(NOW).facts(key);
    facts.expect("it is present").frequency.is_some()
}

#[test]
fn a_volatile_policy_owns_a_key_only_because_of_its_own_deadline() {
    let space = keyspace("volatile-s3fifo");
    for (name, count) in [(&b"inline"[..], 3), (b"packed", 400), (b"large", 3000)] {
        let key = space.key(0, name);
        fill(&space, &key, count);
        assert!(!is_owned(&space, &key));
        set_field_deadline(&space, &key, 0, after(1000));
        assert!(!is_owned(&space, &key), "only a field has a deadline");
        space.lock_all(NOW).set_deadline(&key, after(5000));
        assert!(is_owned(&space, &key), "and now the key");
        set_field_deadline(&space, &key, 1, after(9000));
        space.lock_all(NOW).set_deadline(&key, None);
        assert!(!is_owned(&space, &key), "only fields again");
        set_field_deadline(&space, &key, 0, None);
        set_field_deadline(&space, &key, 1, None);
        assert!(!is_owned(&space, &key));
        space.lock_all(NOW).set_deadline(&key, after(5000));
        set_field_deadline(&space, &key, 0, after(1000));
        set_field_deadline(&space, &key, 0, None);
        assert!(is_owned(&space, &key), "only the key");
    }
}

#[test]
fn an_expired_field_does_not_change_the_owner_of_its_key() {
    let space = keyspace("volatile-s3fifo");
    for (name, count) in [(&b"inline"[..], 3), (b"large", 3000)] {
        let (key, keeper) = (space.key(0, name), space.key(0, b"keeper"));
        fill(&space, &key, count);
        fill(&space, &keeper, count);
        space.lock_all(NOW).set_deadline(&key, after(50_000));
        set_field_deadline(&space, &key, 0, after(10));
        set_field_deadline(&space, &keeper, 0, after(10));
        let later = Tick(START + 100);
        space.expire(0, later, 10_000, &mut vec![], &mut |_, _| ());
        assert!(is_owned(&space, &key));
        assert!(!is_owned(&space, &keeper));
        assert_eq!(space.db_facts(0, later).with_element_deadlines, 0);
        space.lock_all(NOW).flush(0);
    }
}

#[test]
fn a_volatile_policy_does_not_evict_keys_without_a_deadline_of_their_own() {
    // Regression: a hash was evicted because one of its fields had a deadline.
    for policy in ["volatile-lru", "volatile-ttl", "volatile-s3fifo"] {
        let space = keyspace(policy);
        let name = |number: u32| format!("hash:{number}").into_bytes();
        for number in 0..100 {
            let bytes = name(number);
            let key = space.key(0, &bytes);
            fill(&space, &key, 20);
            set_field_deadline(&space, &key, 0, after(60_000));
        }
        for number in 0..100u32 {
            let at = NewDeadline::At(Tick(START + 90_000));
            let bytes = number.to_le_bytes();
            let key = space.key(0, &bytes);
            space.lock_all(NOW).set(&key, &[1; 200], at);
        }
        space.set_maxmemory(1);
        while space.background_step(0, NOW, 100, &mut vec![]) {}
        space.check();
        let facts = space.db_facts(0, NOW);
        assert_eq!((facts.keys, facts.with_deadline), (100, 0), "{policy}");
        for number in 0..100 {
            let bytes = name(number);
            assert!(space.lock_all(NOW).kind(&space.key(0, &bytes)).is_some());
        }
    }
}

#[test]
fn a_new_volatile_policy_takes_over_keys_with_a_deadline_of_their_own() {
    let space = keyspace("allkeys-s3fifo");
    let (hash, both) = (space.key(0, b"hash"), space.key(0, b"both"));
    for key in [&hash, &both] {
        fill(&space, key, 3);
        set_field_deadline(&space, key, 0, after(1000));
    }
    space.lock_all(NOW).set_deadline(&both, after(5000));
    assert!(is_owned(&space, &hash));
    space.set_policy("volatile-s3fifo").expect("it is served");
    while space.background_step(0, NOW, 100, &mut vec![]) {}
    assert!(!is_owned(&space, &hash));
    assert!(is_owned(&space, &both));
}

#[test]
fn facts_count_keys_with_deadlines_and_keys_with_element_deadlines() {
    let space = keyspace("noeviction");
    let names = [&b"plain"[..], b"elements", b"both", b"own"];
    for name in names {
        fill(&space, &space.key(0, name), 3);
    }
    for name in [&b"elements"[..], b"both"] {
        set_field_deadline(&space, &space.key(0, name), 0, after(1000));
    }
    for name in [&b"both"[..], b"own"] {
        let key = space.key(0, name);
        space.lock_all(NOW).set_deadline(&key, after(50_000));
    }
    let wanted = DbFacts {
        keys: 4,
        with_deadline: 2,
        with_element_deadlines: 2,
        mean_ttl_ms: 50_000,
    };
    assert_eq!(space.db_facts(0, NOW), wanted);
    assert_eq!(space.expiry_facts(NOW).keys_with_ttl, 2);
    let mut histogram = [0; 40];
    histogram[6] = 2;
    assert_eq!(space.ttl_histogram(NOW), histogram);
    for name in names {
        space.lock_all(NOW).delete(&space.key(0, name));
    }
    assert_eq!(space.db_facts(0, NOW), DbFacts::default());
    space.check();
}

#[test]
fn a_key_without_live_elements_does_not_exist_while_nothing_is_removed() {
    // Regression: on replicas and while writes are paused, EXISTS, TYPE and TTL found it.
    for (name, count) in [(&b"inline"[..], 3), (b"packed", 400), (b"large", 3000)] {
        let space = keyspace("noeviction");
        let key = space.key(0, name);
        fill(&space, &key, count);
        (0..count).for_each(|field| set_field_deadline(&space, &key, field, after(10)));
        space.set_frozen(true);
        assert!(space.lock_all(Tick(START + 10)).kind(&key).is_some());
        let mut view = space.lock_all(Tick(START + 11));
        assert_eq!((view.kind(&key), view.deadline(&key)), (None, None));
        assert!(!view.touch(&key));
        drop(view);
        let mut view = space.lock_all(NOW);
        assert!(view.kind(&key).is_some(), "nothing is removed");
        drop(view);
        // A replica executes commands of its primary on what it hides.
        let mut view = space.lock_all(Tick(START + 11));
        let edited = view.edit_hash(&key, true, |hash, scene| {
            hash.set(b"new", b"value", scene);
            Some(())
        });
        assert!(edited.is_ok_and(|edited| edited.is_some()));
        assert_eq!((view.kind(&key), view.len(0)), (Some(Kind::Hash), 1));
        view.set(&key, b"string", NewDeadline::Clear);
        assert_eq!((view.kind(&key), view.len(0)), (Some(Kind::String), 1));
        drop(view);
        space.set_frozen(false);
        space.check();
    }
}

#[test]
fn a_write_to_a_hidden_key_adds_no_second_entry() {
    // Regression: a replica whose clock was more than a day ahead stored such keys twice.
    let space = keyspace("noeviction");
    let (string, hash) = (space.key(0, b"string"), space.key(0, b"hash"));
    fill(&space, &hash, 3);
    let mut view = space.lock_all(NOW);
    view.set(&string, b"old", NewDeadline::At(Tick(START + 10)));
    view.set_deadline(&hash, after(10));
    drop(view);
    space.set_frozen(true);
    let mut view = space.lock_all(Tick(START + 11));
    assert_eq!((view.kind(&string), view.kind(&hash)), (None, None));
    let appended = view.edit(&string, |bytes| bytes.extend_from_slice(b" new"));
    assert!(appended.is_ok());
    let edited = view.edit_hash(&hash, true, |hash, scene| {
        hash.set(b"new", b"value", scene);
        Some(())
    });
    assert!(edited.is_ok_and(|edited| edited.is_some()));
    assert_eq!(view.len(0), 2);
    drop(view);
    let mut view = space.lock_all(NOW);
    assert_eq!(view.get(&string), Ok(Some(&b"old new"[..])));
    assert_eq!(
        view.read_hash(&hash, |hash, scene| hash.len(scene)),
        Ok(Some(4))
    );
    view.set(&string, b"replaced", NewDeadline::Clear);
    assert_eq!(view.len(0), 2);
    drop(view);
    space.set_frozen(false);
    space.check();
}
