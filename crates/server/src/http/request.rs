//! Requests: the first line and the headers that matter here.

use crate::metrics::page::Format;

/// Maximum size of a request's first line and headers in bytes.
pub const HEAD_BYTES_MAX: usize = 8 << 10;
/// Maximum number of headers.
const HEADERS_MAX: usize = 64;

/// A status with its reason.
pub type Status = (u16, &'static str);

/// Status of a request that cannot be read.
pub const BAD_REQUEST: Status = (400, "Bad Request");
/// Status of a request with a body.
pub const CONTENT_TOO_LARGE: Status = (413, "Content Too Large");
/// Status of a request whose headers are too long or too many.
pub const HEADERS_TOO_LARGE: Status = (431, "Request Header Fields Too Large");
/// Status of a request in another version of HTTP.
pub const VERSION_NOT_SUPPORTED: Status = (505, "HTTP Version Not Supported");

/// Method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET.
    Get,
    /// HEAD.
    Head,
    /// Any other method.
    Other,
}

/// A request without a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Method.
    pub method: Method,
    /// Path without the query.
    pub path: String,
    /// Preferred format of metrics.
    pub format: Format,
    /// Whether the connection stays open after the reply.
    pub keeps_alive: bool,
    /// Number of bytes of the request.
    pub len: usize,
}

/// Parses the first request in some bytes. Returns `None` if it is incomplete.
///
/// # Errors
/// Returns the status of the reply, after which the connection must be closed.
pub fn parse(bytes: &[u8]) -> Result<Option<Request>, Status> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let len = match request.parse(&bytes[..bytes.len().min(HEAD_BYTES_MAX)]) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) if bytes.len() >= HEAD_BYTES_MAX => {
            return Err(HEADERS_TOO_LARGE);
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(HEADERS_TOO_LARGE),
        Err(httparse::Error::Version) => return Err(VERSION_NOT_SUPPORTED),
        Err(_) => return Err(BAD_REQUEST),
    };
    let all: &[httparse::Header<'_>] = request.headers;
    let find = |name: &'static str| {
        let named = all
            .iter()
            .filter(move |header| header.name.eq_ignore_ascii_case(name));
        named.map(|header| header.value)
    };
    // Nothing that is served here takes a body, and what is not read cannot be smuggled.
    if find("transfer-encoding").next().is_some() || find("content-length").any(|len| len != b"0") {
        return Err(CONTENT_TOO_LARGE);
    }
    let has_word = |word: &str| {
        find("connection").any(|value| {
            let text = String::from_utf8_lossy(value).to_ascii_lowercase();
            text.split(',').any(|part| part.trim() == word)
        })
    };
    let is_http_11 = request.version == Some(1);
    let method = match request.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        _ => Method::Other,
    };
    let accept = find("accept").next().map(String::from_utf8_lossy);
    Ok(Some(Request {
        method,
        path: path_of(request.path.unwrap_or_default()).to_owned(),
        format: accept.map_or(Format::Prometheus, |text| preferred(&text)),
        keeps_alive: is_http_11 && !has_word("close"),
        len,
    }))
}

/// Returns the path of a target, which is a path with a query or, from some proxies, an address.
fn path_of(target: &str) -> &str {
    let rest = target.strip_prefix("http://");
    let path = rest.map_or(target, |rest| rest.find('/').map_or("/", |at| &rest[at..]));
    let end = path.find(['?', '#']).unwrap_or(path.len());
    &path[..end]
}

/// Returns the format that a header Accept prefers. OpenMetrics must be named.
fn preferred(accept: &str) -> Format {
    let quality = |wanted: &str| {
        let ranges = accept.split(',').filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            if !parts.next()?.eq_ignore_ascii_case(wanted) {
                return None;
            }
            let mut quality = 1.0;
            for part in parts {
                match part.split_once('=') {
                    Some(("q", value)) => quality = value.parse().unwrap_or(0.0),
                    // The page is valid in these versions.
                    Some(("version", version))
                        if wanted.starts_with("application")
                            && !["1.0.0", "0.0.1"].contains(&version) =>
                    {
                        return None;
                    }
                    _ => {}
                }
            }
            Some(quality)
        });
        ranges.fold(0.0, f64::max)
    };
    let open = quality("application/openmetrics-text");
    if open > 0.0 && open >= quality("text/plain") {
        Format::OpenMetrics
    } else {
        Format::Prometheus
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(text: &str) -> Request {
        let parsed = parse(text.as_bytes()).expect("a valid request");
        parsed.expect("a complete request")
    }

    #[test]
    fn requests_are_read() {
        let text = "GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\nGET";
        let request = get(text);
        assert_eq!(
            (request.method, &request.path[..]),
            (Method::Get, "/metrics")
        );
        assert_eq!(request.len, text.len() - 3);
        assert!(request.keeps_alive);
        assert_eq!(request.format, Format::Prometheus);
        let request = get("HEAD http://host:1/health HTTP/1.0\r\n\r\n");
        assert_eq!(
            (request.method, &request.path[..]),
            (Method::Head, "/health")
        );
        assert!(!request.keeps_alive);
        assert_eq!(get("POST http://host HTTP/1.1\r\n\r\n").path, "/");
        assert!(!get("GET / HTTP/1.1\r\nConnection: x, Close\r\n\r\n").keeps_alive);
        assert_eq!(parse(b"GET /metrics HTTP/1.1\r\nHost"), Ok(None));
    }

    #[test]
    fn what_cannot_be_served_has_a_status() {
        for (bytes, status) in [
            (
                &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
                BAD_REQUEST,
            ),
            (b"PING\r\n\r\n", BAD_REQUEST),
            (b"GET /\0 HTTP/1.1\r\n\r\n", BAD_REQUEST),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", VERSION_NOT_SUPPORTED),
            (
                b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\n",
                CONTENT_TOO_LARGE,
            ),
            (
                b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
                CONTENT_TOO_LARGE,
            ),
        ] {
            assert_eq!(parse(bytes), Err(status), "{}", bytes.escape_ascii());
        }
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(HEAD_BYTES_MAX));
        assert_eq!(parse(long.as_bytes()), Err(HEADERS_TOO_LARGE));
        let many = format!(
            "GET / HTTP/1.1\r\n{}\r\n",
            "a: b\r\n".repeat(HEADERS_MAX + 1)
        );
        assert_eq!(parse(many.as_bytes()), Err(HEADERS_TOO_LARGE));
    }

    #[test]
    fn damaged_requests_are_refused_or_incomplete() {
        let text = b"GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: text/plain\r\n\r\n";
        for end in 0..text.len() {
            assert_eq!(parse(&text[..end]), Ok(None), "{end}");
        }
        let mut state = 7u64;
        for _ in 0..20_000 {
            let mut bytes = text.to_vec();
            for _ in 0..3 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let at = (state >> 33) as usize % bytes.len();
                bytes[at] = (state >> 20) as u8;
            }
            // Any result is right, but none may be a panic.
            let _ = parse(&bytes);
        }
    }

    #[test]
    fn the_format_follows_the_header_accept() {
        for (accept, format) in [
            ("", Format::Prometheus),
            ("*/*", Format::Prometheus),
            ("application/openmetrics-text", Format::OpenMetrics),
            ("application/openmetrics-text;q=0", Format::Prometheus),
            (
                "application/openmetrics-text;version=2.0.0",
                Format::Prometheus,
            ),
            (
                "text/plain;version=0.0.4;q=0.5,application/openmetrics-text;version=1.0.0;q=0.4",
                Format::Prometheus,
            ),
            // Prometheus 2.42 and 3.
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                Format::OpenMetrics,
            ),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,/;q=0.1",
                Format::OpenMetrics,
            ),
        ] {
            assert_eq!(preferred(accept), format, "{accept}");
        }
    }
}
