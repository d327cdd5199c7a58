//! Random scenarios for the search for deliberate bugs, drawn from seeds.

use super::session::{Forgery, Scene, run};
use crate::communicator;
use crate::session::{Absence, Case};
use crate::swarm::Seed;
use crate::worlds::ack_tree::{GROUP, end_of as ack_tree};
use ethbcast_collectives::communicator::Preset;
use ethbcast_collectives::keys::{ContentCipher, Secret, SessionName, Signed, Signer, pair_secret};
use ethbcast_collectives::session::verified::{
    ChunkSize, Decoder, Encoder, SPAN_BYTES, SpanBuffer,
};
use ethbcast_collectives::session::{Message, Timing, kind};
use ethbcast_planning::plan::Via;
use ethbcast_transport::sim::{
    Cable, Delivery, Fate, Faults, HostSettings, Network, Random, RandomFaults, Simulation,
    host_mac,
};
use ethbcast_transport::stream::{Ending, Stream};
use ethbcast_transport::wire::{
    Ack, AckBody, CounterWindow, EtherType, FINAL_NUMBER, Frame, Identity, Kind, PayloadHash, Rank,
    StreamId, group_mac, parse,
};
use ethbcast_transport::{Alone, Instant, Policy, Tuning};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Plays schedule `seed`; returns a violation, if any. May panic on a violation.
pub fn play(seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    match seed % 10 {
        0..=4 => swarm(seed),
        5 => run(&lossy(&mut random, seed), seed),
        6 => run(&deaths(&mut random, seed), seed),
        7 => run(&forged(&mut random, seed), seed),
        8 => match seed / 10 % 5 {
            0 => what_keys_promise(&mut random).and_then(|()| a_member_that_lies(&mut random)),
            1 => run_ack_tree(&mut random, seed),
            2 => run(&slow(&mut random, seed), seed),
            3 => run(&absences(&mut random, seed), seed),
            _ => run(&crowd(&mut random, seed), seed),
        },
        _ => program(&mut random, seed),
    }
}

/// A schedule of the swarm, which does not judge numbers of frames.
fn swarm(seed: u64) -> Result<(), String> {
    let size = if seed.is_multiple_of(50) {
        Seed::large
    } else {
        Seed::small
    };
    crate::swarm::run(size(seed))
        .violation
        .map_or(Ok(()), |violation| Err(violation.what))
}

/// Creates faults with `loss` and a little duplication, reordering and corruption; also returns the
/// share of frames affected.
fn some_of_each(random: &mut Random, seed: u64, loss: f64) -> (RandomFaults, f64) {
    let (duplicate, reorder, corrupt) = (
        random.unit() * 0.05,
        random.unit() * 0.05,
        random.unit() * 0.01,
    );
    let faults = RandomFaults::new(seed)
        .loss(loss)
        .duplicate(duplicate)
        .corrupt(corrupt);
    (
        faults.reorder(reorder, Duration::from_micros(300)),
        loss + reorder + corrupt,
    )
}

fn one_of<T: Copy>(random: &mut Random, all: &[T]) -> T {
    all[random.below(all.len() as u64) as usize]
}

/// Hash lists of a member, which has the group's secret and none to sign with.
fn a_member_that_lies(random: &mut Random) -> Result<(), String> {
    let [group, own] = [1, 2].map(|number| Secret::new([number; 32]));
    let sender = Signer::new(&own).public();
    let member =
        ContentCipher::new(&group, PayloadHash::Polyval).sent_by(sender, SessionName([3; 32]));
    let chunk = ChunkSize::DEFAULT.signed(true);
    let mut span = SpanBuffer::empty(chunk, SpanBuffer::default());
    span.filled(1 + random.below(SPAN_BYTES as u64) as usize);
    Encoder::new(chunk).ciphered(member.clone()).seal(&mut span);
    let mut decoder = Decoder::new(chunk).ciphered(member);
    decoder.take(span.as_bytes().to_vec());
    let has_shown = decoder.poll().is_some();
    if has_shown {
        Err("a member's bytes are taken for the sender's".to_owned())
    } else {
        Ok(())
    }
}

/// One altered frame, repeated number and foreign signature of each kind, none of which may be
/// taken.
fn what_keys_promise(random: &mut Random) -> Result<(), String> {
    let hash = one_of(
        random,
        &[
            PayloadHash::Polyval,
            PayloadHash::Poly1305,
            PayloadHash::Blake3,
        ],
    );
    let [group, own, other] = [1, 2, 3].map(|number| Secret::new([number; 32]));
    let guard = group.guard(hash);
    let (mac, ether_type) = (host_mac(1), EtherType::DEFAULT);
    let identity = Identity {
        session: 7,
        stream: StreamId(1),
        rank: Rank(1),
        mac,
        ether_type,
        guard: guard.clone(),
    };
    let mut frame = [0; 200];
    let payload = vec![7; 1 + random.below(100) as usize];
    let length = identity.write(
        &mut frame,
        host_mac(2),
        &identity.header(Kind::DATA),
        &payload,
    );
    let takes_altered = (0..8 * length).any(|bit| {
        let mut altered = frame;
        altered[bit / 8] ^= 1 << (bit % 8);
        guard.parse(&altered[..length]).is_ok()
    });

    let (mut window, number) = (CounterWindow::default(), 1 + random.below(1000));
    let mut is_once = |number| window.take(number) && !window.take(number);
    let takes_again = !is_once(number) || !is_once(FINAL_NUMBER);

    let (signer, [session, next]) = (Signer::new(&own), [[3; 32], [4; 32]].map(SessionName));
    let cipher = ContentCipher::new(&group, hash);
    let stream = |value, offset| {
        let mut bytes = [0; 64];
        cipher.chunk(&[value; 32], offset, &mut bytes);
        bytes
    };
    let shares_a_stream = stream(1, 0) == stream(1, 1 << 16) || stream(1, 0) == stream(2, 0);
    let [of_sender, of_receiver] = [
        cipher.clone().signed_by(signer.clone(), session),
        cipher.clone().sent_by(signer.public(), session),
    ];
    let signature = of_sender
        .sign_hash_list(b"list", 0)
        .expect("a sender signs");
    let is_signed = |session, fields: &[&[u8]]| {
        signer.public().has_signed(
            Signed::View,
            session,
            fields,
            &signer.sign(Signed::View, &SessionName([3; 32]), &[b"view"]),
        )
    };
    let takes_a_signature = of_receiver.has_signed_hash_list(b"list", 1 << 20, &signature)
        || is_signed(&next, &[b"view"])
        || is_signed(&session, &[b"another"]);

    let of_pair = |exchanged| pair_secret(&group, exchanged, &session, &[5; 32]);
    let broken = [
        (takes_altered, "an altered frame is taken"),
        (takes_again, "a numbered frame is taken twice"),
        (shares_a_stream, "two chunks have one key"),
        (
            takes_a_signature,
            "a signature holds for what was not signed",
        ),
        (
            of_pair(&own) == of_pair(&other),
            "two pairs have one secret",
        ),
    ];
    broken
        .iter()
        .find(|(is_broken, _)| *is_broken)
        .map_or(Ok(()), |(_, what)| Err((*what).to_owned()))
}

/// Maximum numbers of retransmissions and heartbeats: see `tests/sessions.rs`.
fn budgets(case: &Case, trouble: f64) -> (f64, f64) {
    let streams = case.via.trees(case.receivers + 1);
    let payload_bytes = usize::from(case.mtu_bytes) - 32;
    let hops = (case.receivers * (case.bytes / payload_bytes + 1 + streams)) as f64;
    let (each, stalls) = if case.tuning.policy == Policy::InOrderOnly {
        (17.0, 4.0)
    } else {
        (1.6, 1.0)
    };
    let expected = hops * trouble / (1.0 - trouble);
    let ends = (case.receivers * streams) as f64;
    (
        (expected + 4.0 * expected.sqrt()) * each + 8.0 * ends,
        30.0 * ends + hops * trouble * stalls,
    )
}

/// All kinds of plans and policies, loss up to 30 %, duplicates, reordering, corruption.
fn lossy(random: &mut Random, seed: u64) -> Scene {
    let via = if random.chance(0.5) {
        one_of(random, &[Via::Chain, Via::Cast])
    } else {
        one_of(random, Via::ALL)
    };
    let mut case = Case::new(
        via,
        1 + random.below(15) as usize,
        random.below(40_000) as usize,
    );
    if random.chance(0.2) {
        case.tuning = if random.chance(0.5) {
            Tuning::paper()
        } else {
            Tuning::push_pull()
        }
        .with_feed_frames(64);
    }
    let loss = one_of(random, &[0.0, 0.001, 0.01, 0.05, 0.1, 0.3]);
    let (faults, trouble) = some_of_each(random, seed, loss);
    let budgets = Some(budgets(&case, trouble));
    Scene {
        case,
        faults,
        rate: 1_000_000_000,
        within: Duration::from_secs(30),
        budgets,
        forgeries: Vec::new(),
    }
}

/// Up to three receivers die: the others complete in seconds; after one death in a tree also from a
/// pipe.
fn deaths(random: &mut Random, seed: u64) -> Scene {
    let via = one_of(
        random,
        &[
            Via::Chain,
            Via::Chain,
            Via::Binary,
            Via::Cast,
            Via::ScatterAllgather,
        ],
    );
    let mut case = troubled(random, via);
    let dead = 1 + random.below(3) as usize;
    let first = random.below(case.receivers as u64) as usize;
    let at = random.below(90);
    let host = |step: usize| 1 + (first + step) % case.receivers;
    let when = |random: &mut Random| Duration::from_millis(at + random.below(10));
    case.crashes = (0..dead).map(|step| (host(step), when(random))).collect();
    case.pipe = dead == 1 && !via.is_in_blocks();
    case.timing.patience = Duration::ZERO;
    let loss = one_of(random, &[0.0, 0.01]);
    let within = Duration::from_secs(4);
    // Probes of a dead host back off for a second and a half.
    let budgets = Some((f64::INFINITY, 1200.0));
    Scene {
        case,
        faults: RandomFaults::new(seed).loss(loss),
        rate: 100_000_000,
        within,
        budgets,
        forgeries: Vec::new(),
    }
}

fn absences(random: &mut Random, seed: u64) -> Scene {
    let via = one_of(
        random,
        &[Via::Chain, Via::Cast, Via::Binary, Via::ScatterAllgather],
    );
    let mut case = troubled(random, via);
    if random.chance(0.3) && !via.is_in_blocks() {
        (case.bytes, case.late) = (
            4_000_000,
            (2, Duration::from_millis(210 + random.below(80))),
        );
    } else {
        let (from, lasts) = (
            Duration::from_millis(200 + random.below(100)),
            300 + random.below(2500),
        );
        let host = 1 + random.below(case.receivers as u64) as usize;
        case.absences = vec![Absence {
            host,
            from,
            lasts: Duration::from_millis(lasts),
            paused: true,
        }];
    }
    let (faults, within) = (
        RandomFaults::new(seed).loss(one_of(random, &[0.0, 0.01])),
        Duration::from_secs(7),
    );
    Scene {
        case,
        faults,
        rate: 100_000_000,
        within,
        budgets: None,
        forgeries: Vec::new(),
    }
}

/// A receiver's disk is slower than the network, but not too slow, and buffers are small: the
/// sender keeps to the slowest one's room.
fn slow(random: &mut Random, seed: u64) -> Scene {
    let via = one_of(random, &[Via::Chain, Via::Cast, Via::Cast, Via::Binary]);
    let mut case = troubled(random, via).with_feed(one_of(random, &[32, 64]));
    let host = 1 + random.below(case.receivers as u64) as usize;
    case.slow = Some((host, one_of(random, &[3_000_000, 6_000_000, 10_000_000])));
    let (faults, within) = (
        RandomFaults::new(seed).loss(one_of(random, &[0.0, 0.01])),
        Duration::from_secs(3),
    );
    Scene {
        case,
        faults,
        rate: 100_000_000,
        within,
        budgets: None,
        forgeries: Vec::new(),
    }
}

fn troubled(random: &mut Random, via: Via) -> Case {
    let (stall, patience) = (Duration::from_secs(2), Duration::from_secs(10));
    let timing = Timing {
        stall,
        patience,
        sync: Duration::from_secs(6),
        ..Timing::default()
    };
    let receivers = 3 + random.below(5) as usize;
    Case {
        timing,
        mtu_bytes: 1500,
        ..Case::new(via, receivers, 1_200_000)
    }
    .with_feed(128)
}

fn forged(random: &mut Random, seed: u64) -> Scene {
    let mut case = troubled(
        random,
        one_of(
            &mut Random::new(seed ^ 1),
            &[Via::Chain, Via::Cast, Via::Binary],
        ),
    );
    case.bytes = 400_000;
    let ack = |ahead, future| Forgery::Ack { ahead, future };
    let kinds = [
        ack(0, 0),
        ack(1000, 0),
        ack(0, 1 << 30),
        Forgery::Last,
        Forgery::FewerMembers,
        Forgery::WrongDigest,
        Forgery::WrongReports,
    ];
    let kind = one_of(random, &kinds);
    let times = if matches!(kind, Forgery::Ack { .. }) {
        1 + random.below(8)
    } else {
        1
    };
    let mut moments: Vec<u64> = (0..times).map(|_| 200_000 + random.below(50_000)).collect();
    moments.sort_unstable();
    let forgeries = moments
        .into_iter()
        .map(|at| (Duration::from_micros(at), kind))
        .collect();
    let faults = RandomFaults::new(seed).loss(one_of(random, &[0.02, 0.1]));
    // One forgery costs less than the stall limit; several may have a member demoted.
    let within = Duration::from_millis(if times == 1 { 1900 } else { 5000 });
    Scene {
        case,
        faults,
        rate: 100_000_000,
        within,
        budgets: None,
        forgeries,
    }
}

fn crowd(random: &mut Random, seed: u64) -> Scene {
    let receivers = if seed.is_multiple_of(8) {
        129 + random.below(30)
    } else {
        8 + random.below(48)
    } as usize;
    let case = Case::new(Via::Cast, receivers, 30_000);
    let (faults, _) = some_of_each(
        random,
        seed,
        one_of(&mut Random::new(seed ^ 2), &[0.0, 0.01, 0.05, 0.2]),
    );
    Scene {
        case,
        faults,
        rate: 1_000_000_000,
        within: Duration::from_secs(10),
        budgets: None,
        forgeries: Vec::new(),
    }
}

fn program(random: &mut Random, seed: u64) -> Result<(), String> {
    use communicator::Step;
    let ranks = 2 + random.below(7) as u16;
    let step = |random: &mut Random| {
        let (root, bytes) = (
            random.below(ranks.into()) as u16,
            random.below(8000) as usize,
        );
        let (to, tag) = (random.below(ranks.into()) as u16, random.below(3) as u32);
        match random.below(7) {
            0 => Step::Broadcast { root, bytes },
            1 => Step::Scatter { root, bytes },
            2 => Step::Gather { root, bytes },
            3 => Step::Allgather { bytes: bytes * 4 },
            4 => Step::Barrier,
            5 => Step::Compute(Duration::from_micros(random.below(2000))),
            _ => Step::Message {
                from: root,
                to,
                tag,
                bytes,
            },
        }
    };
    let steps = 1 + random.below(8);
    let steps: Vec<Step> = (0..steps)
        .map(|_| step(random))
        .chain([Step::Settle, Step::Barrier])
        .collect();
    let mut case = communicator::Case::new(ranks, &steps);
    case.preset = one_of(random, &[Preset::Default, Preset::Paper, Preset::PushPull]);
    (case.told[0], case.wiring) = communicator::NetworkKnowledge::drawn(seed, ranks.into());
    let (faults, _) = some_of_each(
        random,
        seed,
        one_of(&mut Random::new(seed ^ 3), &[0.0, 0.01, 0.1]),
    );
    communicator::play(&case, seed, faults, "a program");
    Ok(())
}

const FEED_FRAMES: u64 = 16;
const PAYLOAD: [u8; 200] = [7; 200];

struct Listening {
    faults: RandomFaults,
    said: Rc<RefCell<Acknowledged>>,
}

impl Faults for Listening {
    fn fate(&mut self, delivery: &Delivery<'_>) -> Fate {
        self.said.borrow_mut().note(delivery);
        self.faults.fate(delivery)
    }
}

/// Names a host that claims frames for all hosts behind it although one of them lacks some.
fn liar(said: &Acknowledged, parents: &[usize], taken: &[u64]) -> Option<String> {
    (1..parents.len()).find_map(|host| {
        let above =
            std::iter::successors(Some(host), |&at| Some(parents[at])).take_while(|&at| at != 0);
        let liar = above
            .into_iter()
            .find(|&above| said.below(above, StreamId(1)) > taken[host])?;
        Some(format!(
            "host {liar} says that all behind it have what host {host} lacks"
        ))
    })
}

pub fn run_ack_tree(random: &mut Random, seed: u64) -> Result<(), String> {
    let (hosts, fan_out, frames) = (
        4 + random.below(8) as usize,
        1 + random.below(3) as usize,
        30 + random.below(150),
    );
    let loss = [0.0, 0.01, 0.1][random.below(3) as usize];
    let said = Rc::new(RefCell::new(Acknowledged::default()));
    let faults = RandomFaults::new(seed)
        .loss(loss)
        .duplicate(0.02)
        .reorder(0.05, Duration::from_millis(8));
    let settings = HostSettings {
        groups: vec![group_mac(GROUP)],
        ..HostSettings::default()
    };
    let network = Network::star(
        hosts,
        Cable::new(100_000_000, Duration::from_micros(5)),
        &settings,
    );
    let parents: Vec<usize> = (0..hosts)
        .map(|host| host.saturating_sub(1) / fan_out)
        .collect();
    let tuning = Tuning::default().with_feed_frames(FEED_FRAMES);
    let stream = |host| Alone::new(ack_tree(host, &parents, PAYLOAD.len(), &tuning));
    let machines = (0..hosts).map(stream).collect();
    let faults = Listening {
        faults,
        said: Rc::clone(&said),
    };
    let mut simulation = Simulation::new(&network, machines, faults);
    simulation.set_event_limit(1_000_000);
    let mut taken = vec![0; hosts];
    let (mut audit, mut lie) = (Ok(()), None);
    let outcome = simulation.run(
        Instant::START + Duration::from_secs(60),
        |host, machine, now| {
            let stream: &mut Stream = &mut machine.part;
            let ending = |next: u64| {
                if next + 1 == frames {
                    Ending::Stream
                } else {
                    Ending::None
                }
            };
            while host == 0 && taken[0] < frames && stream.push(&PAYLOAD, ending(taken[0])) {
                taken[0] += 1;
            }
            while stream.peek().is_some() {
                stream.consume(now);
                taken[host] += 1;
            }
            if audit.is_ok() {
                audit = stream.audit();
            }
            lie = lie
                .take()
                .or_else(|| liar(&said.borrow(), &parents, &taken));
            None
        },
    );
    audit.map_err(|error| error.to_string())?;
    if let Some(wrong) = lie.or(said.borrow().wrong().map(str::to_owned)) {
        return Err(wrong);
    }
    if taken.iter().all(|&taken| taken == frames) && outcome.is_quiet() {
        return Ok(());
    }
    Err(format!(
        "{outcome:?}: taken {taken:?} of {frames}, next {:?}",
        simulation.next_deadline()
    ))
}

#[derive(Clone, Copy, Debug)]
struct AckValues {
    cursor: u64,
    below: u64,
    consumed: u64,
    limit: u64,
}

#[derive(Debug, Default)]
pub(super) struct Acknowledged {
    words: BTreeMap<(usize, StreamId), AckValues>,
    wrong: Option<String>,
}

impl Acknowledged {
    pub(super) fn note(&mut self, delivery: &Delivery<'_>) {
        let (Some(from), Ok(frame)) = (delivery.from, parse(delivery.frame)) else {
            return;
        };
        let ack = (frame.header.kind == Kind::ACK)
            .then(|| Ack::parse(&frame))
            .flatten();
        let Some(Ack {
            cursor,
            body:
                AckBody {
                    below,
                    consumed,
                    limit,
                    ..
                },
            ..
        }) = ack
        else {
            return;
        };
        let word = AckValues {
            cursor,
            below,
            consumed,
            limit,
        };
        if let Some(old) = self.words.insert((from, frame.header.stream), word) {
            let more = cursor >= old.cursor
                && below >= old.below
                && consumed >= old.consumed
                && limit >= old.limit;
            if !more {
                self.wrong
                    .get_or_insert_with(|| format!("host {from} says {word:?} after {old:?}"));
            }
        }
    }

    /// Returns the frame below which `host` has claimed that all hosts behind it have everything.
    pub(super) fn below(&self, host: usize, stream: StreamId) -> u64 {
        self.words.get(&(host, stream)).map_or(0, |word| word.below)
    }

    pub(super) fn wrong(&self) -> Option<&str> {
        self.wrong.as_deref()
    }
}

const CATCH_UP: u16 = 0x4000;

#[derive(Debug, Default)]
pub(super) struct CatchUpStreams {
    /// Frames below this were reported by the member or sent to it on its catch-up stream.
    known: BTreeMap<usize, u64>,
    wrong: Option<String>,
}

impl CatchUpStreams {
    pub(super) fn note(&mut self, delivery: &Delivery<'_>, frame: &Frame<'_>) {
        let (header, to) = (&frame.header, delivery.to);
        if let (Some(from), Some(Message::Ready { arrived, .. })) = (delivery.from, ready(frame)) {
            self.know(from, arrived);
        } else if header.stream.0 & CATCH_UP != 0 && header.kind == Kind::DATA {
            self.know(to, header.sequence + 1);
        } else if header.stream.0 & CATCH_UP != 0 && header.kind == Kind::HEARTBEAT {
            let (asked, known) = (header.sequence, self.known.get(&to).copied().unwrap_or(0));
            if asked > known {
                self.wrong.get_or_insert_with(|| {
                    format!("host {to} is asked for {asked} frames on its own stream, where it has {known}")
                });
            }
        }
    }

    fn know(&mut self, host: usize, below: u64) {
        let known = self.known.entry(host).or_default();
        *known = below.max(*known);
    }

    pub(super) fn wrong(&self) -> Option<&str> {
        self.wrong.as_deref()
    }
}

fn ready(frame: &Frame<'_>) -> Option<Message> {
    (frame.header.kind == kind::READY)
        .then(|| Message::decode(frame.header.kind, frame.payload))
        .flatten()
}
