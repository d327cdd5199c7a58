//! Test of the event loop's system calls per mebibyte of a stream, on a simulated cable. The real
//! loop and streams run over a cable under a virtual clock.
//!
//! On an AF_PACKET port a batch is one `sendmmsg`, a wait one `ppoll`, and frames are taken from
//! the ring at no cost.

use crate::case::{identity, peer};
use ethbcast_transport::link::{Blocked, Interest, Link, Waiter};
use ethbcast_transport::sim::host_mac;
use ethbcast_transport::stream::{Ending, Outlet, Stream};
use ethbcast_transport::{Alone, Instant, Machine, TimeSource, Tuning, drive};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

const HEADING: &str = "\
What the loop of one host of a chain of three asks of the system for a MiB of payload, in frames of 1500 bytes, of 8 MiB
in all: waits (each a system call and a wake-up), batches of frames to send (each a system call), frames sent, rounds.
A frame takes the host 1 us, a wait 4 us, and a cable 5 us.

";
const MIB: u64 = 1 << 20;
const MIBS: u64 = 8;
const PAYLOAD_BYTES: usize = 1454;
const FRAMES: u64 = MIBS * MIB / PAYLOAD_BYTES as u64 + 1;
const BATCH_FRAMES: usize = 64;
const FRAME_BYTES: usize = 1514;
const COALESCING: Duration = Duration::from_millis(1);
const FRAME_COSTS: Duration = Duration::from_micros(1);
const WAIT_COSTS: Duration = Duration::from_micros(4);
const CABLE_TAKES: Duration = Duration::from_micros(5);

struct End {
    machine: Alone<Stream>,
    host: usize,
    arrivals: VecDeque<(Instant, Vec<u8>)>,
    cable_free: Instant,
}

impl End {
    fn new(host: usize) -> End {
        let tuning = Tuning::default();
        let children = Outlet::Lanes((host + 1..3).take(1).map(peer).collect());
        let stream = match host {
            0 => Stream::origin(identity(0), PAYLOAD_BYTES, &children, tuning),
            _ => Stream::receiver(
                identity(host),
                PAYLOAD_BYTES,
                peer(host - 1),
                &children,
                tuning,
            ),
        };
        End {
            machine: Alone::new(stream),
            host,
            arrivals: VecDeque::new(),
            cable_free: Instant::START,
        }
    }

    fn turn(host: usize, stream: &mut Stream, now: Instant) -> bool {
        if host > 0 {
            while stream.peek().is_some() {
                stream.consume(now);
            }
            return stream.consumed() == FRAMES && stream.is_settled();
        }
        let ending = |sequence: u64| {
            if sequence + 1 == FRAMES {
                Ending::Stream
            } else {
                Ending::None
            }
        };
        while stream.feed().head() < FRAMES
            && stream.push(&[7; PAYLOAD_BYTES], ending(stream.feed().head()))
        {}
        stream.feed().head() == FRAMES && stream.is_settled()
    }

    fn next(&self) -> Option<Instant> {
        let deadline = self
            .machine
            .poll_timeout(self.cable_free)
            .map(|deadline| deadline.at);
        self.arrivals
            .front()
            .map(|&(at, _)| at)
            .into_iter()
            .chain(deadline)
            .min()
    }

    fn act(&mut self, now: Instant) -> Vec<Vec<u8>> {
        while self.arrivals.front().is_some_and(|&(at, _)| at <= now)
            && let Some((_, frame)) = self.arrivals.pop_front()
        {
            self.machine.handle_frame(now, &frame);
        }
        self.machine.handle_timeout(now);
        End::turn(self.host, &mut self.machine.part, now);
        let mut frames = Vec::new();
        let mut buffer = vec![0; FRAME_BYTES];
        while let Some(length) = self.machine.poll_transmit(now, &mut buffer) {
            frames.push(buffer[..length].to_vec());
        }
        frames
    }
}

#[derive(Default)]
struct CallCounts {
    rounds: u64,
    waits: u64,
    batches: u64,
    frames: u64,
}

struct World {
    now: Instant,
    bits_per_second: u64,
    own: usize,
    ends: Vec<End>,
    asked: CallCounts,
}

impl World {
    fn carry(&mut self, from: usize, now: Instant, frame: Vec<u8>) {
        let takes = Duration::from_nanos(
            (frame.len() as u64 + 24) * 8 * 1_000_000_000 / self.bits_per_second,
        );
        let free = self.ends[from].cable_free.max(now) + takes;
        self.ends[from].cable_free = free;
        let to = (0..self.ends.len()).find(|&host| frame.starts_with(&host_mac(host).octets()));
        self.ends[to.expect("it is for one of them")]
            .arrivals
            .push_back((free + CABLE_TAKES, frame));
    }

    fn next(&self) -> Option<(Instant, usize)> {
        let others = self.ends.iter().filter(|end| end.host != self.own);
        others.filter_map(|end| Some((end.next()?, end.host))).min()
    }

    fn act(&mut self, host: usize, at: Instant) {
        for frame in self.ends[host].act(at) {
            self.carry(host, at, frame);
        }
    }

    fn pass(&mut self, until: Option<Instant>, arrivals: bool) {
        loop {
            let arrival = self.ends[self.own]
                .arrivals
                .front()
                .map(|&(at, _)| at)
                .filter(|_| arrivals);
            let end = until.into_iter().chain(arrival).min();
            match self.next() {
                Some((at, host)) if end.is_none_or(|end| at < end) => {
                    self.act(host, at.max(self.now))
                }
                _ => {
                    let end = end.expect("something ends every wait");
                    self.now = self.now.max(end);
                    return;
                }
            }
        }
    }

    fn work(&mut self, costs: Duration) {
        self.pass(Some(self.now + costs), false);
    }
}

struct Here(Rc<RefCell<World>>);

impl TimeSource for Here {
    fn now(&self) -> Instant {
        self.0.borrow().now
    }
}

impl Waiter for Here {
    type Seen = ();

    fn wait(&self, _now: Instant, wanted: Interest) {
        let mut world = self.0.borrow_mut();
        world.asked.waits += 1;
        world.pass(wanted.until, wanted.arrivals);
        world.work(WAIT_COSTS);
    }

    fn take_wake(&self) -> bool {
        false
    }

    fn yield_now(&self) {}

    fn wake(&self) {}
}

impl Link for Here {
    type Error = Infallible;
    type Waiter = Here;

    fn name(&self) -> &str {
        "cable"
    }

    fn receive(&mut self, mut take: impl FnMut(&[u8])) -> usize {
        let mut world = self.0.borrow_mut();
        world.asked.rounds += 1;
        let (now, own) = (world.now, world.own);
        let arrivals = &mut world.ends[own].arrivals;
        let due = arrivals
            .iter()
            .take(BATCH_FRAMES)
            .take_while(|&&(at, _)| at <= now)
            .count();
        let frames: Vec<_> = arrivals.drain(..due).collect();
        frames.iter().for_each(|(_, frame)| take(frame));
        world.work(FRAME_COSTS * due as u32);
        due
    }

    fn send(
        &mut self,
        now: Instant,
        mut write: impl FnMut(&mut [u8]) -> Option<usize>,
    ) -> Result<usize, Infallible> {
        let mut world = self.0.borrow_mut();
        let (mut buffer, mut sent, own) = (vec![0; FRAME_BYTES], 0, world.own);
        while sent < BATCH_FRAMES
            && let Some(length) = write(&mut buffer)
        {
            world.carry(own, now, buffer[..length].to_vec());
            sent += 1;
        }
        world.asked.batches += u64::from(sent > 0);
        world.asked.frames += sent as u64;
        world.work(FRAME_COSTS * sent as u32);
        Ok(sent)
    }

    fn has_arrival(&self) -> bool {
        let world = self.0.borrow();
        world.ends[world.own]
            .arrivals
            .front()
            .is_some_and(|&(at, _)| at <= world.now)
    }

    fn blocked(&self) -> Option<Blocked> {
        None
    }

    fn waited(&mut self, _seen: ()) -> Result<(), Infallible> {
        Ok(())
    }

    fn receive_coalescing(&self) -> Duration {
        COALESCING
    }
}

fn play(own: usize, bits_per_second: u64) -> CallCounts {
    let ends = (0..3).map(End::new).collect();
    let mut world = World {
        now: Instant::START,
        bits_per_second,
        own,
        ends,
        asked: CallCounts::default(),
    };
    (0..3)
        .filter(|&host| host != own)
        .for_each(|host| world.act(host, Instant::START));
    let world = Rc::new(RefCell::new(world));
    let [mut link, waiter, clock] = [(); 3].map(|()| Here(Rc::clone(&world)));
    let mut machine = End::new(own).machine;
    let Ok(()) = drive(&mut link, &mut machine, &waiter, &clock, |machine, now| {
        assert!(
            now < Instant::START + Duration::from_secs(60),
            "host {own} gets no further"
        );
        if End::turn(own, &mut machine.part, now) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    std::mem::take(&mut world.borrow_mut().asked)
}

pub fn text() -> String {
    let mut text = HEADING.to_string();
    for mbits in [100, 1_000, 10_000] {
        for (own, name) in ["root", "relay", "leaf"].into_iter().enumerate() {
            let CallCounts {
                rounds,
                waits,
                batches,
                frames,
            } = play(own, mbits * 1_000_000);
            let [waits, batches, frames, rounds] =
                [waits, batches, frames, rounds].map(|all| all as f64 / MIBS as f64);
            writeln!(
                text,
                "{mbits:>5} Mbit/s, {name:<5}: {waits:>7.1} waits, {batches:>7.1} batches, {frames:>7.1} frames, \
                 {rounds:>7.1} rounds"
            )
            .expect("text");
        }
    }
    text
}
