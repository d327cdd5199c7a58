//! Benchmark of messages between two hosts: round trips and throughput, against a raw socket.
//!
//! Two hosts on one switch, not shaped; the variants take turns, so that other load on the machine
//! affects them alike. Every byte is checked.

use std::time::Duration;

use clap::ValueEnum;
use ethbcast_bench::process::Interrupt;
use ethbcast_bench::report::{Table, median};
use ethbcast_transport::messages::Settings;

use crate::drivers::{Receiving, Sending, measure};
use crate::mailbox::{Hop, Passed, Place, Waiting, message_trips, plain_trips, stream};
use crate::{size, verdict};

const PING_BYTES: usize = 64;
/// Required bounds: ratio of round trips to the raw ones at most, and of throughput to the raw one
/// at least.
const ROUND_TRIP_LIMIT: f64 = 1.6;
const THROUGHPUT_LIMIT: f64 = 0.85;
const LONG_BYTES: usize = 1 << 20;
const FRAME_BYTES: usize = 1500;
/// Busy-poll time without any sleep: longer than every wait here.
const FOR_EVER: Duration = Duration::from_secs(1);
/// Default of [`PortConfig::busy_poll`](ethbcast_transport::packet::PortConfig::busy_poll).
const BY_DEFAULT: Duration = Duration::from_micros(100);
/// BTP1 and BTP2 to compare; 65 535 is a full frame.
const PUSHES: [(usize, usize); 8] = [
    (80, 780),
    (80, 0),
    (0, 0),
    (65_535, 0),
    (65_535, 5744),
    (65_535, 11_488),
    (65_535, 17_232),
    (65_535, 1 << 20),
];
const LENGTHS: [usize; 9] = [256, 1024, 1436, 4096, 8192, 16_384, 18_668, 32_768, 65_536];

/// Options of the measurements.
#[derive(Debug, clap::Args)]
pub struct Messages {
    /// Measurements to make; all by default.
    #[arg(long, value_name = "PART")]
    only: Option<Part>,
    /// Number of turns of each way.
    #[arg(long, default_value_t = 7, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Round trips of a turn.
    #[arg(
        long,
        default_value_t = 5000,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(10..=1_000_000)
    )]
    pings: u64,
    /// Milliseconds of a turn of throughput.
    #[arg(long, default_value_t = 500, value_name = "MS", value_parser = clap::value_parser!(u64).range(50..=60_000))]
    millis: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Round trips of 64 bytes.
    PingPong,
    /// Full frames per second.
    Bulk,
    /// BTP1 and BTP2.
    Push,
}

pub fn messages(arguments: &Messages, interrupt: &Interrupt) -> anyhow::Result<String> {
    let hop = Hop::up("messages")?;
    let wanted = |part| arguments.only.is_none_or(|only| only == part);
    let mut text = Vec::new();
    if wanted(Part::PingPong) {
        text.push(round_trips(&hop, arguments, interrupt)?);
    }
    if wanted(Part::Bulk) {
        text.push(throughput(&hop, arguments, interrupt)?);
    }
    if wanted(Part::Push) {
        text.push(pushes(&hop, arguments, interrupt)?);
    }
    Ok(text.join("\n"))
}

#[derive(Clone, Copy, Debug)]
enum Exchange {
    Raw(Waiting),
    Messages(Duration),
}

/// Each kind of round trip with its placement and, for messages, the index of the raw kind it is
/// compared with.
const WAYS: [(&str, Place, Exchange, Option<usize>); 7] = [
    (
        "raw, blocking, one CPU",
        Place::Together,
        Exchange::Raw(Waiting::Blocking),
        None,
    ),
    (
        "messages, blocking, one CPU",
        Place::Together,
        Exchange::Messages(Duration::ZERO),
        Some(0),
    ),
    (
        "raw, blocking, two CPUs",
        Place::Apart,
        Exchange::Raw(Waiting::Blocking),
        None,
    ),
    (
        "messages, blocking, two CPUs",
        Place::Apart,
        Exchange::Messages(Duration::ZERO),
        Some(2),
    ),
    (
        "raw, spinning",
        Place::Apart,
        Exchange::Raw(Waiting::Spinning),
        None,
    ),
    (
        "messages, spinning",
        Place::Apart,
        Exchange::Messages(FOR_EVER),
        Some(4),
    ),
    (
        "messages, default",
        Place::Anywhere,
        Exchange::Messages(BY_DEFAULT),
        Some(4),
    ),
];

fn round_trips(hop: &Hop, arguments: &Messages, interrupt: &Interrupt) -> anyhow::Result<String> {
    let mut times = [const { Vec::new() }; WAYS.len()];
    for _ in 0..arguments.rounds {
        for ((_, place, way, _), times) in WAYS.iter().zip(&mut times) {
            let turn = match *way {
                Exchange::Raw(waiting) => {
                    plain_trips(hop, *place, PING_BYTES, arguments.pings, waiting)?
                }
                Exchange::Messages(spin) => message_trips(
                    hop,
                    *place,
                    &Settings::default(),
                    PING_BYTES,
                    arguments.pings,
                    spin,
                )?,
            };
            times.extend(micros(&turn));
            interrupt.check()?;
        }
    }
    let medians = times
        .each_ref()
        .map(|times| median(times.clone()).unwrap_or(f64::NAN));
    let mut table = Table::new(&[
        "round trip",
        "median µs",
        "p10",
        "p90",
        "p99",
        "times raw",
        "limit",
    ]);
    for (at, (name, _, _, raw)) in WAYS.iter().enumerate() {
        let ratio = raw.map(|raw| medians[at] / medians[raw]);
        let [p10, p90, p99] =
            [10, 90, 99].map(|percent| format!("{:.1}", percentile(&mut times[at], percent)));
        let (of_raw, limit) = ratio.map_or((String::new(), ""), |it| {
            (format!("{it:.2}"), verdict(it <= ROUND_TRIP_LIMIT))
        });
        table.push(vec![
            (*name).into(),
            format!("{:.1}", medians[at]),
            p10,
            p90,
            p99,
            of_raw,
            limit.into(),
        ]);
    }
    let count = u64::from(arguments.rounds) * arguments.pings;
    Ok(format!(
        "Round trips of {PING_BYTES} bytes, {count} each; limit {ROUND_TRIP_LIMIT} times raw:\n\n{}",
        table.aligned()
    ))
}

const BULK_WAYS: [(&str, Duration); 3] = [
    ("messages, default", BY_DEFAULT),
    ("messages, blocking", Duration::ZERO),
    ("messages, spinning", FOR_EVER),
];

fn throughput(hop: &Hop, arguments: &Messages, interrupt: &Interrupt) -> anyhow::Result<String> {
    let time = Duration::from_millis(arguments.millis);
    let (mut raw, mut consumed) = (Vec::new(), [const { Vec::new() }; BULK_WAYS.len()]);
    for _ in 0..arguments.rounds {
        raw.push(measure(
            hop.lab(),
            Receiving::Ring,
            Sending::Port,
            FRAME_BYTES,
            time,
        )?);
        for ((_, spin), consumed) in BULK_WAYS.iter().zip(&mut consumed) {
            consumed.push(stream(hop, LONG_BYTES, time, *spin)?);
            interrupt.check()?;
        }
    }
    let mut table = Table::under(
        "way, frames/s, of raw, MB/s, send µs, receive µs, resent %, frames/receipt, sender slept/s, \
         receiver slept/s, limit",
    );
    let baseline = middle(&raw, |rate| rate.frames_per_second);
    let mut first = vec![
        "sendmmsg to ring".to_owned(),
        format!("{baseline:.0}"),
        String::new(),
        String::new(),
    ];
    first.extend(
        [
            middle(&raw, |rate| rate.sender_micros),
            middle(&raw, |rate| rate.receiver_micros),
        ]
        .map(|it| format!("{it:.2}")),
    );
    first.resize(11, String::new());
    table.push(first);
    for ((name, _), consumed) in BULK_WAYS.iter().zip(&consumed) {
        table.push(bulk_row(name, consumed, baseline, time));
    }
    let long = size(LONG_BYTES as u64);
    let title = format!(
        "Frames of {FRAME_BYTES} bytes; messages of {long}, receives posted; limit {THROUGHPUT_LIMIT} of raw"
    );
    Ok(format!(
        "{title}; CPU time of the threads for each frame:\n\n{}",
        table.aligned()
    ))
}

fn bulk_row(name: &str, consumed: &[Passed], baseline: f64, time: Duration) -> Vec<String> {
    let frames_per_second = middle(consumed, |it| it.rate.frames_per_second);
    let part = frames_per_second / baseline;
    let per_second = |wakeups: f64| format!("{:.0}", wakeups / time.as_secs_f64());
    vec![
        name.to_owned(),
        format!("{frames_per_second:.0}"),
        format!("{part:.3}"),
        format!("{:.0}", middle(consumed, |it| it.bytes_per_second) / 1e6),
        format!("{:.2}", middle(consumed, |it| it.rate.sender_micros)),
        format!("{:.2}", middle(consumed, |it| it.rate.receiver_micros)),
        format!(
            "{:.2}",
            middle(consumed, |it| it.sender.0.resent as f64 * 100.0
                / it.sender.0.pulls_sent.max(1) as f64)
        ),
        format!(
            "{:.1}",
            middle(consumed, |it| it.receiver.0.received as f64
                / it.receiver.0.receipts_sent.max(1) as f64)
        ),
        per_second(middle(consumed, |it| it.sender.1.poll_wakeups as f64)),
        per_second(middle(consumed, |it| it.receiver.1.poll_wakeups as f64)),
        verdict(part >= THROUGHPUT_LIMIT).into(),
    ]
}

fn middle<T>(of: &[T], value: impl Fn(&T) -> f64) -> f64 {
    median(of.iter().map(value).collect()).unwrap_or(f64::NAN)
}

fn pushes(hop: &Hop, arguments: &Messages, interrupt: &Interrupt) -> anyhow::Result<String> {
    let mut times = vec![[const { Vec::new() }; LENGTHS.len()]; PUSHES.len()];
    for _ in 0..arguments.rounds {
        for (at, &bytes) in LENGTHS.iter().enumerate() {
            for (push, times) in PUSHES.iter().zip(&mut times) {
                let settings = Settings {
                    btp1_bytes: push.0,
                    btp2_bytes: push.1,
                    ..Settings::default()
                };
                let count = (arguments.pings / 20).max(10);
                times[at].extend(micros(&message_trips(
                    hop,
                    Place::Apart,
                    &settings,
                    bytes,
                    count,
                    BY_DEFAULT,
                )?));
            }
            interrupt.check()?;
        }
    }
    let mut table = Table::new(&[
        "BTP1 + BTP2",
        "256",
        "1K",
        "1436",
        "4K",
        "8K",
        "16K",
        "18668",
        "32K",
        "64K",
    ]);
    for (push, times) in PUSHES.iter().zip(times) {
        let half = |times: Vec<f64>| format!("{:.1}", median(times).unwrap_or(f64::NAN) / 2.0);
        let first = if push.0 > FRAME_BYTES {
            "frame".to_owned()
        } else {
            push.0.to_string()
        };
        table.push(
            [format!("{first} + {}", push.1)]
                .into_iter()
                .chain(times.map(half))
                .collect(),
        );
    }
    Ok(format!(
        "Half a round trip in µs, by bytes of the message:\n\n{}",
        table.aligned()
    ))
}

fn micros(times: &[Duration]) -> impl Iterator<Item = f64> {
    times.iter().map(|time| time.as_secs_f64() * 1e6)
}

fn percentile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values
        .get(values.len() * percent / 100)
        .copied()
        .unwrap_or(f64::NAN)
}
