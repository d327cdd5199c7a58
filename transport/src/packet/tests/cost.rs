//! What a frame costs. Not tests but measurements, on demand:
//! `cargo test --release -p ethbcast-transport packet::tests::cost -- --ignored --nocapture --test-threads 1`

use super::network::Cable;
use super::script::{frame, send};
use crate::packet::{Clock, Port, Waker, drive};
use crate::{Deadline, Instant, MacAddr, Machine};
use std::ops::ControlFlow;
use std::time::Duration;

/// Sends numbered frames of `frame_bytes` at a fixed rate or, with no gap, as fast as they go; counts what it is sent.
struct Bulk {
    to: MacAddr,
    frame_bytes: usize,
    left: u32,
    gap: Duration,
    next: Instant,
    received: u32,
    checksum: u64,
}

impl Bulk {
    fn new(to: MacAddr, left: u32, gap: Duration) -> Self {
        Bulk { to, frame_bytes: 1514, left, gap, next: Instant::START, received: 0, checksum: 0 }
    }
}

impl Machine for Bulk {
    fn handle_frame(&mut self, _now: Instant, frame: &[u8]) {
        self.received += 1;
        self.checksum = self.checksum.wrapping_add(u64::from(frame[17]));
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        if self.left == 0 || now < self.next {
            return None;
        }
        self.left -= 1;
        self.next += self.gap;
        buffer[..6].copy_from_slice(&self.to.octets());
        buffer[12..14].copy_from_slice(&super::network::ETHER_TYPE.to_be_bytes());
        Some(self.frame_bytes)
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        None
    }
}

/// CPU time this thread has used, in seconds.
fn thread_cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel keeps scheduler statistics");
    let nanos: f64 = stat.split(' ').next().and_then(|word| word.parse().ok()).expect("the first number is nanoseconds");
    nanos / 1e9
}

fn send_all(port: &mut Port, machine: &mut Bulk, clock: &Clock) {
    while machine.left > 0 {
        port.transmit(machine, clock.now()).expect("the interface is up");
    }
}

#[test]
#[ignore = "a measurement"]
fn taking_frames_from_the_ring() {
    let cable = Cable::lay(1500);
    let (mut a, mut b) = cable.open_both();
    let to = b.interface().mac;
    for payload_bytes in [46, 1500] {
        let mut best = f64::MAX;
        for _ in 0..10 {
            send(&mut a, (0..5000).map(|number| frame(to, number, payload_bytes)));
            let mut bulk = Bulk::new(to, 0, Duration::ZERO);
            let begin = std::time::Instant::now();
            while b.receive(|frame| bulk.handle_frame(Instant::START, frame)) > 0 {}
            best = best.min(begin.elapsed().as_secs_f64() / 5000.0);
            assert_eq!(bulk.received, 5000);
        }
        println!("ring, {payload_bytes:>4} bytes: {:.0} ns per frame", best * 1e9);
    }
}

#[test]
#[ignore = "a measurement"]
fn receiving_in_the_loop() {
    for gap_nanos in [0, 5_000, 14_700, 50_000, 200_000] {
        let cable = Cable::lay(1500);
        let (mut a, mut b) = cable.open_both();
        let frames = if gap_nanos == 0 { 300_000 } else { (1_500_000_000 / gap_nanos).min(200_000) as u32 };
        let mut bulk = Bulk::new(b.interface().mac, frames, Duration::from_nanos(gap_nanos));
        let (sender, receiver) = std::thread::scope(|scope| {
            let receiving = scope.spawn(|| {
                let waker = Waker::new().expect("a descriptor is free");
                let mut counter = Bulk::new(MacAddr::zero(), 0, Duration::ZERO);
                let clock = Clock::start();
                let mut last = (0, Instant::START);
                let begin = thread_cpu_seconds();
                // A heartbeat would end the loop; here another thread does.
                let stop = waker.clone();
                let watch = scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(2500));
                    stop.wake();
                });
                let ended = drive(&mut b, &mut counter, &waker, &clock, |counter, now| {
                    last = if counter.received > last.0 { (counter.received, now) } else { last };
                    let over = counter.received == frames || now.since(Instant::START) > Duration::from_millis(2400);
                    if over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                ended.expect("the interface is up");
                let cpu = thread_cpu_seconds() - begin;
                watch.join().expect("it only sleeps");
                (cpu, b.counters())
            });
            std::thread::sleep(Duration::from_millis(20));
            let begin = std::time::Instant::now();
            send_all(&mut a, &mut bulk, &Clock::start());
            (begin.elapsed().as_secs_f64(), receiving.join().expect("the receiver ends"))
        });
        let (cpu, counters) = receiver;
        let received = counters.frames_received as f64;
        println!(
            "loop at {:>3.0} kframes/s: {:.2} µs of CPU per frame, {:.2} wake-ups per frame, {:.1} % of a core, {} of {frames} lost",
            f64::from(frames) / sender / 1e3,
            cpu / received * 1e6,
            counters.poll_wakeups as f64 / received,
            cpu / sender * 100.0,
            counters.kernel_dropped,
        );
    }
}
