//! Loads the settings at startup from a file, the environment and the command line, in this order.
//! Later sources take precedence, and an overridden directive is not validated.
//!
//! All errors are reported together. Redis settings that have no effect here are accepted and
//! listed in one warning.

use super::classes::SEPARATOR;
use super::file::{self, Directive};
use super::table::{IGNORED, Param, REFUSED, TABLE};
use super::words::SEGMENT_ENGINE;
use super::{Config, Id, Kind, Value, find};
use policy::names::did_you_mean;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use wire::glob;

/// Prefix of environment variables with settings: `MAYFLY_MAXMEMORY_POLICY` is `maxmemory-policy`.
pub const VARIABLE_PREFIX: &str = "MAYFLY_";
/// Directive that renames a command.
const RENAME: &str = "rename-command";
/// Directive that defines one user.
const USER: &str = "user";
/// Save points for a start with a configuration file that sets none, as in Redis. A server that
/// loaded the snapshot file but never saved it would lose all later changes.
const SAVE_POINTS: &str = "3600 1 300 100 60 10000";
/// Variable that names the configuration file.
pub const FILE_VARIABLE: &str = "MAYFLY_CONFIG";

/// Sources of settings.
#[derive(Debug, Default)]
pub struct Sources<'a> {
    /// Configuration file.
    pub file: Option<&'a Path>,
    /// Environment variables. Variables without the prefix are skipped.
    pub environment: Vec<(String, String)>,
    /// Names and values from the command line.
    pub command_line: Vec<(&'a str, &'a str)>,
}

/// Result of loading.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Errors that prevent the start, each with its place.
    pub problems: Vec<String>,
    /// Messages for the log.
    pub warnings: Vec<String>,
}

/// Reads all sources into `config`.
pub fn load(config: &Config, sources: &Sources<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let mut file = file::Reading::default();
    if let Some(path) = sources.file {
        file = file::read(path);
        let full = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        config.set_file(&full.to_string_lossy());
    }
    outcome.problems.append(&mut file.problems);
    let variables = variables(&sources.environment, &mut outcome.warnings);
    let options = options(&sources.command_line);
    let is_given =
        |list: &[Directive], name: &str| list.iter().any(|given| is_same(&given.name, name));
    let mut directives = file.directives;
    directives.retain(|line| !is_given(&variables, &line.name) && !is_given(&options, &line.name));
    let kept = |variable: &&Directive| !is_given(&options, &variable.name);
    directives.extend(variables.iter().filter(kept).cloned());
    directives.extend(options.iter().cloned());
    let mut ineffective = BTreeMap::<&str, Vec<&str>>::new();
    for directive in &directives {
        let is_variable = directive.place.starts_with(VARIABLE_PREFIX);
        if directive.name == USER {
            let words = [vec![USER.to_owned()], directive.words.clone()].concat();
            config.add_user_line((directive.place.clone(), words));
            continue;
        }
        if let Some(error) = wrong_count(directive) {
            outcome
                .problems
                .push(format!("{}: {error}", directive.place));
            continue;
        }
        match set(config, &directive.name, &directive.value()) {
            Ok(None) => {
                let param = find(&directive.name).filter(|param| param.kind == Kind::Secret);
                if let Some(param) = param.filter(|_| is_variable) {
                    config.mark_outside(param.id);
                }
            }
            Ok(Some(reason)) => {
                let names = ineffective.entry(reason).or_default();
                if !names.contains(&&*directive.name) {
                    names.push(&directive.name);
                }
            }
            Err(error) => outcome
                .problems
                .push(format!("{}: {error}", directive.place)),
        }
    }
    if sources.file.is_some() && add_save_points(config, &directives) {
        outcome.warnings.push(format!(
            "no setting 'save': the save points of Redis hold ({SAVE_POINTS}); save \"\" disables snapshots"
        ));
    }
    if !ineffective.is_empty() {
        let groups = ineffective.iter();
        let groups = groups.map(|(reason, names)| format!("{} ({reason})", names.join(", ")));
        let groups: Vec<String> = groups.collect();
        let warning = format!("settings without effect here: {}", groups.join("; "));
        outcome.warnings.push(warning);
    }
    outcome
}

/// Sets Redis's default save points for a configuration file, unless a directive sets save points
/// or the engine has no snapshots. Returns whether it has set them.
pub(super) fn add_save_points(config: &Config, directives: &[Directive]) -> bool {
    let param = &TABLE[Id::Save as usize];
    let has_own = directives.iter().any(|one| is_same(&one.name, param.name));
    let is_wanted = !has_own && config.number(Id::Engine) != SEGMENT_ENGINE;
    if is_wanted {
        config.put(param.id, &Value::Text(SAVE_POINTS.to_owned()));
    }
    is_wanted
}

/// Describes the error if a setting has the wrong number of values. Without this check, a password
/// line without a value would set an empty password, and an unquoted password with a blank would
/// set a different one. A value on the command line is a single argument. As in Redis, the list of
/// save points may be empty.
fn wrong_count(directive: &Directive) -> Option<String> {
    let param = find(&directive.name)?;
    let is_secret = param.kind == Kind::Secret && !directive.place.starts_with("--");
    match directive.words.len() {
        0 if param.kind == Kind::SavePoints => None,
        0 => Some(format!("{}: expected a value", param.name)),
        2.. if is_secret => Some(format!(
            "{}: expected one value; a value with blanks needs quotes",
            param.name
        )),
        _ => None,
    }
}

/// Sets one setting by name. Returns the reason if the setting has no effect.
///
/// # Errors
/// The name is unknown or refused, or the value is invalid. The message suggests a similar name.
pub fn set(config: &Config, name: &str, value: &str) -> Result<Option<&'static str>, String> {
    if name.eq_ignore_ascii_case(RENAME) {
        return config.rename(value).map(|()| None);
    }
    if let Some(param) = find(name) {
        let set = config
            .set(param, &joined(config, param, value))
            .map(|()| without_effect(param));
        return set.map_err(|error| format!("{} {}: {error}", param.name, shown(param, value)));
    }
    let lower = name.to_ascii_lowercase();
    if let Some((_, reason)) = REFUSED.iter().find(|(pattern, _)| matches(pattern, &lower)) {
        return Err(format!("{lower}: {reason}"));
    }
    if let Some(reason) = ignored(&lower) {
        return Ok(Some(reason));
    }
    let similar = did_you_mean(name, TABLE.iter().map(|param| param.name));
    let separator = if similar.is_empty() { "" } else { "; " };
    Err(format!("unknown setting '{name}'{separator}{similar}"))
}

/// Returns the value of a setting after a line. Lines of save points and of classes accumulate
/// until an empty one.
fn joined<'v>(config: &Config, param: &Param, value: &'v str) -> Cow<'v, str> {
    match (param.kind, config.show(param)) {
        (Kind::SavePoints, before) if !before.is_empty() && !matches!(value, "" | "\"\"") => {
            Cow::Owned(format!("{before} {value}"))
        }
        (Kind::Classes, before) if !before.is_empty() && !matches!(value, "" | "\"\"") => {
            Cow::Owned(format!("{before}{SEPARATOR}{value}"))
        }
        _ => Cow::Borrowed(value),
    }
}

/// Returns the reason why a setting in the table has no effect. Its description begins with it.
fn without_effect(param: &Param) -> Option<&'static str> {
    let reason = param.help.strip_prefix("Without effect")?;
    Some(
        reason
            .trim_start_matches([':', ',', ' '])
            .trim_end_matches('.'),
    )
}

/// Whether a setting of this name is supported, ignored or refused, as opposed to unknown.
pub fn is_known(name: &str) -> bool {
    let is_refused = REFUSED.iter().any(|(pattern, _)| matches(pattern, name));
    find(name).is_some() || [RENAME, USER].contains(&name) || is_refused || ignored(name).is_some()
}

/// Returns the reason why a Redis setting has no effect here, in which case every value is
/// accepted.
pub fn ignored(name: &str) -> Option<&'static str> {
    if find(name).is_some() {
        return None;
    }
    let mut groups = IGNORED.iter();
    let group = groups.find(|(patterns, _)| patterns.iter().any(|pattern| matches(pattern, name)));
    group.map(|(_, reason)| *reason)
}

fn matches(pattern: &str, name: &str) -> bool {
    glob::matches(pattern.as_bytes(), name.as_bytes(), true)
}

/// Whether two names, one of which may be an alias, denote the same setting. Directives that may be
/// repeated accumulate, so none of them overrides another.
fn is_same(one: &str, other: &str) -> bool {
    if [RENAME, USER].contains(&one) {
        return false;
    }
    let name = |text: &str| find(text).map_or(text.to_ascii_lowercase(), |param| param.name.into());
    name(one) == name(other)
}

/// Returns the settings among the environment variables. An unknown variable causes a warning
/// instead of an error, because orchestrators define variables named after services: Kubernetes
/// sets `MAYFLY_PORT=tcp://…` and `MAYFLY_SERVICE_HOST` next to a service called mayfly.
fn variables(environment: &[(String, String)], warnings: &mut Vec<String>) -> Vec<Directive> {
    let mut directives = Vec::new();
    for (variable, value) in environment {
        let Some(name) = variable.strip_prefix(VARIABLE_PREFIX) else {
            continue;
        };
        let name = name.to_ascii_lowercase().replace('_', "-");
        if variable == FILE_VARIABLE || value.starts_with("tcp://") || value.starts_with("udp://") {
            continue;
        }
        if is_known(&name) {
            // The words of a user's line.
            let words = match name == USER {
                true => value.split_ascii_whitespace().map(str::to_owned).collect(),
                false => vec![value.clone()],
            };
            directives.push(Directive {
                place: variable.clone(),
                name,
                words,
            });
        } else {
            warnings.push(format!("{variable}: no setting has the name '{name}'"));
        }
    }
    directives
}

fn options(command_line: &[(&str, &str)]) -> Vec<Directive> {
    let directive = |(name, value): &(&str, &str)| Directive {
        place: format!("--{name}"),
        name: name.to_ascii_lowercase(),
        words: value.split(' ').map(str::to_owned).collect(),
    };
    command_line.iter().map(directive).collect()
}

fn shown(param: &Param, value: &str) -> String {
    if param.kind == Kind::Secret {
        "(hidden)".into()
    } else {
        format!("'{value}'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_accepted_ignored_or_refused() {
        let config = Config::default();
        assert_eq!(set(&config, "MaxMemory", "100mb"), Ok(None));
        assert_eq!(config.number(Id::MaxMemory), 100 << 20);
        assert!(matches!(set(&config, "rdbcompression", "yes"), Ok(Some(_))));
        for (line, expected) in [
            ("900 1", "900 1"),
            ("300 10", "900 1 300 10"),
            ("", ""),
            ("60 5", "60 5"),
            ("\"\"", ""),
        ] {
            assert_eq!(set(&config, "save", line), Ok(None));
            assert_eq!(config.text(Id::Save), expected);
        }
        assert_eq!(set(&config, "appendonly", "no"), Ok(None));
        for (name, value, part) in [
            ("cluster-enabled", "maybe", "following: no, emulated, yes"),
            ("cluster-announce-hostname", "a b", "without a port"),
            ("save", "900", "Invalid save parameters"),
            ("dbfilename", "a/b", "can't be a path"),
            ("appendfilename", "a\nb", "control characters"),
            ("loadmodule", "x.so", "modules are not supported"),
            ("maxmemmory", "1", "did you mean 'maxmemory'"),
            ("port", "70000", "between 0 and 65535"),
            ("zzzzzzzzzzzzz", "1", "unknown setting"),
        ] {
            let error = set(&config, name, value).expect_err(name);
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let param = find("requirepass").expect("the setting exists");
        assert_eq!(shown(param, "secret"), "(hidden)");
    }

    #[test]
    fn the_command_line_precedes_the_environment_and_both_precede_the_file() {
        let path = std::env::temp_dir().join(format!("mayfly-load-{}.conf", std::process::id()));
        let text = "port nonsense\nio-threads 3\ntimeout 1\nmaxclients 7\nlazyfree-lazy-expire no\nhz 10\nhz 10\nsave 60 5\n";
        std::fs::write(&path, text).expect("a file can be written");
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let config = Config::default();
        let outcome = load(
            &config,
            &Sources {
                file: Some(&path),
                environment: vec![
                    variable("MAYFLY_TIMEOUT", "2"),
                    variable("MAYFLY_MAXCLIENTS", "nonsense"),
                    variable("MAYFLY_TCP_BACKLOG", "10"),
                    variable("MAYFLY_SERVICE_HOST", "10.0.0.1"),
                    variable("MAYFLY_MEMCACHED", "tcp://10.0.0.1:11211"),
                    variable("HOME", "/"),
                ],
                command_line: vec![("port", "5"), ("maxclients", "9"), ("threads", "4")],
            },
        );
        let _ = std::fs::remove_file(&path);
        assert_eq!(outcome.problems, Vec::<String>::new());
        for (id, number) in [
            (Id::Port, 5),
            (Id::Threads, 4),
            (Id::Timeout, 2),
            (Id::MaxClients, 9),
            (Id::TcpBacklog, 10),
            (Id::Memcached, 0),
        ] {
            assert_eq!(config.number(id), number, "{id:?}");
        }
        let [variable, ineffective] = &outcome.warnings[..] else {
            panic!("{:?}", outcome.warnings);
        };
        assert!(variable.contains("MAYFLY_SERVICE_HOST"), "{variable}");
        assert!(ineffective.contains("hz (deadlines"), "{ineffective}");
        assert!(
            ineffective.contains("lazyfree-lazy-expire ("),
            "{ineffective}"
        );
    }

    /// Regression: a line with only the name removed the password, and an unquoted password with a
    /// blank was accepted without an error.
    #[test]
    fn a_secret_in_a_file_is_one_word() {
        let path = std::env::temp_dir().join(format!("mayfly-secret-{}.conf", std::process::id()));
        let load_text = |text: &str| {
            std::fs::write(&path, text).expect("a file can be written");
            let config = Config::default();
            let sources = Sources {
                file: Some(&path),
                ..Sources::default()
            };
            let problems = load(&config, &sources).problems;
            (config.text(Id::RequirePass), problems.join("\n"))
        };
        for (text, part) in [
            ("requirepass\n", "conf:1: requirepass: expected a value"),
            ("requirepass two words\n", "expected one value"),
            ("timeout\n", "timeout: expected a value"),
        ] {
            let (_, problems) = load_text(text);
            assert!(problems.contains(part), "{problems}");
            assert!(!problems.contains("words"), "{problems}");
        }
        let (password, problems) = load_text("requirepass \"two \\x77ords\"\n");
        assert_eq!((password.as_str(), problems.as_str()), ("two words", ""));
        assert_eq!(load_text("requirepass ''\n").1, "");
        let _ = std::fs::remove_file(&path);
    }

    /// Regression: a Redis configuration without save points, such as Debian's, loaded the snapshot
    /// file but never wrote it.
    #[test]
    fn a_file_without_save_points_has_those_of_redis() {
        let path = std::env::temp_dir().join(format!("mayfly-points-{}.conf", std::process::id()));
        let load_text = |text: &str, command_line: &[(&'static str, &'static str)]| {
            std::fs::write(&path, text).expect("a file can be written");
            let config = Config::default();
            let sources = Sources {
                file: Some(&path),
                command_line: command_line.to_vec(),
                ..Sources::default()
            };
            let outcome = load(&config, &sources);
            assert_eq!(outcome.problems, Vec::<String>::new(), "{text}");
            let is_named = outcome.warnings.iter().any(|one| one.contains(SAVE_POINTS));
            (config.text(Id::Save), is_named)
        };
        let points = (SAVE_POINTS.to_owned(), true);
        let own = |text: &str| (text.to_owned(), false);
        assert_eq!(load_text("port 1\n", &[]), points);
        assert_eq!(load_text("save 60 5\n", &[]), own("60 5"));
        for none in [
            "save\n",
            "save \"\"\n",
            "SAVE ''\n",
            "save 60 5\nsave\n",
            "engine segment\n",
        ] {
            assert_eq!(load_text(none, &[]), own(""), "{none}");
        }
        assert_eq!(load_text("port 1\n", &[("save", "")]), own(""));
        let _ = std::fs::remove_file(&path);
        let config = Config::default();
        load(&config, &Sources::default());
        assert_eq!(config.text(Id::Save), "");
    }

    #[test]
    fn all_errors_are_reported_with_their_places() {
        let outcome = load(
            &Config::default(),
            &Sources {
                file: None,
                environment: vec![("MAYFLY_TIMEOUT".into(), "x".into())],
                command_line: vec![("hz", "1"), ("prot", "1"), ("databases", "0")],
            },
        );
        let problems = outcome.problems.join("\n");
        for part in [
            "MAYFLY_TIMEOUT: timeout 'x': ",
            "--prot: unknown setting 'prot'; did you mean 'port'?",
            "--databases: databases '0': ",
        ] {
            assert!(problems.contains(part), "{part} in {problems}");
        }
        assert_eq!(outcome.problems.len(), 3);
    }
}
