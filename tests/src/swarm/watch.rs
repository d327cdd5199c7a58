//! What is looked at after every turn of a host, and at the end.

use super::application::{Disk, Origin, Shelf};
use super::report::Report;
use super::schedule::Schedule;
use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::{Blocks, End, Outcome, Root, RootEvent, View};
use ethbcast_transport::{Instant, MacAddr};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A host of a session.
pub type Host = Participant<Origin, Disk>;

/// See the module's description.
#[derive(Debug)]
pub struct Watch {
    shelves: Vec<Rc<Shelf>>,
    macs: Vec<MacAddr>,
    /// By host: the number of its last view.
    epochs: Vec<u32>,
    /// By the root's address and the view's number: its digest.
    views: BTreeMap<(MacAddr, u32), [u8; 32]>,
    report: Report,
    /// What happens, for whoever plays one schedule to see it.
    story: Option<Vec<String>>,
}

impl Watch {
    /// Of hosts with these shelves and addresses.
    pub fn new(schedule: &Schedule, shelves: Vec<Rc<Shelf>>, macs: Vec<MacAddr>) -> Watch {
        let epochs = vec![0; macs.len()];
        Watch { shelves, macs, epochs, views: BTreeMap::new(), report: Report::new(schedule.seed), story: None }
    }

    /// Writes down what happens.
    pub fn listen(&mut self) {
        self.story = Some(Vec::new());
    }

    /// What has happened.
    pub fn take_story(&mut self) -> Vec<String> {
        self.story.take().unwrap_or_default()
    }

    fn tell(&mut self, now: Instant, number: usize, what: &dyn std::fmt::Debug) {
        if let Some(story) = &mut self.story {
            story.push(format!("{:10.6} n{number} {what:?}", now.as_secs_f64()));
        }
    }

    /// Lets the application of a host have its turn, and looks at what has become of it.
    pub fn turn(&mut self, number: usize, host: &mut Host, now: Instant) -> Option<Instant> {
        match host {
            Participant::Root(root, sending) => {
                while let Some(event) = root.poll_event() {
                    self.tell(now, number, &event);
                    self.on_event(&event, root.view());
                    sending.handle_event(root, now, &event);
                }
            }
            Participant::Receiver(receiver, receiving) => {
                receiving.sink_mut().tick(now);
                while let Some(event) = receiver.poll_event() {
                    self.tell(now, number, &event);
                    receiving.handle_event(now, event);
                }
            }
        }
        let again = host.turn(now);
        if let Err(why) = host.streams().map_or(Ok(()), Blocks::audit) {
            self.report.blame(format!("host {number}: {why}"));
        }
        let view = match host {
            Participant::Root(root, _) => root.view(),
            Participant::Receiver(receiver, _) => receiver.view(),
        };
        if let Some(view) = view.filter(|view| view.epoch != self.epochs[number]) {
            self.on_view(number, view);
            let standings: Vec<_> = view.members.iter().map(|member| member.standing as u8).collect();
            self.tell(now, number, &format!("view {} {standings:?}", view.epoch));
        }
        again
    }

    /// What the root's user hears must be true already.
    fn on_event(&mut self, event: &RootEvent, view: Option<&View>) {
        let RootEvent::Reported(report) = event else { return };
        self.report.mark(format!("outcome: {:?}", report.outcome));
        if report.outcome != Outcome::Delivered {
            return;
        }
        let mac = view.and_then(|view| view.members.get(report.rank.index())).map(|member| member.mac);
        let host = self.macs.iter().position(|known| Some(*known) == mac);
        let sound = host.is_some_and(|host| self.shelves[host].durable.get() && self.shelves[host].visible.get());
        if !sound {
            self.report.blame(format!("the root counts {} as delivered, and it is not", report.host));
        }
    }

    fn on_view(&mut self, number: usize, view: &View) {
        let before = std::mem::replace(&mut self.epochs[number], view.epoch);
        if view.epoch < before {
            self.report.blame(format!("host {number}: view {} follows view {before}", view.epoch));
        }
        // The root's own may have changed since it was told.
        if self.macs.get(number) == Some(&view.members[0].mac) {
            return;
        }
        let digest = view.digest();
        let known = *self.views.entry((view.members[0].mac, view.epoch)).or_insert(digest);
        if known != digest {
            self.report.blame(format!("host {number}: there are two views {}", view.epoch));
        }
    }

    /// Looks at all hosts when nothing is left to do.
    pub fn finish(mut self, schedule: &Schedule, hosts: &[Host], dead: &[bool]) -> Report {
        for (number, shelf) in self.shelves.iter().enumerate() {
            if let Some(wrong) = shelf.wrong.borrow_mut().take() {
                self.report.blame(format!("host {number}: {wrong}"));
            }
            if shelf.visible.get() && !shelf.durable.get() {
                self.report.blame(format!("host {number}: what is visible is not durable"));
            }
        }
        for (number, host) in hosts.iter().enumerate().filter(|(number, _)| !dead[*number]) {
            match host {
                Participant::Root(root, _) => self.finish_root(root),
                Participant::Receiver(_, receiving) => self.finish_receiver(schedule, number, receiving.end()),
            }
        }
        self.report
    }

    fn finish_root(&mut self, root: &Root) {
        if !root.is_over() {
            self.report.blame("the root is not over");
        }
        let members = root.view().map_or(0, |view| view.members.len() - 1);
        let known = root.reports().count();
        match root.failure() {
            Some(failure) => self.report.mark(format!("root failed: {}", first_word(failure))),
            None if known < members => {
                self.report.blame(format!("the root knows the fates of {known} of {members} members"));
            }
            None => {}
        }
    }

    fn finish_receiver(&mut self, schedule: &Schedule, number: usize, end: Option<&End>) {
        let shelf = &self.shelves[number];
        let delivered = shelf.visible.get();
        match end {
            None => self.report.blame(format!("host {number} has not ended")),
            Some(end) => self.report.mark(format!("end: {}", first_word(end))),
        }
        if matches!(end, Some(End::Confirmed)) && !delivered && !shelf.failed.get() {
            self.report.blame(format!("host {number} ends as confirmed, and has nothing"));
        }
        if schedule.demands(number) && !delivered {
            self.report.blame(format!("host {number} is of the core, and ends as {end:?} without the bytes"));
        }
    }

    /// The report so far.
    pub fn report_mut(&mut self) -> &mut Report {
        &mut self.report
    }
}

fn first_word(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default().to_owned()
}
