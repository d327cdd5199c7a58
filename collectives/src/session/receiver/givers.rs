//! Who sent which bytes of the stream to this host, for when they turn out to be damaged.

use crate::session::blocks::{Blocks, Dealing};
use crate::session::view::View;
use ethbcast_planning::plan::Via;
use ethbcast_transport::wire::Rank;
use std::ops::Range;

/// So many former parents are remembered; what those after them sent is put down to the present one.
const MOST_FORMER: usize = 64;

/// Who sent the frames of one stream before `end`.
#[derive(Clone, Copy, Debug)]
struct Former {
    place: usize,
    end: u64,
    rank: Rank,
}

/// The parents that this host has had.
#[derive(Clone, Debug)]
pub(super) struct Givers {
    dealing: Dealing,
    /// The former ones, the oldest first.
    former: Vec<Former>,
    /// From which frame of all on the root has served this host alone, if it does.
    aside_from: Option<u64>,
}

impl Givers {
    /// Those of a host that has followed no view but this.
    pub(super) fn new(view: &View) -> Givers {
        Givers { dealing: Dealing::new(view), former: Vec::new(), aside_from: None }
    }

    /// Notes who sent until now, before another view is followed.
    pub(super) fn before(&mut self, next: &View, own: Rank, view: &View, blocks: &Blocks) {
        let was_cast = view.via == Via::Cast;
        if !view.members[own.index()].is_in_place() || (was_cast && next.via == Via::Cast) {
            return;
        }
        for (place, (tree, new)) in view.trees().iter().zip(next.trees()).enumerate() {
            let rank = tree.parent(own).filter(|_| !was_cast).unwrap_or(Rank::ROOT);
            if Some(rank) != new.parent(own) && self.former.len() + 1 < MOST_FORMER {
                self.former.push(Former { place, end: blocks.frames_of(place), rank });
                // Beyond, some came from the former and some will come from the next.
                self.former.push(Former { place, end: blocks.reached_of(place), rank: Rank::NONE });
            }
        }
    }

    /// Notes from where on the root serves this host alone, if it begins to in this view, which is followed now.
    pub(super) fn after(&mut self, own: Rank, view: &View, blocks: &Blocks) {
        if view.members[own.index()].is_in_place() {
            self.aside_from = None;
        } else {
            self.aside_from.get_or_insert(blocks.frames());
        }
    }

    /// Who sent these bytes; [`Rank::NONE`] if it was not one alone.
    pub(super) fn of(&self, bytes: &Range<u64>, own: Rank, view: &View) -> Rank {
        let payload_bytes = u64::from(view.payload_bytes.max(1));
        let mut frames = bytes.start / payload_bytes..bytes.end.div_ceil(payload_bytes);
        let first = frames.next().map_or(Rank::NONE, |frame| self.of_frame(frame, own, view));
        if frames.all(|frame| self.of_frame(frame, own, view) == first) { first } else { Rank::NONE }
    }

    fn of_frame(&self, frame: u64, own: Rank, view: &View) -> Rank {
        // A cast's frames come from the root, whoever repairs.
        if view.via == Via::Cast || self.aside_from.is_some_and(|first| frame >= first) {
            return Rank::ROOT;
        }
        let (place, sequence) = self.dealing.place_of(frame);
        let former = self.former.iter().find(|former| former.place == place && sequence < former.end);
        let present = || view.trees().get(place).and_then(|tree| tree.parent(own)).unwrap_or(Rank::ROOT);
        former.map_or_else(present, |former| former.rank)
    }
}
