//! Fuzz target of ACL files. A file is refused, or its users can be written and read again; no rule
//! makes a user unrestricted that denies something.

use server::command;
use session::acl::catalog::Catalog;
use session::acl::file::parse;
use session::acl::{Rules, User};
use std::sync::LazyLock;

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| Catalog::of(command::table()));

/// Runs the target on a file.
pub fn run(data: &[u8]) {
    for has_all_channels in [false, true] {
        let rules = Rules {
            catalog: &CATALOG,
            has_all_channels,
        };
        let read = |text: &[u8]| parse(text, "file", rules, User::default_with("secret"));
        let users = match read(data) {
            Ok(users) => users,
            Err(text) => {
                assert!(text.contains("file:") && !text.contains("secret"), "{text}");
                assert!(text.len() < 8 << 10);
                continue;
            }
        };
        let mut text = Vec::new();
        for user in users.values() {
            text.extend_from_slice(&user.line());
            text.push(b'\n');
            let denies = user.selectors().all(|selector| {
                selector.describe_commands().contains('-') && !selector.allows_command(0, None)
            });
            assert!(!(denies && user.is_unrestricted()));
        }
        let again = read(&text).expect("what was written can be read");
        assert!(again == users, "{}", String::from_utf8_lossy(&text));
    }
}
