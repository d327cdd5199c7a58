//! Collectives as blocking calls: broadcast, barrier, scatter, gather, allgather, reduce, allreduce.

use super::join::wait;
use super::{Communicator, Error};
use crate::communicator::collective::{Call, CallWork};
use crate::communicator::{
    Allgather, Allreduce, Barrier, Broadcast, CallProgress, Combine, CommunicatorError, Gather,
    Member, Patience, Reduce, Reduction, Scatter, Shrink,
};
use ethbcast_transport::Instant;
use ethbcast_transport::lock::Turn;
use ethbcast_transport::messages::{RecvId, RecvOutcome, SendId, SendOutcome};
use ethbcast_transport::packet::{NodePort, Shared};
use ethbcast_transport::wire::Rank;
use std::ops::ControlFlow;
use std::time::Duration;

impl Communicator {
    /// Copies the bytes of `root`'s `buffer` into every rank's. It returns at the root when all
    /// bytes have been handed over for sending, elsewhere when they have arrived.
    ///
    /// # Errors
    /// If ranks disagree about the call, one is gone, or the time is up; see [`Error`].
    pub fn broadcast(&self, root: u16, buffer: &mut [u8]) -> Result<(), Error> {
        let length = buffer.len();
        self.collective(
            |member, now| Broadcast::begin(member, now, Rank(root), length),
            |broadcast, member, now| broadcast.advance(member, now, buffer),
        )
    }

    /// Waits until every rank has called it.
    ///
    /// # Errors
    /// The errors of [`broadcast`](Communicator::broadcast).
    pub fn barrier(&self) -> Result<(), Error> {
        self.collective(Barrier::begin, |barrier, member, now| {
            barrier.advance(member, now)
        })
    }

    /// Copies block *r* of the root's `blocks` into rank *r*'s `own`. All blocks have the length of
    /// `own`; `blocks` matters at the root only, where it has the length of all blocks together.
    ///
    /// # Errors
    /// The errors of [`broadcast`](Communicator::broadcast).
    pub fn scatter(&self, root: u16, blocks: &[u8], own: &mut [u8]) -> Result<(), Error> {
        let length = own.len();
        self.collective(
            |member, now| Scatter::begin(member, now, Rank(root), blocks.len(), length),
            |scatter, member, now| scatter.advance(member, now, blocks, own),
        )
    }

    /// Copies every rank's `own` block into the root's `blocks`, in rank order. `blocks` matters at
    /// the root only.
    ///
    /// # Errors
    /// The errors of [`broadcast`](Communicator::broadcast).
    pub fn gather(&self, root: u16, own: &[u8], blocks: &mut [u8]) -> Result<(), Error> {
        let length = blocks.len();
        self.collective(
            |member, now| Gather::begin(member, now, Rank(root), length, own.len()),
            |gather, member, now| gather.advance(member, now, own, blocks),
        )
    }

    /// Copies every rank's `own` block into everybody's `blocks`, in rank order.
    ///
    /// # Errors
    /// The errors of [`broadcast`](Communicator::broadcast).
    pub fn allgather(&self, own: &[u8], blocks: &mut [u8]) -> Result<(), Error> {
        let length = blocks.len();
        self.collective(
            |member, now| Allgather::begin(member, now, length, own.len()),
            |allgather, member, now| allgather.advance(member, now, own, blocks),
        )
    }

    /// Combines the elements of all ranks' buffers, in place at `root`; the other buffers are only
    /// read. Ranks, length and network (with `probe` its measured costs) decide in which order, so
    /// that floats can be repeated.
    ///
    /// # Errors
    /// If `buffer` has no whole number of elements, and the errors of
    /// [`broadcast`](Communicator::broadcast). Another function or type of elements on another rank
    /// is another call.
    ///
    /// # Panics
    /// If it is the caller's own function: [`reduce_by`](Communicator::reduce_by) takes that.
    pub fn reduce(&self, root: u16, reduction: Reduction, buffer: &mut [u8]) -> Result<(), Error> {
        check_own(reduction);
        self.reduce_from(root, reduction, buffer, &mut |into, from| {
            reduction.combine(into, from)
        })
    }

    /// Combines the elements of all ranks' buffers, in place at all ranks, which have the same bits.
    ///
    /// # Errors
    /// The errors of [`reduce`](Communicator::reduce).
    ///
    /// # Panics
    /// The panics of [`reduce`](Communicator::reduce).
    pub fn allreduce(&self, reduction: Reduction, buffer: &mut [u8]) -> Result<(), Error> {
        check_own(reduction);
        self.allreduce_from(reduction, buffer, &mut |into, from| {
            reduction.combine(into, from)
        })
    }

    /// Combines elements of `element_bytes` like [`reduce`](Communicator::reduce), by the caller's
    /// own function of some elements and as many others, which it combines with them in place. It
    /// must be commutative and associative, take little time, and call nothing of this group.
    ///
    /// # Errors
    /// The errors of [`reduce`](Communicator::reduce). Different functions are not detected.
    pub fn reduce_by(
        &self,
        root: u16,
        element_bytes: u32,
        buffer: &mut [u8],
        mut function: impl FnMut(&mut [u8], &[u8]),
    ) -> Result<(), Error> {
        self.reduce_from(root, Reduction::Own(element_bytes), buffer, &mut function)
    }

    /// Combines elements like [`allreduce`](Communicator::allreduce), by a function as for
    /// [`reduce_by`](Communicator::reduce_by).
    ///
    /// # Errors
    /// The errors of [`reduce_by`](Communicator::reduce_by).
    pub fn allreduce_by(
        &self,
        element_bytes: u32,
        buffer: &mut [u8],
        mut function: impl FnMut(&mut [u8], &[u8]),
    ) -> Result<(), Error> {
        self.allreduce_from(Reduction::Own(element_bytes), buffer, &mut function)
    }

    fn reduce_from(
        &self,
        root: u16,
        reduction: Reduction,
        buffer: &mut [u8],
        combine: Combine<'_>,
    ) -> Result<(), Error> {
        let length = buffer.len();
        self.collective(
            |member, now| Reduce::begin(member, now, Rank(root), reduction, length),
            |reduce, member, now| reduce.advance(member, now, buffer, combine),
        )
    }

    fn allreduce_from(
        &self,
        reduction: Reduction,
        buffer: &mut [u8],
        combine: Combine<'_>,
    ) -> Result<(), Error> {
        let length = buffer.len();
        self.collective(
            |member, now| Allreduce::begin(member, now, reduction, length),
            |allreduce, member, now| allreduce.advance(member, now, buffer, combine),
        )
    }

    /// Shrinks the group to the surviving ranks, after others died or left (`MPIX_Comm_shrink` of
    /// ULFM). All survivors call it, and have new ranks then, in the old order. Calls work again;
    /// the ports stay, and no process joins anew. A rank that dies meanwhile is left out, or found
    /// by the next call: shrink again then. Messages in flight are dropped.
    ///
    /// # Errors
    /// If some survivors do not call it within [`Options::call_within`](super::Options), or the
    /// others consider this rank lost, or it receives from none of them; the group is as it was
    /// before.
    pub fn shrink(&mut self) -> Result<(), Error> {
        let mut call = None;
        let ended = self.wait(
            Some(self.shared()?.now() + self.call_within),
            |member, now| {
                let begun = call.take().map_or_else(|| Shrink::begin(member, now), Ok);
                match begun.and_then(|begun| call.insert(begun).advance(member, now)) {
                    Ok(CallProgress::Waiting) => ControlFlow::Continue(()),
                    Ok(CallProgress::Done) => ControlFlow::Break(Ok(())),
                    Err(error) => ControlFlow::Break(Err(error)),
                }
            },
        );
        let given_up = || {
            self.shared()?
                .with(|member, _| call.map(|call| call.abandon(member)))
                .map_err(Error::from)
        };
        match ended {
            Ok(Some(done)) => done?,
            Ok(None) => given_up()?.map_or(Ok(()), |error| Err(Error::Call(error)))?,
            Err(error) => {
                given_up()?;
                return Err(error);
            }
        }
        self.take_ranks()
    }

    fn collective<W: CallWork>(
        &self,
        begin: impl FnOnce(&mut Member, Instant) -> Result<Call<W>, CommunicatorError>,
        mut advance: impl FnMut(
            &mut Call<W>,
            &mut Member,
            Instant,
        ) -> Result<CallProgress, CommunicatorError>,
    ) -> Result<(), Error> {
        let shared = self.shared()?;
        let _turn = self.collective_turn()?;
        let (mut begin, mut patience) = (Some(begin), None);
        let mut ongoing = Ongoing { shared, call: None };
        let mut turn = |member: &mut Member, now: Instant| {
            let patience =
                patience.get_or_insert_with(|| Patience::new(member, now, self.call_within));
            // The call begins in the turn that first advances it: nothing is sent in between.
            let begun = begin.take().map_or(Ok(()), |begin| {
                begin(member, now).map(|begun| ongoing.call = Some(begun))
            });
            let call = &mut ongoing.call;
            match begun.and_then(|()| advance(call.as_mut().expect("it has begun"), member, now)) {
                Ok(CallProgress::Waiting) if !patience.is_over(member, now) => {
                    ControlFlow::Continue(patience.due())
                }
                Ok(CallProgress::Waiting) => {
                    ControlFlow::Break(Err(call.take().expect("it waits").abandon(member, now)))
                }
                ended => {
                    *call = None;
                    ControlFlow::Break(ended.map(|_| ()))
                }
            }
        };
        let mut due = shared.now() + self.call_within / 16;
        loop {
            // A wait ends when progress is due to be checked or the caller's other work is due.
            let until = self
                .meanwhile
                .as_ref()
                .map_or(due, |other| due.min(shared.now() + other.every()));
            let ended = shared.wait(Some(until), |member, now| match turn(member, now) {
                ControlFlow::Continue(at) => {
                    due = at;
                    ControlFlow::Continue(())
                }
                ControlFlow::Break(outcome) => ControlFlow::Break(outcome),
            })?;
            if let Some(outcome) = ended {
                return Ok(outcome?);
            }
            if self
                .meanwhile
                .as_ref()
                .is_some_and(|other| other.work().is_break())
            {
                return Err(Error::Interrupted);
            }
        }
    }
}

/// A collective in progress. One that is interrupted, or in which the caller's function panics, is
/// abandoned.
struct Ongoing<'a, W: CallWork> {
    shared: &'a Shared<Member, NodePort>,
    call: Option<Call<W>>,
}

impl<W: CallWork> Drop for Ongoing<'_, W> {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            // A port that has failed tells the others nothing.
            drop(self.shared.with(|member, now| call.abandon(member, now)));
        }
    }
}

fn check_own(reduction: Reduction) {
    let is_own = matches!(reduction, Reduction::Own(_));
    assert!(!is_own, "{reduction}: give the function, too");
}

impl Communicator {
    /// Sends `bytes` to rank `to`, and returns when all of them have been handed to the network: a
    /// short message at once, a long one when the other rank receives it. Messages of one tag to
    /// one rank keep their order.
    ///
    /// The outcome of a short message is not known here: if the receiver's buffer is too short, the
    /// error occurs there, not at the sender.
    ///
    /// # Errors
    /// If `to` is no rank or is gone, its buffer is too short for a long message, or within
    /// [`Options::call_within`](super::Options) there is no room for the message (it is withdrawn
    /// then).
    pub fn send(&self, to: u16, tag: u32, bytes: &[u8]) -> Result<(), Error> {
        self.send_within(to, tag, bytes, self.call_within)
    }

    /// Sends like [`send`](Communicator::send), with its own time limit.
    ///
    /// # Errors
    /// The errors of [`send`](Communicator::send).
    pub fn send_within(
        &self,
        to: u16,
        tag: u32,
        bytes: &[u8],
        within: Duration,
    ) -> Result<(), Error> {
        let shared = self.shared()?;
        let deadline = shared.now() + within;
        let mut sending: Option<SendId> = None;
        let outcome = self.until(deadline, |member, now| {
            let ask = |member: &mut Member| member.send(Rank(to), tag, bytes, Some(deadline));
            let id = match posted(&mut sending, member, ask, now < deadline) {
                ControlFlow::Continue(id) => id,
                ControlFlow::Break(wait) => return wait,
            };
            match member.take_sent(id) {
                Some(outcome) => ControlFlow::Break(Ok(outcome)),
                None if member.has_gone(id) => {
                    member.ignore_sent(id);
                    ControlFlow::Break(Ok(SendOutcome::Sent))
                }
                None if !member.is_open() => ControlFlow::Break(Err(CommunicatorError::Closed)),
                None => ControlFlow::Continue(()),
            }
        });
        let outcome = self.or_withdrawn(outcome, |member| {
            if let Some(id) = sending.filter(|&id| member.has_gone(id) || !member.cancel_send(id)) {
                member.ignore_sent(id);
            }
        })?;
        if self.is_sent(to, tag, bytes, outcome?)? {
            return Ok(());
        }
        let what = format!(
            "a send of {} bytes to {} under tag {tag}",
            bytes.len(),
            self.named(to)
        );
        Err(Error::TimedOut { what, within })
    }

    /// Sends if the message can leave at once. Returns false if it would have to wait; nothing is
    /// sent then.
    ///
    /// # Errors
    /// The errors of [`send`](Communicator::send).
    pub fn try_send(&self, to: u16, tag: u32, bytes: &[u8]) -> Result<bool, Error> {
        let id = match self
            .shared()?
            .with(|member, _| member.send(Rank(to), tag, bytes, None))?
        {
            Ok(id) => id,
            Err(error) if error.is_queue_full() => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        // Anything that could be sent has been sent by now.
        let outcome = self
            .shared()?
            .with(|member, _| match member.take_sent(id) {
                Some(outcome) => outcome,
                None if !member.has_gone(id) && member.cancel_send(id) => SendOutcome::TimedOut,
                None => {
                    member.ignore_sent(id);
                    SendOutcome::Sent
                }
            })?;
        self.is_sent(to, tag, bytes, outcome)
    }

    fn is_sent(
        &self,
        to: u16,
        tag: u32,
        bytes: &[u8],
        outcome: SendOutcome,
    ) -> Result<bool, Error> {
        match outcome {
            SendOutcome::Sent => Ok(true),
            SendOutcome::TimedOut => Ok(false),
            SendOutcome::Refused => Err(Error::Refused {
                to: self.named(to),
                bytes: bytes.len(),
                tag,
            }),
            SendOutcome::PeerGone => Err(self.absence(Rank(to))),
        }
    }

    /// Receives the next message of `tag` from rank `from` into the beginning of `buffer`; returns
    /// its length in bytes.
    ///
    /// # Errors
    /// If `from` is no rank or is gone, the message is longer than the buffer (it is dropped), its
    /// sender withdraws it, the time is up, or it is interrupted (a message that has begun to
    /// arrive is dropped).
    pub fn recv(&self, from: u16, tag: u32, buffer: &mut [u8]) -> Result<usize, Error> {
        self.recv_within(from, tag, buffer, self.call_within)
    }

    /// Receives like [`recv`](Communicator::recv), with its own time limit.
    ///
    /// # Errors
    /// The errors of [`recv`](Communicator::recv).
    pub fn recv_within(
        &self,
        from: u16,
        tag: u32,
        buffer: &mut [u8],
        within: Duration,
    ) -> Result<usize, Error> {
        let shared = self.shared()?;
        let deadline = shared.now() + within;
        let mut receiving: Option<RecvId> = None;
        let outcome = self.until(deadline, |member, now| {
            let ask =
                |member: &mut Member| member.recv(Rank(from), tag, buffer.len(), Some(deadline));
            let id = match posted(&mut receiving, member, ask, now < deadline) {
                ControlFlow::Continue(id) => id,
                ControlFlow::Break(wait) => return wait,
            };
            received(member, id)
        });
        let outcome = self.or_withdrawn(outcome, |member| {
            receiving.into_iter().for_each(|id| member.drop_recv(id))
        })?;
        self.accept(from, tag, outcome?, within, buffer)
    }

    /// Receives a message that is here or arriving; returns `None` if there is none.
    ///
    /// # Errors
    /// The errors of [`recv`](Communicator::recv).
    pub fn try_recv(&self, from: u16, tag: u32, buffer: &mut [u8]) -> Result<Option<usize>, Error> {
        let asked = self.shared()?.with(|member, now| {
            let id = member.recv(Rank(from), tag, buffer.len(), Some(now + self.call_within))?;
            let outcome = member.take_received(id);
            // Without an outcome a message that has begun to arrive is waited for.
            let none = outcome.is_none() && member.cancel_recv(id);
            Ok::<_, CommunicatorError>((!none).then_some((id, outcome)))
        })??;
        let Some((id, outcome)) = asked else {
            return Ok(None);
        };
        let outcome = match outcome {
            Some(outcome) => outcome,
            None => {
                let arrived = self
                    .shared()?
                    .wait(None, |member, _| received(member, id))?;
                arrived.expect("a wait without a deadline ends with its turn")?
            }
        };
        self.accept(from, tag, outcome, self.call_within, buffer)
            .map(Some)
    }

    /// Sends `bytes` to rank `to` and receives a message of this `tag` from rank `from` at once, so
    /// that ranks in a ring do not wait for each other. Returns the length of the received message.
    ///
    /// # Errors
    /// The errors of [`send`](Communicator::send) and [`recv`](Communicator::recv).
    pub fn sendrecv(
        &self,
        to: u16,
        bytes: &[u8],
        from: u16,
        buffer: &mut [u8],
        tag: u32,
    ) -> Result<usize, Error> {
        let deadline = Some(self.shared()?.now() + self.call_within);
        let posted = self
            .shared()?
            .with(|member, _| member.recv(Rank(from), tag, buffer.len(), deadline))??;
        let sent = self.send(to, tag, bytes);
        let outcome = self.wait(None, |member, _| {
            // If the send failed, only a message that has begun to arrive is awaited.
            if sent.is_err() && member.cancel_recv(posted) {
                ControlFlow::Break(Ok(RecvOutcome::Withdrawn))
            } else {
                received(member, posted)
            }
        });
        let outcome = self.or_withdrawn(outcome, |member| member.drop_recv(posted))?;
        sent?;
        let outcome = outcome.expect("a wait without a deadline ends with its turn")?;
        self.accept(from, tag, outcome, self.call_within, buffer)
    }

    /// Runs `turn` until it breaks or `deadline` passes. `turn` posts its message once there is
    /// room in the queue.
    fn until<T>(
        &self,
        deadline: Instant,
        mut turn: impl FnMut(&mut Member, Instant) -> ControlFlow<T>,
    ) -> Result<T, Error> {
        // A request made at the very deadline ends in the next round.
        let ended = match self.wait(Some(deadline), &mut turn)? {
            None => self.shared()?.wait(None, turn)?,
            ended => ended,
        };
        Ok(ended.expect("a wait without a deadline ends with its turn"))
    }

    fn or_withdrawn<T>(
        &self,
        ended: Result<T, Error>,
        withdraw: impl FnOnce(&mut Member),
    ) -> Result<T, Error> {
        if let Err(Error::Interrupted) = ended {
            self.shared()?.with(|member, _| withdraw(member))?;
        }
        ended
    }

    fn absence(&self, rank: Rank) -> Error {
        let found = self
            .shared()
            .and_then(|shared| Ok(shared.with(|member, _| member.absence(rank))?));
        found.map_or_else(|error| error, Error::from)
    }

    fn accept(
        &self,
        from: u16,
        tag: u32,
        outcome: RecvOutcome,
        within: Duration,
        buffer: &mut [u8],
    ) -> Result<usize, Error> {
        let from = || self.named(from);
        match outcome {
            RecvOutcome::Received { bytes } => {
                buffer[..bytes.len()].copy_from_slice(&bytes);
                Ok(bytes.len())
            }
            RecvOutcome::TooShort { message_bytes } => Err(Error::TooLong {
                from: from(),
                tag,
                message_bytes,
                buffer_bytes: buffer.len(),
            }),
            RecvOutcome::Withdrawn => Err(Error::Withdrawn { from: from(), tag }),
            RecvOutcome::TimedOut => Err(Error::TimedOut {
                what: format!("a receive from {} under tag {tag}", from()),
                within,
            }),
            RecvOutcome::PeerGone => Err(self.absence(from().rank)),
        }
    }
}

/// Returns the id of an operation posted in an earlier turn, or posts it now. If the queue is full
/// and `may_wait`, the next turn tries again.
fn posted<I: Copy, T>(
    earlier: &mut Option<I>,
    member: &mut Member,
    ask: impl FnOnce(&mut Member) -> Result<I, CommunicatorError>,
    may_wait: bool,
) -> ControlFlow<ControlFlow<Result<T, CommunicatorError>>, I> {
    if let Some(id) = *earlier {
        return ControlFlow::Continue(id);
    }
    match ask(member) {
        Ok(id) => ControlFlow::Continue(*earlier.insert(id)),
        Err(error) if may_wait && error.is_queue_full() => {
            ControlFlow::Break(ControlFlow::Continue(()))
        }
        Err(error) => ControlFlow::Break(ControlFlow::Break(Err(error))),
    }
}

fn received(
    member: &mut Member,
    id: RecvId,
) -> ControlFlow<Result<RecvOutcome, CommunicatorError>> {
    match member.take_received(id) {
        Some(outcome) => ControlFlow::Break(Ok(outcome)),
        None if member.is_open() => ControlFlow::Continue(()),
        None => ControlFlow::Break(Err(CommunicatorError::Closed)),
    }
}

impl Communicator {
    pub(super) fn wait<T>(
        &self,
        deadline: Option<Instant>,
        turn: impl FnMut(&mut Member, Instant) -> ControlFlow<T>,
    ) -> Result<Option<T>, Error> {
        wait(self.shared()?, self.meanwhile.as_ref(), deadline, turn)
    }

    pub(super) fn collective_turn(&self) -> Result<Turn<'_>, Error> {
        let shared = self.shared()?;
        let deadline = shared.now() + self.call_within;
        loop {
            let rest = deadline.since(shared.now());
            let part = self
                .meanwhile
                .as_ref()
                .map_or(rest, |other| rest.min(other.every()));
            if let Some(turn) = self.collective.take_within(part) {
                return Ok(turn);
            }
            if shared.now() >= deadline {
                let what = "a collective behind those of other threads".into();
                return Err(Error::TimedOut {
                    what,
                    within: self.call_within,
                });
            }
            if self
                .meanwhile
                .as_ref()
                .is_some_and(|other| other.work().is_break())
            {
                return Err(Error::Interrupted);
            }
        }
    }
}
