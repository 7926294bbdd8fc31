//! `mayfly sim --flash-dram-shares`: a cache in DRAM in front of a cache on flash.

use super::{Arguments, resolve};
use ::sim::Columns;
use ::sim::flash::{Layout, Scheme, replay as replay_flash};
use ::sim::report::Row;
use anyhow::{Result, ensure};

/// Replays every scheme at every size and DRAM share. The scheme without DRAM runs once a size.
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
        let schemes = Scheme::EVERY.into_iter().flat_map(|scheme| {
            let shares = match scheme {
                Scheme::All => &[0.0],
                _ => arguments.flash_dram_shares.as_slice(),
            };
            shares.iter().map(move |&share| (scheme, share))
        });
        for (scheme, share) in schemes {
            let dram = (capacity as f64 * share) as u64;
            let layout = Layout {
                scheme,
                capacity,
                dram,
            };
            rows.push(Row {
                trace: columns.name().into(),
                policy: match scheme {
                    Scheme::All => scheme.name().into(),
                    _ => format!("{}:dram={}%", scheme.name(), share * 100.0),
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
