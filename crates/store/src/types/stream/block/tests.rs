use super::*;

const FIELDS: [(&[u8], &[u8]); 1] = [(b"field", b"abc")];

#[test]
fn an_entry_of_one_short_value_takes_five_bytes() {
    let mut block = Block::new(StreamId::new(1000, 0), None, FIELDS.into_iter());
    let before = block.used_bytes();
    block.push(StreamId::new(1000, 1), None, FIELDS.into_iter());
    block.push(StreamId::new(1030, 0), None, FIELDS.into_iter());
    assert_eq!(block.used_bytes() - before, 10);
    block.check();
}

#[test]
fn ids_at_the_extremes_are_kept() {
    let ids = [
        (0, 1),
        (0, u64::MAX),
        (1, 0),
        (u64::MAX, 0),
        (u64::MAX, u64::MAX),
    ];
    let ids = ids.map(|(ms, seq)| StreamId::new(ms, seq));
    let mut block = Block::new(ids[0], None, FIELDS.into_iter());
    for id in &ids[1..] {
        block.push(*id, Some(Tick::MAX), FIELDS.into_iter());
    }
    block.check();
    let found: Vec<_> = block.entries().map(|entry| entry.id).collect();
    assert_eq!(found, ids);
    for removed in 0..ids.len() {
        let mut rest = block.clone();
        assert!(rest.remove(ids[removed]));
        assert!(!rest.remove(ids[removed]));
        rest.check();
        let left = ids.iter().filter(|id| **id != ids[removed]);
        assert!(rest.entries().map(|entry| entry.id).eq(left.copied()));
    }
}
