//! What a command of a feed changes: of this server's feed, or of that of another primary. Readers
//! that send keys as states (`exporting.rs`, `transfer.rs`) need only the names.

use crate::command;
use crate::command::key::copied_to;
use crate::command::tagging;
use session::spec::Keys;
use wire::Args;
use wire::number::parse_u64;

/// What a command changes.
pub(crate) enum Changed<'a> {
    /// No key.
    Nothing,
    /// The database of the following commands.
    Selected(u64),
    /// The keys that the arguments name, in the selected database, and in another one as well.
    Named(Keys, Option<u64>),
    /// The keys with these tags, or their freshness only.
    Tagged(Args<'a>, Tagged),
    /// Any keys: databases were emptied.
    Emptied,
    /// Any keys: databases were exchanged.
    Exchanged,
    /// This server does not have the command.
    Unknown,
}

/// What INVALIDATE does with the keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tagged {
    /// It removes them.
    Removed,
    /// It makes them stale.
    Stale,
}

/// Returns what a command of a feed changes.
///
/// # Errors
/// Its arguments cannot be read.
pub(crate) fn by(args: Args<'_>) -> Result<Changed<'_>, &'static str> {
    let table = command::table();
    let Some(index) = table.lookup_own(args.name()) else {
        return Ok(Changed::Unknown);
    };
    let chosen = table.choose(index, args);
    let number = |at| args.get(at).and_then(parse_u64);
    let other = match chosen.spec.name {
        "select" => {
            let db = number(1).ok_or("SELECT without a number")?;
            return Ok(Changed::Selected(db));
        }
        "flushall" | "flushdb" => return Ok(Changed::Emptied),
        "swapdb" => return Ok(Changed::Exchanged),
        "invalidate" => {
            let tags = tagging::counted(args.from(1));
            let tags = tags.map_err(|_| "INVALIDATE without tags")?;
            let tagged = match args.len() > tags.len() + 2 {
                true => Tagged::Stale,
                false => Tagged::Removed,
            };
            return Ok(Changed::Tagged(tags, tagged));
        }
        "move" => number(2),
        "copy" => copied_to(args).map(u64::from),
        _ => None,
    };
    let keys = chosen
        .subcommand
        .map_or(chosen.spec.keys, |(_, subcommand)| subcommand.keys);
    Ok(match keys.are_named() {
        true => Changed::Named(keys, other),
        false => Changed::Nothing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Limits, Parsed, Parser, encode_command};

    /// Returns what a command changes, as text.
    fn shown(line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let (mut bytes, mut spans) = (Vec::new(), Vec::new());
        encode_command(&mut bytes, &words);
        let parsed = Parser::new(Limits::of_feed()).parse(&mut bytes, &mut spans);
        assert!(matches!(parsed, Ok(Parsed::Command { .. })), "{line}");
        let args = Args::new(&bytes, &spans);
        match by(args) {
            Ok(Changed::Nothing) => "nothing".to_owned(),
            Ok(Changed::Selected(db)) => format!("select {db}"),
            Ok(Changed::Named(keys, other)) => {
                let mut names = Vec::new();
                keys.each(args, |at| names.push(String::from_utf8_lossy(&args[at])));
                let other = other.map(|db| format!(" and in {db}"));
                names.join(" ") + &other.unwrap_or_default()
            }
            Ok(Changed::Tagged(tags, tagged)) => {
                format!("{} tags, stale: {}", tags.len(), tagged == Tagged::Stale)
            }
            Ok(Changed::Emptied) => "emptied".to_owned(),
            Ok(Changed::Exchanged) => "exchanged".to_owned(),
            Ok(Changed::Unknown) => "unknown".to_owned(),
            Err(why) => why.to_owned(),
        }
    }

    #[test]
    fn commands_of_a_feed_name_what_they_change() {
        for (line, expected) in [
            ("SELECT 3", "select 3"),
            ("SELECT x", "SELECT without a number"),
            ("set a 1", "a"),
            ("DEL a b c", "a b c"),
            ("MSET a 1 b 2", "a b"),
            ("RENAME a b", "a b"),
            ("SINTERSTORE d a b", "d a b"),
            ("XCLAIM s g c 0 1-1", "s"),
            ("XGROUP CREATE s g 0", "s"),
            ("PEXPIREAT a 1", "a"),
            ("MOVE a 2", "a and in 2"),
            ("COPY a b DB 4 REPLACE", "a b and in 4"),
            ("COPY a b", "a b"),
            ("MULTI", "nothing"),
            ("EXEC", "nothing"),
            ("PING", "nothing"),
            ("REPLCONF GETACK *", "nothing"),
            ("PUBLISH channel text", "nothing"),
            ("FUNCTION LOAD x", "nothing"),
            ("FLUSHALL ASYNC", "emptied"),
            ("flushdb", "emptied"),
            ("SWAPDB 0 1", "exchanged"),
            ("INVALIDATE 2 x y", "2 tags, stale: false"),
            ("INVALIDATE 1 x STALE", "1 tags, stale: true"),
            ("INVALIDATE", "INVALIDATE without tags"),
            ("NOSUCHCOMMAND a", "unknown"),
        ] {
            assert_eq!(shown(line), expected, "{line}");
        }
    }
}
