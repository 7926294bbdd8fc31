//! A client that sends on a fixed schedule, to measure latency while a server is busy with
//! something else.

use crate::contestant::Server;
use crate::error::{Error, Result};
use crate::latency::{Latencies, Percentiles};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Sends this many requests per second until stopped, regardless of outstanding replies. One thread
/// sends and another receives. Latency counts from the time of sending.
pub(crate) fn requests(
    server: &Server,
    rate: u64,
    until: Instant,
    is_over: &AtomicBool,
    mut encode: impl FnMut(&mut Vec<u8>) + Send,
) -> Result<Percentiles> {
    let mut client = server.client()?;
    let mut stream = client.sender()?;
    let (sent, instants) = mpsc::channel();
    let mut latencies = Latencies::new();
    std::thread::scope(|scope| {
        let sending = scope.spawn(move || {
            let pause = Duration::from_nanos(1_000_000_000 / rate);
            let mut due = Instant::now() + pause;
            let mut request = Vec::new();
            while due < until && !is_over.load(Ordering::Relaxed) {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                request.clear();
                encode(&mut request);
                // The receiver ends at an error, which it reports.
                if sent.send(Instant::now()).is_err() {
                    break;
                }
                stream
                    .write_all(&request)
                    .map_err(Error::system("cannot send"))?;
                due += pause;
            }
            Ok::<_, Error>(())
        });
        for instant in instants {
            client.receive()?;
            latencies.record(instant.elapsed());
        }
        sending.join().expect("the sender does not panic")
    })?;
    Ok(latencies.percentiles())
}
