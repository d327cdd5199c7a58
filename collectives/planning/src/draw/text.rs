//! Drawing of a network topology as text: a tree of box characters, or Graphviz's DOT language.

use super::overlay::{
    Annotations, Hung, Overlay, Traffic, Vertex, blocked, cable_text, describe, fold, host_cable,
    in_brackets, switch_cable,
};
use crate::topology::Topology;
use std::collections::BTreeMap;
use std::fmt::Write;

const LEGEND: &str = "↑ flows to the switch above, ↓ flows from it, ! several senders at once, → \
    sends to, in this order";

const CAST_LEGEND: &str =
    "one frame from the root, which the switches copy: ↑1 up to the switch above, ↓1 down from it";

/// Draws a topology as a tree of lines, and below it the blocked cables and the pairs with their
/// own latency. Without a plan, each
/// switch is a line with its hosts folded; with one, each host has a line.
pub fn text(topology: &Topology, overlay: &Overlay) -> String {
    let hung = Hung::new(topology);
    let marks = Annotations::new(topology, overlay);
    let mut tree = TextTree {
        topology,
        hung: &hung,
        marks: &marks,
        text: String::new(),
    };
    if !marks.is_empty() {
        tree.line("", if marks.is_cast { CAST_LEGEND } else { LEGEND });
    }
    tree.draw();
    if let Some(blocked) = blocked(topology) {
        tree.line("", &format!("blocked by spanning tree: {blocked}"));
    }
    for pair in topology.pair_lines() {
        tree.line("", &pair);
    }
    tree.text
}

struct TextTree<'a> {
    topology: &'a Topology,
    hung: &'a Hung,
    marks: &'a Annotations,
    text: String,
}

impl TextTree<'_> {
    /// Walks the tree with an explicit stack: a chain of thousands of switches must not overflow
    /// the call stack.
    fn draw(&mut self) {
        let mut waiting = vec![(Vertex::Switch(self.hung.top), String::new(), String::new())];
        while let Some((node, branch, trunk)) = waiting.pop() {
            let label = self.label(node);
            self.line(&branch, &label);
            let Vertex::Switch(switch) = node else {
                continue;
            };
            let below = self.below(switch);
            let last = below.len().saturating_sub(1);
            // The stack reverses the order.
            for (index, &next) in below.iter().enumerate().rev() {
                let (branch, space) = if index == last {
                    ("└── ", "    ")
                } else {
                    ("├── ", "│   ")
                };
                waiting.push((next, format!("{trunk}{branch}"), format!("{trunk}{space}")));
            }
        }
    }

    fn below(&self, switch: usize) -> Vec<Vertex> {
        let hosts = self
            .topology
            .hosts_on(switch)
            .filter(|_| !self.marks.is_empty())
            .map(Vertex::Host);
        hosts
            .chain(
                self.hung.children[switch]
                    .iter()
                    .copied()
                    .map(Vertex::Switch),
            )
            .collect()
    }

    fn line(&mut self, branch: &str, label: &str) {
        writeln!(self.text, "{branch}{label}").expect("writing to a string cannot fail");
    }

    fn label(&self, node: Vertex) -> String {
        match node {
            Vertex::Host(host) => self.host_label(host),
            Vertex::Switch(switch) if self.marks.is_empty() => self.plain_switch_label(switch),
            Vertex::Switch(switch) => {
                let loads = self
                    .above(switch)
                    .and_then(|above| self.marks.loads(node, Vertex::Switch(above)));
                let loads = loads
                    .map(|loads| format!("  {}", describe(loads)))
                    .unwrap_or_default();
                format!("{}{loads}", self.switch_name(switch))
            }
        }
    }

    fn above(&self, switch: usize) -> Option<usize> {
        let depth = &self.hung.depth;
        self.topology
            .neighbours(switch)
            .iter()
            .copied()
            .find(|&other| depth[other] < depth[switch])
    }

    fn switch_name(&self, switch: usize) -> String {
        let above = self.above(switch);
        let cable = above.map(|above| switch_cable(self.topology, above, switch));
        let cable = cable.map(in_brackets).unwrap_or_default();
        format!("{}{cable}", self.topology.switches()[switch])
    }

    fn plain_switch_label(&self, switch: usize) -> String {
        let name = self.switch_name(switch);
        let mut alike: BTreeMap<(Option<u64>, u64), Vec<usize>> = BTreeMap::new();
        self.topology.hosts_on(switch).for_each(|host| {
            alike
                .entry(host_cable(self.topology, host))
                .or_default()
                .push(host)
        });
        let hosts = alike
            .into_iter()
            .map(|(cable, hosts)| fold(self.topology, hosts) + &in_brackets(cable));
        let hosts = hosts.collect::<Vec<_>>().join(", ");
        match self.topology.hosts_on(switch).count() {
            0 => name,
            1 => format!("{name}  1 host  {hosts}"),
            count => format!("{name}  {count} hosts  {hosts}"),
        }
    }

    fn host_label(&self, host: usize) -> String {
        let mut label =
            self.topology.hosts()[host].clone() + &in_brackets(host_cable(self.topology, host));
        if self.marks.root == Some(host) {
            label += " (root)";
        }
        let switch = Vertex::Switch(self.topology.switch_of(host));
        if let Some(loads) = self.marks.loads(Vertex::Host(host), switch) {
            label += &format!("  {}", describe(loads));
        }
        let sends = self.marks.sends(host);
        if !sends.is_empty() {
            label += &format!("  → {}", fold(self.topology, sends.iter().copied()));
        }
        label
    }
}

const HEAD: &str = "  node [fontname=\"sans-serif\"];\n  edge [fontname=\"sans-serif\"];\n";

/// Draws a topology as a DOT graph: switches as boxes, hosts as ellipses, cables as lines; the
/// edges of a plan as arrows, numbered in sending order. A cast's arrows are on the cables: the
/// switches copy one frame.
pub fn dot(topology: &Topology, overlay: &Overlay) -> String {
    let marks = Annotations::new(topology, overlay);
    let (kind, line) = if marks.is_empty() {
        ("graph topology", "--")
    } else {
        ("digraph plan", "->")
    };
    let mut text = format!("{kind} {{\n{HEAD}");
    if !overlay.title.is_empty() {
        text += &format!("  label={};\n", quoted(overlay.title));
    }
    for switch in 0..topology.switches().len() {
        text += &format!(
            "  {} [label={}, shape=box];\n",
            id(topology, Vertex::Switch(switch)),
            quoted(&topology.switches()[switch])
        );
    }
    for (host, name) in topology.hosts().iter().enumerate() {
        let bold = if marks.root == Some(host) {
            ", penwidth=3"
        } else {
            ""
        };
        text += &format!(
            "  {} [label={}, shape=ellipse{bold}];\n",
            id(topology, Vertex::Host(host)),
            quoted(name)
        );
    }
    let hung = Hung::new(topology);
    let between = topology.cables().iter().map(|&(low, high)| {
        let (upper, lower) = if hung.depth[low] < hung.depth[high] {
            (low, high)
        } else {
            (high, low)
        };
        (Vertex::Switch(upper), Vertex::Switch(lower))
    });
    let hosts = (0..topology.hosts().len())
        .map(|host| (Vertex::Switch(topology.switch_of(host)), Vertex::Host(host)));
    for (upper, lower) in between.chain(hosts) {
        let cable = match (upper, lower) {
            (Vertex::Switch(switch), Vertex::Switch(other)) => {
                switch_cable(topology, switch, other)
            }
            (_, Vertex::Host(host)) | (Vertex::Host(host), _) => host_cable(topology, host),
        };
        let style = style(&marks, marks.loads(lower, upper), cable_text(cable));
        text += &format!(
            "  {} {line} {}{style};\n",
            id(topology, upper),
            id(topology, lower)
        );
    }
    for &(low, high) in topology.blocked() {
        let (low, high) = (
            id(topology, Vertex::Switch(low)),
            id(topology, Vertex::Switch(high)),
        );
        text += &format!(
            "  {low} {line} {high} [dir=none, style=dashed, constraint=false, label=\"blocked\"];\n"
        );
    }
    for host in 0..topology.hosts().len() {
        let sends = marks.sends(host);
        for (order, &to) in sends.iter().enumerate() {
            let label = if sends.len() > 1 {
                format!(", label=\"{order}\"")
            } else {
                String::new()
            };
            let (from, to) = (
                id(topology, Vertex::Host(host)),
                id(topology, Vertex::Host(to)),
            );
            text += &format!("  {from} -> {to} [color=\"#1f6fb2\", constraint=false{label}];\n");
        }
    }
    text + "}\n"
}

fn style(marks: &Annotations, loads: Option<(Traffic, Traffic)>, cable: Option<String>) -> String {
    let mut looks = Vec::new();
    match loads {
        // The switches copy one frame.
        Some((up, _)) if marks.is_cast => {
            looks.push(format!(
                "dir={}, color=\"#1f6fb2\"",
                if up.flows > 0 { "back" } else { "forward" }
            ));
        }
        _ if !marks.is_empty() => looks.push("dir=none".to_owned()),
        _ => {}
    }
    let flows = loads.filter(|_| !marks.is_cast).map(describe);
    let label: Vec<String> = flows.into_iter().chain(cable).collect();
    if !label.is_empty() {
        looks.push(format!("label=\"{}\"", label.join(" ")));
    }
    if loads.is_some_and(|(up, down)| up.is_contended || down.is_contended) {
        looks.push("color=\"#c0392b\"".to_owned());
    }
    if looks.is_empty() {
        String::new()
    } else {
        format!(" [{}]", looks.join(", "))
    }
}

/// Returns an id; a host and a switch with equal names get different ones.
fn id(topology: &Topology, node: Vertex) -> String {
    match node {
        Vertex::Host(host) => quoted(&format!("host {}", topology.hosts()[host])),
        Vertex::Switch(switch) => quoted(&format!("switch {}", topology.switches()[switch])),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
