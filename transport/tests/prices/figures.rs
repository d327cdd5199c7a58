//! Figures of the tests of cost in frames, and their layout in the table.

use crate::host::{Host, Sent};
use ethbcast_transport::stream::{Memory, Stream, StreamStats};
use ethbcast_transport::{Instant, Part};
use std::fmt::Write;
use std::time::Duration;

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
        let named = |rank: Option<ethbcast_transport::wire::Rank>| rank.map_or(0, |rank| rank.index() as u64 + 1);
        self.turns += 1;
        self.urgent += count(stream.is_urgent());
        self.level += count(stream.is_level());
        self.settled += count(stream.is_settled());
        self.halfway += count(stream.sending().0);
        self.pausing += count(stream.is_pausing());
        self.next += stream.cursors().iter().filter_map(|&(rank, _)| stream.turn_of(rank)).sum::<u64>();
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
            self.window = self.window.max(if flight.window == u64::MAX { 0 } else { flight.window });
        }
        let Memory { payload_bytes, slots_bytes, stamps_bytes, readers_bytes, repairs_bytes, stream_bytes, .. } =
            stream.memory();
        self.kept_bytes = self.kept_bytes.max(payload_bytes + slots_bytes + stamps_bytes);
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
        self.sent.iter_mut().zip(Sent::figures(&host.sent)).for_each(|(sum, one)| *sum += one);
        self.stats = host.streams.iter().fold(self.stats, |sum, stream| sum + stream.stats());
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
        let Role { hosts, sent, stats, peaks } = self;
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
            stats.strangers,
            stats.malformed + stats.forged_acks,
        ];
        let kept = [peaks.kept_bytes, peaks.readers_bytes, peaks.repairs_bytes, peaks.words_bytes];
        write!(text, "{name:<6}{hosts:>3} |").expect("text");
        sent.iter().for_each(|figure| write!(text, " {figure:>5}").expect("text"));
        write!(text, " |").expect("text");
        got.iter().for_each(|figure| write!(text, " {figure:>5}").expect("text"));
        write!(text, " | {:>4} {:>4} |", peaks.in_flight, peaks.window).expect("text");
        kept.iter().for_each(|figure| write!(text, " {figure:>6}").expect("text"));
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
        [&self.root, &self.relays, &self.leaves].iter().map(|role| role.stats.data_resent).sum()
    }

    pub fn new_frames(&self) -> u64 {
        [&self.root, &self.relays, &self.leaves].iter().map(|role| role.stats.data_sent).sum()
    }

    pub fn suspected(&self) -> u64 {
        let suspected = |role: &&Role| role.stats.forged_acks + role.stats.strangers;
        [&self.root, &self.relays, &self.leaves].iter().map(suspected).sum()
    }

    pub fn text(&self, name: &str) -> String {
        let Price { done, quiet, delays, frames, bytes, lost, orphans, seen, .. } = self;
        let Seen { turns, urgent, level, settled, halfway, pausing, next, held, crowded } = seen;
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
