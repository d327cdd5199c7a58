//! The clockwork of a session; DESIGN §8 unless said otherwise.

use ethbcast_transport::Instant;
use std::time::Duration;

/// Periods and patience of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Between two invitations of the root.
    pub announce: Duration,
    /// Between two requests to join; also what keeps a candidate on the root's list.
    pub join: Duration,
    /// Between two repetitions of a view that not all members have confirmed.
    pub view: Duration,
    /// Between two signs of life.
    pub status: Duration,
    /// Silence after which a member is suspected (a warning in the log).
    pub suspect: Duration,
    /// Silence after which a member, or the root, counts as dead.
    pub dead: Duration,
    /// Between two repetitions of a verdict.
    pub verdict: Duration,
    /// How often the root repeats that the session is over, or has been given up.
    pub farewells: u32,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            announce: Duration::from_millis(100),
            join: Duration::from_millis(100),
            view: Duration::from_millis(50),
            status: Duration::from_millis(100),
            suspect: Duration::from_millis(300),
            dead: Duration::from_millis(1500),
            verdict: Duration::from_millis(50),
            farewells: 3,
        }
    }
}

/// Takes a timer's moment if it has come.
pub(super) fn take_due(due: &mut Option<Instant>, now: Instant) -> bool {
    let is_due = due.is_some_and(|at| at <= now);
    if is_due {
        *due = None;
    }
    is_due
}
