//! Drawing as a self-contained SVG file, with fonts by family only.

mod layout;
mod legend;
mod shapes;

use super::hung::Hung;
use super::overlay::{Annotations, Overlay, Traffic, Vertex, describe};
use crate::format_rate;
use crate::topology::Topology;
use layout::Layout;
use legend::Legend;
use shapes::{Line, Paint, Position, Rect, Whole};

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
    Legend::of(topology, &Annotations::new(topology, overlay), overlay.title).signs()
}

fn draw(topology: &Topology, overlay: &Overlay, whole: Whole) -> String {
    let marks = Annotations::new(topology, overlay);
    let hung = Hung::new(topology);
    let legend = Legend::of(topology, &marks, overlay.title);
    // A page has it as text, which wraps.
    let legend = if whole == Whole::File { legend } else { legend.without_lines() };
    let layout = Layout::new(topology, &hung, !marks.is_empty(), &legend);
    let picture = Picture { topology, hung: &hung, marks: &marks, layout: &layout };
    // Later elements are on top: long edges pass behind the hosts on their way.
    let lines = [picture.cables(), picture.blocked(), picture.ports(), picture.plan()].concat();
    let body = [lines, picture.switches(), picture.hosts(), legend.draw(layout.legend)].concat();
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
                // The cables to the hosts begin at the middle.
                let aside = if to.x < from.x { from.width * 0.25 } else { from.width * 0.75 };
                let (start, end) =
                    (Position { x: from.x + aside, y: from.bottom() }, Position { x: to.middle().x, y: to.y });
                let loads = self.marks.loads(Vertex::Switch(lower), Vertex::Switch(upper));
                let contended = loads.is_some_and(|(up, down)| up.is_contended || down.is_contended);
                let flows = loads.filter(|_| !self.marks.is_cast).map(describe);
                let rate = self.topology.cable_rate(upper, lower).map(format_rate);
                let label: Vec<String> = flows.into_iter().chain(rate).collect();
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
                let hosts: Vec<Rect> = self.topology.hosts_on(switch).map(|host| self.layout.hosts[host]).collect();
                shapes::trunk(self.layout.switches[switch], &hosts, self.marks.is_cast)
            })
            .collect()
    }

    fn switches(&self) -> String {
        let boxes = self.topology.switches().iter().zip(&self.layout.switches);
        boxes.map(|(name, rect)| shapes::named_box(*rect, name, "", Paint::Switch)).collect()
    }

    fn hosts(&self) -> String {
        let draw = |(host, name): (usize, &String)| {
            let loads = self.marks.loads(Vertex::Host(host), Vertex::Switch(self.topology.switch_of(host)));
            let contended = loads.is_some_and(|(up, down)| up.is_contended || down.is_contended);
            let paint = match (self.marks.root == Some(host), contended) {
                (true, _) => Paint::Root,
                (false, true) => Paint::Contended,
                (false, false) => Paint::Host,
            };
            let loads = loads.filter(|_| !self.marks.is_cast).map(describe);
            let rate =
                self.topology.host_rate(host).filter(|_| self.marks.is_empty() || self.marks.is_cast).map(format_rate);
            shapes::named_box(self.layout.hosts[host], name, &loads.or(rate).unwrap_or_default(), paint)
        };
        self.topology.hosts().iter().enumerate().map(draw).collect()
    }

    fn plan(&self) -> String {
        let edges = (0..self.topology.hosts().len()).flat_map(|host| {
            let sends = self.marks.sends(host);
            sends.iter().enumerate().map(move |(order, &to)| (host, to, (sends.len() > 1).then_some(order)))
        });
        edges.map(|(from, to, order)| shapes::arrow(self.layout.hosts[from], self.layout.hosts[to], order)).collect()
    }
}
