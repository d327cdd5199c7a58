//! A broadcast of a few frames through simulated streams: everybody's bytes, order, audit and quiescence checked, the
//! price returned.

use ethbcast_transport::Alone;
use ethbcast_transport::sim::{Cable, Faults, HostSettings, Network, Outcome, Simulation, host_mac};
use ethbcast_transport::stream::{Ending, Outlet, Stream, StreamStats};
use ethbcast_transport::wire::{EtherType, Identity, Peer};
use ethbcast_transport::wire::{Rank, StreamId, group_mac};
use ethbcast_transport::{Instant, Tuning};
use std::time::Duration;

/// The path a broadcast takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    Chain,
    /// As the case's numbers have it, whatever the number of receivers.
    Cast,
    /// With the numbers of a cast to so many receivers.
    TunedCast,
    /// A cast in which so many receivers acknowledge to each host, and to the root.
    AckTree(usize),
    /// The root to each of the others.
    Flat,
    /// The hypercube's tree: rank `r` receives from `r` without its lowest bit and sends to the farthest first.
    Binomial,
}

/// A broadcast to be simulated.
#[derive(Clone, Debug)]
pub struct Case {
    pub path: Path,
    pub hosts: usize,
    pub frames: u64,
    pub tuning: Tuning,
    /// What each receiver's application may have waiting before it takes anything (zero: it takes at once).
    pub lazy_frames: u64,
    /// The last host's application takes a frame in so long a time, and no more.
    pub last_takes: Option<Duration>,
    /// The root ends a message after so many frames and waits until everybody has consumed it (zero: one long stream).
    pub message_frames: u64,
}

/// What it cost.
#[derive(Clone, Copy, Debug)]
pub struct Price {
    pub quiet_at: Duration,
    pub totals: StreamStats,
    pub cable_frames: u64,
}

pub const PAYLOAD_BYTES: usize = 100;

/// Frame `sequence` of every test stream: its number, then a pattern, of varying length.
pub fn payload(sequence: u64) -> Vec<u8> {
    let length = 8 + (sequence * 13 % (PAYLOAD_BYTES as u64 - 8)) as usize;
    sequence.to_be_bytes().iter().copied().chain((8..length).map(|at| (at as u64 ^ sequence) as u8)).collect()
}

/// A host as the others know it.
pub fn peer(host: usize) -> Peer {
    Peer { rank: Rank(host as u16), mac: host_mac(host) }
}

/// A host's end of a test stream.
pub fn identity(host: usize) -> Identity {
    let Peer { rank, mac } = peer(host);
    Identity { session: 77, stream: StreamId(1), rank, mac, ether_type: EtherType::DEFAULT }
}

impl Case {
    /// The host to which `host` acknowledges, and from which it gets its frames unless all of them come by cast.
    pub fn parent(&self, host: usize) -> usize {
        match self.path {
            Path::Cast | Path::TunedCast | Path::Flat => 0,
            Path::Chain => host.saturating_sub(1),
            Path::Binomial => host & host.saturating_sub(1),
            Path::AckTree(fan_out) => host.saturating_sub(1) / fan_out,
        }
    }

    /// In sending order: down the binomial tree the farthest first.
    fn children(&self, host: usize) -> Vec<usize> {
        let mut children: Vec<usize> = (1..self.hosts).filter(|&child| self.parent(child) == host).collect();
        if self.path == Path::Binomial {
            children.reverse();
        }
        children
    }

    fn tuning(&self, host: usize) -> Tuning {
        match self.path {
            Path::TunedCast => self.tuning.for_cast(self.hosts - 1, host.saturating_sub(1)),
            Path::AckTree(fan_out) => {
                self.tuning.for_ack_tree(self.hosts - 1, fan_out, host.saturating_sub(1) % fan_out)
            }
            _ => self.tuning.clone(),
        }
    }

    /// A host's end of the stream.
    pub fn stream(&self, host: usize) -> Stream {
        let children: Vec<Peer> = self.children(host).into_iter().map(peer).collect();
        let outlet = match (self.path, host) {
            (Path::Cast | Path::TunedCast | Path::AckTree(_), 0) => {
                Outlet::Cast { group: group_mac("test"), listeners: children }
            }
            (Path::AckTree(_), _) => Outlet::RepairChildren(children),
            _ => Outlet::Lanes(children),
        };
        if host == 0 {
            return Stream::origin(identity(host), PAYLOAD_BYTES, &outlet, self.tuning(host));
        }
        let mut stream =
            Stream::receiver(identity(host), PAYLOAD_BYTES, peer(self.parent(host)), &outlet, self.tuning(host));
        stream.set_origin(peer(0));
        stream
    }

    /// The root's end of a stream that serves host 1 alone, from frame `first` on.
    pub fn alone(&self, first: u64) -> Stream {
        Stream::origin_at(identity(0), PAYLOAD_BYTES, first, peer(1), self.tuning.clone())
    }

    /// Pushes what the root's stream has room for; the next message only once the one before has been consumed.
    pub fn push(&self, stream: &mut Stream, pushed: &mut u64) {
        while *pushed < self.frames {
            let ends = self.message_frames > 0 && (*pushed + 1).is_multiple_of(self.message_frames);
            let starts = self.message_frames > 0 && pushed.is_multiple_of(self.message_frames);
            if starts && stream.consumed() < *pushed {
                break;
            }
            let ending = match *pushed + 1 == self.frames {
                true => Ending::Stream,
                false if ends => Ending::Message,
                false => Ending::None,
            };
            if !stream.push(&payload(*pushed), ending) {
                break;
            }
            *pushed += 1;
        }
    }
}

/// Simulates `case` at 100 Mbit/s under `faults`; panics with `replay` in front of what is wrong.
pub fn broadcast(case: &Case, faults: impl Faults, replay: &str) -> Price {
    let settings = HostSettings { groups: vec![group_mac("test")], ..HostSettings::default() };
    let network = Network::star(case.hosts, Cable::new(100_000_000, Duration::from_micros(5)), &settings);
    let machines = (0..case.hosts).map(|host| Alone::new(case.stream(host))).collect();
    let mut simulation = Simulation::new(&network, machines, faults);
    simulation.set_event_limit(5_000_000);
    let mut pushed = 0;
    let mut taken = vec![0_u64; case.hosts];
    let mut may_take = Instant::START;
    let mut turn = |host: usize, machine: &mut Alone<Stream>, now: Instant| {
        let stream = &mut machine.part;
        stream.audit().unwrap_or_else(|why| panic!("{replay}: host {host}: {why}"));
        if host == 0 {
            case.push(stream, &mut pushed);
            return None;
        }
        if let Some(pause) = case.last_takes.filter(|_| host + 1 == case.hosts) {
            if now < may_take {
                return Some(may_take);
            }
            may_take = now + pause;
        }
        if stream.backlog_frames() < case.lazy_frames && !stream.feed().is_complete() {
            return None;
        }
        while let Some((bytes, ending)) = stream.peek() {
            assert_eq!(bytes, payload(taken[host]), "{replay}: host {host}, frame {}", taken[host]);
            assert_eq!(ending == Ending::Stream, taken[host] + 1 == case.frames, "{replay}: host {host}");
            taken[host] += 1;
            stream.consume(now);
            if case.last_takes.is_some() && host + 1 == case.hosts {
                break;
            }
        }
        (case.last_takes.is_some() && host + 1 == case.hosts && stream.backlog_frames() > 0).then_some(may_take)
    };
    let outcome = simulation.run(Instant::from_nanos(60_000_000_000), &mut turn);
    let Outcome::Quiet { at } = outcome else { panic!("{replay}: not quiet: {outcome:?}, taken {taken:?}") };
    assert!(taken[1..].iter().all(|&count| count == case.frames), "{replay}: taken {taken:?} of {}", case.frames);
    assert!(simulation.machines().iter().all(|machine| machine.part.is_settled()), "{replay}: not settled");
    let totals = simulation
        .machines()
        .iter()
        .map(|machine| machine.part.stats())
        .fold(StreamStats::default(), |sum, one| sum + one);
    assert_eq!(totals.forged_acks + totals.strangers, 0, "{replay}: {totals:?}");
    let cable_frames = (0..case.hosts).map(|host| simulation.stats().hosts[host].sent_frames).sum();
    Price { quiet_at: at.since(Instant::START), totals, cable_frames }
}
