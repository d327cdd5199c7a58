//! Frames whose payload stays in the machine's memory.

use super::network::{Cable, ETHER_TYPE};
use super::script::{GIVES_UP, collect, numbers, until};
use ethbcast_transport::packet::{Clock, Waker, drive};
use ethbcast_transport::{Deadline, Instant, Kept, MacAddr, Machine, SplitFrame, Timer};

/// Number of payloads kept: as many as a link takes at a time.
const PLACES: usize = 64;
const PAYLOAD_BYTES: usize = 1496;

/// Sends numbered frames and keeps their payloads until it is called otherwise.
struct Keeper {
    to: MacAddr,
    next: u32,
    left: u32,
    payloads: Vec<[u8; PAYLOAD_BYTES]>,
}

impl Machine for Keeper {
    fn handle_frame(&mut self, _: Instant, _: &[u8]) {
        self.forget();
    }

    fn handle_timeout(&mut self, _: Instant) {
        self.forget();
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let split = self.poll_transmit_split(now, buffer)?;
        Some(split.join(buffer, |kept| self.payload(kept)))
    }

    fn poll_transmit_split(&mut self, _: Instant, buffer: &mut [u8]) -> Option<SplitFrame> {
        self.left = self.left.checked_sub(1)?;
        let number = self.next;
        self.next += 1;
        self.payloads[number as usize % PLACES] = payload(number);
        let head = [&self.to.octets()[..], &[2, 0, 0, 0, 0, 9], &ETHER_TYPE.octets(), &number.to_be_bytes()].concat();
        buffer[..head.len()].copy_from_slice(&head);
        let kept = Kept { stream: 1, sequence: number.into(), bytes: PAYLOAD_BYTES };
        Some(SplitFrame { written_bytes: head.len(), kept: Some(kept) })
    }

    fn payload(&self, kept: Kept) -> &[u8] {
        &self.payloads[kept.sequence as usize % PLACES]
    }

    fn poll_timeout(&self, _: Instant) -> Option<Deadline> {
        Some(Deadline { at: GIVES_UP, why: Timer::HEARTBEAT })
    }
}

impl Keeper {
    fn new(to: MacAddr, frames: u32) -> Keeper {
        Keeper { to, next: 0, left: frames, payloads: vec![[0xee; PAYLOAD_BYTES]; PLACES] }
    }

    fn forget(&mut self) {
        self.payloads.fill([0xee; PAYLOAD_BYTES]);
    }
}

fn payload(number: u32) -> [u8; PAYLOAD_BYTES] {
    std::array::from_fn(|at| (number as usize * 31 + at * 7) as u8)
}

/// Sends `frames` frames through a shaped cable; returns how often the sender was blocked, and the
/// frames that arrived.
fn sent(frames: u32, shape: [&str; 3]) -> (u64, Vec<Vec<u8>>) {
    let cable = Cable::lay(1500);
    let [rate, burst, limit] = shape;
    cable.shape(rate, burst, limit);
    let (mut a, mut b) = cable.open_both();
    let mut keeper = Keeper::new(b.interface().mac, frames);
    let waker = Waker::new().expect("a descriptor is free");
    let ended = drive(&mut a, &mut keeper, &waker, &Clock::start(), |keeper, now| {
        keeper.forget();
        until(keeper.left == 0, now)
    });
    ended.expect("the interface is up");
    assert_eq!(keeper.left, 0, "they never left");
    std::thread::sleep(std::time::Duration::from_millis(100));
    let counters = a.counters();
    (counters.send_would_block + counters.send_no_buffers, collect(&mut b))
}

/// The link copies unsent payloads when the loop goes on: the machine may change them.
#[test]
fn a_kept_payload_leaves_as_it_was_whoever_is_blocked() {
    for shape in [["50mbit", "16kb", "1mb"], ["50mbit", "4kb", "6kb"]] {
        let (held_up, mut frames) = sent(1000, shape);
        assert!(held_up > 0, "{shape:?}: nothing was left over");
        frames.sort();
        assert_eq!(numbers(&frames), (0..1000).collect::<Vec<_>>(), "{shape:?}");
        let wrong = frames.iter().zip(0..).filter(|(frame, number)| frame[18..] != payload(*number)).count();
        assert_eq!(wrong, 0, "{shape:?}");
    }
}
