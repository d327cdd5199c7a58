//! Whole machines: an input decides which frames arrive, which are lost, how time passes and how
//! their disks behave.

use super::script::Script;
use super::world::{Host, World};
use crate::communicator::{self, Process, Step};
use crate::session::{Case, data, hosts_of, session as session_number};
use ethbcast_collectives::session::application::{Again, Collected, MemoryContent, Next, Participant, Sink, Source};
use ethbcast_collectives::session::{Blocks, Done, Outcome, Timing, Trailer};
use ethbcast_planning::plan::Via;
use ethbcast_transport::sim::host_mac;
use ethbcast_transport::{Instant, MacAddr};
use std::time::Duration;

/// Kinds of a session's frames, and of a probe's.
const SESSION_KINDS: [u8; 20] = [1, 2, 3, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 99];
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
pub(super) struct Disk {
    collected: Collected,
    mood: Mood,
    published: bool,
}

impl Sink for Disk {
    fn has_room(&self) -> bool {
        self.mood != Mood::Stands
    }

    fn write(&mut self, now: Instant, bytes: &[u8], message_end: bool) {
        self.collected.write(now, bytes, message_end);
    }

    fn finish(&mut self, now: Instant, trailer: Trailer) {
        self.collected.finish(now, trailer);
    }

    fn publish(&mut self, _now: Instant) -> bool {
        self.published = true;
        true
    }

    fn verdict(&mut self, now: Instant) -> Option<Done> {
        match self.mood {
            Mood::Works => self.collected.verdict(now),
            Mood::Stands => None,
            Mood::Fails => Some(Done { outcome: Outcome::NoSpace, bytes: 0, digest: [0; 32], text: "full".to_owned() }),
        }
    }
}

type Session = Participant<Bytes, Disk>;

impl Host for Session {
    fn turn(&mut self, now: Instant) {
        Session::turn(self, now);
    }

    fn wrong(&self) -> Option<String> {
        self.streams().map_or(Ok(()), Blocks::audit).err().map(|error| error.to_string())
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
    let timing = Timing { stall, patience, sync: patience, dead: Duration::from_millis(700), ..Timing::default() };
    let case =
        Case { timing, late: (usize::from(script.u8() & 1), Duration::ZERO), ..Case::new(via, RECEIVERS, length) };
    let source = Bytes { content: MemoryContent::new(data(length, 1)), mood: Mood::Works };
    let hosts = hosts_of(&case, 1, source, |_| Disk::default());
    let macs = macs(hosts.len());
    let mut world = World::new(hosts, macs);
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
    for (number, receiving) in world.hosts().iter().filter_map(Session::receiving).enumerate() {
        let Disk { collected, published, .. } = receiving.sink();
        assert!(!published || collected.bytes() == sent, "receiver {number} has made other bytes visible");
    }
}

fn passes(script: &mut Script<'_>) -> Duration {
    Duration::from_micros(10) * (1 << script.below(20))
}

fn disk(world: &mut World<Session>, script: &mut Script<'_>) {
    let (host, mood, now) = (script.below(1 + RECEIVERS), script.below(4), world.now());
    let moods = [Mood::Works, Mood::Stands, Mood::Fails];
    match (world.host_mut(host), moods.get(mood)) {
        (Participant::Root(_, sending), Some(&mood)) => sending.source_mut().mood = mood,
        (Participant::Receiver(_, receiving), Some(&mood)) => receiving.sink_mut().mood = mood,
        (Participant::Root(root, _), None) => drop(root.stop_waiting(now, "enough")),
        (Participant::Receiver(receiver, receiving), None) => receiving.cancel(receiver, now),
    }
}

impl Host for Process {
    fn turn(&mut self, now: Instant) {
        Process::turn(self, now);
    }

    fn wrong(&self) -> Option<String> {
        self.member.as_ref().and_then(|member| member.audit().err()).map(|error| error.to_string())
    }
}

/// Kinds of a group's frames: of streams, messages and the group itself.
const GROUP_KINDS: [u8; 14] = [1, 2, 3, 32, 33, 34, 35, 36, 40, 41, 42, 26, 27, 99];

pub(super) fn group(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let ranks = 2 + script.u8() as u16 % 2;
    let message = |tag, bytes| Step::Message { from: 0, to: 1, tag, bytes };
    let program = [
        Step::Broadcast { root: 0, bytes: 3000 },
        message(1, 40),
        message(2, 9000),
        Step::Allgather { bytes: 700 },
        Step::Barrier,
        Step::Scatter { root: 1, bytes: 100 },
        Step::Gather { root: 0, bytes: 2000 },
    ];
    let patience = Duration::from_secs(2);
    let case = communicator::Case { patience, ..communicator::Case::new(ranks, &program) };
    let hosts: Vec<Process> = (0..usize::from(ranks)).map(|host| Process::new(&case, host, 1)).collect();
    let macs = macs(hosts.len());
    let mut world = World::new(hosts, macs);
    for _ in 0..script.u8() {
        world.round(ROUND / 10, 0);
    }
    for _ in 0..MAX_TURNS {
        if script.is_over() {
            break;
        }
        let number = world.hosts()[0].member.as_ref().and_then(|member| member.session()).unwrap_or(0);
        match script.below(5) {
            0 => world.round(ROUND, script.u8()),
            1 => world.round(passes(&mut script), 0),
            2 => world.tell_forged(&mut script, number, &GROUP_KINDS),
            _ => world.tell_again(&mut script),
        }
    }
    (0..100).for_each(|_| world.round(ROUND * 20, 0));
}
