//! One link to another node.

use crate::cluster;
use crate::replica::stream::{Stream, refusal};
use crate::state::Server;
use ::cluster::Name;
use rustls::pki_types::ServerName;
use session::feed::put_command;
use settings::Id;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_rustls::TlsConnector;

/// Shortest and longest pause after a failure. It doubles from one to the next.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];
/// Time between two introductions, which show that the other node is there.
const PERIOD: Duration = Duration::from_secs(1);
/// Time limit for a connection and its first replies.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// Maximum length of a reply.
const REPLY_BYTES_MAX: usize = 4096;

/// A node to link to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) id: Name,
    pub(super) host: String,
    pub(super) port: u16,
}

/// A connection, with or without TLS.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Keeps a link until the task ends.
pub(super) async fn keep(server: Arc<Server>, peer: Peer, wake: Arc<Notify>) {
    let (mut pause, mut last_error) = (PAUSES[0], String::new());
    loop {
        let begun = Instant::now();
        let Err(error) = run(&server, &peer, &wake).await;
        if begun.elapsed() > PAUSES[1] {
            pause = PAUSES[0];
        }
        // The same error is logged once.
        if error != last_error {
            let Peer { id, host, port } = &peer;
            log::warn!("cluster: link to node {id} at {host}:{port}: {error}");
            last_error = error;
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSES[1]);
    }
}

/// Connects and sends messages until that fails.
async fn run(server: &Server, peer: &Peer, wake: &Notify) -> Result<Infallible, String> {
    let opened = timeout(CONNECT_TIME, open(server, peer)).await;
    let mut link = opened.map_err(|_| "there is no connection after 5 seconds")??;
    log::info!("cluster: link to node {} is established", peer.id);
    link.send_messages(wake).await
}

/// Connects and introduces this node.
async fn open<'s>(server: &'s Server, peer: &Peer) -> Result<Link<'s>, String> {
    let mut link = Link {
        server,
        id: peer.id,
        stream: connect(server, peer).await?,
        replies: Replies::default(),
        introduction: introduction(cluster::id(server), peer.id),
    };
    if let Some(words) = Stream::login(&server.config) {
        let mut bytes = Vec::new();
        put_command(&mut bytes, words.iter().map(String::as_bytes));
        link.request("AUTH", &bytes).await?;
    }
    let introduction = link.introduction.clone();
    link.request("REPLCONF", &introduction).await?;
    let now_ms = server.clock.now_us() / 1_000;
    server.cluster.outbox.join(peer.id, now_ms);
    Ok(link)
}

async fn connect(server: &Server, peer: &Peer) -> Result<Box<dyn Duplex>, String> {
    let config = &server.config;
    let stream = TcpStream::connect((peer.host.as_str(), peer.port)).await;
    let stream = stream.map_err(|error| error.to_string())?;
    let set = stream.set_nodelay(true);
    set.map_err(|error| error.to_string())?;
    if !config.is_on(Id::TlsReplication) {
        return Ok(Box::new(stream));
    }
    let name = ServerName::try_from(peer.host.clone());
    let name = name.map_err(|error| format!("'{}': {error}", peer.host))?;
    let connector = TlsConnector::from(crate::tls::client_config(config)?);
    let stream = connector.connect(name, stream).await;
    let stream = stream.map_err(|error| format!("TLS: {error}"))?;
    Ok(Box::new(stream))
}

/// Returns the command that introduces a node to another one.
fn introduction(from: Name, to: Name) -> Vec<u8> {
    let mut bytes = Vec::new();
    let words: [&[u8]; 4] = [b"REPLCONF", b"CLUSTER-PEER", from.as_bytes(), to.as_bytes()];
    put_command(&mut bytes, words.into_iter());
    bytes
}

/// A connection to another node.
struct Link<'s> {
    server: &'s Server,
    id: Name,
    stream: Box<dyn Duplex>,
    replies: Replies,
    introduction: Vec<u8>,
}

impl Drop for Link<'_> {
    fn drop(&mut self) {
        let lost = self.server.cluster.outbox.leave(self.id);
        log_dropped(self.id, lost);
    }
}

impl Link<'_> {
    /// Sends a command and waits for its reply.
    async fn request(&mut self, name: &str, bytes: &[u8]) -> Result<(), String> {
        self.replies.expected += 1;
        self.write(bytes).await?;
        while self.replies.expected > 0 {
            self.read().await.map_err(|error| match error {
                Wrong::Refusal(text) => refusal(name, &text),
                Wrong::Other(text) => text,
            })?;
        }
        Ok(())
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        let written = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        let written = timeout(patience(self.server), written).await;
        let written = written.map_err(|_| "it has taken nothing for repl-timeout")?;
        written.map_err(|error| error.to_string())
    }

    /// Reads replies. It may be cancelled while it waits.
    async fn read(&mut self) -> Result<(), Wrong> {
        let mut bytes = [0; 512];
        match self.stream.read(&mut bytes).await {
            Ok(0) => Err(Wrong::Other("it has closed the connection".to_owned())),
            Ok(len) => self.replies.take(&bytes[..len]),
            Err(error) => Err(Wrong::Other(error.to_string())),
        }
    }

    /// Sends messages until the connection fails.
    async fn send_messages(&mut self, wake: &Notify) -> Result<Infallible, String> {
        let mut out = Vec::new();
        let (mut next, mut answered) = (Instant::now() + PERIOD, Instant::now());
        loop {
            // What the other node has sent comes first, so that a busy link notices its replies.
            tokio::select! {
                biased;
                read = self.read() => read.map_err(|error| match error {
                    Wrong::Refusal(text) => format!("it has refused a command: {text}"),
                    Wrong::Other(text) => text,
                })?,
                () = sleep_until(next) => {
                    next = Instant::now() + PERIOD;
                    out.extend_from_slice(&self.introduction);
                    self.replies.expected += 1;
                }
                () = wake.notified() => {}
            }
            if self.replies.expected == 0 {
                answered = Instant::now();
            } else if answered.elapsed() > patience(self.server) {
                return Err("it has not replied for repl-timeout".to_owned());
            }
            self.server.cluster.outbox.take(self.id, &mut out);
            if !out.is_empty() {
                self.write(&out).await?;
                // Memory for a long message is not kept.
                out = Vec::new();
                // There may be more.
                wake.notify_one();
            }
        }
    }
}

/// Logs a number of dropped messages, unless it is 0.
pub(super) fn log_dropped(id: Name, count: u64) {
    if count > 0 {
        log::warn!("cluster: {count} messages of PUBLISH to node {id} were dropped");
    }
}

fn patience(server: &Server) -> Duration {
    Duration::from_secs(server.config.number(Id::ReplTimeout) as u64)
}

/// What is wrong with replies.
#[derive(Debug, PartialEq, Eq)]
enum Wrong {
    /// An error reply.
    Refusal(String),
    Other(String),
}

/// The replies of the other node, which are all `+OK`.
#[derive(Debug, Default)]
struct Replies {
    /// Bytes of an incomplete reply.
    rest: Vec<u8>,
    /// Number of replies that are due.
    expected: u64,
}

impl Replies {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Wrong> {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = line.trim_ascii_end();
            match line.strip_prefix(b"-") {
                Some(error) => return Err(Wrong::Refusal(error.escape_ascii().to_string())),
                None if line == b"+OK" && self.expected > 0 => self.expected -= 1,
                None => return Err(unexpected(line)),
            }
        }
        match self.rest.len() > REPLY_BYTES_MAX {
            true => Err(unexpected(&self.rest)),
            false => Ok(()),
        }
    }
}

/// Describes a reply that no node sends.
fn unexpected(reply: &[u8]) -> Wrong {
    const SHOWN: usize = 100;
    let shown = reply[..reply.len().min(SHOWN)].escape_ascii();
    Wrong::Other(format!(
        "it has sent '{shown}': expected the replies of a node"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(expected: u64, bytes: &[u8]) -> (Result<(), Wrong>, u64) {
        let mut replies = Replies {
            expected,
            ..Replies::default()
        };
        // In any parts.
        let whole = bytes.chunks(2).try_for_each(|part| replies.take(part));
        (whole, replies.expected)
    }

    #[test]
    fn replies_are_counted_and_anything_else_is_refused() {
        let other = |text: &str| {
            let text = format!("it has sent '{text}': expected the replies of a node");
            Err(Wrong::Other(text))
        };
        assert_eq!(after(2, b"+OK\r\n+OK\r\n"), (Ok(()), 0));
        assert_eq!(after(2, b"+OK\r\n+O"), (Ok(()), 1));
        assert_eq!(after(1, b"+OK\r\n+OK\r\n").0, other("+OK"));
        assert_eq!(after(1, b"HTTP/1.1 400\r\n").0, other("HTTP/1.1 400"));
        assert_eq!(after(1, b"\xff\n").0, other("\\xff"));
        assert_eq!(after(1, &[b'x'; 9999]).0, other(&"x".repeat(100)));
        let refusal = Err(Wrong::Refusal("ERR no".to_owned()));
        assert_eq!(after(1, b"-ERR no\r\n").0, refusal);
    }
}
