//! Selection of the groups, and of the servers in each.

use super::workload::Workload;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Indexes of our server: the reference, the sampling index as the paper describes it and its
/// successor, table 4 of the paper, and the other indexes.
pub(super) const INDEXES: &str = "sampled:release=5:shards=8,sampled-5:shards=8,sampled:shards=8,\
buckets:120x1000:shards=8,buckets:60x1000:shards=8,buckets:240x1000:shards=8,buckets:1200x100:shards=8,\
buckets:600x100:shards=8,buckets:2400x100:shards=8,buckets-auto:shards=8,radix,radix-capped:shards=8,\
ebuckets,crawler:60,lazy,ordered,ranked,wheel";

/// Indexes that the chosen series compares in all groups, not only in the first one.
const EVERYWHERE: [&str; 3] = [
    "sampled:release=5:shards=8",
    "buckets:120x1000:shards=8",
    "wheel",
];

/// Time limit for a run of the chosen series: nearly four TTLs. All runs together take less than
/// ten minutes.
pub(super) const CHOSEN_LIMIT: Duration = Duration::from_secs(11);

/// Number of operations before scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Small,
    Medium,
    Large,
}

impl Size {
    const ALL: [Size; 3] = [Size::Small, Size::Medium, Size::Large];

    pub(super) fn operations(self) -> u64 {
        match self {
            Size::Small => 3_000_000,
            Size::Medium => 10_000_000,
            Size::Large => 30_000_000,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Size::Small => "small",
            Size::Medium => "medium",
            Size::Large => "large",
        }
    }
}

/// Parameters under which servers are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub workload: Workload,
    pub size: Size,
    pub ttls_seconds: Vec<u64>,
    pub clients: usize,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ttls: Vec<String> = self.ttls_seconds.iter().map(u64::to_string).collect();
        let (workload, size) = (self.workload.name(), self.size.name());
        write!(f, "{workload}-{size}-{}-{}", ttls.join("+"), self.clients)
    }
}

impl FromStr for Group {
    type Err = String;

    fn from_str(text: &str) -> Result<Group, String> {
        let wrong = || format!("{text:?} is not a group such as a-large-60-4 or f-medium-30+60-1");
        let parts: Vec<&str> = text.split('-').collect();
        let [workload, size, ttls, clients] = parts[..] else {
            return Err(wrong());
        };
        let workload =
            <Workload as clap::ValueEnum>::from_str(workload, false).map_err(|_| wrong())?;
        let size = Size::ALL
            .into_iter()
            .find(|one| one.name() == size)
            .ok_or_else(wrong)?;
        let ttls: Result<Vec<u64>, _> = ttls.split('+').map(str::parse).collect();
        let ttls_seconds = ttls.map_err(|_| wrong())?;
        let clients = clients.parse().map_err(|_| wrong())?;
        let is_sound = (1..=1000).contains(&clients)
            && ttls_seconds.iter().all(|ttl| (1..=86_400).contains(ttl));
        if !is_sound {
            return Err(wrong());
        }
        Ok(Group {
            workload,
            size,
            ttls_seconds,
            clients,
        })
    }
}

fn group(workload: Workload, size: Size, ttls_seconds: &[u64], clients: usize) -> Group {
    Group {
        workload,
        size,
        ttls_seconds: ttls_seconds.to_vec(),
        clients,
    }
}

const TTLS: [&[u64]; 3] = [&[60], &[30, 60], &[15, 30, 45, 60]];

/// Returns the paper's main example: workload a, long-term, one TTL, four clients.
pub(super) fn first() -> Group {
    group(Workload::A, Size::Large, TTLS[0], 4)
}

/// Returns the groups named by the user. If there are none, returns the whole grid, or the chosen
/// series, whose groups each differ from the first in one parameter.
pub(super) fn groups(is_full: bool, asked: &[Group]) -> Vec<Group> {
    if !asked.is_empty() {
        return asked.to_vec();
    }
    if !is_full {
        return vec![
            first(),
            group(Workload::I, Size::Large, TTLS[0], 4),
            group(Workload::F, Size::Large, TTLS[0], 4),
            group(Workload::A, Size::Large, TTLS[1], 4),
            group(Workload::A, Size::Large, TTLS[2], 4),
            group(Workload::A, Size::Large, TTLS[0], 1),
            group(Workload::A, Size::Small, TTLS[0], 4),
        ];
    }
    let mut all = Vec::new();
    for workload in [Workload::A, Workload::F, Workload::I] {
        for size in Size::ALL {
            for ttls in TTLS {
                all.extend([1, 4].map(|clients| group(workload, size, ttls, clients)));
            }
        }
    }
    all
}

/// Returns true if the chosen series includes a server in this group. The first group has all
/// servers. Peers also run in groups with mostly insertions. A few of our indexes, and those named
/// by the user, run in all groups.
pub(super) fn is_chosen(group: &Group, contestant: &str, is_ours: bool) -> bool {
    let is_known = INDEXES.split(',').any(|index| index == contestant);
    let is_everywhere = is_ours && (!is_known || EVERYWHERE.contains(&contestant));
    let is_peers_too = group.workload == Workload::I && !is_ours;
    *group == first() || is_everywhere || is_peers_too
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_as_they_are_written() {
        for group in groups(true, &[]) {
            assert_eq!(group.to_string().parse(), Ok(group));
        }
        for text in [
            "",
            "a",
            "a-large-60",
            "b-large-60-4",
            "a-huge-60-4",
            "a-large--4",
            "a-large-0-4",
            "a-large-60-0",
        ] {
            assert!(text.parse::<Group>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_whole_grid_has_every_pair_and_the_chosen_series_ends_in_ten_minutes() {
        assert_eq!(groups(true, &[]).len(), 3 * 3 * 3 * 2);
        let ours = INDEXES.split(',').map(|index| (index, true));
        let contestants: Vec<(&str, bool)> = ours.chain([("redis", false)]).collect();
        let chosen = groups(false, &[]);
        let count = |group: &Group| {
            let takes = contestants.iter();
            takes.filter(|one| is_chosen(group, one.0, one.1)).count()
        };
        let counts: Vec<usize> = chosen.iter().map(count).collect();
        assert_eq!(counts, [contestants.len(), 4, 3, 3, 3, 3, 3]);
        assert!(
            is_chosen(&chosen[2], "wheel:1", true),
            "the selected groups run"
        );
        // Each run ends with a TTL of 3 s and starts within a second.
        let runs: usize = counts.iter().sum();
        let series = (CHOSEN_LIMIT + Duration::from_secs(4)) * runs as u32;
        assert!(
            series <= Duration::from_secs(600),
            "{runs} runs, {series:?}"
        );
    }

    #[test]
    fn the_chosen_series_has_every_workload_set_of_ttls_number_of_clients_and_index() {
        let chosen = groups(false, &[]);
        for workload in [Workload::A, Workload::F, Workload::I] {
            assert!(chosen.iter().any(|group| group.workload == workload));
        }
        for ttls in TTLS {
            assert!(chosen.iter().any(|group| group.ttls_seconds == ttls));
        }
        for clients in [1, 4] {
            assert!(chosen.iter().any(|group| group.clients == clients));
        }
        for about in policy::expire::any::INDEXES {
            let is_named = |spec: &str| spec.split(':').next() == Some(about.name);
            assert!(INDEXES.split(',').any(is_named), "{}", about.name);
        }
    }
}
