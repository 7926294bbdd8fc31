//! Settings of a node: access to etcd, its name and its addresses.

use crate::state::Server;
use ::cluster::{Health, Name, Node};
use membership::access::Access;
use membership::records::join;
use settings::{Config, Id, version};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Time limit for a request to etcd. A beat that takes longer extends a fence by little.
const REQUEST_TIME: Duration = Duration::from_secs(1);
/// Maximum length of the name of a cluster.
const NAME_BYTES_MAX: usize = 64;

/// Returns the access to etcd that the settings describe.
///
/// # Errors
/// A setting cannot be used. The message names it.
pub fn access(config: &Config) -> Result<Access, String> {
    let name = config.text(Id::ClusterName);
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_word) {
        return Err(format!(
            "cluster-name '{name}': expected letters, digits, '-', '_' or '.', at most {NAME_BYTES_MAX}"
        ));
    }
    let mut access = Access::new(&format!("/mayfly/cluster/{name}"));
    access.request_time = REQUEST_TIME;
    let endpoints = config.text(Id::ClusterEtcdEndpoints);
    let words = endpoints.split([',', ' ']).filter(|word| !word.is_empty());
    for word in words {
        let added = access.add_endpoint(word);
        added.map_err(|error| format!("cluster-etcd-endpoints: {error}"))?;
    }
    let path = |id| Some(config.text(id)).filter(|text| !text.is_empty());
    access.authorities = path(Id::ClusterEtcdCa).map(Into::into);
    access.certificate = match (path(Id::ClusterEtcdCert), path(Id::ClusterEtcdKey)) {
        (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
        (None, None) => None,
        _ => return Err("cluster-etcd-cert and cluster-etcd-key: expected both or none".into()),
    };
    access.user = match (path(Id::ClusterEtcdUser), path(Id::ClusterEtcdPassword)) {
        (Some(user), Some(file)) => Some((user, file.into())),
        (None, None) => None,
        _ => {
            let text = "cluster-etcd-user and cluster-etcd-password-file: expected both or none";
            return Err(text.into());
        }
    };
    access.check().map_err(|invalid| match access.endpoints.len() {
        0 => "cluster-enabled yes needs cluster-etcd-endpoints: expected URLs such as http://127.0.0.1:2379".into(),
        _ => invalid.0,
    })?;
    Ok(access)
}

/// Checks the settings of a node of a cluster of several.
///
/// # Errors
/// A setting cannot be used, or does not go with a cluster.
pub fn check(config: &Config) -> Result<(), String> {
    if !config.is_routed() {
        return Ok(());
    }
    if !config.text(Id::ReplicaOf).is_empty() {
        return Err("replicaof: expected none with cluster-enabled yes".into());
    }
    access(config).map(|_| ())
}

/// Returns this node as others should see it.
pub fn node(server: &Server, me: Name) -> Node {
    let config = &server.config;
    let first = server.network.first_address.get().copied();
    let address = outside(first, &config.text(Id::ClusterEtcdEndpoints));
    let address = address.map_or_else(
        || "127.0.0.1".to_owned(),
        |ip| ip.to_canonical().to_string(),
    );
    let or = |text: String, otherwise: &str| match text.is_empty() {
        true => otherwise.to_owned(),
        false => text,
    };
    let announced = |id: Id, otherwise: u16| match config.number(id) {
        0 => otherwise,
        port => port as u16,
    };
    let (port, tls_port) = (
        server.network.port.load(Relaxed),
        config.number(Id::TlsPort) as u16,
    );
    let own_port = match config.is_on(Id::TlsReplication) && tls_port != 0 {
        true => tls_port,
        false => port,
    };
    let inside_port = announced(Id::ReplicaAnnouncePort, own_port);
    Node {
        id: me,
        ip: or(config.text(Id::ClusterAnnounceIp), &address),
        port: announced(Id::ClusterAnnouncePort, port),
        tls_port: announced(Id::ClusterAnnounceTlsPort, tls_port),
        bus_port: announced(Id::ClusterAnnounceBusPort, 0),
        hostname: config.text(Id::ClusterAnnounceHostname),
        inside: join(
            &or(config.text(Id::ReplicaAnnounceIp), &address),
            inside_port,
        ),
        zone: config.text(Id::ClusterZone),
        version: version::VERSION.to_owned(),
        offset: server.feed.end(),
        health: match server.persistence.loading.is_on() {
            true => Health::Loading,
            false => Health::Online,
        },
    }
}

/// Returns the address at which others reach this server: the one on which it listens, or, if that
/// is all addresses, the one from which this machine reaches etcd.
fn outside(first: Option<SocketAddr>, endpoints: &str) -> Option<IpAddr> {
    let first = first?;
    if !first.ip().is_unspecified() {
        return Some(first.ip());
    }
    let endpoint = endpoints.split([',', ' ']).find(|word| !word.is_empty())?;
    let authority = endpoint.rsplit('/').find(|part| !part.is_empty())?;
    // Nothing is sent: the system chooses the route and with it the address.
    let socket = UdpSocket::bind(SocketAddr::new(first.ip(), 0)).ok()?;
    socket.connect(authority).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;
    use settings::find;

    fn config(settings: &[(&str, &str)]) -> Config {
        let config = Config::default();
        for (name, value) in settings {
            let param = find(name).expect("a setting");
            config.set(param, value).expect("a valid value");
        }
        config
    }

    #[test]
    fn settings_describe_the_access() {
        let config = config(&[
            ("cluster-etcd-endpoints", "http://a:1, https://b:2"),
            ("cluster-name", "site-1"),
            ("cluster-etcd-user", "mayfly"),
            ("cluster-etcd-password-file", "/p"),
        ]);
        let access = access(&config).expect("valid");
        assert_eq!(access.endpoints.len(), 2);
        assert_eq!(access.prefix, "/mayfly/cluster/site-1/");
        assert_eq!(access.user, Some(("mayfly".into(), "/p".into())));
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        let endpoint = ("cluster-etcd-endpoints", "http://a:1");
        let yes = ("cluster-enabled", "yes");
        for (settings, expected) in [
            (&[yes][..], "needs cluster-etcd-endpoints"),
            (
                &[yes, ("cluster-etcd-endpoints", "a:1")],
                "cluster-etcd-endpoints: 'a:1': expected http",
            ),
            (
                &[yes, endpoint, ("cluster-name", "a/b")],
                "cluster-name 'a/b'",
            ),
            (
                &[yes, endpoint, ("cluster-etcd-cert", "c")],
                "expected both or none",
            ),
            (
                &[yes, endpoint, ("cluster-etcd-user", "u")],
                "expected both or none",
            ),
            (
                &[yes, endpoint, ("replicaof", "a 1")],
                "replicaof: expected none",
            ),
        ] {
            let error = check(&config(settings)).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(check(&config(&[yes, endpoint])), Ok(()));
        assert_eq!(check(&config(&[])), Ok(()));
    }

    #[test]
    fn a_server_on_all_addresses_names_one_that_reaches_etcd() {
        let at = |text: &str| text.parse::<SocketAddr>().ok();
        let loopback = Some(IpAddr::from([127, 0, 0, 1]));
        assert_eq!(outside(at("127.0.0.1:7"), ""), loopback);
        assert_eq!(outside(at("0.0.0.0:7"), "http://127.0.0.1:2379"), loopback);
        assert_eq!(outside(at("0.0.0.0:7"), "x"), None);
        assert_eq!(outside(None, "http://127.0.0.1:2379"), None);
    }
}
