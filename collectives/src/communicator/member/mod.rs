//! One rank of a communicator, as a state machine without I/O.

mod agreement;
mod calls;
mod group;
mod keepalive;
mod plans;
mod probing;
mod shrinking;
mod streams;
mod waits;
mod way;

pub(super) use group::Group;
pub(super) use plans::{Bundle, MEETING_FRAMES, Passage, TreePlace, UNASKED_FRAMES, message_bytes};
pub(super) use streams::{FIRST_RESERVED_TAG, Handover};
pub(super) use way::{MessagePath, StreamName};

use super::assembly::Assembly;
use super::body::{CallBody, ShrinkBody};
use super::config::{Config, period};
use super::description::Description;
use super::error::CommunicatorError;
use super::roster::Roster;
use super::seals::{Seals, other_keys};
use crate::membership::Station;
use ethbcast_planning::model::Choice;
use ethbcast_transport::messages::{
    MailboxMemory, MailboxStats, RecvId, RecvOutcome, SendId, SendOutcome,
};
use ethbcast_transport::stream::{Memory, StreamStats};
use ethbcast_transport::wire::{Frame, Guard, Rank, Reject};
use ethbcast_transport::{AuditError, Instant, MacAddr};
use shrinking::Former;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One process of a group.
///
/// A member is a [`Machine`](ethbcast_transport::Machine). Drive it until
/// [`joined`](Member::joined), and then for as long as it lives, so that the others see that it is
/// alive. In the end [`leave`](Member::leave) and drive it until it [`has_left`](Member::has_left).
/// Messages and collectives are requested in between.
#[derive(Clone, Debug)]
pub struct Member {
    assembly: Assembly,
    refusal: Option<CommunicatorError>,
    group: Option<Box<Group>>,
    seals: Option<Box<Seals>>,
    /// The group before it was shrunk, in which other ranks may still be.
    former: Option<Box<Former>>,
    /// Number of subgroups made with keys, by name and ranks: equal ones have different secrets.
    subgroups: BTreeMap<(String, Vec<Rank>), u64>,
    calls_pending: u16,
    answered_at: Option<Instant>,
    given_up: bool,
    stats: MemberStats,
}

impl Member {
    /// Creates a process that begins to look for the others.
    ///
    /// # Errors
    /// If a name, the size or the MTU is invalid.
    pub fn begin(now: Instant, config: Config) -> Result<Member, CommunicatorError> {
        config.check()?;
        let seals = config
            .keys
            .clone()
            .map(|keys| Box::new(Seals::new(keys, config.size)));
        let mut member = Member::with(now, config, seals, None);
        if let Some(fault) = member.assembly.fault() {
            return Err(fault);
        }
        member.join_if_confirmed(now);
        Ok(member)
    }

    /// Whether the group is complete, all ranks know it, and a requested measurement is done.
    ///
    /// # Errors
    /// The reason why there will be no group.
    pub fn joined(&self) -> Result<bool, CommunicatorError> {
        match (&self.refusal, &self.group) {
            (Some(refusal), _) => Err(refusal.clone()),
            (None, Some(group)) if group.is_unconfigured() => Err(CommunicatorError::Unmeasured {
                host: group.roster().entries()[0].host.clone(),
            }),
            (None, group) => Ok(group.as_ref().is_some_and(|group| group.is_ready())),
        }
    }

    /// Creates this process's part in another group, of some ranks of this one in the order given,
    /// as `MPI_Comm_create_group` does. The group has `station`'s name; it goes on beside this one,
    /// with frames of its own number. Nothing is sent for it: all its ranks create it, with equal
    /// names and ranks.
    ///
    /// # Errors
    /// If this group is not complete, or there are no such ranks, or this process is not one of
    /// them.
    pub fn subgroup(
        &mut self,
        now: Instant,
        ranks: &[Rank],
        station: Station,
    ) -> Result<Member, CommunicatorError> {
        let config = Config {
            station,
            ..self.assembly.config().clone()
        };
        let description = self.description()?;
        if config.keys.is_none() {
            return Member::made(now, &description, (ranks, 0), config);
        }
        let earlier = self
            .subgroups
            .entry((config.station.group.clone(), ranks.to_vec()))
            .or_default();
        let made = Member::made(now, &description, (ranks, *earlier), config)?;
        *earlier += 1;
        Ok(made)
    }

    /// Returns what other processes of this host need for [`within`](Member::within).
    ///
    /// # Errors
    /// If the group is not complete.
    pub fn description(&mut self) -> Result<Description, CommunicatorError> {
        let cluster = self.seals.as_ref().map(|seals| seals.cluster());
        let group = self
            .group
            .as_deref_mut()
            .filter(|group| group.is_ready())
            .ok_or(CommunicatorError::NotJoined)?;
        Ok(group.description(cluster))
    }

    /// Creates a process's part in a group, as [`subgroup`](Member::subgroup) does at the rank that
    /// has described its own: the process takes its place, and has its address. The preset and the
    /// keys are those of the group described. With a key no other group of these ranks may have
    /// had the name: both would be encrypted alike.
    ///
    /// # Errors
    /// If there are no such ranks, or the one that has described the group is none of them or has
    /// another address, or the keys are not its.
    pub fn within(
        now: Instant,
        description: &Description,
        ranks: &[Rank],
        config: Config,
    ) -> Result<Member, CommunicatorError> {
        Member::made(now, description, (ranks, 0), config)
    }

    fn made(
        now: Instant,
        description: &Description,
        (ranks, earlier): (&[Rank], u64),
        config: Config,
    ) -> Result<Member, CommunicatorError> {
        let name = (&*config.station.group, earlier);
        let (roster, network, seals) = description.within(name, ranks, config.keys.as_ref())?;
        let config = Config {
            size: roster.size(),
            join_by: None,
            ..config
        };
        config.check()?;
        let own = config.station.mac;
        let rank = roster
            .rank_of(own)
            .filter(|_| own == description.mac())
            .ok_or_else(|| CommunicatorError::NotOfSubgroup {
                group: config.station.group.clone(),
            })?;
        let group = Group::new(
            now,
            &guarded(&config, seals.as_deref()),
            roster,
            Arc::new(network),
            rank,
        )
        .encrypted(seals.as_deref().map(Seals::cipher));
        Ok(Member::with(now, config, seals, Some(Box::new(group))))
    }

    fn with(
        now: Instant,
        config: Config,
        seals: Option<Box<Seals>>,
        group: Option<Box<Group>>,
    ) -> Member {
        let guard = seals
            .as_ref()
            .map_or(Guard::Plain, |seals| seals.cluster_guard());
        let config = Config {
            station: Station {
                guard,
                ..config.station
            },
            ..config
        };
        Member {
            assembly: Assembly::new(now, config),
            refusal: None,
            group,
            seals,
            former: None,
            subgroups: BTreeMap::new(),
            calls_pending: 0,
            answered_at: None,
            given_up: false,
            stats: MemberStats::default(),
        }
    }

    fn join_if_confirmed(&mut self, now: Instant) {
        if self.refusal.is_none() && self.assembly.is_confirmed() {
            self.join(now);
        }
    }

    fn join(&mut self, now: Instant) {
        let (roster, network) = (self.assembly.roster(), self.assembly.network());
        if let (Some(seals), Some(roster)) = (&mut self.seals, roster) {
            seals.expect(roster);
        }
        let config = &guarded(self.assembly.config(), self.seals.as_deref());
        let own = config.station.mac;
        if let Some((roster, rank)) = roster.and_then(|roster| Some((roster, roster.rank_of(own)?)))
            && let Some(network) = network
            && self.group.is_none()
        {
            let group = Group::new(now, config, roster.clone(), network.clone(), rank);
            let cipher = self.seals.as_deref().map(Seals::cipher);
            self.group = Some(Box::new(group.encrypted(cipher)));
        }
    }

    fn on_shrink(&mut self, now: Instant, frame: &Frame<'_>) {
        let Some(word) = ShrinkBody::decode(frame.payload) else {
            self.stats.malformed += 1;
            return;
        };
        if let Some(former) = self.former.as_mut().filter(|former| former.has(frame)) {
            return former.on_shrink_report(now, &word);
        }
        let group = self.group.as_mut().filter(|group| !group.is_over());
        if group.is_some_and(|group| group.on_shrink_message(now, frame, word)) {
            self.shrink_on(now);
        } else {
            self.stats.non_members += 1;
        }
    }

    /// Continues with the ranks that are left, if that is agreed. Messages in flight are dropped,
    /// and collectives count from 0 again.
    pub(super) fn shrink_on(&mut self, now: Instant) {
        let Some(group) = self
            .group
            .as_deref_mut()
            .filter(|group| !group.is_leaving())
        else {
            return;
        };
        let Some(lost) = group.settle_shrink(now) else {
            return;
        };
        let (roster, network) = group.without(&lost);
        let former = Former::new(now, group.roster().clone(), group.rank(), lost);
        self.seals
            .iter_mut()
            .for_each(|seals| seals.shrink(&roster));
        let config = guarded(self.assembly.config(), self.seals.as_deref());
        let config = Config {
            size: roster.size(),
            join_by: None,
            ..config
        };
        let Some(rank) = roster.rank_of(config.station.mac) else {
            return;
        };
        log::info!(
            "rank {} goes on as rank {rank} of {}",
            group.rank(),
            roster.size()
        );
        self.former = Some(Box::new(former));
        self.subgroups.clear();
        let group = Group::new(now, &config, roster, Arc::new(network), rank);
        let cipher = self.seals.as_deref().map(Seals::cipher);
        self.group = Some(Box::new(group.encrypted(cipher)));
    }

    pub(super) fn group(&mut self) -> Result<&mut Group, CommunicatorError> {
        let group = self
            .group
            .as_deref_mut()
            .filter(|group| group.is_ready())
            .ok_or(CommunicatorError::NotJoined)?;
        if group.is_leaving() {
            Err(CommunicatorError::Closed)
        } else {
            Ok(group)
        }
    }

    /// Returns the address of this process.
    pub fn mac(&self) -> MacAddr {
        self.assembly.config().station.mac
    }

    /// Returns this process's rank, once the group is complete.
    pub fn rank(&self) -> Option<Rank> {
        self.group.as_ref().map(|group| group.rank())
    }

    /// Returns the number that all frames of the group carry, once it is complete.
    pub fn session(&self) -> Option<u32> {
        self.group.as_ref().map(|group| group.roster().session())
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> u16 {
        self.group
            .as_ref()
            .map_or(self.assembly.config().size, |group| group.size())
    }

    /// Returns the hosts' names by rank; none before the group is complete.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        let roster = self.group.as_ref().map(|group| group.roster());
        roster
            .into_iter()
            .flat_map(Roster::entries)
            .map(|entry| entry.host.as_str())
    }

    /// Whether all ranks are on one host, once the group is complete.
    pub fn is_on_one_host(&self) -> bool {
        self.group
            .as_ref()
            .is_some_and(|group| group.nodes().count() == 1)
    }

    /// Returns the MTU of the group's frames, the smallest of all members', once the group is
    /// complete.
    pub fn mtu_bytes(&self) -> Option<u16> {
        self.group.as_ref().map(|group| group.roster().mtu_bytes())
    }

    /// Leaves the group as soon as the others have all that was sent to them, or at `by`. Later
    /// arrivals are dropped.
    pub fn leave(&mut self, now: Instant, by: Instant) {
        match &mut self.group {
            Some(group) => group.leave(now, by),
            None => self.given_up = true,
        }
    }

    /// Whether calls are possible: the group is complete, and this rank is not leaving.
    pub fn is_open(&self) -> bool {
        self.group.as_ref().is_some_and(|group| !group.is_leaving())
    }

    /// Whether collectives are possible, as far as this rank knows.
    pub fn is_whole(&self) -> bool {
        self.group.as_ref().is_some_and(|group| group.is_whole())
    }

    /// Whether the member has left, and need not be driven any more.
    pub fn has_left(&self) -> bool {
        self.group
            .as_ref()
            .map_or(self.given_up, |group| group.is_over())
    }

    /// Whether nothing is in flight, pending or awaited, apart from keepalives; also true before
    /// the group is complete.
    pub fn is_quiet(&self) -> bool {
        self.group.as_ref().is_none_or(|group| group.is_quiet())
    }

    /// Sends `bytes` to rank `to`, in order with earlier messages of this `tag` to it. The message
    /// is withdrawn if it is not delivered by the `deadline`. The bytes are kept, not copied. The
    /// [outcome](Member::take_sent) is kept until it is taken.
    ///
    /// # Errors
    /// If the group is not complete, there is no such rank, it is gone or has left, the tag is 2³¹
    /// or above, or too many messages are on their way.
    pub fn send(
        &mut self,
        to: Rank,
        tag: u32,
        bytes: impl Into<Arc<[u8]>>,
        deadline: Option<Instant>,
    ) -> Result<SendId, CommunicatorError> {
        let group = self.group()?;
        group.calls().check_presence(to)?;
        group.messages().send(to, tag, bytes, deadline)
    }

    /// Receives the next message of `tag` from rank `from`, in order with earlier receives. The
    /// [outcome](Member::take_received) is kept until it is taken.
    ///
    /// # Errors
    /// If the group is not complete, there is no such rank, the tag is 2³¹ or above, or too many
    /// receives wait.
    pub fn recv(
        &mut self,
        from: Rank,
        tag: u32,
        max_bytes: usize,
        deadline: Option<Instant>,
    ) -> Result<RecvId, CommunicatorError> {
        let group = self.group()?;
        group.calls().check_rank(from)?;
        group.messages().recv(from, tag, max_bytes, deadline)
    }

    /// Takes the outcome of a send; `None` if it has not ended.
    pub fn take_sent(&mut self, id: SendId) -> Option<SendOutcome> {
        self.group.as_mut()?.messages().take_sent(id)
    }

    /// Takes the outcome of a receive; `None` if it has not ended.
    pub fn take_received(&mut self, id: RecvId) -> Option<RecvOutcome> {
        self.group.as_mut()?.messages().take_received(id)
    }

    /// Whether all of a message has been handed to the network at least once; also true if the send
    /// has ended.
    pub fn has_gone(&self, id: SendId) -> bool {
        self.group.as_ref().is_none_or(|group| group.has_gone(id))
    }

    /// Declares that the outcome of a send will not be taken. The message goes on, without its
    /// deadline.
    pub fn ignore_sent(&mut self, id: SendId) {
        if let Some(group) = &mut self.group {
            group.messages().ignore_sent(id);
        }
    }

    /// Returns why no messages can be exchanged with a rank any more.
    pub fn absence(&self, rank: Rank) -> CommunicatorError {
        let Some(group) = &self.group else {
            return CommunicatorError::NotJoined;
        };
        group.absence(rank)
    }

    /// Withdraws a message, which then has no outcome. Returns false if the send has ended already.
    pub fn cancel_send(&mut self, id: SendId) -> bool {
        self.group
            .as_mut()
            .is_some_and(|group| group.messages().cancel_send(id))
    }

    /// Cancels a receive for which nothing has arrived, which then has no outcome. Returns false if
    /// something has arrived: the receive goes on.
    pub fn cancel_recv(&mut self, id: RecvId) -> bool {
        self.group
            .as_mut()
            .is_some_and(|group| group.messages().cancel_recv(id))
    }

    /// Cancels a receive; a message that has begun to arrive for it is dropped.
    pub fn drop_recv(&mut self, id: RecvId) {
        self.group
            .iter_mut()
            .for_each(|group| group.messages().drop_receive(id));
    }

    /// Returns the route by which `bytes` bytes from `root` would be broadcast, the reason and the
    /// predicted time. `None` before the group is complete, or if there is no such rank. All ranks
    /// get an equal answer.
    pub fn choice(&mut self, root: Rank, bytes: usize) -> Option<Choice> {
        let group = self.group.as_mut().filter(|group| root.0 < group.size())?;
        let plans = group.streams().plans();
        let way = plans.decide(root, bytes).way;
        plans.price(root, way, bytes)
    }

    /// Returns a number that grows with progress here or, as far as known, at another rank. Frames
    /// sent again and keepalives do not count.
    pub fn progress(&self) -> u64 {
        self.group.as_ref().map_or(0, |group| group.progress())
    }

    /// Recomputes every count.
    ///
    /// # Errors
    /// The first count that differs.
    pub fn audit(&self) -> Result<(), AuditError> {
        self.group.as_ref().map_or(Ok(()), |group| group.audit())
    }

    fn on_call(&mut self, now: Instant, frame: &Frame<'_>) {
        let Some(call) = CallBody::decode(frame.payload) else {
            self.stats.malformed += 1;
            return;
        };
        let station = &self.assembly.config().station;
        if call.group != station.group || frame.source == station.mac {
            self.stats.non_members += 1;
            return;
        }
        let is_listed = |mac, nonce| self.assembly.is_caller(mac, nonce);
        if let Some(seals) = &mut self.seals
            && !seals.take_call((frame.source, call.nonce), frame.header.sequence, is_listed)
        {
            self.stats.non_members += 1;
            return;
        }
        match &self.group {
            // Late callers need a reply; joined ones do not.
            Some(_) if !call.joined => self.reply(now),
            Some(_) => {}
            None if self.refusal.is_none() && !self.given_up => {
                let taken = self.assembly.on_call(now, frame.source, call);
                self.heed(taken);
                self.join_if_confirmed(now);
            }
            None => {}
        }
    }

    /// Calls once more, for a process that is late.
    fn reply(&mut self, now: Instant) {
        let pause = period(self.size()) / 2;
        let lately = self.answered_at.is_some_and(|at| now.since(at) < pause);
        if !lately && self.group.as_ref().is_some_and(|group| !group.is_leaving()) {
            (self.calls_pending, self.answered_at) = (1, Some(now));
        }
    }

    /// Records a refusal: there will be no group. The others must also receive this process's
    /// calls, and believe them.
    fn heed(&mut self, taken: Result<(), CommunicatorError>) {
        if let Err(refusal) = taken {
            (self.refusal, self.calls_pending) = (Some(refusal), 2);
        }
    }

    fn on_reject(&mut self, now: Instant, frame: &[u8], why: Reject) {
        *(if why.is_non_member() {
            &mut self.stats.non_members
        } else {
            &mut self.stats.malformed
        }) += 1;
        if self.refusal.is_some() || self.given_up {
            return;
        }
        let group_mac = self.assembly.config().station.group_mac;
        let other = other_keys(self.seals.as_deref(), frame, group_mac, why);
        if self.group.is_some() {
            // By a call it learns whose key differs.
            if other.is_some_and(|other| self.assembly.is_told(other.mac)) {
                self.reply(now);
            }
            return;
        }
        if let Some(other) = other {
            self.assembly.on_other_build(other);
        }
        if let Reject::Version(other) = why {
            let taken = self
                .assembly
                .on_other_version(other, frame, self.seals.is_some());
            self.heed(taken);
        }
    }
}

/// Returns the configuration of a member of a group, whose frames have the group's guard.
fn guarded(config: &Config, seals: Option<&Seals>) -> Config {
    let guard = seals.map_or(Guard::Plain, Seals::group_guard);
    Config {
        station: Station {
            guard,
            ..config.station.clone()
        },
        ..config.clone()
    }
}

/// Counters of a member; all in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberStats {
    /// Calls for the others, and replies to such calls.
    pub calls_sent: u64,
    /// Keepalives.
    pub signs_sent: u64,
    /// Frames of another group or session, or from a non-member or a member that is gone.
    pub non_members: u64,
    /// Frames that did not parse.
    pub malformed: u64,
    /// Streams together.
    pub streams: StreamStats,
    /// Messages.
    pub mailbox: MailboxStats,
}

/// Memory of a member, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberMemory {
    /// Streams together.
    pub streams: Memory,
    /// Messages.
    pub mailbox: MailboxMemory,
}

impl Member {
    /// Returns the counters so far.
    pub fn stats(&self) -> MemberStats {
        self.group
            .as_ref()
            .map_or(self.stats, |group| group.stats(self.stats))
    }

    /// Returns the memory of streams and messages.
    pub fn memory(&self) -> MemberMemory {
        self.group
            .as_ref()
            .map(|group| group.memory())
            .unwrap_or_default()
    }
}
