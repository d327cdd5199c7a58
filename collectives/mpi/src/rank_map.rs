//! Rank-to-host map, with the rank that represents each host. It is derived from the cards of all
//! ranks, so it is identical on all of them.

use crate::neighbours::ProcessId;
use crate::settings::{Agreed, Reason};
use ethbcast_transport::MacAddr;
use std::collections::HashMap;

/// Ranks of a communicator by hosts. A host's first rank is its leader, and the only one on the
/// wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankMap {
    pub group: String,
    pub leaders: Vec<usize>,
    pub host_of: Vec<usize>,
    /// Place of each rank among those of its host.
    pub place_of: Vec<usize>,
    pub processes: Vec<ProcessId>,
    pub names: Vec<String>,
}

impl RankMap {
    /// Maps the ranks with these descriptors, `None` for one that could not be read; or returns why
    /// no rank can be wired.
    pub fn new(cards: &[Option<NodeDescriptor>], agreed: &Agreed, by_name: bool) -> Result<RankMap, (Reason, String)> {
        let cards: Vec<&NodeDescriptor> = cards.iter().flatten().collect::<Vec<_>>();
        let (mut leaders, mut host_of, mut place_of) = (Vec::new(), Vec::new(), Vec::new());
        let (mut hosts, mut ranks_on) = (HashMap::new(), Vec::new());
        for (rank, card) in cards.iter().enumerate() {
            if !card.trouble.is_empty() {
                return Err((Reason::NotEverywhere, format!("rank {rank} ({}): {}", card.host, card.trouble)));
            }
            if card.fingerprint != agreed.fingerprint() {
                let text = format!("rank {rank} ({}) has other settings than this one", card.host);
                return Err((Reason::NotEverywhere, text));
            }
            let host = *hosts.entry(card.mac).or_insert_with(|| {
                leaders.push(rank);
                ranks_on.push(0);
                leaders.len() - 1
            });
            host_of.push(host);
            place_of.push(ranks_on[host]);
            ranks_on[host] += 1;
        }
        if leaders.len() < agreed.least_hosts {
            let text = format!("{} hosts, fewer than {}", leaders.len(), agreed.least_hosts);
            return Err((Reason::FewHosts, text));
        }
        let given: Vec<String> = leaders.iter().map(|&rank| cards[rank].host.clone()).collect();
        let numbers = || (0..leaders.len()).map(|host| format!("{host:05}")).collect();
        let names = if by_name { given } else { numbers() };
        let group = format!("mpi-{:016x}", cards[0].nonce);
        let processes = cards.iter().map(|card| card.process).collect();
        Ok(RankMap { group, leaders, host_of, place_of, processes, names })
    }

    pub fn is_one_each(&self) -> bool {
        self.leaders.len() == self.host_of.len()
    }
}

pub fn cards(bytes: &[u8]) -> Result<Vec<Option<NodeDescriptor>>, (Reason, String)> {
    let cards: Vec<_> = bytes.chunks(BYTES).map(NodeDescriptor::decode).collect();
    match cards.iter().position(Option::is_none) {
        Some(rank) => Err((Reason::NotEverywhere, format!("rank {rank} runs another build of the drop-in"))),
        None => Ok(cards),
    }
}

pub const BYTES: usize = 512;
const HEAD_BYTES: usize = 27;
/// Version of the layout, and of the messages that ranks exchange after the descriptors. A rank
/// with another version passes all calls on.
const VERSION: u8 = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDescriptor {
    /// Address of the interface: ranks behind one interface are on one host.
    pub mac: MacAddr,
    /// Random number; the first rank's names the group.
    pub nonce: u64,
    pub process: ProcessId,
    pub host: String,
    pub fingerprint: String,
    /// Reason why the rank cannot take part; empty if it can.
    pub trouble: String,
}

impl NodeDescriptor {
    pub fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[0] = VERSION;
        bytes[1..7].copy_from_slice(&self.mac.octets());
        bytes[7..15].copy_from_slice(&self.nonce.to_be_bytes());
        bytes[15..19].copy_from_slice(&self.process.number.to_be_bytes());
        bytes[19..27].copy_from_slice(&self.process.namespace.to_be_bytes());
        let mut at = HEAD_BYTES;
        for (text, most) in [(&self.host, 64), (&self.fingerprint, 128), (&self.trouble, 255)] {
            let cut = (0..=text.len().min(most)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
            bytes[at] = cut as u8;
            bytes[at + 1..at + 1 + cut].copy_from_slice(&text.as_bytes()[..cut]);
            at += 1 + cut;
        }
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<NodeDescriptor> {
        let (head, mut rest) = bytes.split_at_checked(HEAD_BYTES).filter(|(head, _)| head[0] == VERSION)?;
        let mut text = || {
            let (&length, more) = rest.split_first()?;
            let (text, more) = more.split_at_checked(usize::from(length))?;
            rest = more;
            String::from_utf8(text.to_vec()).ok()
        };
        let nonce = u64::from_be_bytes(head[7..15].try_into().ok()?);
        let number = u32::from_be_bytes(head[15..19].try_into().ok()?);
        let process = ProcessId { number, namespace: u64::from_be_bytes(head[19..27].try_into().ok()?) };
        let mac = MacAddr::new(head[1], head[2], head[3], head[4], head[5], head[6]);
        Some(NodeDescriptor { mac, nonce, process, host: text()?, fingerprint: text()?, trouble: text()? })
    }
}

#[cfg(test)]
mod rank_map_tests {
    use super::*;
    use crate::settings::Settings;
    use ethbcast_transport::MacAddr;

    fn card(mac: u8) -> Option<NodeDescriptor> {
        let agreed = Settings::read().expect("the tests' environment is empty").agreed;
        Some(NodeDescriptor {
            mac: MacAddr::new(2, 0, 0, 0, 0, mac),
            process: ProcessId::default(),
            nonce: 5,
            host: format!("n{mac}"),
            fingerprint: agreed.fingerprint(),
            trouble: String::new(),
        })
    }

    fn mapped(cards: &[Option<NodeDescriptor>]) -> Result<RankMap, (Reason, String)> {
        RankMap::new(cards, &Settings::read().expect("empty").agreed, false)
    }

    #[test]
    fn a_hosts_first_rank_leads_wherever_the_others_are() {
        let host_map = mapped(&[3, 1, 3, 2, 1, 3].map(card)).expect("three hosts");
        assert_eq!(host_map.leaders, [0, 1, 3]);
        assert_eq!(host_map.host_of, [0, 1, 0, 2, 1, 0]);
        assert_eq!(host_map.place_of, [0, 0, 1, 0, 1, 2]);
        assert_eq!(host_map.names, ["00000", "00001", "00002"]);
        assert!(!host_map.is_one_each() && mapped(&[1, 2, 3].map(card)).expect("three").is_one_each());
    }

    #[test]
    fn one_rank_that_cannot_take_part_keeps_all_from_wiring_with_its_reason() {
        let mut cards = [1, 2, 3].map(card);
        cards[2].as_mut().expect("there").trouble = "no capability".into();
        assert_eq!(mapped(&cards), Err((Reason::NotEverywhere, "rank 2 (n3): no capability".into())));
        assert_eq!(mapped(&[1, 2, 2].map(card)).expect_err("two hosts").0, Reason::FewHosts);
        assert!(super::cards(&[0; BYTES]).expect_err("no card").1.contains("another build"));
    }
}

#[cfg(test)]
mod node_descriptor_tests {
    use super::*;

    #[test]
    fn a_card_arrives_as_it_was_and_any_other_bytes_are_none() {
        let card = NodeDescriptor {
            mac: MacAddr::new(2, 0, 0, 0, 0, 7),
            nonce: 0x0123_4567_89ab_cdef,
            process: ProcessId { number: 4711, namespace: 0xf000_0001 },
            host: "n7".into(),
            fingerprint: "bcast 0".into(),
            trouble: String::new(),
        };
        assert_eq!(NodeDescriptor::decode(&card.encode()), Some(card.clone()));
        let long = NodeDescriptor { host: "é".repeat(40), trouble: "x".repeat(300), ..card };
        let cut = NodeDescriptor::decode(&long.encode()).expect("it fits");
        assert_eq!((cut.host.len(), cut.trouble.len()), (64, 255));
        assert_eq!(NodeDescriptor::decode(&[0; BYTES]), None);
        assert_eq!(NodeDescriptor::decode(&[]), None);
        assert_eq!(NodeDescriptor::decode(&[VERSION; 30]), None);
        assert_eq!(NodeDescriptor::decode(&[&[VERSION][..], &[255; BYTES - 1]].concat()), None);
    }
}
