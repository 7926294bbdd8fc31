//! `mayfly edge simulate`: arguments to a study, and the study's findings out.

use crate::pages::Pages;
use crate::sim::replaying::{
    RATE_DEFAULT, behind_bar, memory_share, read_bytes, read_share, stem, style,
};
use crate::trace::arguments::{count, span_ms};
use ::sim::cluster::{
    Coordination, Order, Rules, SERVERS_MAX, Scheme, Study, Telling, check_sizes,
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
use trace::{Cdn, Content, Outage, Request, WINDOW_MS, draw_outages, read_outages};

/// Requests between two looks at the bar while a trace is read.
const READ_STRIDE: u64 = 1 << 16;
/// The thesis's ratio of cache to footprint: 40 TB to 79.8 of web, and to 224 of video.
const BASE_WEB: &str = "50%";
const BASE_VIDEO: &str = "18%";
/// Schemes that are compared unless others are given.
const SCHEMES: &str = "none,replicas:2,replicas:3,popular,norebal:3:1,c2dn:3:1,c2dn:3:2,c2dn:3:3";

/// A trace, clusters, schemes.
#[derive(Args)]
pub struct Arguments {
    /// The trace: web or video for a made-up one, a file that tells sizes, or - for standard input
    #[arg(value_name = "TRACE", default_value = "video")]
    trace: String,
    /// The format, where the name does not tell it
    #[arg(long, value_name = "FORMAT")]
    format: Option<trace::Format>,
    /// The columns' names, apart by commas, of a csv without a header
    #[arg(long, value_name = "NAMES")]
    columns: Option<String>,
    /// Pass over malformed lines and records, and tell how many there were
    #[arg(long)]
    skip_bad: bool,
    /// Requests of a made-up trace
    #[arg(long, value_name = "COUNT", default_value = "1m", value_parser = count)]
    requests: u64,
    /// The largest object of a made-up trace. Few requests make a small footprint, of which objects of
    /// gigabytes are a larger share than in any real cluster
    #[arg(long, value_name = "BYTES", default_value = "4000000000", value_parser = read_bytes)]
    largest: u64,
    /// Requests a second, instead of the times of the trace [default, where it has none: 1000]
    #[arg(long, value_name = "RATE")]
    rate: Option<f64>,
    /// Servers of the cluster; of several numbers, the first is the one that failures happen to
    #[arg(
        long,
        value_name = "COUNTS",
        value_delimiter = ',',
        default_value = "10"
    )]
    servers: Vec<usize>,
    /// How large servers are in proportion to each other, one number a server, instead of their number
    #[arg(
        long,
        value_name = "WEIGHTS",
        value_delimiter = ',',
        conflicts_with = "servers"
    )]
    weights: Vec<u32>,
    /// Sizes of all disks together: bytes, 64mb, or a share of the footprint, 10%
    #[arg(
        long,
        short,
        value_name = "SIZES",
        value_delimiter = ',',
        default_value = "5%,10%,18%,35%,70%"
    )]
    size: Vec<Size>,
    /// The size of failures, latency and coordination [default: 50% for web, else 18%]
    #[arg(long, value_name = "SIZE")]
    base: Option<Size>,
    /// How objects are kept: none, replicas:COUNT, popular, c2dn:K:P (c2dn-flow:K:P: parity by
    /// max-flow), norebal:K:P
    #[arg(long, value_name = "SCHEMES", value_delimiter = ',', default_value = SCHEMES)]
    scheme: Vec<Scheme>,
    /// The policy of each disk
    #[arg(
        long,
        short,
        value_name = "POLICY",
        default_value = "fifo",
        conflicts_with = "one_hand"
    )]
    policy: PolicySpec,
    /// Policies under which is looked whether chunks leave together
    #[arg(
        long,
        value_name = "POLICIES",
        value_delimiter = ',',
        conflicts_with_all = ["no_policies", "sweep_only"],
        default_value = "fifo,lru,s3fifo,sieve"
    )]
    policies: Vec<PolicySpec>,
    /// Only sweep schemes and sizes: no failures, nothing about chunks that leave together
    #[arg(long)]
    sweep_only: bool,
    /// Sweep and let servers fail, but nothing about chunks that leave together
    #[arg(long)]
    no_policies: bool,
    /// Servers that are asked first and have nothing of an object ask the origin at once, instead of its other
    /// servers
    #[arg(long)]
    lead_alone: bool,
    /// Whatever the policy, disks give up in the order of a hash that an object's chunks share, tell each other how
    /// far they are with every read and write, and tell parity's servers of hits
    #[arg(long)]
    one_hand: bool,
    /// The share of its disk that each server has as memory before it
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = read_share)]
    memory: f64,
    /// Buckets that objects are routed by
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    buckets: u32,
    /// From this size on objects are coded
    #[arg(long, value_name = "BYTES", default_value = "128kb", value_parser = read_bytes)]
    coded_from: u64,
    /// The share of requests at the start that count for nothing
    #[arg(long, value_name = "SHARE", default_value = "40%", value_parser = read_share)]
    warm_up: f64,
    /// The stretches of time that results are told by
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = span_ms)]
    window: u64,
    /// Place parity anew so often, also while no server comes or goes
    #[arg(long, value_name = "SPAN", value_parser = span_ms)]
    rebalance: Option<u64>,
    /// Servers that are down: drawn, or a file with a line of their numbers for every five minutes; both
    /// begin when the warm-up ends
    #[arg(long, value_name = "WHAT")]
    down: Option<String>,
    /// Determines all that chance decides
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Runs at a time [default: one for each processor]
    #[arg(long, short, value_name = "COUNT")]
    jobs: Option<NonZeroUsize>,
    /// Memory that the trace and one run may use, such as 8gb [default: 80 % of what is available]
    #[arg(long, value_name = "BYTES", value_parser = read_bytes)]
    memory_limit: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pages: Pages,
}

impl Arguments {
    /// Simulates and prints.
    pub fn run(&self) -> Result<()> {
        ensure_each_once("--scheme", &self.scheme)?;
        ensure_each_once("--policies", &self.policies)?;
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

    /// The servers' weights, by cluster.
    fn clusters(&self) -> Result<Vec<Vec<u32>>> {
        if !self.weights.is_empty() {
            return Ok(vec![self.weights.clone()]);
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
            ignores_time: self.rate.is_some(),
            memory_limit: self.memory_limit.unwrap_or_else(memory_share),
            ..Interning::default()
        };
        if let Some(content) = self.content() {
            let largest = u32::try_from(self.largest).ok();
            let largest = largest.context("--largest: objects are below 4 GiB")?;
            let made = Cdn::new(content, self.requests, largest, self.seed);
            let made = made.map_err(|reason| anyhow!("{content}: {reason}"))?;
            return Ok(Interner::all(&self.trace, how, made.map(Ok))?);
        }
        let name = &self.trace;
        let options = trace::Options {
            format: self.format,
            columns: self.columns.clone(),
            skip_bad: self.skip_bad,
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
        let mut interner = Interner::new(stem(name), how);
        for (number, request) in (1u64..).zip(&mut reader) {
            let request: Request = request?;
            interner.push(&request)?;
            if number.is_multiple_of(READ_STRIDE) {
                bar.set_message(format!("{name}: {number} requests read"));
                bar.tick();
            }
        }
        bar.finish_and_clear();
        if let Some(first) = reader.first_skipped() {
            let count = reader.skipped();
            eprintln!("mayfly: {name}: passed over {count} malformed; the first: {first}");
        }
        Ok(interner.finish()?)
    }

    fn study(&self, columns: &Columns, clusters: Vec<Vec<u32>>) -> Result<Study> {
        // Before shares of a footprint in bytes that nobody told.
        check_sizes(columns)?;
        ensure!(self.window > 0, "--window: expected more than no time");
        let rebalance_ms = self.rebalance;
        ensure!(
            rebalance_ms != Some(0),
            "--rebalance: expected more than no time"
        );
        let coded_from = u32::try_from(self.coded_from).ok();
        let coded_from = coded_from.context("--coded-from: objects are below 4 GiB")?;
        let gap_ms = self.gap_ms(columns)?;
        let (sizes, base) = self.sizes(columns)?;
        let span_ms = columns.span_ms(gap_ms);
        let coded = self.scheme.iter().find_map(|scheme| match *scheme {
            Scheme::Coded { data, parity, .. } => Some((data, parity)),
            _ => None,
        });
        let servers = clusters[0].len() as u32;
        Ok(Study {
            rules: Rules {
                buckets: self.buckets,
                coded_from,
                warm_up: (columns.len() as f64 * self.warm_up) as usize,
                window_ms: self.window,
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
            memory_share: self.memory,
            policies: match self.sweep_only || self.no_policies || coded.is_none() {
                true => Vec::new(),
                false => self.policies.clone(),
            },
            code: coded.unwrap_or((3, 1)),
            has_failures: !self.sweep_only,
            coordination: self.coordination(),
            outages: self.outages(servers, span_ms)?,
        })
    }

    fn coordination(&self) -> Coordination {
        let lead_alone = self.lead_alone;
        match self.one_hand {
            true => Coordination {
                telling: Telling::Hits,
                order: Order::SharedHash,
                lead_alone,
                ..Coordination::default()
            },
            false => Coordination {
                lead_alone,
                ..Coordination::default()
            },
        }
    }

    fn gap_ms(&self, columns: &Columns) -> Result<Option<f64>> {
        let rate = match self.rate {
            None if !columns.has_time() => Some(RATE_DEFAULT),
            rate => rate,
        };
        if let Some(rate) = rate {
            let is_rate = rate > 0.0 && rate.is_finite();
            ensure!(
                is_rate,
                "--rate {rate}: expected more than 0 requests a second"
            );
        }
        Ok(rate.map(|rate| 1000.0 / rate))
    }

    /// The sizes with the base among them, and its index.
    fn sizes(&self, columns: &Columns) -> Result<(Vec<(String, u64)>, usize)> {
        let of_content = match self.content() {
            Some(Content::Web) => BASE_WEB,
            _ => BASE_VIDEO,
        };
        let base = match &self.base {
            Some(size) => size.clone(),
            None => of_content.parse()?,
        };
        let footprint = columns.footprint(Unit::Bytes);
        let resolve = |size: &Size| -> Result<(String, u64)> {
            let bytes = size.resolve(footprint, columns.name(), Unit::Bytes)?;
            Ok((size.to_string(), bytes))
        };
        let mut sizes: Vec<_> = self.size.iter().map(resolve).collect::<Result<_>>()?;
        // 18% and 18.0% are one size.
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
        match self.down.as_deref() {
            None => Ok(Vec::new()),
            Some("drawn") => draw_outages(servers, span_ms, self.seed)
                .map_err(|reason| anyhow!("--down: {reason}")),
            Some(path) => {
                let path = PathBuf::from(path);
                let name = path.to_string_lossy();
                let file = File::open(&path).with_context(|| {
                    format!("--down: cannot open {name}, and it is not the word drawn")
                })?;
                let outages = read_outages(&name, file, WINDOW_MS)?;
                let is_any = outages.iter().any(|outage| outage.server < servers);
                ensure!(
                    is_any || outages.is_empty(),
                    "--down: {name} names none of the servers 0 to {}",
                    servers - 1
                );
                Ok(outages)
            }
        }
    }
}

/// What is given twice would be told twice, and as lines of a plot, one upon the other.
fn ensure_each_once<T: ToString>(option: &str, given: impl IntoIterator<Item = T>) -> Result<()> {
    let mut seen = HashSet::new();
    for one in given {
        let one = one.to_string();
        ensure!(!seen.contains(&one), "{option}: {one} is given twice");
        seen.insert(one);
    }
    Ok(())
}
