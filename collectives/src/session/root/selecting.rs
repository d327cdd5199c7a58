//! What the root's user has to do with a session in which only what somebody lacks is sent.

use super::needs::Lacking;
use super::{Phase, Root};
use crate::session::ledger::ChunkSet;
use ethbcast_transport::Instant;

impl Root {
    /// Whether some member has a part of the content already, so that only what somebody lacks is sent.
    pub fn is_selective(&self) -> bool {
        self.view().is_some_and(|view| view.selective)
    }

    /// What is sent to all of a stretch whose ledgers have been pushed; none while it is not known.
    pub fn chosen(&mut self, now: Instant, stretch: u64) -> Option<ChunkSet> {
        let Phase::Running(running) = &mut self.phase else { return None };
        let config = self.endpoint.config();
        running.choose(now, stretch, config.timing.stall, config.form)
    }

    /// What members lack of the content, as far as that is known, if only what somebody lacks is sent.
    pub fn lacking(&self) -> Option<Lacking> {
        let running = self.phase.running().filter(|running| running.view().selective)?;
        Some(running.fetches().lacking())
    }

    /// Bytes that went for the content, ledgers included, if only what somebody lacks is sent: to all, and to single
    /// ones.
    pub fn sent_bytes(&self) -> Option<u64> {
        let running = self.phase.running().filter(|running| running.view().selective)?;
        Some(running.delivery().sent_bytes())
    }

    /// Whether [`wants_again`](Root::wants_again) counts bytes in the ledgered form of the whole content, not as they
    /// were pushed.
    pub fn wants_of_whole(&self) -> bool {
        self.phase.running().is_some_and(|running| running.fetches().wants_of_whole(running.view(), running.delivery()))
    }
}
