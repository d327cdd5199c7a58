//! Test helper: a whole transfer in the simulator, checked, with its cost in frames.

use ethbcast_collectives::keys::{ExchangePair, Keys, Secret, Signer};
use ethbcast_collectives::session::application::{
    Again, Collected, Coverage, MemoryContent, Next, Participant, Sink, SinkState, Source,
};
use ethbcast_collectives::session::verified::ChunkSize;
use ethbcast_collectives::session::{
    Arrival, Blocks, ContentKind, End, MemberRole, OnSlow, Outcome as Fate, Rate, Receiver,
    ReceiverConfig, ReceiverKeys, Root, RootConfig, RootEvent, RootKeys, Route, Station, Timing,
    View, ViewMember, Wanted,
};
use ethbcast_planning::model::Calibration;
use ethbcast_planning::plan::file::SavedPlan;
use ethbcast_planning::plan::{Costs, Via, make};
use ethbcast_planning::topology::Topology;
use ethbcast_transport::sim::{
    Cable, Faults, HostSettings, Network, Outcome, Random, Simulation, Stats, StormControl,
    host_mac,
};
use ethbcast_transport::stream::StreamStats;
use ethbcast_transport::wire::{PayloadHash, Rank, group_mac};
use ethbcast_transport::{Instant, MacAddr, Machine, Policy, Tuning};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

pub const GROUP: &str = "simulated";

/// Returns the first view of a chain of `members`, the root first, each with its address and nonce.
pub fn first_view(members: impl IntoIterator<Item = (MacAddr, u64)>, bytes: u64) -> View {
    let member = |(rank, (mac, nonce)): (u16, (MacAddr, u64))| ViewMember {
        host: format!("n{rank}"),
        mac,
        nonce,
        parent: rank.checked_sub(1).map(Rank),
        order: 0,
        standing: MemberRole::InPlace,
    };
    View {
        epoch: 1,
        via: Via::Chain,
        segment_frames: 1,
        policy: Policy::HolesAllowed,
        push_frames: None,
        payload_bytes: 1468,
        size: Some(bytes),
        content: ContentKind::Stream,
        chunk: ChunkSize::default(),
        selective: false,
        rate: None,
        members: (0..).zip(members).map(member).collect(),
    }
}

#[derive(Clone, Debug)]
pub struct Case {
    pub via: Via,
    pub receivers: usize,
    pub bytes: usize,
    pub mtu_bytes: u16,
    pub tuning: Tuning,
    /// Hosts (not the root) that die, and the time of each death since the first receiver was
    /// admitted.
    pub crashes: Vec<(usize, Duration)>,
    /// A host whose disk is full after this number of bytes, so that it leaves.
    pub gives_up: Option<(usize, usize)>,
    /// A host whose reader stops after this number of bytes.
    pub stops: Option<(usize, usize)>,
    /// A host whose disk is slow, and its bytes per second.
    pub slow: Option<(usize, u64)>,
    /// Hosts that are absent for a while.
    pub absences: Vec<Absence>,
    /// Number of latecomers, for whom the root does not wait, and their delay.
    pub late: (usize, Duration),
    /// Whether the source can be read only once.
    pub pipe: bool,
    /// Whether the root does not know the content's length.
    pub is_endless: bool,
    pub timing: Timing,
    pub on_slow: OnSlow,
    pub topology: Option<Topology>,
    pub calibration: Option<Calibration>,
    /// Whether the root measures first and chooses the kind of plan itself.
    pub auto: bool,
    /// Segment size in bytes; the predicted best if `None`.
    pub segment_bytes: Option<u64>,
    pub rate: Option<Rate>,
    /// Switches, by number, that police broadcast from a moment on.
    pub policed: Vec<(usize, StormControl, Duration)>,
    /// The key of each host, if it has one, by number.
    pub keys: fn(usize) -> Option<Keys>,
}

#[derive(Clone, Copy, Debug)]
pub struct Absence {
    pub host: usize,
    pub from: Duration,
    pub lasts: Duration,
    /// Whether its process is suspended; otherwise its cable is down.
    pub paused: bool,
}

impl Case {
    /// Creates a case without faults, with frames of 300 bytes and feeds of 64 frames: their memory
    /// is allocated anew in each of thousands of runs.
    pub fn new(via: Via, receivers: usize, bytes: usize) -> Case {
        Case {
            via,
            receivers,
            bytes,
            mtu_bytes: 300,
            tuning: Tuning::default().with_feed_frames(64),
            crashes: Vec::new(),
            gives_up: None,
            stops: None,
            slow: None,
            absences: Vec::new(),
            late: (0, Duration::ZERO),
            pipe: false,
            is_endless: false,
            timing: Timing::default(),
            on_slow: OnSlow::default(),
            topology: None,
            calibration: None,
            auto: false,
            segment_bytes: None,
            rate: None,
            policed: Vec::new(),
            keys: |_| None,
        }
    }

    pub fn keyed(self) -> Case {
        Case {
            keys: |_| Some(keys(1)),
            ..self
        }
    }

    pub fn with_feed(self, frames: u64) -> Case {
        Case {
            tuning: self.tuning.with_feed_frames(frames),
            ..self
        }
    }
}

/// Returns the keys of a cluster, one for each number.
pub fn keys(cluster: u8) -> Keys {
    Keys::new(secret(cluster), Signer::new(&secret(!cluster)), "n0").expect("a name")
}

fn secret(byte: u8) -> Secret {
    Secret::new([byte; 32])
}

/// Returns numbers that are drawn at random outside the simulator; they differ for each seed and
/// host.
fn drawn(seed: u64, host: usize, what: u8) -> Secret {
    let parts = [
        &seed.to_be_bytes()[..],
        &(host as u64).to_be_bytes(),
        &[what],
    ];
    Secret::derive("ethbcast tests drawn", &parts)
}

/// Returns what the root of a session has drawn.
pub fn root_keys(keys: Keys, seed: u64) -> RootKeys {
    let [random, exchange, group] = [0, 1, 2].map(|what| drawn(seed, 0, what));
    let exchange = ExchangePair::new(exchange);
    let hash = PayloadHash::Polyval;
    RootKeys {
        keys: Arc::new(keys),
        random: *random.expose(),
        exchange,
        group,
        hash,
        encrypts: true,
    }
}

pub(crate) fn receiver_keys(keys: Keys, seed: u64, host: usize) -> ReceiverKeys {
    ReceiverKeys {
        keys: Arc::new(keys),
        exchange: ExchangePair::new(drawn(seed, host, 1)),
    }
}

pub type Host = Participant<Sent, Disk>;

#[derive(Clone, Debug)]
pub struct Played {
    /// Moment after which no frame and no timer was left.
    pub quiesced_at: Duration,
    /// Outcomes in the root's report, by rank.
    pub fates: Vec<Fate>,
    pub ends: Vec<Option<End>>,
    pub totals: StreamStats,
    /// Time from the first data frame to the last verdict.
    pub took: Duration,
    /// Time from the first data frame to each receiver's verdict, by rank.
    pub each_took: Vec<Duration>,
    pub words: Vec<String>,
    pub view: View,
    /// Events that the root's user received, with their moments.
    pub told: Vec<(Duration, RootEvent)>,
    pub network: Stats,
}

impl Played {
    pub fn demoted(&self) -> Vec<usize> {
        let host = |(_, event): &(Duration, RootEvent)| match event {
            RootEvent::Demoted { host, .. } => Some(host_number(host)),
            _ => None,
        };
        self.told.iter().filter_map(host).collect()
    }
}

fn host_number(name: &str) -> usize {
    name.trim_start_matches('n')
        .parse()
        .expect("a host's name is its number")
}

pub fn data(bytes: usize, seed: u64) -> Vec<u8> {
    let mut data = vec![0; bytes];
    Random::new(seed).fill(&mut data);
    data
}

pub fn sent(case: &Case, seed: u64) -> Sent {
    Sent::new(data(case.bytes, seed), case.pipe)
}

/// Creates the hosts of a session: the root is host 0, the others receive.
pub fn hosts(case: &Case, seed: u64) -> Vec<Host> {
    hosts_of(case, seed, sent(case, seed).listening(), |host| {
        let stops_at_bytes = case
            .stops
            .filter(|&(who, _)| who == host)
            .map_or(usize::MAX, |(_, bytes)| bytes);
        let capacity_bytes = case
            .gives_up
            .filter(|&(who, _)| who == host)
            .map_or(usize::MAX, |(_, bytes)| bytes);
        let disk = Disk::default()
            .with_capacity(capacity_bytes)
            .stopping_at(stops_at_bytes);
        match case.slow.filter(|&(who, _)| who == host) {
            Some((_, bytes_per_second)) => disk.with_rate(bytes_per_second),
            None => disk,
        }
    })
}

/// Creates the hosts of a session with other sources and sinks.
pub fn hosts_of<S: Source, K: Sink>(
    case: &Case,
    seed: u64,
    mut source: S,
    sink: impl Fn(usize) -> K,
) -> Vec<Participant<S, K>> {
    let station =
        |host: usize| Station::new(GROUP, &format!("n{host}"), host_mac(host), case.mtu_bytes);
    let tuning = case.tuning.clone();
    let config = RootConfig {
        size: (!case.is_endless).then_some(case.bytes as u64),
        form: source.form(),
        selects: source.verified().is_some_and(|verified| verified.selects()),
        wanted: Wanted {
            patience: Duration::from_secs(20),
            ..Wanted::exactly(case.receivers)
        },
        route: route(case),
        tuning: tuning.clone(),
        timing: case.timing,
        late: case.late.0 > 0,
        on_slow: case.on_slow,
        topology: case.topology.clone(),
        calibration: case.calibration.clone(),
        probe: case.auto,
        rate: case.rate,
        keys: (case.keys)(0).map(|keys| root_keys(keys, seed)),
        ..RootConfig::new(station(0), session(seed), "test")
    };
    let root = Participant::root(Root::new(Instant::START, config), source);
    let receivers = (1..=case.receivers + case.late.0).map(|host| {
        let patience = Some(Duration::from_secs(30));
        let config = ReceiverConfig::new(station(host), nonce(seed, host));
        let (tuning, timing) = (tuning.clone(), case.timing);
        let mut sink = sink(host);
        let Coverage { form, holds, .. } = sink
            .verified()
            .map_or_else(Coverage::default, |verified| verified.coverage());
        let keys = (case.keys)(host).map(|keys| receiver_keys(keys, seed, host));
        let config = ReceiverConfig {
            form,
            holds,
            patience,
            tuning,
            timing,
            keys,
            ..config
        };
        Participant::receiver(Receiver::new(Instant::START, config), sink)
    });
    std::iter::once(root).chain(receivers).collect()
}

fn route(case: &Case) -> Route {
    let Some(segment_bytes) = case.segment_bytes else {
        return if case.auto {
            Route::Auto
        } else {
            Route::Via(case.via)
        };
    };
    let hosts: Vec<String> = (0..=case.receivers)
        .map(|host| format!("n{host}"))
        .collect();
    let names: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let topology = Topology::single_switch(hosts.iter().cloned()).expect("a switch and its hosts");
    let ranks: Vec<usize> = (0..names.len()).collect();
    let plan = make(case.via, &topology, 0, &ranks, &Costs::default()).expect("a plan");
    let text =
        SavedPlan::from_plan(&plan, &names, segment_bytes, Some(case.bytes as u64)).to_toml();
    Route::Saved(Box::new(
        SavedPlan::parse(&text, "plan.toml").expect("what was written is read"),
    ))
}

/// Runs a host's application, after setting its disk's clock.
pub fn turn(host: &mut Host, now: Instant) -> Option<Instant> {
    if let Participant::Receiver(_, receiving) = host {
        receiving.sink_mut().set_now(now);
    }
    host.turn(now)
}

pub fn session(seed: u64) -> u32 {
    0x5E55_0000 ^ seed as u32
}

pub fn nonce(seed: u64, host: usize) -> u64 {
    seed ^ host as u64
}

/// Connects the hosts of `case` to one switch at `rate_bits_per_second`.
pub fn star(case: &Case, rate_bits_per_second: u64) -> Network {
    let groups: Vec<MacAddr> = vec![group_mac(GROUP)];
    // The driver lets the kernel hold 4 ms of frames: 32 at 100 Mbit/s.
    let settings = HostSettings {
        groups,
        nic_receive_frames: 4096,
        nic_transmit_frames: 32,
        ..HostSettings::default()
    };
    let cable = Cable::new(rate_bits_per_second, Duration::from_micros(5));
    Network::star(case.receivers + case.late.0 + 1, cable, &settings)
        .with_mtu_bytes(usize::from(case.mtu_bytes))
}

/// Schedules the faults of `case`: deaths, late starts, absences, switches that police.
pub fn strike<M: Machine, F: Faults>(
    case: &Case,
    network: &Network,
    simulation: &mut Simulation<M, F>,
) {
    for &(host, at) in &case.crashes {
        simulation.crash(host, Instant::START + Timing::default().announce * 2 + at);
    }
    for host in case.receivers + 1..=case.receivers + case.late.0 {
        simulation.pause(host, Instant::START);
        simulation.resume(host, Instant::START + case.late.1);
    }
    for &(switch, control, at) in &case.policed {
        let switch = network
            .switches()
            .nth(switch)
            .expect("a switch of the network");
        simulation.police(switch, Some(control), Instant::START + at);
    }
    for &Absence {
        host,
        from,
        lasts,
        paused,
    } in &case.absences
    {
        let (from, to) = (Instant::START + from, Instant::START + from + lasts);
        if paused {
            simulation.pause(host, from);
            simulation.resume(host, to);
        } else {
            simulation.cut(network.cable_of(host), from);
            simulation.restore(network.cable_of(host), to);
        }
    }
}

/// Runs a session until it is quiescent, auditing every feed after every turn; returns that moment.
pub fn run<S: Source, K: Sink, F: Faults>(
    simulation: &mut Simulation<Participant<S, K>, F>,
    within: Duration,
    replay: &str,
    turn: impl Fn(&mut Participant<S, K>, Instant) -> Option<Instant>,
) -> Instant {
    let outcome = simulation.run(Instant::START + within, |number, host, now| {
        let again = turn(host, now);
        let sound = host.streams().map_or(Ok(()), Blocks::audit);
        sound.unwrap_or_else(|why| panic!("{replay}: host {number}: {why}"));
        again
    });
    let Outcome::Quiet { at } = outcome else {
        panic!(
            "{replay}: {outcome:?}, next {:?}",
            simulation.next_deadline()
        )
    };
    at
}

/// Plays `case` on `network` under `faults`, auditing every feed after every step.
pub fn play(
    case: &Case,
    network: &Network,
    seed: u64,
    faults: impl Faults,
    replay: &str,
) -> Played {
    let mut simulation = Simulation::new(network, hosts(case, seed), faults);
    simulation.set_event_limit(20_000_000);
    strike(case, network, &mut simulation);
    let at = run(&mut simulation, Duration::from_secs(120), replay, turn);
    let (hosts, network) = (simulation.machines(), simulation.stats());
    let Participant::Root(root, sending) = &hosts[0] else {
        unreachable!("host 0 is the root")
    };
    assert!(root.is_over(), "{replay}: the root is not over");
    let sent = sending.source().bytes();
    for receiving in hosts.iter().filter_map(Host::receiving) {
        let (disk, claimed) = (
            receiving.sink(),
            matches!(receiving.end(), Some(End::Confirmed | End::Unconfirmed)),
        );
        let bytes = disk.bytes();
        let sound = !claimed || disk.is_full() || bytes == sent;
        assert!(
            sound,
            "{replay}: a receiver claims {} bytes that are not the root's {}",
            bytes.len(),
            sent.len()
        );
    }
    Played {
        quiesced_at: at.since(Instant::START),
        fates: root.reports().map(|report| report.outcome).collect(),
        ends: hosts
            .iter()
            .filter_map(Host::receiving)
            .map(|receiving| receiving.end().cloned())
            .collect(),
        totals: hosts
            .iter()
            .map(Host::stream_stats)
            .fold(StreamStats::default(), |sum, one| sum + one),
        took: root.took(),
        each_took: root.reports().map(|report| report.took).collect(),
        words: root.reports().map(|report| report.text.clone()).collect(),
        view: root.view().expect("the session has begun").clone(),
        told: sending
            .source()
            .told()
            .iter()
            .map(|(at, event)| (at.since(Instant::START), event.clone()))
            .collect(),
        network,
    }
}

/// Bytes that can be read once or repeatedly, and the events that their sender receives.
#[derive(Clone, Debug)]
pub struct Sent<B = Vec<u8>> {
    content: MemoryContent<B>,
    pipe: bool,
    told: Option<Vec<(Instant, RootEvent)>>,
}

impl<B: AsRef<[u8]>> Sent<B> {
    /// Creates a file, or a `pipe`, which can be read only once.
    pub fn new(bytes: B, pipe: bool) -> Sent<B> {
        Sent {
            content: MemoryContent::new(bytes),
            pipe,
            told: None,
        }
    }

    pub fn listening(self) -> Sent<B> {
        Sent {
            told: Some(Vec::new()),
            ..self
        }
    }

    pub fn bytes(&self) -> &[u8] {
        self.content.bytes()
    }

    /// Returns the sender's events and the time of each, if kept.
    pub fn told(&self) -> &[(Instant, RootEvent)] {
        self.told.as_deref().unwrap_or_default()
    }
}

impl<B: AsRef<[u8]>> Source for Sent<B> {
    fn next(&mut self, now: Instant, consumed: bool) -> Next<'_> {
        self.content.next(now, consumed)
    }

    fn advance(&mut self, bytes: usize) {
        self.content.advance(bytes);
    }

    fn read_again(&mut self, now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        if self.pipe {
            Again::Impossible("a pipe".to_owned())
        } else {
            self.content.read_again(now, offset, bytes)
        }
    }

    fn on_event(&mut self, now: Instant, event: &RootEvent) -> ControlFlow<String> {
        self.told
            .iter_mut()
            .for_each(|told| told.push((now, event.clone())));
        ControlFlow::Continue(())
    }
}

/// Collects received bytes and notes whether they were published; with limits on size and rate.
#[derive(Clone, Debug)]
pub struct Disk {
    collected: Collected,
    capacity_bytes: usize,
    stops_at_bytes: usize,
    keeps: bool,
    published: bool,
    bytes_per_second: Option<u64>,
    now: Instant,
    busy_until: Instant,
}

/// Amount of data that a slow disk takes at once, as time at its rate.
const BUFFER: Duration = Duration::from_millis(10);

impl Default for Disk {
    fn default() -> Disk {
        Disk {
            collected: Collected::default(),
            capacity_bytes: usize::MAX,
            stops_at_bytes: usize::MAX,
            keeps: false,
            published: false,
            bytes_per_second: None,
            now: Instant::START,
            busy_until: Instant::START,
        }
    }
}

impl Disk {
    /// Sets the size after which it is full.
    pub fn with_capacity(self, capacity_bytes: usize) -> Disk {
        Disk {
            capacity_bytes,
            ..self
        }
    }

    /// Sets the size after which it takes nothing more.
    pub fn stopping_at(self, stops_at_bytes: usize) -> Disk {
        Disk {
            stops_at_bytes,
            ..self
        }
    }

    /// Sets whether others can read back its bytes.
    pub fn keeping(self, keeps: bool) -> Disk {
        Disk { keeps, ..self }
    }

    /// Sets its rate, which needs [`Disk::set_now`].
    pub fn with_rate(self, bytes_per_second: u64) -> Disk {
        Disk {
            bytes_per_second: Some(bytes_per_second),
            ..self
        }
    }

    pub fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    pub fn bytes(&self) -> &[u8] {
        self.collected.bytes()
    }

    pub fn is_full(&self) -> bool {
        self.bytes().len() >= self.capacity_bytes
    }

    pub fn is_published(&self) -> bool {
        self.published
    }
}

impl Sink for Disk {
    fn has_room(&self) -> bool {
        self.bytes().len() < self.stops_at_bytes && self.busy_until <= self.now + BUFFER
    }

    fn take(&mut self, now: Instant, arrival: Arrival<'_>) {
        self.collected.take(now, arrival);
        let (Arrival::Bytes(bytes) | Arrival::Message(bytes)) = arrival else {
            return;
        };
        if let Some(rate) = self.bytes_per_second {
            self.busy_until = self.busy_until.max(now)
                + Duration::from_secs_f64(bytes.len() as f64 / rate as f64);
        }
        if self.is_full() {
            self.collected.refuse(Fate::NoSpace, "full");
        }
    }

    fn publish(&mut self, _now: Instant) -> bool {
        self.published = true;
        true
    }

    fn turn(&mut self, now: Instant) -> SinkState {
        SinkState {
            again_at: Some(self.busy_until).filter(|&at| at > self.now),
            ..self.collected.turn(now)
        }
    }

    fn read_again(&mut self, _now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        let range = offset as usize..offset as usize + bytes;
        let bytes = self.bytes().get(range).filter(|_| self.keeps);
        bytes.map_or_else(
            || Again::Impossible("it is not kept".to_owned()),
            Again::Bytes,
        )
    }
}
