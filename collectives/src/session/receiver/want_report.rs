//! Want-bitmaps of this host, sent for each stretch until it is decided which chunks go to all.

use super::ReceiverEndpoint;
use crate::membership::timers::Wait;
use crate::session::message::{Message, Needs};
use crate::session::verified::MAX_AHEAD;
use ethbcast_transport::{Deadline, Instant, MacAddr};
use std::collections::VecDeque;
use std::time::Duration;

/// First interval between repetitions, which doubles each time; then the longest interval.
const FIRST_PAUSE: Duration = Duration::from_millis(40);
const MAX_PAUSE: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
struct SentNeeds {
    needs: Needs,
    at: Instant,
    pause: Duration,
}

#[derive(Clone, Debug, Default)]
pub(super) struct WantReport {
    open: VecDeque<SentNeeds>,
}

impl WantReport {
    pub(super) fn report(&mut self, at: Instant, needs: Needs) {
        if self.open.len() as u64 == MAX_AHEAD {
            self.open.pop_front();
        }
        self.open.push_back(SentNeeds { needs, at, pause: FIRST_PAUSE });
    }

    pub(super) fn settle(&mut self, below: u64) {
        self.open.retain(|word| word.needs.stretch >= below);
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, root: MacAddr, endpoint: &mut ReceiverEndpoint) {
        for word in self.open.iter_mut().filter(|word| word.at <= now) {
            endpoint.send(root, &Message::Needs(word.needs.clone()));
            word.at = now + word.pause;
            word.pause = (word.pause * 2).min(MAX_PAUSE);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        self.open.iter().map(|word| word.at).min().map(|at| Wait::Fetch.at(at))
    }
}
