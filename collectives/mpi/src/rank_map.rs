//! Map from MPI ranks to hosts, with the one rank that represents each host. It is derived from the
//! node descriptors of all ranks, so it is identical on all of them.

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
    pub place_of: Vec<usize>,
    pub processes: Vec<ProcessId>,
    macs: Vec<MacAddr>,
    pub names: Vec<String>,
    pub hosts: Vec<String>,
    /// Name of each rank for people: its number in the world, if known, and its host.
    pub labels: Vec<String>,
}

impl RankMap {
    /// Maps the ranks with these descriptors (`None`: it could not be read), or returns the reason
    /// why no rank can use ethbcast.
    pub fn new(
        cards: &[Option<NodeDescriptor>],
        agreed: &Agreed,
        by_name: bool,
    ) -> Result<RankMap, (Reason, String)> {
        let cards: Vec<&NodeDescriptor> = cards.iter().flatten().collect::<Vec<_>>();
        let (mut leaders, mut host_of, mut place_of) = (Vec::new(), Vec::new(), Vec::new());
        let (mut hosts, mut ranks_on) = (HashMap::new(), Vec::new());
        for (rank, card) in cards.iter().enumerate() {
            if !card.trouble.is_empty() {
                return Err((
                    Reason::NotEverywhere,
                    format!("{}: {}", card.label(rank), card.trouble),
                ));
            }
            if card.fingerprint != agreed.fingerprint() {
                let text = format!("{} has other settings than this one", card.label(rank));
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
        let macs = leaders.iter().map(|&rank| cards[rank].mac).collect();
        let hosts: Vec<String> = leaders
            .iter()
            .map(|&rank| cards[rank].host.clone())
            .collect();
        let numbers = || {
            (0..leaders.len())
                .map(|host| format!("{host:05}"))
                .collect()
        };
        let names = if by_name { hosts.clone() } else { numbers() };
        let group = format!("mpi-{:016x}", cards[0].nonce);
        let processes = cards.iter().map(|card| card.process).collect();
        let labels = cards
            .iter()
            .enumerate()
            .map(|(rank, card)| card.label(rank))
            .collect();
        Ok(RankMap {
            group,
            leaders,
            host_of,
            place_of,
            processes,
            macs,
            names,
            hosts,
            labels,
        })
    }

    /// Rewrites a text of the wire, which has its own numbers of ranks and names of hosts.
    pub fn explained(&self, text: impl std::fmt::Display) -> String {
        let mut text = text.to_string();
        for ((name, host), &leader) in self.names.iter().zip(&self.hosts).zip(&self.leaders) {
            let mut at = 0;
            while let Some(found) = text[at..].find(name.as_str()).map(|found| at + found) {
                let (before, behind) = (&text[..found], &text[found + name.len()..]);
                at = found + name.len();
                if before.ends_with(char::is_alphanumeric)
                    || behind.starts_with(char::is_alphanumeric)
                {
                    continue;
                }
                let digits = before
                    .strip_suffix(" (")
                    .map(|rank| rank.trim_end_matches(|one: char| one.is_ascii_digit()));
                let rank = digits
                    .and_then(|rank| rank.strip_suffix("rank "))
                    .filter(|_| behind.starts_with(')'));
                let (range, label) = match rank {
                    Some(rank) => (rank.len()..at + 1, &self.labels[leader]),
                    None => (found..at, host),
                };
                at = range.start + label.len();
                text.replace_range(range, label);
            }
        }
        text
    }

    /// Returns the hosts of this map that are those of another, in its order: all its ranks are
    /// ranks of this one.
    pub fn hosts_of(&self, other: &RankMap) -> Option<Vec<usize>> {
        let here = |map: &RankMap, rank: usize| (map.macs[map.host_of[rank]], map.processes[rank]);
        let own: Vec<_> = (0..self.host_of.len())
            .map(|rank| here(self, rank))
            .collect();
        let are_ranks = (0..other.host_of.len()).all(|rank| own.contains(&here(other, rank)));
        let host = |mac: &MacAddr| self.macs.iter().position(|own| own == mac);
        other
            .macs
            .iter()
            .map(host)
            .collect::<Option<Vec<usize>>>()
            .filter(|_| are_ranks)
    }

    pub fn is_one_each(&self) -> bool {
        self.leaders.len() == self.host_of.len()
    }
}

pub fn cards(bytes: &[u8]) -> Result<Vec<Option<NodeDescriptor>>, (Reason, String)> {
    let cards: Vec<_> = bytes.chunks(BYTES).map(NodeDescriptor::decode).collect();
    match cards.iter().position(Option::is_none) {
        Some(rank) => Err((
            Reason::NotEverywhere,
            format!("rank {rank} runs another build of the drop-in"),
        )),
        None => Ok(cards),
    }
}

pub const BYTES: usize = 512;
const HEAD_BYTES: usize = 35;
/// Version of the layout, and of the messages that ranks exchange after the cards. A rank with
/// another version passes all calls on.
const VERSION: u8 = 8;

/// Description of one rank for the others: ranks behind one interface are on one host, and the
/// first rank's random number names the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDescriptor {
    pub mac: MacAddr,
    pub nonce: u64,
    pub process: ProcessId,
    pub host: String,
    pub world_rank: Option<u32>,
    /// Number of a wire that the rank has kept and offers, or 0.
    pub offer: u32,
    pub fingerprint: String,
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
        bytes[27..31].copy_from_slice(&self.world_rank.unwrap_or(u32::MAX).to_be_bytes());
        bytes[31..35].copy_from_slice(&self.offer.to_be_bytes());
        let mut at = HEAD_BYTES;
        for (text, most) in [
            (&self.host, 64),
            (&self.fingerprint, 128),
            (&self.trouble, 255),
        ] {
            let cut = (0..=text.len().min(most))
                .rev()
                .find(|&end| text.is_char_boundary(end))
                .unwrap_or(0);
            bytes[at] = cut as u8;
            bytes[at + 1..at + 1 + cut].copy_from_slice(&text.as_bytes()[..cut]);
            at += 1 + cut;
        }
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<NodeDescriptor> {
        let (head, mut rest) = bytes
            .split_at_checked(HEAD_BYTES)
            .filter(|(head, _)| head[0] == VERSION)?;
        let mut text = || {
            let (&length, more) = rest.split_first()?;
            let (text, more) = more.split_at_checked(usize::from(length))?;
            rest = more;
            String::from_utf8(text.to_vec()).ok()
        };
        let nonce = u64::from_be_bytes(head[7..15].try_into().ok()?);
        let number = u32::from_be_bytes(head[15..19].try_into().ok()?);
        let process = ProcessId {
            number,
            namespace: u64::from_be_bytes(head[19..27].try_into().ok()?),
        };
        let world_rank = Some(u32::from_be_bytes(head[27..31].try_into().ok()?))
            .filter(|&rank| rank != u32::MAX);
        let offer = u32::from_be_bytes(head[31..35].try_into().ok()?);
        let mac = MacAddr::new(head[1], head[2], head[3], head[4], head[5], head[6]);
        let [host, fingerprint, trouble] = [text()?, text()?, text()?];
        Some(NodeDescriptor {
            mac,
            nonce,
            process,
            host,
            world_rank,
            offer,
            fingerprint,
            trouble,
        })
    }

    fn label(&self, rank: usize) -> String {
        match self.world_rank {
            Some(world) => format!("rank {world} of MPI_COMM_WORLD ({})", self.host),
            None => format!("rank {rank} ({})", self.host),
        }
    }
}

#[cfg(test)]
mod rank_map_tests {
    use super::*;
    use crate::settings::Settings;
    use ethbcast_transport::MacAddr;

    fn card(mac: u8) -> Option<NodeDescriptor> {
        let agreed = Settings::read()
            .expect("the tests' environment is empty")
            .agreed;
        Some(NodeDescriptor {
            mac: MacAddr::new(2, 0, 0, 0, 0, mac),
            process: ProcessId::default(),
            nonce: 5,
            host: format!("n{mac}"),
            world_rank: None,
            offer: 0,
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
        assert!(
            !host_map.is_one_each() && mapped(&[1, 2, 3].map(card)).expect("three").is_one_each()
        );
    }

    #[test]
    fn a_map_has_the_hosts_of_another_if_all_ranks_are_its_own_whoever_leads() {
        let processes = |cards: &[(u8, u32)]| {
            let cards = cards.iter().map(|&(mac, number)| {
                let process = ProcessId {
                    number,
                    namespace: 1,
                };
                Some(NodeDescriptor {
                    process,
                    ..card(mac).expect("a card")
                })
            });
            mapped(&cards.collect::<Vec<_>>()).expect("three hosts")
        };
        // Processes of different hosts may have one number.
        let all = processes(&[(1, 7), (2, 7), (3, 7), (4, 7), (1, 8), (2, 8)]);
        assert_eq!(all.hosts_of(&all), Some(vec![0, 1, 2, 3]));
        assert_eq!(
            all.hosts_of(&processes(&[(4, 7), (2, 7), (1, 7), (2, 8)])),
            Some(vec![3, 1, 0])
        );
        assert_eq!(
            all.hosts_of(&processes(&[(4, 7), (2, 8), (1, 7)])),
            Some(vec![3, 1, 0]),
            "another process leads"
        );
        assert_eq!(
            all.hosts_of(&processes(&[(4, 7), (2, 7), (1, 7), (1, 9)])),
            None,
            "a rank is not there"
        );
        assert_eq!(
            all.hosts_of(&processes(&[(4, 7), (2, 7), (5, 7)])),
            None,
            "a host is not there"
        );
    }

    #[test]
    fn texts_name_hosts_and_ranks_of_the_world_and_not_of_the_wire() {
        let mut cards = [3, 1, 3, 2].map(card);
        cards
            .iter_mut()
            .flatten()
            .zip(7..)
            .for_each(|(card, rank)| card.world_rank = Some(rank));
        let host_map = mapped(&cards).expect("three hosts");
        for (text, explained) in [
            (
                "rank 2 (00002) is silent",
                "rank 10 of MPI_COMM_WORLD (n2) is silent",
            ),
            (
                "rank 0 (00000) is in broadcast, rank 1 (00001) is in barrier",
                "rank 7 of MPI_COMM_WORLD (n3) is in broadcast, rank 8 of MPI_COMM_WORLD (n1) is in barrier",
            ),
            (
                "2 of 3 were there: 00000, 00002; start",
                "2 of 3 were there: n3, n2; start",
            ),
            ("eth0 is down (00001)", "eth0 is down (n1)"),
        ] {
            assert_eq!(host_map.explained(text), explained);
        }
        cards[3].as_mut().expect("there").trouble = "no capability".into();
        let text = "rank 10 of MPI_COMM_WORLD (n2): no capability";
        assert_eq!(mapped(&cards), Err((Reason::NotEverywhere, text.into())));
    }

    #[test]
    fn one_rank_that_cannot_take_part_keeps_all_from_wiring_with_its_reason() {
        let mut cards = [1, 2, 3].map(card);
        cards[2].as_mut().expect("there").trouble = "no capability".into();
        assert_eq!(
            mapped(&cards),
            Err((Reason::NotEverywhere, "rank 2 (n3): no capability".into()))
        );
        assert_eq!(
            mapped(&[1, 2, 2].map(card)).expect_err("two hosts").0,
            Reason::FewHosts
        );
        assert!(
            super::cards(&[0; BYTES])
                .expect_err("no card")
                .1
                .contains("another build")
        );
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
            process: ProcessId {
                number: 4711,
                namespace: 0xf000_0001,
            },
            host: "n7".into(),
            world_rank: Some(12),
            offer: 0x8000_0001,
            fingerprint: "bcast 0".into(),
            trouble: String::new(),
        };
        assert_eq!(NodeDescriptor::decode(&card.encode()), Some(card.clone()));
        let long = NodeDescriptor {
            host: "é".repeat(40),
            trouble: "x".repeat(300),
            ..card
        };
        let cut = NodeDescriptor::decode(&long.encode()).expect("it fits");
        assert_eq!((cut.host.len(), cut.trouble.len()), (64, 255));
        assert_eq!(NodeDescriptor::decode(&[0; BYTES]), None);
        assert_eq!(NodeDescriptor::decode(&[]), None);
        assert_eq!(NodeDescriptor::decode(&[VERSION; 34]), None);
        assert_eq!(
            NodeDescriptor::decode(&[&[VERSION][..], &[255; BYTES - 1]].concat()),
            None
        );
    }
}
