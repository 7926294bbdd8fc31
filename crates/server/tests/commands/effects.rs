//! Every table of commands is run with the feed on. The commands of the feed, executed on a second
//! server at a much later time, must lead to the same keys.

use crate::script::{Bench, START, Step, parse};
use server::dispatch::apply::Applier;
use server::{Server, effects};
use session::Session;
use session::feed::{ReaderId, Taken};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use store::Tick;
use wire::dump::{Element, Sink, ValueType, read};
use wire::{Args, Parsed, Parser, Protocol};

/// Number of rows between two comparisons.
const ROWS_PER_COMPARISON: usize = 12;
/// Time at which the commands of the feed run.
const LATE: Tick = Tick(START.0 + 10_000_000_000);

/// Elements of a value in order of name, or a list's elements in list order.
#[derive(Default)]
struct Lines {
    is_list: bool,
    lines: Vec<String>,
}

impl Sink for Lines {
    fn begin(&mut self, kind: ValueType) {
        self.is_list = kind == ValueType::List;
        self.lines.push(kind.name().to_owned());
    }

    fn element(&mut self, element: &Element<'_>) {
        self.lines.push(format!(
            "{} = {} {} until {:?}",
            element.name.escape_ascii(),
            element.value.escape_ascii(),
            element.score,
            element.deadline
        ));
    }
}

/// A server as an observer without a connection sees it.
struct Observer<'s> {
    server: &'s Server,
    session: Session,
    now: Tick,
}

impl<'s> Observer<'s> {
    fn new(server: &'s Server, now: Tick) -> Observer<'s> {
        Observer {
            server,
            session: Session::new(),
            now,
        }
    }

    fn ask(&mut self, words: &[&[u8]]) -> Vec<u8> {
        let name = crate::renamed::sent_name(words[0]);
        let words = [&[&name[..]], &words[1..]].concat();
        let mut out = Vec::new();
        server::exec(self.server, &mut self.session, &words, self.now, &mut out);
        out
    }

    fn text(&mut self, words: &[&[u8]]) -> String {
        String::from_utf8_lossy(&self.ask(words)).into_owned()
    }

    /// Returns everything that is compared of a value.
    fn describe(&mut self, name: &[u8]) -> Vec<String> {
        let mut lines = vec![
            self.text(&[b"TYPE", name]),
            self.text(&[b"PEXPIRETIME", name]),
            self.text(&[b"TAGS", name]),
            self.text(&[b"BLESS", b"GET", name]),
        ];
        let space = &self.server.data.keyspace;
        let mut view = space.lock_all(self.now);
        view.set_horizon(Tick(0));
        let soft = view.soft(&space.key(self.session.db, name));
        drop(view);
        lines.push(format!("{soft:?}"));
        if lines[0].contains("stream") {
            lines.push(self.text(&[b"XRANGE", name, b"-", b"+"]));
            lines.push(self.text(&[b"XRETENTION", name]));
            let groups = self.text(&[b"XINFO", b"GROUPS", name]);
            let mut words = groups.split("\r\n");
            while words.by_ref().any(|word| word == "name") {
                let group = words.nth(1).unwrap_or_default().as_bytes();
                lines.push(self.text(&[b"XPENDING", name, group, b"-", b"+", b"100"]));
            }
            lines.push(groups);
            return lines;
        }
        let dumped = self.ask(&[b"DUMP", name]);
        let start = dumped.iter().position(|byte| *byte == b'\n');
        let start = start.map_or(0, |at| at + 1);
        let end = dumped.len().saturating_sub(2);
        let mut sink = Lines::default();
        if read(
            dumped.get(start..end).unwrap_or_default(),
            1 << 30,
            &mut sink,
        )
        .is_ok()
        {
            if !sink.is_list {
                sink.lines.sort();
            }
            lines.append(&mut sink.lines);
        }
        lines
    }

    /// Returns all keys.
    fn state(&mut self) -> State {
        let mut found = BTreeMap::new();
        for db in 0..16 {
            let (mut names, mut cursor) = (Vec::new(), 0);
            loop {
                let mut view = self.server.data.keyspace.lock_all(self.now);
                cursor = view.scan(db, cursor, 1000, &mut |key, _| names.push(key.to_vec()));
                if cursor == 0 {
                    break;
                }
            }
            self.session.db = db;
            for name in names {
                let lines = self.describe(&name);
                found.insert((db, name), lines);
            }
        }
        found
    }
}

/// A server whose feed is executed on a second one.
struct Pair<'s> {
    reader: ReaderId,
    bytes: Vec<u8>,
    applier: Applier<'s>,
}

impl Pair<'_> {
    /// Executes the new part of the feed and returns its text.
    fn follow(&mut self, primary: &Bench) -> String {
        let mut view = primary.server.data.keyspace.lock_all(primary.now);
        effects::add_all_removals(
            &primary.server.data.keyspace,
            &primary.server.feed,
            &mut view,
        );
        drop(view);
        while let Taken::Bytes(_) =
            primary
                .server
                .feed
                .read(self.reader, &mut self.bytes, Duration::ZERO)
        {}
        let mut text = String::from_utf8_lossy(&self.bytes).replace("\r\n", " ");
        let (mut parser, mut spans, mut at) = (Parser::default(), Vec::new(), 0);
        while at < self.bytes.len() {
            let parsed = parser.parse(&mut self.bytes[at..], &mut spans);
            let Ok(Parsed::Command { consumed }) = parsed else {
                panic!("no command in the feed: {text}");
            };
            let args = Args::new(&self.bytes[at..], &spans);
            if let Err(error) = self.applier.apply(args, LATE) {
                text.push_str(&format!("\n!! {error}"));
            }
            spans.clear();
            at += consumed;
        }
        self.bytes.clear();
        text
    }
}

/// Returns the first difference.
fn run(
    name: &str,
    text: &str,
    protocol: Protocol,
    threads: usize,
    is_long: bool,
) -> Option<String> {
    let rows = parse(text, START);
    let mut primary = Bench::new(protocol, START, threads);
    if is_long {
        primary = primary.with_long_commands();
    }
    let mut view = primary.server.data.keyspace.lock_all(START);
    effects::set_feed(&primary.server, &mut view, true);
    drop(view);
    let follower = Bench::new(Protocol::Resp2, Tick(START.0 + 1_000_000_000), 1).server;
    let mut pair = Pair {
        reader: primary.server.feed.add_reader(0).expect("the beginning"),
        bytes: Vec::new(),
        applier: Applier::new(&follower),
    };
    for (index, row) in rows.iter().enumerate() {
        match &row.step {
            Step::Advance(ms) => primary.now.0 += ms,
            Step::Events(_) => {}
            Step::Command { args, .. } => drop(primary.run(args)),
        }
        if index % ROWS_PER_COMPARISON == 0 || index + 1 == rows.len() {
            let wanted = Observer::new(&primary.server, primary.now).state();
            let fed = pair.follow(&primary);
            let got = Observer::new(&follower, primary.now).state();
            let place = format!("{name}:{} ({protocol:?}, {threads}, {is_long})", row.line);
            let difference = compare(&place, &fed, &got, &wanted);
            if difference.is_some() {
                return difference;
            }
        }
    }
    None
}

/// Returns all keys of a server in a form that can be compared.
pub fn keys_of(bench: &Bench) -> State {
    Observer::new(&bench.server, bench.now).state()
}

pub type State = BTreeMap<(u8, Vec<u8>), Vec<String>>;

fn compare(place: &str, fed: &str, got: &State, wanted: &State) -> Option<String> {
    for (key, lines) in wanted {
        let found = got.get(key);
        if found != Some(lines) {
            return Some(format!(
                "{place}: {key:?} is {found:?} instead of {lines:?} after {fed}"
            ));
        }
    }
    let mut left = got.keys().filter(|key| !wanted.contains_key(key));
    let key = left.next()?;
    Some(format!("{place}: {key:?} is left after {fed}"))
}

#[test]
fn the_feed_of_every_table_leads_to_the_same_keys() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands/tables");
    let mut differences = Vec::new();
    let files = std::fs::read_dir(folder).expect("the folder of the tables");
    for file in files {
        let path = file.expect("an entry").path();
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let text = std::fs::read_to_string(&path).expect("a text");
        for (protocol, threads, is_long) in [
            (Protocol::Resp2, 1, false),
            (Protocol::Resp3, 3, false),
            (Protocol::Resp2, 1, true),
        ] {
            differences.extend(run(&name, &text, protocol, threads, is_long));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}
