//! Model checking: explores all sequences of events, breadth first, each state once.

use super::state::{Prints, State};
use super::world::{Ends, Event, Host, World, written};
use ethbcast_transport::wire;
use ethbcast_transport::wire::{Frame, Kind};
use std::fmt;
use std::fmt::Write;
use std::time::Duration;

/// Limits of an exploration. Arrivals, and time while no frame is in flight, are not limited.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Events from the beginning on.
    pub depth: usize,
    /// Frames lost, frames repeated, and timers that fire while frames are in flight, in all.
    pub faults: usize,
    /// Highest number of such timers.
    pub early: usize,
    pub deaths: u32,
    /// Time within which a fair run from any state must end.
    pub ends_within: Duration,
    /// One in this number of states at the last depth is followed to its end; all other states are.
    pub follow_one_in: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Spent {
    faults: u32,
    early: u32,
}

#[derive(Clone, Debug, Default)]
pub struct Explored {
    pub states: usize,
    pub events: usize,
    /// Events from the beginning to the farthest state.
    pub depth: usize,
    /// Whether every state was expanded.
    pub is_complete: bool,
    pub locals: usize,
    pub steps: usize,
    /// States that were followed to an end, including those on the way.
    pub followed: usize,
    /// Ends of fair runs at which all living hosts have the bytes, and ends at which some host has
    /// failed with a reason.
    pub ends: (usize, usize),
    pub longest: Duration,
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explored {
            states,
            events,
            depth,
            locals,
            steps,
            followed,
            ends,
            longest,
            ..
        } = self;
        let to = if self.is_complete {
            "to the end, at"
        } else {
            "to"
        };
        write!(
            f,
            "{states} states {to} depth {depth} by {events} events ({locals} states of hosts, {steps} steps); \
             {followed} states followed to {} ends with all delivered and {} with a reason, in {longest:?} at most",
            ends.0, ends.1
        )
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample {
    pub what: String,
    /// All events from the beginning on.
    pub events: Vec<Event>,
}

impl Counterexample {
    /// Returns the events in the notation of `--replay`.
    pub fn line(&self) -> String {
        written(&self.events)
    }
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} after {} events: {}",
            self.what,
            self.events.len(),
            written(&self.events)
        )
    }
}

pub fn explore<H: Host>(world: &mut World<H>, bounds: Bounds) -> Result<Explored, Counterexample> {
    let start = world.start().clone();
    let mut search = Search {
        world,
        bounds,
        seen: Prints::default(),
        from: Vec::new(),
        ends: Ends::default(),
        next: Vec::new(),
        depth: 0,
        events: 0,
    };
    search.seen.insert(start.print(Spent::default()), ());
    search.keep(&start, Spent::default(), (0, Event::Time));
    while !search.next.is_empty() && search.depth < bounds.depth {
        search.level()?;
    }
    Ok(search.explored())
}

struct Search<'w, H> {
    world: &'w mut World<H>,
    bounds: Bounds,
    seen: Prints<()>,
    from: Vec<(u32, Event)>,
    ends: Ends,
    /// States at this depth, packed, each behind its number and its faults so far.
    next: Vec<u32>,
    depth: usize,
    events: usize,
}

impl<H: Host> Search<'_, H> {
    fn level(&mut self) -> Result<(), Counterexample> {
        self.depth += 1;
        let mut words = std::mem::take(&mut self.next).into_iter();
        while let (Some(number), Some(faults), Some(early)) =
            (words.next(), words.next(), words.next())
        {
            let state = State::unpack(&mut words).expect("what was packed");
            self.follow(&state, number, None)?;
            self.go_on(&state, number, Spent { faults, early })?;
        }
        Ok(())
    }

    /// Notes a state that was reached. A state at the last depth is not expanded, and not kept.
    fn find(
        &mut self,
        state: &State,
        spent: Spent,
        from: (u32, Event),
    ) -> Result<(), Counterexample> {
        let print = state.print(spent);
        if self.seen.insert(print, ()).is_some() {
            return Ok(());
        }
        if self.depth < self.bounds.depth {
            self.keep(state, spent, from);
        } else if print.is_multiple_of(self.bounds.follow_one_in) {
            self.follow(state, from.0, Some(from.1))?;
        }
        Ok(())
    }

    fn keep(&mut self, state: &State, Spent { faults, early }: Spent, from: (u32, Event)) {
        self.next.extend([self.from.len() as u32, faults, early]);
        state.pack(&mut self.next);
        self.from.push(from);
    }

    fn follow(
        &mut self,
        state: &State,
        number: u32,
        event: Option<Event>,
    ) -> Result<(), Counterexample> {
        let ended = self.ends.follow(self.world, state, self.bounds.ends_within);
        ended.map_err(|(what, mut last)| {
            let mut events = self.way_to(number);
            events.extend(event);
            events.append(&mut last);
            Counterexample { what, events }
        })
    }

    fn go_on(&mut self, state: &State, number: u32, spent: Spent) -> Result<(), Counterexample> {
        for event in self.choices(state, spent) {
            let spent = self.spend(state, event, spent);
            self.events += 1;
            match self.world.apply(state, event) {
                Ok(next) => self.find(&next, spent, (number, event))?,
                Err(what) => {
                    let mut events = self.way_to(number);
                    events.push(event);
                    return Err(Counterexample { what, events });
                }
            }
        }
        Ok(())
    }

    /// Returns the faults after an event; none are counted where they are unlimited.
    fn spend(&self, state: &State, event: Event, spent: Spent) -> Spent {
        let early = event == Event::Time && !state.is_empty();
        let is_fault = early || matches!(event, Event::Lose(..) | Event::Repeat(..));
        Spent {
            faults: spent.faults + u32::from(is_fault && self.bounds.faults < usize::MAX),
            early: spent.early + u32::from(early && self.bounds.early < usize::MAX),
        }
    }

    fn choices(&self, state: &State, spent: Spent) -> Vec<Event> {
        let mut choices = Vec::new();
        let may_fail = (spent.faults as usize) < self.bounds.faults;
        let may_be_early = may_fail && (spent.early as usize) < self.bounds.early;
        for (from, to) in state.ways() {
            choices.push(Event::Deliver(from, to));
            if may_fail && self.world.is_losable(state, from, to) {
                choices.extend([Event::Lose(from, to), Event::Repeat(from, to)]);
            }
        }
        if self.world.has_timer(state) && (may_be_early || state.is_empty()) {
            choices.push(Event::Time);
        }
        if u32::from(state.deaths) < self.bounds.deaths {
            choices.extend(self.world.mortals(state).map(Event::Kill));
        }
        choices
    }

    fn way_to(&self, mut number: u32) -> Vec<Event> {
        let mut events = Vec::new();
        while number != 0 {
            let (from, event) = self.from[number as usize];
            events.push(event);
            number = from;
        }
        events.reverse();
        events
    }

    fn explored(self) -> Explored {
        let Search {
            world,
            seen,
            next,
            ends,
            events,
            depth,
            bounds,
            ..
        } = self;
        Explored {
            states: seen.len(),
            events,
            depth,
            is_complete: next.is_empty() && depth < bounds.depth,
            locals: world.locals().count(),
            steps: world.locals().steps(),
            followed: ends.followed(),
            ends: ends.kinds(),
            longest: ends.longest(),
        }
    }
}

/// Replays `events` in `world`, each on a line, and continues without faults to the end or to a
/// violation.
pub fn replay<H: Host>(world: &mut World<H>, events: &[Event]) -> Result<String, String> {
    let (mut state, mut text) = (world.start().clone(), String::new());
    let mut events = events.iter().copied();
    for number in 1.. {
        let (event, is_fair) = match events.next() {
            Some(event) => (event, false),
            None => match world.fair(&state) {
                Some(event) if number < 2_000 => (event, true),
                _ => break,
            },
        };
        if !world.can_happen(&state, event) {
            return Err(format!("event {number}, {event}, cannot happen there"));
        }
        let frame = match event {
            Event::Deliver(from, to) | Event::Lose(from, to) | Event::Repeat(from, to) => state
                .first(from, to)
                .map(|frame| words(world.locals().frame(frame))),
            Event::Time | Event::Kill(_) => None,
        };
        let mark = if is_fair { ' ' } else { '*' };
        let millis = state.now.as_micros() as f64 / 1000.0;
        let line = format!(
            "{mark}{number:4} {millis:10.3} ms  {event:6} {}",
            frame.unwrap_or_default()
        );
        writeln!(text, "{}", line.trim_end()).expect("a string takes all");
        match world.apply(&state, event) {
            Ok(next) => state = next,
            Err(what) => {
                writeln!(text, "{what}").expect("a string takes all");
                break;
            }
        }
    }
    for (host, local) in world.hosts(&state) {
        writeln!(text, "host {host}: {:?}", local.fate).expect("a string takes all");
    }
    Ok(text)
}

fn words(bytes: &[u8]) -> String {
    let Ok(Frame {
        header, payload, ..
    }) = wire::parse(bytes)
    else {
        return format!("{} bytes", bytes.len());
    };
    let name = match header.kind {
        Kind::DATA => "DATA".to_owned(),
        Kind::ACK => "ACK".to_owned(),
        Kind::HEARTBEAT => "HEARTBEAT".to_owned(),
        kind => format!("{kind:?}"),
    };
    format!(
        "{name} {} of view {}, {:?}, stamp {}, {} bytes",
        header.sequence,
        header.epoch,
        header.flags,
        header.stamp,
        payload.len()
    )
}
