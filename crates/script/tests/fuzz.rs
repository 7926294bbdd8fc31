//! Fuzz test of script arguments and texts, and of input to the libraries' decoders. The fuzz
//! target `scripts` is the larger version of this test.

#[expect(
    clippy::disallowed_methods,
    reason = "a campaign runs for a time that its environment sets"
)]
#[path = "../../../fuzz/bodies/mutate.rs"]
mod mutate;
#[path = "../../../fuzz/bodies/scripts.rs"]
mod scripts;

#[test]
fn what_is_decoded_can_be_encoded_and_every_script_ends_with_a_reply() {
    // The first byte selects the part: arguments, cmsgpack, cjson, struct, text.
    let samples: &[&[u8]] = &[
        b"\x05\x03key\x05value\0\x02\xff\xfe",
        b"\x01\x01\xc0\xc2\xcb\x3f\xf8\0\0\0\0\0\0\xa3abc\x93\x01\xd1\xff\0\xcf\x7f\xff\xff\xff\xff\xff\xff\xff\
          \x82\xa1a\x90\x02\xd9\x01x\xde\0\x01\xca\x3f\xc0\0\0\xdc\0\x01\xd3\x80\0\0\0\0\0\0\0",
        b"\x02{\"a\":[1,-2.5e3,true,null,\"\\u00e9\\ud83d\\ude00\\n\"],\"\":{},\"b\":[[],0x1F,1e400]}",
        b"\x03<i4!8>dI3hHbBlLTc5sxxf c0\0\x01\0\0\0\x3f\xf8\0\0\0\0\0\0",
        b"\x03>Bc0s\0\x03abcdef\0",
        b"\x04local t = {} for i = 1, 9 do t[i] = ARGV[1] .. i end return {t, redis.call('x', KEYS[1])}",
        b"\x04#!lua flags=no-writes\nreturn redis.pcall(unpack(ARGV)).err or string.rep('x', 9)",
        b"\x04while true do local _ = string.gsub('aaa', 'a*', '%0') end",
        b"\x04return cjson.decode(cmsgpack.unpack(struct.pack('Bs', 1, 'x')))",
    ];
    let words: &[&[u8]] = &[
        b"\0",
        b"\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff",
        b"\x91\x91\x91\x91",
        b"[[[[",
        b"\\u",
        b"\"",
        b"1e308",
        b"nan",
        b"!16",
        b"c0",
        b"i32",
        b"\n",
        b"return ",
        b"redis.call(",
        b"pcall(",
        b"end ",
    ];
    mutate::run(0x5EED_0031, 1_500, samples, words, scripts::run);
}
