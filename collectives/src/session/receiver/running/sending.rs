//! Frames and timers of a member.

use super::MemberPhase;
use crate::session::message::Message;
use crate::session::receiver::ReceiverEndpoint;
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{Deadline, Instant, Kept, Part, SplitFrame};

impl MemberPhase {
    /// Writes the next frame. If the rate limit is reached, only acknowledgements leave.
    pub(in crate::session::receiver) fn poll_transmit_split(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
        endpoint: &mut ReceiverEndpoint,
    ) -> Option<SplitFrame> {
        if let Some(length) = self.joining.as_mut().and_then(|joining| joining.poll_transmit(now, buffer)) {
            return Some(SplitFrame::whole(length));
        }
        if !endpoint.throttle_mut().admits(now) {
            return self.blocks.poll_ack(now, buffer).map(SplitFrame::whole);
        }
        let before = self.fetching.poll(now, true);
        if before.is_none()
            && let Some(frame) = self.blocks.poll_transmit_split(now, buffer)
        {
            self.fetching.main_sent(now);
            return Some(frame);
        }
        let piece = before.or_else(|| self.fetching.poll(now, false))?;
        let root = self.view.members[Rank::ROOT.index()].mac;
        Some(SplitFrame::whole(endpoint.write(buffer, root, &Message::Piece(piece))))
    }

    pub(in crate::session::receiver) fn payload(&self, kept: Kept) -> &[u8] {
        self.blocks.payload(kept)
    }

    pub(in crate::session::receiver) fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let timeouts = [self.timers.next(), self.blocks.poll_timeout(now), self.fetching.poll_timeout(now)];
        timeouts.into_iter().flatten().min()
    }
}
