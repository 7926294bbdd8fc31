//! Plain requests for responses in memory are answered without hyper. The result must not depend on
//! that: the same random requests get the same replies, counts and log lines as from a node that
//! passes everything to hyper.

use crate::support::{Origin, Site, receive, response};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::time::Duration;

/// A small generator (SplitMix64), so that a failure is repeated by its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

/// Starts an origin whose answers depend on the path, `/kind/number`.
fn origin() -> Origin {
    Origin::start(|head, _, stream| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        let kind = path.split('/').nth(1).unwrap_or_default();
        let language = head
            .lines()
            .find(|line| line.starts_with("accept-language"));
        let is_same = head.contains("if-none-match: \"v\"");
        let large = "0123456789".repeat(3_000);
        let text = match kind {
            "fresh" => response("200 OK", "Cache-Control: max-age=60\r\n", path),
            "short" => response(
                "200 OK",
                "Cache-Control: max-age=5\r\nDate: x\r\nAge: 3\r\n",
                path,
            ),
            "valid" if is_same => response("304 Not Modified", "Cache-Control: max-age=5\r\n", ""),
            "valid" => response(
                "200 OK",
                "Cache-Control: max-age=5\r\nETag: \"v\"\r\n",
                path,
            ),
            "vary" => {
                let fields = "Cache-Control: max-age=60\r\nVary: Accept-Language, Connection\r\n";
                response("200 OK", fields, language.unwrap_or("none"))
            }
            "tag" => {
                let fields = "Cache-Control: max-age=60\r\nSurrogate-Key: one two\r\nVia: 1.0 b\r\n\
                    Set-Cookie: a=b\r\nSet-Cookie: c=d\r\n";
                response("200 OK", fields, path)
            }
            "large" => response("200 OK", "Cache-Control: max-age=60\r\n", &large),
            "empty" => response("200 OK", "Cache-Control: max-age=60\r\n", ""),
            "gone" => response("404 Not Found", "Cache-Control: max-age=60\r\n", "gone"),
            "private" => response("200 OK", "Cache-Control: private\r\n", path),
            _ => response("500 Internal Server Error", "", "error"),
        };
        // The content of a request may come after its head.
        let _ = stream.write_all(text.as_bytes());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut vec![]);
    })
}

const KINDS: [&str; 11] = [
    "fresh", "fresh", "short", "valid", "vary", "tag", "large", "empty", "gone", "private", "error",
];

/// Number of the first [`FIELDS`], which leave a request plain.
const PLAIN: usize = 9;

/// Header fields of requests.
const FIELDS: [&str; 26] = [
    "",
    "",
    "",
    "Accept: */*\r\n",
    "Accept-Language: en\r\n",
    "accept-language: DE, en\r\n",
    "Connection: keep-alive\r\n",
    "Cookie: a=b\r\nUser-Agent: test\r\n",
    "X: \t y \r\n",
    "X-Forwarded-For: 10.0.0.1\r\n",
    "Authorization: Basic x\r\n",
    "Range: bytes=1-3\r\n",
    "Range: bytes=0-0,2-2\r\n",
    "If-None-Match: \"v\"\r\n",
    "If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT\r\n",
    "Cache-Control: no-cache\r\n",
    "Cache-Control: only-if-cached\r\n",
    "Cache-Control: max-stale\r\n",
    "Pragma: no-cache\r\n",
    "Connection: x\r\nX: y\r\n",
    "TE: trailers\r\n",
    "Expect: 100-continue\r\n",
    "Content-Length: 0\r\n",
    "Via: 1.1 mayfly\r\n",
    "Upgrade: h2c\r\n",
    "Host: b\r\n",
];

/// Heads that end the connection, because they are malformed or of another version.
const LAST: [&str; 6] = [
    "GET /fresh/1 HTTP/1.0\r\nHost: a\r\n\r\n",
    "GET /fresh/1 HTTP/1.1\r\nHost: a\r\n folded: x\r\n\r\n",
    "GET /fresh/1 HTTP/1.1\r\nHost : a\r\n\r\n",
    "GET  /fresh/1 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /fresh/1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\n\r\n",
    "GET /fresh/1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
];

/// Returns the bytes of one connection, split into the parts in which they are written.
fn connection(random: &mut Random) -> Vec<Vec<u8>> {
    let mut text = String::new();
    for _ in 0..random.below(9) {
        let method = random.pick(&["GET", "GET", "GET", "GET", "GET", "HEAD", "OPTIONS"]);
        let kind = match (method, random.pick(&KINDS)) {
            // The fetch could still be in progress when the next request arrives.
            ("HEAD", "error") => "gone",
            (_, kind) => kind,
        };
        let number = random.below(3);
        let target = match random.below(12) {
            0 => format!("http://a/{kind}/{number}"),
            1 => format!("/{kind}/{number}?q=1#fragment"),
            2 => format!("/{kind}/{number}?q={{"),
            _ => format!("/{kind}/{number}"),
        };
        let host = random.pick(&["Host: a", "host:a:80", "HOST:  A", "Host: a"]);
        let fields = match method {
            "GET" => random.pick(&FIELDS),
            _ => random.pick(&FIELDS[..PLAIN]),
        };
        // A reply without all of the content could end before the response is stored, so that the
        // next request might find it or not. HEAD may select another variant.
        if method == "HEAD" {
            text.push_str(&format!("GET {target} HTTP/1.1\r\n{host}\r\n{fields}\r\n"));
        } else if !FIELDS[..PLAIN].contains(&fields) {
            text.push_str(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        }
        text.push_str(&format!(
            "{method} {target} HTTP/1.1\r\n{host}\r\n{fields}\r\n"
        ));
    }
    text.push_str(random.pick(&LAST));
    let mut parts = vec![];
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let most = [1, 4, 40, 400, 4_000][random.below(5)];
        let (part, left) = rest.split_at(1 + random.below(most.min(rest.len())));
        parts.push(part.to_vec());
        rest = left;
    }
    parts
}

/// Returns the node's replies, without the times at which hyper and the node replied.
fn replies(site: &Site, parts: &[Vec<u8>]) -> String {
    let mut stream = site.connect();
    stream.set_nodelay(true).expect("loopback works");
    for part in parts {
        // The node may close before it has read everything.
        let _ = stream.write_all(part);
    }
    let text = receive(&mut stream).text;
    let lines = text.split_inclusive("\r\n");
    lines.filter(|line| !line.starts_with("date: ")).collect()
}

/// Returns a node whose access log is a pipe, and the thread that reads it to its end.
fn site(origin: &Origin, is_direct: bool) -> (Site, std::thread::JoinHandle<String>) {
    let (mut reader, writer) = std::io::pipe().expect("the system has pipes");
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
    let site = Site::with(origin, |config| {
        config.is_direct = is_direct;
        config.access_log = Some(path.into());
    });
    drop(writer);
    let lines = std::thread::spawn(move || {
        let mut text = String::new();
        let read = reader.read_to_string(&mut text);
        read.expect("the log is text");
        text
    });
    (site, lines)
}

/// Returns a line of the log without its times.
fn without_times(line: &str) -> BTreeMap<String, serde_json::Value> {
    let mut line: BTreeMap<_, _> = serde_json::from_str(line).expect("the line is JSON");
    line.remove("time");
    line.remove("microseconds");
    line.remove("origin_microseconds");
    line
}

#[test]
fn replies_counts_and_logs_are_those_of_hyper_alone() {
    let origins = [origin(), origin()];
    let (direct, direct_log) = site(&origins[0], true);
    let (by_hyper, hyper_log) = site(&origins[1], false);
    let mut random = Random(21);
    for number in 0..400 {
        match random.below(12) {
            0 => {
                let by = Duration::from_secs(random.below(8) as u64);
                for site in [&direct, &by_hyper] {
                    site.clock.advance(by);
                    site.running.node.store.expire();
                }
            }
            1 => {
                let soft = random.pick(&["", "&soft=1"]);
                let target = random.pick(&["url=http://a/fresh/1", "tag=two", "prefix=http://a/v"]);
                let purged =
                    [&direct, &by_hyper].map(|site| site.purge(&format!("{target}{soft}")));
                assert_eq!(purged[0], purged[1], "purge {number}");
            }
            _ => {}
        }
        let parts = connection(&mut random);
        let received = replies(&direct, &parts);
        let expected = replies(&by_hyper, &parts);
        let sent = String::from_utf8_lossy(&parts.concat()).into_owned();
        assert_eq!(received, expected, "connection {number}: {sent}");
        let stats = [&direct, &by_hyper].map(|site| {
            let stats = site.running.node.store.stats();
            (stats.hits, stats.misses(), stats.len)
        });
        assert_eq!(stats[0], stats[1], "connection {number}: {sent}");
    }
    let pages = [&direct, &by_hyper].map(|site| {
        let page = site.admin("GET", "/metrics", "").content;
        // The table's size depends on a random hash; the end of a connection is counted later.
        // Responses that have left are freed a little later, and their tags with them.
        let inexact = [
            "_index_bytes",
            "_store_tags",
            "_open",
            "_seconds_bucket",
            "_seconds_sum",
        ];
        let is_exact = |line: &&str| !inexact.iter().any(|part| line.contains(part));
        let lines = page.lines().filter(is_exact).map(str::to_owned);
        lines.collect::<Vec<_>>()
    });
    assert_eq!(pages[0], pages[1]);
    assert_eq!(origins[0].heads(), origins[1].heads());
    direct.stop();
    by_hyper.stop();
    let logs = [direct_log, hyper_log].map(|log| log.join().expect("the thread ends"));
    let logs = logs.map(|log| log.lines().map(without_times).collect::<Vec<_>>());
    assert!(logs[0].len() > 1_000);
    assert_eq!(logs[0], logs[1]);
}

#[test]
fn a_connection_keeps_its_version_after_a_reply() {
    // Regression: behind a plain hit, the beginning of HTTP/2 was accepted, and a malformed head
    // got no reply before the time for a head had ended.
    let origin = origin();
    let (site, log) = site(&origin, true);
    let hit = "GET /fresh/1 HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    preface.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
    for rest in [&preface[..], b"G\0 / HTTP/1.1\r\n\r\n"] {
        let mut stream = site.connect();
        for _ in 0..2 {
            // The first one may be a miss.
            stream.write_all(hit.as_bytes()).expect("it is open");
        }
        let mut replies = String::new();
        let mut piece = [0; 4096];
        while replies.matches("\r\n\r\n/fresh/1").count() < 2 {
            let count = stream.read(&mut piece).expect("two replies");
            assert!(count > 0, "{replies}");
            replies += std::str::from_utf8(&piece[..count]).expect("text");
        }
        stream.write_all(rest).expect("it is open");
        let text = receive(&mut stream).text;
        assert!(
            text.is_empty() || text.starts_with("HTTP/1.1 400 "),
            "{text:?}"
        );
    }
    site.stop();
    drop(log);
}
