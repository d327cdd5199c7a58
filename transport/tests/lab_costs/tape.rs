//! Recorded calls to one host of a simulated broadcast, replayed to count that host's instructions
//! alone.

use crate::case::{Case, payload};
use ethbcast_transport::sim::{Cable, Faults, HostSettings, Network, Outcome, Simulation};
use ethbcast_transport::stream::{Ending, Stream};
use ethbcast_transport::wire::group_mac;
use ethbcast_transport::{Alone, Deadline, Instant, Machine};
use std::cell::RefCell;
use std::hint::black_box;
use std::time::Duration;

enum Call {
    Frame(Instant, Vec<u8>),
    Timeout(Instant),
    Transmit(Instant, Option<usize>),
    Deadline(Instant),
    Urgent,
    Push(Vec<u8>, Ending),
    Take(Instant, u64),
}

pub struct Tape {
    case: Case,
    host: usize,
    calls: Vec<Call>,
}

struct Taped {
    machine: Alone<Stream>,
    calls: RefCell<Vec<Call>>,
}

impl Machine for Taped {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        self.calls.get_mut().push(Call::Frame(now, frame.to_vec()));
        self.machine.handle_frame(now, frame);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.calls.get_mut().push(Call::Timeout(now));
        self.machine.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let length = self.machine.poll_transmit(now, buffer);
        self.calls.get_mut().push(Call::Transmit(now, length));
        length
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        self.calls.borrow_mut().push(Call::Deadline(now));
        self.machine.poll_timeout(now)
    }

    fn is_urgent(&self) -> bool {
        self.calls.borrow_mut().push(Call::Urgent);
        self.machine.is_urgent()
    }
}

fn turn(case: &Case, host: usize, taped: &mut Taped, now: Instant) {
    let (stream, calls) = (&mut taped.machine.part, taped.calls.get_mut());
    let lazy = stream.backlog_frames() < case.lazy_frames && !stream.feed().is_complete();
    if host > 0 {
        while let Some(frames) = stream
            .peek_run(u64::MAX)
            .map(|run| run.frames)
            .filter(|_| !lazy)
        {
            calls.push(Call::Take(now, frames));
            stream.consume_run(now, frames);
        }
        return;
    }
    let mut end = stream.feed().head();
    let begin = end;
    case.push(stream, &mut end, case.frames);
    calls.extend((begin..end).map(|sequence| Call::Push(payload(sequence), case.ending(sequence))));
}

/// Simulates `case` at 100 Mbit/s; returns the calls of each host.
///
/// # Panics
/// If an application of the case takes frames at intervals: applications are not called again here.
pub fn record(case: &Case, faults: impl Faults) -> Vec<Tape> {
    assert_eq!(case.last_takes, None, "{case:?}");
    let settings = HostSettings {
        groups: vec![group_mac("test")],
        ..HostSettings::default()
    };
    let network = Network::star(
        case.hosts,
        Cable::new(100_000_000, Duration::from_micros(5)),
        &settings,
    );
    let taped = |host| Taped {
        machine: Alone::new(case.stream(host)),
        calls: RefCell::default(),
    };
    let mut simulation = Simulation::new(&network, (0..case.hosts).map(taped).collect(), faults);
    simulation.set_event_limit(1_000_000);
    let outcome = simulation.run(Instant::from_nanos(60_000_000_000), |host, taped, now| {
        turn(case, host, taped, now);
        None
    });
    assert!(
        matches!(outcome, Outcome::Quiet { .. }),
        "{case:?}: {outcome:?}"
    );
    let tape = |(host, taped): (usize, &Taped)| {
        assert!(
            host == 0 || taped.machine.part.consumed() == case.frames,
            "{case:?}: host {host} has everything"
        );
        Tape {
            case: case.clone(),
            host,
            calls: taped.calls.take(),
        }
    };
    simulation.machines().iter().enumerate().map(tape).collect()
}

pub fn counted_frames(frames: u64) -> u64 {
    frames - frames / 4
}

impl Tape {
    pub fn play_again(&self) -> bool {
        let mut machine = Alone::new(self.case.stream(self.host));
        let mut buffer = vec![0; 2000];
        let (start, rest) = self.calls.split_at(self.start());
        let started = play(&mut machine, start, &mut buffer);
        counting_mark();
        let same = play(&mut machine, rest, &mut buffer);
        counting_mark();
        started && same
    }

    fn start(&self) -> usize {
        let mut left = self.case.frames - counted_frames(self.case.frames);
        let is_rest = |call: &Call| {
            let frames = match call {
                Call::Push(..) => 1,
                Call::Take(_, frames) => *frames,
                _ => 0,
            };
            let is_rest = frames > 0 && left == 0;
            left = left.saturating_sub(frames);
            is_rest
        };
        self.calls
            .iter()
            .position(is_rest)
            .expect("every frame passed")
    }
}

/// Known to callgrind by name, which dumps its counts here.
#[inline(never)]
fn counting_mark() {
    black_box(());
}

pub fn allocate() {
    counting_mark();
    black_box(Box::new(black_box(7_u64)));
    counting_mark();
}

fn play(machine: &mut Alone<Stream>, calls: &[Call], buffer: &mut [u8]) -> bool {
    let mut same = true;
    for call in calls {
        match call {
            Call::Frame(now, frame) => machine.handle_frame(*now, frame),
            Call::Timeout(now) => machine.handle_timeout(*now),
            // As on a port: payloads stay in place.
            Call::Transmit(now, length) => {
                let frame = machine.poll_transmit_split(*now, buffer);
                same &= frame.map(|frame| frame.bytes()) == *length;
                black_box(
                    frame
                        .and_then(|frame| frame.kept)
                        .map(|kept| machine.payload(kept)),
                );
            }
            Call::Deadline(now) => {
                black_box(machine.poll_timeout(*now));
            }
            Call::Urgent => {
                black_box(machine.is_urgent());
            }
            Call::Push(payload, ending) => same &= machine.part.push(payload, *ending),
            Call::Take(now, frames) => {
                same &= machine
                    .part
                    .peek_run(u64::MAX)
                    .is_some_and(|run| black_box(run).frames == *frames);
                machine.part.consume_run(*now, *frames);
            }
        }
    }
    same
}
