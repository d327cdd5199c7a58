//! Simulated tests of transfers with keys, against an attacker who hears every frame and sends any.

use ethbcast_collectives::keys::{ExchangePair, Keys, Secret};
use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::{
    End, Outcome, Receiver, ReceiverConfig, ReceiverEvent, ReceiverKeys, RootEvent, Station, kind,
};
use ethbcast_planning::plan::Via;
use ethbcast_tests::in_full;
use ethbcast_tests::session::{Case, GROUP, Host, Played, hosts, keys, play, star, turn};
use ethbcast_transport::sim::{
    Delivery, Fate, Faults, NoFaults, Random, RandomFaults, Simulation, host_mac,
};
use ethbcast_transport::wire::{
    ETHERNET_BYTES, EtherType, EthernetHeader, KEYED_VERSION, Kind, parse, seal,
};
use ethbcast_transport::{Deadline, Instant, Machine, Timer};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const RATE_BITS_PER_SECOND: u64 = 100_000_000;
const EVERY_WAY: [Via; 5] = [
    Via::Chain,
    Via::Binary,
    Via::Cast,
    Via::ScatterAllgather,
    Via::TwoTree,
];

fn case(via: Via) -> Case {
    Case {
        mtu_bytes: 1500,
        ..Case::new(via, 5, 400_000)
    }
    .with_feed(256)
    .keyed()
}

fn played(case: &Case, seed: u64, loss: f64) -> Played {
    let faults = RandomFaults::new(seed)
        .loss(loss)
        .duplicate(loss)
        .reorder(loss, Duration::from_micros(300));
    let network = star(case, RATE_BITS_PER_SECOND);
    play(
        case,
        &network,
        seed,
        faults,
        &format!("{} seed {seed} loss {loss}", case.via),
    )
}

#[test]
fn hosts_with_one_key_all_get_the_file() {
    for via in EVERY_WAY {
        for (seed, loss) in [(1, 0.0), (3, 0.1), (2, 0.02)]
            .into_iter()
            .take(in_full(2, 3))
        {
            let played = played(&case(via), seed, loss);
            assert_eq!(
                played.fates,
                [Outcome::Delivered; 5],
                "{via}, loss {loss}: {:?}",
                played.words
            );
        }
    }
}

#[test]
fn a_key_costs_no_frame_but_the_one_that_brings_the_groups_secret() {
    for via in EVERY_WAY {
        let sent = |case: &Case| {
            let stats = played(case, 1, 0.0).network;
            stats.hosts.iter().map(|host| host.sent_frames).sum::<u64>()
        };
        let keyed = sent(&case(via));
        let plain = sent(&Case {
            keys: |_| None,
            ..case(via)
        });
        // The frames themselves carry 8 bytes less.
        assert!(
            keyed <= plain + plain / 20 + 10,
            "{via}: {keyed} for {plain}"
        );
    }
}

pub type Heard = Vec<(usize, Vec<u8>)>;

/// Returns what an attacker has heard, `known` at first, and a network without faults in which it
/// hears every frame.
pub fn recording(known: &Heard) -> (Rc<RefCell<Heard>>, impl Faults + use<>) {
    let heard: Rc<RefCell<Heard>> = Rc::new(RefCell::new(known.clone()));
    let hears = Rc::clone(&heard);
    let faults = move |delivery: &Delivery<'_>| {
        let is_short = hears.borrow().len() < 20_000;
        if delivery.from.is_some() && is_short {
            hears
                .borrow_mut()
                .push((delivery.to, delivery.frame.to_vec()));
        }
        Fate::Deliver
    };
    (heard, faults)
}

/// Alters a frame, or not, as an attacker may before sending it to a host.
pub fn altered(frame: &mut Vec<u8>, random: &mut Random) {
    let bit = random.below(8 * frame.len() as u64) as usize;
    match random.below(4) {
        0 | 1 => {}
        2 => frame[bit / 8] ^= 1 << (bit % 8),
        _ => frame.truncate((bit / 8).max(ETHERNET_BYTES)),
    }
}

/// Changes one bit of a frame.
fn with_another_bit(frame: &mut [u8], random: &mut Random) {
    let bit = random.below(8 * frame.len() as u64) as usize;
    frame[bit / 8] ^= 1 << (bit % 8);
}

/// Plays a session while an attacker sends recorded frames, unchanged or altered, to any host, from
/// the first on and for long after its end. `known` are frames of an earlier session.
fn attacked(case: &Case, seed: u64, known: &Heard) -> (Vec<Outcome>, u64, Heard) {
    let (fates, sent, heard, injected) = attacked_by(case, seed, known, (1, altered));
    assert!(injected > 3000, "{injected}");
    (fates, sent, heard)
}

/// Number of frames that an attacker sends at once, and what it does to each.
type Manner = (usize, fn(&mut Vec<u8>, &mut Random));

fn attacked_by(
    case: &Case,
    seed: u64,
    known: &Heard,
    manner: Manner,
) -> (Vec<Outcome>, u64, Heard, u64) {
    let (burst, alter) = manner;
    let (heard, faults) = recording(known);
    let mut simulation =
        Simulation::new(&star(case, RATE_BITS_PER_SECOND), hosts(case, seed), faults);
    let (mut random, mut now) = (Random::new(!seed), Duration::ZERO);
    let mut injected = 0;
    while now < Duration::from_secs(2) {
        now += Duration::from_micros(500);
        let _goes_on = simulation.run(Instant::START + now, |_, host: &mut Host, now| {
            turn(host, now)
        });
        let count = heard.borrow().len() as u64;
        for _ in 0..if count > 0 { burst } else { 0 } {
            let (to, mut frame) = heard.borrow()[random.below(count) as usize].clone();
            alter(&mut frame, &mut random);
            let to = if random.chance(0.5) {
                to
            } else {
                random.below(case.receivers as u64 + 1) as usize
            };
            simulation.inject(Instant::START + now, to, &frame);
            injected += 1;
        }
    }
    let outcome = simulation.run(
        Instant::START + Duration::from_secs(90),
        |_, host: &mut Host, now| turn(host, now),
    );
    assert!(outcome.is_quiet(), "{} seed {seed}: {outcome:?}", case.via);
    let Participant::Root(root, sending) = &simulation.machines()[0] else {
        unreachable!("host 0 is the root")
    };
    for receiving in simulation.machines().iter().filter_map(Host::receiving) {
        assert_eq!(
            receiving.end(),
            Some(&End::Confirmed),
            "{} seed {seed}",
            case.via
        );
        assert_eq!(
            receiving.sink().bytes(),
            sending.source().bytes(),
            "{} seed {seed}",
            case.via
        );
    }
    let sent = simulation
        .stats()
        .hosts
        .iter()
        .map(|host| host.sent_frames)
        .sum();
    let fates = root.reports().map(|report| report.outcome).collect();
    drop(simulation);
    (
        fates,
        sent,
        Rc::try_unwrap(heard)
            .expect("the simulation is over")
            .into_inner(),
        injected,
    )
}

/// A hundred thousand frames; ten million in `./test --full`.
#[test]
fn of_altered_frames_none_is_answered_or_delays_anything() {
    let sessions = in_full(1, 100);
    let mut injected = 0;
    for seed in 1..=sessions {
        let case = case(if seed % 2 == 1 { Via::Cast } else { Via::Chain });
        let usual: u64 = played(&case, seed, 0.0)
            .network
            .hosts
            .iter()
            .map(|host| host.sent_frames)
            .sum();
        let (fates, sent, _, count) = attacked_by(
            &case,
            seed,
            &Heard::new(),
            (30, |frame, random| with_another_bit(frame, random)),
        );
        assert_eq!(
            (fates, sent),
            (vec![Outcome::Delivered; 5], usual),
            "{} seed {seed}",
            case.via
        );
        injected += count;
    }
    assert!(
        injected >= sessions * 100_000,
        "{injected} in {sessions} sessions"
    );
}

#[test]
fn whatever_somebody_without_the_key_repeats_or_alters_has_no_effect() {
    for via in EVERY_WAY {
        let (mut known, quiet) = (Heard::new(), played(&case(via), 1, 0.0));
        let usual: u64 = quiet
            .network
            .hosts
            .iter()
            .map(|host| host.sent_frames)
            .sum();
        for seed in 1..3 {
            let (fates, sent, heard) = attacked(&case(via), seed, &known);
            assert_eq!(fates, [Outcome::Delivered; 5], "{via}, seed {seed}");
            assert!(
                sent <= usual * 2,
                "{via}, seed {seed}: {sent} frames, without attacks {usual}"
            );
            // The attacker knows all frames of this session in the next one.
            known = heard;
        }
    }
}

/// Returns the announcements of a session of the same root with a key that no other host has,
/// during its gathering; or of one that ran.
fn recorded(case: &Case, seed: u64) -> Vec<Vec<u8>> {
    recorded_of(case, seed, (kind::ANNOUNCE, 1))
}

/// Returns the frames of a kind that come to a host.
fn recorded_of(case: &Case, seed: u64, (kind, to): (Kind, usize)) -> Vec<Vec<u8>> {
    let heard: Rc<RefCell<Vec<Vec<u8>>>> = Rc::default();
    let hears = Rc::clone(&heard);
    let faults = move |delivery: &Delivery<'_>| {
        if (delivery.to, delivery.frame[17]) == (to, kind.0) {
            hears.borrow_mut().push(delivery.frame.to_vec());
        }
        Fate::Deliver
    };
    let mut simulation =
        Simulation::new(&star(case, RATE_BITS_PER_SECOND), hosts(case, seed), faults);
    let _quiet = simulation.run(
        Instant::START + Duration::from_secs(60),
        |_, host: &mut Host, now| turn(host, now),
    );
    drop(simulation);
    Rc::try_unwrap(heard)
        .expect("the simulation is over")
        .into_inner()
}

fn of_nobody() -> Case {
    Case {
        keys: |host| Some(keys(if host == 0 { 1 } else { 9 })),
        ..case(Via::Chain)
    }
}

#[test]
fn announcements_of_an_earlier_session_of_the_same_root_keep_nobody_from_this_one() {
    let (case, known) = (case(Via::Chain), recorded(&of_nobody(), 7));
    assert!(known.len() > 150, "{}", known.len());
    let mut simulation = Simulation::new(
        &star(&case, RATE_BITS_PER_SECOND),
        hosts(&case, 1),
        NoFaults,
    );
    let mut now = Duration::ZERO;
    // Each of the new session is followed by one of the old.
    for frame in &known {
        now += Duration::from_millis(50);
        let _goes_on = simulation.run(Instant::START + now, |_, host: &mut Host, now| {
            turn(host, now)
        });
        (1..=5).for_each(|to| simulation.inject(Instant::START + now, to, frame));
    }
    let outcome = simulation.run(
        Instant::START + Duration::from_secs(60),
        |_, host: &mut Host, now| turn(host, now),
    );
    assert!(outcome.is_quiet(), "{outcome:?}");
    let Participant::Root(root, _) = &simulation.machines()[0] else {
        unreachable!("host 0 is the root")
    };
    assert_eq!(
        root.reports()
            .map(|report| report.outcome)
            .collect::<Vec<_>>(),
        [Outcome::Delivered; 5]
    );
    let limit = Duration::from_secs(3);
    assert!(
        root.took() < limit && outcome_at(&outcome) < Duration::from_secs(40),
        "{outcome:?}"
    );
}

fn outcome_at(outcome: &ethbcast_transport::sim::Outcome) -> Duration {
    match outcome {
        ethbcast_transport::sim::Outcome::Quiet { at } => at.since(Instant::START),
        _ => Duration::MAX,
    }
}

#[test]
fn announcements_of_an_earlier_session_end_no_wait_for_one_session() {
    for known in [recorded(&case(Via::Chain), 7), recorded(&of_nobody(), 8)] {
        assert!(!known.is_empty());
        for expects in [None, Some("another".to_owned())] {
            let station = Station::new(GROUP, "n1", host_mac(1), 1500);
            let own = ReceiverKeys {
                keys: Arc::new(keys(1)),
                exchange: ExchangePair::new(Secret::new([3; 32])),
            };
            let config = ReceiverConfig {
                once: true,
                expects,
                keys: Some(own),
                ..ReceiverConfig::new(station, 1)
            };
            let mut receiver = Receiver::new(Instant::START, config);
            let mut buffer = [0; 1514];
            for step in 0..60_000_u64 {
                let now = Instant::START + Duration::from_millis(step);
                if step % 50 == 0
                    && let Some(frame) = known.get(step as usize / 50)
                {
                    receiver.handle_frame(now, frame);
                }
                receiver.handle_timeout(now);
                while receiver.poll_transmit(now, &mut buffer).is_some() {}
                while let Some(event) = receiver.poll_event() {
                    assert!(
                        !matches!(event, ReceiverEvent::Ended(_)),
                        "{event:?} after {step} ms"
                    );
                }
            }
        }
    }
}

#[test]
fn ten_thousand_hosts_without_a_key_that_ask_to_join_get_no_answer() {
    let case = case(Via::Chain);
    let usual: u64 = played(&case, 1, 0.0)
        .network
        .hosts
        .iter()
        .map(|host| host.sent_frames)
        .sum();
    let request = recorded_of(
        &Case {
            keys: |_| None,
            ..case.clone()
        },
        1,
        (kind::JOIN, 0),
    )
    .remove(0);
    let parsed = parse(&request).expect("a request without a tag");
    let mut simulation = Simulation::new(
        &star(&case, RATE_BITS_PER_SECOND),
        hosts(&case, 1),
        NoFaults,
    );
    for number in 0..10_000 {
        let now = Instant::START + Duration::from_micros(20) * number;
        let _goes_on = simulation.run(now, |_, host: &mut Host, now| turn(host, now));
        let (source, destination) = (host_mac(1000 + number as usize), host_mac(0));
        let mut forged = request.clone();
        let link = EthernetHeader {
            source,
            destination,
            ether_type: EtherType::DEFAULT,
        };
        seal(&mut forged, link, &parsed.header, parsed.payload.len());
        (0..3).for_each(|_| simulation.inject(now, 0, &forged));
    }
    let outcome = simulation.run(
        Instant::START + Duration::from_secs(60),
        |_, host: &mut Host, now| turn(host, now),
    );
    assert!(outcome.is_quiet(), "{outcome:?}");
    let sent: u64 = simulation
        .stats()
        .hosts
        .iter()
        .map(|host| host.sent_frames)
        .sum();
    let Participant::Root(root, sending) = &simulation.machines()[0] else {
        unreachable!("host 0 is the root")
    };
    assert_eq!(
        root.reports()
            .map(|report| report.outcome)
            .collect::<Vec<_>>(),
        [Outcome::Delivered; 5]
    );
    let told = sending
        .source()
        .told()
        .iter()
        .filter(|(_, event)| matches!(event, RootEvent::OtherVersion(_)));
    assert_eq!((told.count(), sent), (64, usual));
}

#[test]
fn frames_without_a_tag_are_none_to_a_host_with_a_key() {
    let frames: Rc<RefCell<Vec<Vec<u8>>>> = Rc::default();
    let hears = Rc::clone(&frames);
    let faults = move |delivery: &Delivery<'_>| {
        hears.borrow_mut().push(delivery.frame.to_vec());
        Fate::Deliver
    };
    let case = case(Via::Chain);
    let mut simulation =
        Simulation::new(&star(&case, RATE_BITS_PER_SECOND), hosts(&case, 1), faults);
    let _quiet = simulation.run(
        Instant::START + Duration::from_secs(60),
        |_, host: &mut Host, now| turn(host, now),
    );
    assert!(frames.borrow().len() > 1000);
    assert!(
        frames
            .borrow()
            .iter()
            .all(|frame| parse(frame).is_err() && frame[16] == KEYED_VERSION)
    );
    let names = frames
        .borrow()
        .iter()
        .any(|frame| frame.windows(9).any(|part| part == b"simulated"));
    assert!(!names, "the group's name is in no frame");
}

/// Regression: one altered frame was taken for a word about the key of the host whose address it
/// has.
#[test]
fn altered_frames_say_nothing_about_the_key_of_a_host_that_has_this_one() {
    const NAME_AT: usize = ETHERNET_BYTES + 40;
    let case = Case {
        mtu_bytes: 1500,
        ..Case::new(Via::Chain, 5, 4_000_000)
    }
    .with_feed(256)
    .keyed();
    let altered = |(kind, to): (Kind, usize)| -> Vec<Vec<u8>> {
        let mut frames = recorded_of(&case, 1, (kind, to));
        frames.iter_mut().for_each(|frame| frame[NAME_AT] ^= 1);
        frames
    };
    let (requests, announced) = (altered((kind::JOIN, 0)), altered((kind::ANNOUNCE, 1)));
    assert!(requests.len() >= 5 && !announced.is_empty());
    let mut simulation = Simulation::new(
        &star(&case, RATE_BITS_PER_SECOND),
        hosts(&case, 1),
        NoFaults,
    );
    let mut told = Vec::new();
    let mut play = |simulation: &mut Simulation<Host, NoFaults>, until: Duration| {
        let _goes_on = simulation.run(Instant::START + until, |_, host: &mut Host, now| {
            if let Participant::Receiver(receiver, receiving) = &mut *host {
                while let Some(event) = receiver.poll_event() {
                    if let ReceiverEvent::OtherVersion(other) = &event {
                        told.push(other.to_string());
                    }
                    receiving.handle_event(now, event);
                }
            }
            turn(host, now)
        });
    };
    // One frame in each host's name before it is heard, and many when all are in the session.
    for at in [0].into_iter().chain(150..250).map(Duration::from_millis) {
        play(&mut simulation, at);
        for request in &requests[..5] {
            simulation.inject(Instant::START + at, 0, request);
        }
        for host in 0..=5 {
            simulation.inject(Instant::START + at, host, &announced[0]);
        }
    }
    play(&mut simulation, Duration::from_secs(60));
    assert_eq!(told, [""; 0]);
    let Participant::Root(root, sending) = &simulation.machines()[0] else {
        unreachable!("host 0 is the root")
    };
    let misfits = sending.source().told().iter();
    let misfits = misfits.filter(|(_, event)| matches!(event, RootEvent::OtherVersion(_)));
    assert_eq!(misfits.count(), 0);
    assert!(root.took() > Duration::from_millis(250), "it was attacked");
}

/// Plays a session in which host 2 has other keys than the others; returns the warnings of host 2
/// and of the root.
fn misfits(keys: fn(usize) -> Option<Keys>) -> (Vec<String>, Vec<String>, Vec<Outcome>) {
    let case = Case {
        keys,
        ..case(Via::Chain)
    };
    let mut simulation = Simulation::new(
        &star(&case, RATE_BITS_PER_SECOND),
        hosts(&case, 1),
        NoFaults,
    );
    let mut told = Vec::new();
    let _ = simulation.run(
        Instant::START + Duration::from_secs(120),
        |number, host: &mut Host, now| {
            if let (2, Participant::Receiver(receiver, receiving)) = (number, &mut *host) {
                while let Some(event) = receiver.poll_event() {
                    if let ReceiverEvent::OtherVersion(other) = &event {
                        told.push(other.to_string());
                    }
                    receiving.handle_event(now, event);
                }
            }
            turn(host, now)
        },
    );
    let Participant::Root(root, sending) = &simulation.machines()[0] else {
        unreachable!("host 0 is the root")
    };
    let of_root = sending
        .source()
        .told()
        .iter()
        .filter_map(|(_, event)| match event {
            RootEvent::OtherVersion(other) => Some(other.to_string()),
            _ => None,
        });
    (
        told,
        of_root.collect(),
        root.reports().map(|report| report.outcome).collect(),
    )
}

#[test]
fn a_host_without_the_key_is_named_and_gets_nothing() {
    let (told, of_root, fates) = misfits(|host| (host != 2).then(|| keys(1)));
    assert_eq!(fates, [], "the root waits for all five");
    assert!(
        told.len() == 1 && told[0].contains("frames with key") && told[0].contains("`key FILE`"),
        "{told:?}"
    );
    assert!(
        of_root.len() == 1 && of_root[0].contains("frames without a key were heard from n2 ("),
        "its user is told: {of_root:?}"
    );
    assert!(of_root[0].contains("`key FILE`"), "{of_root:?}");
}

#[test]
fn a_host_with_another_key_is_named_and_gets_nothing() {
    let (told, of_root, fates) = misfits(|host| Some(keys(if host == 2 { 9 } else { 1 })));
    assert_eq!(fates, []);
    let (own, other) = (keys(9).name().to_string(), keys(1).name().to_string());
    assert!(
        told.len() == 1 && told[0].contains(&own) && told[0].contains(&other),
        "{told:?}"
    );
    assert!(
        of_root.is_empty(),
        "it hears nobody it could ask: {of_root:?}"
    );
}

#[test]
fn a_sender_with_a_key_gives_nothing_to_hosts_without_and_the_other_way() {
    for keys in [
        (|host| (host == 0).then(|| keys(1))) as fn(usize) -> _,
        |host| (host != 0).then(|| keys(1)),
    ] {
        let (_, _, fates) = misfits(keys);
        assert_eq!(fates, []);
    }
}

/// Plays a session in which each host gets its own frames of streams and measurements back, and
/// those recorded in an earlier session; returns the hosts that say that another has their address,
/// and the announcements.
fn reflected(case: &Case, seed: u64, recorded: &Heard) -> (Vec<usize>, Heard) {
    let sent: Rc<RefCell<Heard>> = Rc::new(RefCell::new(recorded.clone()));
    let announced: Rc<RefCell<Heard>> = Rc::default();
    let (hears, hears_announcements) = (Rc::clone(&sent), Rc::clone(&announced));
    let faults = move |delivery: &Delivery<'_>| {
        let heard = delivery.from.map(|from| (from, delivery.frame.to_vec()));
        match Kind(delivery.frame[17]) {
            Kind::DATA | Kind::ACK | Kind::HEARTBEAT => hears.borrow_mut().extend(heard),
            kind::ANNOUNCE => hears_announcements.borrow_mut().extend(heard),
            _ => {}
        }
        Fate::Deliver
    };
    let mut simulation =
        Simulation::new(&star(case, RATE_BITS_PER_SECOND), hosts(case, seed), faults);
    let mut told = Vec::new();
    for step in 0..4000_u64 {
        let now = Instant::START + Duration::from_millis(step);
        let _goes_on = simulation.run(now, |number, host: &mut Host, now| {
            if let Participant::Receiver(receiver, receiving) = &mut *host {
                while let Some(event) = receiver.poll_event() {
                    told.extend(matches!(event, ReceiverEvent::OwnAddress(_)).then_some(number));
                    receiving.handle_event(now, event);
                }
            }
            turn(host, now)
        });
        for (host, frame) in sent.borrow_mut().drain(..) {
            simulation.inject(now, host, &frame);
        }
    }
    let Participant::Root(_, sending) = &simulation.machines()[0] else {
        unreachable!("host 0 is the root")
    };
    told.extend(
        sending
            .source()
            .told()
            .iter()
            .filter_map(|(_, event)| match event {
                RootEvent::OwnAddress(_) => Some(0),
                _ => None,
            }),
    );
    drop(simulation);
    (told, announced.take())
}

#[test]
fn frames_that_somebody_sends_back_are_no_second_host_with_the_address() {
    // Frames to the group; others are for another host, and a tag has their address.
    let (told, announced) = reflected(&case(Via::Cast), 1, &Heard::new());
    assert_eq!((told, announced.is_empty()), (Vec::new(), false));
    assert_eq!(
        reflected(&case(Via::Cast), 2, &announced).0,
        [0; 0],
        "it has announced an earlier session"
    );
    let unkeyed = reflected(
        &Case {
            keys: |_| None,
            ..case(Via::Cast)
        },
        1,
        &Heard::new(),
    )
    .0;
    assert!(!unkeyed.is_empty(), "without a key nobody can tell");
}

/// Machine at a port of the switch: a member, or a host without the key that sends recorded frames,
/// half of them altered, under the addresses of their senders.
enum Port {
    Member(Box<Host>),
    Forger(Forger),
}

struct Forger {
    heard: Rc<RefCell<Heard>>,
    random: Random,
    at: Instant,
    until: Instant,
}

const BETWEEN_FORGED: Duration = Duration::from_millis(1);

impl Forger {
    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let heard = self.heard.borrow();
        if self.at > now {
            return None;
        }
        self.at = now + BETWEEN_FORGED;
        if heard.is_empty() {
            return None;
        }
        let (_, frame) = &heard[self.random.below(heard.len() as u64) as usize];
        let forged = &mut buffer[..frame.len()];
        forged.copy_from_slice(frame);
        if self.random.chance(0.5) {
            with_another_bit(&mut forged[ETHERNET_BYTES..], &mut self.random);
        }
        Some(frame.len())
    }
}

impl Machine for Port {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        if let Port::Member(host) = self {
            host.handle_frame(now, frame);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Port::Member(host) = self {
            host.handle_timeout(now);
        }
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        match self {
            Port::Member(host) => host.poll_transmit(now, buffer),
            Port::Forger(forger) => forger.poll_transmit(now, buffer),
        }
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        match self {
            Port::Member(host) => host.poll_timeout(now),
            Port::Forger(forger) => (forger.at < forger.until).then_some(Deadline {
                at: forger.at,
                why: Timer("forger"),
            }),
        }
    }
}

/// Regression: a switch learned members' addresses at the port of a host that forged them, and sent
/// nothing to a member until that sent something itself, which took seconds: members were demoted.
/// From the first frame on, hosts could not join, as their requests went to the forger alone.
#[test]
fn a_chain_starts_and_goes_on_while_the_switch_learns_forged_addresses() {
    const RECEIVERS: usize = 7;
    let case = Case {
        mtu_bytes: 1500,
        ..Case::new(Via::Chain, RECEIVERS, 16_000_000)
    }
    .with_feed(1024)
    .keyed();
    // Returns the time of the stream, and that until the last receiver's end.
    let took = |begins: Duration, lasts: Duration| {
        let (heard, faults) = recording(&Heard::new());
        let at = Instant::START + begins;
        let forger = Forger {
            heard,
            random: Random::new(7),
            at,
            until: at + lasts,
        };
        let members = hosts(&case, 1).into_iter();
        let ports = members
            .map(|host| Port::Member(Box::new(host)))
            .chain([Port::Forger(forger)]);
        let switch = Case {
            receivers: RECEIVERS + 1,
            ..case.clone()
        };
        let network = star(&switch, RATE_BITS_PER_SECOND);
        let mut simulation = Simulation::new(&network, ports.collect(), faults);
        let mut ended = Instant::START;
        let outcome = simulation.run(
            Instant::START + Duration::from_secs(120),
            |_, port: &mut Port, now| {
                let Port::Member(host) = port else {
                    return None;
                };
                let again = turn(host, now);
                if host
                    .receiving()
                    .is_some_and(|receiving| receiving.end().is_none())
                {
                    ended = now;
                }
                again
            },
        );
        assert!(outcome.is_quiet(), "{outcome:?}");
        let Port::Member(host) = &simulation.machines()[0] else {
            unreachable!("host 0 is a member")
        };
        let Participant::Root(root, sending) = &**host else {
            unreachable!("host 0 is the root")
        };
        let fates: Vec<_> = root.reports().map(|report| report.outcome).collect();
        let told = sending.source().told();
        assert_eq!(
            fates,
            [Outcome::Delivered; RECEIVERS],
            "{begins:?}: {told:?}"
        );
        (root.took(), ended.since(Instant::START))
    };
    let (alone, alone_ended) = took(Duration::ZERO, Duration::ZERO);
    for begins in [0, 150].map(Duration::from_millis) {
        let (attacked, ended) = took(begins, Duration::from_secs(60));
        // Joining takes half a second more.
        assert!(
            attacked <= alone * 12 / 10 && ended <= alone_ended * 15 / 10,
            "{begins:?}: {attacked:?}, {alone:?} without; {ended:?}, {alone_ended:?} without"
        );
    }
}
