//! How a trace is read and replayed: what `sim`, `sim curve` and `sim advise` share.

use crate::trace::arguments::ttl_mix;
use ::sim::advise::server_overhead;
use ::sim::{Columns, Interning, Rules, Unit};
use anyhow::{Result, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use policy::expire::any::ExpirySpec;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;
use trace::TtlMix;

/// How often the progress bar is drawn.
const DRAWN_EVERY: Duration = Duration::from_millis(100);
/// The share of the memory available that is used when no limit is given, in percent.
const MEMORY_PERCENT: u64 = 80;
/// The limit where the system does not tell what is available.
const MEMORY_UNKNOWN: u64 = 4 << 30;
/// The rate of a trace without time, requests a second.
pub const RATE_DEFAULT: f64 = 1000.0;

/// The longest time that a rate may make of a trace, in milliseconds: deadlines fit behind it.
const SPAN_MS_MAX: f64 = (1u64 << 47) as f64;

/// Units, lifetimes, time, memory.
#[derive(Args, Debug)]
pub struct Replaying {
    /// Count objects instead of bytes (so it is for traces without sizes)
    #[arg(long)]
    ignore_size: bool,
    /// The index that finds what has expired
    #[arg(long, value_name = "INDEX", default_value = "wheel")]
    expiry: ExpirySpec,
    /// Lifetimes by key instead of the trace's: a published mix (cluster4), or '60s:0.4 1h:0.6'
    #[arg(long, value_name = "MIX", value_parser = ttl_mix)]
    pub ttl_mix: Option<TtlMix>,
    /// Let nothing expire, whatever the trace says
    #[arg(long, conflicts_with = "ttl_mix")]
    pub ignore_ttl: bool,
    /// Requests a second, instead of the times of the trace [default, where it has none: 1000]
    #[arg(long, value_name = "RATE")]
    rate: Option<f64>,
    /// Count reads only; writes insert all the same
    #[arg(long)]
    reads_only: bool,
    /// What each entry of a policy takes beside its object, in bytes, which counts against the size: 17 in this
    /// server and 30 with a lifetime, 56 in memcached [default: 0; in curve and advise beside segcache what
    /// this server takes]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(0..=4096))]
    overhead: Option<u32>,
    /// Determines every decision by chance
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Replays at a time [default: one for each processor]
    #[arg(long, short, value_name = "COUNT")]
    jobs: Option<NonZeroUsize>,
    /// Memory that traces and replays may use, such as 8gb [default: 80 % of what is available]
    #[arg(long, value_name = "BYTES", value_parser = read_bytes)]
    memory_limit: Option<u64>,
}

/// Reads a share: `20%`, or `20`, which is the same. `0.2` could be either 20 % or 0.2 %.
pub fn read_share(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    let percent: f64 = number.parse().map_err(|_| "expected a share such as 20%")?;
    if number == text && percent > 0.0 && percent < 1.0 {
        return Err(format!(
            "shares are told in percent: write {}% or {percent}%, whichever is meant",
            // Without the digits that binary fractions add.
            (percent * 1e8).round() / 1e6
        ));
    }
    if (0.0..100.0).contains(&percent) {
        Ok(percent / 100.0)
    } else {
        Err("expected a share from 0% to below 100%".into())
    }
}

/// Reads a share of which something is left.
pub fn read_share_above_0(text: &str) -> Result<f64, String> {
    match read_share(text)? {
        share if share > 0.0 => Ok(share),
        _ => Err("expected a share above 0% and below 100%".into()),
    }
}

/// Reads bytes with a unit: `8gb`.
pub fn read_bytes(text: &str) -> Result<u64, String> {
    let bytes = server::config::value::bytes(text).and_then(|bytes| u64::try_from(bytes).ok());
    bytes.ok_or_else(|| "expected bytes such as 8gb".into())
}

impl Replaying {
    /// How the trace is taken in.
    pub fn interning(&self) -> Interning {
        Interning {
            ttl_mix: self.ttl_mix.clone().map(|mix| (mix, self.seed)),
            ignores_ttls: self.ignore_ttl,
            ignores_time: self.rate.is_some(),
            memory_limit: self.memory_limit.unwrap_or_else(memory_share),
            ..Interning::default()
        }
    }

    /// What a cache counts.
    pub fn unit(&self, columns: &Columns) -> Unit {
        match self.ignore_size || !columns.has_sizes() {
            true => Unit::Objects,
            false => Unit::Bytes,
        }
    }

    /// Milliseconds from one request to the next, where a rate was given.
    pub fn gap_ms(&self) -> Option<f64> {
        self.rate.map(|rate| 1000.0 / rate)
    }

    /// How it is replayed.
    pub fn rules(&self, columns: &Columns) -> Result<Rules> {
        if let Some(rate) = self.rate {
            ensure!(
                rate > 0.0 && rate.is_finite(),
                "--rate {rate}: expected more than 0 requests a second"
            );
        }
        let rate = match self.rate {
            None if !columns.has_time() => Some(RATE_DEFAULT),
            rate => rate,
        };
        if let Some(rate) = rate {
            ensure!(
                columns.len() as f64 * 1000.0 / rate <= SPAN_MS_MAX,
                "--rate {rate}: {} requests would take more than 4,400 years",
                columns.len()
            );
        }
        // What is available now is so beside the trace, which has its room already.
        let beside = || memory_share().saturating_add(columns.heap_bytes());
        Ok(Rules {
            unit: self.unit(columns),
            expiry: self.expiry.clone(),
            counts_writes: !self.reads_only,
            overhead: self.overhead.unwrap_or(0),
            gap_ms: rate.map(|rate| 1000.0 / rate),
            seed: self.seed,
            memory_limit: self.memory_limit.unwrap_or_else(beside),
            ..Rules::default()
        })
    }

    /// The same rules where policies are compared with the segment engine: unless told otherwise, an entry of
    /// theirs counts with what it takes in this server.
    pub fn beside_engine(&self, columns: &Columns, rules: Rules) -> Rules {
        let has_ttls = columns.has_ttls() && !rules.ignores_ttls;
        Rules {
            overhead: self.overhead.unwrap_or(server_overhead(has_ttls)),
            ..rules
        }
    }

    /// Runs replays of `requests` in all, some at a time, behind a progress bar.
    pub fn run<R: Send>(
        &self,
        name: &str,
        requests: u64,
        replays: impl FnOnce(usize, &AtomicU64) -> Result<R, ::sim::Error> + Send,
    ) -> Result<R> {
        behind_bar(self.jobs, name, requests, replays)
    }
}

/// Runs replays of `requests` in all behind a progress bar; so many at a time, or one for each processor.
pub fn behind_bar<R: Send>(
    jobs: Option<NonZeroUsize>,
    name: &str,
    requests: u64,
    replays: impl FnOnce(usize, &AtomicU64) -> Result<R, ::sim::Error> + Send,
) -> Result<R> {
    let jobs = jobs.map(NonZeroUsize::get);
    let jobs = jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let bar = ProgressBar::new(requests)
        .with_style(style("{msg} {bar:30} {percent} % [{elapsed} < {eta}]"));
    bar.set_message(name.to_owned());
    let done = AtomicU64::new(0);
    let result = thread::scope(|scope| {
        let drawer = scope.spawn(|| {
            while !bar.is_finished() {
                bar.set_position(done.load(Ordering::Relaxed));
                thread::park_timeout(DRAWN_EVERY);
            }
        });
        let _drawn = Drawn {
            bar: &bar,
            drawer: drawer.thread(),
        };
        replays(jobs, &done)
    });
    Ok(result?)
}

/// A bar that is finished, and its drawer woken to see it, however the replays end: the scope waits
/// for the drawer even when one panics.
struct Drawn<'a> {
    bar: &'a ProgressBar,
    drawer: &'a Thread,
}

impl Drop for Drawn<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        self.drawer.unpark();
    }
}

/// The style of a progress bar.
pub fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is well-formed")
}

/// A file's name without the endings that tell its format.
pub fn stem(path: &str) -> &str {
    let (_, name) = trace::Compression::of_name(path.rsplit('/').next().unwrap_or(path));
    let name = name.strip_suffix(".bin").unwrap_or(name);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// The share of the memory available that may be used.
pub fn memory_share() -> u64 {
    available_memory().unwrap_or(MEMORY_UNKNOWN) / 100 * MEMORY_PERCENT
}

/// What the system says could be had without swapping, in bytes.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc;

    /// A bar that nobody finished was drawn for ever, and a panic looked like a replay that takes long.
    #[test]
    fn a_replay_that_panics_ends() {
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            replaying: Replaying,
        }
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let line = Line::parse_from(["sim"]);
            let run = || {
                line.replaying.run("trace", 1, |_, _| -> Result<(), _> {
                    panic!("as a policy might")
                })
            };
            let is_panic = catch_unwind(AssertUnwindSafe(run)).is_err();
            // Who no longer listens has given up.
            let _ = tell.send(is_panic);
        });
        assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(true));
    }

    #[test]
    fn a_share_is_told_in_percent() {
        assert_eq!(read_share("20%"), Ok(0.2));
        assert_eq!(read_share("20"), Ok(0.2));
        assert_eq!(read_share("0.5%"), Ok(0.005));
        assert_eq!(read_share("0"), Ok(0.0));
        let told = "shares are told in percent: write 29% or 0.29%, whichever is meant";
        assert_eq!(read_share("0.29"), Err(told.into()));
        assert_eq!(read_share_above_0("1"), Ok(0.01));
        for text in ["0", "0%", "-1", "100", "nan", "half"] {
            assert!(read_share_above_0(text).is_err(), "{text}");
        }
    }
}
