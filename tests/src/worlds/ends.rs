//! Fair runs: the way to the end of a world without further faults. Every frame arrives and time
//! passes until all is quiescent.

use super::event::Event;
use super::host::Host;
use super::prints::Prints;
use super::state::State;
use super::world::World;
use std::time::Duration;

const MAX_EVENTS: usize = 20_000;

/// Results of fair runs. Each state has one fair run, so a result holds for all states on the way.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// Time from each state to the end, in ns.
    left: Prints<u64>,
    delivered: usize,
    failed: usize,
    longest: Duration,
}

impl Ends {
    pub(super) fn follow<H: Host>(
        &mut self,
        world: &mut World<H>,
        state: &State,
        within: Duration,
    ) -> Result<(), (String, Vec<Event>)> {
        let (mut state, mut way, mut events) = (state.clone(), Vec::new(), Vec::new());
        let left = loop {
            let print = state.print(());
            if let Some(&left) = self.left.get(&print) {
                break Duration::from_nanos(left);
            }
            way.push((print, state.now));
            let Some(event) = world.fair(&state) else {
                world.check_end(&state).map_err(|what| (what, std::mem::take(&mut events)))?;
                *(if world.is_delivered(&state) { &mut self.delivered } else { &mut self.failed }) += 1;
                break Duration::ZERO;
            };
            events.push(event);
            if events.len() > MAX_EVENTS {
                return Err((format!("no end after {MAX_EVENTS} fair events"), events));
            }
            state = world.apply(&state, event).map_err(|what| (what, events.clone()))?;
        };
        let end = state.now + left;
        for (print, now) in way.into_iter().rev() {
            self.left.insert(print, end.since(now).as_nanos() as u64);
            self.longest = self.longest.max(end.since(now));
        }
        if self.longest > within {
            return Err((format!("the end comes after {:?} only", self.longest), events));
        }
        Ok(())
    }

    pub(super) fn followed(&self) -> usize {
        self.left.len()
    }

    pub(super) fn kinds(&self) -> (usize, usize) {
        (self.delivered, self.failed)
    }

    pub(super) fn longest(&self) -> Duration {
        self.longest
    }
}
