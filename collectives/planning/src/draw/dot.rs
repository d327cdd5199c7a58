//! Graphviz' language.

use super::hung::Hung;
use super::overlay::{Annotations, Overlay, Traffic, Vertex, describe};
use crate::topology::Topology;

const HEAD: &str = "  node [fontname=\"sans-serif\"];\n  edge [fontname=\"sans-serif\"];\n";

/// Draws a topology as a DOT graph: switches as boxes, hosts as ellipses, cables as lines; the edges of a plan as
/// arrows, numbered in sending order.
pub fn dot(topology: &Topology, overlay: &Overlay) -> String {
    let marks = Annotations::new(topology, overlay);
    let (kind, line) = if marks.is_empty() { ("graph topology", "--") } else { ("digraph plan", "->") };
    let mut text = format!("{kind} {{\n{HEAD}");
    for switch in 0..topology.switches().len() {
        text += &format!(
            "  {} [label={}, shape=box];\n",
            id(topology, Vertex::Switch(switch)),
            quoted(&topology.switches()[switch])
        );
    }
    for (host, name) in topology.hosts().iter().enumerate() {
        let bold = if marks.root == Some(host) { ", penwidth=3" } else { "" };
        text += &format!("  {} [label={}, shape=ellipse{bold}];\n", id(topology, Vertex::Host(host)), quoted(name));
    }
    let hung = Hung::new(topology);
    let between = topology.cables().iter().map(|&(low, high)| {
        let (upper, lower) = if hung.depth[low] < hung.depth[high] { (low, high) } else { (high, low) };
        (Vertex::Switch(upper), Vertex::Switch(lower))
    });
    let hosts = (0..topology.hosts().len()).map(|host| (Vertex::Switch(topology.switch_of(host)), Vertex::Host(host)));
    for (upper, lower) in between.chain(hosts) {
        let style = style(&marks, marks.loads(lower, upper));
        text += &format!("  {} {line} {}{style};\n", id(topology, upper), id(topology, lower));
    }
    for host in 0..topology.hosts().len() {
        let sends = marks.sends(host);
        for (order, &to) in sends.iter().enumerate() {
            let label = if sends.len() > 1 { format!(", label=\"{order}\"") } else { String::new() };
            let (from, to) = (id(topology, Vertex::Host(host)), id(topology, Vertex::Host(to)));
            text += &format!("  {from} -> {to} [color=\"#1f6fb2\", constraint=false{label}];\n");
        }
    }
    text + "}\n"
}

/// How a cable looks; an undirected line has nothing to say.
fn style(marks: &Annotations, loads: Option<(Traffic, Traffic)>) -> String {
    if marks.is_empty() {
        return String::new();
    }
    let Some((up, down)) = loads else { return " [dir=none]".to_string() };
    let colour = if up.is_contended() || down.is_contended() { ", color=\"#c0392b\"" } else { "" };
    format!(" [dir=none, label=\"{}\"{colour}]", describe((up, down)))
}

/// A host and a switch may have one name: their ids differ.
fn id(topology: &Topology, node: Vertex) -> String {
    match node {
        Vertex::Host(host) => quoted(&format!("host {}", topology.hosts()[host])),
        Vertex::Switch(switch) => quoted(&format!("switch {}", topology.switches()[switch])),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
