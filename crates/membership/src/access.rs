//! Access to etcd: endpoints, certificates, user and prefix.

use crate::Invalid;
use hyper::Uri;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum number of endpoints.
const ENDPOINTS_MAX: usize = 16;

/// Default of [`Access::request_time`].
const REQUEST_TIME: Duration = Duration::from_secs(3);

/// Access of a node to etcd, and the place of its values there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// Scheme and authority of each endpoint.
    pub endpoints: Vec<Uri>,
    /// Prefix of the names of all values, which ends with `/`.
    pub prefix: String,
    /// File with the certificates of the authorities that sign the endpoints' certificates, in PEM;
    /// `None` for the system's authorities.
    pub authorities: Option<PathBuf>,
    /// Files with the certificate chain of this node for etcd and its private key, in PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// User name, and the file with the password.
    pub user: Option<(String, PathBuf)>,
    /// Time limit for a request, including the connection.
    pub request_time: Duration,
}

impl Access {
    /// Creates access without endpoints. The prefix should end with `/`, which is added otherwise.
    pub fn new(prefix: &str) -> Access {
        Access {
            endpoints: vec![],
            prefix: format!("{}/", prefix.trim_end_matches('/')),
            authorities: None,
            certificate: None,
            user: None,
            request_time: REQUEST_TIME,
        }
    }

    /// Adds an endpoint such as `http://127.0.0.1:2379`.
    ///
    /// # Errors
    /// Returns a description of what was expected.
    pub fn add_endpoint(&mut self, text: &str) -> Result<(), String> {
        self.endpoints.push(endpoint(text)?);
        Ok(())
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// Returns the first invalid setting.
    pub fn check(&self) -> Result<(), Invalid> {
        let invalid = |text: String| Err(Invalid(format!("etcd: {text}")));
        let count = self.endpoints.len();
        if count == 0 || count > ENDPOINTS_MAX {
            return invalid(format!("{count} endpoints: expected 1 to {ENDPOINTS_MAX}"));
        }
        if self.prefix.len() < 2 || !self.prefix.is_ascii() {
            return invalid(format!("prefix '{}': expected ASCII", self.prefix));
        }
        Ok(())
    }
}

fn endpoint(text: &str) -> Result<Uri, String> {
    let invalid = || format!("'{text}': expected http://HOST:PORT or https://HOST:PORT");
    let url: Uri = text.parse().map_err(|_| invalid())?;
    let is_scheme_known = matches!(url.scheme_str(), Some("http" | "https"));
    let has_path = url.path() != "/" || url.query().is_some();
    if !is_scheme_known || url.authority().is_none() || has_path {
        return Err(invalid());
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_urls_without_a_path() {
        let mut access = Access::new("/a");
        assert_eq!(access.prefix, "/a/");
        for text in ["http://127.0.0.1:2379", "https://etcd-2:2379/"] {
            access.add_endpoint(text).expect(text);
        }
        assert_eq!(access.check(), Ok(()));
        for text in [
            "",
            "127.0.0.1:2379",
            "ftp://a:1",
            "http://a:1/v3",
            "http://a:1/?x",
        ] {
            let error = access.add_endpoint(text).expect_err(text);
            assert!(error.contains("expected http://HOST:PORT"), "{error}");
        }
        for _ in 0..ENDPOINTS_MAX {
            access.add_endpoint("http://a:1").expect("it is valid");
        }
        assert!(access.check().is_err(), "there are too many");
        assert!(Access::new("/a").check().is_err(), "there is none");
        access.endpoints.truncate(1);
        access.prefix = "/ä/".into();
        assert!(access.check().is_err(), "it is not ASCII");
    }
}
