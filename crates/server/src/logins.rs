//! Failed authentications by address. They delay further attempts from the same address.
//!
//! An address may fail a few times without delay. After each further failure, AUTH and HELLO with
//! AUTH from that address wait before the password is checked: 50 ms, then twice as long each time,
//! up to a second. A client with the right password on such an address therefore logs in, at most a
//! second later, and nobody else waits. The failures of an address are forgotten a minute after the
//! last one.

use crate::clock::Moment;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard};

/// Number of failures of an address that cause no delay.
const FREE_FAILURES: u32 = 5;
/// Delay after the first failure beyond these, in milliseconds.
const DELAY_MS_MIN: u64 = 50;
/// Maximum delay in milliseconds.
const DELAY_MS_MAX: u64 = 1_000;
/// Time after the last failure of an address at which its failures are forgotten, in milliseconds.
const FORGET_MS: u64 = 60_000;
/// Maximum number of addresses. Beyond it, the address whose last failure is the oldest is
/// forgotten.
const ADDRESSES_MAX: usize = 1_024;

/// Failures of one address.
#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Moment,
}

impl Failures {
    /// Returns the time from which the next attempt is checked.
    fn next(&self) -> Moment {
        let doublings = self.count.saturating_sub(FREE_FAILURES + 1).min(16);
        let delay_ms = if self.count > FREE_FAILURES {
            (DELAY_MS_MIN << doublings).min(DELAY_MS_MAX)
        } else {
            0
        };
        Moment(self.last.0.saturating_add(delay_ms))
    }
}

/// Recent failures by address.
#[derive(Debug, Default)]
pub struct Logins {
    addresses: Mutex<HashMap<IpAddr, Failures>>,
}

/// Returns the address whose failures count together: an IPv4 address, or the network of 64 bits
/// that an IPv6 host is usually assigned. Clients without a network address share one.
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

    /// Returns the time until which an attempt from this address must wait; `None` if it need not.
    pub fn delay(&self, address: &str, now: Moment) -> Option<Moment> {
        let addresses = self.addresses();
        if addresses.is_empty() {
            return None;
        }
        let next = addresses.get(&group_of(address))?.next();
        (next > now).then_some(next)
    }

    /// Records a failure and returns the number of recent failures from the address.
    pub fn fail(&self, address: &str, now: Moment) -> u32 {
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

    const NOW: Moment = Moment(1_000_000);

    fn later(ms: u64) -> Moment {
        Moment(NOW.0 + ms)
    }

    #[test]
    fn delays_double_up_to_a_second_and_concern_one_address() {
        let logins = Logins::default();
        assert_eq!(logins.delay("10.0.0.1:5", NOW), None);
        let delays: Vec<u64> = (0..12)
            .map(|at| {
                assert_eq!(logins.fail("10.0.0.1:5", NOW), at + 1);
                let delay = logins.delay("10.0.0.1:6", NOW);
                delay.map_or(0, |next| next.since(NOW))
            })
            .collect();
        assert_eq!(delays, [0, 0, 0, 0, 0, 50, 100, 200, 400, 800, 1000, 1000]);
        assert_eq!(logins.delay("10.0.0.2:5", NOW), None);
        assert_eq!(logins.delay("10.0.0.1:5", later(1000)), None);
    }

    #[test]
    fn failures_are_forgotten_after_a_minute() {
        let logins = Logins::default();
        for _ in 0..100 {
            logins.fail("10.0.0.1:5", NOW);
        }
        assert_eq!(logins.fail("10.0.0.1:5", later(59_999)), 101);
        assert_eq!(logins.fail("10.0.0.1:5", later(120_000)), 1);
    }

    #[test]
    fn the_table_has_a_maximum_and_forgets_the_oldest_address() {
        let logins = Logins::default();
        let address = |number: usize| format!("10.{}.{}.1:5", number / 256, number % 256);
        for number in 0..ADDRESSES_MAX {
            logins.fail(&address(number), later(number as u64));
        }
        let now = later(ADDRESSES_MAX as u64);
        assert_eq!(logins.fail(&address(ADDRESSES_MAX), now), 1);
        assert_eq!(logins.addresses().len(), ADDRESSES_MAX);
        assert_eq!(logins.fail(&address(1), now), 2);
        assert_eq!(logins.fail(&address(0), now), 1, "it was forgotten");
        let now = later(1 << 20);
        assert_eq!(logins.fail("10.99.0.1:5", now), 1);
        assert_eq!(logins.addresses().len(), 1);
    }

    #[test]
    fn hosts_of_one_ipv6_network_count_together() {
        let logins = Logins::default();
        assert_eq!(logins.fail("[2001:db8::1]:5", NOW), 1);
        assert_eq!(logins.fail("[2001:db8::2]:6", NOW), 2);
        assert_eq!(logins.fail("[2001:db8:0:1::2]:6", NOW), 1);
        assert_eq!(logins.fail("[::ffff:10.0.0.1]:6", NOW), 1);
        assert_eq!(logins.fail("10.0.0.1:7", NOW), 2);
        assert_eq!(logins.fail("/run/socket", NOW), 1);
    }
}
