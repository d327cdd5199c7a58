//! Test helper: simulated transfers whose links, network cards and relays damage frames.

use ethbcast_collectives::session::application::{
    Again, Coverage, MissingData, Participant, Sink, SinkState, Source, Tally, VerifiedSink,
};
use ethbcast_collectives::session::verified::{Checked, VerifiedSource};
use ethbcast_collectives::session::{
    Arrival, Damage, Done, End, Outcome, RootEvent, Trailer, kind,
};
use ethbcast_tests::session::{Case, Disk, Sent, data, hosts_of, run, star, strike};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{Delivery, Fate, Faults, Random, RandomFaults, Simulation};
use ethbcast_transport::wire::{Flags, Kind, parse};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// Bytes that are checked together.
pub const CHUNK_BYTES: usize = 4096;
/// Bytes that may wait to be checked.
const MAX_WAITING: usize = 64 * CHUNK_BYTES;
/// Fetches of a chunk before it is given up.
const ATTEMPTS: u32 = 3;

/// A sink that knows the expected bytes, as by an announced digest of each chunk, and fetches
/// chunks that differ.
pub struct Checking {
    expected: Rc<[u8]>,
    bytes: Vec<u8>,
    checked: usize,
    attempts: u32,
    denied: Option<String>,
    trailer: Option<Trailer>,
    /// Whether it serves its verified bytes to others.
    keeps: bool,
    given: bool,
}

impl Checking {
    fn new(expected: &Rc<[u8]>, keeps: bool) -> Checking {
        Checking {
            expected: Rc::clone(expected),
            bytes: Vec::new(),
            checked: 0,
            attempts: 0,
            denied: None,
            trailer: None,
            keeps,
            given: false,
        }
    }

    fn next(&self) -> Option<Range<usize>> {
        let end = (self.checked + CHUNK_BYTES).min(self.expected.len());
        (self.checked < end && end <= self.bytes.len()).then_some(self.checked..end)
    }

    fn check(&mut self) {
        while let Some(next) = self
            .next()
            .filter(|next| self.bytes[next.clone()] == self.expected[next.clone()])
        {
            (self.checked, self.attempts) = (next.end, 0);
        }
    }

    fn wanted(&mut self) -> Option<Range<u64>> {
        let next = self.next().filter(|_| self.denied.is_none())?;
        if self.attempts == ATTEMPTS {
            self.denied = Some(format!(
                "what was sent again was damaged, too, {ATTEMPTS} times"
            ));
            return None;
        }
        Some(next.start as u64..next.end as u64)
    }

    fn verdict(&mut self) -> Option<Done> {
        let (outcome, text) = match (&self.denied, self.trailer) {
            (Some(why), _) => (
                Outcome::Damaged,
                format!("{CHUNK_BYTES} bytes at byte {}: {why}", self.checked),
            ),
            (None, Some(_)) if self.checked == self.expected.len() => {
                (Outcome::Verified, String::new())
            }
            _ => return None,
        };
        let mut tally = Tally::default();
        tally.add(&self.bytes[..self.checked]);
        (!std::mem::replace(&mut self.given, true)).then(|| tally.verdict(outcome, text))
    }
}

impl Sink for Checking {
    fn has_room(&self) -> bool {
        self.bytes.len() - self.checked < MAX_WAITING
    }

    fn take(&mut self, _now: Instant, arrival: Arrival<'_>) {
        match arrival {
            Arrival::Bytes(bytes) | Arrival::Message(bytes) => {
                self.bytes.extend_from_slice(bytes);
                self.check();
            }
            Arrival::End(trailer) => self.trailer = Some(trailer),
        }
    }

    fn read_again(&mut self, _now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        let range = offset as usize..offset as usize + bytes;
        match range.end {
            _ if !self.keeps => Again::Impossible("nothing is kept".to_owned()),
            end if end <= self.checked => Again::Bytes(&self.bytes[range]),
            end if end <= self.bytes.len() => Again::Pending,
            _ => Again::Impossible("they have not come".to_owned()),
        }
    }

    fn turn(&mut self, _now: Instant) -> SinkState {
        self.verdict().into()
    }

    fn verified(&mut self) -> Option<&mut dyn VerifiedSink> {
        Some(self)
    }
}

impl VerifiedSink for Checking {
    fn coverage(&self) -> Coverage {
        Coverage::default()
    }

    fn missing(&mut self, _now: Instant) -> MissingData {
        MissingData {
            wanted: self.wanted(),
            ..MissingData::default()
        }
    }

    fn fetched(&mut self, _now: Instant, fetched: Result<(u64, &[u8]), &str>) {
        let (at, bytes) = match fetched {
            Ok((at, bytes)) => (at as usize, bytes),
            Err(why) => return self.denied = Some(why.to_owned()),
        };
        let next = self.next().expect("bytes were wanted");
        assert_eq!(at..at + bytes.len(), next, "what was wanted is supplied");
        self.bytes[next].copy_from_slice(bytes);
        self.attempts += 1;
        self.check();
    }
}

fn damage((_, event): &(Instant, RootEvent)) -> Option<Damage> {
    if let RootEvent::Damaged(damage) = event {
        Some(damage.clone())
    } else {
        None
    }
}

/// The frames of the stream that are damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Frames received by this host.
    Card(usize),
    /// Frames sent by this host.
    Memory(usize),
}

#[derive(Clone, Copy, Debug, Default)]
pub struct DamagePrice {
    pub damaged: u64,
    pub questions: u64,
    pub pieces: u64,
    pub piece_bytes: u64,
}

struct Damaging {
    broken: Broken,
    chance: f64,
    again: u64,
    random: Random,
    others: RandomFaults,
    price: Rc<RefCell<DamagePrice>>,
}

impl Faults for Damaging {
    fn fate(&mut self, delivery: &Delivery<'_>) -> Fate {
        let Ok(frame) = parse(delivery.frame) else {
            return Fate::Deliver;
        };
        let mut price = self.price.borrow_mut();
        price.questions += u64::from(frame.header.kind == kind::FETCH);
        if frame.header.kind == kind::PIECE {
            price.pieces += 1;
            price.piece_bytes += frame.payload.len() as u64;
        }
        // The first 16 bytes of a PIECE say which bytes it holds.
        let piece = frame.header.kind == kind::PIECE && frame.payload.len() > 16;
        let of_stream = frame.header.kind == Kind::DATA && !frame.header.flags.has(Flags::LAST);
        let concerned = match self.broken {
            Broken::Card(host) => delivery.to == host,
            Broken::Memory(host) => delivery.from == Some(host),
        };
        if concerned && piece && self.again > 0 {
            self.again -= 1;
            return Fate::Damage { byte: 16 };
        }
        if concerned && of_stream && self.random.chance(self.chance) {
            price.damaged += 1;
            return Fate::Damage {
                byte: self.random.below(1000) as usize,
            };
        }
        drop(price);
        self.others.fate(delivery)
    }
}

#[derive(Clone, Debug)]
pub struct Scene {
    pub case: Case,
    pub broken: Broken,
    /// Probability of damage for each affected frame.
    pub chance: f64,
    /// Number of pieces that are damaged, too.
    pub again: u64,
    pub loss: f64,
    /// A host with a loss of a third.
    pub lossy: Option<usize>,
    /// Receivers that serve their verified bytes to others; all if `None`.
    pub keepers: Option<Vec<usize>>,
}

pub struct DamagePlay {
    pub fates: Vec<Outcome>,
    pub words: Vec<String>,
    /// Damages reported while it ran.
    pub told: Vec<Damage>,
    /// Damages known at the end.
    pub damages: Vec<Damage>,
    pub price: DamagePrice,
    pub took: Duration,
}

impl Scene {
    /// Plays it with chunks of 4 KiB that are known beforehand, and checks that each host that
    /// claims the bytes has them.
    pub fn play(&self, seed: u64, replay: &str) -> DamagePlay {
        let expected = self.content(seed);
        let sink = |host| Checking::new(&expected, self.keeps(host));
        let exact = |sink: &Checking| sink.bytes == expected[..] && sink.checked == expected.len();
        self.play_with(
            seed,
            replay,
            (self.sent(&expected), |sent| sent.told()),
            (sink, exact),
        )
    }

    pub fn play_verified(&self, seed: u64, replay: &str) -> DamagePlay {
        let expected = self.content(seed);
        let sink = |host| Checked::checking(Disk::default().keeping(self.keeps(host)));
        let exact = |sink: &Checked<Disk>| sink.content().bytes() == &expected[..];
        let source = VerifiedSource::of(self.sent(&expected));
        self.play_with(
            seed,
            replay,
            (source, |sent| sent.content().told()),
            (sink, exact),
        )
    }

    fn content(&self, seed: u64) -> Rc<[u8]> {
        data(self.case.bytes, seed).into()
    }

    fn sent(&self, content: &Rc<[u8]>) -> Sent<Rc<[u8]>> {
        Sent::new(Rc::clone(content), self.case.pipe).listening()
    }

    fn keeps(&self, host: usize) -> bool {
        self.keepers
            .as_ref()
            .is_none_or(|keepers| keepers.contains(&host))
    }

    fn play_with<S: Source, K: Sink>(
        &self,
        seed: u64,
        replay: &str,
        (source, told): (S, impl Fn(&S) -> &[(Instant, RootEvent)]),
        (sink, exact): (impl Fn(usize) -> K, impl Fn(&K) -> bool),
    ) -> DamagePlay {
        let Scene {
            case,
            broken,
            chance,
            again,
            loss,
            lossy,
            ..
        } = self;
        let price = Rc::new(RefCell::new(DamagePrice::default()));
        let others = RandomFaults::new(seed).loss(*loss);
        let others = lossy
            .iter()
            .fold(others, |others, &host| others.loss_at(host, 0.3));
        let (random, shared) = (Random::new(seed ^ 99), Rc::clone(&price));
        let faults = Damaging {
            broken: *broken,
            chance: *chance,
            again: *again,
            random,
            others,
            price: shared,
        };
        let (hosts, network) = (
            hosts_of(case, seed, source, sink),
            star(case, 1_000_000_000),
        );
        let mut simulation = Simulation::new(&network, hosts, faults);
        simulation.set_event_limit(20_000_000);
        strike(case, &network, &mut simulation);
        run(
            &mut simulation,
            Duration::from_secs(120),
            replay,
            Participant::turn,
        );
        let hosts = simulation.machines();
        let Participant::Root(root, sending) = &hosts[0] else {
            unreachable!("host 0 is the root")
        };
        for (host, receiving) in hosts
            .iter()
            .enumerate()
            .filter_map(|(host, one)| Some((host, one.receiving()?)))
        {
            let claims = receiving
                .verdict()
                .is_some_and(|verdict| verdict.outcome == Outcome::Delivered);
            let died = case.crashes.iter().any(|&(dead, _)| dead == host);
            let confirmed = matches!(receiving.end(), Some(End::Confirmed | End::Unconfirmed));
            let sound = exact(receiving.sink()) && (confirmed || died);
            assert!(
                !claims || sound,
                "{replay}: n{host} claims what was not sent"
            );
        }
        let price = *price.borrow();
        DamagePlay {
            fates: root.reports().map(|report| report.outcome).collect(),
            words: root.reports().map(|report| report.text.clone()).collect(),
            told: told(sending.source()).iter().filter_map(damage).collect(),
            damages: root.damages(),
            price,
            took: root.took(),
        }
    }
}
