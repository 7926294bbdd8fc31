//! `bench expiry`: experiments that compare expiry indexes of Mayfly with each other and with other
//! servers.

mod gist;
mod in_process;
mod platform;

use crate::contestant::{Contest, Entrant};
use crate::error::Result;

/// Arguments of `bench expiry`.
#[derive(clap::Args, Debug)]
pub struct Expiry {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(clap::Subcommand, Debug)]
enum Experiment {
    /// YCSB with TTLs: memory and throughput over time for each index and peer (MEMSYS 2020)
    Platform(platform::Platform),
    /// Millions of keys with and without TTLs: memory, load time, GET, TTL, a flood of short TTLs
    Gist(gist::Gist),
    /// Each index alone on a simulated clock: bytes, CPU time and lag, for many shapes of TTLs
    InProcess(in_process::InProcess),
}

impl Expiry {
    /// Runs the experiment and prints its report.
    pub(crate) fn run(&self) -> Result<()> {
        match &self.experiment {
            Experiment::Platform(platform) => platform.run(),
            Experiment::Gist(gist) => gist.run(),
            Experiment::InProcess(in_process) => in_process.run(),
        }
    }
}

/// A server to compare; one of ours has a particular index.
#[derive(Clone, Debug)]
struct Contestant {
    /// Name of the index, as given, or of the peer.
    name: String,
    /// The index, as passed to the server.
    index: Option<String>,
    entrant: Entrant,
}

/// Returns all servers to compare: ours once for each index, then the peers (redis-server if none
/// is named). `given` converts an index from the user's notation to the form passed to the server.
fn contestants(
    contest: &Contest,
    indexes: &[String],
    given: impl Fn(&str) -> Result<String>,
) -> Result<Vec<Contestant>> {
    let mut contestants = Vec::new();
    for entrant in contest.with_usual_peer().begin()? {
        if !entrant.takes_index() {
            contestants.push(Contestant {
                name: entrant.label.clone(),
                index: None,
                entrant,
            });
            continue;
        }
        for spec in indexes {
            let index = given(spec)?;
            contestants.push(Contestant {
                name: spec.clone(),
                entrant: entrant.with_index(spec, &index, false),
                index: Some(index),
            });
        }
    }
    Ok(contestants)
}
