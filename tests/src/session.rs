//! A whole session, from invitation to verdict, under the simulator: described, run, checked and priced.

use ethbcast_collectives::session::application::{Collected, Content, Participant, Sink};
use ethbcast_collectives::session::{
    Blocks, Done, End, Outcome as Fate, Receiver, ReceiverConfig, Root, RootConfig, Route, Station, Timing, Trailer,
    Wanted,
};
use ethbcast_planning::plan::Via;
use ethbcast_transport::sim::{Cable, Faults, HostSettings, Network, Outcome, Random, Simulation, Stats, host_mac};
use ethbcast_transport::stream::StreamStats;
use ethbcast_transport::wire::group_mac;
use ethbcast_transport::{Instant, MacAddr, Tuning};
use std::time::Duration;

/// The group all simulated sessions belong to.
pub const GROUP: &str = "simulated";

/// A session to be simulated.
#[derive(Clone, Debug)]
pub struct Case {
    /// How the bytes travel.
    pub via: Via,
    /// Receivers.
    pub receivers: usize,
    /// Bytes in the stream.
    pub bytes: usize,
    /// MTU of every host, in bytes.
    pub mtu_bytes: u16,
    /// The engine's numbers.
    pub tuning: Tuning,
    /// Hosts (not the root) that die, and when, counted from the moment the first receiver is let in.
    pub crashes: Vec<(usize, Duration)>,
    /// A host that gives up once it has taken so many bytes: its disk is full.
    pub gives_up: Option<(usize, usize)>,
}

/// A host of a simulated session.
pub type Host = Participant<Content<Vec<u8>>, Disk>;

/// Takes all bytes, until it is full.
#[derive(Debug)]
pub struct Disk {
    collected: Collected,
    capacity_bytes: usize,
}

impl Sink for Disk {
    fn write(&mut self, now: Instant, bytes: &[u8], message_end: bool) {
        self.collected.write(now, bytes, message_end);
        if self.collected.bytes().len() >= self.capacity_bytes {
            self.collected.refuse(Fate::NoSpace, "full");
        }
    }

    fn finish(&mut self, now: Instant, trailer: Trailer) {
        self.collected.finish(now, trailer);
    }

    fn verdict(&mut self, now: Instant) -> Option<Done> {
        self.collected.verdict(now)
    }
}

/// What a session came to.
#[derive(Debug)]
pub struct Played {
    /// When the last frame and the last timer were gone.
    pub quiet_at: Duration,
    /// What the root reports of each receiver, by rank.
    pub fates: Vec<Fate>,
    /// How each receiver ended, by host.
    pub ends: Vec<Option<End>>,
    /// Stream frames, all hosts together.
    pub totals: StreamStats,
    /// From the first data frame to the last verdict.
    pub took: Duration,
    /// What the network did.
    pub network: Stats,
}

/// The bytes of a simulated session.
pub fn data(bytes: usize, seed: u64) -> Vec<u8> {
    let mut data = vec![0; bytes];
    Random::new(seed).fill(&mut data);
    data
}

/// The hosts of a session: the root is host 0, the others receive.
pub fn hosts(case: &Case, seed: u64) -> Vec<Host> {
    let station = |host: usize| Station::new(GROUP, &format!("n{host}"), host_mac(host), case.mtu_bytes);
    let tuning = case.tuning.clone();
    let config = RootConfig {
        size: Some(case.bytes as u64),
        wanted: Wanted { patience: Duration::from_secs(20), ..Wanted::exactly(case.receivers) },
        route: Route::Via(case.via),
        tuning: tuning.clone(),
        probe: false,
        ..RootConfig::new(station(0), 0x5E55_0000 ^ seed as u32, "test")
    };
    let root = Participant::root(Root::new(Instant::START, config), Content::new(data(case.bytes, seed)));
    let receivers = (1..=case.receivers).map(|host| {
        let patience = Some(Duration::from_secs(30));
        let config = ReceiverConfig::new(station(host), seed ^ host as u64);
        let receiver = Receiver::new(Instant::START, ReceiverConfig { patience, tuning: tuning.clone(), ..config });
        let capacity_bytes = case.gives_up.filter(|&(who, _)| who == host).map_or(usize::MAX, |(_, bytes)| bytes);
        Participant::receiver(receiver, Disk { collected: Collected::default(), capacity_bytes })
    });
    std::iter::once(root).chain(receivers).collect()
}

/// Hosts of `case` on one switch at `rate_bits_per_second`.
pub fn star(case: &Case, rate_bits_per_second: u64) -> Network {
    let groups: Vec<MacAddr> = vec![group_mac(GROUP)];
    // The driver lets the kernel hold 4 ms of frames: 32 at 100 Mbit/s.
    let settings =
        HostSettings { groups, nic_receive_frames: 4096, nic_transmit_frames: 32, ..HostSettings::default() };
    let cable = Cable::new(rate_bits_per_second, Duration::from_micros(5));
    Network::star(case.receivers + 1, cable, &settings).with_mtu_bytes(usize::from(case.mtu_bytes))
}

/// Plays `case` on `network` under `faults`, auditing every feed after every step; panics with `replay` in front of
/// what is wrong: not quiet in two minutes, an audit, or bytes that differ from the root's at a receiver that claims
/// them.
pub fn play(case: &Case, network: &Network, seed: u64, faults: impl Faults, replay: &str) -> Played {
    let mut simulation = Simulation::new(network, hosts(case, seed), faults);
    simulation.set_event_limit(20_000_000);
    for &(host, at) in &case.crashes {
        simulation.crash(host, Instant::START + Timing::default().announce * 2 + at);
    }
    let outcome = simulation.run(Instant::START + Duration::from_secs(120), |number, host: &mut Host, now| {
        let again = host.turn(now);
        let sound = host.streams().map_or(Ok(()), Blocks::audit);
        sound.unwrap_or_else(|why| panic!("{replay}: host {number}: {why}"));
        again
    });
    let Outcome::Quiet { at } = outcome else { panic!("{replay}: {outcome:?}, next {:?}", simulation.next_deadline()) };
    let (hosts, network) = (simulation.machines(), simulation.stats());
    let Participant::Root(root, sending) = &hosts[0] else { unreachable!("host 0 is the root") };
    assert!(root.is_over(), "{replay}: the root is not over");
    let sent = sending.source().bytes();
    for receiving in hosts.iter().filter_map(Host::receiving) {
        let Disk { collected, capacity_bytes } = receiving.sink();
        let (bytes, claimed) = (collected.bytes(), matches!(receiving.end(), Some(End::Confirmed | End::Unconfirmed)));
        let sound = !claimed || bytes.len() >= *capacity_bytes || bytes == sent;
        assert!(sound, "{replay}: a receiver claims {} bytes that are not the root's {}", bytes.len(), sent.len());
    }
    Played {
        quiet_at: at.since(Instant::START),
        fates: root.reports().map(|report| report.outcome).collect(),
        ends: hosts.iter().filter_map(Host::receiving).map(|receiving| receiving.end().cloned()).collect(),
        totals: hosts.iter().map(Host::stream_stats).fold(StreamStats::default(), |sum, one| sum + one),
        took: root.took(),
        network,
    }
}
