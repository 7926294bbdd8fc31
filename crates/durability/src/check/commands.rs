//! Reads the parts of an append-only file that contain commands.

use crate::aof::reader::{CommandReader, Damage};
use std::collections::BTreeMap;
use std::{fmt, io};

/// Maximum number of commands that are counted by name.
const NAMES_MAX: usize = 1000;
/// Maximum length of a name that is counted.
const NAME_BYTES_MAX: usize = 64;

/// Contents of a file of commands.
#[derive(Debug, Default)]
pub struct Commands {
    /// Number of commands by name.
    names: BTreeMap<String, u64>,
    count: u64,
    /// Offset after the last complete command that is not in an incomplete transaction.
    pub end: u64,
}

impl Commands {
    /// Reads a file. Returns its contents and the damage, if any. A transaction without an end
    /// counts as an incomplete command.
    pub fn read(source: impl io::Read) -> (Commands, Option<Damage>) {
        let mut commands = Commands::default();
        let mut reader = CommandReader::new(source, Vec::new(), 0);
        let mut transaction_at = None;
        loop {
            let offset = reader.offset();
            let name = match reader.next_command() {
                Ok(Some(command)) => {
                    String::from_utf8_lossy(command.args.name()).to_ascii_lowercase()
                }
                Ok(None) => {
                    let damage = transaction_at.map(Damage::Truncated);
                    return (commands, damage);
                }
                Err(damage) => return (commands, Some(damage)),
            };
            match &name[..] {
                // A further one is refused and does not begin another transaction.
                "multi" => _ = transaction_at.get_or_insert(offset),
                "exec" => transaction_at = None,
                _ => {}
            }
            commands.count += 1;
            let is_known = commands.names.contains_key(&name);
            if is_known || commands.names.len() < NAMES_MAX && name.len() <= NAME_BYTES_MAX {
                *commands.names.entry(name).or_default() += 1;
            }
            commands.end = transaction_at.unwrap_or(reader.offset());
        }
    }
}

impl fmt::Display for Commands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} commands", self.count)?;
        let mut names: Vec<(&String, &u64)> = self.names.iter().collect();
        names.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        for (name, count) in names {
            writeln!(f, "{:<20}{count:>14}", name.escape_debug().to_string())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_counted_and_an_open_transaction_is_damage() {
        let set = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n";
        let multi = b"*1\r\n$5\r\nMULTI\r\n";
        let (commands, damage) = Commands::read(&[&set[..], set].concat()[..]);
        assert!(damage.is_none());
        assert!(commands.to_string().starts_with("2 commands\nset "));
        let (commands, damage) = Commands::read(&[&set[..], multi, set].concat()[..]);
        assert!(matches!(damage, Some(Damage::Truncated(at)) if at == set.len() as u64));
        assert_eq!(commands.end, set.len() as u64);
        // Regression: the end was behind the first of two beginnings.
        let (commands, damage) = Commands::read(&[&set[..], multi, set, multi, set].concat()[..]);
        assert!(matches!(damage, Some(Damage::Truncated(at)) if at == set.len() as u64));
        assert_eq!(commands.end, set.len() as u64);
    }
}
