//! Settings of the etcd cluster that stores members and maps.

use super::Invalid;
use hyper::Uri;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum number of endpoints.
const ENDPOINTS_MAX: usize = 16;
/// Permitted lease times in seconds. A shorter lease would end while a node looks for an endpoint
/// that answers.
const LEASE_SECONDS: std::ops::RangeInclusive<u64> = 5..=3_600;
/// Minimum of [`EtcdConfig::rebalance`] in seconds, unless it is zero. With shorter periods, eight
/// maps could follow each other before chunks are found under the first of them.
const REBALANCE_SECONDS_MIN: u64 = 60;
/// Maximum of [`EtcdConfig::rebalance`] in seconds.
const REBALANCE_SECONDS_MAX: u64 = 86_400;
/// Default of [`EtcdConfig::rebalance`]. With it, a map follows another one after an hour at the
/// earliest.
const REBALANCE_TIME: Duration = Duration::from_secs(300);

/// Access of a node to etcd, and the place of its values there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EtcdConfig {
    /// Scheme and authority of each endpoint.
    pub endpoints: Vec<Uri>,
    /// Prefix of the names of all values, which ends with `/`.
    pub prefix: String,
    /// Time after which a node that does not renew its lease is no longer registered.
    pub lease: Duration,
    /// Period after which the bytes written by the nodes are compared with their weights, so that
    /// parity can be placed again if they have drifted apart; zero for never.
    pub rebalance: Duration,
    /// File with the certificates of the authorities that sign the endpoints' certificates, in PEM;
    /// `None` for the system's authorities.
    pub authorities: Option<PathBuf>,
    /// Files with the certificate chain of this node for etcd and its private key, in PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// User name, and the file with the password.
    pub user: Option<(String, PathBuf)>,
    /// File with a copy of the last map, from which the node can start without etcd.
    pub copy: Option<PathBuf>,
}

impl Default for EtcdConfig {
    fn default() -> Self {
        EtcdConfig {
            endpoints: vec![],
            prefix: "/mayfly/edge/".into(),
            lease: Duration::from_secs(10),
            rebalance: REBALANCE_TIME,
            authorities: None,
            certificate: None,
            user: None,
            copy: None,
        }
    }
}

impl EtcdConfig {
    /// Parses a line of a cluster file that begins with `etcd`.
    ///
    /// # Errors
    /// Returns a description of what was expected.
    pub(super) fn line(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            ["etcd", endpoints @ ..] if !endpoints.is_empty() => {
                for endpoint in endpoints {
                    self.endpoints.push(parse_endpoint(endpoint)?);
                }
            }
            ["etcd-prefix", prefix] => {
                self.prefix = format!("{}/", prefix.trim_end_matches('/'));
            }
            ["etcd-lease", time] => self.lease = seconds(time)?,
            // A period of less than a minute is permitted for tests only.
            ["etcd-rebalance", time, "test"] => self.rebalance = seconds(time)?,
            ["etcd-rebalance", time] => {
                self.rebalance = seconds(time)?;
                if (1..REBALANCE_SECONDS_MIN).contains(&self.rebalance.as_secs()) {
                    return Err(format!(
                        "etcd-rebalance {time}: expected 0 or {REBALANCE_SECONDS_MIN} to \
                         {REBALANCE_SECONDS_MAX} seconds (less only for tests, as 'etcd-rebalance {time} test')"
                    ));
                }
            }
            ["etcd-ca", file] => self.authorities = Some(file.into()),
            ["etcd-cert", file, key] => self.certificate = Some((file.into(), key.into())),
            ["etcd-user", name, file] => self.user = Some(((*name).into(), file.into())),
            [word, ..] => {
                return Err(format!(
                    "'{word}': expected etcd URL…, etcd-prefix PREFIX, etcd-lease SECONDS, \
                     etcd-rebalance SECONDS, etcd-ca FILE, etcd-cert FILE KEY or etcd-user NAME PASSWORD-FILE"
                ));
            }
            [] => {}
        }
        Ok(())
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// Returns the first invalid setting.
    pub(super) fn check(&self) -> Result<(), Invalid> {
        let invalid = |text: String| Err(Invalid(format!("etcd: {text}")));
        let count = self.endpoints.len();
        if count == 0 || count > ENDPOINTS_MAX {
            return invalid(format!("{count} endpoints: expected 1 to {ENDPOINTS_MAX}"));
        }
        let seconds = self.lease.as_secs();
        let period = self.rebalance.as_secs();
        if period > REBALANCE_SECONDS_MAX {
            return invalid(format!(
                "rebalance after {period} s: expected at most {REBALANCE_SECONDS_MAX}"
            ));
        }
        if !LEASE_SECONDS.contains(&seconds) {
            let (least, most) = (LEASE_SECONDS.start(), LEASE_SECONDS.end());
            return invalid(format!("lease of {seconds} s: expected {least} to {most}"));
        }
        if self.prefix.len() < 2 || !self.prefix.is_ascii() {
            return invalid(format!("prefix '{}': expected ASCII", self.prefix));
        }
        Ok(())
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let invalid = |_| format!("'{text}': expected a number of seconds");
    text.parse().map(Duration::from_secs).map_err(invalid)
}

fn parse_endpoint(text: &str) -> Result<Uri, String> {
    let invalid = || format!("'{text}': expected http://HOST:PORT or https://HOST:PORT");
    let url: Uri = text.parse().map_err(|_| invalid())?;
    let is_scheme_known = matches!(url.scheme_str(), Some("http" | "https"));
    let has_path = url.path() != "/" || url.query().is_some();
    if !is_scheme_known || url.authority().is_none() || has_path {
        return Err(invalid());
    }
    Ok(url)
}
