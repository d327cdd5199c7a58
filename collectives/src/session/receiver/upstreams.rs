//! Upstream peer of each part of the stream, to locate damage.

use crate::session::blocks::{Blocks, Dealing};
use crate::session::view::View;
use ethbcast_planning::plan::Via;
use ethbcast_transport::wire::Rank;
use std::ops::Range;

/// Maximum number of former upstream peers remembered; bytes of later ones are ascribed to the
/// present one.
const MAX_FORMER: usize = 64;

#[derive(Clone, Copy, Debug)]
struct FormerUpstream {
    place: usize,
    end: u64,
    rank: Rank,
}

#[derive(Clone, Debug)]
pub(super) struct Upstreams {
    dealing: Dealing,
    former: Vec<FormerUpstream>,
    aside_from: Option<u64>,
}

impl Upstreams {
    pub(super) fn new(view: &View) -> Upstreams {
        Upstreams { dealing: Dealing::new(view), former: Vec::new(), aside_from: None }
    }

    pub(super) fn before(&mut self, next: &View, own: Rank, view: &View, blocks: &Blocks) {
        let was_cast = view.via == Via::Cast;
        if !view.members[own.index()].is_in_place() || (was_cast && next.via == Via::Cast) {
            return;
        }
        for (place, (tree, new)) in view.trees().iter().zip(next.trees()).enumerate() {
            let rank = tree.parent(own).filter(|_| !was_cast).unwrap_or(Rank::ROOT);
            if Some(rank) != new.parent(own) && self.former.len() + 1 < MAX_FORMER {
                self.former.push(FormerUpstream { place, end: blocks.frames_of(place), rank });
                // Beyond this, frames come from the former and from the next peer.
                self.former.push(FormerUpstream { place, end: blocks.reached_of(place), rank: Rank::NONE });
            }
        }
    }

    pub(super) fn after(&mut self, own: Rank, view: &View, blocks: &Blocks) {
        if view.members[own.index()].is_in_place() {
            self.aside_from = None;
        } else {
            self.aside_from.get_or_insert(blocks.frames());
        }
    }

    /// Returns the sender of these bytes; [`Rank::NONE`] if there were several.
    pub(super) fn of(&self, bytes: &Range<u64>, own: Rank, view: &View) -> Rank {
        let payload_bytes = u64::from(view.payload_bytes.max(1));
        let mut frames = bytes.start / payload_bytes..bytes.end.div_ceil(payload_bytes);
        let first = frames.next().map_or(Rank::NONE, |frame| self.of_frame(frame, own, view));
        if frames.all(|frame| self.of_frame(frame, own, view) == first) { first } else { Rank::NONE }
    }

    fn of_frame(&self, frame: u64, own: Rank, view: &View) -> Rank {
        // Frames of a broadcast come from the root, even if another member repairs.
        if view.via == Via::Cast || self.aside_from.is_some_and(|first| frame >= first) {
            return Rank::ROOT;
        }
        let (place, sequence) = self.dealing.place_of(frame);
        let former = self.former.iter().find(|former| former.place == place && sequence < former.end);
        let present = || view.trees().get(place).and_then(|tree| tree.parent(own)).unwrap_or(Rank::ROOT);
        former.map_or_else(present, |former| former.rank)
    }
}
