//! A view on its way to the members.

use super::RootEndpoint;
use crate::session::message::{Digest, Message, ViewPart};
use crate::session::view::View;
use ethbcast_transport::MacAddr;
use ethbcast_transport::planted;
use std::collections::BTreeSet;

/// After so many repetitions a view goes to each alone who has not confirmed it, for what is sent to all may not reach
/// it.
const TIMES_TO_ALL: u32 = 3;

/// So many repetitions in a row are put off, a second of them.
const MOST_PUT_OFF: u32 = 20;

/// So many are sent it alone at a time.
const MOST_ALONE: usize = 4;

/// The present view, as it is told: what has changed since then is told with the next, never under this number.
#[derive(Clone, Debug, Default)]
pub(super) struct Telling {
    parts: Vec<ViewPart>,
    times: u32,
    put_off: u32,
    /// Whom what is sent to all has not reached.
    deaf: BTreeSet<MacAddr>,
}

impl Telling {
    /// Begins to tell a view, in frames of so much payload.
    pub(super) fn tell(&mut self, view: &View, payload_bytes: usize) {
        (self.parts, self.times, self.put_off) = (view.parts(payload_bytes).collect(), 0, 0);
    }

    /// What was sent to all has not reached this member.
    pub(super) fn does_not_reach(&mut self, mac: MacAddr) {
        self.deaf.insert(mac);
    }

    /// Whom what is sent to all has not reached.
    pub(super) fn deaf(&self) -> impl Iterator<Item = MacAddr> + use<> {
        self.deaf.clone().into_iter()
    }

    /// The view's digest.
    pub(super) fn digest(&self) -> Digest {
        self.parts.first().map_or([0; 32], |part| part.digest)
    }

    /// Whether so much waits to leave that a part of what was told may be among it, so that it is put off: to tell it
    /// again would make a slow link's queue longer each time. Not for ever, as other messages may keep it as long.
    pub(super) fn put_off(&mut self, endpoint: &RootEndpoint) -> bool {
        let waits = endpoint.waiting_frames() > self.parts.len() && self.put_off < MOST_PUT_OFF;
        self.put_off = if waits { self.put_off + 1 } else { 0 };
        waits
    }

    /// Sends the view's parts, each time beginning with another, in case the last of a burst are always lost; `lacking`
    /// are those who are heard and have not confirmed it.
    pub(super) fn send(&mut self, lacking: impl Iterator<Item = MacAddr>, endpoint: &mut RootEndpoint) {
        let (before, from) = self.parts.split_at(self.times as usize % self.parts.len().max(1));
        let most = if planted!("quadratic-views") {
            usize::MAX
        } else if self.times < TIMES_TO_ALL {
            0
        } else {
            MOST_ALONE
        };
        let alone: Vec<MacAddr> = lacking.take(most).collect();
        for part in from.iter().chain(before) {
            let message = Message::View(part.clone());
            endpoint.send_to_group(&message);
            alone.iter().for_each(|&mac| endpoint.send(mac, &message));
        }
        self.times += 1;
    }
}
