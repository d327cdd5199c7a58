//! The states of single hosts, each kept once, and each step between them, played once.
//!
//! Worlds have many states because hosts and frames combine; single hosts have few. A world holds
//! numbers of states and frames, and most steps are looked up.

use super::fingerprint::{Print, Printer};
use super::host::{Fate, Host};
use ethbcast_transport::sim::host_mac;
use ethbcast_transport::{Instant, MacAddr};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

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
pub(super) struct Step {
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
    played: Vec<Result<Step, String>>,
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
            let claims = host.claims().into_iter().fold(0, |bits, host| bits | 1 << host);
            let (fate, is_over, has_all, view) = (host.fate(), host.is_over(), host.has_all(), host.view());
            self.locals.push(Local { number, host, wakes, fate, is_over, has_all, view, claims });
        }
        id
    }

    /// Reduces the state of a departed host to its results: other knowledge of it makes no
    /// difference.
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

    pub(super) fn number(&mut self, bytes: Box<[u8]>) -> FrameId {
        let next = self.frames.len() as FrameId;
        let frames = &mut self.frames;
        *self.by_bytes.entry(bytes).or_insert_with_key(|bytes| {
            frames.push(bytes.clone());
            next
        })
    }

    fn addressees(&self, frame: &[u8]) -> Vec<u8> {
        let Some((to, from)) = frame.split_at_checked(6).and_then(|(to, rest)| Some((to, rest.get(..6)?))) else {
            return Vec::new();
        };
        // The lowest bit of the first byte marks a group address.
        let is_for = |mac: &MacAddr| to == mac.octets() || to[0] & 1 == 1 && from != mac.octets();
        (0_u8..).zip(&self.addresses).filter(|(_, mac)| is_for(mac)).map(|(host, _)| host).collect()
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
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without words").to_owned()
}
