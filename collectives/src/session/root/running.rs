//! From view to verdict: who is alive, who is ready, who has what, and the next view when somebody goes.

use super::{Phase, Root, RootEvent};
use crate::membership::presence::Change;
use crate::session::blocks::Streams;
use crate::session::message::{Digest, Message, Outcome, Trailer};
use crate::session::roster::MemberReport;
use crate::session::trees::trees;
use crate::session::view::View;
use ethbcast_transport::wire::Frame;

const ORPHANED: &str = "the frames it needed died with the host before it";

impl Root {
    pub(super) fn on_control(&mut self, frame: &Frame<'_>, message: Message) {
        self.stats.received += 1;
        let rank = frame.header.rank;
        match message {
            Message::Join { .. } => self.on_join(frame.source, &message),
            Message::Ready { epoch, digest } if epoch == self.epoch() && digest == self.view_digest => self.on_ready(rank, epoch),
            Message::Status { state, frames } => {
                if let Some(entry) = self.roster.entry(rank) {
                    entry.state = state;
                    entry.frames = frames;
                }
            }
            Message::Orphan { rank: child } => self.on_orphan(rank, child),
            Message::Done { outcome, bytes, digest, text } => self.on_done(rank, outcome, bytes, digest, text),
            _ => {}
        }
    }

    pub(super) fn publish(&mut self, view: View) {
        let (digest, _) = view.parts(usize::from(view.payload_bytes));
        self.view_digest = digest;
        if let Some(streams) = &mut self.streams {
            streams.set_epoch(view.epoch);
        }
        self.view = Some(view);
        self.repeat_view();
    }

    pub(super) fn repeat_view(&mut self) {
        let Some(view) = &self.view else { return };
        let (_, parts) = view.parts(usize::from(view.payload_bytes));
        for part in parts {
            self.send_to_group(&part);
        }
        self.view_due = Some(self.now + self.config.timing.view);
    }

    fn on_ready(&mut self, rank: u16, epoch: u32) {
        if let Some(entry) = self.roster.entry(rank) {
            entry.ready_epoch = epoch;
        }
        self.check_ready();
    }

    fn check_ready(&mut self) {
        if !self.roster.all_ready(self.epoch()) {
            return;
        }
        self.view_due = None;
        if let Phase::Running { flowing } = &mut self.phase
            && !std::mem::replace(flowing, true)
        {
            let receivers = self.roster.entries.iter().filter(|entry| entry.present).count();
            self.events.push_back(RootEvent::Started { receivers });
        }
    }

    fn on_done(&mut self, rank: u16, outcome: Outcome, bytes: u64, digest: Digest, text: String) {
        self.verdict_due = self.verdict_due.or(Some(self.now));
        let claimed = outcome == Outcome::Delivered;
        if claimed && self.trailer != Some(Trailer { bytes, digest }) {
            self.report(rank, Outcome::Damaged, bytes, digest, "it claims delivery of other bytes than were sent");
        } else {
            self.report(rank, outcome, bytes, digest, &text);
        }
        if !claimed {
            self.drop_member(rank);
        }
    }

    /// A member is gone for a reason the root found itself.
    pub(super) fn lose(&mut self, rank: u16, outcome: Outcome, text: &str) {
        let host = self.view.as_ref().and_then(|view| view.members.get(usize::from(rank))).map(|member| member.host.clone());
        log::warn!("lost {}: {text}", host.unwrap_or_default());
        self.report(rank, outcome, 0, [0; 32], text);
        self.drop_member(rank);
    }

    fn report(&mut self, rank: u16, outcome: Outcome, bytes: u64, digest: Digest, text: &str) {
        let took = self.first_data.map(|start| self.now.since(start)).unwrap_or_default();
        let Some(view) = &self.view else { return };
        let Some(entry) = self.roster.entry(rank).filter(|entry| entry.report.is_none()) else { return };
        let host = view.members[usize::from(rank)].host.clone();
        let report = MemberReport { host, rank, outcome, bytes, digest, text: text.to_owned(), took };
        entry.report = Some(report.clone());
        self.last_verdict = Some(self.now);
        self.events.push_back(RootEvent::Reported(report));
        if self.roster.all_reported() {
            self.events.push_back(RootEvent::AllReported);
            let heard = self.roster.heard();
            self.close(Message::Verdict { over: true, heard });
        }
    }

    /// Takes a member out of the view; its parent takes over its children.
    fn drop_member(&mut self, rank: u16) {
        let running = matches!(self.phase, Phase::Running { .. });
        if !running || !self.roster.remove(rank) {
            return;
        }
        let Some(mut view) = self.view.take() else { return };
        view.members[usize::from(rank)].present = false;
        view.epoch += 1;
        if let Some(streams) = &mut self.streams {
            streams.reshape(self.now, 0, &view);
        }
        self.publish(view);
        self.check_ready();
    }

    pub(super) fn watch_silence(&mut self) {
        for change in self.roster.look(self.now) {
            match change {
                Change::Suspected(rank, silence) => log::warn!("rank {rank} has been silent for {silence:?}"),
                Change::Gone(rank) => self.lose(rank, Outcome::Silent, "nothing was heard of it any more"),
                Change::Left(_) => {}
            }
        }
    }

    /// A relay says it cannot serve the child it was given; only the child's parent may say so.
    fn on_orphan(&mut self, reporter: u16, child: u16) {
        let known = |view: &View| usize::from(child) < view.members.len() && view.members[usize::from(child)].present;
        if self.view.as_ref().is_some_and(|view| known(view) && serves(view, reporter, child)) {
            self.lose(child, Outcome::Orphaned, ORPHANED);
        }
    }

    /// Children of the root's own that need frames which are gone.
    pub(super) fn lose_orphans(&mut self) {
        for rank in self.streams.as_mut().map(Streams::take_orphans).unwrap_or_default() {
            self.lose(rank, Outcome::Orphaned, ORPHANED);
        }
    }
}

fn serves(view: &View, parent: u16, child: u16) -> bool {
    trees(view).iter().any(|tree| tree.parent(child) == Some(parent))
}
