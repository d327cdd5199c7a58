//! Timeouts after which a silent host counts as stalled or dead, and intervals of repeated
//! messages.

use ethbcast_transport::wire::Rank;
use ethbcast_transport::{Deadline, Instant, Timer, with_defaults};
use std::time::Duration;

/// Purpose of a timer. `Join` is for an unanswered join request or for candidates, `Leave` for
/// leaving even if something is still open, `CatchUp` for frames by unicast to demoted receivers,
/// and `Change` for changes that are announced together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Announce,
    Join,
    View,
    Status,
    Silence,
    Verdict,
    Leave,
    CatchUp,
    Change,
    Fetch,
    LivenessReply,
}

impl Wait {
    const LABELS: [Timer; 11] = [
        Timer("announce"),
        Timer("join"),
        Timer("view"),
        Timer("status"),
        Timer("silence"),
        Timer("verdict"),
        Timer("leave"),
        Timer("catch-up"),
        Timer("change"),
        Timer("fetch"),
        Timer("liveness reply"),
    ];

    pub(crate) fn at(self, at: Instant) -> Deadline {
        Deadline {
            at,
            why: Wait::LABELS[self as usize],
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimerTable {
    due: [Option<Instant>; Wait::LABELS.len()],
}

impl TimerTable {
    pub(crate) fn set(&mut self, wait: Wait, at: Instant) {
        self.due[wait as usize] = Some(at);
    }

    pub(crate) fn set_unless_set(&mut self, wait: Wait, at: Instant) {
        self.due[wait as usize].get_or_insert(at);
    }

    pub(crate) fn clear(&mut self, wait: Wait) {
        self.due[wait as usize] = None;
    }

    pub(crate) fn is_set(&self, wait: Wait) -> bool {
        self.due[wait as usize].is_some()
    }

    pub(crate) fn take_due(&mut self, wait: Wait, now: Instant) -> bool {
        self.due[wait as usize].take_if(|at| *at <= now).is_some()
    }

    pub(crate) fn next(&self) -> Option<Deadline> {
        self.due
            .into_iter()
            .zip(Wait::LABELS)
            .filter_map(|(at, why)| Some(Deadline { at: at?, why }))
            .min()
    }
}

with_defaults! {
    /// Intervals and timeouts of a session.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Timing {
        /// Interval of the root's invitations.
        pub announce: Duration = Duration::from_millis(100),
        /// Interval of join requests; also keeps a candidate on the root's list.
        pub join: Duration = Duration::from_millis(100),
        /// Interval of repetitions of a view that not all members have confirmed.
        pub view: Duration = Duration::from_millis(50),
        /// Interval of status reports.
        pub status: Duration = Duration::from_millis(100),
        /// Silence after which a member is suspected (a warning in the log).
        pub suspect: Duration = Duration::from_millis(300),
        /// Silence after which a member is demoted.
        pub dead: Duration = Duration::from_millis(1500),
        /// Silence before the start after which a candidate or a sender is forgotten.
        pub forgotten: Duration = Duration::from_millis(1500),
        /// Additional wait for a silent member: a switch may relearn, a cable may have been pulled.
        pub patience: Duration = Duration::from_secs(30),
        /// Time without progress after which a member that is not silent is demoted.
        pub stall: Duration = Duration::from_secs(10),
        /// Longest time in which a member may sync or verify what it has received.
        pub sync: Duration = Duration::from_secs(120),
        /// Time for which a member may delay the others before it is demoted.
        pub slow: Duration = Duration::from_secs(2),
        /// Interval of repetitions of a verdict.
        pub verdict: Duration = Duration::from_millis(50),
        /// Repetitions of the root's message that the session is over or aborted.
        pub farewells: u32 = 3,
    }
}

impl Timing {
    /// Returns these times with another silence after which a member is demoted: 50 ms to half a
    /// minute. Signs of life are more frequent in proportion: several may be lost before silence
    /// counts.
    pub fn with_dead(self, dead: Duration) -> Option<Timing> {
        let bounds = Duration::from_millis(50)..=Duration::from_secs(30);
        let (suspect, status) = (self.suspect.min(dead / 2), self.status.min(dead / 10));
        bounds.contains(&dead).then_some(Timing {
            dead,
            suspect,
            status,
            ..self
        })
    }

    /// Returns these times among `receivers`. The root gets 8000 status reports a second at most,
    /// so with more than 800 receivers each reports less often: three reports must be lost until it
    /// is suspected, seven until it is demoted, and progress is judged over seven.
    #[must_use]
    pub fn among(self, receivers: usize) -> Timing {
        let status = REPORT_SPACING * receivers as u32;
        if status <= self.status {
            return self;
        }
        let [suspect, seven] = [status * 3, status * 7];
        Timing {
            status,
            // Each member has had its turn to confirm a view before it is repeated.
            view: self.view.max(SPACING * receivers as u32 * 5 / 4),
            suspect: self.suspect.max(suspect),
            dead: self.dead.max(seven),
            stall: self.stall.max(seven),
            slow: self.slow.max(seven),
            ..self
        }
    }

    /// Returns `time`, or that of `reports` of one member if it is longer: a single report may be
    /// old or forged.
    pub(crate) fn or_reports(&self, time: Duration, reports: u32) -> Duration {
        time.max(self.status * reports)
    }

    /// Returns the time by which the newest report of a member may be older than among 800
    /// receivers.
    pub(crate) fn lag(&self) -> Duration {
        self.status.saturating_sub(Timing::default().status)
    }
}

const REPORT_SPACING: Duration = Duration::from_micros(125);

/// Interval of repetitions of an urgent message: a failure of the group, or a BYE.
pub(crate) const URGENT_INTERVAL: Duration = Duration::from_micros(12_500);

/// Interval of repetitions of a member's claim that its part is over.
pub(crate) const CLAIM_PERIOD: Duration = URGENT_INTERVAL;

/// Receivers whose simultaneous frames a switch's port can buffer, even if all ports share little
/// memory.
const UNSPACED_MEMBERS: usize = 16;
/// Interval above that: a short frame's time at 100 Mbit/s, so that the root's port does not
/// overflow.
const SPACING: Duration = Duration::from_micros(20);

/// Returns a member's delay before a message that all `members` send at one moment.
pub(crate) fn turn(rank: Rank, members: usize) -> Duration {
    if members <= UNSPACED_MEMBERS {
        Duration::ZERO
    } else {
        SPACING * u32::from(rank.0)
    }
}

pub(crate) fn jitter(period: Duration, seed: u64) -> Duration {
    // Fibonacci hashing (Knuth 6.4): the upper bits of the product depend on all of the seed.
    period * (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54) as u32 / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_timer_is_next_and_a_timer_taken_is_cleared() {
        let at = Instant::from_nanos;
        let mut timers = TimerTable::default();
        timers.set(Wait::View, at(20));
        timers.set_unless_set(Wait::View, at(10));
        timers.set(Wait::Leave, at(15));
        assert_eq!(timers.next(), Some(Wait::Leave.at(at(15))));
        assert!(timers.take_due(Wait::Leave, at(15)) && !timers.take_due(Wait::Leave, at(99)));
        assert!(!timers.take_due(Wait::View, at(19)) && timers.is_set(Wait::View));
        timers.clear(Wait::View);
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn every_timer_has_a_place_of_its_own() {
        let last = Wait::LivenessReply.at(Instant::START);
        assert_eq!(
            (Wait::LivenessReply as usize + 1, last.why),
            (Wait::LABELS.len(), Timer("liveness reply"))
        );
    }
}

#[cfg(test)]
mod timing_tests {
    use super::*;

    #[test]
    fn however_many_report_to_a_root_it_gets_8000_reports_a_second_and_seven_before_one_is_dead() {
        let (own, millis) = (Timing::default(), Duration::from_millis);
        let times = |receivers: usize| {
            let Timing {
                status,
                suspect,
                dead,
                ..
            } = own.among(receivers);
            [status, suspect, dead].map(|time| time.as_millis())
        };
        assert_eq!(own.among(800), own, "up to here nothing changes");
        assert_eq!(
            (times(1000), times(10_000)),
            ([125, 375, 1500], [1250, 3750, 8750])
        );
        let short = own.with_dead(millis(500)).expect("within its bounds");
        assert_eq!(
            [2000, 10_000].map(|receivers| own.among(receivers).view.as_millis()),
            [50, 250]
        );
        assert_eq!(
            (short.among(400), short.among(1000).dead),
            (short, millis(875))
        );
    }

    #[test]
    fn reports_of_a_thousand_are_spread_in_time_and_those_of_ten_are_not() {
        assert_eq!(
            (turn(Rank(9), 10), turn(Rank(999), 1000)),
            (Duration::ZERO, Duration::from_micros(19_980))
        );
        let period = Duration::from_millis(50);
        let early = (0..1000)
            .filter(|&nonce| jitter(period, nonce) < period / 4)
            .count();
        assert!(
            (200..300).contains(&early) && (0..1000).all(|nonce| jitter(period, nonce) < period),
            "{early} of 1000"
        );
    }
}
