//! What an acknowledgement can say, and what it proves lost. Only evidence repeats a frame (RFC 8985).

use super::stamp::Stamp;
use crate::wire::Ack;
use std::ops::Range;
use std::time::Duration;

/// What may be acknowledged: nobody has got what does not exist, nor seen a stamp that was not drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// One past the highest frame that the receiver can have. Who speaks says which that is: see docs/protocol.md
    /// §7.10.
    pub below: u64,
    /// The last stamp drawn.
    pub newest: Stamp,
}

impl Sent {
    /// Whether an acknowledgement can be true.
    pub(crate) fn admits(&self, ack: &Ack<'_>) -> bool {
        ack.cursor <= self.below && ack.covered() <= self.below && !Stamp(ack.echo).is_after(self.newest)
    }
}

/// An echo: whatever was sent well before it, and has not arrived, is lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence {
    /// The stamp of a frame that has arrived.
    pub echo: Stamp,
    /// How much earlier another must have been sent, so that a frame that was only overtaken on its way is not taken
    /// for lost.
    pub tolerance: Duration,
    /// One past the highest frame that the acknowledgement speaks about.
    pub covered: u64,
}

impl Evidence {
    /// Whether a frame sent under `stamp` should have arrived before the one that was echoed.
    pub(crate) fn overtook(&self, stamp: Stamp) -> bool {
        self.echo.is_after(stamp) && self.echo.since(stamp) > self.tolerance
    }

    /// The frames to be judged, each with whether it was overtaken. First transmissions carry rising stamps, so the
    /// search ends at the first young one beyond what is covered.
    pub(crate) fn search(
        &self,
        frames: impl Iterator<Item = u64>,
        overtaken: impl Fn(&Evidence, u64) -> bool,
    ) -> impl Iterator<Item = (u64, bool)> {
        let evidence = *self;
        let judged = frames.map(move |sequence| (sequence, overtaken(&evidence, sequence)));
        judged.take_while(move |&(sequence, overtaken)| overtaken || sequence < evidence.covered)
    }

    /// Those of `frames` that `ack` proves lost: they have not arrived, and were overtaken.
    pub(crate) fn missing(
        &self,
        ack: &Ack<'_>,
        frames: Range<u64>,
        sent_at: impl Fn(u64) -> Stamp,
    ) -> impl Iterator<Item = u64> {
        let judged = self.search(frames, move |evidence, sequence| evidence.overtook(sent_at(sequence)));
        judged.filter(|&(sequence, overtaken)| overtaken && !ack.has(sequence)).map(|(sequence, _)| sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::AckBody;

    fn ack(cursor: u64, bitmap: &[u8], echo: u32) -> Ack<'_> {
        Ack { cursor, echo, body: AckBody { limit: cursor, below: cursor, consumed: cursor, held_us: 0 }, bitmap }
    }

    #[test]
    fn what_was_never_sent_cannot_be_acknowledged() {
        let sent = Sent { below: 8, newest: Stamp(100) };
        assert!(sent.admits(&ack(8, &[], 100)) && sent.admits(&ack(0, &[0b0100_0000], 0)));
        assert!(!sent.admits(&ack(9, &[], 100)), "the cursor lies beyond");
        assert!(!sent.admits(&ack(0, &[0b1000_0000], 100)), "the holes lie beyond");
        assert!(!sent.admits(&ack(8, &[], 101)), "no such stamp was drawn");
    }

    #[test]
    fn lost_is_what_has_not_arrived_and_was_overtaken_by_more_than_the_tolerance() {
        let sent_at = |sequence: u64| Stamp(10 * (sequence as u32 + 1));
        // 2 and 4 have arrived of 0 to 9; the echo is 4's.
        let ack = ack(1, &[0b101], 50);
        let evidence = |tolerance| Evidence {
            echo: Stamp(50),
            tolerance: Duration::from_micros(tolerance),
            covered: ack.covered(),
        };
        assert_eq!(evidence(0).missing(&ack, 1..10, sent_at).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(evidence(10).missing(&ack, 1..10, sent_at).collect::<Vec<_>>(), [1], "3 was sent 10 µs before 4");
        let again = |sequence: u64| if sequence == 1 { Stamp(60) } else { sent_at(sequence) };
        assert_eq!(evidence(0).missing(&ack, 1..10, again).collect::<Vec<_>>(), [3], "1 has been sent again since");
        let repaired = |sequence: u64| if sequence >= 7 { Stamp(20) } else { sent_at(sequence) };
        assert_eq!(evidence(0).missing(&ack, 1..10, repaired).collect::<Vec<_>>(), [1, 3], "the search ended at 5");
    }
}
