//! Who is there: a member that is silent for long is gone, one that said good-bye has left.

use ethbcast_transport::Instant;
use std::time::Duration;

/// Whether a member is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Here,
    /// It said good-bye after so many collectives, and answers until then.
    Leaving {
        calls: u64,
        until: Instant,
    },
    /// It has left after so many collectives.
    Left {
        calls: u64,
    },
    /// It is silent.
    Gone,
}

/// What one member knows of the others' presence.
#[derive(Debug)]
pub(crate) struct Watch {
    own: u16,
    gone_after: Duration,
    heard_at: Vec<Instant>,
    presence: Vec<Presence>,
    looked_at: Instant,
    /// When the next good-bye is over.
    due: Option<Instant>,
    /// The fewest collectives after which a member has left.
    fewest: u64,
}

/// What a look at the clock has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Left(u16),
    Gone(u16),
}

impl Watch {
    pub(crate) fn new(now: Instant, own: u16, size: u16, gone_after: Duration) -> Watch {
        let ranks = usize::from(size);
        Watch {
            own,
            gone_after,
            heard_at: vec![now; ranks],
            presence: vec![Presence::Here; ranks],
            looked_at: now,
            due: None,
            fewest: u64::MAX,
        }
    }

    pub(crate) fn presence(&self, rank: u16) -> Presence {
        self.presence[usize::from(rank)]
    }

    /// Whether frames of a member still count; if so, it has been heard.
    pub(crate) fn hear(&mut self, now: Instant, rank: u16) -> bool {
        self.heard_at[usize::from(rank)] = now;
        matches!(self.presence(rank), Presence::Here | Presence::Leaving { .. })
    }

    /// A member has said good-bye after so many collectives, and answers until then at least.
    pub(crate) fn on_bye(&mut self, rank: u16, calls: u64, until: Instant) {
        let until = match self.presence(rank) {
            Presence::Here => until,
            Presence::Leaving { until: known, .. } => known.max(until),
            Presence::Left { .. } | Presence::Gone => return,
        };
        self.presence[usize::from(rank)] = Presence::Leaving { calls, until };
        self.fewest = self.fewest.min(calls);
        self.due = Some(self.due.map_or(until, |due| due.min(until)));
    }

    /// When a good-bye is over, which is to be looked at.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// A member that has left before collective `number`.
    pub(crate) fn who_left_before(&self, number: u64) -> Option<u16> {
        if number < self.fewest {
            return None;
        }
        let left = |presence: &Presence| match *presence {
            Presence::Leaving { calls, .. } | Presence::Left { calls } => calls <= number,
            _ => false,
        };
        self.presence.iter().position(left).map(|rank| rank as u16)
    }

    /// Looks who has been silent, and whose good-bye is over.
    pub(crate) fn look(&mut self, now: Instant) -> Vec<Change> {
        // Whoever has slept itself cannot say who was silent.
        if now.since(self.looked_at) > self.gone_after / 2 {
            self.heard_at.fill(now);
        }
        self.looked_at = now;
        let mut changes = Vec::new();
        for rank in (0..self.presence.len() as u16).filter(|&rank| rank != self.own) {
            let at = usize::from(rank);
            match self.presence[at] {
                Presence::Leaving { calls, until } if until <= now => {
                    self.presence[at] = Presence::Left { calls };
                    changes.push(Change::Left(rank));
                }
                Presence::Here if now.since(self.heard_at[at]) > self.gone_after => {
                    self.presence[at] = Presence::Gone;
                    changes.push(Change::Gone(rank));
                }
                _ => {}
            }
        }
        let until = |presence: &Presence| if let Presence::Leaving { until, .. } = presence { Some(*until) } else { None };
        self.due = self.presence.iter().filter_map(until).min();
        changes
    }
}
