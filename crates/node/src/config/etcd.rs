//! Settings of the etcd cluster that stores members and maps.

use super::Invalid;
use ::membership::access::Access;
use std::path::PathBuf;
use std::time::Duration;

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
    /// Endpoints, certificates, user and prefix.
    pub access: Access,
    /// Time after which a node that does not renew its lease is no longer registered.
    pub lease: Duration,
    /// Period after which the bytes written by the nodes are compared with their weights, so that
    /// parity can be placed again if they have drifted apart; zero for never.
    pub rebalance: Duration,
    /// File with a copy of the last map, from which the node can start without etcd.
    pub copy: Option<PathBuf>,
}

impl Default for EtcdConfig {
    fn default() -> Self {
        EtcdConfig {
            access: Access::new("/mayfly/edge/"),
            lease: Duration::from_secs(10),
            rebalance: REBALANCE_TIME,
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
                    self.access.add_endpoint(endpoint)?;
                }
            }
            ["etcd-prefix", prefix] => {
                self.access.prefix = format!("{}/", prefix.trim_end_matches('/'));
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
            ["etcd-ca", file] => self.access.authorities = Some(file.into()),
            ["etcd-cert", file, key] => self.access.certificate = Some((file.into(), key.into())),
            ["etcd-user", name, file] => self.access.user = Some(((*name).into(), file.into())),
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
        self.access.check()?;
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
        Ok(())
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let invalid = |_| format!("'{text}': expected a number of seconds");
    text.parse().map(Duration::from_secs).map_err(invalid)
}
