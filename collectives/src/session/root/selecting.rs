//! Calls of the root's user in a selective session, in which only missing chunks are sent.

use super::wants::Lacking;
use super::{Root, RootPhase};
use crate::session::verified::ChunkSet;
use ethbcast_transport::Instant;

impl Root {
    /// Whether some member already has part of the content, so that only missing chunks are sent.
    pub fn is_selective(&self) -> bool {
        self.view().is_some_and(|view| view.selective)
    }

    /// Returns the chunks to send to all of a stretch whose hash lists have been pushed; `None`
    /// while undecided.
    pub fn chosen(&mut self, now: Instant, stretch: u64) -> Option<ChunkSet> {
        let RootPhase::Running(running) = &mut self.phase else { return None };
        let config = self.endpoint.config();
        running.choose(now, stretch, config.timing.stall, config.form)
    }

    /// Returns how much members lack of the content, as far as known, in a selective session.
    pub fn lacking(&self) -> Option<Lacking> {
        let running = self.phase.running().filter(|running| running.view().selective)?;
        Some(running.fetches().lacking())
    }

    /// Returns the bytes sent for the content in a selective session, hash lists included, to all
    /// and to single members.
    pub fn sent_bytes(&self) -> Option<u64> {
        let running = self.phase.running().filter(|running| running.view().selective)?;
        Some(running.delivery().sent_bytes())
    }

    /// Whether [`wants_again`](Root::wants_again) counts bytes in the verified stream of the whole
    /// content, not as they were pushed.
    pub fn wants_of_whole(&self) -> bool {
        self.phase.running().is_some_and(|running| running.fetches().wants_of_whole(running.view(), running.delivery()))
    }
}
