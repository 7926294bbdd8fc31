//! Which groups run, with which contestants.

use super::workload::Workload;
use std::fmt;
use std::str::FromStr;

/// Ours: the reference and its successor, table 4 of the paper, and the other indexes.
pub(super) const INDEXES: &str = "sampled:release=5:shards=8,sampled:shards=8,\
buckets:120x1000:shards=8,buckets:60x1000:shards=8,buckets:240x1000:shards=8,buckets:1200x100:shards=8,\
buckets:600x100:shards=8,buckets:2400x100:shards=8,radix,radix-capped:shards=8,ebuckets,wheel";

/// Those of them that the chosen series takes beyond its first group.
const EVERYWHERE: [&str; 3] = [
    "sampled:release=5:shards=8",
    "buckets:120x1000:shards=8",
    "wheel",
];

/// How many operations, before scaling.
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

/// One setting in which contestants are compared.
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

/// The paper's example throughout: workload a, one TTL, four clients.
pub(super) fn first() -> Group {
    group(Workload::A, Size::Medium, TTLS[0], 4)
}

/// The groups that were asked for; else every one of the grid, or a chosen few that change one thing each.
pub(super) fn groups(is_full: bool, asked: &[Group]) -> Vec<Group> {
    if !asked.is_empty() {
        return asked.to_vec();
    }
    if !is_full {
        return vec![
            first(),
            group(Workload::F, Size::Medium, TTLS[0], 4),
            group(Workload::I, Size::Medium, TTLS[0], 4),
            group(Workload::A, Size::Medium, TTLS[2], 4),
            group(Workload::A, Size::Small, TTLS[0], 1),
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

/// Whether the chosen series takes a contestant in its first group alone. Peers, and indexes that somebody
/// asked for, run in every group.
pub(super) fn is_of_first_group_only(contestant: &str) -> bool {
    let is_known = INDEXES.split(',').any(|index| index == contestant);
    is_known && !EVERYWHERE.contains(&contestant)
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
    fn the_whole_grid_has_every_pair_and_the_chosen_series_about_twenty_runs() {
        assert_eq!(groups(true, &[]).len(), 3 * 3 * 3 * 2);
        let indexes: Vec<&str> = INDEXES.split(',').collect();
        let count = |group: &Group| {
            let takes = |name: &&&str| *group == first() || !is_of_first_group_only(name);
            indexes.iter().filter(takes).count()
        };
        // One peer beside ours.
        let runs: usize = groups(false, &[])
            .iter()
            .map(|group| count(group) + 1)
            .sum();
        assert!((18..=32).contains(&runs), "{runs}");
    }
}
