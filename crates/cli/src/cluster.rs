//! `mayfly cluster`: operates a cluster of servers through its records in etcd. The servers follow
//! the records; no command connects to a server, except `import`, which is a client of both sides.

mod change;
mod demo;
mod import;
mod moves;
mod show;
mod watch;

use anyhow::{Context, Result, anyhow};
use clap::{Args, Subcommand};
use membership::directory::Directory;
use membership::etcd::Etcd;
use membership::kv::Kv;
use settings::{Config, find};
use std::path::PathBuf;

/// Arguments of `mayfly cluster`.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create the records of a cluster, whose slots are shared evenly among its shards.
    Init(change::Init),
    /// Change settings of a cluster while it runs.
    Set(change::Set),
    /// Show shards, slots and nodes.
    Status(show::Status),
    /// Report what a cluster lacks; the exit code is 1 if that is anything.
    Check(show::Check),
    /// Print a line for each change of the records until it is stopped.
    Watch(watch::Watch),
    /// Make a replica the primary of its shard, without losing a write.
    Failover(change::Failover),
    /// Remove a node that will not come back from its shard.
    Forget(change::Forget),
    /// Move slots to another shard, while their keys are used.
    Move(moves::MoveSlots),
    /// End open moves of slots, which stay where they are.
    Cancel(moves::Cancel),
    /// Move slots so that each shard has the same number.
    Rebalance(moves::Rebalance),
    /// Add a shard without slots.
    AddShard(moves::AddShard),
    /// Move all slots of a shard to the others.
    RemoveShard(moves::RemoveShard),
    /// Copy the keys of a running cluster or server to another one, and switch with one pause of
    /// writes.
    Import(Box<import::Import>),
    /// Start etcd and some nodes on this machine, and end them together.
    Demo(demo::Arguments),
}

/// Access to the records of a cluster.
#[derive(Args, Clone)]
pub struct Access {
    /// URLs of etcd, separated by commas
    #[arg(long, value_name = "URLS", default_value = "http://127.0.0.1:2379")]
    etcd: String,
    /// Name of the cluster, as in cluster-name
    #[arg(long, value_name = "NAME", default_value = "default")]
    name: String,
    /// File with the authorities that sign etcd's certificates, in PEM
    #[arg(long, value_name = "FILE")]
    etcd_ca: Option<PathBuf>,
    /// File with a certificate for etcd, in PEM
    #[arg(long, value_name = "FILE", requires = "etcd_key")]
    etcd_cert: Option<PathBuf>,
    /// File with the private key of this certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    etcd_key: Option<PathBuf>,
    /// User of etcd
    #[arg(long, value_name = "NAME", requires = "etcd_password_file")]
    etcd_user: Option<String>,
    /// File with the password of this user
    #[arg(long, value_name = "FILE", requires = "etcd_user")]
    etcd_password_file: Option<PathBuf>,
}

impl Access {
    /// Access without certificates and a user, for a cluster with the default name.
    fn at(url: &str) -> Access {
        Access {
            etcd: url.to_owned(),
            name: "default".to_owned(),
            etcd_ca: None,
            etcd_cert: None,
            etcd_key: None,
            etcd_user: None,
            etcd_password_file: None,
        }
    }

    /// Prepares a client. The settings are those of a server with the same names.
    fn connect(&self) -> Result<Etcd> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let config = Config::default();
        for (name, value) in [
            ("cluster-etcd-endpoints", Some(self.etcd.clone())),
            ("cluster-name", Some(self.name.clone())),
            ("cluster-etcd-ca", path(&self.etcd_ca)),
            ("cluster-etcd-cert", path(&self.etcd_cert)),
            ("cluster-etcd-key", path(&self.etcd_key)),
            ("cluster-etcd-user", self.etcd_user.clone()),
            ("cluster-etcd-password-file", path(&self.etcd_password_file)),
        ] {
            if let (Some(param), Some(value)) = (find(name), value) {
                let set = config.set(param, &value);
                set.map_err(|error| anyhow!("{name}: {error}"))?;
            }
        }
        let access = server::host::access(&config).map_err(|error| anyhow!(error))?;
        Etcd::new(&access).map_err(|invalid| anyhow!(invalid))
    }

    /// Runs a command with a client and the records as they are now.
    fn with<T>(&self, command: impl AsyncFnOnce(&Etcd, Directory) -> Result<T>) -> Result<T> {
        let etcd = self.connect()?;
        runtime()?.block_on(async {
            let directory = read(&etcd).await?;
            command(&etcd, directory).await
        })
    }

    /// Returns the reason for the absence of a cluster.
    fn absent(&self) -> anyhow::Error {
        anyhow!(
            "there is no cluster '{}' in {}: expected 'mayfly cluster init' before",
            self.name,
            self.etcd
        )
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.context("the runtime for etcd")
}

/// Reads all records.
async fn read(etcd: &Etcd) -> Result<Directory> {
    let snapshot = etcd
        .read()
        .await
        .map_err(|failure| anyhow!("etcd: {failure}"))?;
    let mut directory = Directory::default();
    directory.load(snapshot.revision, snapshot.entries);
    Ok(directory)
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.command {
        Command::Init(init) => init.run(),
        Command::Set(set) => set.run(),
        Command::Status(status) => status.run(),
        Command::Check(check) => check.run(),
        Command::Watch(watch) => watch.run(),
        Command::Failover(failover) => failover.run(),
        Command::Forget(forget) => forget.run(),
        Command::Move(arguments) => arguments.run(),
        Command::Cancel(cancel) => cancel.run(),
        Command::Rebalance(rebalance) => rebalance.run(),
        Command::AddShard(add) => add.run(),
        Command::RemoveShard(remove) => remove.run(),
        Command::Import(import) => import.run(),
        Command::Demo(demo) => demo.run(),
    }
}
