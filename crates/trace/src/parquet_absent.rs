//! The Parquet format in a program built without the feature `parquet`: its name is known, but its
//! use is refused with the reason.

use crate::entry::{Columns, Entry, OpenError, Workload};

const REASON: &str = "this program was built without Parquet; build it with `--features parquet`";

/// Apache Parquet, refused.
pub(crate) static PARQUET: Entry = Entry {
    endings: &["parquet"],
    aliases: &[],
    columns: Columns::None,
    has_next_access: false,
    workload: Workload::Web,
    open: |_, _| Err(OpenError::Unfit(REASON.into())),
    encode: Some(|_| Err(REASON.into())),
};

#[cfg(test)]
mod tests {
    use crate::{Options, WriteOptions};

    #[test]
    fn reading_and_writing_parquet_are_refused_with_the_reason() {
        let read = crate::open("t.parquet", &b"PAR1"[..], &Options::default());
        let written = crate::Writer::new("t.parquet", Vec::new(), &WriteOptions::default());
        for error in [read.err(), written.err()] {
            let text = error.expect("refused").to_string();
            assert!(text.contains("--features parquet"), "{text}");
        }
    }
}
