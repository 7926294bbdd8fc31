//! Tests with other names for all commands (`rename-command`). The table of commands belongs to the
//! process, so they run in a separate process in which a variable is set.
//!
//! Decisions that the server makes about a command must not depend on the name that a client sends:
//! the code of the command, what is added to the append-only file, rights, delays and secrets.

use crate::script::{self, Bench, START};
use server::{Server, command};
use session::acl::sha256::{hex, sha256};
use session::clock::Moment;
use session::spec::flag;
use std::process::Command;
use std::sync::LazyLock;
use wire::Protocol;

/// Variable of the process in which all commands have other names.
const VARIABLE: &str = "MAYFLY_TEST_OTHER_NAMES";
/// Prefix of the new names.
const NEW: &str = "other-";
/// A command that is removed instead.
const REMOVED: &str = "lolwut";

/// Whether all commands have other names in this process. The first access renames them.
static IS_ON: LazyLock<bool> = LazyLock::new(|| {
    let is_on = std::env::var_os(VARIABLE).is_some();
    if is_on {
        let table = command::new_table();
        let new = |name: &str| match name {
            REMOVED => String::new(),
            name => format!("{NEW}{name}"),
        };
        let names = table.iter().map(|spec| spec.name);
        let renames: Vec<(String, String)> =
            names.map(|name| (name.to_owned(), new(name))).collect();
        command::rename(&renames).expect("free names");
    }
    is_on
});

/// Gives commands their other names, if this is that process. No server may exist yet.
pub fn prepare() {
    LazyLock::force(&IS_ON);
}

/// Returns the name by which clients call a command.
pub fn sent_name(name: &[u8]) -> Vec<u8> {
    match *IS_ON {
        true => [NEW.as_bytes(), name].concat(),
        false => name.to_vec(),
    }
}

/// Whether the reply to a row in a table must be equal. With other names, rows are not compared
/// that name a command in another place, or whose error contains the name as sent, as in Redis.
pub fn is_compared(file: &str, command: &str, wanted: &str) -> bool {
    let names_others = ["redis.", "dryrun", "DRYRUN"];
    !*IS_ON
        || file != "scripting.txt"
            && !names_others.iter().any(|word| command.contains(word))
            && !wanted.contains("can be specified for")
}

/// Runs the tests of tables and effects, and those in this file, in the other process.
#[test]
fn every_command_has_another_name() {
    if *IS_ON {
        return;
    }
    let program = std::env::current_exe().expect("this program");
    let mut run = Command::new(program);
    run.args(["tables::", "effects::", "renamed::"]);
    let done = run.env(VARIABLE, "1").output().expect("it can be started");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let errors = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{text}\n{errors}");
}

fn bench(settings: &[(&str, &str)]) -> Bench {
    let bench = Bench::new(Protocol::Resp2, START, 1);
    for (name, value) in settings {
        let param = settings::find(name).expect("a setting");
        bench.server.config.set(param, value).expect("valid");
    }
    bench.server.auth.apply_password(&bench.server.config);
    bench
}

fn say(bench: &mut Bench, line: &str) -> String {
    bench.run(&script::words(line))
}

fn slowlog(server: &Server) -> String {
    let entries = server.observability.slowlog.newest(100).into_iter();
    let lines = entries.map(|entry| String::from_utf8_lossy(&entry.args.join(&b' ')).into_owned());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn commands_are_known_by_their_new_names_only() {
    if !*IS_ON {
        return;
    }
    let mut bench = bench(&[]);
    let mut out = Vec::new();
    let (server, session) = (&bench.server, &mut bench.session);
    server::exec(server, session, &[b"get", b"k"], START, &mut out);
    assert!(out.starts_with(b"-ERR unknown command 'get'"), "{out:?}");
    assert_eq!(say(&mut bench, "set k 1"), "+OK");
    assert_eq!(say(&mut bench, "get k"), "\"1\"");
}

/// Whether DEBUG is allowed, and what is refused in scripts and transactions, are properties of the
/// command.
#[test]
fn permissions_are_those_of_the_command() {
    if !*IS_ON {
        return;
    }
    let mut bench = bench(&[("enable-debug-command", "no")]);
    assert!(say(&mut bench, "debug jmap").starts_with("-ERR DEBUG command not allowed"));
    let script = format!("eval \"return redis.call('{NEW}config','get','port')\" 0");
    let reply = say(&mut bench, &script);
    assert!(reply.contains("not allowed from script"), "{reply}");
    assert_eq!(say(&mut bench, "multi"), "+OK");
    assert!(say(&mut bench, "subscribe c").contains("QUEUED"));
    assert!(say(&mut bench, "save").contains("not allowed inside a transaction"));
    say(&mut bench, "discard");
    assert_eq!(
        say(&mut bench, "acl setuser u on nopass ~* +get +config|get"),
        "+OK"
    );
    assert_eq!(say(&mut bench, "auth u x"), "+OK");
    assert!(say(&mut bench, "config get port").starts_with('['));
    let denied = "-NOPERM User u has no permissions to run the 'config|set' command";
    assert_eq!(say(&mut bench, "config set timeout 1"), denied);
}

#[test]
fn clients_authenticate_by_the_new_names_only() {
    if !*IS_ON {
        return;
    }
    let mut bench = bench(&[("requirepass", "secret")]);
    bench.session.log_out(&bench.server.auth.acl);
    for line in ["get k", "config get port", "ping"] {
        assert!(say(&mut bench, line).starts_with("-NOAUTH"), "{line}");
    }
    assert!(say(&mut bench, "auth wrong").starts_with("-WRONGPASS"));
    assert!(say(&mut bench, "hello 2 auth default secret").starts_with('['));
    assert_eq!(say(&mut bench, "get k"), "nil");
    bench.session.log_out(&bench.server.auth.acl);
    assert_eq!(say(&mut bench, "auth secret"), "+OK");
    // The log names the command, not the name that is known to those who may call it.
    let entry = bench.server.auth.acl.log.newest(1).remove(0);
    assert_eq!(entry.object, b"auth");
}

/// Regression: only a command called AUTH was delayed.
#[test]
fn failed_authentications_delay_further_ones() {
    if !*IS_ON {
        return;
    }
    let mut bench = bench(&[("requirepass", "secret")]);
    for _ in 0..6 {
        assert!(say(&mut bench, "auth wrong").starts_with("-WRONGPASS"));
    }
    for line in ["auth secret", "hello 2 auth default secret"] {
        let name = [script::words(line)];
        let words: Vec<Vec<u8>> = name.concat();
        let sent = sent_name(&words[0]);
        let mut args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        args[0] = &sent;
        let mut out = Vec::new();
        server::exec(&bench.server, &mut bench.session, &args, START, &mut out);
        assert_eq!(out, b"", "{line}");
        assert!(bench.session.login_at.take() > Some(Moment(0)));
    }
    assert!(
        say(&mut bench, "hello 2 setname x").starts_with('['),
        "no attempt"
    );
}

/// Regression: commands of a transaction were not delayed, so that one EXEC could guess any number
/// of passwords.
#[test]
fn a_transaction_does_not_guess_more_passwords_than_a_client_without_one() {
    if !*IS_ON {
        return;
    }
    let mut bench = bench(&[("requirepass", "secret")]);
    assert_eq!(say(&mut bench, "multi"), "+OK");
    for _ in 0..10 {
        assert_eq!(say(&mut bench, "auth wrong"), "+QUEUED");
    }
    assert_eq!(say(&mut bench, "hello 2 auth default secret"), "+QUEUED");
    let replies = say(&mut bench, "exec");
    assert_eq!(replies.matches("-WRONGPASS").count(), 6, "{replies}");
    let refused = "-ERR too many failed authentications";
    assert_eq!(replies.matches(refused).count(), 5, "{replies}");
}

#[test]
fn secrets_are_not_recorded() {
    if !*IS_ON {
        return;
    }
    let mut bench = bench(&[("slowlog-log-slower-than", "0")]);
    for line in [
        "acl setuser u on >hush",
        "config set requirepass hush timeout 9",
        "config set masterauth hush",
        "config set tls-key-file-pass hush",
        "auth hush",
        "hello 2 auth default hush",
    ] {
        say(&mut bench, line);
    }
    say(&mut bench, "multi");
    for line in ["config set masterauth hush", "acl setuser u >hush"] {
        say(&mut bench, line);
    }
    say(&mut bench, "exec");
    let shown = slowlog(&bench.server);
    assert!(
        shown.contains("config set requirepass (redacted) timeout 9"),
        "{shown}"
    );
    assert!(!shown.contains("hush"), "{shown}");
    assert!(!shown.contains(&hex(&sha256(b"hush"))), "{shown}");
}

#[test]
fn reports_name_the_commands_as_their_specification() {
    if !*IS_ON {
        return;
    }
    let mut bench = bench(&[]);
    say(&mut bench, "set k 1");
    let info = say(&mut bench, "info commandstats");
    assert!(info.contains("cmdstat_set:calls=1"), "{info}");
    assert!(!info.contains(NEW), "{info}");
    let found = say(&mut bench, &format!("command info {NEW}zadd zadd"));
    assert!(found.starts_with("[[\"zadd\" "), "{found}");
    assert!(found.ends_with(" nil-array]"), "{found}");
    // Names are those of the specification, as in Redis; removed commands are not listed.
    let listed = say(&mut bench, "command list");
    assert!(
        listed.contains("\"zadd\"") && !listed.contains(REMOVED),
        "{listed}"
    );
    let count = command::table().len() - 1;
    assert_eq!(say(&mut bench, "command count"), count.to_string());
    let containers = command::table()
        .iter()
        .filter(|spec| spec.has(flag::CONTAINER));
    for spec in containers.map(|spec| spec.name) {
        let reply = say(&mut bench, &format!("{spec} nosuch"));
        assert!(!reply.contains("unknown command"), "{reply}");
    }
}
