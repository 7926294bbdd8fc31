//! Arguments about reading and replaying a trace, shared by `sim`, `sim curve` and `sim advise`.

use crate::memory::memory_share;
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

/// Interval between two updates of the progress bar.
const DRAWN_EVERY: Duration = Duration::from_millis(100);
/// Request rate per second of a trace without timestamps.
pub const RATE_DEFAULT: f64 = 1000.0;

/// Longest duration of a trace under a given rate, in milliseconds. Deadlines after it still fit
/// into a tick.
const SPAN_MS_MAX: f64 = (1u64 << 47) as f64;

/// Arguments about units, TTLs, time and memory.
#[derive(Args, Debug)]
pub struct Replaying {
    /// Count objects instead of bytes (always so for traces without sizes)
    #[arg(long)]
    ignore_size: bool,
    /// Index that finds expired entries
    #[arg(long, value_name = "INDEX", default_value = "wheel")]
    expiry: ExpirySpec,
    /// TTLs drawn per key instead of the trace's own: a published mix (cluster4), or '60s:0.4
    /// 1h:0.6'
    #[arg(long, value_name = "MIX", value_parser = ttl_mix)]
    pub ttl_mix: Option<TtlMix>,
    /// Ignore all TTLs, so that nothing expires
    #[arg(long, conflicts_with = "ttl_mix")]
    pub ignore_ttl: bool,
    /// Requests per second, instead of the trace's timestamps [default for a trace without
    /// timestamps: 1000]
    #[arg(long, value_name = "RATE")]
    request_rate: Option<f64>,
    /// Count reads only; writes still insert
    #[arg(long)]
    reads_only: bool,
    /// Bytes that each entry of a policy takes in addition to its object, counted against the cache
    /// size: 17 in this server and 30 with a TTL, 56 in memcached [default: 0; in curve and advise
    /// with segcache: this server's]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(0..=4096))]
    entry_overhead: Option<u32>,
    /// Random seed
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Number of replays at a time [default: one for each processor]
    #[arg(long, short, value_name = "COUNT")]
    jobs: Option<NonZeroUsize>,
    /// Maximum memory of traces and replays, such as 8gb [default: 80 % of the available memory]
    #[arg(long, value_name = "BYTES", value_parser = units::bytes)]
    memory_limit: Option<u64>,
}

/// Parses a share in percent, such as `20%` or `20`. `0.2` is refused because it could mean 20 % or
/// 0.2 %.
pub fn read_share(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    let percent: f64 = number.parse().map_err(|_| "expected a share such as 20%")?;
    if number == text && percent > 0.0 && percent < 1.0 {
        return Err(format!(
            "shares are in percent: write {}% or {percent}%",
            // The result is rounded, so that no digits of the binary fraction appear.
            (percent * 1e8).round() / 1e6
        ));
    }
    if (0.0..100.0).contains(&percent) {
        Ok(percent / 100.0)
    } else {
        Err("expected a share from 0% to below 100%".into())
    }
}

/// Parses a share above zero.
pub fn read_share_above_0(text: &str) -> Result<f64, String> {
    match read_share(text)? {
        share if share > 0.0 => Ok(share),
        _ => Err("expected a share above 0% and below 100%".into()),
    }
}

impl Replaying {
    /// Returns the options for interning the trace.
    pub fn interning(&self) -> Interning {
        Interning {
            ttl_mix: self.ttl_mix.clone().map(|mix| (mix, self.seed)),
            ignores_ttls: self.ignore_ttl,
            ignores_time: self.request_rate.is_some(),
            memory_limit: self.memory_limit.unwrap_or_else(memory_share),
            ..Interning::default()
        }
    }

    /// Returns the unit of the cache size.
    pub fn unit(&self, columns: &Columns) -> Unit {
        match self.ignore_size || !columns.has_sizes() {
            true => Unit::Objects,
            false => Unit::Bytes,
        }
    }

    /// Returns the milliseconds between two requests, if a rate was given.
    pub fn gap_ms(&self) -> Option<f64> {
        self.request_rate.map(|rate| 1000.0 / rate)
    }

    /// Returns the rules of the replays.
    pub fn rules(&self, columns: &Columns) -> Result<Rules> {
        if let Some(rate) = self.request_rate {
            ensure!(
                rate > 0.0 && rate.is_finite(),
                "--request-rate {rate}: expected more than 0 requests a second"
            );
        }
        let rate = match self.request_rate {
            None if !columns.has_time() => Some(RATE_DEFAULT),
            rate => rate,
        };
        if let Some(rate) = rate {
            ensure!(
                columns.len() as f64 * 1000.0 / rate <= SPAN_MS_MAX,
                "--request-rate {rate}: {} requests would take more than 4,400 years",
                columns.len()
            );
        }
        // The memory available now excludes the trace, which is already loaded.
        let beside = || memory_share().saturating_add(columns.heap_bytes());
        Ok(Rules {
            unit: self.unit(columns),
            expiry: self.expiry.clone(),
            counts_writes: !self.reads_only,
            overhead: self.entry_overhead.unwrap_or(0),
            gap_ms: rate.map(|rate| 1000.0 / rate),
            seed: self.seed,
            memory_limit: self.memory_limit.unwrap_or_else(beside),
            ..Rules::default()
        })
    }

    /// Returns rules for a comparison with the segment engine: unless --entry-overhead is given, an
    /// entry of a policy counts with the overhead that it has in this server.
    pub fn beside_engine(&self, columns: &Columns, rules: Rules) -> Rules {
        let has_ttls = columns.has_ttls() && !rules.ignores_ttls;
        Rules {
            overhead: self.entry_overhead.unwrap_or(server_overhead(has_ttls)),
            ..rules
        }
    }

    /// Runs replays of `requests` requests in total and shows a progress bar.
    pub fn run<R: Send>(
        &self,
        name: &str,
        requests: u64,
        replays: impl FnOnce(usize, &AtomicU64) -> Result<R, ::sim::Error> + Send,
    ) -> Result<R> {
        behind_bar(self.jobs, name, requests, replays)
    }
}

/// Runs replays of `requests` requests in total and shows a progress bar, `jobs` at a time or one
/// for each processor.
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

/// Guard that finishes the bar and wakes the thread that draws it, however the replays end. The
/// scope waits for that thread even after a panic.
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

/// Returns the style of a progress bar.
pub fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is well-formed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc;

    /// Regression: a bar that was not finished was drawn forever, so that a panic looked like a
    /// slow replay.
    #[test]
    fn a_replay_that_panics_ends() {
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            replaying: Replaying,
        }
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let line = Line::parse_from(["sim"]);
            let run = || {
                line.replaying.run("trace", 1, |_, _| -> Result<(), _> {
                    panic!("a policy fails")
                })
            };
            let is_panic = catch_unwind(AssertUnwindSafe(run)).is_err();
            // A send fails only if the test has timed out.
            let _ = sender.send(is_panic);
        });
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(true));
    }

    #[test]
    fn a_share_is_given_in_percent() {
        assert_eq!(read_share("20%"), Ok(0.2));
        assert_eq!(read_share("20"), Ok(0.2));
        assert_eq!(read_share("0.5%"), Ok(0.005));
        assert_eq!(read_share("0"), Ok(0.0));
        let refusal = "shares are in percent: write 29% or 0.29%";
        assert_eq!(read_share("0.29"), Err(refusal.into()));
        assert_eq!(read_share_above_0("1"), Ok(0.01));
        for text in ["0", "0%", "-1", "100", "nan", "half"] {
            assert!(read_share_above_0(text).is_err(), "{text}");
        }
    }
}
