//! Settings: their values now, how texts become values, how CONFIG SET changes several at once.
//!
//! What there is stands in `table`; reading a file or a command line in `file`. Numbers are atomics, so
//! that any worker may read them for each command.

pub mod file;
pub mod table;
pub mod value;

pub use table::{COUNT, Id, Kind, Param, TABLE};
pub use value::{Value, bytes_for_people};

use std::sync::RwLock;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Classes of clients with output buffer limits of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientClass {
    /// All others.
    Normal,
    /// None here, but the setting has it.
    Replica,
    /// Subscribers.
    PubSub,
}

/// One class's bounds; 0 means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLimit {
    /// Bytes beyond which the client is cut off at once.
    pub hard_bytes: u64,
    /// Bytes beyond which it is cut off after `soft_seconds`.
    pub soft_bytes: u64,
    /// See `soft_bytes`.
    pub soft_seconds: u64,
}

/// All settings' values.
pub struct Config {
    numbers: [AtomicI64; COUNT],
    texts: RwLock<Vec<String>>,
    output_limits: [[AtomicI64; 3]; 3],
    file: RwLock<String>,
}

impl Default for Config {
    fn default() -> Self {
        let config = Config {
            numbers: [const { AtomicI64::new(0) }; COUNT],
            texts: RwLock::new(vec![String::new(); COUNT]),
            output_limits: [const { [const { AtomicI64::new(0) }; 3] }; 3],
            file: RwLock::default(),
        };
        for param in TABLE {
            let value = value::parse(param.kind, param.default).expect("defaults are valid");
            config.put(param.id, &value);
        }
        config
    }
}

/// The setting of this name or alias, in any case.
pub fn find(name: &str) -> Option<&'static Param> {
    TABLE.iter().find(|param| {
        param.name.eq_ignore_ascii_case(name)
            || (!param.alias.is_empty() && param.alias.eq_ignore_ascii_case(name))
    })
}

impl Config {
    /// A number, a truth value as 0 or 1, a choice's place, the bits of events.
    pub fn number(&self, id: Id) -> i64 {
        self.numbers[id as usize].load(Relaxed)
    }

    /// A truth value.
    pub fn is_on(&self, id: Id) -> bool {
        self.number(id) != 0
    }

    /// A text.
    pub fn text(&self, id: Id) -> String {
        self.texts.read().expect("no holder panics")[id as usize].clone()
    }

    /// The file that was read; empty when there was none.
    pub fn file(&self) -> String {
        self.file.read().expect("no holder panics").clone()
    }

    /// Notes which file was read.
    pub fn set_file(&self, path: &str) {
        *self.file.write().expect("no holder panics") = path.to_owned();
    }

    /// Compares a text without copying it.
    pub fn text_is(&self, id: Id, other: &[u8]) -> bool {
        let texts = self.texts.read().expect("no holder panics");
        let text = texts[id as usize].as_bytes();
        // In time that depends on the lengths alone.
        let padded = other.iter().chain(std::iter::repeat(&0));
        let differing = text.iter().zip(padded).fold(0, |sum, (a, b)| sum | (a ^ b));
        differing == 0 && text.len() == other.len()
    }

    /// One class's bounds.
    pub fn output_limit(&self, class: ClientClass) -> OutputLimit {
        let [hard, soft, seconds] = &self.output_limits[class as usize];
        OutputLimit {
            hard_bytes: hard.load(Relaxed) as u64,
            soft_bytes: soft.load(Relaxed) as u64,
            soft_seconds: seconds.load(Relaxed) as u64,
        }
    }

    /// As CONFIG GET shows it.
    pub fn show(&self, param: &Param) -> String {
        match param.kind {
            Kind::Bool => if self.is_on(param.id) { "yes" } else { "no" }.to_owned(),
            Kind::Int(..) | Kind::Bytes(..) => self.number(param.id).to_string(),
            Kind::Choice(words) => words[self.number(param.id) as usize].to_owned(),
            Kind::Events => crate::notify::show(self.number(param.id) as u32),
            Kind::OutputLimits => self.show_output_limits(),
            _ => self.text(param.id),
        }
    }

    fn show_output_limits(&self) -> String {
        let class = |name: &str, class: ClientClass| {
            let limit = self.output_limit(class);
            let (hard, soft, seconds) = (limit.hard_bytes, limit.soft_bytes, limit.soft_seconds);
            format!("{name} {hard} {soft} {seconds}")
        };
        [
            class("normal", ClientClass::Normal),
            class("slave", ClientClass::Replica),
            class("pubsub", ClientClass::PubSub),
        ]
        .join(" ")
    }

    /// Takes a value that `value::parse` has checked.
    pub fn put(&self, id: Id, value: &Value) {
        match value {
            Value::Number(number) => self.numbers[id as usize].store(*number, Relaxed),
            Value::Text(text) => {
                self.texts.write().expect("no holder panics")[id as usize].clone_from(text);
            }
            Value::OutputLimits(limits) => {
                for (class, numbers) in limits {
                    for (place, number) in self.output_limits[*class].iter().zip(numbers) {
                        place.store(*number, Relaxed);
                    }
                }
            }
        }
    }

    /// Sets one setting from its text, as at start: immutable ones too.
    ///
    /// # Errors
    /// What is wrong with the text, in words for people.
    pub fn set(&self, param: &Param, text: &str) -> Result<(), String> {
        let value = value::parse(param.kind, text)?;
        self.put(param.id, &value);
        Ok(())
    }
}

/// The settings' reference as a Markdown table.
pub fn docs() -> String {
    let mut text = String::from("| name | default | at run time | |\n|---|---|---|---|\n");
    for param in TABLE {
        let change = if param.is_mutable { "yes" } else { "no" };
        let default = match param.default {
            "" => "(empty)".to_owned(),
            default => format!("`{default}`"),
        };
        let line = format!(
            "| `{}` | {default} | {change} | {} |\n",
            param.name, param.help
        );
        text.push_str(&line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_its_ids_and_its_defaults_are_valid() {
        let config = Config::default();
        for (index, param) in TABLE.iter().enumerate() {
            assert_eq!(param.id as usize, index);
            assert!(find(param.name).is_some_and(|found| found.id == param.id));
            let shown = config.show(param);
            assert_eq!(config.set(param, &shown), Ok(()), "{}", param.name);
            assert_eq!(config.show(param), shown, "{}", param.name);
        }
    }

    #[test]
    fn passwords_compare_whole() {
        let config = Config::default();
        let param = find("requirepass").expect("it exists");
        config.set(param, "secret").expect("any text");
        assert!(config.text_is(Id::RequirePass, b"secret"));
        for wrong in ["", "secre", "secret ", "secret\0", "Secret"] {
            assert!(!config.text_is(Id::RequirePass, wrong.as_bytes()));
        }
    }
}
