//! `ethbcast simulate`: runs a transfer in a simulated network of any topology.
//!
//! `settings` resolves the arguments, `figures` has the values of the network, `process` the
//! application on each host, and `play` runs a session.

mod figures;
mod play;
mod process;
mod settings;

use crate::args::SimulateArgs;
use crate::exit::{Code, fail, report};
use crate::units;
use ethbcast_transport::stream::StreamStats;
use play::{Played, play};
use process::Load;
use serde_json::{Value, json};
use settings::SimulationSettings;

pub fn run(args: SimulateArgs) -> anyhow::Result<()> {
    let settings = SimulationSettings::resolve(&args)?;
    let runs = settings.routes.all.iter().map(|route| play(&settings, route)).collect::<anyhow::Result<Vec<_>>>()?;
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
        let failures = self.runs.iter().flat_map(|run| run.failed().map(move |member| (run.via(), member)));
        let named: Vec<String> =
            failures.map(|(via, member)| format!("{} via {via} ({})", member.host, member.outcome.word())).collect();
        match named.len() {
            0 => Ok(()),
            count => {
                let first = named.iter().take(BUSIEST).cloned().collect::<Vec<_>>().join(", ");
                let more = if count > BUSIEST { format!(" and {} more", count - BUSIEST) } else { String::new() };
                fail(Code::SomeFailed, format!("failed: {first}{more}; try less loss"))
            }
        }
    }

    fn title(&self) -> String {
        let SimulationSettings { topology, bytes, conditions, name, .. } = self.settings;
        let (hosts, switches) = (topology.hosts().len(), topology.switches().len());
        let kind = if conditions.lab { "lab cables" } else { "cables" };
        let loss = if conditions.loss > 0.0 { format!(", loss {}", conditions.loss) } else { String::new() };
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
        let Played { took, quiesced_after, stream, control_sent, control_received, lost, .. } = run;
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
            text += &format!("predicted   {predicted:.6} s ({})\n", off_by(predicted, delivered));
        }
        let limit = goodput(self.settings.bytes, self.settings.copy.time.as_secs_f64());
        text += &format!("goodput     {} of {}\n", units::rate(self.goodput(run)), units::rate(limit));
        text += &format!(
            "frames      {} data, {} again; control {control_sent} sent, {control_received} received; {lost} lost\n",
            stream.data_sent, stream.data_resent
        );
        for (at, load) in self.busiest(run).into_iter().take(BUSIEST).enumerate() {
            let label = if at == 0 { "busiest" } else { "" };
            let way = format!("{} → {}", load.from, load.to);
            let (frames, flows, busy) = (load.counted.frames, self.copies(load), load.busy * 100.0);
            text += &format!("{label:<11} {way:<20} {frames:>9} frames {flows:>7.2} copies {busy:>6.1} % busy\n");
        }
        text + &format!("quiet       {:.3} s after the last verdict", quiesced_after.as_secs_f64())
    }

    fn table(&self) -> String {
        let predicted =
            if self.settings.compared { format!(" {:>12} {:>8}", "predicted", "off by") } else { String::new() };
        let mut text = format!(
            "{:<20} {:>12}{predicted} {:>9} {:>10} {:>8} {:>9}  busiest cable",
            "via", "seconds", "of limit", "data", "again", "control"
        );
        for run in &self.runs {
            let (via, Played { took, control_sent, .. }) = (run.via(), run);
            let StreamStats { data_sent, data_resent, .. } = run.stream;
            let seconds = took.as_secs_f64();
            let predicted = self.predicted(run).map(|predicted| {
                format!(" {predicted:>12.6} {:>8}", off_by(predicted, run.delivered_after.as_secs_f64()))
            });
            let busiest = self.busiest(run).first().map(|load| {
                format!("{} → {}: {:.2} copies, {:.0} % busy", load.from, load.to, self.copies(load), load.busy * 100.0)
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
        self.settings.compared.then_some(run.choice.predicted_seconds)
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
        let share = if seconds > 0.0 { self.settings.copy.time.as_secs_f64() / seconds * 100.0 } else { 0.0 };
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
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

fn off_by(predicted: f64, seconds: f64) -> String {
    if seconds > 0.0 { format!("{:+.1} %", (predicted / seconds - 1.0) * 100.0) } else { "-".to_owned() }
}
