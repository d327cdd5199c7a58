//! Benchmark of simulated broadcasts to a thousand and to ten thousand receivers: frames received
//! by the sender, throughput, memory, loss reports, joining, deaths.
//!
//! The bench plays whole sessions, from ANNOUNCE to VERDICT: a thousand receivers on one switch,
//! and many in racks. Frames are short, and either cables are slower in proportion, or frames of
//! data count as full, so that a frame takes as long as a full one at the named rate. With full frames
//! the buffers of a thousand receivers would take six gigabytes (`--mtu 1500`, on machines with
//! that memory). Acknowledgements then take longer than in reality.

use std::cell::Cell;
use std::fmt::Write;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, ensure};
use ethbcast_bench::report::Table;
use ethbcast_collectives::session::application::{
    Again, Next, Participant, Sink, SinkState, Source,
};
use ethbcast_collectives::session::{
    Arrival, Done, Outcome, Receiver, ReceiverConfig, Root, RootConfig, Route, SharedViews,
    Station, Timing, Trailer, Wanted,
};
use ethbcast_planning::plan::file::SavedPlan;
use ethbcast_planning::plan::{Costs, Via, make};
use ethbcast_planning::topology::Topology;
use ethbcast_transport::sim::{
    Cable, Delivery, Fate, Faults, HostSettings, Network, RandomFaults, Simulation, SwitchSettings,
    host_mac,
};
use ethbcast_transport::stream::StreamStats;
use ethbcast_transport::wire::{Ack, ETHERNET_BYTES, Flags, HEADER_BYTES, Kind, group_mac, parse};
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
const LOSSES: [f64; 2] = [1e-4, 1e-3];
const LOSS: f64 = LOSSES[0];

/// Size of the simulated broadcasts.
#[derive(Clone, Debug, clap::Args)]
pub struct Scale {
    /// Receivers on one switch; 0 for none.
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
    /// Receivers in racks; 0 for none.
    #[arg(long, default_value_t = 10_000)]
    many: usize,
    /// Frames of a cast to these; a tenth of them in a tree.
    #[arg(long, default_value_t = 12_000)]
    many_frames: usize,
    /// Ways of the broadcasts to these.
    #[arg(long, value_delimiter = ',', default_value = "cast,chain,two-tree")]
    via: Vec<Via>,
    /// Receivers that die halfway, in a second broadcast each way; 0 for no such.
    #[arg(long, default_value_t = 3)]
    deaths: usize,
}

/// Bytes of a frame with a verdict beside its two bitmaps of a bit for each rank. A session takes
/// no more receivers than they have room for.
const VERDICT_BYTES: usize = HEADER_BYTES + 44;
const SHORTEST_MTU_BYTES: usize = 300;

impl Scale {
    fn mtu_bytes(&self, receivers: usize) -> u16 {
        let least = VERDICT_BYTES + 2 * (receivers + 1).div_ceil(8);
        self.mtu.unwrap_or(least.max(SHORTEST_MTU_BYTES) as u16)
    }

    fn many(&self, via: Via, deaths: usize) -> ScaleCase {
        let parts = if via == Via::Cast { 1 } else { 10 };
        ScaleCase {
            receivers: self.many,
            frames: self.many_frames / parts,
            // In a cast all acknowledge an eighth of it at a time; in a tree 10 000 such buffers
            // would take gigabytes, and the next host acknowledges often.
            feed_frames: if via == Via::Cast {
                RATES[0].feed_frames
            } else {
                256
            },
            way: Some(via),
            deaths,
            ..RATES[0].case(self, LOSS, self.mtu_bytes(self.many))
        }
    }
}

struct LinkRate {
    bits_per_second: u64,
    feed_frames: u64,
    max_received_per_second: f64,
}

pub fn scale(size: &Scale) -> anyhow::Result<Output> {
    let mut csv = Table::under(
        "rate Gbit/s, receivers, via, loss, deaths, feed, frames, joined s, heard joining /s, heard /s, limit, \
         goodput %, took s, resent, resent by others, control frames, root bytes each",
    );
    let (mut is_met, mut text) = (true, explanation(size));
    let mtu_bytes = size.mtu_bytes(size.receivers);
    for rate in RATES.iter().filter(|_| size.receivers > 0) {
        for loss in LOSSES {
            let case = rate.case(size, loss, mtu_bytes);
            let played = play(&case)?;
            csv.push(case.row(&played, rate.max_received_per_second));
            is_met &= case.is_met(&played, rate.max_received_per_second);
        }
    }
    for &via in size.via.iter().filter(|_| size.many > 0) {
        for deaths in [0, size.deaths]
            .into_iter()
            .take(1 + usize::from(size.deaths > 0))
        {
            let case = size.many(via, deaths);
            let played = play(&case)?;
            csv.push(case.row(&played, RATES[0].max_received_per_second));
            is_met &= case.is_met(&played, RATES[0].max_received_per_second)
                && played.joined <= MAX_JOINING;
        }
    }
    write!(text, "\n{}", csv.aligned())?;
    if size.receivers > 0 && size.seeds > 0 {
        let reports = (0..size.seeds)
            .map(|seed| reports(size, seed))
            .collect::<anyhow::Result<Vec<usize>>>()?;
        let (mean, p95, most) = spread(reports);
        is_met &= mean <= MAX_REPORTS_MEAN && p95 <= MAX_REPORTS_P95;
        write!(
            text,
            "\nAll {} lose the same frame ({} casts at 1 Gbit/s): mean {mean:.1}, p95 {p95}, at most {most} \
             acknowledgements tell the root\n(limits {MAX_REPORTS_MEAN:.0} and {MAX_REPORTS_P95}).\n",
            size.receivers, size.seeds
        )?;
    }
    Ok(Output {
        name: "scale".to_owned(),
        text,
        csv,
        more: Vec::new(),
        is_met,
    })
}

fn explanation(size: &Scale) -> String {
    format!(
        "Whole sessions to {} receivers on one simulated switch, in frames of {} bytes over cables on which they take \
         as long as\nfull ones at the rate named; and to {} in racks of {RACK}, with {UPLINK_RATES} times the rate to \
         one core switch, in frames with\n{SHORT_PAYLOAD_BYTES} bytes of data, which count as full ones (MTU {}: the \
         shortest that holds a verdict). loss: of all deliveries, at each.\njoined: until the first frame. heard: \
         frames the root receives per second, while hosts join and while the stream flows, signs of\nlife of all \
         members included (8000 a second). goodput: payload of full frames, until the last receiver has everything; \
         took: that\ntime. deaths: hosts that die halfway. resent: frames by the root; by others: by receivers to \
         those that acknowledge to them.\ncontrol frames: of the root. root bytes each: what a receiver adds at the \
         root at most, beside the buffer (limit {MAX_ADDED_BYTES}).\n",
        size.receivers,
        size.mtu_bytes(size.receivers),
        size.many,
        size.mtu_bytes(size.many),
    )
}

impl LinkRate {
    fn case(&self, size: &Scale, loss: f64, mtu_bytes: u16) -> ScaleCase {
        let times = if self.bits_per_second > RATES[0].bits_per_second {
            3
        } else {
            1
        };
        ScaleCase {
            receivers: size.receivers,
            frames: size.frames * times,
            mtu_bytes,
            rate_bits_per_second: self.bits_per_second,
            feed_frames: self.feed_frames,
            loss,
            all_lose: None,
            way: None,
            deaths: 0,
            seed: 1,
        }
    }
}

impl ScaleCase {
    fn row(&self, played: &Played, limit: f64) -> Vec<String> {
        vec![
            (self.rate_bits_per_second / 1_000_000_000).to_string(),
            self.receivers.to_string(),
            self.via().to_string(),
            self.loss.to_string(),
            self.deaths.to_string(),
            self.feed_frames.to_string(),
            self.frames.to_string(),
            format!("{:.2}", played.joined.as_secs_f64()),
            format!("{:.0}", played.received_joining_per_second),
            format!("{:.0}", played.received_per_second),
            format!("{limit:.0}"),
            format!("{:.1}", played.goodput_percent),
            format!("{:.2}", played.took.as_secs_f64()),
            played.root.data_resent.to_string(),
            (played.all.data_resent - played.root.data_resent).to_string(),
            played.control_frames.to_string(),
            format!("{:.1}", played.added_bytes as f64 / self.receivers as f64),
        ]
    }

    /// Whether the figures are within their limits. A death is known after seconds, and a tree of
    /// thousands of hosts begins with a wait of its own, so that only a cast has a rate.
    fn is_met(&self, played: &Played, limit: f64) -> bool {
        let has_rate = self.via() == Via::Cast && self.deaths == 0;
        let keeps_rate =
            played.received_per_second <= limit && played.goodput_percent >= MIN_GOODPUT_PERCENT;
        (keeps_rate || !has_rate) && played.added_bytes <= self.receivers * MAX_ADDED_BYTES
    }
}

fn reports(size: &Scale, seed: u64) -> anyhow::Result<usize> {
    // At varying positions in the rounds of ordinary acknowledgements.
    let sequence = 300 + seed * 97 % 500;
    let case = ScaleCase {
        frames: 1200,
        all_lose: Some(sequence),
        seed,
        ..RATES[0].case(size, 0.0, size.mtu_bytes(size.receivers))
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
/// Hosts of a rack. The root is in the first.
const RACK: usize = 40;
/// Rate of a rack's cable to the core switch, in rates of a host's. With 1 the acknowledgements of
/// a cast, whose tree knows nothing of racks, have no room beside its frames.
const UPLINK_RATES: u64 = 10;
/// Payload of the frames to many receivers: with more their buffers would take gigabytes.
const SHORT_PAYLOAD_BYTES: u16 = 64;
const MAX_JOINING: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(120);
/// Wait for a silent receiver, where some die: the usual one would only add signs of life.
const PATIENCE: Duration = Duration::from_secs(2);

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
    /// Way to receivers in racks; `None` for a cast to receivers on one switch.
    way: Option<Via>,
    deaths: usize,
    seed: u64,
}

#[derive(Debug)]
struct Played {
    joined: Duration,
    received_joining_per_second: f64,
    received_per_second: f64,
    took: Duration,
    control_frames: u64,
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
    heard_joining: u64,
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

    fn read_again(&mut self, _now: Instant, _offset: u64, bytes: usize) -> Again<'_> {
        self.block.resize(self.block.len().max(bytes), 0);
        Again::Bytes(&self.block[..bytes])
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
        let counts = self.participant.sending().is_some() && noted.first.is_none();
        let joining = noted.began.is_none();
        self.flow.set(Flow {
            heard_joining: noted.heard_joining + u64::from(counts && joining),
            heard: noted.heard + u64::from(counts && !joining),
            ..noted
        });
        self.participant.handle_frame(now, frame);
    }
}

impl ScaleCase {
    fn via(&self) -> Via {
        self.way.unwrap_or(Via::Cast)
    }

    fn payload_bytes(&self) -> usize {
        match self.way {
            Some(_) => usize::from(SHORT_PAYLOAD_BYTES),
            None => usize::from(self.mtu_bytes) - HEADER_BYTES,
        }
    }

    fn frame_time(&self) -> Duration {
        let bits = 8 * (FULL_MTU_BYTES + LINK_BYTES);
        Duration::from_nanos(bits * 1_000_000_000 / self.rate_bits_per_second)
    }

    fn host(host: usize) -> String {
        format!("n{host}")
    }

    fn station(&self, host: usize) -> Station {
        Station::new(GROUP, &Self::host(host), host_mac(host), self.mtu_bytes)
    }

    /// Returns the receivers that die, the first and the last among them.
    fn dying(&self) -> impl Iterator<Item = usize> + use<> {
        let (receivers, deaths) = (self.receivers, self.deaths);
        (0..deaths).map(move |death| 1 + death * (receivers - 1) / (deaths - 1).max(1))
    }

    fn topology(&self) -> anyhow::Result<Topology> {
        let mut text = String::from("schema = 1\n[[switch]]\nname = \"core\"\n");
        for rack in 0..=self.receivers / RACK {
            let (first, last) = (rack * RACK, self.receivers.min(rack * RACK + RACK - 1));
            write!(
                text,
                "[[switch]]\nname = \"rack{rack}\"\nhosts = \"n[{first}-{last}]\"\nlinks = [\"core\"]\n"
            )?;
        }
        Ok(Topology::parse(&text, "racks")?)
    }

    fn route(&self, via: Via, topology: &Topology) -> anyhow::Result<Route> {
        let names: Vec<String> = (0..=self.receivers).map(Self::host).collect();
        let hosts = names.iter().map(|name| topology.host_named(name));
        let hosts: Vec<usize> = hosts.collect::<Option<_>>().context("all are in racks")?;
        let plan = make(via, topology, hosts[0], &hosts, &Costs::default())?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let size = Some(self.trailer().bytes);
        let saved = SavedPlan::from_plan(&plan, &names, SHORT_PAYLOAD_BYTES.into(), size);
        Ok(Route::Saved(Box::new(saved)))
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

    fn root(&self, flow: &Rc<Cell<Flow>>) -> anyhow::Result<Host> {
        let topology = self.way.map(|_| self.topology()).transpose()?;
        let route = match (self.way, &topology) {
            (Some(via), Some(topology)) => self.route(via, topology)?,
            _ => Route::Via(Via::Cast),
        };
        let mut timing = Timing::default();
        if self.deaths > 0 {
            timing.patience = PATIENCE;
        }
        let config = RootConfig {
            size: Some(self.trailer().bytes),
            wanted: Wanted::exactly(self.receivers),
            route,
            topology,
            tuning: self.tuning(),
            timing,
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
        Ok(Host {
            participant: Participant::root(Root::new(Instant::START, config), zeros),
            flow: Rc::clone(flow),
        })
    }

    fn receiver(&self, host: usize, views: &SharedViews, flow: &Rc<Cell<Flow>>) -> Host {
        let config = ReceiverConfig {
            tuning: self.tuning(),
            views: Some(views.clone()),
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
        let delay = Duration::from_nanos(500);
        let mtu_bytes = usize::from(self.mtu_bytes);
        if self.way.is_none() {
            let rate = self.rate_bits_per_second * (u64::from(self.mtu_bytes) + LINK_BYTES)
                / (FULL_MTU_BYTES + LINK_BYTES);
            let cable = Cable::new(rate, delay);
            return Network::star(self.receivers + 1, cable, &settings).with_mtu_bytes(mtu_bytes);
        }
        let cable = Cable::new(self.rate_bits_per_second, delay);
        let uplink = Cable::new(self.rate_bits_per_second * UPLINK_RATES, delay);
        let short_bytes = ETHERNET_BYTES + HEADER_BYTES + self.payload_bytes();
        let mut network = Network::new()
            .with_mtu_bytes(mtu_bytes)
            .with_long_frames(short_bytes, (FULL_MTU_BYTES + LINK_BYTES) as usize);
        let core = network.add_switch(SwitchSettings::default());
        let mut rack = core;
        for host in 0..=self.receivers {
            if host % RACK == 0 {
                rack = network.add_switch(SwitchSettings::default());
                network
                    .connect(core, rack, uplink)
                    .expect("a new switch is not connected to anything");
            }
            network.add_host(rack, cable, settings.clone());
        }
        network
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
    let views = SharedViews::default();
    let mut machines = vec![case.root(&flow)?];
    machines.extend((1..=case.receivers).map(|host| case.receiver(host, &views, &flow)));
    let mut simulation = Simulation::new(&case.network(), machines, watch);
    let turn = |_, host: &mut Host, now| host.turn(now);
    if case.deaths > 0 {
        while flow.get().began.is_none() {
            let until = simulation.now() + Duration::from_micros(100);
            let outcome = simulation.run(until, turn);
            ensure!(
                !outcome.is_quiet() && until < Instant::START + LONGEST,
                "{case:?}: {outcome:?} before any data"
            );
        }
        let halfway = simulation.now() + case.frame_time() * case.frames as u32 / 2;
        case.dying()
            .for_each(|host| simulation.crash(host, halfway));
    }
    let outcome = simulation.run(Instant::START + LONGEST, turn);
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
    let Participant::Root(root, _) = &simulation.machines()[0].participant else {
        unreachable!("the first host sends")
    };
    let (alive, delivered) = (case.receivers - case.deaths, root.delivered().count());
    ensure!(
        flow.complete >= alive && delivered == alive,
        "{case:?}: {} of {alive} receivers have everything, the root knows of {delivered}",
        flow.complete
    );
    let control_frames = root.control_stats().sent;
    let stats: Vec<StreamStats> = simulation
        .machines()
        .iter()
        .map(|host| host.participant.stream_stats())
        .collect();
    let joined = began.since(Instant::START);
    Ok(Played {
        joined,
        received_joining_per_second: flow.heard_joining as f64 / joined.as_secs_f64(),
        took: last.since(began),
        control_frames,
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

    fn size() -> Scale {
        Scale {
            receivers: 1000,
            frames: 60,
            seeds: 0,
            mtu: None,
            many: 2000,
            many_frames: 1000,
            via: Vec::new(),
            deaths: 2,
        }
    }

    #[test]
    fn a_thousand_receivers_have_everything_in_the_short_frames_of_the_default() {
        let size = size();
        let case = RATES[0].case(&size, LOSS, size.mtu_bytes(size.receivers));
        let played = play(&case).expect("it ends at every receiver");
        assert_eq!((case.mtu_bytes, played.root.data_sent >= 60), (328, true));
        assert!(played.added_bytes <= size.receivers * MAX_ADDED_BYTES);
    }

    #[test]
    fn two_thousand_receivers_in_racks_have_everything_each_way_and_some_die_meanwhile() {
        let size = size();
        for via in [Via::Cast, Via::Chain, Via::TwoTree] {
            let played = play(&size.many(via, size.deaths)).expect("it ends at all that live");
            assert!(played.joined <= MAX_JOINING, "{via}: {:?}", played.joined);
            // Reports that come together share a verdict: there are far fewer than receivers.
            assert!(
                played.control_frames < size.many as u64,
                "{via}: {played:?}"
            );
        }
    }
}
