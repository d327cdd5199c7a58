//! Who was turned away, and what it was told last.

use super::event::TurnedAway;
use super::{RootEndpoint, RootEvent};
use crate::session::message::Message;
use ethbcast_transport::{Instant, MacAddr};
use std::collections::BTreeMap;
use std::time::Duration;

/// Whoever asks again is told again, but not more often.
const BETWEEN: Duration = Duration::from_secs(1);
/// So many are remembered by name; the rest is told and not counted.
const MOST_REMEMBERED: usize = 4096;

#[derive(Clone, Debug)]
struct Entry {
    last: TurnedAway,
    told_at: Instant,
}

/// All who were turned away and have not been let in since, by address.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusals {
    entries: BTreeMap<MacAddr, Entry>,
}

impl Refusals {
    /// Tells a receiver no, unless it has been told just now; the user hears of it once for each reason.
    pub(super) fn refuse(
        &mut self,
        now: Instant,
        to: MacAddr,
        nonce: u64,
        away: TurnedAway,
        endpoint: &mut RootEndpoint,
    ) {
        let known = self.entries.get_mut(&to);
        if known.as_ref().is_some_and(|entry| now < entry.told_at + BETWEEN && entry.last.why == away.why) {
            return;
        }
        endpoint.answer(to, &Message::Refuse { nonce, why: away.why, text: away.text.clone() });
        let is_news = known.as_ref().is_none_or(|entry| entry.last.why != away.why || entry.last.host != away.host);
        if known.is_none() && self.entries.len() >= MOST_REMEMBERED {
            return;
        }
        if is_news {
            endpoint.tell(RootEvent::Refused { host: away.host.clone(), mac: away.mac, text: away.text.clone() });
        }
        self.entries.insert(to, Entry { last: away, told_at: now });
    }

    /// A host that was turned away has been let in, or has gone.
    pub(super) fn forget(&mut self, host: MacAddr) {
        self.entries.remove(&host);
    }

    /// How many are remembered.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &TurnedAway> + '_ {
        self.entries.values().map(|entry| &entry.last)
    }
}
