//! Random simulation: runs one scenario, triggers its events at their times, and watches the hosts.

use super::application::Shelf;
use super::class::Class;
use super::effects;
use super::hosts::{GROUP, Host, Hosts};
use super::report::Report;
use super::schedule::{Happening, Schedule};
use super::seed::Draw;
use super::watch::Watch;
use super::weather::Weather;
use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::{Blocks, ControlMemory, View};
use ethbcast_planning::plan::{Plan, Via, check};
use ethbcast_planning::topology::Topology;
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{CableId, Network, Outcome, Simulation, host_mac};
use ethbcast_transport::stream::{Flight, Memory};
use ethbcast_transport::wire::{VERSION, group_mac};
use std::rc::Rc;

/// Detail of a schedule's story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceDetail {
    Nothing,
    /// Events of users, and views.
    Events,
    Frames,
}

pub fn play(schedule: &Schedule, told: TraceDetail) -> (Report, Vec<String>) {
    let mut stage = Stage::new(schedule, told);
    for &(at, happening) in &schedule.happenings {
        // Later events may wake a network that is quiescent.
        let _ = stage.run(schedule.begins + at);
        stage.happen(schedule.begins + at, happening);
    }
    let outcome = stage.run(schedule.bound());
    let outcome = stage.wait_for_the_slow(outcome);
    stage.finish(outcome)
}

struct Stage<'a> {
    schedule: &'a Schedule,
    network: Network,
    trunks: Vec<CableId>,
    hosts: Hosts<'a>,
    simulation: Simulation<Host, Weather>,
    watch: Watch<'a>,
    dead: Vec<bool>,
}

impl<'a> Stage<'a> {
    fn new(schedule: &'a Schedule, told: TraceDetail) -> Stage<'a> {
        let (mut network, trunks) = schedule.cluster.network(schedule.mtu_bytes);
        (0..schedule.hosts())
            .for_each(|host| network.host_mut(host).groups = vec![group_mac(GROUP)]);
        let mut hosts = Hosts::new(schedule);
        let machines = (0..schedule.hosts())
            .map(|host| hosts.make(schedule.begins + schedule.starts[host], host))
            .collect();
        let mut simulation = Simulation::new(&network, machines, Weather::new(schedule));
        simulation.begin_at(schedule.begins);
        simulation.set_event_limit(events_bound(schedule));
        for (host, &starts) in schedule
            .starts
            .iter()
            .enumerate()
            .filter(|(_, starts)| !starts.is_zero())
        {
            simulation.pause(host, schedule.begins);
            simulation.resume(host, schedule.begins + starts);
        }
        let mut stage = Stage {
            schedule,
            network,
            trunks,
            simulation,
            watch: Watch::new(schedule, told != TraceDetail::Nothing),
            dead: vec![false; schedule.hosts()],
            hosts,
        };
        if told == TraceDetail::Frames {
            stage.simulation.faults_mut().listen();
        }
        stage.replay();
        stage
    }

    fn replay(&mut self) {
        let mut draw = Draw::new(self.schedule.seed.number(), 5);
        let counts = self.schedule.replays;
        for (count, other) in [(counts[0], false), (counts[1], true)] {
            for _ in 0..count {
                let (to, frame) = &effects::frames()[draw.index(effects::frames().len())];
                if *to < self.schedule.hosts() {
                    let mut frame = frame.clone();
                    frame[16] = if other {
                        VERSION.wrapping_add(draw.pick(&[1, u8::MAX]))
                    } else {
                        VERSION
                    };
                    let at = self.schedule.begins + self.schedule.moment(&mut draw);
                    self.simulation.inject(at, *to, &frame);
                }
            }
        }
    }

    fn run(&mut self, until: Instant) -> Outcome {
        let Stage {
            simulation, watch, ..
        } = self;
        loop {
            let mut turn =
                |number: usize, host: &mut Host, now: Instant| watch.turn(number, host, now);
            if let Some(outcome) = simulation.step(until, &mut turn) {
                return outcome;
            }
            for forged in simulation.faults_mut().take_forged() {
                simulation.inject(forged.at, forged.to, &forged.frame);
            }
            if let Some(host) = watch.take_dying() {
                let now = simulation.now();
                simulation.faults_mut().effects_mut().add(Class::Crash, 1);
                simulation.crash(host, now);
                simulation.faults_mut().bury(host_mac(host), now);
                self.dead[host] = true;
            }
        }
    }

    fn happen(&mut self, at: Instant, happening: Happening) {
        let simulation = &mut self.simulation;
        if let Some(host) = happening.host() {
            let (dead, works) = (
                self.dead[host],
                effects::works(&simulation.machines()[host]),
            );
            simulation.faults_mut().effects_mut().on_happening(
                self.schedule,
                happening,
                works && !dead,
                dead,
            );
        }
        match happening {
            Happening::Crash(host) => {
                simulation.crash(host, at);
                simulation.faults_mut().bury(host_mac(host), at);
                self.dead[host] = true;
            }
            Happening::Restart(host) => {
                *simulation.machine_mut(host) = self.hosts.make(at, host);
                simulation.restart(host, at);
                simulation.faults_mut().raise(host_mac(host));
                self.watch.forget(host);
                self.dead[host] = false;
            }
            Happening::Pause(host, lasts) => {
                simulation.pause(host, at);
                simulation.resume(host, at + lasts);
            }
            Happening::Cut(host, lasts) => {
                simulation.cut(self.network.cable_of(host), at);
                simulation.restore(self.network.cable_of(host), at + lasts);
            }
            Happening::CutTrunk(trunk, lasts) => {
                simulation.cut(self.trunks[trunk], at);
                simulation.restore(self.trunks[trunk], at + lasts);
            }
            Happening::Interrupt(host) => {
                match simulation.machine_mut(host) {
                    Participant::Root(root, _) => root.abort(at, "interrupted"),
                    Participant::Receiver(receiver, receiving) => {
                        receiving.cancel(receiver, at, "interrupted")
                    }
                }
                simulation.wake(host, at);
            }
            Happening::Police(control) => {
                self.network
                    .switches()
                    .for_each(|switch| simulation.police(switch, Some(control), at));
            }
            Happening::FreeSwitches => {
                self.network
                    .switches()
                    .for_each(|switch| simulation.police(switch, None, at));
            }
        }
    }

    /// Hosts outside the core may lose many frames, and be alive but incomplete: waits for them
    /// while they make progress. The core must be complete by now.
    fn wait_for_the_slow(&mut self, mut outcome: Outcome) -> Outcome {
        let timing = self.schedule.timing;
        let (mut until, span) = (self.schedule.bound(), timing.patience * 2 + timing.sync);
        let mut events = events_bound(self.schedule);
        let mut before = None;
        while matches!(
            outcome,
            Outcome::TimeLimit { .. } | Outcome::EventLimit { .. }
        ) && self.core_is_done()
        {
            let frames: u64 = self
                .simulation
                .machines()
                .iter()
                .map(|host| host.stream_stats().data_received)
                .sum();
            let further = (frames, self.simulation.faults_mut().pieces());
            if before.replace(further) == Some(further) {
                break;
            }
            (until, events) = (until + span, events + events_bound(self.schedule));
            self.simulation.set_event_limit(events);
            outcome = self.run(until);
        }
        outcome
    }

    fn core_is_done(&self) -> bool {
        let shelves = self.hosts.shelves().iter().enumerate();
        let is_done = |runs: &[Rc<Shelf>]| runs.iter().any(|shelf| shelf.visible.get());
        shelves
            .filter(|&(host, _)| self.schedule.demands(host))
            .all(|(_, runs)| is_done(runs))
    }

    fn judge_receipts(&mut self, report: &mut Report) {
        let Some(receipts) = self.simulation.faults_mut().receipts_mut() else {
            return;
        };
        receipts
            .take_wrong()
            .into_iter()
            .for_each(|wrong| report.blame(wrong));
        for (cause, frames) in receipts.causes() {
            *report
                .marks
                .entry(format!("sent again: {cause:?}"))
                .or_default() += frames;
        }
    }

    fn count_parity(&self, report: &mut Report) {
        let hosts = self
            .simulation
            .machines()
            .iter()
            .map(|host| host.stream_stats());
        let (sent, back) = hosts.fold((0, 0), |(sent, back), stats| {
            (sent + stats.parity_sent, back + stats.data_recovered)
        });
        *report.marks.entry("parity: sent".to_owned()).or_default() += sent;
        *report
            .marks
            .entry("parity: brought back".to_owned())
            .or_default() += back;
    }

    fn finish(mut self, outcome: Outcome) -> (Report, Vec<String>) {
        let next = self.simulation.next_deadline();
        if !outcome.is_quiet() {
            self.watch
                .blame(format!("it does not go quiet: {outcome:?}, next {next:?}"));
        }
        let mourning = self.simulation.faults_mut().longest_mourning();
        self.watch
            .check_mourning(mourning, self.dead.iter().skip(1).all(|&dead| dead));
        let mut story = self.watch.take_story();
        story.append(&mut self.simulation.faults_mut().take_frames());
        // Moments stand at the beginning, in columns.
        story.sort_by(|one, other| one[..10].cmp(&other[..10]));
        let stats = self.simulation.stats();
        if self.simulation.faults_mut().has_damaged_end() {
            self.watch.excuse_all();
        }
        let (shelves, mut effects) = (
            self.hosts.shelves(),
            self.simulation.faults_mut().effects().clone(),
        );
        effects.on_end(
            self.schedule,
            self.simulation.machines(),
            shelves,
            (&self.network, &self.trunks, &stats),
        );
        effects.add(Class::TimerSlack, self.watch.late_timers());
        *self.simulation.faults_mut().effects_mut() = effects;
        let watch = std::mem::replace(&mut self.watch, Watch::new(self.schedule, false));
        let mut report = watch.finish(shelves, self.simulation.machines(), &self.dead, &stats);
        let at = if let Outcome::Quiet { at } = outcome {
            at
        } else {
            self.simulation.now()
        };
        report.millis = at.since(self.schedule.begins).as_millis() as u64;
        (report.events, report.frames) = (stats.events, stats.sent_frames);
        self.judge_receipts(&mut report);
        self.count_parity(&mut report);
        let weather = self.simulation.faults_mut();
        report.trace = weather.trace();
        report.classes = self
            .schedule
            .classes
            .iter()
            .map(|&class| (class, weather.effects().of(class)))
            .collect();
        (report, story)
    }
}

fn events_bound(schedule: &Schedule) -> u64 {
    let (hosts, seconds) = (
        schedule.hosts() as u64,
        schedule.bound().since(schedule.begins).as_secs_f64() as u64,
    );
    let frames = schedule.bytes as u64 / (u64::from(schedule.mtu_bytes) - 32) + 10;
    100_000 + hosts * frames * 400 + seconds * hosts * hosts * 200
}

/// Bytes that a slot takes beside its payload, in a feed and in a cast's stamps and repairs.
const SLOT_BYTES: usize = 64;
/// Bytes of one reader: of a cast, or of a unicast child without its stamps.
const READER_BYTES: usize = 4096;
const STREAM_BYTES: usize = 4096;

/// Control messages queued at a host: a fixed number, and one for each host.
const SPARE_FRAMES: usize = 32;
const FRAMES_EACH: usize = 4;
/// Entries kept about non-members: a fixed number, and one for each host. An address has a few, of
/// one sort each.
const SPARE_ENTRIES: usize = 24;
const ENTRIES_EACH: usize = 6;
/// Incomplete views, and bytes of each: a fixed number, and one for each member.
const MAX_VIEWS: usize = 4;
const SPARE_VIEW_BYTES: usize = 256;
const MEMBER_BYTES: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    acknowledgements: u64,
    flights: Vec<Flight>,
}

impl InFlight {
    pub fn of(blocks: &Blocks) -> Vec<InFlight> {
        let one = |stats: ethbcast_transport::stream::StreamStats, flights| InFlight {
            acknowledgements: stats.acks_received + stats.forged_acks,
            flights,
        };
        blocks
            .streams()
            .map(|stream| one(stream.stats(), stream.flights()))
            .collect()
    }

    /// Checks that no reader was sent more than its window between two observations.
    /// Acknowledgements are excluded: they may show that less has arrived than assumed. Otherwise
    /// only departing frames increase the number in flight.
    pub fn check(&self, before: &InFlight) -> Result<(), String> {
        if self.acknowledgements != before.acknowledgements {
            return Ok(());
        }
        let known = |flight: &Flight| {
            before
                .flights
                .iter()
                .find(|known| known.rank == flight.rank)
                .copied()
        };
        let mut grown = self
            .flights
            .iter()
            .filter_map(|flight| Some((flight, known(flight)?)));
        let wrong = |&(flight, known): &(&Flight, Flight)| {
            flight.in_flight > known.in_flight
                && flight.next >= known.next
                && flight.in_flight > known.window
        };
        match grown.find(wrong) {
            None => Ok(()),
            Some((flight, known)) => Err(format!(
                "{flight:?} after {known:?}: more is in flight than the window"
            )),
        }
    }
}

/// Checks the memory of a host's streams against its formula (docs/protocol/limits.md §12). `most`
/// holds the highest number of remote readers of each stream: their places are kept.
pub fn check_memory(blocks: &Blocks, most: &mut Vec<usize>) -> Result<(), String> {
    most.resize(blocks.streams().count(), 0);
    blocks.streams().zip(most).try_for_each(|(stream, most)| {
        let (slots, payload_bytes) = (stream.feed().slots() as usize, stream.payload_bytes());
        *most = stream.cursors().len().max(*most);
        judge_memory(&stream.memory(), (slots, payload_bytes), *most)
    })
}

fn judge_memory(
    memory: &Memory,
    (slots, payload_bytes): (usize, usize),
    readers: usize,
) -> Result<(), String> {
    let buffer = slots * (payload_bytes + SLOT_BYTES) + STREAM_BYTES;
    // A unicast reader has stamps of its own; a cast's readers share theirs, which the buffer
    // counts.
    let each = READER_BYTES
        + if memory.stamps_bytes == 0 {
            slots * SLOT_BYTES
        } else {
            0
        };
    let fits = memory.payload_bytes == slots * payload_bytes
        && memory.buffer_bytes() <= buffer
        && memory.added_bytes() <= (readers + 1) * each;
    if fits {
        Ok(())
    } else {
        Err(format!(
            "{slots} slots of {payload_bytes}, {readers} readers: {memory:?}"
        ))
    }
}

pub fn check_control(memory: &ControlMemory, hosts: usize) -> Result<(), String> {
    let fits = memory.waiting_frames <= SPARE_FRAMES + hosts * FRAMES_EACH
        && memory.non_member_entries <= SPARE_ENTRIES + hosts * ENTRIES_EACH
        && memory.view_bytes <= MAX_VIEWS * (SPARE_VIEW_BYTES + hosts * MEMBER_BYTES);
    if fits {
        Ok(())
    } else {
        Err(format!("{hosts} hosts, and beside the streams {memory:?}"))
    }
}

/// Checks that no two members in place send over one cable, if the plan's kind promises that.
/// `host_of` maps a rank to its host in the topology.
pub fn check_contention(
    view: &View,
    topology: &Topology,
    host_of: impl Fn(usize) -> usize,
) -> Result<(), String> {
    if !view.via.is_contention_free() {
        return Ok(());
    }
    let ranks: Vec<usize> = view.ranks().map(|rank| rank.index()).collect();
    let place = |rank: usize| ranks.iter().position(|&other| other == rank);
    let parent = |&rank: &usize| {
        let mut at = view.members[rank].parent?.index();
        while !view.members[at].is_in_place() {
            at = view.members[at].parent?.index();
        }
        place(at)
    };
    let parents: Vec<Option<usize>> = ranks.iter().map(parent).collect();
    // A member that takes over another's children may have more than the plan's kind allows: the
    // shape is not judged.
    let plan = Plan::from_parents(Via::Latency, 0, &parents).map_err(|why| why.to_string())?;
    let report = check(
        topology,
        &plan,
        &ranks
            .iter()
            .map(|&rank| host_of(rank))
            .collect::<Vec<usize>>(),
    );
    let good = report.is_spanning() && report.is_contention_free();
    if good {
        Ok(())
    } else {
        Err(format!(
            "view {} is not free of contention: {}",
            view.epoch,
            report.contention()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::first_view;
    use crate::swarm::class::{Effect, Filter, Rule};
    use crate::swarm::hosts::HostSet;
    use crate::swarm::schedule::Role;
    use crate::swarm::seed::Seed;
    use ethbcast_collectives::session::{MemberRole, kind};
    use ethbcast_transport::Tuning;
    use ethbcast_transport::sim::host_mac;
    use ethbcast_transport::wire::Rank;
    use std::time::Duration;

    fn always(class: Class, filter: Filter, effect: Effect) -> Rule {
        Rule {
            class,
            from: Duration::ZERO,
            until: Duration::MAX,
            filter,
            effect,
        }
    }

    /// Seed `small:257252:v4`: 70 % of all frames from and to a host outside the core are lost for
    /// good. Strict go-back-n brings it about one frame a second, so it completes only after the
    /// bound.
    #[test]
    fn a_host_with_lasting_faults_that_makes_progress_is_waited_for() {
        let mut schedule = Schedule::plain(Seed::small(0), 2, 200_000);
        schedule.tuning = Tuning::push_pull().with_feed_frames(64);
        schedule.timing.patience = Duration::from_secs(5);
        let lossy = Filter {
            cast: Some(false),
            ..Filter::to([0, 2].into_iter().collect())
        };
        schedule.rules = vec![always(Class::CastLoss, lossy, Effect::Lose(0.6))];
        (schedule.classes, schedule.core) = (vec![Class::CastLoss], [0, 1].into_iter().collect());
        let (report, _) = play(&schedule, TraceDetail::Nothing);
        assert_eq!(report.violation, None);
        let took = Duration::from_millis(report.millis);
        assert!(schedule.begins + took > schedule.bound(), "{took:?}");
    }

    /// Seed `small:293088:v4`: an ANNOUNCE with a damaged name selected the wrong root's bytes for
    /// the comparison.
    #[test]
    fn the_sender_of_bytes_is_known_by_the_view_and_not_by_a_damaged_name() {
        let mut renamed = 0;
        for number in 0..100 {
            let mut schedule = Schedule::plain(Seed::small(number), 3, 1000);
            schedule.roles[2] = Role::Root;
            (schedule.starts[2], schedule.enough) = (Duration::from_millis(400), 2);
            schedule.classes = vec![Class::Damage, Class::TwoRoots, Class::NoPlan];
            let offers = Filter {
                kinds: vec![kind::ANNOUNCE],
                ..Filter::to(HostSet::one(1))
            };
            schedule.rules = vec![always(Class::Damage, offers, Effect::Damage(0.7))];
            schedule.core = HostSet::one(0);
            let (report, story) = play(&schedule, TraceDetail::Events);
            assert_eq!(report.violation, None, "{number}");
            let other = |line: &&String| line.contains("Invited") && !line.contains("\"file2\"");
            renamed += usize::from(
                story
                    .iter()
                    .filter(other)
                    .any(|line| line.contains("\"n2\"")),
            );
        }
        assert!(renamed > 0, "some name is damaged");
    }

    fn in_flight(acknowledgements: u64, in_flight: u64, window: u64) -> InFlight {
        let flight = Flight {
            rank: Rank(1),
            next: in_flight,
            in_flight,
            window,
        };
        InFlight {
            acknowledgements,
            flights: vec![flight],
        }
    }

    #[test]
    fn a_frame_beyond_the_window_is_detected_and_a_reduced_window_is_accepted() {
        assert_eq!(in_flight(3, 32, 32).check(&in_flight(3, 30, 32)), Ok(()));
        assert_eq!(in_flight(3, 30, 20).check(&in_flight(3, 30, 20)), Ok(()));
        assert_eq!(
            in_flight(4, 33, 32).check(&in_flight(3, 32, 32)),
            Ok(()),
            "an acknowledgement counts anew"
        );
        assert!(in_flight(3, 33, 32).check(&in_flight(3, 32, 32)).is_err());
        assert!(
            in_flight(3, 33, 40).check(&in_flight(3, 32, 32)).is_err(),
            "it has grown since"
        );
    }

    #[test]
    fn memory_beyond_the_formula_is_seen() {
        let mut memory = Memory::default();
        (
            memory.payload_bytes,
            memory.slots_bytes,
            memory.readers_bytes,
        ) = (64 * 268, 64 * 12, 3000);
        assert_eq!(judge_memory(&memory, (64, 268), 1), Ok(()));
        memory.payload_bytes += 268;
        assert!(
            judge_memory(&memory, (64, 268), 1).is_err(),
            "a slot too many"
        );
        memory.payload_bytes -= 268;
        memory.repairs_bytes = 2 * (READER_BYTES + 64 * SLOT_BYTES);
        assert!(
            judge_memory(&memory, (64, 268), 1).is_err(),
            "repairs without end"
        );
    }

    #[test]
    fn queues_out_of_proportion_to_the_hosts_are_seen() {
        let kept = ControlMemory {
            waiting_frames: 20,
            waiting_bytes: 2000,
            non_member_entries: 60,
            view_bytes: 4 * 700,
        };
        assert_eq!(check_control(&kept, 8), Ok(()));
        assert!(
            check_control(
                &ControlMemory {
                    waiting_frames: 65,
                    ..kept
                },
                8
            )
            .is_err(),
            "repeated without end"
        );
        assert!(
            check_control(
                &ControlMemory {
                    non_member_entries: 73,
                    ..kept
                },
                8
            )
            .is_err(),
            "an entry for each JOIN"
        );
        assert!(
            check_control(
                &ControlMemory {
                    view_bytes: 4 * 800,
                    ..kept
                },
                8
            )
            .is_err(),
            "views without end"
        );
    }

    #[test]
    fn a_chain_that_crosses_a_cable_twice_is_seen_and_one_whose_relay_has_gone_is_not() {
        let text = "schema = 1\n[[switch]]\nname = \"s0\"\nhosts = \"n0,n2\"\nlinks = [\"s1\"]\n\
                    [[switch]]\nname = \"s1\"\nhosts = \"n1,n3\"\n";
        let topology = Topology::parse(text, "test").expect("a topology");
        let chain = |order: [usize; 4]| {
            let parent = |rank: usize| {
                Some(Rank(
                    order[order.iter().position(|&at| at == rank)?.checked_sub(1)?] as u16,
                ))
            };
            let mut view = first_view((0..4).map(|rank| (host_mac(rank), 0)), 1000);
            view.members
                .iter_mut()
                .enumerate()
                .for_each(|(rank, member)| member.parent = parent(rank));
            view
        };
        let judge = |view: &View| check_contention(view, &topology, |rank| rank);
        let mut good = chain([0, 2, 1, 3]);
        assert_eq!(judge(&good), Ok(()));
        good.members[2].standing = MemberRole::Gone;
        assert_eq!(judge(&good), Ok(()));
        // From n0 to n1, back to n2, and to n3: both n0 and n2 send over the cable between the
        // switches.
        assert!(
            judge(&chain([0, 1, 2, 3])).is_err_and(|why| why.contains("not free of contention"))
        );
    }
}
