//! A scripted origin, a node, and a raw client.

use node::{Config, ManualClock, Running};
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Time limit that separates a hang from a slow machine.
const HANG: Duration = Duration::from_secs(60);

pub const NOW_MS: u64 = 1_700_000_000_000;
pub const TOKEN: &str = "0123456789abcdef";

/// Origin server for tests, with one request per connection.
pub struct Origin {
    pub address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

/// Number of accepted connections that have not ended.
#[derive(Default)]
struct Open {
    count: Mutex<usize>,
    change: Condvar,
}

/// An accepted connection in [`Open`].
struct Accepted(Arc<Open>);

impl Accepted {
    fn new(open: &Arc<Open>) -> Self {
        *open.count.lock().expect("no thread panics") += 1;
        Accepted(open.clone())
    }

    /// Waits until this connection is the only one.
    fn wait_for_others(&self) {
        let count = self.0.count.lock().expect("no thread panics");
        let alone = self.0.change.wait_while(count, |count| *count > 1);
        drop(alone.expect("no thread panics"));
    }
}

impl Drop for Accepted {
    fn drop(&mut self) {
        if let Ok(mut count) = self.0.count.lock() {
            *count -= 1;
        }
        self.0.change.notify_all();
    }
}

/// First line of [`Origin::settled_heads`], which no node sends.
const SETTLE: &str = "settle\r\n\r\n";

impl Origin {
    /// Starts an origin that answers with a function of the request's head and number.
    pub fn start(answer: impl Fn(&str, usize, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback works");
        let address = listener.local_addr().expect("loopback works");
        let heads = Arc::new(Mutex::new(vec![]));
        let open = Arc::<Open>::default();
        let (answer, seen) = (Arc::new(answer), heads.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let (answer, seen) = (answer.clone(), seen.clone());
                let accepted = Accepted::new(&open);
                std::thread::spawn(move || {
                    stream.set_read_timeout(Some(HANG)).expect("loopback works");
                    let Some(head) = read_head(&mut stream) else {
                        return;
                    };
                    if head == SETTLE {
                        accepted.wait_for_others();
                        return;
                    }
                    let number = {
                        let mut seen = seen.lock().expect("no thread panics");
                        seen.push(head.clone());
                        seen.len()
                    };
                    answer(&head, number, &mut stream);
                });
            }
        });
        Origin { address, heads }
    }

    /// Starts an origin that answers each request with the same fields and content.
    pub fn plain(fields: &'static str, content: &'static str) -> Self {
        Origin::start(move |_, _, stream| {
            let _ = stream.write_all(response("200 OK", fields, content).as_bytes());
        })
    }

    /// Returns the heads of all requests from nodes that were stopped. A request whose client did
    /// not wait for the origin may have been sent but not read yet. Connections are accepted in
    /// order, so all others have ended once a later one is the only one left.
    pub fn settled_heads(&self) -> Vec<String> {
        let mut stream = TcpStream::connect(self.address).expect("loopback works");
        stream.set_read_timeout(Some(HANG)).expect("loopback works");
        let sent = stream.write_all(SETTLE.as_bytes());
        sent.expect("loopback works");
        let mut rest = vec![];
        let read = stream.read_to_end(&mut rest);
        read.expect("all connections of the node have ended");
        self.heads()
    }

    /// Returns the heads of all requests so far.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("no thread panics").clone()
    }
}

/// Returns a response that ends its connection.
pub fn response(status: &str, fields: &str, content: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n{fields}\r\n{content}",
        content.len()
    )
}

fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = vec![];
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    Some(String::from_utf8_lossy(&head).to_ascii_lowercase())
}

/// Node with a clock that is moved by hand.
pub struct Site {
    pub runtime: Runtime,
    pub running: Running,
    pub clock: ManualClock,
}

impl Site {
    pub fn new(origin: &Origin) -> Self {
        Site::with(origin, |_| {})
    }

    /// Starts a node after a change of its settings.
    pub fn with(origin: &Origin, change: impl FnOnce(&mut Config)) -> Self {
        let clock = ManualClock::new(NOW_MS);
        let mut config = Config {
            listen: vec!["127.0.0.1:0".parse().expect("the text is valid")],
            admin: Some("127.0.0.1:0".parse().expect("the text is valid")),
            purge_token: Some(TOKEN.into()),
            origins: vec![
                format!("http://{}", origin.address)
                    .parse()
                    .expect("the text is valid"),
            ],
            clock: node::Clock::Manual(clock.clone()),
            ..Config::default()
        };
        change(&mut config);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("the input is valid");
        let running = {
            let _context = runtime.enter();
            node::start(config).expect("the input is valid")
        };
        Site {
            runtime,
            running,
            clock,
        }
    }

    /// Stops the node as SIGTERM does.
    pub fn stop(self) {
        let Site {
            runtime, running, ..
        } = self;
        runtime.block_on(running.stop());
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.running.addresses[0]).expect("loopback works");
        stream.set_read_timeout(Some(HANG)).expect("loopback works");
        stream
    }

    /// Requests a path from another address of the loopback interface.
    pub fn get_from(&self, address: Ipv4Addr, path: &str) -> Received {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("loopback works");
        let own = SocketAddr::from((address, 0));
        socket.bind(&own.into()).expect("loopback works");
        let node = self.running.addresses[0];
        socket.connect(&node.into()).expect("loopback works");
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(HANG)).expect("loopback works");
        let text = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        stream.write_all(text.as_bytes()).expect("loopback works");
        receive(&mut stream)
    }

    /// Sends bytes, and returns everything received until the connection ends.
    pub fn raw(&self, request: &[u8]) -> Received {
        let mut stream = self.connect();
        // The node may refuse before it has read everything.
        let _ = stream.write_all(request);
        receive(&mut stream)
    }

    pub fn get(&self, path: &str) -> Received {
        self.get_with(path, "")
    }

    /// Requests a path with additional header fields.
    pub fn get_with(&self, path: &str, fields: &str) -> Received {
        self.request("GET", path, fields)
    }

    pub fn request(&self, method: &str, path: &str, fields: &str) -> Received {
        let text =
            format!("{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n");
        self.raw(text.as_bytes())
    }

    /// Sends a request to the port for operators.
    pub fn admin(&self, method: &str, path: &str, fields: &str) -> Received {
        let mut stream = TcpStream::connect(self.running.admin.expect("loopback works"))
            .expect("loopback works");
        stream.set_read_timeout(Some(HANG)).expect("loopback works");
        let text =
            format!("{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n");
        stream.write_all(text.as_bytes()).expect("loopback works");
        receive(&mut stream)
    }

    /// Purges with the token, and returns the number of URLs.
    pub fn purge(&self, arguments: &str) -> usize {
        let token = format!("Authorization: Bearer {TOKEN}\r\n");
        let received = self.admin("POST", &format!("/purge?{arguments}"), &token);
        assert_eq!(received.status, 200, "{}", received.text);
        received.content.trim().parse().expect("the text is valid")
    }
}

/// Reply as received by a client.
#[derive(Debug)]
pub struct Received {
    /// Status code; 0 if no reply came.
    pub status: u16,
    /// All received bytes as text.
    pub text: String,
    /// Content, including chunk framing, if any.
    pub content: String,
}

impl Received {
    /// Returns the value of a field; empty if it is absent.
    pub fn field(&self, name: &str) -> &str {
        let head = self.text.split("\r\n\r\n").next().unwrap_or_default();
        let line = head
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_default()
    }

    /// Returns the value of Cache-Status without the name of the cache.
    pub fn cache(&self) -> &str {
        self.field("cache-status")
            .strip_prefix("mayfly; ")
            .unwrap_or_default()
    }
}

pub fn receive(stream: &mut TcpStream) -> Received {
    let mut bytes = vec![];
    if let Err(error) = stream.read_to_end(&mut bytes) {
        assert_ne!(
            error.kind(),
            ErrorKind::WouldBlock,
            "the node does not answer"
        );
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.get(9..12).and_then(|status| status.parse().ok());
    let content = text
        .split_once("\r\n\r\n")
        .map(|(_, content)| content.to_owned());
    Received {
        status: status.unwrap_or(0),
        content: content.unwrap_or_default(),
        text,
    }
}
