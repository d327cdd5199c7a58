//! List of all ranks of a communicator in order, and a digest to compare it by.

use crate::Preset;
use crate::membership::codec::{BodyReader, BodyWriter};
use ethbcast_planning::natural_order;
use ethbcast_planning::topology::{Place, Topology, Uplink};
use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::Rank;
use std::ops::Range;

pub(super) type RosterDigest = [u8; 32];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RosterEntry {
    pub mac: MacAddr,
    pub nonce: u64,
    pub host: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Roster {
    entries: Vec<RosterEntry>,
    nodes: Nodes,
    mtu_bytes: u16,
    digest: RosterDigest,
}

impl Roster {
    /// Orders the processes of `group` by host name, then address and local port id. `mtu_bytes` is
    /// the smallest of all.
    pub(super) fn new(
        group: &str,
        mut entries: Vec<RosterEntry>,
        mtu_bytes: u16,
        preset: Preset,
    ) -> Roster {
        entries.sort_by(|a, b| natural_order(&a.host, &b.host).then(a.mac.cmp(&b.mac)));
        let digest = digest(group, &entries, mtu_bytes, preset);
        let nodes = Nodes::new(entries.iter().map(|entry| entry.mac));
        Roster {
            entries,
            nodes,
            mtu_bytes,
            digest,
        }
    }

    pub(super) fn with_network(&self, network: u64) -> Roster {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.digest).update(&network.to_be_bytes());
        Roster {
            digest: *hasher.finalize().as_bytes(),
            ..self.clone()
        }
    }

    /// Returns the list without the `lost`, in the same order; its digest differs from those of all
    /// other lists.
    pub(super) fn without(&self, lost: &RankSet) -> Roster {
        let entries: Vec<RosterEntry> = self
            .left(lost)
            .map(|rank| self.entries[rank.index()].clone())
            .collect();
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(b"without")
            .update(&self.digest)
            .update(lost.bits());
        let (nodes, digest) = (
            Nodes::new(entries.iter().map(|entry| entry.mac)),
            *hasher.finalize().as_bytes(),
        );
        Roster {
            entries,
            nodes,
            mtu_bytes: self.mtu_bytes,
            digest,
        }
    }

    /// Returns the list of a group called `name` of some ranks, in the order given, before which
    /// there have been `earlier` equal ones; its digest differs from those of all other lists.
    pub(super) fn within(&self, (name, earlier): (&str, u64), ranks: &[Rank]) -> Roster {
        let entries: Vec<RosterEntry> = ranks
            .iter()
            .map(|rank| self.entries[rank.index()].clone())
            .collect();
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(b"within")
            .update(&self.digest)
            .update(&(name.len() as u64).to_be_bytes());
        hasher.update(name.as_bytes());
        for rank in ranks {
            hasher.update(&rank.0.to_be_bytes());
        }
        if earlier > 0 {
            hasher.update(b"again").update(&earlier.to_be_bytes());
        }
        let (nodes, digest) = (
            Nodes::new(entries.iter().map(|entry| entry.mac)),
            *hasher.finalize().as_bytes(),
        );
        Roster {
            entries,
            nodes,
            mtu_bytes: self.mtu_bytes,
            digest,
        }
    }

    pub(super) fn write(&self, out: &mut BodyWriter) {
        out.bytes(&self.digest).u16(self.mtu_bytes).u16(self.size());
        for RosterEntry { mac, nonce, host } in &self.entries {
            out.bytes(&mac.octets())
                .u8(mac.port_id())
                .u64(*nonce)
                .name(host);
        }
    }

    pub(super) fn read(from: &mut BodyReader<'_>) -> Option<Roster> {
        let (digest, mtu_bytes, size) = (from.array()?, from.u16()?, from.u16()?);
        let entry = |_| {
            let mac = MacAddr::from(from.array::<6>()?).with_port_id(from.u8()?);
            Some(RosterEntry {
                mac,
                nonce: from.u64()?,
                host: from.text()?,
            })
        };
        let entries: Vec<RosterEntry> = (0..size).map(entry).collect::<Option<_>>()?;
        let nodes = Nodes::new(entries.iter().map(|entry| entry.mac));
        Some(Roster {
            entries,
            nodes,
            mtu_bytes,
            digest,
        })
    }

    pub(super) fn left<'a>(&self, lost: &'a RankSet) -> impl Iterator<Item = Rank> + use<'a> {
        (0..self.size()).map(Rank).filter(|&rank| !lost.has(rank))
    }

    pub(super) fn entries(&self) -> &[RosterEntry] {
        &self.entries
    }

    pub(super) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    pub(super) fn size(&self) -> u16 {
        self.entries.len() as u16
    }

    pub(super) fn mtu_bytes(&self) -> u16 {
        self.mtu_bytes
    }

    pub(super) fn digest(&self) -> RosterDigest {
        self.digest
    }

    /// Returns the list's number, never zero: the digest's first eight bytes.
    pub(super) fn number(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.digest;
        u64::from_be_bytes([a, b, c, d, e, f, g, h]).max(1)
    }

    /// Returns the number in every frame of the group: the digest's first four bytes.
    pub(super) fn session(&self) -> u32 {
        let [a, b, c, d, ..] = self.digest;
        u32::from_be_bytes([a, b, c, d])
    }

    pub(super) fn host(&self, rank: Rank) -> &str {
        &self.entries[rank.index()].host
    }

    pub(super) fn rank_of(&self, mac: MacAddr) -> Option<Rank> {
        self.entries
            .iter()
            .position(|entry| entry.mac == mac)
            .map(|rank| Rank(rank as u16))
    }

    pub(super) fn is(&self, rank: Rank, mac: MacAddr) -> bool {
        self.entries
            .get(rank.index())
            .is_some_and(|entry| entry.mac == mac)
    }
}

fn digest(group: &str, entries: &[RosterEntry], mtu_bytes: u16, preset: Preset) -> RosterDigest {
    let mut hasher = blake3::Hasher::new();
    let mut text = |text: &str| {
        hasher.update(&(text.len() as u64).to_be_bytes());
        hasher.update(text.as_bytes());
    };
    text(group);
    entries.iter().for_each(|entry| text(&entry.host));
    for RosterEntry { mac, nonce, .. } in entries {
        hasher.update(&mac.octets());
        hasher.update(&[mac.port_id()]);
        hasher.update(&nonce.to_be_bytes());
    }
    hasher.update(&mtu_bytes.to_be_bytes());
    hasher.update(&[preset as u8]);
    *hasher.finalize().as_bytes()
}

/// Ranks of a group, one bit for each, the least significant first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RankSet(Vec<u8>);

impl RankSet {
    pub(super) fn none(size: u16) -> RankSet {
        RankSet(vec![0; usize::from(size).div_ceil(8)])
    }

    pub(super) fn of_bits(bits: &[u8]) -> RankSet {
        RankSet(bits.to_vec())
    }

    pub(super) fn bits(&self) -> &[u8] {
        &self.0
    }

    /// Whether it has a bit for each of `size` ranks, and none for others.
    pub(super) fn fits(&self, size: u16) -> bool {
        let beyond = (usize::from(size)..self.0.len() * 8)
            .any(|rank| self.0[rank / 8] >> (rank % 8) & 1 == 1);
        self.0.len() == usize::from(size).div_ceil(8) && !beyond
    }

    pub(super) fn has(&self, rank: Rank) -> bool {
        self.0[rank.index() / 8] >> (rank.index() % 8) & 1 == 1
    }

    pub(super) fn insert(&mut self, rank: Rank) {
        self.0[rank.index() / 8] |= 1 << (rank.index() % 8);
    }

    pub(super) fn join(&mut self, other: &RankSet) {
        self.0
            .iter_mut()
            .zip(&other.0)
            .for_each(|(own, other)| *own |= other);
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nodes {
    of: Vec<u16>,
    ranks: Vec<Vec<Rank>>,
}

impl Nodes {
    pub(super) fn new(addresses: impl IntoIterator<Item = MacAddr>) -> Nodes {
        let mut nodes = Nodes {
            of: Vec::new(),
            ranks: Vec::new(),
        };
        let mut numbers = std::collections::HashMap::new();
        for (rank, address) in (0..).zip(addresses) {
            let node = *numbers
                .entry(address.octets())
                .or_insert(nodes.ranks.len() as u16);
            if usize::from(node) == nodes.ranks.len() {
                nodes.ranks.push(Vec::new());
            }
            nodes.of.push(node);
            nodes.ranks[usize::from(node)].push(Rank(rank));
        }
        nodes
    }

    pub(super) fn apart(size: u16) -> Nodes {
        Nodes {
            of: (0..size).collect(),
            ranks: (0..size).map(|rank| vec![Rank(rank)]).collect(),
        }
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

    /// Returns the parent of a rank in a tree of hosts. A rank's parent is the first rank (speaker)
    /// of its host; a speaker's parent is the speaker of the host given by `above`.
    pub(super) fn above(&self, rank: Rank, above: impl FnOnce(u16) -> Option<u16>) -> Option<Rank> {
        let node = self.of(rank);
        let speaker = self.speaker(node);
        if rank == speaker {
            above(node).map(|node| self.speaker(node))
        } else {
            Some(speaker)
        }
    }

    /// Returns the children of a rank in that tree: for a speaker, the other ranks of its host and
    /// the speakers of the hosts given by `below`.
    pub(super) fn below(&self, rank: Rank, below: impl FnOnce(u16) -> Range<u16>) -> Vec<Rank> {
        let node = self.of(rank);
        if rank != self.speaker(node) {
            return Vec::new();
        }
        let others = self.ranks(node)[1..].iter().copied();
        others
            .chain(below(node).map(|node| self.speaker(node)))
            .collect()
    }

    pub(super) fn topology(&self, mut uplinks: Vec<Uplink>, hosts: &[Place]) -> Option<Topology> {
        let mut places = vec![
            Place {
                switch: 0,
                rate: None,
                injection_ns: None
            };
            self.of.len()
        ];
        for (ranks, &place) in self.ranks.iter().zip(hosts) {
            let mut place = place;
            if ranks.len() > 1 {
                uplinks.push(Uplink {
                    to: place.switch,
                    rate: place.rate,
                });
                place = Place {
                    switch: uplinks.len(),
                    rate: None,
                    ..place
                };
            }
            ranks.iter().for_each(|rank| places[rank.index()] = place);
        }
        Topology::of_places(&uplinks, &places)
    }
}

#[cfg(test)]
mod roster_tests {
    use super::*;

    fn entry(host: &str, last: u8) -> RosterEntry {
        RosterEntry {
            mac: MacAddr::new(2, 0, 0, 0, 0, last),
            nonce: u64::from(last),
            host: host.to_owned(),
        }
    }

    fn order(hosts: &[&str]) -> Vec<String> {
        let entries = hosts
            .iter()
            .zip(1..)
            .map(|(host, last)| entry(host, last))
            .collect();
        Roster::new("g", entries, 1500, Preset::Default)
            .entries()
            .iter()
            .map(|entry| entry.host.clone())
            .collect()
    }

    #[test]
    fn ranks_follow_the_numbers_in_the_names() {
        assert_eq!(
            order(&["n10", "n2", "n1", "m7", "n"]),
            ["m7", "n", "n1", "n2", "n10"]
        );
        assert_eq!(
            order(&["rack10-node1", "rack2-node30", "rack2-node4"]),
            ["rack2-node4", "rack2-node30", "rack10-node1"]
        );
        assert_eq!(
            order(&["n1", "n01", "n001"]),
            ["n001", "n01", "n1"],
            "equal numbers: as they are spelt"
        );
        assert_eq!(
            order(&["9", "10", "a", "99999999999999999999999"]),
            ["9", "10", "99999999999999999999999", "a"]
        );
    }

    #[test]
    fn the_digest_does_not_depend_on_who_was_heard_first_but_on_everything_else() {
        let roster = |group: &str, entries: Vec<RosterEntry>, mtu_bytes| {
            Roster::new(group, entries, mtu_bytes, Preset::Default).digest()
        };
        let both = || vec![entry("a", 1), entry("b", 2)];
        let digest = roster("g", both(), 1500);
        assert_eq!(
            digest,
            roster("g", vec![entry("b", 2), entry("a", 1)], 1500)
        );
        let renamed = vec![entry("a", 1), entry("c", 2)];
        let restarted = vec![
            entry("a", 1),
            RosterEntry {
                nonce: 9,
                ..entry("b", 2)
            },
        ];
        let others = [
            roster("h", both(), 1500),
            roster("g", both(), 1499),
            roster("g", renamed, 1500),
            roster("g", restarted, 1500),
        ];
        assert!(others.iter().all(|other| *other != digest));
        assert_ne!(
            digest,
            Roster::new("g", both(), 1500, Preset::Paper).digest()
        );
        let list = Roster::new("g", both(), 1500, Preset::Default);
        assert_ne!(list.with_network(1).digest(), list.with_network(2).digest());
        let mut lost = RankSet::none(2);
        let same = list.without(&lost);
        assert_eq!((same.entries(), same.size()), (list.entries(), 2));
        lost.insert(Rank(0));
        let rest = list.without(&lost);
        assert_eq!(
            (
                rest.rank_of(entry("b", 2).mac),
                rest.rank_of(entry("a", 1).mac)
            ),
            (Some(Rank(0)), None)
        );
        let digests = [list.digest(), same.digest(), rest.digest()];
        assert!(digests[0] != digests[1] && digests[1] != digests[2] && digests[0] != digests[2]);
    }
}

#[cfg(test)]
mod set_tests {
    use super::*;

    #[test]
    fn a_set_of_ranks_has_a_bit_for_each_and_none_beyond() {
        let mut set = RankSet::none(9);
        assert!(set.fits(9) && !set.fits(8) && !set.fits(17) && RankSet::none(0).fits(0));
        set.insert(Rank(8));
        set.join(&RankSet::of_bits(&[0b100, 0]));
        assert_eq!(
            (0..9)
                .filter(|&rank| set.has(Rank(rank)))
                .collect::<Vec<_>>(),
            [2, 8]
        );
        assert!(!RankSet::of_bits(&[0, 2]).fits(9) && set.fits(9));
    }
}

#[cfg(test)]
mod node_tests {
    use super::*;

    fn nodes(sizes: &[u8]) -> Nodes {
        let address = |node| MacAddr::new(2, 0, 0, 0, 0, node);
        let port_ids = sizes
            .iter()
            .zip(0..)
            .flat_map(|(&size, node)| (0..size).map(move |port_id| (node, port_id)));
        Nodes::new(port_ids.map(|(node, port_id)| address(node).with_port_id(port_id)))
    }

    #[test]
    fn ranks_of_one_address_share_a_host_and_its_first_speaks_for_it() {
        let nodes = nodes(&[2, 1, 3]);
        assert_eq!(
            (nodes.count(), nodes.are_shared(), nodes.of(Rank(4))),
            (3, true, 2)
        );
        assert_eq!(
            (nodes.ranks(2), nodes.speaker(1)),
            (&[Rank(3), Rank(4), Rank(5)][..], Rank(2))
        );
        assert_eq!(Nodes::apart(2), self::nodes(&[1, 1]));
    }

    #[test]
    fn in_a_tree_of_hosts_everybody_is_below_whom_it_is_above() {
        for sizes in [&[1][..], &[5], &[1, 1, 1], &[2, 1, 3], &[1, 4, 4, 1, 1]] {
            let nodes = nodes(sizes);
            let size = sizes.iter().map(|&size| u16::from(size)).sum();
            let mut heard = 0;
            for rank in (0..size).map(Rank) {
                for below in nodes.below(rank, |node| {
                    (2 * node + 1).min(nodes.count())..(2 * node + 3).min(nodes.count())
                }) {
                    assert_eq!(
                        nodes.above(below, |node| node.checked_sub(1).map(|node| node / 2)),
                        Some(rank)
                    );
                    heard += 1;
                }
            }
            assert_eq!(heard, size - 1, "{sizes:?}");
        }
    }

    #[test]
    fn a_host_of_several_ranks_is_a_switch_with_the_cable_of_the_host() {
        let place = |switch| Place {
            switch,
            rate: Some(1_000_000),
            injection_ns: None,
        };
        let (uplink, nodes) = (Uplink { to: 0, rate: None }, nodes(&[2, 1, 2]));
        let topology = nodes
            .topology(vec![uplink], &[place(0), place(1), place(1)])
            .expect("sound");
        let switches: Vec<usize> = (0..5).map(|rank| topology.switch_of(rank)).collect();
        assert_eq!(switches, [2, 2, 1, 3, 3]);
        assert_eq!(
            (topology.cable_rate(0, 2), topology.cable_rate(1, 3)),
            (Some(1_000_000), Some(1_000_000))
        );
        assert_eq!(
            (topology.host_rate(0), topology.host_rate(2)),
            (None, Some(1_000_000))
        );
    }
}
