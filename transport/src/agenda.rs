//! Scheduler of many parts: turns to send, and timers.

use crate::machine::Deadline;
use crate::time::Instant;
use std::collections::{BTreeSet, VecDeque};

/// Turns and timers of many parts, each identified by a small number: parts with something to send
/// take turns, and the earliest deadline is found without asking every part.
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

    /// Sets the next deadline of part `at`.
    pub fn arm(&mut self, at: u16, deadline: Option<Deadline>) {
        let armed = std::mem::replace(&mut self.entry(at).armed, deadline);
        if armed != deadline {
            self.timers.extend(deadline.map(|deadline| (deadline, at)));
            if let Some(armed) = armed {
                self.timers.remove(&(armed, at));
            }
        }
    }

    /// Returns the earliest deadline.
    pub fn next_deadline(&self) -> Option<Deadline> {
        self.timers.first().map(|&(deadline, _)| deadline)
    }

    /// Returns the parts whose deadline has come by `now`, the earliest first.
    pub fn due(&self, now: Instant) -> impl Iterator<Item = u16> + '_ {
        self.timers.iter().take_while(move |(deadline, _)| deadline.at <= now).map(|&(_, at)| at)
    }

    /// Returns the parts with a deadline, the earliest first.
    pub fn armed(&self) -> impl Iterator<Item = u16> + '_ {
        self.timers.iter().map(|&(_, at)| at)
    }

    /// Whether no part has anything to send or a deadline.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.timers.is_empty()
    }

    /// Gives the parts turns until one has written a frame; returns its length. `serve` lets part
    /// `at` write, and returns the frame's length, if there is one, and the part's next deadline.
    #[must_use = "a frame that is not sent is lost"]
    pub fn poll(&mut self, mut serve: impl FnMut(u16) -> (Option<usize>, Option<Deadline>)) -> Option<usize> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Timer;

    fn at(micros: u64) -> Option<Deadline> {
        Some(Deadline { at: Instant::from_nanos(micros * 1000), why: Timer::ACK })
    }

    #[test]
    fn who_has_something_to_send_takes_turns_and_who_has_not_leaves_the_queue() {
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
        assert_eq!(agenda.due(Instant::from_nanos(20_000)).collect::<Vec<_>>(), [4, 1]);
        agenda.arm(4, None);
        assert_eq!(agenda.armed().collect::<Vec<_>>(), [1]);
        agenda.arm(1, None);
        assert!(agenda.is_idle() && agenda.next_deadline().is_none());
    }
}
