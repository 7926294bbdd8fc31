//! TLS between nodes, with certificates on both sides.

use crate::config::{Invalid, Security};
use ::membership::pem;
use std::fmt::Display;
use std::sync::{Arc, RwLock};
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ClientConfig, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn invalid(error: impl Display) -> Invalid {
    Invalid(format!("TLS between nodes: {error}"))
}

/// Certificate of a node and the authorities that it trusts, for connections with other nodes. They
/// can be read again while the node serves.
pub struct Credentials {
    security: Security,
    /// Both directions of a connection; `None` without TLS.
    current: RwLock<Option<(TlsAcceptor, TlsConnector)>>,
}

impl Credentials {
    /// Reads the certificates.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or the key does not match the certificate.
    pub fn new(security: &Security) -> Result<Self, Invalid> {
        Ok(Credentials {
            current: RwLock::new(read(security)?),
            security: security.clone(),
        })
    }

    /// Reloads the certificates for new connections. Returns false without TLS.
    ///
    /// # Errors
    /// Returns an error if they cannot be used. The previous ones then stay in use.
    pub fn reload(&self) -> Result<bool, Invalid> {
        let new = read(&self.security)?;
        let has_tls = new.is_some();
        let current = self.current.write();
        *current.unwrap_or_else(|poison| poison.into_inner()) = new;
        Ok(has_tls)
    }

    /// Returns the acceptor for connections of other nodes; `None` without TLS.
    pub fn acceptor(&self) -> Option<TlsAcceptor> {
        let current = self.current.read();
        let current = current.unwrap_or_else(|poison| poison.into_inner());
        current.as_ref().map(|(acceptor, _)| acceptor.clone())
    }

    /// Returns the connector for connections to other nodes; `None` without TLS.
    pub fn connector(&self) -> Option<TlsConnector> {
        let current = self.current.read();
        let current = current.unwrap_or_else(|poison| poison.into_inner());
        current.as_ref().map(|(_, connector)| connector.clone())
    }
}

fn read(security: &Security) -> Result<Option<(TlsAcceptor, TlsConnector)>, Invalid> {
    let Security::Tls {
        authorities,
        certificate,
        key,
    } = security
    else {
        return Ok(None);
    };
    let roots = Arc::new(pem::authorities(authorities)?);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider())
        .build()
        .map_err(invalid)?;
    let mut server = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(invalid)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(pem::certificates(certificate)?, pem::key(key)?)
        .map_err(invalid)?;
    server.alpn_protocols = vec![b"h2".to_vec()];
    let mut client = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(invalid)?
        .with_root_certificates(roots)
        .with_client_auth_cert(pem::certificates(certificate)?, pem::key(key)?)
        .map_err(invalid)?;
    client.alpn_protocols = vec![b"h2".to_vec()];
    let (server, client) = (Arc::new(server), Arc::new(client));
    Ok(Some((
        TlsAcceptor::from(server),
        TlsConnector::from(client),
    )))
}
