//! The disk tier of a node.

use crate::support::{Origin, Site, response};
use node::DiskConfig;
use node::rules::key::Key;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// A folder that is deleted at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let name = format!("mayfly-node-{}-{number}", std::process::id());
        Folder(std::env::temp_dir().join(name))
    }

    /// Starts a node with a memory of 8 MiB and a disk of 64 MiB.
    fn site(&self, origin: &Origin) -> Site {
        let folder = self.0.clone();
        Site::with(origin, |config| {
            config.memory_bytes = 8 << 20;
            config.object_bytes_max = 512 << 10;
            config.disk = Some(DiskConfig {
                folder,
                bytes: 64 << 20,
            });
        })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the content of a path: lines with numbers.
fn content(path: &str, length: usize) -> String {
    let lines = (0..length / 8 + 1).map(|line| format!("{line:07}\n"));
    let mut text: String = std::iter::once(format!("{path}\n")).chain(lines).collect();
    text.truncate(length);
    text
}

/// Returns an origin whose content is as long as the last part of the path says. It confirms its
/// tag, and its content differs by the field Accept-Language below `/vary`.
fn origin() -> Origin {
    Origin::start(|head, _, stream| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        let length = path.rsplit('/').next().and_then(|text| text.parse().ok());
        let mut fields = "Cache-Control: max-age=60\r\nETag: \"1\"\r\nCache-Tag: t\r\n".to_owned();
        let mut name = path.to_owned();
        if path.starts_with("/vary") {
            fields.push_str("Vary: Accept-Language\r\n");
            let language = head
                .lines()
                .find(|line| line.starts_with("accept-language"));
            name.push_str(language.unwrap_or_default());
        }
        let text = if head.contains("if-none-match: \"1\"") {
            format!("HTTP/1.1 304 Not Modified\r\nConnection: close\r\n{fields}\r\n")
        } else {
            response("200 OK", &fields, &content(&name, length.unwrap_or(0)))
        };
        let _ = stream.write_all(text.as_bytes());
    })
}

/// Fills memory with other responses until the ones under some paths are on disk. Returns the
/// number of the others.
fn displace(site: &Site, paths: &[&str]) -> usize {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let round = NEXT.fetch_add(1, Relaxed);
    let store = &site.running.node.store;
    let key = |path: &&str| Key::new(false, "a", path).expect("the text is valid");
    let keys: Vec<_> = paths.iter().map(key).collect();
    let mut count = 0;
    // URLs are in parts of the memory by random hashes, so that no fixed number displaces all.
    while count < 60 || keys.iter().any(|key| store.is_in_memory(key)) {
        assert!(count < 1_000, "{paths:?} stay in memory");
        // A response that was hit is in the main queue, from which only others that were hit
        // displace it.
        let requests = if count < 100 { 1 } else { 3 };
        for _ in 0..requests {
            site.get(&format!("/other{round}-{count}/300000"));
        }
        count += 1;
    }
    store.flush();
    count
}

fn metric(site: &Site, name: &str) -> u64 {
    let page = site.admin("GET", "/metrics", "").content;
    let line = page.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.rsplit(' ').next());
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

#[test]
fn responses_that_leave_memory_are_hits_from_disk() {
    let folder = Folder::new();
    let origin = origin();
    let site = folder.site(&origin);
    for path in ["/small/1000", "/large/400000"] {
        site.get(path);
        displace(&site, &[path]);
        let before = metric(&site, "mayfly_edge_hits_total{tier=\"disk\"}");
        let received = site.get(path);
        assert!(received.cache().starts_with("hit"), "{}", received.cache());
        let length: usize = path
            .rsplit('/')
            .next()
            .and_then(|text| text.parse().ok())
            .expect("a number");
        assert!(received.content == content(path, length), "{path}");
        let after = metric(&site, "mayfly_edge_hits_total{tier=\"disk\"}");
        assert_eq!(after, before + 1);
    }
}

#[test]
fn ranges_are_read_from_disk() {
    let folder = Folder::new();
    let origin = origin();
    let site = folder.site(&origin);
    let path = "/large/400000";
    site.get(path);
    displace(&site, &[path]);
    let whole = content(path, 400_000);
    for (start, end) in [(0, 0), (65_535, 65_536), (300_000, 399_999), (1, 262_144)] {
        let received = site.get_with(path, &format!("Range: bytes={start}-{end}\r\n"));
        assert_eq!(received.status, 206);
        assert!(received.content == whole[start..=end], "{start}-{end}");
        assert!(received.cache().starts_with("hit"));
    }
    assert_eq!(site.get_with(path, "Range: bytes=400000-\r\n").status, 416);
    // Several ranges are answered from memory, to which all of it returns.
    let several = site.get_with(path, "Range: bytes=0-3, 399996-\r\n");
    assert_eq!(several.status, 206);
    assert!(several.content.contains(&whole[399_996..]));
}

#[test]
fn a_restart_keeps_what_is_stored() {
    let folder = Folder::new();
    let origin = origin();
    let site = folder.site(&origin);
    let paths = ["/a/1000", "/b/400000", "/c/0"];
    paths.iter().for_each(|path| _ = site.get(path));
    site.stop();
    let site = folder.site(&origin);
    for path in paths {
        assert!(site.get(path).cache().starts_with("hit"), "{path}");
    }
    assert_eq!(origin.heads().len(), 3);
}

#[test]
fn a_purge_reaches_the_disk_and_outlasts_a_restart() {
    let folder = Folder::new();
    let origin = origin();
    let site = folder.site(&origin);
    let paths = ["/a/1000", "/b/400000", "/n/x/1000"];
    paths.iter().for_each(|path| _ = site.get(path));
    let others = displace(&site, &[]);
    assert_eq!(site.purge("url=http://a/a/1000"), 1);
    assert_eq!(site.purge("prefix=http://a/n/"), 1);
    assert_eq!(site.purge("url=http://a/b/400000&soft=1"), 1);
    site.stop();
    let before = origin.heads().len();
    let site = folder.site(&origin);
    assert!(site.get("/a/1000").cache().starts_with("fwd=uri-miss"));
    assert!(site.get("/n/x/1000").cache().starts_with("fwd=uri-miss"));
    let softened = site.get("/b/400000");
    assert!(
        softened.cache().starts_with("fwd=stale"),
        "{}",
        softened.cache()
    );
    assert!(softened.content == content("/b/400000", 400_000));
    assert_eq!(origin.heads().len(), before + 3);
    let others = others + displace(&site, &[]);
    // Each URL counts once, whether it is in memory, on disk or in both.
    assert_eq!(site.purge("tag=t"), others + 3);
    assert_eq!(site.purge("tag=t"), 0);
}

#[test]
fn a_stale_response_on_disk_is_revalidated() {
    let folder = Folder::new();
    let origin = origin();
    let site = folder.site(&origin);
    let paths = ["/a/1000", "/b/400000"];
    paths.iter().for_each(|path| _ = site.get(path));
    displace(&site, &paths);
    site.clock.advance(Duration::from_secs(61));
    for path in paths {
        let received = site.get(path);
        assert!(
            received.cache().contains("fwd-status=304"),
            "{}",
            received.cache()
        );
        assert!(site.get(path).cache().starts_with("hit"));
    }
}

#[test]
fn variants_on_disk_are_kept_with_a_new_one() {
    let folder = Folder::new();
    let origin = origin();
    let site = folder.site(&origin);
    let path = "/vary/200000";
    let languages = ["Accept-Language: de\r\n", "Accept-Language: en\r\n"];
    for language in languages {
        site.get_with(path, language);
        displace(&site, &[]);
    }
    for language in languages {
        let received = site.get_with(path, language);
        assert!(received.cache().starts_with("hit"), "{}", received.cache());
        assert!(
            received
                .content
                .starts_with(&format!("{path}{}", language.trim().to_lowercase()))
        );
    }
}

#[test]
fn responses_leave_the_disk_on_time() {
    let folder = Folder::new();
    let origin = origin();
    let site = folder.site(&origin);
    site.get("/a/1000");
    displace(&site, &["/a/1000"]);
    assert!(metric(&site, "mayfly_edge_disk_urls ") > 0);
    // Freshness, and the time for which responses with a validator are kept.
    site.clock.advance(Duration::from_secs(661));
    site.running.node.store.expire();
    site.running.node.store.flush();
    assert_eq!(metric(&site, "mayfly_edge_disk_urls "), 0);
    assert_eq!(metric(&site, "mayfly_edge_disk_live_bytes "), 0);
}
