//! A client with one blocking connection and a timeout on every wait.

use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use wire::Value;

/// Maximum time to wait for a server. A run that waits longer fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// One blocking connection to one server.
pub(crate) struct Client {
    label: String,
    stream: TcpStream,
    input: Vec<u8>,
    /// Number of bytes of `input` that were returned as replies.
    consumed: usize,
    output: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(label: &str, address: SocketAddr) -> Result<Client> {
        let refused = || Error::system(format!("{label}: cannot connect to {address}"));
        let stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(refused())?;
        stream.set_nodelay(true).map_err(refused())?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(refused())?;
        stream
            .set_write_timeout(Some(PATIENCE))
            .map_err(refused())?;
        Ok(Client {
            label: label.into(),
            stream,
            input: Vec::new(),
            consumed: 0,
            output: Vec::new(),
        })
    }

    fn problem(&self, text: impl Into<String>) -> Error {
        Error::server(&self.label, text)
    }

    /// Returns a second handle of the connection, for a thread that only sends.
    pub(crate) fn sender(&self) -> Result<TcpStream> {
        let failed = Error::system(format!("{}: cannot share the connection", self.label));
        self.stream.try_clone().map_err(failed)
    }

    /// Queues a command without sending it.
    pub(crate) fn queue(&mut self, args: &[&[u8]]) {
        wire::encode_command(&mut self.output, args);
    }

    /// Sends the queued commands.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let sent = self.stream.write_all(&self.output);
        self.output.clear();
        sent.map_err(Error::system(format!("{}: cannot send", self.label)))
    }

    /// Returns the next reply. An error reply is returned as an error.
    pub(crate) fn receive(&mut self) -> Result<Value> {
        match self.receive_within(PATIENCE)? {
            Some(value) => match value.as_error() {
                Some(text) => Err(self.problem(String::from_utf8_lossy(text))),
                None => Ok(value),
            },
            None => Err(self.problem(format!("no answer in {PATIENCE:?}"))),
        }
    }

    /// Returns the next reply or message, error replies included; `None` if none arrives in time.
    pub(crate) fn receive_within(&mut self, limit: Duration) -> Result<Option<Value>> {
        loop {
            let decoded = Value::decode(&self.input[self.consumed..]);
            let decoded =
                decoded.map_err(|error| self.problem(format!("its reply is not RESP: {error}")))?;
            if let Some((value, len)) = decoded {
                self.consumed += len;
                return Ok(Some(value));
            }
            self.input.drain(..self.consumed);
            self.consumed = 0;
            if !self.fill(limit)? {
                return Ok(None);
            }
        }
    }

    /// Reads some bytes. Returns false if none arrive in time.
    fn fill(&mut self, limit: Duration) -> Result<bool> {
        let failed = |source| Error::System {
            doing: format!("{}: cannot receive", self.label),
            source,
        };
        // A timeout of zero would mean no timeout.
        let limit = limit.max(Duration::from_micros(1));
        self.stream.set_read_timeout(Some(limit)).map_err(failed)?;
        let filled = self.input.len();
        self.input.resize(filled + (1 << 16), 0);
        let read = self.stream.read(&mut self.input[filled..]);
        self.input.truncate(filled + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(self.problem("it closed the connection")),
            Ok(_) => Ok(true),
            Err(error) if is_timeout(error.kind()) => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }

    /// Sends one command and returns its reply. An error reply is returned as an error.
    pub(crate) fn call(&mut self, args: &[&str]) -> Result<Value> {
        let bytes: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        self.queue(&bytes);
        self.flush()?;
        self.receive().map_err(|error| match error {
            Error::Server { label, problem } => Error::Server {
                label,
                problem: format!("{}: {problem}", args.join(" ")),
            },
            other => other,
        })
    }

    /// Sends one command and returns its reply, which must be an integer.
    pub(crate) fn integer(&mut self, args: &[&str]) -> Result<i64> {
        let value = self.call(args)?;
        let wrong = || self.problem(format!("{}: answered {value:?}", args.join(" ")));
        value.as_integer().ok_or_else(wrong)
    }

    /// Returns the fields of a section of INFO, or of all sections.
    pub(crate) fn info(&mut self, section: &str) -> Result<BTreeMap<String, String>> {
        let reply = self.call(&["INFO", section])?;
        let text = reply
            .as_bytes()
            .ok_or_else(|| self.problem("INFO did not answer with text"))?;
        let text = String::from_utf8_lossy(text);
        let pairs = text.lines().filter_map(|line| line.trim().split_once(':'));
        Ok(pairs
            .map(|(name, value)| (name.into(), value.into()))
            .collect())
    }

    /// Returns the number in one field of INFO.
    pub(crate) fn info_number(&mut self, section: &str, field: &str) -> Result<f64> {
        let info = self.info(section)?;
        let number = info.get(field).and_then(|value| value.parse().ok());
        number.ok_or_else(|| self.problem(format!("INFO {section} has no number called {field}")))
    }

    /// Sets one parameter by CONFIG SET.
    pub(crate) fn configure(&mut self, name: &str, value: &str) -> Result<()> {
        self.call(&["CONFIG", "SET", name, value]).map(drop)
    }
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}
