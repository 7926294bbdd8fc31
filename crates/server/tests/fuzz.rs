//! Random commands against a model under a manual clock, and random ACL files. The fuzz targets
//! `commands` and `acl` are the larger versions of these tests.

#[path = "../../../fuzz/bodies/acl.rs"]
mod acl;
#[path = "../../../fuzz/bodies/commands.rs"]
mod commands;
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
    let samples: [&[u8]; 3] = [
        b"user default on nopass ~* &* +@all\nuser a on >pw ~a:* %R~b* &c* +@read -keys",
        b"user b off #5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8 -@all +config|get +select|0 (+set ~x) (%W~y -@all)",
        b"user c reset on <x !zz resetkeys allchannels (+get\n\nuser",
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
