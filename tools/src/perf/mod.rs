//! `ethbcast perf`: times collectives such as broadcast on all hosts (Patarasuk 2008 §5).
//!
//! Only the calls of the library's communicator are timed. Broadcasts use the algorithm that the
//! model chooses for each size, a given one, or that of a saved plan. Topology, calibration and
//! plan of the root apply to all.

mod op;
mod ranks;

pub use op::Op;

use crate::args::PerfArgs;
use crate::exit::{Code, fail, report};
use crate::inputs::{check_preset, read_calibration_for, read_plan, read_route, read_topology};
use crate::interface::chosen;
use crate::session::MAX_GROUP_BYTES;
use crate::{key, units};
use ethbcast_collectives::communicator::Options;
use ethbcast_collectives::{Preset, Route};
use ethbcast_planning::model::Choice;
use ethbcast_planning::plan::file::Contention;
use op::Times;
use serde_json::{Value, json};
use std::time::Duration;

const MAX_SIZE_BYTES: u64 = 1 << 30;

pub fn run(mut args: PerfArgs) -> anyhow::Result<()> {
    if let Some(size) = args
        .sizes
        .iter()
        .find(|&&size| size == 0 || size > MAX_SIZE_BYTES)
    {
        return fail(
            Code::Usage,
            format!("a message of {size} bytes cannot be measured: choose --sizes from 1 to 1G"),
        );
    }
    let options = options(&args)?;
    check_group(&args.wire.group)?;
    // Receivers of files in a group of this name must not be addressed.
    args.wire.group.push_str(SUFFIX);
    ranks::run(&args, &options)
}

/// Suffix that separates the group from that of `send` and `recv`.
const SUFFIX: &str = "/perf";

fn check_group(group: &str) -> anyhow::Result<()> {
    let most = MAX_GROUP_BYTES - SUFFIX.len();
    if group.is_empty() || group.len() > most {
        let text = format!(
            "the group name has {} bytes: choose one of 1 to {most} with -g",
            group.len()
        );
        return fail(Code::Usage, text);
    }
    Ok(())
}

pub fn options(args: &PerfArgs) -> anyhow::Result<Options> {
    let route = match &args.plan {
        Some(path) => Route::Saved(Box::new(read_plan(path)?)),
        None => read_route(&args.via)?,
    };
    if args.op == Op::Bcast && args.root {
        check_preset(args.preset, &route)?;
    }
    let topology = args.topology.as_deref().map(read_topology).transpose()?;
    let calibration = args
        .calibration
        .as_deref()
        .map(|path| read_calibration_for(path, topology.as_ref()));
    let (calibration, wire) = (calibration.transpose()?, &args.wire);
    // The root's settings apply to all ranks.
    let told = Options {
        probe: args.op.is_planned() && !args.no_probe && calibration.is_none(),
        topology,
        calibration,
        route,
        casts: !args.no_casts,
        contention: if args.allow_contention {
            Contention::Allowed
        } else {
            Contention::Refused
        },
        ..Options::default()
    };
    Ok(Options {
        interface: chosen(wire.interface.as_deref(), wire.over, wire.quiet),
        host: crate::lab::host_name(wire.host.as_deref()),
        ether_type: wire.ether_type,
        over: wire.over,
        ttl: wire.ttl,
        keys: key::resolve(&args.key)?,
        unkeyed: true,
        preset: args.preset,
        join_within: Duration::from_secs_f64(args.max_wait),
        ..if args.root { told } else { Options::default() }
    })
}

#[derive(Clone, Debug)]
pub struct PerfRow {
    op: Op,
    size_bytes: u64,
    times: Times,
    barrier: Option<Times>,
    way: Option<Way>,
}

#[derive(Clone, Debug)]
struct Way {
    via: String,
    segment_bytes: u64,
    predicted_seconds: f64,
}

impl PerfRow {
    pub fn new(op: Op, size_bytes: u64, iterations: &[Duration]) -> PerfRow {
        PerfRow {
            op,
            size_bytes,
            times: Times::of(iterations),
            barrier: None,
            way: None,
        }
    }

    pub fn beside(self, barriers: &[Duration]) -> PerfRow {
        PerfRow {
            barrier: Some(Times::of(barriers)),
            ..self
        }
    }

    pub fn along(self, choice: Option<&Choice>) -> PerfRow {
        let way = choice.map(|choice| Way {
            via: choice.plan.via().to_string(),
            segment_bytes: choice.segment_bytes,
            predicted_seconds: choice.predicted_seconds,
        });
        PerfRow { way, ..self }
    }

    fn goodput_bits_per_second(&self) -> f64 {
        self.size_bytes as f64 * 8.0 / self.times.median
    }

    fn line(&self) -> String {
        let Times {
            mean,
            min,
            median,
            p99,
            middle80,
        } = self.times;
        let (via, segment) = self.way.as_ref().map_or(("-", "-".to_owned()), |way| {
            (&way.via, way.segment_bytes.to_string())
        });
        let barrier = self.barrier.map(|times| times.mean);
        let predicted = self.way.as_ref().map(|way| way.predicted_seconds);
        let times = [
            Some(mean),
            barrier,
            Some(min),
            Some(median),
            Some(p99),
            Some(middle80),
            predicted,
        ];
        let times = times.map(|seconds| {
            format!(
                "{:>11}",
                seconds.map_or("-".to_owned(), |seconds| format!("{:.1}", seconds * 1e6))
            )
        });
        let goodput = self.goodput_bits_per_second() / 1e6;
        format!(
            "{:>10}  {via:<18} {segment:>7}{}{goodput:>9.1}",
            units::bytes(self.size_bytes),
            times.concat()
        )
    }

    fn to_json(&self) -> Value {
        let mut object = json!({
            "size": self.size_bytes,
            format!("{}_seconds", self.op): self.times.mean,
            "min": self.times.min,
            "median": self.times.median,
            "p99": self.times.p99,
            "middle_80_percent_mean": self.times.middle80,
            "goodput_bits_per_second": self.goodput_bits_per_second(),
        });
        if let Some(way) = &self.way {
            object["via"] = json!(way.via);
            object["segment_bytes"] = json!(way.segment_bytes);
            object["predicted_seconds"] = json!(way.predicted_seconds);
        }
        if let Some(barrier) = &self.barrier {
            object["barrier_seconds"] = json!(barrier.mean);
            object["barrier_median"] = json!(barrier.median);
            object["barrier_p99"] = json!(barrier.p99);
            object["barrier_middle_80_percent_mean"] = json!(barrier.middle80);
        }
        object
    }
}

#[derive(Debug)]
pub struct PerfReport<'a> {
    args: &'a PerfArgs,
    rows: Vec<PerfRow>,
}

impl PerfReport<'_> {
    pub fn new(args: &PerfArgs) -> PerfReport<'_> {
        PerfReport {
            args,
            rows: Vec::new(),
        }
    }

    pub fn add(&mut self, row: PerfRow) {
        self.rows.push(row);
    }

    /// Prints the last result on stderr, if the report comes much later.
    pub fn progress(&self) {
        if let Some(row) = self
            .rows
            .last()
            .filter(|_| self.args.wire.json && !self.args.wire.quiet)
        {
            crate::exit::print_line(row.line());
        }
    }

    pub fn print(&self) -> anyhow::Result<()> {
        if self.args.wire.json {
            return report(&self.to_json().to_string());
        }
        let preset = if self.args.preset == Preset::Default {
            String::new()
        } else {
            format!(", preset {}", self.args.preset)
        };
        let lines = self
            .rows
            .iter()
            .map(PerfRow::line)
            .collect::<Vec<_>>()
            .join("\n");
        report(&format!(
            "{} ranks{preset}, {}; times in µs\n{}\n{lines}",
            self.args.ranks,
            self.args.op.promise(),
            self.heading()
        ))
    }

    fn heading(&self) -> String {
        let times = [
            self.args.op.heading(),
            "barrier",
            "min",
            "median",
            "p99",
            "middle80",
            "predicted",
        ];
        format!(
            "{:>10}  {:<18} {:>7}{}{:>9}",
            "size",
            "via",
            "segment",
            times.map(|name| format!("{name:>11}")).concat(),
            "Mbit/s"
        )
    }

    fn to_json(&self) -> Value {
        json!({
            "schema": 1,
            "op": self.args.op.to_string(),
            "ranks": self.args.ranks,
            "via": self.args.via,
            "preset": self.args.preset.to_string(),
            "results": self.rows.iter().map(PerfRow::to_json).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_what_was_measured_and_leaves_out_what_was_not() {
        // An eighth and a quarter of a second are exact in floating point.
        let row = PerfRow::new(Op::Bcast, 1000, &[Duration::from_millis(125); 3]);
        let words: Vec<String> = row.line().split_whitespace().map(str::to_owned).collect();
        assert_eq!(
            words.join(" "),
            "1000 B - - 125000.0 - 125000.0 125000.0 125000.0 125000.0 - 0.1"
        );
        let json = row.to_json();
        assert_eq!(
            (
                json["bcast_seconds"].as_f64(),
                json["goodput_bits_per_second"].as_f64()
            ),
            (Some(0.125), Some(64_000.0))
        );
        assert!(json.get("via").is_none() && json.get("barrier_seconds").is_none());
        let json = row.beside(&[Duration::from_millis(250)]).to_json();
        assert_eq!(
            (
                json["barrier_seconds"].as_f64(),
                json["barrier_p99"].as_f64()
            ),
            (Some(0.25), Some(0.25))
        );
    }
}
