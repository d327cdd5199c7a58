//! Test helper: one simulated process, which runs a program of sends, receives and collectives.

use super::{Case, Step};
use ethbcast_collectives::communicator::{
    Allgather, Allreduce, Barrier, Broadcast, CallProgress, CommunicatorError, Config, Gather,
    Member, Number, Patience, Reduce, Reduction, Scatter, Shrink,
};
use ethbcast_transport::messages::{RecvId, RecvOutcome, SendId, SendOutcome};
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{Deadline, Instant, MacAddr, Machine};
use std::time::Duration;

/// Returns the bytes that a rank contributes to step `step`.
pub fn content(step: usize, rank: u16, bytes: usize) -> Vec<u8> {
    let key = step * 131 + usize::from(rank) * 31;
    (0..bytes)
        .map(|at| (at * 7 + (at >> 8) + key) as u8)
        .collect()
}

/// Returns the elements that a rank contributes to a reduction in step `step`. Sums of 32-bit floats
/// are exact; those of 64-bit ones depend on the order.
pub fn elements(step: usize, rank: u16, reduction: Reduction, bytes: usize) -> Vec<u8> {
    let value = |at: usize| ((at * 7 + usize::from(rank) * 31 + step) % 997) as f64 - 300.0;
    let count = bytes / reduction.element_bytes();
    match reduction {
        Reduction::Sum(Number::F64) | Reduction::Min(Number::F64) | Reduction::Max(Number::F64) => {
            (0..count)
                .flat_map(|at| (value(at) / 3.0).to_ne_bytes())
                .collect()
        }
        Reduction::Sum(Number::F32) | Reduction::Min(Number::F32) | Reduction::Max(Number::F32) => {
            (0..count)
                .flat_map(|at| (value(at) as f32 / 8.0).to_ne_bytes())
                .collect()
        }
        _ => content(step, rank, bytes),
    }
}

fn combine(reduction: Reduction, into: &mut [u8], from: &[u8]) {
    assert_eq!(into.len(), from.len());
    match reduction {
        Reduction::Own(_) => into
            .iter_mut()
            .zip(from)
            .for_each(|(into, from)| *into ^= from),
        reduction => reduction.combine(into, from),
    }
}

fn are_equal(reduction: Reduction, result: &[u8], expected: &[u8]) -> bool {
    if reduction != Reduction::Sum(Number::F64) {
        return result == expected;
    }
    let numbers = |bytes: &[u8]| {
        let (numbers, _) = bytes.as_chunks::<8>();
        numbers
            .iter()
            .map(|bytes| f64::from_ne_bytes(*bytes))
            .collect::<Vec<_>>()
    };
    let (result, expected) = (numbers(result), numbers(expected));
    let pairs = result.iter().zip(&expected);
    result.len() == expected.len()
        && pairs
            .into_iter()
            .all(|(one, other)| (one - other).abs() < 1e-8)
}

fn message(tag: u32, from: u16, bytes: usize) -> Vec<u8> {
    content(tag as usize * 7 + bytes, from, bytes)
}

#[derive(Debug)]
pub(super) enum Ongoing {
    Broadcast(Broadcast, Vec<u8>),
    Barrier(Barrier),
    Scatter(Scatter, Vec<u8>, Vec<u8>),
    Gather(Gather, Vec<u8>, Vec<u8>),
    Allgather(Allgather, Vec<u8>, Vec<u8>),
    Reduce(Reduce, Reduction, Vec<u8>),
    Allreduce(Allreduce, Reduction, Vec<u8>),
    Receive(RecvId),
    Compute,
    Settle,
    Shrink(Shrink),
}

impl Ongoing {
    /// Whether this is a call that its caller must abandon when its time is over. The others end by
    /// themselves, at the latest when the member handles that timeout.
    fn is_a_call(&self) -> bool {
        !matches!(
            self,
            Ongoing::Receive(_) | Ongoing::Compute | Ongoing::Settle
        )
    }
}

#[derive(Debug)]
pub struct Process {
    config: Config,
    starts_at: Instant,
    patience: Duration,
    leave: bool,
    /// The member, once the process has started.
    pub member: Option<Member>,
    program: Vec<Step>,
    pub(super) step: usize,
    pub(super) ongoing: Option<(Ongoing, Instant)>,
    standstill: Option<Patience>,
    sends: Vec<SendId>,
    pub joined_at: Option<Instant>,
    /// Result of the program, and its time; the first error ends the program.
    pub ended: Option<(Result<(), CommunicatorError>, Instant)>,
    pub wrong: Option<String>,
    /// Result of the last allreduce.
    pub reduced: Option<Vec<u8>>,
    /// The first receive that got a later message of its sender and tag because a receive was left
    /// out.
    pub exchanged: Option<String>,
    /// The first message that did not arrive, or receive that was not matched.
    pub undelivered: Option<String>,
    turns: u32,
    /// A process of another group, which this one has created from its own.
    pub beside: Option<Box<Process>>,
    beside_first: bool,
}

impl Process {
    /// Returns the first error in its data, its messages or its member's audit.
    pub fn complaint(&self) -> Option<String> {
        if let Some(complaint) = self.beside.as_ref().and_then(|beside| beside.complaint()) {
            return Some(format!("beside: {complaint}"));
        }
        let told = [&self.wrong, &self.exchanged, &self.undelivered]
            .into_iter()
            .flatten()
            .next()
            .cloned();
        told.or_else(|| {
            self.member
                .as_ref()?
                .audit()
                .err()
                .map(|error| error.to_string())
        })
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn new(case: &Case, host: usize, seed: u64) -> Process {
        Process::with_config(case, host, case.config(host, seed))
    }

    pub(super) fn at(
        case: &Case,
        number: usize,
        (mac, host): (MacAddr, String),
        seed: u64,
    ) -> Process {
        let mut config = case.config(number, seed);
        (config.station.mac, config.station.host) = (mac, host);
        Process::with_config(case, number, config)
    }

    fn with_config(case: &Case, host: usize, config: Config) -> Process {
        Process {
            config,
            starts_at: Instant::START + case.starts[host],
            patience: case.patience,
            leave: case.leave,
            member: None,
            program: case.programs[host].clone(),
            step: 0,
            ongoing: None,
            standstill: None,
            sends: Vec::new(),
            joined_at: None,
            ended: None,
            wrong: None,
            reduced: None,
            exchanged: None,
            undelivered: None,
            turns: 0,
            beside: None,
            beside_first: false,
        }
    }

    /// Appends steps to the program of a rank that has ended, or failed.
    pub fn go_on(&mut self, steps: &[Step]) {
        self.step = self.program.len();
        self.program.extend_from_slice(steps);
        self.ended = None;
    }

    /// Runs a program on a member of another group, beside its own.
    pub fn go_beside(&mut self, case: &Case, member: Member, program: &[Step]) {
        let mut beside = Process::with_config(case, 0, self.config.clone());
        (beside.member, beside.program) = (Some(member), program.to_vec());
        self.beside = Some(Box::new(beside));
    }

    pub(crate) fn has_reached(&self, step: usize) -> bool {
        self.joined_at.is_some() && self.step >= step
    }

    pub(crate) fn turn(&mut self, now: Instant) -> Option<Instant> {
        let beside = self.beside.as_mut().and_then(|beside| beside.turn(now));
        self.own_turn(now).into_iter().chain(beside).min()
    }

    fn own_turn(&mut self, now: Instant) -> Option<Instant> {
        if self.member.is_none() {
            if now < self.starts_at {
                return Some(self.starts_at);
            }
            match Member::begin(now, self.config.clone()) {
                Ok(mut member) => {
                    member.handle_timeout(now);
                    self.member = Some(member);
                }
                Err(error) => self.ended = Some((Err(error), now)),
            }
        }
        let member = self.member.as_mut()?;
        self.turns += 1;
        if self.turns.is_multiple_of(8) {
            self.wrong = self
                .wrong
                .take()
                .or(member.audit().err().map(|error| error.to_string()));
        }
        match member.joined() {
            Ok(true) => self.joined_at = self.joined_at.or(Some(now)),
            Ok(false) => return None,
            Err(error) => {
                self.ended.get_or_insert((Err(error), now));
                return None;
            }
        }
        while self.ended.is_none() {
            match self.go(now) {
                Ok(CallProgress::Done) => {}
                Ok(CallProgress::Waiting) => return self.ongoing.as_ref().map(|(_, until)| *until),
                Err(error) => self.end(Err(error), now),
            }
        }
        None
    }

    fn end(&mut self, how: Result<(), CommunicatorError>, now: Instant) {
        self.ended = Some((how, now));
        if self.leave
            && let Some(member) = &mut self.member
        {
            member.leave(now, now + Duration::from_secs(3));
        }
    }

    fn go(&mut self, now: Instant) -> Result<CallProgress, CommunicatorError> {
        if self.ongoing.is_none() {
            let Some(&step) = self.program.get(self.step) else {
                return self.finish(now);
            };
            self.begin(step, now)?;
            if self.ongoing.is_none() {
                self.step += 1;
                return Ok(CallProgress::Done);
            }
        }
        let Some((mut ongoing, until)) = self.ongoing.take() else {
            return Ok(CallProgress::Done);
        };
        match self.advance(&mut ongoing, now, until)? {
            CallProgress::Done => {
                self.judge(ongoing);
                self.step += 1;
                Ok(CallProgress::Done)
            }
            CallProgress::Waiting if now >= until && ongoing.is_a_call() => {
                let member = self.member.as_ref().expect("it runs a program");
                if self
                    .standstill
                    .as_mut()
                    .is_none_or(|standstill| standstill.is_over(member, now))
                {
                    return Err(self.abandon(ongoing, now));
                }
                self.ongoing = self
                    .standstill
                    .as_ref()
                    .map(|standstill| (ongoing, standstill.due()));
                Ok(CallProgress::Waiting)
            }
            CallProgress::Waiting => {
                self.ongoing = Some((ongoing, until));
                Ok(CallProgress::Waiting)
            }
        }
    }

    fn finish(&mut self, now: Instant) -> Result<CallProgress, CommunicatorError> {
        if !self.settle() {
            return Ok(CallProgress::Waiting);
        }
        self.end(Ok(()), now);
        Ok(CallProgress::Done)
    }

    fn settle(&mut self) -> bool {
        let member = self.member.as_mut().expect("it runs a program");
        let undelivered = &mut self.undelivered;
        self.sends.retain(|&id| match member.take_sent(id) {
            None => true,
            Some(SendOutcome::Sent) => false,
            Some(outcome) => {
                undelivered.get_or_insert(format!("a message ended as {outcome:?}"));
                false
            }
        });
        self.sends.is_empty()
    }

    fn begin(&mut self, step: Step, now: Instant) -> Result<(), CommunicatorError> {
        let member = self.member.as_mut().expect("it runs a program");
        let (rank, size, number) = (
            member.rank().expect("it has joined").0,
            usize::from(member.size()),
            self.step,
        );
        let own = |bytes| content(number, rank, bytes);
        let all = |bytes| {
            (0..size)
                .flat_map(|block| content(number, block as u16, bytes))
                .collect::<Vec<u8>>()
        };
        let only_at = |root, bytes| if rank == root { bytes } else { 0 };
        let mut until = now + self.patience;
        let ongoing = match step {
            Step::Broadcast { root, bytes } => {
                let buffer = if rank == root {
                    own(bytes)
                } else {
                    vec![0; bytes]
                };
                Ongoing::Broadcast(Broadcast::begin(member, now, Rank(root), bytes)?, buffer)
            }
            Step::Barrier => Ongoing::Barrier(Barrier::begin(member, now)?),
            Step::Scatter { root, bytes } => {
                let blocks = if rank == root { all(bytes) } else { Vec::new() };
                Ongoing::Scatter(
                    Scatter::begin(member, now, Rank(root), blocks.len(), bytes)?,
                    blocks,
                    vec![0; bytes],
                )
            }
            Step::Gather { root, bytes } => {
                let blocks = vec![0; only_at(root, size * bytes)];
                Ongoing::Gather(
                    Gather::begin(member, now, Rank(root), blocks.len(), bytes)?,
                    own(bytes),
                    blocks,
                )
            }
            Step::Allgather { bytes } => {
                let blocks = vec![0; size * bytes];
                Ongoing::Allgather(
                    Allgather::begin(member, now, blocks.len(), bytes)?,
                    own(bytes),
                    blocks,
                )
            }
            Step::Reduce {
                root,
                reduction,
                bytes,
            } => Ongoing::Reduce(
                Reduce::begin(member, now, Rank(root), reduction, bytes)?,
                reduction,
                elements(number, rank, reduction, bytes),
            ),
            Step::Allreduce { reduction, bytes } => Ongoing::Allreduce(
                Allreduce::begin(member, now, reduction, bytes)?,
                reduction,
                elements(number, rank, reduction, bytes),
            ),
            Step::Message {
                from,
                to,
                tag,
                bytes,
            } => {
                if from == rank {
                    self.sends.push(member.send(
                        Rank(to),
                        tag,
                        message(tag, rank, bytes),
                        Some(until),
                    )?);
                }
                if to != rank {
                    return Ok(());
                }
                Ongoing::Receive(member.recv(Rank(from), tag, bytes, Some(until))?)
            }
            Step::Compute(span) => {
                until = now + span;
                Ongoing::Compute
            }
            Step::Settle => Ongoing::Settle,
            Step::Shrink => Ongoing::Shrink(Shrink::begin(member, now)?),
        };
        // Shrinking has a deadline, whatever moves meanwhile.
        let may_last = ongoing.is_a_call() && !matches!(ongoing, Ongoing::Shrink(_));
        self.standstill = may_last.then(|| Patience::new(member, now, self.patience));
        until = self.standstill.as_ref().map_or(until, Patience::due);
        self.ongoing = Some((ongoing, until));
        Ok(())
    }

    fn advance(
        &mut self,
        ongoing: &mut Ongoing,
        now: Instant,
        until: Instant,
    ) -> Result<CallProgress, CommunicatorError> {
        let member = self.member.as_mut().expect("it runs a program");
        match ongoing {
            Ongoing::Broadcast(call, buffer) => call.advance(member, now, buffer),
            Ongoing::Barrier(call) => call.advance(member, now),
            Ongoing::Scatter(call, blocks, block) => call.advance(member, now, blocks, block),
            Ongoing::Gather(call, block, blocks) => call.advance(member, now, block, blocks),
            Ongoing::Allgather(call, block, blocks) => call.advance(member, now, block, blocks),
            Ongoing::Reduce(call, reduction, buffer) => {
                call.advance(member, now, buffer, &mut |into, from| {
                    combine(*reduction, into, from);
                })
            }
            Ongoing::Allreduce(call, reduction, buffer) => {
                call.advance(member, now, buffer, &mut |into, from| {
                    combine(*reduction, into, from);
                })
            }
            Ongoing::Receive(id) => match member.take_received(*id) {
                None => Ok(CallProgress::Waiting),
                Some(outcome) => {
                    let Step::Message {
                        from, tag, bytes, ..
                    } = self.program[self.step]
                    else {
                        unreachable!("it receives")
                    };
                    let expected = RecvOutcome::Received {
                        bytes: message(tag, from, bytes),
                    };
                    if outcome != expected {
                        let place = match &outcome {
                            RecvOutcome::Received { bytes }
                                if *bytes == message(tag, from, bytes.len()) =>
                            {
                                &mut self.exchanged
                            }
                            RecvOutcome::Received { .. } => &mut self.wrong,
                            _ => &mut self.undelivered,
                        };
                        place.get_or_insert(format!(
                            "step {}: a receive ended as {outcome:?}",
                            self.step
                        ));
                    }
                    Ok(CallProgress::Done)
                }
            },
            Ongoing::Settle => Ok(if self.settle() {
                CallProgress::Done
            } else {
                CallProgress::Waiting
            }),
            Ongoing::Shrink(call) => call.advance(member, now),
            Ongoing::Compute if now >= until => Ok(CallProgress::Done),
            Ongoing::Compute => Ok(CallProgress::Waiting),
        }
    }

    fn judge(&mut self, ongoing: Ongoing) {
        let member = self.member.as_ref().expect("it runs a program");
        let (rank, size, number) = (
            member.rank().expect("it has joined").0,
            member.size(),
            self.step,
        );
        let all = |bytes| {
            (0..size)
                .flat_map(|block| content(number, block, bytes))
                .collect::<Vec<u8>>()
        };
        let reduced = |reduction, bytes| {
            let mut ranks = (0..size).map(|rank| elements(number, rank, reduction, bytes));
            let mut all = ranks.next().unwrap_or_default();
            ranks.for_each(|own| combine(reduction, &mut all, &own));
            all
        };
        let sound = match (self.program[number], ongoing) {
            (Step::Broadcast { root, bytes }, Ongoing::Broadcast(_, buffer)) => {
                buffer == content(number, root, bytes)
            }
            (Step::Scatter { bytes, .. }, Ongoing::Scatter(_, _, block)) => {
                block == content(number, rank, bytes)
            }
            (Step::Gather { root, bytes }, Ongoing::Gather(_, _, blocks)) => {
                rank != root || blocks == all(bytes)
            }
            (Step::Allgather { bytes }, Ongoing::Allgather(_, _, blocks)) => blocks == all(bytes),
            (Step::Reduce { root, bytes, .. }, Ongoing::Reduce(_, reduction, buffer)) => {
                if rank == root {
                    are_equal(reduction, &buffer, &reduced(reduction, bytes))
                } else {
                    buffer == elements(number, rank, reduction, bytes)
                }
            }
            (Step::Allreduce { bytes, .. }, Ongoing::Allreduce(_, reduction, buffer)) => {
                let is_sound = are_equal(reduction, &buffer, &reduced(reduction, bytes));
                self.reduced = Some(buffer);
                is_sound
            }
            _ => true,
        };
        if !sound {
            self.wrong.get_or_insert(format!(
                "step {number}, {:?}: other bytes than were sent",
                self.program[number]
            ));
        }
    }

    fn abandon(&mut self, ongoing: Ongoing, now: Instant) -> CommunicatorError {
        let member = self.member.as_mut().expect("it runs a program");
        match ongoing {
            Ongoing::Broadcast(call, _) => call.abandon(member, now),
            Ongoing::Barrier(call) => call.abandon(member, now),
            Ongoing::Scatter(call, ..) => call.abandon(member, now),
            Ongoing::Gather(call, ..) => call.abandon(member, now),
            Ongoing::Allgather(call, ..) => call.abandon(member, now),
            Ongoing::Reduce(call, ..) => call.abandon(member, now),
            Ongoing::Allreduce(call, ..) => call.abandon(member, now),
            Ongoing::Shrink(call) => call.abandon(member),
            Ongoing::Receive(_) | Ongoing::Compute | Ongoing::Settle => {
                unreachable!("these end by themselves")
            }
        }
    }
}

impl Process {
    fn members(&mut self) -> impl Iterator<Item = &mut Member> {
        let beside = self
            .beside
            .as_mut()
            .and_then(|beside| beside.member.as_mut());
        let mut both = [self.member.as_mut(), beside];
        if self.beside_first {
            both.reverse();
        }
        both.into_iter().flatten()
    }
}

impl Machine for Process {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        self.members()
            .for_each(|member| member.handle_frame(now, frame));
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.members().for_each(|member| member.handle_timeout(now));
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.beside_first = !self.beside_first;
        self.members()
            .find_map(|member| member.poll_transmit(now, buffer))
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let beside = self
            .beside
            .as_ref()
            .and_then(|beside| beside.member.as_ref());
        self.member
            .iter()
            .chain(beside)
            .filter_map(|member| member.poll_timeout(now))
            .min()
    }
}
