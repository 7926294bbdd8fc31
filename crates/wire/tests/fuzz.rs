//! Runs the fuzz targets on seeded mutations of valid inputs. `cargo fuzz` runs the same code
//! guided by coverage; this takes a second and is repeatable.

#[path = "../../../fuzz/bodies/dump.rs"]
mod dump;
#[path = "../../../fuzz/bodies/memcached.rs"]
mod memcached;
#[expect(
    clippy::disallowed_methods,
    reason = "a campaign runs for a time that its environment sets"
)]
#[path = "../../../fuzz/bodies/mutate.rs"]
mod mutate;
#[path = "../../../fuzz/bodies/number.rs"]
mod number;
#[path = "../../../fuzz/bodies/rdb.rs"]
mod rdb;
#[path = "../../../fuzz/bodies/reply.rs"]
mod reply;
#[path = "../../../fuzz/bodies/request.rs"]
mod request;

#[test]
fn requests_are_parsed_the_same_for_all_sizes_of_reads() {
    // The first byte selects the limits and the sizes of the pieces.
    let samples: &[&[u8]] = &[
        b"\x17*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n*1\r\n$4\r\nPING\r\n",
        b"\x07set \"a\\x41\\n\" 'b\\'c' d\r\nPING\nget k\r\n",
        b"\x2f*0\r\n\r\n*-1\r\n*2\r\n$0\r\n\r\n$2\r\n\r\n\r\n",
        b"\x0b*10\r\n$100\r\nabc",
    ];
    let words: &[&[u8]] = &[
        b"*",
        b"$",
        b"\r\n",
        b"*1\r\n",
        b"$1\r\n",
        b"-1",
        b"1048576",
        b"536870912",
        b"9223372036854775807",
        b"\"",
        b"'",
        b"\\x4",
        b"\0",
    ];
    mutate::run(0x5EED_0001, 60_000, samples, words, request::run);
}

#[test]
fn requests_to_memcached_are_parsed_the_same_for_all_sizes_of_reads() {
    let samples: &[&[u8]] = &[
        b"\x03set key 5 100 5 noreply\r\nvalue\r\nget key key2\r\ncas k 0 0 1 77\r\nx\r\n",
        b"\x0bms key 5 T60 F9 C3 ME q Oabc\r\nvalue\r\nmg a2V5 b t v k R30 N10\r\nmn\r\n",
        b"\x00incr n 5\r\ntouch k -1\r\ngat 10 x y\r\nflush_all 30\r\ndelete k 0 noreply\r\nquit\r\n",
        b"\x40set k 0 0 2000\r\nget k\r\nma n J5 D2 MI t v\r\nstats items\r\n",
        // Binary: a quiet set of `abc`, a get with key, an increment and a noop.
        b"\x05\x80\x11\0\x01\x08\0\0\0\0\0\0\x0c\0\0\0\x07\0\0\0\0\0\0\0\0\0\0\0\x05\0\0\0\x3ckabc\
          \x80\x0c\0\x01\0\0\0\0\0\0\0\x01\0\0\0\x08\0\0\0\0\0\0\0\0k",
        b"\x09\x80\x05\0\x01\x14\0\0\0\0\0\0\x15\0\0\0\x07\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x05\0\0\0\0n\
          \x80\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\0",
    ];
    let words: &[&[u8]] = &[
        b"\r\n",
        b"\n",
        b" ",
        b"noreply",
        b"set k 0 0 3\r\n",
        b"ms k 3 ",
        b"mg k ",
        b"get ",
        b"4294967296",
        b"2147483647",
        b"-1",
        b"T60",
        b"C1",
        b"b",
        b"q",
        b"\0",
        b"2000\r\n",
        b"\x80\x00\0\x01\0\0\0\0\0\0\0\x01",
        b"\xff\xff\xff\xff",
        &[b'k'; 300],
    ];
    mutate::run(0x5EED_0004, 60_000, samples, words, memcached::run);
}

#[test]
fn scanner_and_builder_agree_on_replies() {
    let samples: &[&[u8]] = &[
        b"*3\r\n:1\r\n$3\r\nabc\r\n$-1\r\n",
        b"%2\r\n+a\r\n,1.5\r\n+b\r\n~2\r\n#t\r\n_\r\n",
        b"|1\r\n+ttl\r\n:9\r\n>2\r\n=5\r\ntxt:x\r\n!3\r\nERR\r\n",
        b"(123456789012345678901234567890\r\n",
        b"-ERR no\r\n+OK\r\n*-1\r\n,nan\r\n,-inf\r\n",
    ];
    let words: &[&[u8]] = &[
        b"*1\r\n",
        b"%1\r\n",
        b"|1\r\n",
        b"\r\n",
        b"?",
        b":",
        b"$",
        b"=",
        b"!",
        b"1073741824",
        b"-1",
        b",1e-7\r\n",
    ];
    mutate::run(0x5EED_0002, 60_000, samples, words, reply::run);
}

#[test]
fn written_numbers_are_read_back() {
    let samples: &[&[u8]] = &[
        b"0 0",
        b"-9223372036854775808 1",
        b"18446744073709551615 0.5",
        b"10.5 0.1",
        b"5.0e3 2e-2",
        b"1.7976931348623157e308 -inf",
        b"1e4932 1e-4940",
        b"-0.00000000000000001 1",
        b"321777.65 0",
    ];
    let words: &[&[u8]] = &[
        b"-",
        b"+",
        b".",
        b"e",
        b"E-",
        b"0",
        b"00",
        b"9",
        b"99999999999999999999",
        b"inf",
        b" ",
        b"e4900",
        b"e-4900",
        b"5",
    ];
    mutate::run(0x5EED_0003, 60_000, samples, words, number::run);
}

#[test]
fn payloads_are_read_to_their_end_or_refused() {
    // The first byte is the version.
    let samples: &[&[u8]] = &[
        b"\x09\x00\x05hello",
        b"\x0A\x00\xC3\x0B\x40x\x03abca\xE0i\x02\x01bc",
        b"\x09\x04\x02\x01f\xC0\x05\x01g\x40\x03abc",
        b"\x09\x05\x01\x01a\x00\x00\x00\x00\x00\x00\xF8\x3F",
        b"\x0A\x12\x02\x02\x0D\x0D\x00\x00\x00\x02\x00\x81a\x02\xF1\x01\x01\x03\xFF\x01\x02bc",
        b"\x0A\x0E\x01\x10\x10\x00\x00\x00\x0D\x00\x00\x00\x02\x00\x00\x01f\x03\xF4\xFF",
        b"\x0B\x0B\x0C\x02\x00\x00\x00\x02\x00\x00\x00\x01\x00\x07\x00",
        b"\x0C\x18\x64\x00\x00\x00\x00\x00\x00\x00\x02\x01\x01f\x01v\x00\x01g\x01w",
        b"\x50\x16\x01\x01f\x01v\x64\x00\x00\x00\x00\x00\x00\x00",
        b"\x09\x81\x01\x01m\x00\x00\x00\x00\x00\x00\xF0\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
    ];
    let words: &[&[u8]] = &[
        b"\x00",
        b"\xFF",
        b"\x80\xFF\xFF\xFF\xFF",
        b"\x81\x00\x00\x00\x00\x00\x00\x00\x01",
        b"\xC0\x80",
        b"\xC3\x04\x40\xFF\x01ab\xE0",
        b"\x10\x0A\x0A\x00\x00\x00\x01\x00\x81e\x02\xFF",
        b"\x02",
        b"\x11",
        b"\x14",
        b"\x19",
        b"\xF4",
    ];
    mutate::run(0x5EED_0006, 60_000, samples, words, dump::run);
}

#[test]
fn snapshot_files_are_read_the_same_for_all_sizes_of_reads() {
    // The first byte is the size of the reads. The files have no checksums.
    const END: &[u8] = b"\xFF\0\0\0\0\0\0\0\0";
    let file = |header: &[u8], items: &[u8]| [b"\x02", header, items, END].concat();
    let samples = [
        file(
            b"REDIS0011",
            b"\xFA\x05ctime\xC2\x01\x02\x03\x04\xFE\x03\xFB\x05\x02\xF5\x0D#!lua name=a\n\
              \xFC\x01\x02\0\0\0\0\0\0\x00\x01s\x05value\xFD\x01\0\0\0\x02\x01k\x02\x01a\xC0\x05",
        ),
        file(
            b"REDIS0012",
            b"\x0B\x01i\x0C\x02\x00\x00\x00\x02\x00\x00\x00\x01\x00\x07\x00\
              \x18\x01h\x64\0\0\0\0\0\0\0\x02\x01\x01f\x01v\x00\x01g\x01w\
              \x09\x01m\x0C\x01\x01f\x01\x00v\xFF\xF8\x05\xF9\x01\x00\x01z\xC3\x0B\x40x\x03abca\xE0i\x02\x01bc",
        ),
        file(
            b"MAYFLY001",
            b"\x81\x01z\x01\x01m\x00\x00\x00\x00\x00\x00\xF0\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\
              \x16\x01h\x01\x01f\x01v\x64\x00\x00\x00\x00\x00\x00\x00",
        ),
        file(
            b"REDIS0013",
            b"\xF3\x01\x01\x02\x03\x04\x02\x05\x00\xF4\x01\x02\x03\x07\x01k\x0A\x01\x05\x05\x01a\x00\
              \xF7\x0A\x02\x01\x04\0\0\0\0\0\0\0\0\x00\x12\x01l\x02\x02\x0D\x0D\x00\x00\x00\x02\
              \x00\x81a\x02\xF1\x01\x01\x03\xFF\x01\x02bc",
        ),
    ];
    let samples: Vec<&[u8]> = samples.iter().map(|sample| &sample[..]).collect();
    let words: &[&[u8]] = &[
        b"\xFA",
        b"\xF3",
        b"\xFF",
        b"\x80\xFF\xFF\xFF\xFF",
        b"\x81\x00\x00\x00\x00\x00\x00\x00\x01",
        b"\xC3\x04\x40\xFF\x01ab\xE0",
        b"\x00\x01k\x01v",
        b"\x0F",
        b"\x82",
    ];
    mutate::run(0x5EED_0007, 20_000, &samples, words, rdb::run);
}
