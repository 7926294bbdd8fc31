//! `mayfly ping`: reports whether a server answers, for the health checks of containers and
//! monitors.
//!
//! The address is taken from the server's own settings, so that a health check follows them. The
//! request is one PING without a password: a server that demands one answers, too.

use anyhow::{Context, Result, bail};
use server::config::load::{self, FILE_VARIABLE, Sources};
use server::config::{Config, Id};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `mayfly ping`.
#[derive(clap::Args)]
#[command(
    after_help = "Exit code 0 means that the server answers commands; 1, that it does not, or that it is still loading its keys. Variables MAYFLY_NAME of the environment are read as the server reads them."
)]
pub struct Arguments {
    /// Config file of the server, which has its address, port or local socket
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Address or name of the server [default: the first address of the setting bind]
    #[arg(long, value_name = "ADDRESS")]
    host: Option<String>,
    /// TCP port for Redis's protocol, without TLS [default: the setting port]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Path of a local socket for Redis's protocol [default: the setting unixsocket, if port is 0]
    #[arg(long, value_name = "PATH", conflicts_with_all = ["host", "port"])]
    unixsocket: Option<PathBuf>,
    /// Seconds to wait for the connection, and again for the reply
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

/// Maximum length of a reply in bytes. PONG and the errors of Redis are far shorter.
const REPLY_BYTES_MAX: u64 = 4096;

/// Errors that a serving server sends to a client without a password or without rights.
const DENIALS: [&str; 2] = ["-NOAUTH", "-NOPERM"];

/// Where a server listens.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Local(PathBuf),
    Tcp(String, u16),
}

/// Sends PING and prints PONG if the server answers. Fails otherwise.
pub fn run(arguments: &Arguments) -> Result<()> {
    let config = Config::default();
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
    // The file may have been edited since the server started, so that an error in it says nothing
    // about the server.
    for problem in load::load(&config, &sources).problems {
        eprintln!("warning: {problem}");
    }
    let place = place(arguments, &config)?;
    let limit = Duration::from_secs(arguments.timeout);
    let reply = match &place {
        Place::Local(path) => {
            let stream = UnixStream::connect(path)
                .with_context(|| format!("no server at {}", path.display()))?;
            stream.set_read_timeout(Some(limit))?;
            stream.set_write_timeout(Some(limit))?;
            ask(stream)
        }
        Place::Tcp(host, port) => {
            let stream = connect(host, *port, limit)?;
            stream.set_read_timeout(Some(limit))?;
            stream.set_write_timeout(Some(limit))?;
            ask(stream)
        }
    };
    let reply = reply.context("the server accepts the connection but does not reply")?;
    if !is_answer(&reply) {
        bail!("expected PONG, and the server replied: {reply}");
    }
    println!("PONG");
    Ok(())
}

/// Determines where the server listens: the command line takes precedence over the settings.
fn place(arguments: &Arguments, config: &Config) -> Result<Place> {
    if let Some(path) = &arguments.unixsocket {
        return Ok(Place::Local(path.clone()));
    }
    let host = arguments
        .host
        .clone()
        .unwrap_or_else(|| reachable(&config.text(Id::Bind)));
    let port = arguments.port.unwrap_or(config.number(Id::Port) as u16);
    let path = config.text(Id::UnixSocket);
    if port != 0 {
        Ok(Place::Tcp(host, port))
    } else if !path.is_empty() {
        Ok(Place::Local(path.into()))
    } else {
        bail!(
            "the settings have no port without TLS and no local socket; name one with --port or --unixsocket"
        )
    }
}

/// Returns an address at which this machine reaches a server with this value of `bind`.
fn reachable(bind: &str) -> String {
    let first = bind.split_ascii_whitespace().next().unwrap_or("localhost");
    match first.trim_start_matches('-') {
        "*" | "0.0.0.0" => Ipv4Addr::LOCALHOST.to_string(),
        "::*" | "::" => Ipv6Addr::LOCALHOST.to_string(),
        word => word.to_owned(),
    }
}

/// Connects to the first address of a name that accepts.
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
            Ok(stream) => return Ok(stream),
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) => Err(error).with_context(|| format!("no server at {host} port {port}")),
        None => bail!("{host} has no address"),
    }
}

/// Sends PING and returns the first line of the reply.
fn ask(mut stream: impl Read + Write) -> Result<String> {
    stream.write_all(b"PING\r\n")?;
    let mut line = vec![];
    BufReader::new(stream.take(REPLY_BYTES_MAX)).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        bail!("it closed the connection");
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

/// Whether a reply shows that commands are served. `-LOADING` does not.
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
        let error = found(&[], &[("port", "0")]).expect_err("no place");
        assert!(error.to_string().contains("--unixsocket"), "{error}");
    }

    #[test]
    fn a_server_that_demands_a_password_answers_and_one_that_loads_does_not() {
        assert!(is_answer("+PONG"));
        assert!(is_answer("-NOAUTH Authentication required."));
        assert!(is_answer("-NOPERM User default has no permissions"));
        assert!(!is_answer(
            "-LOADING Mayfly is loading the dataset in memory"
        ));
        assert!(!is_answer("HTTP/1.1 400 Bad Request"));
    }
}
