//! Parser and runner of the tables of commands and replies, which are text files.
//!
//! A row is `COMMAND argument … => reply`. Arguments are separated by blanks; `"…"` may contain
//! blanks and `\xHH`, `\n`, `\r`, `\\`, `\"`; `<ab*3>` is `ababab`; `{ms+5}` and `{s+5}` are the
//! start time of the script in milliseconds or seconds, plus 5.
//!
//! Replies are written `+OK`, `-ERR …`, `12`, `"bulk"`, `nil`, `[…]`, `{key value}`, and
//! `verbatim"…"`. `A | B` means A in RESP2 and B in RESP3. `=~>` means an array in any order. A row
//! must hold in both protocol versions.
//!
//! `!` before a row means that Redis 7.0 replies differently, randomly, or depending on the clock.
//! `# …` is a comment. `@now +ms` advances the clock. `@events => g.del k, …` lists the keyspace
//! events since the last such row, with the database appended if it is not 0: `g.del k @3`. Events
//! of replaced values (`o.overwritten k`, `c.type_changed k`) are compared only if the row has one.

use server::Server;
use session::Session;
use session::clock::Clock;
use settings::Config;
use store::{Class, Event, Tick};
use wire::Protocol;

/// Time at which scripts start.
pub const START: Tick = Tick(1_700_000_000_000);

/// One row of a script.
pub struct Row {
    /// Line number, counted from 1.
    pub line: usize,
    /// Whether the row is not compared with Redis 7.0.
    pub is_ours: bool,
    pub step: Step,
}

pub enum Step {
    /// Advances the clock by milliseconds.
    Advance(u64),
    /// Events in RESP2 and in RESP3.
    Events([String; 2]),
    Command {
        args: Vec<Vec<u8>>,
        /// Replies in RESP2 and in RESP3.
        replies: [String; 2],
        is_unordered: bool,
    },
}

/// Parses a script. `start` replaces `{ms}` and `{s}`.
pub fn parse(text: &str, start: Tick) -> Vec<Row> {
    let mut rows = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with("# ") || trimmed == "#" {
            continue;
        }
        let expanded = expand_instants(trimmed, start);
        let (is_ours, body) = match expanded.strip_prefix('!') {
            Some(body) => (true, body.trim()),
            None => (false, expanded.as_str()),
        };
        let step = if let Some(ms) = body.strip_prefix("@now +") {
            Step::Advance(ms.trim().parse().expect("milliseconds"))
        } else {
            let (is_unordered, command, reply) =
                if let Some((command, reply)) = body.split_once(" =~> ") {
                    (true, command, reply)
                } else {
                    let (command, reply) = body
                        .rsplit_once(" => ")
                        .or_else(|| body.strip_suffix(" =>").map(|command| (command, "")))
                        .unwrap_or_else(|| panic!("line {line_number}: no reply"));
                    (false, command, reply)
                };
            let replies = match reply.split_once(" | ") {
                Some((two, three)) => [two.trim().to_string(), three.trim().to_string()],
                None => [reply.trim().to_string(), reply.trim().to_string()],
            };
            if command.trim() == "@events" {
                Step::Events(replies)
            } else {
                Step::Command {
                    args: words(command),
                    replies,
                    is_unordered,
                }
            }
        };
        rows.push(Row {
            line: line_number,
            is_ours,
            step,
        });
    }
    rows
}

pub fn expand_instants(text: &str, start: Tick) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let inner = rest[open + 1..].split('}').next().unwrap_or("");
        let (unit, plus) = inner.split_once('+').unwrap_or((inner, "0"));
        let base = match unit {
            "ms" => Some(start.0),
            "s" => Some(start.0 / 1000),
            _ => None,
        };
        match (base, plus.parse::<u64>()) {
            (Some(base), Ok(plus)) => {
                out.push_str(&rest[..open]);
                out.push_str(&(base + plus).to_string());
                rest = &rest[open + inner.len() + 2..];
            }
            _ => {
                out.push_str(&rest[..=open]);
                rest = &rest[open + 1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// Splits a command into arguments.
pub fn words(text: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut bytes = text.bytes().peekable();
    while let Some(&first) = bytes.peek() {
        if first == b' ' {
            bytes.next();
            continue;
        }
        let mut word = Vec::new();
        if first == b'"' {
            bytes.next();
            while let Some(byte) = bytes.next().filter(|&byte| byte != b'"') {
                if byte != b'\\' {
                    word.push(byte);
                    continue;
                }
                match bytes.next().expect("a character after the backslash") {
                    b'n' => word.push(b'\n'),
                    b'r' => word.push(b'\r'),
                    b'x' => {
                        let digits: Vec<u8> = bytes.by_ref().take(2).collect();
                        let digits = std::str::from_utf8(&digits).expect("digits");
                        word.push(u8::from_str_radix(digits, 16).expect("hexadecimal"));
                    }
                    other => word.push(other),
                }
            }
        } else {
            while let Some(byte) = bytes.next_if(|&byte| byte != b' ') {
                word.push(byte);
            }
            if let Some(inner) = word
                .strip_prefix(b"<")
                .and_then(|word| word.strip_suffix(b">"))
            {
                let text = std::str::from_utf8(inner).expect("text").to_string();
                let (unit, times) = text.split_once('*').expect("<unit*times>");
                word = unit.repeat(times.parse().expect("a count")).into_bytes();
            }
        }
        words.push(word);
    }
    words
}

/// Formats one reply in the notation of scripts and returns it with the remaining bytes. Returns
/// `None` if the reply is incomplete.
pub fn render(bytes: &[u8], protocol: Protocol) -> Option<(String, &[u8])> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, mut rest) = (&bytes[1..end], &bytes[end + 2..]);
    let text = String::from_utf8_lossy(line).into_owned();
    let number = || text.parse::<i64>().expect("a length");
    let shown = match bytes[0] {
        b'+' => format!("+{text}"),
        b'-' => format!("-{text}"),
        b':' => text,
        b',' => format!(",{text}"),
        b'_' if protocol == Protocol::Resp3 => "nil".to_string(),
        b'$' if number() == -1 && protocol == Protocol::Resp2 => "nil".to_string(),
        b'*' if number() == -1 && protocol == Protocol::Resp2 => "nil-array".to_string(),
        b'$' | b'=' => {
            let len = usize::try_from(number()).expect("no null in RESP3");
            if rest.len() < len + 2 {
                return None;
            }
            let body = quote(&rest[..len]);
            assert_eq!(&rest[len..len + 2], b"\r\n");
            rest = &rest[len + 2..];
            if bytes[0] == b'=' {
                format!("verbatim{body}")
            } else {
                body
            }
        }
        b'*' | b'~' | b'>' | b'%' => {
            let is_map = bytes[0] == b'%';
            let len = number() * if is_map { 2 } else { 1 };
            let mut items = Vec::new();
            for _ in 0..len {
                let (item, after) = render(rest, protocol)?;
                items.push(item);
                rest = after;
            }
            let (open, close) = if is_map { ('{', '}') } else { ('[', ']') };
            format!("{open}{}{close}", items.join(" "))
        }
        other => panic!("a reply begins with {other:#x}"),
    };
    Some((shown, rest))
}

fn quote(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for &byte in bytes {
        match byte {
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'"' | b'\\' => {
                text.push('\\');
                text.push(char::from(byte));
            }
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text.push('"');
    text
}

/// Sorts the items of an array of bulk strings, so that replies without order can be compared.
pub fn sorted(reply: &str) -> String {
    let Some(inner) = reply
        .strip_prefix('[')
        .and_then(|reply| reply.strip_suffix(']'))
    else {
        return reply.to_string();
    };
    let mut items: Vec<&str> = inner.split(' ').collect();
    items.sort_unstable();
    format!("[{}]", items.join(" "))
}

/// A server without sockets and one client.
pub struct Bench {
    pub server: Server,
    pub session: Session,
    pub now: Tick,
    pub protocol: Protocol,
    /// Keyspace events in the notation of scripts, for each command.
    events_by_command: Vec<Vec<String>>,
    /// Events of the last command.
    last_events: Vec<Event>,
}

impl Bench {
    pub fn new(protocol: Protocol, now: Tick, threads: usize) -> Bench {
        crate::renamed::prepare();
        let options = store::Options {
            shards: 16,
            policy: "noeviction".into(),
            expiry: "wheel".into(),
            maxmemory: 0,
            hash_key: [0x5eed, 0xf00d],
            seed: 1,
        };
        let clock = Clock::manual(now.0);
        let config = Config::default();
        let param = settings::find("enable-debug-command").expect("the setting exists");
        config.set(param, "yes").expect("a valid value");
        let server = Server::with_store(config, &options, threads, clock);
        let server = server.expect("valid options");
        server.data.keyspace.set_notify(true);
        let mut session = Session::new();
        session.protocol = protocol;
        Bench {
            server,
            session,
            now,
            protocol,
            events_by_command: Vec::new(),
            last_events: Vec::new(),
        }
    }

    /// Makes every command that may be long run as a long one.
    pub fn with_long_commands(self) -> Bench {
        let param = settings::find("long-command-threshold").expect("the setting exists");
        let set = self.server.config.set(param, "0");
        set.expect("a valid value");
        self
    }

    /// Runs one command and returns its reply. Checks that there is exactly one.
    pub fn run(&mut self, args: &[Vec<u8>]) -> String {
        let name = crate::renamed::sent_name(&args[0]);
        let mut args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        args[0] = &name;
        let mut out = Vec::new();
        server::exec(&self.server, &mut self.session, &args, self.now, &mut out);
        let (shown, rest) = render(&out, self.protocol).expect("a whole reply");
        assert!(rest.is_empty(), "more than one reply: {out:?}");
        let mut events = Vec::new();
        self.server
            .data
            .keyspace
            .lock_all(self.now)
            .take_events(&mut events);
        self.events_by_command
            .push(events.iter().map(show_event).collect());
        self.last_events = events;
        shown
    }

    /// Returns the events of the last command with all their parts.
    pub fn last_full_events(&self) -> &[Event] {
        &self.last_events
    }

    /// Returns the events of the last command.
    pub fn last_events(&self) -> &[String] {
        self.events_by_command.last().map_or(&[], Vec::as_slice)
    }

    /// Returns the events since the last call. Those of values that were replaced are left out
    /// unless `shows_replaced` is true, because they follow each SET of an existing key.
    pub fn events(&mut self, shows_replaced: bool) -> String {
        let mut events = std::mem::take(&mut self.events_by_command).concat();
        events.retain(|event| shows_replaced || !is_of_replaced(event));
        events.join(", ")
    }
}

/// Whether an event in the notation of scripts says that a value was replaced. Redis has these
/// since version 8.2.
pub fn is_of_replaced(event: &str) -> bool {
    event.starts_with("o.") || event.starts_with("c.")
}

/// Formats an event in the notation of scripts.
pub fn show_event(event: &Event) -> String {
    let class = match event.class {
        Class::Generic => 'g',
        Class::String => '$',
        Class::Expired => 'x',
        Class::Evicted => 'e',
        Class::Invalidated => 'i',
        Class::KeyMiss => 'm',
        Class::New => 'n',
        Class::Overwritten => 'o',
        Class::TypeChanged => 'c',
        Class::List => 'l',
        Class::Set => 's',
        Class::Hash => 'h',
        Class::SortedSet => 'z',
        Class::Stream => 't',
        _ => '?',
    };
    let quoted = quote(&event.key);
    let key = &quoted[1..quoted.len() - 1];
    let db = match event.db {
        0 => String::new(),
        db => format!(" @{db}"),
    };
    format!("{class}.{} {key}{db}", event.name)
}
