//! Model checking: the state of all hosts, the frames in flight, and the time.

use super::world::{Fate, Host};
use ethbcast_transport::sim::host_mac;
use ethbcast_transport::{Instant, MacAddr};
use std::collections::HashMap;
use std::fmt;
use std::fmt::{Debug, Write};
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub(super) const MAX_HOSTS: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) now: Instant,
    pub(super) hosts: [LocalId; MAX_HOSTS],
    gone: u8,
    pub(super) deaths: u8,
    /// Frames in flight: sender, receiver, frame; grouped by these two, in order of arrival.
    flight: Vec<(u8, u8, FrameId)>,
}

impl State {
    pub(super) fn new(now: Instant, hosts: [LocalId; MAX_HOSTS]) -> State {
        State {
            now,
            hosts,
            gone: 0,
            deaths: 0,
            flight: Vec::new(),
        }
    }

    pub(super) fn is_gone(&self, host: usize) -> bool {
        self.gone & 1 << host != 0
    }

    pub(super) fn ways(&self) -> impl Iterator<Item = (u8, u8)> + '_ {
        let way = |at: usize| (self.flight[at].0, self.flight[at].1);
        (0..self.flight.len())
            .filter(move |&at| at == 0 || way(at) != way(at - 1))
            .map(way)
    }

    pub(super) fn first(&self, from: u8, to: u8) -> Option<FrameId> {
        self.flight
            .get(self.place(from, to))
            .filter(|one| (one.0, one.1) == (from, to))
            .map(|one| one.2)
    }

    pub(super) fn take(&mut self, from: u8, to: u8) -> Option<FrameId> {
        self.first(from, to)?;
        Some(self.flight.remove(self.place(from, to)).2)
    }

    pub(super) fn send(&mut self, from: u8, to: u8, frame: FrameId) {
        if !self.is_gone(usize::from(to)) {
            let end = self
                .flight
                .partition_point(|one| (one.0, one.1) <= (from, to));
            self.flight.insert(end, (from, to, frame));
        }
    }

    pub(super) fn remove(&mut self, host: u8, left: LocalId) {
        self.gone |= 1 << host;
        self.hosts[usize::from(host)] = left;
        self.flight.retain(|one| one.1 != host);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flight.is_empty()
    }

    fn place(&self, from: u8, to: u8) -> usize {
        self.flight
            .partition_point(|one| (one.0, one.1) < (from, to))
    }

    /// Hashes the state with `also`. Different states collide with a probability of one in 2⁶⁴.
    pub(super) fn print(&self, also: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self, also).hash(&mut hasher);
        hasher.finish()
    }

    pub(super) fn pack(&self, words: &mut Vec<u32>) {
        let now = self.now.as_nanos();
        words.extend([(now >> 32) as u32, now as u32]);
        words.extend(self.hosts);
        words.push(
            u32::from(self.gone) << 24 | u32::from(self.deaths) << 16 | self.flight.len() as u32,
        );
        words.extend(
            self.flight
                .iter()
                .flat_map(|&(from, to, frame)| [u32::from(from) << 8 | u32::from(to), frame]),
        );
    }

    pub(super) fn unpack(words: &mut impl Iterator<Item = u32>) -> Option<State> {
        let mut next = || words.next();
        let now = Instant::from_nanos(u64::from(next()?) << 32 | u64::from(next()?));
        let hosts = [next()?, next()?, next()?, next()?];
        let head = next()?;
        let frame = |_| {
            let (way, frame) = (next()?, next()?);
            Some(((way >> 8) as u8, way as u8, frame))
        };
        let flight = (0..head & 0xFFFF).map(frame).collect::<Option<_>>()?;
        Some(State {
            now,
            hosts,
            gone: (head >> 24) as u8,
            deaths: (head >> 16) as u8,
            flight,
        })
    }
}

pub(super) type LocalId = u32;
pub(super) type FrameId = u32;

/// A host that sends more frames than this in one step counts as looping.
const MAX_FRAMES: usize = 500;
const BUFFER_BYTES: usize = 2048;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Input {
    Frame(FrameId),
    Timeout,
}

#[derive(Clone, Debug)]
pub(super) struct Transition {
    pub(super) to: LocalId,
    pub(super) sent: Box<[(u8, FrameId)]>,
}

#[derive(Clone, Debug)]
pub(super) struct Local<H> {
    number: usize,
    pub(super) host: H,
    pub(super) wakes: Option<Instant>,
    pub(super) fate: Fate,
    pub(super) is_over: bool,
    pub(super) has_all: bool,
    pub(super) view: Option<(u32, u64)>,
    pub(super) claims: u8,
}

#[derive(Debug)]
pub(super) struct Locals<H> {
    addresses: Vec<MacAddr>,
    locals: Vec<Local<H>>,
    by_print: HashMap<Print, LocalId>,
    frames: Vec<Box<[u8]>>,
    by_bytes: HashMap<Box<[u8]>, FrameId>,
    steps: HashMap<(LocalId, Input, Instant), u32>,
    played: Vec<Result<Transition, String>>,
    printer: Printer,
}

impl<H: Host> Locals<H> {
    pub(super) fn new(hosts: usize) -> Locals<H> {
        Locals {
            addresses: (0..hosts).map(host_mac).collect(),
            locals: Vec::new(),
            by_print: HashMap::new(),
            frames: Vec::new(),
            by_bytes: HashMap::new(),
            steps: HashMap::new(),
            played: Vec::new(),
            printer: Printer::default(),
        }
    }

    pub(super) fn get(&self, local: LocalId) -> &Local<H> {
        &self.locals[local as usize]
    }

    pub(super) fn frame(&self, frame: FrameId) -> &[u8] {
        &self.frames[frame as usize]
    }

    pub(super) fn count(&self) -> usize {
        self.locals.len()
    }

    pub(super) fn steps(&self) -> usize {
        self.played.len()
    }

    pub(super) fn add(&mut self, number: usize, host: H, wakes: Option<Instant>) -> LocalId {
        let print = self.printer.take(&host, H::SKIPPED, &(number, wakes));
        let next = self.locals.len() as LocalId;
        let id = *self.by_print.entry(print).or_insert(next);
        if id == next {
            let claims = host
                .claims()
                .into_iter()
                .fold(0, |bits, host| bits | 1 << host);
            let (fate, is_over, has_all, view) =
                (host.fate(), host.is_over(), host.has_all(), host.view());
            self.locals.push(Local {
                number,
                host,
                wakes,
                fate,
                is_over,
                has_all,
                view,
                claims,
            });
        }
        id
    }

    /// Reduces the state of a departed host to its results, because further knowledge of it makes
    /// no difference.
    pub(super) fn bury(&mut self, local: LocalId) -> LocalId {
        let Local {
            fate,
            has_all,
            view,
            claims,
            ..
        } = &self.locals[local as usize];
        let print = self
            .printer
            .take(&("gone", fate, has_all, view, claims), &[], &());
        let next = self.locals.len() as LocalId;
        let id = *self.by_print.entry(print).or_insert(next);
        if id == next {
            let left = Local {
                wakes: None,
                ..self.get(local).clone()
            };
            self.locals.push(left);
        }
        id
    }

    pub(super) fn step(
        &mut self,
        local: LocalId,
        input: Input,
        now: Instant,
    ) -> Result<&Transition, &str> {
        let key = (local, input, now);
        let at = match self.steps.get(&key) {
            Some(&at) => at,
            None => {
                let played = self.play(local, input, now);
                self.played.push(played);
                let at = self.played.len() as u32 - 1;
                self.steps.insert(key, at);
                at
            }
        };
        self.played[at as usize].as_ref().map_err(String::as_str)
    }

    fn play(&mut self, local: LocalId, input: Input, now: Instant) -> Result<Transition, String> {
        let before = &self.locals[local as usize].host;
        let frame = if let Input::Frame(frame) = input {
            Some(&*self.frames[frame as usize])
        } else {
            None
        };
        let played = catch_unwind(AssertUnwindSafe(|| {
            let (host, wakes, sent) = run(before.clone(), frame, now)?;
            let (old, new) = (before.view(), host.view());
            if old != new && new.is_none_or(|new| old.is_some_and(|old| new.0 <= old.0)) {
                return Err(format!("view {new:?} follows view {old:?}"));
            }
            host.check(before)?;
            Ok::<_, String>((host, wakes, sent))
        }));
        let (host, wakes, sent) =
            played.map_err(|panic| format!("panic: {}", words(&*panic)))??;
        let mut numbered = Vec::new();
        for bytes in sent {
            let to = self.addressees(&bytes);
            let frame = self.number(bytes);
            numbered.extend(to.into_iter().map(|to| (to, frame)));
        }
        let to = self.add(self.locals[local as usize].number, host, wakes);
        Ok(Transition {
            to,
            sent: numbered.into_boxed_slice(),
        })
    }

    pub(super) fn number(&mut self, bytes: Box<[u8]>) -> FrameId {
        let next = self.frames.len() as FrameId;
        let frames = &mut self.frames;
        *self.by_bytes.entry(bytes).or_insert_with_key(|bytes| {
            frames.push(bytes.clone());
            next
        })
    }

    fn addressees(&self, frame: &[u8]) -> Vec<u8> {
        let Some((to, from)) = frame
            .split_at_checked(6)
            .and_then(|(to, rest)| Some((to, rest.get(..6)?)))
        else {
            return Vec::new();
        };
        // The lowest bit of the first byte marks a group address.
        let is_for = |mac: &MacAddr| to == mac.octets() || to[0] & 1 == 1 && from != mac.octets();
        (0_u8..)
            .zip(&self.addresses)
            .filter(|(_, mac)| is_for(mac))
            .map(|(host, _)| host)
            .collect()
    }
}

#[expect(clippy::type_complexity, reason = "used in one place")]
fn run<H: Host>(
    mut host: H,
    frame: Option<&[u8]>,
    now: Instant,
) -> Result<(H, Option<Instant>, Vec<Box<[u8]>>), String> {
    match frame {
        Some(frame) => host.handle_frame(now, frame),
        None => host.handle_timeout(now),
    }
    let (mut sent, mut buffer) = (Vec::new(), [0; BUFFER_BYTES]);
    loop {
        let (turn, before) = (host.turn(now), sent.len());
        while let Some(length) = host.poll_transmit(now, &mut buffer) {
            sent.push(buffer[..length].into());
            if sent.len() > MAX_FRAMES {
                return Err(format!("more than {MAX_FRAMES} frames are sent at once"));
            }
        }
        if sent.len() == before {
            let deadline = host.poll_timeout(now).map(|deadline| deadline.at);
            return Ok((host, deadline.into_iter().chain(turn).min(), sent));
        }
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without words").to_owned()
}

/// A state's 128 bits; states of one print count as equal.
pub(super) type Print = u128;

#[derive(Debug, Default)]
pub(super) struct Printer {
    text: String,
}

impl Printer {
    pub(super) fn take(
        &mut self,
        value: &impl Debug,
        skipped: &[&str],
        also: &impl Debug,
    ) -> Print {
        self.text.clear();
        let mut without = Without {
            text: &mut self.text,
            skipped,
            inside: false,
            open: 0,
        };
        write!(without, "{value:?}{also:?}").expect("a string takes all");
        let hash = blake3::hash(self.text.as_bytes());
        let half = hash.as_bytes().first_chunk().expect("a hash has 32 bytes");
        u128::from_le_bytes(*half)
    }
}

/// Writer that omits the fields of some types. A derived `Debug` writes a type's name in one piece,
/// then its braces.
struct Without<'a> {
    text: &'a mut String,
    skipped: &'a [&'a str],
    inside: bool,
    open: usize,
}

impl Write for Without<'_> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        if !self.inside {
            self.inside = self.skipped.contains(&piece);
            return self.text.write_str(piece);
        }
        self.open += piece.matches('{').count();
        let closed = piece.matches('}').count();
        self.open -= closed;
        self.inside = self.open > 0 || closed == 0;
        Ok(())
    }
}

pub(super) type Prints<V> = HashMap<u64, V, BuildHasherDefault<AsIs>>;

#[derive(Debug, Default)]
pub(super) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("a fingerprint is a number");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// Bytes shared by all hosts and equal in all states.
#[derive(Clone)]
pub struct Shared(Arc<[u8]>);

impl Shared {
    pub(super) fn of(bytes: usize) -> Shared {
        Shared((0..bytes).map(|at| (at * 7 + (at >> 8)) as u8).collect())
    }
}

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_keep_their_order_on_a_way_and_a_packed_state_is_the_same() {
        let mut state = State::new(Instant::from_nanos(5 << 40), [7, 8, 9, 0]);
        for (from, to, frame) in [(1, 2, 10), (0, 1, 11), (1, 2, 12), (2, 1, 13)] {
            state.send(from, to, frame);
        }
        assert_eq!(state.ways().collect::<Vec<_>>(), [(0, 1), (1, 2), (2, 1)]);
        let mut words = Vec::new();
        state.pack(&mut words);
        assert_eq!(State::unpack(&mut words.into_iter()).as_ref(), Some(&state));
        assert_eq!(
            (state.take(1, 2), state.first(1, 2), state.take(0, 2)),
            (Some(10), Some(12), None)
        );
        state.remove(1, 5);
        state.send(0, 1, 14);
        assert_eq!(
            (
                state.ways().collect::<Vec<_>>(),
                state.is_gone(1),
                state.hosts
            ),
            (vec![(1, 2)], true, [7, 5, 9, 0])
        );
    }

    #[derive(Debug)]
    struct Counter {
        frames: [(u64, Option<u64>); 2],
    }

    #[derive(Debug)]
    struct Thing {
        counter: Counter,
        position: u64,
    }

    #[test]
    fn counters_make_no_difference_and_all_else_does() {
        let thing = |frames, position| Thing {
            counter: Counter {
                frames: [(frames, Some(frames)); 2],
            },
            position,
        };
        let print = |frames, position, wakes| {
            Printer::default().take(&thing(frames, position), &["Counter"], &wakes)
        };
        let Thing { counter, position } = thing(9, 2);
        assert_eq!((counter.frames, position), ([(9, Some(9)); 2], 2));
        assert_eq!(print(1, 2, 3), print(9, 2, 3));
        assert!(print(1, 2, 3) != print(1, 3, 3) && print(1, 2, 3) != print(1, 2, 4));
        let with = |frames| Printer::default().take(&thing(frames, 2), &[], &3);
        assert_ne!(with(1), with(9));
    }
}
