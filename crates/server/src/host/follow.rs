//! Following the records: all of them at one revision, then their changes.

use super::Message;
use membership::kv::{Changes, Failure, Kv};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;

/// Shortest and longest pause after a failure.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// Follows the records until the receiver ends. Any failure begins again with all records.
pub(super) async fn follow<K: Kv>(kv: Arc<K>, sender: mpsc::Sender<Message>, again: Arc<Notify>) {
    let mut pause = PAUSES[0];
    while !sender.is_closed() {
        let Err(failure) = session(&*kv, &sender, &again, &mut pause).await else {
            continue;
        };
        // A closed channel ends the loop.
        let _ = sender.send(Message::Lost(failure)).await;
        sleep(pause).await;
        pause = (pause * 2).min(PAUSES[1]);
    }
}

/// Reads all records and follows them until something fails, or until they must be read again.
async fn session<K: Kv>(
    kv: &K,
    sender: &mpsc::Sender<Message>,
    again: &Notify,
    pause: &mut Duration,
) -> Result<(), Failure> {
    let closed = |_| Failure("the server stops".into());
    let snapshot = kv.read().await?;
    let mut changes = kv.watch(snapshot.revision + 1).await?;
    let sent = sender.send(Message::Snapshot(snapshot)).await;
    sent.map_err(closed)?;
    *pause = PAUSES[0];
    loop {
        tokio::select! {
            events = changes.next() => {
                let events = events?;
                if !events.is_empty() {
                    sender.send(Message::Events(events)).await.map_err(closed)?;
                }
            }
            () = again.notified() => return Ok(()),
        }
    }
}
