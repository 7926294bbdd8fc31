//! Compression by rules: which clients receive which coding, and what is stored.

use crate::cluster::{Sites, free};
use crate::support::{Origin, Site, response};
use node::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const RULE: &str = "[[rule]]\ncompress = [\"br\", \"zstd\", \"gzip\"]";

/// Starts an origin of texts, whose fields and length depend on the path.
fn origin() -> Origin {
    Origin::start(|head, _, stream| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        if head.contains("if-none-match: w/\"v\"\r\n") {
            let fields = "ETag: \"v\"\r\nCache-Control: max-age=60\r\nVary: cookie\r\n";
            let text = format!("HTTP/1.1 304 Not Modified\r\nConnection: close\r\n{fields}\r\n");
            let _ = stream.write_all(text.as_bytes());
            return;
        }
        let kind = match path {
            "/image" => "image/png",
            _ => "text/css",
        };
        let more = match path {
            "/personal" => "Cache-Control: no-store\r\n",
            "/fixed" => "Cache-Control: max-age=60, no-transform\r\n",
            "/coded" => {
                "Cache-Control: max-age=60\r\nContent-Encoding: gzip\r\nVary: Accept-Encoding\r\n"
            }
            _ => "Cache-Control: max-age=60\r\nETag: \"v\"\r\nAccept-Ranges: bytes\r\n",
        };
        let content = text(path);
        let (status, content) = match head.contains("range: bytes=2-5\r\n") {
            true => ("206 Partial Content", &content[2..6]),
            false => ("200 OK", &*content),
        };
        let mut fields = format!("Content-Type: {kind}\r\n{more}");
        if status.starts_with("206") {
            fields += &format!("Content-Range: bytes 2-5/{}\r\n", text(path).len());
        }
        let _ = stream.write_all(response(status, &fields, content).as_bytes());
    })
}

fn text(path: &str) -> String {
    match path {
        "/short" => "x".repeat(1_023),
        path => format!("{path} is a text that repeats itself. ").repeat(3_000),
    }
}

fn site(origin: &Origin) -> Site {
    let rules = File::parse(RULE).expect("the text is valid").rules;
    Site::with(origin, |config| config.rules = rules)
}

/// Reply with its content as bytes, without the framing of chunks.
struct Reply {
    head: String,
    content: Vec<u8>,
}

impl Reply {
    fn field(&self, name: &str) -> &str {
        let line = |line: &&str| line.starts_with(&format!("{name}: "));
        let found = self.head.lines().find(line);
        found.map_or("", |line| &line[name.len() + 2..])
    }

    /// Returns the content after decoding.
    fn text(&self) -> String {
        let mut text = String::new();
        let bytes = &self.content[..];
        let read = match self.field("content-encoding") {
            "" => (&mut &*bytes).read_to_string(&mut text),
            "gzip" => flate2::read::GzDecoder::new(bytes).read_to_string(&mut text),
            "br" => brotli::Decompressor::new(bytes, 4_096).read_to_string(&mut text),
            "zstd" => {
                let decoder = zstd::stream::read::Decoder::new(bytes);
                decoder.and_then(|mut decoder| decoder.read_to_string(&mut text))
            }
            other => panic!("{other} is no coding of the rule"),
        };
        read.expect("the content is complete");
        text
    }
}

fn request(site: &Site, method: &str, path: &str, fields: &str) -> Reply {
    let mut stream: TcpStream = site.connect();
    let text = format!("{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n");
    stream.write_all(text.as_bytes()).expect("loopback works");
    let mut bytes = vec![];
    stream.read_to_end(&mut bytes).expect("the node answers");
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let content = bytes.split_off(end.expect("a head") + 4);
    let head = String::from_utf8(bytes).expect("the head is text");
    let content = match head.contains("transfer-encoding: chunked\r\n") {
        true => dechunked(&content),
        false => content,
    };
    Reply { head, content }
}

fn dechunked(mut rest: &[u8]) -> Vec<u8> {
    let mut content = vec![];
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n");
        let (line, after) = rest.split_at(end.expect("a length"));
        let line = std::str::from_utf8(line).expect("digits");
        let length = usize::from_str_radix(line, 16).expect("digits");
        if length == 0 {
            return content;
        }
        content.extend_from_slice(&after[2..2 + length]);
        rest = &after[2 + length + 2..];
    }
}

fn get(site: &Site, path: &str, accepted: &str) -> Reply {
    request(
        site,
        "GET",
        path,
        &format!("Accept-Encoding: {accepted}\r\n"),
    )
}

#[test]
fn a_text_is_compressed_once_for_each_coding_that_clients_use() {
    let origin = origin();
    let site = site(&origin);
    for (accepted, coding) in [
        ("gzip, deflate, br, zstd", "br"),
        ("gzip;q=0.5, zstd", "zstd"),
        ("gzip", "gzip"),
        ("deflate", ""),
    ] {
        for is_hit in [false, true, true] {
            let reply = get(&site, "/x", accepted);
            assert_eq!(reply.field("content-encoding"), coding, "{}", reply.head);
            assert_eq!(reply.field("vary"), "accept-encoding");
            let tag = if coding.is_empty() {
                "\"v\""
            } else {
                "W/\"v\""
            };
            assert_eq!(reply.field("etag"), tag);
            assert_eq!(reply.text(), text("/x"), "{accepted}");
            assert!(coding.is_empty() || reply.content.len() < text("/x").len() / 10);
            assert_eq!(
                reply.field("cache-status").contains("; hit"),
                is_hit,
                "{}",
                reply.head
            );
            if is_hit {
                let length = reply.content.len().to_string();
                assert_eq!(reply.field("content-length"), length);
            }
        }
    }
    // Other spellings of the same choice are hits.
    for accepted in ["br", "*", "br;q=0.1, gzip", "identity;q=0, *"] {
        assert!(
            get(&site, "/x", accepted)
                .field("cache-status")
                .contains("; hit")
        );
    }
    let heads = origin.heads();
    let asked = |coding: &str| format!("accept-encoding: {coding}\r\n");
    assert_eq!(heads.len(), 4);
    for (head, coding) in heads.iter().zip(["br", "zstd", "gzip", "identity"]) {
        assert!(head.contains(&asked(coding)), "{head}");
    }
    let page = site.admin("GET", "/metrics", "").content;
    for coding in ["br", "zstd", "gzip"] {
        let line = format!("mayfly_edge_compressed_total{{coding=\"{coding}\"}} 1");
        assert!(page.lines().any(|other| other == line), "{line}: {page}");
    }
    assert_eq!(site.purge("url=http://a/x"), 1);
    assert!(
        get(&site, "/x", "br")
            .field("cache-status")
            .contains("fwd=uri-miss")
    );
}

#[test]
fn a_confirmed_response_stays_compressed() {
    let origin = origin();
    let site = site(&origin);
    get(&site, "/x", "gzip");
    site.clock.advance(Duration::from_secs(61));
    for cache in ["fwd=stale; fwd-status=304; stored", "hit"] {
        let reply = get(&site, "/x", "gzip");
        assert!(
            reply.field("cache-status").contains(cache),
            "{}",
            reply.head
        );
        assert_eq!(
            (reply.field("content-encoding"), reply.field("etag")),
            ("gzip", "W/\"v\"")
        );
        assert_eq!(reply.text(), text("/x"));
        assert!(
            reply.head.contains("vary: accept-encoding\r\n"),
            "{}",
            reply.head
        );
    }
    let unmodified = request(
        &site,
        "GET",
        "/x",
        "Accept-Encoding: gzip\r\nIf-None-Match: W/\"v\"\r\n",
    );
    assert!(
        unmodified.head.starts_with("HTTP/1.1 304 "),
        "{}",
        unmodified.head
    );
    assert_eq!(origin.heads().len(), 2);
}

#[test]
fn a_range_is_one_of_content_without_a_coding() {
    let origin = origin();
    let site = site(&origin);
    get(&site, "/x", "br");
    for _ in 0..2 {
        let part = request(
            &site,
            "GET",
            "/x",
            "Accept-Encoding: br\r\nRange: bytes=2-5\r\n",
        );
        assert!(part.head.starts_with("HTTP/1.1 206 "), "{}", part.head);
        assert_eq!(
            (part.field("content-encoding"), &part.text()[..]),
            ("", &text("/x")[2..6])
        );
    }
    // The range has not replaced the compressed response.
    let whole = get(&site, "/x", "br");
    assert!(
        whole.field("cache-status").contains("; hit"),
        "{}",
        whole.head
    );
    assert_eq!(whole.text(), text("/x"));
}

#[test]
fn responses_that_are_not_stored_are_compressed_while_they_pass() {
    let origin = origin();
    let site = site(&origin);
    for method in ["GET", "GET", "POST"] {
        let fields = "Accept-Encoding: gzip\r\nContent-Length: 0\r\n";
        let reply = request(&site, method, "/personal", fields);
        assert_eq!(reply.field("content-encoding"), "gzip", "{}", reply.head);
        assert_eq!(reply.field("content-length"), "");
        assert_eq!(reply.text(), text("/personal"));
    }
    assert_eq!(
        get(&site, "/personal", "identity").text(),
        text("/personal")
    );
    // The fields of HEAD are the origin's, because it sends no content.
    let head = request(&site, "HEAD", "/personal", "Accept-Encoding: gzip\r\n");
    assert_eq!(
        head.field("content-length"),
        text("/personal").len().to_string()
    );
}

#[test]
fn other_responses_are_not_changed() {
    let origin = origin();
    let site = site(&origin);
    for path in ["/image", "/fixed", "/coded", "/short"] {
        for _ in 0..2 {
            let reply = get(&site, path, "gzip");
            let (coding, vary) = match path {
                "/coded" => ("gzip", "Accept-Encoding"),
                "/short" => ("", "accept-encoding"),
                _ => ("", ""),
            };
            assert_eq!(reply.field("content-encoding"), coding, "{}", reply.head);
            assert_eq!(reply.field("vary"), vary, "{}", reply.head);
            assert_eq!(reply.content, text(path).as_bytes());
        }
    }
    // An image is the same for all clients.
    assert!(
        get(&site, "/image", "br")
            .field("cache-status")
            .contains("; hit")
    );
    assert_eq!(origin.heads().len(), 4);
    // Without a rule nothing is compressed.
    let plain = Site::new(&origin);
    assert_eq!(get(&plain, "/x", "gzip").content, text("/x").as_bytes());
}

#[test]
fn content_is_not_compressed_while_memory_is_short() {
    let origin = origin();
    let rules = File::parse(RULE).expect("the text is valid").rules;
    let site = Site::with(&origin, |config| {
        config.rules = rules;
        // Compressors may hold an eighth, which is less than one needs.
        (config.memory_bytes, config.object_bytes_max) = (8 << 20, 512 << 10);
    });
    for _ in 0..2 {
        let reply = get(&site, "/x", "br");
        assert_eq!(
            (reply.field("content-encoding"), reply.text()),
            ("", text("/x"))
        );
    }
    let page = site.admin("GET", "/metrics", "").content;
    assert!(
        page.contains("mayfly_edge_uncompressed_total 1\n"),
        "{page}"
    );
}

#[test]
fn nodes_of_a_cluster_compress_once() {
    let origin = origin();
    let rules = File::parse(RULE).expect("the text is valid").rules;
    let sites = Sites::with(&origin, &free(4), 4, |config| config.rules = rules.clone());
    for (accepted, coding) in [("gzip, br", "br"), ("gzip", "gzip"), ("deflate", "")] {
        for site in sites.up() {
            let reply = get(site, "/x", accepted);
            assert_eq!(reply.field("content-encoding"), coding, "{}", reply.head);
            assert_eq!(reply.text(), text("/x"));
        }
    }
    assert_eq!(origin.heads().len(), 3);
}
