//! Fault injection: breaks cables, hosts and disks during a run, or sends forged frames.

use super::play::{ChaosRun, Receiver};
use super::scenario::{Attack, ChaosEvent, Deed, Manners, OUTSIDER, ROOT};
use crate::lab::{SmallDisk, Tap, ThinDisk, destination, faults, power_off, within};
use ethbcast_lab::Lab;
use ethbcast_transport::sim::Random;
use ethbcast_transport::wire::{
    EtherType, EthernetHeader, Flags, Header, Kind, OVERHEAD_BYTES, Rank, parse, seal,
};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::Signal;
use nix::sys::time::TimeSpec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// Size of the session that an attacker records before it replays it.
const REHEARSED_BYTES: u64 = 256 << 10;
const REHEARSAL: Duration = Duration::from_secs(20);

impl Deed {
    pub fn starts_a_program(self) -> bool {
        matches!(self, Deed::Restart | Deed::Send)
    }
}

pub trait Strike {
    fn strike(&mut self, event: &ChaosEvent) -> anyhow::Result<()>;

    fn prepare_attack(&mut self) -> anyhow::Result<()>;
}

impl Strike for ChaosRun<'_> {
    fn strike(&mut self, event: &ChaosEvent) -> anyhow::Result<()> {
        let host = event.host.as_str();
        match event.deed {
            Deed::Kill => signal(self, host, Signal::SIGKILL)?,
            Deed::Terminate => signal(self, host, Signal::SIGTERM)?,
            Deed::Stop => signal(self, host, Signal::SIGSTOP)?,
            Deed::Continue => signal(self, host, Signal::SIGCONT)?,
            Deed::PowerOff => power_off(self.lab(), host)?,
            Deed::Faults(which, way, fraction) => {
                self.lab()
                    .set_faults(host, &faults(self.lab(), which, way, fraction)?)?;
            }
            Deed::Heal => self.lab().set_faults(host, &[])?,
            Deed::Loss(fraction) => self.lab().set_loss(host, fraction)?,
            Deed::Port(up) => self.lab().set_port(host, up)?,
            Deed::Link(up) => self.lab().set_link(host, up)?,
            Deed::Detour(manners) => {
                let relay = Relay::start(self.lab(), host, manners, self.scenario.seed)?;
                self.relays.push(relay);
            }
            Deed::SmallDisk(bytes) => {
                let disk = SmallDisk::mount(&self.directory(host), bytes)?;
                self.small_disks.push((host.to_owned(), disk));
            }
            Deed::ThinDisk(room_mib) => {
                let store = self.directory(&format!("store-{host}"));
                fs::create_dir(&store)?;
                self.thin_disks
                    .push(ThinDisk::make(&store, &self.directory(host), room_mib)?);
            }
            Deed::FillDisk => {
                let mut own = self.small_disks.iter().filter(|(of, _)| of == host);
                own.try_for_each(|(_, disk)| disk.fill())?;
            }
            Deed::Restart => self.start_again(host)?,
            Deed::Attack(_) => self.attacker.iter().for_each(Attacker::speak),
            Deed::Send => {
                let (seed, bytes) = (self.scenario.seed, self.scenario.bytes);
                self.second = Some(self.sender(OUTSIDER, !seed, bytes / 2 + 1)?);
            }
        }
        Ok(())
    }

    fn prepare_attack(&mut self) -> anyhow::Result<()> {
        let attack = self
            .pending
            .iter()
            .find_map(|pending| match pending.event.deed {
                Deed::Attack(attack) => Some(attack),
                _ => None,
            });
        let Some(attack) = attack else { return Ok(()) };
        self.attacker = Some(Attacker::start(self.lab(), attack, self.scenario.seed)?);
        if attack == Attack::Old {
            rehearse(self)
        } else {
            Ok(())
        }
    }
}

fn signal(play: &mut ChaosRun, host: &str, signal: Signal) -> anyhow::Result<()> {
    play.processes()
        .filter(|(of, _)| *of == host)
        .try_for_each(|(_, process)| process.signal(signal))
}

fn rehearse(play: &mut ChaosRun) -> anyhow::Result<()> {
    let directory = play.directory("rehearsal");
    let start = |host: String| {
        let own = directory.join(&host);
        fs::create_dir_all(&own)?;
        Receiver::start(play.stage, play.lab(), &host, &own, false)
    };
    let mut receivers = play
        .hosts()
        .into_iter()
        .map(start)
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut root = play.sender(ROOT, 0, REHEARSED_BYTES)?;
    within(REHEARSAL, || {
        let mut all = receivers
            .iter_mut()
            .map(|receiver| &mut receiver.process)
            .chain([&mut root]);
        all.all(|process| matches!(process.ended(), Ok(Some(_))))
            .then_some(())
    });
    drop((receivers, root));
    fs::remove_dir_all(&directory)?;
    Ok(())
}

const MAX_SLEEP: Duration = Duration::from_millis(20);
const BATCH: usize = 64;
const FRAME_BYTES: usize = 1 << 16;
/// Bits are flipped behind the Ethernet header only: a frame for the wrong host would show nothing.
const FIRST_FLIPPED: u64 = 14;
/// Data frames towards the host for each that [`Relay::damage`] damages.
const DAMAGED_EACH: u64 = 900;

/// A running relay. Dropping it ends it, and its host's cable is then cut.
pub struct Relay {
    stop: Arc<AtomicBool>,
    carried: Arc<AtomicU64>,
    left: Arc<AtomicU64>,
    worker: Option<JoinHandle<()>>,
}

impl Relay {
    pub fn start(lab: &Lab, host: &str, manners: Manners, seed: u64) -> anyhow::Result<Self> {
        let detour = lab.detour(host)?;
        let sides = lab.run_at_switches(|| -> anyhow::Result<[Tap; 2]> {
            Ok([
                Tap::on(&detour.towards_host)?,
                Tap::on(&detour.towards_switch)?,
            ])
        })??;
        let (stop, carried, left) = (
            Arc::new(AtomicBool::new(false)),
            Arc::<AtomicU64>::default(),
            Arc::<AtomicU64>::default(),
        );
        let (told, count) = (Arc::clone(&stop), Arc::clone(&carried));
        let mut hands = Hands {
            sides,
            manners,
            random: Random::new(seed),
            held: BinaryHeap::new(),
            last: [None; 2],
            seen: 0,
            left: Arc::clone(&left),
        };
        let worker = std::thread::Builder::new()
            .name("relay".into())
            .spawn(move || {
                // The relay ends early only if its cable is cut.
                while !told.load(Ordering::Relaxed) && hands.turn(&count).is_ok() {}
            })?;
        Ok(Self {
            stop,
            carried,
            left,
            worker: Some(worker),
        })
    }

    /// Damages each 900th data frame towards the host, `frames` in all; returns how many of the
    /// earlier ones have not been damaged yet.
    pub fn damage(&self, frames: u64) -> u64 {
        self.left.swap(frames, Ordering::Relaxed)
    }

    pub fn carried_frames(&self) -> u64 {
        self.carried.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The thread's result does not matter.
        drop(self.worker.take().map(JoinHandle::join));
    }
}

/// A frame that is held: its due time, a number that keeps frames of one due time in order, and the
/// side it came from.
type Held = Reverse<(Instant, u64, usize, Vec<u8>)>;

struct Hands {
    sides: [Tap; 2],
    manners: Manners,
    random: Random,
    held: BinaryHeap<Held>,
    /// Due time of the last frame from each side that was not reordered.
    last: [Option<Instant>; 2],
    /// Data frames towards the host, but for last ones.
    seen: u64,
    /// Frames that are still to be damaged.
    left: Arc<AtomicU64>,
}

impl Hands {
    fn turn(&mut self, carried: &AtomicU64) -> anyhow::Result<()> {
        let mut buffer = vec![0; FRAME_BYTES];
        for from in 0..2 {
            for _ in 0..BATCH {
                let Some(length) = self.sides[from].receive(&mut buffer)? else {
                    break;
                };
                self.take(from, &buffer[..length]);
            }
        }
        let now = Instant::now();
        while self
            .held
            .peek()
            .is_some_and(|Reverse((due, ..))| *due <= now)
        {
            let Some(Reverse((_, _, from, frame))) = self.held.pop() else {
                break;
            };
            // A full queue drops, as a switch does.
            carried.fetch_add(
                u64::from(self.sides[1 - from].send(&frame)?),
                Ordering::Relaxed,
            );
        }
        self.sleep()
    }

    fn take(&mut self, from: usize, frame: &[u8]) {
        if self.random.chance(self.manners.drop) {
            return;
        }
        let copies = 1 + usize::from(self.random.chance(self.manners.duplicate));
        for _ in 0..copies {
            let mut frame = frame.to_vec();
            if self.random.chance(self.manners.corrupt) && frame.len() as u64 > FIRST_FLIPPED {
                self.flip(&mut frame);
            }
            if (self.manners.damage > 0.0 && self.random.chance(self.manners.damage))
                || self.is_due(from, &frame)
            {
                self.damage(&mut frame);
            }
            let due = self.due(from);
            let number = self.random.next_u64() >> 40 | (self.held.len() as u64) << 24;
            self.held.push(Reverse((due, number, from, frame)));
        }
    }

    fn flip(&mut self, frame: &mut [u8]) {
        for _ in 0..=self.random.below(3) {
            let at = FIRST_FLIPPED + self.random.below(frame.len() as u64 - FIRST_FLIPPED);
            frame[at as usize] ^= 1 << self.random.below(8);
        }
    }

    fn is_due(&mut self, from: usize, frame: &[u8]) -> bool {
        let is_data = |header: Header| header.kind == Kind::DATA && !header.flags.has(Flags::LAST);
        if from == 0 || !parse(frame).is_ok_and(|frame| is_data(frame.header)) {
            return false;
        }
        self.seen += 1;
        let left = self.left.load(Ordering::Relaxed);
        let is_due = left > 0 && self.seen.is_multiple_of(DAMAGED_EACH);
        self.left.fetch_sub(u64::from(is_due), Ordering::Relaxed);
        is_due
    }

    fn damage(&mut self, frame: &mut [u8]) {
        let copy = frame.to_vec();
        let Ok(parsed) = parse(&copy) else { return };
        let (header, source, payload_bytes) = (parsed.header, parsed.source, parsed.payload.len());
        if header.kind != Kind::DATA || payload_bytes == 0 {
            return;
        }
        let at = OVERHEAD_BYTES + self.random.below(payload_bytes as u64) as usize;
        frame[at] ^= 1 + self.random.below(255) as u8;
        seal(
            frame,
            EthernetHeader {
                source,
                destination: destination(&copy),
                ether_type: EtherType::DEFAULT,
            },
            &header,
            payload_bytes,
        );
    }

    fn due(&mut self, from: usize) -> Instant {
        let now = Instant::now();
        if self.random.chance(self.manners.reorder) {
            return now + self.manners.late.mul_f64(self.random.unit());
        }
        let due = now + self.manners.jitter.mul_f64(self.random.unit());
        let due = self.last[from].map_or(due, |last| due.max(last));
        self.last[from] = Some(due);
        due
    }

    fn sleep(&self) -> anyhow::Result<()> {
        let now = Instant::now();
        let next = self.held.peek().map_or(MAX_SLEEP, |Reverse((due, ..))| {
            due.saturating_duration_since(now)
        });
        let mut fds = [0, 1].map(|side| PollFd::new(self.sides[side].as_fd(), PollFlags::POLLIN));
        match ppoll(
            &mut fds,
            Some(TimeSpec::from_duration(next.min(MAX_SLEEP))),
            None,
        ) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

const MEMORY: usize = 4096;
const PAUSE: Duration = Duration::from_millis(5);
const BURST: usize = 8;

pub struct Attacker {
    stop: Arc<AtomicBool>,
    loud: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    worker: Option<JoinHandle<()>>,
}

impl Attacker {
    pub fn start(lab: &Lab, attack: Attack, seed: u64) -> anyhow::Result<Self> {
        // Borrowed addresses must stay on their own ports.
        lab.set_learning(OUTSIDER, false)?;
        let ear = lab.run_at_switches(Tap::everywhere)??;
        let mouth = lab.run_on(OUTSIDER, || Tap::on("eth0"))??;
        let (stop, loud, sent) = (
            Arc::<AtomicBool>::default(),
            Arc::<AtomicBool>::default(),
            Arc::default(),
        );
        let (told, may_speak, count) = (Arc::clone(&stop), Arc::clone(&loud), Arc::clone(&sent));
        let mut head = Head {
            ear,
            mouth,
            attack,
            random: Random::new(seed),
            heard: Vec::new(),
            next: 0,
        };
        let worker = thread::Builder::new()
            .name("attacker".into())
            .spawn(move || {
                while !told.load(Ordering::Relaxed)
                    && head.turn(may_speak.load(Ordering::Relaxed), &count).is_ok()
                {
                    thread::sleep(PAUSE);
                }
            })?;
        Ok(Self {
            stop,
            loud,
            sent,
            worker: Some(worker),
        })
    }

    pub fn speak(&self) {
        self.loud.store(true, Ordering::Relaxed);
    }

    pub fn sent_frames(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The thread's result does not matter.
        drop(self.worker.take().map(JoinHandle::join));
    }
}

struct Head {
    ear: Tap,
    mouth: Tap,
    attack: Attack,
    random: Random,
    heard: Vec<Vec<u8>>,
    next: usize,
}

impl Head {
    fn turn(&mut self, may_speak: bool, sent: &AtomicU64) -> anyhow::Result<()> {
        // Only an old session's recorded frames are replayed; frames of this one are not mixed in.
        if !may_speak || self.attack != Attack::Old {
            self.listen()?;
        }
        if !may_speak || self.heard.is_empty() {
            return Ok(());
        }
        for _ in 0..BURST {
            let frame = self.frame();
            sent.fetch_add(u64::from(self.mouth.send(&frame)?), Ordering::Relaxed);
        }
        Ok(())
    }

    fn listen(&mut self) -> anyhow::Result<()> {
        let mut buffer = vec![0; 1 << 16];
        while let Some(length) = self.ear.receive(&mut buffer)? {
            if parse(&buffer[..length]).is_err() {
                continue;
            }
            let frame = buffer[..length].to_vec();
            if self.heard.len() < MEMORY {
                self.heard.push(frame);
            } else {
                let at = self.random.below(MEMORY as u64) as usize;
                self.heard[at] = frame;
            }
        }
        Ok(())
    }

    fn frame(&mut self) -> Vec<u8> {
        let at = self.random.below(self.heard.len() as u64) as usize;
        match self.attack {
            Attack::Old => {
                self.next = (self.next + 1) % self.heard.len();
                self.heard[self.next].clone()
            }
            Attack::Echo => self.heard[at].clone(),
            Attack::Forge => self.forged(at),
        }
    }

    fn forged(&mut self, at: usize) -> Vec<u8> {
        let heard = self.heard[at].clone();
        let Ok(frame) = parse(&heard) else {
            return heard;
        };
        let mut header = frame.header;
        let mut forged = heard[..OVERHEAD_BYTES].to_vec();
        forged.extend_from_slice(frame.payload);
        for _ in 0..=self.random.below(2) {
            self.mutate(&mut header, &mut forged);
        }
        let (source, destination) = (frame.source, destination(&heard));
        let link = EthernetHeader {
            source,
            destination,
            ether_type: EtherType::DEFAULT,
        };
        let payload_bytes = forged.len() - OVERHEAD_BYTES;
        seal(&mut forged, link, &header, payload_bytes);
        forged
    }

    fn mutate(&mut self, header: &mut Header, frame: &mut [u8]) {
        let random = &mut self.random;
        match random.below(9) {
            0 => header.sequence = header.sequence.wrapping_add(random.below(2000)),
            1 => header.sequence = random.next_u64() >> random.below(64),
            2 => header.stamp = header.stamp.wrapping_add(1 << random.below(32)),
            3 => header.flags = Flags(header.flags.0 ^ 1 << random.below(8)),
            4 => header.rank = Rank(random.below(9) as u16),
            5 => header.epoch = header.epoch.wrapping_add(1 + random.below(3) as u8),
            _ if frame.len() > OVERHEAD_BYTES => {
                for _ in 0..=random.below(4) {
                    let at = OVERHEAD_BYTES
                        + random.below((frame.len() - OVERHEAD_BYTES) as u64) as usize;
                    frame[at] = random.next_u64() as u8;
                }
            }
            _ => {}
        }
    }
}
