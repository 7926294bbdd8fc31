//! TLS settings: the certificate, its key, the accepted clients, versions, ciphers and groups.
//!
//! They are read from files when the server starts, by CONFIG SET of any of them, on SIGHUP, and
//! when one of the files has changed ([`watch`]). If they cannot be used, the previous ones stay in
//! force. Connections keep those they began with.

pub mod client;
pub mod watch;

use rustls::crypto::aws_lc_rs::{Ticketer, cipher_suite as suites, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, UnbufferedServerConnection, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion,
};
use settings::words::{NO_AUTHENTICATION, OPTIONAL_AUTHENTICATION};
use settings::{Config, Id, TABLE, files};
use std::path::Path;
use std::sync::{Arc, Mutex, RwLock};

/// Maximum size of a file with certificates or a key, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Maximum length of a client certificate's name that is recorded.
const NAME_BYTES_MAX: usize = 128;

/// Maximum number of DNS names of a client's certificate that are compared with names of users.
const DNS_NAMES_MAX: usize = 16;

/// Cipher suites of TLS 1.2 by their names in OpenSSL, in the default order.
const CIPHERS: &[(&str, SupportedCipherSuite)] = &[
    (
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        suites::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        suites::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        suites::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "ECDHE-RSA-AES256-GCM-SHA384",
        suites::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "ECDHE-RSA-AES128-GCM-SHA256",
        suites::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "ECDHE-RSA-CHACHA20-POLY1305",
        suites::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// Cipher suites of TLS 1.3 by their names, in the default order.
const CIPHERSUITES: &[(&str, SupportedCipherSuite)] = &[
    ("TLS_AES_256_GCM_SHA384", suites::TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", suites::TLS13_AES_128_GCM_SHA256),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        suites::TLS13_CHACHA20_POLY1305_SHA256,
    ),
];

/// Groups of the key exchange by their names in TLS, in the default order.
const GROUPS: &[(&str, &dyn SupportedKxGroup)] = &[
    ("X25519MLKEM768", kx_group::X25519MLKEM768),
    ("X25519", kx_group::X25519),
    ("secp256r1", kx_group::SECP256R1),
    ("secp384r1", kx_group::SECP384R1),
    ("SecP256r1MLKEM768", kx_group::SECP256R1MLKEM768),
];

/// Settings that choose among what the library supports, for messages about their combination.
const CHOICES: &str = "tls-protocols, tls-ciphers, tls-ciphersuites, tls-groups";

/// Versions by their names.
const PROTOCOLS: &[(&str, &SupportedProtocolVersion)] = &[("TLSv1.3", &TLS13), ("TLSv1.2", &TLS12)];

/// TLS settings in force.
#[derive(Default)]
pub struct Tls {
    config: RwLock<Option<Arc<ServerConfig>>>,
    /// State of the files from which they were read.
    state: Mutex<Option<watch::State>>,
}

impl Tls {
    /// Reads the settings, if a port uses TLS. If it fails, the previous ones stay in force.
    ///
    /// # Errors
    /// The setting that cannot be used, and why. The message is meant for users.
    pub fn load(&self, config: &Config) -> Result<(), String> {
        if is_used(config) {
            let state = watch::State::of(config);
            let loaded = Arc::new(read(config)?);
            *self.state.lock().expect("the lock is not poisoned") = Some(state);
            *self.config.write().expect("the lock is not poisoned") = Some(loaded);
        }
        Ok(())
    }

    /// Whether the files were read last in this state.
    fn has_read(&self, state: &watch::State) -> bool {
        let read = self.state.lock().expect("the lock is not poisoned");
        read.as_ref() == Some(state)
    }

    /// Reads the settings again on a signal, and logs the result.
    pub fn reload(&self, config: &Config) {
        if is_used(config) {
            match self.load(config) {
                Ok(()) => log::info!("SIGHUP: TLS certificates were read again"),
                Err(why) => log::warn!("SIGHUP: the previous TLS certificates stay in use: {why}"),
            }
        }
    }

    /// Returns the server's side of a new connection.
    pub fn begin(&self) -> Option<UnbufferedServerConnection> {
        let config = self.config.read().expect("the lock is not poisoned");
        UnbufferedServerConnection::new(Arc::clone(config.as_ref()?)).ok()
    }
}

/// Whether a port uses TLS.
pub fn is_used(config: &Config) -> bool {
    config.number(Id::TlsPort) != 0 || config.number(Id::TlsMemcached) != 0
}

fn read(config: &Config) -> Result<ServerConfig, String> {
    let chain = certificates(config, Id::TlsCertFile)?;
    let key = private_key(config)?;
    let (provider, versions) = algorithms(config)?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .map_err(|error| format!("{CHOICES}: {error}"))?;
    let authentication = config.number(Id::TlsAuthClients);
    let builder = if authentication == NO_AUTHENTICATION {
        builder.with_no_client_auth()
    } else {
        let roots = roots(config)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = match authentication {
            OPTIONAL_AUTHENTICATION => verifier.allow_unauthenticated(),
            _ => verifier,
        };
        let verifier = verifier.build();
        builder.with_client_cert_verifier(
            verifier.map_err(|error| format!("tls-ca-cert-file: {error}"))?,
        )
    };
    let mut made = builder
        .with_single_cert(chain, key)
        .map_err(|error| format!("tls-cert-file and tls-key-file: {error}"))?;
    // Sessions are resumed by tickets, so that the server stores none. Tickets of previous settings
    // are not accepted, because other clients may have been trusted then.
    made.session_storage = Arc::new(NoServerSessionStorage {});
    made.ticketer = Ticketer::new().map_err(|error| error.to_string())?;
    made.send_tls13_tickets = 1;
    made.ignore_client_order = config.is_on(Id::TlsPreferServerCiphers);
    Ok(made)
}

/// Returns the ciphers, the groups and the versions that the settings choose.
fn algorithms(
    config: &Config,
) -> Result<(Arc<CryptoProvider>, Vec<&'static SupportedProtocolVersion>), String> {
    let mut provider = default_provider();
    provider.cipher_suites = [
        chosen(config, Id::TlsCiphersuites, CIPHERSUITES)?,
        chosen(config, Id::TlsCiphers, CIPHERS)?,
    ]
    .concat();
    provider.kx_groups = chosen(config, Id::TlsGroups, GROUPS)?;
    let versions = chosen(config, Id::TlsProtocols, PROTOCOLS)?;
    Ok((Arc::new(provider), versions))
}

/// Returns the authorities that `tls-ca-cert-file` names.
fn roots(config: &Config) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(config, Id::TlsCaCertFile)? {
        let added = roots.add(certificate);
        added.map_err(|error| format!("tls-ca-cert-file: {error}"))?;
    }
    Ok(roots)
}

/// Returns the settings for a connection to a primary: like those of the server's own ports, with
/// its certificate as the client's if there is one.
///
/// # Errors
/// The setting that cannot be used, and why. The message is for the log.
pub fn client_config(config: &Config) -> Result<Arc<ClientConfig>, String> {
    let (provider, versions) = algorithms(config)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(|error| format!("{CHOICES}: {error}"))?
        .with_root_certificates(roots(config)?);
    if config.text(Id::TlsCertFile).is_empty() {
        return Ok(Arc::new(builder.with_no_client_auth()));
    }
    let chain = certificates(config, Id::TlsCertFile)?;
    let made = builder.with_client_auth_cert(chain, private_key(config)?);
    made.map(Arc::new)
        .map_err(|error| format!("tls-cert-file and tls-key-file: {error}"))
}

/// Returns the items named by a setting, in its order; all if it is empty.
fn chosen<T: Copy>(config: &Config, id: Id, all: &[(&str, T)]) -> Result<Vec<T>, String> {
    let text = config.text(id);
    let words = text.split([':', ',', ' ']).filter(|word| !word.is_empty());
    let found: Result<Vec<T>, String> = words
        .map(|word| {
            let item = all.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
            item.map(|(_, item)| *item).ok_or_else(|| {
                let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
                let setting = TABLE[id as usize].name;
                format!("{setting} '{word}': expected some of {}", names.join(" "))
            })
        })
        .collect();
    let found = found?;
    if found.is_empty() {
        return Ok(all.iter().map(|(_, item)| *item).collect());
    }
    Ok(found)
}

/// Reads the file that a setting names. Returns the setting's name, the path and the contents.
fn contents(config: &Config, id: Id) -> Result<(&'static str, String, Vec<u8>), String> {
    let (name, path) = (TABLE[id as usize].name, config.path(id));
    if path.is_empty() {
        return Err(format!("{name} is required for TLS"));
    }
    let read = files::read(Path::new(&path), FILE_BYTES_MAX);
    let bytes = read.map_err(|error| format!("{name} {path}: {error}"))?;
    Ok((name, path, bytes))
}

/// Reads the file with the key.
fn private_key(config: &Config) -> Result<PrivateKeyDer<'static>, String> {
    let (name, path, bytes) = contents(config, Id::TlsKeyFile)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| {
        let error = shown(&error);
        format!("{name} {path}: no unencrypted private key in PEM: {error}")
    })
}

/// Returns the description of an error in a PEM file. The library shows names as lists of numbers.
fn shown(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { end_marker } => {
            let end = String::from_utf8_lossy(end_marker);
            format!("the section {end} has no end, so that the file may be cut off")
        }
        pem::Error::IllegalSectionStart { line } => {
            let line = String::from_utf8_lossy(line);
            format!("the line '{}' does not begin a section", line.trim_end())
        }
        error => error.to_string(),
    }
}

/// Reads a file with certificates.
fn certificates(config: &Config, id: Id) -> Result<Vec<CertificateDer<'static>>, String> {
    let (name, path, bytes) = contents(config, id)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(format!("{name} {path}: no certificate in PEM")),
        Err(error) => Err(format!("{name} {path}: {}", shown(&error))),
    }
}

/// Returns the common name (CN) of a certificate's subject.
pub fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
    let mut names = parsed.subject();
    // A sequence of sets of pairs: the identifier of an attribute, and its value.
    while !names.is_empty() {
        let mut set = take_value(&mut names)?.1;
        while !set.is_empty() {
            let mut pair = take_value(&mut set)?.1;
            let is_name = take_value(&mut pair)? == (0x06, &[0x55, 4, 3]);
            let text = take_value(&mut pair)?.1;
            if is_name && !text.is_empty() && text.len() <= NAME_BYTES_MAX {
                return std::str::from_utf8(text).ok().map(str::to_owned);
            }
        }
    }
    None
}

/// Returns the DNS names in a certificate, of which at most a few are read.
pub fn dns_names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok(parsed) = webpki::EndEntityCert::try_from(certificate) else {
        return Vec::new();
    };
    let names = parsed.valid_dns_names().map(str::to_owned);
    names
        .filter(|name| name.len() <= NAME_BYTES_MAX)
        .take(DNS_NAMES_MAX)
        .collect()
}

/// Takes a value in DER from the front of `bytes`. Returns its tag and its contents.
fn take_value<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (len, rest) = match first {
        len @ 0..=0x7f => (usize::from(len), rest),
        0x81 => (usize::from(*rest.first()?), &rest[1..]),
        0x82 => (
            usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?])),
            &rest[2..],
        ),
        _ => return None,
    };
    let value = rest.get(..len)?;
    *bytes = &rest[len..];
    Some((tag, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_off_certificate_is_reported_by_the_name_of_its_section() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/server.crt");
        let text = std::fs::read(path).expect("a certificate");
        let cut = &text[..text.len() / 2];
        let error = CertificateDer::from_pem_slice(cut).expect_err("a cut-off file");
        assert!(
            shown(&error).starts_with("the section CERTIFICATE has no end"),
            "{error}"
        );
    }

    #[test]
    fn the_common_name_of_a_certificate_is_read() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/server.crt");
        let certificate = CertificateDer::from_pem_file(path).expect("a certificate");
        assert_eq!(common_name(&certificate).as_deref(), Some("tests"));
        // Damaged certificates have a name or none.
        for at in 0..certificate.len() {
            let mut damaged = certificate.to_vec();
            damaged[at] ^= 0x81;
            let _ = common_name(&CertificateDer::from(damaged));
            let _ = common_name(&CertificateDer::from(certificate[..at].to_vec()));
        }
        for (mut bytes, expected) in [
            (&b"\x06\x01ab"[..], Some((6, &b"a"[..]))),
            (b"\x06\x81\x01a", Some((6, b"a"))),
            (b"\x06\x82\x00\x01a", Some((6, b"a"))),
            (b"\x06\x80", Some((6, b""))),
            (b"\x06\x82\x00", None),
            (b"\x06\x02a", None),
            (b"\x06", None),
        ] {
            let is_valid = expected.is_some() && bytes[1] != 0x80;
            assert_eq!(take_value(&mut bytes), expected.filter(|_| is_valid));
        }
    }

    #[test]
    fn words_of_a_setting_are_chosen_in_their_order() {
        let config = Config::default();
        let names = |text: &str| {
            let param = &TABLE[Id::TlsProtocols as usize];
            config.set(param, text).expect("any text");
            chosen(&config, Id::TlsProtocols, &[("a", 1), ("b", 2)])
        };
        assert_eq!(names(""), Ok(vec![1, 2]));
        assert_eq!(names("B: a"), Ok(vec![2, 1]));
        let error = names("a:c").expect_err("there is no c");
        assert_eq!(error, "tls-protocols 'c': expected some of a b");
    }
}
