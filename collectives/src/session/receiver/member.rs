//! Following the root: its invitation, its views, its verdicts.

use super::{End, Known, Phase, Receiver, ReceiverEvent};
use crate::membership::timers::Wait;
use crate::session::blocks::{Place, Streams};
use crate::session::message::{Digest, Message};
use crate::session::view::{Member, View};
use ethbcast_transport::wire::Frame;

impl Receiver {
    pub(super) fn on_announce(&mut self, frame: &Frame<'_>, message: &Message) {
        let Message::Announce { group, host, source, size, .. } = message else { return };
        if *group != self.config.station.group || !matches!(self.phase, Phase::Listening) {
            return;
        }
        log::info!("{host} invites to group {group}: {source}, {size:?} bytes");
        self.root = Some(Known { mac: frame.source, session: frame.header.session, heard_at: self.now });
        self.phase = Phase::Joining;
        self.timers.set(Wait::Join, self.now);
        self.events.push_back(ReceiverEvent::Invited { host: host.clone(), source: source.clone(), size: *size });
    }

    pub(super) fn on_control(&mut self, message: Message) {
        match message {
            Message::Refuse { nonce, why, text } if nonce == self.config.nonce && matches!(self.phase, Phase::Joining) => {
                self.end(End::Refused(why, text));
            }
            Message::View { epoch, digest, part, parts, bytes } => self.on_view_part(epoch, digest, part, parts, bytes),
            Message::Verdict { over, heard } => self.on_verdict(over, &heard),
            Message::Abort { text } => self.end(End::Aborted(text)),
            _ => {}
        }
    }

    pub(super) fn on_view_part(&mut self, epoch: u32, digest: Digest, part: u16, parts: u16, bytes: Vec<u8>) {
        let present = self.view.as_ref().map_or(0, |view| view.epoch);
        if epoch < present || matches!(self.phase, Phase::Ended | Phase::Listening) {
            return;
        }
        let whole = (epoch > present).then(|| self.assembler.take(digest, part, parts, bytes)).flatten();
        if let Some(view) = whole {
            self.adopt(view, digest);
        }
        // Confirmed once for each repetition, when its last part comes by.
        if self.view.as_ref().is_some_and(|view| view.epoch == epoch) && digest == self.view_digest && part + 1 == parts {
            self.timers.set_unless_set(Wait::View, self.now + self.turn());
        }
    }

    /// Tells the root that the present view is here.
    pub(super) fn confirm_view(&mut self) {
        if let Some(view) = &self.view {
            let (epoch, digest) = (view.epoch, self.view_digest);
            self.send(&Message::Ready { epoch, digest });
        }
    }

    pub(super) fn adopt(&mut self, view: View, digest: Digest) {
        let own = |member: &Member| member.nonce == self.config.nonce && member.mac == self.config.station.mac && member.present;
        let Some(rank) = view.members.iter().position(own) else {
            if matches!(self.phase, Phase::Running) {
                self.end(match (self.confirmed, &self.verdict) {
                    (true, _) => End::Confirmed,
                    (false, Some(_)) => End::Unconfirmed,
                    (false, None) => End::Dropped,
                });
            }
            return;
        };
        self.rank = rank as u16;
        self.view_digest = digest;
        if let Some(streams) = &mut self.streams {
            streams.reshape(self.now, self.rank, &view);
        } else {
            self.begin(&view);
        }
        self.view = Some(view);
    }

    fn begin(&mut self, view: &View) {
        let station = &self.config.station;
        let session = self.root.as_ref().map_or(0, |root| root.session);
        let (mac, group_mac, ether_type) = (station.mac, station.group_mac, station.ether_type);
        let place = Place { session, rank: self.rank, mac, group_mac, ether_type };
        self.streams = Some(Streams::new(place, view, &self.config.tuning));
        self.phase = Phase::Running;
        self.timers.clear(Wait::Join);
        // All begin at the same moment, and are to speak at different ones.
        let phase = self.config.timing.status * u32::from(self.rank) / view.members.len().max(1) as u32;
        self.timers.set(Wait::Status, self.now + phase);
        let receivers = view.members.len() - 1;
        log::info!("rank {} of {receivers} receivers via {}", self.rank, view.via);
        self.events.push_back(ReceiverEvent::Started { rank: self.rank, receivers, via: view.via, size: view.size });
    }

    pub(super) fn on_verdict(&mut self, over: bool, heard: &[u8]) {
        if !matches!(self.phase, Phase::Running) {
            return;
        }
        let mine = heard.get(usize::from(self.rank) / 8).is_some_and(|byte| byte >> (self.rank % 8) & 1 == 1);
        if mine && self.verdict.is_some() {
            self.confirmed = true;
            self.timers.clear(Wait::Verdict);
        }
        if over {
            self.end(if self.confirmed { End::Confirmed } else { End::Dropped });
        } else if self.confirmed && self.timers.is_set(Wait::Leave) {
            self.end(End::Confirmed);
        }
    }
}
