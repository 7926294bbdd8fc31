//! `mayfly edge serve`: converts the arguments to the settings of a node, and runs it.

use super::file;
use anyhow::{Context, Result, anyhow};
use clap::{Args, ValueEnum};
use node::{
    ClusterConfig, Config, DiskConfig, File, Limits, LogField, LogFormat, Network, Origin,
    Security, Server, ServerId,
};
use server::logging;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread::available_parallelism;
use std::time::Duration;

/// Arguments of `mayfly edge serve`.
#[derive(Args)]
pub struct Arguments {
    /// Configuration file in TOML: these options, origins and rules; options of the command line
    /// have precedence
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Report whether the configuration is valid, and exit
    #[arg(long)]
    check_config: bool,
    /// Server that requests are forwarded to: http://HOST[:PORT] for all hosts, or
    /// NAME=http://HOST[:PORT] for the requests of one host; may be repeated
    #[arg(
        long = "origin",
        value_name = "URL",
        required_unless_present = "config"
    )]
    origins: Vec<Origin>,
    /// Address for clients without TLS, or unix:PATH for a Unix socket; may be repeated
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: Vec<Listen>,
    /// Address for clients with TLS; may be repeated
    #[arg(long, value_name = "ADDRESS", requires = "cert")]
    listen_tls: Vec<SocketAddr>,
    /// Proxy whose X-Forwarded-For and X-Forwarded-Proto are used: an address, or a range such as
    /// 10.0.0.0/8; may be repeated
    #[arg(long, value_name = "NETWORK")]
    trust: Vec<Network>,
    /// Each connection of a client begins with a header of the PROXY protocol, from a trusted
    /// balancer
    #[arg(long, requires = "trust")]
    proxy_protocol: bool,
    /// Certificate chain in PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Key of the certificate in PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Address for metrics, health checks and purges
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,
    #[command(flatten)]
    operators: OperatorArguments,
    /// File with the token that purges need; without it they are refused
    #[arg(long, value_name = "FILE")]
    purge_token_file: Option<PathBuf>,
    /// Memory for responses: stored, being fetched, and not yet taken by clients
    #[arg(long, value_name = "BYTES", default_value = "256mb", value_parser = units::bytes)]
    memory: u64,
    /// Folder of the disk tier, for responses evicted from memory
    #[arg(long, value_name = "FOLDER", requires = "disk_size")]
    disk: Option<PathBuf>,
    /// Capacity of the disk tier
    #[arg(long, value_name = "BYTES", value_parser = units::bytes, requires = "disk")]
    disk_size: Option<u64>,
    /// Maximum bytes per second read to verify what is on disk; 0 disables verification
    #[arg(long, value_name = "BYTES", default_value = "4mib", value_parser = units::bytes, requires = "disk")]
    scrub_rate: u64,
    /// Largest response that is stored
    #[arg(long, value_name = "BYTES", default_value = "8mb", value_parser = units::bytes)]
    max_object: u64,
    /// Eviction policy
    #[arg(long, value_name = "NAME", default_value = "s3fifo")]
    policy: String,
    /// How long stale responses are used when the origin fails, unless the origin says otherwise
    #[arg(long, value_name = "SPAN", default_value = "60s", value_parser = units::span)]
    stale_if_error: Duration,
    /// How long stale responses with a validator are kept for revalidation
    #[arg(long, value_name = "SPAN", default_value = "10m", value_parser = units::span)]
    keep: Duration,
    /// Name of this node in Via and Cache-Status
    #[arg(long, value_name = "NAME", default_value = "mayfly")]
    name: String,
    /// File of the log [default: standard error]
    #[arg(
        long,
        value_name = "FILE",
        default_value = "",
        hide_default_value = true
    )]
    logfile: String,
    /// Format of the log: text or json
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json"])]
    log_format: String,
    /// Level of the log: debug, verbose, notice, warning or nothing
    #[arg(long, value_name = "LEVEL", default_value = "notice")]
    loglevel: String,
    /// Maximum time without a byte from or to a client, also between two requests
    #[arg(long, value_name = "SPAN", default_value = "60s", value_parser = units::span)]
    client_idle_time: Duration,
    #[command(flatten)]
    origin_times: OriginTimes,
    /// Maximum number of client connections
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().connections)]
    max_connections: usize,
    #[command(flatten)]
    cluster: ClusterArguments,
    /// Number of threads [default: one per processor]
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
}

/// Arguments for operators.
#[derive(Args)]
struct OperatorArguments {
    /// Certificate chain for --admin in PEM, which makes TLS necessary there
    #[arg(long, value_name = "FILE", requires_all = ["admin", "admin_key"])]
    admin_cert: Option<PathBuf>,
    /// Key of this certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "admin_cert")]
    admin_key: Option<PathBuf>,
    /// File with the token that all requests to --admin need, except /health
    #[arg(long, value_name = "FILE", requires = "admin")]
    admin_token_file: Option<PathBuf>,
    /// File of the access log; - is standard output
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Format of its lines: json, or combined as in Apache and nginx
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "json",
        requires = "access_log"
    )]
    access_log_format: LogKind,
    /// Fields of its lines in JSON, separated by commas [default: all]
    #[arg(
        long,
        value_name = "FIELDS",
        value_delimiter = ',',
        requires = "access_log"
    )]
    access_log_fields: Vec<LogField>,
}

/// Format of the access log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum LogKind {
    Json,
    Combined,
}

impl OperatorArguments {
    fn set(&self, config: &mut Config) -> Result<()> {
        config.admin_certificate = self.admin_cert.clone().zip(self.admin_key.clone());
        config.admin_token = token("admin token", self.admin_token_file.as_deref())?;
        config.access_log = self.access_log.clone();
        config.access_log_format = match (self.access_log_format, &self.access_log_fields[..]) {
            (LogKind::Combined, []) => LogFormat::Combined,
            (LogKind::Combined, _) => {
                return Err(anyhow!(
                    "--access-log-fields: expected --access-log-format json"
                ));
            }
            (LogKind::Json, []) => LogFormat::default(),
            (LogKind::Json, fields) => LogFormat::Json(fields.to_vec()),
        };
        Ok(())
    }
}

/// Reads a token from a file, if there is one.
pub(super) fn token(name: &str, path: Option<&Path>) -> Result<Option<String>> {
    let Some(path) = path else {
        return Ok(None);
    };
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("{name} {}", path.display()))?;
    Ok(Some(text.trim().to_owned()))
}

/// Place where clients connect.
#[derive(Clone, Debug)]
enum Listen {
    Address(SocketAddr),
    Path(PathBuf),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Listen::Path(path.into()));
        }
        let address = text.parse().map(Listen::Address);
        address.map_err(|_| "expected an address such as 0.0.0.0:8080, or unix:PATH".to_owned())
    }
}

/// Time limits for origins.
#[derive(Args)]
struct OriginTimes {
    /// Time limit for a connection to an origin
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = units::span)]
    origin_connect_time: Duration,
    /// Time limit for the first byte of a response, from the request on
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = units::span)]
    origin_first_byte_time: Duration,
    /// Maximum time between two parts of a response
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = units::span)]
    origin_idle_time: Duration,
    /// Time limit for a whole response [default: none]
    #[arg(long, value_name = "SPAN", value_parser = units::span)]
    origin_total_time: Option<Duration>,
    /// How long a client waits for the origin if a stale response may be used instead
    #[arg(long, value_name = "SPAN", default_value = "1s", value_parser = units::span)]
    stale_after: Duration,
}

impl OriginTimes {
    fn set(&self, limits: &mut Limits) {
        limits.connect_time = self.origin_connect_time;
        limits.origin_head_time = self.origin_first_byte_time;
        limits.origin_idle = self.origin_idle_time;
        limits.origin_total = self.origin_total_time;
        limits.stale_wait = self.stale_after;
    }
}

/// Arguments for a node of a cluster.
#[derive(Args)]
struct ClusterArguments {
    /// File that lists the nodes of a cluster or the endpoints of etcd, the same for all nodes
    #[arg(long, value_name = "FILE", requires = "cluster_id")]
    cluster: Option<PathBuf>,
    /// Number of this node, unique in the cluster
    #[arg(long, value_name = "NUMBER", requires = "cluster")]
    cluster_id: Option<u32>,
    /// Serve without a cluster, which is the default
    #[arg(long, conflicts_with = "cluster")]
    standalone: bool,
    /// Minimum size of responses that are cut into chunks
    #[arg(long, value_name = "BYTES", default_value = "128kib", value_parser = units::bytes, requires = "cluster")]
    coded_min_size: u64,
    /// Maximum bytes per second that this node reads to rebuild lost chunks; 0 rebuilds none
    #[arg(long, value_name = "BYTES", default_value = "16mib", value_parser = units::bytes, requires = "cluster")]
    repair_rate: u64,
    /// Address to listen on for other nodes [default: the address that they connect to]
    #[arg(long, value_name = "ADDRESS", requires = "cluster")]
    peer_listen: Option<SocketAddr>,
    /// Address of this node that other nodes connect to, if nodes are found in etcd
    #[arg(long, value_name = "ADDRESS", requires = "cluster")]
    peer_address: Option<SocketAddr>,
    /// Name in this node's certificate, if nodes are found in etcd [default: the address]
    #[arg(long, value_name = "NAME", requires = "peer_address")]
    peer_name: Option<String>,
    /// Weight of this node, if nodes are found in etcd
    #[arg(
        long,
        value_name = "NUMBER",
        default_value = "1",
        requires = "peer_address"
    )]
    peer_weight: u32,
    /// Certificates of the authorities that sign the nodes' certificates, in PEM
    #[arg(long, value_name = "FILE", requires_all = ["cluster", "peer_cert", "peer_key"])]
    peer_ca: Option<PathBuf>,
    /// Certificate chain of this node for other nodes, in PEM
    #[arg(long, value_name = "FILE", requires = "peer_ca")]
    peer_cert: Option<PathBuf>,
    /// Key of this certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "peer_ca")]
    peer_key: Option<PathBuf>,
    /// Connect nodes without TLS, on loopback addresses only, for tests
    #[arg(long, requires = "cluster", conflicts_with = "peer_ca")]
    peer_plain: bool,
}

impl ClusterArguments {
    fn config(&self, disk: Option<&Path>) -> Result<Option<ClusterConfig>> {
        let Some((path, id)) = self.cluster.as_ref().zip(self.cluster_id) else {
            return Ok(None);
        };
        let files = (&self.peer_ca, &self.peer_cert, &self.peer_key);
        let security = match files {
            (Some(authorities), Some(certificate), Some(key)) => Security::Tls {
                authorities: authorities.clone(),
                certificate: certificate.clone(),
                key: key.clone(),
            },
            _ if self.peer_plain => Security::Plain,
            _ => {
                return Err(anyhow!(
                    "--cluster: expected --peer-ca, --peer-cert and --peer-key, or --peer-plain on loopback addresses"
                ));
            }
        };
        let name = || format!("cluster {}", path.display());
        let text = std::fs::read_to_string(path).with_context(name)?;
        let parsed = ClusterConfig::parse(&text, ServerId(id), security);
        let mut cluster = parsed.with_context(name)?;
        cluster.coded_bytes_min = self.coded_min_size;
        cluster.repair_bytes_per_second = self.repair_rate;
        cluster.listen = self.peer_listen;
        match (&mut cluster.etcd, self.peer_address) {
            (None, None) => {}
            (None, Some(_)) => {
                return Err(anyhow!("--peer-address: the file has no line with etcd"));
            }
            (Some(_), None) => return Err(anyhow!("nodes in etcd: expected --peer-address")),
            (Some(etcd), Some(address)) => {
                // No other file of the disk tier has this name.
                etcd.copy = disk.map(|folder| folder.join("cluster-map"));
                cluster.servers.push(Server {
                    id: ServerId(id),
                    address,
                    weight: self.peer_weight,
                    name: self.peer_name.clone(),
                });
            }
        }
        Ok(Some(cluster))
    }
}

impl Arguments {
    /// Runs the node until it is stopped.
    pub fn run(&self) -> Result<()> {
        // The program's name and two subcommands come first.
        let words: Vec<OsString> = std::env::args_os().skip(3).collect();
        let (arguments, file) = file::merge::<Self>(&words)?;
        if arguments.check_config {
            return arguments.check(&file);
        }
        let Arguments {
            loglevel,
            logfile,
            log_format,
            ..
        } = &arguments;
        logging::start(loglevel, logfile, log_format).map_err(|error| anyhow!(error))?;
        let mut config = arguments.config(&file)?;
        raise_file_limit(&mut config);
        let threads = arguments
            .threads
            .unwrap_or_else(|| available_parallelism().map_or(1, usize::from));
        let reread = move || {
            let (arguments, file) = file::merge::<Self>(&words)?;
            let mut config = arguments.config(&file)?;
            raise_file_limit(&mut config);
            Ok(config)
        };
        let has_file = arguments.config.is_some();
        let reread = move || reread().map_err(|error: anyhow::Error| format!("{error:#}"));
        let reread = has_file.then(|| Box::new(reread) as node::Reread);
        node::run(config, threads, reread).map_err(|error| anyhow!(error))
    }

    fn check(&self, file: &File) -> Result<()> {
        let config = self.config(file)?;
        let all = [&config.certificate, &config.admin_certificate];
        for (certificate, key) in all.into_iter().flatten() {
            node::listen::tls(certificate, key).map_err(|error| anyhow!(error))?;
        }
        logging::check(&self.logfile).map_err(|error| anyhow!(error))?;
        println!("the configuration is valid");
        Ok(())
    }

    /// Returns the settings of the arguments and the tables of a file.
    pub(super) fn config(&self, file: &File) -> Result<Config> {
        let addresses = |listen: &Listen| match listen {
            Listen::Address(address) => Some(*address),
            Listen::Path(_) => None,
        };
        let paths = |listen: &Listen| match listen {
            Listen::Address(_) => None,
            Listen::Path(path) => Some(path.clone()),
        };
        let origins = match self.origins.is_empty() {
            true => &file.origins,
            false => &self.origins,
        };
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let mut config = Config {
            listen: self.listen.iter().filter_map(addresses).collect(),
            listen_unix: self.listen.iter().filter_map(paths).collect(),
            trusted: self.trust.clone(),
            has_proxy_header: self.proxy_protocol,
            listen_tls: self.listen_tls.clone(),
            certificate: self.cert.clone().zip(self.key.clone()),
            admin: self.admin,
            origins: origins.clone(),
            rules: file.rules.clone(),
            memory_bytes: self.memory,
            policy: self.policy.clone(),
            disk: self
                .disk
                .clone()
                .zip(self.disk_size)
                .map(|(folder, bytes)| DiskConfig { folder, bytes }),
            scrub_bytes_per_second: self.scrub_rate,
            object_bytes_max: self.max_object,
            name: self.name.clone(),
            ..Config::default()
        };
        config.cluster = self.cluster.config(self.disk.as_deref())?;
        config.grace.error_ms = millis(self.stale_if_error);
        config.grace.keep_ms = millis(self.keep);
        config.limits.connections = self.max_connections;
        config.limits.client_idle = self.client_idle_time;
        self.origin_times.set(&mut config.limits);
        config.purge_token = token("purge token", self.purge_token_file.as_deref())?;
        self.operators.set(&mut config)?;
        config.check().map_err(|error| anyhow!(error))?;
        Ok(config)
    }
}

/// Number of file descriptors reserved for everything but connections to clients and origins:
/// segments of the disk tier, ports, connections of operators and other nodes, and logs.
const SPARE_FILES: u64 = 512;

/// Raises the soft limit on open files to four per client: two for the client and its request to
/// the origin, and two for a connection that uses another protocol, which is counted separately. If
/// the limit is too low, lowers the number of clients until a quarter of the files is left for the
/// rest.
fn raise_file_limit(config: &mut Config) {
    let connections = config.limits.connections as u64;
    let Ok(reached) = rlimit::increase_nofile_limit(4 * connections + SPARE_FILES) else {
        return;
    };
    let possible = connections_with(reached);
    if possible < connections {
        log::warn!(
            "only {reached} files may be open: at most {possible} connections instead of {connections}"
        );
        config.limits.connections = usize::try_from(possible).unwrap_or(usize::MAX);
    }
}

/// Returns the number of clients for which `files` file descriptors are enough.
fn connections_with(files: u64) -> u64 {
    let free = files - SPARE_FILES.min(files / 2);
    (free - free / 4).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_enough_for_the_connections() {
        for (files, connections) in [(20_000, 14_616), (1_024, 384), (64, 24), (1, 1), (0, 1)] {
            assert_eq!(connections_with(files), connections, "{files}");
        }
    }

    fn merged(text: &str, words: &str) -> Result<(Arguments, File)> {
        let name = format!(
            "mayfly-edge-{}-{:p}.toml",
            std::process::id(),
            &raw const *text
        );
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text)?;
        let mut all = vec![OsString::from("--config"), path.clone().into()];
        all.extend(words.split_whitespace().map(OsString::from));
        let merged = file::merge(&all);
        std::fs::remove_file(&path)?;
        merged
    }

    #[test]
    fn the_command_line_has_precedence_over_the_file() {
        let text = "memory = \"512mb\"\nname = \"a\"\nlisten = [\"127.0.0.1:1\", \"unix:/s\"]\n\
            peer-plain = false\nthreads = 3\n[[origin]]\nservers = [\"http://b\"]\n";
        let (arguments, file) = merged(text, "--name c").expect("the text is valid");
        assert_eq!(file.origins.len(), 1);
        let config = arguments.config(&file).expect("the settings are valid");
        assert_eq!((config.memory_bytes, &*config.name), (512 << 20, "c"));
        assert_eq!(config.listen.len(), 1);
        assert_eq!(config.listen_unix, [PathBuf::from("/s")]);
        assert_eq!(config.origins, file.origins);
        let (arguments, file) = merged(text, "--origin http://d").expect("the text is valid");
        let config = arguments.config(&file).expect("the settings are valid");
        assert_eq!(config.origins[0].servers[0], "http://d/");
    }

    #[test]
    fn the_access_log_has_a_format_and_fields() {
        let of = |text: &str| {
            let text = format!("access-log = \"-\"\n{text}\n[[origin]]\nservers = [\"http://b\"]");
            let (arguments, file) = merged(&text, "")?;
            arguments
                .config(&file)
                .map(|config| config.access_log_format)
        };
        assert_eq!(of("").ok(), Some(LogFormat::default()));
        let combined = of("access-log-format = \"combined\"");
        assert_eq!(combined.ok(), Some(LogFormat::Combined));
        let fields = of("access-log-fields = [\"status\", \"url\"]");
        let expected = LogFormat::Json(vec![LogField::Status, LogField::Url]);
        assert_eq!(fields.ok(), Some(expected));
        let error = of("access-log-fields = \"agent\"").expect_err("it is not a field");
        assert!(
            error.to_string().contains("expected one of time"),
            "{error}"
        );
        let both = "access-log-format = \"combined\"\naccess-log-fields = \"url\"";
        let error = of(both).expect_err("the fields have no effect");
        assert!(
            error.to_string().contains("access-log-format json"),
            "{error}"
        );
    }

    #[test]
    fn the_files_of_the_guide_are_valid() {
        let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/");
        for name in ["edge.md", "edge-sites.md"] {
            let page = std::fs::read_to_string(format!("{guide}{name}"));
            let page = page.expect("the page is there");
            let blocks: Vec<&str> = page.split("```toml\n").skip(1).collect();
            assert!(!blocks.is_empty());
            for block in blocks {
                let text = block.split("```").next().unwrap_or_default();
                // The file with the token is the operator's.
                let text = text.replace("purge-token-file", "# purge-token-file");
                let (arguments, file) = merged(&text, "").expect(&text);
                arguments.config(&file).expect(&text);
            }
        }
    }

    #[test]
    fn errors_name_the_line_and_what_was_expected() {
        for (text, expected) in [
            (
                "\nmemory = \"12q\"",
                "line 2: invalid value '12q' for '--memory <BYTES>'",
            ),
            (
                "memor = 1",
                "line 1: memor: expected [[origin]], [[rule]] or an option: access-log",
            ),
            ("config = \"x\"", "line 1: config: expected [[origin]]"),
            ("memory = true", "line 1: memory: expected a value"),
            (
                "memory = [\"1gb\", \"2gb\"]",
                "line 1: the argument '--memory <BYTES>' cannot",
            ),
            (
                "standalone = 1",
                "line 1: standalone: expected true or false",
            ),
            (
                "listen = [\"8080\"]",
                "line 1: invalid value '8080' for '--listen <ADDRESS>'",
            ),
            (
                "cert = \"a\"",
                "the following required arguments were not provided: --key",
            ),
            ("[[rule]]\nx = 1", "line 2: x: expected a key of [[rule]]"),
        ] {
            let error = merged(text, "").map(|_| ()).expect_err(text);
            let error = format!("{error:#}");
            assert!(error.contains(expected), "{text}: {error}");
        }
        let absent = ["--config", "/no/such/file"].map(OsString::from);
        let error = file::merge::<Arguments>(&absent)
            .map(|_| ())
            .expect_err("it is absent");
        assert!(error.to_string().starts_with("/no/such/file: "), "{error}");
    }
}
