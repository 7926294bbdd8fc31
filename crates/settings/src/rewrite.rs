//! CONFIG REWRITE: writes the current settings to the configuration file, so that the next start
//! gets them from the file alone.
//!
//! Only lines whose setting's value differs from the file are replaced. Comments, the order and all
//! other lines stay. A setting that has no line, or whose last line is in an included file, is
//! appended. A secret that came from an environment variable or a separate file is not written.
//! Lines of users are handled the same way, by user name.

use super::classes::SEPARATOR;
use super::file::{self, Reading};
use super::{Config, Kind, Param, TABLE, find, load};
use crate::temporary::replace;
use std::path::Path;

/// Comment above appended lines.
const MARK: &str = "# Written by CONFIG REWRITE";

/// Directive that defines one user.
const USER: &str = "user";

/// A user whose line must change: the name and the words of the new line, or `None` if the user no
/// longer exists.
pub type UserChange = (String, Option<Vec<String>>);

/// Writes the current settings to the file that the server was started with. `changed_users`
/// receives the file's users, as the words after `user`, and compares them with the current users.
///
/// # Errors
/// The file cannot be read or replaced, or the users cannot be written.
pub fn rewrite(
    config: &Config,
    changed_users: impl FnOnce(&[Vec<String>]) -> Result<Vec<UserChange>, String>,
) -> Result<(), String> {
    let path = config.file();
    let path = Path::new(&path);
    let text = file::text_of(path)?;
    let reading = file::read(path);
    let before = Config::default();
    for directive in &reading.directives {
        // A line that the command line overrides may be invalid; it has no value then.
        let _ = load::set(&before, &directive.name, &directive.value());
    }
    load::add_save_points(&before, &reading.directives);
    let place = format!("{}:", path.display());
    let text = updated(&text, &place, &reading, &before, config);
    let users = reading.directives.iter().filter(|one| one.name == USER);
    let words: Vec<Vec<String>> = users.clone().map(|one| one.words.clone()).collect();
    let changes = changed_users(&words)?;
    for (name, _) in &changes {
        let elsewhere = users
            .clone()
            .find(|one| one.words.first() == Some(name) && !one.place.starts_with(&place));
        if let Some(one) = elsewhere {
            return Err(format!(
                "the user '{name}' is defined at {}, which is not rewritten",
                one.place
            ));
        }
    }
    let text = with_users(&text, changes);
    replace(path, text.as_bytes()).map_err(|error| error.to_string())
}

/// Returns the file's text with the settings of `after`; `before` contains the settings of the
/// text.
fn updated(text: &str, place: &str, reading: &Reading, before: &Config, after: &Config) -> String {
    let mut lines: Vec<Option<String>> = text.lines().map(|line| Some(line.to_owned())).collect();
    let mut appended = Vec::new();
    for param in TABLE {
        let value = after.show(param);
        if value == before.show(param) || after.is_outside(param.id) {
            continue;
        }
        let is_of = |name: &str| find(name).is_some_and(|found| found.id == param.id);
        let last = reading
            .directives
            .iter()
            .rfind(|directive| is_of(&directive.name));
        let is_own = last.is_some_and(|directive| directive.place.starts_with(place));
        let mut own = lines.iter_mut().filter(|line| {
            let words = line
                .as_deref()
                .and_then(|line| file::words(line).ok().flatten());
            words.is_some_and(|words| is_of(&words[0]))
        });
        // A line that precedes an `include` may be overridden there, so that the last own line
        // takes the value.
        let mut all = reading.directives.iter();
        let has_others = all.any(|one| is_of(&one.name) && !one.place.starts_with(place));
        let line = lines_of(param, &value, has_others);
        match own.next_back() {
            Some(last) if is_own => {
                *last = Some(line);
                own.for_each(|other| *other = None);
            }
            _ => appended.push(line),
        }
    }
    let mut lines: Vec<String> = lines.into_iter().flatten().collect();
    if !appended.is_empty() && !lines.iter().any(|line| line == MARK) {
        lines.push(MARK.to_owned());
    }
    lines.append(&mut appended);
    lines.join("\n") + "\n"
}

/// Returns a text in which the lines of changed users are replaced.
fn with_users(text: &str, mut changes: Vec<UserChange>) -> String {
    if changes.is_empty() {
        return text.to_owned();
    }
    let line_of = |words: Vec<String>| {
        let words: Vec<String> = words.iter().map(|word| written_word(word)).collect();
        words.join(" ")
    };
    let mut lines = Vec::new();
    for line in text.lines() {
        let words = file::words(line).ok().flatten().unwrap_or_default();
        let name = words.get(1).filter(|_| words[0].eq_ignore_ascii_case(USER));
        match name.and_then(|name| changes.iter().position(|change| change.0 == *name)) {
            Some(at) => lines.extend(changes.remove(at).1.map(line_of)),
            None => lines.push(line.to_owned()),
        }
    }
    let added: Vec<String> = changes
        .into_iter()
        .filter_map(|change| change.1)
        .map(line_of)
        .collect();
    if !added.is_empty() && !lines.iter().any(|line| line == MARK) {
        lines.push(MARK.to_owned());
    }
    lines.extend(added);
    lines.join("\n") + "\n"
}

/// Returns the lines of a setting: one, or one for each class. Lines of classes accumulate, so that
/// an empty one comes first if there are others elsewhere.
fn lines_of(param: &Param, value: &str, has_others: bool) -> String {
    let mut values: Vec<&str> = match param.kind {
        Kind::Classes => value.split(SEPARATOR).collect(),
        _ => vec![value],
    };
    if param.kind == Kind::Classes && has_others && !value.is_empty() {
        values.insert(0, "");
    }
    let lines = values
        .iter()
        .map(|value| format!("{} {}", param.name, written(param, value)));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns a word as written in a file, in quotes if needed.
fn written_word(word: &str) -> String {
    let is_special = |letter: char| letter.is_ascii_whitespace() || letter.is_control();
    match word.is_empty() || word.contains(['"', '\'']) || word.contains(is_special) {
        true => in_quotes(word),
        false => word.to_owned(),
    }
}

/// Returns a value as written in a file, in quotes if needed.
fn written(param: &Param, value: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_graphic() && !matches!(letter, '"' | '\'' | '\\');
    let words: Vec<&str> = value.split(' ').collect();
    let is_word = |word: &&str| !word.is_empty() && word.chars().all(is_plain);
    let may_have_words = param.kind != Kind::Secret || words.len() == 1;
    if may_have_words && words.iter().all(is_word) {
        return value.to_owned();
    }
    in_quotes(value)
}

fn in_quotes(value: &str) -> String {
    let mut quoted = String::from('"');
    for letter in value.chars() {
        match letter {
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '"' | '\\' => quoted.extend(['\\', letter]),
            _ if letter.is_ascii_control() => quoted.push_str(&format!("\\x{:02x}", letter as u32)),
            _ => quoted.push(letter),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Id;
    use crate::value::Value;
    use std::fs;

    #[test]
    fn lines_of_users_are_replaced_by_name() {
        let text = "# users\nuser a on nopass\nuser b off\n# end\nuser c on\n";
        let words = |line: &str| Some(line.split(' ').map(str::to_owned).collect());
        let changes = vec![
            ("b".to_owned(), None),
            ("c".to_owned(), words("user c off")),
            ("d".to_owned(), words("user d on ~\"x")),
        ];
        let expected = "# users\nuser a on nopass\n# end\nuser c off\n# Written by CONFIG REWRITE\nuser d on \"~\\\"x\"\n";
        assert_eq!(with_users(text, changes), expected);
        assert_eq!(with_users(text, Vec::new()), text);
        for word in ["\"a", "", "a b", ">it's", "\x01\u{e9}\\", "a\\b"] {
            let line = format!("user {}", written_word(word));
            let words = file::words(&line).expect("valid").expect("no comment");
            assert_eq!(words, ["user", word], "{line}");
        }
    }

    #[test]
    fn comments_order_and_unchanged_lines_are_kept() {
        let folder = std::env::temp_dir().join(format!("mayfly-rewrite-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder can be made");
        let path = folder.join("main.conf");
        let text = "# first\nmaxmemory 100mb   # no comment in a line\n\ntimeout 5\nlazyfree-lazy-expire no\nclient-output-buffer-limit normal 0 0 0\nclient-output-buffer-limit pubsub 1mb 0 0\ninclude more.conf\nslave-read-only yes\n";
        let text = text.replace("   # no comment in a line", "");
        fs::write(&path, text).expect("a file can be written");
        fs::write(folder.join("more.conf"), "maxclients 7\n").expect("a file can be written");
        let config = Config::default();
        let sources = load::Sources {
            file: Some(&path),
            ..load::Sources::default()
        };
        assert_eq!(load::load(&config, &sources).problems, Vec::<String>::new());
        rewrite(&config, |_| Ok(Vec::new())).expect("a file that can be written");
        let same = fs::read_to_string(&path).expect("a file");
        assert_eq!(same.lines().nth(1), Some("maxmemory 100mb"));
        config.put(Id::Timeout, &Value::Number(9));
        config.put(Id::MaxClients, &Value::Number(8));
        config.put(Id::RequirePass, &Value::Text("a \"b\\ ".into()));
        config.put(
            Id::OutputBufferLimit,
            &Value::OutputLimits(vec![(0, [1, 2, 3])]),
        );
        rewrite(&config, |_| Ok(Vec::new())).expect("a file that can be written");
        let text = fs::read_to_string(&path).expect("a file");
        let expected = "# first\nmaxmemory 100mb\n\ntimeout 9\nlazyfree-lazy-expire no\n\
            client-output-buffer-limit normal 1 2 3 slave 268435456 67108864 60 pubsub 1048576 0 0\n\
            include more.conf\nslave-read-only yes\n# Written by CONFIG REWRITE\n\
            requirepass \"a \\\"b\\\\ \"\nmaxclients 8\n";
        assert_eq!(text, expected);
        let again = Config::default();
        assert_eq!(load::load(&again, &sources).problems, Vec::<String>::new());
        for param in TABLE {
            assert_eq!(again.show(param), config.show(param), "{}", param.name);
        }
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 2);
        let _ = fs::remove_dir_all(&folder);
    }

    /// Writes the files, changes settings with `change`, rewrites, and returns the text and the
    /// settings read back from it.
    fn rewritten(
        name: &str,
        text: &str,
        variables: &[(&str, &str)],
        change: impl Fn(&Config),
    ) -> (String, Config) {
        let folder = std::env::temp_dir().join(format!("mayfly-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder can be made");
        let path = folder.join("main.conf");
        fs::write(&path, text).expect("a file can be written");
        fs::write(folder.join("more.conf"), "maxclients 700\n").expect("a file can be written");
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let sources = load::Sources {
            file: Some(&path),
            environment: variables.iter().map(owned).collect(),
            ..load::Sources::default()
        };
        let config = Config::default();
        assert_eq!(load::load(&config, &sources).problems, Vec::<String>::new());
        change(&config);
        rewrite(&config, |_| Ok(Vec::new())).expect("a file that can be written");
        let again = Config::default();
        assert_eq!(load::load(&again, &sources).problems, Vec::<String>::new());
        let text = fs::read_to_string(&path).expect("a file");
        let _ = fs::remove_dir_all(&folder);
        (text, again)
    }

    /// Regression: the first of the file's own lines was replaced, and the include after it
    /// restored the old value.
    #[test]
    fn the_last_own_line_of_a_setting_takes_the_value() {
        let text = "maxclients 500\ninclude more.conf\n# end\nmaxclients 800\n";
        let change = |config: &Config| config.put(Id::MaxClients, &Value::Number(900));
        let (text, again) = rewritten("last-line", text, &[], change);
        assert_eq!(text, "include more.conf\n# end\nmaxclients 900\n");
        assert_eq!(again.number(Id::MaxClients), 900);
    }

    #[test]
    fn each_class_has_a_line_and_replaces_those_of_other_files() {
        let text = "class a prefix a:\ntimeout 5\nclass b db 1\n";
        let change = |config: &Config| {
            let value = "b db 2 ttl-max 1d ; c prefix c\\x20";
            config.put(Id::Classes, &Value::Text(value.to_owned()));
        };
        let (written, again) = rewritten("classes", text, &[], change);
        let expected = "timeout 5\nclass b db 2 ttl-max 1d\nclass \"c prefix c\\\\x20\"\n";
        assert_eq!(written, expected);
        assert_eq!(
            again.text(Id::Classes),
            "b db 2 ttl-max 1d ; c prefix c\\x20"
        );
        let none = |config: &Config| config.put(Id::Classes, &Value::Text(String::new()));
        assert_eq!(
            rewritten("no-classes", text, &[], none).0,
            "timeout 5\nclass \"\"\n"
        );
        // The include repeats a class.
        let lines = lines_of(&TABLE[Id::Classes as usize], "a db 1 ; b db 2", true);
        assert_eq!(lines, "class \"\"\nclass a db 1\nclass b db 2");
    }

    #[test]
    fn save_points_of_a_file_that_has_none_are_written_when_they_change() {
        let (text, again) = rewritten("no-points", "timeout 5\n", &[], |_| {});
        assert_eq!(text, "timeout 5\n");
        assert!(!again.text(Id::Save).is_empty());
        let change = |config: &Config| config.put(Id::Save, &Value::Text(String::new()));
        let (text, again) = rewritten("points-off", "timeout 5\n", &[], change);
        assert!(text.ends_with("save \"\"\n"), "{text}");
        assert_eq!(again.text(Id::Save), "");
    }

    /// Regression: a password from the environment was written to the configuration file.
    #[test]
    fn a_secret_from_outside_is_not_written_until_it_is_changed() {
        let given = [("MAYFLY_REQUIREPASS", "outside")];
        let (text, _) = rewritten("outside", "timeout 5\n", &given, |_| {});
        assert_eq!(text, "timeout 5\n");
        let change = |config: &Config| config.put(Id::RequirePass, &Value::Text("new".into()));
        let (text, _) = rewritten("outside-new", "timeout 5\n", &given, change);
        assert!(text.ends_with("requirepass new\n"), "{text}");
    }
}
