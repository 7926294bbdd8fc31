//! `bench expiry-mixed`: a few keys that share one deadline among many with a TTL of an hour.
//!
//! In this case, a sampling index finds too few dead keys to continue. The experiment counts the
//! dead keys that the server still holds one second and more after their deadline.

use crate::clock;
use crate::contestant::{Contest, Server, Settings};
use crate::error::{Error, Result};
use crate::keys::{self, Template};
use ::report::{Column, Table};
use serde::Serialize;

/// Arguments of `bench expiry-mixed`.
#[derive(clap::Args, Debug)]
pub struct ExpiryMixed {
    #[command(flatten)]
    contest: Contest,
    /// Number of keys with a TTL of one hour
    #[arg(long, default_value = "1m", value_parser = units::count)]
    others: u64,
    /// Number of keys that share one deadline
    #[arg(long, default_value = "200k", value_parser = units::count)]
    dying: u64,
    /// Seconds after the deadline at which to count
    #[arg(long, value_delimiter = ',', default_value = "1,30")]
    after: Vec<u64>,
    /// Count after 120 seconds, too
    #[arg(long)]
    long: bool,
}

/// Counts taken a number of seconds after the deadline.
#[derive(Debug, Serialize)]
struct Look {
    after_seconds: u64,
    dead_keys: u64,
    used_memory: f64,
}

#[derive(Debug, Serialize)]
struct Row {
    server: String,
    version: String,
    used_memory_before: f64,
    looks: Vec<Look>,
}

impl ExpiryMixed {
    /// Runs the experiment and prints its report.
    pub(crate) fn run(&self) -> Result<()> {
        let mut after = self.after.clone();
        after.extend(self.long.then_some(120));
        after.sort_unstable();
        after.dedup();
        let mut rows = Vec::new();
        let entrants = self.contest.begin()?;
        let progress = crate::progress::steps(entrants.len() as u64);
        for entrant in entrants {
            progress.set_message(entrant.label.clone());
            rows.push(self.measure(&entrant.start(&Settings::default())?, &after)?);
            progress.inc(1);
        }
        progress.finish_and_clear();
        self.report(&rows, &after)
    }

    fn measure(&self, server: &Server, after: &[u64]) -> Result<Row> {
        let hour = Template::new(&[b"SET", b"{key}", b"xxx", b"EX", b"0000"]);
        keys::send_each(server, &hour, 0..self.others, |_| 3600)?;
        let deadline_ms = clock::wall_ms() + clock::fill_allowance_ms(self.dying);
        let dying = Template::new(&[b"SET", b"{key}", b"xxx", b"PXAT", b"0000000000000"]);
        keys::send_each(
            server,
            &dying,
            self.others..self.others + self.dying,
            |_| deadline_ms,
        )?;
        if clock::wall_ms() >= deadline_ms {
            return Err(Error::server(
                &server.label,
                "loading took longer than allowed",
            ));
        }
        let mut client = server.client()?;
        let used_memory_before = client.info_number("memory", "used_memory")?;
        let mut looks = Vec::new();
        for &after_seconds in after {
            clock::sleep_until_ms(deadline_ms + after_seconds * 1000);
            let held = client.integer(&["DBSIZE"])?.max(0) as u64;
            looks.push(Look {
                after_seconds,
                dead_keys: held.saturating_sub(self.others),
                used_memory: client.info_number("memory", "used_memory")?,
            });
            if held <= self.others {
                break;
            }
        }
        Ok(Row {
            server: server.label.clone(),
            version: server.version.clone(),
            used_memory_before,
            looks,
        })
    }

    fn report(&self, rows: &[Row], after: &[u64]) -> Result<()> {
        if self.contest.json {
            return crate::report::json(&rows);
        }
        let mut table = Table::of(rows)
            .column(Column::text("server"), |row| &row.server)
            .column(Column::text("version"), |row| &row.version)
            .column(Column::mebibytes("memory before"), |row| {
                row.used_memory_before
            });
        for (index, seconds) in after.iter().enumerate() {
            let dead = Column::count(&format!("dead keys after {seconds} s"));
            // Nothing is measured once all keys are removed.
            let look = |row: &Row| row.looks.get(index).map_or(0, |look| look.dead_keys);
            table = table.column(dead, look).column(
                Column::mebibytes("memory").labelled(&format!("memory after {seconds} s")),
                |row| row.looks.get(index).map(|look| look.used_memory),
            );
        }
        let table = table.finish();
        println!(
            "Dead keys still in memory: {} keys of one hour and {} that share one deadline\n",
            self.others, self.dying
        );
        print!("{}", table.to_text());
        Ok(())
    }
}
