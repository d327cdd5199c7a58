//! Drawing of a topology as a text tree of box characters.

use super::hung::Hung;
use super::overlay::{Annotations, Overlay, Vertex, blocked, describe, fold, in_brackets};
use crate::topology::Topology;
use std::collections::BTreeMap;
use std::fmt::Write;

const LEGEND: &str =
    "↑ flows to the switch above, ↓ flows from it, ! several senders at once, → sends to, in this order";

const CAST_LEGEND: &str =
    "one frame from the root, which the switches copy: ↑1 up to the switch above, ↓1 down from it";

/// Draws a topology as a tree of lines, and below it the blocked cables. Without a plan, each
/// switch is a line with its hosts folded; with one, each host has a line.
pub fn text(topology: &Topology, overlay: &Overlay) -> String {
    let hung = Hung::new(topology);
    let marks = Annotations::new(topology, overlay);
    let mut tree = TextTree { topology, hung: &hung, marks: &marks, text: String::new() };
    if !marks.is_empty() {
        tree.line("", if marks.is_cast { CAST_LEGEND } else { LEGEND });
    }
    tree.draw();
    if let Some(blocked) = blocked(topology) {
        tree.line("", &format!("blocked by spanning tree: {blocked}"));
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
            let Vertex::Switch(switch) = node else { continue };
            let below = self.below(switch);
            let last = below.len().saturating_sub(1);
            // The stack reverses the order.
            for (index, &next) in below.iter().enumerate().rev() {
                let (branch, space) = if index == last { ("└── ", "    ") } else { ("├── ", "│   ") };
                waiting.push((next, format!("{trunk}{branch}"), format!("{trunk}{space}")));
            }
        }
    }

    fn below(&self, switch: usize) -> Vec<Vertex> {
        let hosts = self.topology.hosts_on(switch).filter(|_| !self.marks.is_empty()).map(Vertex::Host);
        hosts.chain(self.hung.children[switch].iter().copied().map(Vertex::Switch)).collect()
    }

    fn line(&mut self, branch: &str, label: &str) {
        writeln!(self.text, "{branch}{label}").expect("writing to a string cannot fail");
    }

    fn label(&self, node: Vertex) -> String {
        match node {
            Vertex::Host(host) => self.host_label(host),
            Vertex::Switch(switch) if self.marks.is_empty() => self.plain_switch_label(switch),
            Vertex::Switch(switch) => {
                let loads = self.above(switch).and_then(|above| self.marks.loads(node, Vertex::Switch(above)));
                let loads = loads.map(|loads| format!("  {}", describe(loads))).unwrap_or_default();
                format!("{}{loads}", self.switch_name(switch))
            }
        }
    }

    fn above(&self, switch: usize) -> Option<usize> {
        let depth = &self.hung.depth;
        self.topology.neighbours(switch).iter().copied().find(|&other| depth[other] < depth[switch])
    }

    fn switch_name(&self, switch: usize) -> String {
        let rate = self.above(switch).and_then(|above| self.topology.cable_rate(above, switch));
        format!("{}{}", self.topology.switches()[switch], in_brackets(rate))
    }

    fn plain_switch_label(&self, switch: usize) -> String {
        let name = self.switch_name(switch);
        let mut alike: BTreeMap<Option<u64>, Vec<usize>> = BTreeMap::new();
        self.topology
            .hosts_on(switch)
            .for_each(|host| alike.entry(self.topology.host_rate(host)).or_default().push(host));
        let hosts = alike.into_iter().map(|(rate, hosts)| fold(self.topology, hosts) + &in_brackets(rate));
        let hosts = hosts.collect::<Vec<_>>().join(", ");
        match self.topology.hosts_on(switch).count() {
            0 => name,
            1 => format!("{name}  1 host  {hosts}"),
            count => format!("{name}  {count} hosts  {hosts}"),
        }
    }

    fn host_label(&self, host: usize) -> String {
        let mut label = self.topology.hosts()[host].clone() + &in_brackets(self.topology.host_rate(host));
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
