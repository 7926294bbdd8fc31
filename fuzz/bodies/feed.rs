//! Fuzz target of what this server reads as a feed: the parts of an append-only file, its manifest,
//! and the commands of a primary. Bytes are refused with an offset or executed; none of it panics,
//! and what precedes damage is read whatever follows.

use durability::aof::manifest::Manifest;
use durability::aof::reader::{CommandReader, Damage};
use durability::check::commands::Commands;
use server::dispatch::apply::Applier;
use server::state::Server;
use session::clock::Clock;
use settings::Config;
use store::{Options, Tick};

const START: Tick = Tick(1_700_000_000_000);
/// Maximum length of an argument that is executed. Longer ones are offsets of huge strings.
const NUMBER_BYTES_MAX: usize = 7;

/// Runs the target on the bytes of a file.
pub fn run(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(manifest) = Manifest::parse(text)
    {
        assert_eq!(Manifest::parse(&manifest.text()), Ok(manifest));
    }
    let (commands, _) = Commands::read(data);
    let end = usize::try_from(commands.end).expect("an offset of the bytes");
    let (again, damage) = Commands::read(&data[..end]);
    assert!(damage.is_none() && again.end == commands.end);
    execute(data);
}

/// Executes the commands of a file on an empty server.
fn execute(data: &[u8]) {
    let options = Options {
        shards: 2,
        policy: "noeviction".into(),
        expiry: "wheel".into(),
        maxmemory: 0,
        hash_key: [1, 2],
        seed: 3,
    };
    let clock = Clock::manual(START.0);
    let server = Server::with_store(Config::default(), &options, 1, clock).expect("valid options");
    let mut applier = Applier::new(&server);
    let mut reader = CommandReader::new(data, Vec::new(), 0);
    loop {
        match reader.next_command() {
            Ok(Some(command)) => {
                let args = command.args;
                // A string of a gigabyte at an offset is valid and takes long.
                let is_number = |arg: &[u8]| arg.iter().all(u8::is_ascii_digit);
                let is_huge = |arg: &[u8]| arg.len() > NUMBER_BYTES_MAX && is_number(arg);
                let is_offset =
                    args.is(0, "setrange") || args.is(0, "setbit") || args.is(0, "bitfield");
                if !(is_offset && args.iter().any(is_huge)) {
                    let _ = applier.apply(args, command.instant(START));
                }
            }
            Ok(None) => break,
            Err(Damage::Truncated(at) | Damage::Malformed(at, _)) => {
                assert!(at <= data.len() as u64);
                break;
            }
            Err(Damage::Unreadable(..)) => unreachable!("bytes in memory can be read"),
        }
    }
    server.data.keyspace.check();
}
