//! Tests of streams: one forged frame with harmful numbers never stops a host for good. It changes
//! counters, perhaps the bytes of the one frame whose number it took, and stops no host for good.
//! With a key, frames without it have no effect, and relays forward frames unchanged.

mod forgery;

use crate::common::guard::{KEYED, guard};
use crate::common::key::{self, parse};
use crate::common::{self, Case, PAYLOAD_BYTES, Path, identity, payload, peer};
use crate::hosts::{at, star};
use crate::{push_pull, strict};
use ethbcast_transport::sim::{Delivery, Fate, Faults, Random, RandomFaults, Simulation};
use ethbcast_transport::stream::{Ending, Outlet, Stream};
use ethbcast_transport::wire::{
    EtherType, EthernetHeader, Flags, Frame, Guard, Header, Identity, Kind, PayloadHash, Peer,
    Rank, Reject, parse_headers,
};
use ethbcast_transport::{Alone, Instant, Machine, Part, Tuning};
use forgery::{Forgery, TO_RECEIVERS, TO_SENDERS};
use std::time::Duration;

const HOSTS: usize = 4;
const FRAMES: u64 = 400;
/// Time limit. Without faults all are done after 6 ms. A receiver that is no longer probed reports
/// after a second, or after two if that report is lost.
const BOUND: Duration = Duration::from_secs(10);
const MAX_FRAMES: u64 = 12_000;

/// Victim of a forgery, and the host in whose name it comes.
#[derive(Clone, Copy, Debug)]
struct Place {
    path: Path,
    protocol: fn(Case) -> Case,
    victim: usize,
    from: usize,
}

const fn place(path: Path, protocol: fn(Case) -> Case, victim: usize, from: usize) -> Place {
    Place {
        path,
        protocol,
        victim,
        from,
    }
}

fn holes(case: Case) -> Case {
    case
}

/// A relay and a leaf of a chain; a receiver of a cast; a repair parent, and a repair child with
/// forgeries of its parent and of the origin.
const RECEIVERS: [Place; 9] = [
    place(Path::Chain, holes, 1, 0),
    place(Path::Chain, holes, 3, 2),
    place(Path::Cast, holes, 1, 0),
    place(Path::AckTree(1), holes, 1, 0),
    place(Path::AckTree(1), holes, 3, 2),
    place(Path::AckTree(1), holes, 3, 0),
    place(Path::Chain, strict, 1, 0),
    place(Path::Cast, strict, 1, 0),
    place(Path::TunedCast, push_pull, 1, 0),
];

/// The root and a relay of a chain, the root of a cast and of an ack tree, a repair parent.
const SENDERS: [Place; 8] = [
    place(Path::Chain, holes, 0, 1),
    place(Path::Chain, holes, 2, 3),
    place(Path::Cast, holes, 0, 1),
    place(Path::AckTree(1), holes, 0, 1),
    place(Path::AckTree(1), holes, 2, 3),
    place(Path::Chain, strict, 0, 1),
    place(Path::Cast, strict, 0, 1),
    place(Path::TunedCast, push_pull, 0, 1),
];

/// Before the first frame, in the middle, and after the last, in µs of the 6 ms that all take.
const PHASES_US: [(u64, u64); 3] = [(0, 1), (300, 4000), (4000, 6500)];
const LOSSES: [f64; 3] = [0.0, 0.02, 0.2];

struct Observer {
    faults: RandomFaults,
    newest: [u32; HOSTS],
}

impl Faults for Observer {
    fn fate(&mut self, delivery: &Delivery<'_>) -> Fate {
        if let (Some(from), Ok(frame)) = (delivery.from, parse(delivery.frame))
            && matches!(frame.header.kind, Kind::DATA | Kind::HEARTBEAT)
        {
            self.newest[from] = self.newest[from].max(frame.header.stamp);
        }
        self.faults.fate(delivery)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kept {
    Sized,
    Unsized,
    /// Unknown; the root ends a message every few frames and waits until all have consumed it.
    Messages,
}

const KINDS: [Kept; 3] = [Kept::Sized, Kept::Unsized, Kept::Messages];

struct HostileWorld {
    place: Place,
    forgery: Forgery,
    kept: Kept,
    case: Case,
    at: Instant,
    loss: f64,
    replay: String,
}

impl HostileWorld {
    fn draw(seed: u64) -> HostileWorld {
        let (receivers, senders) = (
            RECEIVERS.len() * TO_RECEIVERS.len(),
            SENDERS.len() * TO_SENDERS.len(),
        );
        let mut random = Random::new(seed);
        let at = (seed % (receivers + senders) as u64) as usize;
        let (place, forgery) = match at.checked_sub(receivers) {
            None => (
                RECEIVERS[at % RECEIVERS.len()],
                TO_RECEIVERS[at / RECEIVERS.len()],
            ),
            Some(at) => (SENDERS[at % SENDERS.len()], TO_SENDERS[at / SENDERS.len()]),
        };
        let round = seed / (receivers + senders) as u64;
        let (from, to) = PHASES_US[(round % 3) as usize];
        let loss = LOSSES[(round / 3 % 3) as usize];
        // If the end is unknown a forged last frame ends the stream; its digest would reveal it.
        let kept = if forgery.ends() {
            Kept::Sized
        } else {
            KINDS[(round / 9 % 3) as usize]
        };
        let message_frames = if kept == Kept::Messages {
            10 + random.below(30)
        } else {
            0
        };
        let case = Case {
            message_frames,
            ..(place.protocol)(crate::case(place.path, HOSTS, FRAMES))
        };
        let at = Instant::START + Duration::from_micros(from + random.below(to - from));
        let replay = format!(
            "replay with ETHBCAST_SEED={seed} cargo test -p ethbcast-transport --test streams hostile \
             ({forgery:?} in the name of {} for {} at {at:?}, {:?} {:?}, {kept:?}, loss {loss})",
            place.from, place.victim, place.path, case.tuning.policy
        );
        HostileWorld {
            place,
            forgery,
            kept,
            case,
            at,
            loss,
            replay,
        }
    }

    fn stream(&self, host: usize) -> Stream {
        let mut stream = self.case.stream(host);
        if host > 0 && self.kept == Kept::Sized {
            stream.expect_last(FRAMES - 1);
        }
        stream
    }

    fn forge(
        &self,
        simulation: &Simulation<Alone<Stream>, Observer>,
        newest: [u32; HOSTS],
    ) -> (Vec<u8>, Option<u64>) {
        let Place { victim, from, .. } = self.place;
        let stream = &simulation.machines()[victim].part;
        let stamps_of = if TO_SENDERS.contains(&self.forgery) {
            victim
        } else {
            from
        };
        // Neither the parent nor the origin.
        let from = if matches!(self.forgery, Forgery::NonMember(_)) {
            if victim == 3 { 1 } else { 3 }
        } else {
            from
        };
        (
            self.forgery
                .frame(stream, from, victim, newest[stamps_of], FRAMES),
            self.forgery.spoils(stream, FRAMES),
        )
    }
}

struct Seen {
    pushed: u64,
    taken: [u64; HOSTS],
    spoilt: Option<u64>,
    done_at: Instant,
    orphans: Vec<(usize, Rank)>,
}

impl Seen {
    fn turn(&mut self, world: &HostileWorld, host: usize, stream: &mut Stream, now: Instant) {
        let replay = &world.replay;
        stream
            .audit()
            .unwrap_or_else(|why| panic!("{replay}: host {host}: {why}"));
        self.orphans.extend(
            stream
                .take_orphans()
                .into_iter()
                .map(|orphan| (host, orphan.rank)),
        );
        if host == 0 {
            return world.case.push(stream, &mut self.pushed, world.case.frames);
        }
        while let Some((bytes, _)) = stream.peek() {
            let sequence = self.taken[host];
            assert!(
                self.spoilt == Some(sequence) || bytes == payload(sequence),
                "{replay}: host {host}, {sequence}"
            );
            self.taken[host] += 1;
            stream.consume(now);
            self.done_at = now;
        }
    }
}

fn serve_orphan(
    simulation: &mut Simulation<Alone<Stream>, Observer>,
    case: &Case,
    host: usize,
    orphan: usize,
) {
    let (child, tail) = (
        &simulation.machines()[orphan].part,
        simulation.machines()[host].part.feed().tail(),
    );
    let missing: Vec<u64> = (child.feed().head()..tail)
        .filter(|&sequence| !child.feed().has(sequence))
        .collect();
    for sequence in missing {
        let ending = match case.ending(sequence) {
            Ending::Stream => Flags::LAST,
            Ending::Message => Flags::FLUSH.with(Flags::REPORT),
            _ => Flags::default(),
        };
        let what = (Kind::DATA, ending.with(Flags::RESENT), sequence, 1);
        simulation.inject(
            simulation.now(),
            orphan,
            &forgery::sealed(0, orphan, what, &payload(sequence)),
        );
    }
}

fn play(seed: u64) -> bool {
    let world = HostileWorld::draw(seed);
    let replay = &world.replay;
    let faults = Observer {
        faults: RandomFaults::new(seed).loss(world.loss),
        newest: [1; HOSTS],
    };
    let machines = (0..HOSTS)
        .map(|host| key::alone(world.stream(host)))
        .collect();
    let mut simulation = Simulation::new(&star(HOSTS), machines, faults);
    simulation.set_event_limit(2_000_000);
    let mut seen = Seen {
        pushed: 0,
        taken: [0; HOSTS],
        spoilt: None,
        done_at: Instant::START,
        orphans: Vec::new(),
    };
    let _ = simulation.run(world.at, |host, machine, now| {
        seen.turn(&world, host, &mut machine.part, now);
        None
    });
    let newest = simulation.faults_mut().newest;
    let (frame, spoilt) = world.forge(&simulation, newest);
    if spoilt == Some(FRAMES - 1) && world.kept != Kept::Sized {
        // A forged last frame may have any contents, as only the root knows the end.
        return false;
    }
    seen.spoilt = spoilt;
    simulation.inject(world.at, world.place.victim, &frame);
    let mut orphaned = false;
    let outcome = loop {
        let outcome = simulation.step(at(60_000), &mut |host, machine: &mut Alone<Stream>, now| {
            seen.turn(&world, host, &mut machine.part, now);
            None
        });
        for (host, rank) in std::mem::take(&mut seen.orphans) {
            orphaned = true;
            serve_orphan(&mut simulation, &world.case, host, rank.index());
        }
        if let Some(outcome) = outcome {
            break outcome;
        }
    };
    assert!(
        seen.taken[1..] == [FRAMES; HOSTS - 1],
        "{replay}: {outcome:?}, taken {:?}",
        seen.taken
    );
    assert!(
        outcome.is_quiet(),
        "{replay}: {outcome:?}, {:?}",
        simulation.next_deadline()
    );
    assert!(
        seen.done_at < Instant::START + BOUND,
        "{replay}: done at {:?}",
        seen.done_at
    );
    let sent: u64 = simulation
        .stats()
        .hosts
        .iter()
        .map(|host| host.sent_frames)
        .sum();
    assert!(sent < MAX_FRAMES, "{replay}: {sent} frames");
    orphaned
}

#[test]
fn one_forged_frame_stops_nobody_for_good() {
    if let Ok(seed) = std::env::var("ETHBCAST_SEED") {
        play(seed.parse().expect("a seed is a number"));
        return;
    }
    let kinds = (RECEIVERS.len() * TO_RECEIVERS.len() + SENDERS.len() * TO_SENDERS.len()) as u64;
    let runs = kinds * (PHASES_US.len() * LOSSES.len() * KINDS.len()) as u64;
    // A step without common divisors with the lists takes all their values. What a key changes
    // shows in fewer.
    let is_set = |name| std::env::var_os(name).is_some();
    let step = match (is_set("ETHBCAST_FULL"), is_set(KEYED)) {
        (true, false) => 1,
        (true, true) => 7,
        (false, false) => 5,
        (false, true) => 23,
    };
    let orphaned = (0..runs).step_by(step).filter(|&seed| play(seed)).count();
    println!("{runs} runs, in {orphaned} of them the root had to read again");
}

/// A stream that serves one receiver alone believes any cursor of it, but none beyond the stream's
/// end.
#[test]
fn a_forged_cursor_of_a_receiver_served_alone_is_taken_back() {
    let case = crate::case(Path::Chain, 2, FRAMES);
    let mut root = Stream::origin_at(
        identity(0),
        PAYLOAD_BYTES,
        100,
        peer(1),
        case.tuning.clone(),
    );
    root.expect_last(FRAMES - 1);
    let mut buffer = [0; 2000];
    let tell = |root: &mut Stream, ms: u64, cursor: u64, echo: u32| {
        let what = (Kind::ACK, Flags::default(), cursor, echo);
        let mut body = [0; 20];
        body[..4].copy_from_slice(&64_u32.to_be_bytes());
        let frame = forgery::sealed(1, 0, what, &body);
        root.handle_frame(at(ms), &parse(&frame).expect("it has the right form"));
    };
    let mut ask = |root: &mut Stream, ms: u64| {
        root.handle_timeout(at(ms));
        let length = root.poll_transmit(at(ms), &mut buffer).expect("a question");
        parse(&buffer[..length])
            .expect("own frames parse")
            .header
            .stamp
    };
    let first = ask(&mut root, 1);
    tell(&mut root, 2, 1 << 40, first);
    assert_eq!(root.feed().head(), FRAMES, "there is no more");
    tell(&mut root, 3, 120, first);
    let stamps = [1000, 2000].map(|ms| {
        let stamp = ask(&mut root, ms);
        tell(&mut root, ms + 1, 120, stamp);
        stamp
    });
    assert!(stamps[1] > stamps[0]);
    let orphans: Vec<(u64, u64)> = root
        .take_orphans()
        .iter()
        .map(|orphan| (orphan.from, orphan.to))
        .collect();
    assert_eq!(
        orphans,
        [(120, 120 + 64)],
        "its credit's worth of what has to come from elsewhere"
    );
}

fn keyed(key: u8) -> Guard {
    Guard::keyed(&[key; 32], &[!key; 32], PayloadHash::Polyval)
}

/// A root that has pushed three frames to its child, and the child.
fn pair() -> [Alone<Stream>; 2] {
    let identity = |host| Identity {
        guard: keyed(1),
        ..common::identity(host)
    };
    let tuning = Tuning::default().with_feed_frames(64);
    let mut root = Stream::origin(
        identity(0),
        100,
        &Outlet::Lanes(vec![peer(1)]),
        tuning.clone(),
    );
    (0..3).for_each(|number| assert!(root.push(&[number; 90], Ending::None), "there is room"));
    let leaf = Stream::receiver(
        identity(1),
        100,
        peer(0),
        &Outlet::Lanes(Vec::new()),
        tuning,
    );
    [root, leaf].map(|stream| Alone::guarded(stream, keyed(1)))
}

fn sent(machine: &mut Alone<Stream>, now: Instant) -> Vec<Vec<u8>> {
    let mut buffer = [0; 300];
    std::iter::from_fn(|| {
        machine
            .poll_transmit(now, &mut buffer)
            .map(|length| buffer[..length].to_vec())
    })
    .collect()
}

fn sealed_again(frame: &[u8], guard: &Guard, change: impl Fn(Header) -> Header) -> Vec<u8> {
    let (frame, _) = parse_headers(frame).expect("its headers are there");
    let link = EthernetHeader {
        source: frame.source,
        destination: peer(1).mac,
        ether_type: EtherType::DEFAULT,
    };
    let mut sealed = [&vec![0; guard.overhead_bytes()][..], frame.payload].concat();
    guard.seal(
        &mut sealed,
        link,
        &change(frame.header),
        frame.payload.len(),
    );
    sealed
}

#[test]
fn what_was_altered_or_made_without_the_key_is_counted_and_does_nothing() {
    let [mut root, mut leaf] = pair();
    let frames = sent(&mut root, at(1));
    leaf.handle_frame(at(2), &frames[0]);
    // Each byte: addresses, sender, stamp, flags, tag, number, contents.
    for byte in 0..frames[1].len() {
        let mut altered = frames[1].clone();
        altered[byte] ^= 1;
        leaf.handle_frame(at(2), &altered);
    }
    let stats = leaf.part.stats();
    assert_eq!(
        (stats.malformed, stats.non_members),
        (frames[1].len() as u64 - 1, 1),
        "one is of version 6"
    );
    for guard in [keyed(2), Guard::Plain] {
        leaf.handle_frame(at(2), &sealed_again(&frames[1], &guard, |header| header));
    }
    let stats = leaf.part.stats();
    assert_eq!(
        (stats.malformed, stats.non_members),
        (frames[1].len() as u64, 2)
    );
    assert_eq!(
        (
            leaf.part.feed().head(),
            leaf.part.feed().highest(),
            stats.data_received
        ),
        (1, 1, 1)
    );
    leaf.handle_frame(at(3), &frames[1]);
    assert_eq!(leaf.part.feed().head(), 2);
}

#[test]
fn a_stamp_of_the_future_needs_the_key_and_what_is_heard_again_counts_once() {
    let [mut root, mut leaf] = pair();
    let frames = sent(&mut root, at(1));
    frames
        .iter()
        .for_each(|frame| leaf.handle_frame(at(2), frame));
    let later = |header| Header {
        stamp: u32::MAX / 2,
        ..header
    };
    leaf.handle_frame(at(2), &sealed_again(&frames[0], &keyed(2), later));
    (0..10).for_each(|_| leaf.handle_frame(at(2), &frames[0]));
    assert_eq!(
        (leaf.part.stats().malformed, leaf.part.stats().duplicates),
        (1, 10)
    );
    leaf.handle_timeout(at(9));
    let answers = sent(&mut leaf, at(9));
    let echo = |frame: &[u8]| parse_headers(frame).expect("an answer").0.header.stamp;
    assert_eq!(
        (answers.len(), echo(&answers[0])),
        (1, echo(&frames[2])),
        "the newest that its parent has drawn"
    );
    (0..10).for_each(|_| root.handle_frame(at(10), &answers[0]));
    assert_eq!(root.part.cursors(), [(peer(1).rank, 3)]);
    assert_eq!(
        sent(&mut root, at(11)),
        Vec::<Vec<u8>>::new(),
        "nothing is sent again"
    );
}

const FRAME_BYTES: usize = 254;

fn origin(frames: u64) -> Stream {
    let tuning = Tuning::default().with_feed_frames(frames);
    Stream::origin(
        identity(0),
        PAYLOAD_BYTES,
        &Outlet::Lanes(vec![peer(1)]),
        tuning,
    )
}

fn receiver(children: Vec<Peer>, frames: u64) -> Stream {
    let tuning = Tuning::default().with_feed_frames(frames);
    Stream::receiver(
        identity(1),
        PAYLOAD_BYTES,
        peer(0),
        &Outlet::Lanes(children),
        tuning,
    )
}

fn data(stream: &mut Stream, now: Instant) -> Option<Vec<u8>> {
    let mut buffer = [0; FRAME_BYTES];
    while let Some(length) = stream.poll_transmit(now, &mut buffer) {
        let frame = &buffer[..length];
        if frame[17] == Kind::DATA.0 {
            return Some(frame.to_vec());
        }
    }
    None
}

#[test]
fn a_relay_passes_on_what_was_sealed_and_its_checksum_as_they_came() {
    let (mut root, mut relay) = (origin(64), receiver(vec![peer(2)], 64));
    for (number, ending) in [Ending::None, Ending::Message, Ending::Quiet, Ending::Stream]
        .into_iter()
        .enumerate()
    {
        assert!(root.push(&[number as u8; 90], ending));
        let came = data(&mut root, at(1)).expect("it was pushed");
        let frame = key::parse(&came).expect("sealed");
        relay.handle_frame(at(2), &frame);
        let passed = data(&mut relay, at(3)).expect("it has come");
        let sealed = guard().overhead_bytes() - 14;
        assert_eq!(passed[sealed..], came[sealed..], "what is sealed");
        let frame = key::parse(&passed).expect("sealed").header;
        assert!(
            frame
                .flags
                .has(key::parse(&came).expect("sealed").header.flags),
            "{frame:?}"
        );
        assert_eq!(
            key::parse(&passed).expect("sealed").content,
            key::parse(&came).expect("sealed").content
        );
    }
}

#[test]
fn a_relay_adds_up_nothing_of_what_it_passes_on() {
    let (mut root, mut relay) = (origin(64), receiver(vec![peer(2)], 64));
    assert!(root.push(&[7; 90], Ending::None));
    let came = data(&mut root, at(1)).expect("it was pushed");
    // As if a byte had changed in the relay's memory after the check.
    let frame = key::parse(&came).expect("sealed");
    relay.handle_frame(
        at(2),
        &Frame {
            content: guard().content(&frame.header, &[8; 90]),
            ..frame
        },
    );
    let passed = data(&mut relay, at(3)).expect("it has come");
    assert_eq!(
        key::parse(&passed).err(),
        Some(Reject::Damaged),
        "the next host sees that"
    );
}
