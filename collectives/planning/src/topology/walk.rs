//! A walk over the switches, which gives each its parent.

use super::tree::Topology;

/// Tree of switches hung from one of them. It uses no recursion: a row of switches may be thousands
/// long.
#[derive(Debug)]
pub(crate) struct Walk {
    above: Vec<Option<usize>>,
    depth: Vec<usize>,
    order: Vec<usize>,
}

impl Walk {
    /// Walks breadth-first, level by level.
    pub fn from(topology: &Topology, start: usize) -> Self {
        let switches = topology.switches().len();
        let mut walk = Self { above: vec![None; switches], depth: vec![0; switches], order: vec![start] };
        let mut seen = 0;
        while let Some(&switch) = walk.order.get(seen) {
            let above = walk.above[switch];
            for &next in topology.neighbours(switch).iter().filter(|&&next| above != Some(next)) {
                walk.above[next] = Some(switch);
                walk.depth[next] = walk.depth[switch] + 1;
                walk.order.push(next);
            }
            seen += 1;
        }
        walk
    }

    pub fn above(&self) -> &[Option<usize>] {
        &self.above
    }

    pub fn children(&self) -> Vec<Vec<usize>> {
        let mut children = vec![Vec::new(); self.above.len()];
        for (switch, above) in self.above.iter().enumerate() {
            above.iter().for_each(|&above| children[above].push(switch));
        }
        children
    }

    /// Returns the number of cables between each switch and the start.
    pub fn depth(&self) -> &[usize] {
        &self.depth
    }

    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// Returns the switch farthest from the start; of several, the first.
    pub fn farthest(&self) -> usize {
        let ids = 0..self.depth.len();
        ids.reduce(|best, next| if self.depth[next] > self.depth[best] { next } else { best }).unwrap_or(0)
    }
}
