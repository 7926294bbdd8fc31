//! Rows of comma-separated text.

use super::{Column, check_columns};
use crate::entry::{Encoding, TraceInfo};
use crate::number::push_decimal;
use crate::request::{NextAccess, Request};

/// Columns that are written unless the caller names others.
const COLUMNS: &str = "time,key,size,key_size,value_size,op,ttl,client";

/// Encodes requests below a header of the chosen columns.
pub(super) fn csv(info: &TraceInfo<'_>) -> Result<Encoding, String> {
    let names = info.columns.unwrap_or(COLUMNS);
    let columns = chosen(names)?;
    let encode = move |request: &Request, out: &mut Vec<u8>| {
        csv_line(request, &columns, out);
        Ok(())
    };
    Ok(Encoding::Rows {
        header: format!("{names}\n").into_bytes(),
        encode: Box::new(encode),
    })
}

/// Encodes requests in the columns of the Twitter trace.
pub(super) fn twitter(_: &TraceInfo<'_>) -> Result<Encoding, String> {
    let encode = |request: &Request, out: &mut Vec<u8>| {
        twitter_line(request, out);
        Ok(())
    };
    Ok(Encoding::Rows {
        header: Vec::new(),
        encode: Box::new(encode),
    })
}

fn chosen(names: &str) -> Result<Vec<Column>, String> {
    let columns: Vec<Column> = names
        .split(',')
        .map(|name| Column::of_name(name.as_bytes()))
        .collect();
    match columns.iter().position(|column| *column == Column::Ignored) {
        Some(at) => {
            let name = names.split(',').nth(at).unwrap_or_default();
            Err(format!("column {name:?} is unknown"))
        }
        None => check_columns(&columns, false).map(|()| columns),
    }
}

fn csv_line(request: &Request, columns: &[Column], out: &mut Vec<u8>) {
    for (at, column) in columns.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match column {
            Column::Seconds => seconds(request.time_ms, out),
            Column::Milliseconds => push_decimal(request.time_ms, out),
            Column::Key => push_decimal(request.key, out),
            Column::Size => push_decimal(request.size.into(), out),
            Column::KeySize => push_decimal(request.key_size.into(), out),
            Column::ValueSize => push_decimal(request.value_size.into(), out),
            Column::Op => out.extend_from_slice(request.op.name().as_bytes()),
            Column::TtlSeconds => seconds(request.ttl_ms, out),
            Column::TtlMilliseconds => push_decimal(request.ttl_ms, out),
            Column::Client => push_decimal(request.client.into(), out),
            Column::Next => match request.next_access {
                NextAccess::Unknown => {}
                NextAccess::Never => out.extend_from_slice(b"-1"),
                NextAccess::At(number) => push_decimal(number, out),
            },
            Column::Count => out.push(b'1'),
            Column::Ignored => {}
        }
    }
    out.push(b'\n');
}

fn twitter_line(request: &Request, out: &mut Vec<u8>) {
    for number in [
        request.time_ms / 1000,
        request.key,
        request.key_size.into(),
        request.value_size.into(),
        request.client.into(),
    ] {
        push_decimal(number, out);
        out.push(b',');
    }
    out.extend_from_slice(request.op.name().as_bytes());
    out.push(b',');
    // Rounded up, because a TTL below a second must not become none.
    push_decimal(request.ttl_ms.div_ceil(1000), out);
    out.push(b'\n');
}

/// Appends milliseconds as seconds, without trailing zeros.
fn seconds(ms: u64, out: &mut Vec<u8>) {
    push_decimal(ms / 1000, out);
    let fraction = ms % 1000;
    if fraction > 0 {
        let digits = [fraction / 100, fraction / 10 % 10, fraction % 10];
        let used = 3 - digits.iter().rev().take_while(|digit| **digit == 0).count();
        out.push(b'.');
        out.extend(digits[..used].iter().map(|digit| b'0' + *digit as u8));
    }
}
