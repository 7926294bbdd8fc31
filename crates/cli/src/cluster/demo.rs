//! `mayfly cluster demo`: an etcd and some nodes on this machine, which end together.

use super::{Access, read, runtime};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use membership::directory::{Directory, initial};
use membership::kv::{Guard, Kv, Write};
use membership::records::{CONFIG, Config, LEASE_MS_DEFAULT, SYNC_TIMEOUT_MS_DEFAULT};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs::{self, File};
use std::io::{Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time between two looks at what has been started.
const POLL: Duration = Duration::from_millis(50);
/// Maximum time until etcd answers and the nodes serve.
const START: Duration = Duration::from_secs(30);
/// Time that nodes have to end before they are killed.
const STOP: Duration = Duration::from_secs(10);

/// Arguments of `mayfly cluster demo`.
#[derive(Args)]
pub struct Arguments {
    /// Number of shards
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    nodes: u32,
    /// Number of replicas of each shard; each is a node as well
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    replicas: u32,
    /// Port of the first node; the others have the next ones, and then etcd two
    #[arg(long, value_name = "PORT", default_value_t = 7000)]
    port: u16,
    /// Folder for data and logs, which stays [default: one for this run, which is removed]
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// Lease time of primaries in milliseconds
    #[arg(long, value_name = "MS", default_value_t = LEASE_MS_DEFAULT)]
    lease_ms: u64,
    /// When a primary replies to a write: at once (async), or when all replicas that may replace
    /// it have the write (sync)
    #[arg(long, value_name = "WORD", default_value = "async")]
    strength: super::change::Word,
}

/// Processes, which end when this is dropped: nodes first, and etcd last.
struct Processes {
    etcd: Child,
    nodes: Vec<Child>,
}

impl Drop for Processes {
    fn drop(&mut self) {
        for node in &self.nodes {
            terminate(node);
        }
        let end = Instant::now() + STOP;
        for node in &mut self.nodes {
            end_before(node, end);
        }
        terminate(&self.etcd);
        end_before(&mut self.etcd, end);
    }
}

fn terminate(child: &Child) {
    if let Some(id) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        // It may have ended already.
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    }
}

/// Waits for the end of a process, and kills it at an instant.
fn end_before(child: &mut Child, end: Instant) {
    while Instant::now() < end {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(POLL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

impl Arguments {
    pub(super) fn run(&self) -> Result<()> {
        let config = Config {
            cluster: super::change::name()?,
            shards: self.nodes,
            replicas: self.replicas,
            lease_ms: self.lease_ms,
            strength: self.strength.into(),
            sync_timeout_ms: SYNC_TIMEOUT_MS_DEFAULT,
        };
        config.check().map_err(|refusal| anyhow!("{refusal}"))?;
        let ports = self.ports()?;
        let (folder, is_own) = self.folder()?;
        let mut signals = Signals::new([SIGINT, SIGTERM]).context("signals")?;
        let result = self.serve(&config, &ports, &folder, &mut signals);
        if is_own {
            // What remains is in the folder for temporary files.
            let _ = fs::remove_dir_all(&folder);
        }
        result
    }

    /// Returns the ports of the nodes and then two of etcd, all of which are free.
    fn ports(&self) -> Result<Vec<u16>> {
        let count = u64::from(self.nodes) * (u64::from(self.replicas) + 1) + 2;
        let ports: Vec<u16> = (0..count)
            .map_while(|at| u16::try_from(u64::from(self.port) + at).ok())
            .collect();
        if ports.len() as u64 != count {
            bail!("--port {}: expected {count} ports up to 65535", self.port);
        }
        for port in &ports {
            let free = TcpListener::bind(("127.0.0.1", *port));
            free.with_context(|| {
                format!(
                    "port {port}: expected {count} free ports from --port {}",
                    self.port
                )
            })?;
        }
        Ok(ports)
    }

    /// Creates the folder. Returns whether it is for this run only.
    fn folder(&self) -> Result<(PathBuf, bool)> {
        let (folder, is_own) = match &self.dir {
            Some(folder) => (folder.clone(), false),
            None => {
                let name = format!("mayfly-cluster-{}", std::process::id());
                (std::env::temp_dir().join(name), true)
            }
        };
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let folder = fs::canonicalize(&folder).with_context(|| folder.display().to_string())?;
        Ok((folder, is_own))
    }

    fn serve(
        &self,
        config: &Config,
        ports: &[u16],
        folder: &Path,
        signals: &mut Signals,
    ) -> Result<()> {
        let (etcd_ports, nodes) = ports
            .split_last_chunk::<2>()
            .map_or(([0; 2], ports), |(nodes, etcd)| (*etcd, nodes));
        let etcd = start_etcd(etcd_ports, folder)?;
        let mut processes = Processes {
            etcd,
            nodes: Vec::new(),
        };
        let access = Access::at(&format!("http://127.0.0.1:{}", etcd_ports[0]));
        poll(&mut processes, || create(&access, config))?;
        for port in nodes {
            processes.nodes.push(start_node(&access, *port, folder)?);
        }
        poll(&mut processes, || Ok(is_complete(&state(&access)?, config)))?;
        // A record precedes its effect on the nodes.
        poll(&mut processes, || serve_all(nodes))?;
        println!("etcd      {}", access.etcd);
        for port in nodes {
            println!("node      127.0.0.1:{port}");
        }
        println!("folder    {}", folder.display());
        println!(
            "for example: redis-cli -c -p {}; mayfly cluster status --etcd {}",
            nodes[0], access.etcd
        );
        println!("the cluster ends with this command (Ctrl-C)");
        let _ = signals.forever().next();
        println!("ending");
        Ok(())
    }
}

fn log(folder: &Path, name: &str) -> Result<Stdio> {
    let path = folder.join(format!("{name}.log"));
    let file = File::create(&path).with_context(|| path.display().to_string())?;
    Ok(file.into())
}

fn start_etcd([port, peer]: [u16; 2], folder: &Path) -> Result<Child> {
    let (url, peer) = (
        format!("http://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{peer}"),
    );
    let mut command = Command::new("etcd");
    // Variables of a service would change this process.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ETCD_") {
            command.env_remove(name);
        }
    }
    command.arg("--data-dir").arg(folder.join("etcd"));
    command.args([
        "--listen-client-urls",
        &url,
        "--advertise-client-urls",
        &url,
    ]);
    command.args([
        "--listen-peer-urls",
        &peer,
        "--initial-advertise-peer-urls",
        &peer,
    ]);
    command.args(["--initial-cluster", &format!("default={peer}")]);
    // One member waits for no others before it leads, in milliseconds.
    command.args(["--heartbeat-interval", "20", "--election-timeout", "200"]);
    command
        .stdin(Stdio::null())
        .stdout(log(folder, "etcd-output")?)
        .stderr(log(folder, "etcd")?);
    command
        .spawn()
        .context("etcd: expected the program of the package etcd-server")
}

fn start_node(access: &Access, port: u16, folder: &Path) -> Result<Child> {
    let program = std::env::current_exe().context("the path of this program")?;
    let data = folder.join(format!("node-{port}"));
    fs::create_dir_all(&data).with_context(|| data.display().to_string())?;
    let mut command = Command::new(program);
    command.args(["serve", "--port", &port.to_string(), "--bind", "127.0.0.1"]);
    command.args([
        "--cluster-enabled",
        "yes",
        "--cluster-etcd-endpoints",
        &access.etcd,
    ]);
    command.arg("--dir").arg(&data);
    let name = format!("node-{port}");
    command
        .stdin(Stdio::null())
        .stdout(log(folder, &format!("{name}-output"))?)
        .stderr(log(folder, &name)?);
    command.spawn().context("a node")
}

/// Repeats `is_done` until it returns true. Errors are repeated until the time is over.
fn poll(processes: &mut Processes, mut is_done: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + START;
    loop {
        let result = is_done();
        if matches!(result, Ok(true)) {
            return Ok(());
        }
        let Processes { etcd, nodes } = processes;
        for child in nodes.iter_mut().chain([etcd]) {
            if let Ok(Some(status)) = child.try_wait() {
                bail!("a process has ended with {status}: its log is in the folder (see --dir)");
            }
        }
        if Instant::now() >= end {
            result?;
            bail!(
                "the cluster is not complete after {} s: see the logs in the folder (--dir)",
                START.as_secs()
            );
        }
        std::thread::sleep(POLL);
    }
}

fn state(access: &Access) -> Result<Directory> {
    access.with(async |_, directory| Ok(directory))
}

/// Creates the cluster, unless the folder has one from an earlier run.
fn create(access: &Access, config: &Config) -> Result<bool> {
    let shards = (0..config.shards).map(|_| super::change::name());
    let shards: Vec<_> = shards.collect::<Result<_>>()?;
    let etcd = access.connect()?;
    runtime()?.block_on(async {
        if read(&etcd).await?.config().is_some() {
            return Ok(true);
        }
        let writes = initial(config, &shards).into_iter();
        let writes = writes
            .map(|(key, value)| Write::Put(key, value, None))
            .collect();
        let guards = vec![Guard::Revision(CONFIG.into(), 0)];
        let applied = etcd.commit(guards, writes).await;
        Ok(applied
            .map_err(|failure| anyhow!("etcd: {failure}"))?
            .is_some())
    })
}

/// Whether all nodes report that all slots are served.
fn serve_all(ports: &[u16]) -> Result<bool> {
    for port in ports {
        if !cluster_info(*port)?.contains("cluster_state:ok") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the reply of a node to CLUSTER INFO.
fn cluster_info(port: u16) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(START))?;
    stream.write_all(b"CLUSTER INFO\r\nQUIT\r\n")?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    Ok(reply)
}

/// Whether all shards have their primaries and in-sync replicas.
fn is_complete(directory: &Directory, config: &Config) -> bool {
    let mut shards = directory.shards().values();
    shards.all(|(shard, _)| {
        shard.primary.is_some() && shard.in_sync.len() >= config.replicas as usize
    })
}
