//! Parser of the lines that define users, in an ACL file and in the configuration file.

use super::user::{DEFAULT, Rules, User};
use std::collections::BTreeMap;

/// Maximum number of users.
pub const USERS_MAX: usize = 10_000;

/// Users by name.
pub type Users = BTreeMap<String, std::sync::Arc<User>>;

/// Checks the name of a user.
///
/// # Errors
/// The name is empty, or contains a blank, a null character or invalid UTF-8.
pub fn check_name(name: &[u8]) -> Result<&str, &'static str> {
    let name = std::str::from_utf8(name).map_err(|_| "Usernames must be valid UTF-8")?;
    let is_bad = |letter: char| letter.is_ascii_whitespace() || letter == '\0';
    match name.is_empty() || name.contains(is_bad) {
        true => Err("Usernames can't contain spaces or null characters"),
        false => Ok(name),
    }
}

/// Adds the user that the words of a line define: `user`, the name, and rules.
///
/// # Errors
/// Returns what is wrong, with the number of the word, counted from 1.
pub fn add_line(users: &mut Users, words: &[&[u8]], rules: Rules<'_>) -> Result<(), String> {
    let [b"user", name, rest @ ..] = words else {
        return Err("expected the word user, a name and rules".into());
    };
    let name = check_name(name).map_err(|why| format!("word 2: {why}"))?;
    if users.contains_key(name) {
        return Err(format!("word 2: the user '{name}' is defined twice"));
    }
    if users.len() >= USERS_MAX {
        return Err(format!("more than {USERS_MAX} users"));
    }
    let mut user = User::new(name, rules.has_all_channels);
    user.apply_all(rest, rules)
        .map_err(|bad| format!("word {}: {}", bad.place + 3, bad.text()))?;
    users.insert(name.to_owned(), std::sync::Arc::new(user));
    Ok(())
}

/// Parses an ACL file: one user per line. Without a line for the default user, `default` is it.
///
/// # Errors
/// Returns what is wrong in each invalid line, with `path` and the line number.
pub fn parse(text: &[u8], path: &str, rules: Rules<'_>, default: User) -> Result<Users, String> {
    let (mut users, mut errors) = (Users::new(), Vec::new());
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let words: Vec<&[u8]> = line
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty())
            .collect();
        if words.is_empty() {
            continue;
        }
        if let Err(error) = add_line(&mut users, &words, rules) {
            errors.push(format!("{path}:{}: {error}", number + 1));
        }
    }
    if !errors.is_empty() {
        let more = errors.len().saturating_sub(ERRORS_SHOWN);
        errors.truncate(ERRORS_SHOWN);
        if more > 0 {
            errors.push(format!("and {more} more errors"));
        }
        return Err(errors.join("; "));
    }
    let default = || std::sync::Arc::new(default);
    users.entry(DEFAULT.to_owned()).or_insert_with(default);
    Ok(users)
}

/// Maximum number of errors of a file that are reported.
const ERRORS_SHOWN: usize = 8;
