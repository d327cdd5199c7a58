//! Simulated tests of transfers with one slow cable: the other hosts hardly wait for it.

use crate::slow_sessions::Story;
use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::{OnSlow, Outcome};
use ethbcast_planning::model::{Calibration, HostCost};
use ethbcast_planning::plan::Via;
use ethbcast_tests::in_full;
use ethbcast_tests::session::{Case, Disk, GROUP, Host, hosts_of, sent, turn};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{
    Cable, HostSettings, Network, PauseFrames, QueueLimit, Random, RandomFaults, Simulation,
    SwitchSettings,
};
use ethbcast_transport::wire::group_mac;
use std::time::Duration;

/// Rate of every cable but a slow one.
const RATE_BITS_PER_SECOND: u64 = 40_000_000;
/// Content that takes as long on these cables as 32 MiB do at 100 Mbit/s.
const BYTES: usize = 13_400_000;
/// Half a second of frames: as 4096 of them are at 100 Mbit/s.
const FEED_FRAMES: u64 = 2048;
const RECEIVERS: usize = 7;
/// Times of the transfer without a slow cable that the others may take for each slow one.
const MAX_EXTRA_TIME: f64 = 0.3;

#[derive(Clone, Debug)]
struct Scene {
    via: Via,
    bytes: usize,
    /// Hosts with slow cables; host 0 is the root.
    slow: Vec<usize>,
    /// Part of the others' rate that a slow cable has.
    part: u64,
    /// Whether slow cables are slow only from their hosts to the switch.
    sends_slowly: bool,
    /// Whether the switch pauses those that send to a full port, so that they take their own cable
    /// for the limit, as on the interfaces of namespaces.
    pauses: bool,
    loss: f64,
    /// A host whose process pauses, each time between these two moments.
    naps: Option<(usize, Vec<[u64; 2]>)>,
    is_known: bool,
    on_slow: OnSlow,
    /// Whether the root does not know the content's length, as of a pipe.
    is_endless: bool,
}

fn scene(via: Via, slow: &[usize]) -> Scene {
    Scene {
        via,
        bytes: BYTES,
        slow: slow.to_vec(),
        part: 5,
        sends_slowly: false,
        pauses: false,
        loss: 0.0,
        naps: None,
        is_known: false,
        on_slow: OnSlow::Demote,
        is_endless: false,
    }
}

/// Short naps of a busy host, other ones for each seed.
fn busy(host: usize, seed: u64) -> Option<(usize, Vec<[u64; 2]>)> {
    let mut random = Random::new(seed);
    let mut at = 100;
    let naps = std::iter::repeat_with(|| {
        at += 20 + random.below(80);
        let from = at;
        at += 1 + random.below(25);
        [from, at]
    });
    Some((host, naps.take(250).collect()))
}

impl Scene {
    fn network(&self) -> Network {
        let settings = HostSettings {
            groups: vec![group_mac(GROUP)],
            nic_receive_frames: 4096,
            nic_transmit_frames: 16,
            ..HostSettings::default()
        };
        let mut network = Network::new();
        let port_queue = QueueLimit::Bytes(256 << 10);
        let pause = PauseFrames {
            high_frames: 40,
            lasts: Duration::from_millis(1),
        };
        let pause = Some(pause).filter(|_| self.pauses);
        let switch = network.add_switch(SwitchSettings {
            port_queue,
            pause,
            ..SwitchSettings::default()
        });
        for host in 0..=RECEIVERS {
            let part = if self.slow.contains(&host) {
                self.part
            } else {
                1
            };
            let cable = Cable::new(RATE_BITS_PER_SECOND / part, Duration::from_micros(5));
            let cable = if self.sends_slowly {
                cable.with_backward_rate(RATE_BITS_PER_SECOND)
            } else {
                cable
            };
            network.add_host(switch, cable, settings.clone());
        }
        network.with_mtu_bytes(1500)
    }

    fn calibration(&self) -> Option<Calibration> {
        let frame_ns = 1538 * 8_000_000_000 / RATE_BITS_PER_SECOND;
        let cost = |&host: &usize| HostCost {
            name: format!("n{host}"),
            injection_ns: frame_ns * self.part,
        };
        let hosts = self.slow.iter().map(cost).collect();
        let measured = Calibration::assumed(RATE_BITS_PER_SECOND, 1468).with_hosts("n0", hosts);
        self.is_known.then(|| measured.expect("it is sound"))
    }

    fn simulation(&self) -> Simulation<Host, RandomFaults> {
        let Scene {
            on_slow,
            is_endless,
            ..
        } = *self;
        let case = Case {
            mtu_bytes: 1500,
            calibration: self.calibration(),
            on_slow,
            is_endless,
            ..Case::new(self.via, RECEIVERS, self.bytes)
        };
        let case = case.with_feed(FEED_FRAMES);
        let hosts = hosts_of(&case, 1, sent(&case, 1).listening(), |_| Disk::default());
        let mut simulation =
            Simulation::new(&self.network(), hosts, RandomFaults::new(1).loss(self.loss));
        if let Some((host, naps)) = &self.naps {
            for &[from, to] in naps {
                simulation.pause(*host, Instant::START + Duration::from_millis(from));
                simulation.resume(*host, Instant::START + Duration::from_millis(to));
            }
        }
        simulation
    }

    fn play(&self) -> Story {
        Story::of(self.simulation(), &self.slow, &format!("{self:?}"))
    }

    fn times(&self, story: &Story) -> f64 {
        let undisturbed = Scene {
            slow: Vec::new(),
            naps: None,
            ..self.clone()
        }
        .play();
        assert!(
            undisturbed.demoted.is_empty(),
            "{self:?}: {:?}",
            undisturbed.demoted
        );
        let times = story.others.as_secs_f64() / undisturbed.others.as_secs_f64();
        println!("{self:?}: {times:.2}, {:?}", story.demoted);
        times
    }

    /// Checks that the slow hosts alone are demoted, each with its rate, and that the others hardly
    /// wait.
    fn is_put_right(&self) {
        let story = self.play();
        let mut demoted: Vec<usize> = story.demoted.iter().map(|&(host, ..)| host).collect();
        demoted.sort_unstable();
        assert_eq!(demoted, self.slow, "{self:?}: {:?}", story.demoted);
        assert!(
            story
                .demoted
                .iter()
                .all(|(.., text)| text.contains("bit/s")),
            "{:?}",
            story.demoted
        );
        let times = self.times(&story);
        assert!(
            times <= 1.0 + MAX_EXTRA_TIME * self.slow.len() as f64,
            "{self:?}: {times:.2} times: {:?}",
            story.demoted
        );
    }

    fn is_found_among_busy_ones(&self) {
        let story = self.play();
        println!(
            "{:?} {:?} {} {:?} {:?}",
            self.via, self.slow, self.pauses, story.others, story.demoted
        );
        let demoted: Vec<usize> = story.demoted.iter().map(|&(host, ..)| host).collect();
        assert_eq!(demoted, self.slow, "{self:?}: {:?}", story.demoted);
    }

    fn lost(&self) -> Vec<usize> {
        let mut simulation = self.simulation();
        simulation.set_event_limit(100_000_000);
        let end = simulation.run(
            Instant::START + Duration::from_secs(300),
            |_, host: &mut Host, now| turn(host, now),
        );
        let Participant::Root(root, _) = &simulation.machines()[0] else {
            unreachable!("host 0 is the root")
        };
        assert!(root.is_over(), "{self:?}: {end:?}");
        let lost = root
            .reports()
            .filter(|report| report.outcome != Outcome::Delivered);
        lost.map(|report| report.rank.index()).collect()
    }

    fn nobody_is_demoted(&self) {
        let story = self.play();
        assert!(story.demoted.is_empty(), "{self:?}: {:?}", story.demoted);
    }
}

#[test]
fn in_a_chain_the_others_hardly_wait_for_a_host_on_a_slow_cable_wherever_it_is() {
    for slow in [1, 4, 7, 2, 6].into_iter().take(in_full(3, 5)) {
        scene(Via::Chain, &[slow]).is_put_right();
    }
    Scene {
        part: 10,
        ..scene(Via::Chain, &[3])
    }
    .is_put_right();
}

#[test]
fn nor_in_a_binary_tree_whether_it_is_an_inner_host_or_a_leaf() {
    for slow in [1, 3, 7, 2, 4].into_iter().take(in_full(3, 5)) {
        scene(Via::Binary, &[slow]).is_put_right();
    }
}

#[test]
fn nor_where_frames_are_lost_everywhere() {
    for (via, slow) in [(Via::Chain, 1), (Via::Chain, 5), (Via::Binary, 3)] {
        Scene {
            loss: 0.01,
            ..scene(via, &[slow])
        }
        .is_put_right();
    }
}

#[test]
fn of_two_slow_ones_both_are_served_beside_the_others() {
    // Each is found in its turn: the second shows only once no host waits for the first.
    for slow in [[2, 5], [1, 2], [3, 7]] {
        let scene = Scene {
            bytes: 2 * BYTES,
            ..scene(Via::Chain, &slow)
        };
        scene.is_put_right();
    }
}

#[test]
fn a_busy_relay_is_not_taken_for_the_slow_host_behind_it() {
    for seed in 1..=in_full(3, 12) {
        for (via, slow) in [
            (Via::Chain, 2),
            (Via::Chain, 5),
            (Via::Binary, 2),
            (Via::Binary, 4),
        ] {
            for pauses in [false, true] {
                let relay = if via == Via::Chain { slow - 1 } else { 1 };
                let naps = busy(relay, seed);
                Scene {
                    naps,
                    pauses,
                    ..scene(via, &[slow])
                }
                .is_found_among_busy_ones();
            }
        }
    }
}

/// A relay that the switch pauses reports no child: nothing but a comparison shows whose cable is
/// slow.
#[test]
fn the_busy_relay_before_a_slow_cable_is_not_evicted_for_it_nor_demoted_where_the_length_is_unknown()
 {
    for slow in [2, 5] {
        let (pauses, naps) = (true, busy(slow - 1, 1));
        let scene = Scene {
            pauses,
            naps,
            ..scene(Via::Chain, &[slow])
        };
        assert_eq!(
            Scene {
                on_slow: OnSlow::Evict,
                ..scene.clone()
            }
            .lost(),
            [slow],
            "{scene:?}"
        );
        Scene {
            is_endless: true,
            ..scene
        }
        .is_found_among_busy_ones();
    }
}

#[test]
fn a_relay_that_receives_fast_and_sends_slowly_becomes_a_leaf_and_not_the_host_behind_it() {
    for (via, slow) in [
        (Via::Chain, 1),
        (Via::Chain, 4),
        (Via::Binary, 2),
        (Via::Binary, 3),
    ] {
        Scene {
            sends_slowly: true,
            bytes: 2 * BYTES,
            ..scene(via, &[slow])
        }
        .is_put_right();
    }
}

#[test]
fn whoever_is_slow_for_a_moment_stays_where_it_is() {
    for host in [1, 4] {
        for via in [Via::Chain, Via::Binary] {
            let naps = vec![[900, 1150]];
            Scene {
                naps: Some((host, naps)),
                ..scene(via, &[])
            }
            .nobody_is_demoted();
            let naps = (5..40).map(|at| [at * 100, at * 100 + 30]).collect();
            Scene {
                naps: Some((host, naps)),
                ..scene(via, &[])
            }
            .nobody_is_demoted();
        }
    }
}

#[test]
fn where_all_cables_are_slow_or_that_of_the_root_nobody_is_to_blame() {
    for via in [Via::Chain, Via::Binary] {
        scene(via, &[0]).nobody_is_demoted();
        Scene {
            bytes: BYTES / 2,
            ..scene(via, &[0, 1, 2, 3, 4, 5, 6, 7])
        }
        .nobody_is_demoted();
    }
}

#[test]
fn a_host_that_was_measured_to_be_slow_is_served_beside_the_others_from_the_beginning() {
    for (via, slow) in [(Via::Chain, 1), (Via::Binary, 3), (Via::Cast, 4)] {
        let scene = Scene {
            is_known: true,
            ..scene(via, &[slow])
        };
        let story = scene.play();
        let [(host, at, text)] = &story.demoted[..] else {
            panic!("{:?}", story.demoted)
        };
        assert!(
            *host == slow && *at < Duration::from_secs(1) && text.contains("earlier measurements"),
            "{at:?} {text}"
        );
        let times = scene.times(&story);
        assert!(times <= 1.1, "{scene:?}: {times:.2} times");
    }
}
