//! Client of the port for operators, for `mayfly edge status`.

use ::membership::pem;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Maximum time to wait for the node.
const WAIT: Duration = Duration::from_secs(10);
/// Maximum size of a reply in bytes.
const REPLY_BYTES_MAX: u64 = 1 << 20;

/// Address of a node for operators, and what it demands of its clients.
#[derive(Clone, Debug)]
pub struct Place {
    /// Address.
    pub address: SocketAddr,
    /// Token, if the node demands one.
    pub token: Option<String>,
    /// File with the authorities of the node's certificate, and the name in the certificate if it
    /// is not the address; `None` without TLS.
    pub tls: Option<(PathBuf, Option<String>)>,
}

/// Returns the status of a node as text.
///
/// # Errors
/// Returns a message for the operator if the node cannot be reached or refuses the request.
pub fn status(place: &Place) -> Result<String, String> {
    let address = place.address;
    let unreachable =
        |error: io::Error| format!("{address}: {error} (expected a node with --admin {address})");
    let stream = TcpStream::connect_timeout(&address, WAIT).map_err(unreachable)?;
    stream.set_read_timeout(Some(WAIT)).map_err(unreachable)?;
    stream.set_write_timeout(Some(WAIT)).map_err(unreachable)?;
    let reply = match &place.tls {
        None => exchange(stream, place),
        Some(_) => exchange(StreamOwned::new(connection(place)?, stream), place),
    };
    let reply = reply.map_err(unreachable)?;
    let (head, text) = reply.split_once("\r\n\r\n").unwrap_or_default();
    match head.get(9..12) {
        Some("200") => Ok(text.to_owned()),
        Some("401") => Err(format!(
            "{address}: the node demands its token: {}",
            text.trim()
        )),
        _ => Err(format!(
            "{address}: expected the status of a node, and received another reply"
        )),
    }
}

fn exchange(mut stream: impl Read + Write, place: &Place) -> io::Result<String> {
    let token = place.token.as_ref();
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
    let request = format!(
        "GET /status HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{}\r\n",
        place.address,
        token.unwrap_or_default()
    );
    stream.write_all(request.as_bytes())?;
    let mut reply = String::new();
    stream.take(REPLY_BYTES_MAX).read_to_string(&mut reply)?;
    Ok(reply)
}

/// Prepares a connection with TLS to a node that the authorities of the file have certified.
fn connection(place: &Place) -> Result<ClientConnection, String> {
    let (authorities, name) = place
        .tls
        .as_ref()
        .ok_or("expected a file with authorities")?;
    let mut roots = RootCertStore::empty();
    for certificate in pem::certificates(authorities).map_err(|error| error.to_string())? {
        let added = roots.add(certificate);
        added.map_err(|error| format!("{}: {error}", authorities.display()))?;
    }
    let name = name
        .clone()
        .unwrap_or_else(|| place.address.ip().to_string());
    let name = ServerName::try_from(name.clone()).map_err(|error| format!("{name}: {error}"))?;
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    ClientConnection::new(Arc::new(config), name).map_err(|error| error.to_string())
}
