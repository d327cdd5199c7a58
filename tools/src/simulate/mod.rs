//! `ethbcast simulate`: runs a transfer in a simulated network of any topology.
//!
//! `figures` has the values of the network, `play` runs a session with an application on each host.

mod figures;
mod play;

use crate::args::SimulateArgs;
use crate::exit::{Code, WithCode, fail, report};
use crate::inputs::{admit, find_root, read_calibration_for, read_plan, read_route, read_topology};
use crate::session::check_mtu;
use crate::units;
use ethbcast_collectives::session::Route;
use ethbcast_lab::parse_rate;
use ethbcast_planning::model::{Calibration, MAX_ATOMIC_SEGMENT_FRAMES, Processing};
use ethbcast_planning::plan::Via;
use ethbcast_planning::plan::file::{Contention, SavedPlan};
use ethbcast_planning::topology::{ASSUMED_RATE_BITS_PER_SECOND, Topology};
use ethbcast_transport::stream::StreamStats;
use ethbcast_transport::wire::OVERHEAD_BYTES;
use play::{Load, Played, play};
use serde_json::{Value, json};
use std::time::Duration;

pub fn run(args: SimulateArgs) -> anyhow::Result<()> {
    let settings = SimulationSettings::resolve(&args)?;
    let runs = settings
        .routes
        .all
        .iter()
        .map(|route| play(&settings, route))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let report = SimulationReport::new(&settings, runs);
    report.print(args.json)?;
    report.verdict()
}

const BUSIEST: usize = 5;

#[derive(Debug)]
pub struct SimulationReport<'a> {
    settings: &'a SimulationSettings,
    runs: Vec<Played>,
}

impl<'a> SimulationReport<'a> {
    pub fn new(settings: &'a SimulationSettings, runs: Vec<Played>) -> SimulationReport<'a> {
        SimulationReport { settings, runs }
    }

    pub fn print(&self, as_json: bool) -> anyhow::Result<()> {
        match (as_json, self.settings.routes.compared, self.runs.as_slice()) {
            (true, false, [run]) => report(&self.run_json(run).to_string()),
            (true, ..) => report(&self.table_json().to_string()),
            (false, false, [run]) => report(&format!("{}\n{}", self.title(), self.lines(run))),
            (false, ..) => report(&format!("{}\n{}", self.title(), self.table())),
        }
    }

    /// Fails with exit code 1 and the failed receivers, unless all receivers of all runs have the
    /// bytes.
    pub fn verdict(&self) -> anyhow::Result<()> {
        let failures = self
            .runs
            .iter()
            .flat_map(|run| run.failed().map(move |member| (run.via(), member)));
        let named: Vec<String> = failures
            .map(|(via, member)| format!("{} via {via} ({})", member.host, member.outcome.word()))
            .collect();
        match named.len() {
            0 => Ok(()),
            count => {
                let first = named
                    .iter()
                    .take(BUSIEST)
                    .cloned()
                    .collect::<Vec<_>>()
                    .join(", ");
                let more = if count > BUSIEST {
                    format!(" and {} more", count - BUSIEST)
                } else {
                    String::new()
                };
                fail(
                    Code::SomeFailed,
                    format!("failed: {first}{more}; try less loss"),
                )
            }
        }
    }

    fn title(&self) -> String {
        let SimulationSettings {
            topology,
            bytes,
            conditions,
            name,
            ..
        } = self.settings;
        let (hosts, switches) = (topology.hosts().len(), topology.switches().len());
        let kind = if conditions.lab {
            "lab cables"
        } else {
            "cables"
        };
        let loss = if conditions.loss > 0.0 {
            format!(", loss {}", conditions.loss)
        } else {
            String::new()
        };
        let plural = if switches == 1 { "" } else { "es" };
        format!(
            "{} from {} to {} in {name}: {switches} switch{plural}, {kind} of {}{loss}",
            units::bytes(*bytes),
            self.settings.root_name(),
            units::receivers(hosts - 1),
            units::rate(conditions.rate_bits_per_second as f64),
        )
    }

    fn lines(&self, run: &Played) -> String {
        let Played {
            took,
            quiesced_after,
            stream,
            control_sent,
            control_received,
            lost,
            ..
        } = run;
        let seconds = took.as_secs_f64();
        let mut text = format!("via         {} ({})\n", run.via(), run.choice.reason);
        text += &format!(
            "time        {seconds:.6} s; a cable needs {:.6} s for one copy ({})\n",
            self.settings.copy.time.as_secs_f64(),
            self.share(run)
        );
        if let Some(predicted) = self.predicted(run) {
            let delivered = run.delivered_after.as_secs_f64();
            text += &format!("delivered   {delivered:.6} s, without the verdicts\n");
            text += &format!(
                "predicted   {predicted:.6} s ({})\n",
                off_by(predicted, delivered)
            );
        }
        let limit = goodput(self.settings.bytes, self.settings.copy.time.as_secs_f64());
        text += &format!(
            "goodput     {} of {}\n",
            units::rate(self.goodput(run)),
            units::rate(limit)
        );
        text += &format!(
            "frames      {} data, {} again; control {control_sent} sent, {control_received} received; {lost} lost\n",
            stream.data_sent, stream.data_resent
        );
        for (at, load) in self.busiest(run).into_iter().take(BUSIEST).enumerate() {
            let label = if at == 0 { "busiest" } else { "" };
            let way = format!("{} → {}", load.from, load.to);
            let (frames, flows, busy) = (load.counted.frames, self.copies(load), load.busy * 100.0);
            text += &format!(
                "{label:<11} {way:<20} {frames:>9} frames {flows:>7.2} copies {busy:>6.1} % busy\n"
            );
        }
        text + &format!(
            "quiet       {:.3} s after the last verdict",
            quiesced_after.as_secs_f64()
        )
    }

    fn table(&self) -> String {
        let predicted = if self.settings.compared {
            format!(" {:>12} {:>8}", "predicted", "off by")
        } else {
            String::new()
        };
        let mut text = format!(
            "{:<20} {:>12}{predicted} {:>9} {:>10} {:>8} {:>9}  busiest cable",
            "via", "seconds", "of limit", "data", "again", "control"
        );
        for run in &self.runs {
            let (
                via,
                Played {
                    took, control_sent, ..
                },
            ) = (run.via(), run);
            let StreamStats {
                data_sent,
                data_resent,
                ..
            } = run.stream;
            let seconds = took.as_secs_f64();
            let predicted = self.predicted(run).map(|predicted| {
                format!(
                    " {predicted:>12.6} {:>8}",
                    off_by(predicted, run.delivered_after.as_secs_f64())
                )
            });
            let busiest = self.busiest(run).first().map(|load| {
                format!(
                    "{} → {}: {:.2} copies, {:.0} % busy",
                    load.from,
                    load.to,
                    self.copies(load),
                    load.busy * 100.0
                )
            });
            text += &format!(
                "\n{via:<20} {seconds:>12.6}{} {:>9} {data_sent:>10} {data_resent:>8} {control_sent:>9}  {}",
                predicted.unwrap_or_default(),
                self.share(run),
                busiest.unwrap_or_default()
            );
        }
        text
    }

    fn predicted(&self, run: &Played) -> Option<f64> {
        self.settings
            .compared
            .then_some(run.choice.predicted_seconds)
    }

    fn copies(&self, load: &Load) -> f64 {
        if self.settings.copy.frame_bytes == 0 {
            0.0
        } else {
            load.counted.bytes as f64 / self.settings.copy.frame_bytes as f64
        }
    }

    fn busiest<'b>(&self, run: &'b Played) -> Vec<&'b Load> {
        let mut loads: Vec<&Load> = run.loads.iter().collect();
        loads.sort_by_key(|load| std::cmp::Reverse(load.counted.bytes));
        loads
    }

    fn goodput(&self, run: &Played) -> f64 {
        goodput(self.settings.bytes, run.took.as_secs_f64())
    }

    /// Formats a cable's time for one copy as a share of the actual time.
    fn share(&self, run: &Played) -> String {
        let seconds = run.took.as_secs_f64();
        let share = if seconds > 0.0 {
            self.settings.copy.time.as_secs_f64() / seconds * 100.0
        } else {
            0.0
        };
        format!("{share:.1} %")
    }

    fn table_json(&self) -> Value {
        let results: Vec<Value> = self.runs.iter().map(|run| self.run_json(run)).collect();
        json!({ "schema": 1, "topology": self.settings.name, "results": results })
    }

    fn run_json(&self, run: &Played) -> Value {
        json!({
            "schema": 1,
            "via": run.via().to_string(),
            "topology": self.settings.name,
            "root": self.settings.root_name(),
            "hosts": self.settings.topology.hosts().len(),
            "bytes": self.settings.bytes,
            "seconds": run.took.as_secs_f64(),
            "delivered_seconds": run.delivered_after.as_secs_f64(),
            "limit_seconds": self.settings.copy.time.as_secs_f64(),
            "predicted_seconds": self.predicted(run),
            "quiet_after_seconds": run.quiesced_after.as_secs_f64(),
            "goodput_bits_per_second": self.goodput(run),
            "segment_bytes": run.choice.segment_bytes,
            "frames": {
                "data_sent": run.stream.data_sent,
                "data_resent": run.stream.data_resent,
                "control_sent": run.control_sent,
                "control_received": run.control_received,
                "lost": run.lost,
            },
            "cables": run.loads.iter().map(load_json).collect::<Vec<_>>(),
        })
    }
}

fn load_json(load: &Load) -> Value {
    json!({
        "from": load.from,
        "to": load.to,
        "frames": load.counted.frames,
        "bytes": load.counted.bytes,
        "busy": load.busy,
    })
}

fn goodput(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        bytes as f64 * 8.0 / seconds
    } else {
        0.0
    }
}

fn off_by(predicted: f64, seconds: f64) -> String {
    if seconds > 0.0 {
        format!("{:+.1} %", (predicted / seconds - 1.0) * 100.0)
    } else {
        "-".to_owned()
    }
}

/// Limit on hosts: every host keeps the view of all, which takes 2 GB at this number and 10 GB at
/// ten thousand.
const MAX_HOSTS: usize = 4096;
/// Limit on the message: the root holds all bytes in memory, and each receiver those in flight.
const MAX_BYTES: u64 = 16 << 30;
/// Limit on a cable's delay, longer than light takes around the earth.
const MAX_DELAY_MICROSECONDS: f64 = 1e6;
/// Delay of some metres of copper with the transceivers at both ends.
const DEFAULT_DELAY_MICROSECONDS: f64 = 0.5;

#[derive(Clone, Debug)]
pub struct Conditions {
    pub rate_bits_per_second: u64,
    pub mtu_bytes: u16,
    pub loss: f64,
    pub delay: Duration,
    pub lab: bool,
    pub seed: u64,
    pub processing: Option<Processing>,
    pub naps: bool,
}

/// Bytes of one copy's frames with headers, without preamble, checksum and gap, and their time on a
/// cable, a lower bound for any algorithm.
#[derive(Clone, Copy, Debug)]
pub struct OneCopy {
    pub frame_bytes: u64,
    pub time: Duration,
}

impl OneCopy {
    pub fn new(bytes: u64, conditions: &Conditions) -> OneCopy {
        let frames = bytes.div_ceil(conditions.payload_bytes());
        let frame_bytes = bytes + frames * OVERHEAD_BYTES as u64;
        let bits = (frame_bytes + frames * conditions.overhead_bytes()) as f64 * 8.0;
        OneCopy {
            frame_bytes,
            time: Duration::from_secs_f64(bits / conditions.rate_bits_per_second as f64),
        }
    }
}

#[derive(Debug)]
pub struct SimulationSettings {
    pub name: String,
    pub topology: Topology,
    pub root: usize,
    pub bytes: u64,
    pub copy: OneCopy,
    pub routes: Routes,
    pub conditions: Conditions,
    pub calibration: Calibration,
    pub compared: bool,
}

impl SimulationSettings {
    pub fn resolve(args: &SimulateArgs) -> anyhow::Result<SimulationSettings> {
        let routes = Routes::resolve(args)?;
        let (name, topology) = cluster(args)?;
        let saved = routes.saved();
        let root = args.root.as_deref().or(saved.map(SavedPlan::root));
        let root = root.map_or(Ok(0), |root| find_root(&topology, &name, root))?;
        let mut conditions = conditions(args, topology.fastest_host_rate())?;
        if let Some(plan) = saved {
            plan.check_segment(conditions.payload_bytes() * MAX_ATOMIC_SEGMENT_FRAMES)
                .code(Code::Usage)?;
            // Contention may be studied here and harms nobody.
            admit(plan, Some(&topology), Contention::Allowed)?;
        }
        check_bytes(args.size)?;
        let copy = OneCopy::new(args.size, &conditions);
        let calibration = match &args.calibration {
            Some(path) => read_calibration_for(path, Some(&topology))?,
            None => conditions.calibration(copy.time),
        };
        conditions.processing = calibration.processing().copied();
        Ok(SimulationSettings {
            name,
            topology,
            root,
            bytes: args.size,
            copy,
            routes,
            conditions,
            calibration,
            compared: args.compare,
        })
    }

    pub fn root_name(&self) -> &str {
        &self.topology.hosts()[self.root]
    }
}

fn cluster(args: &SimulateArgs) -> anyhow::Result<(String, Topology)> {
    let (name, topology) = match (&args.topology, args.hosts) {
        (Some(path), _) => (path.display().to_string(), read_topology(path)?),
        (None, count) => {
            let count = count.unwrap_or_default();
            check_hosts(count)?;
            let topology = Topology::single_switch((0..count).map(|host| format!("n{host}")))
                .code(Code::Usage)?;
            ("one switch".to_owned(), topology)
        }
    };
    check_hosts(topology.hosts().len())?;
    Ok((name, topology))
}

fn check_hosts(hosts: usize) -> anyhow::Result<()> {
    match hosts {
        2..=MAX_HOSTS => Ok(()),
        _ => fail(
            Code::Usage,
            format!("a simulation of {hosts} hosts: choose 2 to {MAX_HOSTS}"),
        ),
    }
}

fn conditions(args: &SimulateArgs, fastest_host_rate: Option<u64>) -> anyhow::Result<Conditions> {
    let usual_delay = if args.lab {
        0.0
    } else {
        DEFAULT_DELAY_MICROSECONDS
    };
    let delay_microseconds = args.delay.unwrap_or(usual_delay);
    if !(0.0..=MAX_DELAY_MICROSECONDS).contains(&delay_microseconds) {
        return fail(
            Code::Usage,
            format!(
                "a delay of {delay_microseconds} µs: choose 0 to {MAX_DELAY_MICROSECONDS} with --delay"
            ),
        );
    }
    if !(0.0..1.0).contains(&args.loss) {
        return fail(
            Code::Usage,
            format!(
                "a loss of {}: choose a share of frames from 0 to below 1, such as 0.01, with --loss",
                args.loss
            ),
        );
    }
    check_mtu(args.mtu)?;
    Ok(Conditions {
        rate_bits_per_second: match &args.rate {
            Some(rate) => parse_rate(rate).code(Code::Usage)?,
            None => fastest_host_rate.unwrap_or(ASSUMED_RATE_BITS_PER_SECOND),
        },
        mtu_bytes: args.mtu,
        loss: args.loss,
        delay: Duration::from_nanos((delay_microseconds * 1e3).round() as u64),
        lab: args.lab,
        seed: args.seed,
        processing: None,
        naps: !args.no_naps,
    })
}

fn check_bytes(bytes: u64) -> anyhow::Result<()> {
    match bytes {
        0..=MAX_BYTES => Ok(()),
        _ => fail(
            Code::Usage,
            format!("{bytes} bytes do not fit into memory: choose a --size of at most 16G"),
        ),
    }
}

#[derive(Clone, Debug)]
pub struct Routes {
    pub all: Vec<Route>,
    pub compared: bool,
}

impl Routes {
    pub fn resolve(args: &SimulateArgs) -> anyhow::Result<Routes> {
        let one = |route| {
            Ok(Routes {
                all: vec![route],
                compared: false,
            })
        };
        match (&args.plan, args.via.as_str()) {
            (Some(path), _) => one(Route::Saved(Box::new(read_plan(path)?))),
            (None, "all") => Ok(Routes {
                all: Via::ALL.iter().copied().map(Route::Via).collect(),
                compared: true,
            }),
            (None, name) => one(read_route(name)?),
        }
    }

    pub fn saved(&self) -> Option<&SavedPlan> {
        self.all.iter().find_map(|route| {
            if let Route::Saved(plan) = route {
                Some(&**plan)
            } else {
                None
            }
        })
    }
}
