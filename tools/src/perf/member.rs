//! Every other rank of `perf`: takes, verifies, and says what it saw.

use super::Loop;
use super::pattern::Pattern;
use super::terms::Terms;
use crate::args::PerfArgs;
use crate::exit::{Code, Failure, WithCode};
use crate::signals::Interrupt;
use ethbcast_collectives::session::{Arrival, End, Outcome, Receiver, ReceiverConfig, ReceiverEvent};
use ethbcast_transport::Instant;
use ethbcast_transport::packet::drive;
use std::ops::ControlFlow;
use std::time::Duration;

/// Takes part until the root says that there is no further size.
///
/// # Errors
/// A [`Failure`] whose code is the exit code.
pub fn run(args: &PerfArgs, station: &mut Loop) -> anyhow::Result<()> {
    loop {
        let config = ReceiverConfig {
            patience: Some(Duration::from_secs_f64(args.max_wait)),
            tuning: station.wire.tuning.clone(),
            ..ReceiverConfig::new(station.wire.station.clone(), getrandom::u64().code(Code::System)?)
        };
        let Loop { wire, waker, clock, interrupt } = &mut *station;
        let mut receiver = Receiver::new(clock.now(), config);
        let mut taker = Taker::new(interrupt.clone());
        drive(&mut wire.port, &mut receiver, waker, clock, |receiver, _| taker.turn(receiver, clock.now())).code(Code::System)?;
        let terms = taker.conclude()?;
        if !args.wire.quiet {
            let mean = taker.took.as_secs_f64() * 1e6 / f64::from(terms.iterations);
            eprintln!("{:>10} bytes: {mean:.1} µs from release to release, {} verified", terms.size_bytes, terms.iterations);
        }
        if terms.remaining == 0 {
            return Ok(());
        }
    }
}

/// The application at a rank that is not the root.
struct Taker {
    interrupt: Interrupt,
    terms: Option<Terms>,
    pattern: Pattern,
    /// Messages passed after the terms: K barriers, then K times a broadcast and a release.
    messages: u32,
    /// Bytes taken of the present message.
    taken: usize,
    damaged: bool,
    released: Instant,
    took: Duration,
    end: Option<End>,
    failure: Option<Failure>,
}

impl Taker {
    fn new(interrupt: Interrupt) -> Taker {
        Taker {
            interrupt,
            terms: None,
            pattern: Pattern::new(0),
            messages: 0,
            taken: 0,
            damaged: false,
            released: Instant::START,
            took: Duration::ZERO,
            end: None,
            failure: None,
        }
    }

    fn turn(&mut self, receiver: &mut Receiver, now: Instant) -> ControlFlow<()> {
        if let Some(signal) = self.interrupt.signal().filter(|_| self.failure.is_none()) {
            self.failure = Some(Interrupt::failure(signal, "interrupted; the root has been told"));
            receiver.conclude(now, Outcome::Interrupted, 0, [0; 32], "interrupted by its user");
        }
        while let Some(event) = receiver.poll_event() {
            if let ReceiverEvent::Ended(end) = event {
                self.end = Some(end);
            }
        }
        while self.failure.is_none() {
            let ended = match receiver.peek() {
                Some(Arrival::Bytes(bytes)) => self.take(bytes).map(|()| false),
                Some(Arrival::Message(bytes)) => self.take(bytes).map(|()| true),
                Some(Arrival::End(_)) => {
                    self.finish(receiver, now);
                    Ok(false)
                }
                None => break,
            };
            match ended {
                Ok(ended) if ended => self.pass(now),
                Ok(_) => {}
                Err(failure) => {
                    receiver.conclude(now, Outcome::Damaged, 0, [0; 32], &failure.to_string());
                    self.failure = Some(failure);
                    break;
                }
            }
            receiver.consume(now);
        }
        if receiver.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Compares bytes of the present message with what it has to be.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(terms) = self.terms else {
            self.terms = Terms::decode(bytes).filter(|terms| terms.iterations > 0);
            let terms =
                self.terms.ok_or_else(|| Failure::new(Code::Integrity, "the root's terms are none: is it of the same version?"))?;
            self.pattern = Pattern::new(terms.size_bytes);
            return Ok(());
        };
        let (at, taken) = (self.broadcast(terms), self.taken);
        self.taken += bytes.len();
        let expected: &[u8] = match at {
            Some(iteration) => self.pattern.rest(iteration, taken),
            None => [1].get(taken..).unwrap_or_default(),
        };
        let same = expected.get(..bytes.len()).is_some_and(|expected| expected == bytes);
        self.damaged |= !same;
        if same {
            return Ok(());
        }
        let text = format!("message {} is not what the root sent, from byte {taken} on; please report this", self.messages);
        Err(Failure::new(Code::Integrity, text))
    }

    /// The iteration whose broadcast the present message is; `None` for a release.
    fn broadcast(&self, terms: Terms) -> Option<u32> {
        let after = self.messages.checked_sub(terms.iterations + 1)?;
        after.is_multiple_of(2).then_some(after / 2)
    }

    /// A message has been passed.
    fn pass(&mut self, now: Instant) {
        let Some(terms) = self.terms else { return };
        if self.messages == terms.iterations {
            self.released = now;
        }
        self.took = now.since(self.released);
        self.messages += 1;
        self.taken = 0;
    }

    fn finish(&mut self, receiver: &mut Receiver, now: Instant) {
        let Some(terms) = self.terms else { return };
        let complete = u64::from(self.messages) == 1 + 3 * u64::from(terms.iterations) && !self.damaged;
        let bytes = terms.size_bytes * u64::from(terms.iterations);
        let digest = *blake3::hash(&terms.encode()).as_bytes();
        let outcome = if complete { Outcome::Delivered } else { Outcome::Damaged };
        receiver.conclude(now, outcome, bytes, digest, "");
    }

    fn conclude(&mut self) -> Result<Terms, Failure> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        match (&self.end, self.terms) {
            (Some(End::Confirmed | End::Unconfirmed), Some(terms)) => Ok(terms),
            (Some(End::NobodyThere), _) => {
                let text = "no root was heard; run `ethbcast perf --root` with the same -g on one host";
                Err(Failure::new(Code::Nobody, text))
            }
            (Some(End::Refused(_, text)), _) => Err(Failure::new(Code::Usage, format!("turned away: {text}"))),
            (Some(End::Aborted(text)), _) => Err(Failure::new(Code::SomeFailed, text)),
            (end, _) => Err(Failure::new(Code::SomeFailed, format!("the session ended early: {end:?}"))),
        }
    }
}
