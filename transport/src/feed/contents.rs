//! Content checksums of the payloads in a feed's slots: computed once by their origin, and kept for
//! every hop.

use crate::wire::{ContentChecksum, Flags};

/// Repeats of a frame after which its checksum is computed anew: a byte changed in this host's
/// memory must not make a frame that every receiver rejects forever. The reader of the content
/// detects the change.
const RESENDS_PER_CHECK: u8 = 8;

#[derive(Clone, Debug)]
pub(super) struct Contents {
    slots: Box<[Slot]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    checksum: ContentChecksum,
    flags: Flags,
    resends: u8,
    known: bool,
}

impl Contents {
    pub(super) fn new(slots: u64) -> Contents {
        Contents { slots: vec![Slot::default(); slots as usize].into_boxed_slice() }
    }

    pub(super) fn forget(&mut self, slot: usize) {
        self.slots[slot] = Slot::default();
    }

    pub(super) fn keep(&mut self, slot: usize, flags: Flags, checksum: ContentChecksum) {
        let flags = flags.sealed();
        self.slots[slot] = Slot { checksum, flags, known: true, ..self.slots[slot] };
    }

    pub(super) fn get(&mut self, slot: usize, flags: Flags) -> Option<ContentChecksum> {
        let slot = &mut self.slots[slot];
        if flags.has(Flags::RESENT) {
            slot.resends = (slot.resends + 1) % RESENDS_PER_CHECK;
            slot.known &= slot.resends != 0;
        }
        (slot.known && slot.flags == flags.sealed()).then_some(slot.checksum)
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{EtherType, Header, Identity, Kind, MacAddr, Rank, StreamId};

    fn checksum(payload: &[u8]) -> ContentChecksum {
        let (stream, rank, ether_type) = (StreamId(1), Rank(0), EtherType::DEFAULT);
        let identity = Identity { session: 1, stream, rank, mac: MacAddr::ZERO, ether_type };
        Header { sequence: 7, ..identity.header(Kind::DATA) }.content(payload)
    }

    #[test]
    fn a_checksum_is_of_one_frame_with_one_end() {
        let mut contents = Contents::new(2);
        assert_eq!(contents.get(1, Flags::LAST), None);
        contents.keep(1, Flags::LAST.with(Flags::ACK_NOW), checksum(b"x"));
        assert_eq!(contents.get(1, Flags::LAST), Some(checksum(b"x")), "how urgent it is says nothing of it");
        assert_eq!(contents.get(1, Flags::FLUSH), None);
        assert_eq!(contents.get(0, Flags::LAST), None);
        contents.forget(1);
        assert_eq!(contents.get(1, Flags::LAST), None);
    }

    #[test]
    fn a_frame_that_is_sent_again_and_again_is_looked_at_anew() {
        let mut contents = Contents::new(1);
        contents.keep(0, Flags::default(), checksum(b"x"));
        let mut computed = 0;
        for _ in 0..80 {
            if contents.get(0, Flags::RESENT).is_none() {
                computed += 1;
                contents.keep(0, Flags::RESENT, checksum(b"x"));
            }
            assert!(contents.get(0, Flags::default()).is_some(), "whoever is sent it for the first time");
        }
        assert_eq!(computed, 10);
    }
}
