//! Failed authentications by address. They delay further attempts from the same address.
//!
//! An address may fail a few times without delay. After each further failure, attempts to
//! authenticate from that address wait before the password is checked: 50 ms, then twice as long
//! each time, up to a second. The failures of an address are forgotten a minute after the last one.
//!
//! Attempts from several connections wait at the same time, but they are checked one after the
//! other, at most twenty per second: otherwise an address could guess as many passwords per second
//! as it has connections. An attempt that would wait for more than ten seconds is refused without a
//! check. A client with the right password on such an address therefore logs in about a second
//! later, unless others there make even more attempts. Clients on other addresses never wait.

use crate::clock::Moment;
use crate::notices::Lines;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard};

/// Number of failures of an address that cause no delay.
const FREE_FAILURES: u32 = 5;
/// Delay after the first failure beyond these, in milliseconds.
const DELAY_MS_MIN: u64 = 50;
/// Maximum delay after the last failure in milliseconds.
const DELAY_MS_MAX: u64 = 1_000;
/// Time between two waiting attempts from one address, in milliseconds.
const SPACING_MS: u64 = 50;
/// Time beyond which an attempt does not wait but is refused, in milliseconds.
const WAIT_MS_MAX: u64 = 10_000;
/// Time after the last failure of an address at which its failures are forgotten, in milliseconds.
const FORGET_MS: u64 = 60_000;
/// Maximum number of addresses. Beyond it, the address whose last failure is the oldest is
/// forgotten.
const ADDRESSES_MAX: usize = 1_024;
/// Number of failures of an address that are logged individually. Later ones are logged whenever
/// their number has doubled.
const LOGGED_FAILURES: u32 = 4;

/// Time at which an attempt to authenticate is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Now.
    Now,
    /// At a given time.
    At(Moment),
    /// Never, because too many others of the address wait.
    Refused,
}

/// A failed attempt that was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Number of recent failures from the address.
    pub count: u32,
    /// Number of failures since the last logged one, if this one should be logged.
    pub skipped: Option<u64>,
}

/// Failures of one address.
#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Moment,
    /// Latest time until which an attempt waits or has waited.
    planned: Moment,
}

impl Failures {
    /// Returns and reserves the time at which the next attempt is checked.
    fn plan(&mut self, now: Moment) -> Admission {
        if self.count <= FREE_FAILURES {
            return Admission::Now;
        }
        let doublings = (self.count - FREE_FAILURES - 1).min(16);
        let delay_ms = (DELAY_MS_MIN << doublings).min(DELAY_MS_MAX);
        let after_last = self.last.0.saturating_add(delay_ms);
        let at = Moment(after_last.max(self.planned.0.saturating_add(SPACING_MS)));
        if at.0 > now.0.saturating_add(WAIT_MS_MAX) {
            return Admission::Refused;
        }
        self.planned = at.max(now);
        match at > now {
            true => Admission::At(at),
            false => Admission::Now,
        }
    }
}

/// Recent failures by address.
#[derive(Debug, Default)]
pub struct Logins {
    addresses: Mutex<HashMap<IpAddr, Failures>>,
    logged: Mutex<Lines>,
}

/// Returns the address whose failures are counted together: an IPv4 address, or the 64-bit network
/// that is usually assigned to an IPv6 host. Clients without a network address share one.
fn group_of(address: &str) -> IpAddr {
    match address.parse::<SocketAddr>().map(|address| address.ip()) {
        Ok(IpAddr::V6(address)) => {
            let network = address.to_bits() >> 64 << 64;
            match address.to_ipv4_mapped() {
                Some(address) => IpAddr::V4(address),
                None if address.is_loopback() => IpAddr::V6(address),
                None => IpAddr::V6(Ipv6Addr::from_bits(network)),
            }
        }
        Ok(address) => address,
        Err(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    }
}

impl Logins {
    fn addresses(&self) -> MutexGuard<'_, HashMap<IpAddr, Failures>> {
        self.addresses.lock().expect("the lock is not poisoned")
    }

    /// Returns when an attempt from this address is checked, and plans it.
    pub fn plan(&self, address: &str, now: Moment) -> Admission {
        let mut addresses = self.addresses();
        if addresses.is_empty() {
            return Admission::Now;
        }
        match addresses.get_mut(&group_of(address)) {
            Some(failures) => failures.plan(now),
            None => Admission::Now,
        }
    }

    /// Records a failure.
    pub fn fail(&self, address: &str, now: Moment) -> Failure {
        let count = self.count(address, now);
        // Many failures in a row must not fill the log, nor those of many addresses.
        let is_wanted = count <= LOGGED_FAILURES || count.is_power_of_two();
        let mut logged = self.logged.lock().expect("the lock is not poisoned");
        Failure {
            count,
            skipped: logged.next(is_wanted, now),
        }
    }

    /// Counts a failure and returns the number of recent failures from the address.
    fn count(&self, address: &str, now: Moment) -> u32 {
        let mut addresses = self.addresses();
        let group = group_of(address);
        if !addresses.contains_key(&group) && addresses.len() >= ADDRESSES_MAX {
            addresses.retain(|_, failures| now.since(failures.last) < FORGET_MS);
            let oldest = addresses.iter().min_by_key(|(_, failures)| failures.last);
            if addresses.len() >= ADDRESSES_MAX
                && let Some(oldest) = oldest.map(|(group, _)| *group)
            {
                addresses.remove(&oldest);
            }
        }
        let failures = addresses.entry(group).or_insert(Failures {
            count: 0,
            last: now,
            planned: Moment::default(),
        });
        if now.since(failures.last) >= FORGET_MS {
            failures.count = 0;
        }
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
        failures.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notices::LINES_MAX;

    const NOW: Moment = Moment(1_000_000);

    fn later(ms: u64) -> Moment {
        Moment(NOW.0 + ms)
    }

    #[test]
    fn delays_double_up_to_a_second_and_concern_one_address() {
        let logins = Logins::default();
        assert_eq!(logins.plan("10.0.0.1:5", NOW), Admission::Now);
        let mut now = NOW;
        let delays: Vec<u64> = (0..12)
            .map(|at| {
                assert_eq!(logins.fail("10.0.0.1:5", now).count, at + 1);
                match logins.plan("10.0.0.1:6", now) {
                    Admission::At(at) => {
                        let delay = at.since(now);
                        now = at;
                        delay
                    }
                    admission => {
                        assert_eq!(admission, Admission::Now);
                        0
                    }
                }
            })
            .collect();
        assert_eq!(delays, [0, 0, 0, 0, 0, 50, 100, 200, 400, 800, 1000, 1000]);
        assert_eq!(logins.plan("10.0.0.2:5", now), Admission::Now);
        assert_eq!(logins.plan("10.0.0.1:5", later(9_000)), Admission::Now);
    }

    /// Regression: all waiting attempts of an address were checked at the same time, so that it
    /// could guess as many passwords per second as it had connections.
    #[test]
    fn attempts_of_many_connections_are_checked_one_after_the_other_or_refused() {
        let logins = Logins::default();
        for _ in 0..20 {
            logins.fail("10.0.0.1:5", NOW);
        }
        let plans: Vec<Admission> = (0..300)
            .map(|port| logins.plan(&format!("10.0.0.1:{}", port + 1), NOW))
            .collect();
        let waiting = plans.iter().take_while(|one| **one != Admission::Refused);
        let times: Vec<u64> = waiting
            .map(|one| match one {
                Admission::At(at) => at.since(NOW),
                other => panic!("{other:?}"),
            })
            .collect();
        let expected: Vec<u64> = (1_000..=10_000).step_by(50).collect();
        assert_eq!(times, expected);
        assert!(
            plans[times.len()..]
                .iter()
                .all(|one| *one == Admission::Refused)
        );
        // The next one waits behind them.
        let next = logins.plan("10.0.0.1:7", later(500));
        assert_eq!(next, Admission::At(later(10_050)));
        assert_eq!(logins.plan("10.0.0.2:7", NOW), Admission::Now);
    }

    #[test]
    fn failures_of_many_addresses_do_not_fill_the_log() {
        let logins = Logins::default();
        let fail = |number: usize, now| {
            let address = format!("10.{}.{}.1:5", number / 256, number % 256);
            logins.fail(&address, now).skipped
        };
        let logged = (0..1_000).filter(|number| fail(*number, NOW).is_some());
        assert_eq!(logged.count(), LINES_MAX as usize);
        let skipped = 1_000 - u64::from(LINES_MAX);
        assert_eq!(fail(1_001, later(FORGET_MS)), Some(skipped));
        assert_eq!(fail(1_002, later(FORGET_MS)), Some(0));
        // The fifth failure of one address is not logged.
        let one: Vec<bool> = (0..8)
            .map(|_| fail(2_000, later(FORGET_MS)).is_some())
            .collect();
        assert_eq!(one, [true, true, true, true, false, false, false, true]);
    }

    #[test]
    fn failures_are_forgotten_after_a_minute() {
        let logins = Logins::default();
        for _ in 0..100 {
            logins.fail("10.0.0.1:5", NOW);
        }
        assert_eq!(logins.fail("10.0.0.1:5", later(59_999)).count, 101);
        assert_eq!(logins.fail("10.0.0.1:5", later(120_000)).count, 1);
    }

    #[test]
    fn the_table_has_a_maximum_and_forgets_the_oldest_address() {
        let logins = Logins::default();
        let address = |number: usize| format!("10.{}.{}.1:5", number / 256, number % 256);
        for number in 0..ADDRESSES_MAX {
            logins.fail(&address(number), later(number as u64));
        }
        let now = later(ADDRESSES_MAX as u64);
        assert_eq!(logins.fail(&address(ADDRESSES_MAX), now).count, 1);
        assert_eq!(logins.addresses().len(), ADDRESSES_MAX);
        assert_eq!(logins.fail(&address(1), now).count, 2);
        assert_eq!(logins.fail(&address(0), now).count, 1, "it was forgotten");
        let now = later(1 << 20);
        assert_eq!(logins.fail("10.99.0.1:5", now).count, 1);
        assert_eq!(logins.addresses().len(), 1);
    }

    #[test]
    fn hosts_of_one_ipv6_network_count_together() {
        let logins = Logins::default();
        assert_eq!(logins.fail("[2001:db8::1]:5", NOW).count, 1);
        assert_eq!(logins.fail("[2001:db8::2]:6", NOW).count, 2);
        assert_eq!(logins.fail("[2001:db8:0:1::2]:6", NOW).count, 1);
        assert_eq!(logins.fail("[::ffff:10.0.0.1]:6", NOW).count, 1);
        assert_eq!(logins.fail("10.0.0.1:7", NOW).count, 2);
        assert_eq!(logins.fail("/run/socket", NOW).count, 1);
    }
}
