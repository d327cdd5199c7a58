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

/// Codes of a receiver that was kept from the file by others or by its cable, and says so; it may have got it all the
/// same.
const KEPT: &[i32] = &[0, 1, 3];
/// The same where its own interface is off.
const OFF: &[i32] = &[0, 1, 3, 4];

/// Everything a trouble is drawn from.
struct Drawing<'a> {
    scenario: &'a Scenario,
    terms: &'a Terms,
    hosts: &'a mut Hosts,
    random: &'a mut Random,
}

/// Draws a trouble of a class, for hosts that have none yet.
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
    /// A trouble in which nothing happens and nobody is harmed.
    fn nothing(class: Class, words: String) -> Trouble {
        let (promise, extra) = (Promise::File, Duration::ZERO);
        Trouble { class, words, events: Vec::new(), marred: Vec::new(), keeps_out: false, promise, extra }
    }

    /// One of these, each as likely.
    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        pick(self.random, of)
    }

    /// Between these.
    fn seconds(&mut self, least: f64, most: f64) -> Duration {
        Duration::from_secs_f64(least + (most - least) * self.random.unit())
    }

    /// Any moment from the joining of `host` to the verdict, with a word for it.
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

    /// The same, while bytes flow.
    fn on_the_way(&mut self) -> Due {
        Due::Share(0.01 + 0.95 * self.random.unit())
    }

    /// How long it costs at most that a host is gone for good.
    fn gone(&self) -> Duration {
        self.terms.patience + self.terms.stall + Duration::from_secs(4)
    }

    /// How long a thing lasts that all survive: less than patience, so that a busy machine does not make it more.
    fn bearable(&mut self) -> Duration {
        let most = self.terms.patience.as_secs_f64() / 2.0;
        self.seconds(0.1, most.min(2.5))
    }
}

fn event(host: &str, deed: Deed, due: Due, then: Duration) -> Event {
    Event { host: host.to_owned(), deed, due, then }
}
