//! A snapshot of the primary: how it is received and replaces the keys.

use super::{Link, PAUSE, change, is_current, wrong};
use crate::command::scripting::functions::load_library;
use crate::loading::file::{self as snapshots, Begun, Origin};
use crate::state::Server;
use durability::replication::{EARLIEST, ID_DIGITS};
use settings::{Id, temporary};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Time between two checks during a load whether the role is about to change, which waits for it.
const CHANGE_PAUSE: Duration = Duration::from_millis(10);

fn flush_all(server: &Server) {
    let flushed = server.scripting.libraries.change(|map| {
        map.clear();
        Ok(())
    });
    flushed.expect("nothing is checked");
    let mut view = server.data.keyspace.lock_all(server.clock.now());
    for db in 0..server.data.keyspace.databases() {
        view.flush(db as u8);
    }
}

impl Link<'_> {
    /// Receives a snapshot into a file and replaces the current keys by it.
    pub(super) fn load(&mut self, id: String, position: u64) -> io::Result<()> {
        log::info!("receiving a snapshot of the primary");
        change(&self.server.replication, self.number, |primary| {
            primary.is_syncing = true
        });
        let folder = self.server.config.text(Id::Dir);
        let result = temporary::create(Path::new(&folder)).and_then(|(path, file)| {
            let received = self.receive_file(file);
            let result = received.and_then(|()| self.replace_keys(&path, id, position));
            // It is of no further use. If it stays, the next start removes it.
            let _ = fs::remove_file(&path);
            result
        });
        change(&self.server.replication, self.number, |primary| {
            primary.is_syncing = false
        });
        result
    }

    fn receive_file(&mut self, mut file: File) -> io::Result<()> {
        let header = self.line()?;
        let Some(length) = header.strip_prefix('$') else {
            return Err(wrong(format!("expected a snapshot, found '{header}'")));
        };
        if let Some(mark) = length.strip_prefix("EOF:") {
            return self.receive_marked(&mut file, mark.as_bytes());
        }
        let mut left: u64 = length
            .parse()
            .map_err(|_| wrong(format!("expected a length, found '{length}'")))?;
        while left > 0 {
            if self.input.is_empty() {
                self.receive_current()?;
                continue;
            }
            let len = (self.input.len() as u64).min(left) as usize;
            file.write_all(&self.input[..len])?;
            self.input.drain(..len);
            left -= len as u64;
        }
        Ok(())
    }

    /// Receives a snapshot whose end is marked by bytes that the primary has chosen.
    fn receive_marked(&mut self, file: &mut File, mark: &[u8]) -> io::Result<()> {
        if mark.len() != ID_DIGITS {
            return Err(wrong("expected an end mark of 40 bytes".to_owned()));
        }
        let mut searched = 0;
        loop {
            let from = searched.min(self.input.len());
            let found = self.input[from..]
                .windows(mark.len())
                .position(|window| window == mark);
            if let Some(at) = found {
                file.write_all(&self.input[..from + at])?;
                self.input.drain(..from + at + mark.len());
                return Ok(());
            }
            let kept = mark.len() - 1;
            if self.input.len() > kept {
                let done = self.input.len() - kept;
                file.write_all(&self.input[..done])?;
                self.input.drain(..done);
            }
            searched = 0;
            self.receive_current()?;
        }
    }

    fn receive_current(&mut self) -> io::Result<()> {
        self.receive()?;
        match is_current(
            &self.server.replication,
            &self.server.lifecycle,
            self.number,
        ) {
            true => Ok(()),
            false => Err(wrong("another primary was set".to_owned())),
        }
    }

    /// Replaces all keys and function libraries by those of a snapshot. If it is damaged, none are
    /// left.
    fn replace_keys(&mut self, path: &Path, id: String, position: u64) -> io::Result<()> {
        let server = self.server;
        let replication = &server.replication;
        let _applying = replication.lock_applying();
        if !is_current(&server.replication, &server.lifecycle, self.number) {
            return Err(wrong("another primary was set".to_owned()));
        }
        let file = File::open(path)?;
        if !server.cluster.seat.discard() {
            let text = "this node may be about to become the primary: it keeps its keys";
            return Err(wrong(text.to_owned()));
        }
        server
            .persistence
            .loading
            .begin(server.clock.now_us() / 1_000_000);
        server.persistence.loading.stream_db.store(0, Relaxed);
        let _begun = Begun(&server.persistence.loading);
        flush_all(server);
        server.data.keyspace.set_removal_limit(Some(EARLIEST));
        let loaded = self.load_file(file);
        if let Err(error) = loaded {
            flush_all(server);
            server.feed.restart_at(0);
            server.persistence.aof.distrust();
            return Err(wrong(error));
        }
        server.feed.restart_at(position);
        let mut state = replication.state();
        (state.id, state.earlier) = (id, None);
        state.has_removed = false;
        drop(state);
        server.persistence.aof.distrust();
        server.workers.wake_all();
        Ok(())
    }

    /// Loads a snapshot, until the role is about to change. Meanwhile the primary gets a line
    /// without a command each second, so that it does not close the connection (`repl-timeout`).
    fn load_file(&mut self, file: File) -> Result<(), String> {
        let server = self.server;
        std::thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            scope.spawn(move || {
                let loaded = snapshots::load_parts(
                    server,
                    "the primary's snapshot",
                    file,
                    Origin::Base,
                    load_library,
                );
                server.scripting.free_functions();
                // The receiver exists until this thread has ended.
                let _ = sender.send(loaded.map(|_| ()));
            });
            let mut sent_at = Instant::now();
            loop {
                match receiver.recv_timeout(CHANGE_PAUSE) {
                    Ok(loaded) => return loaded,
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err("the thread that loads has ended".to_owned());
                    }
                    Err(RecvTimeoutError::Timeout) if server.replication.is_changing() => {
                        server.persistence.loading.cancel();
                    }
                    Err(RecvTimeoutError::Timeout) if sent_at.elapsed() >= PAUSE => {
                        sent_at = Instant::now();
                        // A broken connection is found when the stream is read.
                        let _ = self.stream.write_all(b"\n");
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                }
            }
        })
    }
}
