//! Event queue of the network simulator, ordered by time.
//!
//! A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan 1990): no event is scheduled before the one last
//! taken. Events are therefore sorted only as far as needed, by the highest bit in which their time
//! differs from that one's. Simultaneous events always share a bucket and keep their order there,
//! which makes runs repeatable without a sequence number. It is cheaper than a binary heap once a
//! flood puts thousands of events into one microsecond.

use super::network::{CableId, StormControl, SwitchId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Start(u32),
    Wake(u32),
    Arrival(u32),
    Late(u32),
    Process(u32),
    Room(u32),
    /// A timer of a host may be due. The host's request is looked up when this happens, so a
    /// cancelled timer costs one check.
    Timer(u32),
    Control(u32),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Control {
    Crash(u32),
    Pause(u32),
    Resume(u32),
    Cut(CableId),
    Restore(CableId),
    Restart(u32),
    Police(SwitchId, Option<StormControl>),
}

type Scheduled = (u64, Event);

/// Events in the order of their times. Bucket 0 has the time last taken; bucket n the events whose
/// highest bit differing from it is bit n − 1. The `certain` events are those except timers, which
/// may have been cancelled.
#[derive(Debug)]
pub(super) struct EventQueue {
    buckets: [Vec<Scheduled>; 65],
    taken: usize,
    occupied: u128,
    last: u64,
    certain: usize,
}

impl EventQueue {
    pub(super) fn new() -> Self {
        EventQueue {
            buckets: std::array::from_fn(|_| Vec::new()),
            taken: 0,
            occupied: 0,
            last: 0,
            certain: 0,
        }
    }

    pub(super) fn push(&mut self, at: u64, event: Event) {
        if !matches!(event, Event::Timer(_)) {
            self.certain += 1;
        }
        self.sort_in((at.max(self.last), event));
    }

    pub(super) fn pop_until(&mut self, limit: u64) -> Option<Scheduled> {
        if self.taken == self.buckets[0].len() {
            self.refill(limit)?;
        }
        if self.last > limit {
            return None;
        }
        let entry = self.buckets[0][self.taken];
        self.taken += 1;
        if self.taken == self.buckets[0].len() {
            self.buckets[0].clear();
            self.taken = 0;
        }
        if !matches!(entry.1, Event::Timer(_)) {
            self.certain -= 1;
        }
        Some(entry)
    }

    pub(super) fn certain(&self) -> usize {
        self.certain
    }

    fn refill(&mut self, limit: u64) -> Option<()> {
        if self.occupied == 0 {
            return None;
        }
        let lowest = self.occupied.trailing_zeros() as usize;
        let next = self.buckets[lowest].iter().map(|entry| entry.0).min()?;
        if next > limit {
            return None;
        }
        self.last = next;
        self.occupied &= !(1 << lowest);
        let mut entries = std::mem::take(&mut self.buckets[lowest]);
        for entry in entries.drain(..) {
            self.sort_in(entry);
        }
        // Every entry went to a lower bucket; its memory stays with this one.
        self.buckets[lowest] = entries;
        Some(())
    }

    fn sort_in(&mut self, entry: Scheduled) {
        let bucket = (u64::BITS - (entry.0 ^ self.last).leading_zeros()) as usize;
        self.buckets[bucket].push(entry);
        if bucket > 0 {
            self.occupied |= 1 << bucket;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Random;

    #[test]
    fn events_come_out_as_a_stable_sort_would_order_them() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let spread = 1 << random.below(40);
            let mut queue = EventQueue::new();
            let mut model: Vec<Scheduled> = Vec::new();
            let mut now = 0;
            for number in 0..500 {
                let entry = (now + random.below(spread), Event::Arrival(number));
                queue.push(entry.0, entry.1);
                model.push(entry);
                if random.chance(0.6) {
                    model.sort_by_key(|entry| entry.0);
                    let taken = queue.pop_until(u64::MAX).unwrap();
                    assert_eq!(taken, model.remove(0), "seed {seed}");
                    now = taken.0;
                }
            }
            model.sort_by_key(|entry| entry.0);
            let rest: Vec<Scheduled> = std::iter::from_fn(|| queue.pop_until(u64::MAX)).collect();
            assert_eq!(rest, model, "seed {seed}");
            assert_eq!(queue.certain(), 0);
        }
    }

    #[test]
    fn looking_no_further_than_a_limit_leaves_room_for_earlier_events() {
        let mut queue = EventQueue::new();
        queue.push(1_000, Event::Arrival(1));
        assert_eq!(queue.pop_until(999), None);
        queue.push(500, Event::Arrival(2));
        assert_eq!(queue.pop_until(999), Some((500, Event::Arrival(2))));
        assert_eq!(queue.pop_until(1_000), Some((1_000, Event::Arrival(1))));
        assert_eq!(queue.pop_until(u64::MAX), None);
    }

    #[test]
    fn an_event_in_the_past_happens_now() {
        let mut queue = EventQueue::new();
        queue.push(70, Event::Start(0));
        queue.pop_until(70);
        queue.push(3, Event::Start(1));
        assert_eq!(queue.pop_until(70), Some((70, Event::Start(1))));
    }

    #[test]
    fn the_end_of_time_can_be_scheduled() {
        let mut queue = EventQueue::new();
        queue.push(u64::MAX, Event::Timer(0));
        assert_eq!(queue.certain(), 0);
        assert_eq!(queue.pop_until(u64::MAX), Some((u64::MAX, Event::Timer(0))));
    }
}
