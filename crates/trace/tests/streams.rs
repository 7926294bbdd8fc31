//! Compressed streams: complete, cut off, and damaged.

use std::io::{Read, Write};
use trace::{Error, Request};

const ENDINGS: [&str; 4] = ["", ".zst", ".gz", ".xz"];

fn pack(ending: &str, bytes: &[u8]) -> Vec<u8> {
    match ending {
        ".zst" => zstd::encode_all(bytes, 1).expect("memory is there"),
        ".gz" => {
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packer.write_all(bytes).expect("memory is there");
            packer.finish().expect("memory is there")
        }
        ".xz" => {
            let mut packed = Vec::new();
            let mut packer = liblzma::read::XzEncoder::new(bytes, 0);
            packer.read_to_end(&mut packed).expect("memory is there");
            packed
        }
        _ => bytes.to_vec(),
    }
}

fn read_all(name: &str, bytes: &[u8]) -> Result<Vec<Request>, Error> {
    trace::read(name, bytes)?.collect()
}

fn text() -> String {
    let lines =
        (0..20_000u64).map(|line| format!("{line},{},{}\n", line * 7919 % 1000, line % 100));
    "time,key,size\n".to_string() + &lines.collect::<String>()
}

#[test]
fn a_compressed_trace_has_the_same_requests() {
    let text = text();
    let plain = read_all("t.csv", text.as_bytes()).expect("well-formed");
    assert_eq!(plain.len(), 20_000);
    for ending in ENDINGS {
        let packed = pack(ending, text.as_bytes());
        let requests = read_all(&format!("t.csv{ending}"), &packed).expect("well-formed");
        assert_eq!(requests, plain, "{ending}");
        // Concatenated archives are one archive.
        let (header, rest) = text.split_at(text.find('\n').expect("it has lines") + 1);
        let both = [
            pack(ending, header.as_bytes()),
            pack(ending, rest.as_bytes()),
        ]
        .concat();
        let requests = read_all(&format!("t.csv{ending}"), &both).expect("well-formed");
        assert_eq!(requests, plain, "{ending} in two parts");
    }
}

#[test]
fn a_truncated_archive_is_an_error_not_an_end() {
    for ending in &ENDINGS[1..] {
        let packed = pack(ending, text().as_bytes());
        for cut in [1, 5, packed.len() / 2, packed.len() - 1] {
            let error = read_all(&format!("t.csv{ending}"), &packed[..cut]);
            let error = error.expect_err("it is cut off");
            assert!(
                matches!(error, Error::Unreadable { .. }),
                "{ending} {cut}: {error}"
            );
        }
    }
}

#[test]
fn a_damaged_archive_is_an_error() {
    for ending in [".gz", ".xz"] {
        let mut packed = pack(ending, text().as_bytes());
        let middle = packed.len() / 2;
        packed[middle] ^= 0x55;
        let result = read_all(&format!("t.csv{ending}"), &packed);
        assert!(result.is_err(), "{ending}");
    }
    for ending in &ENDINGS[1..] {
        let error = read_all(&format!("t.csv{ending}"), b"this is no archive at all");
        assert!(matches!(error, Err(Error::Unreadable { .. })), "{ending}");
    }
}
