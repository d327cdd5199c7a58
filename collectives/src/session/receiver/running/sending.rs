//! What a member sends, and when it wants to be called.

use super::Running;
use crate::session::message::Message;
use crate::session::receiver::ReceiverEndpoint;
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{Deadline, Instant, Part};

impl Running {
    /// Writes the next frame. Where the session has a limit and it is reached, nothing leaves but what others wait for.
    pub(in crate::session::receiver) fn poll_transmit(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
        endpoint: &mut ReceiverEndpoint,
    ) -> Option<usize> {
        let answer = self.joining.as_mut().and_then(|joining| joining.poll_transmit(now, buffer));
        if answer.is_some() {
            return answer;
        }
        if !endpoint.throttle_mut().admits(now) {
            return self.blocks.poll_ack(now, buffer);
        }
        let before = self.fetching.poll(now, true);
        if before.is_none()
            && let Some(length) = self.blocks.poll_transmit(now, buffer)
        {
            self.fetching.main_sent(now);
            return Some(length);
        }
        let piece = before.or_else(|| self.fetching.poll(now, false))?;
        let root = self.view.members[Rank::ROOT.index()].mac;
        Some(endpoint.write(buffer, root, &Message::Piece(piece)))
    }

    pub(in crate::session::receiver) fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let timeouts = [self.timers.next(), self.blocks.poll_timeout(now), self.fetching.poll_timeout(now)];
        timeouts.into_iter().flatten().min()
    }
}
