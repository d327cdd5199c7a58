//! Description of a complete group. With it another process of a rank's host makes a group of some
//! of the ranks as that rank would, without a meeting.

use super::error::CommunicatorError;
use super::network::Network;
use super::roster::Roster;
use super::seals::Seals;
use crate::keys::{KeyName, Keys};
use crate::membership::codec::{BodyReader, BodyWriter};
use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::Rank;
use std::sync::Arc;

/// Description of a complete group by one of its ranks, for processes of that rank's host.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    pub(super) rank: Rank,
    /// Name of the cluster's secret that the group's follows from.
    pub(super) cluster: Option<KeyName>,
    pub(super) roster: Roster,
    pub(super) network: Network,
}

impl Description {
    /// Returns the address of the rank, whose place a process takes.
    pub fn mac(&self) -> MacAddr {
        self.roster.entries()[self.rank.index()].mac
    }

    /// Returns the hosts' names by rank.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.roster
            .entries()
            .iter()
            .map(|entry| entry.host.as_str())
    }

    /// Returns the description as bytes, which contain no secret.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = BodyWriter::default();
        out.u16(self.rank.0).u8(self.cluster.is_some().into());
        if let Some(KeyName(name)) = &self.cluster {
            out.bytes(name);
        }
        self.roster.write(&mut out);
        out.bytes(&self.network.encode());
        out.into_bytes()
    }

    /// Reads the bytes of a description; `None` if they are none.
    pub fn decode(bytes: &[u8]) -> Option<Description> {
        let mut from = BodyReader::new(bytes);
        let rank = Rank(from.u16()?);
        let cluster = match from.u8()? {
            0 => None,
            1 => Some(KeyName(from.array()?)),
            _ => return None,
        };
        let roster = Roster::read(&mut from)?;
        let network = Network::decode(from.rest(), roster.size())?;
        (rank.0 < roster.size()).then_some(Description {
            rank,
            cluster,
            roster,
            network,
        })
    }

    /// Returns the list, the network and the seals of a group called `name` of these ranks, before
    /// which there have been `earlier` equal ones.
    pub(super) fn within(
        &self,
        (name, earlier): (&str, u64),
        ranks: &[Rank],
        keys: Option<&Arc<Keys>>,
    ) -> Result<(Roster, Network, Option<Box<Seals>>), CommunicatorError> {
        let size = self.roster.size();
        if let Some(&rank) = ranks.iter().find(|rank| rank.0 >= size) {
            return Err(CommunicatorError::NoSuchRank { rank, size });
        }
        let refused = || CommunicatorError::NotOfSubgroup {
            group: name.to_owned(),
        };
        let is_twice = |(at, rank)| ranks[..at].contains(rank);
        if !ranks.contains(&self.rank) || ranks.iter().enumerate().any(is_twice) {
            return Err(refused());
        }
        let kept: Vec<usize> = ranks.iter().copied().map(Rank::index).collect();
        let (roster, network) = (
            self.roster.within((name, earlier), ranks),
            self.network.among(&kept, None),
        );
        let seals = match (keys, self.cluster) {
            (None, None) => None,
            (Some(keys), Some(cluster)) => {
                let seals = Seals::of(Arc::clone(keys), cluster, &roster);
                Some(Box::new(seals.ok_or_else(refused)?))
            }
            _ => return Err(refused()),
        };
        Ok((roster, network, seals))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;
    use crate::communicator::roster::RosterEntry;

    #[test]
    fn a_description_is_read_as_it_was_written_and_other_bytes_are_none() {
        let mac = |rank: u8| MacAddr::new(2, 0, 0, 0, 0, rank).with_port_id(rank);
        let entry = |rank: u8| RosterEntry {
            mac: mac(rank),
            nonce: u64::from(rank) << 40,
            host: format!("n{rank}"),
        };
        let roster = Roster::new("g", (1..4).map(entry).collect(), 1400, Preset::Default);
        for cluster in [None, Some(KeyName([7; 8]))] {
            let network = Network::unknown();
            let description = Description {
                rank: Rank(1),
                cluster,
                roster: roster.clone(),
                network,
            };
            let bytes = description.encode();
            assert_eq!(Description::decode(&bytes), Some(description.clone()));
            assert_eq!(
                (description.mac(), description.hosts().last()),
                (mac(2), Some("n3"))
            );
            assert!((0..bytes.len()).all(|end| Description::decode(&bytes[..end]).is_none()));
            let beyond = Description {
                rank: Rank(3),
                ..description.clone()
            };
            assert_eq!(Description::decode(&beyond.encode()), None);
            let other_keys = description.within(("some", 0), &[Rank(1)], None).is_err();
            assert_eq!(other_keys, cluster.is_some());
        }
    }
}
