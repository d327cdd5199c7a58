//! Simulated tests of transfers with one slow receiver: its effect on the others.

use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::{Outcome, RootEvent};
use ethbcast_planning::plan::Via;
use ethbcast_tests::in_full;
use ethbcast_tests::session::{Case, Disk, GROUP, Host, hosts_of, sent, turn};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{
    Cable, Faults, HostSettings, Network, NoFaults, Random, Simulation, SwitchSettings,
};
use ethbcast_transport::wire::group_mac;
use std::time::Duration;

/// 25 s on the cables of these sessions.
const LONG_BYTES: usize = 29_000_000;

/// 7 s: long enough to demote a slow receiver.
const SHORT_BYTES: usize = 8_000_000;

/// Checks, for each way of being slow, that the slow receiver alone is demoted, and that the others
/// complete within 1.15 of their time without a slow one, which is equal for all `ways`.
fn is_demoted(scene: Scene, ways: impl IntoIterator<Item = (Short, u64)>) {
    let undisturbed = scene.undisturbed().play();
    assert!(
        undisturbed.demoted.is_empty(),
        "{scene:?}: {:?}",
        undisturbed.demoted
    );
    for (short, percent) in ways {
        let scene = Scene {
            short,
            percent,
            ..scene
        };
        let story = scene.play();
        let demoted: Vec<usize> = story.demoted.iter().map(|&(host, ..)| host).collect();
        assert_eq!(
            demoted,
            Vec::from_iter(scene.slow),
            "{scene:?}: {:?}",
            story.demoted
        );
        let (others, most) = (story.others, undisturbed.others.mul_f64(1.15));
        println!(
            "{scene:?}: {:.3}",
            others.as_secs_f64() / undisturbed.others.as_secs_f64()
        );
        assert!(
            others <= most,
            "{scene:?}: {others:?} instead of {:?}: {:?}",
            undisturbed.others,
            story.demoted
        );
    }
}

fn even(via: Via, receivers: usize, bytes: usize) -> Scene {
    Scene {
        via,
        receivers,
        bytes,
        slow: None,
        short: Short::Disk,
        percent: 100,
        seed: 1,
    }
}

#[test]
fn in_a_chain_the_others_do_not_wait_for_a_receiver_of_half_their_rate_or_less() {
    for (receivers, slow) in [(7, 4), (3, 2), (7, 1), (15, 15)]
        .into_iter()
        .take(in_full(2, 4))
    {
        let ways = [Short::Disk, Short::Cpu, Short::Turns, Short::Cable]
            .map(|short| [(short, 10), (short, 50)]);
        // A receiver that relays nothing catches up in each of its turns.
        let is_slow = |(short, _): &(Short, u64)| *short != Short::Turns || slow < receivers;
        let scene = Scene {
            slow: Some(slow),
            ..even(Via::Chain, receivers, LONG_BYTES)
        };
        is_demoted(scene, ways.into_iter().flatten().filter(is_slow));
    }
}

#[test]
fn in_a_cast_the_others_do_not_wait_for_a_receiver_of_half_their_rate_or_less() {
    for (receivers, slow) in [(7, 4), (3, 1), (15, 15)].into_iter().take(in_full(2, 3)) {
        let ways = [
            (Short::Disk, 10),
            (Short::Disk, 50),
            // Group frames cost time at a slow host, too.
            (Short::Cpu, 25),
            (Short::Cpu, 50),
            (Short::Cable, 10),
            (Short::Cable, 50),
        ];
        is_demoted(
            Scene {
                slow: Some(slow),
                ..even(Via::Cast, receivers, LONG_BYTES)
            },
            ways,
        );
    }
}

#[test]
fn in_a_tree_that_is_planned_anew_the_others_do_not_wait_either() {
    for (via, receivers, slow) in [
        (Via::Binary, 7, 1),
        (Via::Binary, 14, 2),
        (Via::Kary(3), 13, 2),
    ] {
        let scene = Scene {
            slow: Some(slow),
            ..even(via, receivers, LONG_BYTES / 2)
        };
        is_demoted(scene, [(Short::Disk, 10), (Short::Cable, 10)]);
    }
}

/// Checks that no receiver is demoted if each has at least nine tenths of the others' rate.
fn nobody_is_demoted(seeds: impl Iterator<Item = u64>) {
    const VIAS: [Via; 4] = [Via::Chain, Via::Chain, Via::Cast, Via::Binary];
    const SHORTS: [Short; 4] = [Short::Disk, Short::Cpu, Short::Turns, Short::Cable];
    for seed in seeds {
        let mut random = Random::new(seed);
        let via = VIAS[random.below(4) as usize];
        let receivers = 3 + random.below(13) as usize;
        let slow = Some(1 + random.below(receivers as u64) as usize);
        let short = SHORTS[random.below(4) as usize];
        let percent = 90 + random.below(11);
        let scene = Scene {
            via,
            receivers,
            bytes: SHORT_BYTES,
            slow,
            short,
            percent,
            seed,
        };
        let story = scene.play();
        assert!(story.demoted.is_empty(), "{scene:?}: {:?}", story.demoted);
        assert!(
            story.others < Duration::from_secs(30),
            "{scene:?}: {:?}",
            story.others
        );
    }
}

#[test]
fn a_receiver_with_nine_tenths_of_the_rate_is_never_demoted() {
    nobody_is_demoted((0..200).step_by(in_full(8, 2)));
}

#[test]
fn a_receiver_with_nine_tenths_of_the_rate_is_not_demoted_with_other_seeds() {
    nobody_is_demoted((1..200).step_by(in_full(8, 2)));
}

#[test]
fn where_a_demoted_relay_leaves_others_a_larger_share_of_a_link_nobody_else_counts_as_slow() {
    for (receivers, slow) in [(3, 1), (7, 1), (7, 3), (7, 7)] {
        let (via, slow, short) = (Via::Binary, Some(slow), Short::Cable);
        let scene = Scene {
            via,
            receivers,
            bytes: 2 * SHORT_BYTES,
            slow,
            short,
            percent: 10,
            seed: 1,
        };
        let demoted: Vec<usize> = scene
            .play()
            .demoted
            .iter()
            .map(|&(host, ..)| host)
            .collect();
        assert_eq!(demoted, Vec::from_iter(slow), "{scene:?}");
    }
}

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
    pub demoted: Vec<(usize, Duration, String)>,
    /// Time until the last of the fast receivers was complete.
    pub others: Duration,
}

impl Story {
    /// Plays a session in which these hosts are slow, to its end.
    pub fn of(
        mut simulation: Simulation<Host, impl Faults>,
        slow: &[usize],
        replay: &str,
    ) -> Story {
        simulation.set_event_limit(100_000_000);
        let end = simulation.run(
            Instant::START + Duration::from_secs(3000),
            |_, host: &mut Host, now| turn(host, now),
        );
        let Participant::Root(root, sending) = &simulation.machines()[0] else {
            unreachable!("host 0 is the root")
        };
        assert!(root.is_over(), "{replay}: {end:?}");
        for report in root.reports() {
            assert_eq!(
                report.outcome,
                Outcome::Delivered,
                "{replay}: {} {}",
                report.host,
                report.text
            );
        }
        let fast = root
            .reports()
            .filter(|report| !slow.contains(&report.rank.index()));
        let others = fast.map(|report| report.took).max().unwrap_or_default();
        let demoted = |(now, event): &(Instant, RootEvent)| {
            let RootEvent::Demoted { host, text } = event else {
                return None;
            };
            let host = host
                .trim_start_matches('n')
                .parse()
                .expect("a host's name is its number");
            Some((host, now.since(Instant::START), text.clone()))
        };
        Story {
            demoted: sending.source().told().iter().filter_map(demoted).collect(),
            others,
        }
    }
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
            let percent = if self.is_short(host, Short::Cable) {
                self.percent
            } else {
                100
            };
            let cable = Cable::new(
                RATE_BITS_PER_SECOND * percent / 100,
                Duration::from_micros(5),
            );
            let cost = if self.is_short(host, Short::Cpu) {
                self.frame_cost()
            } else {
                Duration::ZERO
            };
            network.add_host(
                switch,
                cable,
                HostSettings {
                    per_frame_cost: cost,
                    ..settings.clone()
                },
            );
        }
        network.with_mtu_bytes(1500)
    }

    pub fn play(&self) -> Story {
        let case = Case {
            mtu_bytes: 1500,
            ..Case::new(self.via, self.receivers, self.bytes)
        }
        .with_feed(FEED_FRAMES);
        let payload_rate = RATE_BITS_PER_SECOND / 8 * 1468 / 1538;
        let disk = |host| match self.is_short(host, Short::Disk) {
            true => Disk::default().with_rate(payload_rate * self.percent / 100),
            false => Disk::default(),
        };
        let hosts = hosts_of(&case, self.seed, sent(&case, self.seed).listening(), disk);
        let mut simulation = Simulation::new(&self.network(), hosts, NoFaults);
        if let Some(host) = self.slow.filter(|_| self.short == Short::Turns) {
            let runs = Duration::from_millis(self.percent);
            let mut at = Instant::START + Duration::from_millis(Random::new(self.seed).below(1000));
            for _ in 0..30_000 {
                simulation.pause(host, at + runs);
                at += Duration::from_millis(100);
                simulation.resume(host, at);
            }
        }
        Story::of(simulation, self.slow.as_slice(), &format!("{self:?}"))
    }
}
