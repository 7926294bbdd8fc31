//! A server with its own settings, and clients that read with a timeout.

use server::run::{self, Running};
use session::clock::Clock;
use settings::{Config, find};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Timeout for a reply, for machines under load.
const REPLY_WITHIN: Duration = Duration::from_secs(20);

/// A running server.
pub struct Bench {
    running: Option<Running>,
}

impl Bench {
    /// Starts a server on a free port.
    pub fn start(settings: &[(&str, &str)]) -> Bench {
        let config = Config::default();
        let own = [("port", "0"), ("bind", "127.0.0.1"), ("threads", "1")];
        for (name, value) in own.iter().chain(settings) {
            let param = find(name).expect("a setting of this name");
            config.set(param, value).expect("a value that fits");
        }
        let running = run::start(config, Clock::System).expect("a free port");
        Bench {
            running: Some(running),
        }
    }

    pub fn client(&self) -> Client {
        let running = self.running.as_ref().expect("it runs");
        let stream = TcpStream::connect(running.addresses[0]).expect("it listens");
        stream.set_nodelay(true).expect("a socket");
        stream
            .set_read_timeout(Some(REPLY_WITHIN))
            .expect("a socket");
        Client {
            stream,
            bytes: Vec::new(),
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let running = self.running.take().expect("dropped once");
        let result = running.stop();
        if !std::thread::panicking() {
            assert_eq!(result, Ok(()));
        }
    }
}

/// One connection.
pub struct Client {
    pub stream: TcpStream,
    bytes: Vec<u8>,
}

impl Client {
    /// Sends bytes unchanged.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
    }

    /// Sends an inline command and returns its reply in one line.
    pub fn request(&mut self, line: &str) -> String {
        self.send(format!("{line}\r\n").as_bytes());
        self.reply()
    }

    /// Checks a command's reply.
    pub fn check(&mut self, line: &str, expected: &str) {
        assert_eq!(self.request(line), expected, "{line}");
    }

    /// Returns the next reply: its lines, separated by blanks, without the lengths of strings.
    pub fn reply(&mut self) -> String {
        let line = self.line();
        let (sigil, rest) = line.split_at(1);
        let count = || rest.parse::<i64>().expect("a length");
        match sigil {
            "$" | "=" if count() < 0 => "nil".into(),
            "$" | "=" => {
                let len = count() as usize;
                let text = self.take(len + 2);
                String::from_utf8_lossy(&text[..len]).into_owned()
            }
            "*" if count() < 0 => "nil".into(),
            "*" | ">" | "~" | "%" => {
                let len = count() * if sigil == "%" { 2 } else { 1 };
                let items: Vec<String> = (0..len).map(|_| self.reply()).collect();
                format!("{sigil}[{}]", items.join(" "))
            }
            _ => line,
        }
    }

    fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.bytes.windows(2).position(|two| two == b"\r\n") {
                let line = self.take(end + 2);
                return String::from_utf8_lossy(&line[..end]).into_owned();
            }
            assert!(self.read() > 0, "the server closed the connection");
        }
    }

    fn take(&mut self, len: usize) -> Vec<u8> {
        while self.bytes.len() < len {
            assert!(self.read() > 0, "the server closed the connection");
        }
        self.bytes.drain(..len).collect()
    }

    fn read(&mut self) -> usize {
        let mut chunk = vec![0; 64 << 10];
        let len = self.stream.read(&mut chunk).expect("a reply in time");
        self.bytes.extend_from_slice(&chunk[..len]);
        len
    }

    /// Reads until the server closes the connection and returns all bytes.
    pub fn rest(mut self) -> String {
        let mut chunk = vec![0; 64 << 10];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => break,
                Ok(len) => self.bytes.extend_from_slice(&chunk[..len]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
                Err(error) => panic!("the server did not close: {error}"),
            }
        }
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}
