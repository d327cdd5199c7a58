//! Example of a user's own network link for the protocol: two threads joined by a pair of channels,
//! and a transfer of bytes between them.
//!
//! The link has everything that a link over UDP or AF_XDP needs: batches, a queue that can be full,
//! and a waiter.

use ethbcast_transport::link::{Blocked, Interest, Link, Waiter};
use ethbcast_transport::stream::{Ending, Outlet, Stream};
use ethbcast_transport::wire::{EtherType, Guard, Identity, MacAddr, Peer, Rank, StreamId};
use ethbcast_transport::{Alone, Instant, TimeSource, Tuning, drive};
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

const FRAME_BYTES: usize = 14 + 1500;
const BATCH_FRAMES: usize = 64;

/// One end of the cable.
pub struct ChannelLink {
    incoming: Receiver<Vec<u8>>,
    outgoing: SyncSender<Vec<u8>>,
    /// Frame for which the channel had no room.
    left_over: Option<Vec<u8>>,
    blocked: Option<Blocked>,
    own: Arc<Bell>,
    other: Arc<Bell>,
}

/// State of a waiter, which the other end sets.
#[derive(Default)]
struct Bell {
    state: Mutex<Rung>,
    rung: Condvar,
}

#[derive(Clone, Copy, Default)]
struct Rung {
    arrival: bool,
    room: bool,
}

/// Waiter for one end.
pub struct ChannelWaiter {
    bell: Arc<Bell>,
    woken: AtomicBool,
}

/// Creates both ends of a new cable that holds up to `frames` in each direction.
pub fn cable(frames: usize) -> [ChannelLink; 2] {
    let (to_b, from_a) = sync_channel(frames);
    let (to_a, from_b) = sync_channel(frames);
    let [a, b] = [(); 2].map(|()| Arc::new(Bell::default()));
    let end = |incoming, outgoing, own: &Arc<Bell>, other: &Arc<Bell>| {
        let (own, other) = (Arc::clone(own), Arc::clone(other));
        ChannelLink {
            incoming,
            outgoing,
            left_over: None,
            blocked: None,
            own,
            other,
        }
    };
    [end(from_b, to_b, &a, &b), end(from_a, to_a, &b, &a)]
}

impl ChannelLink {
    /// Returns a waiter for this end.
    pub fn waiter(&self) -> ChannelWaiter {
        ChannelWaiter {
            bell: Arc::clone(&self.own),
            woken: AtomicBool::new(false),
        }
    }
}

impl Link for ChannelLink {
    type Error = Infallible;
    type Waiter = ChannelWaiter;

    fn name(&self) -> &str {
        "channel"
    }

    fn receive(&mut self, mut take: impl FnMut(&[u8])) -> usize {
        // First the flag, then the channel: a frame that arrives in between is found, or wakes the
        // waiter again.
        self.own.lock().arrival = false;
        let count = self
            .incoming
            .try_iter()
            .take(BATCH_FRAMES)
            .map(|frame| take(&frame))
            .count();
        if count > 0 {
            self.other.ring(|rung| rung.room = true);
        }
        if count == BATCH_FRAMES {
            self.own.lock().arrival = true;
        }
        count
    }

    fn send(
        &mut self,
        _now: Instant,
        mut write: impl FnMut(&mut [u8]) -> Option<usize>,
    ) -> Result<usize, Infallible> {
        if self.blocked.is_none() {
            // Wakes from now on concern the frames that follow.
            self.own.lock().room = false;
        }
        let mut sent = 0;
        while sent < BATCH_FRAMES && self.blocked.is_none() {
            let Some(frame) = self.left_over.take().or_else(|| written(&mut write)) else {
                break;
            };
            match self.outgoing.try_send(frame) {
                Ok(()) => sent += 1,
                Err(TrySendError::Full(frame)) => {
                    (self.left_over, self.blocked) = (Some(frame), Some(Blocked::Room))
                }
                // The other end no longer exists: the frame is lost, as on a cable.
                Err(TrySendError::Disconnected(_)) => sent += 1,
            }
        }
        if sent > 0 {
            self.other.ring(|rung| rung.arrival = true);
        }
        Ok(sent)
    }

    fn has_arrival(&self) -> bool {
        self.own.lock().arrival
    }

    fn blocked(&self) -> Option<Blocked> {
        self.blocked
    }

    fn waited(&mut self, has_room: bool) -> Result<(), Infallible> {
        if has_room {
            self.blocked = None;
        }
        Ok(())
    }
}

fn written(write: &mut impl FnMut(&mut [u8]) -> Option<usize>) -> Option<Vec<u8>> {
    let mut frame = vec![0; FRAME_BYTES];
    let length = write(&mut frame)?;
    frame.truncate(length);
    Some(frame)
}

impl Bell {
    fn lock(&self) -> MutexGuard<'_, Rung> {
        self.state.lock().expect("nobody panics with the lock")
    }

    fn ring(&self, change: impl FnOnce(&mut Rung)) {
        change(&mut self.lock());
        self.rung.notify_all();
    }
}

impl Waiter for ChannelWaiter {
    /// Whether there is room to send.
    type Seen = bool;

    fn wait(&self, now: Instant, wanted: Interest) -> bool {
        let waits = |rung: &mut Rung| {
            let ended = (wanted.arrivals && rung.arrival) || (wanted.room && rung.room);
            !ended && !self.woken.load(Ordering::Acquire)
        };
        let state = self.bell.lock();
        let rung = match wanted.until {
            None => *self
                .bell
                .rung
                .wait_while(state, waits)
                .expect("nobody panics with the lock"),
            Some(until) => {
                *self
                    .bell
                    .rung
                    .wait_timeout_while(state, until.since(now), waits)
                    .expect("nor here")
                    .0
            }
        };
        self.woken.store(false, Ordering::Release);
        rung.room
    }

    fn take_wake(&self) -> bool {
        self.woken.swap(false, Ordering::AcqRel)
    }

    fn yield_now(&self) {
        std::thread::yield_now();
    }

    fn wake(&self) {
        self.bell
            .ring(|_| self.woken.store(true, Ordering::Release));
    }
}

/// A clock that starts when it is created.
pub struct WallClock(std::time::Instant);

impl WallClock {
    pub fn start() -> WallClock {
        WallClock(std::time::Instant::now())
    }
}

impl TimeSource for WallClock {
    fn now(&self) -> Instant {
        Instant::START + self.0.elapsed()
    }
}

const PAYLOAD_BYTES: usize = 1468;

/// Sends `content` from one thread, receives it in another, and returns the received bytes.
pub fn transfer(content: &[u8], [sending, receiving]: [ChannelLink; 2]) -> Vec<u8> {
    let (sender, receiver) = (sending.waiter(), receiving.waiter());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            send(content, sending, &sender);
            done.store(true, Ordering::Release);
            receiver.wake();
        });
        receive(receiving, &receiver, &done)
    })
}

fn send(content: &[u8], mut link: ChannelLink, waiter: &ChannelWaiter) {
    let outlet = Outlet::Lanes(vec![peer(1)]);
    let mut machine = Alone::new(Stream::origin(
        identity(0),
        PAYLOAD_BYTES,
        &outlet,
        Tuning::default(),
    ));
    let mut pushed = 0;
    let Ok(()) = drive(
        &mut link,
        &mut machine,
        waiter,
        &WallClock::start(),
        |machine, _now| {
            while pushed < content.len() {
                let end = content.len().min(pushed + PAYLOAD_BYTES);
                let ending = if end == content.len() {
                    Ending::Stream
                } else {
                    Ending::None
                };
                if !machine.part.push(&content[pushed..end], ending) {
                    break;
                }
                pushed = end;
            }
            if machine.part.is_settled() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        },
    );
}

/// Receives until the sender is `done`, which is when everything has been acknowledged.
fn receive(mut link: ChannelLink, waiter: &ChannelWaiter, done: &AtomicBool) -> Vec<u8> {
    let stream = Stream::receiver(
        identity(1),
        PAYLOAD_BYTES,
        peer(0),
        &Outlet::Lanes(Vec::new()),
        Tuning::default(),
    );
    let mut machine = Alone::new(stream);
    let mut content = Vec::new();
    let Ok(()) = drive(
        &mut link,
        &mut machine,
        waiter,
        &WallClock::start(),
        |machine, now| {
            while let Some((payload, _ending)) = machine.part.peek() {
                content.extend_from_slice(payload);
                machine.part.consume(now);
            }
            if done.load(Ordering::Acquire) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        },
    );
    content
}

pub fn peer(rank: u16) -> Peer {
    Peer {
        rank: Rank(rank),
        mac: MacAddr::new(2, 0, 0, 0, 0, rank as u8),
    }
}

pub fn identity(rank: u16) -> Identity {
    Identity {
        session: 1,
        stream: StreamId(1),
        rank: Rank(rank),
        mac: peer(rank).mac,
        ether_type: EtherType::DEFAULT,
        guard: Guard::Plain,
    }
}
