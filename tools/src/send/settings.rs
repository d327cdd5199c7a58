//! Resolution of the arguments of `send`.

use super::last_run::{self, LastRun};
use crate::args::SendArgs;
use crate::exit::{Code, WithCode, fail};
use crate::node_set;
use crate::route::{admit, check_preset, read_calibration_for, read_plan, read_route};
use crate::session;
use crate::topology_file::read_topology;
use ethbcast_collectives::Preset;
use ethbcast_collectives::session::{OnSlow, Rate, RateLimit, Route, SendOptions, Start, Station};
use ethbcast_planning::model::MAX_ATOMIC_SEGMENT_FRAMES;
use ethbcast_planning::plan::CheckReport;
use ethbcast_planning::plan::file::Contention;
use ethbcast_planning::topology::nodeset;
use ethbcast_transport::wire::HEADER_BYTES;
use std::io::IsTerminal;
use std::time::Duration;

#[derive(Debug)]
pub struct Settings {
    pub options: SendOptions,
    /// Result of checking a saved plan, if the topology is known.
    pub verdict: Option<CheckReport>,
    /// Whether the user may start the transfer at Enter.
    pub at_enter: bool,
    /// The last run, if the arguments refer to it.
    pub last_run: Option<LastRun>,
    topology_name: String,
}

impl Settings {
    /// Resolves the arguments.
    ///
    /// # Errors
    /// A [`Failure`](crate::exit::Failure) with code 2, or 4 if the topology file cannot be read.
    pub fn resolve(args: &SendArgs) -> anyhow::Result<Settings> {
        let mut options = SendOptions { wire: session::wire(&args.wire), ..SendOptions::new() };
        args.patience.apply(&mut options.run);
        args.stall.apply(&mut options);
        options.late = args.late;
        options.topology = args.topology.as_deref().map(read_topology).transpose()?;
        let mut verdict = None;
        options.route = match &args.plan {
            Some(path) => {
                let plan = read_plan(path)?;
                let contention = if args.allow_contention { Contention::Allowed } else { Contention::Refused };
                verdict = admit(&plan, options.topology.as_ref(), contention)?;
                Route::Saved(Box::new(plan))
            }
            None => read_route(&args.via)?,
        };
        options.preset = args.preset;
        check_preset(args.preset, &options.route)?;
        if let (true, Route::Via(via)) = (args.late, &options.route)
            && via.is_in_blocks()
        {
            let text = format!(
                "--via {via} goes in blocks among those who are there at the start: leave out --late, or send via \
                 chain or cast"
            );
            return fail(Code::Usage, text);
        }
        options.push_bytes = args.push_bytes;
        if args.push_bytes.is_some() && args.preset != Preset::PushPull {
            return fail(Code::Usage, "--push-bytes is a number of one protocol: add --via cast --preset push-pull");
        }
        let calibration = |path| read_calibration_for(path, options.topology.as_ref());
        options.calibration = args.calibration.as_deref().map(calibration).transpose()?;
        options.max_wait = args.max_wait.map(Duration::from_secs_f64);
        options.wire.mtu_bytes = args.mtu;
        let yielding = args.nice.then(|| args.rate.unwrap_or(Rate::HIGHEST).yielding());
        options.rate = yielding.or(args.rate).map(RateLimit::new);
        if args.nice && options.on_slow == OnSlow::Demote {
            // With --nice no receiver is demoted, because the catch-up stream would not yield to
            // other traffic.
            options.on_slow = OnSlow::Wait;
        }
        (options.probe, options.dry_run) = (!args.no_probe, args.dry_run);
        options.start = args.start_rule.map(|_| Start::new());
        let last_run = LastRun::read(&args.resume)?;
        last_run::try_place(args.resume.report.as_deref())?;
        read_audience(args, last_run.as_ref(), &mut options)?;
        let at_enter = options.start.is_some();
        // `ethbcast ctl start` can start any session.
        options.start.get_or_insert_default();
        let topology_name = args.topology.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        Ok(Settings { options, verdict, at_enter, last_run, topology_name })
    }

    /// Checks that the topology contains this host and that the plan fits its MTU, before receivers
    /// are awaited.
    ///
    /// # Errors
    /// A [`Failure`](crate::exit::Failure) with code 2.
    pub fn check_station(&self, station: &Station) -> anyhow::Result<()> {
        if let Route::Saved(plan) = &self.options.route {
            let frame_payload_bytes = u64::from(station.mtu_bytes) - HEADER_BYTES as u64;
            plan.check_segment(frame_payload_bytes * MAX_ATOMIC_SEGMENT_FRAMES).code(Code::Usage)?;
        }
        self.check_host(&station.host)
    }

    fn check_host(&self, host: &str) -> anyhow::Result<()> {
        let topology = self.options.topology.as_ref();
        let Some(topology) = topology.filter(|topology| topology.host_named(host).is_none()) else { return Ok(()) };
        let known = nodeset::fold(topology.hosts());
        let text =
            format!("{} names no host {host}, only {known}: say which of them this is with --host", self.topology_name);
        fail(Code::Usage, text)
    }
}

fn read_audience(args: &SendArgs, last_run: Option<&LastRun>, options: &mut SendOptions) -> anyhow::Result<()> {
    options.receivers = args.receivers.map(usize::from);
    options.min_receivers = args.min_receivers.map(usize::from);
    if let Some(hosts) = &args.hosts {
        options.hosts = node_set::hosts(hosts).map_err(|failure| failure.of_option("--hosts"))?;
    }
    if let Some(last) = last_run {
        options.hosts = last.hosts(args.resume.only_missing);
    }
    let most = options.receivers.unwrap_or(usize::MAX);
    let named = if options.hosts.is_empty() { usize::MAX } else { options.hosts.len() };
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
    if options.receivers.is_some() || options.min_receivers.is_some() || args.hosts.is_some() || last_run.is_some() {
        return Ok(());
    }
    if args.source.iter().any(|source| source == "-")
        || args.pipe.is_some()
        || !std::io::stdin().is_terminal()
        || !std::io::stderr().is_terminal()
    {
        let text = "for whom to wait? say how many with -n N (and --min-receivers M --max-wait SECONDS, if fewer will \
                    do), or who with --hosts n[1-31]";
        return fail(Code::Usage, text);
    }
    options.start = Some(Start::new());
    Ok(())
}
