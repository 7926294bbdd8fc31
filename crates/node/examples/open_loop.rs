//! Sends requests to an HTTP server at a fixed rate, whether it keeps up or not, and prints
//! percentiles of the time from when a request was due to its last byte. For `tests/measure/edge.py
//! latency`.
//!
//! ```text
//! cargo run --release -p mayfly-node --example open_loop -- 127.0.0.1:8080 1000 40000 5 16
//! ```
//!
//! The arguments are the address, the number of paths (`/0`, `/1`, …), requests per second, seconds
//! and connections. Each connection has a thread and its share of the rate.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Sends requests until an instant. Returns the times in microseconds.
fn connection(
    address: &str,
    paths: u64,
    seed: u64,
    start: Instant,
    pause: Duration,
    count: u32,
) -> Result<Vec<u32>, Failure> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut times = Vec::with_capacity(count as usize);
    let mut buffer = vec![0; 1 << 16];
    let mut random = seed;
    for number in 0..count {
        let due = start + pause * number;
        while let Some(wait) = due.checked_duration_since(Instant::now()) {
            std::thread::park_timeout(wait);
        }
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let path = (random >> 33) % paths;
        let request = format!("GET /{path} HTTP/1.1\r\nHost: a\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        read_reply(&mut stream, &mut buffer)?;
        times.push(due.elapsed().as_micros().try_into().unwrap_or(u32::MAX));
    }
    Ok(times)
}

fn read_reply(stream: &mut TcpStream, buffer: &mut [u8]) -> Result<(), Failure> {
    let mut filled = 0;
    let end = loop {
        let count = stream.read(&mut buffer[filled..])?;
        if count == 0 {
            return Err("the connection ended".into());
        }
        filled += count;
        let head = buffer[..filled]
            .windows(4)
            .position(|four| four == b"\r\n\r\n");
        if let Some(end) = head {
            break end + 4;
        }
    };
    let head = std::str::from_utf8(&buffer[..end])?.to_ascii_lowercase();
    if !head.starts_with("http/1.1 200") {
        return Err(head.into());
    }
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.ok_or("no content-length")?.parse()?;
    let mut left = (end + length).saturating_sub(filled);
    while left > 0 {
        let most = left.min(buffer.len());
        let count = stream.read(&mut buffer[..most])?;
        if count == 0 {
            return Err("the content ended".into());
        }
        left -= count;
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, paths, rate, seconds, connections] = &arguments[..] else {
        return Err("expected ADDRESS PATHS RATE SECONDS CONNECTIONS".into());
    };
    let (paths, rate): (u64, f64) = (paths.parse()?, rate.parse()?);
    let (seconds, connections): (f64, u32) = (seconds.parse()?, connections.parse()?);
    let is_positive = |number: f64| number.is_finite() && number > 0.0;
    if paths == 0 || connections == 0 || !is_positive(rate) || !is_positive(seconds) {
        return Err("expected PATHS, RATE, SECONDS and CONNECTIONS above 0".into());
    }
    let pause = Duration::try_from_secs_f64(f64::from(connections) / rate)?;
    let count = (seconds / pause.as_secs_f64()) as u32;
    if count == 0 {
        return Err("no request: expected RATE * SECONDS of at least CONNECTIONS".into());
    }
    let start = Instant::now() + Duration::from_millis(100);
    let threads: Vec<_> = (0..connections)
        .map(|number| {
            let address = address.clone();
            let own = start + pause * number / connections;
            let seed = u64::from(number) + 1;
            std::thread::spawn(move || connection(&address, paths, seed, own, pause, count))
        })
        .collect();
    let mut times = vec![];
    for thread in threads {
        times.extend(thread.join().map_err(|_| "a thread has panicked")??);
    }
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let took = start.elapsed().as_secs_f64();
    println!(
        "{:.0} requests/s p50 {} p99 {} p99.9 {} max {}",
        times.len() as f64 / took,
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
    Ok(())
}
