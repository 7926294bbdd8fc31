//! `mayfly cluster move`, `cancel`, `rebalance`, `add-shard` and `remove-shard`: moves of slots.
//! Each command writes records, from which the primaries go on by themselves, and then waits. A
//! command that ends early stops nothing, and the same one goes on where it was.

use super::change::{commit, name, node};
use super::{Access, read};
use anyhow::{Result, anyhow, bail};
use clap::Args;
use cluster::{Name, SLOTS};
use membership::directory::Directory;
use membership::etcd::Etcd;
use membership::kv::{Guard, Write};
use membership::moves::{self, Move, State, ranges_of};
use membership::plan::{self, Wanted};
use membership::records::{CONFIG, SHARDS, SHARDS_MAX, Shard};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

/// Time between two reads while moves are awaited.
const POLL: Duration = Duration::from_millis(50);
/// Number of attempts to write records that others change at the same time.
const ATTEMPTS: u32 = 10;

/// Options of all these commands.
#[derive(Args)]
struct Options {
    #[command(flatten)]
    access: Access,
    /// Maximum time to wait for the end of the moves, in seconds; 0 does not wait
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    wait: u64,
    /// Show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `mayfly cluster move`.
#[derive(Args)]
pub struct MoveSlots {
    /// Slots, such as 0-99,200
    slots: String,
    /// Shard that gets them: the beginning of its name, or one of its nodes
    #[arg(long, value_name = "SHARD")]
    to: String,
    #[command(flatten)]
    options: Options,
}

/// Arguments of `mayfly cluster cancel`.
#[derive(Args)]
pub struct Cancel {
    #[command(flatten)]
    access: Access,
    /// Beginnings of the names of moves; all open ones without any
    moves: Vec<String>,
    /// Show what would be done
    #[arg(long)]
    dry_run: bool,
}

/// Arguments of `mayfly cluster rebalance`.
#[derive(Args)]
pub struct Rebalance {
    #[command(flatten)]
    options: Options,
}

/// Arguments of `mayfly cluster add-shard`.
#[derive(Args)]
pub struct AddShard {
    #[command(flatten)]
    access: Access,
    /// Show what would be done
    #[arg(long)]
    dry_run: bool,
}

/// Arguments of `mayfly cluster remove-shard`.
#[derive(Args)]
pub struct RemoveShard {
    /// The shard: the beginning of its name, or one of its nodes
    shard: String,
    #[command(flatten)]
    options: Options,
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Reads slots such as `0-99,200`.
fn slots(text: &str) -> Result<Vec<u16>> {
    let wrong = |part: &str| {
        anyhow!(
            "slots '{part}': expected FIRST-LAST or SLOT, from 0 to {}",
            SLOTS - 1
        )
    };
    let mut all = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u16, u16) = match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) => (first, last),
            _ => return Err(wrong(part)),
        };
        if first > last || last >= SLOTS {
            return Err(wrong(part));
        }
        all.extend(first..=last);
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Returns the only shard whose name begins with a text, or the shard of the node that it names.
fn shard(directory: &Directory, text: &str) -> Result<Name> {
    let mut found = directory
        .shards()
        .keys()
        .filter(|id| id.as_str().starts_with(text));
    match (found.next(), found.next()) {
        (Some(id), None) => Ok(*id),
        (Some(_), Some(_)) => bail!("shard '{text}': several names begin so: expected more digits"),
        (None, _) => {
            let id = node(directory, text).map_err(|_| {
                anyhow!("shard '{text}': expected the beginning of a name, or a node, as 'mayfly cluster status' shows them")
            })?;
            directory
                .shard_of(id)
                .ok_or_else(|| anyhow!("node {id} has no shard"))
        }
    }
}

/// Returns the owner of each slot.
fn owners(directory: &Directory) -> Vec<Option<Name>> {
    let mut owners = vec![None; usize::from(SLOTS)];
    for (first, last, shard) in directory.map().map_or(&[][..], |(map, _)| map) {
        owners[usize::from(*first)..=usize::from(*last)].fill(Some(*shard));
    }
    owners
}

/// Returns the owners as they will be when the open moves have ended.
fn owners_after(directory: &Directory) -> Vec<Option<Name>> {
    let mut owners = owners(directory);
    for (one, _) in directory.moves().values().filter(|(one, _)| one.is_open()) {
        for range in one.ranges() {
            range.for_each(|slot| owners[usize::from(slot)] = Some(one.to));
        }
    }
    owners
}

/// Returns one move for each owner of some slots, without those that move or are there already.
fn wanted(directory: &Directory, slots: &[u16], to: Name) -> Result<Vec<Wanted>> {
    let (before, after) = (owners(directory), owners_after(directory));
    let mut by_owner: BTreeMap<Name, Vec<u16>> = BTreeMap::new();
    for slot in slots {
        let at = usize::from(*slot);
        let owner = before[at].ok_or_else(|| anyhow!("slot {slot} has no owner"))?;
        if after[at] != Some(to) {
            by_owner.entry(owner).or_default().push(*slot);
        }
    }
    let moves = by_owner.into_values();
    moves
        .map(|slots| Ok((name()?, ranges_of(slots), to)))
        .collect()
}

fn text_of(slots: &[(u16, u16)]) -> String {
    let part = |(first, last): &(u16, u16)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    slots.iter().map(part).collect::<Vec<_>>().join(",")
}

/// Returns a move as JSON.
pub(super) fn as_json(id: Name, one: &Move) -> Value {
    json!({
        "id": id.as_str(), "slots": text_of(&one.slots), "from": one.from.as_str(), "to": one.to.as_str(),
        "state": one.state.word(), "why": one.why, "attempts": one.attempts, "created": one.created, "ended": one.ended,
    })
}

/// Returns a line about a move.
pub(super) fn line(id: Name, one: &Move) -> String {
    let why = match one.why.is_empty() {
        true => String::new(),
        false => format!(": {}", one.why),
    };
    format!(
        "move {:.12}  slots {}  from {:.12} to {:.12}  {}{why}",
        id.as_str(),
        text_of(&one.slots),
        one.from.as_str(),
        one.to.as_str(),
        one.state.word()
    )
}

impl Options {
    /// Creates the moves that `plan` returns, unless others have changed the records meanwhile, in
    /// which case it plans again; then waits for them and for all that were open before.
    fn carry_out(&self, plan: impl Fn(&Directory) -> Result<Vec<Wanted>>) -> Result<()> {
        self.access.with(async |etcd, mut directory| {
            if directory.config().is_none() {
                return Err(self.access.absent());
            }
            let mut attempts = 0;
            let ids = loop {
                let wanted = plan(&directory)?;
                if self.dry_run {
                    self.show_plan(&directory, &wanted);
                    return Ok(());
                }
                let open = directory
                    .moves()
                    .iter()
                    .filter(|(_, (one, _))| one.is_open());
                let new = wanted.iter().map(|(id, ..)| *id);
                let ids: Vec<Name> = open.map(|(id, _)| *id).chain(new).collect();
                if wanted.is_empty() {
                    break ids;
                }
                let change = plan::create(&directory, &wanted, now());
                let change = change.map_err(|error| anyhow!(error))?;
                match commit(etcd, change.guards, change.writes).await {
                    Ok(()) => break ids,
                    Err(error) if attempts >= ATTEMPTS => return Err(error),
                    Err(_) => attempts += 1,
                }
                directory = read(etcd).await?;
            };
            self.wait_for(etcd, &ids).await
        })
    }

    fn show_plan(&self, directory: &Directory, wanted: &[Wanted]) {
        let from = |slots: &[(u16, u16)]| {
            let map = directory.map().map(|(map, _)| map);
            map.and_then(|map| moves::owner(map, slots))
        };
        if self.json {
            let moves: Vec<Value> = wanted
                .iter()
                .map(|(_, slots, to)| {
                    json!({"slots": text_of(slots), "from": from(slots).map(|id| id.to_string()), "to": to.as_str()})
                })
                .collect();
            return println!("{:#}", json!({ "moves": moves }));
        }
        for (_, slots, to) in wanted {
            println!("slots {} would move to shard {to}", text_of(slots));
        }
        if wanted.is_empty() {
            println!("nothing is to be moved");
        }
    }

    async fn wait_for(&self, etcd: &Etcd, ids: &[Name]) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(self.wait);
        loop {
            let directory = read(etcd).await?;
            let found = |id: &Name| directory.moves().get(id).map(|(one, _)| (*id, one.clone()));
            let all: Vec<(Name, Move)> = ids.iter().filter_map(found).collect();
            let is_over = all.iter().all(|(_, one)| !one.is_open());
            if !is_over && self.wait > 0 && Instant::now() < end {
                tokio::time::sleep(POLL).await;
                continue;
            }
            match self.json {
                true => {
                    let moves: Vec<Value> = all.iter().map(|(id, one)| as_json(*id, one)).collect();
                    println!("{:#}", json!({ "moves": moves }));
                }
                false => all
                    .iter()
                    .for_each(|(id, one)| println!("{}", line(*id, one))),
            }
            let failed = all
                .iter()
                .filter(|(_, one)| !matches!(one.state, State::Open | State::Done));
            return match failed.count() {
                0 if is_over || self.wait == 0 => Ok(()),
                0 => bail!("the moves go on: 'mayfly cluster status' shows them"),
                count => bail!("{count} moves have not given the slots to their target"),
            };
        }
    }
}

impl MoveSlots {
    pub(super) fn run(&self) -> Result<()> {
        let slots = slots(&self.slots)?;
        self.options.carry_out(|directory| {
            let to = shard(directory, &self.to)?;
            wanted(directory, &slots, to)
        })
    }
}

impl Cancel {
    pub(super) fn run(&self) -> Result<()> {
        self.access.with(async |etcd, directory| {
            let open = directory
                .moves()
                .iter()
                .filter(|(_, (one, _))| one.is_open());
            let is_meant = |id: &Name| {
                self.moves.is_empty()
                    || self
                        .moves
                        .iter()
                        .any(|text| id.as_str().starts_with(text.as_str()))
            };
            let ids: Vec<Name> = open.map(|(id, _)| *id).filter(is_meant).collect();
            if ids.len() < self.moves.len() {
                bail!(
                    "{} open moves have such names: expected {}",
                    ids.len(),
                    self.moves.len()
                );
            }
            for id in ids {
                if self.dry_run {
                    println!("move {id} would be cancelled");
                    continue;
                }
                let change = plan::end(&directory, id, State::Cancelled, "", now());
                let change = change.ok_or_else(|| anyhow!("move {id} has ended"))?;
                commit(etcd, change.guards, change.writes).await?;
                println!("move {id} is cancelled");
            }
            Ok(())
        })
    }
}

/// Returns the moves that give each of some shards as many slots as the others, plus or minus one,
/// and the other shards none. The slots that move are the last ones of their owners.
fn even(directory: &Directory, shards: &[Name]) -> Result<Vec<Wanted>> {
    let mut slots: BTreeMap<Name, Vec<u16>> = shards.iter().map(|id| (*id, Vec::new())).collect();
    for (slot, owner) in (0..SLOTS).zip(owners_after(directory)) {
        if let Some(owner) = owner {
            slots.entry(owner).or_default().push(slot);
        }
    }
    let total: usize = slots.values().map(Vec::len).sum();
    let Some(share) = total.checked_div(shards.len()) else {
        bail!("there is no shard with a primary that could have the slots");
    };
    // The shards with the most slots keep one more, so that the fewest move.
    let mut order = shards.to_vec();
    order.sort_by_key(|id| (std::cmp::Reverse(slots[id].len()), *id));
    let mut extra = total % shards.len();
    let mut goals: BTreeMap<Name, usize> = BTreeMap::new();
    for id in order {
        goals.insert(id, share + usize::from(extra > 0));
        extra = extra.saturating_sub(1);
    }
    let mut surplus: Vec<u16> = Vec::new();
    for (id, own) in &mut slots {
        let goal = goals.get(id).copied().unwrap_or(0);
        surplus.extend(own.split_off(goal.min(own.len())));
    }
    surplus.sort_unstable();
    let mut all = Vec::new();
    for (id, goal) in goals {
        let lacks = goal.saturating_sub(slots[&id].len());
        let taken: Vec<u16> = surplus.drain(..lacks.min(surplus.len())).collect();
        all.extend(wanted(directory, &taken, id)?);
    }
    Ok(all)
}

/// Returns the shards that have a primary.
fn led(directory: &Directory) -> Vec<Name> {
    let all = directory.shards().iter();
    all.filter(|(_, (record, _))| record.primary.is_some())
        .map(|(id, _)| *id)
        .collect()
}

impl Rebalance {
    pub(super) fn run(&self) -> Result<()> {
        self.options
            .carry_out(|directory| even(directory, &led(directory)))
    }
}

impl AddShard {
    pub(super) fn run(&self) -> Result<()> {
        self.access.with(async |etcd, directory| {
            let config = directory.config().ok_or_else(|| self.access.absent())?;
            let count = directory.shards().len() as u32;
            if count >= SHARDS_MAX {
                bail!("the cluster has {count} shards: expected fewer than {SHARDS_MAX}");
            }
            let mut next = config.clone();
            next.shards = count + 1;
            let id = name()?;
            if self.dry_run {
                println!("the cluster would have {} shards", next.shards);
                return Ok(());
            }
            let key = format!("{SHARDS}{id}");
            let guards = vec![Guard::Revision(key.clone(), 0)];
            let writes = vec![
                Write::Put(key, Shard::vacant().encode(config.cluster), None),
                Write::Put(CONFIG.into(), next.encode(), None),
            ];
            commit(etcd, guards, writes).await?;
            println!(
                "shard {id} has no slots yet: start {} nodes, then run 'mayfly cluster rebalance'",
                1 + config.replicas
            );
            Ok(())
        })
    }
}

impl RemoveShard {
    pub(super) fn run(&self) -> Result<()> {
        self.options.carry_out(|directory| {
            let id = shard(directory, &self.shard)?;
            let others: Vec<Name> = led(directory)
                .into_iter()
                .filter(|other| *other != id)
                .collect();
            let of_shard = |(slot, owner): (u16, Option<Name>)| (owner == Some(id)).then_some(slot);
            let slots: Vec<u16> = (0..SLOTS)
                .zip(owners_after(directory))
                .filter_map(of_shard)
                .collect();
            let Some(share) = slots.len().checked_div(others.len()) else {
                bail!("no other shard could have the slots");
            };
            let mut all = Vec::new();
            for (part, to) in slots.chunks(share.max(1)).zip(others.iter().cycle()) {
                all.extend(wanted(directory, part, *to)?);
            }
            Ok(all)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_read() {
        assert_eq!(slots("3,0-2, 2").expect("slots"), [0, 1, 2, 3]);
        assert_eq!(text_of(&ranges_of(vec![9, 0, 1, 3])), "0-1,3,9");
        for text in ["", "a", "2-1", "16384", "0-16384", "1-"] {
            let error = slots(text).expect_err(text).to_string();
            assert!(error.contains("expected FIRST-LAST or SLOT"), "{error}");
        }
    }
}
