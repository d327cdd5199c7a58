//! Spanning tree of switches that are joined in rings, as their own protocol builds it (IEEE
//! 802.1D-2004 §17).
//!
//! The switch of the least identifier is the root. Every other one keeps the cable on its cheapest
//! path to the root; faster cables cost less. Of equally cheap paths it takes the one through the
//! neighbour of the least identifier. An identifier is a priority and an address. Priorities are
//! unknown here and rarely configured; names replace unknown addresses. Real switches may have
//! chosen otherwise, so the assumption is reported, and the topology file can be corrected.

use super::draft::{DraftCable, DraftSwitch};
use super::nodeset;
use super::tree::Topology;
use crate::natural_order;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Rate of a cable that costs 1 (IEEE 802.1D-2004, Table 17-3).
const COST_ONE_BITS_PER_SECOND: u64 = 20_000_000_000_000;
const MAX_COST: u64 = 200_000_000;
/// Rate assumed for a cable of unknown rate, in bits per second: the most common.
pub const ASSUMED_RATE_BITS_PER_SECOND: u64 = 1_000_000_000;

/// Returns for each cable whether it carries frames. Switches that are not connected to the root
/// have their own tree.
pub(super) fn carrying(switches: &[DraftSwitch], cables: &[DraftCable]) -> Vec<bool> {
    let identifiers = identifiers(switches);
    let mut ports = vec![Vec::new(); switches.len()];
    for (cable, &DraftCable { ends: (low, high), rate, .. }) in cables.iter().enumerate() {
        ports[low].push((high, cable, cost(rate)));
        ports[high].push((low, cable, cost(rate)));
    }
    let mut by_identifier: Vec<usize> = (0..switches.len()).collect();
    by_identifier.sort_unstable_by_key(|&switch| identifiers[switch]);
    let mut carries = vec![false; cables.len()];
    let mut settled = vec![false; switches.len()];
    for root in by_identifier {
        // The cheapest offer first; of equal ones that of the least identifier, then of the first
        // cable.
        let mut offers = BinaryHeap::from([Reverse((0, 0, None, root))]);
        while let Some(Reverse((cost_here, _, cable, switch))) = offers.pop() {
            if std::mem::replace(&mut settled[switch], true) {
                continue;
            }
            cable.into_iter().for_each(|cable: usize| carries[cable] = true);
            for &(next, cable, cost) in ports[switch].iter().filter(|port| !settled[port.0]) {
                offers.push(Reverse((cost_here + cost, identifiers[switch], Some(cable), next)));
            }
        }
    }
    carries
}

fn identifiers(switches: &[DraftSwitch]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..switches.len()).collect();
    let address = |switch: usize| (switches[switch].address.is_none(), switches[switch].address);
    order.sort_by(|&left, &right| {
        let by_name = || natural_order(&switches[left].name, &switches[right].name);
        address(left).cmp(&address(right)).then_with(by_name)
    });
    let mut identifiers = vec![0; order.len()];
    order.into_iter().enumerate().for_each(|(place, switch)| identifiers[switch] = place);
    identifiers
}

fn cost(rate: Option<u64>) -> u64 {
    let rate = rate.unwrap_or(ASSUMED_RATE_BITS_PER_SECOND).max(1);
    (COST_ONE_BITS_PER_SECOND / rate).clamp(1, MAX_COST)
}

pub(super) fn note(topology: &Topology) -> Option<String> {
    let name = |&(low, high): &(usize, usize)| format!("{}-{}", topology.switches()[low], topology.switches()[high]);
    let blocked: Vec<String> = topology.blocked().iter().map(name).collect();
    let all = topology.cables().len() + blocked.len();
    (!blocked.is_empty()).then(|| {
        format!(
            "the switches form loops: of {all} cables between them those of the spanning tree carry frames, and \
             blocked are {}; should your switches have chosen others, correct the file that `ethbcast topo import \
             --out` writes",
            nodeset::list(&blocked)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(name: &str, address: Option<u64>) -> DraftSwitch {
        DraftSwitch { name: name.to_owned(), line: None, links: Vec::new(), blocked: Vec::new(), address }
    }

    fn kept(switches: &[DraftSwitch], cables: &[(usize, usize, Option<u64>)]) -> Vec<usize> {
        let cable =
            |&(low, high, rate): &(usize, usize, Option<u64>)| DraftCable { ends: (low, high), line: None, rate };
        let cables: Vec<DraftCable> = cables.iter().map(cable).collect();
        let carries = carrying(switches, &cables);
        (0..cables.len()).filter(|&cable| carries[cable]).collect()
    }

    #[test]
    fn the_least_identifier_is_the_root_and_the_cheapest_way_there_is_kept() {
        let ring = [(0, 1, None), (1, 2, None), (0, 2, None)];
        let named = ["s2", "s1", "s10"].map(|name| switch(name, None));
        assert_eq!(kept(&named, &ring), [0, 1], "s1 is the root by name");
        let addressed = [("s2", 7), ("s1", 9), ("s10", 3)].map(|(name, address)| switch(name, Some(address)));
        assert_eq!(kept(&addressed, &ring), [1, 2], "s10 is the root by address");
        let one_known = [switch("s2", None), switch("s1", None), switch("s10", Some(99))];
        assert_eq!(kept(&one_known, &ring), [1, 2], "who has an address has an identifier");
    }

    #[test]
    fn fast_cables_are_cheap_and_equal_ways_go_through_the_least_neighbour() {
        let switches = ["a", "b", "c", "d"].map(|name| switch(name, None));
        // From a to c: directly at 100 Mbit/s, or through b at 10 Gbit/s each.
        let (slow, fast) = (Some(100_000_000), Some(10_000_000_000));
        assert_eq!(kept(&switches[..3], &[(0, 2, slow), (0, 1, fast), (1, 2, fast)]), [1, 2]);
        // Switch d reaches a through b or through c at equal cost.
        assert_eq!(kept(&switches, &[(2, 3, None), (1, 3, None), (0, 1, None), (0, 2, None)]), [1, 2, 3]);
        assert_eq!(
            [Some(1_000_000_000), fast, Some(100_000_000_000_000), Some(1), None].map(cost),
            [20_000, 2_000, 1, MAX_COST, 20_000]
        );
    }

    #[test]
    fn islands_have_trees_of_their_own() {
        let switches = ["a", "b", "c", "d", "e"].map(|name| switch(name, None));
        assert_eq!(kept(&switches, &[(0, 1, None), (2, 3, None), (3, 4, None), (2, 4, None)]), [0, 1, 3]);
    }
}
