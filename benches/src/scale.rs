//! Benchmark of simulated broadcasts to a thousand receivers: frames received by the sender,
//! throughput, memory, loss reports.
//!
//! The bench plays whole sessions on one switch, from ANNOUNCE to VERDICT. Frames are short, and
//! cables slower in proportion, so that a frame takes as long as a full one at the named rate. With
//! full frames the buffers of a thousand receivers would take six gigabytes (`--mtu 1500`, on
//! machines with that memory). Acknowledgements then take longer than in reality.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::ensure;
use ethbcast_bench::report::Table;
use ethbcast_collectives::session::application::{Next, Participant, Sink, SinkState, Source};
use ethbcast_collectives::session::{
    Arrival, Done, Outcome, Receiver, ReceiverConfig, Root, RootConfig, Route, Station, Trailer,
    Wanted,
};
use ethbcast_planning::plan::Via;
use ethbcast_transport::sim::{
    Cable, Delivery, Fate, Faults, HostSettings, Network, RandomFaults, Simulation, host_mac,
};
use ethbcast_transport::stream::StreamStats;
use ethbcast_transport::wire::{Ack, Flags, HEADER_BYTES, Kind, group_mac, parse};
use ethbcast_transport::{Instant, Machine, Tuning};

use crate::Output;

const RATES: [LinkRate; 2] = [
    LinkRate {
        bits_per_second: 1_000_000_000,
        feed_frames: 4096,
        max_received_per_second: 12_000.0,
    },
    // The usual feed holds 5 ms of full frames at this rate.
    LinkRate {
        bits_per_second: 10_000_000_000,
        feed_frames: 8192,
        max_received_per_second: 30_000.0,
    },
];
const MIN_GOODPUT_PERCENT: f64 = 85.0;
const MAX_ADDED_BYTES: usize = 4096;
const MAX_REPORTS_MEAN: f64 = 5.0;
const MAX_REPORTS_P95: usize = 15;
const LOSS: f64 = 1e-4;

/// Size of the simulated casts.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Scale {
    /// Receivers.
    #[arg(long, default_value_t = 1000)]
    receivers: usize,
    /// Frames of the casts whose rates are measured, at 1 Gbit/s; three times as many at 10 Gbit/s.
    #[arg(long, default_value_t = 20_000)]
    frames: usize,
    /// Number of casts in which all lose the same frame.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The MTU of the frames that are simulated; without it the least, of 300 and more, in which a
    /// verdict fits.
    #[arg(long, value_parser = clap::value_parser!(u16).range(200..=9000))]
    mtu: Option<u16>,
}

/// Bytes of a frame with a verdict beside its two bitmaps of a bit for each rank. A session takes
/// no more receivers than they have room for.
const VERDICT_BYTES: usize = HEADER_BYTES + 44;
const SHORTEST_MTU_BYTES: usize = 300;

impl Scale {
    fn mtu_bytes(&self) -> u16 {
        let least = VERDICT_BYTES + 2 * (self.receivers + 1).div_ceil(8);
        self.mtu.unwrap_or(least.max(SHORTEST_MTU_BYTES) as u16)
    }
}

struct LinkRate {
    bits_per_second: u64,
    feed_frames: u64,
    max_received_per_second: f64,
}

pub fn scale(size: &Scale) -> anyhow::Result<Output> {
    let mut csv = Table::under(
        "rate Gbit/s, receivers, loss, feed, frames, heard /s, limit, goodput %, resent, resent by others, \
         root bytes each",
    );
    let mut is_met = true;
    for rate in &RATES {
        let played = play(&rate.case(size))?;
        csv.push(rate.row(size, &played));
        is_met &= rate.is_met(size.receivers, &played);
    }
    let reports = (0..size.seeds)
        .map(|seed| reports(size, seed))
        .collect::<anyhow::Result<Vec<usize>>>()?;
    let (mean, p95, most) = spread(reports);
    is_met &= mean <= MAX_REPORTS_MEAN && p95 <= MAX_REPORTS_P95;
    let text = format!(
        "{}\n{}\nAll {} lose the same frame ({} casts at 1 Gbit/s): mean {mean:.1}, p95 {p95}, at most {most} \
         acknowledgements tell the root\n\
         (limits {MAX_REPORTS_MEAN:.0} and {MAX_REPORTS_P95}).\n",
        explanation(size.mtu_bytes()),
        csv.aligned(),
        size.receivers,
        size.seeds
    );
    Ok(Output {
        name: "scale".to_owned(),
        text,
        csv,
        more: Vec::new(),
        is_met,
    })
}

fn explanation(mtu: u16) -> String {
    format!(
        "Whole sessions to receivers on one simulated switch, {LOSS} of all deliveries lost at each. Frames of {mtu} \
         bytes over cables on\n\
         which they take as long as full ones at the rate named. heard: frames the root receives per second while the \
         stream flows,\n\
         signs of life of all members included (8000 a second). goodput: payload of full frames, until the last \
         receiver has everything.\n\
         resent: frames by the root; by others: by receivers to those that acknowledge to them. root bytes each: what \
         a receiver adds\n\
         at the root at most, beside the buffer (limit {MAX_ADDED_BYTES}).\n"
    )
}

impl LinkRate {
    fn case(&self, size: &Scale) -> ScaleCase {
        let times = if self.bits_per_second > RATES[0].bits_per_second {
            3
        } else {
            1
        };
        ScaleCase {
            receivers: size.receivers,
            frames: size.frames * times,
            mtu_bytes: size.mtu_bytes(),
            rate_bits_per_second: self.bits_per_second,
            feed_frames: self.feed_frames,
            loss: LOSS,
            all_lose: None,
            seed: 1,
        }
    }

    fn row(&self, size: &Scale, played: &Played) -> Vec<String> {
        vec![
            (self.bits_per_second / 1_000_000_000).to_string(),
            size.receivers.to_string(),
            LOSS.to_string(),
            self.feed_frames.to_string(),
            played.root.data_sent.to_string(),
            format!("{:.0}", played.received_per_second),
            format!("{:.0}", self.max_received_per_second),
            format!("{:.1}", played.goodput_percent),
            played.root.data_resent.to_string(),
            (played.all.data_resent - played.root.data_resent).to_string(),
            format!("{:.1}", played.added_bytes as f64 / size.receivers as f64),
        ]
    }

    fn is_met(&self, receivers: usize, played: &Played) -> bool {
        played.received_per_second <= self.max_received_per_second
            && played.goodput_percent >= MIN_GOODPUT_PERCENT
            && played.added_bytes <= receivers * MAX_ADDED_BYTES
    }
}

fn reports(size: &Scale, seed: u64) -> anyhow::Result<usize> {
    // At varying positions in the rounds of ordinary acknowledgements.
    let sequence = 300 + seed * 97 % 500;
    let case = ScaleCase {
        frames: 1200,
        loss: 0.0,
        all_lose: Some(sequence),
        seed,
        ..RATES[0].case(size)
    };
    Ok(play(&case)?.reports)
}

/// Mean, 95th percentile and maximum.
fn spread(mut counts: Vec<usize>) -> (f64, usize, usize) {
    counts.sort_unstable();
    let mean = counts.iter().sum::<usize>() as f64 / counts.len().max(1) as f64;
    let p95 = counts
        .get(counts.len() * 95 / 100)
        .or(counts.last())
        .copied()
        .unwrap_or(0);
    (mean, p95, counts.last().copied().unwrap_or(0))
}

const GROUP: &str = "scale";
/// Bytes on the wire beside a frame's MTU: the Ethernet header; preamble, checksum and gap.
const LINK_BYTES: u64 = 14 + 24;
const FULL_MTU_BYTES: u64 = 1500;
const FULL_PAYLOAD_BYTES: f64 = 1468.0;
const QUEUE_FRAMES: usize = 32;

#[derive(Clone, Copy, Debug)]
struct ScaleCase {
    receivers: usize,
    frames: usize,
    mtu_bytes: u16,
    /// Rate at which full frames would take as long as the simulated ones do.
    rate_bits_per_second: u64,
    feed_frames: u64,
    loss: f64,
    all_lose: Option<u64>,
    seed: u64,
}

#[derive(Debug)]
struct Played {
    received_per_second: f64,
    /// Goodput as a share of full frames' payload at the named rate, until the last receiver had
    /// everything.
    goodput_percent: f64,
    added_bytes: usize,
    reports: usize,
    root: StreamStats,
    all: StreamStats,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    began: Option<Instant>,
    first: Option<Instant>,
    last: Instant,
    complete: usize,
    heard: u64,
    added_bytes: usize,
}

impl Flow {
    fn note(flow: &Rc<Cell<Flow>>, change: impl FnOnce(Flow) -> Flow) {
        flow.set(change(flow.get()));
    }
}

struct Zeros {
    block: Vec<u8>,
    left_bytes: usize,
    trailer: Trailer,
    flow: Rc<Cell<Flow>>,
}

impl Source for Zeros {
    fn next(&mut self, now: Instant, _passed: bool) -> Next<'_> {
        if self.left_bytes == 0 {
            return Next::End(self.trailer);
        }
        Flow::note(&self.flow, |noted| Flow {
            began: noted.began.or(Some(now)),
            ..noted
        });
        Next::Bytes(&self.block[..self.block.len().min(self.left_bytes)])
    }

    fn advance(&mut self, bytes: usize) {
        self.left_bytes -= bytes;
    }
}

struct Counter {
    bytes: u64,
    trailer: Option<Trailer>,
    flow: Rc<Cell<Flow>>,
}

impl Sink for Counter {
    fn take(&mut self, now: Instant, arrival: Arrival<'_>) {
        let trailer = match arrival {
            Arrival::Bytes(bytes) | Arrival::Message(bytes) => {
                self.bytes += bytes.len() as u64;
                return;
            }
            Arrival::End(trailer) => trailer,
        };
        self.trailer = Some(trailer);
        let Flow {
            first, complete, ..
        } = self.flow.get();
        Flow::note(&self.flow, |noted| Flow {
            first: first.or(Some(now)),
            complete: complete + 1,
            last: now,
            ..noted
        });
    }

    fn turn(&mut self, _now: Instant) -> SinkState {
        let trailer = self.trailer.take();
        let verdict = trailer.map(|Trailer { bytes, digest }| Done {
            outcome: if bytes == self.bytes {
                Outcome::Verified
            } else {
                Outcome::Damaged
            },
            bytes: self.bytes,
            digest,
            text: String::new(),
        });
        verdict.into()
    }
}

struct Host {
    participant: Participant<Zeros, Counter>,
    flow: Rc<Cell<Flow>>,
}

impl Host {
    fn turn(&mut self, now: Instant) -> Option<Instant> {
        let again = self.participant.turn(now);
        if self.participant.sending().is_some() {
            let added_bytes = self
                .participant
                .streams()
                .map_or(0, |streams| streams.memory().added_bytes());
            Flow::note(&self.flow, |noted| Flow {
                added_bytes: noted.added_bytes.max(added_bytes),
                ..noted
            });
        }
        again
    }
}

impl Machine for Host {
    ethbcast_transport::forward!(self => self.participant; handle_timeout, poll_transmit, poll_timeout);

    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        let noted = self.flow.get();
        let counts =
            self.participant.sending().is_some() && noted.began.is_some() && noted.first.is_none();
        self.flow.set(Flow {
            heard: noted.heard + u64::from(counts),
            ..noted
        });
        self.participant.handle_frame(now, frame);
    }
}

impl ScaleCase {
    fn payload_bytes(&self) -> usize {
        usize::from(self.mtu_bytes) - HEADER_BYTES
    }

    fn station(&self, host: usize) -> Station {
        Station::new(GROUP, &format!("n{host}"), host_mac(host), self.mtu_bytes)
    }

    fn tuning(&self) -> Tuning {
        Tuning::default().with_feed_frames(self.feed_frames)
    }

    fn trailer(&self) -> Trailer {
        Trailer {
            bytes: (self.frames * self.payload_bytes()) as u64,
            digest: [7; 32],
        }
    }

    fn root(&self, flow: &Rc<Cell<Flow>>) -> Host {
        let config = RootConfig {
            size: Some(self.trailer().bytes),
            wanted: Wanted::exactly(self.receivers),
            route: Route::Via(Via::Cast),
            tuning: self.tuning(),
            probe: false,
            ..RootConfig::new(self.station(0), 0x5CA1_E000 ^ self.seed as u32, "scale")
        };
        let (block, left_bytes) = (vec![0; self.payload_bytes()], self.trailer().bytes as usize);
        let zeros = Zeros {
            block,
            left_bytes,
            trailer: self.trailer(),
            flow: Rc::clone(flow),
        };
        Host {
            participant: Participant::root(Root::new(Instant::START, config), zeros),
            flow: Rc::clone(flow),
        }
    }

    fn receiver(&self, host: usize, flow: &Rc<Cell<Flow>>) -> Host {
        let config = ReceiverConfig {
            tuning: self.tuning(),
            ..ReceiverConfig::new(self.station(host), host as u64)
        };
        let counter = Counter {
            bytes: 0,
            trailer: None,
            flow: Rc::clone(flow),
        };
        Host {
            participant: Participant::receiver(Receiver::new(Instant::START, config), counter),
            flow: Rc::clone(flow),
        }
    }

    fn network(&self) -> Network {
        let settings = HostSettings {
            groups: vec![group_mac(GROUP)],
            nic_receive_frames: 4096,
            nic_transmit_frames: QUEUE_FRAMES,
            ..HostSettings::default()
        };
        let rate = self.rate_bits_per_second * (u64::from(self.mtu_bytes) + LINK_BYTES)
            / (FULL_MTU_BYTES + LINK_BYTES);
        let cable = Cable::new(rate, Duration::from_nanos(500));
        Network::star(self.receivers + 1, cable, &settings)
            .with_mtu_bytes(usize::from(self.mtu_bytes))
    }
}

struct Watch {
    random: RandomFaults,
    all_lose: Option<u64>,
    reports: Rc<Cell<usize>>,
}

impl Faults for Watch {
    fn fate(&mut self, delivery: &Delivery<'_>) -> Fate {
        if let (Some(sequence), Ok(frame)) = (self.all_lose, parse(delivery.frame)) {
            let header = &frame.header;
            let ack = (delivery.to == 0 && header.kind == Kind::ACK)
                .then(|| Ack::parse(&frame))
                .flatten();
            let tells = ack.is_some_and(|ack| !ack.has(sequence) && ack.covered() > sequence);
            self.reports.set(self.reports.get() + usize::from(tells));
            if header.kind == Kind::DATA
                && header.sequence == sequence
                && !header.flags.has(Flags::RESENT)
            {
                return Fate::Drop;
            }
        }
        self.random.fate(delivery)
    }
}

fn play(case: &ScaleCase) -> anyhow::Result<Played> {
    let (flow, reports) = (Rc::new(Cell::new(Flow::default())), Rc::new(Cell::new(0)));
    let random = RandomFaults::new(case.seed).loss(case.loss);
    let watch = Watch {
        random,
        all_lose: case.all_lose,
        reports: Rc::clone(&reports),
    };
    let receivers = (1..=case.receivers).map(|host| case.receiver(host, &flow));
    let machines = std::iter::once(case.root(&flow)).chain(receivers).collect();
    let mut simulation = Simulation::new(&case.network(), machines, watch);
    let outcome = simulation.run(Instant::START + Duration::from_secs(120), |_, host, now| {
        host.turn(now)
    });
    ensure!(
        outcome.is_quiet(),
        "{case:?}: {outcome:?}, next {:?}",
        simulation.next_deadline()
    );
    let flow = flow.get();
    let (began, first, last) = (
        flow.began.unwrap_or_default(),
        flow.first.unwrap_or_default(),
        flow.last,
    );
    ensure!(
        flow.complete == case.receivers,
        "{case:?}: {} of {} receivers have everything",
        flow.complete,
        case.receivers
    );
    let stats: Vec<StreamStats> = simulation
        .machines()
        .iter()
        .map(|host| host.participant.stream_stats())
        .collect();
    Ok(Played {
        received_per_second: flow.heard as f64 / first.since(began).as_secs_f64(),
        goodput_percent: 100.0 * case.frames as f64 * FULL_PAYLOAD_BYTES * 8.0
            / last.since(began).as_secs_f64()
            / case.rate_bits_per_second as f64,
        added_bytes: flow.added_bytes,
        reports: reports.get(),
        root: stats[0],
        all: stats
            .into_iter()
            .fold(StreamStats::default(), |sum, one| sum + one),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_receivers_have_everything_in_the_short_frames_of_the_default() {
        let size = Scale {
            receivers: 1000,
            frames: 60,
            seeds: 0,
            mtu: None,
        };
        let played = play(&RATES[0].case(&size)).expect("it ends at every receiver");
        assert_eq!((size.mtu_bytes(), played.root.data_sent >= 60), (328, true));
        assert!(played.added_bytes <= size.receivers * MAX_ADDED_BYTES);
    }
}
