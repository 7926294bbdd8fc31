//! Listening sockets: the configured addresses, and the checks of new connections.

use crate::state::Server;
use durability::restart::handover::{Handover, Place};
use durability::restart::{Phase, Restart};
use mio::net::TcpListener;
use mio::{Registry, Token};
use session::clients::Endpoint;
use session::message::{Port, PortProtocol};
use session::notices::Kind;
use session::socket::{Listener, LocalListener, NOT_A_SOCKET, Peer, Stream, socket_inode};
use settings::{Config, Id, TABLE};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, TcpKeepalive, Type};
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Token of the first listener.
pub const FIRST_LISTENER: usize = usize::MAX - 2;
/// Maximum number of listeners.
pub const LISTENERS_MAX: usize = 64;
/// Maximum number of connections accepted per iteration of the event loop, so that many new
/// connections do not delay the existing ones.
const ACCEPTS_MAX: usize = 256;

/// Error for clients from other machines in protected mode.
const DENIED: &[u8] = b"-DENIED Mayfly is running in protected mode because protected mode is enabled and no password is set for the default user. In this mode connections are only accepted from the loopback interface. To connect from other machines: 1) set a password with 'requirepass' in the config file or CONFIG SET requirepass from the loopback interface, or 2) if the server is not reachable from the internet, turn protected mode off with '--protected-mode no' or CONFIG SET protected-mode no.\r\n";

/// The error [`DENIED`] in memcached's protocol.
const DENIED_MEMCACHED: &[u8] =
    b"SERVER_ERROR protected mode: only connections from this machine are accepted; see the setting protected-mode\r\n";

/// An accepted connection.
pub struct Accepted {
    /// Protocol of the port.
    pub port: Port,
    /// The socket.
    pub stream: Stream,
    /// Remote address.
    pub peer: Peer,
}

/// Listening sockets of one worker. Only the first worker has any.
#[derive(Default)]
pub struct Listeners {
    all: Vec<(Port, Listener)>,
    /// Whether connections may be waiting.
    pub is_ready: bool,
    /// Whether accepting failed and must be tried again later.
    pub has_failed: bool,
}

impl Listeners {
    /// Binds the configured addresses, or continues to listen on inherited sockets.
    ///
    /// # Errors
    /// The first address that could not be bound, with the reason.
    pub fn bind(config: &Config, inherited: &mut Handover) -> Result<Listeners, String> {
        let mut all = Vec::new();
        for (id, protocol) in [
            (Id::UnixSocket, PortProtocol::Resp),
            (Id::MemcachedSocket, PortProtocol::Memcached),
        ] {
            let bound = bind_path(config, id, protocol, inherited)?;
            all.extend(bound);
        }
        for (id, port) in ports(config) {
            bind_port(config, id, port, inherited, &mut all)?;
        }
        if all.len() > LISTENERS_MAX {
            return Err(format!("more than {LISTENERS_MAX} addresses to listen on"));
        }
        Ok(Listeners {
            all,
            is_ready: true,
            has_failed: false,
        })
    }

    /// Checks the settings of the listeners, including HTTP, without opening a socket. Returns what
    /// is wrong.
    pub fn check(config: &Config, http: Option<SocketAddr>) -> Vec<String> {
        let mut problems = check_paths(config);
        let bound: Vec<Id> = ports(config).map(|(id, _)| id).collect();
        let is_fixed = |id: &&Id| config.number(**id) != 0;
        for (index, id) in bound.iter().enumerate() {
            let port = config.number(*id);
            let mut before = bound[..index].iter().filter(is_fixed);
            if let Some(other) = before.find(|other| config.number(**other) == port) {
                let [name, other] = [id, other].map(|id| TABLE[*id as usize].name);
                problems.push(format!("{name} {port}: {other} is the same port"));
            }
        }
        if bound.is_empty() {
            return problems;
        }
        let ips = match bind_ips(config) {
            Ok(ips) => ips,
            Err(problem) => {
                problems.push(problem);
                return problems;
            }
        };
        if let Some(http) = http {
            let same = bound.iter().filter(is_fixed);
            let mut same = same.filter(|id| config.number(**id) == i64::from(http.port()));
            if let Some(id) = same.next()
                && ips.iter().any(|(ip, _)| overlap(*ip, http.ip()))
            {
                let name = TABLE[*id as usize].name;
                problems.push(format!("http {http}: {name} is the same port"));
            }
        }
        problems
    }

    /// Returns the addresses of one kind of port.
    pub fn addresses(&self, protocol: PortProtocol, has_tls: bool) -> Vec<SocketAddr> {
        let port = Port { protocol, has_tls };
        let all = self.all.iter().filter(|(of, _)| *of == port);
        all.filter_map(|(_, listener)| listener.tcp_address())
            .collect()
    }

    /// Describes each kind of port with its addresses, as INFO shows them.
    pub fn describe(&self, config: &Config) -> Vec<String> {
        let mut lines = Vec::new();
        for (protocol, has_tls, name) in [
            (PortProtocol::Resp, false, "tcp"),
            (PortProtocol::Resp, true, "tls"),
            (PortProtocol::Memcached, false, "memcached"),
            (PortProtocol::Memcached, true, "memcached-tls"),
        ] {
            let addresses = self.addresses(protocol, has_tls);
            if let Some(first) = addresses.first() {
                let binds = addresses
                    .iter()
                    .map(|address| format!(",bind={}", address.ip()));
                let binds: String = binds.collect();
                lines.push(format!("name={name}{binds},port={}", first.port()));
            }
        }
        for (id, name) in [
            (Id::UnixSocket, "unix"),
            (Id::MemcachedSocket, "memcached-unix"),
        ] {
            let path = config.path(id);
            if !path.is_empty() {
                lines.push(format!("name={name},bind={path}"));
            }
        }
        lines
    }

    /// Ends listening. If the server restarts, the sockets are kept for the next process, so that
    /// new connections wait in their backlogs.
    pub fn leave(&mut self, restart: &Restart) {
        let all = std::mem::take(self).all;
        if restart.phase() != Phase::Ready {
            return;
        }
        for (port, listener) in all {
            let (place, socket) = match listener {
                Listener::Tcp(listener) => (Place::Port(port), listener.into()),
                Listener::Local(local) => {
                    let (inode, path) = local.file();
                    let place = Place::Local {
                        protocol: port.protocol,
                        inode,
                        path: path.to_path_buf(),
                    };
                    (place, local.leave())
                }
            };
            // If the restart was cancelled, the socket is closed.
            drop(restart.keep_socket(place, socket));
        }
    }

    /// Registers the sockets with a worker's poll.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn register(&mut self, registry: &Registry) -> io::Result<()> {
        for (index, (_, listener)) in self.all.iter_mut().enumerate() {
            listener.register(registry, Token(FIRST_LISTENER - index))?;
        }
        Ok(())
    }

    /// Accepts waiting connections and refuses those that the settings do not allow.
    pub fn accept(&mut self, server: &Server, accepted: &mut Vec<Accepted>) {
        self.is_ready = false;
        self.has_failed = false;
        for (port, listener) in &self.all {
            loop {
                if accepted.len() >= ACCEPTS_MAX {
                    self.is_ready = true;
                    return;
                }
                match listener.accept() {
                    Ok((stream, peer)) => {
                        if let Some(stream) = admit(server, stream, &peer, *port) {
                            accepted.push(Accepted {
                                port: *port,
                                stream,
                                peer,
                            });
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error)
                        if matches!(
                            error.kind(),
                            ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                        ) => {}
                    Err(error) => {
                        if !self.has_failed {
                            log::warn!("accepting a connection failed: {error}");
                        }
                        self.has_failed = true;
                        break;
                    }
                }
            }
        }
    }

    /// Returns the addresses and the position of a connection for CLIENT LIST.
    pub fn endpoint(&self, stream: &Stream, peer: &Peer, worker: usize, slot: usize) -> Endpoint {
        Endpoint {
            address: peer.to_string(),
            local_address: match stream {
                Stream::Tcp(tcp) => tcp.local_addr().map(|address| address.to_string()),
                Stream::Local(_) => Ok(peer.to_string()),
            }
            .unwrap_or_default(),
            fd: stream.as_raw_fd(),
            presence: Some(stream.presence()),
            worker,
            slot,
        }
    }
}

/// Returns the ports that the settings open.
fn ports(config: &Config) -> impl Iterator<Item = (Id, Port)> {
    let paths = [Id::UnixSocket, Id::MemcachedSocket];
    let has_path = paths.iter().any(|id| !config.text(*id).is_empty());
    let is_alone = !has_path && config.number(Id::TlsPort) == 0;
    let all = [
        (Id::Port, PortProtocol::Resp, false),
        (Id::TlsPort, PortProtocol::Resp, true),
        (Id::Memcached, PortProtocol::Memcached, false),
        (Id::TlsMemcached, PortProtocol::Memcached, true),
    ];
    // Only the main port is chosen by the system, and only if there is no other and no local
    // socket.
    let is_open = move |id| config.number(id) != 0 || id == Id::Port && is_alone;
    let open = all.into_iter().filter(move |(id, ..)| is_open(*id));
    open.map(|(id, protocol, has_tls)| (id, Port { protocol, has_tls }))
}

/// Checks the paths of the local sockets. Returns what is wrong.
fn check_paths(config: &Config) -> Vec<String> {
    let mut problems = Vec::new();
    let ids = [Id::UnixSocket, Id::MemcachedSocket];
    for id in ids {
        let path = config.path(id);
        if path.is_empty() {
            continue;
        }
        let folder = Path::new(&path).parent();
        let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
        let file = fs::symlink_metadata(&path);
        let problem = match folder {
            _ if SockAddr::unix(&path).is_err() => {
                "the path of a local socket has at most 107 bytes".to_owned()
            }
            Some(folder) if !folder.is_dir() => format!("there is no folder {}", folder.display()),
            _ if file.is_ok_and(|file| !file.file_type().is_socket()) => NOT_A_SOCKET.to_owned(),
            _ => continue,
        };
        problems.push(format!("{} '{path}': {problem}", TABLE[id as usize].name));
    }
    let [path, other] = ids.map(|id| config.path(id));
    if !path.is_empty() && path == other {
        let [name, other] = ids.map(|id| TABLE[id as usize].name);
        problems.push(format!("{other} '{path}': {name} is the same path"));
    }
    problems
}

/// Whether two sockets with the same port cannot listen at these addresses. The second one is
/// HTTP's, where `::` means every address of both families.
fn overlap(one: IpAddr, http: IpAddr) -> bool {
    let is_same_family = one.is_ipv4() == http.is_ipv4();
    one == http
        || http.is_unspecified() && (is_same_family || http.is_ipv6())
        || one.is_unspecified() && is_same_family
}

/// Listens at the path of this setting. Returns `None` if it is empty.
fn bind_path(
    config: &Config,
    path: Id,
    protocol: PortProtocol,
    inherited: &mut Handover,
) -> Result<Option<(Port, Listener)>, String> {
    let text = config.path(path);
    if text.is_empty() {
        return Ok(None);
    }
    let path = Path::new(&text);
    let permissions = config.number(Id::UnixSocketPerm) as u32;
    let backlog = config.number(Id::TcpBacklog) as i32;
    let inode = socket_inode(path);
    let socket =
        inode.and_then(|inode| Some((inherited.take_local(path, protocol, inode)?, inode)));
    let listener = match socket {
        Some((socket, inode)) => LocalListener::inherit(socket, path, inode, permissions, backlog),
        None => LocalListener::bind(path, permissions, backlog),
    };
    let listener =
        listener.map_err(|error| format!("cannot listen on the local socket {text}: {error}"))?;
    let port = Port {
        protocol,
        has_tls: false,
    };
    Ok(Some((port, Listener::Local(listener))))
}

/// Binds all configured addresses to one port.
fn bind_port(
    config: &Config,
    id: Id,
    kind: Port,
    inherited: &mut Handover,
    all: &mut Vec<(Port, Listener)>,
) -> Result<(), String> {
    let mut port = config.number(id) as u16;
    let backlog = config.number(Id::TcpBacklog) as i32;
    let before = all.len();
    for (ip, is_optional) in bind_ips(config)? {
        let address = SocketAddr::new(ip, port);
        let bound = match inherited.take_tcp(&Place::Port(kind), address) {
            Some(socket) => listen_on(Socket::from(socket), backlog),
            None => listen(address, backlog),
        };
        match bound {
            Ok(listener) => {
                // With port 0, the port chosen for the first address is used for all.
                if let Ok(bound) = listener.local_addr() {
                    port = bound.port();
                }
                all.push((kind, Listener::Tcp(listener)));
            }
            Err(_) if is_optional => {}
            Err(error) => return Err(format!("cannot listen on {address}: {error}")),
        }
    }
    if all.len() == before {
        return Err("bind: no address to listen on".into());
    }
    Ok(())
}

/// Returns the addresses of `bind`, and whether each one is optional.
fn bind_ips(config: &Config) -> Result<Vec<(IpAddr, bool)>, String> {
    let text = config.text(Id::Bind);
    let ips: Result<Vec<_>, String> = text
        .split_ascii_whitespace()
        .map(|word| {
            let (word, is_optional) = match word.strip_prefix('-') {
                Some(rest) => (rest, true),
                None => (word, false),
            };
            let ip = parse_ip(word).ok_or_else(|| {
                format!("bind '{word}': expected an IP address, localhost, * or ::*")
            })?;
            Ok((ip, is_optional))
        })
        .collect();
    match ips? {
        ips if ips.is_empty() => Err("bind: no address to listen on".into()),
        ips => Ok(ips),
    }
}

fn parse_ip(word: &str) -> Option<IpAddr> {
    match word {
        "*" => Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        "::*" => Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        "localhost" => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        word => word.parse().ok(),
    }
}

fn listen(address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    listen_on(socket, backlog)
}

/// Listens on a bound socket. One that already listens gets this backlog.
fn listen_on(socket: Socket, backlog: i32) -> io::Result<TcpListener> {
    socket.listen(backlog)?;
    Ok(TcpListener::from_std(socket.into()))
}

/// Checks a new connection against protected mode and `maxclients`. If it is refused, sends the
/// error and returns `None`.
fn admit(server: &Server, mut stream: Stream, peer: &Peer, port: Port) -> Option<Stream> {
    server
        .observability
        .stats
        .connections_received
        .fetch_add(1, Relaxed);
    let is_protected = server.config.is_on(Id::ProtectedMode) && !server.auth.needs_password();
    if is_protected && !peer.is_on_this_machine() {
        server.observability.notices.warn(
            Kind::Refused,
            server.clock.moment(),
            format_args!("refused a connection from {peer}: protected mode"),
        );
        refuse(&mut stream, port, DENIED, DENIED_MEMCACHED);
        server
            .observability
            .stats
            .connections_rejected
            .fetch_add(1, Relaxed);
        return None;
    }
    let max = server.config.number(Id::MaxClients) as u64;
    if !server.clients.registry.reserve(max) {
        if server
            .observability
            .stats
            .connections_rejected
            .fetch_add(1, Relaxed)
            == 0
        {
            log::warn!("maxclients ({max}) is reached: refusing further connections");
        }
        let resp = b"-ERR max number of clients reached\r\n";
        refuse(
            &mut stream,
            port,
            resp,
            b"ERROR Too many open connections\r\n",
        );
        return None;
    }
    let Stream::Tcp(tcp) = &stream else {
        return Some(stream);
    };
    let _ = tcp.set_nodelay(true);
    let seconds = server.config.number(Id::TcpKeepalive) as u64;
    if seconds > 0 {
        let probes = TcpKeepalive::new()
            .with_time(Duration::from_secs(seconds))
            .with_interval(Duration::from_secs((seconds / 3).max(1)))
            .with_retries(3);
        let _ = SockRef::from(tcp).set_tcp_keepalive(&probes);
    }
    Some(stream)
}

/// Sends an error before a connection is closed. A client of TLS could not read it.
fn refuse(stream: &mut Stream, port: Port, resp: &[u8], memcached: &[u8]) {
    if port.has_tls {
        return;
    }
    let _ = stream.write(match port.protocol {
        PortProtocol::Resp => resp,
        PortProtocol::Memcached => memcached,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use settings::find;
    use std::net::TcpStream;

    fn config(settings: &[(&str, &str)]) -> Config {
        let config = Config::default();
        for (name, value) in settings {
            let param = find(name).expect("a setting");
            config.set(param, value).expect("a valid value");
        }
        config
    }

    /// Returns the part of listeners that the next process inherits.
    fn left(mut listeners: Listeners) -> Handover {
        let restart = Restart::default();
        let number = restart.begin().expect("the first one");
        assert!(restart.proceed(number) && restart.commit(number));
        listeners.leave(&restart);
        restart.take().expect("it is ready")
    }

    #[test]
    fn the_next_process_listens_on_the_same_sockets() {
        let config = config(&[("port", "0"), ("bind", "127.0.0.1 -::1")]);
        let first = Listeners::bind(&config, &mut Handover::default()).expect("a free port");
        let addresses = first.addresses(PortProtocol::Resp, false);
        let mut handover = left(first);
        let _client = TcpStream::connect(addresses[0]).expect("it waits in the backlog");
        let next = Listeners::bind(&config, &mut handover).expect("the same port");
        assert_eq!(next.addresses(PortProtocol::Resp, false), addresses);
        assert_eq!(handover.socket_count(), 0);
        assert!(next.all[0].1.accept().is_ok());
        let mut next = next;
        next.leave(&Restart::default());
        assert!(TcpStream::connect(addresses[0]).is_err(), "it was a stop");
    }

    #[test]
    fn the_file_of_a_local_socket_stays_for_the_next_process() {
        let path = std::env::temp_dir().join(format!("mayfly-next-{}", std::process::id()));
        let text = path.to_str().expect("a path");
        let config = config(&[("port", "0"), ("unixsocket", text)]);
        let first = Listeners::bind(&config, &mut Handover::default()).expect("a free path");
        let inode = socket_inode(&path);
        let mut handover = left(first);
        assert!(inode.is_some() && socket_inode(&path) == inode);
        let next = Listeners::bind(&config, &mut handover).expect("the same path");
        assert_eq!((handover.socket_count(), socket_inode(&path)), (0, inode));
        drop(next);
        assert!(!path.exists());
    }
}
