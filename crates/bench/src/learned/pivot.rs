//! Tables with a column for each cache, or for each value of a knob.

use crate::table::Table;

/// Cells by the keys of their row and the name of their column, both in the order in which they came first.
pub(super) struct Pivot {
    keys: Vec<&'static str>,
    columns: Vec<String>,
    rows: Vec<(Vec<String>, Vec<Option<String>>)>,
}

impl Pivot {
    /// An empty one, whose rows are told apart by these.
    pub(super) fn new(keys: &[&'static str]) -> Pivot {
        Pivot {
            keys: keys.to_vec(),
            columns: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Puts a text into its place, over what stood there.
    pub(super) fn put(&mut self, key: Vec<String>, column: &str, text: Option<String>) {
        assert_eq!(key.len(), self.keys.len());
        let at = self.columns.iter().position(|name| name == column);
        let at = at.unwrap_or_else(|| {
            self.columns.push(column.into());
            self.columns.len() - 1
        });
        let row = self.rows.iter().position(|(other, _)| *other == key);
        let row = row.unwrap_or_else(|| {
            self.rows.push((key, Vec::new()));
            self.rows.len() - 1
        });
        let cells = &mut self.rows[row].1;
        cells.resize(cells.len().max(at + 1), None);
        cells[at] = text;
    }

    /// The table; a dash stands where nothing was put.
    pub(super) fn table(&self) -> Table {
        let columns = self.columns.iter().map(String::as_str);
        let header: Vec<&str> = self.keys.iter().copied().chain(columns).collect();
        let mut table = Table::new(self.keys.len(), &header);
        for (key, cells) in &self.rows {
            let cell = |at: usize| cells.get(at).cloned().flatten().unwrap_or("–".into());
            let cells = (0..self.columns.len()).map(cell);
            table.row(key.iter().cloned().chain(cells).collect());
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns_keep_the_order_in_which_they_came_and_holes_are_dashes() {
        let mut pivot = Pivot::new(&["trace"]);
        pivot.put(vec!["b".into()], "lru", Some("1".into()));
        pivot.put(vec!["a".into()], "lru", Some("2".into()));
        pivot.put(vec!["a".into()], "fifo", Some("3".into()));
        pivot.put(vec!["b".into()], "lrb", None);
        let wanted = "| trace | lru | fifo | lrb |\n|---|---:|---:|---:|\n| b | 1 | – | – |\n| a | 2 | 3 | – |\n";
        assert_eq!(pivot.table().to_markdown(), wanted);
    }
}
