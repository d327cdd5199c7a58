//! Plays a schedule: builds its hosts and its network, lets happen what is to happen, and watches.

use super::application::{Disk, Origin, Shelf};
use super::class::Class;
use super::draw::Draw;
use super::report::Report;
use super::schedule::{Happening, Schedule};
use super::watch::{Host, Watch};
use super::weather::Weather;
use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::{Receiver, ReceiverConfig, Root, RootConfig, Route, Station, Wanted};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{CableId, Network, Outcome, Simulation, host_mac};
use ethbcast_transport::wire::group_mac;
use std::rc::Rc;
use std::time::Duration;

/// The group of all schedules.
const GROUP: &str = "swarm";

/// Plays a schedule; with its story, if that is to be told.
pub fn play(schedule: &Schedule, told: bool) -> (Report, Vec<String>) {
    let shelves: Vec<Rc<Shelf>> = (0..schedule.hosts()).map(|_| Rc::default()).collect();
    let (mut network, trunks) = schedule.cluster.network(schedule.mtu_bytes);
    (0..schedule.hosts()).for_each(|host| network.host_mut(host).groups = vec![group_mac(GROUP)]);
    let weather = Weather::new(
        Draw::new(schedule.seed.number(), 2),
        schedule.rules.clone(),
        Instant::START + schedule.heals,
        schedule.core,
    );
    let mut simulation = Simulation::new(&network, hosts(schedule, &shelves), weather);
    simulation.set_event_limit(events_bound(schedule));
    let dead = happen(&mut simulation, schedule, &network, &trunks);
    let macs = (0..schedule.hosts()).map(host_mac).collect();
    let mut watch = Watch::new(schedule, shelves, macs);
    if told {
        watch.listen();
    }
    let outcome = simulation.run(schedule.bound(), |number, host: &mut Host, now| watch.turn(number, host, now));
    let next = simulation.next_deadline();
    if !outcome.is_quiet() {
        watch.report_mut().blame(format!("it does not go quiet: {outcome:?}, next {next:?}"));
    }
    let story = watch.take_story();
    let mut report = watch.finish(schedule, simulation.machines(), &dead);
    conclude(&mut report, schedule, &mut simulation, outcome);
    (report, story)
}

/// Schedules what happens to hosts and cables; who will be dead.
fn happen(
    simulation: &mut Simulation<Host, Weather>,
    schedule: &Schedule,
    network: &Network,
    trunks: &[CableId],
) -> Vec<bool> {
    let mut dead = vec![false; schedule.hosts()];
    for (host, &starts) in schedule.starts.iter().enumerate().filter(|(_, starts)| !starts.is_zero()) {
        simulation.pause(host, Instant::START);
        simulation.resume(host, Instant::START + starts);
    }
    for &(at, happening) in &schedule.happenings {
        let at = Instant::START + at;
        match happening {
            Happening::Crash(host) => {
                dead[host] = true;
                simulation.crash(host, at);
            }
            Happening::Pause(host, lasts) => {
                simulation.pause(host, at);
                simulation.resume(host, at + lasts);
            }
            Happening::Cut(host, lasts) => {
                simulation.cut(network.cable_of(host), at);
                simulation.restore(network.cable_of(host), at + lasts);
            }
            Happening::CutTrunk(trunk, lasts) => {
                simulation.cut(trunks[trunk], at);
                simulation.restore(trunks[trunk], at + lasts);
            }
        }
    }
    dead
}

fn conclude(report: &mut Report, schedule: &Schedule, simulation: &mut Simulation<Host, Weather>, outcome: Outcome) {
    let stats = simulation.stats();
    let weather = simulation.faults_mut();
    report.trace = weather.trace();
    report.classes = schedule.classes.iter().map(|&class| (class, weather.hits()[class.index()])).collect();
    report.classes.iter_mut().for_each(|(class, hits)| {
        *hits += match class {
            Class::SmallRings => stats.drops.port_queue + stats.drops.nic_ring,
            Class::Pause | Class::Crash | Class::RootDeath | Class::LinkFlap => schedule.happenings.len() as u64,
            Class::SlowCpu | Class::SlowDisk | Class::DiskError | Class::Lazy => 1,
            _ => 0,
        };
    });
    (report.events, report.frames) = (stats.events, stats.sent_frames);
    let at = if let Outcome::Quiet { at } = outcome { at } else { simulation.now() };
    report.millis = at.since(Instant::START).as_millis() as u64;
}

/// Events within which all must be over: what frames and signs of life take, many times.
fn events_bound(schedule: &Schedule) -> u64 {
    let (hosts, seconds) = (schedule.hosts() as u64, schedule.bound().as_secs_f64() as u64);
    let frames = schedule.bytes as u64 / (u64::from(schedule.mtu_bytes) - 32) + 10;
    100_000 + hosts * frames * 400 + seconds * hosts * hosts * 200
}

fn hosts(schedule: &Schedule, shelves: &[Rc<Shelf>]) -> Vec<Host> {
    let number = schedule.seed.number();
    let sent = Rc::new(vec![Rc::new(Draw::new(number, 3).bytes(schedule.bytes))]);
    let config = RootConfig {
        size: schedule.sized.then_some(schedule.bytes as u64),
        wanted: Wanted { at_least: 1, enough: Some(schedule.hosts() - 1), patience: schedule.gathers },
        route: Route::Via(schedule.via),
        tuning: schedule.tuning.clone(),
        timing: schedule.timing,
        late: schedule.late,
        on_slow: schedule.on_slow,
        probe: false,
        ..RootConfig::new(station(schedule, 0), 0x5E55_0000 ^ number as u32, "file0")
    };
    let origin = Origin::new(Rc::clone(&sent[0]), schedule.pipe, schedule.gives);
    let root = Participant::root(Root::new(Instant::START, config), origin);
    let receivers = (1..schedule.hosts()).map(|host| {
        let config = ReceiverConfig {
            patience: Some(schedule.heals + Duration::from_secs(20)),
            tuning: schedule.tuning.clone(),
            timing: schedule.timing,
            ..ReceiverConfig::new(station(schedule, host), number ^ (host as u64) << 32)
        };
        let disk = Disk::new(schedule.disks[host], Rc::clone(&shelves[host]), Rc::clone(&sent), false);
        Participant::receiver(Receiver::new(Instant::START, config), disk)
    });
    std::iter::once(root).chain(receivers).collect()
}

fn station(schedule: &Schedule, host: usize) -> Station {
    Station::new(GROUP, &format!("n{host}"), host_mac(host), schedule.mtu_bytes)
}
