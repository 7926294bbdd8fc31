//! Round 2: the server's CPU time per operation, by command and case.
//!
//! A measurement is one pass over all elements in random order, so that each request finds its
//! element in the state that the case names. Servers take turns within a round. The commands of a
//! round run in the source's order: fill, set TTLs, read TTLs.

use super::data::{Data, Number, Pass, Seen, State, Test, lacks};
use super::{Elements, LeftOut, Round};
use crate::contestant::{Entrant, Server, Settings};
use crate::error::Result;
use crate::load::{Load, Shape};
use crate::progress::Progress;
use ::report::median;
use serde::Serialize;
use std::time::Instant;
use trace::Random;

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Sample {
    pub cpu_us_per_operation: f64,
    pub operations_per_second: f64,
}

/// Medians over all rounds for one case on one server.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub data: Data,
    pub case: &'static str,
    pub server: String,
    pub version: String,
    pub samples: Vec<Sample>,
    pub cpu_us_median: f64,
    pub operations_per_second_median: f64,
    /// CPU time of this server divided by that of the first server: the median over the rounds.
    pub over_first: Option<f64>,
}

struct Player {
    server: Server,
    load: Load<()>,
    state: State,
    /// Measurements of each test; `None` if the server lacks the command.
    tests: Vec<Option<Vec<Sample>>>,
}

/// Runs round 2 for one kind and layout. Returns the rows and the omitted tests.
pub(super) fn measure(
    options: &Elements,
    entrants: &[Entrant],
    data: Data,
    progress: &Progress,
) -> Result<(Vec<Row>, Vec<LeftOut>)> {
    let tests = data.kind.tests();
    let (mut players, mut left_out) = (Vec::new(), Vec::new());
    for entrant in entrants {
        let (player, lacking) = player(options, entrant, data)?;
        left_out.extend(lacking);
        players.push(player);
    }
    let order = shuffled(options.elements as u32);
    for round in 0..options.rounds {
        for (index, test) in tests.iter().enumerate() {
            for turn in 0..players.len() {
                // The order rotates, so that no server always follows the fastest one.
                let count = players.len();
                let player = &mut players[(turn + round) % count];
                progress.set_message(format!("{} {}", player.server.label, test.name));
                if player.tests[index].is_some() {
                    let sample = sample(player, data, test, &order)?;
                    player.tests[index]
                        .iter_mut()
                        .for_each(|samples| samples.push(sample));
                }
                progress.inc(1);
            }
        }
    }
    let mut rows = Vec::new();
    for (index, test) in tests.iter().enumerate() {
        let first = players
            .first()
            .and_then(|player| player.tests[index].clone());
        for player in &players {
            let samples = player.tests[index].clone();
            rows.extend(samples.map(|samples| row(data, test, player, samples, first.as_deref())));
        }
    }
    Ok((rows, left_out))
}

fn player(options: &Elements, entrant: &Entrant, data: Data) -> Result<(Player, Option<LeftOut>)> {
    let server = entrant.start(&Settings {
        threads: options.threads_of(entrant),
        ..Settings::default()
    })?;
    let shape = Shape {
        connections: options.clients,
        pipeline: options.pipeline,
        is_stream: false,
    };
    let load = Load::connect(&server.label, server.address, shape)?;
    let mut client = server.client()?;
    let (mut known, mut lacking) = (Vec::new(), Vec::new());
    for test in data.kind.tests() {
        let command = lacks(&mut client, test.words)?;
        known.push(command.is_none().then(Vec::new));
        if let Some(command) = command.filter(|command| !lacking.contains(command)) {
            lacking.push(command);
        }
    }
    let left_out = (!lacking.is_empty()).then(|| {
        LeftOut::new(
            &server,
            Round::Throughput,
            &lacking.join(", "),
            "throughput",
        )
    });
    let player = Player {
        server,
        load,
        state: State::Unknown,
        tests: known,
    };
    Ok((player, left_out))
}

/// Returns the numbers below `count` in random order.
fn shuffled(count: u32) -> Vec<u32> {
    let mut random = Random::new(1);
    let mut order: Vec<u32> = (0..count).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, random.below(last as u64 + 1) as usize);
    }
    order
}

fn sample(player: &mut Player, data: Data, test: &Test, order: &[u32]) -> Result<Sample> {
    prepare(player, data, test.needs, order.len() as u64)?;
    player.state = test.leaves;
    let instant = crate::clock::wall_ms() / 1000;
    let server = &player.server;
    let mut pass = Pass {
        template: &data.template(test.words),
        elements: order.iter().map(|element| u64::from(*element)),
        number: |element| test.number.of(element, instant),
        expected: test.expected,
        seen: Seen::default(),
    };
    let (cpu, start) = (server.cpu_ns()?, Instant::now());
    let count = pass.run(&mut player.load, &server.label)? as f64;
    let (cpu_end, seconds) = (server.cpu_ns()?, start.elapsed().as_secs_f64());
    Ok(Sample {
        cpu_us_per_operation: cpu_end.saturating_sub(cpu) as f64 / 1e3 / count,
        operations_per_second: count / seconds,
    })
}

/// Puts all elements into the state that a test needs.
fn prepare(player: &mut Player, data: Data, needed: State, count: u64) -> Result<()> {
    if player.state == needed {
        return Ok(());
    }
    let server = &player.server;
    if player.state != State::Plain {
        server.client()?.call(&["FLUSHALL"])?;
        data.fill(server, 0..count)?;
    }
    if needed == State::WithTtl {
        let now_ms = crate::clock::wall_ms();
        data.expire_at(server, 0..count, |element| {
            now_ms + 1000 * Number::Ttl.of(element, 0)
        })?;
    }
    player.state = needed;
    Ok(())
}

fn row(
    data: Data,
    test: &Test,
    player: &Player,
    samples: Vec<Sample>,
    first: Option<&[Sample]>,
) -> Row {
    let cpu: Vec<f64> = samples.iter().map(|s| s.cpu_us_per_operation).collect();
    let rates: Vec<f64> = samples.iter().map(|s| s.operations_per_second).collect();
    let ratios = first.map(|first| -> Vec<f64> {
        let pairs = first.iter().zip(&cpu);
        pairs
            .map(|(first, cpu)| cpu / first.cpu_us_per_operation)
            .collect()
    });
    Row {
        data,
        case: test.name,
        server: player.server.label.clone(),
        version: player.server.version.clone(),
        cpu_us_median: median(&cpu),
        operations_per_second_median: median(&rates),
        over_first: ratios.map(|ratios| median(&ratios)),
        samples,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_meets_each_element_once_in_an_order_of_its_own() {
        let order = shuffled(1000);
        assert_ne!(order, (0..1000).collect::<Vec<_>>());
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<_>>());
        assert!(shuffled(0).is_empty());
    }
}
