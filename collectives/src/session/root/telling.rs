//! A view on its way to the members.

use super::RootEndpoint;
use crate::session::message::{Digest, Message};
use crate::session::view::View;
use ethbcast_transport::MacAddr;
use ethbcast_transport::planted;

/// After so many repetitions a view goes to each alone who has not confirmed it, for what is sent to all may not reach
/// it.
const TIMES_TO_ALL: u32 = 3;

/// So many are sent it alone at a time.
const MOST_ALONE: usize = 4;

/// The present view, as it is told.
#[derive(Clone, Debug, Default)]
pub(super) struct Telling {
    digest: Digest,
    times: u32,
}

impl Telling {
    /// Begins to tell a view.
    pub(super) fn tell(&mut self, view: &View) {
        *self = Telling { digest: view.digest(), times: 0 };
    }

    /// The view's digest.
    pub(super) fn digest(&self) -> Digest {
        self.digest
    }

    /// Sends the view's parts, each time beginning with another, in case the last of a burst are always lost; `lacking`
    /// are those who are heard and have not confirmed it.
    pub(super) fn send(&mut self, view: &View, lacking: impl Iterator<Item = MacAddr>, endpoint: &mut RootEndpoint) {
        let mut parts: Vec<_> = view.parts(view.payload_bytes.into()).collect();
        let first = self.times as usize % parts.len().max(1);
        parts.rotate_left(first);
        let most = if planted!("quadratic-views") {
            usize::MAX
        } else if self.times < TIMES_TO_ALL {
            0
        } else {
            MOST_ALONE
        };
        let alone: Vec<MacAddr> = lacking.take(most).collect();
        for part in parts {
            let message = Message::View(part);
            endpoint.send_to_group(&message);
            alone.iter().for_each(|&mac| endpoint.send(mac, &message));
        }
        self.times += 1;
    }
}
