//! Transition of a host's streams from one view to the next.

use super::{Blocks, Dealing, FIRST_STREAM, SIDE, stream};
use crate::session::view::{Standing, View};
use ethbcast_transport::stream::Stream;
use ethbcast_transport::wire::{Identity, Rank, StreamId};
use ethbcast_transport::{Instant, planted};

impl Blocks {
    pub(in crate::session) fn retire(&mut self) {
        self.streams.iter_mut().for_each(Stream::retire);
    }

    pub(in crate::session) fn is_level(&self) -> bool {
        self.streams.iter().all(Stream::is_level)
    }

    pub(in crate::session) fn frames_everywhere(&self) -> u64 {
        self.streams.iter().map(Stream::everywhere).sum()
    }

    pub(in crate::session) fn cursors(&self) -> Vec<(Rank, u64)> {
        self.streams.iter().flat_map(Stream::cursors).collect()
    }

    pub(in crate::session) fn lost(&self) -> Vec<(Rank, u64)> {
        self.streams.iter().flat_map(Stream::lost).collect()
    }

    fn reroute(&mut self, now: Instant, rank: Rank, view: &View) {
        let way = (view.via, view.segment_frames);
        let [stream] = &mut self.streams[..] else { return };
        if std::mem::replace(&mut self.way, way) != way {
            let outlet = stream::outlet(rank, self.group_mac, view, &view.trees()[0]);
            stream.reroute(now, &outlet, stream::in_segments(&self.tuning, view, rank));
        }
    }

    pub(in crate::session) fn reshape(&mut self, now: Instant, rank: Rank, view: &View) {
        // The streams of blocks are gone once this host is demoted: the root serves it alone in any
        // case.
        let stays = self.aside && view.via.is_in_blocks();
        if stays || view.members[rank.index()].standing == Standing::Aside {
            self.step_aside(now, view);
        } else {
            self.step_back(now);
            self.reroute(now, rank, view);
            self.follow_trees(now, rank, view);
        }
        self.set_epoch(view.epoch);
    }

    pub(super) fn step_aside(&mut self, now: Instant, view: &View) {
        if std::mem::replace(&mut self.aside, true) {
            return;
        }
        let number = StreamId(FIRST_STREAM | SIDE);
        if let [stream] = &mut self.streams[..] {
            stream.set_parent(view.peer(Rank::ROOT));
            return stream.set_number(now, number);
        }
        // Frames that came out of order come again: the root serves one stream, with all frames in
        // order.
        let first = self.dealing.in_whole(self.turn, self.streams[self.turn].position());
        let identity = Identity { stream: number, ..self.identity };
        self.streams = vec![stream::received_alone(identity, view, first, &self.tuning)];
        (self.dealing, self.turns, self.fillers) = (Dealing::single(), vec![0], Vec::new());
        self.start_over();
    }

    /// Continues on the main stream: the view that demoted this host was forged.
    fn step_back(&mut self, now: Instant) {
        if std::mem::take(&mut self.aside) {
            for (stream, number) in self.streams.iter_mut().zip(FIRST_STREAM..) {
                stream.set_number(now, StreamId(number));
            }
        }
    }

    fn follow_trees(&mut self, now: Instant, rank: Rank, view: &View) {
        for (stream, tree) in self.streams.iter_mut().zip(view.trees()) {
            if let Some(parent) = tree.parent(rank) {
                stream.set_parent(view.peer(parent));
            }
            // New children first: frames kept here for a dead child may be needed by its children.
            tree.children(rank).into_iter().for_each(|child| stream.graft_child(now, view.peer(child)));
            let served = |reader: &Rank| tree.parent(*reader) == Some(rank) || planted!("sent-to-the-dead");
            let readers = stream.cursors().into_iter().map(|(reader, _)| reader);
            let gone: Vec<Rank> = readers.filter(|reader| !served(reader)).collect();
            gone.into_iter().for_each(|reader| stream.remove_reader(now, reader));
        }
    }
}
