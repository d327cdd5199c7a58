//! Fuzz targets for protocol state machines: the input decides which frames arrive, are lost or
//! forged.

use crate::communicator;
use crate::communicator::{Process, Step};
use crate::session::{Case, data, hosts_of, session as session_number};
use ethbcast_collectives::session::application::{
    Again, Collected, MemoryContent, Next, Participant, Sink, SinkState, Source,
};
use ethbcast_collectives::session::{Arrival, Blocks, Done, Outcome, Timing};
use ethbcast_planning::plan::Via;
use ethbcast_transport::sim::host_mac;
use ethbcast_transport::wire::{
    EtherType, Flags, Guard, Identity, Kind, OVERHEAD_BYTES, Rank, StreamId, parse,
};
use ethbcast_transport::{Instant, MacAddr, Machine};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// Kinds of a session's frames, and of a probe's.
const SESSION_KINDS: [u8; 20] = [
    1, 2, 3, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 99,
];
const ROUND: Duration = Duration::from_millis(2);
/// Maximum number of turns of an input: longer ones find nothing new.
const MAX_TURNS: usize = 200;
const RECEIVERS: usize = 2;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mood {
    #[default]
    Works,
    Stands,
    Fails,
}

#[derive(Debug)]
pub(super) struct Bytes {
    content: MemoryContent<Vec<u8>>,
    mood: Mood,
}

impl Source for Bytes {
    fn next(&mut self, now: Instant, consumed: bool) -> Next<'_> {
        match self.mood {
            Mood::Works => self.content.next(now, consumed),
            Mood::Stands => Next::Nothing,
            Mood::Fails => Next::Failed("a bad block".to_owned()),
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.content.advance(bytes);
    }

    fn read_again(&mut self, now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        match self.mood {
            Mood::Works => self.content.read_again(now, offset, bytes),
            Mood::Stands => Again::Pending,
            Mood::Fails => Again::Impossible("a bad block".to_owned()),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct FuzzDisk {
    collected: Collected,
    mood: Mood,
    published: bool,
}

impl Sink for FuzzDisk {
    fn has_room(&self) -> bool {
        self.mood != Mood::Stands
    }

    fn take(&mut self, now: Instant, arrival: Arrival<'_>) {
        self.collected.take(now, arrival);
    }

    fn publish(&mut self, _now: Instant) -> bool {
        self.published = true;
        true
    }

    fn turn(&mut self, now: Instant) -> SinkState {
        match self.mood {
            Mood::Works => self.collected.turn(now),
            Mood::Stands => SinkState::default(),
            Mood::Fails => SinkState::from(Some(Done {
                outcome: Outcome::NoSpace,
                bytes: 0,
                digest: [0; 32],
                text: "full".to_owned(),
            })),
        }
    }
}

type Session = Participant<Bytes, FuzzDisk>;

impl FuzzedHost for Session {
    fn turn(&mut self, now: Instant) {
        Session::turn(self, now);
    }

    fn wrong(&self) -> Option<String> {
        self.streams()
            .map_or(Ok(()), Blocks::audit)
            .err()
            .map(|error| error.to_string())
    }
}

fn macs(hosts: usize) -> Vec<MacAddr> {
    (0..hosts).map(host_mac).collect()
}

/// A session of a root and two receivers, in any phase: with a Root, and Receivers with or without
/// children.
pub(super) fn session(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let via = script.one_of(&[Via::Chain, Via::Cast, Via::Flat, Via::ScatterAllgather]);
    let length = [5000, 0, 60, 30_000][script.below(4)];
    let (stall, patience) = (Duration::from_millis(500), Duration::from_secs(2));
    let timing = Timing {
        stall,
        patience,
        sync: patience,
        dead: Duration::from_millis(700),
        ..Timing::default()
    };
    let case = Case {
        timing,
        late: (usize::from(script.u8() & 1), Duration::ZERO),
        ..Case::new(via, RECEIVERS, length)
    };
    let source = Bytes {
        content: MemoryContent::new(data(length, 1)),
        mood: Mood::Works,
    };
    let hosts = hosts_of(&case, 1, source, |_| FuzzDisk::default());
    let macs = macs(hosts.len());
    let mut world = FuzzWorld::new(hosts, macs);
    // An honest session comes first, up to some phase: later phases are not reached by chance.
    for _ in 0..script.u8() {
        world.round(ROUND, 0);
    }
    for _ in 0..MAX_TURNS {
        if script.is_over() {
            break;
        }
        match script.below(6) {
            0 => world.round(ROUND, script.u8()),
            1 => world.round(passes(&mut script), 0),
            2 => world.tell_forged(&mut script, session_number(1), &SESSION_KINDS),
            3 | 4 => world.tell_again(&mut script),
            _ => disk(&mut world, &mut script),
        }
    }
    (0..100).for_each(|_| world.round(ROUND * 20, 0));
    let sent = data(length, 1);
    for (number, receiving) in world
        .hosts()
        .iter()
        .filter_map(Session::receiving)
        .enumerate()
    {
        let FuzzDisk {
            collected,
            published,
            ..
        } = receiving.sink();
        assert!(
            !published || collected.bytes() == sent,
            "receiver {number} has made other bytes visible"
        );
    }
}

fn passes(script: &mut Script<'_>) -> Duration {
    Duration::from_micros(10) * (1 << script.below(20))
}

fn disk(world: &mut FuzzWorld<Session>, script: &mut Script<'_>) {
    let (host, mood, now) = (script.below(1 + RECEIVERS), script.below(4), world.now());
    let moods = [Mood::Works, Mood::Stands, Mood::Fails];
    match (world.host_mut(host), moods.get(mood)) {
        (Participant::Root(_, sending), Some(&mood)) => sending.source_mut().mood = mood,
        (Participant::Receiver(_, receiving), Some(&mood)) => receiving.sink_mut().mood = mood,
        (Participant::Root(root, _), None) => drop(root.stop_waiting(now, "enough")),
        (Participant::Receiver(receiver, receiving), None) => {
            receiving.cancel(receiver, now, "enough")
        }
    }
}

impl FuzzedHost for Process {
    fn turn(&mut self, now: Instant) {
        Process::turn(self, now);
    }

    fn wrong(&self) -> Option<String> {
        self.member
            .as_ref()
            .and_then(|member| member.audit().err())
            .map(|error| error.to_string())
    }
}

/// Kinds of a group's frames: of streams, messages and the group itself.
const GROUP_KINDS: [u8; 14] = [1, 2, 3, 32, 33, 34, 35, 36, 40, 41, 42, 26, 27, 99];

pub(super) fn group(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let ranks = 2 + script.u8() as u16 % 2;
    let message = |tag, bytes| Step::Message {
        from: 0,
        to: 1,
        tag,
        bytes,
    };
    let program = [
        Step::Broadcast {
            root: 0,
            bytes: 3000,
        },
        message(1, 40),
        message(2, 9000),
        Step::Allgather { bytes: 700 },
        Step::Barrier,
        Step::Scatter {
            root: 1,
            bytes: 100,
        },
        Step::Gather {
            root: 0,
            bytes: 2000,
        },
    ];
    let patience = Duration::from_secs(2);
    let case = communicator::Case {
        patience,
        ..communicator::Case::new(ranks, &program)
    };
    let hosts: Vec<Process> = (0..usize::from(ranks))
        .map(|host| Process::new(&case, host, 1))
        .collect();
    let macs = macs(hosts.len());
    let mut world = FuzzWorld::new(hosts, macs);
    for _ in 0..script.u8() {
        world.round(ROUND / 10, 0);
    }
    for _ in 0..MAX_TURNS {
        if script.is_over() {
            break;
        }
        let number = world.hosts()[0]
            .member
            .as_ref()
            .and_then(|member| member.session())
            .unwrap_or(0);
        match script.below(5) {
            0 => world.round(ROUND, script.u8()),
            1 => world.round(passes(&mut script), 0),
            2 => world.tell_forged(&mut script, number, &GROUP_KINDS),
            _ => world.tell_again(&mut script),
        }
    }
    (0..100).for_each(|_| world.round(ROUND * 20, 0));
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Script<'a> {
    rest: &'a [u8],
}

impl<'a> Script<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Script<'a> {
        Script { rest: bytes }
    }

    pub(super) fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(most.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    pub(super) fn u8(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from(self.u8()) << 8 | u16::from(self.u8())
    }

    pub(super) fn u64(&mut self) -> u64 {
        self.bytes(8)
            .iter()
            .fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::from(self.u8()) % bound
    }

    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    pub(super) fn near(&mut self, base: u64) -> u64 {
        const FAR_OFFSETS: [u64; 6] = [0, 1 << 30, 1 << 32, 1 << 40, u64::MAX - 1, u64::MAX];
        match self.u8() {
            far @ 250.. => FAR_OFFSETS[usize::from(far - 250)],
            near => base.wrapping_add(u64::from(near)).wrapping_sub(64),
        }
    }
}

pub(super) trait FuzzedHost: Machine {
    fn turn(&mut self, now: Instant);

    fn wrong(&self) -> Option<String>;
}

const MAX_FRAMES: usize = 5000;
const MAX_TIMEOUTS: usize = 1000;
const MAX_HEARD: usize = 24;

pub(super) struct FuzzWorld<H> {
    hosts: Vec<H>,
    macs: Vec<MacAddr>,
    now: Instant,
    under_way: VecDeque<(usize, Vec<u8>)>,
    heard: VecDeque<Vec<u8>>,
}

impl<H: FuzzedHost> FuzzWorld<H> {
    pub(super) fn new(hosts: Vec<H>, macs: Vec<MacAddr>) -> FuzzWorld<H> {
        FuzzWorld {
            hosts,
            macs,
            now: Instant::START,
            under_way: VecDeque::new(),
            heard: VecDeque::new(),
        }
    }

    pub(super) fn host_mut(&mut self, host: usize) -> &mut H {
        &mut self.hosts[host]
    }

    pub(super) fn hosts(&self) -> &[H] {
        &self.hosts
    }

    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// Lets `passes` elapse, then all hosts send. Of each eight frames those whose bit is set in
    /// `lost` are lost.
    pub(super) fn round(&mut self, passes: Duration, lost: u8) {
        self.now += passes;
        for host in 0..self.hosts.len() {
            self.hosts[host].turn(self.now);
            self.collect(host);
        }
        for (at, (to, frame)) in std::mem::take(&mut self.under_way).into_iter().enumerate() {
            if lost >> (at % 8) & 1 == 0 {
                self.notify(to, &frame);
            }
        }
        for (number, host) in self.hosts.iter().enumerate() {
            if let Some(wrong) = host.wrong() {
                panic!("host {number}: {wrong}");
            }
        }
    }

    fn collect(&mut self, host: usize) {
        let mut buffer = [0; 2048];
        for times in 0..MAX_TIMEOUTS {
            let mut frames = 0;
            while let Some(length) = self.hosts[host].poll_transmit(self.now, &mut buffer) {
                frames += 1;
                assert!(frames < MAX_FRAMES, "host {host} sends without end");
                self.send(host, &buffer[..length]);
            }
            let due = self.hosts[host]
                .poll_timeout(self.now)
                .filter(|deadline| deadline.at <= self.now);
            let Some(due) = due else { return };
            assert!(
                times + 1 < MAX_TIMEOUTS,
                "host {host}: a timer that is always due: {due:?}"
            );
            self.hosts[host].handle_timeout(self.now);
            self.hosts[host].turn(self.now);
        }
    }

    fn send(&mut self, from: usize, frame: &[u8]) {
        let to: [u8; 6] = frame[..6].try_into().expect("a frame has an address");
        for (host, mac) in self
            .macs
            .iter()
            .enumerate()
            .filter(|&(host, _)| host != from)
        {
            if mac.octets() == to || to[0] & 1 == 1 {
                self.under_way.push_back((host, frame.to_vec()));
            }
        }
        if self.heard.len() == MAX_HEARD {
            self.heard.pop_front();
        }
        self.heard.push_back(frame.to_vec());
    }

    pub(super) fn notify(&mut self, to: usize, frame: &[u8]) {
        self.hosts[to].handle_frame(self.now, frame);
        self.hosts[to].turn(self.now);
    }

    pub(super) fn tell_forged(&mut self, script: &mut Script<'_>, session: u32, kinds: &[u8]) {
        let (to, from) = (
            script.below(self.hosts.len()),
            script.below(self.hosts.len()),
        );
        let (stream, rank) = (
            StreamId(script.one_of(&[0, 1, 2, 3, 0x4001])),
            Rank(script.below(4) as u16),
        );
        let identity = Identity {
            session,
            stream,
            rank,
            mac: self.macs[from],
            ether_type: EtherType::DEFAULT,
            guard: Guard::Plain,
        };
        let mut header = identity.header(Kind(script.one_of(kinds)));
        (header.flags.0, header.epoch) = (script.u8(), script.u8());
        header.sequence = script.near(64);
        header.stamp = script.near(self.now.as_micros()) as u32;
        let length = usize::from(script.u8());
        let body = script.bytes(length);
        let mut frame = [0; 512];
        let length = identity.write(&mut frame, self.macs[to], &header, body);
        self.notify(to, &frame[..length]);
    }

    pub(super) fn tell_again(&mut self, script: &mut Script<'_>) {
        let (to, which) = (script.below(self.hosts.len()), script.below(MAX_HEARD));
        let Some(mut frame) = self.heard.get(which).cloned() else {
            return;
        };
        for _ in 0..script.below(4) {
            let at = usize::from(script.u16()) % frame.len();
            frame[at] = script.u8();
        }
        let sound = parse(&frame).is_ok();
        make_checksum_fit(&mut frame);
        debug_assert!(!sound || parse(&frame).is_ok());
        self.notify(to, &frame);
    }
}

/// Position of the checksum in a frame: the bytes behind it are sealed by the origin, those before
/// it belong to one hop.
const CHECKSUM: Range<usize> = 28..32;
const KIND_AT: usize = 17;
const FLAGS_AT: usize = 27;
const PAYLOAD_BYTES_AT: usize = 38;

/// Sets a valid checksum. A frame shorter than its stated length is left unchanged.
pub fn make_checksum_fit(frame: &mut [u8]) {
    if frame.len() < OVERHEAD_BYTES {
        return;
    }
    let payload_bytes = u16::from_be_bytes([frame[PAYLOAD_BYTES_AT], frame[PAYLOAD_BYTES_AT + 1]]);
    let end = OVERHEAD_BYTES + usize::from(payload_bytes);
    let Some(sealed) = frame.get(CHECKSUM.end..end) else {
        return;
    };
    let mut content = crc32fast::Hasher::new();
    content.update(&[frame[KIND_AT], frame[FLAGS_AT] & Flags::SEALED.0]);
    content.update(sealed);
    let mut whole = crc32fast::Hasher::new_with_initial(content.finalize());
    whole.update(&frame[..CHECKSUM.start]);
    frame[CHECKSUM].copy_from_slice(&whole.finalize().to_be_bytes());
}
