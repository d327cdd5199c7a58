//! Receiving end of the test stream by which a sender's and a receiver's speed is measured.

use super::body::{ProbeBody, ReportBody, address};
use crate::membership::codec::BodyReader;
use crate::membership::timers::Wait;
use ethbcast_transport::stream::{Outlet, Stream};
use ethbcast_transport::wire::{Frame, Identity, Peer, Rank, StreamId};
use ethbcast_transport::{Deadline, Instant, Kept, MacAddr, Part, SplitFrame, Tuning};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(2);
/// Size of the application's ring of memory: more than caches hold, because a file would not stay
/// there either.
const APPLICATION_BYTES: usize = 16 << 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StreamPlace {
    pub parent: Option<Peer>,
    pub child: Option<Peer>,
    pub listeners: u16,
    pub position: u16,
}

impl StreamPlace {
    /// Returns an order's payload: its body, both neighbours as rank and address (zeros for none), and the cast's
    /// numbers.
    pub(super) fn behind(&self, body: &ProbeBody) -> Vec<u8> {
        let nobody = Peer { rank: Rank(0), mac: MacAddr::default() };
        let mut out = body.encode();
        for peer in [self.parent, self.child].map(|peer| peer.unwrap_or(nobody)) {
            out.u16(peer.rank.0).bytes(&peer.mac.octets());
        }
        out.u16(self.listeners).u16(self.position);
        out.into_bytes()
    }

    /// Reads the neighbours behind an order's body. Returns `None` if one is a group address or the receiver's `own`,
    /// or if parent and child are the same.
    pub(super) fn read(from: &mut BodyReader<'_>, own: MacAddr, prober: MacAddr) -> Option<StreamPlace> {
        let mut peer = || Some((Rank(from.u16()?), address(from)));
        let (parent, child) = (peer()?, peer()?);
        let [parent, child] = [parent, child].map(|(rank, mac)| Some(Peer { rank, mac: mac? }));
        let mut macs = [parent, child].into_iter().flatten().map(|peer| peer.mac);
        let sane = macs.all(|mac| !mac.is_multicast() && mac != own)
            && child.is_none_or(|child| child.mac != parent.map_or(prober, |parent| parent.mac));
        let (listeners, position) = (from.u16()?, from.u16()?);
        sane.then_some(StreamPlace { parent, child, listeners, position })
    }
}

pub(super) fn stream_of(test: u32) -> StreamId {
    StreamId(test as u16)
}

pub(super) fn tuned(listeners: usize, position: usize) -> Tuning {
    let own = Tuning::default();
    if listeners > 0 { own.for_cast(listeners, position) } else { own }
}

/// Receives a prober's stream with the engine, like a receiver of a session, and has an application that copies all of
/// it.
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
    last_received_at: Instant,
}

impl Listener {
    /// Creates a listener for the stream announced by `order`. It reuses an earlier listener's application memory,
    /// whose pages have been touched.
    pub(super) fn new(
        now: Instant,
        identity: &Identity,
        order: &Frame<'_>,
        (body, place): (&ProbeBody, &StreamPlace),
        application: Vec<u8>,
    ) -> Listener {
        let (session, test) = (order.header.session, order.header.stamp);
        let identity =
            Identity { session, stream: stream_of(test), rank: Rank(body.number as u16), ..identity.clone() };
        let parent = place.parent.unwrap_or(Peer { rank: order.header.rank, mac: order.source });
        let children = place.child.into_iter().collect();
        let outlet = if place.listeners == 0 { Outlet::Lanes(children) } else { Outlet::RepairChildren(children) };
        let tuning = tuned(place.listeners.into(), place.position.into());
        let payload_bytes = body.payload_bytes.into();
        Listener {
            prober: order.source,
            session,
            test,
            stream: Box::new(Stream::receiver(identity, payload_bytes, parent, &outlet, tuning)),
            first_nanos: 0,
            last_nanos: 0,
            application: if application.is_empty() { vec![1; APPLICATION_BYTES] } else { application },
            filled: 0,
            last_received_at: now,
        }
    }

    pub(super) fn is_for(&self, prober: MacAddr, session: u32) -> bool {
        (self.prober, self.session) == (prober, session)
    }

    pub(super) fn is_session(&self, session: u32) -> bool {
        self.session == session
    }

    /// Returns how far `test` is ahead of this stream's test, in serial arithmetic; 0 if equal.
    pub(super) fn ahead(&self, test: u32) -> i32 {
        test.wrapping_sub(self.test) as i32
    }

    pub(super) fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        let before = self.stream.stats().data_received;
        self.stream.handle_frame(now, frame);
        if self.stream.stats().data_received > before {
            self.last_received_at = now;
        }
    }

    pub(super) fn poll_transmit_split(&mut self, now: Instant, buffer: &mut [u8]) -> Option<SplitFrame> {
        while let Some(run) = self.stream.peek_run(u64::MAX) {
            let fits = self.filled + run.bytes.len() <= self.application.len();
            let begin = if fits { self.filled } else { 0 };
            self.filled = begin + run.bytes.len();
            self.application[begin..self.filled].copy_from_slice(run.bytes);
            let frames = run.frames;
            self.stream.consume_run(now, frames);
            self.first_nanos = if self.first_nanos == 0 { now.as_nanos() } else { self.first_nanos };
            self.last_nanos = now.as_nanos();
        }
        self.stream.poll_transmit_split(now, buffer)
    }

    pub(super) fn payload(&self, kept: Kept) -> &[u8] {
        self.stream.payload(kept)
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.stream.handle_timeout(now);
    }

    pub(super) fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let end = Wait::Silence.at(self.last_received_at + PATIENCE);
        Some(self.stream.poll_timeout(now).map_or(end, |deadline| deadline.min(end)))
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.last_received_at + PATIENCE <= now
    }

    pub(super) fn is_urgent(&self) -> bool {
        self.stream.is_urgent()
    }

    pub(super) fn into_application(self) -> Vec<u8> {
        self.application
    }

    pub(super) fn counted(&self) -> (u64, ReportBody) {
        let taken = self.stream.position();
        let (first_nanos, last_nanos) = (self.first_nanos, self.last_nanos);
        (taken, ReportBody { arrived: taken, first_nanos, last_nanos, ..ReportBody::default() })
    }
}
