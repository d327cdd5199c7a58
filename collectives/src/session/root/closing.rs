//! The end of a session: the root repeats its last word.

use super::RootEndpoint;
use crate::membership::timers::Wait;
use crate::session::message::Message;
use ethbcast_transport::{Deadline, Instant, MacAddr};

/// Repeats the last word: the verdict on all, or that the root gives up.
#[derive(Clone, Debug)]
pub(super) struct Closing {
    last_word: Message,
    /// Whom what is sent to all does not reach.
    deaf: Vec<MacAddr>,
    /// How many times it is still to be sent.
    left: u32,
    /// When it is to be sent, or the session to end.
    next: Instant,
}

impl Closing {
    pub(super) fn new(now: Instant, last_word: Message, times: u32, deaf: Vec<MacAddr>) -> Closing {
        Closing { last_word, deaf, left: times, next: now }
    }

    pub(super) fn last_word(&self) -> &Message {
        &self.last_word
    }

    /// Sends the last word when it is time to; whether it has been sent often enough.
    pub(super) fn handle_timeout(&mut self, now: Instant, endpoint: &mut RootEndpoint) -> bool {
        if self.next > now || self.left == 0 {
            return self.next <= now;
        }
        self.left -= 1;
        self.next = now + endpoint.config().timing.verdict / 4;
        endpoint.send_to_group(&self.last_word);
        self.deaf.iter().for_each(|&mac| endpoint.send(mac, &self.last_word));
        false
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        Some(Wait::Verdict.at(self.next))
    }
}
