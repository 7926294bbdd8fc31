//! Runs the fuzz target `trace` on seeded mutations of valid traces of every format.

#[expect(
    clippy::disallowed_methods,
    reason = "a campaign runs for a time that its environment sets"
)]
#[path = "../../../fuzz/bodies/mutate.rs"]
mod mutate;
#[path = "../../../fuzz/bodies/trace.rs"]
mod readers;

use trace::{NextAccess, Op, Request, WriteOptions, Writer};

fn requests() -> Vec<Request> {
    let ops = Op::ALL.into_iter().zip(0..);
    let requests = ops.map(|(op, number)| Request {
        time_ms: number * 1_500,
        key: number % 3,
        ttl_ms: number * 60_000,
        size: 300,
        key_size: 20,
        value_size: 280,
        client: number as u32,
        op,
        next_access: NextAccess::At(number + 3),
    });
    requests.collect()
}

fn written(name: &str) -> Vec<u8> {
    let options = WriteOptions::default();
    let mut writer = Writer::new(name, Vec::new(), &options).expect("the format is written");
    for request in requests() {
        writer.write(&request).expect("every number fits");
    }
    writer.finish().expect("memory is there")
}

fn vscsi() -> Vec<u8> {
    let record = |number: u8| {
        let mut record = [number; 32];
        record[15] = 1;
        record
    };
    [record(1), record(2), record(3)].concat()
}

/// Valid inputs, one for each name; the first byte selects the name.
fn samples() -> Vec<Vec<u8>> {
    let sample = |(choice, name): (usize, &&str)| {
        let bytes = match *name {
            "t.lis" => b"5 3 0 0\n17 1 0 1\n".to_vec(),
            "t.trc" => b"*\n5\n6\n*\n5\n".to_vec(),
            "t.tsv" => b"time\tkey\tsize\n1\t2\t3\n4\t2\t3\n".to_vec(),
            "t.cachebench.csv" => {
                b"key,op,size,op_count,key_size\n7,GET,300,3,20\n8,SET,1,1,2\n".to_vec()
            }
            "t.jsonl" => b"{\"time\":1,\"key\":[5,\"a\"],\"size\":3}\n{\"key\":5}\n".to_vec(),
            "t.msr.csv" => b"128166372003061629,hm,1,Read,383496192,32768,413\n".to_vec(),
            "t.tencent.csv" => b"1538323200,42,8,1,1063\n1538323201,42,8,0,1063\n".to_vec(),
            "t.alibaba.csv" => b"419,W,5120,4096,1577808000046800\n".to_vec(),
            "t.mqsim" => b"2000000 0 7 2 1\n3000000 0 7 2 0\n".to_vec(),
            "t.parquet" if !cfg!(feature = "parquet") => Vec::new(),
            "t.vscsi" => vscsi(),
            "t.vscsi.zst" => zstd::encode_all(&vscsi()[..], 1).expect("memory is there"),
            name => written(name),
        };
        [vec![choice as u8], bytes].concat()
    };
    readers::NAMES.iter().enumerate().map(sample).collect()
}

#[test]
fn every_reader_ends_with_requests_or_an_error() {
    let samples = samples();
    let words: &[&[u8]] = &[
        b"\n",
        b"\r\n",
        b",",
        b"\"",
        b"*",
        b" ",
        b"-1",
        b"0",
        b"18446744073709551615",
        b"4294967296",
        b"99999999999999999999",
        b"get",
        b".",
        &[0; 8],
        &[0xFF; 8],
        &[0, 0, 0, 0, 0, 0, 0, 0x80],
    ];
    for seed in 0..samples.len() as u64 {
        let sample = &samples[seed as usize][..];
        mutate::run(
            0x5EED_0010 + (seed << 32),
            1_500,
            &[sample],
            words,
            readers::run,
        );
    }
}

/// Without this, a checksum would refuse nearly every mutation before a column is read.
#[test]
fn damaged_columns_with_correct_checksums_end_with_requests_or_an_error() {
    let file = written("t.prepared");
    mutate::run(0x5EED_0012, 20_000, &[&file[..]], &[&[0xFF; 4]], |bytes| {
        let choice = readers::NAMES.iter().position(|name| *name == "t.prepared");
        let choice = choice.expect("it is in the list") as u8;
        let mut bytes = bytes.to_vec();
        seal(&mut bytes);
        readers::run(&[&[choice], &bytes[..]].concat());
    });
}

/// Sets the checksums of a prepared trace, as far as its table is plausible.
fn seal(bytes: &mut [u8]) {
    if bytes.len() < 48 {
        return;
    }
    let count = usize::from(bytes[40]).min((bytes.len() - 48) / 16);
    let mut at = 48 + 16 * count;
    for row in (48..at).step_by(16) {
        let items = u32::from_le_bytes([
            bytes[row + 8],
            bytes[row + 9],
            bytes[row + 10],
            bytes[row + 11],
        ]);
        let item_bytes = usize::from(bytes[row + 2]) + if bytes[row + 3] == 1 { 4 } else { 0 };
        at = at.next_multiple_of(64).min(bytes.len());
        let end = (at + items as usize * item_bytes).min(bytes.len());
        let checksum = crc32fast::hash(&bytes[at..end]);
        bytes[row + 4..row + 8].copy_from_slice(&checksum.to_le_bytes());
        at = end;
    }
    let mut checked = crc32fast::Hasher::new();
    checked.update(&bytes[..44]);
    checked.update(&bytes[48..48 + 16 * count]);
    bytes[44..48].copy_from_slice(&checked.finalize().to_le_bytes());
}

#[test]
fn random_bytes_do_not_break_any_reader() {
    let mut random = mutate::Random::new(0x5EED_0011);
    for _ in 0..20_000 {
        let length = random.below(300);
        let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        readers::run(&bytes);
    }
}
