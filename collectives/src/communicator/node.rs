//! Ranks that share a host: its interface has one address, and each of them a local port id (seat)
//! behind it.
//!
//! Traffic between hosts crosses the cable once: arrivals and acknowledgements go through the first
//! rank of each host, its *speaker*, and plans treat a host of several ranks as a switch.

use ethbcast_planning::topology::{Place, Topology, Uplink};
use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::Rank;
use std::ops::Range;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nodes {
    of: Vec<u16>,
    ranks: Vec<Vec<Rank>>,
}

impl Nodes {
    pub(super) fn new(addresses: impl IntoIterator<Item = MacAddr>) -> Nodes {
        let mut nodes = Nodes { of: Vec::new(), ranks: Vec::new() };
        let mut numbers = std::collections::HashMap::new();
        for (rank, address) in (0..).zip(addresses) {
            let node = *numbers.entry(address.octets()).or_insert(nodes.ranks.len() as u16);
            if usize::from(node) == nodes.ranks.len() {
                nodes.ranks.push(Vec::new());
            }
            nodes.of.push(node);
            nodes.ranks[usize::from(node)].push(Rank(rank));
        }
        nodes
    }

    pub(super) fn apart(size: u16) -> Nodes {
        Nodes { of: (0..size).collect(), ranks: (0..size).map(|rank| vec![Rank(rank)]).collect() }
    }

    pub(super) fn count(&self) -> u16 {
        self.ranks.len() as u16
    }

    pub(super) fn are_shared(&self) -> bool {
        self.ranks.len() < self.of.len()
    }

    pub(super) fn of(&self, rank: Rank) -> u16 {
        self.of[rank.index()]
    }

    pub(super) fn ranks(&self, node: u16) -> &[Rank] {
        &self.ranks[usize::from(node)]
    }

    pub(super) fn speaker(&self, node: u16) -> Rank {
        self.ranks(node)[0]
    }

    /// Returns the parent of a rank in a tree of hosts: the speaker of its host, or for a speaker
    /// the speaker of the host given by `above`.
    pub(super) fn above(&self, rank: Rank, above: impl FnOnce(u16) -> Option<u16>) -> Option<Rank> {
        let node = self.of(rank);
        let speaker = self.speaker(node);
        if rank == speaker { above(node).map(|node| self.speaker(node)) } else { Some(speaker) }
    }

    /// Returns the children of a rank in that tree: for a speaker the others of its host and the
    /// speakers of the hosts given by `below`.
    pub(super) fn below(&self, rank: Rank, below: impl FnOnce(u16) -> Range<u16>) -> Vec<Rank> {
        let node = self.of(rank);
        if rank != self.speaker(node) {
            return Vec::new();
        }
        let others = self.ranks(node)[1..].iter().copied();
        others.chain(below(node).map(|node| self.speaker(node))).collect()
    }

    pub(super) fn topology(&self, mut uplinks: Vec<Uplink>, hosts: &[Place]) -> Option<Topology> {
        let mut places = vec![Place { switch: 0, rate: None, injection_ns: None }; self.of.len()];
        for (ranks, &place) in self.ranks.iter().zip(hosts) {
            let mut place = place;
            if ranks.len() > 1 {
                uplinks.push(Uplink { to: place.switch, rate: place.rate });
                place = Place { switch: uplinks.len(), rate: None, ..place };
            }
            ranks.iter().for_each(|rank| places[rank.index()] = place);
        }
        Topology::of_places(&uplinks, &places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(sizes: &[u8]) -> Nodes {
        let address = |node| MacAddr::new(2, 0, 0, 0, 0, node);
        let seats = sizes.iter().zip(0..).flat_map(|(&size, node)| (0..size).map(move |seat| (node, seat)));
        Nodes::new(seats.map(|(node, seat)| address(node).with_seat(seat)))
    }

    #[test]
    fn ranks_of_one_address_share_a_host_and_its_first_speaks_for_it() {
        let nodes = nodes(&[2, 1, 3]);
        assert_eq!((nodes.count(), nodes.are_shared(), nodes.of(Rank(4))), (3, true, 2));
        assert_eq!((nodes.ranks(2), nodes.speaker(1)), (&[Rank(3), Rank(4), Rank(5)][..], Rank(2)));
        assert_eq!(Nodes::apart(2), super::tests::nodes(&[1, 1]));
    }

    #[test]
    fn in_a_tree_of_hosts_everybody_is_below_whom_it_is_above() {
        for sizes in [&[1][..], &[5], &[1, 1, 1], &[2, 1, 3], &[1, 4, 4, 1, 1]] {
            let nodes = nodes(sizes);
            let size = sizes.iter().map(|&size| u16::from(size)).sum();
            let mut heard = 0;
            for rank in (0..size).map(Rank) {
                for below in
                    nodes.below(rank, |node| (2 * node + 1).min(nodes.count())..(2 * node + 3).min(nodes.count()))
                {
                    assert_eq!(nodes.above(below, |node| node.checked_sub(1).map(|node| node / 2)), Some(rank));
                    heard += 1;
                }
            }
            assert_eq!(heard, size - 1, "{sizes:?}");
        }
    }

    #[test]
    fn a_host_of_several_ranks_is_a_switch_with_the_cable_of_the_host() {
        let place = |switch| Place { switch, rate: Some(1_000_000), injection_ns: None };
        let (uplink, nodes) = (Uplink { to: 0, rate: None }, nodes(&[2, 1, 2]));
        let topology = nodes.topology(vec![uplink], &[place(0), place(1), place(1)]).expect("sound");
        let switches: Vec<usize> = (0..5).map(|rank| topology.switch_of(rank)).collect();
        assert_eq!(switches, [2, 2, 1, 3, 3]);
        assert_eq!((topology.cable_rate(0, 2), topology.cable_rate(1, 3)), (Some(1_000_000), Some(1_000_000)));
        assert_eq!((topology.host_rate(0), topology.host_rate(2)), (None, Some(1_000_000)));
    }
}
