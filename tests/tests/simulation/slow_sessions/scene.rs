//! A session in which one receiver is slower than the others, from its first frame or later, in one
//! of several ways.

use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::{Outcome, RootEvent};
use ethbcast_planning::plan::Via;
use ethbcast_tests::session::{Case, Disk, GROUP, Host, hosts_of, sent, turn};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{Cable, HostSettings, Network, NoFaults, Random, Simulation, SwitchSettings};
use ethbcast_transport::wire::group_mac;
use std::time::Duration;

/// Rate of every cable but a slow one.
pub const RATE_BITS_PER_SECOND: u64 = 10_000_000;
/// Time of a 1500-byte frame on such a cable.
const FRAME_TIME: Duration = Duration::from_nanos(1_230_400);
/// Half a second of frames: as 4096 of them are at 100 Mbit/s.
const FEED_FRAMES: u64 = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    Disk,
    Cpu,
    /// The process runs only for a part of every 100 ms.
    Turns,
    Cable,
}

#[derive(Clone, Copy, Debug)]
pub struct Scene {
    pub via: Via,
    pub receivers: usize,
    pub bytes: usize,
    pub slow: Option<usize>,
    pub short: Short,
    /// Percentage of the others' rate.
    pub percent: u64,
    pub seed: u64,
}

#[derive(Debug)]
pub struct Story {
    /// Demoted receivers, with moment and reason.
    pub aside: Vec<(usize, Duration, String)>,
    /// Time until the last of the fast receivers was complete.
    pub others: Duration,
}

fn aside((now, event): &(Instant, RootEvent)) -> Option<(usize, Duration, String)> {
    let RootEvent::Aside { host, text } = event else { return None };
    let host = host.trim_start_matches('n').parse().expect("a host's name is its number");
    Some((host, now.since(Instant::START), text.clone()))
}

impl Scene {
    pub fn undisturbed(self) -> Scene {
        Scene { slow: None, ..self }
    }

    fn is_short(&self, host: usize, of: Short) -> bool {
        self.slow == Some(host) && self.short == of
    }

    /// Time of a frame at a host with a slow processor. A relay also handles acknowledgements:
    /// nearly as many frames again when they come slowly.
    fn frame_cost(&self) -> Duration {
        let relays = self.via != Via::Cast && self.slow.is_some_and(|slow| slow < self.receivers);
        FRAME_TIME * if relays { 50 } else { 100 } / self.percent as u32
    }

    fn network(&self) -> Network {
        let settings = HostSettings {
            groups: vec![group_mac(GROUP)],
            nic_receive_frames: 1024,
            nic_transmit_frames: 8,
            ..HostSettings::default()
        };
        let mut network = Network::new();
        let switch = network.add_switch(SwitchSettings::default());
        for host in 0..=self.receivers {
            let percent = if self.is_short(host, Short::Cable) { self.percent } else { 100 };
            let cable = Cable::new(RATE_BITS_PER_SECOND * percent / 100, Duration::from_micros(5));
            let cost = if self.is_short(host, Short::Cpu) { self.frame_cost() } else { Duration::ZERO };
            network.add_host(switch, cable, HostSettings { per_frame_cost: cost, ..settings.clone() });
        }
        network.with_mtu_bytes(1500)
    }

    pub fn play(&self) -> Story {
        let case = Case { mtu_bytes: 1500, ..Case::new(self.via, self.receivers, self.bytes) }.with_feed(FEED_FRAMES);
        let payload_rate = RATE_BITS_PER_SECOND / 8 * 1468 / 1538;
        let disk = |host| match self.is_short(host, Short::Disk) {
            true => Disk::default().with_rate(payload_rate * self.percent / 100),
            false => Disk::default(),
        };
        let hosts = hosts_of(&case, self.seed, sent(&case, self.seed).listening(), disk);
        let mut simulation = Simulation::new(&self.network(), hosts, NoFaults);
        simulation.set_event_limit(100_000_000);
        if let Some(host) = self.slow.filter(|_| self.short == Short::Turns) {
            let runs = Duration::from_millis(self.percent);
            let mut at = Instant::START + Duration::from_millis(Random::new(self.seed).below(1000));
            for _ in 0..30_000 {
                simulation.pause(host, at + runs);
                at += Duration::from_millis(100);
                simulation.resume(host, at);
            }
        }
        let end = simulation.run(Instant::START + Duration::from_secs(3000), |_, host: &mut Host, now| turn(host, now));
        let Participant::Root(root, sending) = &simulation.machines()[0] else { unreachable!("host 0 is the root") };
        assert!(root.is_over(), "{self:?}: {end:?}");
        let took = |rank: usize| {
            let report = root.reports().nth(rank - 1).expect("every member has one");
            assert_eq!(report.outcome, Outcome::Delivered, "{self:?}: n{rank} {}", report.text);
            report.took
        };
        (1..=self.receivers).for_each(|rank| assert!(took(rank) > Duration::ZERO));
        let others = (1..=self.receivers).filter(|&host| self.slow != Some(host)).map(took).max().expect("others");
        Story { aside: sending.source().told().iter().filter_map(aside).collect(), others }
    }
}
