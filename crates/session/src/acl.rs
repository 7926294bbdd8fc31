//! Access control: users with passwords, and the commands, keys and channels that they may use.
//!
//! A [`User`] is immutable. A session keeps the user that it is logged in as, together with the
//! number of changes at the time of the look-up, so that a command only compares two numbers and
//! takes no lock. Checking a call against a user's rights is up to `permission.rs`, because
//! it needs the positions of the call's keys.

pub mod catalog;
pub mod file;
pub mod log;
mod selector;
pub mod sha256;
mod user;

pub use selector::{Outlook, READ, RuleError, Selector, ShortPrefix, WRITE};
pub use user::{BadRule, DEFAULT, Rules, User, check_password};

use file::{USERS_MAX, Users};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, RwLock, RwLockReadGuard, RwLockWriteGuard};

static UNRESTRICTED: LazyLock<Arc<User>> = LazyLock::new(|| Arc::new(User::default_with("")));

/// Returns a default user with all rights and no password, for sessions that no server has checked
/// yet.
pub fn unrestricted() -> Arc<User> {
    Arc::clone(&UNRESTRICTED)
}

/// All users, and the log of what they were denied.
pub struct Acl {
    users: RwLock<Users>,
    /// Number of changes of the users, counted from 1.
    version: AtomicU64,
    needs_password: AtomicBool,
    /// The log of denied commands and failed authentications.
    pub log: log::Log,
}

impl Default for Acl {
    fn default() -> Self {
        Acl {
            users: RwLock::new(Users::from([(DEFAULT.to_owned(), unrestricted())])),
            version: AtomicU64::new(1),
            needs_password: AtomicBool::new(false),
            log: log::Log::default(),
        }
    }
}

impl Acl {
    fn users(&self) -> RwLockReadGuard<'_, Users> {
        self.users.read().expect("the lock is not poisoned")
    }

    fn write(&self) -> RwLockWriteGuard<'_, Users> {
        self.users.write().expect("the lock is not poisoned")
    }

    /// Returns the number of changes to the users. A session's knowledge of its user is valid while
    /// this number stays the same.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Relaxed)
    }

    /// Whether a client must authenticate before it may act as the default user.
    #[inline]
    pub fn needs_password(&self) -> bool {
        self.needs_password.load(Relaxed)
    }

    /// Whether a client must authenticate before it has all rights.
    pub fn needs_login(&self) -> bool {
        let default = self.find(DEFAULT).0;
        self.needs_password() || default.is_none_or(|user| !user.is_unrestricted())
    }

    /// Returns a user and the number of changes.
    pub fn find(&self, name: &str) -> (Option<Arc<User>>, u64) {
        let users = self.users();
        (users.get(name).map(Arc::clone), self.version())
    }

    /// Returns all users, ordered by name.
    pub fn all(&self) -> Vec<Arc<User>> {
        self.users().values().map(Arc::clone).collect()
    }

    /// Returns the user with this name if the password is correct.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        let user = self.find(std::str::from_utf8(name).ok()?).0;
        if user.as_ref().is_some_and(|user| user.has_no_password()) {
            return user.filter(|user| user.is_on());
        }
        check_password(password).ok()?;
        // The digest is computed for unknown names, too, so that the time does not reveal them.
        let digest = sha256::sha256(password);
        user.filter(|user| user.accepts(&digest))
    }

    /// Announces a change of the users, which are still locked.
    fn announce(&self, users: &Users) {
        let default = users.get(DEFAULT);
        let is_open = default.is_some_and(|user| user.is_on() && user.has_no_password());
        self.needs_password.store(!is_open, Relaxed);
        self.version.fetch_add(1, Relaxed);
    }

    /// Sets the password of the default user; an empty one removes it.
    pub fn set_default_password(&self, password: &str) {
        let mut users = self.write();
        let mut user = match users.get(DEFAULT) {
            Some(user) => User::clone(user),
            None => User::default_with(password),
        };
        user.set_password(password);
        users.insert(DEFAULT.to_owned(), Arc::new(user));
        self.announce(&users);
    }

    /// Changes or creates a user by the rules of ACL SETUSER. Applies all of them, or none if one
    /// is invalid.
    ///
    /// # Errors
    /// A rule is invalid (the first such rule is returned), or there are too many users.
    pub fn set(&self, name: &str, words: &[&[u8]], rules: Rules<'_>) -> Result<(), String> {
        let mut users = self.write();
        let mut user = match users.get(name) {
            Some(user) => User::clone(user),
            None if users.len() >= USERS_MAX => return Err(format!("more than {USERS_MAX} users")),
            None => User::new(name, rules.has_all_channels),
        };
        user.apply_all(words, rules).map_err(|bad| bad.text())?;
        users.insert(name.to_owned(), Arc::new(user));
        self.announce(&users);
        Ok(())
    }

    /// Removes a user. Returns whether it existed.
    pub fn remove(&self, name: &str) -> bool {
        let mut users = self.write();
        let is_removed = users.remove(name).is_some();
        if is_removed {
            self.announce(&users);
        }
        is_removed
    }

    /// Replaces all users. The default user is among them.
    pub fn replace(&self, all: Users) {
        assert!(all.contains_key(DEFAULT));
        let mut users = self.write();
        *users = all;
        self.announce(&users);
    }
}
