//! Exact miss counts of LRU for every size in one pass: the stack algorithm.
//!
//! LRU keeps objects on a stack ordered by last access, and a cache holds the top of the stack, as
//! much as fits. A request therefore hits in every cache that is at least as large as the *stack
//! distance*: the weight of the distinct objects requested since the object's last request, plus
//! its own (Mattson, Gecsei, Slutz, Traiger, "Evaluation techniques for storage hierarchies", IBM
//! Systems Journal 9(2), 1970). The weights are summed in a Fenwick tree over the times of last
//! access (Fenwick, "A new data structure for cumulative frequency tables", Software: Practice and
//! Experience 24(3), 1994).
//!
//! A larger cache does not always hold all objects of a smaller one if entries expire or are
//! deleted, or below the size of the largest object, which such a cache rejects. The caller
//! simulates these sizes one by one.

use crate::Columns;

/// Marks an object that was not requested before.
const NEVER: u32 = u32::MAX;

/// Sums of weights over times.
struct Fenwick {
    sums: Vec<u64>,
}

impl Fenwick {
    fn new(len: usize) -> Self {
        Fenwick {
            sums: vec![0; len + 1],
        }
    }

    /// Adds to the weight at a time, wrapping around for a subtraction.
    #[inline]
    fn add(&mut self, at: u32, weight: u64) {
        let mut node = at as usize + 1;
        while let Some(sum) = self.sums.get_mut(node) {
            *sum = sum.wrapping_add(weight);
            node += node & node.wrapping_neg();
        }
    }

    /// Total weight at all times before this one.
    #[inline]
    fn before(&self, at: u32) -> u64 {
        let mut node = at as usize;
        let mut sum = 0u64;
        while node > 0 {
            sum = sum.wrapping_add(self.sums[node]);
            node &= node - 1;
        }
        sum
    }
}

/// Misses of LRU at one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misses {
    /// Number of missed requests.
    pub requests: u64,
    /// Total weight of the missed objects.
    pub weight: u64,
}

/// Computes the misses of LRU at ascending `capacities` after the first `warm_up` requests.
/// `weights` has the weight of each object, none larger than the smallest capacity.
pub(crate) fn lru_misses(
    columns: &Columns,
    weights: impl Fn(u32) -> u64,
    capacities: &[u64],
    warm_up: usize,
) -> Vec<Misses> {
    assert!(capacities.is_sorted());
    let objects = columns.objects();
    // With twice as many times as objects, renumbering is needed at most once per that many
    // requests.
    let instants = (2 * objects).max(1 << 10);
    let mut tree = Fenwick::new(instants);
    let mut last_use = vec![NEVER; objects];
    let mut object_at = vec![NEVER; instants];
    let mut now = 0u32;
    let mut total = 0u64;
    // Hits by the smallest capacity at which they are hits; the last element counts the others.
    let mut hits = vec![Misses::default(); capacities.len() + 1];
    for (row, &id) in columns.ids.iter().enumerate() {
        if now as usize == instants {
            now = renumber(&mut tree, &mut last_use, &mut object_at, &weights);
        }
        let weight = weights(id);
        let before = last_use[id as usize];
        let place = if before == NEVER {
            total += weight;
            capacities.len()
        } else {
            let distance = total - tree.before(before);
            tree.add(before, weight.wrapping_neg());
            object_at[before as usize] = NEVER;
            capacities.partition_point(|capacity| *capacity < distance)
        };
        if row >= warm_up {
            hits[place].requests += 1;
            hits[place].weight += weight;
        }
        tree.add(now, weight);
        last_use[id as usize] = now;
        object_at[now as usize] = id;
        now += 1;
    }
    misses_of(&hits)
}

/// Misses at each capacity: requests that do not hit at it or a smaller one.
fn misses_of(hits: &[Misses]) -> Vec<Misses> {
    let mut misses = Vec::new();
    let mut beyond = Misses::default();
    for hit in hits[1..].iter().rev() {
        beyond.requests += hit.requests;
        beyond.weight += hit.weight;
        misses.push(beyond);
    }
    misses.reverse();
    misses
}

/// Renumbers the times in use from 0 on in their order, and returns the next one.
fn renumber(
    tree: &mut Fenwick,
    last_use: &mut [u32],
    object_at: &mut [u32],
    weights: &impl Fn(u32) -> u64,
) -> u32 {
    let mut next = 0;
    for at in 0..object_at.len() {
        let id = std::mem::replace(&mut object_at[at], NEVER);
        if id != NEVER {
            object_at[next as usize] = id;
            last_use[id as usize] = next;
            next += 1;
        }
    }
    tree.sums.fill(0);
    for at in 0..next {
        tree.sums[at as usize + 1] = weights(object_at[at as usize]);
    }
    // Each node adds its sum to its parent.
    for node in 1..tree.sums.len() {
        let above = node + (node & node.wrapping_neg());
        if above < tree.sums.len() {
            tree.sums[above] = tree.sums[above].wrapping_add(tree.sums[node]);
        }
    }
    next
}
