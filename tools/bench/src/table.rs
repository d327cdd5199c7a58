//! Statistics of the benchmark's repeated runs, and their table as text and as CSV.

use std::fmt::Write;

#[derive(Clone, Debug)]
pub struct Table {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(heading: &[impl AsRef<str>]) -> Self {
        Self { heading: heading.iter().map(|cell| cell.as_ref().to_owned()).collect(), rows: Vec::new() }
    }

    pub fn under(heading: &str) -> Self {
        Self::new(&heading.split(',').map(str::trim).collect::<Vec<_>>())
    }

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

    pub fn csv(&self) -> String {
        self.lines().map(|line| line.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",") + "\n").collect()
    }

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

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Mean without the lowest and the highest tenth, as in the EQA paper (§4).
    pub middle80: f64,
    pub median: f64,
    pub p99: f64,
}

impl Times {
    /// Computes the statistics of times in seconds; `None` if there are none.
    pub fn of(mut seconds: Vec<f64>) -> Option<Self> {
        seconds.sort_by(f64::total_cmp);
        // Nearest-rank quantile, as in `ethbcast perf`.
        let quantile =
            |part: f64| seconds.get(((part * seconds.len() as f64).ceil() as usize).saturating_sub(1)).copied();
        let tenth = seconds.len() / 10;
        let middle = &seconds[tenth..seconds.len() - tenth];
        Some(Self {
            middle80: middle.iter().sum::<f64>() / middle.len() as f64,
            median: quantile(0.5)?,
            p99: quantile(0.99)?,
        })
    }
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

    #[test]
    fn the_middle_leaves_out_a_tenth_at_either_end_and_quantiles_are_times_that_were_taken() {
        let seconds: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        assert_eq!(Times::of(seconds), Some(Times { middle80: 10.5, median: 10.0, p99: 20.0 }));
        assert_eq!(Times::of(vec![3.0]), Some(Times { middle80: 3.0, median: 3.0, p99: 3.0 }));
        assert_eq!(Times::of(vec![]), None);
    }
}
