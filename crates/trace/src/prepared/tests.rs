use super::*;
use crate::{Error, Format, Options, WriteOptions, Writer, Zipf, open, read_prepared};
use proptest::prelude::*;

/// A trace that uses every column, with gaps and TTLs of any length.
fn requests(seed: u64) -> Vec<Request> {
    let mut random = Random::new(seed);
    let mut time_ms = 5_000;
    let keys = Zipf::new(300, 0.8, seed).take(3_000);
    let request = |key: u64| {
        time_ms += [0, 0, 7, 1 << 20, 1 << 33][random.below(5) as usize];
        let key_size = 10 + (key % 7) as u32 + u32::from(random.below(50) == 0);
        let value_size = random.below(2) as u32 * 900 + (key % 100) as u32;
        Request {
            time_ms,
            key: key << 40 | 3,
            ttl_ms: [0, 60_000, 1 << 40][random.below(3) as usize] / 1000 * 1000,
            size: key_size + value_size,
            key_size,
            value_size,
            client: random.below(4) as u32 * 70_000,
            op: Op::ALL[random.below(11) as usize],
            next_access: NextAccess::Unknown,
        }
    };
    keys.map(request).collect()
}

fn prepared(requests: &[Request]) -> Prepared {
    let mut preparer = Preparer::new(true);
    for request in requests {
        preparer.push(request).expect("there are few requests");
    }
    preparer.finish()
}

fn bytes_of(prepared: &Prepared) -> Vec<u8> {
    let mut bytes = Vec::new();
    prepared.write(&mut bytes).expect("memory is there");
    bytes
}

fn error_of(bytes: &[u8]) -> String {
    let read = read_prepared("t.prepared", bytes, None);
    read.expect_err("the file is refused").to_string()
}

/// Corrects the checksum of header and table after a change.
fn seal(bytes: &mut [u8]) {
    let count = usize::from(bytes[40]);
    let mut checked = crc32fast::Hasher::new();
    checked.update(&bytes[..44]);
    checked.update(&bytes[HEADER_BYTES..HEADER_BYTES + count * SECTION_BYTES]);
    bytes[44..48].copy_from_slice(&checked.finalize().to_le_bytes());
}

/// Corrects the checksum of the first section, which begins at `start`.
fn seal_first(bytes: &mut [u8], start: usize, length: usize) {
    let checksum = crc32fast::hash(&bytes[start..start + length]);
    bytes[HEADER_BYTES + 4..HEADER_BYTES + 8].copy_from_slice(&checksum.to_le_bytes());
    seal(bytes);
}

#[test]
fn every_field_of_a_request_is_kept() {
    let wanted = requests(1);
    let prepared = prepared(&wanted);
    let bytes = bytes_of(&prepared);
    let again = read_prepared("t.prepared", &bytes[..], None).expect("it is whole");
    assert_eq!(again, prepared);
    let found: Vec<Request> = again.requests().collect();
    assert!(found == wanted);
}

#[test]
fn a_prepared_trace_is_a_format_in_every_compression() {
    let wanted = requests(2);
    for name in [
        "t.prepared",
        "t.prepared.zst",
        "t.prepared.gz",
        "t.prepared.xz",
    ] {
        let options = WriteOptions::default();
        let mut writer = Writer::new(name, Vec::new(), &options).expect("it is written");
        for request in &wanted {
            writer.write(request).expect("it fits");
        }
        let bytes = writer.finish().expect("memory is there");
        let mut reader = open(name, &bytes[..], &Options::default()).expect("it is whole");
        assert_eq!(reader.next().and_then(Result::ok), Some(wanted[0]));
        assert!(reader.take_prepared().is_none(), "a request was taken");
        let rest: Result<Vec<Request>, Error> = reader.collect();
        assert!(rest.expect("it is whole") == wanted[1..]);
        let mut reader = open(name, &bytes[..], &Options::default()).expect("it is whole");
        assert_eq!(reader.take_prepared(), Some(prepared(&wanted)));
        assert!(reader.next().is_none());
    }
    assert!("prepared".parse::<Format>().is_ok());
}

#[test]
fn what_replays_do_not_distinguish_is_rounded() {
    let rounded = |time_ms, ttl_ms, size| Request {
        ttl_ms,
        ..Request::new(time_ms, 5, size)
    };
    let given = [rounded(10, 0, 0), rounded(4, (1 << 31) + 1, 2)];
    let wanted = [rounded(10, 0, 1), rounded(10, 2_147_484_000, 2)];
    let found: Vec<Request> = prepared(&given).requests().collect();
    assert_eq!(found, wanted);
}

#[test]
fn a_part_of_a_trace_is_marked() {
    let next = |number, next_access| Request {
        next_access,
        ..Request::new(number, 1, 1)
    };
    let own = [next(0, NextAccess::At(1)), next(1, NextAccess::Never)];
    let foreign = [next(0, NextAccess::At(9)), next(1, NextAccess::Never)];
    assert!(!prepared(&own).is_part);
    let bytes = bytes_of(&prepared(&foreign));
    let read = read_prepared("t.prepared", &bytes[..], None).expect("it is whole");
    assert!(read.is_part);
}

#[test]
fn a_truncated_file_is_refused_wherever_it_ends() {
    let bytes = bytes_of(&prepared(&requests(3)[..200]));
    for length in 0..bytes.len() {
        let error = error_of(&bytes[..length]);
        assert!(error.contains("t.prepared: byte "), "{length}: {error}");
        assert!(error.contains("the end after"), "{length}: {error}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(error_of(&longer).contains("expected the end of the file"));
}

#[test]
fn a_changed_byte_is_found_by_its_checksum() {
    let bytes = bytes_of(&prepared(&requests(4)[..100]));
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        error_of(&damaged);
    }
}

#[test]
fn other_versions_and_other_files_are_refused_by_name() {
    let mut bytes = bytes_of(&prepared(&requests(5)[..10]));
    bytes[8] = 2;
    seal(&mut bytes);
    let error = error_of(&bytes);
    assert!(
        error.contains("expected version 1: prepare the trace again"),
        "{error}"
    );
    assert!(error.ends_with("found version 2"), "{error}");
    let error = error_of(&[b'x'; 100]);
    assert!(
        error.contains("a prepared trace, which begins with mayflytr"),
        "{error}"
    );
}

#[test]
fn ids_beyond_the_table_and_wrong_counts_are_refused() {
    let keys: Vec<Request> = [1, 2, 1, 2].map(|key| Request::new(0, key, 1)).to_vec();
    let bytes = bytes_of(&prepared(&keys));
    let start = 128;
    assert_eq!(bytes[start..start + 4], [0, 1, 0, 1]);
    for (id, wanted) in [(2, "found 2"), (200, "found 200")] {
        let mut wrong = bytes.clone();
        wrong[start + 3] = id;
        seal_first(&mut wrong, start, 4);
        let error = error_of(&wrong);
        assert!(
            error.contains("the id of an earlier object or the next new one"),
            "{error}"
        );
        assert!(
            error.contains("byte 131") && error.ends_with(wanted),
            "{error}"
        );
    }
    let mut fewer = bytes.clone();
    fewer[start + 1] = 0;
    fewer[start + 3] = 0;
    seal_first(&mut fewer, start, 4);
    assert!(error_of(&fewer).contains("ids of 2 objects"));
    let mut many = bytes.clone();
    many[16..24].fill(0xff);
    seal(&mut many);
    assert!(error_of(&many).contains("fewer than 2^32 − 1 requests"));
    let mut unlike = bytes;
    unlike[16] = 5;
    seal(&mut unlike);
    assert!(error_of(&unlike).contains("5 items of the ids of requests"));
}

#[test]
fn a_size_that_a_header_promises_reserves_no_memory() {
    let mut bytes = bytes_of(&prepared(&requests(6)[..10]));
    let items = u64::from(u32::MAX - 1).to_le_bytes();
    bytes[16..24].copy_from_slice(&items);
    bytes[HEADER_BYTES + 8..HEADER_BYTES + 16].copy_from_slice(&items);
    seal(&mut bytes);
    assert!(error_of(&bytes).contains("the file is truncated"));
    let error = read_prepared("t.prepared", &bytes[..], Some(1 << 30));
    let error = error.expect_err("it is too large").to_string();
    assert!(error.contains("but 1024 MiB are allowed"), "{error}");
}

#[test]
fn a_writer_stops_at_its_memory_limit() {
    let options = WriteOptions {
        memory_limit: Some(1 << 16),
        ..WriteOptions::default()
    };
    let mut writer = Writer::new("t.prepared", Vec::new(), &options).expect("it is written");
    let mut keys = (0..1_000_000).map(|key| Request::new(0, key, 1));
    let error = keys.find_map(|request| writer.write(&request).err());
    let error = error.expect("a million keys take more").to_string();
    assert!(
        error.contains("MiB of memory, but 0 MiB are allowed"),
        "{error}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Sparse and dense columns of every width.
    #[test]
    fn any_numbers_are_read_back(
        rows in proptest::collection::vec((0..50u64, 0..4u32, any::<u64>(), any::<u32>()), 0..400),
        width in 0..64u32,
    ) {
        let request = |(key, rare, number, size): (u64, u32, u64, u32)| Request {
            ttl_ms: if rare == 0 { number >> width } else { 0 },
            client: if rare < 2 { size >> (width / 2) } else { 0 },
            ..Request::new(number >> 20, key, size >> (width / 2))
        };
        let requests: Vec<Request> = rows.into_iter().map(request).collect();
        let prepared = prepared(&requests);
        let bytes = bytes_of(&prepared);
        let again = read_prepared("t.prepared", &bytes[..], None);
        prop_assert_eq!(again.ok(), Some(prepared));
    }
}
