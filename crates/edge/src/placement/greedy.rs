//! Placement of parity by a greedy algorithm and exchanges.
//!
//! # Idea
//! Parity that may stay in place stays. The rest goes to the least loaded server that may take it,
//! largest first, so that small chunks fill the gaps that large ones leave. Then, while the most
//! and the least loaded server differ by too much, one chunk moves or two chunks are exchanged. The
//! best such move is the one that brings two servers closest together.
//!
//! # Source
//! R. L. Graham, *Bounds on multiprocessing timing anomalies*, SIAM Journal on Applied Mathematics
//! 17, 1969 (longest first). The problem is from section 5.3.2 of J. Yang, *Designing Efficient and
//! Scalable Key-value Cache Management Systems*, CMU 2024.
//!
//! # Cost
//! The number of parity chunks times the number of servers, plus, for each exchange, the product of
//! the numbers of parity chunks on two servers, sometimes for several pairs. There are at most four
//! exchanges per parity chunk, and at most [`LOOKS`] pairs are examined in all. Each exchange
//! brings two servers closer together.
//!
//! # Departures
//! Graham's machines are equal and take every job. Here, a server has a weight and an initial load,
//! and may not take some buckets.

use super::{Placed, Problem, ServerLoads};

/// Imbalance, (max - min) / min, below which no exchange is made.
pub const TOLERANCE: f64 = 0.001;

/// Maximum number of exchanges per parity chunk.
const EXCHANGES: usize = 4;

/// Maximum number of pairs of parity chunks examined for exchanges, which takes about ten
/// milliseconds.
const LOOKS: usize = 4 << 20;

/// Places parity. It stays where `old` has it, if that is allowed and the balance permits it.
pub fn greedy(problem: &Problem, old: Option<&[Option<u32>]>) -> Placed {
    let count = problem.buckets.len() * problem.p;
    let mut state = State {
        problem,
        loads: ServerLoads::new(problem),
        placed: vec![None; count],
        kept: vec![vec![]; problem.servers.len()],
        looks_left: LOOKS,
    };
    if let Some(old) = old {
        assert_eq!(old.len(), count, "an old placement of the same buckets");
        for (number, server) in old.iter().enumerate() {
            if let Some(server) = server.map(|server| server as usize)
                && server < problem.servers.len()
                && state.is_free(number, server, None)
            {
                state.put(number, server);
            }
        }
    }
    state.place_rest();
    for _ in 0..count * EXCHANGES {
        if !state.exchange() {
            break;
        }
    }
    state.placed
}

struct State<'a> {
    problem: &'a Problem,
    loads: ServerLoads<'a>,
    placed: Placed,
    /// Numbers of the parity chunks on each server.
    kept: Vec<Vec<u32>>,
    looks_left: usize,
}

/// Move of a parity chunk from the fuller server to the emptier one, possibly with a move of
/// another chunk back.
#[derive(Clone, Copy)]
struct Exchange {
    from: usize,
    to: usize,
    away: u32,
    back: Option<u32>,
    /// Difference between the two loads, divided by weight, after the exchange.
    apart: f64,
}

impl State<'_> {
    fn bytes(&self, number: u32) -> u64 {
        self.problem.buckets[number as usize / self.problem.p].parity_bytes
    }

    /// Returns true if a parity chunk may be placed on a server. `leaving` is a parity chunk that
    /// moves away from that server.
    fn is_free(&self, number: usize, server: usize, leaving: Option<u32>) -> bool {
        let p = self.problem.p;
        let bucket = number / p;
        let is_beside = |other: usize| {
            self.placed[other] == Some(server as u32) && leaving != Some(other as u32)
        };
        self.problem.may(bucket, server) && !(bucket * p..(bucket + 1) * p).any(is_beside)
    }

    fn put(&mut self, number: usize, server: usize) {
        self.placed[number] = Some(server as u32);
        self.kept[server].push(number as u32);
        self.loads.bytes[server] += self.bytes(number as u32);
    }

    fn take(&mut self, number: u32, server: usize) {
        self.kept[server].retain(|&other| other != number);
        self.placed[number as usize] = None;
        self.loads.bytes[server] -= self.bytes(number);
    }

    fn place_rest(&mut self) {
        let placed = self.placed.iter().enumerate();
        let mut rest: Vec<usize> = placed
            .filter(|(_, at)| at.is_none())
            .map(|(n, _)| n)
            .collect();
        rest.sort_by_key(|&number| std::cmp::Reverse(self.bytes(number as u32)));
        for number in rest {
            let servers = 0..self.problem.servers.len();
            let free = servers.filter(|&server| self.is_free(number, server, None));
            if let Some(server) = self.loads.least(free) {
                self.put(number, server);
            }
        }
    }

    /// Moves or swaps parity between two servers so that their loads become more equal. Returns
    /// false if all loads are close enough, or if no move reduces the difference.
    fn exchange(&mut self) -> bool {
        let shares = self.problem.servers.iter().enumerate();
        let mut order: Vec<usize> = shares
            .filter(|(_, share)| share.weight > 0)
            .map(|(server, _)| server)
            .collect();
        order.sort_by(|&a, &b| self.loads.by_weight(a).total_cmp(&self.loads.by_weight(b)));
        let (Some(&emptiest), Some(&fullest)) = (order.first(), order.last()) else {
            return false;
        };
        let (least, most) = (
            self.loads.by_weight(emptiest),
            self.loads.by_weight(fullest),
        );
        if most - least <= TOLERANCE * least {
            return false;
        }
        // Tries pairs of the fullest server with the emptier ones first, then of the emptiest with
        // the fuller ones.
        let down = order
            .iter()
            .filter(|&&to| to != fullest)
            .map(|&to| (fullest, to));
        let up = order
            .iter()
            .rev()
            .filter(|&&from| from != emptiest && from != fullest);
        let mut pairs = down.chain(up.map(|&from| (from, emptiest)));
        let Some(best) = pairs.find_map(|(from, to)| self.best(from, to)) else {
            return false;
        };
        self.take(best.away, best.from);
        if let Some(back) = best.back {
            self.take(back, best.to);
            self.put(back as usize, best.from);
        }
        self.put(best.away as usize, best.to);
        true
    }

    /// Returns the exchange between two servers that brings them closest together, if any.
    fn best(&mut self, from: usize, to: usize) -> Option<Exchange> {
        let looks = self.problem.servers.len() + self.kept[from].len() * (1 + self.kept[to].len());
        self.looks_left = self.looks_left.checked_sub(looks)?;
        let shares = &self.problem.servers;
        let (from_weight, to_weight) =
            (f64::from(shares[from].weight), f64::from(shares[to].weight));
        let apart = self.loads.by_weight(from) - self.loads.by_weight(to);
        let mut best: Option<Exchange> = None;
        let mut offer = |away: u32, back: Option<u32>| {
            let moved = self.bytes(away) as f64 - back.map_or(0.0, |back| self.bytes(back) as f64);
            let after = (apart - moved / from_weight - moved / to_weight).abs();
            // The improvement must be at least a thousandth, so that rounding alone does not count.
            let is_better = best.is_none_or(|best| after < best.apart);
            if moved > 0.0 && after < apart * 0.999 && is_better {
                best = Some(Exchange {
                    from,
                    to,
                    away,
                    back,
                    apart: after,
                });
            }
        };
        for &away in &self.kept[from] {
            if self.is_free(away as usize, to, None) {
                offer(away, None);
            }
            for &back in &self.kept[to] {
                let is_longer = self.bytes(away) > self.bytes(back);
                if is_longer
                    && self.is_free(away as usize, to, Some(back))
                    && self.is_free(back as usize, from, Some(away))
                {
                    offer(away, Some(back));
                }
            }
        }
        best
    }
}
