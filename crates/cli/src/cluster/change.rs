//! `mayfly cluster init`, `failover` and `forget`: guarded writes to the records.

use super::{Access, read};
use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueEnum};
use cluster::Name;
use membership::directory::{Directory, initial};
use membership::etcd::Etcd;
use membership::kv::{Guard, Kv, Write};
use membership::records::{
    CONFIG, Config, FAILOVERS, LEASE_MS_DEFAULT, MAP, NODES, SHARDS, SYNC_TIMEOUT_MS_DEFAULT,
    Strength, encode_failover,
};
use server::replication::primary::new_id;
use std::time::{Duration, Instant};

/// Time between two reads while a failover is awaited.
const POLL: Duration = Duration::from_millis(20);

/// Arguments of `mayfly cluster init`.
#[derive(Args)]
pub struct Init {
    #[command(flatten)]
    access: Access,
    /// Number of shards
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    shards: u32,
    /// Number of replicas of each shard
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    replicas: u32,
    /// Lease time of primaries in milliseconds: a primary that fails is replaced after about as
    /// long
    #[arg(long, value_name = "MS", default_value_t = LEASE_MS_DEFAULT)]
    lease_ms: u64,
    /// When a primary replies to a write: at once (async), or when all replicas that may replace
    /// it have the write (sync)
    #[arg(long, value_name = "WORD", default_value = "async")]
    strength: Word,
    /// With sync, time in milliseconds after which a replica that does not answer leaves the
    /// in-sync set
    #[arg(long, value_name = "MS", default_value_t = SYNC_TIMEOUT_MS_DEFAULT)]
    sync_timeout_ms: u64,
    /// Show what would be written
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn name() -> Result<Name> {
    let id = new_id();
    Name::parse(id.as_bytes()).ok_or_else(|| anyhow!("'{id}': expected 40 hexadecimal digits"))
}

impl Init {
    pub(super) fn run(&self) -> Result<()> {
        let config = Config {
            cluster: name()?,
            shards: self.shards,
            replicas: self.replicas,
            lease_ms: self.lease_ms,
            strength: self.strength.into(),
            sync_timeout_ms: self.sync_timeout_ms,
        };
        config.check().map_err(|refusal| anyhow!("{refusal}"))?;
        let shards: Vec<Name> = (0..self.shards).map(|_| name()).collect::<Result<_>>()?;
        let records = initial(&config, &shards);
        self.access.with(async |etcd, directory| {
            if let Some(config) = directory.config() {
                bail!(
                    "cluster '{}' exists: its identifier is {}",
                    self.access.name,
                    config.cluster
                );
            }
            if self.dry_run {
                for (key, value) in &records {
                    println!("{key} {value}");
                }
                return Ok(());
            }
            let guards = [CONFIG, MAP]
                .map(|key| Guard::Revision(key.into(), 0))
                .to_vec();
            let writes = records
                .into_iter()
                .map(|(key, value)| Write::Put(key, value, None));
            commit(etcd, guards, writes.collect()).await?;
            println!(
                "cluster '{}' has {} shards with {} replicas each: start {} nodes",
                self.access.name,
                self.shards,
                self.replicas,
                self.shards * (1 + self.replicas)
            );
            Ok(())
        })
    }
}

/// A strength as a word of the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Word {
    /// Replies do not wait for replicas.
    Async,
    /// Replies to writes wait for all replicas that may replace the primary.
    Sync,
}

impl From<Word> for Strength {
    fn from(word: Word) -> Strength {
        match word {
            Word::Async => Strength::Async,
            Word::Sync => Strength::Sync,
        }
    }
}

/// Arguments of `mayfly cluster set`.
#[derive(Args)]
pub struct Set {
    #[command(flatten)]
    access: Access,
    /// When a primary replies to a write: at once (async), or when all replicas that may replace
    /// it have the write (sync)
    #[arg(long, value_name = "WORD")]
    strength: Option<Word>,
    /// With sync, time in milliseconds after which a replica that does not answer leaves the
    /// in-sync set
    #[arg(long, value_name = "MS")]
    sync_timeout_ms: Option<u64>,
    /// Show what would be written
    #[arg(long)]
    dry_run: bool,
}

impl Set {
    pub(super) fn run(&self) -> Result<()> {
        if self.strength.is_none() && self.sync_timeout_ms.is_none() {
            bail!("expected --strength or --sync-timeout-ms");
        }
        self.access.with(async |etcd, directory| {
            let mut config = directory
                .config()
                .cloned()
                .ok_or_else(|| self.access.absent())?;
            config.strength = self.strength.map_or(config.strength, Into::into);
            config.sync_timeout_ms = self.sync_timeout_ms.unwrap_or(config.sync_timeout_ms);
            config.check().map_err(|refusal| anyhow!("{refusal}"))?;
            let value = config.encode();
            if self.dry_run {
                println!("{CONFIG} {value}");
                return Ok(());
            }
            let guards = vec![Guard::Revision(CONFIG.into(), directory.config_revision())];
            commit(etcd, guards, vec![Write::Put(CONFIG.into(), value, None)]).await?;
            println!(
                "strength {}, sync timeout {} ms: each node follows this as it reads the record, and shows it in CLUSTER INFO",
                config.strength.word(),
                config.sync_timeout_ms
            );
            Ok(())
        })
    }
}

/// Writes records, whose guards should hold.
pub(super) async fn commit(etcd: &Etcd, guards: Vec<Guard>, writes: Vec<Write>) -> Result<()> {
    let applied = etcd.commit(guards, writes).await;
    match applied.map_err(|failure| anyhow!("etcd: {failure}; the change may have been made"))? {
        Some(_) => Ok(()),
        None => bail!("the records have changed meanwhile: nothing was written"),
    }
}

/// Returns the only node whose name begins with a text, or that has an address.
pub(super) fn node(directory: &Directory, text: &str) -> Result<Name> {
    let shards = directory.shards().values();
    let named = shards.flat_map(|(shard, _)| shard.primary.iter().chain(&shard.in_sync));
    let mut found: Vec<Name> = named.chain(directory.nodes().keys()).copied().collect();
    let is_meant = |id: &Name| {
        let known = directory
            .nodes()
            .get(id)
            .map(|known| &known.registration.node);
        let has_address = known.is_some_and(|node| {
            node.inside == text || membership::records::join(&node.ip, node.port) == text
        });
        id.as_str().starts_with(text) || has_address
    };
    found.retain(is_meant);
    found.sort_unstable();
    found.dedup();
    match found[..] {
        [id] => Ok(id),
        [] => bail!(
            "node '{text}': expected the beginning of a name, or an address, as 'mayfly cluster status' shows them"
        ),
        _ => bail!(
            "node '{text}': {} nodes have such names: expected more digits",
            found.len()
        ),
    }
}

/// Arguments of `mayfly cluster failover`.
#[derive(Args)]
pub struct Failover {
    #[command(flatten)]
    access: Access,
    /// Replica that becomes the primary: its address, or the beginning of its name
    node: String,
    /// Maximum time to wait for the change, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    wait: u64,
    /// Show what would be done
    #[arg(long)]
    dry_run: bool,
}

impl Failover {
    pub(super) fn run(&self) -> Result<()> {
        self.access.with(async |etcd, directory| {
            let config = directory.config().ok_or_else(|| self.access.absent())?;
            let to = node(&directory, &self.node)?;
            let found = directory
                .shards()
                .iter()
                .find(|(_, (shard, _))| shard.names(to));
            let Some((shard, (record, revision))) = found else {
                bail!("node {to} is in sync with no shard: expected an in-sync replica");
            };
            if record.primary == Some(to) {
                bail!("node {to} is the primary of shard {shard} already");
            }
            let key = format!("{FAILOVERS}{shard}");
            let value = encode_failover(to, config.cluster);
            if self.dry_run {
                println!("node {to} would become the primary of shard {shard}");
                return Ok(());
            }
            let guards = vec![Guard::Revision(format!("{SHARDS}{shard}"), *revision)];
            let begun = Instant::now();
            commit(etcd, guards, vec![Write::Put(key, value, None)]).await?;
            await_change(etcd, *shard, to, begun + Duration::from_secs(self.wait)).await?;
            let time = begun.elapsed().as_millis();
            println!("node {to} is the primary of shard {shard}, after {time} ms");
            Ok(())
        })
    }
}

async fn await_change(etcd: &Etcd, shard: Name, to: Name, end: Instant) -> Result<()> {
    loop {
        let directory = read(etcd).await?;
        let record = directory.shards().get(&shard).map(|(record, _)| record);
        if record.is_some_and(|record| record.primary == Some(to)) {
            return Ok(());
        }
        if directory.failover(shard).is_none() {
            bail!("node {to} has not become the primary: the primary's log has the reason");
        }
        if Instant::now() >= end {
            bail!("no answer of the primary in time: the request remains until it sees it");
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Arguments of `mayfly cluster forget`.
#[derive(Args)]
pub struct Forget {
    #[command(flatten)]
    access: Access,
    /// The node: its address, or the beginning of its name
    node: String,
    /// Show what would be done
    #[arg(long)]
    dry_run: bool,
}

impl Forget {
    pub(super) fn run(&self) -> Result<()> {
        self.access.with(async |etcd, directory| {
            let config = directory.config().ok_or_else(|| self.access.absent())?;
            let id = node(&directory, &self.node)?;
            let known = directory.nodes().get(&id).filter(|known| known.revision != 0);
            if let Some(known) = known {
                let address = &known.registration.node.inside;
                bail!("node {id} at {address} is registered: expected one that has stopped, some seconds ago");
            }
            let found = directory.shards().iter().find(|(_, (shard, _))| shard.names(id));
            let Some((shard, (record, revision))) = found else {
                bail!("node {id} belongs to no shard");
            };
            if record.primary == Some(id) {
                bail!("node {id} is the primary of shard {shard}: expected a replica");
            }
            let mut record = record.clone();
            record.in_sync.retain(|other| *other != id);
            if self.dry_run {
                println!("shard {shard} would lose the in-sync replica {id}");
                return Ok(());
            }
            let key = format!("{SHARDS}{shard}");
            let guards = vec![
                Guard::Revision(key.clone(), *revision),
                Guard::Revision(format!("{NODES}{id}"), 0),
            ];
            let write = Write::Put(key, record.encode(config.cluster), None);
            commit(etcd, guards, vec![write]).await?;
            println!("shard {shard} has lost the in-sync replica {id}");
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use membership::kv::Entry;
    use membership::records::Shard;

    #[test]
    fn a_node_is_named_by_the_beginning_of_its_name() {
        let id = |digit: &str| Name::parse(digit.repeat(40).as_bytes()).expect("40 digits");
        let config = Config {
            cluster: id("f"),
            shards: 1,
            replicas: 1,
            lease_ms: LEASE_MS_DEFAULT,
            strength: Strength::Async,
            sync_timeout_ms: SYNC_TIMEOUT_MS_DEFAULT,
        };
        let shard = Shard {
            epoch: 1,
            primary: Some(id("a")),
            in_sync: vec![id("b")],
            position: 0,
        };
        let entry = |key: String, value: String| Entry {
            key,
            value: value.into_bytes(),
            created: 1,
            revision: 1,
        };
        let mut directory = Directory::default();
        let record = entry(format!("{SHARDS}{}", id("e")), shard.encode(id("f")));
        directory.load(1, vec![entry(CONFIG.into(), config.encode()), record]);
        assert_eq!(node(&directory, "aa").expect("one"), id("a"));
        for (text, expected) in [
            ("c", "expected the beginning"),
            ("", "2 nodes have such names"),
        ] {
            let error = node(&directory, text).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
