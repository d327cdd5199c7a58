//! A walk over the switches: what is above what, seen from one of them.

use super::tree::Topology;

/// The tree of switches hung from one of them. No recursion: a row of switches may be thousands long.
#[derive(Debug)]
pub(crate) struct Walk {
    above: Vec<Option<usize>>,
    depth: Vec<usize>,
    order: Vec<usize>,
}

impl Walk {
    /// Walks in breadth, level by level.
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

    /// For each switch the one above it; `None` for the start.
    pub fn above(&self) -> &[Option<usize>] {
        &self.above
    }

    /// For each switch those right below it, ascending.
    pub fn children(&self) -> Vec<Vec<usize>> {
        let mut children = vec![Vec::new(); self.above.len()];
        for (switch, above) in self.above.iter().enumerate() {
            above.iter().for_each(|&above| children[above].push(switch));
        }
        children
    }

    /// For each switch how many cables it is from the start.
    pub fn depth(&self) -> &[usize] {
        &self.depth
    }

    /// All switches, none before the one above it.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// The switch farthest from the start; of several, the first.
    pub fn farthest(&self) -> usize {
        let ids = 0..self.depth.len();
        ids.reduce(|best, next| if self.depth[next] > self.depth[best] { next } else { best }).unwrap_or(0)
    }
}
