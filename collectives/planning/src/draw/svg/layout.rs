//! Positions of switches, hosts and cables in the SVG, in its user units.

use super::legend::{LEGEND_PITCH, Legend};
use super::shapes::{self, Position, Rect};
use crate::draw::hung::Hung;
use crate::topology::Topology;

const MARGIN: f64 = 24.0;
const TITLE_HEIGHT: f64 = 28.0;
const LEVEL_HEIGHT: f64 = 84.0;
const SWITCH_HEIGHT: f64 = 32.0;
const HOST_HEIGHT: f64 = 24.0;
const HOST_PITCH: f64 = 30.0;
/// Hosts per column; further ones go into a second column.
const ROWS: usize = 16;
const GAP: f64 = 32.0;
const GAP_WITH_PLAN: f64 = 88.0;
const LOADS_WIDTH: f64 = 68.0;

#[derive(Debug)]
pub(super) struct Layout {
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
        let with_rates = (0..topology.hosts().len()).any(|host| topology.host_rate(host).is_some());
        let host_width = box_width(topology.hosts()) + if with_plan || with_rates { LOADS_WIDTH } else { 0.0 };
        let switch_width = box_width(topology.switches());
        let none = Rect { x: 0.0, y: 0.0, width: 0.0, height: 0.0 };
        let mut layout = Self {
            switches: vec![none; topology.switches().len()],
            hosts: vec![none; topology.hosts().len()],
            legend: Position { x: MARGIN, y: 0.0 },
            width: 0.0,
            height: 0.0,
        };
        let top = MARGIN + TITLE_HEIGHT;
        let hosts_top = top + LEVEL_HEIGHT * (hung.levels() - 1) as f64 + SWITCH_HEIGHT + 2.0 * HOST_PITCH;
        let mut left = MARGIN + GAP / 2.0;
        layout.height = hosts_top;
        for switch in left_to_right(hung) {
            let hosts: Vec<usize> = topology.hosts_on(switch).collect();
            let columns = hosts.len().div_ceil(ROWS);
            let strip = (columns as f64 * (host_width + gap) - gap).max(switch_width);
            let y = top + LEVEL_HEIGHT * hung.depth[switch] as f64;
            layout.switches[switch] =
                Rect { x: left + (strip - switch_width) / 2.0, y, width: switch_width, height: SWITCH_HEIGHT };
            for (index, &host) in hosts.iter().enumerate() {
                let x = left + (index / ROWS) as f64 * (host_width + gap);
                let y = hosts_top + (index % ROWS) as f64 * HOST_PITCH;
                layout.hosts[host] = Rect { x, y, width: host_width, height: HOST_HEIGHT };
                layout.height = layout.height.max(y + HOST_HEIGHT);
            }
            left += strip + gap;
        }
        layout.width = (left - gap + MARGIN + GAP_WITH_PLAN / 2.0).max(legend.width() + 2.0 * MARGIN);
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
    let longest = names.iter().map(|name| shapes::shown(name).chars().count()).max().unwrap_or(0);
    (longest as f64 * shapes::CHARACTER_WIDTH + 20.0).max(48.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Overlay;
    use crate::draw::overlay::Annotations;
    use crate::topology::arbitrary;
    use proptest::prelude::*;

    fn overlap(left: &Rect, right: &Rect) -> bool {
        left.x < right.right() && right.x < left.right() && left.y < right.bottom() && right.y < left.bottom()
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
