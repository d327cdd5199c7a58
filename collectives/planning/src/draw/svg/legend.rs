//! Legend and title of a topology's picture.

use super::shapes::{self, CHARACTER_WIDTH, Position, Sign};
use crate::draw::overlay::Annotations;
use crate::topology::Topology;

pub(super) const LEGEND_PITCH: f64 = 20.0;

pub(super) struct Legend {
    title: String,
    lines: Vec<(Sign, &'static str)>,
}

impl Legend {
    /// Returns the legend of the signs that will be drawn. Without a title the picture is named
    /// after its kind.
    pub fn of(topology: &Topology, marks: &Annotations, title: &str) -> Self {
        let kind = if marks.is_empty() { "topology" } else { "plan" };
        let mut lines = vec![(Sign::Cable, "cable, with its rate where that is known")];
        if marks.is_cast {
            lines.push((Sign::Copied, "one frame from the root, copied by the switches"));
        } else if !marks.is_empty() {
            lines.push((Sign::Edge, "sends to; numbers give the order where a host sends to several"));
            lines.push((Sign::Loads, "flows up to the switch above and down from it; ! several senders at once"));
        }
        if !marks.is_empty() {
            lines.push((Sign::Root, "the host that has the bytes"));
        }
        if !topology.blocked().is_empty() {
            lines.push((Sign::Blocked, "cable that spanning tree blocks"));
        }
        Self { title: if title.is_empty() { kind.to_owned() } else { title.to_owned() }, lines }
    }

    /// Returns the title alone.
    pub fn without_lines(self) -> Self {
        Self { lines: Vec::new(), ..self }
    }

    /// Returns each sign as an element of its own, and its meaning.
    pub fn signs(&self) -> Vec<(String, &'static str)> {
        self.lines.iter().map(|&(sign, text)| (shapes::sign_alone(sign), text)).collect()
    }

    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    pub fn width(&self) -> f64 {
        let longest = self.lines.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
        let widest = shapes::SIGN_WIDTH + longest as f64 * CHARACTER_WIDTH;
        widest.max(self.title.chars().count() as f64 * CHARACTER_WIDTH * 1.2)
    }

    pub fn title(&self) -> &str {
        &self.title
    }

    pub fn draw(&self, at: Position) -> String {
        let places = (0..).map(|line| Position { x: at.x, y: at.y + LEGEND_PITCH * f64::from(line) });
        self.lines.iter().zip(places).map(|(&(sign, text), at)| shapes::legend_line(at, sign, text)).collect()
    }
}
