//! Settings of a node. All have defaults, and each limit says what it limits.

mod cluster;
mod etcd;
mod file;
mod log;

pub(crate) use cluster::SERVERS_MAX;
pub use cluster::{ClusterConfig, Security, Server};
pub use etcd::EtcdConfig;
pub use file::{File, Setting, Value};
pub use log::{LogField, LogFormat};

use crate::clock::Clock;
use crate::rules::forwarded::Network;
use crate::rules::freshness::Grace;
use crate::rules::operator::Rule;
use hyper::Uri;
use hyper::http::uri::Authority;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Number of shards of the store. An object must fit in one shard.
pub(crate) const STORE_SHARDS: u64 = 8;

/// Minimum number of segments of the disk tier.
const SEGMENTS_MIN: u64 = 4;

/// Default of [`Config::scrub_bytes_per_second`]: a small part of a disk's bandwidth, at which a
/// terabyte still takes only three days.
const SCRUB_BYTES_PER_SECOND: u64 = 4 << 20;

/// Minimum length of a token.
const TOKEN_BYTES_MIN: usize = 16;

/// Settings of a node.
#[derive(Clone, Debug)]
pub struct Config {
    /// Addresses for clients without TLS.
    pub listen: Vec<SocketAddr>,
    /// Paths of Unix sockets for clients without TLS.
    pub listen_unix: Vec<PathBuf>,
    /// Whether each connection of a client begins with a header of the PROXY protocol. Only peers
    /// in [`Config::trusted`] may then connect.
    pub has_proxy_header: bool,
    /// Addresses for clients with TLS.
    pub listen_tls: Vec<SocketAddr>,
    /// Files with the certificate chain and its private key, in PEM; required for `listen_tls`.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Address for metrics, health checks and purges.
    pub admin: Option<SocketAddr>,
    /// Files with the certificate chain for operators and its private key, in PEM; without them,
    /// operators connect without TLS.
    pub admin_certificate: Option<(PathBuf, PathBuf)>,
    /// Token that operators need for everything but health checks and purges, if they need one.
    pub admin_token: Option<String>,
    /// Token that purges need. Without a token, all purges are refused.
    pub purge_token: Option<String>,
    /// Origins that requests are forwarded to, by host.
    pub origins: Vec<Origin>,
    /// Addresses of proxies whose X-Forwarded-For and X-Forwarded-Proto are used.
    pub trusted: Vec<Network>,
    /// Rules for hosts and paths. The first one that matches a request applies.
    pub rules: Vec<Rule>,
    /// Memory in bytes for the store and for content outside it: of fetches and of replies.
    pub memory_bytes: u64,
    /// Eviction policy of the memory tier, by name.
    pub policy: String,
    /// Disk tier, if there is one.
    pub disk: Option<DiskConfig>,
    /// Maximum number of bytes per second that are read to verify the disk tier; 0 turns
    /// verification off.
    pub scrub_bytes_per_second: u64,
    /// Maximum size of a stored object, in bytes.
    pub object_bytes_max: u64,
    /// Times for which stale responses are kept and used.
    pub grace: Grace,
    /// Name of the node in the fields Via and Cache-Status; a token.
    pub name: String,
    /// File of the access log; `-` is standard output.
    pub access_log: Option<PathBuf>,
    /// Format of its lines.
    pub access_log_format: LogFormat,
    /// Cluster to which the node belongs; `None` for a standalone node.
    pub cluster: Option<ClusterConfig>,
    /// Limits on the use of resources by clients and origins.
    pub limits: Limits,
    /// Whether plain requests for responses in memory are answered without hyper. Only tests, which
    /// compare both ways, set this to false.
    pub is_direct: bool,
    /// Time source.
    pub clock: Clock,
}

/// Settings of the disk tier.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskConfig {
    /// Folder of the tier, which no other process may use.
    pub folder: PathBuf,
    /// Capacity of the tier's files, in bytes.
    pub bytes: u64,
}

impl DiskConfig {
    /// Returns the size of a segment in bytes: a fraction of the tier, and large enough for the
    /// largest response.
    pub(crate) fn segment_bytes(&self, object_bytes_max: u64) -> u64 {
        let least = object_bytes_max.saturating_add(1 << 20);
        (self.bytes / 64).min(256 << 20).max(least).min(2 << 30)
    }
}

/// Origin of some hosts: servers with the same content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// Hosts of the requests, with a port unless it is the scheme's default; empty for all hosts
    /// that no other origin has.
    pub hosts: Vec<String>,
    /// Scheme and authority of each server.
    pub servers: Vec<Uri>,
    /// Health checks of the servers.
    pub health: Option<Health>,
}

/// Health checks of an origin's servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Health {
    /// Path that is requested. A server is healthy if the status is 2xx or 3xx.
    pub path: String,
    /// Time between two checks, and time limit of a check.
    pub interval: Duration,
}

/// Parses the URL of a server: scheme and authority, without a path.
pub(crate) fn server(text: &str) -> Option<Uri> {
    let url: Uri = text.parse().ok()?;
    let is_scheme_known = matches!(url.scheme_str(), Some("http" | "https"));
    let has_path = url.path() != "/" || url.query().is_some();
    // A name and a password before the host are refused, because they would not be sent.
    let is_host = |authority: &Authority| !authority.as_str().contains('@');
    (is_scheme_known && !has_path && url.authority().is_some_and(is_host)).then_some(url)
}

impl Origin {
    /// Returns the hosts for messages.
    pub(crate) fn names(&self) -> Vec<&str> {
        match self.hosts.is_empty() {
            true => vec!["all other hosts"],
            false => self.hosts.iter().map(String::as_str).collect(),
        }
    }
}

impl std::str::FromStr for Origin {
    type Err = Invalid;

    /// Parses `http://127.0.0.1:8080` or `example.org=http://127.0.0.1:8080`.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let expected = "expected http://HOST[:PORT] or NAME=http://HOST[:PORT]";
        let invalid = || Invalid(format!("origin '{text}': {expected}"));
        let (hosts, url) = match text.split_once('=') {
            Some(("", _)) => return Err(invalid()),
            Some((host, url)) => (vec![host.to_ascii_lowercase()], url),
            None => (vec![], text),
        };
        Ok(Origin {
            hosts,
            servers: vec![server(url).ok_or_else(invalid)?],
            health: None,
        })
    }
}

/// Limits on the resources that clients and origins can use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of client connections. Further ones wait until one is closed.
    pub connections: usize,
    /// Maximum size in bytes of a request's head in HTTP/1.1, and of its fields in HTTP/2.
    pub head_bytes: usize,
    /// Maximum number of header fields in a request or a response.
    pub fields: usize,
    /// Maximum number of concurrent requests on one HTTP/2 connection.
    pub streams: u32,
    /// Maximum size of a request's body in bytes.
    pub request_bytes: u64,
    /// Time limit for receiving a request's head.
    pub head_time: Duration,
    /// Time limit for a TLS handshake.
    pub handshake_time: Duration,
    /// Maximum time without progress in either direction on a client's connection.
    pub client_idle: Duration,
    /// Time limit for connecting to an origin.
    pub connect_time: Duration,
    /// Time limit for the head of an origin's response.
    pub origin_head_time: Duration,
    /// Maximum time between two parts of an origin's response.
    pub origin_idle: Duration,
    /// Time limit for an origin's whole response, if there is one.
    pub origin_total: Option<Duration>,
    /// Time for which the origin is awaited if a stale response may be used instead.
    pub stale_wait: Duration,
    /// Time that open connections have to finish when the node stops.
    pub stop_time: Duration,
    /// Maximum time for a purge to reach the other nodes. A response that another node sends within
    /// this time after a purge may be older than the purge, and is then not stored.
    pub purge_transit: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 16_384,
            head_bytes: 32 << 10,
            fields: 100,
            streams: 128,
            request_bytes: 1 << 30,
            head_time: Duration::from_secs(10),
            handshake_time: Duration::from_secs(10),
            client_idle: Duration::from_secs(60),
            connect_time: Duration::from_secs(5),
            origin_head_time: Duration::from_secs(30),
            origin_idle: Duration::from_secs(30),
            origin_total: None,
            stale_wait: Duration::from_secs(1),
            stop_time: Duration::from_secs(10),
            purge_transit: Duration::from_secs(1),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            listen: vec![],
            listen_unix: vec![],
            has_proxy_header: false,
            listen_tls: vec![],
            certificate: None,
            admin: None,
            admin_certificate: None,
            admin_token: None,
            purge_token: None,
            origins: vec![],
            trusted: vec![],
            rules: vec![],
            memory_bytes: 256 << 20,
            policy: "s3fifo".into(),
            disk: None,
            scrub_bytes_per_second: SCRUB_BYTES_PER_SECOND,
            object_bytes_max: 8 << 20,
            grace: Grace::default(),
            name: "mayfly".into(),
            access_log: None,
            access_log_format: LogFormat::default(),
            cluster: None,
            limits: Limits::default(),
            is_direct: true,
            clock: Clock::System,
        }
    }
}

/// Error for an invalid setting. The text says what was expected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invalid(pub String);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Invalid {}

impl From<::membership::Invalid> for Invalid {
    fn from(invalid: ::membership::Invalid) -> Self {
        Invalid(invalid.0)
    }
}

impl Config {
    /// Checks settings that depend on each other.
    ///
    /// # Errors
    /// Returns the first contradiction.
    pub fn check(&self) -> Result<(), Invalid> {
        let invalid = |text: String| Err(Invalid(text));
        if self.origins.is_empty() {
            return invalid(
                "no origin: expected at least one, such as http://127.0.0.1:8080".into(),
            );
        }
        let mut hosts: Vec<_> = self.origins.iter().flat_map(Origin::names).collect();
        hosts.sort_unstable();
        if let Some(twice) = hosts.windows(2).find(|pair| pair[0] == pair[1]) {
            let host = twice[0];
            return invalid(format!("origins: expected one for {host}, found several"));
        }
        if self.limits.connections == 0 {
            return invalid("no connections: expected at least one".into());
        }
        if self.has_proxy_header && self.trusted.is_empty() {
            return invalid("PROXY protocol: expected the addresses of trusted balancers".into());
        }
        let plain = self.listen.len() + self.listen_unix.len();
        if plain + self.listen_tls.len() == 0 {
            return invalid("no address to listen on: expected at least one".into());
        }
        if !self.listen_tls.is_empty() && self.certificate.is_none() {
            return invalid("TLS without a certificate: expected a certificate and its key".into());
        }
        let part = self.memory_bytes / STORE_SHARDS;
        if self.object_bytes_max > part / 2 {
            return invalid(format!(
                "largest object of {} bytes: expected at most {} bytes, a sixteenth of the memory",
                self.object_bytes_max,
                part / 2
            ));
        }
        if let Some(disk) = &self.disk {
            let least = SEGMENTS_MIN * disk.segment_bytes(self.object_bytes_max);
            if disk.bytes < least {
                return invalid(format!(
                    "disk of {} bytes: expected at least {least} bytes for responses of up to {} bytes",
                    disk.bytes, self.object_bytes_max
                ));
            }
        }
        if let Some(cluster) = &self.cluster {
            cluster.check()?;
        }
        let is_token = |byte| crate::rules::directives::is_token(byte);
        if self.name.is_empty() || self.name.len() > 64 || !self.name.bytes().all(is_token) {
            return invalid(format!(
                "name '{}': expected letters, digits, '.', '-' or '_', at most 64",
                self.name
            ));
        }
        let tokens = [("purge", &self.purge_token), ("admin", &self.admin_token)];
        for (name, token) in tokens {
            let is_good = |token: &String| {
                let is_visible = token.bytes().all(|byte| byte.is_ascii_graphic());
                token.len() >= TOKEN_BYTES_MIN && is_visible
            };
            if !token.as_ref().is_none_or(is_good) {
                return invalid(format!(
                    "{name} token: expected at least {TOKEN_BYTES_MIN} characters, no blanks, ASCII only"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(origins: &[&str], connections: usize) -> Result<(), Invalid> {
        let origins: Result<Vec<Origin>, Invalid> =
            origins.iter().map(|text| text.parse()).collect();
        let mut config = Config {
            listen: vec!["127.0.0.1:0".parse().expect("the text is valid")],
            origins: origins?,
            ..Config::default()
        };
        config.limits.connections = connections;
        config.check()
    }

    /// Regression: the second of two origins for a host, a user name in a URL, and a limit of 0
    /// connections were accepted although they could not work.
    #[test]
    fn settings_without_effect_are_refused() {
        assert_eq!(
            checked(&["http://a", "b=http://c", "d=https://c:1"], 1),
            Ok(())
        );
        for origins in [
            &["http://a", "http://b"][..],
            &["b=http://a", "B=http://c"],
            &["http://name:password@a"],
            &["b=http://name@a"],
        ] {
            assert!(checked(origins, 1).is_err(), "{origins:?}");
        }
        assert!(checked(&["http://a"], 0).is_err());
    }
}
