//! The maps that a server knows, flattened, and where a bucket's objects may lie besides the newest one's servers.
//!
//! As many as [`edge::MapHistory`] keeps. Who misses something on the servers of the newest map asks those of the
//! older ones, newest first. What is merged here is made once a map, and not once a request.

use super::places::{NONE, Places, Row};
use edge::OLDER_MAPS_MAX;
use std::collections::VecDeque;

/// Servers by bucket, beside those of the newest map.
#[derive(Default)]
struct Elsewhere {
    /// Where each bucket's begin, and where they all end.
    starts: Vec<u32>,
    servers: Vec<u16>,
    /// How many of a bucket's the next change of the map leaves: the oldest map goes then.
    lasting: Vec<u32>,
}

/// A server that objects of a bucket count on from now on, or no longer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Reach {
    pub(super) server: u16,
    pub(super) is_coded: bool,
    pub(super) bucket: u32,
    pub(super) is_reached: bool,
}

/// See the module text.
pub(super) struct History {
    /// The newest first; never empty.
    maps: VecDeque<Places>,
    /// Of objects that are kept whole, and of coded ones.
    elsewhere: [Elsewhere; 2],
}

pub(super) fn row_of(map: &Places, is_coded: bool, bucket: u32) -> Row<'_> {
    match is_coded {
        true => map.chunks(bucket),
        false => map.copies(bucket),
    }
}

impl History {
    pub(super) fn new(first: Places) -> History {
        let mut history = History {
            maps: VecDeque::from([first]),
            elsewhere: Default::default(),
        };
        history.elsewhere = [false, true].map(|is_coded| history.merged(is_coded));
        history
    }

    /// The newest map.
    pub(super) fn now(&self) -> &Places {
        &self.maps[0]
    }

    /// The servers of the newest map.
    pub(super) fn row(&self, is_coded: bool, bucket: u32) -> Row<'_> {
        row_of(self.now(), is_coded, bucket)
    }

    /// Other servers that had this bucket, each once, those of newer maps first.
    pub(super) fn elsewhere(&self, is_coded: bool, bucket: u32) -> Row<'_> {
        let elsewhere = &self.elsewhere[usize::from(is_coded)];
        let (at, starts) = (bucket as usize, &elsewhere.starts);
        &elsewhere.servers[starts[at] as usize..starts[at + 1] as usize]
    }

    /// The servers where a bucket's objects would be found after one more change of the map, too.
    pub(super) fn lasting(&self, is_coded: bool, bucket: u32) -> impl Iterator<Item = u16> + '_ {
        let count = self.elsewhere[usize::from(is_coded)].lasting[bucket as usize];
        let elsewhere = &self.elsewhere(is_coded, bucket)[..count as usize];
        let servers = self.row(is_coded, bucket).iter().chain(elsewhere);
        servers.copied().filter(|server| *server != NONE)
    }

    /// A new map comes, and the oldest goes; in the order of servers, what is reached otherwise than before.
    pub(super) fn push(&mut self, map: Places) -> Vec<Reach> {
        let buckets = self.elsewhere[0].lasting.len() as u32;
        let mut before = Vec::new();
        for is_coded in [false, true] {
            before.extend(
                (0..buckets).map(|bucket| -> Vec<u16> { self.lasting(is_coded, bucket).collect() }),
            );
        }
        self.maps.push_front(map);
        self.maps.truncate(OLDER_MAPS_MAX + 1);
        self.elsewhere = [false, true].map(|is_coded| self.merged(is_coded));
        let mut changes = Vec::new();
        let mut before = before.into_iter();
        for is_coded in [false, true] {
            for (bucket, then) in (0..buckets).zip(before.by_ref()) {
                let now: Vec<u16> = self.lasting(is_coded, bucket).collect();
                let mut add = |these: &[u16], others: &[u16], is_reached| {
                    let new = these.iter().filter(|server| !others.contains(server));
                    changes.extend(new.map(|&server| Reach {
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

    fn merged(&self, is_coded: bool) -> Elsewhere {
        let mut all = Elsewhere::default();
        for bucket in 0..self.now().buckets() {
            let start = all.servers.len();
            all.starts.push(start as u32);
            let mut lasting = 0;
            for (age, map) in self.maps.iter().enumerate().skip(1) {
                for &server in row_of(map, is_coded, bucket) {
                    let is_known = self.row(is_coded, bucket).contains(&server)
                        || all.servers[start..].contains(&server);
                    if server != NONE && !is_known {
                        all.servers.push(server);
                    }
                }
                if age < OLDER_MAPS_MAX {
                    lasting = all.servers.len() - start;
                }
            }
            all.lasting.push(lasting as u32);
        }
        all.starts.push(all.servers.len() as u32);
        all
    }
}
