//! Model checking of a transfer with a sender and a few receivers.

use super::state::Shared;
use super::world::{Fate, Host};
use crate::session::{GROUP, Sent};
use ethbcast_collectives::session::application::{Participant, Sink, SinkState, Tally};
use ethbcast_collectives::session::{
    Arrival, Blocks, Done, Outcome, Receiver, ReceiverConfig, Root, RootConfig, Route, Station,
    Timing, View, Wanted,
};
use ethbcast_planning::plan::Via;
use ethbcast_transport::sim::host_mac;
use ethbcast_transport::wire::HEADER_BYTES;
use ethbcast_transport::{Instant, Machine, Tuning};
use std::fmt;
use std::time::Duration;

const MTU_BYTES: u16 = 300;
/// The payload of a full frame, in bytes.
pub const PAYLOAD_BYTES: usize = MTU_BYTES as usize - HEADER_BYTES;
const LISTENS: Duration = Duration::from_secs(1);

/// Timing of these worlds: in the default's order, but silent or stalled members are detected and
/// given up after a few signs of life.
pub const TIMING: Timing = Timing {
    announce: Duration::from_millis(100),
    join: Duration::from_millis(100),
    view: Duration::from_millis(50),
    status: Duration::from_millis(100),
    suspect: Duration::from_millis(150),
    dead: Duration::from_millis(250),
    forgotten: Duration::from_millis(250),
    patience: Duration::from_millis(250),
    stall: Duration::from_millis(400),
    sync: Duration::from_millis(400),
    slow: Duration::from_millis(200),
    verdict: Duration::from_millis(50),
    farewells: 2,
};

/// A sink that compares received bytes with the sent ones and keeps only their count.
#[derive(Clone, Debug)]
pub struct Compared {
    sent: Shared,
    taken: usize,
    wrong_at: Option<usize>,
    verdict: Option<Done>,
}

impl Compared {
    fn new(sent: &Shared) -> Compared {
        Compared {
            sent: sent.clone(),
            taken: 0,
            wrong_at: None,
            verdict: None,
        }
    }

    fn has_all(&self) -> bool {
        self.wrong_at.is_none() && self.taken == self.sent.as_ref().len()
    }
}

impl Sink for Compared {
    fn take(&mut self, _now: Instant, arrival: Arrival<'_>) {
        let trailer = match arrival {
            Arrival::Bytes(bytes) | Arrival::Message(bytes) => {
                let end = self.taken + bytes.len();
                if self.sent.as_ref().get(self.taken..end) != Some(bytes) {
                    self.wrong_at.get_or_insert(self.taken);
                }
                self.taken = end;
                return;
            }
            Arrival::End(trailer) => trailer,
        };
        let mut tally = Tally::default();
        tally.add(&self.sent.as_ref()[..self.taken.min(self.sent.as_ref().len())]);
        self.verdict = Some(match tally.verify(trailer) {
            Ok(()) => tally.verdict(Outcome::Verified, ""),
            Err(mismatch) => tally.verdict(Outcome::Damaged, mismatch.to_string()),
        });
    }

    fn turn(&mut self, _now: Instant) -> SinkState {
        self.verdict.take().into()
    }
}

/// Starting point of an exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// The state before the first frame.
    Nothing,
    /// The root has sent its first view.
    View,
    /// The root has sent the first frames of the stream.
    Data,
}

#[derive(Clone, Debug)]
pub struct SessionHost<K = Compared> {
    participant: Participant<Sent<Shared>, K>,
    begins: Beginning,
}

/// Creates a root and `receivers` receivers of `frames` frames, the last of them the trailer, sent
/// via `via`; feeds have four slots.
pub fn session(via: Via, receivers: usize, frames: usize, begins: Beginning) -> Vec<SessionHost> {
    session_with(via, receivers, frames, begins, |_, sink| sink)
}

/// Creates such a session with sinks made by `change`.
pub fn session_with<K: Sink>(
    via: Via,
    receivers: usize,
    frames: usize,
    begins: Beginning,
    change: impl Fn(usize, Compared) -> K,
) -> Vec<SessionHost<K>> {
    let shared = Shared::of((frames - 1) * PAYLOAD_BYTES);
    let station = |host: usize| Station::new(GROUP, &format!("n{host}"), host_mac(host), MTU_BYTES);
    let tuning = Tuning::default().with_feed_frames(4);
    let config = RootConfig {
        size: Some(shared.as_ref().len() as u64),
        wanted: Wanted {
            patience: LISTENS,
            ..Wanted::exactly(receivers)
        },
        route: Route::Via(via),
        tuning: tuning.clone(),
        timing: TIMING,
        probe: false,
        ..RootConfig::new(station(0), 7, "a small world")
    };
    let root = Participant::root(
        Root::new(Instant::START, config),
        Sent::new(shared.clone(), false),
    );
    let receivers = (1..=receivers).map(|host| {
        let config = ReceiverConfig::new(station(host), host as u64);
        let config = ReceiverConfig {
            patience: Some(LISTENS),
            tuning: tuning.clone(),
            timing: TIMING,
            ..config
        };
        Participant::receiver(
            Receiver::new(Instant::START, config),
            change(host, Compared::new(&shared)),
        )
    });
    let hosts = std::iter::once(root).chain(receivers);
    hosts
        .map(|participant| SessionHost {
            participant,
            begins,
        })
        .collect()
}

/// A sink whose bytes can be compared.
pub trait Comparing: Sink + Clone + fmt::Debug {
    /// Returns the comparison so far.
    fn compared(&self) -> &Compared;
}

impl Comparing for Compared {
    fn compared(&self) -> &Compared {
        self
    }
}

impl<K: Comparing> SessionHost<K> {
    fn check_bytes(&self) -> Result<(), String> {
        let Some(receiving) = self.participant.receiving() else {
            return Ok(());
        };
        let compared = receiving.sink().compared();
        if let Some(at) = compared.wrong_at {
            return Err(format!(
                "byte {at} or one close behind is not what was sent"
            ));
        }
        let outcome = receiving.verdict().map(|verdict| verdict.outcome);
        let claims = matches!(outcome, Some(Outcome::Verified | Outcome::Delivered));
        if claims && !compared.has_all() {
            return Err(format!(
                "{outcome:?} with {} of {} bytes",
                compared.taken,
                compared.sent.as_ref().len()
            ));
        }
        Ok(())
    }
}

impl<K: Comparing> Machine for SessionHost<K> {
    ethbcast_transport::forward!(self => self.participant; handle_frame, handle_timeout, poll_transmit, poll_timeout);
}

impl<K: Comparing> Host for SessionHost<K> {
    const SKIPPED: &'static [&'static str] = &[
        "StreamStats",
        "ControlStats",
        "RootConfig",
        "ReceiverConfig",
    ];

    fn turn(&mut self, now: Instant) -> Option<Instant> {
        self.participant.turn(now)
    }

    fn has_begun(&self) -> bool {
        let Participant::Root(root, _) = &self.participant else {
            return false;
        };
        match self.begins {
            Beginning::Nothing => true,
            Beginning::View => root.view().is_some(),
            Beginning::Data => root.stream_stats().data_sent > 0,
        }
    }

    fn fate(&self) -> Fate {
        match &self.participant {
            Participant::Root(root, _) if !root.is_over() => Fate::Open,
            Participant::Root(root, _) => {
                let failed = root
                    .reports()
                    .find(|report| report.outcome != Outcome::Delivered);
                match (root.failure(), failed) {
                    (Some(failure), _) => Fate::Failed(failure.to_string()),
                    (_, Some(report)) => Fate::Failed(format!("{}: {}", report.host, report.text)),
                    (None, None) => Fate::Delivered,
                }
            }
            Participant::Receiver(receiver, _) if !receiver.is_over() => Fate::Open,
            Participant::Receiver(_, receiving) => {
                let outcome = receiving.verdict().map(|verdict| verdict.outcome);
                let ended = || Fate::Failed(format!("{:?}, {outcome:?}", receiving.end()));
                if outcome == Some(Outcome::Delivered) {
                    Fate::Delivered
                } else {
                    ended()
                }
            }
        }
    }

    fn has_all(&self) -> bool {
        self.participant
            .receiving()
            .is_none_or(|receiving| receiving.sink().compared().has_all())
    }

    fn claims(&self) -> Vec<usize> {
        let Participant::Root(root, _) = &self.participant else {
            return Vec::new();
        };
        let delivered = root
            .reports()
            .filter(|report| report.outcome == Outcome::Delivered);
        delivered
            .filter_map(|report| report.host.strip_prefix('n')?.parse().ok())
            .collect()
    }

    fn view(&self) -> Option<(u32, u64)> {
        let Participant::Receiver(receiver, _) = &self.participant else {
            return None;
        };
        let number = |view: &View| {
            u64::from_le_bytes(*view.digest().first_chunk().expect("a digest has 32 bytes"))
        };
        receiver.view().map(|view| (view.epoch, number(view)))
    }

    fn check(&self, _before: &Self) -> Result<(), String> {
        self.participant
            .streams()
            .map_or(Ok(()), Blocks::audit)
            .map_err(|error| error.to_string())?;
        self.check_bytes()
    }
}
