use super::*;
use crate::tls::Tls;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use settings::{Config, find};
use std::collections::VecDeque;
use std::sync::Arc;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/");

/// A socket in memory that takes and returns a limited number of bytes per call.
#[derive(Default)]
struct Pipe {
    input: VecDeque<u8>,
    output: Vec<u8>,
    room: usize,
    /// Number of calls that have taken bytes.
    writes: usize,
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.input.len().min(buffer.len());
        if len == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        for (to, byte) in buffer.iter_mut().zip(self.input.drain(..len)) {
            *to = byte;
        }
        Ok(len)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(self.room);
        if len == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.room -= len;
        self.writes += 1;
        self.output.extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn server() -> TlsStream {
    server_with(&[])
}

/// Creates the server's side with further settings.
fn server_with(settings: &[(&str, &str)]) -> TlsStream {
    let config = Config::default();
    let own = [
        ("tls-port", "1"),
        ("tls-cert-file", &format!("{FOLDER}server.crt")),
        ("tls-key-file", &format!("{FOLDER}server.key")),
        ("tls-auth-clients", "no"),
    ];
    for (name, value) in own.iter().chain(settings) {
        let param = find(name).expect("a setting");
        config.set(param, value).expect("a value");
    }
    let tls = Tls::default();
    tls.load(&config).expect("the files are valid");
    TlsStream::new(tls.begin().expect("a port uses TLS"))
}

fn client() -> ClientConnection {
    client_of(rustls::DEFAULT_VERSIONS)
}

fn client_of(versions: &[&'static rustls::SupportedProtocolVersion]) -> ClientConnection {
    let authority = CertificateDer::from_pem_file(format!("{FOLDER}ca.crt")).expect("a file");
    let mut roots = RootCertStore::empty();
    roots.add(authority).expect("an authority");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("ciphers")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    ClientConnection::new(Arc::new(config), name).expect("a client")
}

/// Numbers below a bound, repeatable by a seed.
fn random(seed: u64) -> impl FnMut(usize) -> usize {
    let mut count = seed << 32;
    move |bound| {
        count += 1;
        // SplitMix64's mixing.
        let mut mixed = count.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        ((mixed ^ (mixed >> 27)) % bound as u64) as usize
    }
}

/// Receives what has arrived, until the socket is empty.
fn drain(stream: &mut TlsStream, pipe: &mut Pipe, got: &mut Vec<u8>) {
    let (mut plain, mut records) = (vec![0; RECORDS_BYTES], Vec::new());
    loop {
        match stream.read(pipe, &mut plain, &mut records) {
            Ok(len) => got.extend_from_slice(&plain[..len]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn bytes_in_random_pieces_arrive_once_in_both_directions() {
    for seed in 0..20 {
        let mut below = random(seed);
        let (mut server, mut client, mut pipe) = (server(), client(), Pipe::default());
        let (mut sent, mut got) = (Vec::new(), Vec::new());
        let (mut answered, mut received) = (Vec::new(), Vec::new());
        let mut wire = VecDeque::new();
        let mut pending: Vec<u8> = Vec::new();
        for step in 0..400 {
            if step < 300 && sent.len() < 1 << 20 {
                let piece: Vec<u8> = (0..below(3) * below(20_000))
                    .map(|_| below(256) as u8)
                    .collect();
                let len = client.writer().write(&piece).expect("a buffer");
                sent.extend_from_slice(&piece[..len]);
                pending.extend((0..below(2) * below(90_000)).map(|_| below(256) as u8));
            }
            let mut records = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut records).expect("a buffer");
            }
            wire.extend(records);
            let len = if step < 300 {
                below(wire.len() + 1)
            } else {
                wire.len()
            };
            pipe.input.extend(wire.drain(..len));
            pipe.room = if step < 300 { below(40_000) } else { 1 << 20 };
            drain(&mut server, &mut pipe, &mut got);
            let mut records = Vec::new();
            match server.write(&mut pipe, &pending, &mut records) {
                Ok(len) => answered.extend(pending.drain(..len)),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            let output = std::mem::take(&mut pipe.output);
            let mut output = &output[..];
            while !output.is_empty() {
                client.read_tls(&mut output).expect("a buffer");
                client.process_new_packets().expect("valid records");
                let mut plain = [0; 4096];
                while let Ok(len) = client.reader().read(&mut plain) {
                    received.extend_from_slice(&plain[..len]);
                }
            }
        }
        assert!(!server.is_handshaking() && pending.is_empty());
        assert!(sent == got && answered == received, "seed {seed}");
        assert!(!sent.is_empty() && !answered.is_empty());
        assert_eq!(
            server.heap_bytes(),
            STATE_BYTES,
            "an idle connection holds no buffers"
        );
    }
}

#[test]
fn what_is_not_tls_is_refused_and_damaged_records_do_no_harm() {
    let read = |bytes: &[u8]| {
        let (mut server, mut pipe) = (server(), Pipe::default());
        pipe.input.extend(bytes);
        pipe.room = 1 << 20;
        let (mut plain, mut records) = (vec![0; RECORDS_BYTES], Vec::new());
        loop {
            match server.read(&mut pipe, &mut plain, &mut records) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    // Closing such a connection was a panic in rustls, which had other bytes
                    // before.
                    server.close(&mut pipe, &mut records);
                    assert_eq!(
                        server.read(&mut pipe, &mut plain, &mut records).ok(),
                        Some(0).filter(|_| server.has_failed)
                    );
                    return error.kind();
                }
            }
        }
    };
    assert_eq!(read(b"PING\r\n"), ErrorKind::InvalidInput);
    assert_eq!(read(b"GET / HTTP/1.1\r\n\r\n"), ErrorKind::InvalidInput);
    assert_eq!(read(b"\x16"), ErrorKind::WouldBlock);
    assert_eq!(
        read(b"\x16\x03\x01\x00\x05\x01\xff\xff\xff\xff"),
        ErrorKind::InvalidData
    );
    // A message of the handshake that is announced with 16 MiB.
    let mut long = b"\x16\x03\x01\x40\x00\x01\xff\xff\xfc".to_vec();
    long.resize(16 + (17 << 10), 0);
    assert_eq!(read(&long), ErrorKind::InvalidData);
    let mut hello = Vec::new();
    client().write_tls(&mut hello).expect("a buffer");
    assert_eq!(read(&hello), ErrorKind::WouldBlock);
    let mut below = random(99);
    for _ in 0..2_000 {
        let mut damaged = hello.clone();
        for _ in 0..=below(4) {
            let at = below(damaged.len());
            damaged[at] = below(256) as u8;
        }
        damaged.truncate(below(damaged.len()) + 1);
        read(&damaged);
    }
}

/// Lets both sides exchange what they have to send. Returns the client's error.
fn exchange(
    server: &mut TlsStream,
    client: &mut ClientConnection,
    pipe: &mut Pipe,
) -> Result<(), rustls::Error> {
    let (mut plain, mut records) = (vec![0; RECORDS_BYTES], Vec::new());
    loop {
        let mut sent = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut sent).expect("a buffer");
        }
        pipe.input.extend(&sent);
        while !pipe.input.is_empty() {
            let _ = server.read(pipe, &mut plain, &mut records);
        }
        let output = std::mem::take(&mut pipe.output);
        if sent.is_empty() && output.is_empty() {
            return Ok(());
        }
        let mut output = &output[..];
        while !output.is_empty() {
            client.read_tls(&mut output).expect("a buffer");
            client.process_new_packets()?;
        }
    }
}

#[test]
fn tickets_are_sent_with_the_first_reply_and_before_an_alert() {
    for (version, writes) in [(&rustls::version::TLS13, 1), (&rustls::version::TLS12, 2)] {
        let (mut server, mut client, mut pipe) = (server(), client_of(&[version]), Pipe::default());
        pipe.room = 1 << 20;
        exchange(&mut server, &mut client, &mut pipe).expect("a handshake");
        assert!(!server.is_handshaking() && !client.is_handshaking());
        assert_eq!(pipe.writes, writes, "messages of the handshake");
        let mut records = Vec::new();
        let sent = server.write(&mut pipe, b"reply", &mut records);
        assert_eq!(sent.expect("room"), 5);
        assert_eq!(pipe.writes, writes + 1);
        assert_eq!(server.heap_bytes(), STATE_BYTES);
        exchange(&mut server, &mut client, &mut pipe).expect("valid records");
        let mut reply = [0; 16];
        assert_eq!(client.reader().read(&mut reply).expect("a reply"), 5);
        let tickets = if version.version == ProtocolVersion::TLSv1_3 {
            1
        } else {
            0
        };
        assert_eq!(client.tls13_tickets_received(), tickets);
    }
    // The client finds the alert behind the ticket.
    let (mut server, mut client, mut pipe) = (server(), client(), Pipe::default());
    pipe.room = 1 << 20;
    exchange(&mut server, &mut client, &mut pipe).expect("a handshake");
    pipe.input.extend(b"\x17\x03\x03\x00\x20");
    pipe.input.extend([0; 32]);
    let error = exchange(&mut server, &mut client, &mut pipe).expect_err("an alert");
    assert!(matches!(error, rustls::Error::AlertReceived(_)), "{error}");
    assert_eq!(client.tls13_tickets_received(), 1);
    // And the notice of the end.
    let (mut server, mut client, mut pipe) = (self::server(), self::client(), Pipe::default());
    pipe.room = 1 << 20;
    exchange(&mut server, &mut client, &mut pipe).expect("a handshake");
    server.close(&mut pipe, &mut Vec::new());
    exchange(&mut server, &mut client, &mut pipe).expect("valid records");
    assert_eq!(client.tls13_tickets_received(), 1);
    assert_eq!(client.reader().read(&mut [0; 1]).expect("the end"), 0);
}

#[test]
fn the_order_of_the_settings_decides_the_cipher_if_they_say_so() {
    let suites = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384";
    let suite_of = |settings: &[(&str, &str)]| {
        let (mut server, mut client, mut pipe) = (server_with(settings), client(), Pipe::default());
        pipe.room = 1 << 20;
        exchange(&mut server, &mut client, &mut pipe).expect("a handshake");
        client.negotiated_cipher_suite().map(|suite| suite.suite())
    };
    let aes_256 = rustls::CipherSuite::TLS13_AES_256_GCM_SHA384;
    let aes_128 = rustls::CipherSuite::TLS13_AES_128_GCM_SHA256;
    let order = ("tls-ciphersuites", suites);
    assert_eq!(suite_of(&[order]), Some(aes_256), "the client's first one");
    let own = [order, ("tls-prefer-server-ciphers", "yes")];
    assert_eq!(suite_of(&own), Some(aes_128));
}
