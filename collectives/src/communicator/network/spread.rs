//! Distribution of the network's description from one rank to all others.

use super::{MAX_NETWORK_BYTES, Network, describe};
use crate::communicator::config::Config;
use crate::communicator::error::CommunicatorError;
use crate::membership::codec::{BodyReader, BodyWriter};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Limit of pieces sent in a row, once per period.
const MAX_IN_A_ROW: u16 = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::communicator) struct DescriptionPiece {
    pub at: u16,
    pub count: u16,
    pub bytes: Vec<u8>,
}

/// Message about the sender's list and its description of the network, each by its number or
/// digest; zero stands for none that is complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::communicator) struct SpreadMessage {
    pub told: bool,
    pub unfit: bool,
    pub list: u64,
    pub network: u64,
    pub piece: Option<DescriptionPiece>,
}

impl SpreadMessage {
    pub(in crate::communicator) const BYTES: usize = 1 + 8 + 8 + 2 + 2;

    pub(in crate::communicator) fn write(&self, out: &mut BodyWriter) {
        let (at, count, bytes) = self.piece.as_ref().map_or((0, 0, &[][..]), |piece| {
            (piece.at, piece.count, &piece.bytes)
        });
        out.u8(u8::from(self.told) | u8::from(self.unfit) << 1)
            .u64(self.list)
            .u64(self.network)
            .u16(at)
            .u16(count)
            .bytes(bytes);
    }

    pub(in crate::communicator) fn is_same(&self, other: &SpreadMessage) -> bool {
        let said = |word: &SpreadMessage| (word.told, word.unfit, word.list, word.network);
        said(self) == said(other)
    }

    pub(in crate::communicator) fn read(from: &mut BodyReader<'_>) -> Option<SpreadMessage> {
        let (flags, list, network) = (from.u8()?, from.u64()?, from.u64()?);
        let (at, count) = (from.u16()?, from.u16()?);
        let piece = (at < count).then(|| DescriptionPiece {
            at,
            count,
            bytes: from.rest().to_vec(),
        });
        Some(SpreadMessage {
            told: flags & 1 != 0,
            unfit: flags & 2 != 0,
            list,
            network,
            piece,
        })
    }
}

#[derive(Clone, Copy, Debug)]
pub(in crate::communicator) struct SpreadSource<'a> {
    pub host: &'a str,
    pub word: &'a SpreadMessage,
}

#[derive(Clone, Debug)]
struct SpreadState {
    network: Arc<Network>,
    encoded: Vec<u8>,
    digest: u64,
}

#[derive(Clone, Debug, Default)]
pub(in crate::communicator) struct Spread {
    list: u64,
    known: Option<SpreadState>,
    fault: Option<CommunicatorError>,
    /// Received pieces: digest of their description, count, and bytes by index.
    pieces: (u64, u16, BTreeMap<u16, Vec<u8>>),
    next: u16,
}

impl Spread {
    pub(in crate::communicator) fn restart(&mut self, list: u64, config: &Config, hosts: &[&str]) {
        *self = Spread {
            list,
            ..Spread::default()
        };
        if list == 0 || !config.describes_network() {
            return;
        }
        match describe(config, hosts) {
            Ok(network) => self.known = Some(SpreadState::new(network)),
            Err(fault) => self.fault = Some(fault),
        }
    }

    pub(in crate::communicator) fn list(&self) -> u64 {
        self.list
    }

    pub(in crate::communicator) fn fault(&self) -> Option<&CommunicatorError> {
        self.fault.as_ref()
    }

    pub(in crate::communicator) fn known(&self) -> Option<(&Arc<Network>, u64)> {
        self.known
            .as_ref()
            .map(|known| (&known.network, known.digest))
    }

    pub(in crate::communicator) fn settle_unknown(&mut self) {
        self.known = Some(SpreadState::new(Network::unknown()));
    }

    /// Takes a piece from the distributing process; returns whether the known description has
    /// changed. If `sure`, a differing description known before is dropped: it was forged.
    pub(in crate::communicator) fn take(
        &mut self,
        word: &SpreadMessage,
        sure: bool,
        size: u16,
    ) -> bool {
        let is_other = self
            .known
            .as_ref()
            .is_some_and(|known| known.digest != word.network);
        let forgotten = is_other && sure && word.list == self.list && word.network != 0;
        if forgotten {
            self.known = None;
        }
        self.take_piece(word, size) || forgotten
    }

    fn take_piece(&mut self, word: &SpreadMessage, size: u16) -> bool {
        let Some(DescriptionPiece { at, count, bytes }) = &word.piece else {
            return false;
        };
        let fits =
            usize::from(*count).saturating_mul(bytes.len()) <= MAX_NETWORK_BYTES + bytes.len();
        if self.known.is_some()
            || self.list == 0
            || word.list != self.list
            || word.network == 0
            || !fits
        {
            return false;
        }
        if (self.pieces.0, self.pieces.1) != (word.network, *count) {
            self.pieces = (word.network, *count, BTreeMap::new());
        }
        self.pieces.2.insert(*at, bytes.clone());
        if self.pieces.2.len() < usize::from(*count) {
            return false;
        }
        let whole: Vec<u8> = std::mem::take(&mut self.pieces)
            .2
            .into_values()
            .flatten()
            .collect();
        self.known = Network::decode(&whole, size)
            .map(SpreadState::new)
            .filter(|known| known.digest == word.network);
        self.known.is_some()
    }

    pub(in crate::communicator) fn next_message(
        &mut self,
        told: bool,
        tells: bool,
        room_bytes: usize,
    ) -> SpreadMessage {
        let network = self.known.as_ref().map_or(0, |known| known.digest);
        let piece = self.known.as_ref().filter(|_| tells).map(|known| {
            let count = known.encoded.len().div_ceil(room_bytes).max(1) as u16;
            let at = self.next % count;
            self.next = at + 1;
            let bytes = known
                .encoded
                .iter()
                .skip(usize::from(at) * room_bytes)
                .take(room_bytes)
                .copied()
                .collect();
            DescriptionPiece { at, count, bytes }
        });
        SpreadMessage {
            told,
            unfit: self.fault.is_some(),
            list: self.list,
            network,
            piece,
        }
    }

    pub(in crate::communicator) fn pieces(&self, room_bytes: usize) -> u16 {
        let bytes = self.known.as_ref().map_or(0, |known| known.encoded.len());
        (bytes.div_ceil(room_bytes) as u16).clamp(1, MAX_IN_A_ROW)
    }
}

impl SpreadState {
    fn new(network: Network) -> SpreadState {
        let encoded = network.encode();
        let digest = u64::from_be_bytes(
            *blake3::hash(&encoded)
                .as_bytes()
                .first_chunk()
                .expect("a digest has 32 bytes"),
        );
        SpreadState {
            network: Arc::new(network),
            encoded,
            digest: digest.max(1),
        }
    }
}

pub(in crate::communicator) fn contradiction<'a>(
    list: u64,
    mut sources: impl Iterator<Item = SpreadSource<'a>>,
) -> Option<(&'a str, &'a str)> {
    let mut told = sources.by_ref().filter(|configured| {
        configured.word.told && configured.word.list == list && configured.word.network != 0
    });
    let first = told.next()?;
    told.find(|other| other.word.network != first.word.network)
        .map(|other| (first.host, other.host))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::Station;
    use ethbcast_transport::MacAddr;

    fn pair() -> (Spread, Spread) {
        let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
        let told = Config {
            casts: false,
            ..Config::new(station, 2, 1)
        };
        let untold = Config {
            casts: true,
            ..told.clone()
        };
        let (mut configured, mut learner) = (Spread::default(), Spread::default());
        configured.restart(7, &told, &["n0", "n1"]);
        learner.restart(7, &untold, &["n0", "n1"]);
        (configured, learner)
    }

    #[test]
    fn a_description_is_learnt_in_pieces_and_one_that_was_made_up_is_forgotten() {
        let (mut configured, mut learner) = pair();
        let network = configured.known().expect("it was told").1;
        let mut other = Spread {
            list: 7,
            known: Some(SpreadState::new(Network::unknown())),
            ..Spread::default()
        };
        assert!(
            learner.take(&other.next_message(true, true, 100), false, 2),
            "nobody can tell that it is not the teller's"
        );
        let words: Vec<SpreadMessage> = (0..4)
            .map(|_| configured.next_message(true, true, 1))
            .collect();
        assert!(
            !learner.take(&words[0], false, 2)
                && learner.known().is_some_and(|(_, known)| known != network)
        );
        assert!(
            learner.take(&words[0], true, 2) && learner.known().is_none(),
            "it says so again"
        );
        assert!(learner.take(&words[1], true, 2));
        assert_eq!(learner.known().map(|(_, known)| known), Some(network));
        assert!(!learner.take(&words[2], true, 2), "it is known");
    }

    #[test]
    fn two_ranks_with_different_configurations_are_found() {
        let (mut configured, _) = pair();
        let mut other = Spread {
            list: 7,
            known: Some(SpreadState::new(Network::unknown())),
            ..Spread::default()
        };
        let words = [
            configured.next_message(true, false, 1),
            other.next_message(true, false, 1),
            other.next_message(false, false, 1),
        ];
        let found = |at: &[usize]| {
            let hosts = ["n0", "n1", "n2"];
            contradiction(
                7,
                at.iter().map(|&at| SpreadSource {
                    host: hosts[at],
                    word: &words[at],
                }),
            )
        };
        assert_eq!(
            (found(&[0, 1]), found(&[0, 2]), found(&[1])),
            (Some(("n0", "n1")), None, None)
        );
    }
}
