//! `mayfly edge status`: prints the status of a running node.

use anyhow::{Context, Result, ensure};
use clap::Args;
use std::io::{Read, Write, stdout};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Maximum time to wait for the node.
const WAIT: Duration = Duration::from_secs(10);
/// Maximum size of a reply in bytes.
const REPLY_BYTES_MAX: u64 = 1 << 20;

/// Arguments of `mayfly edge status`.
#[derive(Args)]
pub struct Arguments {
    /// Address of the node for operators (its --admin)
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8090")]
    admin: SocketAddr,
}

impl Arguments {
    /// Prints the status.
    pub fn run(&self) -> Result<()> {
        let text = self.fetch()?;
        stdout().write_all(text.as_bytes())?;
        Ok(())
    }

    fn fetch(&self) -> Result<String> {
        let address = self.admin;
        let unreachable = || format!("no node serves operators on {address} (edge serve --admin)");
        let mut stream = TcpStream::connect_timeout(&address, WAIT).with_context(unreachable)?;
        stream.set_read_timeout(Some(WAIT))?;
        stream.set_write_timeout(Some(WAIT))?;
        let request =
            format!("GET /status HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream
            .write_all(request.as_bytes())
            .with_context(unreachable)?;
        let mut reply = String::new();
        let read = stream.take(REPLY_BYTES_MAX).read_to_string(&mut reply);
        read.with_context(unreachable)?;
        let text = reply.split_once("\r\n\r\n").map(|(_, text)| text);
        let is_status = reply.starts_with("HTTP/1.1 200 ");
        ensure!(
            is_status,
            "{address}: expected the status of a node, and received another reply"
        );
        Ok(text.unwrap_or_default().to_owned())
    }
}
