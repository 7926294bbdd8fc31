//! Sockets of clients and listening sockets, of TCP and of local (Unix) sockets.

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Socket, Type};
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// Socket of a client.
#[derive(Debug)]
pub enum Stream {
    /// A TCP connection.
    Tcp(Arc<TcpStream>),
    /// A connection through a local socket.
    Local(Arc<UnixStream>),
}

/// Reference to a client's socket, by which other threads find out whether the client has
/// disconnected. It does not keep the socket open.
#[derive(Clone, Debug)]
pub enum Presence {
    /// Weak reference to a TCP connection.
    Tcp(Weak<TcpStream>),
    /// Weak reference to a local socket's connection.
    Local(Weak<UnixStream>),
}

impl Presence {
    /// Whether the socket is open and the peer has not closed the connection, as far as the
    /// operating system knows. Costs one system call.
    pub fn is_connected(&self) -> bool {
        match self {
            Presence::Tcp(socket) => socket.upgrade().is_some_and(|socket| has_peer(&*socket)),
            Presence::Local(socket) => socket.upgrade().is_some_and(|socket| has_peer(&*socket)),
        }
    }
}

/// Whether neither the end of the input nor an error has arrived at a socket. Input before the end
/// may still be unread.
fn has_peer(socket: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::RDHUP)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready == 0)
}

impl Stream {
    /// Returns a reference to the socket for other threads.
    pub fn presence(&self) -> Presence {
        match self {
            Stream::Tcp(socket) => Presence::Tcp(Arc::downgrade(socket)),
            Stream::Local(socket) => Presence::Local(Arc::downgrade(socket)),
        }
    }
}

/// Calls one method of whichever socket this is.
macro_rules! either {
    ($stream:expr, $socket:ident => $call:expr) => {
        match $stream {
            Stream::Tcp($socket) => $call,
            Stream::Local($socket) => $call,
        }
    };
}

impl Read for Stream {
    #[inline]
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        either!(self, socket => (&**socket).read(bytes))
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        either!(self, socket => (&**socket).write(bytes))
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        either!(self, socket => (&**socket).write_vectored(slices))
    }

    fn flush(&mut self) -> io::Result<()> {
        either!(self, socket => (&**socket).flush())
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        either!(self, socket => socket.as_raw_fd())
    }
}

impl Source for Stream {
    fn register(&mut self, to: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        SourceFd(&self.as_raw_fd()).register(to, token, interest)
    }

    fn reregister(&mut self, to: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        SourceFd(&self.as_raw_fd()).reregister(to, token, interest)
    }

    fn deregister(&mut self, from: &Registry) -> io::Result<()> {
        SourceFd(&self.as_raw_fd()).deregister(from)
    }
}

/// Address of a client, or of the socket that it connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Address of a TCP connection.
    Ip(SocketAddr),
    /// Path of a local socket.
    Local(PathBuf),
}

impl Peer {
    /// Whether the client is on this machine.
    pub fn is_on_this_machine(&self) -> bool {
        match self {
            Peer::Ip(address) => address.ip().to_canonical().is_loopback(),
            Peer::Local(_) => true,
        }
    }
}

/// Shows an address as Redis does, a path with the port 0.
impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Peer::Ip(address) => address.fmt(f),
            Peer::Local(path) => write!(f, "{}:0", path.display()),
        }
    }
}

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    /// Listens for TCP connections.
    Tcp(TcpListener),
    /// Listens on a local socket.
    Local(LocalListener),
}

impl Listener {
    /// Accepts a connection.
    ///
    /// # Errors
    /// An error of the operating system; `WouldBlock` if no connection waits.
    pub fn accept(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, address) = listener.accept()?;
                Ok((Stream::Tcp(Arc::new(stream)), Peer::Ip(address)))
            }
            Listener::Local(local) => {
                let (stream, _) = local.listener.accept()?;
                let peer = Peer::Local(local.file.path.clone());
                Ok((Stream::Local(Arc::new(stream)), peer))
            }
        }
    }

    /// Returns the TCP address on which it listens.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Local(_) => None,
        }
    }

    /// Registers the socket for new connections.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => registry.register(listener, token, Interest::READABLE),
            Listener::Local(local) => {
                registry.register(&mut local.listener, token, Interest::READABLE)
            }
        }
    }
}

/// A listening local socket. Its file is removed when the value is dropped.
#[derive(Debug)]
pub struct LocalListener {
    /// The first field, so that the file is removed before the socket is closed.
    file: LocalFile,
    listener: UnixListener,
}

/// The file of a local socket, which is removed when the value is dropped.
#[derive(Debug)]
struct LocalFile {
    path: PathBuf,
    inode: u64,
    /// Whether the file stays, because another process listens there.
    is_kept: bool,
}

/// Error for a path of a local socket with another file.
pub const NOT_A_SOCKET: &str = "the file exists and is not a socket";

impl LocalListener {
    /// Listens at a path. The file gets these permissions before the first connection is possible;
    /// 0 keeps the process's defaults. A file left behind by another process is replaced.
    ///
    /// # Errors
    /// The path is too long or cannot be created, another process listens there, or the file is
    /// not a socket.
    pub fn bind(path: &Path, permissions: u32, backlog: i32) -> io::Result<LocalListener> {
        remove_stale(path)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.bind(&socket2::SockAddr::unix(path)?)?;
        if permissions != 0 {
            fs::set_permissions(path, Permissions::from_mode(permissions))?;
        }
        let inode = fs::symlink_metadata(path)?.ino();
        socket.listen(backlog)?;
        Ok(LocalListener::new(socket, path, inode))
    }

    /// Continues to listen on a socket of the previous process, whose file has this inode number.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn inherit(
        socket: OwnedFd,
        path: &Path,
        inode: u64,
        permissions: u32,
        backlog: i32,
    ) -> io::Result<LocalListener> {
        if permissions != 0 {
            fs::set_permissions(path, Permissions::from_mode(permissions))?;
        }
        let socket = Socket::from(socket);
        socket.listen(backlog)?;
        Ok(LocalListener::new(socket, path, inode))
    }

    fn new(socket: Socket, path: &Path, inode: u64) -> LocalListener {
        LocalListener {
            listener: UnixListener::from_std(socket.into()),
            file: LocalFile {
                path: path.to_path_buf(),
                inode,
                is_kept: false,
            },
        }
    }

    /// Returns the number and the path of the file.
    pub fn file(&self) -> (u64, &Path) {
        (self.file.inode, &self.file.path)
    }

    /// Returns the socket for the next process. The file stays.
    pub fn leave(mut self) -> OwnedFd {
        self.file.is_kept = true;
        self.listener.into()
    }
}

/// Returns the inode number of the file at a path if it is a socket.
pub fn socket_inode(path: &Path) -> Option<u64> {
    let file = fs::symlink_metadata(path).ok()?;
    file.file_type().is_socket().then(|| file.ino())
}

impl Drop for LocalFile {
    fn drop(&mut self) {
        // Another server may have replaced the file, which is then kept.
        if !self.is_kept && socket_inode(&self.path) == Some(self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes a socket file on which no process listens.
fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(file) if !file.file_type().is_socket() => {
            return Err(io::Error::new(ErrorKind::AlreadyExists, NOT_A_SOCKET));
        }
        Ok(_) => {}
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::new(
            ErrorKind::AddrInUse,
            "another process listens there",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("mayfly-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_local_socket_has_the_permissions_and_is_removed_at_the_end() {
        let path = path("socket");
        let listener = LocalListener::bind(&path, 0o640, 8).expect("a free path");
        let file = fs::symlink_metadata(&path).expect("a file");
        assert_eq!(file.permissions().mode() & 0o777, 0o640);
        let second = LocalListener::bind(&path, 0, 8).expect_err("the first one listens");
        assert_eq!(second.kind(), ErrorKind::AddrInUse);
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn a_stale_socket_is_replaced_and_another_file_is_not() {
        let path = path("stale");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("a free path"));
        assert!(path.exists());
        let first = LocalListener::bind(&path, 0, 8).expect("nothing listens");
        // Another server has taken the path meanwhile.
        fs::remove_file(&path).expect("a file");
        fs::write(&path, "text").expect("a free path");
        drop(first);
        assert!(path.exists());
        let error = LocalListener::bind(&path, 0, 8).expect_err("not a socket");
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        let _ = fs::remove_file(&path);
    }
}
