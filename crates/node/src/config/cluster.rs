//! Settings of a cluster: its file, which is the same on all nodes, and the settings of each node.

use super::{EtcdConfig, Invalid};
use edge::{BUCKETS_MAX, Config as MapConfig, Map, Scheme, ServerId};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Maximum number of servers in a cluster file.
pub(crate) const SERVERS_MAX: usize = 256;
/// Maximum number of chunks of all buckets in a map stored in etcd, where values may have at most
/// 1.5 MB.
const STORED_CHUNKS_MAX: usize = 1 << 15;
/// Minimum of [`ClusterConfig::coded_bytes_min`]. Chunks of smaller objects would consist mostly of
/// heads and requests.
const CODED_BYTES_MIN: u64 = 4 << 10;

/// Default of [`ClusterConfig::repair_bytes_per_second`]: a small part of the bandwidth of a disk
/// and of a 1 Gbit/s network.
const REPAIR_BYTES_PER_SECOND: u64 = 16 << 20;

/// Settings of a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterConfig {
    /// Number of this node.
    pub own: ServerId,
    /// All nodes including this one, or only this one if etcd lists the others.
    pub servers: Vec<Server>,
    /// Access to etcd, which lists nodes and maps; `None` if `servers` lists all nodes.
    pub etcd: Option<EtcdConfig>,
    /// Number of data chunks of an object (K).
    pub data: u8,
    /// Number of parity chunks of an object (P).
    pub parity: u8,
    /// Number of buckets.
    pub buckets: u32,
    /// Minimum size in bytes of objects that are coded.
    pub coded_bytes_min: u64,
    /// Maximum number of bytes per second that this node reads to restore lost chunks; 0 turns
    /// repair off.
    pub repair_bytes_per_second: u64,
    /// Address on which other nodes are served, if it differs from this node's address in the file.
    pub listen: Option<SocketAddr>,
    /// Protection of the connections between nodes.
    pub security: Security,
}

/// A node of a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server {
    /// Number of the node.
    pub id: ServerId,
    /// Address at which other nodes reach this node.
    pub address: SocketAddr,
    /// Weight: the node's share of the cluster, in proportion to the weights of the others.
    pub weight: u32,
    /// Name in the node's certificate; `None` if the certificate names the address.
    pub name: Option<String>,
}

/// Protection of the connections between nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Security {
    /// No protection. Permitted only between loopback addresses.
    Plain,
    /// TLS, with certificates on both sides.
    Tls {
        /// File with the certificates of the authorities that sign the nodes' certificates, in PEM.
        authorities: PathBuf,
        /// File with the certificate chain of this node, in PEM.
        certificate: PathBuf,
        /// File with the private key of this node, in PEM.
        key: PathBuf,
    },
}

impl ClusterConfig {
    /// Parses a cluster file: one line per setting and per server, with comments after `#`.
    ///
    /// # Errors
    /// Returns the first line that is not understood.
    pub fn parse(text: &str, own: ServerId, security: Security) -> Result<Self, Invalid> {
        let mut cluster = ClusterConfig {
            own,
            servers: vec![],
            etcd: None,
            data: 3,
            parity: 1,
            buckets: 200,
            coded_bytes_min: edge::CODED_FROM_BYTES,
            repair_bytes_per_second: REPAIR_BYTES_PER_SECOND,
            listen: None,
            security,
        };
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            cluster
                .line(&words)
                .map_err(|expected| Invalid(format!("line {}: {expected}", index + 1)))?;
        }
        Ok(cluster)
    }

    fn line(&mut self, words: &[&str]) -> Result<(), String> {
        fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
            let invalid = |_| format!("'{text}': expected a number in range");
            text.parse().map_err(invalid)
        }
        match words {
            [] => {}
            ["data", count] => self.data = number(count)?,
            ["parity", count] => self.parity = number(count)?,
            ["buckets", count] => self.buckets = number(count)?,
            ["server", id, address, options @ ..] => {
                let invalid = |_| format!("'{address}': expected an address such as 10.0.0.1:7400");
                let mut server = Server {
                    id: ServerId(number(id)?),
                    address: address.parse().map_err(invalid)?,
                    weight: 1,
                    name: None,
                };
                for option in options {
                    match option.split_once('=') {
                        Some(("weight", weight)) => server.weight = number(weight)?,
                        Some(("name", name)) if !name.is_empty() => {
                            server.name = Some(name.to_owned());
                        }
                        _ => return Err(format!("'{option}': expected weight=N or name=NAME")),
                    }
                }
                self.servers.push(server);
            }
            [word, ..] if word.starts_with("etcd") => {
                self.etcd.get_or_insert_default().line(words)?;
            }
            [word, ..] => {
                let expected = "expected data, parity, buckets, server or etcd with their values";
                return Err(format!("'{word}': {expected}"));
            }
        }
        Ok(())
    }

    /// Checks settings that depend on each other.
    ///
    /// # Errors
    /// Returns the first contradiction.
    pub fn check(&self) -> Result<(), Invalid> {
        let invalid = |text: String| Err(Invalid(format!("cluster: {text}")));
        let Some(own) = self.own() else {
            return invalid(format!("{}: expected a server of the file", self.own));
        };
        if self.servers.len() > SERVERS_MAX {
            let count = self.servers.len();
            return invalid(format!("{count} servers: expected at most {SERVERS_MAX}"));
        }
        let mut addresses: Vec<SocketAddr> = self.servers.iter().map(|one| one.address).collect();
        addresses.sort_unstable();
        if let Some(twice) = addresses.windows(2).find(|pair| pair[0] == pair[1]) {
            return invalid(format!("{}: the address of two servers", twice[0]));
        }
        if self.coded_bytes_min < CODED_BYTES_MIN {
            return invalid(format!(
                "objects of {} bytes: expected a minimum of at least {CODED_BYTES_MIN}",
                self.coded_bytes_min
            ));
        }
        let listen = self.listen.unwrap_or(own.address);
        let is_public = |address: &SocketAddr| !address.ip().is_loopback();
        if self.security == Security::Plain
            && let Some(address) = addresses.iter().chain([&listen]).find(|one| is_public(one))
        {
            return invalid(format!(
                "{address}: connections without TLS are permitted on loopback addresses only"
            ));
        }
        let Some(etcd) = &self.etcd else {
            return self.map().map(|_| ());
        };
        if self.servers.len() > 1 {
            return invalid("servers and etcd: expected one of them".into());
        }
        let scheme = self.scheme();
        if let Err(error) = scheme.check() {
            return invalid(error.to_string());
        }
        let chunks = scheme.chunks() * self.buckets as usize;
        if self.buckets == 0 || self.buckets > BUCKETS_MAX || chunks > STORED_CHUNKS_MAX {
            return invalid(format!(
                "{} buckets: expected at least 1, and at most {STORED_CHUNKS_MAX} chunks of all",
                self.buckets
            ));
        }
        etcd.check()
    }

    /// Returns the first version of the map.
    ///
    /// # Errors
    /// Returns an error if no map can be made of the code, the buckets and the servers.
    pub fn map(&self) -> Result<Map, Invalid> {
        let config = self.map_config();
        let servers: Vec<_> = self
            .servers
            .iter()
            .map(|one| (one.id, one.weight))
            .collect();
        Map::new(config, &servers).map_err(|error| Invalid(format!("cluster: {error}")))
    }

    /// Returns the parameters that all maps share.
    pub fn map_config(&self) -> MapConfig {
        let mut config = MapConfig::new(self.scheme());
        config.buckets = self.buckets;
        config
    }

    /// Returns the code and the minimum size of coded objects.
    pub fn scheme(&self) -> Scheme {
        let mut scheme = Scheme::coded(self.data, self.parity);
        scheme.coded_from_bytes = Some(self.coded_bytes_min);
        scheme
    }

    /// Returns the number of chunks of a coded object.
    pub fn chunks(&self) -> usize {
        self.scheme().chunks()
    }

    /// Returns the server entry of this node.
    pub fn own(&self) -> Option<&Server> {
        self.servers.iter().find(|server| server.id == self.own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# A cluster.\ndata 2\nparity 1\nbuckets 50\n\n\
        server 1 127.0.0.1:7401\nserver 2 127.0.0.1:7402 weight=3 # larger\n\
        server 3 127.0.0.1:7403 name=cache-3.example.org weight=2\n";

    fn parsed(text: &str) -> Result<ClusterConfig, Invalid> {
        ClusterConfig::parse(text, ServerId(1), Security::Plain)
    }

    #[test]
    fn a_file_is_read() {
        let cluster = parsed(FILE).expect("the input is valid");
        cluster.check().expect("the input is valid");
        assert_eq!((cluster.data, cluster.parity, cluster.buckets), (2, 1, 50));
        let weights: Vec<u32> = cluster.servers.iter().map(|one| one.weight).collect();
        assert_eq!(weights, [1, 3, 2]);
        let name = cluster.servers[2].name.as_deref();
        assert_eq!(name, Some("cache-3.example.org"));
        assert_eq!(cluster.chunks(), 3);
    }

    #[test]
    fn lines_that_are_not_understood_are_reported_with_their_number() {
        for (text, error) in [
            ("data x", "line 1: 'x': expected a number"),
            ("\nservers 1", "line 2: 'servers': expected data"),
            ("server 1 a:b", "line 1: 'a:b': expected an address"),
            ("server 1 127.0.0.1:1 w=1", "line 1: 'w=1': expected weight"),
            ("data 300", "line 1: '300': expected a number"),
        ] {
            let found = parsed(text).expect_err("the input is invalid").0;
            assert!(found.starts_with(error), "{found}");
        }
    }

    #[test]
    fn contradictions_are_reported() {
        let check = |change: &dyn Fn(&mut ClusterConfig)| {
            let mut cluster = parsed(FILE).expect("the input is valid");
            change(&mut cluster);
            cluster.check().expect_err("the input is invalid").0
        };
        let found = check(&|cluster| cluster.own = ServerId(9));
        assert!(found.contains("server 9: expected a server"), "{found}");
        let found = check(&|cluster| cluster.data = 3);
        assert!(found.contains("a bucket needs 4"), "{found}");
        let found = check(&|cluster| cluster.servers[1].id = ServerId(1));
        assert!(found.contains("already a member"), "{found}");
        let found = check(&|cluster| cluster.servers[1].address = cluster.servers[0].address);
        assert!(found.contains("of two servers"), "{found}");
        let found = check(&|cluster| cluster.coded_bytes_min = 1);
        assert!(found.contains("at least 4096"), "{found}");
        let address = "10.0.0.1:7400".parse().expect("the input is valid");
        let found = check(&|cluster| cluster.servers[0].address = address);
        assert!(found.contains("without TLS"), "{found}");
        let found = check(&|cluster| cluster.listen = Some(address));
        assert!(found.contains("without TLS"), "{found}");
        let found = check(&|cluster| cluster.etcd = Some(EtcdConfig::default()));
        assert!(found.contains("expected one of them"), "{found}");
    }

    #[test]
    fn the_lines_of_etcd_are_read() {
        let file = "data 2\netcd http://127.0.0.1:2379 https://etcd-2:2379\n\
            etcd-prefix /site/cache\netcd-lease 20\netcd-ca ca.pem\n\
            etcd-cert node.pem node.key\netcd-user cache /etc/password\n";
        let mut cluster = parsed(file).expect("the input is valid");
        cluster.servers.push(Server {
            id: ServerId(1),
            address: "127.0.0.1:7401".parse().expect("the input is valid"),
            weight: 1,
            name: None,
        });
        cluster.check().expect("the input is valid");
        let etcd = cluster.etcd.clone().expect("there are lines");
        assert_eq!(etcd.access.endpoints.len(), 2);
        assert_eq!(etcd.access.prefix, "/site/cache/");
        assert_eq!(etcd.lease.as_secs(), 20);
        assert_eq!(
            etcd.access.user,
            Some(("cache".into(), "/etc/password".into()))
        );
        for (text, error) in [
            ("etcd", "line 1: 'etcd': expected etcd URL"),
            ("etcd 10.0.0.1:2379", "line 1: '10.0.0.1:2379': expected"),
            ("etcd http://a/v3", "line 1: 'http://a/v3': expected"),
            ("etcd-lease x", "line 1: 'x': expected a number of seconds"),
            (
                "etcd-rebalance -1",
                "line 1: '-1': expected a number of seconds",
            ),
            (
                "etcd-rebalance 59",
                "line 1: etcd-rebalance 59: expected 0 or 60 to 86400 seconds",
            ),
            ("etcd-user a", "line 1: 'etcd-user': expected"),
        ] {
            let found = parsed(text).expect_err("the input is invalid").0;
            assert!(found.starts_with(error), "{found}");
        }
        for text in ["60", "0", "1 test"] {
            parsed(&format!("etcd-rebalance {text}")).expect("the input is valid");
        }
        cluster.buckets = 16_000;
        let found = cluster.check().expect_err("the input is invalid").0;
        assert!(found.contains("at most 32768 chunks"), "{found}");
        cluster.buckets = 10;
        cluster.etcd.as_mut().expect("there is one").lease = Default::default();
        let found = cluster.check().expect_err("the input is invalid").0;
        assert!(found.contains("lease of 0 s"), "{found}");
    }
}
