//! TLS between nodes, with certificates on both sides.

use crate::config::{Invalid, Security};
use ::membership::pem;
use std::fmt::Display;
use std::sync::Arc;
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

/// Creates the acceptor for connections of other nodes; `None` for connections without TLS.
///
/// # Errors
/// Returns an error if a file cannot be read or the key does not match the certificate.
pub fn acceptor(security: &Security) -> Result<Option<TlsAcceptor>, Invalid> {
    let Security::Tls {
        authorities,
        certificate,
        key,
    } = security
    else {
        return Ok(None);
    };
    let roots = Arc::new(pem::authorities(authorities)?);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
        .build()
        .map_err(invalid)?;
    let mut server = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(invalid)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(pem::certificates(certificate)?, pem::key(key)?)
        .map_err(invalid)?;
    server.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(server))))
}

/// Creates the connector for connections to other nodes; `None` for connections without TLS.
///
/// # Errors
/// Returns an error if a file cannot be read or the key does not match the certificate.
pub fn connector(security: &Security) -> Result<Option<TlsConnector>, Invalid> {
    let Security::Tls {
        authorities,
        certificate,
        key,
    } = security
    else {
        return Ok(None);
    };
    let mut client = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(invalid)?
        .with_root_certificates(pem::authorities(authorities)?)
        .with_client_auth_cert(pem::certificates(certificate)?, pem::key(key)?)
        .map_err(invalid)?;
    client.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Some(TlsConnector::from(Arc::new(client))))
}
