//! Simulated tests of transfers with one slow receiver: its effect on the others. A relay to a slow
//! network is one.

use ethbcast_collectives::session::application::{
    Collected, MemoryContent, Next, Participant, Sink, SinkState, Source, Tally,
};
use ethbcast_collectives::session::{
    Arrival, Blocks, Done, MemberReport, Outcome, Receiver, ReceiverConfig, Root, RootConfig,
    RootEvent, Station, Trailer, Wanted,
};
use ethbcast_planning::plan::Via;
use ethbcast_tests::in_full;
use ethbcast_tests::session::{Case, Disk, GROUP, Host, hosts_of, sent, turn};
use ethbcast_transport::sim::{
    Cable, Faults, HostSettings, Network, NoFaults, Random, Simulation, SwitchSettings, host_mac,
};
use ethbcast_transport::wire::group_mac;
use ethbcast_transport::{Instant, Tuning};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
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

/// Bytes that wait between the two sessions of a relay before it takes no more.
const RELAYED_BYTES: usize = 64 << 10;
const RELAYED_FEED_FRAMES: u64 = 64;

/// A relay's two sessions, as its threads join them.
#[derive(Default)]
struct Joint {
    pieces: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
    most_bytes: usize,
    trailer: Option<Trailer>,
    is_confirmed: bool,
    behind: Option<Vec<(String, Outcome)>>,
    /// Whether it changes a byte that it passes on.
    changes: bool,
}

#[derive(Default)]
struct NearEnd {
    joint: Rc<RefCell<Joint>>,
    tally: Tally,
    verdict: Option<Done>,
    is_over: bool,
}

impl Sink for NearEnd {
    fn has_room(&self) -> bool {
        self.joint.borrow().waiting_bytes < RELAYED_BYTES
    }

    fn take(&mut self, _now: Instant, arrival: Arrival<'_>) {
        let bytes = match arrival {
            Arrival::Bytes(bytes) | Arrival::Message(bytes) => bytes,
            Arrival::End(trailer) => {
                self.joint.borrow_mut().trailer = Some(trailer);
                self.verdict = Some(self.tally.verdict(Outcome::Verified, ""));
                return;
            }
        };
        self.tally.add(bytes);
        let (mut joint, mut piece) = (self.joint.borrow_mut(), bytes.to_vec());
        piece[0] ^= u8::from(std::mem::take(&mut joint.changes));
        joint.waiting_bytes += piece.len();
        joint.most_bytes = joint.most_bytes.max(joint.waiting_bytes);
        joint.pieces.push_back(piece);
    }

    fn publish(&mut self, _now: Instant) -> bool {
        self.joint.borrow_mut().is_confirmed = true;
        false
    }

    fn turn(&mut self, now: Instant) -> SinkState {
        let joint = self.joint.borrow();
        let behind = joint.behind.as_ref().filter(|_| !self.is_over);
        if let (true, Some(behind)) = (joint.is_confirmed, behind) {
            let is_failed = behind.iter().any(|(_, end)| *end != Outcome::Delivered);
            let outcome = [Outcome::Delivered, Outcome::WriteFailed][usize::from(is_failed)];
            (self.is_over, self.verdict) = (true, Some(self.tally.verdict(outcome, "behind it")));
        }
        SinkState {
            is_syncing: false,
            verdict: self.verdict.take(),
            again_at: (!self.is_over).then(|| now + Duration::from_millis(1)),
        }
    }
}

struct FarEnd {
    joint: Rc<RefCell<Joint>>,
    piece: Vec<u8>,
    taken: usize,
}

impl Source for FarEnd {
    fn next(&mut self, now: Instant, _consumed: bool) -> Next<'_> {
        if self.taken == self.piece.len() {
            let mut joint = self.joint.borrow_mut();
            let Some(piece) = joint.pieces.pop_front() else {
                let end = joint.trailer.filter(|_| joint.is_confirmed);
                return end.map_or(Next::Until(now + Duration::from_millis(1)), Next::End);
            };
            joint.waiting_bytes -= piece.len();
            (self.piece, self.taken) = (piece, 0);
        }
        Next::Bytes(&self.piece[self.taken..])
    }

    fn advance(&mut self, bytes: usize) {
        self.taken += bytes;
    }
}

struct AnySource(Box<dyn Source>);

impl Source for AnySource {
    fn next(&mut self, now: Instant, consumed: bool) -> Next<'_> {
        self.0.next(now, consumed)
    }

    fn advance(&mut self, bytes: usize) {
        self.0.advance(bytes);
    }
}

struct AnySink(Box<dyn Sink>);

impl Sink for AnySink {
    fn has_room(&self) -> bool {
        self.0.has_room()
    }

    fn take(&mut self, now: Instant, arrival: Arrival<'_>) {
        self.0.take(now, arrival);
    }

    fn publish(&mut self, now: Instant) -> bool {
        self.0.publish(now)
    }

    fn turn(&mut self, now: Instant) -> SinkState {
        self.0.turn(now)
    }
}

/// Plays a transfer in a fast network with a relay to two hosts in a slow one. Returns what the
/// sender reports of each host, the most bytes that waited at the relay, and the most frames by
/// which the sender was ahead of it.
fn relayed(changes: bool) -> (Vec<MemberReport>, usize, u64) {
    type Member = Participant<AnySource, AnySink>;
    let mut network = Network::new();
    let settings = HostSettings {
        groups: vec![group_mac(GROUP)],
        ..HostSettings::default()
    };
    for rate in [1_000_000_000, 100_000_000] {
        let switch = network.add_switch(SwitchSettings::default());
        let cable = Cable::new(rate, Duration::from_micros(1));
        for _ in 0..3 {
            network.add_host(switch, cable, settings.clone());
        }
    }
    let tuning = || Tuning::default().with_feed_frames(RELAYED_FEED_FRAMES);
    let root = |host: usize, name: &str, source: Box<dyn Source>| {
        let station = Station::new(GROUP, name, host_mac(host), 1500);
        let config = RootConfig {
            wanted: Wanted::exactly(2),
            probe: false,
            tuning: tuning(),
            ..RootConfig::new(station, host as u32 + 1, "a file")
        };
        Member::root(Root::new(Instant::START, config), AnySource(source))
    };
    let receiver = |host: usize, name: &str, sink: Box<dyn Sink>| {
        let station = Station::new(GROUP, name, host_mac(host), 1500);
        let config = ReceiverConfig {
            tuning: tuning(),
            ..ReceiverConfig::new(station, host as u64)
        };
        Member::receiver(Receiver::new(Instant::START, config), AnySink(sink))
    };
    let joint = Rc::new(RefCell::new(Joint {
        changes,
        ..Joint::default()
    }));
    let near = NearEnd {
        joint: Rc::clone(&joint),
        ..NearEnd::default()
    };
    let far = FarEnd {
        joint: Rc::clone(&joint),
        piece: Vec::new(),
        taken: 0,
    };
    let content = MemoryContent::new(vec![7; 3_000_000]);
    let hosts = vec![
        root(0, "n0", Box::new(content)),
        receiver(1, "n1", Box::<Collected>::default()),
        receiver(2, "r", Box::new(near)),
        root(3, "r", Box::new(far)),
        receiver(4, "n1", Box::<Collected>::default()),
        receiver(5, "n2", Box::<Collected>::default()),
    ];
    let mut simulation = Simulation::new(&network, hosts, NoFaults);
    let (mut frames, mut lead) = ([0; 2], 0);
    let end = simulation.run(
        Instant::START + Duration::from_secs(60),
        |host, member, now| {
            if let (2, Participant::Receiver(receiver, _)) = (host, &mut *member)
                && let Some(behind) = &joint.borrow().behind
            {
                receiver.set_behind(behind.len(), behind.clone());
            }
            let again_at = member.turn(now);
            if let Participant::Root(root, _) = member {
                frames[host / 3] = root.streams().map_or(0, Blocks::frames);
                lead = lead.max(frames[0].saturating_sub(frames[1]));
                if host == 3 && root.is_over() {
                    let reports = root.reports().map(|one| (one.host.clone(), one.outcome));
                    joint.borrow_mut().behind = Some(reports.collect());
                }
            }
            again_at
        },
    );
    assert!(end.is_quiet(), "{end:?}");
    let Participant::Root(root, _) = &simulation.machines()[0] else {
        panic!("it sends")
    };
    let most_bytes = joint.borrow().most_bytes;
    (root.reports().cloned().collect(), most_bytes, lead)
}

#[test]
fn a_relay_to_a_slow_network_slows_its_sender_down_and_names_every_host_behind_it() {
    let (reports, most_bytes, lead) = relayed(false);
    let delivered = |host: &str| (host.to_owned(), Outcome::Delivered);
    for report in &reports {
        assert_eq!(report.outcome, Outcome::Delivered, "{report:?}");
        let behind = [delivered("n1"), delivered("n2")];
        let named = &behind[..if report.host == "r" { 2 } else { 0 }];
        assert_eq!(report.behind.named(), named, "{report:?}");
    }
    // What has arrived in order is taken at once.
    let most_frames = RELAYED_FEED_FRAMES + (RELAYED_BYTES / 1400) as u64;
    assert!(
        (RELAYED_BYTES..most_frames as usize * 1500).contains(&most_bytes),
        "{most_bytes} bytes waited at the relay"
    );
    let most_frames = most_frames + 3 * RELAYED_FEED_FRAMES;
    assert!(lead <= most_frames, "the sender was {lead} frames ahead");
}

#[test]
fn hosts_behind_a_relay_that_changes_a_byte_are_named_as_damaged() {
    let (reports, ..) = relayed(true);
    let of = |host: &str| reports.iter().find(|report| report.host == host);
    let relay = of("r").expect("it took part");
    assert_eq!(relay.outcome, Outcome::WriteFailed);
    let damaged = ["n1", "n2"].map(|host| (host.to_owned(), Outcome::Damaged));
    assert_eq!(relay.behind.named(), damaged);
    assert_eq!(
        of("n1").map(|report| report.outcome),
        Some(Outcome::Delivered)
    );
}
