//! List of all ranks in order, and the digest by which all know that their lists are equal.

use super::node::Nodes;
use crate::Preset;
use ethbcast_planning::natural_order;
use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::Rank;

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
    /// Orders the processes of `group` by host name, then address and seat. `mtu_bytes` is the
    /// smallest of all.
    pub(super) fn new(group: &str, mut entries: Vec<RosterEntry>, mtu_bytes: u16, preset: Preset) -> Roster {
        entries.sort_by(|a, b| natural_order(&a.host, &b.host).then(a.mac.cmp(&b.mac)));
        let digest = digest(group, &entries, mtu_bytes, preset);
        let nodes = Nodes::new(entries.iter().map(|entry| entry.mac));
        Roster { entries, nodes, mtu_bytes, digest }
    }

    pub(super) fn knowing(&self, network: u64) -> Roster {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.digest).update(&network.to_be_bytes());
        Roster { digest: *hasher.finalize().as_bytes(), ..self.clone() }
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
        self.entries.iter().position(|entry| entry.mac == mac).map(|rank| Rank(rank as u16))
    }

    pub(super) fn is(&self, rank: Rank, mac: MacAddr) -> bool {
        self.entries.get(rank.index()).is_some_and(|entry| entry.mac == mac)
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
        hasher.update(&[mac.seat()]);
        hasher.update(&nonce.to_be_bytes());
    }
    hasher.update(&mtu_bytes.to_be_bytes());
    hasher.update(&[preset as u8]);
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(host: &str, last: u8) -> RosterEntry {
        RosterEntry { mac: MacAddr::new(2, 0, 0, 0, 0, last), nonce: u64::from(last), host: host.to_owned() }
    }

    fn order(hosts: &[&str]) -> Vec<String> {
        let entries = hosts.iter().zip(1..).map(|(host, last)| entry(host, last)).collect();
        Roster::new("g", entries, 1500, Preset::Default).entries().iter().map(|entry| entry.host.clone()).collect()
    }

    #[test]
    fn ranks_follow_the_numbers_in_the_names() {
        assert_eq!(order(&["n10", "n2", "n1", "m7", "n"]), ["m7", "n", "n1", "n2", "n10"]);
        assert_eq!(
            order(&["rack10-node1", "rack2-node30", "rack2-node4"]),
            ["rack2-node4", "rack2-node30", "rack10-node1"]
        );
        assert_eq!(order(&["n1", "n01", "n001"]), ["n001", "n01", "n1"], "equal numbers: as they are spelt");
        assert_eq!(order(&["9", "10", "a", "99999999999999999999999"]), ["9", "10", "99999999999999999999999", "a"]);
    }

    #[test]
    fn the_digest_does_not_depend_on_who_was_heard_first_but_on_everything_else() {
        let roster = |group: &str, entries: Vec<RosterEntry>, mtu_bytes| {
            Roster::new(group, entries, mtu_bytes, Preset::Default).digest()
        };
        let both = || vec![entry("a", 1), entry("b", 2)];
        let digest = roster("g", both(), 1500);
        assert_eq!(digest, roster("g", vec![entry("b", 2), entry("a", 1)], 1500));
        let renamed = vec![entry("a", 1), entry("c", 2)];
        let restarted = vec![entry("a", 1), RosterEntry { nonce: 9, ..entry("b", 2) }];
        let others = [
            roster("h", both(), 1500),
            roster("g", both(), 1499),
            roster("g", renamed, 1500),
            roster("g", restarted, 1500),
        ];
        assert!(others.iter().all(|other| *other != digest));
        assert_ne!(digest, Roster::new("g", both(), 1500, Preset::Paper).digest());
        let list = Roster::new("g", both(), 1500, Preset::Default);
        assert_ne!(list.knowing(1).digest(), list.knowing(2).digest());
    }
}
