//! Arguments of commands as described by COMMAND DOCS, which redis-cli uses for completion and
//! client libraries for generating code.
//!
//! The syntax of each command is a text in its row. It is parsed when a client requests it: the
//! reply is rare, and its tree is several times as large as the text. The notation:
//!
//! ```text
//! name            a value; `name:type` unless the type follows from the name (TYPES)
//! NAME            a word that is written as it stands
//! [ ... ]         optional
//! ( ... )         a group; a word at its beginning introduces the values after it
//! a | b           one of both, within brackets or a group, or of the whole text
//! ...             after a value or a group: may be repeated
//! ```

use wire::Reply;

/// Kind of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    /// A value with its type.
    Value(&'static str),
    /// A word.
    PureToken,
    /// Arguments in a row.
    Block(Vec<Argument>),
    /// One of several arguments.
    OneOf(Vec<Argument>),
}

/// An argument of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Argument {
    name: String,
    /// Word that introduces the argument.
    token: Option<String>,
    shape: Shape,
    is_optional: bool,
    is_multiple: bool,
    /// Whether the word is repeated, too.
    is_token_repeated: bool,
}

/// Types of values by their names. The type of all others is `string`.
const TYPES: &[(&str, &[&str])] = &[
    (
        "key",
        &[
            "key",
            "key1",
            "key2",
            "source",
            "destination",
            "destkey",
            "newkey",
        ],
    ),
    (
        "integer",
        &[
            "seconds",
            "milliseconds",
            "count",
            "numkeys",
            "numfields",
            "nummembers",
            "index",
            "index1",
            "index2",
            "db",
            "destination-db",
            "start",
            "stop",
            "end",
            "offset",
            "increment",
            "decrement",
            "limit",
            "rank",
            "num-matches",
            "len",
            "min-match-len",
            "bit",
            "cursor",
            "numreplicas",
            "protover",
            "port",
            "frequency",
        ],
    ),
    (
        "double",
        &[
            "score",
            "weight",
            "longitude",
            "latitude",
            "radius",
            "width",
            "height",
            "timeout",
            "lowerbound",
            "upperbound",
        ],
    ),
    (
        "unix-time",
        &["unix-time-seconds", "unix-time-milliseconds"],
    ),
    ("pattern", &["pattern"]),
];

fn type_of(name: &str) -> &'static str {
    TYPES
        .iter()
        .find(|(_, names)| names.contains(&name))
        .map_or("string", |(kind, _)| kind)
}

/// Returns the type with this name, for a value that is not named by its type.
fn type_named(name: &str) -> &'static str {
    TYPES
        .iter()
        .map(|(kind, _)| *kind)
        .find(|kind| *kind == name)
        .unwrap_or("string")
}

/// Parser of a text.
struct Parser<'t> {
    tokens: Vec<&'t str>,
    at: usize,
}

impl<'t> Parser<'t> {
    fn new(mut text: &'t str) -> Parser<'t> {
        let mut tokens = Vec::new();
        while let Some(first) = text.trim_start().chars().next() {
            text = text.trim_start();
            let len = match first {
                '[' | ']' | '(' | ')' | '|' => 1,
                '.' => 3.min(text.len()),
                _ => text
                    .find(|c: char| c.is_whitespace() || "[]()|.".contains(c))
                    .unwrap_or(text.len()),
            };
            let (token, rest) = text.split_at(len);
            tokens.push(token);
            text = rest;
        }
        Parser { tokens, at: 0 }
    }

    fn take(&mut self, token: &str) -> bool {
        let is_next = self.tokens.get(self.at) == Some(&token);
        self.at += usize::from(is_next);
        is_next
    }

    /// Parses arguments in a row up to the end of the group or the next alternative.
    fn row(&mut self) -> Vec<Argument> {
        let mut row = Vec::new();
        while let Some(token) = self.tokens.get(self.at).copied() {
            if matches!(token, "]" | ")" | "|") {
                break;
            }
            self.at += 1;
            let mut argument = match token {
                "[" => self.group("]", true),
                "(" => self.group(")", false),
                word => leaf(word),
            };
            argument.is_multiple = self.take("...");
            argument.is_token_repeated = argument.is_multiple && argument.token.is_some();
            row.push(argument);
        }
        row
    }

    /// Parses the rest of a group: alternatives of arguments in a row.
    fn group(&mut self, end: &str, is_optional: bool) -> Argument {
        let mut alternatives = vec![introduce(self.row())];
        while self.take("|") {
            alternatives.push(introduce(self.row()));
        }
        self.take(end);
        let mut argument = match alternatives.len() {
            1 => alternatives.remove(0),
            _ => {
                let name = joined(&alternatives);
                of(&name, Shape::OneOf(alternatives))
            }
        };
        argument.is_optional |= is_optional;
        argument
    }
}

fn of(name: &str, shape: Shape) -> Argument {
    Argument {
        name: name.to_owned(),
        token: None,
        shape,
        is_optional: false,
        is_multiple: false,
        is_token_repeated: false,
    }
}

/// Returns the argument of a single word: capitals are a token, others a value.
fn leaf(word: &str) -> Argument {
    if word.bytes().all(|b| !b.is_ascii_lowercase()) {
        let mut argument = of(&word.to_ascii_lowercase(), Shape::PureToken);
        argument.token = Some(word.to_owned());
        return argument;
    }
    match word.split_once(':') {
        Some((name, kind)) => of(name, Shape::Value(type_named(kind))),
        None => of(word, Shape::Value(type_of(word))),
    }
}

/// Returns a name for several arguments.
fn joined(arguments: &[Argument]) -> String {
    let names: Vec<&str> = arguments.iter().map(|one| one.name.as_str()).collect();
    names.join("-")
}

/// Combines arguments in a row into one. A word at the beginning becomes the token of the others.
fn introduce(mut row: Vec<Argument>) -> Argument {
    if row.len() == 1 {
        return row.remove(0);
    }
    let has_token = row
        .first()
        .is_some_and(|first| first.shape == Shape::PureToken && !first.is_multiple);
    if !has_token {
        return of(&joined(&row), Shape::Block(row));
    }
    let first = row.remove(0);
    let mut argument = match row.len() {
        1 if row[0].token.is_none() && !row[0].is_optional => row.remove(0),
        _ => of(&first.name, Shape::Block(row)),
    };
    argument.token = first.token;
    argument
}

/// Returns the arguments of a command with this syntax.
fn arguments(syntax: &str) -> Vec<Argument> {
    let mut parser = Parser::new(syntax);
    let mut all = parser.row();
    // An alternative without brackets concerns the whole text.
    if parser.take("|") {
        let mut alternatives = vec![introduce(all), introduce(parser.row())];
        while parser.take("|") {
            alternatives.push(introduce(parser.row()));
        }
        let name = joined(&alternatives);
        all = vec![of(&name, Shape::OneOf(alternatives))];
    }
    all
}

/// Writes the arguments of a command with this syntax as COMMAND DOCS reports them.
pub(super) fn write(reply: &mut Reply<'_>, syntax: &str) {
    write_all(reply, &arguments(syntax));
}

fn write_all(reply: &mut Reply<'_>, arguments: &[Argument]) {
    reply.array(arguments.len());
    for argument in arguments {
        write_one(reply, argument);
    }
}

fn write_one(reply: &mut Reply<'_>, argument: &Argument) {
    let (kind, parts) = match &argument.shape {
        Shape::Value(kind) => (*kind, None),
        Shape::PureToken => ("pure-token", None),
        Shape::Block(parts) => ("block", Some(parts)),
        Shape::OneOf(parts) => ("oneof", Some(parts)),
    };
    let flags: Vec<&str> = [
        (argument.is_optional, "optional"),
        (argument.is_multiple, "multiple"),
        (argument.is_token_repeated, "multiple_token"),
    ]
    .iter()
    .filter(|(is_set, _)| *is_set)
    .map(|(_, name)| *name)
    .collect();
    let count = 2
        + usize::from(parts.is_none())
        + usize::from(argument.token.is_some())
        + usize::from(!flags.is_empty())
        + usize::from(parts.is_some())
        + usize::from(kind == "key");
    reply.map(count);
    let mut field = |name: &str, text: &str| {
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
    };
    field("name", &argument.name);
    field("type", kind);
    if parts.is_none() {
        field("display_text", &argument.name);
    }
    if let Some(token) = &argument.token {
        field("token", token);
    }
    if kind == "key" {
        reply.bulk(b"key_spec_index");
        reply.integer(0);
    }
    if !flags.is_empty() {
        reply.bulk(b"flags");
        reply.set(flags.len());
        flags.iter().for_each(|flag| reply.simple(flag));
    }
    if let Some(parts) = parts {
        reply.bulk(b"arguments");
        write_all(reply, parts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::table;

    /// Returns a short form of arguments: values by name and type, words, groups in brackets.
    fn show(arguments: &[Argument]) -> String {
        let one = |argument: &Argument| {
            let mut text = match &argument.shape {
                Shape::Value(kind) => format!("{}:{kind}", argument.name),
                Shape::PureToken => String::new(),
                Shape::Block(parts) => format!("({})", show(parts)),
                Shape::OneOf(parts) => format!("{{{}}}", show(parts)),
            };
            if let Some(token) = &argument.token {
                text = format!("{token} {text}").trim_end().to_owned();
            }
            let optional = if argument.is_optional { "?" } else { "" };
            let multiple = if argument.is_multiple { "*" } else { "" };
            let repeated = if argument.is_token_repeated { "!" } else { "" };
            format!("{text}{optional}{multiple}{repeated}")
        };
        arguments.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    fn shown(name: &str) -> String {
        let index = table().lookup(name.as_bytes()).expect("a command");
        show(&arguments(table()[index as usize].syntax))
    }

    /// Returns the name of each command and subcommand, the number of words in it, its arity and
    /// its syntax.
    fn rows() -> impl Iterator<Item = (&'static str, usize, i16, &'static str)> {
        let commands = table().iter();
        let commands = commands.map(|spec| (spec.name, 1, spec.arity, spec.syntax));
        let subcommands = table().subcommands().iter();
        commands.chain(subcommands.map(|one| (one.name, 2, one.arity, one.syntax)))
    }

    #[test]
    fn every_syntax_is_parsed_to_its_end() {
        for (name, words, arity, syntax) in rows() {
            let mut parser = Parser::new(syntax);
            while parser.at < parser.tokens.len() {
                parser.row();
                let is_at_end = parser.at == parser.tokens.len();
                assert!(parser.take("|") || is_at_end, "{name}: {syntax}");
            }
            let has_arguments = arity.unsigned_abs() as usize != words;
            assert!(
                !has_arguments || !syntax.is_empty(),
                "{name} has arguments, but no syntax"
            );
        }
    }

    #[test]
    fn syntaxes_become_trees_of_arguments() {
        assert_eq!(shown("ping"), "message:string?");
        assert_eq!(shown("mget"), "key:key*");
        assert_eq!(
            shown("zadd"),
            "key:key {NX XX}? {GT LT}? CH? INCR? (score:double member:string)*"
        );
        assert_eq!(
            shown("zrangebylex"),
            "key:key min:string max:string LIMIT (offset:integer count:integer)?"
        );
        assert_eq!(
            shown("hexpire"),
            "key:key seconds:integer {NX XX GT LT}? FIELDS (numfields:integer field:string*)"
        );
        assert_eq!(
            shown("sort_ro"),
            "key:key BY by:pattern? LIMIT (offset:integer count:integer)? GET pattern:pattern?*! {ASC DESC}? ALPHA?"
                .replace("by:pattern", "pattern:pattern")
        );
        assert_eq!(
            shown("replicaof"),
            "{(host:string port:integer) NO ONE}".replace("NO ONE", "NO (ONE)")
        );
    }

    #[test]
    fn the_minimum_number_of_arguments_agrees_with_the_arity() {
        fn least(arguments: &[Argument]) -> usize {
            arguments.iter().map(least_of).sum()
        }
        fn least_of(argument: &Argument) -> usize {
            if argument.is_optional {
                return 0;
            }
            let values = match &argument.shape {
                Shape::Value(_) => 1,
                Shape::PureToken => return 1,
                Shape::Block(parts) => least(parts),
                Shape::OneOf(parts) => parts.iter().map(least_of).min().unwrap_or(0),
            };
            values + usize::from(argument.token.is_some())
        }
        for (name, words, arity, syntax) in rows() {
            let least = words + least(&arguments(syntax));
            let count = arity.unsigned_abs() as usize;
            assert!(
                if arity > 0 {
                    least <= count
                } else {
                    least >= count
                },
                "{name}: the syntax has at least {least} arguments, the arity is {arity}"
            );
        }
    }
}
