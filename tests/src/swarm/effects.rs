//! Random simulation: record of the faults that really hit a frame, a call, a timer or a host. A
//! fault that was only drawn and scheduled is no hit.

use super::application::Shelf;
use super::class::Class;
use super::hosts::{GROUP, Host, HostSet, Hosts};
use super::schedule::{Happening, Role, Schedule};
use super::seed::{Draw, Seed};
use ethbcast_collectives::session::RootFailure;
use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::verified::{
    CHUNK_BYTES, ChunkSet, ChunkSize, Form, HaveSet, Origin, StretchHashes, StretchPlace,
};
use ethbcast_transport::sim::{CableId, Delivery, Fate, Network, Simulation, Stats};
use ethbcast_transport::wire::group_mac;
use ethbcast_transport::{Instant, Machine};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Effects {
    hits: [u64; Class::COUNT],
}

impl Default for Effects {
    fn default() -> Effects {
        Effects {
            hits: [0; Class::COUNT],
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Guests {
    pub roots: HostSet,
    pub misfits: HostSet,
    pub late: HostSet,
}

impl Guests {
    pub fn of(schedule: &Schedule) -> Guests {
        let all =
            |is: &dyn Fn(usize) -> bool| (1..schedule.hosts()).filter(|&host| is(host)).collect();
        Guests {
            roots: all(&|host| schedule.roles[host] == Role::Root),
            misfits: all(&|host| !matches!(schedule.roles[host], Role::Root | Role::Receiver)),
            late: all(&|host| {
                schedule.roles[host] == Role::Receiver && !schedule.starts[host].is_zero()
            }),
        }
    }

    pub fn class(&self, from: usize) -> Option<Class> {
        let classes = [
            (self.roots, Class::TwoRoots),
            (self.misfits, Class::Misfits),
            (self.late, Class::Latecomers),
        ];
        classes
            .into_iter()
            .find(|(hosts, _)| hosts.has(from))
            .map(|(_, class)| class)
    }
}

impl Effects {
    pub fn add(&mut self, class: Class, hits: u64) {
        self.hits[class.index()] += hits;
    }

    pub fn of(&self, class: Class) -> u64 {
        self.hits[class.index()]
    }

    pub fn on_happening(
        &mut self,
        schedule: &Schedule,
        happening: Happening,
        works: bool,
        is_dead: bool,
    ) {
        let returns = |host| {
            schedule
                .happenings
                .iter()
                .any(|&(_, other)| other == Happening::Restart(host))
        };
        let (class, touches) = match happening {
            Happening::Crash(0) => (Class::RootDeath, works),
            Happening::Crash(host) => (
                if returns(host) {
                    Class::Restart
                } else {
                    Class::Crash
                },
                works,
            ),
            Happening::Restart(host) => (
                if host == 0 {
                    Class::RootDeath
                } else {
                    Class::Restart
                },
                is_dead,
            ),
            Happening::Pause(..) => (Class::Pause, works),
            Happening::Interrupt(_) => (Class::Interrupt, works),
            // Counted by the frames that are lost.
            Happening::Cut(..)
            | Happening::CutTrunk(..)
            | Happening::Police(_)
            | Happening::FreeSwitches => return,
        };
        self.add(class, u64::from(touches));
    }

    pub fn on_end(
        &mut self,
        schedule: &Schedule,
        hosts: &[Host],
        shelves: &[Vec<Rc<Shelf>>],
        (network, trunks, stats): (&Network, &[CableId], &Stats),
    ) {
        let overflows = stats.drops.port_queue + stats.drops.nic_ring;
        self.add(Class::SmallRings, overflows);
        self.add(Class::SharedBuffer, stats.drops.port_queue);
        self.add(Class::StormControl, stats.drops.storm_control);
        self.add(Class::Policing, stats.drops.storm_control);
        self.add(Class::PauseFrames, stats.pauses);
        self.add(
            Class::LinkFlap,
            lost_by_cuts(schedule, network, trunks, stats),
        );
        for (number, (_, _, card)) in schedule.cluster.hosts.iter().enumerate() {
            let slow = !card.per_frame_cost.is_zero() || !card.wake_up.is_zero();
            self.add(
                Class::SlowCpu,
                if slow {
                    stats.hosts[number].received_frames
                } else {
                    0
                },
            );
        }
        for shelf in shelves.iter().flatten() {
            self.add(Class::DiskError, u64::from(shelf.failed.get()));
            self.add(Class::SlowDisk, shelf.waits.get());
            self.add(Class::Lazy, shelf.rests.get());
            self.add(Class::FalseHoldings, shelf.untrue.load(Ordering::Relaxed));
        }
        for (number, host) in hosts.iter().enumerate() {
            let other = schedule
                .feeds
                .get(number)
                .is_some_and(|&feed| feed != schedule.tuning.feed.frames);
            self.add(
                Class::OwnTuning,
                if other {
                    host.stream_stats().data_received
                } else {
                    0
                },
            );
            if let Participant::Root(root, sending) = host {
                self.add(Class::Lazy, sending.source().origin().rests());
                self.add(
                    Class::NoPlan,
                    u64::from(matches!(root.failure(), Some(RootFailure::NoPlan(..)))),
                );
            }
        }
    }
}

fn lost_by_cuts(schedule: &Schedule, network: &Network, trunks: &[CableId], stats: &Stats) -> u64 {
    let dies = |host| {
        schedule
            .happenings
            .iter()
            .any(|&(_, other)| other == Happening::Crash(host))
    };
    let cables = schedule
        .happenings
        .iter()
        .filter_map(|&(_, happening)| match happening {
            Happening::Cut(host, _) if !dies(host) => Some(network.cable_of(host)),
            Happening::CutTrunk(trunk, _) => Some(trunks[trunk]),
            _ => None,
        });
    let mut cables: Vec<usize> = cables.map(CableId::index).collect();
    cables.sort_unstable();
    cables.dedup();
    let lost =
        |at: &usize| stats.cables[*at].forward.drops.dead + stats.cables[*at].backward.drops.dead;
    cables.iter().map(lost).sum()
}

pub fn works(host: &Host) -> bool {
    let is_over = match host {
        Participant::Root(root, _) => root.is_over(),
        Participant::Receiver(receiver, _) => receiver.is_over(),
    };
    !is_over
}

pub fn rings_late(host: &impl Machine, due: &mut Option<Instant>, now: Instant) -> bool {
    let next = host.poll_timeout(now).map(|deadline| deadline.at);
    std::mem::replace(due, next).is_some_and(|due| due < now)
}

#[derive(Debug, Default)]
pub(super) struct SentRecord {
    /// Each frame's last stamp, 0 for never, and how often it was proved lost
    /// since.
    frames: Vec<(u32, u32)>,
    pub(super) lacking_from: Option<u64>,
    acknowledged: u64,
    outdated: Option<u64>,
    /// View, and frames retransmitted under it because of an outdated acknowledgement.
    believed: (u8, u64),
}

impl SentRecord {
    pub(super) fn end(&self) -> u64 {
        self.frames.len() as u64
    }

    pub(super) fn frame(&self, sequence: u64) -> (u32, u32) {
        self.frames
            .get(sequence as usize)
            .copied()
            .unwrap_or_default()
    }

    pub(super) fn set(&mut self, sequence: u64, state: (u32, u32)) {
        let at = sequence as usize;
        if self.frames.len() <= at {
            self.frames.resize(at + 1, (0, 0));
        }
        self.frames[at] = state;
    }

    pub(super) fn on_cursor(&mut self, cursor: u64) {
        self.lacking_from = Some(self.lacking_from.map_or(cursor, |known| known.min(cursor)));
        self.acknowledged = self.acknowledged.max(cursor);
        if cursor < self.acknowledged {
            self.on_outdated(cursor);
        }
    }

    pub(super) fn on_outdated(&mut self, cursor: u64) {
        self.outdated = Some(self.outdated.map_or(cursor, |known| known.min(cursor)));
    }

    /// Whether a sender may have trusted an outdated acknowledgement: only after the first view,
    /// and for at most `most` frames in each.
    pub(super) fn may_believe(&self, epoch: u8, sequence: u64, most: u64) -> bool {
        let frames = if self.believed.0 == epoch {
            self.believed.1
        } else {
            0
        };
        epoch > 1 && frames < most && self.outdated.is_some_and(|cursor| cursor <= sequence)
    }

    pub(super) fn believe(&mut self, epoch: u8) {
        self.believed = (
            epoch,
            if self.believed.0 == epoch {
                self.believed.1 + 1
            } else {
                1
            },
        );
    }
}

const OLDER: u64 = 0xA6E5_A60F;

pub fn frames() -> &'static [(usize, Vec<u8>)] {
    static FRAMES: OnceLock<Vec<(usize, Vec<u8>)>> = OnceLock::new();
    FRAMES.get_or_init(|| {
        let schedule = Schedule::plain(Seed::small(OLDER), 3, 4000);
        let mut hosts = Hosts::new(&schedule);
        let machines = (0..schedule.hosts())
            .map(|host| hosts.make(Instant::START, host))
            .collect();
        let (mut network, _) = schedule.cluster.network(schedule.mtu_bytes);
        (0..schedule.hosts())
            .for_each(|host| network.host_mut(host).groups = vec![group_mac(GROUP)]);
        let mut heard = Vec::new();
        let record = |delivery: &Delivery<'_>| {
            heard.push((delivery.to, delivery.frame.to_vec()));
            Fate::Deliver
        };
        let mut simulation = Simulation::new(&network, machines, record);
        let end = Instant::START + Duration::from_secs(10);
        let outcome = simulation.run(end, |_, host: &mut super::hosts::Host, now| host.turn(now));
        assert!(outcome.is_quiet(), "{outcome:?}");
        drop(simulation);
        heard
    })
}

pub fn has(frame: &[u8]) -> bool {
    frames()
        .first()
        .is_some_and(|(_, first)| first[32..36] == frame[32..36])
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The first chunks, as an interrupted run leaves them.
    Beginning(usize),
    /// Another version: one chunk in every `.0` differs, from chunk `.1` on.
    Older(usize, usize),
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldingTrouble {
    /// All chunks are announced as present.
    Lies,
    /// Bytes change after this number of reads.
    Changes(u64),
    /// Bytes are gone after this number of reads.
    Vanishes(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldingTerms {
    pub held: Held,
    pub trouble: Option<HoldingTrouble>,
}

impl HoldingTerms {
    pub fn draw(draw: &mut Draw, bytes: usize) -> HoldingTerms {
        let chunks = bytes.div_ceil(CHUNK_BYTES).max(1) as u64;
        let held = match draw.index(5) {
            0 => Held::Other,
            1 | 2 => Held::Beginning(draw.between(0, chunks) as usize),
            _ => Held::Older(
                draw.between(1, chunks + 1) as usize,
                draw.between(0, chunks) as usize,
            ),
        };
        HoldingTerms {
            held,
            trouble: None,
        }
    }

    pub fn with_trouble(self, draw: &mut Draw) -> HoldingTerms {
        let reads = draw.between(0, 3);
        let troubles = [
            HoldingTrouble::Lies,
            HoldingTrouble::Changes(reads),
            HoldingTrouble::Vanishes(reads),
        ];
        HoldingTerms {
            trouble: Some(draw.pick(&troubles)),
            ..self
        }
    }

    fn has(self, chunk: usize) -> bool {
        match self.held {
            Held::Beginning(chunks) => chunk < chunks,
            Held::Older(every, from) => chunk < from || !(chunk - from).is_multiple_of(every),
            Held::Other => false,
        }
    }

    fn bytes(self, content: &[u8]) -> Vec<u8> {
        let mut bytes = content.to_vec();
        for chunk in (0..content.len().div_ceil(CHUNK_BYTES)).filter(|&chunk| !self.has(chunk)) {
            bytes[chunk * CHUNK_BYTES] ^= 1;
        }
        if let Held::Beginning(chunks) = self.held {
            bytes.truncate(chunks * CHUNK_BYTES);
        }
        bytes
    }
}

impl Schedule {
    pub fn hold(&mut self, draw: &mut Draw) {
        if self.selects {
            return;
        }
        (
            self.selects,
            self.form,
            self.pipe,
            self.sized,
            self.mtu_bytes,
        ) = (true, Form::VERIFIED, false, true, 1500);
        let most = self.cluster.slowest() as usize / 8 / self.hosts().min(8);
        self.set_bytes((draw.log(1, 6 * CHUNK_BYTES as u64) as usize).min(most));
        let share = draw.pick(&[0.3, 0.7, 1.0]);
        let bytes = self.bytes;
        let mut holds =
            |host: usize| (host > 0 && draw.chance(share)).then(|| HoldingTerms::draw(draw, bytes));
        self.holdings = (0..self.disks.len()).map(&mut holds).collect();
    }
}

#[derive(Debug)]
pub struct Holding {
    terms: HoldingTerms,
    chunk: ChunkSize,
    bytes: Vec<u8>,
    content_bytes: u64,
    reads: AtomicU64,
    untrue: Arc<AtomicU64>,
}

impl Holding {
    pub fn new(
        (terms, chunk): (HoldingTerms, ChunkSize),
        content: &[u8],
        shelf: &Rc<Shelf>,
    ) -> Holding {
        Holding {
            terms,
            chunk,
            bytes: terms.bytes(content),
            content_bytes: content.len() as u64,
            reads: AtomicU64::new(0),
            untrue: Arc::clone(&shelf.untrue),
        }
    }

    fn at(&self, offset: u64, bytes: usize) -> Option<&[u8]> {
        self.bytes.get(offset as usize..offset as usize + bytes)
    }
}

impl HaveSet for Holding {
    fn have(&self, hash_list: &StretchHashes) -> ChunkSet {
        let is_here = |&chunk: &usize| {
            let here = self.at(hash_list.chunk_offset(chunk), hash_list.chunk_bytes(chunk));
            self.terms.trouble == Some(HoldingTrouble::Lies)
                || here.is_some_and(|bytes| hash_list.matches(chunk, bytes))
        };
        (0..hash_list.chunks()).filter(is_here).collect()
    }

    fn read(&self, stretch: u64, chunk: usize, to: &mut [u8]) -> Option<Origin> {
        let reads = self.reads.fetch_add(1, Ordering::Relaxed);
        let changed =
            matches!(self.terms.trouble, Some(HoldingTrouble::Changes(after)) if reads >= after);
        let gone =
            matches!(self.terms.trouble, Some(HoldingTrouble::Vanishes(after)) if reads >= after);
        let offset = StretchPlace::of(self.chunk, stretch, self.content_bytes)?.chunk_offset(chunk);
        // A damaged unit is marked by its first byte, unless it is missing altogether.
        let mut told = (offset as usize).div_ceil(CHUNK_BYTES)
            ..(offset as usize + to.len()).div_ceil(CHUNK_BYTES);
        let lies = told.any(|unit| !self.terms.has(unit)) || self.at(offset, to.len()).is_none();
        self.untrue
            .fetch_add(u64::from(changed || gone || lies), Ordering::Relaxed);
        to.copy_from_slice(self.at(offset, to.len()).filter(|_| !gone)?);
        to[0] ^= u8::from(changed);
        Some(Origin::InPlace)
    }
}
