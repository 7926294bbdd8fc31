use super::*;

fn args<'a>(words: &'a [&'a str]) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone {
    words.iter().map(|word| word.as_bytes())
}

fn all(feed: &Feed, id: ReaderId) -> String {
    let mut bytes = Vec::new();
    while let Taken::Bytes(_) = feed.read(id, &mut bytes, Duration::ZERO) {}
    String::from_utf8_lossy(&bytes).replace("\r\n", " ")
}

#[test]
fn a_reader_gets_commands_in_order_with_their_databases() {
    let feed = Feed::default();
    let id = feed.add_reader(0).expect("the beginning");
    feed.append(0, args(&["SET", "a", "1"]));
    feed.append(0, args(&["DEL", "a"]));
    feed.append(11, args(&["DEL", "b"]));
    let select = "*2 $6 SELECT $1 0 ";
    let set = "*3 $3 SET $1 a $1 1 ";
    let rest = "*2 $3 DEL $1 a *2 $6 SELECT $2 11 *2 $3 DEL $1 b ";
    assert_eq!(all(&feed, id), format!("{select}{set}{rest}"));
    let at = feed.cut();
    assert_eq!(at, feed.end());
    feed.append(11, args(&["DEL", "c"]));
    assert_eq!(all(&feed, id), "*2 $6 SELECT $2 11 *2 $3 DEL $1 c ");
}

#[test]
fn several_commands_of_a_batch_are_a_transaction() {
    let feed = Feed::default();
    let id = feed.add_reader(0).expect("the beginning");
    let mut batch = Batch::default();
    batch.add(1, &[b"DEL", b"a"]);
    feed.append_batch(&mut batch);
    assert!(batch.is_empty());
    assert_eq!(all(&feed, id), "*2 $6 SELECT $1 1 *2 $3 DEL $1 a ");
    batch.add(1, &[b"DEL", b"a"]);
    batch.add(2, &[b"DEL", b"b"]);
    feed.append_batch(&mut batch);
    let text = "*1 $5 MULTI *2 $3 DEL $1 a *2 $6 SELECT $1 2 *2 $3 DEL $1 b *1 $4 EXEC ";
    assert_eq!(all(&feed, id), text);
}

#[test]
fn bytes_are_freed_up_to_the_slowest_reader_and_the_backlog() {
    let feed = Feed::default();
    let value = "v".repeat(1000);
    feed.set_backlog(100_000);
    let id = feed.add_reader(0).expect("the beginning");
    for _ in 0..1000 {
        feed.append(0, args(&["SET", "a", &value]));
    }
    assert_eq!(feed.kept().0, 0);
    assert_eq!(feed.lag(id), feed.end());
    all(&feed, id);
    // Blocks for reuse are freed when nothing comes for a while.
    let taken = feed.read(id, &mut Vec::new(), Duration::from_nanos(1));
    assert_eq!(taken, Taken::Nothing);
    let (start, bytes) = feed.kept();
    assert!(feed.end() - start >= 100_000, "{start}");
    assert!(bytes < 400_000, "{bytes}");
    assert!(feed.add_reader(start - 1).is_none());
    assert!(feed.add_reader(feed.end() + 1).is_none());
    assert!(feed.add_reader(start).is_some());
}

#[test]
fn a_file_that_fails_for_long_leaves_a_gap_instead_of_blocking() {
    let feed = Feed::default();
    feed.add_file();
    assert!(!feed.set_file_failing(true));
    let value = "v".repeat(1 << 20);
    feed.append_executed(b"*1\r\n$4\r\nPING\r\n", Tick(1));
    for _ in 0..70 {
        feed.append(0, args(&["SET", "a", &value]));
    }
    assert!(feed.set_file_failing(false));
    assert!(feed.lag(FILE) < FILE_LAG_MAX);
    assert_eq!(
        feed.take_instant(0),
        (None, None),
        "its command was dropped"
    );
    feed.add_file();
    assert!(!feed.set_file_failing(false));
}

#[test]
fn blocks_are_used_again_and_freed_when_there_is_nothing_to_read() {
    let feed = Feed::default();
    let id = feed.add_reader(0).expect("the beginning");
    let value = "v".repeat(1000);
    let mut bytes = Vec::new();
    let mut bytes_max = 0;
    for _ in 0..6 {
        // 5 MB that the reader takes at once.
        for _ in 0..5000 {
            feed.append(0, args(&["SET", "a", &value]));
        }
        bytes.clear();
        while feed.lag(id) > 0 {
            feed.read(id, &mut bytes, Duration::ZERO);
        }
        bytes_max = bytes_max.max(feed.kept().1);
    }
    assert!(bytes_max > 2 << 20, "{bytes_max}");
    assert!(bytes_max < 3 << 20, "{bytes_max}");
    assert_eq!(feed.read(id, &mut bytes, Duration::ZERO), Taken::Nothing);
    assert_eq!(feed.kept().1, bytes_max, "they are still needed");
    let short = Duration::from_nanos(1);
    assert_eq!(feed.read(id, &mut bytes, short), Taken::Nothing);
    assert!(feed.kept().1 < 200_000);
}

#[test]
fn the_file_gets_each_instant_at_the_position_of_its_first_command() {
    let feed = Feed::default();
    feed.append_executed(b"0123", Tick(1));
    assert_eq!(feed.take_instant(0), (None, None), "there is no file");
    feed.add_file();
    for at in [1, 1, 2, 2, 3] {
        feed.append_executed(b"0123", Tick(at));
    }
    assert_eq!(feed.take_instant(4), (Some(Tick(1)), Some(12)));
    assert_eq!(feed.take_instant(4), (None, Some(12)));
    // Without the bytes from position 12 on.
    assert_eq!(feed.take_instant(16), (None, Some(20)));
    assert_eq!(feed.take_instant(20), (Some(Tick(3)), None));
    // A new file begins.
    assert_eq!(feed.cut(), 24);
    feed.append_executed(b"0123", Tick(3));
    assert_eq!(feed.take_instant(24), (Some(Tick(3)), None));
    feed.append_executed(b"0123", Tick(4));
    feed.restart_at(28);
    assert_eq!(feed.take_instant(28), (None, None));
}
