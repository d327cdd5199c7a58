//! Test helper: a simulated host in the tests of cost in frames, with its clock and frame counts.

use ethbcast_transport::sim::host_mac;
use ethbcast_transport::stream::{Ending, Memory, Stream, StreamStats};
use ethbcast_transport::wire::{self, Flags, Kind};
use ethbcast_transport::{Deadline, Instant, Machine, Part};
use std::collections::VecDeque;
use std::fmt::Write;
use std::time::Duration;

#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    pub ahead_nanos: u64,
    /// Drift in parts per million; positive if it runs fast.
    pub faster_ppm: i64,
}

impl Clock {
    pub fn local(self, at: Instant) -> Instant {
        let nanos = i128::from(at.as_nanos());
        Instant::from_nanos(
            self.ahead_nanos + (nanos + nanos * i128::from(self.faster_ppm) / 1_000_000) as u64,
        )
    }

    fn global(self, local: Instant) -> Instant {
        let nanos = i128::from(local.as_nanos().saturating_sub(self.ahead_nanos));
        let mut at = Instant::from_nanos(
            (nanos * 1_000_000 / i128::from(1_000_000 + self.faster_ppm)) as u64,
        );
        while self.local(at) < local {
            at = Instant::from_nanos(at.as_nanos() + 1);
        }
        at
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub new_to_one: u64,
    pub new_to_all: u64,
    pub again_to_one: u64,
    pub again_to_all: u64,
    pub acks: u64,
    pub asked_one: u64,
    pub asked_all: u64,
    pub urgent: u64,
}

impl Sent {
    fn count(&mut self, frame: &[u8]) {
        let to_all = frame[0] & 1 == 1;
        let header = wire::parse(frame).expect("a stream's frame").header;
        let again = header.flags.has(Flags::RESENT);
        *match (header.kind, again, to_all) {
            (Kind::DATA, false, false) => &mut self.new_to_one,
            (Kind::DATA, false, true) => &mut self.new_to_all,
            (Kind::DATA, true, false) => &mut self.again_to_one,
            (Kind::DATA, true, true) => &mut self.again_to_all,
            (Kind::HEARTBEAT, _, false) => &mut self.asked_one,
            (Kind::HEARTBEAT, _, true) => &mut self.asked_all,
            _ => &mut self.acks,
        } += 1;
        self.urgent += u64::from(header.kind == Kind::DATA && header.flags.has(Flags::ACK_NOW));
    }

    pub fn figures(&self) -> [u64; 8] {
        let Sent {
            new_to_one,
            new_to_all,
            again_to_one,
            again_to_all,
            acks,
            asked_one,
            asked_all,
            urgent,
        } = *self;
        [
            new_to_one,
            new_to_all,
            again_to_one,
            again_to_all,
            acks,
            asked_one,
            asked_all,
            urgent,
        ]
    }
}

pub struct Host {
    pub streams: Vec<Stream>,
    pub clock: Clock,
    pub sent: Sent,
    outbox: VecDeque<Vec<u8>>,
}

impl Host {
    pub fn new(stream: Stream, clock: Clock) -> Host {
        Host {
            streams: vec![stream],
            clock,
            sent: Sent::default(),
            outbox: VecDeque::new(),
        }
    }

    pub fn write_again(
        &mut self,
        now: Instant,
        to: usize,
        (sequence, payload): (u64, &[u8]),
        ending: Ending,
    ) {
        let mut buffer = vec![0; 2000];
        let stream = self.streams.last_mut().expect("a host has a stream");
        let length =
            stream.write_again(now, &mut buffer, host_mac(to), (sequence, payload, ending));
        buffer.truncate(length);
        self.outbox.push_back(buffer);
    }
}

impl Machine for Host {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        let now = self.clock.local(now);
        match wire::parse(frame) {
            Ok(frame) => self
                .streams
                .iter_mut()
                .for_each(|stream| stream.handle_frame(now, &frame)),
            Err(reject) => self.streams[0].handle_reject(reject),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        let now = self.clock.local(now);
        self.streams
            .iter_mut()
            .for_each(|stream| stream.handle_timeout(now));
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let now = self.clock.local(now);
        let length = match self.outbox.pop_front() {
            Some(frame) => {
                buffer[..frame.len()].copy_from_slice(&frame);
                frame.len()
            }
            None => self
                .streams
                .iter_mut()
                .find_map(|stream| stream.poll_transmit(now, buffer))?,
        };
        self.sent.count(&buffer[..length]);
        Some(length)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let local = self.clock.local(now);
        let deadline = self
            .streams
            .iter()
            .filter_map(|stream| stream.poll_timeout(local))
            .min()?;
        Some(Deadline {
            at: self.clock.global(deadline.at),
            ..deadline
        })
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub turns: u64,
    pub urgent: u64,
    pub level: u64,
    pub settled: u64,
    pub halfway: u64,
    pub pausing: u64,
    pub next: u64,
    pub held: u64,
    pub crowded: u64,
}

impl Seen {
    pub fn look(&mut self, now: Instant, stream: &Stream) {
        let count = |condition| u64::from(condition);
        let named = |rank: Option<ethbcast_transport::wire::Rank>| {
            rank.map_or(0, |rank| rank.index() as u64 + 1)
        };
        self.turns += 1;
        self.urgent += count(stream.is_urgent());
        self.level += count(stream.is_level());
        self.settled += count(stream.is_settled());
        self.halfway += count(stream.sending().0);
        self.pausing += count(stream.is_pausing());
        self.next += stream
            .cursors()
            .iter()
            .filter_map(|&(rank, _)| stream.turn_of(rank))
            .sum::<u64>();
        self.held += named(stream.held_up_by());
        self.crowded += named(stream.blocked_by(now));
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Peaks {
    in_flight: u64,
    window: u64,
    kept_bytes: usize,
    readers_bytes: usize,
    repairs_bytes: usize,
    words_bytes: usize,
}

impl Peaks {
    pub fn look(&mut self, stream: &Stream) {
        for flight in stream.flights() {
            self.in_flight = self.in_flight.max(flight.in_flight);
            self.window = self.window.max(if flight.window == u64::MAX {
                0
            } else {
                flight.window
            });
        }
        let Memory {
            payload_bytes,
            slots_bytes,
            stamps_bytes,
            readers_bytes,
            repairs_bytes,
            stream_bytes,
            ..
        } = stream.memory();
        self.kept_bytes = self
            .kept_bytes
            .max(payload_bytes + slots_bytes + stamps_bytes);
        self.readers_bytes = self.readers_bytes.max(readers_bytes);
        self.repairs_bytes = self.repairs_bytes.max(repairs_bytes);
        self.words_bytes = self.words_bytes.max(stream_bytes - size_of::<Stream>());
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Role {
    hosts: u64,
    sent: [u64; 8],
    stats: StreamStats,
    peaks: Peaks,
}

impl Role {
    pub fn add(&mut self, host: &Host, peaks: &Peaks) {
        self.hosts += 1;
        self.sent
            .iter_mut()
            .zip(Sent::figures(&host.sent))
            .for_each(|(sum, one)| *sum += one);
        self.stats = host
            .streams
            .iter()
            .fold(self.stats, |sum, stream| sum + stream.stats());
        let most = |a: usize, b: usize| a.max(b);
        self.peaks = Peaks {
            in_flight: self.peaks.in_flight.max(peaks.in_flight),
            window: self.peaks.window.max(peaks.window),
            kept_bytes: most(self.peaks.kept_bytes, peaks.kept_bytes),
            readers_bytes: most(self.peaks.readers_bytes, peaks.readers_bytes),
            repairs_bytes: most(self.peaks.repairs_bytes, peaks.repairs_bytes),
            words_bytes: most(self.peaks.words_bytes, peaks.words_bytes),
        };
    }

    fn write(&self, name: &str, text: &mut String) {
        let Role {
            hosts,
            sent,
            stats,
            peaks,
        } = self;
        if *hosts == 0 {
            return;
        }
        let got = [
            stats.data_received,
            stats.duplicates,
            stats.beyond_credit,
            stats.out_of_order_dropped,
            stats.acks_received,
            stats.heartbeats_received,
            stats.nacks_sent,
            stats.non_members,
            stats.malformed + stats.forged_acks,
        ];
        let kept = [
            peaks.kept_bytes,
            peaks.readers_bytes,
            peaks.repairs_bytes,
            peaks.words_bytes,
        ];
        write!(text, "{name:<6}{hosts:>3} |").expect("text");
        sent.iter()
            .for_each(|figure| write!(text, " {figure:>5}").expect("text"));
        write!(text, " |").expect("text");
        got.iter()
            .for_each(|figure| write!(text, " {figure:>5}").expect("text"));
        write!(text, " | {:>4} {:>4} |", peaks.in_flight, peaks.window).expect("text");
        kept.iter()
            .for_each(|figure| write!(text, " {figure:>6}").expect("text"));
        text.push('\n');
    }
}

#[derive(Clone, Debug)]
pub struct Price {
    pub done: Duration,
    pub quiet: Duration,
    /// Sum of the times from each frame's push until a host's application had it, and the number of
    /// such times.
    pub delays: (Duration, u64),
    pub frames: u64,
    pub bytes: u64,
    pub lost: u64,
    pub orphans: u64,
    pub seen: Seen,
    pub root: Role,
    pub relays: Role,
    pub leaves: Role,
}

impl Price {
    pub fn again(&self) -> u64 {
        [&self.root, &self.relays, &self.leaves]
            .iter()
            .map(|role| role.stats.data_resent)
            .sum()
    }

    pub fn new_frames(&self) -> u64 {
        [&self.root, &self.relays, &self.leaves]
            .iter()
            .map(|role| role.stats.data_sent)
            .sum()
    }

    pub fn suspected(&self) -> u64 {
        let suspected = |role: &&Role| role.stats.forged_acks + role.stats.non_members;
        [&self.root, &self.relays, &self.leaves]
            .iter()
            .map(suspected)
            .sum()
    }

    pub fn text(&self, name: &str) -> String {
        let Price {
            done,
            quiet,
            delays,
            frames,
            bytes,
            lost,
            orphans,
            seen,
            ..
        } = self;
        let Seen {
            turns,
            urgent,
            level,
            settled,
            halfway,
            pausing,
            next,
            held,
            crowded,
        } = seen;
        let mean_nanos = delays.0.as_nanos() as u64 / delays.1.max(1);
        let mut text = format!(
            "\n# {name}\ndone {} quiet {} mean {}.{} us, {frames} frames, {bytes} bytes, {lost} lost of the cast, \
             orphans {orphans}\n\
             turns {turns} urgent {urgent} level {level} settled {settled} halfway {halfway} pausing {pausing} \
             next {next} held {held} crowded {crowded}\n",
            done.as_micros(),
            quiet.as_micros(),
            mean_nanos / 1000,
            mean_nanos / 100 % 10,
        );
        self.root.write("root", &mut text);
        self.relays.write("relays", &mut text);
        self.leaves.write("leaves", &mut text);
        text
    }
}
