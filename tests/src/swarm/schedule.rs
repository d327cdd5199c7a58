//! What a seed stands for: a cluster, what runs on it, the faults that are on, and when they are healed for whom.

use super::application::{DiskTerms, Pace};
use super::class::Class;
use super::cluster::Cluster;
use super::draw::Draw;
use super::holding::HoldingTerms;
use super::host_set::HostSet;
use super::rule::Rule;
use super::seed::{Seed, Size};
use super::troubles;
use super::weather::SendTrouble;
use ethbcast_collectives::session::ledger::Form;
use ethbcast_collectives::session::{OnSlow, Timing};
use ethbcast_planning::plan::Via;
use ethbcast_transport::sim::StormControl;
use ethbcast_transport::wire::Kind;
use ethbcast_transport::{Instant, Policy, Tuning};
use std::collections::BTreeSet;
use std::time::Duration;

/// Something that happens to a host or a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// The host dies.
    Crash(usize),
    /// Its process stands still for so long.
    Pause(usize, Duration),
    /// Its cable is out for so long.
    Cut(usize, Duration),
    /// The cable between two switches, by its number, is out for so long.
    CutTrunk(usize, Duration),
    /// A host that has died is switched on again: its user starts another run.
    Restart(usize),
    /// Its user stops it.
    Interrupt(usize),
    /// The switches begin to police what they flood.
    Police(StormControl),
    /// No switch polices what it floods any more.
    FreeSwitches,
}

impl Happening {
    /// The host that it happens to, if it is one.
    pub fn host(self) -> Option<usize> {
        match self {
            Happening::Crash(host) | Happening::Pause(host, _) | Happening::Cut(host, _) => Some(host),
            Happening::Restart(host) | Happening::Interrupt(host) => Some(host),
            Happening::CutTrunk(..) | Happening::Police(_) | Happening::FreeSwitches => None,
        }
    }
}

/// What kind of host it is, and what it says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Takes part as everybody else.
    #[default]
    Receiver,
    /// Its interface takes shorter frames.
    SmallMtu,
    /// It has no room.
    NoRoom,
    /// It is none of those that are wanted.
    NotWanted,
    /// The topology does not name it.
    NotInTopology,
    /// It has the name of host 1.
    Namesake,
    /// It has bytes of its own for the group.
    Root,
}

/// A session, and what is demanded of it.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Where all this comes from.
    pub seed: Seed,
    /// How the bytes travel, unless the root chooses that.
    pub via: Via,
    /// Whether the root measures first and chooses the way itself.
    pub chooses: bool,
    /// Whether the content travels as it is, or with ledgers.
    pub form: Form,
    /// Whether the root can send a part only, where receivers have some of the content.
    pub selects: bool,
    /// What each host has of it; nobody has anything if there is nothing here.
    pub holdings: Vec<Option<HoldingTerms>>,
    /// Whether the root is told the switches.
    pub told: bool,
    /// Bytes in the content.
    pub bytes: usize,
    /// MTU of all hosts.
    pub mtu_bytes: u16,
    /// The engine's numbers.
    pub tuning: Tuning,
    /// The session's clockwork.
    pub timing: Timing,
    /// How long the root waits for receivers.
    pub gathers: Duration,
    /// Whether the source can be read once only.
    pub pipe: bool,
    /// Whether the size is said in advance.
    pub sized: bool,
    /// Whether who comes late is let in.
    pub late: bool,
    /// What becomes of slow members.
    pub on_slow: OnSlow,
    /// How the root's application gives.
    pub gives: Pace,
    /// The network. Host 0 is the root.
    pub cluster: Cluster,
    /// The disk of each host; the root's is not used.
    pub disks: Vec<DiskTerms>,
    /// When each host starts.
    pub starts: Vec<Duration>,
    /// What each host is; that of host 0 means nothing.
    pub roles: Vec<Role>,
    /// Slots of each host's feed.
    pub feeds: Vec<u64>,
    /// What the clock shows when all begins.
    pub begins: Instant,
    /// Kernels that have no room now and then.
    pub sending: Option<SendTrouble>,
    /// How many of the frames of an older session come again, and how many of another version.
    pub replays: [usize; 2],
    /// How large a share of all frames comes again with false values.
    pub forges: Option<f64>,
    /// Whether a receiver ends when the first root says no.
    pub once: bool,
    /// How many receivers are enough to start.
    pub enough: usize,
    /// The classes of faults that are on.
    pub classes: Vec<Class>,
    /// The network's faults.
    pub rules: Vec<Rule>,
    /// What happens to hosts and cables, and when.
    pub happenings: Vec<(Duration, Happening)>,
    /// When all but deaths is healed for the core.
    pub heals: Duration,
    /// Who is healed then, and must have everything in the end.
    pub core: HostSet,
}

impl Schedule {
    /// What `seed` stands for.
    pub fn of(seed: Seed) -> Schedule {
        let mut draw = Draw::new(seed.number(), 1);
        let mut schedule = Schedule::calm(&mut draw, seed);
        if schedule.form == Form::LEDGERED && draw.chance(0.2) {
            schedule.hold(&mut draw);
        }
        schedule.classes = classes(&mut draw);
        // A session that cannot begin shows little, and the other is for programs.
        let rare = !draw.chance(0.3);
        schedule.classes.retain(|&class| class != Class::Mistake && !(rare && class == Class::NoPlan));
        for class in schedule.classes.clone() {
            troubles::add(&mut schedule, class, &mut draw);
        }
        schedule.happenings.sort_by_key(|(at, _)| *at);
        schedule
    }

    /// Adds a host that is there beside those the session is for.
    pub fn add_host(&mut self, draw: &mut Draw, role: Role) -> usize {
        let switch = draw.index(self.cluster.switches.len());
        let (_, rate, settings) = self.cluster.hosts[0].clone();
        self.cluster.hosts.push((switch, rate, settings));
        self.disks.push(DiskTerms::default());
        self.starts.push(Duration::ZERO);
        self.roles.push(role);
        self.hosts() - 1
    }

    /// The hosts that have bytes for the others.
    pub fn roots(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.hosts()).filter(|&host| host == 0 || self.roles[host] == Role::Root)
    }

    /// Whether frames are made up in a way that those who hear them cannot see.
    pub fn is_forged(&self) -> bool {
        self.classes.iter().any(|class| class.forges())
    }

    /// Whether receivers take only what comes next.
    pub fn is_strict(&self) -> bool {
        self.tuning.policy == Policy::InOrderOnly
    }

    /// Slots of the largest feed.
    pub fn most_feed(&self) -> u64 {
        self.feeds.iter().copied().max().unwrap_or(0).max(self.tuning.feed.frames)
    }

    /// Whether all that is forged is content, in a form in which damage is found and mended.
    pub fn is_repaired(&self) -> bool {
        let content = |rule: &Rule| rule.class != Class::Damage || rule.filter.kinds == [Kind::DATA];
        self.form != Form::Plain && !self.has(Class::Hostile) && self.rules.iter().all(content)
    }

    /// A session of `receivers` hosts on one switch, by chain, without any fault.
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
            once: false,
            enough: receivers,
            classes: Vec::new(),
            rules: Vec::new(),
            happenings: Vec::new(),
            heals: Duration::ZERO,
            core: (0..hosts).collect(),
        }
    }

    /// The session without any fault.
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
        let frames = if small { draw.log(1, 250) } else { draw.log(50, 400) };
        let payload = u64::from(mtu_bytes) - 32;
        let hosts = receivers + 1;
        let cluster = Cluster::draw(draw, hosts, small);
        // A second's worth of the slowest cable, if all of it has to cross that for some of the hosts.
        let most = cluster.slowest() / 8 / hosts.min(8) as u64;
        let bytes = (frames * payload - draw.between(0, payload)).min(most) as usize;
        let heals = draw.micros(300_000, 3_000_000);
        let stall = Duration::from_millis(draw.between(1000, 2000));
        // As by default: who has made no progress has stepped aside long before it is given up.
        let patience = heals.max(stall * 2) + Duration::from_millis(draw.between(1000, 4000));
        Schedule {
            via,
            mtu_bytes,
            tuning: tuning(draw),
            timing: Timing { patience, stall, sync: Duration::from_secs(6), ..Timing::default() },
            gathers: heals + Duration::from_millis(draw.between(2000, 4000)),
            pipe: draw.chance(0.35),
            sized: draw.chance(0.8),
            late: draw.chance(0.3),
            on_slow: draw.pick(&[OnSlow::Demote, OnSlow::Demote, OnSlow::Wait, OnSlow::Evict]),
            once: draw.chance(0.1),
            form: draw.pick(&[Form::Plain, Form::LEDGERED]),
            told: draw.chance(0.5),
            cluster,
            heals,
            core: (0..hosts).filter(|&host| host == 0 || draw.chance(0.8)).collect(),
            ..Schedule::plain(seed, receivers, bytes)
        }
    }

    /// There are so many bytes instead, of which whoever is lazy takes or gives as many at a time as keep its rests
    /// few.
    pub fn set_bytes(&mut self, bytes: usize) {
        self.bytes = bytes;
        let least = bytes / 500 + 1;
        let paces = self.disks.iter_mut().map(|disk| &mut disk.pace).chain([&mut self.gives]);
        paces.filter(|pace| pace.bytes > 0).for_each(|pace| pace.bytes = pace.bytes.max(least));
    }

    /// Hosts, the root included.
    pub fn hosts(&self) -> usize {
        self.disks.len()
    }

    /// Whether a class of faults is on.
    pub fn has(&self, class: Class) -> bool {
        self.classes.contains(&class)
    }

    /// Roughly how long the bytes need on the slowest cable.
    pub fn stream_time(&self) -> Duration {
        let fanout = if self.via == Via::Flat { self.hosts() as u64 } else { 2 };
        Duration::from_nanos(self.bytes as u64 * 8 * fanout * 1_000_000_000 / self.cluster.slowest())
    }

    /// A moment at which something may begin: from the start of all to a little after the end of the stream.
    pub fn moment(&self, draw: &mut Draw) -> Duration {
        if draw.chance(0.3) {
            return Duration::from_micros(draw.between(1, 260_000));
        }
        let (begin, span) = (Duration::from_millis(200), self.stream_time() * 2 + Duration::from_millis(60));
        (begin + Duration::from_nanos(draw.between(0, span.as_nanos() as u64))).min(self.heals)
    }

    /// A moment while the stream runs, if nothing has gone wrong before.
    pub fn in_stream(&self, draw: &mut Draw) -> Duration {
        let span = self.stream_time() + Duration::from_millis(2);
        Duration::from_millis(201) + Duration::from_nanos(draw.between(0, span.as_nanos() as u64))
    }

    /// How long something lasts that is to be over when all heals.
    pub fn span_from(&self, from: Duration, draw: &mut Draw) -> Duration {
        let most = self.heals.saturating_sub(from).as_micros().max(2) as u64;
        draw.micros(most.min(1000), most)
    }

    /// A receiver.
    pub fn receiver(&self, draw: &mut Draw) -> usize {
        draw.between(1, self.hosts() as u64 - 1) as usize
    }

    /// Some hosts, one at least.
    pub fn some(&self, draw: &mut Draw) -> HostSet {
        let share = draw.pick(&[0.1, 0.3, 0.6]);
        let mut set: HostSet = (0..self.hosts()).filter(|_| draw.chance(share)).collect();
        set.insert(draw.index(self.hosts()));
        set
    }

    /// Whether this receiver must have everything in the end.
    pub fn demands(&self, host: usize) -> bool {
        let ends = [Class::RootDeath, Class::TwoRoots, Class::Replay, Class::Interrupt, Class::NoPlan];
        let ended = ends.into_iter().any(|class| self.has(class)) || (self.is_forged() && !self.is_repaired());
        self.core.has(host) && host > 0 && !ended && !self.may_fail(host)
    }

    /// What may make even a host of the core fail, by what the protocol promises.
    fn may_fail(&self, host: usize) -> bool {
        let broken = self.disks[host].trouble.is_some();
        // In blocks nobody can step aside, and a pipe cannot be read again for who did.
        let fragile = self.via.is_in_blocks() || self.pipe;
        let absent = self.classes.iter().any(|class| class.takes_away());
        let slow = self.on_slow == OnSlow::Evict && self.classes.iter().any(|class| class.slows());
        // Those who come late may be as many as are enough to start.
        broken || (fragile && absent) || slow || (self.once && absent) || self.has(Class::Latecomers)
    }

    /// When all must be over. Whom nothing reaches for good is found out one after the other in a chain: what is behind
    /// a bad hop shows when it is bridged.
    pub fn bound(&self) -> Instant {
        let bad = (1..self.hosts()).filter(|&host| !self.core.has(host)).count();
        let found_out = self.timing.stall * 3 * bad as u32;
        self.begins + self.heals + self.gathers + self.timing.patience * 3 + found_out + Duration::from_secs(60)
    }
}

/// The classes of faults that are on: none now and then, mostly a few, sometimes many.
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
    Class::ALL.iter().copied().filter(|_| draw.chance(share)).collect()
}

/// The engine's numbers: what the tool runs on mostly, with a small feed.
fn tuning(draw: &mut Draw) -> Tuning {
    let feed = draw.pick(&[64, 64, 64, 128, 256]);
    let preset = match draw.index(10) {
        0 => Tuning::paper(),
        1 => Tuning::push_pull(),
        _ => Tuning::default(),
    };
    preset.with_feed_frames(feed)
}
