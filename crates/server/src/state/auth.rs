//! Users, and failed attempts to authenticate.

use session::acl::Acl;
use session::logins::Logins;
use settings::{Config, Id};

/// Users, and failed attempts to authenticate.
#[derive(Default)]
pub struct Auth {
    /// Users and their rights.
    pub acl: Acl,
    /// Failed authentications by address.
    pub logins: Logins,
}

impl Auth {
    /// Makes `requirepass` the password of the default user.
    pub fn apply_password(&self, config: &Config) {
        self.acl.set_default_password(&config.text(Id::RequirePass));
    }

    /// Whether clients must authenticate before they may act as the default user.
    pub fn needs_password(&self) -> bool {
        self.acl.needs_password()
    }
}
