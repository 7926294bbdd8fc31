//! Reading of certificates and private keys from PEM files.

use crate::Invalid;
use std::fmt::Display;
use std::path::Path;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

fn unreadable(path: &Path, error: impl Display) -> Invalid {
    Invalid(format!("{}: expected PEM: {error}", path.display()))
}

/// Reads all certificates of a file.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Invalid> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(path, error))
}

/// Reads a key.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub fn key(path: &Path) -> Result<PrivateKeyDer<'static>, Invalid> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unreadable(path, error))
}

/// Reads the certificates of authorities.
///
/// # Errors
/// Returns an error if the file cannot be read, or has none.
pub fn authorities(path: &Path) -> Result<RootCertStore, Invalid> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots
            .add(certificate)
            .map_err(|error| unreadable(path, error))?;
    }
    if roots.is_empty() {
        return Err(unreadable(path, "no certificate"));
    }
    Ok(roots)
}
