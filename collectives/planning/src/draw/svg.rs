//! Drawing of a network topology as a self-contained SVG file. Fonts are named by family only.

use super::overlay::{
    Annotations, Hung, Overlay, Traffic, Vertex, cable_text, describe, host_cable, switch_cable,
};
use super::shapes::{self, CHARACTER_WIDTH, Line, Paint, Position, Rect, Sign, Whole};
use crate::topology::Topology;

/// Draws a topology as an SVG document: switches in levels, their hosts in columns below, cables as
/// lines. The edges of a plan are arrows, numbered where a host sends to several; a cast's arrows
/// are on the cables. The title is above, the legend below. Lengths are in user units; a line of
/// text has 13.
pub fn svg(topology: &Topology, overlay: &Overlay) -> String {
    draw(topology, overlay, Whole::File)
}

/// Draws like [`svg`], as an element of a page whose style sheet defines the classes. It has no
/// colours of its own and a transparent background.
pub fn svg_in_page(topology: &Topology, overlay: &Overlay) -> String {
    draw(topology, overlay, Whole::Element)
}

/// Returns the legend of a picture in a page: each sign as an SVG element, and its meaning.
pub fn svg_legend(topology: &Topology, overlay: &Overlay) -> Vec<(String, &'static str)> {
    Legend::of(
        topology,
        &Annotations::new(topology, overlay),
        overlay.title,
    )
    .signs()
}

fn draw(topology: &Topology, overlay: &Overlay, whole: Whole) -> String {
    let marks = Annotations::new(topology, overlay);
    let hung = Hung::new(topology);
    let legend = Legend::of(topology, &marks, overlay.title);
    // A page has it as text, which wraps.
    let legend = if whole == Whole::File {
        legend
    } else {
        legend.without_lines()
    };
    let layout = Layout::new(topology, &hung, !marks.is_empty(), &legend);
    let picture = Picture {
        topology,
        hung: &hung,
        marks: &marks,
        layout: &layout,
    };
    // Later elements are on top: long edges pass behind the hosts on their way.
    let lines = [
        picture.cables(),
        picture.blocked(),
        picture.ports(),
        picture.plan(),
    ]
    .concat();
    let body = [
        lines,
        picture.switches(),
        picture.hosts(),
        legend.draw(layout.legend),
    ]
    .concat();
    shapes::document(layout.width, layout.height, legend.title(), &body, whole)
}

struct Picture<'a> {
    topology: &'a Topology,
    hung: &'a Hung,
    marks: &'a Annotations,
    layout: &'a Layout,
}

impl Picture<'_> {
    fn cables(&self) -> String {
        let pairs = self
            .hung
            .children
            .iter()
            .enumerate()
            .flat_map(|(upper, list)| list.iter().map(move |&lower| (upper, lower)));
        pairs
            .map(|(upper, lower)| {
                let (from, to) = (self.layout.switches[upper], self.layout.switches[lower]);
                // Cables from a switch to its hosts begin at its middle.
                let aside = if to.x < from.x {
                    from.width * 0.25
                } else {
                    from.width * 0.75
                };
                let (start, end) = (
                    Position {
                        x: from.x + aside,
                        y: from.bottom(),
                    },
                    Position {
                        x: to.middle().x,
                        y: to.y,
                    },
                );
                let loads = self
                    .marks
                    .loads(Vertex::Switch(lower), Vertex::Switch(upper));
                let contended =
                    loads.is_some_and(|(up, down)| up.is_contended || down.is_contended);
                let flows = loads.filter(|_| !self.marks.is_cast).map(describe);
                let cable = cable_text(switch_cable(self.topology, upper, lower));
                let label: Vec<String> = flows.into_iter().chain(cable).collect();
                let label = match label.as_slice() {
                    [] => String::new(),
                    label => shapes::label(start.halfway(end), &label.join(" "), contended),
                };
                match self.line(loads) {
                    // The frame goes up, so the arrow's head is at the upper end.
                    Line::Copied if loads.is_some_and(|(up, _)| up.flows > 0) => {
                        shapes::drop(end, start, Line::Copied) + &label
                    }
                    line => shapes::drop(start, end, line) + &label,
                }
            })
            .collect()
    }

    fn line(&self, loads: Option<(Traffic, Traffic)>) -> Line {
        match loads {
            Some(_) if self.marks.is_cast => Line::Copied,
            Some((up, down)) if up.is_contended || down.is_contended => Line::Contended,
            _ => Line::Plain,
        }
    }

    fn blocked(&self) -> String {
        let line = |&(low, high): &(usize, usize)| {
            let [low, high] = [low, high].map(|switch| self.layout.switches[switch].middle());
            shapes::drop(low, high, Line::Blocked)
        };
        self.topology.blocked().iter().map(line).collect()
    }

    fn ports(&self) -> String {
        (0..self.topology.switches().len())
            .map(|switch| {
                let hosts: Vec<Rect> = self
                    .topology
                    .hosts_on(switch)
                    .map(|host| self.layout.hosts[host])
                    .collect();
                shapes::trunk(self.layout.switches[switch], &hosts, self.marks.is_cast)
            })
            .collect()
    }

    fn switches(&self) -> String {
        let boxes = self.topology.switches().iter().zip(&self.layout.switches);
        boxes
            .map(|(name, rect)| shapes::named_box(*rect, name, "", Paint::Switch))
            .collect()
    }

    fn hosts(&self) -> String {
        let draw = |(host, name): (usize, &String)| {
            let loads = self.marks.loads(
                Vertex::Host(host),
                Vertex::Switch(self.topology.switch_of(host)),
            );
            let contended = loads.is_some_and(|(up, down)| up.is_contended || down.is_contended);
            let paint = match (self.marks.root == Some(host), contended) {
                (true, _) => Paint::Root,
                (false, true) => Paint::Contended,
                (false, false) => Paint::Host,
            };
            let loads = loads.filter(|_| !self.marks.is_cast).map(describe);
            let cable = cable_text(host_cable(self.topology, host))
                .filter(|_| self.marks.is_empty() || self.marks.is_cast);
            shapes::named_box(
                self.layout.hosts[host],
                name,
                &loads.or(cable).unwrap_or_default(),
                paint,
            )
        };
        self.topology.hosts().iter().enumerate().map(draw).collect()
    }

    fn plan(&self) -> String {
        let edges = (0..self.topology.hosts().len()).flat_map(|host| {
            let sends = self.marks.sends(host);
            sends
                .iter()
                .enumerate()
                .map(move |(order, &to)| (host, to, (sends.len() > 1).then_some(order)))
        });
        edges
            .map(|(from, to, order)| {
                shapes::arrow(self.layout.hosts[from], self.layout.hosts[to], order)
            })
            .collect()
    }
}

const MARGIN: f64 = 24.0;
const TITLE_HEIGHT: f64 = 28.0;
const LEVEL_HEIGHT: f64 = 84.0;
const SWITCH_HEIGHT: f64 = 32.0;
const HOST_HEIGHT: f64 = 24.0;
const HOST_PITCH: f64 = 30.0;
const ROWS: usize = 16;
const GAP: f64 = 32.0;
const GAP_WITH_PLAN: f64 = 88.0;
const LOADS_WIDTH: f64 = 68.0;

#[derive(Debug)]
struct Layout {
    pub switches: Vec<Rect>,
    pub hosts: Vec<Rect>,
    pub legend: Position,
    pub width: f64,
    pub height: f64,
}

impl Layout {
    /// Gives each switch a strip of its own, from left to right in tree order (a switch amid those
    /// below it), so that no cable crosses a host. Its hosts stand below the lowest switch.
    pub fn new(topology: &Topology, hung: &Hung, with_plan: bool, legend: &Legend) -> Self {
        let gap = if with_plan { GAP_WITH_PLAN } else { GAP };
        let has_text = |host: usize| cable_text(host_cable(topology, host)).is_some();
        let with_rates = (0..topology.hosts().len()).any(has_text);
        let host_width = box_width(topology.hosts())
            + if with_plan || with_rates {
                LOADS_WIDTH
            } else {
                0.0
            };
        let switch_width = box_width(topology.switches());
        let none = Rect {
            x: 0.0,
            y: 0.0,
            width: 0.0,
            height: 0.0,
        };
        let mut layout = Self {
            switches: vec![none; topology.switches().len()],
            hosts: vec![none; topology.hosts().len()],
            legend: Position { x: MARGIN, y: 0.0 },
            width: 0.0,
            height: 0.0,
        };
        let top = MARGIN + TITLE_HEIGHT;
        let hosts_top =
            top + LEVEL_HEIGHT * (hung.levels() - 1) as f64 + SWITCH_HEIGHT + 2.0 * HOST_PITCH;
        let mut left = MARGIN + GAP / 2.0;
        layout.height = hosts_top;
        for switch in left_to_right(hung) {
            let hosts: Vec<usize> = topology.hosts_on(switch).collect();
            let columns = hosts.len().div_ceil(ROWS);
            let strip = (columns as f64 * (host_width + gap) - gap).max(switch_width);
            let y = top + LEVEL_HEIGHT * hung.depth[switch] as f64;
            layout.switches[switch] = Rect {
                x: left + (strip - switch_width) / 2.0,
                y,
                width: switch_width,
                height: SWITCH_HEIGHT,
            };
            for (index, &host) in hosts.iter().enumerate() {
                let x = left + (index / ROWS) as f64 * (host_width + gap);
                let y = hosts_top + (index % ROWS) as f64 * HOST_PITCH;
                layout.hosts[host] = Rect {
                    x,
                    y,
                    width: host_width,
                    height: HOST_HEIGHT,
                };
                layout.height = layout.height.max(y + HOST_HEIGHT);
            }
            left += strip + gap;
        }
        layout.width =
            (left - gap + MARGIN + GAP_WITH_PLAN / 2.0).max(legend.width() + 2.0 * MARGIN);
        layout.legend.y = layout.height + LEGEND_PITCH;
        layout.height = layout.legend.y + LEGEND_PITCH * legend.lines() as f64 + MARGIN;
        layout
    }
}

fn left_to_right(hung: &Hung) -> Vec<usize> {
    enum Pending {
        Below(usize),
        Switch(usize),
    }
    let mut order = Vec::with_capacity(hung.depth.len());
    let mut waiting = vec![Pending::Below(hung.top)];
    while let Some(step) = waiting.pop() {
        match step {
            Pending::Switch(switch) => order.push(switch),
            Pending::Below(switch) => {
                let (left, right) = hung.children[switch].split_at(hung.children[switch].len() / 2);
                // The stack reverses the order.
                waiting.extend(right.iter().rev().map(|&child| Pending::Below(child)));
                waiting.push(Pending::Switch(switch));
                waiting.extend(left.iter().rev().map(|&child| Pending::Below(child)));
            }
        }
    }
    order
}

fn box_width(names: &[String]) -> f64 {
    let longest = names
        .iter()
        .map(|name| shapes::shown(name).chars().count())
        .max()
        .unwrap_or(0);
    (longest as f64 * shapes::CHARACTER_WIDTH + 20.0).max(48.0)
}

const LEGEND_PITCH: f64 = 20.0;

struct Legend {
    title: String,
    lines: Vec<(Sign, &'static str)>,
}

impl Legend {
    /// Returns the legend of the signs that will be drawn. Without a title, the picture is named
    /// after its kind.
    pub fn of(topology: &Topology, marks: &Annotations, title: &str) -> Self {
        let kind = if marks.is_empty() { "topology" } else { "plan" };
        let mut lines = vec![(Sign::Cable, "cable, with its rate where that is known")];
        if marks.is_cast {
            lines.push((
                Sign::Copied,
                "one frame from the root, copied by the switches",
            ));
        } else if !marks.is_empty() {
            lines.push((
                Sign::Edge,
                "sends to; numbers give the order where a host sends to several",
            ));
            lines.push((
                Sign::Loads,
                "flows up to the switch above and down from it; ! several senders at once",
            ));
        }
        if !marks.is_empty() {
            lines.push((Sign::Root, "the host that has the bytes"));
        }
        if !topology.blocked().is_empty() {
            lines.push((Sign::Blocked, "cable that spanning tree blocks"));
        }
        Self {
            title: if title.is_empty() {
                kind.to_owned()
            } else {
                title.to_owned()
            },
            lines,
        }
    }

    pub fn without_lines(self) -> Self {
        Self {
            lines: Vec::new(),
            ..self
        }
    }

    pub fn signs(&self) -> Vec<(String, &'static str)> {
        self.lines
            .iter()
            .map(|&(sign, text)| (shapes::sign_alone(sign), text))
            .collect()
    }

    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    pub fn width(&self) -> f64 {
        let longest = self
            .lines
            .iter()
            .map(|(_, text)| text.chars().count())
            .max()
            .unwrap_or(0);
        let widest = shapes::SIGN_WIDTH + longest as f64 * CHARACTER_WIDTH;
        widest.max(self.title.chars().count() as f64 * CHARACTER_WIDTH * 1.2)
    }

    pub fn title(&self) -> &str {
        &self.title
    }

    pub fn draw(&self, at: Position) -> String {
        let places = (0..).map(|line| Position {
            x: at.x,
            y: at.y + LEGEND_PITCH * f64::from(line),
        });
        self.lines
            .iter()
            .zip(places)
            .map(|(&(sign, text), at)| shapes::legend_line(at, sign, text))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Overlay;
    use crate::topology::arbitrary;
    use proptest::prelude::*;

    fn overlap(left: &Rect, right: &Rect) -> bool {
        left.x < right.right()
            && right.x < left.right()
            && left.y < right.bottom()
            && right.y < left.bottom()
    }

    proptest! {
        #[test]
        fn boxes_stand_apart_and_inside_the_picture(topology in arbitrary::topology(10, 60), with_plan: bool) {
            let legend = Legend::of(&topology, &Annotations::new(&topology, &Overlay::default()), "");
            let layout = Layout::new(&topology, &Hung::new(&topology), with_plan, &legend);
            let all: Vec<Rect> = layout.switches.iter().chain(&layout.hosts).copied().collect();
            for (index, rect) in all.iter().enumerate() {
                prop_assert!(rect.x >= 0.0 && rect.right() <= layout.width);
                prop_assert!(rect.y >= 0.0 && rect.bottom() <= layout.height);
                prop_assert!(all[..index].iter().all(|other| !overlap(rect, other)));
            }
        }
    }
}
