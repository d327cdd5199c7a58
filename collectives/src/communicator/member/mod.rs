//! One process of a group: a state machine that finds the others, exchanges messages with them and makes collectives possible.

mod agreement;
mod calls;
mod clockwork;
mod leaving;
mod membership;
mod messages;
mod outcomes;
mod place;
mod route;
mod stats;
mod streams;

pub(super) use membership::Membership;
pub(super) use messages::FIRST_RESERVED_TAG;
pub(super) use place::{StreamName, Way};
pub use stats::{MemberMemory, MemberStats};

use super::assembly::Assembly;
use super::config::Config;
use super::error::CommunicatorError;
use super::roll::Roll;
use ethbcast_transport::Instant;
use route::Route;

/// One process of a group.
///
/// It is a [`Machine`](ethbcast_transport::Machine): drive it until [`joined`](Member::joined), go on driving it for as long as
/// it lives, so that the others see that it is there, and in the end [`leave`](Member::leave) and drive it until it
/// [`has_left`](Member::has_left). Messages and collectives are asked for in between.
#[derive(Debug)]
pub struct Member {
    assembly: Assembly,
    /// Why there will be no group.
    refusal: Option<CommunicatorError>,
    membership: Option<Box<Membership>>,
    /// Decides which way broadcasts take, if what the network costs is known.
    route: Option<Route>,
    /// A call waits to be sent; it is the answer to a late one if the group is complete.
    call_pending: bool,
    answered_at: Option<Instant>,
    /// It left before the group was complete.
    given_up: bool,
    stats: MemberStats,
}

impl Member {
    /// A process that begins to look for the others.
    ///
    /// # Errors
    /// If a name, the size or the MTU cannot be.
    pub fn begin(now: Instant, config: Config) -> Result<Member, CommunicatorError> {
        config.check()?;
        let route = config.calibration.clone().map(Route::new);
        let mut member = Member {
            route,
            assembly: Assembly::new(now, config),
            refusal: None,
            membership: None,
            call_pending: false,
            answered_at: None,
            given_up: false,
            stats: MemberStats::default(),
        };
        member.join_if_confirmed(now);
        Ok(member)
    }

    /// Whether the group is complete and all know it.
    ///
    /// # Errors
    /// If there will be no group, and why.
    pub fn joined(&self) -> Result<bool, CommunicatorError> {
        match &self.refusal {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(self.membership.is_some()),
        }
    }

    fn join_if_confirmed(&mut self, now: Instant) {
        if self.refusal.is_none() && self.assembly.is_confirmed() {
            self.join(now);
        }
    }

    /// All have the same list: the group begins.
    fn join(&mut self, now: Instant) {
        let (config, roll) = (self.assembly.config(), self.assembly.roll());
        let own = config.station.mac;
        if let Some((roll, rank)) = roll.and_then(|roll| Some((roll, roll.rank_of(own)?)))
            && self.membership.is_none()
        {
            self.membership = Some(Box::new(Membership::new(now, config, roll.clone(), rank)));
        }
    }

    /// What the group's members share, once it is complete and until this one leaves.
    ///
    /// # Errors
    /// If it is not, or this one has left.
    pub(super) fn membership(&mut self) -> Result<&mut Membership, CommunicatorError> {
        let membership = self.membership.as_deref_mut().ok_or(CommunicatorError::NotJoined)?;
        if membership.is_leaving() { Err(CommunicatorError::Closed) } else { Ok(membership) }
    }

    /// This process's rank, once the group is complete.
    pub fn rank(&self) -> Option<u16> {
        self.membership.as_ref().map(|membership| membership.rank())
    }

    /// The number that all frames of the group carry, once it is complete.
    pub fn session(&self) -> Option<u32> {
        self.membership.as_ref().map(|membership| membership.roll.session())
    }

    /// How many ranks there are to be.
    pub fn size(&self) -> u16 {
        self.assembly.config().size
    }

    /// The hosts' names by rank; none before the group is complete.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        let roll = self.membership.as_ref().map(|membership| &membership.roll);
        roll.into_iter().flat_map(Roll::entries).map(|entry| entry.host.as_str())
    }

    /// The MTU of the group's frames, the smallest of all members', once the group is complete.
    pub fn mtu_bytes(&self) -> Option<u16> {
        self.membership.as_ref().map(|membership| membership.roll.mtu_bytes())
    }

    /// Leaves the group as soon as the others have what they were sent, at the latest at `by`. What still comes is thrown away.
    pub fn leave(&mut self, now: Instant, by: Instant) {
        match &mut self.membership {
            Some(membership) => membership.leave(now, by),
            None => self.given_up = true,
        }
    }

    /// Whether calls make sense: the group is complete, and this rank is not on its way out.
    pub fn is_open(&self) -> bool {
        self.membership.as_ref().is_some_and(|membership| !membership.is_leaving())
    }

    /// Whether it has left, and need not be driven any more.
    pub fn has_left(&self) -> bool {
        self.membership.as_ref().map_or(self.given_up, |membership| membership.is_over())
    }

    /// Whether nothing is on its way, owed or awaited, signs of life apart; true as well before the group is complete.
    pub fn is_quiet(&self) -> bool {
        self.membership.as_ref().is_none_or(|membership| membership.is_quiet())
    }
}
