//! Key of the cache: scheme, authority, path and query of a request.

use super::fields::Lines;
use hyper::header::HOST;
use hyper::{Request, Uri};
use std::fmt;

/// Maximum length of a key in bytes. Longer requests are refused with 414.
pub const BYTES_MAX: usize = 8_192;

/// Reason why a request has no key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invalid {
    /// Host is missing, repeated, malformed, or differs from the request's target.
    Host,
    /// The target is not a path.
    Target,
    /// The key would be longer than [`BYTES_MAX`].
    Length,
}

/// Scheme, authority, path and query, as one text: `http://host/path?query`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    text: Box<str>,
    host_start: u32,
    host_end: u32,
}

impl Key {
    /// Returns the key of a request. `is_tls` says whether its connection uses TLS.
    ///
    /// # Errors
    /// Returns the reason if the request has no valid host or target.
    pub fn of<B>(request: &Request<B>, is_tls: bool) -> Result<Self, Invalid> {
        let authority = request.uri().authority();
        let authority = authority.map(|authority| authority.as_str());
        let host = host(authority, request.headers())?;
        Self::new(is_tls, host, target(request.uri())?)
    }

    /// Returns the key of a request whose target is a path without a fragment, like [`Key::of`].
    ///
    /// # Errors
    /// Returns the reason if the request has no valid host or target.
    pub fn of_path(is_tls: bool, path: &str, request: &impl Lines) -> Result<Self, Invalid> {
        debug_assert!(path.starts_with('/') && !path.contains('#'));
        Self::new(is_tls, host(None, request)?, path)
    }

    /// Creates a key from its parts.
    ///
    /// # Errors
    /// Returns an error if the key is too long.
    pub fn new(is_tls: bool, host: &str, target: &str) -> Result<Self, Invalid> {
        let scheme = if is_tls { "https://" } else { "http://" };
        let default_port = if is_tls { ":443" } else { ":80" };
        let host = host.strip_suffix(default_port).unwrap_or(host);
        let length = scheme.len() + host.len() + target.len();
        if length > BYTES_MAX {
            return Err(Invalid::Length);
        }
        let mut text = String::with_capacity(length);
        text.push_str(scheme);
        text.push_str(host);
        text.make_ascii_lowercase();
        let host_start = scheme.len() as u32;
        let host_end = text.len() as u32;
        text.push_str(target);
        Ok(Key {
            text: text.into(),
            host_start,
            host_end,
        })
    }

    /// Normalizes a prefix of URLs to the spelling of keys: scheme and host in lower case, and a
    /// complete host without the scheme's default port. Returns `None` without a scheme.
    pub fn prefix(text: &str) -> Option<String> {
        let (scheme, rest) = text.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let port = match &*scheme {
            "http" => ":80",
            "https" => ":443",
            _ => return None,
        };
        let host_end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, target) = rest.split_at(host_end);
        let host = host.to_ascii_lowercase();
        // Without a path, the port may be the beginning of a longer one.
        let host = match target {
            "" => &host,
            _ => host.strip_suffix(port).unwrap_or(&host),
        };
        Some(format!("{scheme}://{host}{target}"))
    }

    /// Parses the text of a key.
    pub fn parse(text: &str) -> Option<Self> {
        let (is_tls, rest) = match text.strip_prefix("https://") {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix("http://")?),
        };
        let host_end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, target) = rest.split_at(host_end);
        let target = if target.is_empty() { "/" } else { target };
        let is_valid = !host.is_empty() && target.starts_with('/');
        Key::new(is_tls, host, target).ok().filter(|_| is_valid)
    }

    /// Returns the key under which a chunk of this URL's responses is stored; `None` if it is too
    /// long. No request has such a key, because a target has no fragment.
    pub fn chunk(&self, chunk: usize) -> Option<Self> {
        let target = format!("{}#{chunk}", self.target());
        Key::new(self.is_tls(), self.host(), &target).ok()
    }

    /// Returns the key of a URL that a response names, if it is on the same host.
    pub fn sibling(&self, reference: &str) -> Option<Self> {
        let origin = &self.text[..self.host_end as usize];
        if let Some(target) = reference.strip_prefix(origin) {
            let is_target = target.is_empty() || target.starts_with('/');
            return is_target
                .then(|| self.with_target(if target.is_empty() { "/" } else { target }))?;
        }
        if reference.starts_with("//") || reference.contains("://") {
            return None;
        }
        if reference.starts_with('/') {
            return self.with_target(reference);
        }
        // The reference is relative to the last slash of the path.
        let path = self.target().split('?').next().unwrap_or("/");
        let folder = &path[..=path.rfind('/')?];
        self.with_target(&format!("{folder}{reference}"))
    }

    fn with_target(&self, target: &str) -> Option<Self> {
        let target = target.split('#').next().unwrap_or(target);
        Key::new(self.is_tls(), self.host(), target).ok()
    }

    /// Returns the URL and the number of the chunk that is stored under this key; `None` for a URL.
    pub fn of_chunk(&self) -> Option<(Self, usize)> {
        let (target, chunk) = self.target().rsplit_once('#')?;
        let url = Key::new(self.is_tls(), self.host(), target).ok()?;
        Some((url, chunk.parse().ok()?))
    }

    /// Returns the whole text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the host, with its port unless it is the scheme's default.
    pub fn host(&self) -> &str {
        &self.text[self.host_start as usize..self.host_end as usize]
    }

    /// Returns path and query.
    pub fn target(&self) -> &str {
        &self.text[self.host_end as usize..]
    }

    /// Returns true if the scheme is `https`.
    pub fn is_tls(&self) -> bool {
        self.host_start == 8
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns the host of a request. HTTP/2 has it in the target, HTTP/1.1 in Host. If both are
/// present, they must agree, because two programs could otherwise see different hosts in one
/// request.
fn host<'a>(authority: Option<&'a str>, request: &'a impl Lines) -> Result<&'a str, Invalid> {
    let mut lines = request.lines(&HOST);
    let line = lines.next();
    if lines.next().is_some() {
        return Err(Invalid::Host);
    }
    let line = match line {
        Some(line) => Some(std::str::from_utf8(line).map_err(|_| Invalid::Host)?),
        None => None,
    };
    let host = match (authority, line) {
        (Some(target), Some(line)) if !target.eq_ignore_ascii_case(line) => {
            return Err(Invalid::Host);
        }
        (Some(host), _) | (None, Some(host)) => host,
        (None, None) => return Err(Invalid::Host),
    };
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]%~".contains(&byte);
    if host.is_empty() || !host.bytes().all(is_part) {
        return Err(Invalid::Host);
    }
    Ok(host)
}

fn target(uri: &Uri) -> Result<&str, Invalid> {
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    if target.starts_with('/') {
        Ok(target)
    } else if target == "*" || target.is_empty() {
        Err(Invalid::Target)
    } else {
        // The path of `http://host?query` is empty.
        Err(Invalid::Target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(target: &str, hosts: &[&str]) -> Result<String, Invalid> {
        let mut request = Request::builder().uri(target);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        Key::of(&request.body(()).expect("the input is valid"), false).map(|key| key.to_string())
    }

    #[test]
    fn hosts_have_no_case_and_no_default_port() {
        assert_eq!(
            of("/A?b", &["EXAMPLE.org:80"]).expect("the input is valid"),
            "http://example.org/A?b"
        );
        assert_eq!(
            of("/", &["a:8080"]).expect("the input is valid"),
            "http://a:8080/"
        );
        assert_eq!(
            of("http://a/x", &["A"]).expect("the input is valid"),
            "http://a/x"
        );
    }

    #[test]
    fn ambiguous_hosts_are_refused() {
        assert_eq!(of("/", &[]), Err(Invalid::Host));
        assert_eq!(of("/", &[""]), Err(Invalid::Host));
        assert_eq!(of("/", &["a", "b"]), Err(Invalid::Host));
        assert_eq!(of("http://a/", &["b"]), Err(Invalid::Host));
        assert_eq!(of("/", &["a/b"]), Err(Invalid::Host));
        assert_eq!(of("/", &["a@b"]), Err(Invalid::Host));
    }

    #[test]
    fn the_text_of_a_key_is_read() {
        for text in ["http://a/x?y", "https://a:8/", "http://a/#3"] {
            assert_eq!(Key::parse(text).expect("a key").as_str(), text);
        }
        assert_eq!(Key::parse("http://A").expect("a key").as_str(), "http://a/");
        for text in ["", "/x", "http://", "http:///x", "http://a?x", "ftp://a/"] {
            assert_eq!(Key::parse(text), None, "{text}");
        }
    }

    #[test]
    fn no_request_has_the_key_of_a_chunk() {
        let key = Key::parse("http://a/x?y").expect("a key");
        let chunk = key.chunk(3).expect("it is short");
        assert_eq!(chunk.as_str(), "http://a/x?y#3");
        assert_eq!(chunk.of_chunk(), Some((key.clone(), 3)));
        assert_eq!(key.of_chunk(), None);
        assert_eq!(
            of("/x?y#3", &["a"]).expect("the input is valid"),
            "http://a/x?y"
        );
        assert_eq!(
            of("http://a/x?y#3", &["a"]).expect("the input is valid"),
            "http://a/x?y"
        );
    }

    #[test]
    fn siblings_are_on_the_same_host() {
        let key = Key::new(false, "a", "/x/y?z").expect("the input is valid");
        let sibling = |reference| key.sibling(reference).map(|key| key.to_string());
        assert_eq!(sibling("/q").as_deref(), Some("http://a/q"));
        assert_eq!(sibling("w?v").as_deref(), Some("http://a/x/w?v"));
        assert_eq!(sibling("http://a/q#f").as_deref(), Some("http://a/q"));
        assert_eq!(sibling("http://b/q"), None);
        assert_eq!(sibling("http://ab/q"), None);
        assert_eq!(sibling("//b/q"), None);
    }

    #[test]
    fn long_keys_are_refused() {
        let long = format!("/{}", "a".repeat(BYTES_MAX));
        assert_eq!(Key::new(false, "a", &long), Err(Invalid::Length));
    }
}
