//! The order of a rank's calls on a communicator, and what contradicts it.
//!
//! All ranks make the same calls, and each decides by a call's bytes whether it goes by the wire or is the MPI's own.
//! Where the bytes differ, so may the ways; then those on the wire wait for one that waits inside the MPI, and hears
//! nothing of theirs. Whoever has been in one call for long says which it is, and one that is the MPI's own there and
//! by the wire here is a contradiction: no correct program comes to one.

use crate::prices::Way;
use std::time::{Duration, Instant};

/// A call that lasts longer is told of, or listened for: short ones are most likely to end by themselves.
const LONG: Duration = Duration::from_secs(1);
/// So many of the last calls are remembered: whoever goes ahead of the others is in one of the next few, for a barrier
/// holds it.
const REMEMBERED: u64 = 64;

/// A call that another rank makes by the MPI, and this one by the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The other's place on the wire.
    pub seat: u16,
    /// The call's number among those of the communicator.
    pub number: u64,
}

/// The calls that a rank has made on a communicator.
#[derive(Debug, Default)]
pub struct Order {
    /// How many have begun.
    begun: u64,
    /// Of the last of them, the newest in the lowest bit, which went by the wire.
    by_wire: u64,
    /// The present call: since when, and whether it has been told of.
    present: Option<(Instant, bool)>,
    /// What others have said, of calls that have not begun here.
    ahead: Vec<Contradiction>,
    found: Option<Contradiction>,
}

impl Order {
    /// The next call begins.
    pub fn begin(&mut self, way: Way, now: Instant) {
        self.begun += 1;
        self.by_wire = self.by_wire << 1 | u64::from(way == Way::Wire);
        self.present = Some((now, false));
        let due = std::mem::take(&mut self.ahead);
        due.into_iter().for_each(|said| self.hear(said.seat, said.number));
    }

    /// It has ended.
    pub fn end(&mut self) {
        self.present = None;
    }

    /// The number of the present call, if it is the MPI's own, has lasted for long and nobody has been told: they are
    /// now.
    pub fn tell(&mut self, now: Instant) -> Option<u64> {
        let is_own = self.by_wire & 1 == 0;
        let (since, told) = self.present.as_mut().filter(|_| is_own)?;
        let is_due = now.duration_since(*since) >= LONG && !*told;
        *told |= is_due;
        is_due.then_some(self.begun)
    }

    /// Whether the present call has lasted so long that others may have something to say.
    pub fn listens(&self, now: Instant) -> bool {
        self.present.is_some_and(|(since, _)| now.duration_since(since) >= LONG)
    }

    /// Another rank has been for long in the call of this number, which is the MPI's own there.
    pub fn hear(&mut self, seat: u16, number: u64) {
        let said = Contradiction { seat, number };
        match self.begun.checked_sub(number) {
            None => {
                self.ahead.retain(|earlier| earlier.seat != seat);
                self.ahead.push(said);
            }
            Some(back) if back < REMEMBERED && self.by_wire >> back & 1 == 1 => _ = self.found.get_or_insert(said),
            Some(_) => (),
        }
    }

    /// What has been found, once a rank has said so.
    pub fn contradiction(&self) -> Option<Contradiction> {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(ways: &[Way], now: Instant) -> Order {
        let mut order = Order::default();
        for way in ways {
            order.end();
            order.begin(*way, now);
        }
        order
    }

    #[test]
    fn the_mpis_own_call_is_told_of_once_when_it_has_lasted_for_long() {
        let now = Instant::now();
        let mut own = order(&[Way::Wire, Way::Mpi], now);
        assert_eq!(
            [Duration::ZERO, LONG / 2, LONG, LONG * 2].map(|later| own.tell(now + later)),
            [None, None, Some(2), None]
        );
        own.end();
        assert_eq!((own.tell(now + LONG * 3), own.listens(now + LONG * 3)), (None, false), "it has ended");
        let mut wire = order(&[Way::Mpi, Way::Wire], now);
        assert_eq!(wire.tell(now + LONG), None);
        assert!(wire.listens(now + LONG) && !wire.listens(now));
    }

    #[test]
    fn a_call_that_is_the_mpis_there_and_the_wires_here_is_found_whether_it_is_past_present_or_to_come() {
        let now = Instant::now();
        let found = Some(Contradiction { seat: 3, number: 2 });
        for ways in [&[Way::Mpi, Way::Wire][..], &[Way::Mpi, Way::Wire, Way::Mpi, Way::Wire]] {
            let mut order = order(ways, now);
            order.hear(3, 2);
            order.hear(4, 2);
            assert_eq!(order.contradiction(), found);
        }
        let mut order = order(&[Way::Mpi], now);
        order.hear(3, 2);
        assert_eq!(order.contradiction(), None, "nothing is known of that call");
        order.begin(Way::Wire, now);
        assert_eq!(order.contradiction(), found);
    }

    #[test]
    fn ranks_that_make_the_same_calls_contradict_nobody_however_long_they_wait() {
        let now = Instant::now();
        let ways = [Way::Mpi, Way::Wire, Way::Wire, Way::Mpi].repeat(50);
        for (here, there) in [(7, 200), (200, 150), (200, 1), (60, 61)] {
            let mut order = order(&ways[..here], now);
            let own = (1..=there).rev().find(|number| ways[number - 1] == Way::Mpi).expect("there is one");
            order.hear(0, own as u64);
            ways[here..].iter().for_each(|way| order.begin(*way, now));
            assert_eq!(order.contradiction(), None, "{here} calls made, {own} heard");
        }
    }
}
