//! Versions of the cluster map, flattened, and the servers that may hold a bucket's objects.
//!
//! The same number of versions is kept as in [`edge::MapHistory`]. A request that misses on the
//! servers of the newest map probes those of the older ones, newest first. The lists are merged
//! once per change of the map instead of once per request.

use super::places::{NONE, Places, ServerList};
use edge::OLDER_MAPS_MAX;
use std::collections::VecDeque;

/// Servers of the older maps by bucket, without those of the newest map.
#[derive(Default)]
struct OlderServers {
    /// Index of each bucket's first server, and at the end the number of all.
    starts: Vec<u32>,
    servers: Vec<u16>,
    /// Number of a bucket's servers that remain after the next change of the map, which drops the
    /// oldest version.
    remaining: Vec<u32>,
}

/// A server on which requests begin or cease to find the objects of a bucket, after a change of the
/// map.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct ReachChange {
    pub(super) server: u16,
    pub(super) is_coded: bool,
    pub(super) bucket: u32,
    pub(super) is_reached: bool,
}

/// The known versions of the map.
pub(super) struct History {
    /// Newest first; never empty.
    maps: VecDeque<Places>,
    /// Servers of older maps: for objects that are kept whole, and for coded ones.
    older_servers: [OlderServers; 2],
}

pub(super) fn row_of(map: &Places, is_coded: bool, bucket: u32) -> ServerList<'_> {
    match is_coded {
        true => map.chunks(bucket),
        false => map.copies(bucket),
    }
}

impl History {
    pub(super) fn new(first: Places) -> History {
        let mut history = History {
            maps: VecDeque::from([first]),
            older_servers: Default::default(),
        };
        history.older_servers = [false, true].map(|is_coded| history.merged(is_coded));
        history
    }

    /// Newest version of the map.
    pub(super) fn now(&self) -> &Places {
        &self.maps[0]
    }

    /// Servers of a bucket in the newest map.
    pub(super) fn row(&self, is_coded: bool, bucket: u32) -> ServerList<'_> {
        row_of(self.now(), is_coded, bucket)
    }

    /// Servers of a bucket in older maps only, each once, newer maps first.
    pub(super) fn older_servers(&self, is_coded: bool, bucket: u32) -> ServerList<'_> {
        let older_servers = &self.older_servers[usize::from(is_coded)];
        let (at, starts) = (bucket as usize, &older_servers.starts);
        &older_servers.servers[starts[at] as usize..starts[at + 1] as usize]
    }

    /// Servers where a bucket's objects would still be found after one more change of the map.
    pub(super) fn remaining(&self, is_coded: bool, bucket: u32) -> impl Iterator<Item = u16> + '_ {
        let count = self.older_servers[usize::from(is_coded)].remaining[bucket as usize];
        let older_servers = &self.older_servers(is_coded, bucket)[..count as usize];
        let servers = self.row(is_coded, bucket).iter().chain(older_servers);
        servers.copied().filter(|server| *server != NONE)
    }

    /// Adds a new version and drops the oldest. Returns the changes of reachable servers, in the
    /// order of servers.
    pub(super) fn push(&mut self, map: Places) -> Vec<ReachChange> {
        let buckets = self.older_servers[0].remaining.len() as u32;
        let mut before = Vec::new();
        for is_coded in [false, true] {
            before.extend(
                (0..buckets)
                    .map(|bucket| -> Vec<u16> { self.remaining(is_coded, bucket).collect() }),
            );
        }
        self.maps.push_front(map);
        self.maps.truncate(OLDER_MAPS_MAX + 1);
        self.older_servers = [false, true].map(|is_coded| self.merged(is_coded));
        let mut changes = Vec::new();
        let mut before = before.into_iter();
        for is_coded in [false, true] {
            for (bucket, then) in (0..buckets).zip(before.by_ref()) {
                let now: Vec<u16> = self.remaining(is_coded, bucket).collect();
                let mut add = |these: &[u16], others: &[u16], is_reached| {
                    let new = these.iter().filter(|server| !others.contains(server));
                    changes.extend(new.map(|&server| ReachChange {
                        server,
                        is_coded,
                        bucket,
                        is_reached,
                    }));
                };
                add(&now, &then, true);
                add(&then, &now, false);
            }
        }
        changes.sort_unstable();
        changes
    }

    fn merged(&self, is_coded: bool) -> OlderServers {
        let mut all = OlderServers::default();
        for bucket in 0..self.now().buckets() {
            let start = all.servers.len();
            all.starts.push(start as u32);
            let mut remaining = 0;
            for (age, map) in self.maps.iter().enumerate().skip(1) {
                for &server in row_of(map, is_coded, bucket) {
                    let is_known = self.row(is_coded, bucket).contains(&server)
                        || all.servers[start..].contains(&server);
                    if server != NONE && !is_known {
                        all.servers.push(server);
                    }
                }
                if age < OLDER_MAPS_MAX {
                    remaining = all.servers.len() - start;
                }
            }
            all.remaining.push(remaining as u32);
        }
        all.starts.push(all.servers.len() as u32);
        all
    }
}
