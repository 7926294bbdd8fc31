//! A key with its value, as it is read on one side and stored on the other.

use super::Failure;
use super::connection::Connection;
use wire::Value;

/// Maximum length of a value in serialized form, as in `proto-max-bulk-len`.
pub(super) const VALUE_BYTES_MAX: usize = 512 << 20;

/// A key and its value.
pub(super) struct Item {
    pub key: Box<[u8]>,
    /// `None` if the server does not have the key.
    pub state: Option<State>,
}

/// A value with its deadline.
pub(super) struct State {
    pub deadline: Option<u64>,
    /// The value as DUMP returns it.
    pub payload: Vec<u8>,
}

/// Reads the values and deadlines of keys of a database. They are not read at one instant.
pub(super) fn read_states<'k>(
    connection: &mut Connection,
    db: u64,
    keys: impl Iterator<Item = &'k [u8]> + Clone,
) -> Result<Vec<Item>, Failure> {
    connection.select(db)?;
    for key in keys.clone() {
        connection.queue(&[&b"PEXPIRETIME"[..], key]);
        connection.queue(&[&b"DUMP"[..], key]);
    }
    connection.send()?;
    let mut replies = connection.replies()?.into_iter();
    let address = &connection.address;
    let items = keys.map(|key| {
        let (Some(at), Some(payload)) = (replies.next(), replies.next()) else {
            return Err(format!("{address}: expected two replies for each key"));
        };
        if let Some(error) = at.as_error().or(payload.as_error()) {
            let (key, error) = (key.escape_ascii(), String::from_utf8_lossy(error));
            return Err(format!("{address}: key '{key}': {error}"));
        }
        let deadline = at.as_integer().and_then(|at| u64::try_from(at).ok());
        let payload = match payload {
            Value::Bulk(bytes) if bytes.len() > VALUE_BYTES_MAX => return Err(too_long(key)),
            Value::Bulk(bytes) => Some(bytes),
            _ => None,
        };
        Ok(Item {
            key: Box::from(key),
            state: payload.map(|payload| State { deadline, payload }),
        })
    });
    items.collect()
}

/// Returns the error for a value that is too long to be carried.
pub(super) fn too_long(key: &[u8]) -> Failure {
    format!(
        "the value of key '{}' is longer than 512 MB in serialized form: no command can carry it",
        key.escape_ascii()
    )
}
