//! Timers for protocol state machines: a table of deadlines, a retry timer, and a token bucket.

use crate::machine::Deadline;
use crate::time::Instant;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// Turns and timers of many parts, each identified by a small number: parts with something to send
/// take turns, and the earliest deadline is found without a query of every part. Lists of parts
/// begin with the earliest deadline.
#[derive(Clone, Debug, Default)]
pub struct Agenda {
    entries: Vec<Entry>,
    queue: VecDeque<u16>,
    timers: BTreeSet<(Deadline, u16)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    queued: bool,
    armed: Option<Deadline>,
}

impl Agenda {
    /// Records a change of part `at`: it may have something to send, and its next deadline is
    /// `deadline`.
    pub fn touch(&mut self, at: u16, deadline: Option<Deadline>) {
        if !std::mem::replace(&mut self.entry(at).queued, true) {
            self.queue.push_back(at);
        }
        self.arm(at, deadline);
    }

    pub fn arm(&mut self, at: u16, deadline: Option<Deadline>) {
        let armed = std::mem::replace(&mut self.entry(at).armed, deadline);
        if armed != deadline {
            self.timers.extend(deadline.map(|deadline| (deadline, at)));
            if let Some(armed) = armed {
                self.timers.remove(&(armed, at));
            }
        }
    }

    pub fn next_deadline(&self) -> Option<Deadline> {
        self.timers.first().map(|&(deadline, _)| deadline)
    }

    pub fn due(&self, now: Instant) -> impl Iterator<Item = u16> + '_ {
        self.timers
            .iter()
            .take_while(move |(deadline, _)| deadline.at <= now)
            .map(|&(_, at)| at)
    }

    pub fn armed(&self) -> impl Iterator<Item = u16> + '_ {
        self.timers.iter().map(|&(_, at)| at)
    }

    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.timers.is_empty()
    }

    /// Gives the parts turns until one has written a frame; returns its length. `serve` lets part
    /// `at` write, and returns the frame's length, if there is one, and the part's next deadline.
    #[must_use = "a frame that is not sent is lost"]
    pub fn poll(
        &mut self,
        mut serve: impl FnMut(u16) -> (Option<usize>, Option<Deadline>),
    ) -> Option<usize> {
        while let Some(at) = self.queue.pop_front() {
            let (length, deadline) = serve(at);
            self.entry(at).queued = length.is_some();
            if length.is_some() {
                self.queue.push_back(at);
            }
            self.arm(at, deadline);
            if length.is_some() {
                return length;
            }
        }
        None
    }

    fn entry(&mut self, at: u16) -> &mut Entry {
        let at = usize::from(at);
        if at >= self.entries.len() {
            self.entries.resize(at + 1, Entry::default());
        }
        &mut self.entries[at]
    }
}

/// Retry timer of a request that is repeated until a reply comes, with a pause that doubles each
/// time.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    at: Instant,
    pause: Duration,
    first: Duration,
    max: Duration,
}

impl Retry {
    pub fn new(at: Instant, first: Duration, max: Duration) -> Retry {
        Retry {
            at,
            pause: first,
            first,
            max,
        }
    }

    pub fn at(&self) -> Instant {
        self.at
    }

    pub fn take_due(&mut self, now: Instant) -> bool {
        let due = self.at <= now;
        if due {
            (self.at, self.pause) = (now + self.pause, (self.pause * 2).min(self.max));
        }
        due
    }

    pub fn restart(&mut self, now: Instant, at_once: bool) {
        (self.at, self.pause) = (if at_once { now } else { now + self.first }, self.first);
    }
}

/// Token bucket, counted in time: each transmission costs time, and may start when all earlier ones
/// are paid for.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenBucket {
    paid_at: Instant,
}

impl TokenBucket {
    pub fn ready_at(&self, now: Instant) -> Option<Instant> {
        (self.paid_at > now).then_some(self.paid_at)
    }

    pub fn paid_at(&self) -> Instant {
        self.paid_at
    }

    /// Charges `cost`. A sender that was idle may catch up by `depth` at most.
    pub fn spend(&mut self, now: Instant, cost: Duration, depth: Duration) {
        self.paid_at = self.paid_at.max(now - depth) + cost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Timer;

    fn at(micros: u64) -> Option<Deadline> {
        Some(Deadline {
            at: Instant::from_nanos(micros * 1000),
            why: Timer::ACK,
        })
    }

    #[test]
    fn parts_with_something_to_send_take_turns_and_others_leave_the_queue() {
        let mut agenda = Agenda::default();
        let mut left = [2_usize, 0, 1];
        (0..3).for_each(|part| agenda.touch(part, None));
        agenda.touch(0, None);
        let mut order = Vec::new();
        while agenda
            .poll(|part| {
                let frames = &mut left[usize::from(part)];
                let length = frames.checked_sub(1).inspect(|_| order.push(part));
                *frames = length.unwrap_or(0);
                (length, None)
            })
            .is_some()
        {}
        assert_eq!(order, [0, 2, 0]);
        assert!(agenda.is_idle());
    }

    #[test]
    fn a_deadline_replaces_the_one_before() {
        let mut agenda = Agenda::default();
        agenda.arm(4, at(30));
        agenda.arm(1, at(20));
        agenda.arm(4, at(10));
        assert_eq!(agenda.next_deadline(), at(10));
        assert_eq!(
            agenda.due(Instant::from_nanos(20_000)).collect::<Vec<_>>(),
            [4, 1]
        );
        agenda.arm(4, None);
        assert_eq!(agenda.armed().collect::<Vec<_>>(), [1]);
        agenda.arm(1, None);
        assert!(agenda.is_idle() && agenda.next_deadline().is_none());
    }

    #[test]
    fn a_request_is_repeated_more_and_more_rarely_until_it_makes_progress() {
        let ms = Duration::from_millis;
        let at = |millis| Instant::START + ms(millis);
        let mut retry = Retry::new(at(0), ms(20), ms(100));
        let due = |retry: &mut Retry, range: std::ops::Range<u64>| {
            range.filter(|&ms| retry.take_due(at(ms))).collect()
        };
        let asked: Vec<u64> = due(&mut retry, 0..400);
        assert_eq!(asked, [0, 20, 60, 140, 240, 340]);
        retry.restart(at(400), false);
        assert_eq!(
            (retry.at(), due(&mut retry, 400..470)),
            (at(420), vec![420, 440])
        );
        retry.restart(at(470), true);
        assert_eq!(due(&mut retry, 470..500), [470, 490]);
    }

    #[test]
    fn a_bucket_catches_up_by_its_depth_and_no_more() {
        let ms = Duration::from_millis;
        let now = Instant::START + ms(1000);
        let mut bucket = TokenBucket::default();
        let mut sent = 0;
        while bucket.ready_at(now).is_none() {
            bucket.spend(now, ms(10), ms(20));
            sent += 1;
        }
        assert_eq!(sent, 3);
        assert_eq!(
            (bucket.ready_at(now), bucket.paid_at()),
            (Some(now + ms(10)), now + ms(10))
        );
    }
}
