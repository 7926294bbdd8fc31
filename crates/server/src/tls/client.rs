//! Client's side of TLS, for `mayfly ping`.

use super::{certificates, private_key};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    AlertDescription as Alert, ClientConfig, ClientConnection, DigitallySignedStruct, Error,
    RootCertStore, SignatureScheme, StreamOwned,
};
use settings::words::NO_AUTHENTICATION;
use settings::{Config, Id, files};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A TLS connection to a server whose handshake is complete.
pub struct Connected<S: Read + Write> {
    /// The connection.
    pub stream: StreamOwned<ClientConnection, S>,
    /// Whether the server has proved to be the expected one.
    pub is_expected: bool,
}

/// Reason why there is no connection.
#[derive(Debug)]
pub enum Refusal {
    /// The server refuses this client's certificate, or requires one.
    OfClient(Alert),
    /// Another reason. The message is meant for users.
    Other(String),
}

/// Makes a handshake with a server on `stream`. With `authority`, the server must have a
/// certificate for `host` from an authority in this file. Without it, the server's certificate is
/// compared with the one in the settings. The client's own certificate comes from the settings, if
/// they require one.
///
/// # Errors
/// A file cannot be read, the server is not the expected one, or it refuses the handshake.
pub fn connect<S: Read + Write>(
    mut stream: S,
    host: &str,
    config: &Config,
    authority: Option<&Path>,
) -> Result<Connected<S>, Refusal> {
    let provider = Arc::new(default_provider());
    let expected = Arc::new(Expected {
        certificate: own_certificate(config),
        provider: Arc::clone(&provider),
        is_met: AtomicBool::new(authority.is_some()),
    });
    let other = |error: Error| Refusal::Other(error.to_string());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(other)?;
    let builder = match authority {
        Some(path) => builder.with_root_certificates(roots(path).map_err(Refusal::Other)?),
        None => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&expected) as _),
    };
    let made = match config.number(Id::TlsAuthClients) {
        NO_AUTHENTICATION => builder.with_no_client_auth(),
        _ => {
            let (chain, key) = identity(config).map_err(Refusal::Other)?;
            builder.with_client_auth_cert(chain, key).map_err(other)?
        }
    };
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|error| Refusal::Other(format!("{host}: {error}")))?;
    let mut connection = ClientConnection::new(Arc::new(made), name).map_err(other)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).map_err(refusal)?;
    }
    Ok(Connected {
        stream: StreamOwned::new(connection, stream),
        is_expected: expected.is_met.load(Relaxed),
    })
}

/// Returns the reason in an error of a connection by TLS.
pub fn refusal(error: io::Error) -> Refusal {
    let inner = error.get_ref().and_then(|error| error.downcast_ref());
    match inner {
        Some(Error::AlertReceived(
            alert @ (Alert::CertificateRequired
            | Alert::BadCertificate
            | Alert::UnknownCA
            | Alert::CertificateUnknown
            | Alert::CertificateExpired
            | Alert::UnsupportedCertificate
            | Alert::AccessDenied
            | Alert::DecryptError),
        )) => Refusal::OfClient(*alert),
        _ => Refusal::Other(error.to_string()),
    }
}

/// Returns the authorities in a file.
fn roots(path: &Path) -> Result<RootCertStore, String> {
    let failed = |why: String| format!("{}: {why}", path.display());
    let bytes = files::read(path, super::FILE_BYTES_MAX).map_err(failed)?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let certificate = certificate.map_err(|error| failed(error.to_string()))?;
        let added = roots.add(certificate);
        added.map_err(|error| failed(error.to_string()))?;
    }
    match roots.is_empty() {
        true => Err(failed("no certificate in PEM".to_owned())),
        false => Ok(roots),
    }
}

/// Returns the server's own certificate, if its file can be read.
fn own_certificate(config: &Config) -> Option<CertificateDer<'static>> {
    let chain = certificates(config, Id::TlsCertFile).ok()?;
    chain.into_iter().next()
}

/// Returns the certificate and the key of the settings.
fn identity(
    config: &Config,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    Ok((certificates(config, Id::TlsCertFile)?, private_key(config)?))
}

/// Accepts any certificate whose key the server has, and records whether it is the expected one.
#[derive(Debug)]
struct Expected {
    certificate: Option<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
    is_met: AtomicBool,
}

impl ServerCertVerifier for Expected {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let is_met = self.certificate.as_ref() == Some(end_entity);
        self.is_met.store(is_met, Relaxed);
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
