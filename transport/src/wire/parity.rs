//! Wire format of a parity (FEC) frame: its block and number stand in the header. The payload thus
//! has the length of a data frame's.

use super::{Flags, Header};
use std::ops::Range;

const LENGTH_BIT: u32 = 5;

/// Block and number of a parity frame. A header encodes them in its sequence number, the first
/// frame of the block plus the number of the parity frame (its `index`, from 0), and in its flags:
/// from bit `LENGTH_BIT` on they have the binary logarithm of the block's length, 0 in other
/// frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parity {
    block_frames: u64,
    sequence: u64,
}

impl Parity {
    /// Creates parity frame `index` of the block of `block_frames`, a power of two from 2 to 128,
    /// that begins at frame `first`.
    ///
    /// # Panics
    /// If there is no such block or parity frame.
    pub fn new(first: u64, block_frames: u64, index: u8) -> Parity {
        let is_length = block_frames.is_power_of_two() && (2..=128).contains(&block_frames);
        assert!(is_length && first.is_multiple_of(block_frames) && u64::from(index) < block_frames);
        Parity {
            block_frames,
            sequence: first + u64::from(index),
        }
    }

    pub fn of(header: &Header) -> Option<Parity> {
        let logarithm = header.flags.0 >> LENGTH_BIT;
        (logarithm > 0).then_some(Parity {
            block_frames: 1 << logarithm,
            sequence: header.sequence,
        })
    }

    pub fn frames(&self) -> Range<u64> {
        let first = self.sequence & !(self.block_frames - 1);
        first..first + self.block_frames
    }

    pub fn index(&self) -> u8 {
        (self.sequence & (self.block_frames - 1)) as u8
    }

    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    pub fn flags(&self) -> Flags {
        Flags((self.block_frames.trailing_zeros() as u8) << LENGTH_BIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{EtherType, Guard, Identity, Kind, MacAddr, Rank, StreamId};

    #[test]
    fn block_and_number_are_read_as_they_are_written() {
        let identity = Identity {
            session: 1,
            stream: StreamId(1),
            rank: Rank(0),
            mac: MacAddr::ZERO,
            ether_type: EtherType::DEFAULT,
            guard: Guard::Plain,
        };
        let header = |flags, sequence| Header {
            flags,
            sequence,
            ..identity.header(Kind::PARITY)
        };
        for (first, block_frames, index) in
            [(0, 2, 1), (256, 64, 63), (1 << 40, 128, 127), (384, 128, 0)]
        {
            let parity = Parity::new(first, block_frames, index);
            let flags = parity.flags().with(Flags::ACK_NOW);
            assert_eq!(Parity::of(&header(flags, parity.sequence())), Some(parity));
            assert_eq!(
                (parity.frames(), parity.index()),
                (first..first + block_frames, index)
            );
        }
        assert_eq!(Parity::of(&header(Flags::ACK_NOW, 7)), None);
    }
}
