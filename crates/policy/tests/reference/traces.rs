//! Readers for the traces' formats, sufficient for these files only.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

/// Name in the reference, file, and whether it is small enough for every run of the tests.
pub const ALL: &[(&str, &str, bool)] = &[
    ("lirs_sprite", "lirs_sprite.trc.zst", true),
    ("lirs_multi3", "lirs_multi3.trc.zst", true),
    ("lirs_2pools", "lirs_2pools.trc.zst", true),
    ("web07", "web07.txt.zst", true),
    ("web_adaptsize", "web_adaptsize.csv.zst", true),
    ("cloudphysics", "cloudphysics.oracleGeneral.bin.zst", true),
    ("arc_oltp", "arc_oltp.lis.zst", false),
    ("ecommerce_recs", "ecommerce_recs.txt.zst", false),
    ("orm_busy", "orm_busy.txt.zst", false),
    ("arc_p3", "arc_p3.lis.zst", false),
    ("arc_p6", "arc_p6.lis.zst", false),
    ("twitter_cluster52", "twitter_cluster52.csv.zst", false),
];

/// A trace of dense ids.
pub struct Trace {
    /// Object of each request; ids count up in order of first appearance.
    pub requests: Vec<u32>,
    /// Size given by each request.
    pub sizes: Vec<u32>,
    /// For each request, the number of the next one for the same object; `u64::MAX` if there is
    /// none.
    pub next: Vec<u64>,
    /// Number of objects.
    pub objects: usize,
}

/// Reads a trace; the file's name determines the format.
pub fn read(path: &Path) -> Trace {
    let file = std::fs::File::open(path).expect("the trace can be opened");
    let mut decoder = zstd::stream::Decoder::new(file).expect("the trace is zstd");
    decoder.window_log_max(27).expect("zstd knows this window");
    let mut bytes = Vec::new();
    decoder.read_to_end(&mut bytes).expect("the trace is whole");
    let name = path.to_string_lossy();
    let requests = match () {
        () if name.contains(".oracleGeneral.") => oracle_general(&bytes),
        () if name.contains(".lis.") => lines(&bytes, |line, requests| {
            let mut fields = line.split(' ').map(number);
            let start = fields.next().expect("a line has a start");
            let count = fields.next().expect("a line has a count");
            requests.extend((start..start + count).map(|id| (id, 1)));
        }),
        () if name.contains(".csv.") => lines(&bytes, |line, requests| {
            let mut fields = line.split(',').skip(1).map(str::parse);
            if let (Some(Ok(id)), Some(Ok(size))) = (fields.next(), fields.next()) {
                requests.push((id, u32::try_from(size).expect("a size fits 32 bits")));
            }
        }),
        () => lines(&bytes, |line, requests| {
            if line != "*" {
                requests.push((number(line), 1));
            }
        }),
    };
    dense(&requests)
}

fn number(text: &str) -> u64 {
    text.trim().parse().expect("an id is a number")
}

/// An object's id and size.
type Request = (u64, u32);

fn lines(bytes: &[u8], mut each: impl FnMut(&str, &mut Vec<Request>)) -> Vec<Request> {
    let text = std::str::from_utf8(bytes).expect("the trace is text");
    let mut requests = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        each(line, &mut requests);
    }
    requests
}

/// Records of 24 bytes: u32 time, u64 id, u32 size, i64 next access.
fn oracle_general(bytes: &[u8]) -> Vec<Request> {
    let (records, rest) = bytes.as_chunks::<24>();
    assert!(rest.is_empty(), "the last record is cut off");
    let request = |record: &[u8; 24]| {
        let id = u64::from_le_bytes(record[4..12].try_into().expect("8 bytes"));
        let size = u32::from_le_bytes(record[12..16].try_into().expect("4 bytes"));
        (id, size)
    };
    records.iter().map(request).collect()
}

/// Numbers the objects in order of first appearance and finds each request's next.
pub fn dense(all: &[Request]) -> Trace {
    let mut known = HashMap::new();
    let mut requests = Vec::with_capacity(all.len());
    for &(id, _) in all {
        let fresh = known.len() as u32;
        requests.push(*known.entry(id).or_insert(fresh));
    }
    let mut next = vec![u64::MAX; requests.len()];
    let mut last = vec![u64::MAX; known.len()];
    for (index, &id) in requests.iter().enumerate().rev() {
        next[index] = std::mem::replace(&mut last[id as usize], index as u64);
    }
    Trace {
        requests,
        sizes: all.iter().map(|&(_, size)| size).collect(),
        next,
        objects: known.len(),
    }
}
