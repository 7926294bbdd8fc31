//! Configuration file of `mayfly edge serve`: its options become arguments before those of the
//! command line, which has precedence.

use anyhow::{Context, Result, anyhow};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Args, Command, FromArgMatches};
use node::{File, Setting, Value};
use std::ffi::OsString;
use std::path::PathBuf;

/// Name of the program in its arguments.
const NAME: &str = "mayfly edge serve";
/// Options that a file cannot have.
const COMMAND_LINE_ONLY: [&str; 2] = ["config", "check-config"];

/// Reads the file that the arguments name, if they name one. `words` are the arguments after the
/// subcommand. Returns all arguments and the rest of the file.
pub fn merge<A: Args + FromArgMatches>(words: &[OsString]) -> Result<(A, File)> {
    let command = A::augment_args(Command::new(NAME));
    let parse = |words: Vec<OsString>| {
        let name = OsString::from(NAME);
        let words = std::iter::once(name).chain(words);
        command.clone().try_get_matches_from(words)
    };
    let given = parse(words.to_vec())?;
    let Some(path) = given.get_one::<PathBuf>("config") else {
        return Ok((A::from_arg_matches(&given)?, File::default()));
    };
    let place = path.display();
    let text = settings::file::text_of(path).map_err(|error| anyhow!("{place}: {error}"))?;
    let file = File::parse(&text).with_context(|| place.to_string())?;
    let mut all = vec![];
    for setting in &file.options {
        let invalid = |text: String| anyhow!("{place}: line {}: {text}", setting.line);
        let name = setting.name.as_str();
        let mut options = command.get_arguments();
        let option = options.find(|option| option.get_long() == Some(name));
        let option = option.filter(|_| !COMMAND_LINE_ONLY.contains(&name));
        let option = option.ok_or_else(|| invalid(unknown(&command, name)))?;
        let words = words_of(option, setting).map_err(&invalid)?;
        if let Err(error) = parse(words.clone())
            && matches!(
                error.kind(),
                ErrorKind::InvalidValue | ErrorKind::ValueValidation | ErrorKind::ArgumentConflict
            )
        {
            return Err(invalid(reason(&error)));
        }
        if given.value_source(option.get_id().as_str()) != Some(ValueSource::CommandLine) {
            all.extend(words);
        }
    }
    all.extend_from_slice(words);
    let parsed = parse(all).and_then(|all| A::from_arg_matches(&all));
    let arguments = parsed.map_err(|error| anyhow!("{place}: {}", reason(&error)))?;
    Ok((arguments, file))
}

/// Returns the arguments for a setting.
fn words_of(option: &Arg, setting: &Setting) -> Result<Vec<OsString>, String> {
    let name = &setting.name;
    let is_flag = matches!(option.get_action(), ArgAction::SetTrue);
    let word = |value: &Value| match value {
        Value::On if is_flag => Ok(format!("--{name}").into()),
        Value::Text(text) if !is_flag => Ok(format!("--{name}={text}").into()),
        Value::On => Err(format!("{name}: expected a value")),
        Value::Text(_) => Err(format!("{name}: expected true or false")),
    };
    setting.values.iter().map(word).collect()
}

fn unknown(command: &Command, name: &str) -> String {
    let options = command.get_arguments().filter_map(Arg::get_long);
    let mut names: Vec<&str> = options
        .filter(|name| !COMMAND_LINE_ONLY.contains(name))
        .collect();
    names.sort_unstable();
    let names = names.join(", ");
    format!("{name}: expected [[origin]], [[rule]] or an option: {names}")
}

/// Returns the first paragraph of an error without its prefix. The others are about the command
/// line.
fn reason(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    first.replace("\n  ", " ")
}
