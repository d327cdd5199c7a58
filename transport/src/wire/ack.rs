//! Wire format of an acknowledgement: credit, cumulative acknowledgement of a subtree, and missing
//! frames as a bitmap.

use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Longest bitmap in bytes, for 8192 frames, twice the largest feed; a small MTU has room for less.
pub const MAX_BITMAP_BYTES: usize = 1024;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawAck {
    limit_above: U32,
    below_behind: U32,
    consumed_behind: U32,
    held_us: U32,
    bitmap_bytes: U16,
    reserved: U16,
}

/// Fixed part of an acknowledgement's body.
///
/// `limit` is one past the highest sequence number the receiver has room for (its credit). `below`
/// is the lowest cursor among the receiver and the hosts it forwards to: its parent must keep
/// frames from there on, in case the receiver dies. Every application at the receiver and behind it
/// has `consumed` the frames below that number. The acknowledgement left `held_us` after the
/// arrival of the newest frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckBody {
    pub limit: u64,
    pub below: u64,
    pub consumed: u64,
    pub held_us: u32,
}

/// An acknowledgement: frames below `cursor` have arrived, and `echo` is the newest transmission
/// stamp received.
///
/// Bit `i` of the arrival bitmap (least significant first) means that frame `cursor + 1 + i` has
/// arrived. Bits for frames from `end` on are ignored, because they are impossible. `covered` is
/// one past the highest frame of all.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    pub cursor: u64,
    pub echo: u32,
    pub body: AckBody,
    pub bitmap: &'a [u8],
    pub end: u64,
}

impl AckBody {
    pub const BYTES: usize = size_of::<RawAck>();

    /// Writes the body of an acknowledgement of all frames below `cursor`, with a bitmap of
    /// `bitmap_bytes` that is already in place behind the fixed part; returns the body's length.
    ///
    /// # Panics
    /// If `below` or `consumed` is beyond the cursor, or the cursor beyond the limit.
    pub fn write(&self, cursor: u64, payload: &mut [u8], bitmap_bytes: usize) -> usize {
        assert!(
            self.below <= cursor && self.consumed <= cursor && cursor <= self.limit,
            "{self:?} does not fit cursor {cursor}"
        );
        // Distances are capped at 32 bits: no host keeps that many frames.
        let distance = |far: u64| U32::new(u32::try_from(far).unwrap_or(u32::MAX));
        let raw = RawAck {
            limit_above: distance(self.limit - cursor),
            below_behind: distance(cursor - self.below),
            consumed_behind: distance(cursor - self.consumed),
            held_us: U32::new(self.held_us),
            bitmap_bytes: U16::new(
                u16::try_from(bitmap_bytes).expect("a bitmap has at most 1024 bytes"),
            ),
            reserved: U16::new(0),
        };
        payload[..Self::BYTES].copy_from_slice(raw.as_bytes());
        Self::BYTES + bitmap_bytes
    }
}

impl<'a> Ack<'a> {
    pub fn parse(frame: &super::Frame<'a>) -> Option<Ack<'a>> {
        let (raw, rest) = RawAck::ref_from_prefix(frame.payload).ok()?;
        let bitmap = rest.get(..usize::from(raw.bitmap_bytes.get()))?;
        let cursor = frame.header.sequence;
        let body = AckBody {
            limit: cursor.checked_add(raw.limit_above.get().into())?,
            below: cursor.checked_sub(raw.below_behind.get().into())?,
            consumed: cursor.checked_sub(raw.consumed_behind.get().into())?,
            held_us: raw.held_us.get(),
        };
        (bitmap.len() <= MAX_BITMAP_BYTES).then_some(Ack {
            cursor,
            echo: frame.header.stamp,
            body,
            bitmap,
            end: u64::MAX,
        })
    }

    pub fn covered(&self) -> u64 {
        let highest = self
            .bitmap
            .iter()
            .rposition(|&byte| byte != 0)
            .map_or(0, |at| {
                1 + at as u64 * 8 + (8 - u64::from(self.bitmap[at].leading_zeros()))
            });
        self.cursor.saturating_add(highest).min(self.end)
    }

    pub fn arrived_beyond(&self) -> u64 {
        if self.end == u64::MAX {
            return self
                .bitmap
                .iter()
                .map(|byte| u64::from(byte.count_ones()))
                .sum();
        }
        (self.cursor..self.covered())
            .filter(|&sequence| self.has(sequence))
            .count() as u64
    }

    pub(crate) fn arrived_from(&self, from: u64) -> u64 {
        match from <= self.cursor {
            true => self.arrived_beyond(),
            false => (from..self.covered())
                .filter(|&sequence| self.has(sequence))
                .count() as u64,
        }
    }

    pub fn has(&self, sequence: u64) -> bool {
        if sequence <= self.cursor || sequence >= self.end {
            return sequence < self.cursor;
        }
        let bit = sequence - self.cursor - 1;
        usize::try_from(bit / 8)
            .ok()
            .and_then(|byte| self.bitmap.get(byte))
            .is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bitmap_names_what_arrived_beyond_the_cursor() {
        let body = AckBody {
            limit: 40,
            below: 10,
            consumed: 0,
            held_us: 0,
        };
        let ack = Ack {
            cursor: 10,
            echo: 0,
            body,
            bitmap: &[0b0000_0101, 0b1000_0000],
            end: u64::MAX,
        };
        let arrived: Vec<u64> = (0..40).filter(|&sequence| ack.has(sequence)).collect();
        assert_eq!(arrived, (0..10).chain([11, 13, 26]).collect::<Vec<_>>());
        assert_eq!(ack.covered(), 27);
        assert_eq!(ack.arrived_beyond(), 3);
        let ends = Ack { end: 26, ..ack };
        assert_eq!(
            (
                ends.covered(),
                ends.arrived_beyond(),
                ends.has(13),
                ends.has(26)
            ),
            (26, 2, true, false)
        );
        assert_eq!(
            Ack {
                cursor: u64::MAX,
                ..ack
            }
            .covered(),
            u64::MAX,
            "whatever it says, it can be asked"
        );
    }
}
