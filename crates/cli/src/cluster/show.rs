//! `mayfly cluster status` and `check`.

use super::{Access, moves};
use anyhow::{Result, bail};
use clap::Args;
use cluster::{Name, SLOTS};
use membership::directory::Directory;
use membership::records::{Shard, Strength};
use serde_json::{Value, json};

/// Number of digits of a name that are shown.
pub(super) const DIGITS: usize = 12;

/// Arguments of `mayfly cluster status`.
#[derive(Args)]
pub struct Status {
    #[command(flatten)]
    access: Access,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `mayfly cluster check`.
#[derive(Args)]
pub struct Check {
    #[command(flatten)]
    access: Access,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(super) fn run(&self) -> Result<()> {
        let directory = self.access.with(async |_, directory| Ok(directory))?;
        if directory.config().is_none() {
            return Err(self.access.absent());
        }
        match self.json {
            true => println!("{:#}", as_json(&directory)),
            false => print!("{}", as_text(&directory)),
        }
        Ok(())
    }
}

impl Check {
    pub(super) fn run(&self) -> Result<()> {
        let directory = self.access.with(async |_, directory| Ok(directory))?;
        if directory.config().is_none() {
            return Err(self.access.absent());
        }
        let findings = findings(&directory);
        match self.json {
            true => println!("{:#}", json!(findings)),
            false => findings.iter().for_each(|finding| println!("{finding}")),
        }
        match findings.len() {
            0 => Ok(()),
            count => bail!("{count} findings"),
        }
    }
}

/// Returns the number of slots of a shard, and its ranges.
fn slots(directory: &Directory, shard: Name) -> (u32, String) {
    let map = directory.map().map_or(&[][..], |(map, _)| map);
    let own = map.iter().filter(|(.., owner)| *owner == shard);
    let count = own
        .clone()
        .map(|(first, last, _)| u32::from(last - first) + 1)
        .sum();
    let ranges: Vec<String> = own
        .map(|(first, last, _)| format!("{first}-{last}"))
        .collect();
    (count, ranges.join(" "))
}

/// Returns the role of a node in a shard.
fn role(shard: &Shard, id: Name) -> &'static str {
    match () {
        () if shard.primary == Some(id) => "primary",
        () if shard.in_sync.contains(&id) => "in sync",
        () => "replica",
    }
}

fn as_text(directory: &Directory) -> String {
    let mut text = directory
        .config()
        .map_or_else(String::new, |config| match config.strength {
            Strength::Async => "strength async\n".to_owned(),
            Strength::Sync => format!(
                "strength sync, sync timeout {} ms\n",
                config.sync_timeout_ms
            ),
        });
    for (id, (shard, _)) in directory.shards() {
        let (count, ranges) = slots(directory, *id);
        let ranges = if ranges.is_empty() {
            "none".to_owned()
        } else {
            ranges
        };
        text += &format!(
            "shard {:.DIGITS$}  {count} slots ({ranges})  term {}\n",
            id.as_str(),
            shard.epoch
        );
        for node in directory.members(*id) {
            text += &line(directory, role(shard, node), node);
        }
    }
    let spare = directory
        .nodes()
        .iter()
        .filter(|(id, known)| known.revision != 0 && directory.shard_of(**id).is_none());
    for (id, _) in spare {
        text += &line(directory, "spare", *id);
    }
    for (id, (one, _)) in directory
        .moves()
        .iter()
        .filter(|(_, (one, _))| one.is_open())
    {
        text += &format!("{}\n", moves::line(*id, one));
    }
    for (key, problem) in directory.problems() {
        text += &format!("record {key} is not used: {problem}\n");
    }
    text
}

fn line(directory: &Directory, role: &str, id: Name) -> String {
    let known = directory
        .nodes()
        .get(&id)
        .filter(|known| known.revision != 0);
    let (address, zone) = match known {
        Some(known) => {
            let node = &known.registration.node;
            (node.inside.as_str(), node.zone.as_str())
        }
        None => ("not registered", ""),
    };
    let zone = if zone.is_empty() {
        String::new()
    } else {
        format!("  zone {zone}")
    };
    format!("  {role:<8} {:.DIGITS$}  {address}{zone}\n", id.as_str())
}

fn as_json(directory: &Directory) -> Value {
    let shard = |(id, (shard, _)): (&Name, &(Shard, i64))| {
        let (count, ranges) = slots(directory, *id);
        let members = directory.members(*id);
        let nodes: Vec<Value> = members
            .into_iter()
            .map(|id| node(directory, role(shard, id), id))
            .collect();
        json!({"id": id.as_str(), "term": shard.epoch, "slots": count, "ranges": ranges, "nodes": nodes})
    };
    let shards: Vec<Value> = directory.shards().iter().map(shard).collect();
    let spare = directory
        .nodes()
        .iter()
        .filter(|(id, known)| known.revision != 0 && directory.shard_of(**id).is_none());
    let spare: Vec<Value> = spare.map(|(id, _)| node(directory, "spare", *id)).collect();
    let moves = directory.moves().iter();
    let moves: Vec<Value> = moves
        .map(|(id, (one, _))| moves::as_json(*id, one))
        .collect();
    let config = directory.config();
    json!({
        "cluster": config.map(|config| config.cluster.as_str()),
        "lease_ms": config.map(|config| config.lease_ms),
        "strength": config.map(|config| config.strength.word()),
        "sync_timeout_ms": config.map(|config| config.sync_timeout_ms),
        "replicas": config.map(|config| config.replicas),
        "revision": directory.revision(),
        "shards": shards,
        "spare": spare,
        "moves": moves,
        "problems": directory.problems(),
    })
}

fn node(directory: &Directory, role: &str, id: Name) -> Value {
    let known = directory.nodes().get(&id);
    let node = known.map(|known| &known.registration.node);
    json!({
        "id": id.as_str(),
        "role": role,
        "is_registered": known.is_some_and(|known| known.revision != 0),
        "address": node.map(|node| node.inside.as_str()),
        "zone": node.map(|node| node.zone.as_str()),
        "version": node.map(|node| node.version.as_str()),
    })
}

/// Returns what the cluster lacks.
fn findings(directory: &Directory) -> Vec<String> {
    let mut found: Vec<String> = directory
        .problems()
        .iter()
        .map(|(key, problem)| format!("record {key} is not used: {problem}"))
        .collect();
    if let Err(problem) = directory.topology() {
        found.push(format!("the records contradict each other: {problem}"));
    }
    let owned: u32 = directory
        .shards()
        .keys()
        .map(|id| slots(directory, *id).0)
        .sum();
    if owned < u32::from(SLOTS) {
        found.push(format!(
            "{} slots belong to no shard",
            u32::from(SLOTS) - owned
        ));
    }
    let wanted = directory
        .config()
        .map_or(0, |config| config.replicas as usize);
    for (id, (shard, _)) in directory.shards() {
        let Some(primary) = shard.primary else {
            found.push(format!("shard {id} has had no primary"));
            continue;
        };
        for node in shard.in_sync.iter().chain([&primary]) {
            let known = directory.nodes().get(node);
            if known.is_none_or(|known| known.revision == 0) {
                let role = role(shard, *node);
                found.push(format!(
                    "shard {id}: node {node} ({role}) is not registered"
                ));
            }
        }
        if shard.in_sync.len() < wanted {
            let count = shard.in_sync.len();
            found.push(format!(
                "shard {id}: {count} of {wanted} replicas are in sync"
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use membership::directory::initial;
    use membership::kv::Entry;
    use membership::records::{Config, SHARDS};

    fn id(number: u8) -> Name {
        Name::parse(format!("{number:040x}").as_bytes()).expect("40 digits")
    }

    #[test]
    fn what_a_cluster_lacks_is_found() {
        let config = Config {
            cluster: id(9),
            shards: 2,
            replicas: 1,
            lease_ms: 2_000,
            strength: Strength::Async,
            sync_timeout_ms: 1_000,
        };
        let mut records = initial(&config, &[id(1), id(2)]);
        let shard = Shard {
            epoch: 1,
            primary: Some(id(5)),
            in_sync: vec![],
            position: 0,
        };
        records.push((format!("{SHARDS}{}", id(1)), shard.encode(id(9))));
        records.push((format!("{SHARDS}{}", id(3)), "{".to_owned()));
        let entries = records
            .into_iter()
            .enumerate()
            .map(|(at, (key, value))| Entry {
                key,
                value: value.into_bytes(),
                created: at as i64 + 1,
                revision: at as i64 + 1,
            });
        let mut directory = Directory::default();
        directory.load(9, entries.collect());
        let found = findings(&directory);
        let expected = [
            "is not used: damaged",
            "is not registered",
            "0 of 1 replicas",
            "has had no primary",
        ];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (finding, expected) in found.iter().zip(expected) {
            assert!(finding.contains(expected), "{finding}");
        }
        let text = as_text(&directory);
        for part in [
            "8192 slots (0-8191)  term 1",
            "primary  000000000000  not registered",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let json = as_json(&directory);
        assert_eq!(json["shards"][0]["nodes"][0]["role"], "primary");
        assert_eq!(json["shards"][1]["slots"], 8192);
    }
}
