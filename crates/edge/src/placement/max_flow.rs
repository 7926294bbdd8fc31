//! Placement of parity by max-flow.
//!
//! # Idea
//! Bytes of parity flow from a source through buckets to the servers that may store them, and on to
//! a sink. The capacity between a server and the sink is the amount by which the server falls short
//! of its share of all writes. The parity of a bucket then goes to the least loaded of the servers
//! that its bytes reached.
//! ```text
//!          P·s            s             max(ceil(W · weight / weights) - l, 0)
//! source ------> bucket -----> server -----> sink
//! ```
//!
//! # Source
//! Section 5.3.2 and figure 5.5 of J. Yang, *Designing Efficient and Scalable Key-value Cache
//! Management Systems*, CMU 2024; weights after its extension to heterogeneous servers.
//!
//! # Departures
//! - The source has a node for each parity bucket. Here the P parities of one data bucket share a
//!   node, and no server takes more than one parity's bytes from it. This is the largest flow that
//!   can be rounded to P distinct servers. For P = 1 both are the same.
//! - If fewer than P servers received bytes of a bucket, it takes the least loaded of all servers
//!   that may store it. The source does not cover this case.
//! - The assignment is rounded: a flow split between servers goes to one of them, which causes the
//!   remaining imbalance.

use super::network::Network;
use super::{Placed, Problem, ServerLoads};

/// Places all parity, without regard to an earlier placement.
pub fn max_flow(problem: &Problem) -> Placed {
    let arcs = flows(problem);
    let count = problem.servers.len();
    let mut loads = ServerLoads::new(problem);
    let mut placed = Vec::with_capacity(problem.buckets.len() * problem.p);
    for (bucket, need) in problem.buckets.iter().enumerate() {
        let flows = &arcs[bucket * count..][..count];
        let first = placed.len();
        for _ in 0..problem.p {
            let own: &[Option<u32>] = &placed[first..];
            let is_free = |server: &usize| {
                problem.may(bucket, *server) && !own.contains(&Some(*server as u32))
            };
            let reached = (0..count)
                .filter(|server| flows[*server] > 0)
                .filter(is_free);
            let server = loads
                .least(reached)
                .or_else(|| loads.least((0..count).filter(is_free)));
            if let Some(server) = server {
                loads.bytes[server] += need.parity_bytes;
            }
            placed.push(server.map(|server| server as u32));
        }
    }
    placed
}

/// Returns the bytes that flow from each bucket to each server.
fn flows(problem: &Problem) -> Vec<u64> {
    let (buckets, count) = (problem.buckets.len(), problem.servers.len());
    let (source, sink) = (buckets + count, buckets + count + 1);
    let mut network = Network::new(sink + 1);
    let mut arcs = vec![None; buckets * count];
    for (bucket, need) in problem.buckets.iter().enumerate() {
        network.add(
            source,
            bucket,
            need.parity_bytes.saturating_mul(problem.p as u64),
        );
        for server in (0..count).filter(|&server| problem.may(bucket, server)) {
            let arc = network.add(bucket, buckets + server, need.parity_bytes);
            arcs[bucket * count + server] = Some(arc);
        }
    }
    for (server, budget) in budgets(problem).into_iter().enumerate() {
        network.add(buckets + server, sink, budget);
    }
    network.fill(source, sink);
    let flow = |arc: &Option<usize>| arc.map_or(0, |arc| network.flow(arc));
    arcs.iter().map(flow).collect()
}

/// Returns the number of bytes by which each server falls short of its share of all writes.
fn budgets(problem: &Problem) -> Vec<u64> {
    let data = problem
        .servers
        .iter()
        .map(|share| u128::from(share.data_bytes));
    let parity = problem
        .buckets
        .iter()
        .map(|need| u128::from(need.parity_bytes));
    let all = data.sum::<u128>() + parity.sum::<u128>() * problem.p as u128;
    let weights: u128 = problem
        .servers
        .iter()
        .map(|share| u128::from(share.weight))
        .sum();
    let budget = |share: &super::ServerShare| {
        let part = (all * u128::from(share.weight)).div_ceil(weights.max(1));
        let left = part.saturating_sub(u128::from(share.data_bytes));
        u64::try_from(left).unwrap_or(u64::MAX)
    };
    problem.servers.iter().map(budget).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::super::{BucketParity, ServerShare};
    use super::*;

    #[test]
    fn a_server_takes_what_it_lacks_to_its_share() {
        // Loads of 6, 2 and 4, and three parities of 2 in buckets whose data is on the first
        // server: each server should write 6.
        let share = |data_bytes| ServerShare {
            weight: 1,
            data_bytes,
        };
        let need = BucketParity {
            parity_bytes: 2,
            holders: vec![0],
        };
        let problem = Problem {
            servers: vec![share(6), share(2), share(4)],
            buckets: vec![need; 3],
            p: 1,
        };
        assert_eq!(budgets(&problem), [0, 4, 2]);
        let placed = max_flow(&problem);
        assert_eq!(problem.loads(&placed), [6, 6, 6]);
        assert_eq!(problem.imbalance(&placed), 0.0);
    }

    #[test]
    fn max_flow_balances_less_well_than_greedy() {
        let problem = example(200, 10, 3, 1, 1);
        let (flow, greedy) = (max_flow(&problem), super::super::greedy(&problem, None));
        problem.check(&flow);
        let none = vec![None; 200];
        assert!(problem.imbalance(&flow) < problem.imbalance(&none) / 3.0);
        assert!(problem.imbalance(&greedy) < problem.imbalance(&flow));
    }
}
