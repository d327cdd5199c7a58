//! A figure: panels of lines over the size of the message, or over the number of hosts.

use anyhow::Context;

use super::runs::{Run, Runs};
use super::said::Said;
use crate::chart::{Series, line_chart};
use crate::table::Table;
use crate::units::{milliseconds, size};

/// Name of a line, and the broadcast at each of its points.
pub type Line = (String, Box<dyn Fn(u64) -> Run>);

/// One panel of a figure before it is measured.
pub struct Panel {
    /// Its letter; empty for a single panel.
    pub letter: &'static str,
    pub title: String,
    /// Name of the axis: bytes of the message, or hosts.
    pub axis: &'static str,
    pub points: Vec<u64>,
    pub lines: Vec<Line>,
}

/// A figure: its panels, and the paper's statements about it.
pub struct Figure {
    /// Base name of its results, such as `figure12`.
    pub name: &'static str,
    pub title: &'static str,
    pub panels: Vec<Panel>,
    pub said: fn(&[Drawn]) -> anyhow::Result<Vec<Said>>,
}

/// A panel with its times.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    letter: &'static str,
    title: String,
    axis: &'static str,
    points: Vec<u64>,
    lines: Vec<(String, Vec<f64>)>,
}

impl Panel {
    /// Plays all broadcasts.
    ///
    /// # Errors
    /// Fails if a simulation does, or if the user interrupts.
    pub fn draw(&self, runs: &mut Runs) -> anyhow::Result<Drawn> {
        self.with(|run| runs.seconds(run))
    }

    /// Computes the times by the paper's equations from its Table 2.
    ///
    /// # Errors
    /// Fails if a plan cannot be made.
    pub fn by_equations(&self) -> anyhow::Result<Drawn> {
        self.with(Run::by_equations)
    }

    fn with(&self, mut seconds: impl FnMut(&Run) -> anyhow::Result<f64>) -> anyhow::Result<Drawn> {
        let mut lines = Vec::new();
        for (name, run) in &self.lines {
            let seconds = self.points.iter().map(|&point| seconds(&run(point))).collect::<anyhow::Result<_>>()?;
            lines.push((name.clone(), seconds));
        }
        let Self { letter, title, axis, points, .. } = self;
        Ok(Drawn { letter, title: title.clone(), axis, points: points.clone(), lines })
    }
}

impl Drawn {
    pub fn letter(&self) -> &'static str {
        self.letter
    }

    pub fn points(&self) -> &[u64] {
        &self.points
    }

    /// Returns the seconds on a line at a point.
    ///
    /// # Errors
    /// Fails if there is no such line or point.
    pub fn at(&self, line: &str, point: u64) -> anyhow::Result<f64> {
        let seconds = self.lines.iter().find(|(name, _)| name == line).map(|(_, seconds)| seconds);
        let place = self.points.iter().position(|&other| other == point);
        seconds.zip(place).map(|(seconds, place)| seconds[place]).with_context(|| format!("no {line} at {point}"))
    }

    /// Returns the least and the greatest ratio of `line` to `other`, at the points for which
    /// `counts` is true.
    ///
    /// # Errors
    /// Fails if there is no such line.
    pub fn ratios(&self, line: &str, other: &str, counts: impl Fn(u64) -> bool) -> anyhow::Result<(f64, f64)> {
        let mut range = (f64::INFINITY, 0.0_f64);
        for &point in self.points.iter().filter(|&&point| counts(point)) {
            let ratio = self.at(line, point)? / self.at(other, point)?;
            range = (range.0.min(ratio), range.1.max(ratio));
        }
        Ok(range)
    }

    /// Formats the panel in milliseconds, with a row for each point.
    pub fn table(&self) -> String {
        let heading: Vec<&str> =
            std::iter::once(self.axis).chain(self.lines.iter().map(|(name, _)| name.as_str())).collect();
        let mut table = Table::new(&heading);
        for (place, &point) in self.points.iter().enumerate() {
            let cells = self.lines.iter().map(|(_, seconds)| milliseconds(seconds[place]));
            table.push(std::iter::once(self.point(point)).chain(cells).collect());
        }
        format!("\n{}\n{}", self.title, table.aligned())
    }

    fn point(&self, point: u64) -> String {
        if self.axis == "bytes" { size(point) } else { point.to_string() }
    }

    /// Adds all times to the CSV.
    pub fn add_to(&self, csv: &mut Table) {
        for (name, seconds) in &self.lines {
            for (point, seconds) in self.points.iter().zip(seconds) {
                csv.push(vec![
                    self.letter.to_owned(),
                    self.title.clone(),
                    name.clone(),
                    point.to_string(),
                    format!("{seconds:.7}"),
                ]);
            }
        }
    }

    /// Draws the panel as SVG.
    pub fn svg(&self) -> String {
        let line = |(name, seconds): &(String, Vec<f64>)| {
            Series::new(name.clone(), self.points.iter().zip(seconds).map(|(&x, y)| (x as f64, y * 1e3)))
        };
        let series: Vec<Series> = self.lines.iter().map(line).collect();
        line_chart(&self.title, self.axis, "ms", &series, self.axis == "bytes")
    }
}

impl Figure {
    /// Creates the CSV with its heading.
    pub fn csv() -> Table {
        Table::under("panel, title, line, point, seconds")
    }
}
