//! A port as the link of a loop.

use super::{Port, pending_error};
use crate::link::{Blocked, Link, Transmitted};
use crate::packet::error::{DriveError, is_away};
use crate::packet::sleep::{Sleeper, SocketEvents};
use crate::split_frame::{Kept, SplitFrame};
use crate::{Instant, Machine};
use nix::poll::PollFlags;
use std::time::Duration;

impl Link for Port {
    type Error = DriveError;
    type Waiter = Sleeper;

    fn name(&self) -> &str {
        &self.interface.name
    }

    fn receive(&mut self, take: impl FnMut(&[u8])) -> usize {
        Port::receive(self, take)
    }

    fn send(&mut self, now: Instant, mut write: impl FnMut(&mut [u8]) -> Option<usize>) -> Result<usize, DriveError> {
        if !self.is_there(now)? {
            return Ok(0);
        }
        // Frames left over have their payloads staged, and so have all frames written here.
        let left_over = self.flush(now, no_payload)?;
        self.sender.fill(|buffer| write(buffer).map(SplitFrame::whole));
        Ok(left_over + self.flush(now, no_payload)?)
    }

    fn transmit<M: Machine>(&mut self, now: Instant, machine: &mut M) -> Result<Transmitted, DriveError> {
        if !self.is_there(now)? {
            return Ok(Transmitted { frames: 0, exhausted: false });
        }
        let left_over = self.flush(now, no_payload)?;
        let mut exhausted = false;
        self.sender.fill(|buffer| {
            let frame = machine.poll_transmit_split(now, buffer);
            exhausted = frame.is_none();
            frame
        });
        let sent = self.flush(now, |kept| machine.payload(kept));
        // Even for frames that failed: the machine lends no payload beyond this call.
        self.sender.join(|kept| machine.payload(kept));
        Ok(Transmitted { frames: left_over + sent?, exhausted })
    }

    fn has_arrival(&self) -> bool {
        self.ring.has_arrival()
    }

    fn blocked(&self) -> Option<Blocked> {
        self.outage.blocked().or(self.sender.blocked())
    }

    fn waited(&mut self, seen: SocketEvents) -> Result<(), DriveError> {
        let name = self.interface.name.as_str();
        let events = seen.events().map_err(|errno| DriveError::new(name, "wait", errno))?;
        self.counters.poll_wakeups += 1;
        if events.intersects(PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL) {
            match pending_error(&self.socket) {
                Err(errno) if is_away(errno) => self.outage.notice(),
                result => result.map_err(|errno| DriveError::new(name, "receive", errno))?,
            }
        }
        if events.contains(PollFlags::POLLOUT) {
            self.sender.writable();
        }
        Ok(())
    }

    fn busy_poll(&self) -> Duration {
        self.config.busy_poll
    }

    fn receive_coalescing(&self) -> Duration {
        self.config.receive_coalescing
    }
}

fn no_payload(kept: Kept) -> &'static [u8] {
    unreachable!("the payload of frame {} has been left out", kept.sequence)
}
