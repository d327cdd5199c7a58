//! Transfer of bytes from one thread to another over a pair of channels, for the example.

use crate::channel_link::{ChannelLink, ChannelWaiter, WallClock};
use ethbcast_transport::link::Waiter;
use ethbcast_transport::stream::{Ending, Outlet, Stream};
use ethbcast_transport::wire::{EtherType, Guard, Identity, MacAddr, Peer, Rank, StreamId};
use ethbcast_transport::{Alone, Tuning, drive};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

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
    let mut machine = Alone::new(Stream::origin(identity(0), PAYLOAD_BYTES, &outlet, Tuning::default()));
    let mut pushed = 0;
    let Ok(()) = drive(&mut link, &mut machine, waiter, &WallClock::start(), |machine, _now| {
        while pushed < content.len() {
            let end = content.len().min(pushed + PAYLOAD_BYTES);
            let ending = if end == content.len() { Ending::Stream } else { Ending::None };
            if !machine.part.push(&content[pushed..end], ending) {
                break;
            }
            pushed = end;
        }
        if machine.part.is_settled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
}

/// Receives until the sender is `done`, which is when everything has been acknowledged.
fn receive(mut link: ChannelLink, waiter: &ChannelWaiter, done: &AtomicBool) -> Vec<u8> {
    let stream = Stream::receiver(identity(1), PAYLOAD_BYTES, peer(0), &Outlet::Lanes(Vec::new()), Tuning::default());
    let mut machine = Alone::new(stream);
    let mut content = Vec::new();
    let Ok(()) = drive(&mut link, &mut machine, waiter, &WallClock::start(), |machine, now| {
        while let Some((payload, _ending)) = machine.part.peek() {
            content.extend_from_slice(payload);
            machine.part.consume(now);
        }
        if done.load(Ordering::Acquire) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    content
}

pub fn peer(rank: u16) -> Peer {
    Peer { rank: Rank(rank), mac: MacAddr::new(2, 0, 0, 0, 0, rank as u8) }
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
