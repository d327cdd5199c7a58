//! Blocking wait in `poll(2)` for a frame, a wake-up or a deadline, without holding the lock.

use crate::Instant;
use crate::link::{Interest, Waiter};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

const UNSET: u64 = u64::MAX;
const SHORTEST: Duration = Duration::from_nanos(1);

/// A handle that wakes its loop from any thread; clones wake the same loop.
#[derive(Clone, Debug)]
pub struct Waker {
    wake: Arc<Wake>,
}

#[derive(Debug)]
struct Wake {
    event: EventFd,
    /// Set from the first `wake` until the loop has noticed: waking a busy loop costs one system
    /// call altogether.
    pending: AtomicBool,
}

impl Waker {
    /// Makes a waker for one loop.
    ///
    /// # Errors
    /// The kernel's error if the process or the system has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        let event = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Waker {
            wake: Arc::new(Wake {
                event,
                pending: AtomicBool::new(false),
            }),
        })
    }

    /// Makes the loop call its application soon: at once if it waits, else after the present round;
    /// several wakes may cause one call.
    ///
    /// Writes of the caller before this call are visible to the application.
    pub fn wake(&self) {
        if self.wake.pending.swap(true, Ordering::AcqRel) {
            return;
        }
        while let Err(Errno::EINTR) = self.wake.event.write(1) {}
    }

    /// Clears all wakes so far; the loop then calls its application.
    ///
    /// The event is emptied before `pending` is cleared: a wake in between is swallowed, but the
    /// call that follows sees its cause. The other order could leave `pending` set over an empty
    /// event, and no wake would get through any more.
    fn acknowledge(&self) {
        // EAGAIN only means that the event is empty already.
        let _ = self.wake.event.read();
        self.wake.pending.swap(false, Ordering::AcqRel);
    }
}

/// A timer that is set less often than deadlines change.
///
/// A wait with a time limit sets a hardware timer and cancels it, which a virtual machine leaves to
/// its host: measured, 10 of the 26 µs of a blocking round trip, although the frame comes first and
/// the timer is unused. So the limit of a wait is a `timerfd(2)` that stays set from one wait to
/// the next. It is set again only for an earlier time; if it expires for a deadline that no longer
/// matters, that is one needless wake-up in place of dozens of settings.
///
/// `set_for` is the expiry in nanoseconds: only the waiting thread changes it, and only one waits
/// at a time. The shortest time is not zero, which would disable the timer.
#[derive(Debug)]
struct Alarm {
    timer: TimerFd,
    set_for: AtomicU64,
}

impl Alarm {
    fn new() -> nix::Result<Alarm> {
        let timer = TimerFd::new(
            ClockId::CLOCK_MONOTONIC,
            TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC,
        )?;
        Ok(Alarm {
            timer,
            set_for: AtomicU64::new(UNSET),
        })
    }

    fn set(&self, now: Instant, end: Instant) -> nix::Result<()> {
        if end.as_nanos() < self.set_for.load(Ordering::Relaxed) {
            let time = TimeSpec::from_duration(end.since(now).max(SHORTEST));
            self.timer
                .set(Expiration::OneShot(time), TimerSetTimeFlags::empty())?;
            self.set_for.store(end.as_nanos(), Ordering::Relaxed);
        }
        Ok(())
    }

    fn acknowledge(&self) -> nix::Result<()> {
        self.set_for.store(UNSET, Ordering::Relaxed);
        // EAGAIN: it was set again, and has not expired since.
        self.timer.wait().or_else(|errno| {
            if errno == Errno::EAGAIN {
                Ok(())
            } else {
                Err(errno)
            }
        })
    }
}

/// Waiter of a loop on a [`Port`](super::Port); its [`Waker`] ends the wait.
#[derive(Debug)]
pub struct Sleeper {
    socket: Arc<OwnedFd>,
    also: Option<Arc<OwnedFd>>,
    /// Bits of those sockets that wait for room to send, where both send.
    full: Option<Arc<AtomicU8>>,
    waker: Waker,
    alarm: Alarm,
}

/// Events of both sockets after a wait; a port of one has none of the second.
#[derive(Clone, Copy, Debug)]
pub struct SocketEvents(nix::Result<[PollFlags; 2]>);

impl SocketEvents {
    pub(super) fn events(self) -> nix::Result<PollFlags> {
        self.0.map(|[first, _]| first)
    }

    /// Returns the events of the second socket as those of a port of its own.
    pub(super) fn of_second(self) -> SocketEvents {
        SocketEvents(self.0.map(|[_, second]| [second, PollFlags::empty()]))
    }
}

impl Sleeper {
    pub(super) fn new(
        socket: Arc<OwnedFd>,
        also: Option<Arc<OwnedFd>>,
        waker: Waker,
    ) -> nix::Result<Sleeper> {
        Ok(Sleeper {
            socket,
            also,
            full: None,
            waker,
            alarm: Alarm::new()?,
        })
    }

    /// Waits for room to send at the second socket, too: at those sockets that `full` has a bit
    /// for.
    pub(super) fn sending_by_both(self, full: Arc<AtomicU8>) -> Sleeper {
        Sleeper {
            full: Some(full),
            ..self
        }
    }

    /// Returns the events of each socket, of which only those that are full wait for room.
    fn of_each(&self, events: PollFlags) -> [PollFlags; 2] {
        let Some(full) = &self.full else {
            return [events, events & PollFlags::POLLIN];
        };
        let full = full.load(Ordering::Relaxed);
        [0, 1].map(|at| {
            if full >> at & 1 == 1 {
                events
            } else {
                events & PollFlags::POLLIN
            }
        })
    }

    /// Returns the sockets of which some of `events` are waited for.
    fn sockets(&self, events: PollFlags) -> [Option<PollFd<'_>>; 2] {
        let [own, other] = self.of_each(events);
        let also = self.also.as_ref().filter(|_| !other.is_empty());
        [
            Some(PollFd::new(self.socket.as_fd(), own)),
            also.map(|also| PollFd::new(also.as_fd(), other)),
        ]
    }

    fn sleep(
        &self,
        events: PollFlags,
        now: Instant,
        end: Option<Instant>,
        bell: Option<&WakeUpSocket>,
    ) -> nix::Result<[PollFlags; 2]> {
        if let Some(end) = end {
            self.alarm.set(now, end)?;
        }
        let alarm = PollFd::new(self.alarm.timer.as_fd(), PollFlags::POLLIN);
        // No port has both.
        let [own, also] = self.sockets(events);
        let rung = bell
            .map(|bell| PollFd::new(bell.as_fd(), PollFlags::POLLIN))
            .or(also);
        let count = if rung.is_some() { 4 } else { 3 };
        // Without it the alarm takes its place, and is not polled there.
        let rung = rung.unwrap_or_else(|| alarm.clone());
        let mut entries = [
            self.waker_entry(),
            own.expect("it is always there"),
            alarm,
            rung,
        ];
        let woken = poll(&mut entries[..count], None)?;
        let [waker, socket, alarm, rung] = entries.map(|entry| revents(&entry, woken));
        let of_second = if count == 4 && bell.is_none() {
            rung
        } else {
            PollFlags::empty()
        };
        self.acknowledge(waker);
        if let Some(bell) = bell.filter(|_| !rung.is_empty()) {
            bell.acknowledge();
        }
        if !alarm.is_empty() {
            self.alarm.acknowledge()?;
        }
        Ok([socket, of_second])
    }

    pub(super) fn wait_or_ring(
        &self,
        now: Instant,
        wanted: Interest,
        bell: &WakeUpSocket,
    ) -> SocketEvents {
        let room = if wanted.room {
            PollFlags::POLLOUT
        } else {
            PollFlags::empty()
        };
        SocketEvents(self.sleep(room | PollFlags::POLLIN, now, wanted.until, Some(bell)))
    }

    /// Sleeps for a `time` that usually passes in full. If no `events` are wanted the socket is
    /// left out, because frames for a socket without sleepers cost their senders no wake-up.
    fn nap(&self, events: PollFlags, time: Duration) -> nix::Result<[PollFlags; 2]> {
        let [own, second] = if events.is_empty() {
            [None, None]
        } else {
            self.sockets(events)
        };
        let wanted = [Some(self.waker_entry()), own, second];
        let [waker, socket, second] = poll_some(wanted, time)?;
        self.acknowledge(waker);
        Ok([socket, second])
    }

    fn look(&self, events: PollFlags) -> nix::Result<[PollFlags; 2]> {
        poll_some(self.sockets(events), Duration::ZERO)
    }

    fn waker_entry(&self) -> PollFd<'_> {
        PollFd::new(self.waker.wake.event.as_fd(), PollFlags::POLLIN)
    }

    fn acknowledge(&self, events: PollFlags) {
        if !events.is_empty() {
            self.waker.acknowledge();
        }
    }
}

impl Waiter for Sleeper {
    type Seen = SocketEvents;

    fn wait(&self, now: Instant, wanted: Interest) -> SocketEvents {
        let room = if wanted.room {
            PollFlags::POLLOUT
        } else {
            PollFlags::empty()
        };
        SocketEvents(match (wanted.arrivals, wanted.until) {
            (false, Some(until)) if until <= now => self.look(room),
            (false, Some(until)) => self.nap(room, until.since(now)),
            (true, until) => self.sleep(room | PollFlags::POLLIN, now, until, None),
            (false, None) => self.sleep(room, now, None, None),
        })
    }

    fn take_wake(&self) -> bool {
        let pending = self.waker.wake.pending.load(Ordering::Acquire);
        if pending {
            self.waker.acknowledge();
        }
        pending
    }

    fn yield_now(&self) {
        std::thread::yield_now();
    }

    fn wake(&self) {
        self.waker.wake();
    }
}

fn poll(entries: &mut [PollFd], limit: Option<Duration>) -> nix::Result<bool> {
    match ppoll(entries, limit.map(TimeSpec::from), None) {
        Ok(count) => Ok(count > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Polls those entries that there are, of which no one follows a missing one; returns the events of
/// each.
fn poll_some<const ENTRIES: usize>(
    wanted: [Option<PollFd<'_>>; ENTRIES],
    limit: Duration,
) -> nix::Result<[PollFlags; ENTRIES]> {
    let count = wanted.iter().flatten().count();
    let first = wanted[0].clone().expect("the first is there");
    let mut entries = wanted.map(|entry| entry.unwrap_or_else(|| first.clone()));
    let woken = poll(&mut entries[..count], Some(limit))?;
    let mut at = 0;
    Ok(entries.map(|entry| {
        at += 1;
        revents(&entry, woken && at <= count)
    }))
}

fn revents(entry: &PollFd, any: bool) -> PollFlags {
    if any {
        entry.revents().unwrap_or(PollFlags::POLLERR)
    } else {
        PollFlags::empty()
    }
}

const MAX_RINGS: usize = 1024;

#[derive(Debug)]
pub(in crate::packet) struct WakeUpSocket {
    socket: UnixDatagram,
}

fn address(nonce: u64) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("ethbcast/{nonce:016x}"))
}

impl WakeUpSocket {
    pub(super) fn new(nonce: u64) -> io::Result<WakeUpSocket> {
        let socket = UnixDatagram::bind_addr(&address(nonce)?)?;
        socket.set_nonblocking(true)?;
        Ok(WakeUpSocket { socket })
    }

    /// Wakes another process. A full socket has woken it already, and a missing one needs no
    /// waking.
    pub(super) fn ring(&self, nonce: u64) {
        if let Ok(address) = address(nonce) {
            let _ = self.socket.send_to_addr(&[1], &address);
        }
    }

    pub(in crate::packet) fn acknowledge(&self) {
        let mut rings = MAX_RINGS;
        while rings > 0 && self.socket.recv(&mut [0]).is_ok() {
            rings -= 1;
        }
    }
}

impl AsFd for WakeUpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Clock;

    fn slept(sleeper: &Sleeper, millis: u64, clock: &Clock) -> Duration {
        let begin = clock.now();
        let end = begin + Duration::from_millis(millis);
        sleeper
            .wait(
                begin,
                Interest {
                    arrivals: true,
                    room: false,
                    until: Some(end),
                },
            )
            .0
            .expect("poll works");
        clock.now().since(begin)
    }

    #[test]
    fn a_sleep_lasts_until_its_end_or_an_earlier_one_that_was_not_used_up() {
        let nothing = Arc::new(OwnedFd::from(EventFd::new().expect("a descriptor is free")));
        let waker = Waker::new().expect("a descriptor is free");
        let (sleeper, clock) = (
            Sleeper::new(nothing, None, waker).expect("a timer"),
            Clock::start(),
        );
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        // Upper bounds are seconds: a busy machine wakes late.
        let full = millis(slept(&sleeper, 20, &clock));
        assert!((20.0..2000.0).contains(&full), "{full} ms");
        sleeper.wake();
        let woken = millis(slept(&sleeper, 2000, &clock));
        assert!(woken < 1000.0, "{woken} ms");
        let early = millis(slept(&sleeper, 20_000, &clock));
        assert!(
            (1000.0..10_000.0).contains(&early),
            "the timer of the sleep before is still set: {early} ms"
        );
        let full = millis(slept(&sleeper, 40, &clock));
        assert!((40.0..2000.0).contains(&full), "{full} ms");
        sleeper.wake();
        slept(&sleeper, 10_000, &clock);
        let sooner = millis(slept(&sleeper, 20, &clock));
        assert!(
            (20.0..5000.0).contains(&sooner),
            "an earlier end is kept to: {sooner} ms"
        );
        assert_eq!(
            slept(&sleeper, 0, &clock).as_millis(),
            0,
            "an end that has come ends the sleep"
        );
    }
}
