//! A host outside the session that receives the frames of every cable, and replays some of them,
//! unchanged or with other values.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ethbcast_lab::Lab;
use ethbcast_transport::sim::Random;
use ethbcast_transport::wire::{EtherType, EthernetHeader, Flags, Header, OVERHEAD_BYTES, Rank, parse, seal};

use super::scenario::{Attack, STRANGER};
use crate::lab::{Tap, destination};

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
        lab.set_learning(STRANGER, false)?;
        let ear = lab.run_at_switches(Tap::everywhere)??;
        let mouth = lab.run_on(STRANGER, || Tap::on("eth0"))??;
        let (stop, loud, sent) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default(), Arc::default());
        let (told, may_speak, count) = (Arc::clone(&stop), Arc::clone(&loud), Arc::clone(&sent));
        let mut head = Head { ear, mouth, attack, random: Random::new(seed), heard: Vec::new(), next: 0 };
        let worker = thread::Builder::new().name("attacker".into()).spawn(move || {
            while !told.load(Ordering::Relaxed) && head.turn(may_speak.load(Ordering::Relaxed), &count).is_ok() {
                thread::sleep(PAUSE);
            }
        })?;
        Ok(Self { stop, loud, sent, worker: Some(worker) })
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
        let Ok(frame) = parse(&heard) else { return heard };
        let mut header = frame.header;
        let mut forged = heard[..OVERHEAD_BYTES].to_vec();
        forged.extend_from_slice(frame.payload);
        for _ in 0..=self.random.below(2) {
            self.mutate(&mut header, &mut forged);
        }
        let (source, destination) = (frame.source, destination(&heard));
        let link = EthernetHeader { source, destination, ether_type: EtherType::DEFAULT };
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
                    let at = OVERHEAD_BYTES + random.below((frame.len() - OVERHEAD_BYTES) as u64) as usize;
                    frame[at] = random.next_u64() as u8;
                }
            }
            _ => {}
        }
    }
}
