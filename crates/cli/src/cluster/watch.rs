//! `mayfly cluster watch`: a line for each change of the records.

use super::Access;
use super::show::DIGITS;
use anyhow::Result;
use clap::Args;
use cluster::Name;
use membership::directory::Directory;
use membership::etcd::Etcd;
use membership::kv::{Changes, Failure, Kv};
use serde_json::json;
use server::logging::timestamp;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Pause after a failure of etcd.
const PAUSE: Duration = Duration::from_secs(1);

/// Arguments of `mayfly cluster watch`.
#[derive(Args)]
pub struct Watch {
    #[command(flatten)]
    access: Access,
    /// Print a JSON object for each change
    #[arg(long)]
    json: bool,
}

/// State of everything that has a name in a cluster.
type Facts = BTreeMap<String, String>;

impl Watch {
    pub(super) fn run(&self) -> Result<()> {
        self.access.with(async |etcd, directory| {
            if directory.config().is_none() {
                return Err(self.access.absent());
            }
            let mut directory = directory;
            loop {
                let failure = self.follow(etcd, &mut directory).await;
                self.print(&directory, "etcd", &failure.0);
                tokio::time::sleep(PAUSE).await;
            }
        })
    }

    /// Prints changes until etcd fails.
    async fn follow(&self, etcd: &Etcd, directory: &mut Directory) -> Failure {
        let mut changes = match etcd.watch(directory.revision() + 1).await {
            Ok(changes) => changes,
            Err(failure) => return failure,
        };
        loop {
            let events = match changes.next().await {
                Ok(events) => events,
                Err(failure) => {
                    // Some may have been removed from etcd's history meanwhile.
                    if let Ok(snapshot) = etcd.read().await {
                        self.take(directory, |known| {
                            known.load(snapshot.revision, snapshot.entries)
                        });
                    }
                    return failure;
                }
            };
            self.take(directory, |known| known.apply_all(events));
        }
    }

    /// Changes the records, and prints what follows from that.
    fn take(&self, directory: &mut Directory, change: impl FnOnce(&mut Directory)) {
        let before = facts(directory);
        change(directory);
        for (name, state) in changes_between(&before, &facts(directory)) {
            self.print(directory, &name, &state);
        }
    }

    fn print(&self, directory: &Directory, name: &str, state: &str) {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let time = timestamp(since_epoch.unwrap_or_default().as_millis() as u64);
        let line = match self.json {
            true => {
                let revision = directory.revision();
                json!({"time": time, "revision": revision, "what": name, "is": state}).to_string()
            }
            false => format!("{time} {name}: {state}"),
        };
        println!("{line}");
    }
}

/// Returns the state of everything in the records.
fn facts(directory: &Directory) -> Facts {
    let mut found = Facts::new();
    let short = |id: &Name| format!("{:.DIGITS$}", id.as_str());
    for (id, (shard, _)) in directory.shards() {
        let primary = shard.primary.as_ref().map_or("none".to_owned(), short);
        let text = format!("primary {primary}, term {}", shard.epoch);
        found.insert(format!("shard {}", short(id)), text);
        for replica in &shard.in_sync {
            let name = format!("replica {} of shard {}", short(replica), short(id));
            found.insert(name, "in sync".to_owned());
        }
        if let Some((to, _)) = directory.failover(*id) {
            let name = format!("failover of shard {}", short(id));
            found.insert(name, format!("requested to {}", short(&to)));
        }
    }
    for (id, known) in directory.nodes() {
        if known.revision != 0 {
            let node = &known.registration.node;
            let shard = known.registration.shard.as_ref();
            let place = shard.map_or("spare".to_owned(), |shard| {
                format!("shard {}", short(shard))
            });
            let text = format!("registered at {}, {place}, {}", node.inside, node.version);
            found.insert(format!("node {}", short(id)), text);
        }
    }
    for (first, last, shard) in directory.map().map_or(&[][..], |(map, _)| map) {
        found.insert(
            format!("slots {first}-{last}"),
            format!("shard {}", short(shard)),
        );
    }
    for (key, problem) in directory.problems() {
        found.insert(format!("record {key}"), format!("not used: {problem}"));
    }
    found
}

/// Returns what has changed, with the new state.
fn changes_between(before: &Facts, after: &Facts) -> Vec<(String, String)> {
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    let gone = gone.map(|name| (name.clone(), ended(name).to_owned()));
    let new = after
        .iter()
        .filter(|(name, state)| before.get(*name) != Some(state));
    gone.chain(new.map(|(name, state)| (name.clone(), state.clone())))
        .collect()
}

/// Returns the state of what is no longer in the records.
fn ended(name: &str) -> &'static str {
    match name.split(' ').next() {
        Some("node") => "not registered",
        Some("replica") => "not in sync",
        Some("failover") => "ended",
        Some("record") => "used",
        _ => "removed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use membership::kv::{Entry, Event};
    use membership::records::{
        CONFIG, Config, LEASE_MS_DEFAULT, MAP, SHARDS, Shard, Strength, encode_map,
    };

    fn id(digit: &str) -> Name {
        Name::parse(digit.repeat(40).as_bytes()).expect("40 digits")
    }

    #[test]
    fn each_change_is_a_line() {
        let config = Config {
            cluster: id("f"),
            shards: 1,
            replicas: 1,
            lease_ms: LEASE_MS_DEFAULT,
            strength: Strength::Async,
            sync_timeout_ms: 1_000,
        };
        let mut directory = Directory::default();
        let mut revision = 0;
        let mut put = |key: String, value: String| {
            revision += 1;
            let before = facts(&directory);
            directory.apply(Event::Put(Entry {
                key,
                value: value.into_bytes(),
                created: revision,
                revision,
            }));
            let found = changes_between(&before, &facts(&directory)).into_iter();
            found
                .map(|(name, state)| format!("{name}: {state}"))
                .collect::<Vec<_>>()
        };
        let shard = |epoch, primary: &str, in_sync: &[&str]| {
            let shard = Shard {
                epoch,
                primary: Some(id(primary)),
                in_sync: in_sync.iter().map(|digit| id(digit)).collect(),
                position: 0,
            };
            (format!("{SHARDS}{}", id("e")), shard.encode(id("f")))
        };
        put(CONFIG.into(), config.encode());
        let map = encode_map(&vec![(0, 16_383, id("e"))], id("f"));
        let [a, b, e] = ["a", "b", "e"].map(|digit| digit.repeat(DIGITS));
        let (key, value) = shard(1, "a", &["b"]);
        let expected = [
            format!("replica {b} of shard {e}: in sync"),
            format!("shard {e}: primary {a}, term 1"),
        ];
        assert_eq!(put(key, value), expected);
        assert_eq!(put(MAP.into(), map), [format!("slots 0-16383: shard {e}")]);
        let (key, value) = shard(2, "b", &[]);
        let expected = [
            format!("replica {b} of shard {e}: not in sync"),
            format!("shard {e}: primary {b}, term 2"),
        ];
        assert_eq!(put(key.clone(), value.clone()), expected);
        assert_eq!(put(key.clone(), value.clone()), Vec::<String>::new());
        let refused = put(key.clone(), "{".into());
        assert!(
            refused[0].starts_with(&format!("record {key}: not used: damaged")),
            "{refused:?}"
        );
        assert_eq!(put(key.clone(), value), [format!("record {key}: used")]);
    }
}
