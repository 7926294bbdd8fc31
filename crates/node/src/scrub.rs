//! Background verification of the disk tier: records are read and compared with their checksums, at
//! a limited rate. A damaged chunk is reported as lost, so that it is restored. A damaged response
//! that is stored whole is fetched again by its next request.

use crate::disk::Position;
use crate::proxy::Node;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Number of bytes that are read at a time, apart from the last record.
const STEP_BYTES: u64 = 1 << 20;
/// Minimum time between the starts of two passes.
const PASS_TIME: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of a pass's damaged records with a damaged key. They are looked up among the
/// objects of the cluster. Further ones are not reported: a data chunk is then found by a read of
/// its object, and parity with the first lost data chunk of the same object.
const UNNAMED_MAX: usize = 65_536;

/// Verifies the disk tier until `stop` changes or a device failure has turned the tier off.
pub async fn run(node: Arc<Node>, mut stop: watch::Receiver<bool>) {
    let rate = node.config.scrub_bytes_per_second;
    if rate == 0 || node.config.disk.is_none() {
        return;
    }
    let passes = async {
        loop {
            let next = Instant::now() + PASS_TIME;
            pass(&node, rate).await;
            if node.store.disk_stats().is_none_or(|disk| disk.is_off) {
                return;
            }
            sleep_until(next).await;
        }
    };
    tokio::select! {
        () = passes => {}
        _ = stop.changed() => {}
    }
}

/// Verifies everything on disk once, at `bytes_per_second`.
pub async fn pass(node: &Arc<Node>, bytes_per_second: u64) {
    let mut position = Position::new(RandomState::new().hash_one(0));
    let mut unnamed = HashSet::new();
    let mut pace = Instant::now();
    loop {
        let store = node.store.clone();
        let step = tokio::task::spawn_blocking(move || {
            let step = store.scrub(&mut position, STEP_BYTES);
            (step, position)
        });
        let Ok((step, reached)) = step.await else {
            return;
        };
        position = reached;
        let us = step.bytes.saturating_mul(1_000_000) / bytes_per_second.max(1);
        if let Some(cluster) = &node.cluster {
            for lost in step.lost {
                match lost.described {
                    Some((key, versions)) => cluster.report_lost(&key, &versions).await,
                    None if unnamed.len() < UNNAMED_MAX => _ = unnamed.insert(lost.hash),
                    None => {}
                }
            }
            if step.is_last && !unnamed.is_empty() {
                cluster.report_unnamed(unnamed).await;
                return;
            }
        }
        if step.is_last {
            return;
        }
        // Lost time is not made up for.
        pace = pace.max(Instant::now()) + Duration::from_micros(us);
        sleep_until(pace).await;
    }
}
