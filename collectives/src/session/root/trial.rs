//! Probe transfers to a member behind a suspected straggler: the root sends it frames that it needs
//! anyway. If the first relay has been slow from the beginning, nothing else shows that the others
//! are not.

use crate::session::blocks::{Blocks, LackingFrame};
use ethbcast_transport::stream::Ending;
use ethbcast_transport::wire::Rank;

/// Maximum number of probe transfers in a session: each sends up to one feed of frames that also
/// arrive another way.
const MAX_TRIALS: u32 = 3;

#[derive(Clone, Debug)]
struct Rest {
    to: Rank,
    next: u64,
    end: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct RateTrials {
    rest: Option<Rest>,
    begun: u32,
    sent: u64,
}

impl RateTrials {
    pub(super) fn begin(&mut self, blocks: &Blocks, to: Rank, arrived: u64) {
        if self.rest.is_none() && self.begun < MAX_TRIALS {
            log::info!("rank {to} is tried: how fast can it take frames?");
            self.begun += 1;
            // The last frame may be the stream's end.
            self.rest = Some(Rest { to, next: arrived, end: blocks.frames().saturating_sub(1) });
        }
    }

    pub(super) fn end(&mut self) {
        self.rest = None;
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    pub(super) fn poll(&mut self, blocks: &Blocks) -> Option<(Rank, LackingFrame)> {
        let rest = self.rest.as_mut()?;
        let kept = blocks.kept(rest.next).filter(|&(sequence, _)| sequence < rest.end);
        let Some((sequence, payload)) = kept else {
            self.rest = None;
            return None;
        };
        rest.next = sequence + 1;
        self.sent += 1;
        Some((rest.to, LackingFrame { at: 0, sequence, payload: payload.to_vec(), ending: Ending::None }))
    }
}
