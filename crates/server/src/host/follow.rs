//! Following the records: all of them at one revision, then their changes.

use super::Message;
use membership::kv::{Changes, Event, Failure, Kv};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

/// Shortest and longest pause after a failure.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// Follows the records until the receiver ends. Any failure begins again with all records, after a
/// pause. `latest` is the revision of the records that the node has.
pub(super) async fn follow<K: Kv, S: Future<Output = ()>>(
    kv: Arc<K>,
    sender: mpsc::Sender<Message>,
    again: Arc<Notify>,
    mut latest: i64,
    sleep: impl Fn(Duration) -> S,
) {
    let mut pause = PAUSES[0];
    while !sender.is_closed() {
        let session = session(&*kv, &sender, &again, &mut pause, &mut latest);
        let Err(failure) = session.await else {
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
    latest: &mut i64,
) -> Result<(), Failure> {
    let closed = |_| Failure("the server stops".into());
    let snapshot = kv.read().await?;
    // The old records would give slots and terms back to nodes that have lost them.
    if snapshot.revision < *latest {
        return Err(Failure(format!(
            "the records are of revision {}, and this node has read {latest}: expected no older ones; was etcd restored from a backup?",
            snapshot.revision
        )));
    }
    *latest = snapshot.revision;
    let mut changes = kv.watch(snapshot.revision + 1).await?;
    let sent = sender.send(Message::Snapshot(snapshot)).await;
    sent.map_err(closed)?;
    *pause = PAUSES[0];
    loop {
        tokio::select! {
            events = changes.next() => {
                let events = events?;
                let revisions = events.iter().filter_map(|event| match event {
                    Event::Put(entry) => Some(entry.revision),
                    Event::Delete(_) => None,
                });
                *latest = revisions.fold(*latest, i64::max);
                if !events.is_empty() {
                    sender.send(Message::Events(events)).await.map_err(closed)?;
                }
            }
            () = again.notified() => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use membership::kv::{Guard, Snapshot, Write};
    use std::future::pending;

    /// A store of which each read has another revision, and whose changes end at once.
    struct Store(std::sync::Mutex<Vec<i64>>);

    struct Ended;

    impl Changes for Ended {
        async fn next(&mut self) -> Result<Vec<Event>, Failure> {
            Err(Failure("ended".into()))
        }
    }

    impl Kv for Store {
        type Changes = Ended;

        async fn read(&self) -> Result<Snapshot, Failure> {
            let revision = self.0.lock().expect("the lock is not poisoned").pop();
            let entries = Vec::new();
            match revision {
                Some(revision) => Ok(Snapshot { revision, entries }),
                None => pending().await,
            }
        }

        async fn watch(&self, _: i64) -> Result<Ended, Failure> {
            Ok(Ended)
        }

        async fn commit(&self, _: Vec<Guard>, _: Vec<Write>) -> Result<Option<i64>, Failure> {
            pending().await
        }

        async fn grant(&self, _: Duration) -> Result<i64, Failure> {
            pending().await
        }

        async fn keep_alive(&self, _: i64) -> Result<bool, Failure> {
            pending().await
        }

        fn endpoint(&self) -> String {
            String::new()
        }
    }

    #[test]
    fn records_of_an_earlier_revision_are_refused() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        // The last one is read first.
        let store = Store(vec![9, 7, 8, 4].into());
        runtime.expect("a runtime").block_on(async {
            let (sender, mut inbox) = mpsc::channel(9);
            let (again, mut pause, mut latest) = (Notify::new(), PAUSES[0], 5);
            let mut failures = Vec::new();
            for _ in 0..4 {
                let session = session(&store, &sender, &again, &mut pause, &mut latest);
                let failure = session.await.expect_err("the changes end");
                failures.push(failure.0.split(':').next().unwrap_or_default().to_owned());
            }
            let older = |read: i64, latest: i64| {
                format!("the records are of revision {read}, and this node has read {latest}")
            };
            let expected = [&older(4, 5), "ended", &older(7, 8), "ended"];
            assert_eq!(failures, expected);
            for expected in [8, 9] {
                let message = inbox.try_recv();
                assert!(matches!(message, Ok(Message::Snapshot(s)) if s.revision == expected));
            }
        });
    }
}
