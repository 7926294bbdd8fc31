//! Connections to a primary, with TLS if `tls-replication` is set.

use mio::{Events, Interest, Poll, Token};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use settings::{Config, Id};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Time between two checks whether a connection that is being made is wanted.
const CONNECT_PAUSE: Duration = Duration::from_millis(50);

/// A connection to a primary.
#[derive(Debug)]
pub enum Stream {
    /// Without encryption.
    Plain(TcpStream),
    /// Connection with TLS.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Connects to a host and port, while `is_wanted` returns true. Reads return after `patience`
    /// without a byte.
    ///
    /// # Errors
    /// The host has no address, nothing listens there, the connection is no longer wanted, or the
    /// TLS settings cannot be used.
    pub fn open(
        config: &Config,
        (host, port): (&str, u16),
        patience: Duration,
        is_wanted: impl Fn() -> bool,
    ) -> io::Result<Stream> {
        let timeout = Duration::from_secs(config.number(Id::ReplTimeout) as u64);
        let address = (host, port).to_socket_addrs()?.next();
        let address = address
            .ok_or_else(|| io::Error::new(ErrorKind::NotFound, "the host has no address"))?;
        let stream = connect(address, timeout, is_wanted)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(timeout))?;
        if !config.is_on(Id::TlsReplication) {
            return Ok(Stream::Plain(stream));
        }
        let wrong = |text: String| io::Error::new(ErrorKind::InvalidInput, text);
        let config = crate::tls::client_config(config).map_err(wrong)?;
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| wrong(format!("primary '{host}': {error}")))?;
        let connection =
            ClientConnection::new(config, name).map_err(|error| wrong(format!("TLS: {error}")))?;
        Ok(Stream::Tls(Box::new(StreamOwned::new(connection, stream))))
    }

    /// Authenticates with `masteruser` and `masterauth`. Returns the command to send, if a password
    /// is set.
    pub fn login(config: &Config) -> Option<Vec<String>> {
        let (user, password) = (config.text(Id::MasterUser), config.text(Id::MasterAuth));
        if password.is_empty() {
            return None;
        }
        let mut words = vec!["AUTH".to_owned()];
        words.extend((!user.is_empty()).then_some(user));
        words.push(password);
        Some(words)
    }
}

/// Connects within a time limit, while `is_wanted` returns true.
fn connect(
    address: SocketAddr,
    timeout: Duration,
    is_wanted: impl Fn() -> bool,
) -> io::Result<TcpStream> {
    let end = Instant::now() + timeout;
    let mut stream = mio::net::TcpStream::connect(address)?;
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(1);
    poll.registry()
        .register(&mut stream, Token(0), Interest::WRITABLE)?;
    loop {
        match poll.poll(&mut events, Some(CONNECT_PAUSE)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        if !events.is_empty() && stream.peer_addr().is_ok() {
            break;
        }
        if !is_wanted() {
            return Err(io::Error::other("another primary was set"));
        }
        if Instant::now() >= end {
            return Err(ErrorKind::TimedOut.into());
        }
    }
    poll.registry().deregister(&mut stream)?;
    let stream = TcpStream::from(stream);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Describes the refusal of a command. If AUTH is an unknown command to the server, its text
/// contains the arguments, so only its code is shown.
pub fn refusal(command: &str, text: &str) -> String {
    let shown = match command {
        "AUTH" => text.split(' ').next().unwrap_or_default(),
        _ => text,
    };
    format!("{command} was refused: {shown}")
}

/// Returns an error about what was received.
pub fn wrong(text: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, text.to_owned())
}

/// Sends a command.
///
/// # Errors
/// The connection has ended.
pub fn send(connection: &mut BufReader<Stream>, words: &[&str]) -> io::Result<()> {
    let mut bytes = Vec::new();
    session::feed::put_command(&mut bytes, words.iter().map(|word| word.as_bytes()));
    connection.get_mut().write_all(&bytes)
}

/// Reads a line without its end, which must not be an error.
///
/// # Errors
/// The line is an error, or the connection has ended.
pub fn line(connection: &mut BufReader<impl Read>) -> io::Result<String> {
    let mut text = String::new();
    connection.take(4096).read_line(&mut text)?;
    match text.as_bytes().first() {
        None => Err(ErrorKind::UnexpectedEof.into()),
        Some(b'-') => Err(wrong(text.trim_end())),
        Some(_) => Ok(text.trim_end().to_owned()),
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.read(bytes),
            Stream::Tls(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.flush(),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The log contained `masterauth` when AUTH has another name on the primary.
    #[test]
    fn the_refusal_of_a_password_does_not_contain_it() {
        let text = "ERR unknown command 'AUTH', with args beginning with: 'user' 'secret' ";
        assert_eq!(refusal("AUTH", text), "AUTH was refused: ERR");
        assert_eq!(refusal("PING", "LOADING x"), "PING was refused: LOADING x");
    }
}
