//! Collective calls in progress at one rank: numbered, compared among ranks, ended with the same
//! result everywhere. Also tracks which ranks can still take part.

use super::Member;
use super::agreement::Agreement;
use super::keepalive::{FAREWELLS, Keepalive, Sign};
use super::shrinking::Former;
use super::waits::{Claims, Waits};
use crate::communicator::body::Notice;
use crate::communicator::config::{Config, period};
use crate::communicator::error::{Cause, CommunicatorError, Failure, Named};
use crate::communicator::kind;
use crate::communicator::roster::{RankSet, Roster};
use crate::communicator::signature::{Operation, Signature};
use crate::membership::presence::{Attendance, Change, Presence};
use crate::membership::timers::URGENT_INTERVAL;
use crate::membership::timers::Wait;
use ethbcast_transport::wire::{Flags, Header, Identity, Kind, Rank};
use ethbcast_transport::{Deadline, Instant, MacAddr, Machine, wire};

#[derive(Clone, Debug)]
pub(in crate::communicator) struct Calls {
    roster: Roster,
    rank: Rank,
    presence: Presence,
    agreement: Agreement,
    keepalive: Keepalive,
    claims: Claims,
    waits: Waits,
}

impl Calls {
    pub(super) fn new(now: Instant, roster: Roster, rank: Rank, config: &Config) -> Calls {
        let size = roster.size();
        Calls {
            rank,
            presence: Presence::new(now, rank, size, config.silence_limit(size))
                .forgiving_own_sleep(),
            agreement: Agreement::new(rank, size),
            keepalive: Keepalive::new(now, rank, size),
            claims: Claims::new(period(size)),
            waits: Waits::new(now, rank, size),
            roster,
        }
    }

    pub(super) fn roster(&self) -> &Roster {
        &self.roster
    }

    pub(super) fn rank(&self) -> Rank {
        self.rank
    }

    pub(super) fn size(&self) -> u16 {
        self.roster.size()
    }

    pub(super) fn named(&self, rank: Rank) -> Named {
        Named {
            rank,
            host: self.roster.host(rank).to_owned(),
        }
    }

    pub(super) fn check_rank(&self, rank: Rank) -> Result<(), CommunicatorError> {
        let size = self.size();
        if rank.0 < size {
            Ok(())
        } else {
            Err(CommunicatorError::NoSuchRank { rank, size })
        }
    }

    pub(super) fn check_presence(&self, rank: Rank) -> Result<(), CommunicatorError> {
        self.check_rank(rank)?;
        match self.presence.standing(rank) {
            Attendance::Here | Attendance::Away => Ok(()),
            Attendance::Leaving { .. } | Attendance::Left { .. } => {
                Err(CommunicatorError::Left(self.named(rank)))
            }
            Attendance::Gone => Err(CommunicatorError::Gone(self.named(rank))),
        }
    }

    pub(super) fn check_idle(&self) -> Result<(), CommunicatorError> {
        self.agreement.current().map_or(Ok(()), |signature| {
            Err(CommunicatorError::Busy { signature })
        })
    }

    pub(super) fn is_absent(&self, rank: Rank) -> bool {
        matches!(
            self.presence.standing(rank),
            Attendance::Left { .. } | Attendance::Gone
        )
    }

    /// Whether this rank would be alone without the `lost`, and at least two of them only fell
    /// silent: this rank is then probably the one that receives nothing.
    pub(super) fn is_deaf_without(&self, lost: &RankSet) -> bool {
        let others = || (0..self.size()).map(Rank).filter(|&rank| rank != self.rank);
        others().all(|rank| lost.has(rank))
            && others()
                .filter(|&rank| self.presence.standing(rank) == Attendance::Gone)
                .count()
                >= 2
    }

    pub(in crate::communicator) fn begin(
        &mut self,
        now: Instant,
        operation: Operation,
        root: Rank,
        bytes: usize,
    ) -> Result<Signature, CommunicatorError> {
        self.check_rank(root)?;
        self.check_idle()?;
        let (signature, mismatch) = self.agreement.begin(operation, root, bytes as u64);
        self.waits.begin(now);
        if let Some((rank, mismatch)) = mismatch {
            self.consider(now, rank, mismatch);
        }
        // A collective that has failed before is not begun: no other rank waits for it.
        match self.obstacle(now, signature) {
            Some(failure) => Err(self.end_badly(failure)),
            None => Ok(signature),
        }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.agreement.failure().is_none() && self.presence.first_left_before(u64::MAX).is_none()
    }

    fn obstacle(&mut self, now: Instant, signature: Signature) -> Option<Failure> {
        if let Some(rank) = self.presence.first_left_before(signature.number) {
            self.fail(
                now,
                Failure {
                    from: signature.number,
                    cause: Cause::Left { rank },
                },
            );
        }
        self.agreement.failure_of(signature.number)
    }

    fn end_badly(&mut self, failure: Failure) -> CommunicatorError {
        self.agreement.end();
        failure.error(self.rank, &self.roster)
    }

    /// Takes the result of a step; returns true if the collective is done. A finished one succeeds,
    /// whatever else has happened.
    pub(in crate::communicator) fn conclude(
        &mut self,
        now: Instant,
        signature: Signature,
        step: Result<bool, Failure>,
    ) -> Result<bool, CommunicatorError> {
        match step {
            Ok(true) => {
                self.agreement.end();
                return Ok(true);
            }
            Ok(false) => {}
            Err(failure) => self.fail(now, failure),
        }
        match self.obstacle(now, signature) {
            Some(failure) => Err(self.end_badly(failure)),
            None => Ok(false),
        }
    }

    /// Abandons a call whose time is up: this and all later collectives fail, on all ranks.
    pub(in crate::communicator) fn abandon(
        &mut self,
        now: Instant,
        signature: Signature,
    ) -> CommunicatorError {
        if let Some(failure) = self.claims.any(signature.number) {
            // The lack of progress here confirms the claim.
            self.fail(now, failure);
            return self.end_badly(failure);
        }
        let missing = self.agreement.missing(signature.number);
        let missing_ranks: Vec<Named> = missing.into_iter().map(|rank| self.named(rank)).collect();
        let blame = self.waits.blame(&self.agreement, signature.number);
        let cause = Cause::Abandoned {
            rank: self.rank,
            signature,
            blame,
        };
        self.fail(
            now,
            Failure {
                from: signature.number,
                cause,
            },
        );
        self.agreement.end();
        let culprit = blame.map(|blame| Box::new(blame.named(|rank| self.named(rank))));
        CommunicatorError::TimedOut {
            signature,
            missing_ranks,
            culprit,
        }
    }

    pub(super) fn fail(&mut self, now: Instant, failure: Failure) {
        if self.agreement.fail(failure) {
            log::warn!("{}", failure.error(self.rank, &self.roster));
            self.keepalive.hurry(now);
        }
    }

    pub(in crate::communicator) fn absence(&self, rank: Rank, number: u64) -> Option<Failure> {
        let cause = match self.presence.standing(rank) {
            Attendance::Left { .. } => Cause::Left { rank },
            Attendance::Gone => Cause::Gone { rank },
            Attendance::Here | Attendance::Away | Attendance::Leaving { .. } => return None,
        };
        Some(Failure {
            from: number,
            cause,
        })
    }

    /// Returns the failure when data from `rank` does not belong to the call in progress. Only the
    /// rank's keepalives notify which call it has made; returns `None` until one arrives.
    pub(in crate::communicator) fn misfit(
        &self,
        rank: Rank,
        expected: Signature,
    ) -> Option<Failure> {
        // The data confirms the rank's claim.
        let garbled = Failure {
            from: expected.number,
            cause: Cause::Garbled { rank },
        };
        let told = self.agreement.has_called(rank, expected.number);
        self.claims.of(rank).or(told.then_some(garbled))
    }

    pub(in crate::communicator) fn odd(
        &self,
        rank: Rank,
        found: Option<Signature>,
        expected: Signature,
    ) -> Failure {
        match found {
            // If the number differs, a call that this rank remembers otherwise is a mismatch; any
            // other does not belong here at all.
            Some(found) if found.number == expected.number => {
                Failure::mismatch((rank, found), (self.rank, expected))
            }
            Some(found) => self.agreement.compare(rank, found).unwrap_or(Failure {
                from: 0,
                cause: Cause::Garbled { rank },
            }),
            None => Failure {
                from: 0,
                cause: Cause::Garbled { rank },
            },
        }
    }

    pub(super) fn compare_unread(&self, rank: Rank, found: Option<Signature>) -> Option<Failure> {
        match found {
            Some(signature) => self.agreement.compare(rank, signature),
            None => Some(Failure {
                from: 0,
                cause: Cause::Garbled { rank },
            }),
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.agreement.current().is_some()
    }

    /// Records a frame of `rank`; returns whether it counts.
    pub(super) fn on_frame_from(&mut self, now: Instant, rank: Rank) -> bool {
        self.presence.on_frame(now, rank)
    }

    /// Whether frames of `rank` count. Unlike [`on_frame_from`](Calls::on_frame_from) it is for
    /// frames that may be replays, which are no sign of life.
    pub(super) fn counts(&self, rank: Rank) -> bool {
        matches!(
            self.presence.standing(rank),
            Attendance::Here | Attendance::Leaving { .. }
        )
    }

    pub(in crate::communicator) fn set_waits_for(&mut self, now: Instant, rank: Option<Rank>) {
        self.waits.set(now, rank);
    }

    pub(in crate::communicator) fn is_wait_due(&self, now: Instant) -> bool {
        self.waits.is_due(now)
    }

    pub(super) fn on_notice(&mut self, now: Instant, rank: Rank, kind: Kind, notice: Notice) {
        let calls: Vec<Signature> = notice.calls.into_iter().flatten().collect();
        let mismatch = self.agreement.on_calls(rank, &calls);
        self.waits.on_sign(rank, notice.waits_for, notice.moved);
        // The other rank's own finding has priority: it names the ranks concerned.
        match notice.failure.or(mismatch) {
            Some(failure) => self.consider(now, rank, failure),
            None => self.claims.withdraw(rank),
        }
        if kind == kind::BYE {
            let calls = calls
                .first()
                .map_or(0, |signature| signature.number.saturating_add(1));
            // A rank that is still there contradicts a BYE within a period.
            let until = now
                + URGENT_INTERVAL * u32::from(notice.repeats.min(FAREWELLS))
                + period(self.size()) * 3 / 2;
            self.presence.on_bye(rank, calls, until);
        } else {
            self.presence.on_stay(rank);
        }
    }

    /// Takes a failure reported by `claimant`. It counts once it is confirmed.
    fn consider(&mut self, now: Instant, claimant: Rank, failure: Failure) {
        let silent =
            |rank: Rank| self.presence.silence(now, rank) >= self.presence.silence_limit() / 2;
        let is_seen = match failure.cause {
            Cause::Gone { rank } => rank != self.rank && silent(rank),
            Cause::Left { rank } => matches!(self.presence.standing(rank), Attendance::Left { .. }),
            _ => false,
        };
        if is_seen
            || self
                .agreement
                .failure()
                .is_some_and(|known| known.cause == failure.cause)
        {
            self.fail(now, failure);
        } else if self.claims.make(now, claimant, failure) {
            let cause = match failure.cause {
                // This host receives from the rank, so the fault lies between those two.
                Cause::Gone { rank } if rank != self.rank => Cause::Cut {
                    one: rank,
                    other: claimant,
                },
                cause => cause,
            };
            self.fail(now, Failure { cause, ..failure });
        }
    }

    pub(super) fn look(&mut self, now: Instant) -> Vec<Rank> {
        let unheard = self.unheard(now);
        let mut absent = Vec::new();
        for change in self.presence.look(now) {
            match change {
                Change::Gone(rank) => {
                    let cause = if unheard {
                        Cause::Deaf { rank: self.rank }
                    } else {
                        Cause::Gone { rank }
                    };
                    self.fail(
                        now,
                        Failure {
                            from: self.agreement.newest_of(rank),
                            cause,
                        },
                    );
                    absent.push(rank);
                }
                Change::Left(rank) => {
                    // The rank can no longer repeat its claim.
                    let last_word = self.claims.take(rank);
                    last_word
                        .into_iter()
                        .for_each(|failure| self.fail(now, failure));
                    absent.push(rank);
                }
                Change::Suspected(..) | Change::Away(_) => {}
            }
        }
        absent
    }

    /// Whether more than half of the present ranks, and at least two, have been silent for nearly
    /// the time after which a rank counts as gone. This rank is then probably the one that receives
    /// nothing.
    fn unheard(&self, now: Instant) -> bool {
        let size = self.size();
        let is_there =
            |rank: &Rank| *rank != self.rank && self.presence.standing(*rank) == Attendance::Here;
        let limit = self.presence.silence_limit();
        let silent = |rank: &Rank| self.presence.silence(now, *rank) + period(size) * 2 >= limit;
        let there = (0..size).map(Rank).filter(is_there);
        let (others, unheard) = there.fold((0, 0), |(all, unheard), rank| {
            (all + 1, unheard + u32::from(silent(&rank)))
        });
        unheard >= 2 && unheard * 2 > others
    }

    pub(super) fn is_look_due(&self, now: Instant) -> bool {
        self.is_sign_due(now) || self.presence.next_bye().is_some_and(|at| at <= now)
    }

    pub(super) fn is_sign_due(&self, now: Instant) -> bool {
        self.keepalive.due().is_some_and(|due| due <= now)
    }

    pub(super) fn give_sign(&mut self, now: Instant) {
        self.keepalive.give(now);
        // Broadcast may not reach a silent member. An eighth of the members are probed per period,
        // which leaves time for all.
        let quiet_for = self.presence.silence_limit() / 3;
        let others = (0..self.size()).map(Rank).filter(|&rank| rank != self.rank);
        let here = others.filter(|&rank| self.presence.standing(rank) == Attendance::Here);
        self.keepalive.query_in_turn(
            here.filter(|&rank| self.presence.silence(now, rank) >= quiet_for)
                .collect(),
        );
    }

    pub(super) fn reply_to_sign(&mut self, now: Instant, rank: Rank) {
        self.keepalive.reply(now, rank);
    }

    pub(super) fn forget_signs(&mut self) {
        self.keepalive.forget();
    }

    pub(super) fn take_sign(&mut self) -> Option<Sign> {
        self.keepalive.take()
    }

    pub(super) fn notice(&self, moved: u64, repeats: u8) -> Notice {
        Notice {
            calls: self.agreement.last(),
            failure: self.agreement.failure(),
            waits_for: self.agreement.current().and(self.waits.waits_for()),
            moved: moved as u16,
            repeats,
        }
    }

    /// Returns the number of collectives called here, and how often others were seen to make
    /// progress.
    pub(super) fn moved(&self) -> (u64, u64) {
        (self.agreement.calls(), self.waits.others_moved())
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        let sign = self.keepalive.due().map(|at| Wait::Status.at(at));
        sign.into_iter()
            .chain(self.presence.next_bye().map(|at| Wait::Silence.at(at)))
            .min()
    }
}

impl Machine for Member {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        let mut plain = Vec::new();
        let parsed = match &mut self.seals {
            None => wire::parse(frame),
            Some(seals) => {
                if self.group.is_none()
                    && let Some(roster) = self.assembly.roster()
                {
                    seals.expect(roster);
                }
                seals.open(frame, &mut plain)
            }
        };
        let frame = match parsed {
            Ok(frame) => frame,
            Err(why) => return self.on_reject(now, frame, why),
        };
        match frame.header.kind {
            kind::CALL => return self.on_call(now, &frame),
            kind::SHRINK => return self.on_shrink(now, &frame),
            _ => {}
        }
        let Header { session, rank, .. } = frame.header;
        if self.group.is_none()
            && self.refusal.is_none()
            && self.assembly.is_of_session(session, rank, frame.source)
        {
            // The sender knows that all have this list.
            self.join(now);
        }
        match &mut self.group {
            Some(group) => group.handle_frame(now, &frame, &mut self.stats),
            None => self.stats.non_members += 1,
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(group) = &mut self.group {
            group.handle_timeout(now);
            self.former
                .iter_mut()
                .for_each(|former| former.handle_timeout(now));
            return self.shrink_on(now);
        }
        if self.refusal.is_some() || self.given_up {
            return;
        }
        match self.assembly.on_timeout(now) {
            Err(refusal) => self.refusal = Some(refusal),
            Ok(()) if self.assembly.take_due(now) => self.calls_pending = self.assembly.calls(),
            Ok(()) => {}
        }
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        if let Some(calls) = self.calls_pending.checked_sub(1) {
            self.calls_pending = calls;
            self.stats.calls_sent += 1;
            let body = self.assembly.call(self.group.is_some()).encode();
            return self.write_to_all(kind::CALL, 0, Rank::NONE, body, buffer);
        }
        if let Some(length) = self
            .write_sign(buffer)
            .or_else(|| self.write_shrink(buffer))
        {
            return Some(length);
        }
        let group = self.group.as_deref_mut()?;
        let (session, rank) = (group.roster().session(), group.rank());
        if let Some(length) = group.poll_transmit(now, buffer) {
            return Some(length);
        }
        let bye = group.take_bye()?;
        self.write_to_all(kind::BYE, session, rank, bye.encode(), buffer)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        match &self.group {
            Some(group) => {
                let former = self.former.as_deref().and_then(Former::poll_timeout);
                group.poll_timeout(now).into_iter().chain(former).min()
            }
            None if self.refusal.is_some() || self.given_up => None,
            None => Some(Wait::Join.at(self.assembly.due())),
        }
    }

    fn is_urgent(&self) -> bool {
        self.group.as_ref().is_none_or(|group| group.is_urgent())
    }
}

impl Member {
    fn write_to_all(
        &mut self,
        kind: Kind,
        session: u32,
        rank: Rank,
        body: Vec<u8>,
        buffer: &mut [u8],
    ) -> Option<usize> {
        let station = &self.assembly.config().station;
        let (to, header) = (
            station.group_mac,
            station.identity(session, rank).header(kind),
        );
        self.write(to, header, body, buffer)
    }

    fn write(
        &mut self,
        to: MacAddr,
        header: Header,
        body: Vec<u8>,
        buffer: &mut [u8],
    ) -> Option<usize> {
        let identity = self
            .assembly
            .config()
            .station
            .identity(header.session, header.rank);
        let Some(seals) = &mut self.seals else {
            return Some(identity.write(buffer, to, &header, &body));
        };
        let (guard, header, body) = seals.close(header, body)?;
        Some(Identity { guard, ..identity }.write(buffer, to, &header, &body))
    }

    fn write_shrink(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let former = self.former.as_deref_mut().and_then(Former::take_shrink);
        let word = former.or_else(|| self.group.as_deref_mut()?.take_shrink_message())?;
        self.stats.signs_sent += 1;
        self.write_to_all(
            kind::SHRINK,
            word.session,
            word.rank,
            word.body.encode(),
            buffer,
        )
    }

    fn write_sign(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let group = self.group.as_deref_mut()?;
        let (sign, notice) = group.take_sign()?;
        let (roster, station) = (group.roster(), &self.assembly.config().station);
        let to = sign
            .to
            .map_or(station.group_mac, |rank| roster.entries()[rank.index()].mac);
        let header = station
            .identity(roster.session(), group.rank())
            .header(kind::ALIVE);
        let flags = if sign.asks {
            Flags::ACK_NOW
        } else {
            Flags::default()
        };
        self.stats.signs_sent += 1;
        self.write(to, Header { flags, ..header }, notice.encode(), buffer)
    }
}
