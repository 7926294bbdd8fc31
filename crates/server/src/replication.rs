//! Replication: the work of workers for replicas, and the change of roles. The thread that follows
//! a primary is in `replica`. The state is in [`durability::replication`].

pub mod failover;
pub mod primary;
pub mod role;

#[cfg(test)]
mod tests {
    use super::role;
    use crate::state::Server;
    use session::clock::Clock;
    use settings::Config;
    use std::time::Duration;

    #[test]
    fn a_primary_that_is_set_before_the_sleep_ends_it() {
        // Regression: the thread that follows primaries found none, then one was set, and then the
        // thread slept for a minute. FAILOVER did not end meanwhile.
        let clock = Clock::manual(1_700_000_000_000);
        let server = Server::new(Config::default(), clock).expect("valid settings");
        let number = server.replication.number();
        assert!(server.replication.primary().is_none());
        role::follow(&server, "127.0.0.1", 1);
        assert!(server.replication.sleep(number, Duration::from_secs(3600)));
        let number = server.replication.number();
        role::promote(&server);
        assert!(server.replication.sleep(number, Duration::from_secs(3600)));
        let number = server.replication.number();
        assert!(!server.replication.sleep(number, Duration::ZERO));
    }
}
