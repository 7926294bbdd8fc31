//! Nodes of a cluster with objects in chunks.

use crate::support::{Origin, Received, Site, response};
use edge::ServerId;
use node::metrics::ClusterCounts as Counts;
use node::object::{Object, read_all};
use node::rules::key::Key;
use node::rules::ranges::Range;
use node::{ClusterConfig, Config, DiskConfig, Security, Server};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::time::{Duration, Instant};

/// Time limit that separates a hang from a slow machine.
const HANG: Duration = Duration::from_secs(60);

/// Returns the content of a path: lines with numbers.
pub fn content(path: &str, length: usize) -> String {
    let lines = (0..length / 8 + 1).map(|line| format!("{line:07}\n"));
    let mut text: String = std::iter::once(format!("{path}\n")).chain(lines).collect();
    text.truncate(length);
    text
}

/// Returns the length that is the last part of a path.
pub fn length_of(path: &str) -> usize {
    let length = path.rsplit('/').next().and_then(|text| text.parse().ok());
    length.unwrap_or(0)
}

/// Returns an origin whose content is as long as the last part of the path says, and that supports
/// ranges and conditions.
pub fn origin() -> Origin {
    Origin::start(|head, _, stream| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        let text = content(path, length_of(path));
        let fields = "Cache-Control: max-age=60\r\nETag: \"1\"\r\n";
        let range = head
            .lines()
            .find_map(|line| line.strip_prefix("range: bytes="));
        let range = range.and_then(|range| {
            let (first, last) = range.split_once('-')?;
            Some((first.parse::<usize>().ok()?, last.parse::<usize>().ok()?))
        });
        let text = if head.contains("if-none-match: \"1\"") {
            format!("HTTP/1.1 304 Not Modified\r\nConnection: close\r\n{fields}\r\n")
        } else if let Some((first, last)) = range {
            let whole = text.len();
            let fields = format!("{fields}Content-Range: bytes {first}-{last}/{whole}\r\n");
            response("206 Partial Content", &fields, &text[first..=last])
        } else {
            response("200 OK", fields, &text)
        };
        let _ = stream.write_all(text.as_bytes());
    })
}

/// Returns addresses that are free until the test ends: on a loopback address of the call alone, so
/// that neither another test nor a connection of 127.0.0.1 takes a port between its choice and its
/// use.
pub fn free(count: usize) -> Vec<SocketAddr> {
    static CALLS: AtomicU8 = AtomicU8::new(1);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let host = Ipv4Addr::new(127, high | 128, low, CALLS.fetch_add(1, Relaxed));
    let bound: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind((host, 0)).expect("loopback works"))
        .collect();
    let address = |listener: &TcpListener| listener.local_addr().expect("loopback works");
    bound.iter().map(address).collect()
}

fn config(own: usize, addresses: &[SocketAddr]) -> ClusterConfig {
    let server = |(index, &address): (usize, &SocketAddr)| Server {
        id: ServerId(index as u32),
        address,
        weight: 1,
        name: None,
    };
    ClusterConfig {
        own: ServerId(own as u32),
        servers: addresses.iter().enumerate().map(server).collect(),
        etcd: None,
        data: 3,
        parity: 1,
        buckets: 50,
        coded_bytes_min: 128 << 10,
        repair_bytes_per_second: 1 << 30,
        listen: None,
        security: Security::Plain,
    }
}

/// Nodes of a cluster, each with its own runtime, so that it can be ended abruptly.
pub struct Sites {
    nodes: Vec<Option<Site>>,
    addresses: Vec<SocketAddr>,
}

impl Sites {
    fn new(origin: &Origin, count: usize) -> Self {
        Sites::with(origin, &free(count), count, |_| {})
    }

    /// Starts the first nodes of some addresses.
    pub fn with(
        origin: &Origin,
        addresses: &[SocketAddr],
        count: usize,
        change: impl Fn(&mut Config),
    ) -> Self {
        let start = |own| {
            Site::with(origin, |settings| {
                settings.cluster = Some(config(own, addresses));
                change(settings);
            })
        };
        Sites {
            nodes: (0..count).map(|own| Some(start(own))).collect(),
            addresses: addresses.to_vec(),
        }
    }

    pub fn node(&self, number: usize) -> &Site {
        self.nodes[number].as_ref().expect("the node is up")
    }

    pub fn up(&self) -> impl Iterator<Item = &Site> {
        self.nodes.iter().flatten()
    }

    fn kill(&mut self, number: usize) {
        let site = self.nodes[number].take().expect("the node is up");
        site.runtime.shutdown_timeout(HANG);
    }

    fn revive(&mut self, number: usize, origin: &Origin) {
        let cluster = config(number, &self.addresses);
        let site = Site::with(origin, |settings| settings.cluster = Some(cluster));
        self.nodes[number] = Some(site);
    }

    /// Returns the number of the node whose store has a key.
    fn home(&self, key: &Key) -> usize {
        let has = |number: &usize| self.stored(*number, key).is_some();
        (0..self.nodes.len()).find(has).expect("a node has it")
    }

    /// Returns the content that a node has under a key.
    fn stored(&self, number: usize, key: &Key) -> Option<Vec<u8>> {
        let resource = self.node(number).running.node.store.get(key)?;
        Some(resource.variants[0].chunks.concat())
    }

    /// Returns true if a node owns a path.
    fn is_owner(&self, number: usize, path: &str) -> bool {
        let key = Key::parse(&format!("http://a{path}")).expect("a key");
        let cluster = self.node(number).running.node.cluster();
        let cluster = cluster.expect("there is a cluster");
        cluster.owners_before(&key).is_empty()
    }

    /// Returns the number of a node that does not own a path.
    fn other_than_owner(&self, path: &str) -> usize {
        let is_other = |number: &usize| !self.is_owner(*number, path);
        (0..self.nodes.len())
            .find(is_other)
            .expect("there are others")
    }

    /// Changes bits of a chunk, starting at byte `from`, on the nodes that have it.
    fn damage(&self, path: &str, chunk: usize, from: usize) {
        let key = Key::parse(&format!("http://a{path}#{chunk}")).expect("a key");
        for site in self.up() {
            let store = &site.running.node.store;
            let Some(resource) = store.get(&key) else {
                continue;
            };
            let chunk = &resource.variants[0];
            let mut bytes = chunk.chunks.concat();
            let damaged = bytes[from..].iter_mut().step_by(1_000);
            damaged.for_each(|byte| *byte ^= 4);
            let damaged = Object::new(chunk.head.clone(), vec![bytes.into()]);
            store.put(&key, &damaged, store.purge_count());
        }
    }

    /// Returns the sum of a count over the nodes that are up.
    pub fn sum(&self, count: impl Fn(&Counts) -> &AtomicU64) -> u64 {
        let counts = self.up().map(|site| {
            let cluster = site.running.node.cluster().expect("there is a cluster");
            count(cluster.counts()).load(SeqCst)
        });
        counts.sum()
    }

    /// Waits until `objects` objects are stored in chunks.
    pub fn wait_coded(&self, objects: u64) {
        wait(|| self.sum(|counts| &counts.objects_coded) >= objects);
    }
}

/// Polls until `is_so` returns true, because the node announces no such event.
pub fn wait(is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < HANG, "it did not happen");
        std::thread::yield_now();
    }
}

pub fn check(received: &Received, path: &str) {
    assert_eq!(received.status, 200, "{path}: {}", received.text);
    let (found, expected) = (&received.content, content(path, length_of(path)));
    assert_eq!(found.len(), expected.len(), "{path}");
    assert!(*found == expected, "{path}");
}

#[test]
fn an_object_in_chunks_is_fetched_once_and_served_by_every_node() {
    let origin = origin();
    let sites = Sites::new(&origin, 4);
    let paths = ["/a/300000", "/b/131072", "/c/2000001"];
    for path in paths {
        check(&sites.node(0).get(path), path);
    }
    sites.wait_coded(3);
    for path in paths {
        for site in sites.up() {
            check(&site.get(path), path);
            let range = site.get_with(path, "Range: bytes=65530-131080\r\n");
            let end = 131_081.min(length_of(path));
            assert_eq!(range.status, 206);
            assert!(range.content == content(path, length_of(path))[65_530..end]);
            let several = site.get_with(path, "Range: bytes=0-2,70000-70002\r\n");
            assert_eq!(several.status, 206);
            assert!(
                several
                    .content
                    .contains("Content-Range: bytes 70000-70002/")
            );
            let head = site.request("HEAD", path, "");
            assert_eq!(head.field("content-length"), length_of(path).to_string());
        }
    }
    assert_eq!(origin.heads().len(), 3);
    assert!(sites.sum(|counts| &counts.reads) > 0);
    assert_eq!(sites.sum(|counts| &counts.objects_unprotected), 0);
    assert_eq!(sites.sum(|counts| &counts.sub_chunks_corrupt), 0);
}

#[test]
fn a_small_object_is_fetched_once_for_all_nodes() {
    let origin = origin();
    let sites = Sites::new(&origin, 4);
    for path in ["/a/10", "/b/20", "/c/30", "/d/40"] {
        for site in sites.up() {
            check(&site.get(path), path);
        }
    }
    assert_eq!(origin.heads().len(), 4);
    let relayed = sites.sum(|counts| &counts.relayed);
    assert_eq!(relayed, 12);
    let hit = sites.node(0).get("/a/10");
    assert!(hit.cache().starts_with("hit"), "{}", hit.text);
    assert_eq!(hit.field("via"), "1.1 mayfly");
}

#[test]
fn fields_of_the_peers_protocol_from_clients_and_origins_have_no_meaning() {
    // Regression: a client could request the messages of nodes, and a reply of the origin could be
    // taken for one, after which each node fetched the response itself.
    let fields = "Cache-Control: max-age=60\r\nMayfly-Stub: 1\r\n";
    let small = Origin::plain(fields, "content");
    let sites = Sites::new(&small, 4);
    for site in sites.up() {
        let received = site.get("/a");
        assert_eq!((received.status, &*received.content), (200, "content"));
    }
    assert_eq!(small.heads().len(), 1);
    let large = origin();
    let sites = Sites::new(&large, 4);
    let path = "/a/300000";
    check(&sites.node(0).get(path), path);
    sites.wait_coded(1);
    let forged = "Mayfly-Stub: 1\r\nMayfly-Key: http://a/b/7\r\nMayfly-Client: 192.0.2.1\r\n";
    for site in sites.up() {
        let head = site.request("HEAD", path, forged);
        assert_eq!(head.status, 200, "{}", head.text);
        assert_eq!(head.field("content-length"), "300000");
        check(&site.get_with(path, forged), path);
    }
    assert_eq!(large.heads().len(), 1);
}

#[test]
fn objects_survive_the_loss_of_any_node_without_the_origin() {
    let origin = origin();
    for lost in 0..4 {
        let mut sites = Sites::new(&origin, 4);
        let paths: Vec<String> = (0..6)
            .map(|number| format!("/{lost}{number}/400000"))
            .collect();
        for path in &paths {
            check(&sites.node(1).get(path), path);
        }
        sites.wait_coded(6);
        let fetched = origin.heads().len();
        sites.kill(lost);
        for path in &paths {
            for site in sites.up() {
                check(&site.get(path), path);
            }
        }
        assert_eq!(origin.heads().len(), fetched);
        assert!(sites.sum(|counts| &counts.stripes_decoded) > 0);
        // The node comes back with nothing, and serves from the others.
        sites.revive(lost, &origin);
        for path in &paths {
            check(&sites.node(lost).get(path), path);
        }
        assert_eq!(origin.heads().len(), fetched);
    }
}

#[test]
fn two_nodes_down_with_one_parity_fall_back_to_the_origin() {
    let origin = origin();
    let mut sites = Sites::new(&origin, 4);
    check(&sites.node(2).get("/x/400000"), "/x/400000");
    sites.wait_coded(1);
    sites.kill(0);
    sites.kill(1);
    for number in [2, 3, 2] {
        check(&sites.node(number).get("/x/400000"), "/x/400000");
    }
    let fetches = origin.heads().len();
    assert!((2..=3).contains(&fetches), "{fetches}");
}

#[test]
fn a_damaged_chunk_is_a_lost_one() {
    let origin = origin();
    let sites = Sites::new(&origin, 4);
    let path = "/x/400000";
    check(&sites.node(0).get(path), path);
    sites.wait_coded(1);
    sites.damage(path, 1, 0);
    for site in sites.up() {
        check(&site.get(path), path);
    }
    assert!(sites.sum(|counts| &counts.sub_chunks_corrupt) > 0);
    assert!(sites.sum(|counts| &counts.stripes_decoded) > 0);
    assert_eq!(origin.heads().len(), 1);
}

#[test]
fn the_rest_of_an_object_is_fetched_for_the_address_of_the_client() {
    // Regression: the origin received the node's loopback address.
    let origin = origin();
    let sites = Sites::new(&origin, 4);
    let path = "/x/2000000";
    check(&sites.node(0).get(path), path);
    sites.wait_coded(1);
    // From the fifth stripe on, one chunk is left.
    (1..4).for_each(|chunk| sites.damage(path, chunk, 4 * (65_536 + 8)));
    for (number, site) in sites.up().enumerate() {
        let client = Ipv4Addr::new(127, 0, 0, 2 + number as u8);
        check(&site.get_from(client, path), path);
        let heads = origin.heads();
        let rest = heads.last().expect("the origin was used");
        assert!(rest.contains("\r\nrange: bytes="), "{rest}");
        let field = format!("\r\nx-forwarded-for: {client}\r\n");
        assert!(rest.contains(&field), "{rest}");
    }
}

#[test]
fn a_chunk_that_is_damaged_or_missing_is_made_again_by_a_read() {
    let origin = origin();
    for is_missing in [false, true] {
        let mut sites = Sites::new(&origin, 4);
        let path = format!("/{is_missing}/1000001");
        check(&sites.node(0).get(&path), &path);
        sites.wait_coded(1);
        let key = Key::parse(&format!("http://a{path}#1")).expect("a key");
        let home = sites.home(&key);
        let before = sites.stored(home, &key).expect("the chunk is there");
        if is_missing {
            assert!(sites.node(home).running.node.store.remove(&key));
        } else {
            sites.damage(&path, 1, 70_000);
        }
        check(&sites.node((home + 1) % 4).get(&path), &path);
        wait(|| sites.sum(|counts| &counts.chunks_repaired) == 1);
        assert_eq!(sites.stored(home, &key), Some(before));
        assert_eq!(sites.sum(|counts| &counts.chunks_not_repaired), 0);
        // The object survives another loss, and the origin was used once.
        let other = (home + 1) % 4;
        sites.kill(other);
        for site in sites.up() {
            check(&site.get(&path), &path);
        }
        let fetches = origin.heads();
        let fetches = fetches.iter().filter(|head| head.contains(&path)).count();
        assert_eq!(fetches, 1);
    }
}

#[test]
fn a_node_that_comes_back_empty_gets_its_chunks_again() {
    let origin = origin();
    let mut sites = Sites::new(&origin, 4);
    let paths: Vec<String> = (0..6).map(|number| format!("/{number}/400000")).collect();
    for path in &paths {
        check(&sites.node(1).get(path), path);
    }
    sites.wait_coded(6);
    sites.kill(2);
    for number in [0, 1, 3] {
        let cluster = sites.node(number).running.node.cluster();
        let cluster = cluster.expect("there is a cluster");
        wait(|| cluster.view().down().contains(&ServerId(2)));
    }
    sites.revive(2, &origin);
    // With four nodes, each has a chunk of each object.
    wait(|| sites.sum(|counts| &counts.chunks_repaired) == 6);
    sites.kill(0);
    for path in &paths {
        for site in sites.up() {
            check(&site.get(path), path);
        }
    }
    assert_eq!(origin.heads().len(), 6);
    assert_eq!(sites.sum(|counts| &counts.chunks_not_repaired), 0);
    assert_eq!(sites.sum(|counts| &counts.repairs_dropped), 0);
}

/// Folders of the nodes' disks, which are deleted at the end.
struct Disks(PathBuf);

impl Disks {
    fn new(name: &str) -> Self {
        let folder = format!("mayfly-node-{name}-{}", std::process::id());
        Disks(std::env::temp_dir().join(folder))
    }

    fn folder(&self, number: u64) -> PathBuf {
        self.0.join(number.to_string())
    }

    /// Changes one bit of the file that contains `bytes`, at an offset from them.
    fn flip(&self, number: u64, bytes: &[u8], offset: isize) {
        for file in std::fs::read_dir(self.folder(number)).expect("the folder is there") {
            let path = file.expect("the folder is there").path();
            let mut all = std::fs::read(&path).expect("the file is there");
            let found = all.windows(64).position(|window| window == &bytes[..64]);
            if let Some(at) = found {
                let at = at.checked_add_signed(offset).expect("it is in the file");
                all[at] ^= 2;
                let mut options = std::fs::OpenOptions::new();
                let file = options.write(true).open(&path).expect("the file is there");
                let written = file.write_all_at(&all[at..=at], at as u64);
                written.expect("the file is writable");
                return;
            }
        }
        panic!("no file of node {number} has the bytes");
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the content of a key that a node has only on disk.
fn on_disk(site: &Site, key: &Key) -> Option<Vec<u8>> {
    let store = &site.running.node.store;
    if store.is_in_memory(key) {
        return None;
    }
    let resource = site.runtime.block_on(store.get_anywhere(key))?;
    let object = &resource.variants[0];
    let (start, end) = (0, object.length);
    let pieces = object.extent.as_ref()?.read(Range { start, end });
    let read = site.runtime.block_on(read_all(pieces));
    Some(read.expect("it is intact").concat())
}

#[test]
fn a_parity_chunk_that_is_damaged_on_disk_is_found_and_made_again() {
    const OBJECTS: u64 = 64;
    let origin = origin();
    let disks = Disks::new("scrub");
    let next = AtomicU64::new(0);
    let sites = Sites::with(&origin, &free(4), 4, |settings| {
        settings.memory_bytes = 12 << 20;
        settings.object_bytes_max = 700_000;
        settings.disk = Some(DiskConfig {
            folder: disks.folder(next.fetch_add(1, SeqCst)),
            bytes: 256 << 20,
        });
        // The test begins the passes.
        settings.scrub_bytes_per_second = 0;
    });
    for number in 0..OBJECTS {
        let path = format!("/{number}/600001");
        check(&sites.node(0).get(&path), &path);
        sites.wait_coded(number + 1);
    }
    (sites.up()).for_each(|site| site.running.node.store.flush());
    // Parity chunks that are on a disk and not in memory.
    let mut found = vec![];
    for number in 0..OBJECTS {
        let key = Key::parse(&format!("http://a/{number}/600001#3")).expect("a key");
        let homes = (0..4).filter_map(|home| {
            let content = on_disk(sites.node(home), &key)?;
            Some((home, key.clone(), content))
        });
        found.extend(homes);
    }
    assert!(found.len() > 1, "{} parity chunks on disk", found.len());
    // Once in the content; once in the description before it, so that the key is not known.
    for (count, ((home, key, content), offset)) in found.iter().zip([100_000, -20]).enumerate() {
        let site = sites.node(*home);
        disks.flip(*home as u64, content, offset);
        site.runtime
            .block_on(node::scrub::pass(&site.running.node, u64::MAX));
        let repaired = count as u64 + 1;
        wait(|| sites.sum(|counts| &counts.chunks_repaired) == repaired);
        assert_eq!(sites.stored(*home, key).as_ref(), Some(content));
        let stats = site.running.node.store.disk_stats();
        assert!(stats.is_some_and(|stats| stats.scrub_corrupt > 0));
    }
    // Nothing else is damaged, and nothing was fetched again.
    for site in sites.up() {
        site.runtime
            .block_on(node::scrub::pass(&site.running.node, u64::MAX));
    }
    let damaged = sites.up().map(|site| {
        let stats = site.running.node.store.disk_stats();
        stats.expect("there is a disk").corrupt
    });
    assert_eq!(damaged.sum::<u64>(), 2);
    assert_eq!(sites.sum(|counts| &counts.chunks_repaired), 2);
    assert_eq!(sites.sum(|counts| &counts.chunks_not_repaired), 0);
    assert_eq!(origin.heads().len() as u64, OBJECTS);
    drop(sites);
}

#[test]
fn a_popular_small_object_is_copied_and_leaves_with_the_original() {
    let origin = origin();
    let sites = Sites::with(&origin, &free(4), 4, |settings| {
        // The purge below has arrived everywhere when it is answered.
        settings.limits.purge_transit = Duration::ZERO;
    });
    let path = "/x/1000";
    let other = sites.other_than_owner(path);
    let gets = |count: usize| (0..count).for_each(|_| check(&sites.node(other).get(path), path));
    let counts = || {
        let cluster = sites.node(other).running.node.cluster();
        let counts = cluster.expect("there is a cluster").counts();
        (
            counts.copies.load(SeqCst),
            counts.copy_hits.load(SeqCst),
            counts.relayed.load(SeqCst),
        )
    };
    let store = &sites.node(other).running.node.store;
    gets(2);
    assert_eq!(counts(), (0, 0, 2));
    assert_eq!(store.copy_bytes(), 0);
    gets(4);
    assert_eq!(counts(), (1, 3, 2));
    assert!(store.copy_bytes() > 1_000);
    let hit = sites.node(other).get_with(path, "Range: bytes=10-19\r\n");
    assert_eq!(
        (hit.status, &hit.content[..]),
        (206, &content(path, 1_000)[10..20])
    );
    assert!(hit.cache().starts_with("hit"), "{}", hit.text);
    // A client that demands a newer response gets it, and the copy leaves.
    let forced = sites
        .node(other)
        .get_with(path, "Cache-Control: no-cache\r\n");
    check(&forced, path);
    assert_eq!(store.copy_bytes(), 0);
    gets(1);
    assert_eq!(counts().0, 2);
    assert_eq!(origin.heads().len(), 2);
    // A purge by any node reaches the copy.
    sites.node((other + 1) % 4).purge("prefix=http://a/");
    assert_eq!((store.copy_bytes(), store.stats().len), (0, 0));
    gets(2);
    assert_eq!(origin.heads().len(), 3);
    assert!(store.copy_bytes() > 0);
    // Freshness, and the time for which a response with a validator is kept.
    for (seconds, is_there) in [(659, true), (2, false)] {
        for site in sites.up() {
            site.clock.advance(Duration::from_secs(seconds));
            site.running.node.store.expire();
        }
        assert_eq!(store.stats().len > 0, is_there);
    }
    assert_eq!(store.copy_bytes(), 0);
}

#[test]
fn copies_have_a_part_of_the_memory() {
    let origin = origin();
    let sites = Sites::with(&origin, &free(4), 4, |settings| {
        settings.memory_bytes = 16 << 20;
        settings.object_bytes_max = 200_000;
    });
    let other = 0;
    let store = &sites.node(other).running.node.store;
    for number in 0..60 {
        let path = format!("/{number}/100000");
        (0..4).for_each(|_| check(&sites.node(other).get(&path), &path));
        assert!(store.copy_bytes() <= 2 << 20, "{}", store.copy_bytes());
    }
    let cluster = sites.node(other).running.node.cluster();
    let counts = cluster.expect("there is a cluster").counts();
    assert!((15..=20).contains(&counts.copies.load(SeqCst)));
    assert!(counts.copies_refused.load(SeqCst) > 10);
    assert_eq!(origin.heads().len(), 60);
}

#[test]
fn copies_are_not_written_to_disk() {
    let origin = origin();
    let folder = format!("mayfly-node-copies-{}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    let addresses = free(4);
    let first = Site::with(&origin, |settings| {
        settings.cluster = Some(config(0, &addresses));
        settings.disk = Some(DiskConfig {
            folder: folder.clone(),
            bytes: 64 << 20,
        });
        settings.object_bytes_max = 200_000;
    });
    let mut sites = Sites::with(&origin, &addresses, 0, |_| {});
    sites.nodes.push(Some(first));
    (1..4).for_each(|number| {
        sites.nodes.push(None);
        sites.revive(number, &origin);
    });
    let mut owned = 0;
    for number in 0..16 {
        let path = format!("/{number}/1000");
        owned += u64::from(sites.is_owner(0, &path));
        (0..4).for_each(|_| check(&sites.node(0).get(&path), &path));
    }
    let store = sites.node(0).running.node.store.clone();
    assert!((1..16).contains(&owned));
    assert_eq!(store.stats().len, 16);
    store.save();
    let on_disk = store.disk_stats().expect("there is a disk").urls;
    assert_eq!(on_disk, owned);
    drop((sites, store));
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn a_purge_on_one_node_reaches_all() {
    let origin = origin();
    let sites = Sites::new(&origin, 4);
    for (number, arguments) in ["url=http://a/x/400000", "prefix=http://a/"]
        .into_iter()
        .enumerate()
    {
        check(&sites.node(0).get("/x/400000"), "/x/400000");
        sites.wait_coded(number as u64 + 1);
        assert_eq!(origin.heads().len(), number + 1);
        sites.node(3).purge(arguments);
        for site in sites.up() {
            assert_eq!(site.running.node.store.stats().len, 0, "{arguments}");
        }
    }
}

#[test]
fn a_node_that_was_down_is_purged_when_it_comes_back() {
    let origin = origin();
    let addresses = free(4);
    let folder = format!("mayfly-node-missed-{}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    let with_disk = |settings: &mut Config| {
        settings.disk = Some(DiskConfig {
            folder: folder.clone(),
            bytes: 64 << 20,
        });
    };
    let mut sites = Sites::with(&origin, &addresses, 3, |_| {});
    let last = || {
        Site::with(&origin, |settings| {
            settings.cluster = Some(config(3, &addresses));
            with_disk(settings);
        })
    };
    sites.nodes.push(Some(last()));
    check(&sites.node(0).get("/x/400000"), "/x/400000");
    sites.wait_coded(1);
    assert!(sites.node(3).running.node.store.stats().len > 0);
    let own = (0..).map(|number| format!("/{number}/1000"));
    let own = own.into_iter().find(|path| sites.is_owner(3, path));
    let own = own.expect("the node owns some paths");
    let cached = |site: &Site| {
        site.get_with(&own, "Cache-Control: only-if-cached\r\n")
            .status
    };
    check(&sites.node(3).get(&own), &own);
    assert_eq!(cached(sites.node(3)), 200);
    let stopped = sites.nodes[3].take().expect("the node is up");
    stopped.stop();
    sites.node(0).purge("prefix=http://a/");
    // The other nodes have the purge, too.
    sites.kill(0);
    let revived = last();
    // Its first client does not receive what was purged.
    assert_eq!(cached(&revived), 504);
    let disk = || revived.running.node.store.disk_stats();
    wait(|| disk().is_some_and(|disk| disk.urls == 0));
    drop(revived);
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn chunks_leave_all_nodes_on_time_although_clocks_differ() {
    let origin = origin();
    let addresses = free(4);
    let skew = AtomicU64::new(0);
    let sites = Sites::with(&origin, &addresses, 4, |settings| {
        // The clocks of the nodes are two minutes apart.
        let minutes = skew.fetch_add(2, SeqCst);
        if let node::Clock::Manual(clock) = &settings.clock {
            clock.advance(Duration::from_secs(60 * minutes));
        }
    });
    let path = "/x/400000";
    check(&sites.node(0).get(path), path);
    sites.wait_coded(1);
    for site in sites.up() {
        check(&site.get(path), path);
    }
    assert_eq!(origin.heads().len(), 1);
    // Freshness, and the time for which a response with a validator is kept.
    for (seconds, is_there) in [(659, true), (2, false)] {
        for site in sites.up() {
            site.clock.advance(Duration::from_secs(seconds));
            site.running.node.store.expire();
            assert_eq!(site.running.node.store.stats().len > 0, is_there);
        }
    }
}

#[test]
fn a_confirmed_object_keeps_its_chunks() {
    let origin = origin();
    let sites = Sites::new(&origin, 4);
    let path = "/x/400000";
    check(&sites.node(0).get(path), path);
    sites.wait_coded(1);
    for round in 0..12 {
        for site in sites.up() {
            site.clock.advance(Duration::from_secs(61));
            site.running.node.store.expire();
        }
        for site in sites.up() {
            check(&site.get(path), path);
        }
        assert_eq!(origin.heads().len(), 2 + round);
    }
    // All but the first were confirmations.
    let is_condition = |head: &&String| head.contains("if-none-match");
    assert_eq!(origin.heads().iter().filter(is_condition).count(), 12);
}

#[test]
fn a_node_that_stalls_or_breaks_off_is_a_lost_one() {
    let origin = origin();
    for is_silent in [true, false] {
        let mut addresses = free(3);
        let false_node = TcpListener::bind("127.0.0.1:0").expect("loopback works");
        addresses.push(false_node.local_addr().expect("loopback works"));
        std::thread::spawn(move || {
            let mut kept = vec![];
            for stream in false_node.incoming() {
                let Ok(mut stream) = stream else { return };
                if !is_silent {
                    let _ = stream.read(&mut [0; 100]);
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
                    continue;
                }
                kept.push(stream);
            }
        });
        let sites = Sites::with(&origin, &addresses, 3, |_| {});
        for number in 0..4 {
            let path = format!("/{is_silent}{number}/200000");
            for site in sites.up() {
                check(&site.get(&path), &path);
            }
        }
        // The node counts as down soon.
        let view = || {
            let cluster = sites.node(0).running.node.cluster();
            cluster.expect("there is a cluster").view()
        };
        wait(|| view().down().contains(&ServerId(3)));
    }
}

/// Certificates of an authority, in a folder that is deleted at the end.
struct Authority(PathBuf);

impl Authority {
    /// Creates an authority and the certificates of its nodes, each for one of the hosts.
    fn new(name: &str, hosts: &[String]) -> Self {
        let folder = format!("mayfly-node-cluster-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).expect("the folder can be written");
        let mut of_authority = rcgen::CertificateParams::new(vec![]).expect("the input is valid");
        of_authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().expect("the input is valid");
        let authority = rcgen::CertifiedIssuer::self_signed(of_authority, key);
        let authority = authority.expect("the input is valid");
        let key = rcgen::KeyPair::generate().expect("the input is valid");
        let of_node = rcgen::CertificateParams::new(hosts);
        let certificate = of_node
            .and_then(|of_node| of_node.signed_by(&key, &authority))
            .expect("the input is valid");
        for (name, text) in [
            ("ca.pem", authority.pem()),
            ("node.pem", certificate.pem()),
            ("node.key", key.serialize_pem()),
        ] {
            std::fs::write(folder.join(name), text).expect("the folder can be written");
        }
        Authority(folder)
    }

    /// Returns the settings of a node that trusts this authority but has another one's certificate.
    fn with_certificate_of(&self, other: &Authority) -> Security {
        Security::Tls {
            authorities: self.0.join("ca.pem"),
            certificate: other.0.join("node.pem"),
            key: other.0.join("node.key"),
        }
    }
}

/// Regression: a renewed certificate for other nodes was used only after a restart.
#[test]
fn a_renewed_certificate_for_other_nodes_is_used_after_a_reload() {
    let origin = origin();
    let addresses = free(4);
    let hosts = [addresses[0].ip().to_string()];
    let (own, late) = (
        Authority::new("renewed", &hosts),
        Authority::new("late", &hosts),
    );
    let number = AtomicU64::new(0);
    let sites = Sites::with(&origin, &addresses, 4, |settings| {
        let is_last = number.fetch_add(1, SeqCst) == 3;
        let of = if is_last { &late } else { &own };
        let cluster = settings.cluster.as_mut().expect("there is a cluster");
        cluster.security = own.with_certificate_of(of);
    });
    let running = &sites.node(3).running;
    let view = || running.node.cluster().expect("there is a cluster").view();
    wait(|| view().down().len() == 3);
    for name in ["node.pem", "node.key"] {
        std::fs::copy(own.0.join(name), late.0.join(name)).expect("the folder can be written");
    }
    assert_eq!(running.reload(), Ok(true));
    wait(|| view().down().is_empty());
    std::fs::write(late.0.join("node.key"), "x").expect("the folder can be written");
    assert!(running.reload().is_err());
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn nodes_accept_only_nodes_of_their_authority() {
    let origin = origin();
    let clusters = [free(4), free(4)];
    let hosts = clusters.each_ref().map(|nodes| nodes[0].ip().to_string());
    let own = Authority::new("own", &hosts);
    let foreign = Authority::new("foreign", &hosts);
    for (addresses, (other, is_accepted)) in clusters.iter().zip([(&own, true), (&foreign, false)])
    {
        let number = AtomicU64::new(0);
        let sites = Sites::with(&origin, addresses, 4, |settings| {
            // The last node has a certificate of the other authority.
            let is_last = number.fetch_add(1, SeqCst) == 3;
            let of = if is_last { other } else { &own };
            let cluster = settings.cluster.as_mut().expect("there is a cluster");
            cluster.security = own.with_certificate_of(of);
        });
        let path = format!("/{is_accepted}/200000");
        for site in sites.up() {
            check(&site.get(&path), &path);
        }
        let last = sites.node(3).running.node.cluster();
        let last = last.expect("there is a cluster").clone();
        if is_accepted {
            sites.wait_coded(1);
            assert!(last.view().down().is_empty());
        } else {
            wait(|| last.view().down().len() == 3);
        }
    }
}
