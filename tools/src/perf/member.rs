//! Every other rank of `perf`: takes, verifies, and says what it saw.

use super::pattern::Pattern;
use super::root::trailer;
use super::terms::Terms;
use crate::args::PerfArgs;
use crate::exit::{Code, Failure};
use crate::session;
use crate::signals::Interrupt;
use ethbcast_collectives::session::application::{Receiving, Sink};
use ethbcast_collectives::session::{Done, End, Options, Outcome, Session, Trailer};
use ethbcast_transport::Instant;
use ethbcast_transport::packet::Clock;
use std::time::Duration;

/// Takes part until the root says that there is no further size.
///
/// # Errors
/// A [`Failure`] whose code is the exit code.
pub fn run(args: &PerfArgs, options: &Options, wire: &mut Session, interrupt: &Interrupt) -> anyhow::Result<()> {
    loop {
        let mut receiving = Receiving::new(Taker::new(wire.clock()));
        wire.run_receiver(options, &mut receiving).map_err(session::failure)?;
        if let Some(signal) = interrupt.signal().filter(|_| receiving.is_cancelled()) {
            return Err(Interrupt::failure(signal, "interrupted; the root has been told").into());
        }
        let end = receiving.end().cloned();
        let taker = receiving.into_sink();
        let took = taker.took;
        let terms = taker.conclude(end)?;
        if !args.wire.quiet {
            let mean = took.as_secs_f64() * 1e6 / f64::from(terms.iterations);
            crate::exit::say(format_args!(
                "{:>10} bytes: {mean:.1} µs from release to release, {} verified",
                terms.size_bytes, terms.iterations
            ));
        }
        if terms.remaining == 0 {
            return Ok(());
        }
    }
}

/// The application at a rank that is not the root.
struct Taker {
    clock: Clock,
    terms: Option<Terms>,
    pattern: Pattern,
    /// Messages consumed after the terms: K barriers, then K times a broadcast and a release.
    messages: u32,
    /// Bytes taken of the present message.
    taken: usize,
    released: Instant,
    took: Duration,
    verdict: Option<Done>,
    failure: Option<Failure>,
}

impl Taker {
    fn new(clock: Clock) -> Taker {
        Taker {
            clock,
            terms: None,
            pattern: Pattern::new(0),
            messages: 0,
            taken: 0,
            released: Instant::START,
            took: Duration::ZERO,
            verdict: None,
            failure: None,
        }
    }

    /// Compares bytes of the present message with what it has to be.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(terms) = self.terms else {
            self.terms = Terms::decode(bytes).filter(|terms| terms.iterations > 0);
            let terms = self.terms.ok_or_else(|| {
                Failure::new(Code::Integrity, "the root's terms are none: is it of the same version?")
            })?;
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
        if same {
            return Ok(());
        }
        let text =
            format!("message {} is not what the root sent, from byte {taken} on; please report this", self.messages);
        Err(Failure::new(Code::Integrity, text))
    }

    /// The iteration whose broadcast the present message is; `None` for a release.
    fn broadcast(&self, terms: Terms) -> Option<u32> {
        let after = self.messages.checked_sub(terms.iterations + 1)?;
        after.is_multiple_of(2).then_some(after / 2)
    }

    /// A message has been consumed.
    fn pass(&mut self) {
        let Some(terms) = self.terms else { return };
        let now = self.clock.now();
        if self.messages == terms.iterations {
            self.released = now;
        }
        self.took = now.since(self.released);
        self.messages += 1;
        self.taken = 0;
    }

    fn conclude(self, end: Option<End>) -> Result<Terms, Failure> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        match (end, self.terms) {
            (Some(End::Confirmed | End::Unconfirmed), Some(terms)) => Ok(terms),
            (Some(End::NobodyThere), _) => {
                let text = "no root was heard; run `ethbcast perf --root` with the same -g on one host";
                Err(Failure::new(Code::Nobody, text))
            }
            (Some(End::Refused(_, text)), _) => Err(Failure::new(Code::Usage, format!("turned away: {text}"))),
            (Some(End::Aborted(text)), _) => Err(Failure::new(Code::SomeFailed, text)),
            (Some(End::RootSilent), _) => {
                Err(Failure::new(Code::Nobody, "the root fell silent: see what became of it"))
            }
            (Some(End::Dropped), _) => {
                let text =
                    "the root goes on without this host, which it has not heard for long or which got nothing done";
                Err(Failure::new(Code::Nobody, text))
            }
            (_, None) => Err(Failure::new(Code::SomeFailed, "the session ended before the root had said its terms")),
            (None, _) => Err(Failure::new(Code::SomeFailed, "this host gave up before the session had ended")),
        }
    }
}

impl Sink for Taker {
    fn has_room(&self) -> bool {
        self.failure.is_none()
    }

    fn write(&mut self, _now: Instant, bytes: &[u8], message_end: bool) {
        match self.take(bytes) {
            Ok(()) if message_end => self.pass(),
            Ok(()) => {}
            Err(failure) => {
                let (outcome, text) = (Outcome::Damaged, failure.to_string());
                self.verdict = Some(Done { outcome, bytes: 0, digest: [0; 32], text });
                self.failure = Some(failure);
            }
        }
    }

    fn finish(&mut self, _now: Instant, _trailer: Trailer) {
        let Some(terms) = self.terms else { return };
        let complete = u64::from(self.messages) == 1 + 3 * u64::from(terms.iterations);
        let outcome = if complete { Outcome::Verified } else { Outcome::Damaged };
        let Trailer { bytes, digest } = trailer(&terms);
        self.verdict = Some(Done { outcome, bytes, digest, text: String::new() });
    }

    fn verdict(&mut self, _now: Instant) -> Option<Done> {
        self.verdict.take()
    }
}
