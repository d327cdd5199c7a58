//! Random simulation: an MPI-like program whose ranks exchange messages and call collectives under
//! faults.

use super::class::{Class, Effect, Filter, Rule};
use super::effects::rings_late;
use super::hosts::HostSet;
use super::play::TraceDetail;
use super::report::Report;
use super::seed::{Draw, Seed, Size};
use super::weather::Weather;
use crate::communicator;
use crate::communicator::{Case, Cohort, Process, Step};
use ethbcast_collectives::communicator::{CommunicatorError, Preset};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{Simulation, Stats};
use std::fmt;
use std::time::Duration;

/// One schedule in this number is a program.
const ONE_IN: u64 = 5;
const CLASSES: [Class; 16] = [
    Class::Loss,
    Class::OneWay,
    Class::CastLoss,
    Class::Bursts,
    Class::SizeLoss,
    Class::PairLoss,
    Class::Partition,
    Class::Jitter,
    Class::Duplicate,
    Class::BitFlip,
    Class::Pause,
    Class::Crash,
    Class::SlowCpu,
    Class::TimerSlack,
    Class::Wrap,
    Class::Mistake,
];

#[derive(Clone, Debug)]
pub struct Program {
    seed: Seed,
    case: Case,
    node_sizes: Vec<usize>,
    /// Processes that are killed while their hosts live: host, local port id, time.
    kills: Vec<(usize, usize, Duration)>,
    begins: Instant,
    classes: Vec<Class>,
    rules: Vec<Rule>,
    pauses: Vec<(usize, Duration, Duration)>,
    slow: Vec<(usize, Duration)>,
    slack: Duration,
    /// Steps that differ from the other ranks': rank and step.
    mistakes: Vec<(usize, usize)>,
    heals: Duration,
}

impl Program {
    pub fn is_meant(seed: Seed) -> bool {
        seed.number() % ONE_IN == ONE_IN - 1
    }

    pub fn of(seed: Seed) -> Program {
        let mut draw = Draw::new(seed.number(), 6);
        let small = seed.size() == Size::Small;
        let ranks = if small {
            draw.log(2, 9)
        } else {
            draw.between(10, 48)
        } as u16;
        let steps = if small {
            draw.between(1, 10)
        } else {
            draw.between(1, 4)
        };
        let long = if ranks > 8 { 2000 } else { 20_000 };
        let (longs, rests) = (draw.chance(0.4), draw.micros(200_000, 2_000_000));
        let program = (0..steps)
            .map(|_| step(&mut draw, ranks, long))
            .collect::<Vec<_>>()
            .into_iter();
        let program = program
            .chain(longs.then_some(Step::Compute(rests)))
            .chain(longs.then_some(Step::Barrier));
        // A rank that leaves early may take bytes along that others still need.
        let program: Vec<Step> = program.chain([Step::Settle, Step::Barrier]).collect();
        let mut case = Case::new(ranks, &program);
        case.preset = draw.pick(&[
            Preset::Default,
            Preset::Default,
            Preset::Paper,
            Preset::PushPull,
        ]);
        case.starts
            .iter_mut()
            .for_each(|start| *start = draw.micros(1, 20_000));
        case.patience = Duration::from_millis(draw.between(2000, 5000));
        case.rate_bits_per_second = draw.log(20, 1000) * 1_000_000;
        let heals = draw.micros(100_000, 3_000_000);
        let few = draw.between(0, 3);
        let mut classes: Vec<Class> = (0..few).map(|_| draw.pick(&CLASSES)).collect();
        classes.sort_unstable();
        classes.dedup();
        let (rules, pauses, slow, mistakes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let slack = Duration::ZERO;
        let begins = Instant::START;
        let (node_sizes, kills) = (node_sizes(&mut draw, ranks.into()), Vec::new());
        let configured_rank = draw_of_the_network(seed).index(ranks.into());
        (case.told[configured_rank], case.wiring) =
            communicator::NetworkKnowledge::drawn(seed.number(), node_sizes.len());
        let mut program = Program {
            seed,
            case,
            node_sizes,
            kills,
            begins,
            classes,
            rules,
            pauses,
            slow,
            slack,
            mistakes,
            heals,
        };
        program
            .classes
            .clone()
            .into_iter()
            .for_each(|class| program.add(class, &mut draw));
        program
    }

    fn add(&mut self, class: Class, draw: &mut Draw) {
        let (ranks, hosts) = (self.case.programs.len(), self.node_sizes.len());
        let (one, other) = (draw.index(hosts), draw.index(hosts));
        let some: HostSet = (0..hosts).filter(|_| draw.chance(0.4)).collect();
        let (share, heavy) = (draw.pick(&[0.01, 0.05, 0.1]), draw.pick(&[0.3, 1.0]));
        let until = if self.is_long() { 1_500_000 } else { 160_000 };
        let begins = Duration::from_micros(if draw.chance(0.3) {
            0
        } else {
            draw.between(0, until)
        });
        let lasts = draw.micros(10_000, 3_000_000);
        let bad = HostSet::NONE;
        let (filter, effect) = match class {
            Class::Mistake => {
                let (rank, root) = (draw.index(ranks), draw.index(ranks) as u16);
                let step = draw.index(self.case.programs[rank].len());
                self.mistakes.push((rank, step));
                let step = &mut self.case.programs[rank][step];
                *step = if *step == Step::Barrier {
                    Step::Broadcast { root, bytes: 9 }
                } else {
                    Step::Barrier
                };
                return;
            }
            Class::Crash if self.node_sizes[one] > 1 && draw.chance(0.7) => {
                return self
                    .kills
                    .push((one, draw.index(self.node_sizes[one]), begins));
            }
            Class::Crash => return self.case.crashes.push((one, begins)),
            Class::Pause => return self.pauses.push((one, begins, lasts)),
            Class::Wrap => {
                // Mostly in the middle of the program.
                let before = Duration::from_micros(draw.between(1, until));
                self.begins = Instant::START + (Duration::from_micros(1 << 32) - before);
                return;
            }
            Class::SlowCpu => return self.slow.push((one, draw.micros(1, 200))),
            Class::TimerSlack => {
                self.slack = draw.micros(50, 10_000);
                return;
            }
            Class::OneWay => (
                Filter::between(HostSet::one(one), HostSet::ALL),
                Effect::Lose(1.0),
            ),
            Class::CastLoss => (
                Filter {
                    cast: Some(draw.chance(0.5)),
                    ..Filter::to(some)
                },
                Effect::Lose(heavy),
            ),
            Class::Bursts => (
                Filter::to(some),
                Effect::Burst {
                    begin: 0.02,
                    end: 0.1,
                    loss: 0.9,
                    bad,
                },
            ),
            Class::SizeLoss => (
                Filter {
                    bytes: 300..usize::MAX,
                    ..Filter::to(some)
                },
                Effect::Lose(heavy),
            ),
            Class::PairLoss => (
                Filter::between(HostSet::one(one), HostSet::one(other)),
                Effect::Lose(heavy),
            ),
            Class::Partition => (Filter::between(some, some.others()), Effect::Lose(1.0)),
            Class::Jitter => (
                Filter::to(some),
                Effect::Delay(share, draw.micros(10, 100_000)),
            ),
            Class::Duplicate => (
                Filter::to(some),
                Effect::Repeat(share, draw.micros(1, 500_000)),
            ),
            Class::BitFlip => (Filter::to(some), Effect::Flip(share)),
            _ => (Filter::to(HostSet::ALL), Effect::Lose(share)),
        };
        self.rules.push(Rule {
            class,
            from: begins,
            until: begins + lasts,
            filter,
            effect,
        });
    }

    fn is_shared(&self) -> bool {
        self.node_sizes.iter().any(|&node_sizes| node_sizes > 1)
    }

    fn is_long(&self) -> bool {
        let long = |step: &Step| matches!(step, Step::Compute(rests) if *rests >= Duration::from_millis(200));
        self.case.programs[0].iter().any(long)
    }

    fn demands(&self) -> bool {
        !self
            .classes
            .iter()
            .any(|&class| class.takes_away() && class != Class::Loss)
    }

    fn stage(&self, told: TraceDetail) -> Simulation<Cohort, Weather> {
        let mut case = self.case.clone();
        case.starts
            .iter_mut()
            .for_each(|start| *start += self.begins.since(Instant::START));
        let cohorts = Cohort::all(&case, &self.node_sizes, self.seed.number());
        let hosts = cohorts.len();
        let mut network = Case {
            programs: vec![Vec::new(); hosts],
            ..self.case.clone()
        }
        .network();
        (0..hosts).for_each(|host| network.host_mut(host).timer_slack = self.slack);
        self.slow
            .iter()
            .for_each(|&(host, cost)| network.host_mut(host).per_frame_cost = cost);
        let mut simulation = Simulation::new(
            &network,
            cohorts,
            Weather::of_program(
                self.seed,
                (self.begins, self.rules.clone()),
                self.heals,
                self.is_shared(),
            ),
        );
        simulation.begin_at(self.begins);
        simulation.set_event_limit(20_000_000);
        if told == TraceDetail::Frames {
            simulation.faults_mut().listen();
        }
        self.case
            .crashes
            .iter()
            .for_each(|&(host, at)| simulation.crash(host, self.begins + at));
        for &(host, from, lasts) in &self.pauses {
            simulation.pause(host, self.begins + from);
            simulation.resume(host, self.begins + from + lasts);
        }
        simulation
    }

    pub fn play(&self, told: TraceDetail) -> (Report, Vec<String>) {
        let mut simulation = self.stage(told);
        let hosts = simulation.machines().len();
        let bound = self.begins + Duration::from_secs(40) + self.case.patience * 12;
        let (mut due, mut late_timers) = (vec![None; hosts], 0);
        let mut turn = |host: usize, cohort: &mut Cohort, now| {
            late_timers +=
                u64::from(!self.slack.is_zero() && rings_late(cohort, &mut due[host], now));
            cohort.turn(now)
        };
        for &(host, port_id, at) in &self.kills {
            // Later events may wake a network that is quiescent.
            let _ = simulation.run(self.begins + at, &mut turn);
            simulation.machine_mut(host).kill(port_id);
        }
        let outcome = simulation.run(bound, &mut turn);
        let mut report = Report::new(self.seed);
        if !outcome.is_quiet() {
            report.blame(format!(
                "it does not go quiet: {outcome:?}, next {:?}",
                simulation.next_deadline()
            ));
        }
        let dead = |host: usize| self.case.crashes.iter().any(|(dead, _)| *dead == host);
        let mut story = simulation.faults_mut().take_frames();
        let mut processes = Vec::new();
        for (host, cohort) in simulation.machines().iter().enumerate() {
            for (process, killed) in cohort.processes() {
                story.push(format!(
                    "n{host} ends as {:?}, wrong {:?}",
                    process.ended, process.wrong
                ));
                self.judge(host, process, dead(host) || killed, &mut report);
                processes.push((host, process));
            }
        }
        if self.is_shared() {
            report.mark("program: several ranks on a host");
        }
        self.case
            .told
            .iter()
            .flat_map(communicator::NetworkKnowledge::words)
            .for_each(|word| report.mark(word));
        let stats = simulation.stats();
        (report.events, report.frames) = (stats.events, stats.sent_frames);
        report.millis = simulation.now().since(self.begins).as_millis() as u64;
        let touched = self.touched(&processes, &stats, late_timers);
        let weather = simulation.faults_mut();
        report.trace = weather.trace();
        if let Some(receipts) = weather.receipts_mut() {
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
        let effects = weather.effects_mut();
        touched
            .into_iter()
            .for_each(|(class, hits)| effects.add(class, hits));
        report.classes = self
            .classes
            .iter()
            .map(|&class| (class, effects.of(class)))
            .collect();
        (report, story)
    }

    fn touched(
        &self,
        processes: &[(usize, &Process)],
        stats: &Stats,
        late_timers: u64,
    ) -> [(Class, u64); 5] {
        let works = |host: usize, at: Duration| {
            let own = processes
                .iter()
                .filter(|(of, _)| *of == host)
                .map(|(_, process)| process.ended.as_ref());
            own.map(|ended| ended.map(|(_, ended)| *ended))
                .any(|ended| ended.is_none_or(|end| end >= self.begins + at))
        };
        let kills = self.kills.iter().map(|&(host, _, at)| (host, at));
        let crashes = self
            .case
            .crashes
            .iter()
            .copied()
            .chain(kills)
            .filter(|&(host, at)| works(host, at))
            .count();
        let pauses = self
            .pauses
            .iter()
            .filter(|&&(host, at, _)| works(host, at))
            .count();
        let slow = self
            .slow
            .iter()
            .map(|&(host, _)| stats.hosts[host].received_frames)
            .sum();
        let made = |&&(rank, step): &&(usize, usize)| processes[rank].1.has_reached(step);
        let mistakes = self.mistakes.iter().filter(made).count();
        [
            (Class::Crash, crashes as u64),
            (Class::Pause, pauses as u64),
            (Class::SlowCpu, slow),
            (Class::TimerSlack, late_timers),
            (Class::Mistake, mistakes as u64),
        ]
    }

    fn judge(&self, host: usize, process: &Process, dead: bool, report: &mut Report) {
        let exchanged = process
            .exchanged
            .as_ref()
            .filter(|_| self.mistakes.is_empty());
        if let Some(wrong) = process.wrong.as_ref().or(exchanged) {
            report.blame(format!("rank of n{host}: {wrong}"));
        }
        if let Some(Err(error)) = process.member.as_ref().map(|member| member.audit()) {
            report.blame(format!("rank of n{host}: {error}"));
        }
        if dead {
            return;
        }
        match &process.ended {
            None => report.blame(format!("the program of n{host} has not ended")),
            Some((Ok(()), _)) => report.mark("program: done"),
            Some((Err(error), _)) => report.mark(format!("program: {}", error_text(error))),
        }
        let done = matches!(process.ended, Some((Ok(()), _))) && process.undelivered.is_none();
        if self.demands() && !done {
            let (ended, undelivered) = (&process.ended, &process.undelivered);
            report.blame(format!(
                "nothing keeps n{host} from its end, and it ends as {ended:?}, {undelivered:?}"
            ));
        }
    }
}

fn error_text(error: &CommunicatorError) -> String {
    format!("{error:?}")
        .split(|letter: char| !letter.is_alphanumeric())
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn node_sizes(draw: &mut Draw, ranks: usize) -> Vec<usize> {
    if draw.chance(0.75) {
        return vec![1; ranks];
    }
    let (most, mut left, mut node_sizes) = (draw.between(2, 6), ranks, Vec::new());
    while left > 0 {
        let own = (draw.between(1, most) as usize).min(left);
        node_sizes.push(own);
        left -= own;
    }
    node_sizes
}

/// A random sequence of its own for network knowledge, so that other draws do not depend on it.
fn draw_of_the_network(seed: Seed) -> Draw {
    Draw::new(seed.number(), 8)
}

fn step(draw: &mut Draw, ranks: u16, long: u64) -> Step {
    let (root, to) = (
        draw.index(ranks.into()) as u16,
        draw.index(ranks.into()) as u16,
    );
    let longest = if draw.chance(0.2) { long } else { 600 };
    let bytes = draw.log(1, longest) as usize - 1;
    match draw.index(8) {
        0 | 1 => Step::Broadcast { root, bytes },
        2 => Step::Scatter { root, bytes },
        3 => Step::Gather { root, bytes },
        4 => Step::Allgather { bytes: bytes / 2 },
        5 => Step::Barrier,
        6 => Step::Compute(draw.micros(1, 50_000)),
        _ => Step::Message {
            from: root,
            to,
            tag: draw.index(3) as u32,
            bytes,
        },
    }
}

impl fmt::Display for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Program {
            seed,
            case,
            classes,
            heals,
            pauses,
            slow,
            slack,
            ..
        } = self;
        let (ranks, preset, patience) = (case.programs.len(), case.preset, case.patience);
        writeln!(
            formatter,
            "{seed}: {ranks} ranks, {preset:?}, patience {patience:?}, {classes:?}, heals {heals:?}"
        )?;
        writeln!(formatter, "  {:?}", case.programs[0])?;
        writeln!(
            formatter,
            "  seats {:?}, kills {:?}",
            self.node_sizes, self.kills
        )?;
        let told = case
            .told
            .iter()
            .enumerate()
            .map(|(rank, told)| (rank, Vec::from_iter(told.words())));
        writeln!(
            formatter,
            "  {:?}",
            told.filter(|(_, words)| !words.is_empty())
                .collect::<Vec<_>>()
        )?;
        writeln!(
            formatter,
            "  starts {:?}, crashes {:?}",
            case.starts, case.crashes
        )?;
        writeln!(
            formatter,
            "  pauses {pauses:?}, slow {slow:?}, slack {slack:?}"
        )?;
        self.rules
            .iter()
            .try_for_each(|rule| writeln!(formatter, "  {rule:?}"))
    }
}
