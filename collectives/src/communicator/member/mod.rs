//! One process of a group: a state machine that finds the others, exchanges messages with them and makes collectives possible.

mod agreement;
mod calls;
mod clockwork;
mod group;
mod leaving;
mod messages;
mod neighbours;
mod outcomes;
mod stats;
mod streams;
mod way;

pub(super) use group::Group;
pub(super) use messages::FIRST_RESERVED_TAG;
pub(super) use neighbours::{StreamName, Way};
pub use stats::{MemberMemory, MemberStats};

use super::assembly::Assembly;
use super::config::Config;
use super::error::CommunicatorError;
use super::roster::Roster;
use ethbcast_transport::Instant;
use way::Ways;

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
    group: Option<Box<Group>>,
    /// Decides which way broadcasts take, if what the network costs is known.
    ways: Option<Ways>,
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
        let ways = config.calibration.clone().map(Ways::new);
        let mut member = Member {
            ways,
            assembly: Assembly::new(now, config),
            refusal: None,
            group: None,
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
            None => Ok(self.group.is_some()),
        }
    }

    fn join_if_confirmed(&mut self, now: Instant) {
        if self.refusal.is_none() && self.assembly.is_confirmed() {
            self.join(now);
        }
    }

    /// All have the same list: the group begins.
    fn join(&mut self, now: Instant) {
        let (config, roster) = (self.assembly.config(), self.assembly.roster());
        let own = config.station.mac;
        if let Some((roster, rank)) = roster.and_then(|roster| Some((roster, roster.rank_of(own)?)))
            && self.group.is_none()
        {
            self.group = Some(Box::new(Group::new(now, config, roster.clone(), rank)));
        }
    }

    /// What the group's members share, once it is complete and until this one leaves.
    ///
    /// # Errors
    /// If it is not, or this one has left.
    pub(super) fn group(&mut self) -> Result<&mut Group, CommunicatorError> {
        let group = self.group.as_deref_mut().ok_or(CommunicatorError::NotJoined)?;
        if group.is_leaving() { Err(CommunicatorError::Closed) } else { Ok(group) }
    }

    /// This process's rank, once the group is complete.
    pub fn rank(&self) -> Option<u16> {
        self.group.as_ref().map(|group| group.rank())
    }

    /// The number that all frames of the group carry, once it is complete.
    pub fn session(&self) -> Option<u32> {
        self.group.as_ref().map(|group| group.roster.session())
    }

    /// How many ranks there are to be.
    pub fn size(&self) -> u16 {
        self.assembly.config().size
    }

    /// The hosts' names by rank; none before the group is complete.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        let roster = self.group.as_ref().map(|group| &group.roster);
        roster.into_iter().flat_map(Roster::entries).map(|entry| entry.host.as_str())
    }

    /// The MTU of the group's frames, the smallest of all members', once the group is complete.
    pub fn mtu_bytes(&self) -> Option<u16> {
        self.group.as_ref().map(|group| group.roster.mtu_bytes())
    }

    /// Leaves the group as soon as the others have what they were sent, at the latest at `by`. What still comes is thrown away.
    pub fn leave(&mut self, now: Instant, by: Instant) {
        match &mut self.group {
            Some(group) => group.leave(now, by),
            None => self.given_up = true,
        }
    }

    /// Whether calls make sense: the group is complete, and this rank is not on its way out.
    pub fn is_open(&self) -> bool {
        self.group.as_ref().is_some_and(|group| !group.is_leaving())
    }

    /// Whether it has left, and need not be driven any more.
    pub fn has_left(&self) -> bool {
        self.group.as_ref().map_or(self.given_up, |group| group.is_over())
    }

    /// Whether nothing is on its way, owed or awaited, signs of life apart; true as well before the group is complete.
    pub fn is_quiet(&self) -> bool {
        self.group.as_ref().is_none_or(|group| group.is_quiet())
    }
}
