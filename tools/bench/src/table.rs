//! A table of results, as text and as CSV.

use std::fmt::Write;

/// Rows of text under a heading.
#[derive(Clone, Debug)]
pub struct Table {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates an empty table.
    pub fn new(heading: &[impl AsRef<str>]) -> Self {
        Self { heading: heading.iter().map(|cell| cell.as_ref().to_owned()).collect(), rows: Vec::new() }
    }

    /// Creates an empty table from a comma-separated heading.
    pub fn under(heading: &str) -> Self {
        Self::new(&heading.split(',').map(str::trim).collect::<Vec<_>>())
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If its number of cells differs from the heading's.
    pub fn push(&mut self, row: Vec<String>) {
        assert_eq!(row.len(), self.heading.len(), "a row has one cell per column");
        self.rows.push(row);
    }

    /// Formats the table in columns, two blanks apart. The first column and the last, which may be
    /// long, are left-aligned, the others right-aligned.
    pub fn aligned(&self) -> String {
        let last = self.heading.len().saturating_sub(1);
        let lines = || self.lines();
        let width = |column: usize| lines().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.heading.len()).map(width).collect();
        let mut text = String::new();
        for line in lines() {
            let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
                0 => format!("{cell:<width$}"),
                _ if column == last => (*cell).to_owned(),
                _ => format!("{cell:>width$}"),
            });
            writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())
                .expect("writing to a String cannot fail");
        }
        text
    }

    /// Formats the table as CSV (RFC 4180), heading first.
    pub fn csv(&self) -> String {
        self.lines().map(|line| line.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",") + "\n").collect()
    }

    /// Returns heading and rows as cells.
    pub fn lines(&self) -> impl Iterator<Item = Vec<&str>> {
        std::iter::once(&self.heading).chain(&self.rows).map(|line| line.iter().map(String::as_str).collect())
    }
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}

/// Returns the median, the mean of the two middle values for an even number; `None` of nothing.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_line_up_on_the_right_and_remarks_on_the_left() {
        let mut table = Table::new(&["tool", "seconds", "remark"]);
        table.push(vec!["a".into(), "10.5".into(), String::new()]);
        table.push(vec!["longer".into(), "-".into(), "none, here".into()]);
        assert_eq!(table.aligned(), "tool    seconds  remark\na          10.5\nlonger        -  none, here\n");
        assert_eq!(table.csv(), "tool,seconds,remark\na,10.5,\nlonger,-,\"none, here\"\n");
    }

    #[test]
    fn a_median_does_not_care_for_order() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }
}
