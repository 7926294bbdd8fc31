//! Sockets of clients: addresses and paths, and the client that a balancer names before the first
//! byte.

use crate::config::Invalid;
use crate::http1::Failure;
use crate::rules::proxy_protocol::{
    self as protocol, FIRST_BYTES, FIXED_BYTES, LINE_BYTES_MAX, Version,
};
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Address of clients of a Unix socket.
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Socket that accepts connections.
pub trait Listener {
    /// Accepted connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Accepts a connection. Returns the address of its client.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, IpAddr)>> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, IpAddr)> {
        let (stream, address): (TcpStream, SocketAddr) = TcpListener::accept(self).await?;
        stream.set_nodelay(true)?;
        Ok((stream, address.ip().to_canonical()))
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, IpAddr)> {
        let (stream, _) = UnixListener::accept(self).await?;
        Ok((stream, LOCAL))
    }
}

/// Binds the path of a Unix socket. A socket that an earlier process has left there is replaced.
///
/// # Errors
/// Returns an error if the path cannot be bound, or another process listens there.
pub fn bind_path(path: &Path) -> Result<UnixListener, Invalid> {
    let listen = || {
        let metadata = std::fs::symlink_metadata(path);
        if metadata.is_ok_and(|metadata| metadata.file_type().is_socket()) {
            match std::os::unix::net::UnixStream::connect(path) {
                Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
                Err(_) => std::fs::remove_file(path)?,
            }
        }
        UnixListener::bind(path)
    };
    listen().map_err(|error| Invalid(format!("socket {}: {error}", path.display())))
}

/// Reads the header of the PROXY protocol. Returns the client's address, if the header has one.
///
/// # Errors
/// Returns an error if the header is absent, malformed or incomplete.
pub async fn read_client<S>(stream: &mut S) -> Result<Option<IpAddr>, Failure>
where
    S: AsyncRead + Unpin,
{
    let mut first = [0; FIRST_BYTES];
    stream.read_exact(&mut first).await?;
    match protocol::version(&first) {
        None => Err("PROXY protocol: expected its header".into()),
        Some(Version::Line) => {
            let mut line = first.to_vec();
            // No byte after the line may be read.
            while !line.ends_with(b"\n") && line.len() < LINE_BYTES_MAX {
                line.push(stream.read_u8().await?);
            }
            Ok(protocol::line(&line)?)
        }
        Some(Version::Binary) => {
            let mut fixed = [0; FIXED_BYTES];
            stream.read_exact(&mut fixed).await?;
            let mut rest = vec![0; protocol::rest_bytes(fixed)?];
            stream.read_exact(&mut rest).await?;
            Ok(protocol::binary(fixed, &rest)?)
        }
    }
}
