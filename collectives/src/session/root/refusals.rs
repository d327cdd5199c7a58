//! Hosts that were turned away, with the last refusal of each.

use super::event::TurnedAway;
use super::{RootEndpoint, RootEvent};
use crate::session::message::Message;
use ethbcast_transport::{Instant, MacAddr};
use std::collections::BTreeMap;
use std::time::Duration;

/// Minimum time between two refusals to a host.
const REFUSAL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of hosts remembered; others are refused and not counted.
const MAX_REMEMBERED: usize = 4096;

#[derive(Clone, Debug)]
struct RefusalEntry {
    last: TurnedAway,
    told_at: Instant,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Refusals {
    entries: BTreeMap<MacAddr, RefusalEntry>,
}

impl Refusals {
    /// Sends a refusal, unless one was sent just now. The user hears of it once per reason.
    pub(super) fn refuse(
        &mut self,
        now: Instant,
        to: MacAddr,
        nonce: u64,
        away: TurnedAway,
        endpoint: &mut RootEndpoint,
    ) {
        let known = self.entries.get_mut(&to);
        if known.as_ref().is_some_and(|entry| now < entry.told_at + REFUSAL_INTERVAL && entry.last.why == away.why) {
            return;
        }
        endpoint.reply(to, &Message::Refuse { nonce, why: away.why, text: away.text.clone() });
        let is_news = known.as_ref().is_none_or(|entry| entry.last.why != away.why || entry.last.host != away.host);
        if known.is_none() && self.entries.len() >= MAX_REMEMBERED {
            return;
        }
        if is_news {
            endpoint.push_event(RootEvent::Refused { host: away.host.clone(), mac: away.mac, text: away.text.clone() });
        }
        self.entries.insert(to, RefusalEntry { last: away, told_at: now });
    }

    pub(super) fn forget(&mut self, host: MacAddr) {
        self.entries.remove(&host);
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &TurnedAway> + '_ {
        self.entries.values().map(|entry| &entry.last)
    }
}
