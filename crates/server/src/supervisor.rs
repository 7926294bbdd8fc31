//! Notifications to the service manager by the protocol of `sd_notify`: a datagram to the socket
//! that the variable `NOTIFY_SOCKET` names.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The server serves all requests.
pub const READY: &str = "READY=1\nSTATUS=Ready to accept connections\n";
/// The server accepts connections and answers that it loads its file.
pub const LOADING: &str = "STATUS=Loading the snapshot file\n";
/// The start may take two more minutes.
pub const EXTEND: &str = "EXTEND_TIMEOUT_USEC=120000000\n";
/// The server has begun to stop.
pub const STOPPING: &str = "STOPPING=1\n";

/// Returns the state of a process that restarts and keeps its number, at a time of the monotonic
/// clock. It ends with [`READY`].
pub fn reloading(monotonic_us: u64) -> String {
    format!("RELOADING=1\nMONOTONIC_USEC={monotonic_us}\nSTATUS=Restarting\n")
}

/// Returns the socket of the service manager, if this process has one.
pub fn socket() -> Option<String> {
    std::env::var("NOTIFY_SOCKET")
        .ok()
        .filter(|name| !name.is_empty())
}

/// Sends a state to the service manager's socket. A name that begins with `@` is an abstract one.
///
/// # Errors
/// The name is not a socket's, or nothing receives from it.
pub fn notify(socket: &str, state: &str) -> io::Result<()> {
    let address = match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_arrives_at_a_path_and_at_an_abstract_name() {
        let name = format!("mayfly-notify-{}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        let at_path = UnixDatagram::bind(&path).expect("a free path");
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let at_name = UnixDatagram::bind_addr(&address).expect("a free name");
        notify(&path.to_string_lossy(), READY).expect("it is bound");
        notify(&format!("@{name}"), STOPPING).expect("it is bound");
        let _ = std::fs::remove_file(&path);
        let mut bytes = [0; 64];
        let len = at_path.recv(&mut bytes).expect("a datagram");
        assert_eq!(&bytes[..len], READY.as_bytes());
        let len = at_name.recv(&mut bytes).expect("a datagram");
        assert_eq!(&bytes[..len], STOPPING.as_bytes());
        assert!(notify("/absent/socket", READY).is_err());
    }
}
