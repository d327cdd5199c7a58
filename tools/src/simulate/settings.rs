//! Interpretation of the arguments of `ethbcast simulate`.

use crate::args::SimulateArgs;
use crate::exit::{Code, WithCode, fail};
use crate::inputs::{admit, find_root, read_calibration_for, read_plan, read_route, read_topology};
use crate::session::check_mtu;
use ethbcast_collectives::session::Route;
use ethbcast_lab::parse_rate;
use ethbcast_planning::model::{Calibration, MAX_ATOMIC_SEGMENT_FRAMES, Processing};
use ethbcast_planning::plan::Via;
use ethbcast_planning::plan::file::{Contention, SavedPlan};
use ethbcast_planning::topology::{ASSUMED_RATE_BITS_PER_SECOND, Topology};
use ethbcast_transport::wire::OVERHEAD_BYTES;
use std::time::Duration;

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

#[derive(Clone, Copy, Debug)]
pub struct OneCopy {
    /// Bytes of its frames with headers, without preamble, checksum and gap.
    pub frame_bytes: u64,
    /// Time on a cable, a lower bound for any algorithm.
    pub time: Duration,
}

impl OneCopy {
    pub fn new(bytes: u64, conditions: &Conditions) -> OneCopy {
        let frames = bytes.div_ceil(conditions.payload_bytes());
        let frame_bytes = bytes + frames * OVERHEAD_BYTES as u64;
        let bits = (frame_bytes + frames * conditions.overhead_bytes()) as f64 * 8.0;
        OneCopy { frame_bytes, time: Duration::from_secs_f64(bits / conditions.rate_bits_per_second as f64) }
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
            plan.check_segment(conditions.payload_bytes() * MAX_ATOMIC_SEGMENT_FRAMES).code(Code::Usage)?;
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
            let topology = Topology::single_switch((0..count).map(|host| format!("n{host}"))).code(Code::Usage)?;
            ("one switch".to_owned(), topology)
        }
    };
    check_hosts(topology.hosts().len())?;
    Ok((name, topology))
}

fn check_hosts(hosts: usize) -> anyhow::Result<()> {
    match hosts {
        2..=MAX_HOSTS => Ok(()),
        _ => fail(Code::Usage, format!("a simulation of {hosts} hosts: choose 2 to {MAX_HOSTS}")),
    }
}

fn conditions(args: &SimulateArgs, fastest_host_rate: Option<u64>) -> anyhow::Result<Conditions> {
    let usual_delay = if args.lab { 0.0 } else { DEFAULT_DELAY_MICROSECONDS };
    let delay_microseconds = args.delay.unwrap_or(usual_delay);
    if !(0.0..=MAX_DELAY_MICROSECONDS).contains(&delay_microseconds) {
        return fail(
            Code::Usage,
            format!("a delay of {delay_microseconds} µs: choose 0 to {MAX_DELAY_MICROSECONDS} with --delay"),
        );
    }
    if !(0.0..1.0).contains(&args.loss) {
        return fail(
            Code::Usage,
            format!("a loss of {}: choose a share of frames from 0 to below 1, such as 0.01, with --loss", args.loss),
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
        _ => fail(Code::Usage, format!("{bytes} bytes do not fit into memory: choose a --size of at most 16G")),
    }
}

#[derive(Clone, Debug)]
pub struct Routes {
    pub all: Vec<Route>,
    pub compared: bool,
}

impl Routes {
    pub fn resolve(args: &SimulateArgs) -> anyhow::Result<Routes> {
        let one = |route| Ok(Routes { all: vec![route], compared: false });
        match (&args.plan, args.via.as_str()) {
            (Some(path), _) => one(Route::Saved(Box::new(read_plan(path)?))),
            (None, "all") => Ok(Routes { all: Via::ALL.iter().copied().map(Route::Via).collect(), compared: true }),
            (None, name) => one(read_route(name)?),
        }
    }

    pub fn saved(&self) -> Option<&SavedPlan> {
        self.all.iter().find_map(|route| if let Route::Saved(plan) = route { Some(&**plan) } else { None })
    }
}
