//! How the streams of one host follow from one view to the next.

use super::{Blocks, Dealing, FIRST_STREAM, SIDE, stream};
use crate::session::view::{Standing, View};
use ethbcast_transport::stream::Stream;
use ethbcast_transport::wire::{Identity, Rank, StreamId};
use ethbcast_transport::{Instant, planted};

impl Blocks {
    /// Sends nothing new to the group any more, until a view says in which other way to go on.
    pub(in crate::session) fn retire(&mut self) {
        self.streams.iter_mut().for_each(Stream::retire);
    }

    /// Whether nobody needs anything of what has been sent.
    pub(in crate::session) fn is_level(&self) -> bool {
        self.streams.iter().all(Stream::is_level)
    }

    /// How many frames everybody has got.
    pub(in crate::session) fn frames_everywhere(&self) -> u64 {
        self.streams.iter().map(Stream::everywhere).sum()
    }

    /// Where each remote reader stands, as far as is known.
    pub(in crate::session) fn cursors(&self) -> Vec<(Rank, u64)> {
        self.streams.iter().flat_map(Stream::cursors).collect()
    }

    /// How often a frame of a cast was lost on its way to each listener.
    pub(in crate::session) fn lost(&self) -> Vec<(Rank, u64)> {
        self.streams.iter().flat_map(Stream::lost).collect()
    }

    /// Goes on in another way from here on, if the view says so.
    fn reroute(&mut self, now: Instant, rank: Rank, view: &View) {
        let way = (view.via, view.segment_frames);
        let [stream] = &mut self.streams[..] else { return };
        if std::mem::replace(&mut self.way, way) != way {
            let outlet = stream::outlet(rank, self.group_mac, view, &view.trees()[0]);
            stream.reroute(now, &outlet, stream::in_segments(&self.tuning, view, rank));
        }
    }

    /// Brings parents and children in line with a new view in which ranks have gone or stand aside.
    pub(in crate::session) fn reshape(&mut self, now: Instant, rank: Rank, view: &View) {
        // The streams of blocks are gone once this host has stepped aside: the root serves it alone in any case.
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

    /// Goes on under the number of the stream on which the root serves this host alone.
    pub(super) fn step_aside(&mut self, now: Instant, view: &View) {
        if std::mem::replace(&mut self.aside, true) {
            return;
        }
        let number = StreamId(FIRST_STREAM | SIDE);
        if let [stream] = &mut self.streams[..] {
            stream.set_parent(view.peer(Rank::ROOT));
            return stream.set_number(now, number);
        }
        // What has come ahead of its turn comes again: the root serves one stream, of all frames in their order.
        let first = self.dealing.in_whole(self.turn, self.streams[self.turn].position());
        let identity = Identity { stream: number, ..self.identity };
        self.streams = vec![stream::received_alone(identity, view, first, &self.tuning)];
        (self.dealing, self.turns, self.fillers) = (Dealing::single(), vec![0], Vec::new());
        self.start_over();
    }

    /// Goes on under the number that all follow: it was somebody else who said that this host was aside.
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
            // New children first: what a dead child was keeping here is what its own children may still need.
            tree.children(rank).into_iter().for_each(|child| stream.graft_child(now, view.peer(child)));
            let served = |reader: &Rank| tree.parent(*reader) == Some(rank) || planted!("sent-to-the-dead");
            let readers = stream.cursors().into_iter().map(|(reader, _)| reader);
            let gone: Vec<Rank> = readers.filter(|reader| !served(reader)).collect();
            gone.into_iter().for_each(|reader| stream.remove_reader(now, reader));
        }
    }
}
