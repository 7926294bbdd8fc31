//! Tests of the state machine with two walkers, the thread and the first worker, whose steps a test
//! takes in any order. Nothing runs in parallel, so a failure can be repeated.

use super::stopping::STOP_NOT_CANCELLED;
use super::*;
use crate::command::scripting::functions::load_library;
use crate::dispatch::{Executor, exec};
use crate::loading::file::{self as loading, Origin};
use crate::memcached::Progress;
use crate::replication::primary::{Sync, accept};
use crate::replication::role;
use crate::saving::tests::{Folder, NOW, read, run};
use crate::saving::writer::{self, SnapshotFile};
use durability::saving::phase::{Ended, Machine, Phase, Request};
use proptest::prelude::*;
use session::clients::Endpoint;
use session::clock::{Clock, Moment};
use session::feed::Taken;
use session::session::Session;
use session::waiting::BlockingState;
use settings::find;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use store::{NewDeadline, Options};
use wire::Protocol;

const WALKERS: usize = 2;
/// Number of shards that the walkers pass in turn.
const SHARDS: usize = 4;
/// Number of entries per step of a walker.
const STEPS: u32 = 3;
/// Number of rounds after which a snapshot that has not ended counts as stuck.
const ROUNDS_MAX: usize = 10_000;

/// Result of a walker's last step that has not been passed on yet.
#[derive(Clone, Debug)]
enum Walker {
    Nowhere,
    At(Position),
    Stepped(Position, SnapshotStep),
}

/// A server with two data threads, as seen by a scheduler.
struct World {
    folder: Folder,
    server: Server,
    walkers: [Walker; WALKERS],
    file: Option<SnapshotFile>,
    /// Names of the keys now, and at the instant of the last snapshot that has begun.
    keys: BTreeSet<String>,
    begun_keys: BTreeSet<String>,
    /// Clients that wait, and the replies that each client got.
    clients: BTreeSet<u64>,
    replies: BTreeMap<u64, Vec<String>>,
    saves: u64,
}

impl World {
    fn new(name: &str) -> World {
        let folder = Folder::new(name);
        let config = folder.config(&[("save", "3600 1"), ("threads", "2")]);
        let options = Options {
            shards: SHARDS,
            policy: config.text(Id::MaxMemoryPolicy),
            expiry: config.text(Id::Expiry),
            maxmemory: 0,
            hash_key: [1, 2],
            seed: 3,
        };
        let server = Server::with_store(config, &options, WALKERS, Clock::manual(NOW));
        let server = server.expect("valid settings");
        World {
            folder,
            server,
            walkers: [Walker::Nowhere, Walker::Nowhere],
            file: None,
            keys: BTreeSet::new(),
            begun_keys: BTreeSet::new(),
            clients: BTreeSet::new(),
            replies: BTreeMap::new(),
            saves: 0,
        }
    }

    fn with_keys(name: &str, count: usize) -> World {
        let mut world = World::new(name);
        (0..count).for_each(|number| world.write(number, 10));
        world
    }

    /// Stores or removes a key, unless writes are held.
    fn write(&mut self, number: usize, len: usize) {
        let server = &self.server;
        if server.data.pause.holds(true, server.clock.moment()) {
            return;
        }
        let name = format!("key:{number}");
        // A command that names the key waits.
        if server
            .workers
            .long
            .blocks(|is_leased| is_leased(name.as_bytes()))
        {
            return;
        }
        let key = server.data.keyspace.key(0, name.as_bytes());
        let shard = server.data.keyspace.shard_of(&key);
        let mut view = server.data.keyspace.lock_one(shard, Tick(NOW));
        if len == 0 {
            view.delete(&key);
            self.keys.remove(&name);
        } else {
            view.set(&key, &vec![b'v'; len], NewDeadline::Clear);
            self.keys.insert(name);
        }
    }

    fn request(&mut self, kind: Kind) -> Result<(), &'static str> {
        let id = 1 + self.clients.len() as u64;
        let waiting = Waiting {
            client: Subscriber {
                worker: 0,
                slot: 0,
                client: id,
            },
            protocol: Protocol::Resp2,
        };
        let result = match kind {
            Kind::Background => request(&self.server, "a test".to_owned(), Then::Nothing),
            Kind::Save => request(&self.server, "a test".to_owned(), Then::Reply(waiting)),
            Kind::Stop | Kind::ForcedStop => {
                let is_forced = kind == Kind::ForcedStop;
                stop(&self.server, "a test", Some(true), Some(waiting), is_forced).map(|_| ())
            }
        };
        if result.is_ok() && kind != Kind::Background {
            assert!(self.clients.insert(id), "a new client");
        }
        result
    }

    fn begin(&mut self) {
        let epoch = self.server.persistence.saving.state().machine.epoch();
        begin(&self.server, Tick(NOW));
        if self.server.persistence.saving.state().machine.epoch() != epoch {
            self.begun_keys.clone_from(&self.keys);
        }
    }

    /// A walker reads the position, makes a step, or passes on what it has done.
    fn walk(&mut self, worker: usize) {
        let server = &self.server;
        self.walkers[worker] = match std::mem::replace(&mut self.walkers[worker], Walker::Nowhere) {
            Walker::Nowhere => match due_walk(
                &server.persistence.saving,
                &server.workers,
                &server.clock,
                worker,
            ) {
                Some((at, Duration::ZERO)) => Walker::At(at),
                _ => Walker::Nowhere,
            },
            Walker::At(at) => {
                let step = server.data.keyspace.snapshot_step(at.shard as usize, STEPS);
                Walker::Stepped(at, step)
            }
            Walker::Stepped(at, step) => {
                after_step(server, at, step, worker, Tick(NOW));
                Walker::Nowhere
            }
        };
    }

    /// The thread performs a task. A file that it completes has the keys of its instant.
    fn write_file(&mut self) {
        let before = self.phase();
        if let Some((task, _)) = self.server.persistence.saving.queue.try_next() {
            writer::perform(&self.server, &mut self.file, task);
        }
        let has_completed = before != self.phase() && self.phase() == Phase::Completing;
        // The folder may have been removed.
        if has_completed && self.folder.file().exists() {
            let keys: BTreeSet<_> = read(&self.folder.file()).1.into_keys().collect();
            assert_eq!(keys, self.begun_keys);
        }
    }

    fn deliver(&mut self) {
        let server = &self.server;
        let mut has_any = false;
        for (worker, inbox) in server.workers.inboxes.iter().enumerate() {
            let mut messages = Vec::new();
            inbox.take(&mut messages);
            has_any |= !messages.is_empty();
            for message in messages {
                match message {
                    Message::Saved(epoch, result) => {
                        self.saves += u64::from(result.is_ok());
                        end(server, epoch, result);
                    }
                    Message::Returned(loan) => {
                        Executor::new(server, worker, Tick(NOW)).take_back(*loan);
                    }
                    Message::Answer(_, client, reply) => {
                        let text = String::from_utf8_lossy(&reply).into_owned();
                        self.replies.entry(client).or_default().push(text);
                    }
                    _ => {}
                }
            }
        }
        // Messages may cause others.
        if has_any {
            self.deliver();
        }
    }

    /// Runs everything until no snapshot is requested or in progress.
    fn finish(&mut self) {
        for _ in 0..ROUNDS_MAX {
            if !self.server.persistence.saving.is_busy() || self.server.lifecycle.stops() {
                // Walkers of an earlier snapshot may still have to pass on what they did.
                for worker in (0..WALKERS).flat_map(|worker| [worker; 3]) {
                    self.walk(worker);
                }
                return self.check_end();
            }
            self.begin();
            (0..WALKERS).for_each(|worker| self.walk(worker));
            self.write_file();
            self.deliver();
            // A walk that pauses goes on.
            self.server.clock.pass_ms(1);
        }
        panic!("the snapshot does not end: {:?}", self.phase());
    }

    fn phase(&self) -> Phase {
        self.server.persistence.saving.state().machine.phase()
    }

    /// Asserts the invariants after each step.
    fn check(&self) {
        let (server, saving) = (&self.server, &self.server.persistence.saving);
        let state = saving.state();
        state.machine.check();
        let is_stopping = state.machine.stop_in_progress().is_some();
        assert_eq!(saving.stop_in_progress().is_some(), is_stopping);
        assert_eq!(
            server.data.pause.holds(true, server.clock.moment()),
            is_stopping
        );
        assert_eq!(saving.is_walking(), state.machine.has_unsaved());
        assert!(self.replies.values().all(|replies| replies.len() == 1));
        assert!(state.machine.is_busy() || saving.queue.bytes() == 0);
    }

    /// Asserts the invariants once nothing is requested or in progress.
    fn check_end(&mut self) {
        while self.server.persistence.saving.queue.bytes() > 0
            || self.server.workers.long.is_running()
        {
            self.write_file();
            self.deliver();
        }
        self.deliver();
        self.check();
        if self.server.lifecycle.stops() {
            return;
        }
        assert_eq!(self.server.persistence.saving.state().saves, self.saves);
        assert!(!self.server.workers.long.is_active(), "no key is reserved");
        let answered: BTreeSet<u64> = self.replies.keys().copied().collect();
        assert_eq!(answered, self.clients, "each client has its reply");
        let rest = fs::read_dir(&self.folder.0).map_or(0, |files| files.count());
        assert!(rest <= 1, "no temporary file is left");
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Background,
    Save,
    Stop,
    ForcedStop,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Request(Kind),
    Cancel,
    Abort,
    Begin,
    Walk(usize),
    WriteFile,
    Deliver,
    Write(usize, usize),
    /// Removes the folder, so that a file cannot be created or renamed, or creates it again.
    Folder(bool),
    /// Each participant takes this number of steps.
    Rounds(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => Just(Op::Request(Kind::Background)),
        2 => Just(Op::Request(Kind::Save)),
        1 => Just(Op::Request(Kind::Stop)),
        1 => Just(Op::Request(Kind::ForcedStop)),
        2 => Just(Op::Cancel),
        1 => Just(Op::Abort),
        4 => Just(Op::Begin),
        10 => (0..WALKERS).prop_map(Op::Walk),
        4 => Just(Op::WriteFile),
        4 => Just(Op::Deliver),
        3 => (0usize..40, 0usize..300).prop_map(|(key, len)| Op::Write(key, len)),
        1 => (0usize..4).prop_map(|key| Op::Write(key, 100 << 10)),
        1 => prop::bool::weighted(0.7).prop_map(Op::Folder),
        2 => (1usize..40).prop_map(Op::Rounds),
    ]
}

impl World {
    fn perform(&mut self, op: Op) {
        match op {
            Op::Request(kind) => {
                // A refused request changes nothing.
                let _ = self.request(kind);
            }
            Op::Cancel => {
                let _ = cancel(&self.server);
            }
            Op::Abort => {
                abort_stop(&self.server);
            }
            Op::Begin => self.begin(),
            Op::Walk(worker) => self.walk(worker),
            Op::WriteFile => self.write_file(),
            Op::Deliver => self.deliver(),
            Op::Write(number, len) => self.write(number, len),
            Op::Folder(true) => fs::create_dir_all(&self.folder.0).expect("a folder"),
            Op::Folder(false) => {
                let _ = fs::remove_dir_all(&self.folder.0);
            }
            Op::Rounds(count) => {
                for _ in 0..count {
                    (0..WALKERS).for_each(|worker| self.walk(worker));
                    self.write_file();
                    self.deliver();
                    self.server.clock.pass_ms(1);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn random_operations_in_any_order_lose_no_key_and_no_reply(ops in prop::collection::vec(op(), 1..120)) {
        let mut world = World::with_keys("model", 30);
        for op in ops {
            world.perform(op);
            world.check();
            if world.server.lifecycle.stops() {
                return Ok(());
            }
        }
        world.perform(Op::Folder(true));
        world.finish();
        if !world.server.lifecycle.stops() {
            world.request(Kind::Save).expect("nothing is in progress");
            world.finish();
            prop_assert!(world.saves > 0);
        }
    }
}

#[test]
fn a_walker_of_a_cancelled_snapshot_does_not_move_the_next_one() {
    // Regression: it stored its next shard, so that shards of the next snapshot were left out of a
    // file that was reported as complete.
    let mut world = World::with_keys("stale", 40);
    world.request(Kind::Background).expect("idle");
    world.begin();
    for _ in 0..100 {
        // Walker 1 has stepped through the last entries of shard 1.
        if matches!(&world.walkers[1], Walker::Stepped(_, SnapshotStep::Done)) {
            break;
        }
        if matches!(world.walkers[1], Walker::Nowhere) {
            world.walk(0);
        }
        world.walk(1);
    }
    assert_eq!(cancel(&world.server), Ok(true));
    while world.server.persistence.saving.is_busy() {
        world.write_file();
        world.deliver();
    }
    world.request(Kind::Save).expect("idle");
    world.begin();
    assert_eq!(world.phase(), Phase::Walking { shard: 0 });
    world.walk(1);
    assert_eq!(world.phase(), Phase::Walking { shard: 0 });
    world.finish();
    assert_eq!(
        world.replies.into_values().collect::<Vec<_>>(),
        [["+OK\r\n"]]
    );
}

#[test]
fn a_number_that_is_no_shard_is_refused() {
    let world = World::with_keys("shard", 1);
    for shard in [SHARDS, usize::MAX] {
        let step = world.server.data.keyspace.snapshot_step(shard, STEPS);
        assert_eq!(step, SnapshotStep::Done);
    }
}

/// Requests a snapshot, and begins it if `has_begun`.
fn with_request(kind: Kind, has_begun: bool) -> World {
    let mut world = World::with_keys("pairs", 20);
    world.request(kind).expect("idle");
    if has_begun {
        world.begin();
        (0..WALKERS).for_each(|worker| world.walk(worker));
    }
    world
}

#[test]
fn cancelling_answers_the_client_and_does_not_cancel_a_stop() {
    // Regression: a request that had not begun was dropped with its client: SAVE got no reply, and
    // after SHUTDOWN writes were held for ever.
    for has_begun in [false, true] {
        for kind in [Kind::Background, Kind::Save] {
            let mut world = with_request(kind, has_begun);
            assert_eq!(cancel(&world.server), Ok(has_begun), "{kind:?}");
            world.finish();
            let replies: Vec<_> = world.replies.values().flatten().collect();
            assert_eq!(replies.len(), usize::from(kind == Kind::Save), "{kind:?}");
            assert!(replies.iter().all(|reply| reply.starts_with("-ERR")));
            assert_eq!(world.saves, 0);
        }
        for kind in [Kind::Stop, Kind::ForcedStop] {
            let mut world = with_request(kind, has_begun);
            assert_eq!(cancel(&world.server), Err(STOP_NOT_CANCELLED), "{kind:?}");
            world.finish();
            assert!(world.server.lifecycle.stops(), "{kind:?}");
            assert_eq!(world.saves, 1);
        }
    }
}

#[test]
fn a_stop_replaces_a_snapshot_whose_client_is_answered() {
    for has_begun in [false, true] {
        for kind in [Kind::Background, Kind::Save] {
            let mut world = with_request(kind, has_begun);
            world.request(Kind::Stop).expect("a stop comes first");
            world.finish();
            assert!(world.server.lifecycle.stops());
            let replies: Vec<_> = world.replies.values().flatten().collect();
            assert_eq!(replies.len(), usize::from(kind == Kind::Save), "{kind:?}");
            assert!(replies.iter().all(|reply| reply.starts_with("-ERR")));
            assert_eq!(world.saves, 1);
        }
        for kind in [Kind::Stop, Kind::ForcedStop] {
            for second in [Kind::Background, Kind::Save, Kind::Stop, Kind::ForcedStop] {
                let mut world = with_request(kind, has_begun);
                assert_eq!(world.request(second), Err(durability::saving::IN_PROGRESS));
                world.finish();
                assert!(world.server.lifecycle.stops());
            }
        }
    }
}

#[test]
fn an_aborted_stop_does_not_stop_the_server_even_if_it_is_forced() {
    for has_begun in [false, true] {
        for kind in [Kind::Stop, Kind::ForcedStop] {
            let mut world = with_request(kind, has_begun);
            assert!(abort_stop(&world.server));
            assert!(!abort_stop(&world.server), "there is no stop any more");
            world.finish();
            assert!(!world.server.lifecycle.stops(), "{kind:?}");
            let replies: Vec<_> = world.replies.values().flatten().collect();
            assert_eq!(replies, [&format!("-{SHUTDOWN_FAILED}\r\n")]);
            // Writes are served again.
            world.write(1000, 10);
            assert!(world.keys.contains("key:1000"));
        }
    }
}

#[test]
fn a_stop_holds_writes_whatever_happens_to_client_pause() {
    // Regression: CLIENT UNPAUSE during a stop released writes, which were acknowledged and lost.
    let mut world = with_request(Kind::Stop, true);
    let server = &world.server;
    let now = server.clock.moment();
    server.data.end_pause();
    server.data.end_pause_in_time(now);
    assert!(server.data.pause.holds(true, now));
    assert!(!server.data.pause.holds(false, now), "reads are served");
    let dropped = Executor::new(server, 0, Tick(NOW)).drop_stale(b"key");
    assert_eq!(dropped, Progress::Held);
    world.finish();
    assert!(world.server.lifecycle.stops());
    // Until the process ends, too.
    assert!(world.server.data.pause.holds(true, now));
}

#[test]
fn a_stop_that_fails_does_not_end_client_pause() {
    let mut world = World::with_keys("paused", 20);
    let now = world.server.clock.moment();
    world
        .server
        .data
        .begin_pause(now, Moment(now.0 + 60_000), true);
    world.request(Kind::Stop).expect("idle");
    let number = world.server.persistence.saving.stop_in_progress();
    assert!(number.is_some());
    assert!(abort_stop(&world.server));
    assert_eq!(world.server.persistence.saving.stop_in_progress(), None);
    assert!(
        world.server.data.pause.holds(false, now),
        "CLIENT PAUSE is in force"
    );
    world.server.data.end_pause();
    assert!(!world.server.data.pause.is_set());
    world.request(Kind::Stop).expect("idle");
    assert_ne!(world.server.persistence.saving.stop_in_progress(), number);
}

#[test]
fn a_client_blocked_on_a_key_that_a_snapshot_has_borrowed_is_served_when_it_is_back() {
    // Regression: the keys that were written meanwhile were served after long commands only.
    let folder = Folder::new("borrowed");
    let server = folder.server(&[("threads", "1")]);
    let mut session = Session::default();
    for _ in 0..100 {
        let line = format!("RPUSH target {}", "x".repeat(1000));
        run(&server, &mut session, &line);
    }
    let info = server
        .clients
        .registry
        .add(Endpoint::default(), server.clock.moment());
    let mut blocked = Session::of(info);
    blocked.is_authenticated = true;
    assert_eq!(
        run(&server, &mut blocked, "BLMOVE source target LEFT RIGHT 0"),
        ""
    );
    assert!(matches!(blocked.blocking_state, BlockingState::Blocked(_)));
    request(&server, "a test".to_owned(), Then::Nothing).expect("idle");
    begin(&server, Tick(NOW));
    while !server.workers.long.is_running() {
        walk(&server, 0, Duration::ZERO, Tick(NOW));
    }
    run(&server, &mut session, "RPUSH source value");
    let (mut file, mut answers, mut messages) = (None, Vec::new(), Vec::new());
    while server.persistence.saving.is_busy() {
        walk(&server, 0, Duration::ZERO, Tick(NOW));
        while let Some((task, _)) = server.persistence.saving.queue.try_next() {
            writer::perform(&server, &mut file, task);
        }
        server.workers.inboxes[0].take(&mut messages);
        for message in messages.drain(..) {
            match message {
                Message::Returned(loan) => Executor::new(&server, 0, Tick(NOW)).take_back(*loan),
                Message::Saved(epoch, result) => end(&server, epoch, result),
                Message::Answer(_, _, reply) => answers.push(reply),
                _ => {}
            }
        }
    }
    server.workers.inboxes[0].take(&mut messages);
    let replies = messages.into_iter().filter_map(|message| match message {
        Message::Answer(_, _, reply) => Some(reply),
        _ => None,
    });
    answers.extend(replies);
    assert_eq!(answers.len(), 1, "the blocked client is served");
    assert_eq!(&answers[0][..], b"$5\r\nvalue\r\n");
    assert_eq!(run(&server, &mut session, "LLEN target"), ":101\r\n");
}

#[test]
fn all_keys_that_are_removed_during_a_snapshot_are_saved_by_the_next_one() {
    let mut world = with_request(Kind::Background, true);
    let mut view = world.server.data.keyspace.lock_all(Tick(NOW));
    view.flush(0);
    request_soon(&world.server, "all keys were removed");
    drop(view);
    world.keys.clear();
    world.finish();
    assert_eq!(world.saves, 1);
    check_points(&world.server);
    world.finish();
    assert_eq!(world.saves, 2);
    assert!(read(&world.folder.file()).1.is_empty());
    check_points(&world.server);
    assert!(!world.server.persistence.saving.is_busy());
}

#[test]
fn a_snapshot_that_was_cancelled_after_all_keys_were_removed_begins_again() {
    let mut world = World::with_keys("flush-cancelled", 0);
    request_soon(&world.server, "all keys were removed");
    world.begin();
    assert_eq!(cancel(&world.server), Ok(true));
    world.finish();
    check_points(&world.server);
    assert!(world.server.persistence.saving.is_busy());
    world.finish();
    assert_eq!(world.saves, 1);
}

/// Returns the path of a file that represents the snapshot of a restart, in a separate folder.
fn inherit(world: &World, folder: &Folder) -> PathBuf {
    let path = folder.0.join("restart.rdb");
    fs::write(&path, b"keys").expect("a file");
    world.server.lifecycle.restart.inherit(Some(path.clone()));
    path
}

#[test]
fn the_snapshot_of_a_restart_stays_until_the_snapshot_file_is_complete() {
    // Regression: it was removed after the load, and the keys from it count as no changes, so that
    // no save point was reached.
    let folder = Folder::new("restart-left");
    let mut world = World::with_keys("restart-saved", 3);
    let path = inherit(&world, &folder);
    fs::remove_dir_all(&world.folder.0).expect("a folder");
    follow_restart(&world.server);
    assert!(world.server.persistence.saving.is_busy());
    world.finish();
    assert!(world.saves == 0 && path.exists());
    fs::create_dir_all(&world.folder.0).expect("a folder");
    // The pause after the failure is over.
    world.server.persistence.saving.state().failed_at = None;
    check_points(&world.server);
    world.finish();
    assert_eq!(world.saves, 1);
    assert!(!path.exists());
}

#[test]
fn the_snapshot_of_a_restart_stays_while_the_append_only_file_has_no_base() {
    let folder = Folder::new("restart-base");
    let mut world = World::with_keys("restart-file", 3);
    let path = inherit(&world, &folder);
    let set = |world: &World, name: &str, value: &str| {
        let param = find(name).expect("a setting");
        world.server.config.set(param, value).expect("a value");
    };
    set(&world, "appendonly", "yes");
    follow_restart(&world.server);
    assert!(!world.server.persistence.saving.is_busy());
    // The next start does not load the snapshot file.
    world.request(Kind::Save).expect("none is in progress");
    world.finish();
    assert!(world.saves == 1 && path.exists());
    // Without any file, the next start loads no keys in any case.
    set(&world, "appendonly", "no");
    set(&world, "save", "");
    follow_restart(&world.server);
    assert!(!path.exists());
}

#[test]
fn snapshots_for_replicas_and_bases_are_not_cancelled_by_bgsave_cancel() {
    for then in [Then::Replicas, Then::Rewritten] {
        let mut machine = Machine::default();
        let cause = String::new();
        machine.request(Request { cause, then }).expect("idle");
        assert!(matches!(machine.cancel(), Ended::Nothing));
        let (epoch, _) = machine.begin(SHARDS).expect("a request");
        assert!(matches!(machine.cancel(), Ended::Nothing));
        assert_eq!(
            machine.pass(epoch, 0),
            durability::saving::phase::Passed::Next
        );
    }
}

#[test]
fn replicas_continue_after_a_stop_and_get_deletions_of_what_has_expired() {
    // Regression: each start began a history of its own, so that all replicas loaded a snapshot.
    let mut world = World::with_keys("history", 10);
    let mut session = Session::default();
    role::follow(&world.server, "127.0.0.1", 1);
    role::promote(&world.server);
    for line in [
        "SET due v PX 10",
        "HSET h f v g v",
        "HPEXPIRE h 10 FIELDS 1 f",
    ] {
        run(&world.server, &mut session, line);
    }
    world.keys.extend(["due", "h"].map(str::to_owned));
    let (id, position) = (world.server.replication.ids().0, world.server.feed.end());
    world.request(Kind::Stop).expect("no stop is in progress");
    // What is due was not removed yet.
    begin(&world.server, Tick(NOW + 20));
    world.begun_keys.clone_from(&world.keys);
    world.finish();
    assert!(world.server.lifecycle.stops());

    let config = world.folder.config(&[]);
    let second = Server::new(config, Clock::manual(NOW + 20)).expect("valid settings");
    let load = |origin| {
        let source = loading::prepare(&second).expect("a readable file");
        let source = source.expect("there is a file");
        let loaded = loading::load(
            &second,
            &source.name,
            source.file,
            source.bytes,
            origin,
            load_library,
        );
        loaded.expect("a sound file");
    };
    load(Origin::Other);
    assert!(second.replication.ids().1.is_none() && !second.feed.is_on());
    second.data.keyspace.lock_all(Tick(NOW + 20)).flush(0);
    load(Origin::Start);
    let earlier = second.replication.ids().1;
    assert_eq!(earlier, Some((id.clone(), position)));
    for (key, reply) in [("due", "$-1\r\n"), ("h", "$-1\r\n")] {
        let words: &[&[u8]] = match key {
            "h" => &[b"HGET", b"h", b"f"],
            _ => &[b"GET", b"due"],
        };
        let mut out = Vec::new();
        exec(&second, &mut session, words, Tick(NOW + 20), &mut out);
        assert_eq!(String::from_utf8_lossy(&out), reply, "{key}");
    }
    let reader = second.feed.add_reader(position).expect("it is kept");
    let mut bytes = Vec::new();
    let taken = second.feed.read(reader, &mut bytes, Duration::ZERO);
    assert_eq!(taken, Taken::Bytes(position));
    let text = String::from_utf8_lossy(&bytes);
    assert!(
        text.contains("\r\ndue\r\n") && text.contains("HDEL\r\n$1\r\nh\r\n$1\r\nf\r\n"),
        "{text}"
    );
    // Only the position of the file is known of the history.
    for (wanted, is_partial) in [
        (position - 1, false),
        (position, true),
        (position + 1, false),
    ] {
        let info = Session::default().info;
        let sync = accept(&second, &info, &Default::default(), Some((&id, wanted)));
        assert_eq!(matches!(sync, Sync::Partial(_)), is_partial, "{wanted}");
    }
}
