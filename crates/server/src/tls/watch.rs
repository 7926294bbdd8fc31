//! Renewal of certificates without a signal: the files are checked every two seconds, and reread
//! when one of them has changed.
//!
//! A change is read when two looks in a row have found it, so that a file is seldom read while it
//! is written. If the files cannot be used then, the previous certificates stay in force until the
//! next change.

use super::Tls;
use settings::{Config, Id};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(2);
/// Settings that name files.
const FILES: [Id; 3] = [Id::TlsCertFile, Id::TlsKeyFile, Id::TlsCaCertFile];

/// One file: its device and number, the time of the last change in seconds and nanoseconds, and its
/// length.
type File = (u64, u64, i64, i64, u64);

/// Identity of a state of the files: their paths, and what the file system reports about them.
/// Files that do not exist have no facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State(Vec<(String, Option<File>)>);

impl State {
    /// Looks at the files that the settings name.
    pub(super) fn of(config: &Config) -> State {
        let file = |id| {
            let path = config.path(id);
            let found = fs::metadata(&path).ok().map(|found| {
                let (seconds, nanos) = (found.mtime(), found.mtime_nsec());
                (found.dev(), found.ino(), seconds, nanos, found.size())
            });
            (path, found)
        };
        State(FILES.into_iter().map(file).collect())
    }
}

/// Results of the last checks.
#[derive(Debug, Default)]
struct Watch {
    last: Option<State>,
    /// State of the files in which they could not be used.
    refused: Option<State>,
}

impl Watch {
    /// Checks the files, and rereads them if they have changed but did not change since the last
    /// check. Returns the result if they were read.
    fn look(&mut self, tls: &Tls, config: &Config) -> Option<Result<(), String>> {
        let now = State::of(config);
        let is_settled = self.last.as_ref() == Some(&now);
        let is_known = tls.has_read(&now) || self.refused.as_ref() == Some(&now);
        self.last = Some(now);
        if is_known || !is_settled {
            return None;
        }
        let result = tls.load(config);
        self.refused = result.is_err().then(|| self.last.clone()).flatten();
        Some(result)
    }
}

/// Checks the files until the server stops.
pub fn run(tls: &Tls, config: &Config, stops: impl Fn() -> bool) {
    let mut watch = Watch::default();
    while !stops() {
        std::thread::sleep(INTERVAL);
        let _changing = config.begin_change();
        match watch.look(tls, config) {
            None => {}
            Some(Ok(())) => log::info!("the files of TLS have changed and were read again"),
            Some(Err(why)) => log::warn!(
                "the files of TLS have changed, and the previous TLS certificates stay in use: {why}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use settings::find;
    use std::path::{Path, PathBuf};
    use std::time::UNIX_EPOCH;

    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn original(name: &str) -> Vec<u8> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls");
        fs::read(folder.join(name)).expect("a file of the tests")
    }

    #[test]
    fn changed_files_are_read_once_they_have_settled() {
        let name = format!("mayfly-watch-{}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        fs::create_dir_all(&folder.0).expect("a folder can be made");
        let path = |name: &str| folder.0.join(name);
        let mut writes = 0;
        let mut write = |name: &str, bytes: &[u8]| {
            fs::write(path(name), bytes).expect("it can be written");
            // The clock of the file system may be slower than the test.
            writes += 1;
            let file = fs::File::options().append(true).open(path(name));
            let changed = UNIX_EPOCH + Duration::from_secs(writes);
            let set = file.and_then(|file| file.set_modified(changed));
            set.expect("the owner may set it");
        };
        let config = Config::default();
        for (setting, name) in [
            ("tls-cert-file", "server.crt"),
            ("tls-key-file", "server.key"),
        ] {
            write(name, &original(name));
            let param = find(setting).expect("a setting");
            let path = path(name);
            config
                .set(param, path.to_str().expect("UTF-8"))
                .expect("a path");
        }
        for (setting, value) in [("tls-port", "1"), ("tls-auth-clients", "no")] {
            let param = find(setting).expect("a setting");
            config.set(param, value).expect("a value");
        }
        let (tls, mut watch) = (Tls::default(), Watch::default());
        tls.load(&config).expect("valid files");
        for _ in 0..3 {
            assert_eq!(watch.look(&tls, &config), None, "nothing has changed");
        }
        // While it changes at each look, it is not read.
        let whole = original("server.crt");
        for part in [100, 200, 300] {
            write("server.crt", &whole[..part]);
            assert_eq!(watch.look(&tls, &config), None);
        }
        let refused = watch.look(&tls, &config).expect("it has settled");
        assert!(
            refused
                .expect_err("it is cut off")
                .contains("tls-cert-file")
        );
        assert!(tls.begin().is_some(), "the previous certificate is in use");
        assert_eq!(watch.look(&tls, &config), None, "it is reported once");
        fs::remove_file(path("server.crt")).expect("it exists");
        assert_eq!(watch.look(&tls, &config), None);
        assert!(watch.look(&tls, &config).is_some_and(|read| read.is_err()));
        write("server.crt", &whole);
        assert_eq!(watch.look(&tls, &config), None);
        assert_eq!(watch.look(&tls, &config), Some(Ok(())));
        assert_eq!(watch.look(&tls, &config), None);
        // What CONFIG SET or SIGHUP has read is not read again.
        write("server.key", &original("server.key"));
        tls.load(&config).expect("valid files");
        for _ in 0..3 {
            assert_eq!(watch.look(&tls, &config), None);
        }
    }
}
