//! Tests of users whose rights change while their clients are connected.

use super::*;

/// Returns a bulk string in RESP.
fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

#[test]
fn a_blocked_client_that_has_lost_the_right_gets_an_error_and_no_element() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut admin, mut user) = (bench.client(), bench.client());
    bench.send(
        &mut admin,
        "ACL SETUSER u on nopass ~k* +blpop\r\n",
        "+OK\r\n",
    );
    bench.send(&mut user, "AUTH u x\r\nBLPOP k 0\r\n", "+OK\r\n");
    bench.send(&mut admin, "ACL SETUSER u -blpop\r\n", "+OK\r\n");
    bench.send(&mut admin, "RPUSH k 1\r\nLLEN k\r\n", ":1\r\n:1\r\n");
    let refused = "-NOPERM User u has no permissions to run the 'blpop' command\r\n";
    bench.expect_output(&mut user, refused);
    bench.send(&mut admin, "ACL SETUSER u +blpop\r\n", "+OK\r\n");
    let popped = "*2\r\n$1\r\nk\r\n$1\r\n1\r\n";
    bench.send(&mut user, "BLPOP k 0\r\n", popped);
    assert!(server.clients.blocking.is_empty());
}

#[test]
fn clients_of_a_deleted_user_are_disconnected() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut clients: Vec<Socket> = (0..4).map(|_| bench.client()).collect();
    let [admin, idle, blocked, other] = &mut clients[..] else {
        panic!("there are four");
    };
    let rules = "on nopass allkeys +@all\r\n";
    bench.send(
        admin,
        &format!("ACL SETUSER u {rules}ACL SETUSER o {rules}"),
        "+OK\r\n+OK\r\n",
    );
    bench.send(idle, "AUTH u x\r\n", "+OK\r\n");
    bench.send(blocked, "AUTH u x\r\nBLPOP k 0\r\n", "+OK\r\n");
    bench.send(
        other,
        "AUTH o x\r\nCLIENT KILL USER nobody\r\n",
        "+OK\r\n-ERR No such user 'nobody'\r\n",
    );
    bench.send(admin, "ACL DELUSER u\r\n", ":1\r\n");
    bench.expect_output(idle, CLOSED);
    bench.expect_output(blocked, CLOSED);
    // A client that deletes its own user gets the reply before its connection closes.
    bench.send(
        other,
        "ACL DELUSER o\r\nPING\r\n",
        &format!(":1\r\n{CLOSED}"),
    );
    bench.send(admin, "PING\r\n", "+PONG\r\n");
}

#[test]
fn subscribers_are_disconnected_when_their_channels_are_denied() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut clients: Vec<Socket> = (0..3).map(|_| bench.client()).collect();
    let [admin, channel, pattern] = &mut clients[..] else {
        panic!("there are three");
    };
    bench.send(admin, "ACL SETUSER u on nopass &a* &b +@all\r\n", "+OK\r\n");
    let subscribed = "+OK\r\n*3\r\n$9\r\nsubscribe\r\n$2\r\na1\r\n:1\r\n";
    bench.send(channel, "AUTH u x\r\nSUBSCRIBE a1\r\n", subscribed);
    let subscribed = "+OK\r\n*3\r\n$10\r\npsubscribe\r\n$2\r\na*\r\n:1\r\n";
    bench.send(pattern, "AUTH u x\r\nPSUBSCRIBE a*\r\n", subscribed);
    bench.send(admin, "ACL SETUSER u &c\r\n", "+OK\r\n");
    bench.expect_output(channel, "");
    bench.send(admin, "ACL SETUSER u resetchannels &a?\r\n", "+OK\r\n");
    bench.expect_output(pattern, CLOSED);
    bench.send(admin, "ACL SETUSER u resetchannels\r\n", "+OK\r\n");
    bench.expect_output(channel, CLOSED);
}

#[test]
fn exec_refuses_commands_that_were_allowed_when_they_were_queued() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut admin, mut user) = (bench.client(), bench.client());
    bench.send(
        &mut admin,
        "ACL SETUSER u on nopass ~* +@all\r\n",
        "+OK\r\n",
    );
    let queued = "+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n";
    bench.send(
        &mut user,
        "AUTH u x\r\nMULTI\r\nSET k 1\r\nSET l 1\r\n",
        queued,
    );
    bench.send(
        &mut admin,
        "ACL SETUSER u resetkeys ~k -@connection\r\n",
        "+OK\r\n",
    );
    let refused = "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: no permission to touch the specified keys\r\n";
    bench.send(&mut user, "EXEC\r\n", &format!("*2\r\n+OK\r\n{refused}"));
    bench.send(&mut admin, "EXISTS k l\r\n", ":1\r\n");
    let line = server.auth.acl.log.newest(1).remove(0);
    assert_eq!(
        (line.object.as_slice(), line.context.name()),
        (&b"l"[..], "multi")
    );
    assert!(line.client.contains("user=u"), "{}", line.client);
}

#[test]
fn passwords_are_shown_neither_by_monitor_nor_by_slowlog() {
    let (server, listeners) = server(&[("slowlog-log-slower-than", "0")]);
    let mut bench = Bench::new(&server, listeners);
    let (mut monitor, mut client) = (bench.client(), bench.client());
    bench.send(&mut monitor, "MONITOR\r\n", "+OK\r\n");
    let commands = "ACL SETUSER u on >hush\r\nCONFIG SET requirepass hush timeout 9\r\nMULTI\r\nCONFIG SET requirepass hush\r\nEXEC\r\nPING\r\n";
    let replies = "+OK\r\n+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n+PONG\r\n";
    bench.send(&mut client, commands, replies);
    let mut shown = String::new();
    for entry in server.observability.slowlog.newest(20) {
        shown.push_str(&String::from_utf8_lossy(&entry.args.join(&b' ')));
        shown.push('\n');
    }
    assert!(
        shown.contains("CONFIG SET requirepass (redacted) timeout 9"),
        "{shown}"
    );
    assert!(
        shown.contains("ACL SETUSER (redacted) (redacted) (redacted)"),
        "{shown}"
    );
    assert!(!shown.contains("hush"), "{shown}");
    let start = format!("+{}.000000 ", NOW / 1000);
    let address = client.local_addr().expect("it is connected");
    let lines: String = [r#""MULTI""#, r#""EXEC""#, r#""PING""#]
        .iter()
        .map(|line| format!("{start}[0 {address}] {line}\r\n"))
        .collect();
    bench.expect_output(&mut monitor, &lines);
}

#[test]
fn users_are_loaded_and_saved_as_a_whole() {
    let path = std::env::temp_dir().join(format!("mayfly-users-{}", std::process::id()));
    let path = path.to_str().expect("UTF-8");
    std::fs::write(path, "user a on nopass +get ~*\n").expect("it can be written");
    let (server, listeners) = server(&[("aclfile", path), ("requirepass", "pw")]);
    crate::command::acl::load_at_start(&server.auth, &server.config).expect("a valid file");
    let mut bench = Bench::new(&server, listeners);
    let (mut admin, mut user) = (bench.client(), bench.client());
    bench.send(
        &mut admin,
        "PING\r\nAUTH pw\r\n",
        "-NOAUTH Authentication required.\r\n+OK\r\n",
    );
    bench.send(&mut user, "AUTH a x\r\n", "+OK\r\n");
    let names = format!("*2\r\n{}{}", bulk("a"), bulk("default"));
    std::fs::write(path, "user b on\nuser c +nosuch\n").expect("it can be written");
    let error = format!(
        "-ERR {path}:2: word 3: Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL. No change to the previously active ACL rules was performed\r\n"
    );
    bench.send(&mut admin, "ACL LOAD\r\n", &error);
    bench.send(&mut admin, "ACL USERS\r\n", &names);
    bench.send(&mut admin, "ACL SAVE\r\nACL DELUSER a\r\n", "+OK\r\n:1\r\n");
    bench.expect_output(&mut user, CLOSED);
    bench.send(
        &mut admin,
        "ACL LOAD\r\nACL USERS\r\n",
        &format!("+OK\r\n{names}"),
    );
    let text = std::fs::read_to_string(path).expect("it was written");
    assert!(text.starts_with("user a on nopass sanitize-payload ~* resetchannels -@all +get\nuser default on sanitize-payload #"), "{text}");
    std::fs::remove_file(path).expect("it exists");
}

#[test]
fn memcached_needs_a_user_with_all_rights() {
    let (server, _) = server(&[]);
    let mut session = Session::new();
    session.refresh(&server.auth.acl);
    assert!(session.has_all_rights(&server.auth.acl) && !server.auth.acl.needs_login());
    let rules = session::acl::Rules {
        catalog: &session::acl::catalog::Catalog::of(crate::command::table()),
        has_all_channels: false,
    };
    server
        .auth
        .acl
        .set("default", &[b"-flushall"], rules)
        .expect("valid");
    assert!(!session.has_all_rights(&server.auth.acl) && server.auth.acl.needs_login());
    session.refresh(&server.auth.acl);
    assert!(!session.has_all_rights(&server.auth.acl));
}

/// The client was shown with its last command before the batch that was denied.
#[test]
fn a_denied_command_is_recorded_with_its_name() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut admin, mut user) = (bench.client(), bench.client());
    let rules = "ACL SETUSER u on nopass ~a* +@all -set -config|get\r\n";
    bench.send(&mut admin, rules, "+OK\r\n");
    bench.send(&mut user, "AUTH u x\r\n", "+OK\r\n");
    let shown = |command: &str| {
        let line = server.auth.acl.log.newest(1).remove(0).client;
        assert!(line.contains(&format!(" cmd={command} ")), "{line}");
    };
    let no_key = "-NOPERM No permissions to access a key\r\n";
    let no_set = "-NOPERM User u has no permissions to run the 'set' command\r\n";
    bench.send(
        &mut user,
        "PING\r\nGET b\r\n",
        &format!("+PONG\r\n{no_key}"),
    );
    shown("get");
    bench.send(&mut user, "SET a 1\r\n", no_set);
    shown("set");
    let no_config = "-NOPERM User u has no permissions to run the 'config|get' command\r\n";
    bench.send(&mut user, "CONFIG GET x\r\n", no_config);
    shown("config|get");
    let denied = "-ERR ACL failure in script: No permissions to access a key\r\n";
    let script = "EVAL \"return redis.pcall('get','b')\" 0\r\n";
    bench.send(&mut user, script, denied);
    shown("eval");
    // A transaction whose rights have changed.
    bench.send(&mut user, "MULTI\r\nGET a\r\n", "+OK\r\n+QUEUED\r\n");
    bench.send(&mut admin, "ACL SETUSER u -get\r\n", "+OK\r\n");
    let changed = "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: no permission to execute the command or subcommand\r\n";
    bench.send(&mut user, "EXEC\r\n", &format!("*1\r\n{changed}"));
    shown("exec");
}
