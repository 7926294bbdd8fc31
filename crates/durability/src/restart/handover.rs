//! Passes listening sockets and the path of a snapshot to the program that replaces this process.
//!
//! They are sent as one message through a socket pair, with the descriptors as ancillary data. The
//! receiving end becomes the new program's standard input, from which the program reads the
//! message. Every descriptor thus always has an owner and is closed on exec like all others.
//! Passing descriptor numbers in the environment would require unsafe code in the new program, and
//! would leak descriptors to programs that it starts. The sending end is closed first, because the
//! message stays in the receiving end's queue. The server reads nothing else from its standard
//! input.
//!
//! ```text
//! message = version NUL, then words, each with NUL; those of sockets have a descriptor each:
//!           resp | resp-tls | memcached | memcached-tls | http
//!           unix:PROTOCOL:INODE:PATH   local socket; INODE is the number of its file
//!           snapshot:PATH              file with all keys; no descriptor
//! ```

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use session::message::{Port, PortProtocol};
use socket2::SockRef;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Version of the message. A program of another version rejects the option [`OPTION`], so that the
/// settings check before the restart fails.
pub const VERSION: &str = "2";
/// Option for a program that finds a message on its standard input. Its value is the version.
pub const OPTION: &str = "restarted";

/// Maximum number of descriptors.
const DESCRIPTORS_MAX: usize = 128;
/// Maximum length of a message.
const BYTES_MAX: usize = 32 << 10;

const SNAPSHOT: &str = "snapshot:";
const HTTP: &str = "http";
const LOCAL: &str = "unix:";

/// Purpose of a listening socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// TCP connections of clients.
    Port(Port),
    /// Connections through a Unix socket.
    Local {
        /// Protocol of the clients.
        protocol: PortProtocol,
        /// Inode number of the socket file.
        inode: u64,
        /// Path of the socket file.
        path: PathBuf,
    },
    /// Metrics and health checks.
    Http,
}

fn protocol_name(protocol: PortProtocol) -> &'static str {
    match protocol {
        PortProtocol::Resp => "resp",
        PortProtocol::Memcached => "memcached",
    }
}

fn protocol_of(name: &str) -> Option<PortProtocol> {
    let all = [PortProtocol::Resp, PortProtocol::Memcached];
    all.into_iter().find(|one| protocol_name(*one) == name)
}

impl Place {
    fn name(&self) -> String {
        match self {
            Place::Http => HTTP.to_owned(),
            Place::Port(port) => {
                let tls = if port.has_tls { "-tls" } else { "" };
                format!("{}{tls}", protocol_name(port.protocol))
            }
            Place::Local {
                protocol,
                inode,
                path,
            } => {
                let protocol = protocol_name(*protocol);
                // The setting is text.
                format!("{LOCAL}{protocol}:{inode}:{}", path.to_string_lossy())
            }
        }
    }

    fn parse(name: &str) -> Option<Place> {
        if name == HTTP {
            return Some(Place::Http);
        }
        if let Some(local) = name.strip_prefix(LOCAL) {
            let mut parts = local.splitn(3, ':');
            return Some(Place::Local {
                protocol: protocol_of(parts.next()?)?,
                inode: parts.next()?.parse().ok()?,
                path: PathBuf::from(parts.next()?),
            });
        }
        let plain = name.strip_suffix("-tls");
        Some(Place::Port(Port {
            protocol: protocol_of(plain.unwrap_or(name))?,
            has_tls: plain.is_some(),
        }))
    }
}

/// Sockets and a snapshot for the next process, or from the previous one.
#[derive(Debug, Default)]
pub struct Handover {
    sockets: Vec<(Place, OwnedFd)>,
    snapshot: Option<PathBuf>,
}

impl Handover {
    /// Adds a listening socket.
    pub fn add_socket(&mut self, place: Place, socket: OwnedFd) {
        self.sockets.push((place, socket));
    }

    /// Sets the snapshot to be loaded.
    pub fn set_snapshot(&mut self, path: PathBuf) {
        self.snapshot = Some(path);
    }

    /// Returns the snapshot to be loaded.
    pub fn snapshot(&self) -> Option<&Path> {
        self.snapshot.as_deref()
    }

    /// Closes the sockets and removes the snapshot, because no next process will use them.
    pub fn discard(self) {
        if let Some(path) = &self.snapshot {
            super::remove(path);
        }
    }

    /// Takes the TCP socket that listens on this address; port 0 matches any port.
    pub fn take_tcp(&mut self, place: &Place, address: SocketAddr) -> Option<OwnedFd> {
        self.take(|of, socket| {
            let bound = SockRef::from(socket).local_addr().ok();
            let bound = bound.and_then(|bound| bound.as_socket());
            let is_there = |bound: SocketAddr| {
                let is_port = address.port() == 0 || bound.port() == address.port();
                is_port && bound.ip() == address.ip()
            };
            of == place && bound.is_some_and(is_there)
        })
    }

    /// Takes the Unix socket at a path whose file has this inode number.
    pub fn take_local(
        &mut self,
        path: &Path,
        protocol: PortProtocol,
        inode: u64,
    ) -> Option<OwnedFd> {
        let path = path.to_path_buf();
        let place = Place::Local {
            protocol,
            inode,
            path,
        };
        self.take(|of, _| *of == place)
    }

    fn take(&mut self, is_it: impl Fn(&Place, &OwnedFd) -> bool) -> Option<OwnedFd> {
        let mut sockets = self.sockets.iter();
        let index = sockets.position(|(place, socket)| is_it(place, socket))?;
        Some(self.sockets.swap_remove(index).1)
    }

    /// Returns the number of sockets that were not taken.
    pub fn socket_count(&self) -> usize {
        self.sockets.len()
    }

    /// Sends everything. Returns the socket from which [`Handover::receive`] reads it.
    ///
    /// # Errors
    /// The operating system returned an error, or the message is too large.
    pub fn send(&self) -> io::Result<OwnedFd> {
        let mut text = format!("{VERSION}\0");
        let mut descriptors = Vec::new();
        for (place, socket) in &self.sockets {
            text.push_str(&place.name());
            text.push('\0');
            descriptors.push(socket.as_fd());
        }
        if let Some(path) = &self.snapshot {
            // The setting `dir` is text.
            text.push_str(&format!("{SNAPSHOT}{}\0", path.to_string_lossy()));
        }
        if descriptors.len() > DESCRIPTORS_MAX || text.len() > BYTES_MAX {
            return Err(io::Error::other("there are too many listening sockets"));
        }
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (sender, receiver) = socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            let fits = control.push(SendAncillaryMessage::ScmRights(&descriptors));
            assert!(fits, "the space is for more");
        }
        let parts = [IoSlice::new(text.as_bytes())];
        sendmsg(&sender, &parts, &mut control, SendFlags::empty())?;
        Ok(receiver)
    }

    /// Receives the message of the previous process.
    ///
    /// # Errors
    /// There is no message, or it is not valid. The message is meant for users.
    pub fn receive(socket: impl AsFd) -> Result<Handover, String> {
        let mut bytes = vec![0; BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let received = recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC);
        let len = received.map_err(|error| {
            let error = io::Error::from(error);
            format!("--{OPTION} is for restarts; standard input is not from one: {error}")
        })?;
        let mut descriptors = control.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect::<Vec<_>>(),
            _ => Vec::new(),
        });
        let invalid =
            |what: &str| format!("the message of the process before is not valid: {what}");
        let text = std::str::from_utf8(&bytes[..len.bytes]).map_err(|_| invalid("not UTF-8"))?;
        let mut words = text.split_terminator('\0');
        let version = words.next().unwrap_or_default();
        if version != VERSION {
            return Err(invalid(&format!("version '{version}', expected {VERSION}")));
        }
        let mut handover = Handover::default();
        for word in words {
            if let Some(path) = word.strip_prefix(SNAPSHOT) {
                handover.set_snapshot(path.into());
                continue;
            }
            let place = Place::parse(word).ok_or_else(|| invalid(word))?;
            let descriptor = descriptors.next();
            let descriptor = descriptor.ok_or_else(|| invalid("descriptors are missing"))?;
            handover.add_socket(place, descriptor);
        }
        Ok(handover)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixListener;

    const RESP: Place = Place::Port(Port {
        protocol: PortProtocol::Resp,
        has_tls: false,
    });

    #[test]
    fn places_are_read_as_they_are_written() {
        let port = |protocol, has_tls| Place::Port(Port { protocol, has_tls });
        let local = Place::Local {
            protocol: PortProtocol::Memcached,
            inode: 17,
            path: "/a:b/c d".into(),
        };
        for (place, name) in [
            (RESP, "resp"),
            (port(PortProtocol::Memcached, true), "memcached-tls"),
            (Place::Http, "http"),
            (local, "unix:memcached:17:/a:b/c d"),
        ] {
            assert_eq!(place.name(), name);
            assert_eq!(Place::parse(name), Some(place));
        }
        for name in ["", "tls", "resp-", "unix:", "unix:resp", "unix:resp:x:/a"] {
            assert_eq!(Place::parse(name), None, "{name}");
        }
    }

    #[test]
    fn sockets_and_a_path_arrive_and_connections_wait_meanwhile() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let path = std::env::temp_dir().join(format!("mayfly-handover-{}", std::process::id()));
        let local = UnixListener::bind(&path).expect("a free path");
        let snapshot = path.with_extension("rdb");
        fs::write(&snapshot, b"keys").expect("a new file");
        let mut handover = Handover::default();
        handover.add_socket(RESP, listener.into());
        let place = Place::Local {
            protocol: PortProtocol::Resp,
            inode: 5,
            path: path.clone(),
        };
        handover.add_socket(place, local.into());
        handover.set_snapshot(snapshot.clone());
        let receiver = handover.send().expect("a message");
        drop(handover);
        let _client = TcpStream::connect(address).expect("it waits in the backlog");
        let mut arrived = Handover::receive(&receiver).expect("the message");
        assert_eq!(arrived.socket_count(), 2);
        let other = SocketAddr::new(address.ip(), address.port() ^ 1);
        assert!(arrived.take_tcp(&RESP, other).is_none(), "another port");
        assert!(arrived.take_tcp(&Place::Http, address).is_none());
        let any = SocketAddr::new(address.ip(), 0);
        let socket = arrived.take_tcp(&RESP, any).expect("the socket");
        let accepted = TcpListener::from(socket).accept();
        assert!(accepted.is_ok());
        let resp = PortProtocol::Resp;
        assert!(arrived.take_local(&path, resp, 6).is_none(), "another file");
        assert!(arrived.take_local(&path, resp, 5).is_some());
        assert_eq!(arrived.snapshot(), Some(&*snapshot));
        arrived.discard();
        assert!(!snapshot.exists(), "it would be out of date");
        let again = Handover::receive(&receiver).expect_err("there was one message");
        assert!(again.contains("version ''"), "{again}");
        let _ = fs::remove_file(path);
    }

    #[test]
    fn an_input_that_is_not_from_a_restart_is_refused() {
        let file = File::open("/dev/null").expect("a device");
        let error = Handover::receive(&file).expect_err("it is no socket");
        assert!(error.contains("--restarted is for restarts"), "{error}");
        for text in ["1\0", "2\0resp\0", "2\0nonsense\0"] {
            let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
            let pair = socketpair(family, kind, SocketFlags::CLOEXEC, None);
            let (sender, receiver) = pair.expect("sockets");
            let sent = rustix::net::send(&sender, text.as_bytes(), SendFlags::empty());
            assert_eq!(sent, Ok(text.len()));
            let error = Handover::receive(&receiver).expect_err("it is not valid");
            assert!(error.contains("is not valid"), "{error}");
        }
    }
}
