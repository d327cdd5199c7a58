//! Random simulation: senders and receivers with their data sources and disks.

use super::application::{Disk, Origin, Shelf};
use super::class::Class;
use super::effects::Holding;
use super::form::{Given, Taken};
use super::schedule::{Role, Schedule};
use super::seed::Draw;
use crate::session::{keys, receiver_keys, root_keys};
use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::verified::Form;
use ethbcast_collectives::session::{
    Receiver, ReceiverConfig, Root, RootConfig, Route, Station, Wanted,
};
use ethbcast_planning::topology::Topology;
use ethbcast_transport::sim::{
    Cable, CableId, HostSettings, Network, QueueLimit, SwitchSettings, host_mac,
};
use ethbcast_transport::{Instant, Tuning};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

pub const GROUP: &str = "swarm";

pub type Host = Participant<Given, Taken>;

/// Contents by number of the root that sends them.
pub type Contents = Rc<Vec<Rc<Vec<u8>>>>;

pub fn told_topology(schedule: &Schedule) -> Option<Topology> {
    let name = |host: usize| (schedule.roles[host] != Role::Namesake).then(|| format!("n{host}"));
    let is_other = schedule.has(Class::NoPlan) || schedule.roles.contains(&Role::NotInTopology);
    (schedule.told && !is_other).then(|| schedule.cluster.topology(name))
}

#[derive(Debug)]
pub struct Hosts<'a> {
    schedule: &'a Schedule,
    contents: Contents,
    shelves: Vec<Vec<Rc<Shelf>>>,
    runs: u64,
}

impl<'a> Hosts<'a> {
    pub fn new(schedule: &'a Schedule) -> Hosts<'a> {
        let mut draw = Draw::new(schedule.seed.number(), 3);
        let is_root: Vec<bool> = (0..schedule.hosts())
            .map(|host| schedule.roots().any(|root| root == host))
            .collect();
        let content = |&root: &bool| {
            Rc::new(if root {
                draw.bytes(schedule.bytes)
            } else {
                Vec::new()
            })
        };
        let contents = Rc::new(is_root.iter().map(content).collect());
        Hosts {
            schedule,
            contents,
            shelves: vec![Vec::new(); schedule.hosts()],
            runs: 0,
        }
    }

    pub fn shelves(&self) -> &[Vec<Rc<Shelf>>] {
        &self.shelves
    }

    pub fn make(&mut self, now: Instant, host: usize) -> Host {
        self.runs += 1;
        if self.schedule.roots().any(|root| root == host) {
            self.root(now, host)
        } else {
            self.receiver(now, host)
        }
    }

    fn root(&mut self, now: Instant, host: usize) -> Host {
        let schedule = self.schedule;
        let names = |role: Role| {
            let plain =
                (1..schedule.hosts()).filter(|&host| schedule.roles[host] == Role::Receiver);
            if schedule.roles.contains(&role) {
                plain.map(|host| format!("n{host}")).collect()
            } else {
                Vec::new()
            }
        };
        let mut known: Vec<String> = names(Role::NotInTopology);
        if schedule.has(Class::NoPlan) {
            known = (1..schedule.hosts())
                .map(|host| format!("n{host}"))
                .collect();
        } else {
            known.extend((!known.is_empty()).then(|| "n0".to_owned()));
        }
        let mut wanted = names(Role::NotWanted);
        wanted.extend(names(Role::Namesake));
        let config = RootConfig {
            size: schedule.sized.then_some(schedule.bytes as u64),
            wanted: Wanted {
                at_least: 1,
                enough: Some(schedule.enough),
                patience: schedule.gathers,
            },
            hosts: if host == 0 { wanted } else { Vec::new() },
            route: if schedule.chooses {
                Route::Auto
            } else {
                Route::Via(schedule.via)
            },
            topology: if known.is_empty() || host > 0 {
                told_topology(schedule).filter(|_| host == 0)
            } else {
                Some(Topology::single_switch(known).expect("names differ"))
            },
            tuning: self.tuning(host),
            timing: schedule.timing,
            late: schedule.late,
            on_slow: schedule.on_slow,
            probe: schedule.chooses,
            form: schedule.form,
            selects: schedule.selects,
            keys: schedule.keyed.then(|| root_keys(keys(1), self.drawn(host))),
            ..RootConfig::new(
                self.station(host),
                self.session(host),
                &format!("file{host}"),
            )
        };
        let origin = Origin::new(
            Rc::clone(&self.contents[host]),
            schedule.pipe,
            schedule.gives,
        );
        let given = if schedule.selects {
            Given::selecting(schedule.form.chunk(), origin)
        } else {
            Given::new(schedule.form, origin)
        };
        Participant::root(Root::new(now, config), given)
    }

    fn receiver(&mut self, now: Instant, host: usize) -> Host {
        let schedule = self.schedule;
        let shelf = Rc::<Shelf>::default();
        self.shelves[host].push(Rc::clone(&shelf));
        let holds = schedule.holdings.get(host).copied().flatten();
        let config = ReceiverConfig {
            patience: Some(schedule.heals + Duration::from_secs(20)),
            free_bytes: if schedule.roles[host] == Role::NoRoom {
                0
            } else {
                u64::MAX
            },
            once: schedule.once,
            form: schedule.form,
            holds: holds.is_some(),
            tuning: self.tuning(host),
            timing: schedule.timing,
            keys: schedule
                .keyed
                .then(|| receiver_keys(keys(1), self.drawn(host), host)),
            ..ReceiverConfig::new(self.station(host), self.drawn(host))
        };
        // Hash lists let only the root's own bytes pass.
        let may_differ = schedule.is_forged() && schedule.form == Form::Plain;
        let disk = Disk::new(
            schedule.disks[host],
            Rc::clone(&shelf),
            Rc::clone(&self.contents),
            may_differ,
        );
        let taken = match holds {
            Some(terms) => Taken::holding(
                disk,
                Holding::new((terms, schedule.form.chunk()), &self.contents[0], &shelf),
            ),
            None => Taken::new(schedule.form, disk),
        };
        Participant::receiver(Receiver::new(now, config), taken)
    }

    fn tuning(&self, host: usize) -> Tuning {
        let tuning = self.schedule.tuning.clone();
        self.schedule
            .feeds
            .get(host)
            .map_or(tuning.clone(), |&frames| tuning.with_feed_frames(frames))
    }

    fn session(&self, host: usize) -> u32 {
        0x5E55_0000
            ^ self.schedule.seed.number() as u32
            ^ (host as u32) << 12
            ^ (self.runs as u32) << 24
    }

    /// Returns a number that differs for each run of each host.
    fn drawn(&self, host: usize) -> u64 {
        self.schedule.seed.number() ^ (host as u64) << 32 ^ self.runs << 48
    }

    fn station(&self, host: usize) -> Station {
        let role = self.schedule.roles[host];
        let name = if role == Role::Namesake { 1 } else { host };
        let mtu_bytes = self.schedule.mtu_bytes - if role == Role::SmallMtu { 40 } else { 0 };
        Station::new(GROUP, &format!("n{name}"), host_mac(host), mtu_bytes)
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct HostSet([u64; 4]);

impl HostSet {
    pub const MAX_HOSTS: usize = 256;

    pub const NONE: HostSet = HostSet([0; 4]);

    pub const ALL: HostSet = HostSet([u64::MAX; 4]);

    pub fn one(host: usize) -> HostSet {
        [host].into_iter().collect()
    }

    pub fn has(&self, host: usize) -> bool {
        self.0[host / 64] >> (host % 64) & 1 == 1
    }

    pub fn insert(&mut self, host: usize) {
        self.0[host / 64] |= 1 << (host % 64);
    }

    pub fn remove(&mut self, host: usize) {
        self.0[host / 64] &= !(1 << (host % 64));
    }

    #[must_use]
    pub fn others(self) -> HostSet {
        HostSet(self.0.map(|word| !word))
    }
}

impl fmt::Debug for HostSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (most, sign) = if self.has(HostSet::MAX_HOSTS - 1) {
            (self.others(), "all but ")
        } else {
            (*self, "")
        };
        let hosts: Vec<usize> = (0..HostSet::MAX_HOSTS)
            .filter(|&host| most.has(host))
            .collect();
        write!(formatter, "{sign}{hosts:?}")
    }
}

impl FromIterator<usize> for HostSet {
    fn from_iter<T: IntoIterator<Item = usize>>(hosts: T) -> HostSet {
        let mut set = HostSet::NONE;
        hosts.into_iter().for_each(|host| set.insert(host));
        set
    }
}

#[derive(Clone, Debug)]
pub struct Cluster {
    /// Each switch with the index of its parent in the tree; the first switch has none.
    pub switches: Vec<(SwitchSettings, usize)>,
    /// Bits per second of the cable from each switch to its parent; index 0 is unused.
    pub trunks: Vec<u64>,
    /// Each host: its switch, its cable's bits per second, its card and process.
    pub hosts: Vec<(usize, u64, HostSettings)>,
}

impl Cluster {
    pub fn draw(draw: &mut Draw, hosts: usize, small: bool) -> Cluster {
        let switches = if hosts > 2 && draw.chance(0.3) {
            draw.between(2, 4) as usize
        } else {
            1
        };
        // Status messages of a hundred hosts would fill a slow cable.
        let rate = draw.log(if small { 8 } else { 50 }, 1000) * 1_000_000;
        let least = if small { 2_000_000 } else { 20_000_000 };
        let mixed = draw.chance(0.2);
        let settings = HostSettings {
            nic_receive_frames: 4096,
            nic_transmit_frames: 32,
            ..HostSettings::default()
        };
        let other = |draw: &mut Draw| {
            if mixed && draw.chance(0.3) {
                rate / draw.between(2, 20)
            } else {
                rate
            }
        };
        Cluster {
            switches: (0..switches)
                .map(|at| (SwitchSettings::default(), draw.index(at.max(1))))
                .collect(),
            trunks: (0..switches)
                .map(|_| other(draw).max(rate / 4).max(least))
                .collect(),
            hosts: (0..hosts)
                .map(|_| {
                    (
                        draw.index(switches),
                        other(draw).max(least),
                        settings.clone(),
                    )
                })
                .collect(),
        }
    }

    pub fn star(hosts: usize) -> Cluster {
        Cluster {
            switches: vec![(SwitchSettings::default(), 0)],
            trunks: vec![0],
            hosts: vec![(0, 100_000_000, HostSettings::default()); hosts],
        }
    }

    pub fn network(&self, mtu_bytes: u16) -> (Network, Vec<CableId>) {
        let mut network = Network::new().with_mtu_bytes(usize::from(mtu_bytes));
        let switches: Vec<_> = self
            .switches
            .iter()
            .map(|(settings, _)| network.add_switch(*settings))
            .collect();
        let mut trunks = Vec::new();
        for (at, &(_, above)) in self.switches.iter().enumerate().skip(1) {
            let cable = Cable::new(self.trunks[at], Duration::from_micros(5));
            trunks.push(
                network
                    .connect(switches[above], switches[at], cable)
                    .expect("switches form a tree"),
            );
        }
        for (switch, rate, settings) in &self.hosts {
            network.add_host(
                switches[*switch],
                Cable::new(*rate, Duration::from_micros(5)),
                settings.clone(),
            );
        }
        (network, trunks)
    }

    pub fn behind(&self, switch: usize) -> HostSet {
        let below = |mut at: usize| loop {
            if at == switch {
                return true;
            }
            if at == 0 {
                return false;
            }
            at = self.switches[at].1;
        };
        self.hosts
            .iter()
            .enumerate()
            .filter(|(_, (at, ..))| below(*at))
            .map(|(host, _)| host)
            .collect()
    }

    pub fn topology(&self, name: impl Fn(usize) -> Option<String>) -> Topology {
        let mut text = "schema = 1\n".to_owned();
        for at in 0..self.switches.len() {
            let own = self
                .hosts
                .iter()
                .enumerate()
                .filter(|(_, (switch, ..))| *switch == at);
            let hosts: Vec<String> = own.filter_map(|(host, _)| name(host)).collect();
            let below = self
                .switches
                .iter()
                .enumerate()
                .skip(1)
                .filter(|(_, (_, above))| *above == at);
            let links: Vec<String> = below.map(|(switch, _)| format!("s{switch}")).collect();
            text +=
                &format!("[[switch]]\nname = \"s{at}\"\nhosts = {hosts:?}\nlinks = {links:?}\n");
        }
        Topology::parse(&text, "the swarm").expect("switches form a tree, and names differ")
    }

    pub fn slowest(&self) -> u64 {
        let trunks = self.trunks.iter().skip(1).copied();
        self.hosts
            .iter()
            .map(|(_, rate, _)| *rate)
            .chain(trunks)
            .min()
            .unwrap_or(1_000_000)
    }

    pub fn shrink(&mut self, draw: &mut Draw) {
        for (_, _, settings) in &mut self.hosts {
            settings.nic_receive_frames = draw.log(4, 128) as usize;
            settings.nic_transmit_frames = draw.log(1, 32) as usize;
        }
        for (settings, _) in &mut self.switches {
            settings.port_queue = QueueLimit::Frames(draw.log(3, 64) as usize);
        }
    }
}
