//! Maximum flow through a network.
//!
//! # Source
//! E. A. Dinic, *Algorithm for solution of a problem of maximum flow in networks with power
//! estimation*,
//! 1970. In each phase, nodes get levels by their distance from the source, and flow is pushed
//!       along arcs that lead to the next level until every path is blocked. The source of the
//!       placement uses a push-relabel solver; the maximum flow is the same.
//!
//! # Cost
//! A phase visits each arc a few times. There is at most one phase per node; our networks (source,
//! buckets, servers, sink) need about five. An arc and its reverse take 24 bytes. Nothing is
//! recursive.

/// Directed network with capacities. Flow is stored as used-up capacity.
#[derive(Default)]
pub(super) struct Network {
    /// Arcs of each node, as indexes into `arcs`. The reverse of an arc is next to it.
    leaving: Vec<Vec<u32>>,
    arcs: Vec<Arc>,
}

#[derive(Clone, Copy)]
struct Arc {
    to: u32,
    left: u64,
}

impl Network {
    pub(super) fn new(nodes: usize) -> Network {
        Network {
            leaving: vec![vec![]; nodes],
            arcs: vec![],
        }
    }

    /// Adds an arc and returns its number.
    pub(super) fn add(&mut self, from: usize, to: usize, capacity: u64) -> usize {
        let number = self.arcs.len();
        self.leaving[from].push(number as u32);
        self.leaving[to].push(number as u32 + 1);
        self.arcs.push(Arc {
            to: to as u32,
            left: capacity,
        });
        self.arcs.push(Arc {
            to: from as u32,
            left: 0,
        });
        number
    }

    /// Returns the flow through an arc.
    pub(super) fn flow(&self, arc: usize) -> u64 {
        self.arcs[arc ^ 1].left
    }

    /// Finds the maximum flow from `source` to `sink` and returns it.
    pub(super) fn fill(&mut self, source: usize, sink: usize) -> u64 {
        let mut total = 0;
        while let Some(levels) = self.levels(source, sink) {
            total += self.fill_levels(source, sink, &levels);
        }
        total
    }

    /// Returns the distances from the source along arcs with remaining capacity; `None` if the sink
    /// is unreachable.
    fn levels(&self, source: usize, sink: usize) -> Option<Vec<u32>> {
        let mut levels = vec![u32::MAX; self.leaving.len()];
        levels[source] = 0;
        let mut queue = vec![source];
        let mut next = 0;
        while let Some(&node) = queue.get(next) {
            next += 1;
            for &arc in &self.leaving[node] {
                let Arc { to, left } = self.arcs[arc as usize];
                if left > 0 && levels[to as usize] == u32::MAX {
                    levels[to as usize] = levels[node] + 1;
                    queue.push(to as usize);
                }
            }
        }
        (levels[sink] != u32::MAX).then_some(levels)
    }

    /// Pushes flow along shortest paths until each is blocked, and returns the total.
    fn fill_levels(&mut self, source: usize, sink: usize, levels: &[u32]) -> u64 {
        let mut tried = vec![0; self.leaving.len()];
        let mut path: Vec<usize> = vec![];
        let mut total = 0;
        loop {
            let node = path
                .last()
                .map_or(source, |&arc| self.arcs[arc].to as usize);
            if node == sink {
                total += self.push(&mut path);
                continue;
            }
            let onward = self.leaving[node][tried[node]..].iter().position(|&arc| {
                let Arc { to, left } = self.arcs[arc as usize];
                left > 0 && levels[to as usize] == levels[node] + 1
            });
            match onward {
                Some(skipped) => {
                    tried[node] += skipped;
                    path.push(self.leaving[node][tried[node]] as usize);
                }
                None => {
                    tried[node] = self.leaving[node].len();
                    let Some(arc) = path.pop() else {
                        return total;
                    };
                    let before = self.arcs[arc ^ 1].to as usize;
                    tried[before] += 1;
                }
            }
        }
    }

    /// Pushes a path's capacity, and truncates the path before its first arc without remaining
    /// capacity.
    fn push(&mut self, path: &mut Vec<usize>) -> u64 {
        let least = path.iter().map(|&arc| self.arcs[arc].left).min();
        let least = least.expect("source and sink differ");
        for &arc in &*path {
            self.arcs[arc].left -= least;
            self.arcs[arc ^ 1].left += least;
        }
        let blocked = path.iter().position(|&arc| self.arcs[arc].left == 0);
        path.truncate(blocked.expect("the least has nothing left"));
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the maximum flow, found by a simple algorithm: paths of any length, each found by a
    /// separate search (Ford and Fulkerson).
    fn plain(nodes: usize, arcs: &[(usize, usize, u64)], source: usize, sink: usize) -> u64 {
        let mut left = vec![vec![0u64; nodes]; nodes];
        for &(from, to, capacity) in arcs {
            left[from][to] += capacity;
        }
        let mut total = 0;
        loop {
            let mut before = vec![usize::MAX; nodes];
            before[source] = source;
            let mut stack = vec![source];
            while let Some(node) = stack.pop() {
                for to in 0..nodes {
                    if left[node][to] > 0 && before[to] == usize::MAX {
                        before[to] = node;
                        stack.push(to);
                    }
                }
            }
            if before[sink] == usize::MAX {
                return total;
            }
            let mut path = vec![sink];
            while path[path.len() - 1] != source {
                path.push(before[path[path.len() - 1]]);
            }
            let steps = || path.windows(2).map(|step| (step[1], step[0]));
            let least = steps()
                .map(|(from, to)| left[from][to])
                .min()
                .expect("a path");
            for (from, to) in steps() {
                left[from][to] -= least;
                left[to][from] += least;
            }
            total += least;
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        #[test]
        fn the_flow_is_valid_and_as_large_as_the_simple_algorithm_finds(
            arcs in prop::collection::vec((0usize..8, 0usize..8, 0u64..20), 0..40),
        ) {
            let arcs: Vec<_> = arcs.into_iter().filter(|(from, to, _)| from != to).collect();
            let mut network = Network::new(8);
            let numbers: Vec<usize> =
                arcs.iter().map(|&(from, to, capacity)| network.add(from, to, capacity)).collect();
            let total = network.fill(0, 7);
            prop_assert_eq!(total, plain(8, &arcs, 0, 7));
            let mut kept = [0i64; 8];
            for (&(from, to, capacity), &number) in arcs.iter().zip(&numbers) {
                prop_assert!(network.flow(number) <= capacity);
                kept[from] -= network.flow(number) as i64;
                kept[to] += network.flow(number) as i64;
            }
            prop_assert_eq!(kept[0], -(total as i64));
            prop_assert!(kept[1..7].iter().all(|&kept| kept == 0));
        }
    }
}
