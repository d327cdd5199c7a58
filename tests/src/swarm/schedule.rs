//! Random simulation: one scenario drawn from a seed: hosts, data, faults, and their times.

use super::application::{DiskTerms, Pace};
use super::class::{Class, Rule};
use super::effects::HoldingTerms;
use super::hosts::{Cluster, HostSet};
use super::seed::{Draw, Seed, Size};
use super::troubles;
use super::weather::SendTrouble;
use ethbcast_collectives::session::verified::Form;
use ethbcast_collectives::session::{OnSlow, Timing};
use ethbcast_planning::plan::Via;
use ethbcast_transport::sim::StormControl;
use ethbcast_transport::wire::Kind;
use ethbcast_transport::{Instant, Policy, Tuning};
use std::collections::BTreeSet;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    Crash(usize),
    Pause(usize, Duration),
    Cut(usize, Duration),
    /// The cable between two switches, by its number, is down for this duration.
    CutTrunk(usize, Duration),
    Restart(usize),
    Interrupt(usize),
    Police(StormControl),
    FreeSwitches,
}

impl Happening {
    pub fn host(self) -> Option<usize> {
        match self {
            Happening::Crash(host) | Happening::Pause(host, _) | Happening::Cut(host, _) => {
                Some(host)
            }
            Happening::Restart(host) | Happening::Interrupt(host) => Some(host),
            Happening::CutTrunk(..) | Happening::Police(_) | Happening::FreeSwitches => None,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    #[default]
    Receiver,
    SmallMtu,
    NoRoom,
    NotWanted,
    NotInTopology,
    Namesake,
    Root,
}

/// Signatures do not fit into shorter frames.
const MIN_KEYED_MTU_BYTES: u16 = 640;
/// Share of all frames that an attacker receives and replays.
const REPEATED_SHARE: f64 = 0.02;

#[derive(Clone, Debug)]
pub struct Schedule {
    pub seed: Seed,
    pub via: Via,
    pub chooses: bool,
    pub form: Form,
    pub selects: bool,
    pub holdings: Vec<Option<HoldingTerms>>,
    pub told: bool,
    pub bytes: usize,
    pub mtu_bytes: u16,
    pub tuning: Tuning,
    pub timing: Timing,
    pub gathers: Duration,
    pub pipe: bool,
    pub sized: bool,
    pub late: bool,
    pub on_slow: OnSlow,
    pub gives: Pace,
    pub cluster: Cluster,
    pub disks: Vec<DiskTerms>,
    pub starts: Vec<Duration>,
    pub roles: Vec<Role>,
    pub feeds: Vec<u64>,
    pub begins: Instant,
    pub sending: Option<SendTrouble>,
    /// Numbers of replayed frames of an older session, and of another version.
    pub replays: [usize; 2],
    /// Share of all frames that are repeated with false values.
    pub forges: Option<f64>,
    pub keyed: bool,
    /// Whether a receiver ends when the first root refuses it.
    pub once: bool,
    pub enough: usize,
    pub classes: Vec<Class>,
    pub rules: Vec<Rule>,
    pub happenings: Vec<(Duration, Happening)>,
    /// Moment at which all faults but deaths heal for the core.
    pub heals: Duration,
    /// Hosts that are healed then and must have all bytes in the end.
    pub core: HostSet,
}

impl Schedule {
    pub fn of(seed: Seed) -> Schedule {
        let mut draw = Draw::new(seed.number(), 1);
        let mut schedule = Schedule::calm(&mut draw, seed);
        if schedule.form == Form::VERIFIED && draw.chance(0.2) {
            schedule.hold(&mut draw);
        }
        schedule.classes = classes(&mut draw);
        // A session that cannot begin shows little, and a wrong program applies only to programs.
        let rare = !draw.chance(0.3);
        schedule
            .classes
            .retain(|&class| class != Class::Mistake && !(rare && class == Class::NoPlan));
        for class in schedule.classes.clone() {
            troubles::add(&mut schedule, class, &mut draw);
        }
        schedule.happenings.sort_by_key(|(at, _)| *at);
        schedule
    }

    /// Gives all hosts a key. If `attacked`, an attacker without it receives every frame and
    /// replays many of them.
    pub fn with_key(mut self, attacked: bool) -> Schedule {
        (self.keyed, self.mtu_bytes) = (true, self.mtu_bytes.max(MIN_KEYED_MTU_BYTES));
        self.forges = attacked.then_some(REPEATED_SHARE);
        self
    }

    pub fn add_host(&mut self, draw: &mut Draw, role: Role) -> usize {
        let switch = draw.index(self.cluster.switches.len());
        let (_, rate, settings) = self.cluster.hosts[0].clone();
        self.cluster.hosts.push((switch, rate, settings));
        self.disks.push(DiskTerms::default());
        self.starts.push(Duration::ZERO);
        self.roles.push(role);
        self.hosts() - 1
    }

    pub fn roots(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.hosts()).filter(|&host| host == 0 || self.roles[host] == Role::Root)
    }

    pub fn is_forged(&self) -> bool {
        self.classes.iter().any(|class| class.forges())
    }

    pub fn is_strict(&self) -> bool {
        self.tuning.policy == Policy::InOrderOnly
    }

    pub fn most_feed(&self) -> u64 {
        self.feeds
            .iter()
            .copied()
            .max()
            .unwrap_or(0)
            .max(self.tuning.feed.frames)
    }

    /// Whether only content is damaged, in a form that detects and repairs damage.
    pub fn is_repaired(&self) -> bool {
        let content =
            |rule: &Rule| rule.class != Class::Damage || rule.filter.kinds == [Kind::DATA];
        self.form != Form::Plain && !self.has(Class::Hostile) && self.rules.iter().all(content)
    }

    pub fn plain(seed: Seed, receivers: usize, bytes: usize) -> Schedule {
        let hosts = receivers + 1;
        Schedule {
            seed,
            via: Via::Chain,
            chooses: false,
            form: Form::Plain,
            selects: false,
            holdings: Vec::new(),
            told: false,
            bytes,
            mtu_bytes: 300,
            tuning: Tuning::default().with_feed_frames(64),
            timing: Timing::default(),
            gathers: Duration::from_secs(5),
            pipe: false,
            sized: true,
            late: false,
            on_slow: OnSlow::default(),
            gives: Pace::default(),
            cluster: Cluster::star(hosts),
            disks: vec![DiskTerms::default(); hosts],
            starts: vec![Duration::ZERO; hosts],
            roles: vec![Role::Receiver; hosts],
            feeds: Vec::new(),
            begins: Instant::START,
            sending: None,
            replays: [0; 2],
            forges: None,
            keyed: false,
            once: false,
            enough: receivers,
            classes: Vec::new(),
            rules: Vec::new(),
            happenings: Vec::new(),
            heals: Duration::ZERO,
            core: (0..hosts).collect(),
        }
    }

    fn calm(draw: &mut Draw, seed: Seed) -> Schedule {
        let small = seed.size() == Size::Small;
        let via = match draw.index(4) {
            0 => Via::Chain,
            1 => Via::Cast,
            _ => Via::ALL[draw.index(Via::ALL.len())],
        };
        let receivers = match (small, via.is_in_blocks()) {
            (true, true) => draw.log(1, 7),
            (true, false) => draw.log(1, 15),
            (false, true) => draw.between(8, 20),
            (false, false) => draw.between(16, 140),
        } as usize;
        let mtu_bytes = draw.pick(&[300, 300, 576, 1500]);
        let frames = if small {
            draw.log(1, 250)
        } else {
            draw.log(50, 400)
        };
        let payload = u64::from(mtu_bytes) - 32;
        let hosts = receivers + 1;
        let cluster = Cluster::draw(draw, hosts, small);
        // At most a second of the slowest cable, if all bytes must cross it for some of the hosts.
        let most = cluster.slowest() / 8 / hosts.min(8) as u64;
        let bytes = (frames * payload - draw.between(0, payload)).min(most) as usize;
        let heals = draw.micros(300_000, 3_000_000);
        let stall = Duration::from_millis(draw.between(1000, 2000));
        // As by default, a member without progress has been demoted long before it is given up.
        let patience = heals.max(stall * 2) + Duration::from_millis(draw.between(1000, 4000));
        Schedule {
            via,
            mtu_bytes,
            tuning: tuning(draw),
            timing: Timing {
                patience,
                stall,
                sync: Duration::from_secs(6),
                ..Timing::default()
            },
            gathers: heals + Duration::from_millis(draw.between(2000, 4000)),
            pipe: draw.chance(0.35),
            sized: draw.chance(0.8),
            late: draw.chance(0.3),
            on_slow: draw.pick(&[OnSlow::Demote, OnSlow::Demote, OnSlow::Wait, OnSlow::Evict]),
            once: draw.chance(0.1),
            form: draw.pick(&[Form::Plain, Form::VERIFIED]),
            told: draw.chance(0.5),
            cluster,
            heals,
            core: (0..hosts)
                .filter(|&host| host == 0 || draw.chance(0.8))
                .collect(),
            ..Schedule::plain(seed, receivers, bytes)
        }
    }

    /// Sets the size of the content. Slow applications then take or give at least 1/500 of it at a
    /// time.
    pub fn set_bytes(&mut self, bytes: usize) {
        self.bytes = bytes;
        let least = bytes / 500 + 1;
        let paces = self
            .disks
            .iter_mut()
            .map(|disk| &mut disk.pace)
            .chain([&mut self.gives]);
        paces
            .filter(|pace| pace.bytes > 0)
            .for_each(|pace| pace.bytes = pace.bytes.max(least));
    }

    pub fn hosts(&self) -> usize {
        self.disks.len()
    }

    pub fn has(&self, class: Class) -> bool {
        self.classes.contains(&class)
    }

    pub fn stream_time(&self) -> Duration {
        let fanout = if self.via == Via::Flat {
            self.hosts() as u64
        } else {
            2
        };
        Duration::from_nanos(
            self.bytes as u64 * 8 * fanout * 1_000_000_000 / self.cluster.slowest(),
        )
    }

    /// Draws a moment between the start and shortly after the end of the stream.
    pub fn moment(&self, draw: &mut Draw) -> Duration {
        if draw.chance(0.3) {
            return Duration::from_micros(draw.between(1, 260_000));
        }
        let (begin, span) = (
            Duration::from_millis(200),
            self.stream_time() * 2 + Duration::from_millis(60),
        );
        (begin + Duration::from_nanos(draw.between(0, span.as_nanos() as u64))).min(self.heals)
    }

    /// Draws a moment while the stream runs, assuming no earlier fault.
    pub fn in_stream(&self, draw: &mut Draw) -> Duration {
        let span = self.stream_time() + Duration::from_millis(2);
        Duration::from_millis(201) + Duration::from_nanos(draw.between(0, span.as_nanos() as u64))
    }

    pub fn span_from(&self, from: Duration, draw: &mut Draw) -> Duration {
        let most = self.heals.saturating_sub(from).as_micros().max(2) as u64;
        draw.micros(most.min(1000), most)
    }

    pub fn receiver(&self, draw: &mut Draw) -> usize {
        draw.between(1, self.hosts() as u64 - 1) as usize
    }

    pub fn some(&self, draw: &mut Draw) -> HostSet {
        let share = draw.pick(&[0.1, 0.3, 0.6]);
        let mut set: HostSet = (0..self.hosts()).filter(|_| draw.chance(share)).collect();
        set.insert(draw.index(self.hosts()));
        set
    }

    pub fn demands(&self, host: usize) -> bool {
        let ends = [
            Class::RootDeath,
            Class::TwoRoots,
            Class::Replay,
            Class::Interrupt,
            Class::NoPlan,
        ];
        let ended = ends.into_iter().any(|class| self.has(class))
            || (self.is_forged() && !self.is_repaired());
        self.core.has(host) && host > 0 && !ended && !self.may_fail(host)
    }

    /// Whether the protocol allows even this host of the core to fail.
    fn may_fail(&self, host: usize) -> bool {
        let broken = self.disks[host].trouble.is_some();
        // With blocks no member can be demoted, and a pipe cannot be read again for one.
        let fragile = self.via.is_in_blocks() || self.pipe;
        let absent = self.classes.iter().any(|class| class.takes_away());
        let slow = self.on_slow == OnSlow::Evict && self.classes.iter().any(|class| class.slows());
        // Latecomers may suffice to start without this host.
        broken
            || (fragile && absent)
            || slow
            || (self.once && absent)
            || self.has(Class::Latecomers)
    }

    /// Returns the deadline for everything. In a chain unreachable hosts are detected one after the
    /// other: a host behind a bad hop shows only once that is bridged.
    pub fn bound(&self) -> Instant {
        let bad = (1..self.hosts())
            .filter(|&host| !self.core.has(host))
            .count();
        let found_out = self.timing.stall * 3 * bad as u32;
        self.begins
            + self.heals
            + self.gathers
            + self.timing.patience * 3
            + found_out
            + Duration::from_secs(60)
    }
}

fn classes(draw: &mut Draw) -> Vec<Class> {
    let few = draw.between(1, 3);
    let share = match draw.index(20) {
        0 => 0.0,
        1..=11 => {
            let few: BTreeSet<Class> = (0..few).map(|_| draw.pick(Class::ALL)).collect();
            return few.into_iter().collect();
        }
        12..=18 => 0.1,
        _ => 0.25,
    };
    Class::ALL
        .iter()
        .copied()
        .filter(|_| draw.chance(share))
        .collect()
}

fn tuning(draw: &mut Draw) -> Tuning {
    let feed = draw.pick(&[64, 64, 64, 128, 256]);
    let preset = match draw.index(10) {
        0 => Tuning::paper(),
        1 => Tuning::push_pull(),
        _ => Tuning::default(),
    };
    preset.with_feed_frames(feed)
}
