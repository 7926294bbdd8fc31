//! `mayfly sim --flash-dram-shares`: a cache in DRAM in front of a cache on flash.

use super::{Arguments, resolve};
use ::sim::Columns;
use ::sim::flash::{FlashAdmission, Layout, replay as replay_flash};
use ::sim::report::Row;
use anyhow::{Result, ensure};

/// Replays every admission policy at every size and DRAM share. The policy without DRAM runs once
/// per size.
pub(super) fn replay(arguments: &Arguments, columns: &Columns) -> Result<Vec<Row>> {
    ensure!(
        columns.share() == 1.0,
        "--flash-dram-shares: cannot be combined with --sample, because writes are not scaled"
    );
    ensure!(
        !columns.has_deletes() && !columns.has_ttls(),
        "--flash-dram-shares: {} has TTLs or deletions, which are not modelled: use another trace or \
         --ignore-ttl",
        columns.name()
    );
    let unit = arguments.replaying.unit(columns);
    let mut rows = Vec::new();
    for size in &arguments.size {
        let capacity = resolve(size, columns, unit)?;
        let admissions = FlashAdmission::EVERY.into_iter().flat_map(|admission| {
            let shares = match admission {
                FlashAdmission::All => &[0.0],
                _ => arguments.flash_dram_shares.as_slice(),
            };
            shares.iter().map(move |&share| (admission, share))
        });
        for (admission, share) in admissions {
            let dram = (capacity as f64 * share) as u64;
            let layout = Layout {
                admission,
                capacity,
                dram,
            };
            rows.push(Row {
                trace: columns.name().into(),
                policy: match admission {
                    FlashAdmission::All => admission.name().into(),
                    _ => format!("{}:dram={}%", admission.name(), share * 100.0),
                },
                unit,
                cache_size: capacity,
                size: size.to_string(),
                found: replay_flash(columns, unit, layout, arguments.replaying.seed),
            });
        }
    }
    Ok(rows)
}
