//! Outages of the servers of a cluster: read from a file of time windows, or generated.

use crate::error::{Error, Fault, Position};
use crate::lines::Lines;
use crate::number::small;
use crate::random::Random;
use crate::sizes::normal;
use std::io::Read;

/// Largest number of a server.
pub const SERVER_MAX: u32 = 4_095;
/// Maximum number of windows: 95 years of five minutes each. More are treated as a damaged file.
const WINDOWS_MAX: u64 = 10_000_000;
/// Length of a window in the published traces, in milliseconds.
pub const WINDOW_MS: u64 = 5 * 60_000;

const MINUTE_MS: f64 = 60_000.0;
/// Median duration of an outage. Durations are lognormal, and 16 % exceed a day.
const MEDIAN_MINUTES: f64 = 200.0;
/// Standard normal deviate that is exceeded with a probability of 16 %.
const OVER_A_DAY_AT: f64 = 0.994_457_88;
/// Mean duration after clamping to the limits below, from two million draws, within 0.3 %.
const MEAN_MINUTES: f64 = 1_249.0;
const DAY_MINUTES: f64 = 1_440.0;
/// Minimum and maximum duration of an outage.
const SHORTEST_MINUTES: f64 = 20.0;
const LONGEST_MINUTES: f64 = 31.0 * DAY_MINUTES;
/// Share of time during which at least one of ten servers is down.
const ANY_OF_TEN: f64 = 0.305;

/// An interval during which a server is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Outage {
    /// Start in milliseconds.
    pub from_ms: u64,
    /// End in milliseconds.
    pub until_ms: u64,
    /// Number of the server.
    pub server: u32,
}

/// Reads one line for each window of `window_ms`: the numbers of the servers that are down,
/// separated by blanks. Adjacent windows of a server are one outage. Outages are sorted by start,
/// then by end.
///
/// # Errors
/// The stream cannot be read, a number is malformed or above [`SERVER_MAX`], or there are more than
/// ten million windows. `name` is the stream's name in errors.
///
/// ```
/// let outages = trace::read_outages("down.txt", "\n3 7\n3\n".as_bytes(), 1_000).unwrap();
/// assert_eq!((outages[0].server, outages[0].from_ms, outages[0].until_ms), (7, 1_000, 2_000));
/// assert_eq!((outages[1].server, outages[1].from_ms, outages[1].until_ms), (3, 1_000, 3_000));
/// ```
pub fn read_outages(name: &str, input: impl Read, window_ms: u64) -> Result<Vec<Outage>, Error> {
    assert!(window_ms > 0);
    windows(input, window_ms).map_err(|fault| fault.named(name))
}

fn windows(input: impl Read, window_ms: u64) -> Result<Vec<Outage>, Fault> {
    let mut lines = Lines::new(input);
    let mut outages: Vec<Outage> = Vec::new();
    // Index of the latest outage of each server.
    let mut latest: Vec<Option<usize>> = Vec::new();
    while let Some(line) = lines.next()? {
        let window = line.number - 1;
        if window >= WINDOWS_MAX {
            let position = Position::Line(line.number);
            return Err(Fault::at(position, "at most 10,000,000 windows", "more"));
        }
        let (from_ms, until_ms) = (window * window_ms, (window + 1) * window_ms);
        let words = line.text.split(u8::is_ascii_whitespace);
        for word in words.filter(|word| !word.is_empty()) {
            let server = small(word).filter(|server| *server <= SERVER_MAX);
            let expected = "numbers of servers from 0 to 4095, separated by blanks";
            let server = server.ok_or_else(|| line.fault(expected))?;
            if latest.len() <= server as usize {
                latest.resize(server as usize + 1, None);
            }
            let last = latest[server as usize].map(|index| &mut outages[index]);
            match last.filter(|outage| outage.until_ms >= from_ms) {
                Some(outage) => outage.until_ms = until_ms,
                None => {
                    latest[server as usize] = Some(outages.len());
                    outages.push(Outage {
                        from_ms,
                        until_ms,
                        server,
                    });
                }
            }
        }
    }
    outages.sort_unstable();
    Ok(outages)
}

/// Generates outages of `servers` servers within `span_ms`, each server independently. Of ten
/// servers, at least one is down 30.5 % of the time; half of the outages exceed 200 minutes, and 16
/// % exceed a day. These are the figures of section 5.2.2 of J. Yang, *Designing efficient and
/// scalable key-value cache management systems*, Carnegie Mellon University 2024, for clusters of a
/// content delivery network. The beginning is a random point in time, at which servers may already
/// be down. Outages are sorted by start.
///
/// # Errors
/// The span exceeds ten million windows of [`WINDOW_MS`].
pub fn draw_outages(servers: u32, span_ms: u64, seed: u64) -> Result<Vec<Outage>, String> {
    if span_ms > WINDOWS_MAX * WINDOW_MS {
        return Err(format!(
            "a trace of {} days: expected at most 95 years for generated outages",
            span_ms / 86_400_000
        ));
    }
    // Each server is down with probability q, where (1 − q)^10 is the share of time in which none
    // of ten is down.
    let down = 1.0 - (1.0 - ANY_OF_TEN).powf(0.1);
    let mean_up_minutes = MEAN_MINUTES * (1.0 - down) / down;
    let mut outages = Vec::new();
    for server in 0..servers {
        let mut random = Random::of_key(seed, u64::from(server));
        let mut now = 0.0;
        let mut left = (random.fraction() < down).then(|| minutes_left(&mut random));
        loop {
            let lasts = match left.take() {
                Some(minutes) => minutes,
                None => {
                    now -= (1.0 - random.fraction()).ln() * mean_up_minutes * MINUTE_MS;
                    minutes(&mut random)
                }
            };
            if now >= span_ms as f64 {
                break;
            }
            let until = now + lasts * MINUTE_MS;
            outages.push(Outage {
                from_ms: now as u64,
                until_ms: until as u64,
                server,
            });
            now = until;
        }
    }
    outages.sort_unstable();
    Ok(outages)
}

/// Draws the remaining minutes of an outage that is in progress at a random time. Longer outages
/// are more likely to be in progress.
fn minutes_left(random: &mut Random) -> f64 {
    loop {
        let whole = minutes(random);
        if random.fraction() * LONGEST_MINUTES < whole {
            return random.fraction() * whole;
        }
    }
}

fn sigma() -> f64 {
    (DAY_MINUTES / MEDIAN_MINUTES).ln() / OVER_A_DAY_AT
}

fn minutes(random: &mut Random) -> f64 {
    let drawn = MEDIAN_MINUTES * (sigma() * normal(random)).exp();
    drawn.clamp(SHORTEST_MINUTES, LONGEST_MINUTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: u64 = 86_400_000;

    /// Returns the share of time, sampled every hour, during which any server is down.
    fn any_down(outages: &[Outage], span_ms: u64) -> f64 {
        let hours = span_ms / 3_600_000;
        let mut is_any_down = vec![false; hours as usize];
        for outage in outages {
            let first = outage.from_ms.div_ceil(3_600_000).min(hours);
            let end = outage.until_ms.div_ceil(3_600_000).min(hours);
            is_any_down[first as usize..end as usize].fill(true);
        }
        is_any_down.iter().filter(|down| **down).count() as f64 / hours as f64
    }

    #[test]
    fn generated_outages_have_the_published_durations_and_frequency() {
        let span_ms = 90 * 365 * DAY_MS;
        let (mut spans, mut shares) = (Vec::new(), 0.0);
        for seed in 0..4 {
            let outages = draw_outages(10, span_ms, seed).expect("below 95 years");
            spans.extend(outages.iter().map(|o| o.until_ms - o.from_ms));
            shares += any_down(&outages, span_ms);
        }
        spans.sort_unstable();
        let median = spans[spans.len() / 2] as f64 / MINUTE_MS;
        assert!((median / 200.0 - 1.0).abs() < 0.1, "{median}");
        let over = spans.iter().filter(|span| **span > DAY_MS).count();
        let over = over as f64 / spans.len() as f64;
        assert!((over - 0.16).abs() < 0.02, "{over}");
        assert!((shares / 4.0 - ANY_OF_TEN).abs() < 0.02, "{shares}");
        let drawn = |seed| draw_outages(10, span_ms, seed);
        assert_eq!(drawn(3), drawn(3));
        assert_ne!(drawn(3), drawn(4));
    }

    #[test]
    fn the_share_of_outages_does_not_depend_on_the_span() {
        for days in [7, 18] {
            let span_ms = days * DAY_MS;
            let shares: f64 = (0..3_000)
                .map(|seed| any_down(&draw_outages(10, span_ms, seed).expect("short"), span_ms))
                .sum();
            let share = shares / 3_000.0;
            assert!((share - ANY_OF_TEN).abs() < 0.03, "{days} days: {share}");
        }
    }

    #[test]
    fn a_span_beyond_a_century_is_refused() {
        assert!(draw_outages(10, u64::MAX, 1).is_err());
        assert!(draw_outages(1, WINDOWS_MAX * WINDOW_MS + 1, 1).is_err());
        assert!(draw_outages(1, WINDOWS_MAX * WINDOW_MS, 1).is_ok());
    }

    #[test]
    fn adjacent_windows_are_one_outage() {
        let text = "0 0\r\n\n0 2\n0\n2\n";
        let outages = read_outages("t", text.as_bytes(), 10).expect("well-formed");
        let found: Vec<_> = outages
            .iter()
            .map(|o| (o.server, o.from_ms, o.until_ms))
            .collect();
        assert_eq!(found, [(0, 0, 10), (2, 20, 30), (0, 20, 40), (2, 40, 50)]);
        assert_eq!(read_outages("t", &b""[..], 10).expect("nothing"), []);
    }

    #[test]
    fn an_invalid_server_is_reported_with_its_line() {
        for text in ["\n1 x\n", "\n-1\n", "\n4096\n", "\n1.5\n"] {
            let error = read_outages("down.txt", text.as_bytes(), 1).map_err(|e| e.to_string());
            let error = error.expect_err("it is no server");
            assert!(
                error.starts_with("down.txt:2: expected numbers of servers"),
                "{error}"
            );
        }
    }
}
