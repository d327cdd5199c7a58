//! Hits: faults of a schedule that touched a frame, a call, a timer or a host at work. A fault that
//! was only drawn and scheduled is no hit.

use super::application::Shelf;
use super::class::Class;
use super::host_set::HostSet;
use super::hosts::Host;
use super::schedule::{Happening, Role, Schedule};
use ethbcast_collectives::session::RootFailure;
use ethbcast_collectives::session::application::Participant;
use ethbcast_transport::sim::{CableId, Network, Stats};
use ethbcast_transport::{Instant, Machine};
use std::rc::Rc;
use std::sync::atomic::Ordering;

#[derive(Clone, Debug)]
pub struct Effects {
    hits: [u64; Class::COUNT],
}

impl Default for Effects {
    fn default() -> Effects {
        Effects { hits: [0; Class::COUNT] }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Guests {
    pub roots: HostSet,
    pub misfits: HostSet,
    pub late: HostSet,
}

impl Guests {
    pub fn of(schedule: &Schedule) -> Guests {
        let all = |is: &dyn Fn(usize) -> bool| (1..schedule.hosts()).filter(|&host| is(host)).collect();
        Guests {
            roots: all(&|host| schedule.roles[host] == Role::Root),
            misfits: all(&|host| !matches!(schedule.roles[host], Role::Root | Role::Receiver)),
            late: all(&|host| schedule.roles[host] == Role::Receiver && !schedule.starts[host].is_zero()),
        }
    }

    pub fn class(&self, from: usize) -> Option<Class> {
        let classes = [(self.roots, Class::TwoRoots), (self.misfits, Class::Misfits), (self.late, Class::Latecomers)];
        classes.into_iter().find(|(hosts, _)| hosts.has(from)).map(|(_, class)| class)
    }
}

impl Effects {
    pub fn add(&mut self, class: Class, hits: u64) {
        self.hits[class.index()] += hits;
    }

    pub fn of(&self, class: Class) -> u64 {
        self.hits[class.index()]
    }

    pub fn on_happening(&mut self, schedule: &Schedule, happening: Happening, works: bool, is_dead: bool) {
        let returns = |host| schedule.happenings.iter().any(|&(_, other)| other == Happening::Restart(host));
        let (class, touches) = match happening {
            Happening::Crash(0) => (Class::RootDeath, works),
            Happening::Crash(host) => (if returns(host) { Class::Restart } else { Class::Crash }, works),
            Happening::Restart(host) => (if host == 0 { Class::RootDeath } else { Class::Restart }, is_dead),
            Happening::Pause(..) => (Class::Pause, works),
            Happening::Interrupt(_) => (Class::Interrupt, works),
            // Counted by the frames that are lost.
            Happening::Cut(..) | Happening::CutTrunk(..) | Happening::Police(_) | Happening::FreeSwitches => return,
        };
        self.add(class, u64::from(touches));
    }

    pub fn on_end(
        &mut self,
        schedule: &Schedule,
        hosts: &[Host],
        shelves: &[Vec<Rc<Shelf>>],
        (network, trunks, stats): (&Network, &[CableId], &Stats),
    ) {
        let overflows = stats.drops.port_queue + stats.drops.nic_ring;
        self.add(Class::SmallRings, overflows);
        self.add(Class::SharedBuffer, stats.drops.port_queue);
        self.add(Class::StormControl, stats.drops.storm_control);
        self.add(Class::Policing, stats.drops.storm_control);
        self.add(Class::PauseFrames, stats.pauses);
        self.add(Class::LinkFlap, lost_by_cuts(schedule, network, trunks, stats));
        for (number, (_, _, card)) in schedule.cluster.hosts.iter().enumerate() {
            let slow = !card.per_frame_cost.is_zero() || !card.wake_up.is_zero();
            self.add(Class::SlowCpu, if slow { stats.hosts[number].received_frames } else { 0 });
        }
        for shelf in shelves.iter().flatten() {
            self.add(Class::DiskError, u64::from(shelf.failed.get()));
            self.add(Class::SlowDisk, shelf.waits.get());
            self.add(Class::Lazy, shelf.rests.get());
            self.add(Class::FalseHoldings, shelf.untrue.load(Ordering::Relaxed));
        }
        for (number, host) in hosts.iter().enumerate() {
            let other = schedule.feeds.get(number).is_some_and(|&feed| feed != schedule.tuning.feed.frames);
            self.add(Class::OwnTuning, if other { host.stream_stats().data_received } else { 0 });
            if let Participant::Root(root, sending) = host {
                self.add(Class::Lazy, sending.source().origin().rests());
                self.add(Class::NoPlan, u64::from(matches!(root.failure(), Some(RootFailure::NoPlan(..)))));
            }
        }
    }
}

fn lost_by_cuts(schedule: &Schedule, network: &Network, trunks: &[CableId], stats: &Stats) -> u64 {
    let dies = |host| schedule.happenings.iter().any(|&(_, other)| other == Happening::Crash(host));
    let cables = schedule.happenings.iter().filter_map(|&(_, happening)| match happening {
        Happening::Cut(host, _) if !dies(host) => Some(network.cable_of(host)),
        Happening::CutTrunk(trunk, _) => Some(trunks[trunk]),
        _ => None,
    });
    let mut cables: Vec<usize> = cables.map(CableId::index).collect();
    cables.sort_unstable();
    cables.dedup();
    let lost = |at: &usize| stats.cables[*at].forward.drops.dead + stats.cables[*at].backward.drops.dead;
    cables.iter().map(lost).sum()
}

pub fn works(host: &Host) -> bool {
    let is_over = match host {
        Participant::Root(root, _) => root.is_over(),
        Participant::Receiver(receiver, _) => receiver.is_over(),
    };
    !is_over
}

pub fn rings_late(host: &impl Machine, due: &mut Option<Instant>, now: Instant) -> bool {
    let next = host.poll_timeout(now).map(|deadline| deadline.at);
    std::mem::replace(due, next).is_some_and(|due| due < now)
}
