//! The server as a replica: the thread that follows the primary.

mod snapshot;

use super::removal;
use super::stream::{Stream, refusal};
use crate::cluster;
use crate::dispatch::apply::Applier;
use crate::replication::{failover, role};
use crate::routing;
use crate::saving::work as saving;
use crate::state::{Lifecycle, Server};
use ::cluster::Name;
use durability::replication::{EARLIEST, PrimaryState, Replication};
use settings::Id;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use store::Tick;
use wire::{Args, Limits, Parsed, Parser};

/// Maximum time that the thread sleeps without a primary.
const IDLE_PAUSE: Duration = Duration::from_secs(60);
/// Time between two attempts to connect, and between two acknowledgements.
const PAUSE: Duration = Duration::from_secs(1);
/// Shortest time between two attempts to connect to the primary of a shard, which may not have read
/// yet that it is the primary. The time doubles up to [`PAUSE`].
const SHARD_PAUSE_MIN: Duration = Duration::from_millis(10);
/// Maximum length of a line of the handshake.
const LINE_BYTES_MAX: usize = 4096;
/// Number of bytes per read.
const READ_BYTES: usize = 256 << 10;
/// Maximum time between two attempts after commands of the primary that could not be executed. It
/// doubles up to this with each of them, unless the connection lasted longer.
const REFUSED_PAUSE_MAX: Duration = Duration::from_secs(60);

fn is_current(replication: &Replication, lifecycle: &Lifecycle, number: u64) -> bool {
    !lifecycle.stops() && replication.state().primary_number == number
}

/// Changes the state of the current primary.
fn change(replication: &Replication, number: u64, change: impl FnOnce(&mut PrimaryState)) {
    let mut state = replication.state();
    if let Some(primary) = state.primary.as_mut().filter(|p| p.number == number) {
        change(primary);
    }
}

/// Follows the primaries that are set, one after the other, until the server stops.
pub fn run(server: &Server) {
    while !server.lifecycle.stops() {
        // The number comes first: a primary that is set afterwards ends the sleep.
        let number = server.replication.number();
        match server.replication.primary() {
            Some(primary) => follow(server, primary.number),
            None => _ = server.replication.sleep(number, IDLE_PAUSE),
        }
    }
}

fn follow(server: &Server, number: u64) {
    let mut last_error = String::new();
    // The primary's stream goes on with the selected database after an interruption.
    let mut applier = Applier::of_primary(server);
    let pause_min = match server.cluster.is_routed() {
        true => SHARD_PAUSE_MIN,
        false => PAUSE,
    };
    let (mut retry_pause, mut refused_pause) = (pause_min, PAUSE);
    while is_current(&server.replication, &server.lifecycle, number) {
        let begun_at = Instant::now();
        let result = Link::connect(server, number).and_then(|mut link| link.run(&mut applier));
        server.replication.is_connected.store(false, Relaxed);
        let (mut was_connected, mut is_refused) = (false, false);
        change(&server.replication, number, |primary| {
            was_connected = primary.is_connected;
            is_refused = was_connected && primary.refusal.is_some();
            primary.is_connected = false;
            primary.is_syncing = false;
            if was_connected {
                primary.down_since = Instant::now();
            }
        });
        if is_current(&server.replication, &server.lifecycle, number) {
            failover::disconnected(server);
        }
        if !is_current(&server.replication, &server.lifecycle, number) {
            return;
        }
        if let Err(error) = result {
            let text = error.to_string();
            // The same error is logged once.
            if was_connected || text != last_error {
                log::warn!("the connection to the primary has failed: {text}");
            }
            last_error = text;
        }
        let down = server.replication.primary().map(|p| p.down_since.elapsed());
        removal::free_alone(server, down.unwrap_or_default());
        if begun_at.elapsed() > REFUSED_PAUSE_MAX {
            refused_pause = PAUSE;
        }
        if is_refused {
            refused_pause = (refused_pause * 2).min(REFUSED_PAUSE_MAX);
        }
        if was_connected && begun_at.elapsed() > PAUSE {
            retry_pause = pause_min;
        }
        let pause = if is_refused {
            refused_pause
        } else {
            retry_pause
        };
        server.replication.sleep(number, pause);
        retry_pause = (retry_pause * 2).min(PAUSE);
    }
}

fn wrong(text: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, text)
}

struct Link<'s> {
    server: &'s Server,
    number: u64,
    stream: Stream,
    /// Bytes that were received and not used.
    input: Vec<u8>,
    /// Bytes of a transaction that has not ended.
    transaction: Vec<u8>,
    /// Words of a promise to the primary that was not sent yet.
    promise: Option<[String; 2]>,
    timeout: Duration,
    last_byte: Instant,
}

impl<'s> Link<'s> {
    fn connect(server: &'s Server, number: u64) -> io::Result<Link<'s>> {
        let primary = server.replication.primary();
        let primary = primary.ok_or_else(|| wrong("there is no primary".to_owned()))?;
        let timeout = Duration::from_secs(server.config.number(Id::ReplTimeout) as u64);
        let is_wanted = || is_current(&server.replication, &server.lifecycle, number);
        let stream = Stream::open(
            &server.config,
            (&primary.host, primary.port),
            PAUSE,
            is_wanted,
        )?;
        // A request to close the previous connection does not concern this one.
        server.replication.must_reconnect.store(false, Relaxed);
        Ok(Link {
            server,
            number,
            stream,
            input: Vec::new(),
            transaction: Vec::new(),
            promise: None,
            timeout,
            last_byte: Instant::now(),
        })
    }

    /// Receives some bytes. Returns false if there currently are none.
    fn receive(&mut self) -> io::Result<bool> {
        if self.server.replication.must_reconnect.swap(false, Relaxed) {
            return Err(wrong("CLIENT KILL has closed it".to_owned()));
        }
        let before = self.input.len();
        self.input.resize(before + READ_BYTES, 0);
        let result = self.stream.read(&mut self.input[before..]);
        let len = *result.as_ref().unwrap_or(&0);
        self.input.truncate(before + len);
        match result {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => {
                let received = &self.server.replication.input_bytes;
                received.fetch_add(len as u64, Relaxed);
                self.last_byte = Instant::now();
                change(&self.server.replication, self.number, |p| {
                    p.last_byte = Instant::now()
                });
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if self.last_byte.elapsed() > self.timeout {
                    return Err(wrong("it has sent nothing for repl-timeout".to_owned()));
                }
                Ok(false)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the next line without its end. Empty lines keep the connection alive.
    fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                if !line.is_empty() {
                    return Ok(line);
                }
                continue;
            }
            if self.input.len() > LINE_BYTES_MAX {
                return Err(wrong("expected a line, found more than 4 KiB".to_owned()));
            }
            self.receive()?;
            if !is_current(
                &self.server.replication,
                &self.server.lifecycle,
                self.number,
            ) {
                return Err(wrong("another primary was set".to_owned()));
            }
        }
    }

    fn send(&mut self, words: &[&str]) -> io::Result<()> {
        let mut bytes = Vec::new();
        session::feed::put_command(&mut bytes, words.iter().map(|word| word.as_bytes()));
        self.stream.write_all(&bytes)
    }

    /// Sends a command and returns its reply, which must not be an error.
    fn ask(&mut self, words: &[&str]) -> io::Result<String> {
        self.send(words)?;
        let reply = self.line()?;
        match reply.starts_with('-') {
            true => Err(wrong(refusal(words[0], &reply[1..]))),
            false => Ok(reply),
        }
    }

    /// Follows the primary until the connection ends.
    fn run(&mut self, applier: &mut Applier<'s>) -> io::Result<()> {
        self.greet()?;
        if self.synchronize()? {
            *applier = Applier::of_primary(self.server);
            applier.select(self.server.persistence.loading.stream_db.load(Relaxed));
        }
        // The position precedes a transaction of which only a part was received: it comes again.
        applier.discard_transaction();
        self.follow(applier)
    }

    fn greet(&mut self) -> io::Result<()> {
        let config = &self.server.config;
        if let Some(words) = Stream::login(&self.server.config) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            self.ask(&words)?;
        }
        self.ask(&["PING"])?;
        let announced = config.number(Id::ReplicaAnnouncePort);
        let port = match announced {
            0 if config.is_on(Id::TlsReplication) && config.number(Id::TlsPort) != 0 => {
                config.number(Id::TlsPort)
            }
            0 => i64::from(self.server.network.port.load(Relaxed)),
            port => port,
        };
        self.ask(&["REPLCONF", "listening-port", &port.to_string()])?;
        let address = config.text(Id::ReplicaAnnounceIp);
        if !address.is_empty() {
            self.ask(&["REPLCONF", "ip-address", &address])?;
        }
        self.ask(&["REPLCONF", "capa", "eof", "capa", "psync2"])?;
        if config.is_cluster() {
            self.exchange_ids()?;
        }
        match self.server.cluster.is_routed() {
            true => self.introduce(),
            false => Ok(()),
        }
    }

    /// Reports the identifier of this node, and requests that of the primary. Older servers and
    /// those without a cluster refuse it, and replies to clients contain other identifiers then.
    fn exchange_ids(&mut self) -> io::Result<()> {
        let id = cluster::id(self.server);
        self.send(&["REPLCONF", "set-cluster-node-id", id.as_str()])?;
        self.line()?;
        self.send(&["CLUSTER", "MYID"])?;
        if self.line()?.starts_with('$') {
            let id = self.line()?;
            let id = Name::parse(id.as_bytes()).map(|id| id.to_string());
            change(&self.server.replication, self.number, |primary| {
                primary.node_id = id
            });
        }
        Ok(())
    }

    /// Names the shard and the term that this node follows, which the primary may refuse.
    fn introduce(&mut self) -> io::Result<()> {
        let link = u64::from(settings::random::chance(0x11e7) as u32) + 1;
        match self.server.cluster.seat.introduction(link) {
            Some([shard, epoch, link]) => {
                let words = ["REPLCONF", "CLUSTER-LINK", &shard, &epoch, &link];
                self.ask(&words).map(|_| ())
            }
            None => Ok(()),
        }
    }

    /// Requests the missing part: the rest of the feed, or a snapshot. Returns whether it was a
    /// snapshot.
    fn synchronize(&mut self) -> io::Result<bool> {
        let (id, _) = self.server.replication.ids();
        let position = self.server.feed.end();
        let next = (position + 1).to_string();
        let reply = match (failover::request(&self.server.replication), position) {
            (Some(request), _) => self.hand_over(request, &id, &next)?,
            (None, 0) => self.ask(&["PSYNC", "?", "-1"])?,
            (None, _) => self.ask(&["PSYNC", &id, &next])?,
        };
        let words: Vec<&str> = reply.split_ascii_whitespace().collect();
        match words[..] {
            ["+CONTINUE"] => {}
            ["+CONTINUE", new] => {
                let mut state = self.server.replication.state();
                if state.primary_number != self.number {
                    return Err(wrong("another primary was set".to_owned()));
                }
                if new != state.id {
                    let old = std::mem::replace(&mut state.id, new.to_owned());
                    state.earlier = Some((old, position));
                }
            }
            ["+FULLRESYNC", id, offset] => {
                let offset: u64 = offset
                    .parse()
                    .map_err(|_| wrong(format!("expected a position, found '{offset}'")))?;
                return self.load(id.to_owned(), offset).map(|()| true);
            }
            _ => return Err(wrong(format!("PSYNC was answered with '{reply}'"))),
        }
        log::info!("the primary continues at position {position}");
        Ok(false)
    }

    /// Requests the replica that becomes the primary to take over. Returns its reply, which is that
    /// to a request for synchronization.
    fn hand_over(
        &mut self,
        request: failover::Request,
        id: &str,
        next: &str,
    ) -> io::Result<String> {
        let mut words = vec!["PSYNC", id, next, "FAILOVER"];
        words.extend(request.is_forced.then_some("FORCE"));
        self.send(&words)?;
        let mut reply = self.line()?;
        let is_primary = reply.strip_prefix('-') == Some(failover::IS_PRIMARY);
        if is_primary && !request.is_first {
            // It has taken over because of an earlier request, whose reply was lost.
            self.send(&["PSYNC", id, next])?;
            reply = self.line()?;
        }
        let Some(refusal) = reply.strip_prefix('-') else {
            failover::finish(self.server, true);
            return Ok(reply);
        };
        // After a second refusal the first request may still be on its way.
        if request.is_first {
            failover::finish(self.server, false);
        }
        Err(wrong(format!("FAILOVER was refused: {refusal}")))
    }

    /// Executes the commands of the primary.
    fn follow(&mut self, applier: &mut Applier<'_>) -> io::Result<()> {
        let server = self.server;
        change(&server.replication, self.number, |primary| {
            (primary.is_connected, primary.has_synced) = (true, true);
            primary.refusal = None;
        });
        server.replication.is_connected.store(true, Relaxed);
        if !server.data.keyspace.has_removal_limit() {
            server.data.keyspace.set_removal_limit(Some(EARLIEST));
        }
        log::info!("following the primary from position {}", server.feed.end());
        let mut parser = Parser::new(Limits::of_feed());
        let mut acked_at = Instant::now();
        self.acknowledge()?;
        loop {
            if self.apply(applier, &mut parser)? || acked_at.elapsed() >= PAUSE {
                acked_at = Instant::now();
                self.acknowledge()?;
            }
            if let Some([epoch, sent]) = self.promise.take() {
                self.send(&["REPLCONF", "CLUSTER-PROMISE", &epoch, &sent])?;
            }
            // With a stream that never pauses, the data threads find no time between its commands.
            if server.persistence.saving.has_request() {
                saving::begin(server, server.clock.now());
            }
            self.receive()?;
        }
    }

    fn acknowledge(&mut self) -> io::Result<()> {
        let server = self.server;
        let position = server.feed.end().to_string();
        if server.persistence.aof.is_complete() {
            let synced = server.persistence.aof.synced().to_string();
            return self.send(&["REPLCONF", "ACK", &position, "FACK", &synced]);
        }
        self.send(&["REPLCONF", "ACK", &position])
    }

    /// Executes the commands that were received. Returns whether the primary has requested an
    /// acknowledgement.
    fn apply(&mut self, applier: &mut Applier<'_>, parser: &mut Parser) -> io::Result<bool> {
        let server = self.server;
        let replication = &server.replication;
        let _applying = replication.lock_applying();
        if !is_current(&server.replication, &server.lifecycle, self.number) {
            return Err(wrong("another primary was set".to_owned()));
        }
        let input = std::mem::take(&mut self.input);
        let (applied, result) = self.apply_from(input, applier, parser);
        if applied {
            replication.state().stream_db = applier.db();
            server.workers.wake_all();
        }
        // The primary's clients wait for this replica.
        let acknowledges = applied && server.cluster.seat.acknowledges.load(Relaxed);
        result.map(|is_requested| is_requested || acknowledges)
    }

    /// Executes commands and keeps the bytes after the last complete one. Returns whether there was
    /// a command, and whether the primary has requested an acknowledgement.
    fn apply_from(
        &mut self,
        mut input: Vec<u8>,
        applier: &mut Applier<'_>,
        parser: &mut Parser,
    ) -> (bool, io::Result<bool>) {
        let (mut at, mut spans, mut is_requested) = (0, Vec::new(), false);
        let now = self.server.clock.now();
        while at < input.len() {
            let end = match parser.parse(&mut input[at..], &mut spans) {
                Ok(Parsed::Command { consumed }) => {
                    let args = Args::new(&input[at..at + consumed], &spans);
                    if args.is(0, "replconf") {
                        is_requested |= self.take_note(args);
                    }
                    if let Err(why) = applier.apply(args, now) {
                        return (at > 0, Err(self.refuse(why)));
                    }
                    spans.clear();
                    at + consumed
                }
                Ok(Parsed::Blank { consumed }) => at + consumed,
                Ok(Parsed::Incomplete { .. }) => break,
                Err(error) => {
                    let error = wrong(format!("a command of the primary: {error}"));
                    return (at > 0, Err(error));
                }
            };
            self.pass_on(&input[at..end], applier.is_in_transaction(), now);
            at = end;
        }
        input.drain(..at);
        self.input = input;
        (at > 0, Ok(is_requested))
    }

    /// Handles a REPLCONF of the primary. Returns whether it requests an acknowledgement.
    fn take_note(&mut self, args: Args<'_>) -> bool {
        let is_asked = args.is(1, "cluster-ask");
        if is_asked {
            let now = routing::now(&self.server.clock);
            self.promise = self.server.cluster.seat.asked(args, now);
        }
        is_asked || args.is(1, "getack")
    }

    /// Records that a command of the primary cannot be executed. Returns the error with which the
    /// connection ends.
    fn refuse(&self, why: String) -> io::Error {
        let replication = &self.server.replication;
        replication.refused_commands.fetch_add(1, Relaxed);
        role::give_up_position(&self.server.replication, self.number);
        change(&self.server.replication, self.number, |primary| {
            primary.refusal = Some(why.clone());
        });
        wrong(format!(
            "a command of the primary cannot be executed: {why}; a snapshot follows"
        ))
    }

    /// Adds the bytes of a command, which was executed at `now`, to the feed. A transaction's bytes
    /// are added when it ends, so that no file, replica or position begins or ends within one.
    fn pass_on(&mut self, bytes: &[u8], is_in_transaction: bool, now: Tick) {
        if is_in_transaction {
            self.transaction.extend_from_slice(bytes);
            return;
        }
        if self.transaction.is_empty() {
            self.server.feed.append_executed(bytes, now);
            return;
        }
        self.transaction.extend_from_slice(bytes);
        self.server.feed.append_executed(&self.transaction, now);
        self.transaction = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replication::role;
    use session::clock::Clock;
    use settings::Config;
    use std::net::TcpListener;

    #[test]
    fn a_request_to_close_a_connection_does_not_close_the_next_one() {
        // Regression: if the connection ended by itself at the time of CLIENT KILL, the next one
        // was closed, too.
        let server = Server::new(Config::default(), Clock::manual(1)).expect("valid settings");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        role::follow(&server, "127.0.0.1", port);
        let number = server.replication.number();
        change(&server.replication, number, |primary| {
            primary.is_connected = true
        });
        assert!(role::reconnect(&server.replication));
        let mut link = Link::connect(&server, number).expect("the port accepts");
        let (mut primary, _) = listener.accept().expect("there is a connection");
        primary.write_all(b"+OK\r\n").expect("there is room");
        assert!(link.receive().expect("it is open"));
        assert!(role::reconnect(&server.replication));
        assert!(link.receive().is_err(), "it is to be closed");
    }
}
