//! Settings: their current values, parsers for their texts, and updates of several at once by
//! CONFIG SET.
//!
//! `table` defines the settings. `load` reads them from a file, the environment and the command
//! line. Numbers are atomics, because every worker may read them for each command.
#![forbid(unsafe_code)]

pub mod classes;
pub mod events;
pub mod file;
pub mod files;
pub mod load;
pub mod points;
pub mod process;
pub mod random;
pub mod rewrite;
pub mod table;
pub mod temporary;
pub mod value;
pub mod version;
pub mod words;

pub use table::{COUNT, Effect, Id, Kind, Param, TABLE};
pub use value::{Value, bytes_for_people};

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, RwLock};

/// Client classes with separate output buffer limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientClass {
    /// All other clients.
    Normal,
    /// Replicas that follow this server.
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
    /// Number of seconds that the output may exceed `soft_bytes`.
    pub soft_seconds: u64,
}

/// Minimum of [`Config::output_max`]. With a lower limit, the reply to any command would disconnect
/// the client, including the command that could raise the limit.
const HARD_BYTES_MIN: u64 = 16 << 10;

/// Least limit of the memory of all clients. With less, no client could connect to raise it.
const CLIENT_BYTES_MIN: u64 = 128 << 10;

/// A configuration line that defines a user: its place and its words.
pub type UserLine = (String, Vec<String>);

/// Current values of all settings.
pub struct Config {
    /// Memory in bytes that the container or machine grants this process; 0 if unknown.
    memory_limit: AtomicU64,
    /// Pairs of a command's name and its new name. An empty new name removes the command.
    renames: RwLock<Vec<(String, String)>>,
    numbers: [AtomicI64; COUNT],
    texts: RwLock<Vec<String>>,
    output_limits: [[AtomicI64; 3]; 3],
    file: RwLock<String>,
    outside_secrets: RwLock<Vec<(Id, String)>>,
    user_lines: RwLock<Vec<UserLine>>,
    change: Mutex<()>,
}

impl Default for Config {
    fn default() -> Self {
        let config = Config {
            memory_limit: AtomicU64::new(process::memory_limit()),
            renames: RwLock::default(),
            numbers: [const { AtomicI64::new(0) }; COUNT],
            texts: RwLock::new(vec![String::new(); COUNT]),
            output_limits: [const { [const { AtomicI64::new(0) }; 3] }; 3],
            file: RwLock::default(),
            outside_secrets: RwLock::default(),
            user_lines: RwLock::default(),
            change: Mutex::default(),
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

/// Returns this percentage of a number of bytes.
fn share(bytes: u64, percent: u64) -> u64 {
    (u128::from(bytes) * u128::from(percent) / 100) as u64
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

    /// Returns the path of the file named by a setting; empty if it names none. As in Redis, a
    /// relative path is relative to `dir`.
    pub fn path(&self, id: Id) -> String {
        let (path, dir) = (self.text(id), self.text(Id::Dir));
        match path.is_empty() || dir == "." {
            true => path,
            false => Path::new(&dir).join(path).to_string_lossy().into_owned(),
        }
    }

    /// Returns the file from which a server with these settings loads its keys: the append-only
    /// file or the snapshot file.
    pub fn keys_path(&self) -> PathBuf {
        let name = match self.is_on(Id::AppendOnly) {
            true => Path::new(&self.text(Id::AppendDirName)).join(self.text(Id::AppendFileName)),
            false => self.text(Id::DbFilename).into(),
        };
        let path = Path::new(&self.text(Id::Dir)).join(name);
        std::path::absolute(&path).unwrap_or(path)
    }

    /// Returns `maxmemory` in bytes; 0 means no limit.
    pub fn maxmemory_bytes(&self) -> u64 {
        match self.number(Id::MaxMemory) {
            percent @ ..0 => share(self.memory_limit(), percent.unsigned_abs()),
            bytes => bytes as u64,
        }
    }

    /// Returns the maximum number of bytes that all clients may hold together.
    pub fn client_bytes_max(&self) -> Option<u64> {
        let limit = match self.number(Id::MaxMemoryClients) {
            percent @ ..0 => {
                let max = self.maxmemory_bytes() as f64;
                (max * percent.unsigned_abs() as f64 / 100.0) as u64
            }
            bytes => bytes as u64,
        };
        (limit > 0).then_some(limit.max(CLIENT_BYTES_MIN))
    }

    /// Locks the settings for the update of several together. Updates of one setting need no lock.
    ///
    /// # Panics
    ///
    /// A thread has panicked during an update.
    pub fn begin_change(&self) -> MutexGuard<'_, ()> {
        self.change.lock().expect("the lock is not poisoned")
    }

    /// Returns the memory in bytes that the container or machine grants this process.
    pub fn memory_limit(&self) -> u64 {
        self.memory_limit.load(Relaxed)
    }

    /// Records the memory granted by the container or machine. Returns whether this changed
    /// `maxmemory`.
    pub fn set_memory_limit(&self, bytes: u64) -> bool {
        let before = self.memory_limit.swap(bytes, Relaxed);
        before != bytes && self.number(Id::MaxMemory) < 0
    }

    /// Renames a command, given the two words of `rename-command`.
    ///
    /// # Errors
    /// The number of words is not two.
    pub fn rename(&self, words: &str) -> Result<(), String> {
        let (name, new) = words
            .split_once(' ')
            .ok_or("rename-command: expected a command and its new name, or \"\" to remove it")?;
        if new.contains(' ') {
            return Err(format!("rename-command {name}: expected one new name"));
        }
        let mut renames = self.renames.write().expect("the lock is not poisoned");
        renames.push((name.to_ascii_lowercase(), new.to_ascii_lowercase()));
        Ok(())
    }

    /// Returns the renamed commands with their new names.
    pub fn renames(&self) -> Vec<(String, String)> {
        self.renames
            .read()
            .expect("the lock is not poisoned")
            .clone()
    }

    /// Returns the path of the configuration file; empty if none was read.
    pub fn file(&self) -> String {
        self.file.read().expect("the lock is not poisoned").clone()
    }

    /// Records the path of the configuration file.
    pub fn set_file(&self, path: &str) {
        *self.file.write().expect("the lock is not poisoned") = path.to_owned();
    }

    /// Marks the current value of a setting as a secret that came from an environment variable or a
    /// separate file.
    pub fn mark_outside(&self, id: Id) {
        let value = self.text(id);
        let mut secrets = self
            .outside_secrets
            .write()
            .expect("the lock is not poisoned");
        secrets.retain(|(other, _)| *other != id);
        secrets.push((id, value));
    }

    /// Whether a setting's current value is a secret from outside of the configuration file, which
    /// CONFIG REWRITE must not write.
    pub fn is_outside(&self, id: Id) -> bool {
        let secrets = self
            .outside_secrets
            .read()
            .expect("the lock is not poisoned");
        let mut secrets = secrets.iter();
        secrets.any(|(other, value)| *other == id && *value == self.text(id))
    }

    /// Whether the server answers clients of a cluster.
    pub fn is_cluster(&self) -> bool {
        self.number(Id::ClusterEnabled) != words::NO_CLUSTER
    }

    /// Whether the server is one of several servers of a cluster.
    pub fn is_routed(&self) -> bool {
        self.number(Id::ClusterEnabled) == words::ROUTED_CLUSTER
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
            hard => hard.max(HARD_BYTES_MIN) as usize,
        }
    }

    /// Formats the value like CONFIG GET.
    pub fn show(&self, param: &Param) -> String {
        match param.kind {
            Kind::Bool => if self.is_on(param.id) { "yes" } else { "no" }.to_owned(),
            Kind::Int(..) | Kind::Bytes(..) => self.number(param.id).to_string(),
            Kind::BytesOrPercent => match self.number(param.id) {
                percent @ ..0 => format!("{}%", percent.unsigned_abs()),
                bytes => bytes.to_string(),
            },
            Kind::Permissions => format!("{:o}", self.number(param.id)),
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

    /// Stores a value that `value::parse` has validated.
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

    /// Parses and stores a value. Because it is used at startup, it also accepts immutable
    /// settings.
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
    fn a_small_hard_limit_of_output_does_not_disconnect_every_client() {
        let config = Config::default();
        let param = find("client-output-buffer-limit").expect("a setting");
        for (text, expected) in [("normal 1 1 1", 16 << 10), ("normal 20000 1 1", 20_000)] {
            config.set(param, text).expect("valid limits");
            assert_eq!(config.output_max(ClientClass::Normal), expected, "{text}");
        }
    }

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

    #[test]
    fn the_help_of_a_setting_says_that_it_has_no_effect_exactly_if_its_row_does() {
        for param in TABLE {
            let says_so = param.help.starts_with("Without effect");
            assert_eq!(
                param.effect == Effect::Nothing,
                says_so,
                "{}: change its effect or its help in table.rs",
                param.name
            );
        }
    }

    /// Regression: Redis changes its working directory to `dir`, so a configuration with a relative
    /// `aclfile` did not start here.
    #[test]
    fn a_relative_path_begins_in_dir() {
        let config = Config::default();
        let set = |name, text| {
            let param = find(name).expect("a setting");
            config.set(param, text).expect("a valid value");
        };
        assert_eq!(config.path(Id::AclFile), "");
        set("aclfile", "users.acl");
        assert_eq!(config.path(Id::AclFile), "users.acl");
        set("dir", "/data");
        assert_eq!(config.path(Id::AclFile), "/data/users.acl");
        set("aclfile", "/etc/users.acl");
        assert_eq!(config.path(Id::AclFile), "/etc/users.acl");
        assert_eq!(config.path(Id::LogFile), "");
    }

    #[test]
    fn a_share_of_the_memory_follows_the_limit() {
        let config = Config::default();
        let param = find("maxmemory").expect("the setting exists");
        assert!(!config.set_memory_limit(1 << 30));
        config.set(param, "80%").expect("a share");
        assert_eq!(config.maxmemory_bytes(), (1 << 30) * 80 / 100);
        assert_eq!(config.show(param), "80%");
        assert!(config.set_memory_limit(2 << 30));
        assert!(!config.set_memory_limit(2 << 30));
        assert_eq!(config.maxmemory_bytes(), (2 << 30) * 80 / 100);
        config.set(param, "5mb").expect("bytes");
        assert!(!config.set_memory_limit(1 << 30));
        assert_eq!(config.maxmemory_bytes(), 5 << 20);
    }
}
