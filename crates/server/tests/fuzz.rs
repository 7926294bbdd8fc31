//! Random commands against a model under a manual clock, random ACL files, and random append-only
//! files. The fuzz targets `commands`, `acl` and `feed` are the larger versions of these tests.

#[path = "../../../fuzz/bodies/acl.rs"]
mod acl;
#[path = "../../../fuzz/bodies/commands.rs"]
mod commands;
#[path = "../../../fuzz/bodies/feed.rs"]
mod feed;
#[path = "../../../fuzz/bodies/model.rs"]
mod model;
#[path = "../../../fuzz/bodies/mutate.rs"]
mod mutate;

#[test]
fn random_commands_get_the_replies_of_the_model() {
    let mut random = mutate::Random::new(0x5EED_0004);
    let samples: Vec<Vec<u8>> = (0..64)
        .map(|_| (0..1200).map(|_| random.next() as u8).collect())
        .collect();
    let samples: Vec<&[u8]> = samples.iter().map(Vec::as_slice).collect();
    let words: &[&[u8]] = &[&[0, 1], &[40], &[60], &[100, 0, 0, 0, 0]];
    mutate::run(0x5EED_0005, 800, &samples, words, commands::run);
}

#[test]
fn an_acl_file_is_refused_or_written_and_read_again() {
    let samples: [&[u8]; 4] = [
        b"user default on nopass ~* &* +@all\nuser a on >pw ~a:* %R~b* &c* +@read -keys",
        b"user b off #5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8 -@all +config|get +select|0 (+set ~x) (%W~y -@all)",
        b"user c reset on <x !zz resetkeys allchannels (+get\n\nuser",
        // Regression: ACL SAVE wrote the pattern `)` before other rules and so ended the selector.
        b"user a (+set ~))",
    ];
    let words: &[&[u8]] = &[
        b"user d ",
        b" +@all",
        b" -@all",
        b" ~*",
        b" &*",
        b" (",
        b")",
        b" +get|x",
        b" %RW~",
        b"\n",
        b" clearselectors",
        b" nopass",
        b" allkeys",
        b" -config|set",
    ];
    mutate::run(0x5EED_0006, 4000, &samples, words, acl::run);
}

const FEED: &[u8] = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*5\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n$4\r\nPXAT\r\n$13\r\n1800000000000\r\n*1\r\n$5\r\nMULTI\r\n*4\r\n$4\r\nHSET\r\n$1\r\nh\r\n$1\r\nf\r\n$1\r\nv\r\n*1\r\n$4\r\nEXEC\r\n#TS:17\r\n*2\r\n$4\r\nECHO\r\n$14\r\nmayfly-item\x01\x00a\r\n";

#[test]
fn a_damaged_feed_is_refused_or_executed() {
    let manifest: &[u8] = b"file a.1.base.rdb seq 1 type b\nfile \"a b\" seq 1 type i\n";
    let samples = [FEED, manifest];
    let words: &[&[u8]] = &[
        b"*1\r\n$8\r\nSHUTDOWN\r\n",
        b"*3\r\n$5\r\nDEBUG\r\n$5\r\nSLEEP\r\n$1\r\n9\r\n",
        b"*3\r\n$5\r\nBLPOP\r\n$1\r\nl\r\n$1\r\n0\r\n",
        b"*3\r\n$4\r\nLPOP\r\n$1\r\nl\r\n$1\r\n1\r\n",
        b"*4\r\n$4\r\nXADD\r\n",
        b"*1\r\n$4\r\nEXEC\r\n",
        b"$99999999\r\n",
        b"*1048576\r\n",
        b" type h\n",
        b"*1\r\n$5\r\nMULTI\r\n",
    ];
    mutate::run(0x5EED_0007, 3000, &samples, words, feed::run);
}

#[test]
fn a_feed_that_ends_within_a_transaction_in_a_transaction_is_cut_before_both() {
    // Regression: it was cut behind the first MULTI.
    feed::run(b"*1\r\n$5\r\nMULTI\r\n*1\r\n$5\r\nMULTI\r\n");
}

#[test]
fn every_cut_and_every_changed_byte_of_a_feed_is_refused_or_executed() {
    for at in 0..FEED.len() {
        feed::run(&FEED[..at]);
        for bit in 0..8 {
            let mut damaged = FEED.to_vec();
            damaged[at] ^= 1 << bit;
            feed::run(&damaged);
        }
    }
}
