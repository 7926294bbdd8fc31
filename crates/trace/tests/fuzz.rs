//! Runs the fuzz target `trace` on seeded mutations of valid traces of every format.

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

#[test]
fn random_bytes_do_not_break_any_reader() {
    let mut random = mutate::Random::new(0x5EED_0011);
    for _ in 0..20_000 {
        let length = random.below(300);
        let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        readers::run(&bytes);
    }
}
