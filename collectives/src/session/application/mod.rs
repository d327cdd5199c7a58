//! The application's side of a transfer: where the sender's bytes come from and the receiver's go.
//! This module has no sockets, threads or clock.
//!
//! [`Sending`] and [`Receiving`] do the work of every application in its turn, between input and
//! output of the machine. They push data while there is room and end the stream with its digest, or
//! take the data that has arrived while there is room and report the outcome. A simulation runs
//! them as [`Participant`]s:
//!
//! ```
//! use ethbcast_collectives::session::application::{Collected, MemoryContent, Participant};
//! use ethbcast_collectives::session::{Outcome, Receiver, ReceiverConfig, Root, RootConfig, Station, Wanted};
//! use ethbcast_transport::sim::{Cable, HostSettings, Network, NoFaults, Simulation, host_mac};
//! use ethbcast_transport::{Instant, wire::group_mac};
//! use std::time::Duration;
//!
//! let station = |host: usize| Station::new("files", &format!("n{host}"), host_mac(host), 1500);
//! let config = RootConfig { wanted: Wanted::exactly(2), probe: false, ..RootConfig::new(station(0), 1, "greeting") };
//! let root = Root::new(Instant::START, config);
//! let mut hosts = vec![Participant::root(root, MemoryContent::new(b"the same bytes everywhere"))];
//! for host in [1, 2] {
//!     let receiver = Receiver::new(Instant::START, ReceiverConfig::new(station(host), host as u64));
//!     hosts.push(Participant::receiver(receiver, Collected::default()));
//! }
//! let card = HostSettings { groups: vec![group_mac("files")], ..HostSettings::default() };
//! let network = Network::star(3, Cable::new(1_000_000_000, Duration::from_micros(1)), &card);
//! let mut simulation = Simulation::new(&network, hosts, NoFaults);
//! let end = simulation.run(Instant::START + Duration::from_secs(10), |_, host, now| host.turn(now));
//! assert!(end.is_quiet());
//! for host in &simulation.machines()[1..] {
//!     let receiving = host.receiving().expect("all but the root receive");
//!     assert_eq!(receiving.verdict().map(|verdict| verdict.outcome), Some(Outcome::Delivered));
//!     assert_eq!(receiving.sink().bytes(), b"the same bytes everywhere");
//! }
//! ```

mod receiving;
mod sending;

use crate::membership::ControlStats;
use crate::session::blocks::Blocks;
use crate::session::endpoint::ControlMemory;
use crate::session::message::{Done, Outcome, Trailer};
use crate::session::receiver::{Arrival, Receiver};
use crate::session::root::Root;
use ethbcast_transport::stream::StreamStats;
use ethbcast_transport::{Instant, Machine};
pub use receiving::{Coverage, MissingData, Receiving, Sink, SinkState, VerifiedSink};
pub use sending::{Again, Mismatch, Next, Sending, Source, Tally, VerifiedStream};

/// A host's machine with its application.
#[derive(Clone, Debug)]
pub enum Participant<S, K> {
    /// The host that sends the content, with its source.
    Root(Box<Root>, Sending<S>),
    /// A host that receives the content, with its sink.
    Receiver(Box<Receiver>, Receiving<K>),
}

impl<S: Source, K: Sink> Participant<S, K> {
    /// Creates a root that sends the content of `source`.
    pub fn root(root: Root, source: S) -> Participant<S, K> {
        Participant::Root(Box::new(root), Sending::new(source))
    }

    /// Creates a receiver that writes to `sink`.
    pub fn receiver(receiver: Receiver, sink: K) -> Participant<S, K> {
        Participant::Receiver(Box::new(receiver), Receiving::new(sink))
    }

    /// Runs the application's turn. Returns the time of the next turn.
    pub fn turn(&mut self, now: Instant) -> Option<Instant> {
        match self {
            Participant::Root(root, sending) => sending.turn(root, now),
            Participant::Receiver(receiver, receiving) => receiving.turn(receiver, now),
        }
    }

    /// Returns the application, if this is the root.
    pub fn sending(&self) -> Option<&Sending<S>> {
        if let Participant::Root(_, sending) = self {
            Some(sending)
        } else {
            None
        }
    }

    /// Returns the application, if this is a receiver.
    pub fn receiving(&self) -> Option<&Receiving<K>> {
        if let Participant::Receiver(_, receiving) = self {
            Some(receiving)
        } else {
            None
        }
    }

    /// Returns this host's end of the streams, once it is a member.
    pub fn streams(&self) -> Option<&Blocks> {
        match self {
            Participant::Root(root, _) => root.streams(),
            Participant::Receiver(receiver, _) => receiver.streams(),
        }
    }

    /// Returns the frame counters of the streams.
    pub fn stream_stats(&self) -> StreamStats {
        self.streams().map(Blocks::stats).unwrap_or_default()
    }

    /// Returns the counters of control frames.
    pub fn control_stats(&self) -> ControlStats {
        match self {
            Participant::Root(root, _) => root.control_stats(),
            Participant::Receiver(receiver, _) => receiver.control_stats(),
        }
    }

    /// Returns the amount of state kept beside the streams.
    pub fn control_memory(&self) -> ControlMemory {
        match self {
            Participant::Root(root, _) => root.control_memory(),
            Participant::Receiver(receiver, _) => receiver.control_memory(),
        }
    }

    fn machine(&self) -> &dyn Machine {
        match self {
            Participant::Root(root, _) => root.as_ref(),
            Participant::Receiver(receiver, _) => receiver.as_ref(),
        }
    }

    fn machine_mut(&mut self) -> &mut dyn Machine {
        match self {
            Participant::Root(root, _) => root.as_mut(),
            Participant::Receiver(receiver, _) => receiver.as_mut(),
        }
    }
}

impl<S: Source, K: Sink> Machine for Participant<S, K> {
    ethbcast_transport::forward!(self => self.machine_mut(); handle_frame, handle_timeout);
    ethbcast_transport::forward!(self => self.machine_mut(); poll_transmit, poll_transmit_split);
    ethbcast_transport::forward!(self => self.machine(); payload, poll_timeout, is_urgent);
}

/// Content in memory to be sent, such as a `Vec`, a slice or an `Rc`.
#[derive(Clone, Debug)]
pub struct MemoryContent<B> {
    bytes: B,
    trailer: Trailer,
    pushed: usize,
}

impl<B: AsRef<[u8]>> MemoryContent<B> {
    /// Creates a content of `bytes` and computes their digest.
    pub fn new(bytes: B) -> MemoryContent<B> {
        let mut tally = Tally::default();
        tally.add(bytes.as_ref());
        let trailer = tally.trailer();
        MemoryContent {
            bytes,
            trailer,
            pushed: 0,
        }
    }

    /// Returns length and digest of the bytes.
    pub fn trailer(&self) -> Trailer {
        self.trailer
    }

    /// Returns all bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl<B: AsRef<[u8]>> Source for MemoryContent<B> {
    fn next(&mut self, _now: Instant, _passed: bool) -> Next<'_> {
        let rest = &self.bytes.as_ref()[self.pushed..];
        if rest.is_empty() {
            Next::End(self.trailer)
        } else {
            Next::Bytes(rest)
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.pushed += bytes;
    }

    fn read_again(&mut self, _now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        let begin = usize::try_from(offset).unwrap_or(usize::MAX);
        let asked = self.bytes.as_ref().get(begin..begin.saturating_add(bytes));
        asked.map_or_else(
            || Again::Impossible("there are no such bytes".to_owned()),
            Again::Bytes,
        )
    }
}

/// Received bytes in memory; the verdict follows at once.
#[derive(Clone, Debug, Default)]
pub struct Collected {
    bytes: Vec<u8>,
    verdict: Option<Done>,
}

impl Collected {
    /// Returns the bytes received so far; they are verified only if the verdict says so.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Refuses further bytes with this verdict.
    pub fn refuse(&mut self, outcome: Outcome, text: &str) {
        let bytes = self.bytes.len() as u64;
        self.verdict = Some(Done {
            outcome,
            bytes,
            digest: [0; 32],
            text: text.to_owned(),
        });
    }
}

impl Sink for Collected {
    fn take(&mut self, _now: Instant, arrival: Arrival<'_>) {
        let trailer = match arrival {
            Arrival::Bytes(bytes) | Arrival::Message(bytes) => {
                return self.bytes.extend_from_slice(bytes);
            }
            Arrival::End(trailer) => trailer,
        };
        let mut tally = Tally::default();
        tally.add(&self.bytes);
        self.verdict = Some(match tally.verify(trailer) {
            Ok(()) => tally.verdict(Outcome::Verified, ""),
            Err(mismatch) => tally.verdict(Outcome::Damaged, mismatch.to_string()),
        });
    }

    fn turn(&mut self, _now: Instant) -> SinkState {
        self.verdict.take().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::Station;
    use crate::session::message::{Done, Outcome, Trailer};
    use crate::session::receiver::{Arrival, End, Receiver, ReceiverConfig};
    use crate::session::root::{Root, RootConfig, RootEvent, Wanted};
    use ethbcast_transport::Instant;
    use ethbcast_transport::sim::{Cable, HostSettings, Network, NoFaults, Simulation, host_mac};
    use ethbcast_transport::wire::{
        EtherType, Flags, Guard, Header, Identity, Kind, Rank, StreamId, group_mac,
    };
    use std::ops::ControlFlow;
    use std::time::Duration;

    fn play<S: Source, K: Sink>(source: S, sinks: Vec<K>) -> Vec<Participant<S, K>> {
        disturbed(None, None, source, sinks)
    }

    fn disturbed<S: Source, K: Sink>(
        size: Option<u64>,
        stray: Option<(Instant, &[u8])>,
        source: S,
        sinks: Vec<K>,
    ) -> Vec<Participant<S, K>> {
        let station = |host: usize| Station::new("test", &format!("n{host}"), host_mac(host), 1500);
        let (wanted, hosts) = (Wanted::exactly(sinks.len()), sinks.len() + 1);
        let config = RootConfig {
            wanted,
            size,
            probe: false,
            ..RootConfig::new(station(0), 1, "test")
        };
        let root = Participant::root(Root::new(Instant::START, config), source);
        let receivers = (1..).zip(sinks).map(|(host, sink)| {
            let config = ReceiverConfig::new(station(host), host as u64);
            Participant::receiver(Receiver::new(Instant::START, config), sink)
        });
        let settings = HostSettings {
            groups: vec![group_mac("test")],
            ..HostSettings::default()
        };
        let network = Network::star(
            hosts,
            Cable::new(1_000_000_000, Duration::from_micros(1)),
            &settings,
        );
        let mut simulation = Simulation::new(
            &network,
            std::iter::once(root).chain(receivers).collect(),
            NoFaults,
        );
        if let Some((at, frame)) = stray {
            simulation.inject(at, 1, frame);
        }
        let end = simulation.run(Instant::START + Duration::from_secs(60), |_, host, now| {
            host.turn(now)
        });
        assert!(end.is_quiet(), "{end:?}");
        simulation.into_machines()
    }

    struct Torn {
        content: MemoryContent<Vec<u8>>,
        left_bytes: usize,
    }

    impl Source for Torn {
        fn next(&mut self, now: Instant, consumed: bool) -> Next<'_> {
            match (self.left_bytes, self.content.next(now, consumed)) {
                (0, _) => Next::Failed("the tape tore".to_owned()),
                (left, Next::Bytes(bytes)) => Next::Bytes(&bytes[..bytes.len().min(left)]),
                (_, next) => next,
            }
        }

        fn advance(&mut self, bytes: usize) {
            self.left_bytes -= bytes;
            self.content.advance(bytes);
        }
    }

    #[test]
    fn a_source_that_fails_half_way_is_the_end_for_everybody() {
        let hosts = play(
            Torn {
                content: MemoryContent::new(vec![1; 300_000]),
                left_bytes: 100_000,
            },
            vec![Collected::default(); 2],
        );
        let sending = hosts[0].sending().expect("the root");
        assert_eq!(
            (sending.failed(), sending.trailer()),
            (Some("the tape tore"), None)
        );
        for receiving in hosts.iter().filter_map(Participant::receiving) {
            assert_eq!(
                receiving.end(),
                Some(&End::Aborted("the tape tore".to_owned()))
            );
            assert!(receiving.verdict().is_none() && receiving.sink().bytes().len() <= 100_000);
        }
    }

    #[test]
    fn an_end_that_somebody_makes_up_is_refused_where_the_size_is_known() {
        let content = vec![5; 400_000];
        let identity = Identity {
            session: 1,
            stream: StreamId(1),
            rank: Rank::ROOT,
            mac: host_mac(0),
            ether_type: EtherType::DEFAULT,
            guard: Guard::Plain,
        };
        let frames = 200;
        let header = Header {
            flags: Flags::LAST,
            sequence: frames as u64,
            ..identity.header(Kind::DATA)
        };
        let mut frame = [0; 200];
        let mut tally = Tally::default();
        tally.add(&content[..frames * 1468]);
        let trailer = tally.trailer().encode();
        let length = identity.write(&mut frame, host_mac(1), &header, &trailer);
        for at in (0..90).map(|step| Instant::START + Duration::from_micros(199_500 + step * 50)) {
            let stray = Some((at, &frame[..length]));
            let hosts = disturbed(
                Some(400_000),
                stray,
                MemoryContent::new(content.clone()),
                vec![Collected::default(); 2],
            );
            for receiving in hosts.iter().filter_map(Participant::receiving) {
                assert_eq!(
                    receiving.verdict().map(|done| done.outcome),
                    Some(Outcome::Delivered),
                    "{at:?}"
                );
                assert!(receiving.sink().bytes() == content, "{at:?}");
            }
        }
    }

    struct Forged(MemoryContent<Vec<u8>>);

    impl Source for Forged {
        fn next(&mut self, now: Instant, consumed: bool) -> Next<'_> {
            match self.0.next(now, consumed) {
                Next::End(trailer) => Next::End(Trailer {
                    digest: [7; 32],
                    ..trailer
                }),
                next => next,
            }
        }

        fn advance(&mut self, bytes: usize) {
            self.0.advance(bytes);
        }
    }

    #[test]
    fn bytes_that_are_not_the_trailers_are_damaged() {
        let hosts = play(
            Forged(MemoryContent::new(vec![1; 10_000])),
            vec![Collected::default()],
        );
        let verdict = hosts[1]
            .receiving()
            .and_then(Receiving::verdict)
            .expect("a verdict");
        assert_eq!((verdict.outcome, verdict.bytes), (Outcome::Damaged, 10_000));
        assert!(verdict.text.contains("send again"), "{}", verdict.text);
    }

    struct Small {
        writes: u32,
        done: Option<Done>,
    }

    impl Sink for Small {
        fn has_room(&self) -> bool {
            self.writes > 0
        }

        fn take(&mut self, _now: Instant, arrival: Arrival<'_>) {
            match arrival {
                Arrival::Bytes(bytes) | Arrival::Message(bytes) => {
                    self.writes -= 1;
                    if self.writes == 0 {
                        let mut tally = Tally::default();
                        tally.add(bytes);
                        self.done = Some(tally.verdict(Outcome::NoSpace, "full"));
                    }
                }
                Arrival::End(Trailer { bytes, digest }) => {
                    let (outcome, text) = (Outcome::Verified, String::new());
                    self.done = Some(Done {
                        outcome,
                        bytes,
                        digest,
                        text,
                    });
                }
            }
        }

        fn turn(&mut self, _now: Instant) -> SinkState {
            self.done.take().into()
        }
    }

    #[test]
    fn a_sink_that_is_full_is_given_no_more_and_the_others_get_everything() {
        let sinks = [u32::MAX, 3, u32::MAX].map(|writes| Small { writes, done: None });
        let hosts = play(MemoryContent::new(vec![1; 100_000]), sinks.into());
        let Participant::Root(root, _) = &hosts[0] else {
            panic!("the root is the first")
        };
        let outcomes: Vec<_> = root.reports().map(|report| report.outcome).collect();
        assert_eq!(
            outcomes,
            [Outcome::Delivered, Outcome::NoSpace, Outcome::Delivered]
        );
        assert_eq!(
            hosts[2]
                .receiving()
                .map(|receiving| receiving.sink().writes),
            Some(0)
        );
    }

    struct Steps {
        left: u32,
        pushed: bool,
        waiting: bool,
        consumed: u32,
    }

    impl Source for Steps {
        fn next(&mut self, _now: Instant, consumed: bool) -> Next<'_> {
            if std::mem::take(&mut self.pushed) {
                self.waiting = true;
                return Next::Message { reported: true };
            }
            if self.waiting && !consumed {
                return Next::Nothing;
            }
            self.consumed += u32::from(std::mem::take(&mut self.waiting));
            if self.left == 0 {
                Next::End(Tally::default().trailer())
            } else {
                Next::Bytes(&[1])
            }
        }

        fn advance(&mut self, bytes: usize) {
            self.left -= bytes as u32;
            self.pushed = true;
        }

        fn on_event(&mut self, _now: Instant, event: &RootEvent) -> ControlFlow<String> {
            match event {
                RootEvent::Reported(report) if report.outcome != Outcome::Delivered => {
                    ControlFlow::Break("all or nobody".into())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }

    #[test]
    fn a_source_can_wait_for_its_messages_to_be_consumed_and_give_up_when_somebody_does() {
        let steps = |left| Steps {
            left,
            pushed: false,
            waiting: false,
            consumed: 0,
        };
        let sinks = |writes: [u32; 2]| writes.map(|writes| Small { writes, done: None }).into();
        let hosts = play(steps(5), sinks([6, 6]));
        assert_eq!(
            hosts[0].sending().map(|sending| sending.source().consumed),
            Some(5)
        );
        let hosts = play(steps(5), sinks([6, 2]));
        assert_eq!(
            hosts[0].sending().and_then(Sending::failed),
            Some("all or nobody")
        );
        let ends: Vec<_> = hosts
            .iter()
            .filter_map(Participant::receiving)
            .map(|receiving| receiving.end())
            .collect();
        assert_eq!(
            ends[0],
            Some(&End::Aborted("all or nobody".to_owned())),
            "{ends:?}"
        );
    }
}
