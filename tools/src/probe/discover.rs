//! `ethbcast probe --discover`: finds the switches between the hosts that answer.

use super::Station;
use super::measure::{INTERRUPTED, OWN_RANK, wanted};
use crate::args::ProbeArgs;
use crate::doctor::Fault;
use crate::exit::{Code, Failure, WithCode, print_line, report};
use ethbcast_collectives::measure::{SurveyEnd, Surveyor};
use ethbcast_collectives::session::live::log_counters;
use ethbcast_planning::topology::Topology;
use ethbcast_planning::topology::discovery::{Discovery, Sketch, Support};
use ethbcast_transport::packet::random_u32;
use serde_json::json;
use std::time::Duration;

fn budget(hosts: usize) -> Duration {
    Duration::from_secs(60).max(Duration::from_millis(60) * (hosts * hosts) as u32)
}

pub fn run(args: &ProbeArgs, mut station: Station) -> anyhow::Result<()> {
    let session = random_u32().code(Code::System)?;
    let answerers = wanted(args, &mut station, session)?;
    let mtu_bytes = answerers
        .iter()
        .map(|responder| responder.mtu_bytes)
        .min()
        .unwrap_or(usize::MAX);
    let mtu_bytes = mtu_bytes.min(station.wire.station.mtu_bytes.into());
    let own = station.wire.station.host.clone();
    let names: Vec<String> = std::iter::once(own)
        .chain(answerers.iter().map(|responder| responder.host.clone()))
        .collect();
    // Names from other hosts must be valid in a topology file.
    Topology::single_switch(names.iter().cloned()).code(Code::Usage)?;
    if !args.wire.quiet {
        print_line(format_args!(
            "looking for the switches between {}: short flows, two at a time",
            names.join(", ")
        ));
    }
    let began = station.clock.now();
    let identity = station.identity(session, OWN_RANK);
    let surveyor = Surveyor::new(began, identity, &answerers, mtu_bytes, budget(names.len()));
    let mut surveyor = station.machine(surveyor);
    station.drive(
        &mut surveyor,
        |surveyor, _| surveyor.part.end().is_some(),
        INTERRUPTED,
    )?;
    log_counters(&station.wire.port.counters());
    check_end(surveyor.part.end(), &names, &args.wire.group)?;
    let discovery = surveyor.part.discovery();
    let sketch = discovery
        .sketch()
        .map_err(|question| format!("{question:?} was not answered"))
        .code(Code::System)?;
    let seconds = station.clock.now().since(began).as_secs_f64();
    let is_sure = surveyor.part.is_sure();
    Discovered {
        args,
        names: &names,
        discovery,
        sketch: &sketch,
        seconds,
        is_sure,
    }
    .print()
}

fn check_end(end: Option<SurveyEnd>, names: &[String], group: &str) -> anyhow::Result<()> {
    let budget = budget(names.len());
    let text = match end {
        Some(SurveyEnd::Whole) => return Ok(()),
        Some(SurveyEnd::Silent(host)) => format!(
            "{} sends or counts no flow: check that exactly one `ethbcast probe --answer -g {group}` of this build \
             runs there, and that nothing on the way drops unicast frames; nothing was written",
            names[host]
        ),
        Some(SurveyEnd::Lost(from, to)) => format!(
            "too little arrives of what {} sends {}, or too slowly: look for losses on that way (`ethbcast doctor \
             --peer`), or name other hosts; nothing was written",
            names[from], names[to]
        ),
        Some(SurveyEnd::TimeUp) | None => {
            format!(
                "not all was found out within {budget:?}: name fewer hosts, or make the network quiet; nothing was \
                 written"
            )
        }
    };
    Err(Failure::new(Code::Nobody, text).found(Fault::Nobody).into())
}

struct Discovered<'a> {
    args: &'a ProbeArgs,
    names: &'a [String],
    discovery: &'a Discovery,
    sketch: &'a Sketch,
    seconds: f64,
    is_sure: bool,
}

impl Discovered<'_> {
    fn support(&self, cable: (usize, usize)) -> Support {
        self.discovery.support(self.sketch, cable)
    }

    fn print(&self) -> anyhow::Result<()> {
        let file = self.file();
        // The file must be readable again, despite names from other hosts.
        Topology::parse(&file, "what was found").code(Code::Usage)?;
        if let Some(path) = &self.args.out {
            std::fs::write(path, &file)
                .map_err(|error| {
                    format!(
                        "cannot write {}: {error}; choose another place with --out",
                        path.display()
                    )
                })
                .code(Code::System)?;
        }
        match (self.args.wire.json, &self.args.out) {
            (true, _) => report(&self.json().to_string())?,
            (false, None) => report(file.trim_end())?,
            (false, Some(path)) if !self.args.wire.quiet => {
                print_line(format_args!("topology written to {}", path.display()));
            }
            (false, Some(_)) => {}
        }
        if !self.args.wire.quiet {
            self.summary();
        }
        let doubtful: Vec<String> = self
            .doubtful()
            .map(|(one, other)| format!("s{one}-s{other}"))
            .collect();
        if doubtful.is_empty() && self.is_sure {
            return Ok(());
        }
        let what = if doubtful.is_empty() {
            "what was found".to_owned()
        } else {
            doubtful.join(", ")
        };
        let text = format!(
            "low confidence in {what}: repeated flows contradict it, or hosts' rates differ too much to \
             tell; make the network quiet and try again, or correct the file"
        );
        Err(Failure::new(Code::SomeFailed, text).into())
    }

    fn doubtful(&self) -> impl Iterator<Item = (usize, usize)> {
        self.sketch
            .cables()
            .into_iter()
            .filter(|cable| !self.support(*cable).is_high())
    }

    fn summary(&self) {
        let (hosts, switches) = (self.names.len(), self.sketch.switches());
        let plural = if switches == 1 { "" } else { "es" };
        print_line(format_args!(
            "{hosts} hosts on {switches} switch{plural}, by {} pairs of flows in {:.1} s",
            self.discovery.recorded(),
            self.seconds
        ));
        if hosts < 4 {
            print_line(format_args!(
                "of fewer than four hosts no two flows can tell which switches are between them"
            ));
        }
    }

    fn file(&self) -> String {
        let told = |cable| {
            let Support { agree, asked } = self.support(cable);
            let word = if agree == asked {
                "sure"
            } else {
                "low confidence"
            };
            format!("{word}: {agree} of {asked} flows agree")
        };
        format!(
            "# Found by `ethbcast probe --discover` on {}: {} pairs of flows in {:.1} s. The switches' names are made \
             up.\n# A switch with one host, and a cable that slows no two flows, are not seen: they hold up \
             nobody.\n{}",
            self.names[0],
            self.discovery.recorded(),
            self.seconds,
            self.sketch.to_toml(self.names, told)
        )
    }

    fn json(&self) -> serde_json::Value {
        let cables = self.sketch.cables().into_iter().map(|cable| {
            let Support { agree, asked } = self.support(cable);
            let [here, there] = self
                .sketch
                .sides(cable)
                .map(|side| side.iter().map(|&host| &self.names[host]).collect());
            let (here, there): (Vec<&String>, Vec<&String>) = (here, there);
            json!({
                "switches": [format!("s{}", cable.0), format!("s{}", cable.1)],
                "sides": [here, there],
                "agree": agree,
                "asked": asked,
                "confidence": if agree == asked { "high" } else { "low" },
            })
        });
        json!({
            "schema": 1,
            "host": self.names[0],
            "group": self.args.wire.group,
            "hosts": self.names,
            "switches": self.sketch.switches(),
            "cables": cables.collect::<Vec<_>>(),
            "pairs_of_flows": self.discovery.recorded(),
            "seconds": self.seconds,
            "confidence": if self.is_sure { "high" } else { "low" },
            "topology": self.args.out.as_ref().map(|path| path.display().to_string()),
        })
    }
}
