//! Simulated tests of recorded frames that are replayed later: they cost time, but no receiver
//! loses the file. Simulated tests of transfers with keys in which a receiver is malicious: it
//! relays false data, but cannot sign.

use ethbcast_collectives::ErrorKind;
use ethbcast_collectives::keys::{ContentCipher, SessionName, Signer};
use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::verified::{
    Checked, ChunkSize, Encoder, SPAN_BYTES, SpanBuffer, VerifiedSource,
};
use ethbcast_collectives::session::{Damage, End, OnSlow, Outcome, ReceiveReport, Timing};
use ethbcast_planning::plan::Via;
use ethbcast_tests::session::{
    Case, Disk, Host, Sent, data, hosts, hosts_of, keys, root_keys, sent, star, turn,
};
use ethbcast_transport::sim::{
    Delivery, Fate, Faults, NoFaults, QueueLimit, Random, Simulation, SwitchSettings,
};
use ethbcast_transport::wire::{EtherType, Flags, Guard, Identity, Kind, parse};
use ethbcast_transport::{Instant, MacAddr, Machine, forward};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const RATE_BITS_PER_SECOND: u64 = 100_000_000;
/// Interval at which an attacker replays to each host a frame that was delivered there.
const REPLAY_INTERVAL: Duration = Duration::from_micros(4800);
const LASTS: Duration = Duration::from_secs(8);
/// Time that a session needs under replay; without it half of this.
const NEEDS: Duration = Duration::from_millis(1500);
/// Stall limit for sessions in which a host dies whose frames are replayed: it seems alive, and
/// makes no progress.
const STALL: Duration = Duration::from_secs(4);

type Heard = (usize, Vec<u8>);

fn at(after: Duration) -> Instant {
    Instant::START + after
}

fn faults(seed: u64, loss: f64, heard: Rc<RefCell<Vec<Heard>>>) -> impl Faults {
    let mut random = Random::new(seed);
    move |delivery: &Delivery<'_>| {
        heard
            .borrow_mut()
            .push((delivery.to, delivery.frame.to_vec()));
        if random.chance(loss) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    }
}

/// Plays a session to its end under replay; returns the outcome and time of each receiver.
fn play(case: &Case, seed: u64, loss: f64) -> Vec<(Outcome, Duration)> {
    let heard: Rc<RefCell<Vec<Heard>>> = Rc::default();
    let network = star(case, RATE_BITS_PER_SECOND);
    let mut simulation = Simulation::new(
        &network,
        hosts(case, seed),
        faults(seed, loss, Rc::clone(&heard)),
    );
    for &(host, after) in &case.crashes {
        simulation.crash(host, at(Timing::default().announce * 2 + after));
    }
    let (mut random, mut now) = (Random::new(!seed), Duration::ZERO);
    while now < LASTS {
        now += REPLAY_INTERVAL / (case.receivers as u32 + 1);
        let outcome = simulation.run(at(now), |_, host: &mut Host, now| host.turn(now));
        if outcome.is_quiet() {
            break;
        }
        let count = heard.borrow().len() as u64;
        if count > 0 {
            let (to, frame) = heard.borrow()[random.below(count) as usize].clone();
            simulation.inject(at(now), to, &frame);
        }
    }
    let outcome = simulation.run(at(Duration::from_secs(60)), |_, host: &mut Host, now| {
        host.turn(now)
    });
    assert!(outcome.is_quiet(), "{outcome:?}");
    let Participant::Root(root, _) = &simulation.machines()[0] else {
        unreachable!("host 0 is the root")
    };
    root.reports()
        .map(|report| (report.outcome, report.took))
        .collect()
}

fn all_but_the_dead(case: Case, seed: u64, loss: f64, dies: bool) {
    let timing = Timing {
        stall: STALL,
        patience: Duration::from_secs(6),
        ..Timing::default()
    };
    let crashes = if dies {
        vec![(7, Duration::from_millis(60 + 20 * seed))]
    } else {
        Vec::new()
    };
    let case = Case {
        timing,
        mtu_bytes: 1500,
        crashes,
        ..case
    }
    .with_feed(256);
    let fates = play(&case, seed, loss);
    let replay = format!(
        "{} to {}, seed {seed}, loss {loss}, dies {dies}",
        case.via, case.receivers
    );
    let within = if dies { STALL + NEEDS } else { NEEDS };
    for (rank, (fate, took)) in fates
        .iter()
        .enumerate()
        .filter(|(rank, _)| !dies || *rank != 6)
    {
        assert_eq!(
            *fate,
            Outcome::Delivered,
            "{replay}: rank {}: {fates:?}",
            rank + 1
        );
        assert!(*took < within, "{replay}: rank {}: {fates:?}", rank + 1);
    }
}

#[test]
fn frames_that_come_again_much_later_cost_nobody_the_file() {
    for via in [Via::Chain, Via::Cast, Via::Binary] {
        for seed in 0..6 {
            for (loss, dies) in [(0.0, false), (0.0, true), (0.03, false), (0.03, true)] {
                all_but_the_dead(Case::new(via, 7, 4_000_000), seed, loss, dies);
            }
        }
    }
}

#[test]
fn replayed_frames_do_not_stall_an_ack_tree() {
    for seed in 0..2 {
        for (loss, dies) in [(0.01, false), (0.01, true)] {
            all_but_the_dead(Case::new(Via::Cast, 140, 1_000_000), seed, loss, dies);
        }
    }
}

/// Time that a receiver waits for a root that sends nothing new: the dead limit, and patience.
const LIMIT: Duration = Duration::from_millis(1500 + 4000);

/// Plays a session whose root dies, or some of whose frames a receiver loses, while the root's
/// frames are replayed forever; returns the time of each receiver's end.
fn ends(
    case: &Case,
    seed: u64,
    root_dies: Option<Duration>,
    lost: Option<(usize, Kind)>,
) -> Vec<Duration> {
    let heard: Rc<RefCell<Vec<Heard>>> = Rc::default();
    let of_root = Rc::clone(&heard);
    let faults = move |delivery: &Delivery<'_>| {
        let kind = parse(delivery.frame).ok().map(|frame| frame.header.kind);
        if lost.is_some_and(|(host, lost)| delivery.to == host && kind == Some(lost)) {
            return Fate::Drop;
        }
        if delivery.from == Some(0) {
            of_root
                .borrow_mut()
                .push((delivery.to, delivery.frame.to_vec()));
        }
        Fate::Deliver
    };
    let network = star(case, RATE_BITS_PER_SECOND);
    let mut simulation = Simulation::new(&network, hosts(case, seed), faults);
    if let Some(after) = root_dies {
        simulation.crash(0, at(after));
    }
    let (mut random, mut now) = (Random::new(!seed), Duration::ZERO);
    let mut ends = vec![None; case.receivers];
    while ends.iter().any(Option::is_none) {
        assert!(
            now < Duration::from_secs(60),
            "{} to {}, seed {seed}: {ends:?}",
            case.via,
            case.receivers
        );
        now += REPLAY_INTERVAL / (case.receivers as u32 + 1);
        let _goes_on = simulation.run(at(now), |_, host: &mut Host, now| host.turn(now));
        for (end, machine) in ends.iter_mut().zip(&simulation.machines()[1..]) {
            let Participant::Receiver(receiver, _) = machine else {
                unreachable!("only host 0 is the root")
            };
            if receiver.is_over() {
                end.get_or_insert(now);
            }
        }
        let count = heard.borrow().len() as u64;
        if count > 0 {
            let (to, frame) = heard.borrow()[random.below(count) as usize].clone();
            simulation.inject(at(now), to, &frame);
        }
    }
    ends.into_iter().flatten().collect()
}

#[test]
fn replayed_frames_of_a_dead_root_keep_nobody_beyond_the_limit() {
    let timing = Timing {
        patience: LIMIT - Timing::default().dead,
        ..Timing::default()
    };
    for via in [Via::Chain, Via::Cast, Via::Binary] {
        for (seed, dies_after) in [350, 420, 500, 620].into_iter().enumerate() {
            let dies_after = Duration::from_millis(dies_after);
            let case = Case {
                timing,
                mtu_bytes: 1500,
                ..Case::new(via, 5, 8_000_000)
            };
            let ends = ends(&case, seed as u64, Some(dies_after), None);
            let (first, last) = (
                ends.iter().min().expect("five"),
                ends.iter().max().expect("five"),
            );
            // Frames in flight may arrive a little later, and a probe is sent a quarter later at
            // most.
            let latest = dies_after + LIMIT + LIMIT / 4 + Duration::from_millis(200);
            assert!(
                *first >= dies_after + LIMIT && *last <= latest,
                "{via}, {dies_after:?}: {ends:?}"
            );
        }
    }
}

#[test]
fn a_receiver_that_lacks_the_last_verdict_ends_within_the_limit() {
    let timing = Timing {
        patience: LIMIT - Timing::default().dead,
        ..Timing::default()
    };
    let case = Case {
        timing,
        mtu_bytes: 1500,
        ..Case::new(Via::Chain, 5, 2_000_000)
    };
    let ends = ends(&case, 1, None, Some((3, Kind(23))));
    let others = ends
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != 2)
        .map(|(_, end)| *end)
        .max()
        .expect("four");
    assert!(
        ends[2] <= others + LIMIT + LIMIT / 4 + Duration::from_millis(200),
        "{ends:?}"
    );
}

#[test]
fn a_root_that_is_busy_with_others_for_long_is_asked_and_answers() {
    // Nothing new arrives while the last one writes; the complete receivers wait for the verdict on
    // all.
    let timing = Timing {
        patience: Duration::from_millis(500),
        ..Timing::default()
    };
    for deaf in [None, Some(1)] {
        let slow = Some((3, 150_000));
        let case = Case {
            timing,
            mtu_bytes: 1500,
            slow,
            on_slow: OnSlow::Wait,
            ..Case::new(Via::Flat, 3, 900_000)
        };
        let heard: Rc<RefCell<Vec<(usize, bool)>>> = Rc::default();
        let answers = Rc::clone(&heard);
        let faults = move |delivery: &Delivery<'_>| {
            let frame = parse(delivery.frame).expect("nothing is damaged");
            let (is_answer, to_all) = (frame.header.kind == Kind(52), delivery.frame[0] & 1 == 1);
            if is_answer && !to_all && deaf == Some(delivery.to) {
                return Fate::Drop;
            }
            answers
                .borrow_mut()
                .extend(is_answer.then_some((delivery.to, to_all)));
            Fate::Deliver
        };
        let mut simulation =
            Simulation::new(&star(&case, RATE_BITS_PER_SECOND), hosts(&case, 1), faults);
        let outcome = simulation.run(at(Duration::from_secs(60)), |_, host: &mut Host, now| {
            turn(host, now)
        });
        assert!(outcome.is_quiet(), "{outcome:?}");
        let Participant::Root(root, _) = &simulation.machines()[0] else {
            unreachable!("host 0 is the root")
        };
        let fates: Vec<Outcome> = root.reports().map(|report| report.outcome).collect();
        assert_eq!(fates, [Outcome::Delivered; 3]);
        assert!(
            heard.borrow().contains(&(1, deaf.is_some())),
            "whom nothing reaches alone, what all hear does"
        );
    }
}

#[test]
fn many_who_wait_together_for_one_that_writes_are_all_answered() {
    // All complete at the same moment, and a small switch's port cannot hold all their requests.
    // The group reply reaches hosts that unicast does not.
    let timing = Timing {
        patience: Duration::from_millis(500),
        ..Timing::default()
    };
    for deaf in [false, true] {
        let slow = Some((60, 25_000));
        let case = Case {
            timing,
            mtu_bytes: 1500,
            slow,
            on_slow: OnSlow::Wait,
            ..Case::new(Via::Cast, 60, 150_000)
        };
        let faults = move |delivery: &Delivery<'_>| {
            let is_answer = parse(delivery.frame).is_ok_and(|frame| frame.header.kind == Kind(52));
            if deaf && is_answer && delivery.frame[0] & 1 == 0 {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        };
        let switch = SwitchSettings {
            port_queue: QueueLimit::Frames(16),
            ..SwitchSettings::default()
        };
        let mut network = star(&case, RATE_BITS_PER_SECOND).with_switches(switch);
        network.host_mut(0).wake_up = Duration::from_millis(1);
        let mut simulation = Simulation::new(&network, hosts(&case, 1), faults);
        let outcome = simulation.run(at(Duration::from_secs(60)), |_, host: &mut Host, now| {
            turn(host, now)
        });
        assert!(outcome.is_quiet(), "{outcome:?}");
        let Participant::Root(root, _) = &simulation.machines()[0] else {
            unreachable!("host 0 is the root")
        };
        let fates: Vec<Outcome> = root.reports().map(|report| report.outcome).collect();
        assert_eq!(fates, [Outcome::Delivered; 60], "{deaf}");
        let took = root.took();
        assert!(took > LIMIT / 2, "they have waited: {took:?}");
        let ends = simulation.machines()[1..]
            .iter()
            .filter_map(|host| host.receiving()?.end());
        assert!(
            ends.clone().all(|end| *end == End::Confirmed),
            "{deaf}: {:?}",
            ends.collect::<Vec<_>>()
        );
    }
}

#[test]
fn a_stalled_member_does_not_seem_to_progress_by_replayed_reports() {
    // Each genuine report of a host is more than it had reported before its stall.
    let timing = Timing {
        stall: STALL,
        patience: Duration::from_secs(6),
        ..Timing::default()
    };
    for via in [Via::Chain, Via::Cast] {
        let case = Case {
            timing,
            mtu_bytes: 1500,
            stops: Some((2, 3_000_000)),
            ..Case::new(via, 4, 6_000_000)
        };
        let said: Rc<RefCell<Vec<Vec<u8>>>> = Rc::default();
        let of_member = Rc::clone(&said);
        let faults = move |delivery: &Delivery<'_>| {
            let is_status = parse(delivery.frame).is_ok_and(|frame| frame.header.kind == Kind(21));
            if is_status
                && delivery.from == Some(2)
                && delivery.to == 0
                && of_member.borrow().len() < 8
            {
                of_member.borrow_mut().push(delivery.frame.to_vec());
            }
            Fate::Deliver
        };
        let mut simulation =
            Simulation::new(&star(&case, RATE_BITS_PER_SECOND), hosts(&case, 1), faults);
        let (mut random, mut now) = (Random::new(9), Duration::ZERO);
        while !simulation
            .run(at(now), |_, host: &mut Host, now| host.turn(now))
            .is_quiet()
        {
            now += Duration::from_millis(37);
            assert!(
                now < STALL + timing.patience + 2 * NEEDS,
                "{via}: they wait for one that stands still"
            );
            let count = said.borrow().len() as u64;
            if count > 0 {
                let frame = said.borrow()[random.below(count) as usize].clone();
                simulation.inject(at(now), 0, &frame);
            }
        }
        let Participant::Root(root, _) = &simulation.machines()[0] else {
            unreachable!("host 0 is the root")
        };
        let fates: Vec<Outcome> = root.reports().map(|report| report.outcome).collect();
        let mut wanted = [Outcome::Delivered; 4];
        wanted[1] = Outcome::Stalled;
        assert_eq!(fates, wanted, "{via}");
    }
}

const RECEIVERS: usize = 4;
/// The member that lies.
const LIAR: usize = 2;

/// Change that a member makes to the frames that it passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// A content of its own, with hash lists that it has made with the group's secret.
    Content,
    /// Chunks of its own behind the sender's hash lists.
    Chunks,
    /// Each span in the place of the next.
    Order,
    /// An end of its own.
    End,
}

struct Liar {
    lie: Lie,
    guard: Guard,
    heard: Vec<u8>,
    forged: Vec<u8>,
}

impl Liar {
    fn new(case: &Case, seed: u64, lie: Lie) -> Liar {
        let root = root_keys(keys(1), seed);
        let member = ContentCipher::new(&root.group, root.hash);
        let member = member.sent_by(Signer::new(&root.group).public(), SessionName([0; 32]));
        let chunk = ChunkSize::DEFAULT.signed(true);
        let (mut encoder, mut forged) = (Encoder::new(chunk).ciphered(member), Vec::new());
        for part in data(case.bytes, !seed).chunks(SPAN_BYTES) {
            let mut span = SpanBuffer::empty(chunk, SpanBuffer::default());
            span.room()[..part.len()].copy_from_slice(part);
            span.filled(part.len());
            encoder.seal(&mut span);
            forged.extend_from_slice(span.as_bytes());
        }
        Liar {
            lie,
            guard: root.group.guard(root.hash),
            heard: Vec::new(),
            forged,
        }
    }

    /// Changes the payload of a frame that begins at byte `at` of the stream.
    fn change(&mut self, at: usize, is_last: bool, payload: &mut [u8]) {
        let whole = ChunkSize::DEFAULT.signed(true).whole_bytes();
        if is_last {
            if self.lie == Lie::End {
                payload.iter_mut().for_each(|byte| *byte ^= 1);
            }
            return;
        }
        if self.heard.len() == at {
            self.heard.extend_from_slice(payload);
        }
        for (at, byte) in (at..).zip(payload) {
            let is_in_hash_list = at % whole < whole - SPAN_BYTES;
            match self.lie {
                Lie::Content => *byte = self.forged[at],
                Lie::Chunks if !is_in_hash_list => *byte = self.forged[at],
                Lie::Order if at >= whole => *byte = self.heard[at - whole],
                _ => {}
            }
        }
    }
}

struct InsiderHost {
    honest: Participant<VerifiedSource<Sent>, Checked<Disk>>,
    liar: Option<Liar>,
    payload_bytes: usize,
}

impl Machine for InsiderHost {
    forward!(self => self.honest; handle_frame, handle_timeout, poll_timeout, is_urgent);

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let length = self.honest.poll_transmit(now, buffer)?;
        let Some(liar) = &mut self.liar else {
            return Some(length);
        };
        let copy = buffer[..length].to_vec();
        let Ok(frame) = liar.guard.parse(&copy) else {
            return Some(length);
        };
        if frame.header.kind != Kind::DATA {
            return Some(length);
        }
        let (header, mut payload) = (frame.header, frame.payload.to_vec());
        let at = header.sequence as usize * self.payload_bytes;
        liar.change(at, header.flags.has(Flags::LAST), &mut payload);
        let destination = MacAddr::from(*copy.first_chunk::<6>().expect("a frame has addresses"));
        let (session, stream, rank, guard) = (
            header.session,
            header.stream,
            header.rank,
            liar.guard.clone(),
        );
        let (mac, ether_type) = (frame.source, EtherType::DEFAULT);
        let identity = Identity {
            session,
            stream,
            rank,
            mac,
            ether_type,
            guard,
        };
        Some(identity.write(buffer, destination, &header, &payload))
    }
}

struct InsiderPlay {
    fates: Vec<(Outcome, String)>,
    damages: Vec<Damage>,
    /// Bytes that each receiver's program has seen.
    shown: Vec<usize>,
    /// Kind of each receiver's failure.
    failures: Vec<Option<ErrorKind>>,
}

/// Plays a session by a chain, and checks that no receiver shows a byte that the root has not sent.
fn play_beside_liar(lie: Lie, pipe: bool, keeps: bool) -> InsiderPlay {
    let case = Case {
        mtu_bytes: 1500,
        pipe,
        ..Case::new(Via::Chain, RECEIVERS, 2_500_000)
    }
    .with_feed(256)
    .keyed();
    let (seed, content) = (5, data(case.bytes, 5));
    let source = VerifiedSource::of(sent(&case, seed));
    let source = if keeps { source } else { source.forgetting() };
    let sinks = |_| Checked::checking(Disk::default().keeping(keeps));
    let hosts = hosts_of(&case, seed, source, sinks)
        .into_iter()
        .enumerate()
        .map(|(host, honest)| {
            let liar = (host == LIAR).then(|| Liar::new(&case, seed, lie));
            InsiderHost {
                honest,
                liar,
                payload_bytes: 1460,
            }
        });
    let mut simulation = Simulation::new(&star(&case, 1_000_000_000), hosts.collect(), NoFaults);
    let limit = Instant::START + Duration::from_secs(120);
    let end = simulation.run(limit, |_, host, now| {
        Participant::turn(&mut host.honest, now)
    });
    assert!(end.is_quiet(), "{lie:?}: {end:?}");
    let hosts = simulation.machines();
    let Participant::Root(root, _) = &hosts[0].honest else {
        unreachable!("host 0 is the root")
    };
    let (mut shown, mut failures) = (Vec::new(), Vec::new());
    for host in &hosts[1..] {
        let Participant::Receiver(receiver, receiving) = &host.honest else {
            unreachable!("the others receive")
        };
        let report = ReceiveReport::new("receiver", receiver, receiving);
        failures.push(report.check().err().map(|error| error.kind()));
        let disk = receiving.sink().content();
        assert!(
            content.starts_with(disk.bytes()),
            "{lie:?}: a receiver shows what the root has not sent"
        );
        assert!(
            !disk.is_published() || disk.bytes() == content,
            "{lie:?}: a receiver publishes a part"
        );
        shown.push(disk.bytes().len());
    }
    let fates = root
        .reports()
        .map(|report| (report.outcome, report.text.clone()))
        .collect();
    InsiderPlay {
        fates,
        damages: root.damages(),
        shown,
        failures,
    }
}

#[test]
fn a_relay_that_lies_is_named_and_the_root_gives_each_what_it_has_signed() {
    for lie in [Lie::Content, Lie::Chunks, Lie::Order] {
        let InsiderPlay { fates, damages, .. } = play_beside_liar(lie, false, true);
        assert!(
            fates.iter().all(|(fate, _)| *fate == Outcome::Delivered),
            "{lie:?}: {fates:?}"
        );
        assert!(!damages.is_empty());
        let liar = format!("n{LIAR}");
        assert!(
            damages
                .iter()
                .all(|damage| damage.from.as_ref() == Some(&liar)),
            "{lie:?}: {damages:?}"
        );
        assert_eq!(
            damages.iter().any(|damage| damage.is_hash_list),
            lie != Lie::Chunks,
            "{lie:?}: {damages:?}"
        );
    }
}

#[test]
fn who_gets_only_lies_fails_and_shows_nothing_of_them() {
    for lie in [Lie::Content, Lie::Chunks, Lie::Order, Lie::End] {
        let InsiderPlay {
            fates,
            damages,
            shown,
            failures,
        } = play_beside_liar(lie, true, false);
        for (host, (fate, text)) in (1..).zip(&fates) {
            let expected = if host <= LIAR {
                Outcome::Delivered
            } else {
                Outcome::Damaged
            };
            assert_eq!(*fate, expected, "{lie:?}: n{host} {text}");
        }
        // Exit code 5.
        let integrity = [Some(ErrorKind::Integrity); RECEIVERS - LIAR];
        assert_eq!(
            (&failures[..LIAR], &failures[LIAR..]),
            (&[None; LIAR][..], &integrity[..]),
            "{lie:?}"
        );
        let liar = format!("n{LIAR}");
        assert!(
            damages
                .iter()
                .all(|damage| damage.from.as_ref() == Some(&liar)),
            "{lie:?}: {damages:?}"
        );
        assert_eq!(damages.is_empty(), lie == Lie::End, "{lie:?}: {damages:?}");
        let whole = match lie {
            Lie::Content | Lie::Chunks => 0,
            Lie::Order => SPAN_BYTES,
            Lie::End => 2_500_000,
        };
        assert_eq!(shown[LIAR..], [whole; RECEIVERS - LIAR], "{lie:?}");
    }
}
