//! Line charts of time by message size or number of hosts, checked against the statements of a
//! paper.

use std::fmt;

use anyhow::{Context, ensure};
use ethbcast_bench::page::{Series, line_chart};
use ethbcast_bench::report::Table;
use serde::Deserialize;

use crate::{milliseconds, parse_size, size, verdict};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    pub letter: String,
    pub title: String,
    pub axis: String,
    pub points: Vec<u64>,
    pub lines: Vec<(String, Vec<Option<f64>>)>,
    /// Hosts, as far as statements about long messages need them.
    pub hosts: usize,
}

impl Panel {
    fn line(&self, name: &str) -> Option<&[Option<f64>]> {
        self.lines
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, seconds)| seconds.as_slice())
    }

    /// Returns the seconds on a line at a point, if they were measured. `best` stands for the least
    /// of all lines but the first and `copy`, `NAME *` for the least of those that begin so and go
    /// on with a number.
    pub fn at(&self, line: &str, point: u64) -> Option<f64> {
        let place = self.points.iter().position(|&other| other == point)?;
        if line == "best" {
            let others = self.lines[1..].iter().filter(|(name, _)| name != "copy");
            return others
                .filter_map(|(_, seconds)| seconds[place])
                .reduce(f64::min);
        }
        if let Some(prefix) = line.strip_suffix('*') {
            let is_one = |name: &str| {
                name.strip_prefix(prefix)
                    .is_some_and(|rest| rest.parse::<u64>().is_ok())
            };
            let own = self.lines.iter().filter(|(name, _)| is_one(name));
            return own
                .filter_map(|(_, seconds)| seconds[place])
                .reduce(f64::min);
        }
        self.line(line)?[place]
    }

    pub fn point(&self, point: u64) -> String {
        if self.axis == "bytes" {
            size(point)
        } else {
            point.to_string()
        }
    }

    /// Formats the panel with a row for each point, and a remark behind each if there are any.
    pub fn table(&self, cell: impl Fn(f64, u64) -> String, remarks: &[String]) -> String {
        let names = self.lines.iter().map(|(name, _)| name.as_str());
        let has_remarks = remarks.iter().any(|remark| !remark.is_empty());
        let last = has_remarks.then_some("remarks");
        let heading: Vec<&str> = std::iter::once(self.axis.as_str())
            .chain(names)
            .chain(last)
            .collect();
        let mut table = Table::new(&heading);
        for (place, &point) in self.points.iter().enumerate() {
            let seconds = self.lines.iter().map(|(_, seconds)| seconds[place]);
            let cells = seconds
                .map(|seconds| seconds.map_or("-".to_owned(), |seconds| cell(seconds, point)));
            let remark = has_remarks.then(|| remarks[place].clone());
            table.push(
                std::iter::once(self.point(point))
                    .chain(cells)
                    .chain(remark)
                    .collect(),
            );
        }
        format!("\n{}\n{}", self.title, table.aligned())
    }

    pub fn in_milliseconds(&self) -> String {
        self.table(|seconds, _| milliseconds(seconds), &[])
    }

    /// Draws all lines for which `value` has something; `None` if that is nothing.
    pub fn svg(
        &self,
        label: &str,
        value: impl Fn(&str, u64, f64) -> Option<f64>,
    ) -> Option<String> {
        let line = |(name, seconds): &(String, Vec<Option<f64>>)| {
            let points = self.points.iter().zip(seconds);
            let drawn = points.filter_map(|(&x, y)| Some((x as f64, value(name, x, (*y)?)?)));
            Series::new(name.clone(), drawn)
        };
        let series: Vec<Series> = self
            .lines
            .iter()
            .map(line)
            .filter(|line| !line.points.is_empty())
            .collect();
        let log_x = self.axis == "bytes";
        (!series.is_empty()).then(|| line_chart(&self.title, &self.axis, label, &series, log_x))
    }
}

/// Number of a statement: over the points, the least or greatest ratio, how far ratios are from 1
/// at most, or the share of them that is near 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pick {
    #[default]
    Least,
    Most,
    Apart,
    Share,
}

/// A statement of a paper, or a goal, as a row of data.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// Words, with `{panel}` in place of the panel's letter.
    pub says: String,
    /// Letters of the panels that it is about; all if there are none.
    #[serde(default)]
    pub panels: Vec<String>,
    /// Line that is compared; `{way}` stands for each line.
    pub of: String,
    /// Line with which it is compared; without one the statement is about milliseconds.
    pub over: Option<String>,
    pub over_panel: Option<String>,
    /// First and last point of the statement.
    #[serde(default)]
    pub points: Vec<String>,
    /// Only messages with at least as many frames as there are hosts, because shorter ones are all
    /// beginning.
    #[serde(default)]
    pub long: bool,
    #[serde(default)]
    pub pick: Pick,
    /// Distance from 1 that counts as near, for shares.
    #[serde(default)]
    pub within: f64,
    /// At least the first, at most the second.
    pub bounds: Vec<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StatementResult {
    pub panel: String,
    pub what: String,
    pub ours: f64,
    bounds: [f64; 2],
}

impl StatementResult {
    pub fn holds(&self) -> bool {
        (self.bounds[0]..=self.bounds[1]).contains(&self.ours)
    }
}

impl fmt::Display for StatementResult {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, high] = self.bounds;
        let bounds = match (low > 0.0, high.is_finite()) {
            (true, true) => format!("{low:.2} to {high:.2}"),
            (true, false) => format!("at least {low:.2}"),
            _ => format!("at most {high:.2}"),
        };
        write!(
            formatter,
            "{}: {:.2} ({bounds}): {}",
            self.what,
            self.ours,
            verdict(self.holds())
        )
    }
}

impl Statement {
    /// Computes the number in each panel that has the compared lines; with `Share`, over all
    /// panels.
    pub fn of(&self, panels: &[Panel]) -> anyhow::Result<Vec<StatementResult>> {
        ensure!(
            (1..=2).contains(&self.bounds.len()),
            "{}: one bound or two",
            self.says
        );
        let known = |letter: &String| panels.iter().any(|panel| panel.letter == *letter);
        ensure!(
            self.panels.iter().chain(&self.over_panel).all(known),
            "{}: no such panel",
            self.says
        );
        let own = panels
            .iter()
            .filter(|panel| self.panels.is_empty() || self.panels.contains(&panel.letter));
        let ratios = own
            .map(|panel| Ok((panel, self.ratios(panel, panels)?)))
            .collect::<anyhow::Result<Vec<_>>>()?;
        if self.pick == Pick::Share {
            let all: Vec<f64> = ratios.into_iter().flat_map(|(_, ratios)| ratios).collect();
            let near = all
                .iter()
                .filter(|&&ratio| (ratio - 1.0).abs() <= self.within)
                .count();
            return Ok((!all.is_empty())
                .then(|| self.said("", near as f64 / all.len() as f64))
                .into_iter()
                .collect());
        }
        let picked = ratios
            .iter()
            .filter_map(|(panel, ratios)| Some(self.said(&panel.letter, self.picked(ratios)?)));
        Ok(picked.collect())
    }

    fn said(&self, panel: &str, ours: f64) -> StatementResult {
        let bounds = [
            self.bounds[0],
            self.bounds.get(1).copied().unwrap_or(f64::INFINITY),
        ];
        StatementResult {
            panel: panel.to_owned(),
            what: self.says.replace("{panel}", panel),
            ours,
            bounds,
        }
    }

    fn ratios(&self, panel: &Panel, panels: &[Panel]) -> anyhow::Result<Vec<f64>> {
        let over_panel = panels
            .iter()
            .find(|other| Some(&other.letter) == self.over_panel.as_ref())
            .unwrap_or(panel);
        let limit = |place: usize| {
            let parse = |text: &String| parse_size(text).map_err(anyhow::Error::msg);
            self.points
                .get(place)
                .map(parse)
                .transpose()
                .with_context(|| self.says.clone())
        };
        let range = limit(0)?.unwrap_or(0)..=limit(1)?.unwrap_or(u64::MAX);
        let is_long = |bytes: u64| {
            let frames = bytes.div_ceil(crate::FRAME_PAYLOAD_BYTES);
            frames >= panel.hosts.max(over_panel.hosts) as u64
        };
        let points = panel
            .points
            .iter()
            .copied()
            .filter(|point| range.contains(point));
        let points: Vec<u64> = points
            .filter(|&point| !self.long || is_long(point))
            .collect();
        let ways: Vec<&str> = match self.of.contains("{way}") {
            true => panel.lines.iter().map(|(name, _)| name.as_str()).collect(),
            false => vec![""],
        };
        let of = |line: &str, way: &str, point, panel: &Panel| {
            panel.at(&line.replace("{way}", way), point)
        };
        let all = ways
            .iter()
            .flat_map(|way| points.iter().map(move |&point| (way, point)));
        let ratio = |(way, point): (&&str, u64)| {
            let value = of(&self.of, way, point, panel)?;
            Some(match &self.over {
                Some(over) => value / of(over, way, point, over_panel)?,
                None => value * 1e3,
            })
        };
        Ok(all.filter_map(ratio).collect())
    }

    fn picked(&self, ratios: &[f64]) -> Option<f64> {
        let (least, most) = (
            ratios.iter().copied().reduce(f64::min)?,
            ratios.iter().copied().reduce(f64::max)?,
        );
        Some(match self.pick {
            Pick::Most => most,
            Pick::Apart => most.max(1.0 / least),
            Pick::Least | Pick::Share => least,
        })
    }
}

pub fn said(
    statements: &[Statement],
    panels: &[Panel],
    by_panel: bool,
) -> anyhow::Result<Vec<StatementResult>> {
    let mut all = Vec::new();
    for statement in statements {
        all.extend(statement.of(panels)?);
    }
    if by_panel {
        all.sort_by_key(|said| panels.iter().position(|panel| panel.letter == said.panel));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(letter: &str, lines: &[(&str, [f64; 2])]) -> Panel {
        let line =
            |(name, seconds): &(&str, [f64; 2])| ((*name).to_owned(), seconds.map(Some).to_vec());
        let (points, lines) = (vec![8 << 10, 1 << 20], lines.iter().map(line).collect());
        Panel {
            letter: letter.into(),
            axis: "bytes".into(),
            points,
            lines,
            hosts: 32,
            ..Panel::default()
        }
    }

    fn outcome(row: &str) -> Vec<String> {
        let panels = [
            panel(
                "4",
                &[
                    ("auto", [3.0, 10.0]),
                    ("chain", [2.0, 10.0]),
                    ("chain predicted", [1.0, 11.0]),
                ],
            ),
            panel(
                "5",
                &[
                    ("auto", [1.0, 1.0]),
                    ("chain", [4.0, 10.5]),
                    ("unaware", [1.0, 15.0]),
                ],
            ),
        ];
        let statement: Statement = toml::from_str(row).expect(row);
        said(&[statement], &panels, false)
            .expect(row)
            .iter()
            .map(StatementResult::to_string)
            .collect()
    }

    #[test]
    fn a_statement_is_met_within_its_bounds() {
        let five = "panels = ['5']\nof = 'unaware'\nover = 'chain'\n";
        let long = format!("says = 'slower on {{panel}}'\n{five}long = true\nbounds = [2.0]");
        assert_eq!(
            outcome(&long),
            ["slower on 5: 1.43 (at least 2.00): MISSED"]
        );
        let all = format!("says = 'ratio'\n{five}pick = 'most'\nbounds = [0.0, 2]");
        assert_eq!(outcome(&all), ["ratio: 1.43 (at most 2.00): met"]);
        let at = "says = 'ms'\npanels = ['5']\nof = 'chain'\npoints = ['8K', '8K']\nbounds = [3000, 4000.0]";
        assert_eq!(outcome(at), ["ms: 4000.00 (3000.00 to 4000.00): met"]);
    }

    #[test]
    fn lines_of_two_panels_the_best_line_and_shares_of_all_are_compared() {
        let two = "says = 'same'\npanels = ['5']\nof = 'chain'\nover = 'chain'\nover_panel = '4'\nlong = true\n\
                   bounds = [0.9, 1.1]";
        assert_eq!(outcome(two), ["same: 1.05 (0.90 to 1.10): met"]);
        let best = "says = '{panel}'\nof = 'auto'\nover = 'best'\npick = 'most'\nbounds = [0, 1.1]";
        assert_eq!(
            outcome(best),
            [
                "4: 3.00 (at most 1.10): MISSED",
                "5: 1.00 (at most 1.10): met"
            ]
        );
        let share = "says = 's'\nof = '{way} predicted'\nover = '{way}'\npick = 'share'\nwithin = \
            0.15\nbounds = [0.95]";
        assert_eq!(outcome(share), ["s: 0.50 (at least 0.95): MISSED"]);
    }
}
