//! `mayfly edge simulate`: builds a study from the arguments and prints its findings.

use crate::memory::memory_share;
use crate::pages::Pages;
use crate::sim::replaying::{RATE_DEFAULT, behind_bar, read_share, style};
use crate::trace::input::stem;
use ::sim::cluster::{
    ClusterRules, Coordination, EvictionOrder, Notifications, SERVERS_MAX, Scheme, Study,
    check_sizes,
};
use ::sim::{Columns, Interner, Interning, Size, Unit};
use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use indicatif::ProgressBar;
use policy::any::PolicySpec;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use trace::{Cdn, Content, Outage, WINDOW_MS, draw_outages, read_outages};

/// Ratio of cache to footprint in the thesis: 40 TB to 79.8 TB for web, and to 224 TB for video.
const BASE_WEB: &str = "50%";
const BASE_VIDEO: &str = "18%";
/// Schemes that are compared by default.
const SCHEMES: &str = "none,replicas:2,replicas:3,popular,norebal:3:1,c2dn:3:1,c2dn:3:2,c2dn:3:3";

/// Arguments of `mayfly edge simulate`.
#[derive(Args)]
pub struct Arguments {
    /// Trace to replay: web or video for a generated one, a file with object sizes, or - for
    /// standard input
    #[arg(value_name = "TRACE", default_value = "video")]
    trace: String,
    /// Format of the trace [default: by the file name's ending]
    #[arg(long, value_name = "FORMAT")]
    format: Option<trace::Format>,
    /// Column names, separated by commas, of a CSV file without a header
    #[arg(long, value_name = "NAMES")]
    columns: Option<String>,
    /// Skip malformed lines and records, and report how many were skipped
    #[arg(long)]
    skip_bad: bool,
    /// Number of requests of a generated trace
    #[arg(long, value_name = "COUNT", default_value = "1m", value_parser = units::count)]
    requests: u64,
    /// Largest object of a generated trace. With few requests the footprint is small, and objects
    /// of gigabytes are a larger share of it than in a real cluster
    #[arg(long, value_name = "BYTES", default_value = "4000000000", value_parser = units::bytes)]
    max_object_size: u64,
    /// Requests per second, instead of the trace's timestamps [default for a trace without
    /// timestamps: 1000]
    #[arg(long, value_name = "RATE")]
    request_rate: Option<f64>,
    /// Numbers of servers to simulate; failures are simulated for the first number
    #[arg(
        long,
        value_name = "COUNTS",
        value_delimiter = ',',
        default_value = "10"
    )]
    servers: Vec<usize>,
    /// Relative disk sizes of the servers, one number per server, instead of --servers
    #[arg(
        long,
        value_name = "WEIGHTS",
        value_delimiter = ',',
        conflicts_with = "servers"
    )]
    server_weights: Vec<u32>,
    /// Total sizes of all disks: bytes, 64mb, or a share of the footprint such as 10%
    #[arg(
        long,
        short,
        value_name = "SIZES",
        value_delimiter = ',',
        default_value = "5%,10%,18%,35%,70%"
    )]
    size: Vec<Size>,
    /// Total disk size of the runs with failures, latencies and coordination [default: 50% for web,
    /// else 18%]
    #[arg(long, value_name = "SIZE")]
    base_size: Option<Size>,
    /// Redundancy schemes: none, replicas:COUNT, popular (a second copy of popular objects),
    /// c2dn:K:P (K data and P parity chunks, parity placed by load), c2dn-flow:K:P (placed by
    /// max-flow), norebal:K:P (placed on the ring)
    #[arg(long, value_name = "SCHEMES", value_delimiter = ',', default_value = SCHEMES)]
    scheme: Vec<Scheme>,
    /// Eviction policy of each disk
    #[arg(
        long,
        short,
        value_name = "POLICY",
        default_value = "fifo",
        conflicts_with = "coordinated_eviction"
    )]
    policy: PolicySpec,
    /// Eviction policies of the runs that measure whether the chunks of an object are evicted
    /// together
    #[arg(
        long,
        value_name = "POLICIES",
        value_delimiter = ',',
        conflicts_with_all = ["no_coordination", "sweep_only"],
        default_value = "fifo,lru,s3fifo,sieve"
    )]
    coordination_policies: Vec<PolicySpec>,
    /// Sweep schemes and sizes only, without failures or runs about joint eviction
    #[arg(long)]
    sweep_only: bool,
    /// Sweep schemes and sizes and simulate failures, without runs about joint eviction
    #[arg(long)]
    no_coordination: bool,
    /// On a complete miss at the lead server, fetch from the origin without probing the other
    /// servers
    #[arg(long)]
    no_peer_probe: bool,
    /// Coordinated eviction in hash order: all disks evict in the order of a hash that the chunks
    /// of an object share, exchange their positions with every read and write, and report hits to
    /// the servers of parity chunks
    #[arg(long)]
    coordinated_eviction: bool,
    /// Memory cache of each server, as a share of its disk
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = read_share)]
    memory_share: f64,
    /// Number of buckets: sets of objects with the same servers
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    buckets: u32,
    /// Objects of at least this size are coded; smaller ones are kept as whole copies
    #[arg(long, value_name = "BYTES", default_value = "128kb", value_parser = units::bytes)]
    min_coded_size: u64,
    /// Share of the requests, at the start of the trace, that is replayed but not counted
    #[arg(long, value_name = "SHARE", default_value = "40%", value_parser = read_share)]
    warmup_share: f64,
    /// Length of the time windows of the results
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = units::span_ms)]
    report_window: u64,
    /// Interval at which parity is placed again even if no server fails or recovers [default:
    /// never]
    #[arg(long, value_name = "SPAN", value_parser = units::span_ms)]
    rebalance_interval: Option<u64>,
    /// Server outages: drawn (random outages), or a file with a line for every five minutes that
    /// lists the unavailable servers. Both start at the end of the warm-up
    #[arg(long, value_name = "WHAT")]
    outages: Option<String>,
    /// Random seed
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Number of runs at a time [default: one for each processor]
    #[arg(long, short, value_name = "COUNT")]
    jobs: Option<NonZeroUsize>,
    /// Maximum memory of the trace and one run, such as 8gb [default: 80 % of the available memory]
    #[arg(long, value_name = "BYTES", value_parser = units::bytes)]
    memory_limit: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pages: Pages,
}

impl Arguments {
    /// Runs the study and prints its findings.
    pub fn run(&self) -> Result<()> {
        ensure_each_once("--scheme", &self.scheme)?;
        ensure_each_once("--coordination-policies", &self.coordination_policies)?;
        let clusters = self.clusters()?;
        self.pages.prepare()?;
        let columns = self.read()?;
        let study = self.study(&columns, clusters)?;
        let requests = study.request_count(&columns);
        let findings = behind_bar(self.jobs, columns.name(), requests, |jobs, done| {
            study.run(&columns, jobs, done)
        })?;
        self.pages.write(|| findings.page())?;
        let text = match self.json {
            true => serde_json::to_string_pretty(&findings)? + "\n",
            false => findings.text(),
        };
        io::stdout().write_all(text.as_bytes())?;
        Ok(())
    }

    /// Returns the weights of the servers of each cluster.
    fn clusters(&self) -> Result<Vec<Vec<u32>>> {
        if !self.server_weights.is_empty() {
            return Ok(vec![self.server_weights.clone()]);
        }
        ensure_each_once("--servers", &self.servers)?;
        let too_many = self.servers.iter().find(|count| **count > SERVERS_MAX);
        if let Some(count) = too_many {
            bail!("--servers {count}: a cluster has at most {SERVERS_MAX}");
        }
        Ok(self.servers.iter().map(|&count| vec![1; count]).collect())
    }

    fn content(&self) -> Option<Content> {
        self.trace.parse().ok()
    }

    fn read(&self) -> Result<Columns> {
        let how = Interning {
            ignores_ttls: true,
            ignores_time: self.request_rate.is_some(),
            memory_limit: self.memory_limit.unwrap_or_else(memory_share),
            ..Interning::default()
        };
        if let Some(content) = self.content() {
            let largest = u32::try_from(self.max_object_size).ok();
            let largest = largest.context("--max-object-size: expected less than 4 GiB")?;
            let made = Cdn::new(content, self.requests, largest, self.seed);
            let made = made.map_err(|reason| anyhow!("{content}: {reason}"))?;
            return Ok(Interner::all(&self.trace, how, made.map(Ok))?);
        }
        let name = &self.trace;
        let options = trace::Options {
            format: self.format,
            columns: self.columns.clone(),
            skip_bad: self.skip_bad,
            memory_limit: Some(how.memory_limit),
            ..trace::Options::default()
        };
        let mut reader = match name.as_str() {
            "-" => trace::open(name, io::stdin().lock(), &options)?,
            _ => {
                let file = File::open(name).with_context(|| format!("cannot open {name}"))?;
                trace::open_file(name, file, &options)?
            }
        };
        let bar = ProgressBar::no_length().with_style(style("{spinner} {msg} [{elapsed}]"));
        let columns = ::sim::read(stem(name), how, &mut reader, |count| {
            bar.set_message(format!("{name}: {count} requests read"));
            bar.tick();
        })?;
        bar.finish_and_clear();
        if let Some(first) = reader.first_skipped() {
            let count = reader.skipped();
            eprintln!("mayfly: {name}: skipped {count} malformed records; the first: {first}");
        }
        Ok(columns)
    }

    fn study(&self, columns: &Columns, clusters: Vec<Vec<u32>>) -> Result<Study> {
        // Sizes are checked first, because shares of a footprint need them.
        check_sizes(columns)?;
        ensure!(
            self.report_window > 0,
            "--report-window: expected more than 0"
        );
        let rebalance_ms = self.rebalance_interval;
        ensure!(
            rebalance_ms != Some(0),
            "--rebalance-interval: expected more than 0"
        );
        let coded_from = u32::try_from(self.min_coded_size).ok();
        let coded_from = coded_from.context("--min-coded-size: expected less than 4 GiB")?;
        let gap_ms = self.gap_ms(columns)?;
        let (sizes, base) = self.sizes(columns)?;
        let span_ms = columns.span_ms(gap_ms);
        let coded = self.scheme.iter().find_map(|scheme| match *scheme {
            Scheme::Coded { data, parity, .. } => Some((data, parity)),
            _ => None,
        });
        let servers = clusters[0].len() as u32;
        Ok(Study {
            rules: ClusterRules {
                buckets: self.buckets,
                coded_from,
                warm_up: (columns.len() as f64 * self.warmup_share) as usize,
                window_ms: self.report_window,
                gap_ms,
                rebalance_ms,
                seed: self.seed,
                memory_limit: self.memory_limit.unwrap_or_else(memory_share),
            },
            schemes: self.scheme.clone(),
            clusters,
            sizes,
            base,
            policy: self.policy.clone(),
            memory_share: self.memory_share,
            policies: match self.sweep_only || self.no_coordination || coded.is_none() {
                true => Vec::new(),
                false => self.coordination_policies.clone(),
            },
            code: coded.unwrap_or((3, 1)),
            has_failures: !self.sweep_only,
            coordination: self.coordination(),
            outages: self.outages(servers, span_ms)?,
        })
    }

    fn coordination(&self) -> Coordination {
        let no_peer_probe = self.no_peer_probe;
        match self.coordinated_eviction {
            true => Coordination {
                notifications: Notifications::Hits,
                order: EvictionOrder::SharedHash,
                no_peer_probe,
                ..Coordination::default()
            },
            false => Coordination {
                no_peer_probe,
                ..Coordination::default()
            },
        }
    }

    fn gap_ms(&self, columns: &Columns) -> Result<Option<f64>> {
        let rate = match self.request_rate {
            None if !columns.has_time() => Some(RATE_DEFAULT),
            rate => rate,
        };
        if let Some(rate) = rate {
            let is_rate = rate > 0.0 && rate.is_finite();
            ensure!(
                is_rate,
                "--request-rate {rate}: expected more than 0 requests a second"
            );
        }
        Ok(rate.map(|rate| 1000.0 / rate))
    }

    /// Returns all sizes including the base size, and the index of the base size.
    fn sizes(&self, columns: &Columns) -> Result<(Vec<(String, u64)>, usize)> {
        let of_content = match self.content() {
            Some(Content::Web) => BASE_WEB,
            _ => BASE_VIDEO,
        };
        let base = match &self.base_size {
            Some(size) => size.clone(),
            None => of_content.parse()?,
        };
        let footprint = columns.footprint(Unit::Bytes);
        let resolve = |size: &Size| -> Result<(String, u64)> {
            let bytes = size.resolve(footprint, columns.name(), Unit::Bytes)?;
            Ok((size.to_string(), bytes))
        };
        let mut sizes: Vec<_> = self.size.iter().map(resolve).collect::<Result<_>>()?;
        // Bytes are compared, because 18% and 18.0% are the same size.
        for (at, (name, bytes)) in sizes.iter().enumerate() {
            let is_known = sizes[..at].iter().any(|(_, other)| other == bytes);
            ensure!(!is_known, "--size: {name} is given twice");
        }
        let base = resolve(&base)?;
        let known = sizes.iter().position(|(_, bytes)| *bytes == base.1);
        let at = known.unwrap_or_else(|| {
            sizes.push(base);
            sizes.len() - 1
        });
        Ok((sizes, at))
    }

    fn outages(&self, servers: u32, span_ms: u64) -> Result<Vec<Outage>> {
        match self.outages.as_deref() {
            None => Ok(Vec::new()),
            Some("drawn") => draw_outages(servers, span_ms, self.seed)
                .map_err(|reason| anyhow!("--outages: {reason}")),
            Some(path) => {
                let path = PathBuf::from(path);
                let name = path.to_string_lossy();
                let file = File::open(&path).with_context(|| {
                    format!("--outages: cannot open {name}, and it is not the word drawn")
                })?;
                let outages = read_outages(&name, file, WINDOW_MS)?;
                let is_any = outages.iter().any(|outage| outage.server < servers);
                ensure!(
                    is_any || outages.is_empty(),
                    "--outages: {name} names none of the servers 0 to {}",
                    servers - 1
                );
                Ok(outages)
            }
        }
    }
}

/// Returns an error if a value is given twice. Its runs would be repeated, and its lines would hide
/// each other in plots.
fn ensure_each_once<T: ToString>(option: &str, given: impl IntoIterator<Item = T>) -> Result<()> {
    let mut seen = HashSet::new();
    for one in given {
        let one = one.to_string();
        ensure!(!seen.contains(&one), "{option}: {one} is given twice");
        seen.insert(one);
    }
    Ok(())
}
