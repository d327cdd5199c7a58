//! The hosts of a schedule: roots and receivers with their applications.

use super::application::{Disk, Origin, Shelf};
use super::class::Class;
use super::draw::Draw;
use super::form::{Given, Taken};
use super::holding::Holding;
use super::schedule::{Role, Schedule};
use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::verified::Form;
use ethbcast_collectives::session::{Receiver, ReceiverConfig, Root, RootConfig, Route, Station, Wanted};
use ethbcast_planning::topology::Topology;
use ethbcast_transport::sim::host_mac;
use ethbcast_transport::{Instant, Tuning};
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
        let is_root: Vec<bool> = (0..schedule.hosts()).map(|host| schedule.roots().any(|root| root == host)).collect();
        let content = |&root: &bool| Rc::new(if root { draw.bytes(schedule.bytes) } else { Vec::new() });
        let contents = Rc::new(is_root.iter().map(content).collect());
        Hosts { schedule, contents, shelves: vec![Vec::new(); schedule.hosts()], runs: 0 }
    }

    pub fn shelves(&self) -> &[Vec<Rc<Shelf>>] {
        &self.shelves
    }

    pub fn make(&mut self, now: Instant, host: usize) -> Host {
        self.runs += 1;
        if self.schedule.roots().any(|root| root == host) { self.root(now, host) } else { self.receiver(now, host) }
    }

    fn root(&mut self, now: Instant, host: usize) -> Host {
        let schedule = self.schedule;
        let names = |role: Role| {
            let plain = (1..schedule.hosts()).filter(|&host| schedule.roles[host] == Role::Receiver);
            if schedule.roles.contains(&role) { plain.map(|host| format!("n{host}")).collect() } else { Vec::new() }
        };
        let mut known: Vec<String> = names(Role::NotInTopology);
        if schedule.has(Class::NoPlan) {
            known = (1..schedule.hosts()).map(|host| format!("n{host}")).collect();
        } else {
            known.extend((!known.is_empty()).then(|| "n0".to_owned()));
        }
        let mut wanted = names(Role::NotWanted);
        wanted.extend(names(Role::Namesake));
        let config = RootConfig {
            size: schedule.sized.then_some(schedule.bytes as u64),
            wanted: Wanted { at_least: 1, enough: Some(schedule.enough), patience: schedule.gathers },
            hosts: if host == 0 { wanted } else { Vec::new() },
            route: if schedule.chooses { Route::Auto } else { Route::Via(schedule.via) },
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
            ..RootConfig::new(self.station(host), self.session(host), &format!("file{host}"))
        };
        let origin = Origin::new(Rc::clone(&self.contents[host]), schedule.pipe, schedule.gives);
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
            free_bytes: if schedule.roles[host] == Role::NoRoom { 0 } else { u64::MAX },
            once: schedule.once,
            form: schedule.form,
            holds: holds.is_some(),
            tuning: self.tuning(host),
            timing: schedule.timing,
            ..ReceiverConfig::new(self.station(host), schedule.seed.number() ^ (host as u64) << 32 ^ self.runs << 48)
        };
        // Ledgers let only the root's own bytes pass.
        let may_differ = schedule.is_forged() && schedule.form == Form::Plain;
        let disk = Disk::new(schedule.disks[host], Rc::clone(&shelf), Rc::clone(&self.contents), may_differ);
        let taken = match holds {
            Some(terms) => {
                Taken::holding(disk, Holding::new((terms, schedule.form.chunk()), &self.contents[0], &shelf))
            }
            None => Taken::new(schedule.form, disk),
        };
        Participant::receiver(Receiver::new(now, config), taken)
    }

    fn tuning(&self, host: usize) -> Tuning {
        let tuning = self.schedule.tuning.clone();
        self.schedule.feeds.get(host).map_or(tuning.clone(), |&frames| tuning.with_feed_frames(frames))
    }

    fn session(&self, host: usize) -> u32 {
        0x5E55_0000 ^ self.schedule.seed.number() as u32 ^ (host as u32) << 12 ^ (self.runs as u32) << 24
    }

    fn station(&self, host: usize) -> Station {
        let role = self.schedule.roles[host];
        let name = if role == Role::Namesake { 1 } else { host };
        let mtu_bytes = self.schedule.mtu_bytes - if role == Role::SmallMtu { 40 } else { 0 };
        Station::new(GROUP, &format!("n{name}"), host_mac(host), mtu_bytes)
    }
}
