//! Example: round trips of messages between two hosts on a real Ethernet, with blocking calls;
//! needs root.
//!
//! ```text
//! one host    $ ping_pong eth0 0 MAC-OF-THIS-HOST MAC-OF-THE-OTHER
//! the other   $ ping_pong eth0 1 MAC-OF-THE-OTHER MAC-OF-THIS-HOST
//! ```
//!
//! Both list the hosts in the same order, by rank. A third number is the length of the messages; 64
//! bytes if it is left out.
//!
//! `[dependencies]` of its Cargo.toml: `ethbcast-transport = { path = "../ethbcast/transport" }`.

use ethbcast_transport::Alone;
use ethbcast_transport::messages::{Completion, Mailbox, RecvOutcome, Settings};
use ethbcast_transport::packet::{Clock, Interface, Port, PortConfig, Shared};
use ethbcast_transport::wire::{EtherType, HEADER_BYTES, Rank, StreamId};
use ethbcast_transport::wire::{Guard, Identity, Peer};
use std::error::Error;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

const TAG: u32 = 1;
const ROUND_TRIPS: usize = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [interface, rank, macs @ .., _] = &[&arguments[..], &[String::new()]].concat()[..] else {
        return Err("usage: ping_pong INTERFACE RANK MAC-OF-0 MAC-OF-1 [BYTES]".into());
    };
    let rank: u16 = rank.parse()?;
    let bytes: usize = macs.get(2).map_or(Ok(64), |bytes| bytes.parse())?;
    let peers = (0..2).map(|rank| {
        Ok(Peer {
            rank: Rank(rank),
            mac: macs
                .get(usize::from(rank))
                .ok_or("two MACs are needed")?
                .parse()?,
        })
    });
    let peers = peers.collect::<Result<Vec<_>, Box<dyn Error>>>()?;
    let mailbox = open(interface, rank, &peers)?;
    let mut times = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let begin = Instant::now();
        if rank == 0 {
            send(&mailbox, 1, vec![7; bytes])?;
            receive(&mailbox, 1, bytes)?;
        } else {
            let message = receive(&mailbox, 0, bytes)?;
            send(&mailbox, 0, message)?;
        }
        times.push(begin.elapsed());
    }
    times.sort();
    println!(
        "{bytes} bytes there and back: median {:?}, 99 % within {:?}",
        times[times.len() / 2],
        times[times.len() * 99 / 100]
    );
    // The other host may still request lost frames.
    mailbox.wait(
        Some(mailbox.now() + Duration::from_secs(1)),
        |mailbox, _| {
            while mailbox.part.poll_completion().is_some() {}
            if mailbox.part.is_idle() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        },
    )?;
    Ok(())
}

fn open(
    interface: &str,
    rank: u16,
    peers: &[Peer],
) -> Result<Shared<Alone<Mailbox>>, Box<dyn Error>> {
    let interface = Interface::find(Some(interface))?;
    let port = Port::open(&interface, PortConfig::new(EtherType::DEFAULT))?;
    let identity = Identity {
        session: 1,
        stream: StreamId(0),
        rank: Rank(rank),
        mac: interface.mac,
        ether_type: EtherType::DEFAULT,
        guard: Guard::Plain,
    };
    let mailbox = Alone::new(Mailbox::new(
        identity,
        peers,
        interface.mtu_bytes - HEADER_BYTES,
        Settings::default(),
    ));
    Ok(Shared::start(port, mailbox, Clock::start())?)
}

fn send(mailbox: &Shared<Alone<Mailbox>>, to: u16, bytes: Vec<u8>) -> Result<(), Box<dyn Error>> {
    mailbox.with(|mailbox, _| mailbox.part.send(Rank(to), TAG, bytes))??;
    Ok(())
}

fn receive(
    mailbox: &Shared<Alone<Mailbox>>,
    from: u16,
    max_bytes: usize,
) -> Result<Vec<u8>, Box<dyn Error>> {
    let id = mailbox.with(|mailbox, _| mailbox.part.recv(Rank(from), TAG, max_bytes))??;
    let outcome = mailbox.wait(
        Some(mailbox.now() + Duration::from_secs(60)),
        |mailbox, _| {
            while let Some(completion) = mailbox.part.poll_completion() {
                match completion {
                    Completion::Recv { id: ended, outcome } if ended == id => {
                        return ControlFlow::Break(outcome);
                    }
                    // A send has ended: it has arrived.
                    _ => {}
                }
            }
            ControlFlow::Continue(())
        },
    )?;
    match outcome.ok_or("no answer for a minute")? {
        RecvOutcome::Received { bytes } => Ok(bytes),
        other => Err(format!("{other:?}").into()),
    }
}
