//! Interpretation of the arguments of `ethbcast send`.

use super::outcome::{ABSENT, REFUSED};
use crate::args::{ResumeArgs, SendArgs};
use crate::exit::{Code, Failure, WithCode, fail};
use crate::inputs::{
    admit, check_preset, read_calibration_for, read_plan, read_route, read_topology,
};
use crate::{inputs, key, report, session, whole_file};
use ethbcast_collectives::Preset;
use ethbcast_collectives::session::{
    NoPlan, OnSlow, Rate, RateLimit, Route, SendOptions, Start, Station,
};
use ethbcast_planning::model::MAX_ATOMIC_SEGMENT_FRAMES;
use ethbcast_planning::plan::CheckReport;
use ethbcast_planning::plan::file::Contention;
use ethbcast_planning::topology::{Topology, nodeset};
use serde_json::Value;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

/// Time without a newcomer after which a round of a carousel begins.
const LINGER: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Settings {
    pub options: SendOptions,
    /// Result of checking a saved plan, if the topology is known.
    pub verdict: Option<CheckReport>,
    pub at_enter: bool,
    pub last_run: Option<LastRun>,
    topology_name: String,
}

impl Settings {
    pub fn resolve(args: &SendArgs) -> anyhow::Result<Settings> {
        let mut options = SendOptions {
            wire: session::wire(&args.wire),
            ..SendOptions::new()
        };
        (options.wire.keys, options.auth_only) = (key::sending(&args.key)?, args.auth_only);
        args.patience.apply(&mut options.run);
        args.stall.apply(&mut options);
        options.late = args.late;
        let linger = args.linger.map_or(LINGER, Duration::from_secs_f64);
        options.carousel = args.carousel.then_some(linger);
        let (topology, topology_name) = read_switches(args)?.unzip();
        options.topology = topology;
        let mut verdict = None;
        options.route = match &args.plan {
            Some(path) => {
                let plan = read_plan(path)?;
                let contention = if args.allow_contention {
                    Contention::Allowed
                } else {
                    Contention::Refused
                };
                verdict = admit(&plan, options.topology.as_ref(), contention)?;
                Route::Saved(Box::new(plan))
            }
            None => read_route(&args.via)?,
        };
        options.preset = args.preset;
        check_preset(args.preset, &options.route)?;
        let in_blocks = match &options.route {
            Route::Via(via) => Some(*via),
            Route::Saved(plan) => Some(plan.via()),
            Route::Auto => None,
        };
        if let Some(via) = in_blocks.filter(|via| args.late && via.is_in_blocks()) {
            let text = format!(
                "{via} goes in blocks among those who are there at the start: leave out --late, or send via \
                 chain or cast"
            );
            return fail(Code::Usage, text);
        }
        options.push_bytes = args.push_bytes;
        if args.push_bytes.is_some() && args.preset != Preset::PushPull {
            return fail(
                Code::Usage,
                "--push-bytes is a number of one protocol: add --via cast --preset push-pull",
            );
        }
        let calibration = |path| read_calibration_for(path, options.topology.as_ref());
        options.calibration = args.calibration.as_deref().map(calibration).transpose()?;
        options.max_wait = args.max_wait.map(Duration::from_secs_f64);
        (options.wire.mtu_bytes, options.wire.priority) = (args.mtu, args.priority);
        let yielding = args
            .nice
            .then(|| args.rate.unwrap_or(Rate::HIGHEST).yielding());
        options.rate = yielding.or(args.rate).map(RateLimit::new);
        options.greedy = args.greedy;
        if args.nice && options.on_slow == OnSlow::Demote {
            // With --nice no receiver is demoted, because the catch-up stream would not yield to
            // other traffic.
            options.on_slow = OnSlow::Wait;
        }
        (options.probe, options.dry_run) = (!args.no_probe, args.dry_run);
        options.start = args.start_rule.map(|_| Start::new());
        let last_run = LastRun::read(&args.resume)?;
        try_place(args.resume.report.as_deref())?;
        read_audience(args, last_run.as_ref(), &mut options)?;
        let at_enter = options.start.is_some();
        // `ethbcast ctl start` can start any session.
        options.start.get_or_insert_default();
        Ok(Settings {
            options,
            verdict,
            at_enter,
            last_run,
            topology_name: topology_name.unwrap_or_default(),
        })
    }

    /// Checks that the topology contains this host and that the plan fits its MTU, before receivers
    /// are awaited.
    pub fn check_station(&self, station: &Station) -> anyhow::Result<()> {
        if let Route::Saved(plan) = &self.options.route {
            let frame_payload_bytes = u64::from(station.payload_bytes());
            plan.check_segment(frame_payload_bytes * MAX_ATOMIC_SEGMENT_FRAMES)
                .code(Code::Usage)?;
        }
        self.check_host(&station.host)
    }

    fn check_host(&self, host: &str) -> anyhow::Result<()> {
        let Some(topology) = &self.options.topology else {
            return Ok(());
        };
        if let Some(root) = topology.host_named(host) {
            return self.check_silent(topology, root);
        }
        let known = nodeset::fold(topology.hosts());
        let text = format!(
            "{} names no host {host}, only {known}: say which of them this is with --host",
            self.topology_name
        );
        fail(Code::Usage, text)
    }

    /// Refuses receivers that cannot talk to this host before they are awaited.
    fn check_silent(&self, topology: &Topology, root: usize) -> anyhow::Result<()> {
        let is_silent = |name: &&String| {
            let host = topology.host_named(name);
            host.is_some_and(|host| !topology.can_talk(root, host))
        };
        let silent: Vec<&String> = self.options.hosts.iter().filter(is_silent).collect();
        if silent.is_empty() {
            return Ok(());
        }
        let (hosts, root) = (nodeset::fold(&silent), topology.hosts()[root].clone());
        fail(Code::Usage, NoPlan::Silent { hosts, root })
    }
}

/// Returns the topology and its file's name: the given one or, for named hosts of a Slurm job,
/// Slurm's own if it names them and this host.
fn read_switches(args: &SendArgs) -> anyhow::Result<Option<(Topology, String)>> {
    if let Some(path) = &args.topology {
        return Ok(Some((read_topology(path)?, path.display().to_string())));
    }
    let Some(hosts) = args.hosts.as_deref().filter(|_| args.plan.is_none()) else {
        return Ok(None);
    };
    let mut names = inputs::hosts(hosts).map_err(|failure| failure.of_option("--hosts"))?;
    names.push(session::host_name(&args.wire));
    Ok(inputs::slurms_topology(&names))
}

fn read_audience(
    args: &SendArgs,
    last_run: Option<&LastRun>,
    options: &mut SendOptions,
) -> anyhow::Result<()> {
    options.receivers = args.receivers.map(usize::from);
    options.min_receivers = args.min_receivers.map(usize::from);
    if let Some(hosts) = &args.hosts {
        options.hosts = inputs::hosts(hosts).map_err(|failure| failure.of_option("--hosts"))?;
    }
    if let Some(last) = last_run {
        options.hosts = last.hosts(args.resume.only_missing);
    }
    let most = options.receivers.unwrap_or(usize::MAX);
    let named = if options.hosts.is_empty() {
        usize::MAX
    } else {
        options.hosts.len()
    };
    for (option, count, most, all) in [
        ("--min-receivers", options.min_receivers, most, "-n"),
        ("--min-receivers", options.min_receivers, named, "--hosts"),
        ("-n", options.receivers, named, "--hosts"),
    ] {
        if let Some(count) = count.filter(|&count| count > most) {
            return fail(
                Code::Usage,
                format!("{option} {count} is more than the {most} of {all}: choose a smaller one"),
            );
        }
    }
    if options.receivers.is_some()
        || options.min_receivers.is_some()
        || args.hosts.is_some()
        || last_run.is_some()
        || args.carousel
    {
        return Ok(());
    }
    if args.source.iter().any(|source| source == "-")
        || args.pipe.is_some()
        || !std::io::stdin().is_terminal()
        || !std::io::stderr().is_terminal()
    {
        let text = "which receivers to wait for? give their number with -n N (and --min-receivers M --max-wait \
                    SECONDS, if fewer are enough), or their names with --hosts n[1-31]";
        return fail(Code::Usage, text);
    }
    options.start = Some(Start::new());
    Ok(())
}

const VERIFIED: &str = "verified";

#[derive(Debug, PartialEq, Eq)]
pub struct LastRun {
    pub bytes: Option<u64>,
    pub receivers: Vec<(String, bool)>,
}

impl LastRun {
    pub fn read(args: &ResumeArgs) -> anyhow::Result<Option<LastRun>> {
        let Some(path) = args
            .report
            .as_ref()
            .filter(|_| args.resume || args.only_missing)
        else {
            return Ok(None);
        };
        if report::is_page(path) {
            let text = "--resume and --only-missing read the last report, and a page is for people: keep reports as \
                        JSON, --report run.json, and make pages of them by `ethbcast report run.json --out run.html`";
            return fail(Code::Usage, text);
        }
        let text = fs::read_to_string(path).map_err(|error| {
            let help = "send once with --report FILE, or name the hosts with --hosts";
            Failure::new(
                Code::System,
                format!(
                    "cannot read the last report {}: {error}; {help}",
                    path.display()
                ),
            )
        })?;
        match LastRun::parse(&text) {
            Ok(last) => Ok(Some(last)),
            Err(why) => fail(
                Code::Usage,
                format!(
                    "{} {why}; name the hosts with --hosts, or send to all with -n",
                    path.display()
                ),
            ),
        }
    }

    fn parse(text: &str) -> Result<LastRun, String> {
        let report = report::object(text)?;
        let receiver = |one: &Value| {
            Some((
                one["host"].as_str()?.to_owned(),
                one["status"].as_str()? == VERIFIED,
            ))
        };
        let receivers = report["receivers"]
            .as_array()
            .and_then(|all| all.iter().map(receiver).collect());
        let mut receivers: Vec<(String, bool)> =
            receivers.ok_or("is no report of `send`: it names no receivers")?;
        // Hosts that were wanted and did not take part lack the bytes, too.
        let is_wanted = |one: &&Value| {
            [REFUSED, ABSENT]
                .map(Some)
                .contains(&one["status"].as_str())
        };
        let left_out = report["left_out"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(is_wanted);
        receivers
            .extend(left_out.filter_map(|one| Some((one["host"].as_str()?.to_owned(), false))));
        if receivers.is_empty() {
            return Err("is the report of a run without receivers".to_owned());
        }
        Ok(LastRun {
            bytes: report["bytes"]
                .as_u64()
                .filter(|_| !report["blake3"].is_null()),
            receivers,
        })
    }

    /// Returns the hosts of this run: all, or those that have not verified the bytes.
    pub fn hosts(&self, only_missing: bool) -> Vec<String> {
        let wanted = self
            .receivers
            .iter()
            .filter(|(_, verified)| !(only_missing && *verified));
        wanted.map(|(host, _)| host.clone()).collect()
    }

    /// Checks that SOURCE has the length of the last run's content, which some receivers have
    /// verified.
    pub fn check_source(&self, bytes: Option<u64>) -> anyhow::Result<()> {
        match self.bytes.zip(bytes).filter(|(before, now)| before != now) {
            Some((before, now)) => fail(
                Code::Usage,
                format!(
                    "the last report is of {before} bytes, SOURCE has {now}: it is another; send it to all, without \
                     --only-missing"
                ),
            ),
            None => Ok(()),
        }
    }
}

/// Writes a report to a file atomically.
pub fn save(path: &Path, report: &str) -> anyhow::Result<()> {
    whole_file::save(path, &format!("{report}\n")).map_err(|error| unwritable(path, &error))
}

/// Checks before the transfer that the report's file can be written.
pub fn try_place(path: Option<&Path>) -> anyhow::Result<()> {
    path.map_or(Ok(()), |path| {
        whole_file::try_place(path).map_err(|error| unwritable(path, &error))
    })
}

fn unwritable(path: &Path, error: &io::Error) -> anyhow::Error {
    let text = format!(
        "cannot write the report to {}: {error}; give --report another FILE",
        path.display()
    );
    Failure::new(Code::System, text).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report_text(schema: u64, blake3: &str) -> String {
        format!(
            r#"{{"schema":{schema},"bytes":7,"blake3":{blake3},"receivers":[
                {{"host":"n1","status":"verified"}},{{"host":"n2","status":"died"}},
                {{"host":"n3","status":"verified"}}],"left_out":[{{"host":"n4","status":"absent"}},
                {{"host":"n5","status":"refused"}},{{"host":"n6","status":"unwanted"}},{{"host":"n7"}}]}}"#
        )
    }

    #[test]
    fn a_report_says_who_is_missing_and_of_what() {
        let last = LastRun::parse(&report_text(1, "\"ab\"")).expect("a report");
        assert_eq!(last.hosts(true), ["n2", "n4", "n5"]);
        assert_eq!(last.hosts(false), ["n1", "n2", "n3", "n4", "n5"]);
        assert!(last.check_source(Some(7)).is_ok() && last.check_source(None).is_ok());
        let text = last.check_source(Some(8)).expect_err("another").to_string();
        assert!(
            text.contains("7 bytes, SOURCE has 8") && text.contains("without --only-missing"),
            "{text}"
        );
        let unfinished = LastRun::parse(&report_text(1, "null")).expect("a report");
        assert!(
            unfinished.check_source(Some(8)).is_ok(),
            "its end was not reached"
        );
        let alone = r#"{"schema":1,"receivers":[],"left_out":[{"host":"n4","status":"absent"}]}"#;
        assert_eq!(
            LastRun::parse(alone).expect("nobody joined").hosts(true),
            ["n4"]
        );
    }

    #[test]
    fn a_file_that_is_no_report_or_of_another_version_is_refused_by_name() {
        for (text, word) in [
            (report_text(2, "null"), "version 2"),
            ("{}".to_owned(), "names no schema"),
            ("no json".to_owned(), "no report of `send`"),
            (r#"{"schema":1}"#.to_owned(), "names no receivers"),
            (
                r#"{"schema":1,"receivers":[]}"#.to_owned(),
                "without receivers",
            ),
            (
                r#"{"schema":1,"receivers":[{"host":3}]}"#.to_owned(),
                "names no receivers",
            ),
        ] {
            let why = LastRun::parse(&text).expect_err("it is none");
            assert!(why.contains(word), "{why}");
        }
    }
}
