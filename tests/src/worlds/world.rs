//! Model checking: a few hosts, the links between them, and the events possible in each state.

use super::state::{Input, Local, Locals, MAX_HOSTS, Prints, State};
use ethbcast_transport::{Instant, Machine};
use std::fmt;
use std::fmt::Debug;
use std::str::FromStr;
use std::time::Duration;

const MAX_BEFORE: usize = 10_000;

#[derive(Debug)]
pub struct World<H> {
    count: usize,
    locals: Locals<H>,
    start: State,
}

impl<H: Host> World<H> {
    /// Creates the world of `hosts`, and plays it without faults until one of them [has
    /// begun](Host::has_begun).
    pub fn new(hosts: Vec<H>) -> World<H> {
        assert!(
            hosts.len() <= MAX_HOSTS,
            "a small world has at most {MAX_HOSTS} hosts"
        );
        let (count, mut locals, mut ids) = (hosts.len(), Locals::new(hosts.len()), [0; MAX_HOSTS]);
        let first = Instant::START;
        for (number, host) in hosts.into_iter().enumerate() {
            ids[number] = locals.add(number, host, Some(first));
        }
        let mut world = World {
            count,
            locals,
            start: State::new(first, ids),
        };
        let mut state = world.start.clone();
        for _ in 0..MAX_BEFORE {
            if world.hosts(&state).any(|(_, local)| local.host.has_begun()) {
                world.start = state;
                return world;
            }
            let Some(event) = world.fair(&state) else {
                let fates: Vec<&Fate> = world.hosts(&state).map(|(_, local)| &local.fate).collect();
                panic!("the world ends before it begins: {fates:?}");
            };
            state = world
                .apply(&state, event)
                .unwrap_or_else(|why| panic!("before the beginning: {why}"));
        }
        panic!("the world does not begin");
    }

    pub(super) fn start(&self) -> &State {
        &self.start
    }

    pub(super) fn locals(&self) -> &Locals<H> {
        &self.locals
    }

    fn local(&self, state: &State, host: usize) -> &Local<H> {
        self.locals.get(state.hosts[host])
    }

    pub(super) fn hosts<'a>(
        &'a self,
        state: &'a State,
    ) -> impl Iterator<Item = (usize, &'a Local<H>)> {
        (0..self.count).map(|host| (host, self.local(state, host)))
    }

    fn living<'a>(&'a self, state: &'a State) -> impl Iterator<Item = (usize, &'a Local<H>)> {
        self.hosts(state).filter(|&(host, _)| !state.is_gone(host))
    }

    fn next_timer(&self, state: &State) -> Option<Instant> {
        self.living(state)
            .filter_map(|(_, local)| local.wakes)
            .min()
    }

    pub(super) fn fair(&self, state: &State) -> Option<Event> {
        let first = state
            .ways()
            .next()
            .map(|(from, to)| Event::Deliver(from, to));
        first.or_else(|| self.next_timer(state).map(|_| Event::Time))
    }

    pub(super) fn is_losable(&self, state: &State, from: u8, to: u8) -> bool {
        state
            .first(from, to)
            .is_some_and(|frame| !H::is_notice(self.locals.frame(frame)))
    }

    pub(super) fn has_timer(&self, state: &State) -> bool {
        self.next_timer(state).is_some()
    }

    pub(super) fn mortals(&self, state: &State) -> impl Iterator<Item = u8> {
        (0..self.count)
            .filter(|&host| H::IS_MORTAL(host) && !state.is_gone(host))
            .map(|host| host as u8)
    }

    pub(super) fn can_happen(&self, state: &State, event: Event) -> bool {
        match event {
            Event::Deliver(from, to) => state.first(from, to).is_some(),
            Event::Lose(from, to) | Event::Repeat(from, to) => self.is_losable(state, from, to),
            Event::Time => self.has_timer(state),
            Event::Kill(host) => self.mortals(state).any(|mortal| mortal == host),
        }
    }

    /// Returns the state after `event`, or a violation.
    pub(super) fn apply(&mut self, state: &State, event: Event) -> Result<State, String> {
        let mut next = state.clone();
        match event {
            Event::Deliver(from, to) => self.deliver(&mut next, from, to, false)?,
            Event::Repeat(from, to) => self.deliver(&mut next, from, to, true)?,
            Event::Lose(from, to) => {
                next.take(from, to).expect("a frame is on this way");
            }
            Event::Time => self.pass(&mut next)?,
            Event::Kill(host) => {
                next.deaths += 1;
                self.remove(&mut next, host);
                if let Some(notice) = H::notice(usize::from(host)) {
                    let frame = self.locals.number(notice.into());
                    next.send(host, 0, frame);
                }
            }
        }
        self.check(&next)?;
        Ok(next)
    }

    fn deliver(&mut self, state: &mut State, from: u8, to: u8, again: bool) -> Result<(), String> {
        let frame = state.take(from, to).expect("a frame is on this way");
        self.step(state, to, Input::Frame(frame))?;
        if again {
            state.send(from, to, frame);
        }
        Ok(())
    }

    fn pass(&mut self, state: &mut State) -> Result<(), String> {
        let next = self.next_timer(state).expect("a timer is set");
        state.now = state.now.max(next);
        for host in 0..self.count {
            if !state.is_gone(host)
                && self
                    .local(state, host)
                    .wakes
                    .is_some_and(|at| at <= state.now)
            {
                self.step(state, host as u8, Input::Timeout)?;
            }
        }
        Ok(())
    }

    fn step(&mut self, state: &mut State, host: u8, input: Input) -> Result<(), String> {
        let local = &mut state.hosts[usize::from(host)];
        let step = self
            .locals
            .step(*local, input, state.now)
            .map_err(|why| format!("host {host}: {why}"))?;
        *local = step.to;
        for &(to, frame) in &step.sent {
            state.send(host, to, frame);
        }
        if self.local(state, usize::from(host)).is_over {
            self.remove(state, host);
        }
        Ok(())
    }

    fn remove(&mut self, state: &mut State, host: u8) {
        let left = self.locals.bury(state.hosts[usize::from(host)]);
        state.remove(host, left);
    }

    /// Checks that no host claims that another has every byte unless it has, and that views of one
    /// number are equal.
    fn check(&self, state: &State) -> Result<(), String> {
        let have = self.hosts(state).fold(0, |bits, (host, local)| {
            bits | u8::from(local.has_all) << host
        });
        for (host, local) in self.hosts(state) {
            let wrong = local.claims & !have;
            if wrong != 0 {
                let other = wrong.trailing_zeros();
                return Err(format!(
                    "host {host} says that host {other} has all, and it has not"
                ));
            }
        }
        let views = || self.hosts(state).filter_map(|(_, local)| local.view);
        let differ = |one: (u32, u64)| views().any(|other| other.0 == one.0 && other.1 != one.1);
        views()
            .find(|&one| differ(one))
            .map_or(Ok(()), |one| Err(format!("there are two views {}", one.0)))
    }

    pub(super) fn check_end(&self, state: &State) -> Result<(), String> {
        let open = self
            .living(state)
            .find(|(_, local)| local.fate == Fate::Open);
        open.map_or(Ok(()), |(host, _)| {
            Err(format!("all is quiet, and host {host} waits on for ever"))
        })
    }

    pub(super) fn is_delivered(&self, state: &State) -> bool {
        self.hosts(state).all(|(host, local)| {
            local.fate == Fate::Delivered || local.fate == Fate::Open && state.is_gone(host)
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The first frame in flight from one host to another arrives.
    Deliver(u8, u8),
    /// The first frame in flight from one host to another is lost.
    Lose(u8, u8),
    /// The first frame in flight arrives, and a copy goes to the end of the queue.
    Repeat(u8, u8),
    /// Time advances to the next timer of any host.
    Time,
    Kill(u8),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Deliver(from, to) => write!(f, "{from}>{to}"),
            Event::Lose(from, to) => write!(f, "{from}>{to}-"),
            Event::Repeat(from, to) => write!(f, "{from}>{to}+"),
            Event::Time => write!(f, "t"),
            Event::Kill(host) => write!(f, "k{host}"),
        }
    }
}

impl FromStr for Event {
    type Err = String;

    fn from_str(text: &str) -> Result<Event, String> {
        let unknown = || {
            format!(
                "`{text}` is no event: write 0>1, 0>1- (lost), 0>1+ (repeated), t (time) or k1 (kill)"
            )
        };
        let host = |text: &str| text.parse::<u8>().map_err(|_| unknown());
        if text == "t" {
            return Ok(Event::Time);
        }
        if let Some(dead) = text.strip_prefix('k') {
            return host(dead).map(Event::Kill);
        }
        let (from, to) = text.split_once('>').ok_or_else(unknown)?;
        let (to, make): (_, fn(u8, u8) -> Event) =
            match (to.strip_suffix('-'), to.strip_suffix('+')) {
                (Some(to), _) => (to, Event::Lose),
                (_, Some(to)) => (to, Event::Repeat),
                _ => (to, Event::Deliver),
            };
        Ok(make(host(from)?, host(to)?))
    }
}

pub(super) fn written(events: &[Event]) -> String {
    events
        .iter()
        .map(Event::to_string)
        .collect::<Vec<_>>()
        .join(" ")
}

pub fn parse_events(text: &str) -> Result<Vec<Event>, String> {
    text.split_whitespace().map(str::parse).collect()
}

pub trait Host: Machine + Clone + Debug {
    /// Names, as in `Debug` output, of types that do not distinguish states: counters on which no
    /// decision depends, and configuration.
    const SKIPPED: &'static [&'static str];

    /// Whether a host may die.
    const IS_MORTAL: fn(usize) -> bool = |_| true;

    /// Returns a notice of a death for host 0, sent without loss, where no machine detects deaths
    /// itself.
    fn notice(_dead: usize) -> Option<Vec<u8>> {
        None
    }

    fn is_notice(_frame: &[u8]) -> bool {
        false
    }

    fn turn(&mut self, now: Instant) -> Option<Instant>;

    /// Whether exploring begins here: earlier steps are played once, without faults.
    fn has_begun(&self) -> bool;

    /// Returns the result of this host so far.
    fn fate(&self) -> Fate;

    /// Whether its process has ended: it receives and sends nothing more.
    fn is_over(&self) -> bool {
        self.fate() != Fate::Open
    }

    /// Whether it has every byte that was sent, in order.
    fn has_all(&self) -> bool;

    /// Returns the hosts that, as this one claims, have every byte.
    fn claims(&self) -> Vec<usize>;

    /// Returns the number and the digest of the view by which this host acts, if any.
    fn view(&self) -> Option<(u32, u64)> {
        None
    }

    /// Checks the invariants after a step from `before`.
    fn check(&self, before: &Self) -> Result<(), String>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    Open,
    /// Ended with its bytes, or with the others' completion as far as it knows.
    Delivered,
    /// Ended without them, for this reason.
    Failed(String),
}

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
                world
                    .check_end(&state)
                    .map_err(|what| (what, std::mem::take(&mut events)))?;
                *(if world.is_delivered(&state) {
                    &mut self.delivered
                } else {
                    &mut self.failed
                }) += 1;
                break Duration::ZERO;
            };
            events.push(event);
            if events.len() > MAX_EVENTS {
                return Err((format!("no end after {MAX_EVENTS} fair events"), events));
            }
            state = world
                .apply(&state, event)
                .map_err(|what| (what, events.clone()))?;
        };
        let end = state.now + left;
        for (print, now) in way.into_iter().rev() {
            self.left.insert(print, end.since(now).as_nanos() as u64);
            self.longest = self.longest.max(end.since(now));
        }
        if self.longest > within {
            return Err((
                format!("the end comes after {:?} only", self.longest),
                events,
            ));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_as_they_are_written_and_what_is_none_is_refused() {
        let events = [
            Event::Deliver(0, 1),
            Event::Lose(1, 2),
            Event::Repeat(2, 0),
            Event::Time,
            Event::Kill(2),
        ];
        assert_eq!(parse_events(&written(&events)).as_deref(), Ok(&events[..]));
        for wrong in ["0", "0>", ">1", "k", "kk", "0>1?", "time"] {
            assert!(
                parse_events(wrong).is_err_and(|why| why.contains("write 0>1")),
                "{wrong}"
            );
        }
    }
}
