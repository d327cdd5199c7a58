//! Output in Graphviz's DOT language.

use super::hung::Hung;
use super::overlay::{Annotations, Overlay, Traffic, Vertex, describe};
use crate::format_rate;
use crate::topology::Topology;

const HEAD: &str = "  node [fontname=\"sans-serif\"];\n  edge [fontname=\"sans-serif\"];\n";

/// Draws a topology as a DOT graph: switches as boxes, hosts as ellipses, cables as lines; the
/// edges of a plan as arrows, numbered in sending order. A cast's arrows are on the cables: the
/// switches copy one frame.
pub fn dot(topology: &Topology, overlay: &Overlay) -> String {
    let marks = Annotations::new(topology, overlay);
    let (kind, line) = if marks.is_empty() { ("graph topology", "--") } else { ("digraph plan", "->") };
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
        let rate = match (upper, lower) {
            (Vertex::Switch(switch), Vertex::Switch(other)) => topology.cable_rate(switch, other),
            (_, Vertex::Host(host)) | (Vertex::Host(host), _) => topology.host_rate(host),
        };
        let style = style(&marks, marks.loads(lower, upper), rate);
        text += &format!("  {} {line} {}{style};\n", id(topology, upper), id(topology, lower));
    }
    for &(low, high) in topology.blocked() {
        let (low, high) = (id(topology, Vertex::Switch(low)), id(topology, Vertex::Switch(high)));
        text += &format!("  {low} {line} {high} [dir=none, style=dashed, constraint=false, label=\"blocked\"];\n");
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

fn style(marks: &Annotations, loads: Option<(Traffic, Traffic)>, rate: Option<u64>) -> String {
    let rate = rate.map(format_rate);
    let mut looks = Vec::new();
    match loads {
        // The switches copy one frame.
        Some((up, _)) if marks.is_cast => {
            looks.push(format!("dir={}, color=\"#1f6fb2\"", if up.flows > 0 { "back" } else { "forward" }));
        }
        _ if !marks.is_empty() => looks.push("dir=none".to_owned()),
        _ => {}
    }
    let flows = loads.filter(|_| !marks.is_cast).map(describe);
    let label: Vec<String> = flows.into_iter().chain(rate).collect();
    if !label.is_empty() {
        looks.push(format!("label=\"{}\"", label.join(" ")));
    }
    if loads.is_some_and(|(up, down)| up.is_contended || down.is_contended) {
        looks.push("color=\"#c0392b\"".to_owned());
    }
    if looks.is_empty() { String::new() } else { format!(" [{}]", looks.join(", ")) }
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
