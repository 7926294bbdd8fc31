//! Input and output of a connection, encrypted if it uses TLS.

use super::{Connection, Dialect, Scratch};
use crate::net::tls::TlsStream;
use crate::state::{Network, Observability, Server};
use crate::{command, permission};
use session::acl::log::{Context, Reason};
use session::clock::Clock;
use session::notices::Kind;
use settings::Id;
use settings::words::{USER_BY_ALTERNATIVE_NAME, USER_BY_COMMON_NAME};
use std::io::{self, ErrorKind, Read, Write};

/// Maximum number of buffers of input that are discarded when a connection is closed.
const DISCARDS_MAX: usize = 16;

impl Connection {
    /// Encrypts the connection.
    pub fn use_tls(&mut self, network: &Network) {
        match network.tls.begin() {
            Some(state) => self.tls = Some(Box::new(TlsStream::new(state))),
            None => self.session.is_closing = true,
        }
    }

    /// Whether a TLS handshake has not been completed.
    #[inline]
    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Reads input from the socket.
    #[inline]
    pub(super) fn receive(
        &mut self,
        observability: &Observability,
        clock: &Clock,
        input: &mut [u8],
        scratch: &mut Scratch,
    ) -> io::Result<usize> {
        match self.tls {
            None => self.stream.read(input),
            Some(_) => self.receive_records(observability, clock, input, scratch),
        }
    }

    fn receive_records(
        &mut self,
        observability: &Observability,
        clock: &Clock,
        input: &mut [u8],
        scratch: &mut Scratch,
    ) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return Ok(0);
        };
        let was_handshaking = tls.is_handshaking();
        let read = tls.read(&mut self.stream, input, &mut scratch.records);
        let info = &self.session.info;
        if was_handshaking && !tls.is_handshaking() && tls.has_client_certificate() {
            tls.has_new_certificate = true;
            if let Some(name) = tls.client_name() {
                let mut names = info.names.lock().expect("the lock is not poisoned");
                names.certificate_name = name;
            }
        }
        if let Err(error) = &read
            && matches!(
                error.kind(),
                ErrorKind::InvalidInput | ErrorKind::InvalidData
            )
        {
            let (id, address) = (info.id, &info.address);
            match was_handshaking {
                true => observability.notices.warn(
                    Kind::Handshake,
                    clock.moment(),
                    format_args!("client {id} ({address}): the TLS handshake failed: {error}"),
                ),
                false => log::debug!("closing client {id} ({address}): TLS: {error}"),
            }
            if error.kind() == ErrorKind::InvalidInput {
                let _ = self.stream.write(match self.dialect {
                    Dialect::Resp(_) => b"-ERR this port requires TLS\r\n",
                    Dialect::Memcached { .. } => b"ERROR this port requires TLS\r\n",
                });
            }
        }
        read
    }

    /// Gives a client whose handshake has just ended the rights of the user named by its
    /// certificate, if the settings say so. Otherwise nothing changes.
    #[inline]
    pub(super) fn log_in_by_certificate(&mut self, server: &Server) {
        if let Some(tls) = &mut self.tls
            && std::mem::take(&mut tls.has_new_certificate)
        {
            self.become_user(server);
        }
    }

    #[cold]
    fn become_user(&mut self, server: &Server) {
        let names = match server.config.number(Id::TlsAuthClientsUser) {
            USER_BY_COMMON_NAME => self
                .tls
                .as_ref()
                .and_then(|tls| tls.client_name())
                .into_iter()
                .collect(),
            USER_BY_ALTERNATIVE_NAME => {
                let tls = self.tls.as_ref();
                tls.map(|tls| tls.client_dns_names()).unwrap_or_default()
            }
            _ => return,
        };
        let find = |name: &String| server.auth.acl.find(name).0.filter(|user| user.is_on());
        if let Some(user) = names.iter().find_map(find) {
            return self.session.log_in(user);
        }
        let name = names.first().map_or("", String::as_str);
        let info = &self.session.info;
        server.observability.notices.warn(
            Kind::Certificate,
            server.clock.moment(),
            format_args!(
                "client {} ({}): its certificate names no enabled user: '{name}'",
                info.id, info.address
            ),
        );
        let event = (Reason::Certificate, Context::TopLevel);
        permission::record(
            command::table(),
            server,
            &self.session,
            event,
            b"tls-cert",
            name.as_bytes(),
        );
    }

    /// Discards input from the client that is no longer executed. If a socket is closed with unread
    /// bytes, the system resets the connection, and the client may lose replies.
    pub fn discard_input(&mut self, scratch: &mut Scratch) {
        for _ in 0..DISCARDS_MAX {
            match self.stream.read(&mut scratch.input) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }

    /// Whether the socket or the records may contain more input, given whether a read has filled
    /// its buffer.
    #[inline]
    pub(super) fn may_have_more(&self, is_filled: bool) -> bool {
        is_filled || self.tls.as_ref().is_some_and(|tls| tls.may_have_more())
    }

    /// Sends bytes, and returns how many of them were taken.
    #[inline]
    pub(super) fn transmit(&mut self, bytes: &[u8], scratch: &mut Scratch) -> io::Result<usize> {
        match &mut self.tls {
            None => self.stream.write(bytes),
            Some(tls) => tls.write(&mut self.stream, bytes, &mut scratch.records),
        }
    }

    /// Sends encrypted records that were not sent.
    #[inline]
    pub(super) fn flush_records(&mut self) -> io::Result<()> {
        match &mut self.tls {
            None => Ok(()),
            Some(tls) => tls.flush(&mut self.stream),
        }
    }

    /// Announces the end of the data to a client of TLS.
    pub(super) fn close_records(&mut self, scratch: &mut Scratch) {
        if let Some(tls) = &mut self.tls {
            tls.close(&mut self.stream, &mut scratch.records);
        }
    }
}
