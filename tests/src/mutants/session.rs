//! One session under the simulator, watched throughout: a planted bug has to get past its checks.

use super::acknowledged::Acknowledged;
use super::forgery::Forgery;
use super::side_streams::SideStreams;
use crate::session::{Case, GROUP, Host, hosts, star, strike, turn};
use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::{Blocks, MemberReport, Outcome as Fate, kind};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{Delivery, Fate as FrameFate, Faults, Outcome, RandomFaults, Simulation};
use ethbcast_transport::stream::StreamStats;
use ethbcast_transport::wire::{group_mac, parse};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Scene {
    pub case: Case,
    pub faults: RandomFaults,
    pub rate: u64,
    pub within: Duration,
    /// Maximum numbers of retransmissions and heartbeats, if judged.
    pub budgets: Option<(f64, f64)>,
    pub forgeries: Vec<(Duration, Forgery)>,
}

#[derive(Debug, Default)]
struct Seen {
    verdicts: BTreeSet<usize>,
    views_alone: u64,
    visible: BTreeSet<usize>,
    acknowledged: Acknowledged,
    side_streams: SideStreams,
}

struct Watch {
    faults: RandomFaults,
    seen: Rc<RefCell<Seen>>,
}

impl Faults for Watch {
    fn fate(&mut self, delivery: &Delivery<'_>) -> FrameFate {
        if let Ok(frame) = parse(delivery.frame) {
            let mut seen = self.seen.borrow_mut();
            seen.acknowledged.note(delivery);
            seen.side_streams.note(delivery, &frame);
            if frame.header.kind == kind::VERDICT {
                seen.verdicts.insert(delivery.to);
            }
            let to_all = delivery.frame[..6] == group_mac(GROUP).octets();
            seen.views_alone += u64::from(frame.header.kind == kind::VIEW && !to_all);
        }
        self.faults.fate(delivery)
    }
}

pub fn run(scene: &Scene, seed: u64) -> Result<(), String> {
    let case = &scene.case;
    let seen = Rc::new(RefCell::new(Seen::default()));
    let watch = Watch { faults: scene.faults.clone(), seen: Rc::clone(&seen) };
    let network = star(case, scene.rate);
    let mut simulation = Simulation::new(&network, hosts(case, seed), watch);
    simulation.set_event_limit(3_000_000);
    strike(case, &network, &mut simulation);
    let wrong = RefCell::new(None);
    let mut turn = |number: usize, host: &mut Host, now: Instant| {
        let again = turn(host, now);
        let mut wrong = wrong.borrow_mut();
        *wrong = wrong.take().or_else(|| look_at(number, host, &mut seen.borrow_mut()));
        again
    };
    for (at, forgery) in &scene.forgeries {
        let at = Instant::START + *at;
        if !simulation.run(at, &mut turn).is_quiet() {
            forgery.inject(&mut simulation, seed, seed as usize / 16, at);
        }
    }
    let outcome = simulation.run(Instant::START + Duration::from_secs(120), &mut turn);
    if let Some(wrong) = wrong.borrow_mut().take() {
        return Err(wrong);
    }
    let Outcome::Quiet { .. } = outcome else { return Err(format!("{outcome:?}: {:?}", simulation.next_deadline())) };
    let seen = seen.borrow();
    if let Some(wrong) = seen.side_streams.wrong().filter(|_| scene.forgeries.is_empty()) {
        return Err(wrong.to_owned());
    }
    // A host that takes over another's children acknowledges for more hosts than before.
    let settled = scene.forgeries.is_empty() && case.crashes.is_empty() && case.absences.is_empty();
    if let Some(wrong) = seen.acknowledged.wrong().filter(|_| settled) {
        return Err(wrong.to_owned());
    }
    check(scene, simulation.machines(), seen.views_alone)
}

fn look_at(number: usize, host: &Host, seen: &mut Seen) -> Option<String> {
    if let Err(why) = host.streams().map_or(Ok(()), Blocks::audit) {
        return Some(format!("host {number}: {why}"));
    }
    match host {
        Participant::Receiver(_, receiving) if receiving.sink().is_published() => {
            seen.visible.insert(number);
            let early = !seen.verdicts.contains(&number);
            early.then(|| format!("host {number} made visible what the root had not confirmed"))
        }
        Participant::Receiver(..) => None,
        Participant::Root(root, _) => {
            let is_visible = |name: &str| seen.visible.iter().any(|host| format!("n{host}") == name);
            let mut counted = root.reports().filter(|report| report.outcome == Fate::Delivered);
            let wrong = counted.find(|report| !is_visible(&report.host))?;
            Some(format!("the root counts {}, where nothing is visible", wrong.host))
        }
    }
}

fn check(scene: &Scene, hosts: &[Host], views_alone: u64) -> Result<(), String> {
    let (case, total) = (&scene.case, hosts.len() as u64);
    let Participant::Root(root, sending) = &hosts[0] else { unreachable!("host 0 is the root") };
    let sent = sending.source().bytes();
    let ensure = |sound: bool, what: &dyn Fn() -> String| if sound { Ok(()) } else { Err(what()) };
    ensure(root.is_over(), &|| "the root is not over".to_owned())?;
    let dead: BTreeSet<usize> = case.crashes.iter().map(|&(host, _)| host).collect();
    if root.failure().is_some() && !dead.is_empty() {
        return Ok(()); // Somebody died before all were there.
    }
    for (host, receiving) in hosts.iter().enumerate().filter_map(|(host, one)| Some((host, one.receiving()?))) {
        let (disk, published) = (receiving.sink(), receiving.sink().is_published());
        ensure(!published || disk.bytes() == sent, &|| format!("host {host} made other bytes visible"))?;
        let is = |report: &&MemberReport| report.host == format!("n{host}");
        let fate = root.reports().find(is).map(|report| report.outcome);
        let delivered = fate == Some(Fate::Delivered) && published;
        let may_die = dead.contains(&host) && matches!(fate, Some(Fate::Silent | Fate::Delivered));
        ensure(delivered || may_die, &|| format!("host {host} ended as {fate:?}, visible: {published}"))?;
    }
    ensure(root.took() <= scene.within, &|| format!("it took {:?}, not {:?}", root.took(), scene.within))?;
    let totals = hosts.iter().map(Host::stream_stats).fold(StreamStats::default(), |sum, one| sum + one);
    let control: u64 = hosts.iter().map(|host| host.control_stats().sent).sum();
    let (resent, asked) = scene.budgets.unwrap_or((f64::INFINITY, f64::INFINITY));
    ensure(totals.data_resent as f64 <= resent, &|| {
        format!("{} frames sent again, budget {resent:.0}", totals.data_resent)
    })?;
    ensure(totals.heartbeats_sent as f64 <= asked, &|| {
        format!("{} heartbeats, budget {asked:.0}", totals.heartbeats_sent)
    })?;
    let honest = scene.forgeries.is_empty();
    ensure(!honest || totals.beyond_credit == 0, &|| format!("{} frames beyond the credit", totals.beyond_credit))?;
    let most = 2000 * total;
    ensure(control < most, &|| format!("{control} control frames"))?;
    // Four members at a time are sent a view alone, and only after it was sent to all three times.
    let parts = total * 40 / 268 + 1;
    // An absent host is sent the view alone until it is back.
    let most = 20 * (parts + case.absences.len() as u64);
    ensure(views_alone <= most, &|| format!("{views_alone} parts of views of {parts} to one alone"))
}
