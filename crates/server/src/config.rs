//! Settings: their current values, the parsers of their texts, and updates of several at once by
//! CONFIG SET.
//!
//! `table` defines the settings. `file` reads them from a configuration file or a command line.
//! Numbers are atomics, because every worker may read them for each command.

pub mod events;
pub mod file;
pub mod table;
pub mod value;
pub mod words;

pub use table::{COUNT, Id, Kind, Param, TABLE};
pub use value::{Value, bytes_for_people};

use std::sync::RwLock;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Client classes with separate output buffer limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientClass {
    /// Clients of no other class.
    Normal,
    /// Replicas. There are none here; the class exists because the setting names it.
    Replica,
    /// Clients subscribed to channels or patterns.
    PubSub,
}

/// Output buffer limits of one client class. 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLimit {
    /// Number of pending bytes at which the client is disconnected at once.
    pub hard_bytes: u64,
    /// Number of pending bytes at which the client is disconnected after `soft_seconds`.
    pub soft_bytes: u64,
    /// Seconds that the output may exceed `soft_bytes`.
    pub soft_seconds: u64,
}

/// A line of the configuration that defines a user: its place, and its words.
pub type UserLine = (String, Vec<String>);

/// Current values of all settings.
pub struct Config {
    numbers: [AtomicI64; COUNT],
    texts: RwLock<Vec<String>>,
    output_limits: [[AtomicI64; 3]; 3],
    file: RwLock<String>,
    user_lines: RwLock<Vec<UserLine>>,
}

impl Default for Config {
    fn default() -> Self {
        let config = Config {
            numbers: [const { AtomicI64::new(0) }; COUNT],
            texts: RwLock::new(vec![String::new(); COUNT]),
            output_limits: [const { [const { AtomicI64::new(0) }; 3] }; 3],
            file: RwLock::default(),
            user_lines: RwLock::default(),
        };
        for param in TABLE {
            let value = value::parse(param.kind, param.default).expect("defaults are valid");
            config.put(param.id, &value);
        }
        config
    }
}

/// Returns the setting with this name or alias. Case is ignored.
pub fn find(name: &str) -> Option<&'static Param> {
    TABLE.iter().find(|param| {
        param.name.eq_ignore_ascii_case(name)
            || (!param.alias.is_empty() && param.alias.eq_ignore_ascii_case(name))
    })
}

impl Config {
    /// Returns a numeric value: a boolean as 0 or 1, a choice as its index, events as bits.
    pub fn number(&self, id: Id) -> i64 {
        self.numbers[id as usize].load(Relaxed)
    }

    /// Returns the value of a boolean setting.
    pub fn is_on(&self, id: Id) -> bool {
        self.number(id) != 0
    }

    /// Returns a copy of the value of a text setting.
    pub fn text(&self, id: Id) -> String {
        self.texts.read().expect("the lock is not poisoned")[id as usize].clone()
    }

    /// Returns the path of the configuration file; empty if none was read.
    pub fn file(&self) -> String {
        self.file.read().expect("the lock is not poisoned").clone()
    }

    /// Records the path of the configuration file.
    pub fn set_file(&self, path: &str) {
        *self.file.write().expect("the lock is not poisoned") = path.to_owned();
    }

    /// Returns the lines that define users.
    pub fn user_lines(&self) -> Vec<UserLine> {
        let lines = self.user_lines.read().expect("the lock is not poisoned");
        lines.clone()
    }

    /// Adds a line that defines a user.
    pub fn add_user_line(&self, line: UserLine) {
        let mut lines = self.user_lines.write().expect("the lock is not poisoned");
        lines.push(line);
    }

    /// Returns the output buffer limits of a client class.
    pub fn output_limit(&self, class: ClientClass) -> OutputLimit {
        let [hard, soft, seconds] = &self.output_limits[class as usize];
        OutputLimit {
            hard_bytes: hard.load(Relaxed) as u64,
            soft_bytes: soft.load(Relaxed) as u64,
            soft_seconds: seconds.load(Relaxed) as u64,
        }
    }

    /// Returns the number of pending output bytes beyond which a client of this class is
    /// disconnected at once.
    pub fn output_max(&self, class: ClientClass) -> usize {
        match self.output_limit(class).hard_bytes {
            0 => usize::MAX,
            hard => hard as usize,
        }
    }

    /// Formats the value as CONFIG GET shows it.
    pub fn show(&self, param: &Param) -> String {
        match param.kind {
            Kind::Bool => if self.is_on(param.id) { "yes" } else { "no" }.to_owned(),
            Kind::Int(..) | Kind::Bytes(..) => self.number(param.id).to_string(),
            Kind::BytesOrPercent => match self.number(param.id) {
                percent @ ..0 => format!("{}%", percent.unsigned_abs()),
                bytes => bytes.to_string(),
            },
            Kind::Choice(words) => words[self.number(param.id) as usize].to_owned(),
            Kind::Events => events::show(self.number(param.id) as u32),
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

    /// Stores a value that `value::parse` has checked.
    pub fn put(&self, id: Id, value: &Value) {
        match value {
            Value::Number(number) => self.numbers[id as usize].store(*number, Relaxed),
            Value::Text(text) => {
                self.texts.write().expect("the lock is not poisoned")[id as usize].clone_from(text);
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

    /// Parses and stores a value. Used at startup, therefore immutable settings are accepted too.
    ///
    /// # Errors
    /// A message for the user that says what is wrong with the text.
    pub fn set(&self, param: &Param, text: &str) -> Result<(), String> {
        let value = value::parse(param.kind, text)?;
        self.put(param.id, &value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_are_in_the_order_of_their_ids_and_their_defaults_are_valid() {
        let config = Config::default();
        for (index, param) in TABLE.iter().enumerate() {
            assert_eq!(param.id as usize, index);
            assert!(find(param.name).is_some_and(|found| found.id == param.id));
            let shown = config.show(param);
            assert_eq!(config.set(param, &shown), Ok(()), "{}", param.name);
            assert_eq!(config.show(param), shown, "{}", param.name);
        }
    }
}
