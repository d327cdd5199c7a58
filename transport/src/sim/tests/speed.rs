//! Speed of the simulator: printed, not asserted, as it depends on the machine (`--nocapture`, best
//! with `--release`).

use std::time;

use super::*;
use crate::sim::NoFaults;

struct Load {
    left: u32,
    answers: bool,
    frame: Vec<u8>,
}

impl Machine for Load {
    fn handle_frame(&mut self, _: Instant, _: &[u8]) {
        self.left += u32::from(self.answers);
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_transmit(&mut self, _: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        buffer[..self.frame.len()].copy_from_slice(&self.frame);
        Some(self.frame.len())
    }

    fn poll_timeout(&self, _now: Instant) -> Option<Deadline> {
        None
    }
}

fn cast(hosts: usize, frames: u32) -> Vec<Load> {
    (0..hosts)
        .map(|host| Load {
            left: if host == 0 { frames } else { 0 },
            answers: false,
            frame: frame(host, GROUP, 0, 1514),
        })
        .collect()
}

/// Host 0 sends to host 1, which sends on to host 2, and so on; all others send one frame of their
/// own, so that switches learn their addresses.
fn chain(hosts: usize, frames: u32) -> Vec<Load> {
    (0..hosts)
        .map(|host| Load {
            left: if host == 0 { frames } else { 1 },
            answers: host > 0 && host + 1 < hosts,
            frame: frame(host, host_mac((host + 1) % hosts), 0, 1514),
        })
        .collect()
}

fn measure(what: &str, network: &Network, machines: impl Fn() -> Vec<Load>, runs: u32) {
    let started = time::Instant::now();
    let (mut events, mut received) = (0, 0);
    for _ in 0..runs {
        let mut simulation = Simulation::new(network, machines(), NoFaults);
        assert!(simulation.run(LATE, idle).is_quiet());
        let stats = simulation.stats();
        assert_eq!(stats.drops.harmful(), 0, "{:?}", stats.drops);
        events += stats.events;
        received += stats.received_frames;
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{what}: {events} events, {received} deliveries in {seconds:.3} s: {:.2} million events/s",
        events as f64 / seconds / 1e6
    );
}

#[test]
fn how_many_events_per_second() {
    measure("small runs, 8 hosts", &star(8), || cast(8, 20), 2_000);
    measure("cast, 16 hosts", &star(16), || cast(16, 20_000), 1);
    let line = Network::line(4, 4, Cable::GIGABIT, &member());
    measure("chain, 16 hosts", &line, || chain(16, 10_000), 1);
    measure("cast, 10000 hosts", &star(10_000), || cast(10_000, 50), 1);
    let wide = Network::line(20, 20, Cable::GIGABIT, &member());
    measure("chain, 400 hosts", &wide, || chain(400, 1_000), 1);
}
