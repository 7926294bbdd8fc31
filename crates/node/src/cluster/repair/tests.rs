use super::*;

fn report(number: usize) -> Report {
    let key = Key::new(false, "a", &format!("/{number}"));
    Report {
        key: key.expect("the input is valid"),
        versions: vec![1],
        tries: 0,
    }
}

/// Regression: a report was made only once, and was lost if the repair failed.
#[tokio::test(start_paused = true)]
async fn a_report_without_success_is_made_again_a_number_of_times() {
    let repairs = Repairs::new(1).expect("the settings are constants");
    let start = Instant::now();
    let mut report = report(0);
    let mut count = 0;
    while repairs.retry(report.clone()) {
        report = repairs.next_retry().await;
        count += 1;
        assert_eq!(report.tries, count);
    }
    assert_eq!(count, RETRIES_MAX);
    assert!(start.elapsed() > Duration::from_secs(34 * 60 * 60));
}

#[tokio::test(start_paused = true)]
async fn reports_that_wait_are_bounded_and_made_in_their_order() {
    let repairs = Repairs::new(1).expect("the settings are constants");
    for number in 0..WAITING_MAX {
        assert!(repairs.retry(report(number)));
    }
    assert!(!repairs.retry(report(0)));
    for number in 0..WAITING_MAX {
        assert_eq!(repairs.next_retry().await.key, report(number).key);
    }
}

/// Regression: a chunk was not repaired if another chunk of the same object had just been
/// repaired.
#[tokio::test]
async fn chunks_and_nodes_have_names_of_their_own() {
    let repairs = Repairs::new(1).expect("the settings are constants");
    for chunk in 0..4 {
        assert!(!repairs.is_recent(chunk_name(7, chunk)));
        assert!(repairs.is_recent(chunk_name(7, chunk)));
        assert!(!repairs.is_recent(7 ^ mix(chunk as u64 + 1)));
    }
}

#[tokio::test]
async fn a_node_that_has_started_again_is_noticed() {
    let repairs = Repairs::new(1).expect("the settings are constants");
    let returned = || std::mem::take(&mut *locked(&repairs.returned));
    let (one, other) = (ServerId(1), ServerId(2));
    repairs.saw(one, &"a".into());
    repairs.saw(other, &"b".into());
    repairs.saw(one, &"a".into());
    assert_eq!(returned(), BTreeSet::new());
    repairs.saw(one, &"c".into());
    assert_eq!(returned(), BTreeSet::from([one]));
    repairs.returned(other);
    repairs.returned(other);
    assert_eq!(returned(), BTreeSet::from([other]));
    let without = Repairs::new(0).expect("the settings are constants");
    without.returned(one);
    assert_eq!(*locked(&without.returned), BTreeSet::new());
    let instances = [&repairs, &without].map(|repairs| repairs.instance.clone());
    assert_ne!(instances[0], instances[1]);
}
