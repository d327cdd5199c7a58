//! Waiting in `poll(2)`: for a socket, a waker, a moment. It needs no port, so that others may use that meanwhile.

use super::alarm::Alarm;
use super::{Clock, Waker};
use crate::Instant;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// How one thread at a time sleeps.
#[derive(Debug)]
pub(super) struct Sleeper {
    waker: Waker,
    alarm: Alarm,
}

impl Sleeper {
    /// One that `waker` wakes.
    pub(super) fn new(waker: Waker) -> nix::Result<Sleeper> {
        Ok(Sleeper { waker, alarm: Alarm::new()? })
    }

    /// What wakes it.
    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Sleeps until one of `wanted` (or an error) is true of the socket, the waker is used, or `end`; sometimes it wakes for nothing.
    /// Returns what is true of the socket; wakes so far are acknowledged.
    pub(super) fn sleep(
        &self,
        socket: BorrowedFd,
        wanted: PollFlags,
        end: Option<Instant>,
        clock: &Clock,
    ) -> nix::Result<PollFlags> {
        if let Some(end) = end {
            self.alarm.set(end, clock)?;
        }
        let mut entries = [self.waker_entry(), PollFd::new(socket, wanted), PollFd::new(self.alarm.as_fd(), PollFlags::POLLIN)];
        let woken = poll(&mut entries, None)?;
        let [waker, socket, alarm] = entries.map(|entry| events(&entry, woken));
        self.acknowledge(waker);
        if !alarm.is_empty() {
            self.alarm.acknowledge()?;
        }
        Ok(socket)
    }

    /// The same for a time that will pass in full if nothing is wanted of the socket: it is left out then, because frames that come for
    /// a socket nobody sleeps on cost their senders no wake-up.
    pub(super) fn nap(&self, socket: BorrowedFd, wanted: PollFlags, time: Duration) -> nix::Result<PollFlags> {
        let mut entries = [self.waker_entry(), PollFd::new(socket, wanted)];
        let count = if wanted.is_empty() { 1 } else { 2 };
        let woken = poll(&mut entries[..count], Some(time))?;
        let [waker, socket] = entries.map(|entry| events(&entry, woken));
        self.acknowledge(waker);
        Ok(if count == 2 { socket } else { PollFlags::empty() })
    }

    fn waker_entry(&self) -> PollFd<'_> {
        PollFd::new(self.waker.as_fd(), PollFlags::POLLIN)
    }

    fn acknowledge(&self, events: PollFlags) {
        if !events.is_empty() {
            self.waker.acknowledge();
        }
    }
}

/// Waits until one of `wanted` (or an error) is true of the socket, for `time` at most; returns what is.
pub(super) fn sleep_on(socket: BorrowedFd, wanted: PollFlags, time: Duration) -> nix::Result<PollFlags> {
    let mut entry = [PollFd::new(socket, wanted)];
    let woken = poll(&mut entry, Some(time))?;
    Ok(events(&entry[0], woken))
}

/// `ppoll(2)` without a signal mask; says whether anything is ready (a signal ends the wait, too).
fn poll(entries: &mut [PollFd], limit: Option<Duration>) -> nix::Result<bool> {
    match ppoll(entries, limit.map(TimeSpec::from), None) {
        Ok(count) => Ok(count > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// What happened to an entry, if anything did (after a signal its field means nothing).
fn events(entry: &PollFd, any: bool) -> PollFlags {
    if any { entry.revents().unwrap_or(PollFlags::POLLERR) } else { PollFlags::empty() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::eventfd::EventFd;
    use std::os::fd::AsFd;

    /// Sleeps on a socket where nothing happens, and says how long that was.
    fn slept(sleeper: &Sleeper, millis: u64, clock: &Clock) -> Duration {
        let nothing = EventFd::new().expect("a descriptor is free");
        let begin = clock.now();
        let end = begin + Duration::from_millis(millis);
        sleeper.sleep(nothing.as_fd(), PollFlags::POLLIN, Some(end), clock).expect("poll works");
        clock.now().since(begin)
    }

    #[test]
    fn a_sleep_lasts_until_its_end_or_an_earlier_one_that_was_not_used_up() {
        let (sleeper, clock) = (Sleeper::new(Waker::new().expect("a descriptor is free")).expect("a timer"), Clock::start());
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        let full = millis(slept(&sleeper, 20, &clock));
        assert!((20.0..40.0).contains(&full), "{full} ms");
        sleeper.waker().wake();
        let woken = millis(slept(&sleeper, 30, &clock));
        assert!(woken < 20.0, "{woken} ms");
        let early = millis(slept(&sleeper, 100, &clock));
        assert!((20.0..50.0).contains(&early), "the timer of the sleep before is still set: {early} ms");
        let full = millis(slept(&sleeper, 40, &clock));
        assert!((40.0..60.0).contains(&full), "{full} ms");
        sleeper.waker().wake();
        slept(&sleeper, 1000, &clock);
        let sooner = millis(slept(&sleeper, 20, &clock));
        assert!((20.0..40.0).contains(&sooner), "an earlier end is kept to: {sooner} ms");
        assert_eq!(slept(&sleeper, 0, &clock).as_millis(), 0, "an end that has come ends the sleep");
    }
}
