//! Claims of the papers' figures as ratios of two times, with bounds.

use std::fmt;
use std::ops::RangeInclusive;

use ethbcast_planning::plan::Via;
use ethbcast_planning::topology::Topology;

use crate::results::verdict;
use crate::units::{FRAME_PAYLOAD_BYTES, size};

const SAME: RangeInclusive<f64> = 0.9..=1.1;
const TWICE: RangeInclusive<f64> = 2.0..=f64::INFINITY;
const SLOWER: RangeInclusive<f64> = 1.0..=f64::INFINITY;

/// A claim about the ratio of two times.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    pub size_bytes: u64,
    pub what: String,
    pub ratio: f64,
    pub bounds: RangeInclusive<f64>,
}

impl Claim {
    pub fn holds(&self) -> bool {
        self.bounds.contains(&self.ratio)
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = (self.bounds.start(), self.bounds.end());
        let bounds = if high.is_finite() { format!("{low:.2} to {high:.2}") } else { format!("at least {low:.2}") };
        let Claim { size_bytes, what, ratio, .. } = self;
        write!(formatter, "{:>5}  {what}: {ratio:.2} ({bounds}): {}", size(*size_bytes), verdict(self.holds()))
    }
}

type Side<'a> = (&'a str, Via);

/// Returns all claims about the measurements; `seconds` gives the time of a kind of plan on a
/// topology, if measured.
pub fn claims(sizes: &[u64], topologies: &[String], seconds: impl Fn(&str, Via, u64) -> Option<f64>) -> Vec<Claim> {
    let mut compared: Vec<(Side, Side, RangeInclusive<f64>)> = Vec::new();
    // §5.2, Figures 13 to 15: plans that know the switches do not depend on the placement of ranks,
    // the others do.
    for via in [Via::Chain, Via::Binary] {
        compared.push((("fig9-5", via), ("fig9-4", via), SAME));
    }
    compared.push((("fig9-5", Via::ChainUnaware), ("fig9-5", Via::Chain), TWICE));
    compared.push((("fig9-5", Via::BinaryUnaware), ("fig9-5", Via::Binary), SLOWER));
    for topology in topologies {
        // Figure 12, and Figures 13 and 14: LAM's algorithm, and MPICH's for large messages.
        compared.push(((topology, Via::Kary(3)), (topology, Via::Binary), SLOWER));
        for via in [Via::Binomial, Via::ScatterAllgather] {
            compared.push(((topology, via), (topology, Via::Chain), SLOWER));
        }
    }
    let claim = |&size_bytes: &u64, (left, right, bounds): &(Side, Side, RangeInclusive<f64>)| {
        let is_long = |name: &str| is_long(size_bytes, name);
        let time = |side: &Side| seconds(side.0, side.1, size_bytes).filter(|_| is_long(side.0));
        let (slow, fast) = (time(left)?, time(right)?);
        let what = format!("{} on {} / {} on {}", left.1, left.0, right.1, right.0);
        Some(Claim { size_bytes, what, ratio: slow / fast, bounds: bounds.clone() })
    };
    let all = compared.iter().flat_map(|pair| sizes.iter().filter_map(move |bytes| claim(bytes, pair)));
    all.collect()
}

/// Whether a message has at least as many frames as the topology has hosts: a chain is then full
/// for a time.
fn is_long(size_bytes: u64, topology: &str) -> bool {
    let hosts = Topology::builtin(topology).map_or(0, |topology| topology.hosts().len());
    size_bytes.div_ceil(FRAME_PAYLOAD_BYTES) >= hosts as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_made_of_what_was_measured_and_long_enough() {
        let seconds = |topology: &str, via: Via, bytes: u64| match (topology, via) {
            ("fig9-4", Via::Chain) => Some(bytes as f64),
            ("fig9-5", Via::Chain) => Some(bytes as f64 * 1.05),
            ("fig9-5", Via::ChainUnaware) => Some(bytes as f64 * 1.5),
            _ => None,
        };
        // 8 KiB are 6 frames for 32 hosts.
        let found = claims(&[8 << 10, 1 << 20], &["fig9-4".to_owned(), "fig9-5".to_owned()], seconds);
        let lines: Vec<String> = found.iter().map(Claim::to_string).collect();
        assert_eq!(
            lines,
            [
                "   1M  chain on fig9-5 / chain on fig9-4: 1.05 (0.90 to 1.10): met",
                "   1M  chain-unaware on fig9-5 / chain on fig9-5: 1.43 (at least 2.00): MISSED",
            ]
        );
        assert_eq!(claims(&[1 << 20], &[], |_, _, _| None), []);
    }
}
