//! `mayfly ping`: reports whether a server answers, for health checks of containers and monitors.
//!
//! The address is taken from the server's own settings, so that a health check follows them. A
//! server with a password also answers PING without it, but then does not report that it is still
//! loading. The password is therefore sent if the settings or a file contain it.

use anyhow::{Context, Result, bail};
use server::command::acl::read_password;
use server::tls::client::{self, Refusal};
use settings::load::{self, FILE_VARIABLE, Sources};
use settings::{Config, Id, files};
use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `mayfly ping`.
#[derive(clap::Args)]
#[command(
    after_help = "Exit code 0 means that the server answers commands; 1, that it does not, or that it is still loading its keys. Variables MAYFLY_NAME of the environment are read as the server reads them."
)]
pub struct Arguments {
    /// Config file of the server, with its address, port or local socket
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Address or name of the server [default: the first address of the setting bind]
    #[arg(long, value_name = "ADDRESS")]
    host: Option<String>,
    /// TCP port for Redis's protocol [default: the setting port, or tls-port with --tls or if port
    /// is 0]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Use TLS
    #[arg(long)]
    tls: bool,
    /// Require a certificate for --host from an authority in this file [default: the certificate of
    /// the setting tls-cert-file is expected; any other causes a warning]
    #[arg(long, value_name = "FILE", requires = "tls")]
    cacert: Option<PathBuf>,
    /// File with the password of the default user in its first line [default: the setting
    /// requirepass or requirepass-file, if set]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Path of a local socket for Redis's protocol [default: the setting unixsocket, if no port is
    /// set]
    #[arg(long, value_name = "PATH", conflicts_with_all = ["host", "port", "tls"])]
    unixsocket: Option<PathBuf>,
    /// Seconds to wait for the connection, and then again for the reply
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

/// Maximum length of a reply in bytes. PONG and the errors of Redis are far shorter.
const REPLY_BYTES_MAX: u64 = 4096;

/// Errors with which a running server answers a client that lacks a password or permission, or does
/// not use the new name of PING.
const DENIALS: [&str; 4] = ["-NOAUTH", "-NOPERM", "-ERR unknown command", DENIED_BY_TLS];

/// Text that represents the refusal of the client's certificate, which also shows that the server
/// serves.
const DENIED_BY_TLS: &str = "the server demands another certificate of its clients";

/// Maximum size of a password file in bytes.
const PASSWORD_FILE_BYTES_MAX: u64 = 1 << 16;

const NO_REPLY: &str = "the server accepts the connection but does not reply";

/// Location at which a server listens.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Local(PathBuf),
    Tcp(String, u16),
    Tls(String, u16),
}

/// Password, and whether it was given for this request.
struct Password {
    text: String,
    is_given: bool,
}

/// Sends PING, and prints PONG if the server answers.
///
/// # Errors
/// Returns an error if the server does not answer or is still loading.
pub fn run(arguments: &Arguments) -> Result<()> {
    let config = Config::default();
    read_settings(arguments, &config)?;
    let place = place(arguments, &config)?;
    let names = Names::of(&config);
    let password = password(arguments, &config)?;
    let limit = Duration::from_secs(arguments.timeout);
    let reply = match &place {
        Place::Local(path) => {
            let stream = UnixStream::connect(path)
                .with_context(|| format!("no server at {}", path.display()))?;
            stream.set_read_timeout(Some(limit))?;
            stream.set_write_timeout(Some(limit))?;
            ask(stream, &names, password).context(NO_REPLY)
        }
        Place::Tcp(host, port) => {
            ask(connect(host, *port, limit)?, &names, password).context(NO_REPLY)
        }
        Place::Tls(host, port) => {
            let stream = connect(host, *port, limit)?;
            let authority = arguments.cacert.as_deref();
            ask_by_tls(stream, host, &config, authority, (&names, password))
        }
    };
    let reply = reply?;
    if !is_answer(&reply) {
        bail!("expected PONG, but the server replied: {reply}");
    }
    println!("PONG");
    Ok(())
}

/// Reads the server's settings. An error in the file is only a warning, because the file may have
/// been edited since the server started.
fn read_settings(arguments: &Arguments, config: &Config) -> Result<()> {
    let variable = std::env::var_os(FILE_VARIABLE).map(PathBuf::from);
    let file = arguments.file.as_ref().or(variable.as_ref());
    if let Some(path) = file.filter(|path| !path.exists()) {
        bail!("{}: no such config file", path.display());
    }
    let sources = Sources {
        file: file.map(PathBuf::as_path),
        environment: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        command_line: vec![],
    };
    let mut problems = load::load(config, &sources).problems;
    if arguments.password_file.is_none() {
        problems.extend(read_password(config).err());
    }
    for problem in problems {
        eprintln!("warning: {problem}");
    }
    Ok(())
}

/// Returns the password from the command line, or else from the settings.
fn password(arguments: &Arguments, config: &Config) -> Result<Option<Password>> {
    let Some(path) = &arguments.password_file else {
        let text = config.text(Id::RequirePass);
        let is_given = false;
        return Ok((!text.is_empty()).then_some(Password { text, is_given }));
    };
    let text = first_line(path)
        .map_err(|why| anyhow::anyhow!("--password-file {}: {why}", path.display()))?;
    let is_given = true;
    Ok(Some(Password { text, is_given }))
}

/// Returns the first line of a password file.
///
/// # Errors
/// It cannot be read, or the line is empty.
pub(crate) fn first_line(path: &Path) -> Result<String, String> {
    let bytes = files::read(path, PASSWORD_FILE_BYTES_MAX)?;
    let text = String::from_utf8(bytes).map_err(|_| "expected a text in UTF-8".to_owned())?;
    match text.lines().next() {
        None | Some("") => Err("the first line is empty".to_owned()),
        Some(line) => Ok(line.to_owned()),
    }
}

/// Determines where the server listens. The command line takes precedence over the settings.
fn place(arguments: &Arguments, config: &Config) -> Result<Place> {
    if let Some(path) = &arguments.unixsocket {
        return Ok(Place::Local(path.clone()));
    }
    let host = arguments
        .host
        .clone()
        .unwrap_or_else(|| reachable(&config.text(Id::Bind)));
    let number = |id| config.number(id) as u16;
    let (plain, tls) = (number(Id::Port), number(Id::TlsPort));
    let path = config.path(Id::UnixSocket);
    let port = arguments
        .port
        .unwrap_or(if arguments.tls { tls } else { plain });
    if port != 0 {
        Ok(match arguments.tls {
            true => Place::Tls(host, port),
            false => Place::Tcp(host, port),
        })
    } else if arguments.tls {
        bail!("the settings have no tls-port; name one with --port")
    } else if tls != 0 {
        Ok(Place::Tls(host, tls))
    } else if !path.is_empty() {
        Ok(Place::Local(path.into()))
    } else {
        bail!("the settings have no port and no local socket; name one with --port or --unixsocket")
    }
}

/// Returns an address at which this machine can reach a server with this value of `bind`.
fn reachable(bind: &str) -> String {
    let first = bind.split_ascii_whitespace().next().unwrap_or("localhost");
    match first.trim_start_matches('-') {
        "*" | "0.0.0.0" => Ipv4Addr::LOCALHOST.to_string(),
        "::*" | "::" => Ipv6Addr::LOCALHOST.to_string(),
        word => word.to_owned(),
    }
}

/// Connects to the first address of a name that accepts. The time limit also applies to each read
/// and write.
fn connect(host: &str, port: u16, limit: Duration) -> Result<TcpStream> {
    let addresses: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        Ok(ip) => vec![(ip, port).into()],
        Err(_) => (host, port)
            .to_socket_addrs()
            .with_context(|| format!("address {host}"))?
            .collect(),
    };
    let mut failure = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => {
                stream.set_read_timeout(Some(limit))?;
                stream.set_write_timeout(Some(limit))?;
                return Ok(stream);
            }
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) => Err(error).with_context(|| format!("no server at {host} port {port}")),
        None => bail!("{host} has no address"),
    }
}

/// Sends PING over TLS. A password is sent only to the expected server.
fn ask_by_tls(
    stream: TcpStream,
    host: &str,
    config: &Config,
    authority: Option<&Path>,
    (names, password): (&Names, Option<Password>),
) -> Result<String> {
    let denied = |refusal| match refusal {
        Refusal::OfClient(alert) => Ok(format!("{DENIED_BY_TLS}: {alert:?}")),
        Refusal::Other(why) => Err(anyhow::anyhow!("TLS: {why}")),
    };
    let connected = match client::connect(stream, host, config, authority) {
        Ok(connected) => connected,
        Err(refusal) => return denied(refusal),
    };
    if !connected.is_expected {
        eprintln!(
            "warning: the server's certificate is not that of tls-cert-file; after a renewal, send SIGHUP to the server"
        );
    }
    let password = password.filter(|_| connected.is_expected);
    // In TLS 1.3 the server checks the client's certificate after the handshake. If it closes the
    // connection before it has read PING, the system may reset the connection and drop the server's
    // alert.
    ask(connected.stream, names, password).or_else(|error| match error.downcast::<io::Error>() {
        Ok(error) if matches!(error.kind(), ConnectionReset | BrokenPipe) => {
            Ok(DENIED_BY_TLS.to_owned())
        }
        Ok(error) => denied(client::refusal(error)),
        Err(error) => Err(error.context(NO_REPLY)),
    })
}

/// Sends the password, if there is one, and PING. Returns the first line of the reply to PING.
fn ask(mut stream: impl Read + Write, names: &Names, password: Option<Password>) -> Result<String> {
    if let Some(Password { text, .. }) = &password {
        write_command(&mut stream, &[&names.auth, text])?;
    }
    write_command(&mut stream, &[&names.ping])?;
    stream.flush()?;
    let mut replies = BufReader::new(stream.take(REPLY_BYTES_MAX));
    let mut next = || -> Result<String> {
        let mut line = vec![];
        replies.read_until(b'\n', &mut line)?;
        if line.is_empty() {
            bail!("it closed the connection");
        }
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    };
    if let Some(password) = password {
        let reply = next()?;
        match reply.starts_with('-') {
            true if password.is_given => bail!("the server refuses the password: {}", code(&reply)),
            true => eprintln!(
                "warning: the server refuses the password of the settings: {}",
                code(&reply)
            ),
            false => {}
        }
    }
    next()
}

fn write_command(stream: &mut impl Write, words: &[&str]) -> io::Result<()> {
    let words = words.iter();
    let parts: Vec<String> = words
        .clone()
        .map(|word| format!("${}\r\n{word}\r\n", word.len()))
        .collect();
    write!(stream, "*{}\r\n{}", words.len(), parts.concat())
}

/// Names of commands, which `rename-command` may have changed.
struct Names {
    auth: String,
    ping: String,
}

impl Names {
    fn of(config: &Config) -> Names {
        let renames = config.renames();
        let name = |name: &str| {
            let new = renames.iter().rfind(|(old, _)| old == name);
            // If the server has disabled the command, the old name serves as well as any other.
            let new = new.map(|(_, new)| new.as_str());
            new.filter(|new| !new.is_empty()).unwrap_or(name).to_owned()
        };
        Names {
            auth: name("auth"),
            ping: name("ping"),
        }
    }
}

/// Returns the code of an error. The rest is omitted, because a server to which AUTH is an unknown
/// command repeats the password.
fn code(reply: &str) -> &str {
    reply.split(' ').next().unwrap_or_default()
}

/// Returns true if a reply shows that commands are served. `-LOADING` does not.
fn is_answer(reply: &str) -> bool {
    reply == "+PONG" || DENIALS.iter().any(|denial| reply.starts_with(denial))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn found(line: &[&str], settings: &[(&str, &str)]) -> Result<Place> {
        let config = Config::default();
        for (name, value) in settings {
            load::set(&config, name, value).expect("a valid setting");
        }
        let words = std::iter::once("ping").chain(line.iter().copied());
        place(&Line::parse_from(words).arguments, &config)
    }

    fn tcp(host: &str, port: u16) -> Place {
        Place::Tcp(host.into(), port)
    }

    #[test]
    fn the_address_follows_the_settings_and_the_command_line() {
        let is = |line: &[&str], settings: &[(&str, &str)], place: Place| {
            assert_eq!(found(line, settings).expect("a place"), place);
        };
        is(&[], &[], tcp("127.0.0.1", 6379));
        is(
            &[],
            &[("bind", "* -::*"), ("port", "7000")],
            tcp("127.0.0.1", 7000),
        );
        is(&[], &[("bind", "-::*")], tcp("::1", 6379));
        is(
            &["--host", "10.0.0.7"],
            &[("port", "7000")],
            tcp("10.0.0.7", 7000),
        );
        is(&["--port", "1"], &[("port", "0")], tcp("127.0.0.1", 1));
        let local = || Place::Local("/run/s".into());
        is(&[], &[("port", "0"), ("unixsocket", "/run/s")], local());
        is(&["--unixsocket", "/run/s"], &[], local());
        let tls = |port| Place::Tls("127.0.0.1".into(), port);
        is(&[], &[("port", "0"), ("tls-port", "7")], tls(7));
        is(&["--tls"], &[("tls-port", "7")], tls(7));
        is(&["--tls", "--port", "8"], &[("tls-port", "7")], tls(8));
        assert!(found(&["--tls"], &[]).is_err());
        let error = found(&[], &[("port", "0")]).expect_err("no place");
        assert!(error.to_string().contains("--unixsocket"), "{error}");
    }

    #[test]
    fn renamed_commands_are_sent_by_their_new_names() {
        let config = Config::default();
        for line in ["AUTH enter", "ping \"\"", "get ping"] {
            load::set(&config, "rename-command", &line.replace("\"\"", "")).expect("two words");
        }
        let names = Names::of(&config);
        assert_eq!(
            (names.auth.as_str(), names.ping.as_str()),
            ("enter", "ping")
        );
        let mut sent = Vec::new();
        write_command(&mut sent, &[&names.auth, "a b"]).expect("memory");
        assert_eq!(sent, b"*2\r\n$5\r\nenter\r\n$3\r\na b\r\n");
        assert!(is_answer(
            "-ERR unknown command 'ping', with args beginning with: "
        ));
    }

    #[test]
    fn a_server_that_demands_a_password_answers_and_one_that_loads_does_not() {
        assert!(is_answer("+PONG"));
        assert!(is_answer(&format!("{DENIED_BY_TLS}: UnknownCA")));
        assert!(is_answer("-NOAUTH Authentication required."));
        assert!(is_answer("-NOPERM User default has no permissions"));
        assert!(!is_answer(
            "-LOADING Mayfly is loading the dataset in memory"
        ));
        assert!(!is_answer("HTTP/1.1 400 Bad Request"));
    }
}
