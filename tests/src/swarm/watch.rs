//! Random simulation: checks of the protocol's guarantees after every step of a host.

use super::application::Shelf;
use super::class::Class;
use super::effects::rings_late;
use super::hosts::{Host, told_topology};
use super::play::{InFlight, check_contention, check_control, check_memory};
use super::report::Report;
use super::schedule::Schedule;
use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::{Blocks, End, Outcome, Root, RootEvent, View, ViewMember};
use ethbcast_planning::plan::Via;
use ethbcast_planning::topology::Topology;
use ethbcast_transport::sim::{Stats, host_mac};
use ethbcast_transport::{Instant, MacAddr};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::rc::Rc;
use std::time::Duration;

/// Longest time that a host may send data to a dead one beyond the dead limit: a sender's longest
/// timeout, and the way of a view.
const MOURNING: Duration = Duration::from_millis(1000);
const SPARE_TURNS: u64 = 2000;

/// Maximum number of hosts with a check after every turn.
const MAX_HOSTS_CHECKED_ALWAYS: usize = 16;

#[derive(Debug)]
pub struct Watch<'a> {
    schedule: &'a Schedule,
    epochs: Vec<u32>,
    turns: Vec<u64>,
    /// Digest of each view, by the root's address and the view's number.
    views: BTreeMap<(MacAddr, u32), [u8; 32]>,
    counted: Vec<(usize, MacAddr)>,
    dying: Option<usize>,
    topology: Option<Topology>,
    in_flight: Vec<Vec<InFlight>>,
    most_readers: Vec<Vec<usize>>,
    /// Each host's next timeout, where timers fire late.
    due: Vec<Option<Instant>>,
    late_timers: u64,
    excused: bool,
    report: Report,
    story: Option<Vec<String>>,
}

impl<'a> Watch<'a> {
    pub fn new(schedule: &'a Schedule, told: bool) -> Watch<'a> {
        Watch {
            schedule,
            epochs: vec![0; schedule.hosts()],
            turns: vec![0; schedule.hosts()],
            views: BTreeMap::new(),
            counted: Vec::new(),
            dying: None,
            topology: told_topology(schedule),
            in_flight: vec![Vec::new(); schedule.hosts()],
            most_readers: vec![Vec::new(); schedule.hosts()],
            due: vec![None; schedule.hosts()],
            late_timers: 0,
            excused: false,
            report: Report::new(schedule.seed),
            story: told.then(Vec::new),
        }
    }

    pub fn take_story(&mut self) -> Vec<String> {
        self.story.take().unwrap_or_default()
    }

    pub fn blame(&mut self, what: impl Into<String>) {
        self.report.blame(what);
    }

    pub fn take_dying(&mut self) -> Option<usize> {
        self.dying.take()
    }

    pub fn late_timers(&self) -> u64 {
        self.late_timers
    }

    /// Excuses all hosts: the trailer arrived damaged, so none need have the bytes.
    pub fn excuse_all(&mut self) {
        self.excused = true;
    }

    pub fn forget(&mut self, host: usize) {
        self.epochs[host] = 0;
        self.in_flight[host].clear();
        self.most_readers[host].clear();
    }

    fn notify(&mut self, now: Instant, number: usize, what: &dyn Debug) {
        if let Some(story) = &mut self.story {
            let when = now.since(self.schedule.begins).as_secs_f64();
            story.push(format!("{when:10.6} n{number} {what:?}"));
        }
    }

    pub fn turn(&mut self, number: usize, host: &mut Host, now: Instant) -> Option<Instant> {
        self.turns[number] += 1;
        if !self.schedule.cluster.hosts[number].2.timer_slack.is_zero() {
            self.late_timers += u64::from(rings_late(host, &mut self.due[number], now));
        }
        match host {
            Participant::Root(root, sending) => {
                while let Some(event) = root.poll_event() {
                    self.notify(now, number, &event);
                    self.on_event(number, &event, root.view());
                    sending.handle_event(root, now, &event);
                }
                if self.turns[number].is_multiple_of(16) {
                    root.states().for_each(|(_, status)| {
                        self.report.mark(format!("state: {:?}", status.state))
                    });
                }
            }
            Participant::Receiver(receiver, receiving) => {
                receiving.sink_mut().disk_mut().tick(now);
                if let Some(view) = receiver
                    .view()
                    .filter(|view| view.epoch != self.epochs[number])
                {
                    let root = (0..self.schedule.hosts())
                        .find(|&host| host_mac(host) == view.members[0].mac);
                    root.into_iter()
                        .for_each(|root| receiving.sink().disk().set_root(root));
                }
                while let Some(event) = receiver.poll_event() {
                    self.notify(now, number, &event);
                    receiving.handle_event(now, event);
                }
            }
        }
        let again = host.turn(now);
        if host
            .receiving()
            .is_some_and(|receiving| receiving.sink().disk().is_dying())
        {
            self.dying = Some(number);
        }
        if let Err(why) = host.streams().map_or(Ok(()), Blocks::audit) {
            self.blame(format!("host {number}: {why}"));
        }
        self.check_bounds(number, host);
        let view = match host {
            Participant::Root(root, _) => root.view(),
            Participant::Receiver(receiver, _) => receiver.view(),
        };
        if let Some(view) = view.filter(|view| view.epoch != self.epochs[number]) {
            self.on_view(number, view);
            let standings: Vec<_> = view
                .members
                .iter()
                .map(|member| member.standing as u8)
                .collect();
            self.notify(now, number, &format!("view {} {standings:?}", view.epoch));
        }
        again
    }

    /// Checks frames in flight and memory; large groups less often than every turn.
    fn check_bounds(&mut self, number: usize, host: &Host) {
        if let Err(wrong) = check_control(&host.control_memory(), self.schedule.hosts()) {
            self.blame(format!("host {number}: {wrong}"));
        }
        let Some(blocks) = host.streams() else { return };
        if self.schedule.hosts() > MAX_HOSTS_CHECKED_ALWAYS && self.turns[number] % 8 > 1 {
            return;
        }
        let now = InFlight::of(blocks);
        let before = std::mem::replace(&mut self.in_flight[number], now);
        let mut wrong = self.in_flight[number]
            .iter()
            .zip(&before)
            .filter_map(|(now, before)| now.check(before).err());
        let wrong = wrong
            .next()
            .or_else(|| check_memory(blocks, &mut self.most_readers[number]).err());
        wrong
            .into_iter()
            .for_each(|wrong| self.blame(format!("host {number}: {wrong}")));
    }

    fn on_event(&mut self, number: usize, event: &RootEvent, view: Option<&View>) {
        if let RootEvent::Started {
            selective: true, ..
        } = event
        {
            self.report.mark("selective");
        }
        let RootEvent::Reported(report) = event else {
            return;
        };
        self.report.mark(format!("outcome: {:?}", report.outcome));
        if report.outcome != Outcome::Delivered && report.text.is_empty() {
            self.blame(format!(
                "{} is {:?} for no reason",
                report.host, report.outcome
            ));
        }
        let mac = view
            .and_then(|view| view.members.get(report.rank.index()))
            .map(|member| member.mac);
        if let Some(mac) = mac.filter(|_| report.outcome == Outcome::Delivered) {
            self.counted.push((number, mac));
        }
    }

    fn on_view(&mut self, number: usize, view: &View) {
        let before = std::mem::replace(&mut self.epochs[number], view.epoch);
        if let Some(topology) = self.topology.as_ref().filter(|_| number == 0) {
            let host_of = |rank: usize| {
                topology
                    .host_named(&view.members[rank].host)
                    .unwrap_or(usize::MAX)
            };
            let contends = check_contention(view, topology, host_of).err();
            contends
                .into_iter()
                .for_each(|wrong| self.report.blame(wrong));
        }
        let (is_root, forged) = (
            view.members[0].mac == host_mac(number),
            self.schedule.is_forged(),
        );
        if view.epoch < before && !forged && !self.schedule.has(Class::RootDeath) {
            self.blame(format!(
                "host {number}: view {} follows view {before}",
                view.epoch
            ));
        }
        // The root's own view may have changed since it was sent; and another run of the root
        // begins anew.
        if is_root || forged || self.schedule.has(Class::RootDeath) {
            return;
        }
        let digest = view.digest();
        let known = *self
            .views
            .entry((view.members[0].mac, view.epoch))
            .or_insert(digest);
        if known != digest {
            self.blame(format!("host {number}: there are two views {}", view.epoch));
        }
    }

    /// Checks how long data was sent to a dead host. With `alone` only the root is left.
    pub fn check_mourning(&mut self, lasts: Duration, alone: bool) {
        // Replayed frames of a dead host count as signs of life. A root that receives nothing
        // assumes its own failure and counts no host as dead until its patience ends.
        let plain = [
            Class::Crash,
            Class::Loss,
            Class::BitFlip,
            Class::DiskError,
            Class::OwnTuning,
            Class::Wrap,
        ];
        let plain = self
            .schedule
            .classes
            .iter()
            .all(|class| plain.contains(class));
        let patience = if alone {
            self.schedule.timing.patience
        } else {
            Duration::ZERO
        };
        if plain && lasts > self.schedule.timing.dead + patience + MOURNING {
            self.blame(format!(
                "data is sent to a host that has been dead for {lasts:?}"
            ));
        }
    }

    pub fn finish(
        mut self,
        shelves: &[Vec<Rc<Shelf>>],
        hosts: &[Host],
        dead: &[bool],
        stats: &Stats,
    ) -> Report {
        for (number, shelf) in shelves
            .iter()
            .enumerate()
            .flat_map(|(at, runs)| runs.iter().map(move |run| (at, run)))
        {
            if let Some(wrong) = shelf.wrong.borrow_mut().take() {
                self.blame(format!("host {number}: {wrong}"));
            }
            if shelf.visible.get() && !shelf.durable.get() {
                self.blame(format!("host {number}: what is visible is not durable"));
            }
        }
        self.check_counted(shelves);
        self.check_credit(hosts);
        let millis = hosts.len() as u64 * 100
            + self
                .schedule
                .bound()
                .since(self.schedule.begins)
                .as_millis() as u64;
        for (number, host) in hosts.iter().enumerate() {
            let frames = stats.hosts[number].sent_frames + stats.hosts[number].received_frames;
            if self.turns[number] > 4 * frames + millis + SPARE_TURNS {
                let turns = self.turns[number];
                self.blame(format!(
                    "host {number} had {turns} turns for {frames} frames: a loop without delay"
                ));
            }
            match host {
                _ if dead[number] => {}
                Participant::Root(root, _) => self.finish_root(root),
                Participant::Receiver(_, receiving) => {
                    let verdict = receiving.verdict().map(|verdict| verdict.outcome);
                    self.finish_receiver(number, &shelves[number], (receiving.end(), verdict));
                    for _ in 0..receiving.sink().damages() {
                        self.report.mark("damage: found");
                    }
                    if receiving.sink().own_bytes() > 0
                        && shelves[number].iter().any(|shelf| shelf.visible.get())
                    {
                        self.report.mark("holdings: used");
                    }
                    if receiving.sink().damages() > 0
                        && shelves[number].iter().any(|shelf| shelf.visible.get())
                    {
                        self.report.mark("damage: mended");
                    }
                }
            }
        }
        self.report
    }

    /// Checks that a cast keeps to the smallest credit of the members in place. Unicast senders are
    /// checked on the wire; a trial is exempt.
    fn check_credit(&mut self, hosts: &[Host]) {
        let Some(Participant::Root(root, _)) = hosts.first() else {
            return;
        };
        let others = [
            Class::OwnTuning,
            Class::TwoRoots,
            Class::Restart,
            Class::RootDeath,
        ];
        if self.schedule.is_forged() || others.into_iter().any(|class| self.schedule.has(class)) {
            return;
        }
        let cast = root.view().filter(|view| view.via == Via::Cast);
        let members = cast.map(|view| &view.members[..]).unwrap_or_default();
        for (number, host) in hosts.iter().enumerate().skip(1) {
            let own = members.iter().find(|member| member.mac == host_mac(number));
            let beyond = host.stream_stats().beyond_credit;
            if beyond > 0 && own.is_some_and(ViewMember::is_in_place) {
                self.blame(format!(
                    "host {number} was sent {beyond} frames beyond its credit"
                ));
            }
        }
    }

    fn check_counted(&mut self, shelves: &[Vec<Rc<Shelf>>]) {
        for (root, mac) in std::mem::take(&mut self.counted) {
            let of = |host: &usize| host_mac(*host) == mac;
            let is_there =
                |run: &Rc<Shelf>| run.visible.get() && run.durable.get() && run.root.get() == root;
            let found = (0..shelves.len())
                .find(of)
                .is_some_and(|host| shelves[host].iter().any(is_there));
            if !found && !self.schedule.is_forged() {
                self.blame(format!(
                    "root {root} counts {mac} as delivered, and it is not"
                ));
            }
        }
    }

    fn finish_root(&mut self, root: &Root) {
        if !root.is_over() {
            self.blame("the root is not over");
        }
        for away in root.turned_away() {
            self.report.mark(format!("refused: {:?}", away.why));
        }
        if root.rerouted().is_some() {
            self.report.mark("rerouted");
        }
        let members = root.view().map_or(0, |view| view.members.len() - 1);
        let known = root.reports().count();
        let interrupted = self.schedule.has(Class::Interrupt);
        match root.failure() {
            Some(failure) => self
                .report
                .mark(format!("root failed: {}", first_word(failure))),
            None if known < members && !interrupted => {
                self.blame(format!(
                    "the root knows the fates of {known} of {members} members"
                ));
            }
            None => {}
        }
    }

    fn finish_receiver(
        &mut self,
        number: usize,
        shelves: &[Rc<Shelf>],
        (end, verdict): (Option<&End>, Option<Outcome>),
    ) {
        let delivered = shelves.iter().any(|shelf| shelf.visible.get());
        let failed = shelves.iter().any(|shelf| shelf.failed.get());
        match end {
            None => self.blame(format!("host {number} has not ended")),
            Some(end) => self.report.mark(format!("end: {}", first_word(end))),
        }
        // A member may be unable to get data that it alone lacks; its report of that is confirmed
        // as any other.
        let lacks = self.schedule.selects && verdict == Some(Outcome::Damaged);
        let excused =
            failed || lacks || self.schedule.is_forged() || self.schedule.has(Class::Interrupt);
        if matches!(end, Some(End::Confirmed)) && !delivered && !excused {
            self.blame(format!("host {number} ends as confirmed, and has nothing"));
        }
        if self.schedule.demands(number) && !self.excused && !delivered {
            self.blame(format!(
                "host {number} is of the core, and ends as {end:?} without the bytes"
            ));
        }
    }
}

fn first_word(value: &impl Debug) -> String {
    format!("{value:?}")
        .split(|letter: char| !letter.is_alphanumeric())
        .next()
        .unwrap_or_default()
        .to_owned()
}
