//! The states that single hosts can be in, each kept once, and each step from one to another played once.
//!
//! The worlds are many because hosts and frames combine; the hosts' own states are few. So a world holds numbers of
//! states and frames, and most of its steps are looked up.

use super::fingerprint::{Print, Printer};
use super::host::{Fate, Host};
use ethbcast_transport::sim::host_mac;
use ethbcast_transport::{Instant, MacAddr};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The number of a state of a host.
pub(super) type LocalId = u32;
/// The number of a frame, by its bytes.
pub(super) type FrameId = u32;

/// A host that sends more frames than this in one step does not come to an end.
const MOST_FRAMES: usize = 500;
/// No frame is longer, in bytes.
const BUFFER_BYTES: usize = 2048;

/// What a host is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Input {
    Frame(FrameId),
    Timeout,
}

/// What comes of it.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) to: LocalId,
    /// Each frame and the host it goes to.
    pub(super) sent: Box<[(u8, FrameId)]>,
}

/// A state that a host can be in.
#[derive(Clone, Debug)]
pub(super) struct Local<H> {
    /// Which host it is that can be in this state.
    number: usize,
    pub(super) host: H,
    /// When it is to be called.
    pub(super) wakes: Option<Instant>,
    pub(super) fate: Fate,
    pub(super) is_over: bool,
    pub(super) has_all: bool,
    /// The number of its view, and what tells it from others.
    pub(super) view: Option<(u32, u64)>,
    /// The hosts, by bit, of which it says that they have all.
    pub(super) claims: u8,
}

/// All states of single hosts that have been found, and all steps.
#[derive(Debug)]
pub(super) struct Locals<H> {
    addresses: Vec<MacAddr>,
    locals: Vec<Local<H>>,
    by_print: HashMap<Print, LocalId>,
    frames: Vec<Box<[u8]>>,
    by_bytes: HashMap<Box<[u8]>, FrameId>,
    steps: HashMap<(LocalId, Input, Instant), u32>,
    played: Vec<Result<Step, String>>,
    printer: Printer,
}

impl<H: Host> Locals<H> {
    /// Nothing yet of a world of so many hosts.
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

    /// How many states of single hosts there are.
    pub(super) fn count(&self) -> usize {
        self.locals.len()
    }

    /// How many steps have been played.
    pub(super) fn steps(&self) -> usize {
        self.played.len()
    }

    /// A state of host `number`, which is to be called at `wakes`.
    pub(super) fn add(&mut self, number: usize, host: H, wakes: Option<Instant>) -> LocalId {
        let print = self.printer.take(&host, H::SKIPPED, &(number, wakes));
        let next = self.locals.len() as LocalId;
        let id = *self.by_print.entry(print).or_insert(next);
        if id == next {
            let claims = host.claims().into_iter().fold(0, |bits, host| bits | 1 << host);
            let (fate, is_over, has_all, view) = (host.fate(), host.is_over(), host.has_all(), host.view());
            self.locals.push(Local { number, host, wakes, fate, is_over, has_all, view, claims });
        }
        id
    }

    /// What is left of a host that is not there any more: whatever else it knew makes no difference.
    pub(super) fn bury(&mut self, local: LocalId) -> LocalId {
        let Local { fate, has_all, view, claims, .. } = &self.locals[local as usize];
        let print = self.printer.take(&("gone", fate, has_all, view, claims), &[], &());
        let next = self.locals.len() as LocalId;
        let id = *self.by_print.entry(print).or_insert(next);
        if id == next {
            let left = Local { wakes: None, ..self.get(local).clone() };
            self.locals.push(left);
        }
        id
    }

    /// Gives a host some input at `now`; or what went wrong.
    pub(super) fn step(&mut self, local: LocalId, input: Input, now: Instant) -> Result<&Step, &str> {
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

    fn play(&mut self, local: LocalId, input: Input, now: Instant) -> Result<Step, String> {
        let before = &self.locals[local as usize].host;
        let frame = if let Input::Frame(frame) = input { Some(&*self.frames[frame as usize]) } else { None };
        let played = catch_unwind(AssertUnwindSafe(|| {
            let (host, wakes, sent) = run(before.clone(), frame, now)?;
            let (old, new) = (before.view(), host.view());
            if old != new && new.is_none_or(|new| old.is_some_and(|old| new.0 <= old.0)) {
                return Err(format!("view {new:?} follows view {old:?}"));
            }
            host.check(before)?;
            Ok::<_, String>((host, wakes, sent))
        }));
        let (host, wakes, sent) = played.map_err(|panic| format!("panic: {}", words(&*panic)))??;
        let mut numbered = Vec::new();
        for bytes in sent {
            let to = self.addressees(&bytes);
            let frame = self.number(bytes);
            numbered.extend(to.into_iter().map(|to| (to, frame)));
        }
        let to = self.add(self.locals[local as usize].number, host, wakes);
        Ok(Step { to, sent: numbered.into_boxed_slice() })
    }

    /// The number of a frame.
    pub(super) fn number(&mut self, bytes: Box<[u8]>) -> FrameId {
        let next = self.frames.len() as FrameId;
        let frames = &mut self.frames;
        *self.by_bytes.entry(bytes).or_insert_with_key(|bytes| {
            frames.push(bytes.clone());
            next
        })
    }

    /// The hosts that a frame is for: the one that has its address, or all but its sender.
    fn addressees(&self, frame: &[u8]) -> Vec<u8> {
        let Some((to, from)) = frame.split_at_checked(6).and_then(|(to, rest)| Some((to, rest.get(..6)?))) else {
            return Vec::new();
        };
        // The lowest bit of the first byte says that it is for a group.
        let is_for = |mac: &MacAddr| to == mac.octets() || to[0] & 1 == 1 && from != mac.octets();
        (0_u8..).zip(&self.addresses).filter(|(_, mac)| is_for(mac)).map(|(host, _)| host).collect()
    }
}

/// Gives `host` a frame, or lets time pass, and lets it say all it has to say.
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
            if sent.len() > MOST_FRAMES {
                return Err(format!("more than {MOST_FRAMES} frames are sent at once"));
            }
        }
        if sent.len() == before {
            let deadline = host.poll_timeout(now).map(|deadline| deadline.at);
            return Ok((host, deadline.into_iter().chain(turn).min(), sent));
        }
    }
}

/// What a panic says.
fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without words").to_owned()
}
