//! Encryption of a connection: TLS records between its socket and its buffers.
//!
//! Records are decrypted from, and encrypted to, a buffer that the worker lends. A connection keeps
//! only an incomplete record that it has received, and the encrypted bytes that its socket has not
//! accepted. The tickets with which a client may resume its session are sent with the first reply,
//! because a separate packet would cost a tenth of the system's part of a handshake.

use crate::tls;
use rustls::ProtocolVersion;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData};
use std::io::{self, ErrorKind, Read, Write};

/// Size of the buffer for records that a worker lends, in bytes.
const RECORDS_BYTES: usize = 64 << 10;
/// Maximum number of received bytes that a connection keeps, which its handshake may need for a
/// chain of certificates.
const KEPT_BYTES_MAX: usize = 32 << 10;
/// Maximum number of bytes encrypted at a time. With the records' overhead they fit into the
/// buffer.
const PLAIN_BYTES_MAX: usize = 48 << 10;
/// Maximum number of bytes of tickets that are sent with the first reply, so that both fit into the
/// buffer. Tickets are longer if they contain client certificates.
const TICKETS_BYTES_MAX: usize = 4 << 10;
/// Type of the record that a handshake begins with.
const HANDSHAKE_RECORD: u8 = 22;
/// Bytes that the state of a connection takes on the heap, with its keys.
const STATE_BYTES: usize = size_of::<UnbufferedServerConnection>() + (4 << 10);

/// Purpose for which the state of a connection is advanced.
enum Work<'a> {
    /// Write the decrypted bytes to this buffer.
    Read(&'a mut [u8]),
    /// Encrypt these bytes to this buffer.
    Write(&'a [u8], &'a mut [u8]),
    /// Write the notice of the end to this buffer.
    Close(&'a mut [u8]),
}

/// TLS of one connection.
pub struct TlsStream {
    state: UnbufferedServerConnection,
    /// Received bytes of an incomplete record, or of an incomplete message of the handshake.
    incoming: Vec<u8>,
    /// Encrypted bytes that were not sent.
    outgoing: Vec<u8>,
    /// Encrypted tickets that are sent before the next other bytes.
    tickets: Vec<u8>,
    has_begun: bool,
    is_established: bool,
    /// Whether the client has announced the end of its data.
    has_closed: bool,
    /// Whether the client has violated the protocol. The state is not advanced after that.
    has_failed: bool,
    /// Whether the last read filled its buffer.
    is_filled: bool,
    /// Whether the handshake has just ended and the client has a certificate.
    pub has_new_certificate: bool,
}

impl TlsStream {
    /// Creates the stream of a new connection.
    pub fn new(state: UnbufferedServerConnection) -> TlsStream {
        TlsStream {
            state,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            tickets: Vec::new(),
            has_begun: false,
            is_established: false,
            has_closed: false,
            has_failed: false,
            is_filled: false,
            has_new_certificate: false,
        }
    }

    /// Whether the handshake has not been completed.
    pub fn is_handshaking(&self) -> bool {
        !self.is_established
    }

    /// Whether another read may return more without an event of the socket.
    pub fn may_have_more(&self) -> bool {
        self.is_filled || self.has_closed
    }

    /// Returns the number of encrypted bytes that the socket has not accepted.
    pub fn unsent_bytes(&self) -> usize {
        self.outgoing.len()
    }

    /// Returns the number of bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        let kept = self.incoming.capacity() + self.tickets.capacity();
        STATE_BYTES + kept + self.outgoing.capacity()
    }

    /// Returns the common name of the client's certificate.
    pub fn client_name(&self) -> Option<String> {
        tls::common_name(self.state.peer_certificates()?.first()?)
    }

    /// Whether the client has a certificate.
    pub fn has_client_certificate(&self) -> bool {
        let certificates = self.state.peer_certificates();
        certificates.is_some_and(|all| !all.is_empty())
    }

    /// Returns the DNS names of the client's certificate.
    pub fn client_dns_names(&self) -> Vec<String> {
        let certificates = self.state.peer_certificates();
        let first = certificates.and_then(<[_]>::first);
        first.map(tls::dns_names).unwrap_or_default()
    }

    /// Reads once from the socket and decrypts the complete records. Sends the server's messages of
    /// the handshake.
    ///
    /// # Errors
    /// `Interrupted` if bytes were read that contain no data, `InvalidInput` if the client does not
    /// use TLS, `InvalidData` if it violates the protocol, and the errors of the socket.
    pub fn read(
        &mut self,
        socket: &mut (impl Read + Write),
        plain: &mut [u8],
        records: &mut Vec<u8>,
    ) -> io::Result<usize> {
        if self.has_closed || self.has_failed {
            return Ok(0);
        }
        records.resize(RECORDS_BYTES, 0);
        let kept = self.incoming.len();
        records[..kept].copy_from_slice(&self.incoming);
        let len = socket.read(&mut records[kept..])?;
        if len == 0 {
            return Ok(0);
        }
        self.is_filled = kept + len == records.len();
        if !std::mem::replace(&mut self.has_begun, true) && records[0] != HANDSHAKE_RECORD {
            self.has_failed = true;
            let text = "it does not use TLS on a port for TLS";
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        let received = &mut records[..kept + len];
        let advanced = self.advance(received, Work::Read(plain));
        let sent = self.flush(socket);
        let (used, written) = advanced?;
        let rest = &received[used..];
        if rest.is_empty() {
            self.incoming = Vec::new();
        } else if rest.len() > KEPT_BYTES_MAX {
            self.has_failed = true;
            return Err(violation("a message of the handshake is too long"));
        } else {
            self.incoming.clear();
            self.incoming.extend_from_slice(rest);
        }
        match sent {
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        if written == 0 {
            return Err(ErrorKind::Interrupted.into());
        }
        Ok(written)
    }

    /// Encrypts and sends bytes, at most as many as fit into the buffer. Returns their number.
    /// Keeps the encrypted bytes that the socket does not accept.
    ///
    /// # Errors
    /// `WouldBlock` if previous bytes are not sent yet, and the errors of the socket.
    pub fn write(
        &mut self,
        socket: &mut impl Write,
        plain: &[u8],
        records: &mut Vec<u8>,
    ) -> io::Result<usize> {
        self.flush(socket)?;
        records.resize(RECORDS_BYTES, 0);
        let plain = &plain[..plain.len().min(PLAIN_BYTES_MAX)];
        let start = self.tickets.len();
        let len = self.advance_kept(Work::Write(plain, &mut records[start..]))?;
        if len == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.send_with_tickets(socket, records, start, len)?;
        Ok(plain.len())
    }

    /// Sends encrypted bytes that were not sent.
    ///
    /// # Errors
    /// `WouldBlock` if the socket does not accept all of them, and other errors of the socket.
    pub fn flush(&mut self, socket: &mut impl Write) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            match socket.write(&self.outgoing) {
                Ok(len) => drop(self.outgoing.drain(..len)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.outgoing = Vec::new();
        Ok(())
    }

    /// Announces the end of the data. A client that does not take it is not waited for.
    pub fn close(&mut self, socket: &mut impl Write, records: &mut Vec<u8>) {
        records.resize(RECORDS_BYTES, 0);
        let start = self.tickets.len();
        if let Ok(len) = self.advance_kept(Work::Close(&mut records[start..])) {
            let _ = self.send_with_tickets(socket, records, start, len);
        }
    }

    /// Sends `len` encrypted bytes that begin at `start`, preceded by the tickets. If these are
    /// still as long as `start`, there is room for them in front.
    fn send_with_tickets(
        &mut self,
        socket: &mut impl Write,
        records: &mut [u8],
        start: usize,
        len: usize,
    ) -> io::Result<()> {
        let tickets = std::mem::take(&mut self.tickets);
        if tickets.len() == start {
            records[..start].copy_from_slice(&tickets);
            return self.send(socket, &records[..start + len]);
        }
        self.outgoing.extend_from_slice(&tickets);
        self.send(socket, &records[start..start + len])
    }

    /// Holds back the tickets, if `outgoing` has nothing else, now that the handshake has ended.
    /// TLS 1.2 has tickets within the handshake, which the client waits for.
    fn hold_tickets(&mut self) {
        let version = self.state.protocol_version();
        if version == Some(ProtocolVersion::TLSv1_3) && self.outgoing.len() <= TICKETS_BYTES_MAX {
            self.tickets = std::mem::take(&mut self.outgoing);
        }
    }

    /// Sends encrypted bytes after those that were not sent, and keeps the rest.
    fn send(&mut self, socket: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
        let mut sent = 0;
        if self.outgoing.is_empty() {
            sent = match socket.write(bytes) {
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::Interrupted => 0,
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error),
            };
        }
        self.outgoing.extend_from_slice(&bytes[sent..]);
        Ok(())
    }

    /// Advances the state with the kept bytes as input. Returns the number of bytes written to the
    /// work's buffer.
    fn advance_kept(&mut self, work: Work<'_>) -> io::Result<usize> {
        if self.has_failed {
            return Err(violation("the connection has failed"));
        }
        let mut kept = std::mem::take(&mut self.incoming);
        let (used, written) = self.advance(&mut kept, work)?;
        kept.drain(..used);
        self.incoming = kept;
        Ok(written)
    }

    /// Advances the state until it needs more input. Returns the number of bytes of `received` that
    /// were used, and of bytes written to the work's buffer.
    fn advance(&mut self, received: &mut [u8], mut work: Work<'_>) -> io::Result<(usize, usize)> {
        let (mut used, mut written) = (0, 0);
        let (mut is_done, had_sent_all) = (false, self.outgoing.is_empty());
        while !is_done {
            let mut failure = None;
            let status = self.state.process_tls_records(&mut received[used..]);
            let discard = status.discard;
            match status.state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    let Work::Read(plain) = &mut work else {
                        self.has_failed = true;
                        return Err(violation("kept bytes contain data"));
                    };
                    while let Some(record) = traffic.next_record() {
                        let bytes = record.map_err(violation)?.payload;
                        plain[written..written + bytes.len()].copy_from_slice(bytes);
                        written += bytes.len();
                    }
                }
                Ok(ConnectionState::EncodeTlsData(data)) => {
                    release(&mut self.tickets, &mut self.outgoing);
                    append(&mut self.outgoing, data)?;
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.has_closed = true,
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    written += match &mut work {
                        Work::Read(_) => 0,
                        Work::Write(plain, to) => traffic.encrypt(plain, to).map_err(violation)?,
                        Work::Close(to) => traffic.queue_close_notify(to).map_err(violation)?,
                    };
                    is_done = true;
                }
                Ok(_) => is_done = true,
                Err(error) => failure = Some(error),
            }
            used += discard;
            if let Some(error) = failure {
                release(&mut self.tickets, &mut self.outgoing);
                // The state expects the same bytes again, without the discarded ones.
                let status = self.state.process_tls_records(&mut received[used..]);
                if let Ok(ConnectionState::EncodeTlsData(alert)) = status.state {
                    append(&mut self.outgoing, alert)?;
                }
                self.has_failed = true;
                return Err(violation(explained(&error)));
            }
        }
        if !self.is_established && !self.state.is_handshaking() {
            self.is_established = true;
            // What the handshake has encoded before was sent when the client answered it.
            if had_sent_all {
                self.hold_tickets();
            }
        }
        Ok((used, written))
    }
}

/// Puts the tickets after the bytes being sent, before others are appended, because records must
/// arrive in the order in which they were encrypted.
fn release(tickets: &mut Vec<u8>, outgoing: &mut Vec<u8>) {
    outgoing.append(tickets);
}

/// Appends the encoding of a message.
fn append<D>(outgoing: &mut Vec<u8>, mut data: EncodeTlsData<'_, D>) -> io::Result<()> {
    let size = match data.encode(&mut []) {
        Err(EncodeError::InsufficientSize(size)) => size.required_size,
        _ => 0,
    };
    let start = outgoing.len();
    outgoing.resize(start + size, 0);
    data.encode(&mut outgoing[start..]).map_err(violation)?;
    Ok(())
}

/// Describes an error. Of the version of a certificate the library shows the name of a type only.
fn explained(error: &rustls::Error) -> String {
    const VERSION: &str = "UnsupportedCertVersion";
    let text = error.to_string();
    match text.contains(VERSION) {
        true => text.replace(
            VERSION,
            "its certificate is of X.509 version 1, expected version 3",
        ),
        false => text,
    }
}

fn violation(why: impl std::fmt::Display) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why.to_string())
}

#[cfg(test)]
mod tests;
