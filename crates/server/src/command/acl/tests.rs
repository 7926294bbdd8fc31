//! Tests of users and their rules.

use crate::command;
use proptest::prelude::*;
use session::acl::catalog::{Catalog, category, names_of};
use session::acl::file::parse;
use session::acl::{Acl, READ, RuleError, Rules, User, WRITE};
use std::sync::LazyLock;

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| Catalog::of(command::table()));

fn rules() -> Rules<'static> {
    Rules {
        catalog: &CATALOG,
        has_all_channels: false,
    }
}

/// Applies rules that are separated by blanks to a new user.
fn user(text: &str) -> User {
    let mut user = User::new("u", false);
    let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
    user.apply_all(&words, rules()).expect("valid rules");
    user
}

/// Returns the shown rule and the text of the reason why rules are refused.
fn refused(text: &str) -> String {
    let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
    let mut user = User::new("u", false);
    let bad = user.apply_all(&words, rules()).expect_err("it is refused");
    format!("{} {}", bad.place, bad.text())
}

#[test]
fn passwords_are_compared_by_digest_and_never_shown() {
    let one = user("on >one >two");
    let accepts =
        |user: &User, text: &str| user.accepts(&session::acl::sha256::sha256(text.as_bytes()));
    for (text, expected) in [("one", true), ("two", true), ("On", false), ("", false)] {
        assert_eq!(accepts(&one, text), expected, "{text}");
    }
    assert!(!accepts(&user(">one"), "one"), "the user is off");
    assert!(accepts(&user("on nopass"), "anything"));
    assert!(!accepts(&user("on nopass resetpass"), ""));
    assert!(!accepts(&user("on >one <one"), "one"));
    assert_eq!(format!("{one:?}"), "User { name: \"u\" }");
    assert_eq!(
        refused("on <secret"),
        "1 Error in ACL SETUSER modifier '<(hidden)': The password you are trying to remove from the user does not exist"
    );
    // A password in a selector is a mistake, and was shown.
    for rule in ["(>secret ~*)", "(~* >secret", "(+get >secret)"] {
        assert!(!refused(rule).contains("secret"), "{}", refused(rule));
    }
    assert!(refused("#secret").contains("'#(hidden)': The password hash must be exactly 64"));
}

#[test]
fn a_rule_that_is_not_valid_is_named_with_its_place() {
    for (text, expected) in [
        (
            "on +nosuch",
            "1 Error in ACL SETUSER modifier '+nosuch': Unknown command",
        ),
        (
            "on (+get",
            "1 Unmatched parenthesis in acl selector starting at '(+get'.",
        ),
        (
            "(+set ~))",
            "0 Error in ACL SETUSER modifier '(+set ~))': A rule of a selector can't end with a parenthesis",
        ),
        (
            "(+get ~a ) off (off)",
            "4 Error in ACL SETUSER modifier '(off)': Syntax error",
        ),
        (
            "~a ~* ~b",
            "2 Error in ACL SETUSER modifier '~b': Adding a pattern after",
        ),
        (
            "+config|get|x",
            "0 Error in ACL SETUSER modifier '+config|get|x': Allowing first-arg",
        ),
    ] {
        let got = refused(text);
        assert!(got.starts_with(expected), "{text}: {got}");
    }
    let many: Vec<String> = (0..1025).map(|number| format!("~k{number}")).collect();
    assert!(refused(&many.join(" ")).contains("A user has at most 1024 rules of one kind"));
}

#[test]
fn patterns_match_as_globs() {
    let user = user("~app:* ~one %R~r?x %W~[ab]\\* ~a*b");
    let root = user.selectors().next().expect("a root");
    for (key, rights, expected) in [
        ("app:", WRITE, true),
        ("app", READ, false),
        ("one", READ | WRITE, true),
        ("one1", 0, false),
        ("rax", READ, true),
        ("rax", WRITE, false),
        ("rax", 0, true),
        ("b*", WRITE, true),
        ("bx", WRITE, false),
        ("axxb", READ, true),
        ("axx", READ, false),
    ] {
        assert_eq!(root.allows_key(key.as_bytes(), rights), expected, "{key}");
    }
}

#[test]
fn patterns_with_special_characters_match_names_of_bounded_length_only() {
    let name = |len: usize| [&b"a".repeat(len - 1)[..], b"b"].concat();
    let allows = |text: &str, len: usize| {
        let user = user(text);
        let root = user.selectors().next().expect("a root");
        root.allows_key(&name(len), READ)
    };
    assert!(allows("~a*b ~c?", 120_000));
    let many: Vec<String> = (0..1000).map(|number| format!("~a*{number}b")).collect();
    let many = many.join(" ");
    assert!(allows(&format!("~a*b {many}"), 200));
    assert!(!allows(&format!("~a*b {many}"), 300));
    assert!(allows(&format!("~a* {many}"), 120_000));
    // A name of 4 MB took a third of a second with one pattern of 400 bytes.
    let stars = "*a".repeat(200);
    assert!(allows(&format!("~{stars}*b"), 30_000));
    assert!(!allows(&format!("~{stars}*b"), 40_000));
}

#[test]
fn a_user_with_all_rights_is_unrestricted_until_a_rule_denies_something() {
    for (text, expected) in [
        ("+@all ~* &*", true),
        ("+@all ~*", false),
        ("+@all ~* &* -get", false),
        ("+@all ~* &* -get +get", true),
        ("+@all %R~* &*", false),
        ("(+@all ~* &*)", true),
        ("+@read +@write +@slow +@fast ~* &*", false),
    ] {
        assert_eq!(user(text).is_unrestricted(), expected, "{text}");
    }
}

#[test]
fn a_file_is_accepted_as_a_whole_or_refused_with_lines_and_words() {
    let read = |text: &str| parse(text.as_bytes(), "f", rules(), User::default_with("secret"));
    let users = read("\n user a on nopass +get (~x +set) \r\n\tuser b off\n").expect("valid");
    let names: Vec<&str> = users.keys().map(String::as_str).collect();
    assert_eq!(names, ["a", "b", "default"]);
    assert!(!users["default"].has_no_password(), "requirepass remains");
    let error =
        read("user a on\nuser a off\nusr b\nuser c on +nosuch >secret <secret1").expect_err("bad");
    assert_eq!(
        error,
        "f:2: word 2: the user 'a' is defined twice; f:3: expected the word user, a name and rules; f:4: word 4: Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL"
    );
    let error = read(&"x\n".repeat(100)).expect_err("bad");
    assert!(error.ends_with("and 92 more errors"), "{error}");
}

#[test]
fn a_rule_that_a_file_cannot_hold_is_refused() {
    // Regression: the line break of an allowed first argument was written into the file, where it
    // began another user, or a line that kept the server from starting.
    for byte in 0..=u8::MAX {
        for before in [
            "~a",
            "%R~a",
            "&a",
            "+get|a",
            "-get",
            "+@read",
            ">a",
            "(~a +get|a",
        ] {
            let mut rule = before.as_bytes().to_vec();
            rule.extend_from_slice(&[byte, b'x']);
            if before.starts_with('(') {
                rule.push(b')');
            }
            let mut user = User::new("u", false);
            if user.apply_all(&[&rule], rules()).is_err() {
                continue;
            }
            let line = user.line();
            let users = parse(&line, "f", rules(), User::default_with(""));
            let users = users.expect("what was written can be read");
            assert!(
                users.len() == 2 && *users["u"] == user,
                "{}",
                line.escape_ascii()
            );
        }
    }
    let injected = "+get|x\nuser evil on nopass ~* &* +@all";
    let mut user = User::new("u", false);
    let refused = user.apply_all(&[injected.as_bytes()], rules());
    assert_eq!(
        refused.expect_err("a line break").error,
        Some(RuleError::Syntax)
    );
    // A long argument would be compared with all others.
    let rule = format!("+get|{}", "x".repeat(257));
    let refused = user.apply_all(&[rule.as_bytes()], rules());
    assert_eq!(
        refused.expect_err("long").error,
        Some(RuleError::LongArgument)
    );
}

#[test]
fn a_change_is_announced_and_a_refused_one_changes_nothing() {
    let acl = Acl::default();
    let version = acl.version();
    assert!(acl.set("u", &[b"on", b"nonsense"], rules()).is_err());
    assert_eq!((acl.version(), acl.all().len()), (version, 1));
    acl.set("u", &[b"on", b">pw"], rules()).expect("valid");
    assert!(acl.version() > version && !acl.needs_password());
    assert!(acl.authenticate(b"u", b"pw").is_some());
    assert!(acl.authenticate(b"u", b"p").is_none() && acl.authenticate(b"\xff", b"").is_none());
    // A long password is refused before it is hashed.
    let long = vec![b'x'; 4097];
    assert!(acl.authenticate(b"u", &long).is_none());
    let rule = [b">", &long[..]].concat();
    let error = acl.set("u", &[&rule], rules()).expect_err("long");
    assert!(error.ends_with("at most 4096 bytes"), "{error}");
    acl.set("open", &[b"on", b"nopass"], rules())
        .expect("valid");
    assert!(acl.authenticate(b"open", &long).is_some());
    acl.set("open", &[b"off"], rules()).expect("valid");
    assert!(acl.authenticate(b"open", b"").is_none() && acl.remove("open"));
    acl.set_default_password("x");
    assert!(acl.needs_password() && acl.needs_login());
    assert!(acl.remove("u") && !acl.remove("u"));
}

#[test]
fn shared_commands_have_the_categories_of_redis() {
    let mut count = 0;
    let mut differing = Vec::new();
    for line in include_str!("categories.txt").lines().skip(1) {
        let (name, expected) = line.split_once(' ').unwrap_or((line, ""));
        let Some(index) = CATALOG.find(name) else {
            continue;
        };
        let names: Vec<&str> = names_of(CATALOG.get(index).categories).collect();
        count += 1;
        if names.join(" ") != expected {
            differing.push(format!("{name}: {} instead of {expected}", names.join(" ")));
        }
    }
    assert!(count > 300, "{count} commands were compared");
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

/// Rules for making random users.
const RULES: &[&str] = &[
    "on",
    "off",
    "nopass",
    "resetpass",
    ">a",
    ">b",
    "<a",
    "~*",
    "resetkeys",
    "~a*",
    "%R~a*",
    "%W~b?",
    "&*",
    "resetchannels",
    "&c*",
    "&d",
    "+@all",
    "-@all",
    "+get",
    "-get",
    "+set",
    "+@read",
    "-@read",
    "+@write",
    "-@dangerous",
    "+config",
    "-config",
    "+config|get",
    "-config|get",
    "+get|x",
    "+select|0",
    "-select",
    "(+get ~a*)",
    "(%R~x +@all -@admin)",
    "clearselectors",
    "reset",
    "+@slow",
    "-@fast",
];

/// The plainest model of the commands of a selector: whether each one is allowed.
fn model(words: &[&str]) -> Vec<bool> {
    let entries: Vec<_> = CATALOG.iter().map(|(_, entry)| entry.clone()).collect();
    let mut allowed = vec![false; entries.len()];
    for word in words {
        let sign = word.starts_with('+');
        match *word {
            "reset" => allowed.fill(false),
            "+@all" | "-@all" => allowed.fill(sign),
            _ if !word.starts_with(['+', '-']) => {}
            _ => {
                let name = &word[1..];
                for (at, entry) in entries.iter().enumerate() {
                    let container = entry.name.split('|').next().unwrap_or_default();
                    let parent = entries.iter().find(|other| other.name == container);
                    let is_in = |categories: u32| {
                        let bit = name
                            .strip_prefix('@')
                            .and_then(|name| category(name.as_bytes()));
                        bit.is_some_and(|bit| categories & bit != 0)
                    };
                    let is_meant = entry.name == name
                        || container == name
                        || is_in(entry.categories)
                        || parent.is_some_and(|parent| is_in(parent.categories));
                    if is_meant {
                        allowed[at] = sign;
                    }
                }
            }
        }
    }
    allowed
}

proptest! {
    #[test]
    fn a_user_agrees_with_the_model_and_is_restored_from_its_line(
        picks in prop::collection::vec(0..RULES.len(), 0..24),
    ) {
        let mut user = User::new("u", false);
        let mut applied = Vec::new();
        for pick in picks {
            let mut changed = user.clone();
            if changed.apply_all(&[RULES[pick].as_bytes()], rules()).is_ok() {
                user = changed;
                applied.push(RULES[pick]);
            }
        }
        let allowed = model(&applied);
        let root = user.selectors().next().expect("a root");
        for (index, entry) in CATALOG.iter() {
            prop_assert_eq!(root.allows_command(index, None), allowed[index as usize], "{}", entry.name);
        }
        let line = user.line();
        let users = parse(&line, "f", rules(), User::default_with(""));
        let again = users.expect("what was written can be read");
        prop_assert!(*again["u"] == user, "{}", String::from_utf8_lossy(&line));
    }
}

/// Calls that the check at the entry of dispatch allows are also allowed by the full check; and the
/// former decides most calls.
#[test]
fn calls_that_are_allowed_at_once_are_allowed_by_the_full_check() {
    use crate::permission::check;
    use session::session::Session;
    use std::sync::Arc;
    use wire::Span;
    let table = command::table();
    let mut decided = 0;
    for text in [
        "on +@all ~* &*",
        "on +@all ~*",
        "on +@all -@dangerous ~* &*",
        "on +@read ~a*",
        "on +@all %R~a* &b*",
        "on +@all %R~a* %W~a* resetchannels",
        "on +get|a +config|get ~abcdefghijk*",
        "on +@all ~a ~?b",
        "on +@all ~c* ~abcdefghijk ~a*",
        "on +@all %RW~*",
        "on ~* &*",
        "on +@all (~* +get)",
    ] {
        let user = user(text);
        // It keeps the prefix of a key for the next ones.
        let mut session = Session::new();
        session.log_in(Arc::new(user.clone()));
        for index in 0..table.len() {
            for key in [
                "a",
                "b",
                "ab",
                "abcdefghijkl",
                "bbcdefghijkl",
                "accdefghijkl",
            ] {
                let words = [table[index].name, key, "1", "a", "b"];
                let input = words.concat();
                let mut start = 0;
                let spans = words.map(|word| {
                    let span = Span {
                        start,
                        len: word.len() as u32,
                    };
                    start += span.len;
                    span
                });
                let args = wire::Args::new(input.as_bytes(), &spans);
                let chosen = table.choose(index as u16, args);
                if chosen.spec.has(session::spec::flag::CONTAINER) {
                    continue;
                }
                let is_allowed = session.is_allowed_at_once(chosen.index, &args);
                if is_allowed {
                    decided += 1;
                    let result = check(&user, chosen, args);
                    assert_eq!(result, Ok(()), "{text}: {} {key}", words[0]);
                }
            }
        }
    }
    assert!(decided > 1000, "{decided}");
}
