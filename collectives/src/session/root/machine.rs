//! [`Machine`] of the root: the five calls its driver makes.

use super::{Root, RootEvent, RootPhase};
use crate::session::kind::{ANNOUNCE, JOIN, LEAVE, REFUSE};
use ethbcast_transport::{Deadline, Instant, Kept, Machine, Part, SplitFrame, wire};

impl Machine for Root {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        let frame = match wire::parse(frame) {
            Ok(frame) => frame,
            Err(why) => {
                self.strangers.on_reject(frame, why, &mut self.endpoint);
                return;
            }
        };
        if let (true, is_news) = self.endpoint.is_own(frame.source) {
            self.endpoint.count_stranger();
            if is_news {
                self.endpoint.push_event(RootEvent::OwnAddress(frame.source));
            }
            return;
        }
        let kind = frame.header.kind;
        // A receiver that has not joined yet knows this session's number from the announcement.
        if frame.header.session != self.endpoint.config().session {
            match kind {
                ANNOUNCE => self.strangers.on_announce(now, &frame, &mut self.phase, &mut self.endpoint),
                REFUSE => self.on_answer(now, &frame),
                _ => self.endpoint.count_stranger(),
            }
        } else if kind == JOIN {
            self.on_join(now, &frame);
        } else if kind == LEAVE {
            self.on_leave(now, &frame);
        } else if let RootPhase::Gathering(gathering) = &mut self.phase {
            gathering.handle_frame(now, &frame, &mut self.endpoint);
            self.go_on(now);
        } else {
            self.of_member(now, &frame);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.throttle_mut().handle_timeout(now);
        match &mut self.phase {
            RootPhase::Gathering(gathering) => {
                gathering.handle_timeout(now, self.strangers.refusals_mut(), &mut self.endpoint);
                self.go_on(now);
            }
            RootPhase::Running(running) => {
                running.handle_timeout(now, &mut self.endpoint);
                self.watch_reports(now);
            }
            RootPhase::Closing(closing, _) => {
                if closing.handle_timeout(now, &mut self.endpoint) {
                    self.phase = RootPhase::Ended(self.phase.take());
                    self.endpoint.end(now);
                }
            }
            RootPhase::Ended(_) => self.endpoint.handle_end(now),
        }
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let split = self.poll_transmit_split(now, buffer)?;
        Some(split.join(buffer, |kept| self.payload(kept)))
    }

    fn poll_transmit_split(&mut self, now: Instant, buffer: &mut [u8]) -> Option<SplitFrame> {
        let first = self.endpoint.poll_transmit(now, buffer).map(SplitFrame::whole);
        let frame = match &mut self.phase {
            _ if first.is_some() => first,
            RootPhase::Gathering(gathering) if self.endpoint.throttle_mut().admits(now) => {
                gathering.poll_transmit(now, buffer).map(SplitFrame::whole)
            }
            RootPhase::Running(running) if self.endpoint.throttle_mut().admits(now) => {
                running.delivery_mut().poll_transmit_split(now, buffer, &mut self.endpoint)
            }
            _ => None,
        }?;
        self.endpoint.throttle_mut().spend(now, frame.bytes());
        Some(frame)
    }

    /// # Panics
    /// If no stream is being sent, or `kept` is no longer kept.
    fn payload(&self, kept: Kept) -> &[u8] {
        let RootPhase::Running(running) = &self.phase else { panic!("only what is delivered is kept") };
        running.delivery().payload(kept)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let of_phase = match &self.phase {
            RootPhase::Gathering(gathering) => gathering.poll_timeout(now, self.endpoint.config()),
            RootPhase::Running(running) => running.poll_timeout(now),
            RootPhase::Closing(closing, _) => closing.poll_timeout(),
            RootPhase::Ended(_) => return self.endpoint.next_end(),
        };
        let own = of_phase.into_iter().chain(self.endpoint.next_reply(now)).min();
        self.endpoint.throttle().deadline(own)
    }

    fn is_urgent(&self) -> bool {
        self.streams().is_some_and(Part::is_urgent)
    }
}
