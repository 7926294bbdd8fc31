use super::*;

fn encoded(protocol: Protocol, write: impl Fn(&mut Reply<'_>)) -> String {
    let mut out = Output::default();
    write(&mut Reply::new(&mut out, protocol));
    String::from_utf8(out.to_vec()).expect("the tests write text")
}

/// Checks what `write` encodes in RESP2 and in RESP3.
fn check(resp2: &str, resp3: &str, write: impl Fn(&mut Reply<'_>)) {
    assert_eq!(encoded(Protocol::Resp2, &write), resp2);
    assert_eq!(encoded(Protocol::Resp3, &write), resp3);
}

#[test]
fn both_versions_share_the_simple_types() {
    let same = |text: &str, write: &dyn Fn(&mut Reply<'_>)| check(text, text, write);
    same("+OK\r\n", &|r| r.ok());
    same("+PONG\r\n", &|r| r.simple("PONG"));
    same(":0\r\n", &|r| r.integer(0));
    same(":9\r\n", &|r| r.integer(9));
    same(":10\r\n", &|r| r.integer(10));
    same(":-1\r\n", &|r| r.integer(-1));
    same(":-9223372036854775808\r\n", &|r| r.integer(i64::MIN));
    same("$0\r\n\r\n", &|r| r.bulk(b""));
    same("$3\r\nfoo\r\n", &|r| r.bulk(b"foo"));
    same("$12\r\nhello, world\r\n", &|r| r.bulk(b"hello, world"));
    same("$6\r\n7 keys\r\n", &|r| {
        r.bulk_fmt(format_args!("{} keys", 7))
    });
    same("$3\r\n-42\r\n", &|r| r.bulk_integer(-42));
    same("*0\r\n", &|r| r.array(0));
    same("*100\r\n", &|r| r.array(100));
    same("-ERR no\r\n", &|r| r.error("ERR no"));
}

#[test]
fn the_versions_differ_in_types_that_resp2_lacks() {
    check("$-1\r\n", "_\r\n", |r| r.null());
    check("*-1\r\n", "_\r\n", |r| r.null_array());
    check("*4\r\n", "%2\r\n", |r| r.map(2));
    check("*2\r\n", "~2\r\n", |r| r.set(2));
    check("*3\r\n", ">3\r\n", |r| r.push(3));
    check(":1\r\n", "#t\r\n", |r| r.boolean(true));
    check(":0\r\n", "#f\r\n", |r| r.boolean(false));
    check("$4\r\n10.6\r\n", ",10.6\r\n", |r| r.double(10.6));
    check("$4\r\n-inf\r\n", ",-inf\r\n", |r| {
        r.double(f64::NEG_INFINITY)
    });
    check("$3\r\nnan\r\n", ",nan\r\n", |r| r.double(f64::NAN));
    check("$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n", |r| {
        r.verbatim("txt", b"hi")
    });
    check(
        "$20\r\n18446744073709551616\r\n",
        "(18446744073709551616\r\n",
        |r| r.big_number("18446744073709551616"),
    );
    check(":1\r\n", "|1\r\n+ttl\r\n:5\r\n:1\r\n", |r| {
        if r.attribute(1) {
            r.simple("ttl");
            r.integer(5);
        }
        r.integer(1);
    });
}

#[test]
fn line_breaks_cannot_end_an_error_early() {
    check("-ERR a  b c\r\n", "-ERR a  b c\r\n", |r| {
        r.error("ERR a\r\nb\nc")
    });
    check("-ERR x +OK\r\n", "-ERR x +OK\r\n", |r| {
        r.error_fmt(format_args!("ERR {}", "x\n+OK"));
    });
    let mut out = Output::from(b":1\r\n".to_vec());
    Reply::new(&mut out, Protocol::Resp2).error_bytes(b"ERR \xff\r");
    assert_eq!(out[..], *b":1\r\n-ERR \xff \r\n");
}

#[test]
fn a_reply_can_be_measured_and_removed() {
    let mut out = Output::from(b"+OK\r\n".to_vec());
    let mut reply = Reply::new(&mut out, Protocol::Resp2);
    let position = reply.position();
    reply.array(2);
    reply.integer(1);
    assert_eq!(reply.written(position), b"*2\r\n:1\r\n");
    reply.truncate(position);
    reply.set_protocol(Protocol::Resp3);
    assert_eq!(reply.protocol(), Protocol::Resp3);
    reply.null();
    assert_eq!(out[..], *b"+OK\r\n_\r\n");
}

#[test]
fn a_reply_beyond_its_maximum_is_full() {
    let mut out = Output::new(64);
    let mut reply = Reply::new(&mut out, Protocol::Resp3);
    reply.array(3);
    reply.bulk(b"short");
    assert!(!reply.is_full());
    reply.bulk(&[b'x'; 100]);
    assert!(reply.is_full());
    reply.bulk(b"short");
    reply.error("ERR late");
    reply.bulk_fmt(format_args!("{}", 1));
    assert!(reply.written(0).is_empty());
    assert_eq!(reply.part().room(), 0);
}

#[test]
fn a_part_grows_no_further_than_its_reply() {
    let mut out = Output::new(100);
    let mut reply = Reply::new(&mut out, Protocol::Resp2);
    reply.raw(&[b'x'; 50]);
    let mut part = reply.part();
    assert_eq!(part.room(), 50);
    part.extend_from_slice(&[b'y'; 51]);
    reply.append(&part);
    assert!(reply.is_full());
}
