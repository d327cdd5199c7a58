//! The receiving end of a stream that a prober sends.

use super::body::{ProbeBody, ReportBody, address};
use crate::membership::codec::BodyReader;
use crate::membership::timers::Wait;
use ethbcast_transport::stream::{Outlet, Stream};
use ethbcast_transport::wire::{Frame, Identity, Kind, Peer, Rank, StreamId};
use ethbcast_transport::{Deadline, Instant, MacAddr, Part, Tuning};
use std::time::Duration;

/// In the number of an order: the frames come to the group. Below it is the receiver's rank.
pub(super) const CAST: u32 = 1 << 16;
/// Whose prober says nothing for so long has been left.
const PATIENCE: Duration = Duration::from_secs(2);
/// Where the application's bytes go, again and again: more than caches keep, as a file does not stay there either.
const APPLICATION_BYTES: usize = 16 << 20;

/// Between whom a receiver is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Neighbours {
    /// Who sends it the stream, if not the prober.
    pub parent: Option<Peer>,
    /// Whom it hands the stream.
    pub child: Option<Peer>,
}

impl Neighbours {
    /// An order's payload: its body, and behind it both, each as rank and address, zeros for nobody.
    pub(super) fn behind(&self, body: &ProbeBody) -> Vec<u8> {
        let nobody = Peer { rank: Rank(0), mac: MacAddr::default() };
        let mut out = body.encode();
        for peer in [self.parent, self.child].map(|peer| peer.unwrap_or(nobody)) {
            out.u16(peer.rank.0).bytes(&peer.mac.octets());
        }
        out.into_bytes()
    }

    /// Reads them behind a body; none that is a group's address.
    pub(super) fn read(from: &mut BodyReader<'_>) -> Option<Neighbours> {
        let mut peer = || Some((Rank(from.u16()?), address(from)));
        let (parent, child) = (peer()?, peer()?);
        let [parent, child] = [parent, child].map(|(rank, mac)| Some(Peer { rank, mac: mac? }));
        let one = [parent, child].into_iter().flatten().all(|peer| !peer.mac.is_multicast());
        one.then_some(Neighbours { parent, child })
    }
}

/// The stream of one test in a prober's session.
pub(super) fn stream_of(test: u32) -> StreamId {
    StreamId(test as u16)
}

/// Takes the stream of one prober by the engine, as a receiver of a session does, and has an application that copies
/// all of it.
#[derive(Clone, Debug)]
pub(super) struct Listener {
    prober: MacAddr,
    session: u32,
    test: u32,
    stream: Box<Stream>,
    first_nanos: u64,
    last_nanos: u64,
    application: Vec<u8>,
    filled: usize,
    heard_at: Instant,
}

impl Listener {
    /// One for the stream that `order` announces, in frames of up to `payload_bytes`.
    pub(super) fn new(
        now: Instant,
        identity: Identity,
        order: &Frame<'_>,
        number: u32,
        payload_bytes: usize,
        neighbours: Neighbours,
    ) -> Listener {
        let (session, test) = (order.header.session, order.header.stamp);
        let identity = Identity { session, stream: stream_of(test), rank: Rank(number as u16), ..identity };
        let parent = neighbours.parent.unwrap_or(Peer { rank: order.header.rank, mac: order.source });
        let children = neighbours.child.into_iter().collect();
        let outlet = if number & CAST == 0 { Outlet::Lanes(children) } else { Outlet::RepairChildren(children) };
        Listener {
            prober: order.source,
            session,
            test,
            stream: Box::new(Stream::receiver(identity, payload_bytes, parent, &outlet, Tuning::default())),
            first_nanos: 0,
            last_nanos: 0,
            application: vec![0; APPLICATION_BYTES.max(payload_bytes)],
            filled: 0,
            heard_at: now,
        }
    }

    /// Whether it listens for this prober, in this session.
    pub(super) fn is_for(&self, prober: MacAddr, session: u32) -> bool {
        (self.prober, self.session) == (prober, session)
    }

    /// Whether what belongs to this session may be for it.
    pub(super) fn hears(&self, session: u32) -> bool {
        self.session == session
    }

    /// Whether this is the test that its stream belongs to.
    pub(super) fn is_of(&self, test: u32) -> bool {
        self.test == test
    }

    /// Takes a frame of the stream.
    pub(super) fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        if frame.header.kind == Kind::DATA {
            self.heard_at = now;
            self.first_nanos = if self.first_nanos == 0 { now.as_nanos() } else { self.first_nanos };
            self.last_nanos = now.as_nanos();
        }
        self.stream.handle_frame(now, frame);
    }

    /// Hands the application what has come, and writes an acknowledgement if one is due.
    pub(super) fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        while let Some(run) = self.stream.peek_run(u64::MAX) {
            let fits = self.filled + run.bytes.len() <= self.application.len();
            let begin = if fits { self.filled } else { 0 };
            self.filled = begin + run.bytes.len();
            self.application[begin..self.filled].copy_from_slice(run.bytes);
            let frames = run.frames;
            self.stream.consume_run(now, frames);
        }
        self.stream.poll_transmit(now, buffer)
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.stream.handle_timeout(now);
    }

    pub(super) fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let end = Wait::Silence.at(self.heard_at + PATIENCE);
        Some(self.stream.poll_timeout(now).map_or(end, |deadline| deadline.min(end)))
    }

    /// Whether its prober has gone.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.heard_at + PATIENCE <= now
    }

    pub(super) fn is_urgent(&self) -> bool {
        self.stream.is_urgent()
    }

    /// One past the last frame that the application has, and what is said of it.
    pub(super) fn counted(&self) -> (u64, ReportBody) {
        let taken = self.stream.position();
        let (first_nanos, last_nanos) = (self.first_nanos, self.last_nanos);
        (taken, ReportBody { arrived: taken, first_nanos, last_nanos, ..ReportBody::default() })
    }
}

/// The payload of a stream's frames, as an order says it.
pub(super) fn payload_bytes(body: &ProbeBody, most: usize) -> usize {
    usize::from(body.payload_bytes).clamp(ProbeBody::BYTES, most)
}
