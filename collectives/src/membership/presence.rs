//! Failure detection: a host that is silent for too long is gone, one that sent BYE has left.

use super::timers::Timing;
use ethbcast_transport::Instant;
use ethbcast_transport::planted;
use ethbcast_transport::wire::Rank;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attendance {
    Here,
    Away,
    /// The member sent BYE after `calls` collectives, and replies until then.
    Leaving {
        calls: u64,
        until: Instant,
    },
    Left {
        calls: u64,
    },
    /// The member is silent for too long, or was removed.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Suspected(Rank, Duration),
    Away(Rank),
    Left(Rank),
    Gone(Rank),
}

#[derive(Clone, Copy, Debug)]
struct PresenceEntry {
    last_received_at: Instant,
    suspected: bool,
    standing: Attendance,
}

/// One member's knowledge of the others' presence, by rank.
///
/// A root checks whenever a silence is due ([`next_silence`](Presence::next_silence)) and reports
/// suspects. A member of a communicator checks at each of its keepalives and when a BYE's time is
/// over ([`next_bye`](Presence::next_bye)).
#[derive(Clone, Debug)]
pub(crate) struct Presence {
    own: Rank,
    suspect_after: Option<Duration>,
    silence_limit: Duration,
    patience: Duration,
    together: Duration,
    forgives_own_sleep: bool,
    entries: Vec<PresenceEntry>,
    looked_at: Instant,
    next_bye: Option<Instant>,
    fewest: u64,
    alone: bool,
}

impl Presence {
    /// Creates the state of `size` ranks present at `now`. Each but `own` is gone after a silence
    /// of `silence_limit`.
    pub(crate) fn new(now: Instant, own: Rank, size: u16, silence_limit: Duration) -> Presence {
        let entry = PresenceEntry {
            last_received_at: now,
            suspected: false,
            standing: Attendance::Here,
        };
        Presence {
            own,
            suspect_after: None,
            silence_limit,
            patience: Duration::ZERO,
            together: Duration::ZERO,
            forgives_own_sleep: false,
            entries: vec![entry; usize::from(size)],
            looked_at: now,
            next_bye: None,
            fewest: u64::MAX,
            alone: false,
        }
    }

    pub(crate) fn suspecting_after(self, suspect_after: Duration) -> Presence {
        Presence {
            suspect_after: Some(suspect_after),
            ..self
        }
    }

    /// Adds patience: a silent member is away first, and gone only after this additional time.
    /// Silence of all at once is this host's own fault: then no member is away.
    pub(crate) fn with_patience(self, patience: Duration) -> Presence {
        Presence { patience, ..self }
    }

    /// Counts failures within `period` as one: a member that is about to be away is away with the
    /// first, unless a frame of it comes. Members that die together sent their last frames at
    /// different moments of a period.
    pub(crate) fn together_within(self, period: Duration) -> Presence {
        Presence {
            together: period.min(self.silence_limit / 4),
            ..self
        }
    }

    /// Restarts all silences if this host has not checked for half of the silence limit: then it
    /// was asleep itself. Only a host that checks at regular intervals can tell.
    pub(crate) fn forgiving_own_sleep(self) -> Presence {
        Presence {
            forgives_own_sleep: true,
            ..self
        }
    }

    pub(crate) fn standing(&self, rank: Rank) -> Attendance {
        self.entries[rank.index()].standing
    }

    pub(crate) fn on_frame(&mut self, now: Instant, rank: Rank) -> bool {
        if std::mem::take(&mut self.alone) {
            // This host could not receive; the others' silences start again.
            self.entries
                .iter_mut()
                .for_each(|entry| entry.last_received_at = now);
        }
        let entry = &mut self.entries[rank.index()];
        entry.last_received_at = now;
        entry.suspected = false;
        if entry.standing == Attendance::Away {
            entry.standing = Attendance::Here;
        }
        matches!(
            entry.standing,
            Attendance::Here | Attendance::Leaving { .. }
        )
    }

    pub(crate) fn on_bye(&mut self, rank: Rank, calls: u64, until: Instant) {
        let until = match self.standing(rank) {
            Attendance::Here | Attendance::Away => until,
            Attendance::Leaving { until: known, .. } => known.max(until),
            Attendance::Left { .. } | Attendance::Gone => return,
        };
        self.entries[rank.index()].standing = Attendance::Leaving { calls, until };
        self.fewest = self.fewest.min(calls);
        self.next_bye = Some(self.next_bye.map_or(until, |next| next.min(until)));
    }

    /// Records that a member stays: its BYE was forged.
    pub(crate) fn on_stay(&mut self, rank: Rank) {
        let entry = &mut self.entries[rank.index()];
        if let Attendance::Leaving { .. } = entry.standing {
            entry.standing = Attendance::Here;
        }
    }

    /// Adds a rank; the limits of silence are then those of `timing`.
    pub(crate) fn admit(&mut self, now: Instant, timing: &Timing) {
        (self.silence_limit, self.suspect_after) = (timing.dead, Some(timing.suspect));
        self.together = timing.status.min(timing.dead / 4);
        self.entries.push(PresenceEntry {
            last_received_at: now,
            suspected: false,
            standing: Attendance::Here,
        });
    }

    pub(crate) fn remove(&mut self, rank: Rank) {
        self.entries[rank.index()].standing = Attendance::Gone;
    }

    pub(crate) fn first_left_before(&self, number: u64) -> Option<Rank> {
        if number < self.fewest {
            return None;
        }
        let left = |entry: &PresenceEntry| match entry.standing {
            Attendance::Left { calls } => calls <= number,
            _ => false,
        };
        self.entries
            .iter()
            .position(left)
            .map(|rank| Rank(rank as u16))
    }

    pub(crate) fn next_bye(&self) -> Option<Instant> {
        self.next_bye
    }

    pub(crate) fn silence(&self, now: Instant, rank: Rank) -> Duration {
        now.since(self.entries[rank.index()].last_received_at)
    }

    pub(crate) fn silence_limit(&self) -> Duration {
        self.silence_limit
    }

    fn others(&self) -> impl Iterator<Item = &PresenceEntry> {
        self.entries
            .iter()
            .zip((0..).map(Rank))
            .filter(|&(_, rank)| rank != self.own)
            .map(|(entry, _)| entry)
    }

    pub(crate) fn next_silence(&self) -> Option<Instant> {
        let due = |entry: &PresenceEntry| match entry.standing {
            Attendance::Here if !entry.suspected && self.suspect_after.is_some() => {
                Some(entry.last_received_at + self.suspect_after?)
            }
            Attendance::Here if !self.alone => Some(entry.last_received_at + self.silence_limit),
            Attendance::Here | Attendance::Away => {
                Some(entry.last_received_at + self.silence_limit + self.patience)
            }
            _ => None,
        };
        self.others().filter_map(due).min()
    }

    pub(crate) fn look(&mut self, now: Instant) -> Vec<Change> {
        if self.forgives_own_sleep && now.since(self.looked_at) > self.silence_limit / 2 {
            self.entries
                .iter_mut()
                .for_each(|entry| entry.last_received_at = now);
        }
        self.looked_at = now;
        // Suspects are not evidence that this host still receives.
        let heard_within = self.suspect_after.unwrap_or(self.silence_limit);
        let speaks = |entry: &PresenceEntry| match entry.standing {
            Attendance::Here | Attendance::Leaving { .. } => {
                now.since(entry.last_received_at) < heard_within
            }
            _ => false,
        };
        self.alone = self.patience > Duration::ZERO && !self.others().any(speaks);
        let mut changes = Vec::new();
        let own = self.own;
        let silent = |entry: &PresenceEntry| {
            entry.standing == Attendance::Here
                && now.since(entry.last_received_at) >= self.silence_limit
        };
        let away_after = self.silence_limit
            - if self.others().any(silent) {
                self.together
            } else {
                Duration::ZERO
            };
        for rank in (0..self.entries.len() as u16)
            .map(Rank)
            .filter(|&rank| rank != own)
        {
            changes.extend(self.look_at(now, rank, away_after));
        }
        let until = |entry: &PresenceEntry| {
            if let Attendance::Leaving { until, .. } = entry.standing {
                Some(until)
            } else {
                None
            }
        };
        self.next_bye = self.entries.iter().filter_map(until).min();
        changes
    }

    fn look_at(&mut self, now: Instant, rank: Rank, away_after: Duration) -> Option<Change> {
        let (silence_limit, patience, alone) = (self.silence_limit, self.patience, self.alone);
        let suspect_after = self.suspect_after;
        let entry = &mut self.entries[rank.index()];
        let silence = now.since(entry.last_received_at);
        match entry.standing {
            Attendance::Leaving { calls, until } if until <= now => {
                entry.standing = Attendance::Left { calls };
                Some(Change::Left(rank))
            }
            Attendance::Here | Attendance::Away if silence >= silence_limit + patience => {
                entry.standing = Attendance::Gone;
                Some(Change::Gone(rank))
            }
            Attendance::Here
                if silence >= away_after && !alone && !planted!("silence-never-noticed") =>
            {
                entry.standing = Attendance::Away;
                Some(Change::Away(rank))
            }
            Attendance::Here
                if !entry.suspected && suspect_after.is_some_and(|after| silence >= after) =>
            {
                entry.suspected = true;
                Some(Change::Suspected(rank, silence))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    #[test]
    fn a_root_suspects_first_and_then_gives_up() {
        let mut presence = Presence::new(at(0), Rank(0), 3, Duration::from_millis(1500))
            .suspecting_after(Duration::from_millis(300));
        presence.on_frame(at(100), Rank(2));
        assert_eq!(presence.next_silence(), Some(at(300)));
        assert_eq!(
            presence.look(at(300)),
            [Change::Suspected(Rank(1), Duration::from_millis(300))]
        );
        presence.on_frame(at(400), Rank(2));
        assert_eq!(presence.next_silence(), Some(at(700)));
        presence.remove(Rank(2));
        assert_eq!(
            (presence.next_silence(), presence.look(at(1499))),
            (Some(at(1500)), vec![])
        );
        assert_eq!(presence.look(at(1500)), [Change::Gone(Rank(1))]);
        assert_eq!(
            (presence.next_silence(), presence.look(at(9000))),
            (None, vec![])
        );
    }

    #[test]
    fn a_member_that_sends_bye_has_left_at_the_end_and_is_not_gone() {
        let mut presence = Presence::new(at(0), Rank(0), 2, Duration::from_millis(1500));
        presence.on_bye(Rank(1), 7, at(50));
        presence.on_bye(Rank(1), 7, at(40));
        assert_eq!(
            (
                presence.next_bye(),
                presence.first_left_before(6),
                presence.first_left_before(7)
            ),
            (Some(at(50)), None, None),
            "it may be somebody else who said so"
        );
        assert!(presence.on_frame(at(45), Rank(1)) && presence.look(at(49)).is_empty());
        assert_eq!(presence.look(at(50)), [Change::Left(Rank(1))]);
        assert_eq!(
            (presence.first_left_before(6), presence.first_left_before(7)),
            (None, Some(Rank(1)))
        );
        assert_eq!(
            (presence.next_bye(), presence.standing(Rank(1))),
            (None, Attendance::Left { calls: 7 })
        );
        assert!(
            !presence.on_frame(at(60), Rank(1)),
            "its frames do not count any more"
        );
    }

    #[test]
    fn a_keepalive_withdraws_a_bye() {
        let mut presence = Presence::new(at(0), Rank(0), 2, Duration::from_millis(1500));
        presence.on_bye(Rank(1), 7, at(50));
        presence.on_stay(Rank(1));
        assert_eq!(
            (presence.look(at(50)), presence.standing(Rank(1))),
            (vec![], Attendance::Here)
        );
    }

    #[test]
    fn a_host_that_was_paused_itself_declares_nobody_silent() {
        let mut presence =
            Presence::new(at(0), Rank(0), 2, Duration::from_millis(1500)).forgiving_own_sleep();
        assert_eq!(presence.look(at(5000)), []);
        let looks = (1..=15).flat_map(|tick| presence.look(at(5000 + tick * 100)));
        assert_eq!(looks.collect::<Vec<_>>(), [Change::Gone(Rank(1))]);
    }

    #[test]
    fn a_silent_member_is_waited_for_unless_all_are_silent_and_may_come_back() {
        let presence = Presence::new(at(0), Rank(0), 3, Duration::from_millis(1500));
        let mut presence = presence
            .suspecting_after(Duration::from_millis(300))
            .with_patience(Duration::from_secs(3));
        presence.look(at(300));
        assert_eq!(
            (presence.look(at(1600)), presence.next_silence()),
            (vec![], Some(at(4500))),
            "all are silent"
        );
        presence.on_frame(at(2000), Rank(1));
        assert_eq!(
            presence.look(at(2100)),
            [],
            "the other is given as long anew"
        );
        presence.on_frame(at(3400), Rank(1));
        assert_eq!(presence.look(at(3500)), [Change::Away(Rank(2))]);
        assert!(presence.on_frame(at(3600), Rank(2)), "it has come back");
        assert_eq!(presence.standing(Rank(2)), Attendance::Here);
        (36..=80).for_each(|tick| assert!(presence.on_frame(at(tick * 100), Rank(1))));
        assert_eq!(presence.look(at(8050)), [Change::Away(Rank(2))]);
        presence.on_frame(at(8100), Rank(1));
        assert_eq!(presence.look(at(8100)), [Change::Gone(Rank(2))]);
    }
}
