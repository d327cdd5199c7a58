//! What a frame costs. Not tests but measurements, on demand:
//! `cargo test --release -p ethbcast-transport packet::tests::cost -- --ignored --nocapture --test-threads 1`

use super::network::Cable;
use super::script::{frame, send};
use crate::packet::{Clock, Port, Waker, drive};
use crate::{Deadline, Instant, MacAddr, Machine};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
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
        for gather_micros in [0, 100] {
            let frames = 1_500_000_000_u64.checked_div(gap_nanos).map_or(300_000, |frames| frames.min(200_000));
            measure_loop(frames as u32, Duration::from_nanos(gap_nanos), Duration::from_micros(gather_micros));
        }
    }
}

/// Sends `frames` frames, one per `gap`, to a loop that gathers for `gather`, and prints what they cost it.
fn measure_loop(frames: u32, gap: Duration, gather: Duration) {
    let cable = Cable::lay(1500);
    let mut a = cable.open(0, |_| {});
    let mut b = cable.open(1, |config| config.gather = gather);
    let mut bulk = Bulk::new(b.interface().mac, frames, gap);
    let waker = Waker::new().expect("a descriptor is free");
    let sent_all = AtomicBool::new(false);
    let (cpu, seconds) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| receive_until(&mut b, &waker, &sent_all));
        std::thread::sleep(Duration::from_millis(20));
        let begin = std::time::Instant::now();
        send_all(&mut a, &mut bulk, &Clock::start());
        let seconds = begin.elapsed().as_secs_f64();
        std::thread::sleep(Duration::from_millis(20));
        sent_all.store(true, Ordering::Release);
        waker.wake();
        (receiver.join().expect("the receiver ends"), seconds)
    });
    let counters = b.counters();
    let received = counters.frames_received as f64;
    println!(
        "{:>3.0} kframes/s, gathering {gather:>5?}: {:.2} µs of CPU and {:.2} wake-ups per frame, {:4.1} % of a core, {} lost",
        f64::from(frames) / seconds / 1e3,
        cpu / received * 1e6,
        counters.poll_wakeups as f64 / received,
        cpu / seconds * 100.0,
        counters.kernel_dropped,
    );
}

/// Runs the loop until `over`; returns the CPU time it took in seconds.
fn receive_until(port: &mut Port, waker: &Waker, over: &AtomicBool) -> f64 {
    let mut counter = Bulk::new(MacAddr::zero(), 0, Duration::ZERO);
    let begin = thread_cpu_seconds();
    let ended = drive(port, &mut counter, waker, &Clock::start(), |_, _| match over.load(Ordering::Acquire) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    ended.expect("the interface is up");
    thread_cpu_seconds() - begin
}
