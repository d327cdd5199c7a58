//! A relay between the two ends of a cable that forwards frames both ways, with faults.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ethbcast_lab::Lab;
use ethbcast_transport::sim::Random;
use ethbcast_transport::wire::{EtherType, EthernetHeader, Kind, OVERHEAD_BYTES, parse, seal};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use super::scenario::Manners;
use crate::lab::{Tap, destination};

const MAX_SLEEP: Duration = Duration::from_millis(20);
const BATCH: usize = 64;
const FRAME_BYTES: usize = 1 << 16;
/// Bits are flipped behind the Ethernet header only: a frame for the wrong host would tell nothing.
const FIRST_FLIPPED: u64 = 14;

/// A relay at work. Dropping it ends it, and its host's cable is then cut.
pub struct Relay {
    stop: Arc<AtomicBool>,
    carried: Arc<AtomicU64>,
    worker: Option<JoinHandle<()>>,
}

impl Relay {
    pub fn start(lab: &Lab, host: &str, manners: Manners, seed: u64) -> anyhow::Result<Self> {
        let detour = lab.detour(host)?;
        let sides = lab.run_at_switches(|| -> anyhow::Result<[Tap; 2]> {
            Ok([Tap::on(&detour.towards_host)?, Tap::on(&detour.towards_switch)?])
        })??;
        let (stop, carried) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (told, count) = (Arc::clone(&stop), Arc::clone(&carried));
        let mut hands = Hands { sides, manners, random: Random::new(seed), held: BinaryHeap::new(), last: [None; 2] };
        let worker = std::thread::Builder::new().name("relay".into()).spawn(move || {
            // It ends early only if its cable is cut.
            while !told.load(Ordering::Relaxed) && hands.turn(&count).is_ok() {}
        })?;
        Ok(Self { stop, carried, worker: Some(worker) })
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
}

impl Hands {
    fn turn(&mut self, carried: &AtomicU64) -> anyhow::Result<()> {
        let mut buffer = vec![0; FRAME_BYTES];
        for from in 0..2 {
            for _ in 0..BATCH {
                let Some(length) = self.sides[from].receive(&mut buffer)? else { break };
                self.take(from, &buffer[..length]);
            }
        }
        let now = Instant::now();
        while self.held.peek().is_some_and(|Reverse((due, ..))| *due <= now) {
            let Some(Reverse((_, _, from, frame))) = self.held.pop() else { break };
            // A full queue drops, as a switch does.
            carried.fetch_add(u64::from(self.sides[1 - from].send(&frame)?), Ordering::Relaxed);
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
            if self.manners.damage > 0.0 && self.random.chance(self.manners.damage) {
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
            EthernetHeader { source, destination: destination(&copy), ether_type: EtherType::DEFAULT },
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
        let next = self.held.peek().map_or(MAX_SLEEP, |Reverse((due, ..))| due.saturating_duration_since(now));
        let mut fds = [0, 1].map(|side| PollFd::new(self.sides[side].as_fd(), PollFlags::POLLIN));
        match ppoll(&mut fds, Some(TimeSpec::from_duration(next.min(MAX_SLEEP))), None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}
