//! [`Machine`] of the receiver: the five calls its driver makes.

use super::{End, Receiver, ReceiverEvent, ReceiverPhase};
use crate::census::kind::{HERE, WHO};
use crate::census::{Busy, CensusReply};
use crate::measure::kind::PROBE;
use crate::membership::timers::Wait;
use crate::session::is_of_stream;
use ethbcast_transport::{Deadline, Instant, Kept, Machine, Part, SplitFrame, wire};

impl Machine for Receiver {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        let frame = match wire::parse(frame) {
            Ok(frame) => frame,
            Err(why) => {
                self.endpoint.count_malformed();
                let other = self.other_builds.on_reject(frame, why);
                other.into_iter().for_each(|other| self.endpoint.push_event(ReceiverEvent::OtherVersion(other)));
                return;
            }
        };
        if let (true, is_news) = self.endpoint.is_own(frame.source) {
            self.endpoint.count_stranger();
            if is_news {
                self.endpoint.push_event(ReceiverEvent::OwnAddress(frame.source));
                // Sent to the group so that a root with this address receives it too: a switch
                // would not deliver a unicast frame to it.
                let (request, all) = (self.endpoint.config().request(), self.endpoint.station().group_mac);
                self.endpoint.send_in(frame.header.session, all, &request);
            }
            return;
        }
        if frame.header.kind == WHO && self.endpoint.config().about.is_some() {
            if !self.answerer.on_frame(now, &frame, self.endpoint.station()) {
                self.endpoint.count_malformed();
            }
            return;
        }
        if let ReceiverPhase::Waiting(waiting) = &mut self.phase {
            let step = waiting.handle_frame(now, &frame, &mut self.root, &mut self.endpoint);
            self.go_on(now, step);
            return;
        }
        let of_stream = is_of_stream(&frame);
        let named = || self.view().is_some_and(|view| view.names(frame.header.rank, frame.source));
        let from_member = of_stream && named();
        let session = self.endpoint.identity().session;
        let Some(root) = self.root.as_mut().filter(|_| session == frame.header.session) else {
            self.endpoint.count_stranger();
            return;
        };
        if frame.source == root.mac() {
            root.on_frame(now);
        } else if !from_member {
            self.endpoint.count_stranger();
            return;
        }
        match &mut self.phase {
            ReceiverPhase::Running(running) if of_stream => {
                running.on_stream_frame(now, &frame, root.mac(), &mut self.endpoint);
            }
            ReceiverPhase::Running(running) if frame.header.kind == PROBE => running.on_probe(now, &frame),
            _ if of_stream => {}
            _ => {
                if let Some(message) = self.endpoint.read(&frame) {
                    self.on_control(now, message);
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.throttle_mut().handle_timeout(now);
        let end = match (&mut self.phase, &mut self.root) {
            (ReceiverPhase::Waiting(waiting), root) => waiting.handle_timeout(now, root, &mut self.endpoint),
            (ReceiverPhase::Running(running), Some(root)) => {
                let end = running.handle_timeout(now, (root.mac(), root.silence(now)), &mut self.endpoint);
                root.watch(now, running.blocks().frames(), &mut self.endpoint);
                let silent = root.is_dead(now);
                if silent {
                    // Nobody receives what is left to send, and it may be impossible to send.
                    self.endpoint.silence();
                }
                if silent { Some(running.end(End::RootSilent)) } else { end }
            }
            _ => {
                self.endpoint.handle_end(now);
                None
            }
        };
        end.into_iter().for_each(|end| self.end(now, end));
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let split = self.poll_transmit_split(now, buffer)?;
        Some(split.join(buffer, |kept| self.payload(kept)))
    }

    fn poll_transmit_split(&mut self, now: Instant, buffer: &mut [u8]) -> Option<SplitFrame> {
        let first = self.endpoint.poll_transmit(now, buffer).or_else(|| self.answer(now, buffer));
        let frame = first.map(SplitFrame::whole).or_else(|| match &mut self.phase {
            ReceiverPhase::Waiting(waiting) => waiting.poll_transmit(now, buffer).map(SplitFrame::whole),
            ReceiverPhase::Running(running) => running.poll_transmit_split(now, buffer, &mut self.endpoint),
            ReceiverPhase::Ended(_) => None,
        })?;
        self.endpoint.throttle_mut().spend(now, frame.bytes());
        Some(frame)
    }

    /// # Panics
    /// If this host is not a running member, or `kept` is no longer kept.
    fn payload(&self, kept: Kept) -> &[u8] {
        let ReceiverPhase::Running(running) = &self.phase else { panic!("only what is handed on is kept") };
        running.payload(kept)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let config = self.endpoint.config();
        let own = match &self.phase {
            ReceiverPhase::Waiting(waiting) => waiting.poll_timeout(config),
            ReceiverPhase::Running(running) => {
                let silence = self.root.as_ref().map(|root| Wait::Silence.at(root.look_at()));
                running.poll_timeout(now).into_iter().chain(silence).min()
            }
            // A host that has left answers nobody.
            ReceiverPhase::Ended(_) => return self.endpoint.next_end(),
        };
        self.endpoint.throttle().deadline(own.into_iter().chain(self.answerer.next()).min())
    }

    fn is_urgent(&self) -> bool {
        self.streams().is_some_and(Part::is_urgent)
    }
}

impl Receiver {
    fn answer(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let (to, nonce) = self.answerer.poll(now)?;
        let body = self.describe(now, nonce)?.encode();
        let identity = self.endpoint.identity();
        Some(identity.write(buffer, to, &identity.header(HERE), &body))
    }

    fn describe(&self, now: Instant, nonce: u64) -> Option<CensusReply> {
        let config = self.endpoint.config();
        let mut about = config.about.clone()?;
        if let Some(last) = &mut about.last {
            let since = u32::try_from(now.since(self.began).as_secs()).unwrap_or(u32::MAX);
            last.seconds_ago = last.seconds_ago.saturating_add(since);
        }
        let busy = match (&self.phase, &self.root) {
            (ReceiverPhase::Running(_), _) => Busy::Receiving,
            (_, Some(_)) => Busy::Joining,
            _ => Busy::Waiting,
        };
        let size = self.view().and_then(|view| view.size);
        let came = |streams: &super::Blocks| streams.frames() * streams.payload_bytes() as u64;
        let came = self.streams().map_or(0, came).min(size.unwrap_or(u64::MAX));
        let station = self.endpoint.station();
        Some(CensusReply {
            nonce,
            group: station.group.clone(),
            host: station.host.clone(),
            mtu_bytes: station.mtu_bytes,
            free_bytes: Some(config.free_bytes).filter(|&bytes| bytes != u64::MAX),
            busy,
            bytes: config.form.content_bytes(came),
            size: size.map(|bytes| config.form.content_bytes(bytes)),
            about,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::census::{About, CensusRequest, LastSession, address};
    use crate::membership::Station;
    use crate::session::ReceiverConfig;
    use ethbcast_transport::MacAddr;
    use ethbcast_transport::wire::{OVERHEAD_BYTES, Rank};
    use std::time::Duration;

    const ASKER: MacAddr = MacAddr::new(2, 0, 0, 0, 0, 9);

    fn asked(about: Option<About>, seconds: u64) -> Option<CensusReply> {
        let station = Station::new("g", "n1", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
        let config = ReceiverConfig { about, free_bytes: 77, ..ReceiverConfig::new(station.clone(), 1) };
        let mut receiver = Receiver::new(Instant::START, config);
        let now = Instant::START + Duration::from_secs(seconds);
        let identity = Station { mac: ASKER, ..station }.identity(0, Rank::NONE);
        let question = CensusRequest { nonce: 5, spread: Duration::from_millis(50), group: String::new() }.encode();
        let mut frame = vec![0; OVERHEAD_BYTES + question.len()];
        let length = identity.write(&mut frame, address(), &identity.header(WHO), &question);
        receiver.handle_frame(now, &frame[..length]);
        let due = receiver.poll_timeout(now).filter(|_| receiver.is_asked_who())?;
        assert!(due.at <= now + Duration::from_millis(50), "within the spread");
        let mut buffer = [0; 1514];
        let length = receiver.poll_transmit(due.at, &mut buffer)?;
        let answer = wire::parse(&buffer[..length]).expect("a frame");
        assert_eq!((answer.header.kind, &buffer[..6]), (HERE, &ASKER.octets()[..]));
        assert_eq!(receiver.poll_transmit(due.at, &mut [0; 1514]), None, "once");
        CensusReply::decode(answer.payload)
    }

    #[test]
    fn a_receiver_that_has_something_to_say_of_itself_answers_and_another_does_not() {
        let last = LastSession { is_delivered: true, source: "file".to_owned(), seconds_ago: 10 };
        let about = About { last: Some(last), ..About::default() };
        let answer = asked(Some(about), 100).expect("it answers");
        assert_eq!((answer.nonce, answer.busy, answer.free_bytes, answer.size), (5, Busy::Waiting, Some(77), None));
        assert_eq!(answer.about.last.map(|last| last.seconds_ago), Some(110), "it has waited since");
        assert_eq!(asked(None, 1), None);
    }
}
