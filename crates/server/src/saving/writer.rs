//! The thread that encodes the entries of a snapshot and writes them to a file.
//!
//! The file is written under a temporary name. When it is complete and on disk, it is renamed, and
//! the folder is synced to disk, so that a crash at any time leaves the old file or the new one.
//! Until then, its first bytes are not a valid header. `settings::temporary` defines its name.
//!
//! The thread reports each snapshot once to the first worker: when its file is complete, or when
//! the file was given up. Tasks of other snapshots are ignored.

use super::work;
use crate::state::Server;
use durability::saving::encode;
use durability::saving::queue::{Plan, Task};
use session::message::{Message, Written};
use settings::temporary;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use store::{Record, Scene};
use wire::rdb::{Framing, HEADER_PENDING, Writer};

/// Number of encoded bytes written to the file at a time.
const WRITE_BYTES: usize = 256 << 10;
/// Number of written bytes after which the file is synchronized, so that the disk is busy evenly
/// and the last synchronization is short.
const SYNC_BYTES: u64 = 32 << 20;

/// Bytes on their way to a file.
struct Output {
    file: File,
    framing: Framing,
    is_checked: bool,
    /// Whether the file must be on the disk when it is complete.
    is_synced: bool,
    unsynced_bytes: u64,
    bytes: u64,
    /// First error of the file.
    error: Option<io::Error>,
}

impl Output {
    /// Writes what the writer has encoded if it is at least `min_bytes`.
    fn take(&mut self, writer: &mut Writer, min_bytes: usize) {
        if writer.bytes().len() < min_bytes {
            return;
        }
        if self.error.is_none() {
            self.error = self.write(writer.bytes()).err();
        }
        writer.clear();
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_checked {
            self.framing.add(bytes);
        }
        self.file.write_all(bytes)?;
        self.bytes += bytes.len() as u64;
        self.unsynced_bytes += bytes.len() as u64;
        if self.is_synced && self.unsynced_bytes >= SYNC_BYTES {
            self.unsynced_bytes = 0;
            self.file.sync_data()?;
        }
        Ok(())
    }
}

/// A snapshot file that is being written. It is removed when it is dropped, unless it was
/// completed.
pub struct SnapshotFile {
    plan: Plan,
    path: PathBuf,
    output: Output,
    writer: Writer,
    database: Option<u8>,
    keys: u64,
    is_complete: bool,
}

impl SnapshotFile {
    /// Creates the file under its temporary name.
    ///
    /// # Errors
    /// An error of the file system.
    pub fn create(plan: Plan) -> io::Result<SnapshotFile> {
        let (path, mut file) = temporary::create(&plan.folder)?;
        file.write_all(&HEADER_PENDING)?;
        let mut writer = Writer::default();
        for (name, value) in &plan.fields {
            writer.field(name.as_bytes(), value.as_bytes());
        }
        plan.libraries.iter().for_each(|code| writer.library(code));
        let output = Output {
            file,
            framing: Framing::default(),
            is_checked: plan.is_checked,
            is_synced: !plan.is_temporary,
            unsynced_bytes: 0,
            bytes: HEADER_PENDING.len() as u64,
            error: None,
        };
        Ok(SnapshotFile {
            plan,
            path,
            output,
            writer,
            database: None,
            keys: 0,
            is_complete: false,
        })
    }

    /// Writes an entry. An error is returned by [`SnapshotFile::check`].
    fn entry(&mut self, record: &Record<'_>, scene: &Scene<'_>) {
        if !self.plan.has_keys {
            return;
        }
        if self.database != Some(record.db) {
            self.writer.database(u64::from(record.db));
            self.database = Some(record.db);
        }
        let output = &mut self.output;
        let spill = &mut |writer: &mut Writer| output.take(writer, WRITE_BYTES);
        let (writer, is_valkey) = (&mut self.writer, self.plan.is_valkey);
        self.keys += u64::from(encode::entry(writer, record, scene, is_valkey, spill));
        self.output.take(&mut self.writer, WRITE_BYTES);
    }

    /// Returns the first error of an entry that was written.
    fn check(&mut self) -> io::Result<()> {
        self.output.error.take().map_or(Ok(()), Err)
    }

    /// Completes the file under its final name, if `may_rename` returns true once all bytes are on
    /// disk. The file gets the permissions of the file that it replaces.
    ///
    /// # Errors
    /// The file system returned an error, or `may_rename` returned false.
    pub fn complete(mut self, may_rename: impl FnOnce() -> bool) -> io::Result<Written> {
        let tail_bytes = self.finish()?;
        let path = self.plan.folder.join(&self.plan.name);
        let file = &mut self.output.file;
        temporary::copy_permissions(&path, file)?;
        file.sync_all()?;
        if !may_rename() {
            return Err(cancelled());
        }
        fs::rename(&self.path, path)?;
        self.is_complete = true;
        sync_folder(&self.plan.folder)?;
        Ok(self.written(tail_bytes))
    }

    /// Completes the file for the process after a restart. Also returns its path.
    ///
    /// # Errors
    /// The file system returned an error, or `may_end` returned false once all bytes were written.
    fn complete_for_restart(
        mut self,
        may_end: impl FnOnce() -> bool,
    ) -> io::Result<(Written, PathBuf)> {
        let tail_bytes = self.finish()?;
        self.path = temporary::keep_for_restart(&self.path)?;
        if !may_end() {
            return Err(cancelled());
        }
        self.is_complete = true;
        Ok((self.written(tail_bytes), self.path.clone()))
    }

    fn written(&self, tail_bytes: u64) -> Written {
        Written {
            keys: self.keys,
            bytes: self.output.bytes + tail_bytes,
            version: self.writer.version(),
        }
    }

    /// Writes the rest and the header. Returns the number of bytes after the entries.
    fn finish(&mut self) -> io::Result<u64> {
        self.output.take(&mut self.writer, 0);
        self.check()?;
        let version = self.writer.version();
        let framing = std::mem::take(&mut self.output.framing);
        let ending = match self.plan.is_checked {
            true => framing.end(version),
            false => framing.end_unchecked(version),
        };
        let file = &mut self.output.file;
        file.write_all(&ending.tail)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&ending.header)?;
        Ok(ending.tail.len() as u64)
    }
}

impl Drop for SnapshotFile {
    fn drop(&mut self) {
        if !self.is_complete {
            // If it cannot be removed, the next start tries again.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn cancelled() -> io::Error {
    io::Error::other("it was cancelled")
}

/// Writes the names in a folder to the disk.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Writes snapshots until the server stops.
pub fn run(server: &Server) {
    let mut file = None;
    while let Some((task, may_continue)) = server.persistence.saving.queue.next() {
        perform(server, &mut file, task);
        if may_continue {
            work::wake_walker(&server.persistence.saving, &server.workers);
        }
    }
}

/// Performs one task. `file` is the file in progress; `None` also after it has failed.
pub fn perform(server: &Server, file: &mut Option<SnapshotFile>, task: Task) {
    let queue = &server.persistence.saving.queue;
    if let Some(cancelled) = file.take_if(|file| !queue.accepts(file.plan.epoch)) {
        let epoch = cancelled.plan.epoch;
        drop(cancelled);
        end(server, epoch, Err("it was cancelled".to_owned()));
    }
    match task {
        Task::Begin(plan) => {
            let (epoch, path) = (plan.epoch, plan.folder.display().to_string());
            match SnapshotFile::create(*plan) {
                Ok(created) => *file = Some(created),
                Err(error) => end(server, epoch, Err(format!("{path}: {error}"))),
            }
        }
        Task::Write(epoch, batch) => {
            if let Some(file) = of_epoch(file, epoch) {
                let scene = server.data.keyspace.scene(file.plan.now);
                batch.each(&mut |record| file.entry(record, &scene));
            }
            queue.reuse(batch);
        }
        Task::WriteLoan(epoch, loan, worker) => {
            if let Some(file) = of_epoch(file, epoch) {
                let scene = server.data.keyspace.scene(file.plan.now);
                file.entry(&loan.record(), &scene);
            }
            server.workers.inboxes[worker].push(worker, Message::Returned(loan));
        }
        Task::End(epoch) => {
            if let Some(file) = file.take_if(|file| file.plan.epoch == epoch) {
                let path = match file.plan.is_temporary {
                    true => file.path.clone(),
                    false => file.plan.folder.join(&file.plan.name),
                };
                let may_end = || server.persistence.saving.complete(&server.data, epoch);
                let written = match file.plan.is_temporary {
                    true => file.complete_for_restart(may_end).map(|(written, path)| {
                        server.lifecycle.restart.keep_snapshot(path);
                        written
                    }),
                    false => {
                        let ends_restart = file.plan.ends_restart;
                        let written = file.complete(may_end);
                        if ends_restart && written.is_ok() {
                            server.lifecycle.restart.end_inherited();
                        }
                        written
                    }
                };
                let result = written.map_err(|error| format!("{}: {error}", path.display()));
                end(server, epoch, result);
            }
        }
        // The file was removed by the check that precedes each task.
        Task::Abort(_) => {}
    }
    let Some(Err(error)) = file.as_mut().map(SnapshotFile::check) else {
        return;
    };
    if let Some(failed) = file.take() {
        let (epoch, path) = (failed.plan.epoch, failed.path.display().to_string());
        drop(failed);
        end(server, epoch, Err(format!("{path}: {error}")));
    }
}

/// Returns the file in progress if it belongs to this snapshot.
fn of_epoch(file: &mut Option<SnapshotFile>, epoch: u32) -> Option<&mut SnapshotFile> {
    file.as_mut().filter(|file| file.plan.epoch == epoch)
}

/// Reports the end of a snapshot to the worker that completes it.
fn end(server: &Server, epoch: u32, result: Result<Written, String>) {
    server.persistence.saving.queue.close(epoch);
    server.workers.inboxes[0].push(0, Message::Saved(epoch, result));
}
