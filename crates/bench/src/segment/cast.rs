//! The compared engines: Mayfly's segment engine and slab engine, memcached with and without its
//! crawler, and Redis.

use crate::contestant::{Hosting, Server, Start, free_address, in_path, peer_args};
use crate::error::{Error, Result};
use crate::process::Cpus;
use crate::protocol::Protocol;
use serde::Serialize;
use std::path::PathBuf;

/// A compared engine.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Engine {
    /// Our segment engine, over memcached's protocol
    Segment,
    /// Our slab engine with s3fifo, over memcached's protocol
    Slab,
    /// memcached with its default settings, which include the crawler
    Memcached,
    /// memcached without its crawler
    NoCrawler,
    /// redis-server with its sampled LRU, over RESP
    Redis,
}

impl Engine {
    /// Returns the name in reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Engine::Segment => "mayfly segment",
            Engine::Slab => "mayfly slab",
            Engine::Memcached => "memcached",
            Engine::NoCrawler => "memcached, no crawler",
            Engine::Redis => "redis",
        }
    }

    /// Returns true if the engine supports several data threads.
    pub(super) fn has_threads(self) -> bool {
        self != Engine::Redis
    }
}

/// An engine and the path of its program.
#[derive(Clone, Debug)]
pub(super) struct Player {
    pub engine: Engine,
    program: PathBuf,
    server_args: Vec<String>,
    /// CPUs for one data thread, and for several.
    cpus: [Cpus; 2],
}

/// Programs of the other servers.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Programs {
    /// Path of memcached [default: the one in PATH]
    #[arg(long, value_name = "PROGRAM")]
    memcached: Option<PathBuf>,
    /// Path of redis-server [default: the one in PATH]
    #[arg(long, value_name = "PROGRAM")]
    redis: Option<PathBuf>,
}

/// Returns the engines whose programs are installed and, for each other engine, a line that says
/// what is missing.
pub(super) fn cast(
    engines: &[Engine],
    hosting: &Hosting,
    programs: &Programs,
) -> Result<(Vec<Player>, Vec<String>)> {
    // The default is all CPUs that this thread may use, because it is not pinned yet.
    let many = hosting.server_cpu.clone().unwrap_or_else(Cpus::all);
    let cpus = [hosting.server_cpus(), many];
    let (mut players, mut left_out) = (Vec::new(), Vec::new());
    for &engine in engines {
        let (program, name) = match engine {
            Engine::Segment | Engine::Slab => (Some(hosting.program()?), "mayfly"),
            Engine::Memcached | Engine::NoCrawler => (
                programs.memcached.clone().or_else(|| in_path("memcached")),
                "memcached",
            ),
            Engine::Redis => (
                programs.redis.clone().or_else(|| in_path("redis-server")),
                "redis-server",
            ),
        };
        match program {
            Some(program) => players.push(Player {
                engine,
                program,
                server_args: hosting.server_args.clone(),
                cpus: cpus.clone(),
            }),
            None => left_out.push(format!("{}: no {name} in PATH", engine.name())),
        }
    }
    match players.is_empty() {
        true => Err(Error::Usage(format!(
            "nobody to measure: {}",
            left_out.join(", ")
        ))),
        false => Ok((players, left_out)),
    }
}

impl Player {
    /// Starts an empty server with a memory limit in bytes, a multiple of 1 MiB.
    pub(super) fn start(&self, memory_bytes: u64, threads: usize) -> Result<Server> {
        let address = free_address()?;
        let port = address.port().to_string();
        let (args, protocol) = match self.engine {
            Engine::Segment => (
                self.our_args(&["--engine", "segment"], &port)?,
                Protocol::Memcached,
            ),
            Engine::Slab => {
                let policy = ["--maxmemory-policy", "allkeys-s3fifo"];
                (self.our_args(&policy, &port)?, Protocol::Memcached)
            }
            Engine::Memcached => (memcached_args(&port), Protocol::Memcached),
            Engine::NoCrawler => {
                let mut args = memcached_args(&port);
                args.extend(["-o", "no_lru_crawler"].map(String::from));
                (args, Protocol::Memcached)
            }
            Engine::Redis => {
                let policy = ["--maxmemory-policy", "allkeys-lru", "--port", &port];
                let policy = policy.map(String::from);
                ([&peer_args()[..], &policy].concat(), Protocol::Resp)
            }
        };
        let amount = match self.engine {
            Engine::Segment | Engine::Slab => vec![
                "--maxmemory".into(),
                memory_bytes.to_string(),
                "--threads".into(),
                threads.to_string(),
            ],
            Engine::Memcached | Engine::NoCrawler => vec![
                "-m".into(),
                (memory_bytes >> 20).to_string(),
                "-t".into(),
                threads.to_string(),
            ],
            Engine::Redis => vec!["--maxmemory".into(), memory_bytes.to_string()],
        };
        let start = Start {
            label: self.engine.name(),
            program: &self.program,
            args: &[args, amount].concat(),
            cpus: &self.cpus[usize::from(threads > 1)],
        };
        let mut server = Server::launch(&start, address, protocol)?;
        if protocol == Protocol::Resp {
            let info = server.client()?.info("server")?;
            server.version = info.get("redis_version").cloned().unwrap_or_default();
        }
        Ok(server)
    }

    /// Returns arguments for Mayfly. It also listens for RESP on a port that the experiment does
    /// not use.
    fn our_args(&self, own: &[&str], port: &str) -> Result<Vec<String>> {
        let resp_port = free_address()?.port().to_string();
        let mut args: Vec<String> = ["serve", "--bind", "127.0.0.1", "--port", &resp_port]
            .map(String::from)
            .to_vec();
        args.extend(["--dbfilename".into(), "mayfly-bench-none.rdb".into()]);
        args.extend(["--memcached".into(), port.into()]);
        args.extend(own.iter().map(|arg| arg.to_string()));
        args.extend(self.server_args.iter().cloned());
        Ok(args)
    }
}

fn memcached_args(port: &str) -> Vec<String> {
    let mut args = vec!["-l", "127.0.0.1", "-U", "0", "-c", "1024", "-p", port];
    if rustix::process::geteuid().is_root() {
        // memcached refuses to run as root without this option.
        args.extend(["-u", "root"]);
    }
    args.into_iter().map(String::from).collect()
}
