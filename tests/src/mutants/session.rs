//! One simulated transfer with a deliberate bug, and the checks that should find it.

use super::schedules::{Acknowledged, CatchUpStreams};
use crate::session::{Case, GROUP, Host, hosts, session, star, strike, turn};
use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::{
    Behind, Blocks, Done, MemberReport, MemberRole, Message, Outcome as Fate, Station, View,
    ViewPart, kind,
};
use ethbcast_transport::sim::{
    Delivery, Fate as FrameFate, Faults, Outcome, RandomFaults, Simulation, host_mac,
};
use ethbcast_transport::stream::StreamStats;
use ethbcast_transport::wire::{
    Flags, HEADER_BYTES, Kind, OVERHEAD_BYTES, Rank, StreamId, group_mac, parse,
};
use ethbcast_transport::{Instant, MacAddr};
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
    side_streams: CatchUpStreams,
}

struct FrameWatch {
    faults: RandomFaults,
    seen: Rc<RefCell<Seen>>,
}

impl Faults for FrameWatch {
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
    let watch = FrameWatch {
        faults: scene.faults.clone(),
        seen: Rc::clone(&seen),
    };
    let network = star(case, scene.rate);
    let mut simulation = Simulation::new(&network, hosts(case, seed), watch);
    simulation.set_event_limit(3_000_000);
    strike(case, &network, &mut simulation);
    let wrong = RefCell::new(None);
    let mut turn = |number: usize, host: &mut Host, now: Instant| {
        let again = turn(host, now);
        let mut wrong = wrong.borrow_mut();
        *wrong = wrong
            .take()
            .or_else(|| look_at(number, host, &mut seen.borrow_mut()));
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
    let Outcome::Quiet { .. } = outcome else {
        return Err(format!("{outcome:?}: {:?}", simulation.next_deadline()));
    };
    let seen = seen.borrow();
    if let Some(wrong) = seen
        .side_streams
        .wrong()
        .filter(|_| scene.forgeries.is_empty())
    {
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
            let is_visible =
                |name: &str| seen.visible.iter().any(|host| format!("n{host}") == name);
            let mut counted = root
                .reports()
                .filter(|report| report.outcome == Fate::Delivered);
            let wrong = counted.find(|report| !is_visible(&report.host))?;
            Some(format!(
                "the root counts {}, where nothing is visible",
                wrong.host
            ))
        }
    }
}

fn check(scene: &Scene, hosts: &[Host], views_alone: u64) -> Result<(), String> {
    let (case, total) = (&scene.case, hosts.len() as u64);
    let Participant::Root(root, sending) = &hosts[0] else {
        unreachable!("host 0 is the root")
    };
    let sent = sending.source().bytes();
    let ensure = |sound: bool, what: &dyn Fn() -> String| if sound { Ok(()) } else { Err(what()) };
    ensure(root.is_over(), &|| "the root is not over".to_owned())?;
    let dead: BTreeSet<usize> = case.crashes.iter().map(|&(host, _)| host).collect();
    if root.failure().is_some() && !dead.is_empty() {
        return Ok(()); // Somebody died before all were there.
    }
    for (host, receiving) in hosts
        .iter()
        .enumerate()
        .filter_map(|(host, one)| Some((host, one.receiving()?)))
    {
        let (disk, published) = (receiving.sink(), receiving.sink().is_published());
        ensure(!published || disk.bytes() == sent, &|| {
            format!("host {host} made other bytes visible")
        })?;
        let is = |report: &&MemberReport| report.host == format!("n{host}");
        let fate = root.reports().find(is).map(|report| report.outcome);
        let delivered = fate == Some(Fate::Delivered) && published;
        let may_die = dead.contains(&host) && matches!(fate, Some(Fate::Silent | Fate::Delivered));
        ensure(delivered || may_die, &|| {
            format!("host {host} ended as {fate:?}, visible: {published}")
        })?;
    }
    ensure(root.took() <= scene.within, &|| {
        format!("it took {:?}, not {:?}", root.took(), scene.within)
    })?;
    let totals = hosts
        .iter()
        .map(Host::stream_stats)
        .fold(StreamStats::default(), |sum, one| sum + one);
    let control: u64 = hosts.iter().map(|host| host.control_stats().sent).sum();
    let (resent, asked) = scene.budgets.unwrap_or((f64::INFINITY, f64::INFINITY));
    ensure(totals.data_resent as f64 <= resent, &|| {
        format!(
            "{} frames sent again, budget {resent:.0}",
            totals.data_resent
        )
    })?;
    ensure(totals.heartbeats_sent as f64 <= asked, &|| {
        format!("{} heartbeats, budget {asked:.0}", totals.heartbeats_sent)
    })?;
    let honest = scene.forgeries.is_empty();
    ensure(!honest || totals.beyond_credit == 0, &|| {
        format!("{} frames beyond the credit", totals.beyond_credit)
    })?;
    let most = 2000 * total;
    ensure(control < most, &|| format!("{control} control frames"))?;
    // Four members at a time are sent a view alone, and only after it was sent to all three times.
    let parts = total * 40 / 268 + 1;
    // An absent host is sent the view alone until it is back.
    let most = 20 * (parts + case.absences.len() as u64);
    ensure(views_alone <= most, &|| {
        format!("{views_alone} parts of views of {parts} to one alone")
    })
}

/// Kind of forgery. None may keep a host from its bytes.
#[derive(Clone, Copy, Debug)]
pub enum Forgery {
    /// A member acknowledges all existing frames and `ahead` more, with a stamp `future` µs ahead.
    Ack { ahead: u64, future: u32 },
    /// A parent ends the stream with the next frame, which has other bytes.
    Last,
    /// The root sends a view that lacks the last members.
    FewerMembers,
    /// The root reports to a member that it was removed, under a digest that is not the view's.
    WrongDigest,
    /// A member reports success with another digest, and then that it has published the bytes.
    WrongReports,
}

#[derive(Clone, Copy)]
struct Hop {
    session: u32,
    from: (usize, Rank),
    to: usize,
}

impl Hop {
    fn inject<F: Faults>(
        self,
        simulation: &mut Simulation<Host, F>,
        at: Instant,
        made_up: &MadeUp<'_>,
    ) {
        let station = Station::new(GROUP, "x", host_mac(self.from.0), 1500);
        let identity = station.identity(self.session, self.from.1);
        let mut header = identity.header(made_up.kind);
        (header.stream, header.flags) = (made_up.stream, made_up.flags);
        (header.sequence, header.stamp) = (made_up.sequence, made_up.stamp);
        let mut frame = vec![0; OVERHEAD_BYTES + made_up.body.len()];
        identity.write(&mut frame, host_mac(self.to), &header, made_up.body);
        simulation.inject(at, self.to, &frame);
    }
}

struct MadeUp<'a> {
    kind: Kind,
    stream: StreamId,
    flags: Flags,
    sequence: u64,
    stamp: u32,
    body: &'a [u8],
}

impl<'a> MadeUp<'a> {
    fn control(kind: Kind, body: &'a [u8]) -> MadeUp<'a> {
        MadeUp {
            kind,
            stream: StreamId(0),
            flags: Flags::default(),
            sequence: 0,
            stamp: 0,
            body,
        }
    }

    fn of_stream(
        kind: Kind,
        flags: Flags,
        sequence: u64,
        stamp: u32,
        body: &'a [u8],
    ) -> MadeUp<'a> {
        MadeUp {
            kind,
            stream: StreamId(1),
            flags,
            sequence,
            stamp,
            body,
        }
    }
}

impl Forgery {
    pub(super) fn inject<F: Faults>(
        self,
        simulation: &mut Simulation<Host, F>,
        seed: u64,
        number: usize,
        now: Instant,
    ) {
        let Participant::Root(root, sending) = &simulation.machines()[0] else {
            unreachable!("host 0 is the root")
        };
        let Some(view) = root.view().cloned() else {
            return;
        };
        let (session, bytes) = (
            session(seed),
            sending.trailer().map_or(0, |trailer| trailer.bytes),
        );
        let rank = Rank(1 + (number % (view.members.len() - 1)) as u16);
        let host_of =
            |rank: Rank| host(view.members[rank.index()].mac, simulation.machines().len());
        let parent = view.members[rank.index()].parent.unwrap_or(Rank::ROOT);
        let (child, above) = (host_of(rank), host_of(parent));
        let frames = |host: usize| {
            simulation.machines()[host]
                .streams()
                .map_or(0, |streams| streams.frames())
        };
        let (here, there) = (frames(above), frames(child));
        let stamp = now.as_micros() as u32;
        let up = Hop {
            session,
            from: (child, rank),
            to: above,
        };
        let down = Hop {
            session,
            from: (above, parent),
            to: child,
        };
        let to_root = Hop { to: 0, ..up };
        let from_root = Hop {
            from: (0, Rank::ROOT),
            ..down
        };
        match self {
            Forgery::Ack { ahead, future } => {
                let mut body = [0; 20];
                body[..4].copy_from_slice(&64_u32.to_be_bytes());
                let stamp = stamp.wrapping_add(future);
                let ack =
                    MadeUp::of_stream(Kind::ACK, Flags::default(), here + ahead, stamp, &body);
                up.inject(simulation, now, &ack);
            }
            // A forged last frame is detected only at the end, and cannot be repaired.
            Forgery::Last if there >= bytes / (1500 - HEADER_BYTES as u64) => {}
            Forgery::Last => {
                let last = MadeUp::of_stream(Kind::DATA, Flags::LAST, there, stamp, &[7; 40]);
                down.inject(simulation, now, &last);
            }
            Forgery::FewerMembers => {
                let mut fewer = View {
                    epoch: view.epoch + 1,
                    ..view
                };
                fewer.members.truncate(rank.index() + 1);
                notify(simulation, now, from_root, fewer.parts(1400));
            }
            Forgery::WrongDigest => {
                let mut gone = View {
                    epoch: view.epoch + 1,
                    ..view
                };
                gone.members[rank.index()].standing = MemberRole::Gone;
                let parts: Vec<ViewPart> = gone
                    .parts(1400)
                    .map(|part| ViewPart {
                        digest: [9; 32],
                        ..part
                    })
                    .collect();
                notify(simulation, now, from_root, parts.into_iter());
            }
            Forgery::WrongReports => {
                for (step, outcome) in [Fate::Verified, Fate::Delivered].into_iter().enumerate() {
                    let done = Done {
                        outcome,
                        bytes,
                        digest: [9; 32],
                        text: String::new(),
                    };
                    let (kind, body) = Message::Done(done, None, Behind::default()).encode();
                    let at = now + Duration::from_micros(100) * step as u32;
                    to_root.inject(simulation, at, &MadeUp::control(kind, &body));
                }
            }
        }
    }
}

fn notify<F: Faults>(
    simulation: &mut Simulation<Host, F>,
    now: Instant,
    way: Hop,
    parts: impl Iterator<Item = ViewPart>,
) {
    for part in parts {
        let (kind, body) = Message::View(part).encode();
        way.inject(simulation, now, &MadeUp::control(kind, &body));
    }
}

fn host(mac: MacAddr, hosts: usize) -> usize {
    (0..hosts)
        .find(|&host| host_mac(host) == mac)
        .expect("every member is a host")
}
