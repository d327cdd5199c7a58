//! One trouble of each class.

mod cables;
mod hosts_down;
mod places;

use std::time::Duration;

use ethbcast_transport::sim::Random;

use super::hosts::Hosts;
use super::pick;
use crate::chaos::Class;
use crate::chaos::scenario::{Deed, Due, Event, Promise, Scenario, Trouble};
use crate::chaos::stage::Terms;

/// Exit codes of a receiver that others or its cable have kept from the file, and that reports it;
/// it may have the file all the same.
const KEPT: &[i32] = &[0, 1, 3];
/// [`KEPT`], and the code of a host whose own interface is off.
const OFF: &[i32] = &[0, 1, 3, 4];

struct Drawing<'a> {
    scenario: &'a Scenario,
    terms: &'a Terms,
    hosts: &'a mut Hosts,
    random: &'a mut Random,
}

pub fn draw(class: Class, scenario: &Scenario, terms: &Terms, hosts: &mut Hosts, random: &mut Random) -> Trouble {
    let mut drawing = Drawing { scenario, terms, hosts, random };
    match class {
        Class::Kill => drawing.kill(),
        Class::Pause => drawing.pause(),
        Class::Root => drawing.root(),
        Class::Link => drawing.link(),
        Class::Drop => drawing.drop(),
        Class::Loss => drawing.loss(),
        Class::Relay => drawing.relay(),
        Class::Disk => drawing.disk(),
        Class::Reboot => drawing.reboot(),
        Class::Operators => drawing.operators(),
        Class::Attack => drawing.attack(),
    }
}

impl Drawing<'_> {
    fn nothing(class: Class, words: String) -> Trouble {
        let (promise, extra) = (Promise::File, Duration::ZERO);
        Trouble { class, words, events: Vec::new(), marred: Vec::new(), keeps_out: false, promise, extra }
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        pick(self.random, of)
    }

    fn seconds(&mut self, least: f64, most: f64) -> Duration {
        Duration::from_secs_f64(least + (most - least) * self.random.unit())
    }

    fn moment(&mut self) -> (&'static str, Due, Duration) {
        let unit = self.random.unit();
        let last = (1.0 - 0.05 / self.scenario.transfer().as_secs_f64()).max(0.5);
        match self.random.below(6) {
            0 => ("joining", Due::Joined, Duration::from_secs_f64(0.03 * unit)),
            1 => ("first frames", Due::Share(0.001 + 0.05 * unit), Duration::ZERO),
            2 | 3 => ("middle", Due::Share(0.1 + 0.8 * unit), Duration::ZERO),
            4 => ("last 50 ms", Due::Share(last + (1.0 - last) * 0.99 * unit), Duration::ZERO),
            _ => ("verifying", Due::Share(1.0), Duration::from_secs_f64(0.04 * unit)),
        }
    }

    fn on_the_way(&mut self) -> Due {
        Due::Share(0.01 + 0.95 * self.random.unit())
    }

    /// Longest delay caused by a host that is gone for good.
    fn gone(&self) -> Duration {
        self.terms.patience + self.terms.stall + Duration::from_secs(4)
    }

    /// Draws a duration that all survive: half of the patience at most, so that a busy machine does
    /// not exceed it.
    fn bearable(&mut self) -> Duration {
        let most = self.terms.patience.as_secs_f64() / 2.0;
        self.seconds(0.1, most.min(2.5))
    }
}

fn event(host: &str, deed: Deed, due: Due, then: Duration) -> Event {
    Event { host: host.to_owned(), deed, due, then }
}
