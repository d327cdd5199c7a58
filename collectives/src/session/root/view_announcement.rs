//! Distribution of a view to the members.

use super::RootEndpoint;
use crate::session::message::{Digest, Message, ViewPart};
use crate::session::view::View;
use ethbcast_transport::MacAddr;
use ethbcast_transport::planted;
use std::collections::BTreeSet;

/// Number of repetitions after which the view also goes to unconfirmed members by unicast, as group
/// frames may not reach them.
const TIMES_TO_ALL: u32 = 3;

/// Maximum number of repetitions put off in a row: one second.
const MAX_PUT_OFF: u32 = 20;

/// Maximum number of members that get it by unicast at a time.
const MAX_ALONE: usize = 4;

/// The view as it was published. Later changes go into the next view, never under this epoch.
#[derive(Clone, Debug, Default)]
pub(super) struct ViewAnnouncement {
    parts: Vec<ViewPart>,
    times: u32,
    put_off: u32,
    deaf: BTreeSet<MacAddr>,
}

impl ViewAnnouncement {
    pub(super) fn begin(&mut self, view: &View, payload_bytes: usize) {
        (self.parts, self.times, self.put_off) = (view.parts(payload_bytes).collect(), 0, 0);
    }

    pub(super) fn does_not_reach(&mut self, mac: MacAddr) {
        self.deaf.insert(mac);
    }

    pub(super) fn deaf(&self) -> impl Iterator<Item = MacAddr> + use<> {
        self.deaf.clone().into_iter()
    }

    pub(super) fn digest(&self) -> Digest {
        self.parts.first().map_or([0; 32], |part| part.digest)
    }

    /// Whether to put off a repetition because parts of the view may still be in the send queue;
    /// repeating would only lengthen the queue of a slow link. Limited to [`MAX_PUT_OFF`] times,
    /// as other messages may keep the queue as long.
    pub(super) fn put_off(&mut self, endpoint: &RootEndpoint) -> bool {
        let waits = endpoint.waiting_frames() > self.parts.len() && self.put_off < MAX_PUT_OFF;
        self.put_off = if waits { self.put_off + 1 } else { 0 };
        waits
    }

    /// Sends the view's parts, starting with another part each time in case the last of a burst are
    /// always lost. `lacking` are the members that have not confirmed it.
    pub(super) fn send(&mut self, lacking: impl Iterator<Item = MacAddr>, endpoint: &mut RootEndpoint) {
        let (before, from) = self.parts.split_at(self.times as usize % self.parts.len().max(1));
        let most = if planted!("quadratic-views") {
            usize::MAX
        } else if self.times < TIMES_TO_ALL {
            0
        } else {
            MAX_ALONE
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
