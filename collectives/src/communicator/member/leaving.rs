//! How a member leaves: not before the others have what it sent them, and not without a word.

use super::Group;
use super::group::HURRY;
use ethbcast_transport::Instant;

/// How often a good-bye is repeated: for 75 ms, in which a sender whose acknowledgement was lost asks for it three times.
pub(super) const FAREWELLS: u8 = 5;

/// How a member leaves.
#[derive(Clone, Copy, Debug)]
pub(super) enum Leaving {
    No,
    /// It waits until the others have what it has sent, until this moment at most.
    Settling {
        by: Instant,
    },
    /// It says good-bye: so many times more, next at `due`, and begins anew if somebody needs something, until `by`.
    Parting {
        repeats: u8,
        due: Instant,
        by: Instant,
    },
    Over,
}

impl Leaving {
    /// Somebody needs something of a member that says good-bye: it stays a little longer.
    pub(super) fn linger(&mut self, now: Instant) {
        if let Leaving::Parting { repeats, by, .. } = self
            && now < *by
        {
            *repeats = FAREWELLS;
        }
    }

    /// When the next step is due.
    pub(super) fn due(&self) -> Option<Instant> {
        match *self {
            Leaving::Settling { by: at } | Leaving::Parting { due: at, .. } => Some(at),
            Leaving::No | Leaving::Over => None,
        }
    }
}

impl Group {
    /// Leaves as soon as the others have what they were sent, at the latest at `by`; what comes meanwhile is thrown away.
    pub(super) fn leave(&mut self, now: Instant, by: Instant) {
        if matches!(self.leaving, Leaving::No) {
            self.leaving = Leaving::Settling { by };
            for id in self.outcomes.posted() {
                if self.mailbox.cancel_recv(id) {
                    self.outcomes.forget_receive(id);
                }
            }
            self.leave_on(now);
        }
    }

    /// The next step of leaving, if it is time for it.
    pub(super) fn leave_on(&mut self, now: Instant) {
        match self.leaving {
            Leaving::Settling { by } => {
                self.streams.discard(now);
                if self.size() == 1 {
                    self.leaving = Leaving::Over;
                } else if by <= now || self.is_quiet() {
                    self.part(now, FAREWELLS, by);
                }
            }
            Leaving::Parting { repeats, due, by } if due <= now => match repeats.checked_sub(1) {
                Some(repeats) => self.part(now, repeats, by),
                None => self.leaving = Leaving::Over,
            },
            _ => {}
        }
    }

    fn part(&mut self, now: Instant, repeats: u8, by: Instant) {
        self.leaving = Leaving::Parting { repeats, due: now + HURRY, by };
        self.bye_pending = Some(repeats);
    }

    pub(super) fn is_leaving(&self) -> bool {
        !matches!(self.leaving, Leaving::No)
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.leaving, Leaving::Over)
    }
}
