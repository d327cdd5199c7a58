//! Casts to a thousand receivers, simulated: frames received by the root, goodput, memory, and the
//! number of reports of a loss that all receivers have suffered.
//!
//! `cargo run --release -p ethbcast-benches --bin scale`, from the top of the repository: writes
//! `docs/results/scale.txt` and `.csv`. Whole sessions on one switch, from ANNOUNCE to VERDICT.
//! Frames are short, over cables that are slower in proportion, so that a frame takes as long as a
//! full one at the named rate: otherwise the buffers of a thousand receivers would take six
//! gigabytes (`--mtu 1500`, on machines with that memory). Acknowledgements then take longer than
//! in reality.

#[path = "scale/session.rs"]
mod session;

use std::path::PathBuf;

use anyhow::ensure;
use clap::Parser;
use ethbcast_benches::results;
use ethbcast_benches::table::Table;
use session::{Case, Played, play};

const RATES: [Rate; 2] = [
    Rate { bits_per_second: 1_000_000_000, feed_frames: 4096, most_heard_per_second: 16_000.0 },
    // The usual feed holds 5 ms of full frames at this rate.
    Rate { bits_per_second: 10_000_000_000, feed_frames: 8192, most_heard_per_second: 30_000.0 },
];
const MIN_GOODPUT_PERCENT: f64 = 85.0;
const MAX_ADDED_BYTES: usize = 4096;
const MAX_REPORTS_MEAN: f64 = 5.0;
const MAX_REPORTS_P95: usize = 15;
const LOSS: f64 = 1e-4;

/// Measures the cost of a cast to a thousand receivers at its root, simulated.
#[derive(Debug, Parser)]
#[command(name = "scale")]
struct Arguments {
    /// Receivers.
    #[arg(long, default_value_t = 1000)]
    receivers: usize,
    /// Frames of the casts whose rates are measured, at 1 Gbit/s; three times as many at 10 Gbit/s.
    #[arg(long, default_value_t = 20_000)]
    frames: usize,
    /// Number of casts in which all lose the same frame.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The MTU of the frames that are simulated.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u16).range(200..=9000))]
    mtu: u16,
    /// Folder for the results.
    #[arg(long, default_value = "docs/results", value_name = "DIR")]
    out: PathBuf,
}

struct Rate {
    bits_per_second: u64,
    feed_frames: u64,
    most_heard_per_second: f64,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let mut table = Table::under(
        "rate Gbit/s, receivers, loss, feed, frames, heard /s, limit, goodput %, resent, resent by others, \
         root bytes each",
    );
    for rate in &RATES {
        let played = play(&rate.case(&arguments))?;
        table.push(rate.row(&arguments, &played));
        rate.check(arguments.receivers, &played)?;
    }
    let reports = (0..arguments.seeds).map(|seed| reports(&arguments, seed)).collect::<anyhow::Result<Vec<usize>>>()?;
    let (mean, p95, most) = spread(reports);
    let text = format!(
        "{}\n{}\nAll {} lose the same frame ({} casts at 1 Gbit/s): mean {mean:.1}, p95 {p95}, at most {most} \
         acknowledgements tell the root\n\
         (limits {MAX_REPORTS_MEAN:.0} and {MAX_REPORTS_P95}).\n",
        explanation(arguments.mtu),
        table.aligned(),
        arguments.receivers,
        arguments.seeds
    );
    results::publish(&arguments.out, "scale", &text, &table, [])?;
    ensure!(mean <= MAX_REPORTS_MEAN && p95 <= MAX_REPORTS_P95, "too many tell the root of the same loss");
    Ok(())
}

fn explanation(mtu: u16) -> String {
    format!(
        "Whole sessions to receivers on one simulated switch, {LOSS} of all deliveries lost at each. Frames of {mtu} \
         bytes over cables on\n\
         which they take as long as full ones at the rate named. heard: frames the root receives per second while the \
         stream flows,\n\
         signs of life of all members included (ten a second each). goodput: payload of full frames, until the last \
         receiver has everything.\n\
         resent: frames by the root; by others: by receivers to those that acknowledge to them. root bytes each: what \
         a receiver adds\n\
         at the root at most, beside the buffer (limit {MAX_ADDED_BYTES}).\n"
    )
}

impl Rate {
    fn case(&self, arguments: &Arguments) -> Case {
        let times = if self.bits_per_second > RATES[0].bits_per_second { 3 } else { 1 };
        Case {
            receivers: arguments.receivers,
            frames: arguments.frames * times,
            mtu_bytes: arguments.mtu,
            rate_bits_per_second: self.bits_per_second,
            feed_frames: self.feed_frames,
            loss: LOSS,
            all_lose: None,
            seed: 1,
        }
    }

    fn row(&self, arguments: &Arguments, played: &Played) -> Vec<String> {
        vec![
            (self.bits_per_second / 1_000_000_000).to_string(),
            arguments.receivers.to_string(),
            LOSS.to_string(),
            self.feed_frames.to_string(),
            played.root.data_sent.to_string(),
            format!("{:.0}", played.heard_per_second),
            format!("{:.0}", self.most_heard_per_second),
            format!("{:.1}", played.goodput_percent),
            played.root.data_resent.to_string(),
            (played.all.data_resent - played.root.data_resent).to_string(),
            format!("{:.1}", played.added_bytes as f64 / arguments.receivers as f64),
        ]
    }

    fn check(&self, receivers: usize, played: &Played) -> anyhow::Result<()> {
        let heard = played.heard_per_second;
        ensure!(heard <= self.most_heard_per_second, "the root hears {heard:.0} frames per second");
        ensure!(played.goodput_percent >= MIN_GOODPUT_PERCENT, "goodput is {:.1} %", played.goodput_percent);
        ensure!(played.added_bytes <= receivers * MAX_ADDED_BYTES, "receivers add {} bytes", played.added_bytes);
        Ok(())
    }
}

fn reports(arguments: &Arguments, seed: u64) -> anyhow::Result<usize> {
    // At varying positions in the rounds of ordinary acknowledgements.
    let sequence = 300 + seed * 97 % 500;
    let case = Case { frames: 1200, loss: 0.0, all_lose: Some(sequence), seed, ..RATES[0].case(arguments) };
    Ok(play(&case)?.reports)
}

/// Mean, 95th percentile and maximum.
fn spread(mut counts: Vec<usize>) -> (f64, usize, usize) {
    counts.sort_unstable();
    let mean = counts.iter().sum::<usize>() as f64 / counts.len().max(1) as f64;
    let p95 = counts.get(counts.len() * 95 / 100).or(counts.last()).copied().unwrap_or(0);
    (mean, p95, counts.last().copied().unwrap_or(0))
}
