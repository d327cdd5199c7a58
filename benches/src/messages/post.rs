//! A mailbox on a host, with blocking calls, as in an application that sends and receives messages.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use ethbcast_transport::Alone;
use ethbcast_transport::messages::{
    Completion, Mailbox, MailboxStats, RecvId, RecvOutcome, SendId, SendOutcome, Settings,
};
use ethbcast_transport::packet::{Clock, Counters, Interface, Port, PortConfig, Shared};
use ethbcast_transport::wire::{EtherType, HEADER_BYTES, Rank, StreamId};
use ethbcast_transport::wire::{Identity, Peer};

use super::hop::Hop;
use crate::cluster::INTERFACE;

/// A local experimental EtherType (IEEE 802), other than the tool's.
const ETHER_TYPE: EtherType = EtherType::new(0x88b6);
const TAG: u32 = 1;
/// Time limit of every call: only an error takes longer.
const LIMIT: Duration = Duration::from_secs(30);

/// One host's end of a conversation of two.
pub struct Post {
    shared: Shared<Alone<Mailbox>>,
    peer: Rank,
}

impl Post {
    /// Opens an end on each host.
    ///
    /// # Errors
    /// Fails if an interface or a socket is not available.
    pub fn open_both(hop: &Hop, settings: &Settings, spin: Duration) -> anyhow::Result<[Post; 2]> {
        let peers = [0, 1].map(|rank: u16| Peer { rank: Rank(rank), mac: hop.mac(rank.into()) });
        hop.on_both(|host| {
            let interface = Interface::find(Some(INTERFACE))?;
            let identity = Identity {
                session: 7,
                stream: StreamId(0),
                rank: Rank(host as u16),
                mac: interface.mac,
                ether_type: ETHER_TYPE,
            };
            let mut config = PortConfig::new(ETHER_TYPE);
            config.busy_poll = spin;
            let port = Port::open(&interface, config)?;
            let mailbox =
                Alone::new(Mailbox::new(identity, &peers, interface.mtu_bytes - HEADER_BYTES, settings.clone()));
            Ok(Post { shared: Shared::start(port, mailbox, Clock::start())?, peer: Rank(1 - host as u16) })
        })
    }

    /// Sends a message; returns when all of it has been passed to the network once.
    ///
    /// # Errors
    /// Fails if the interface does or the other end is gone.
    pub fn send(&self, message: &Arc<[u8]>) -> anyhow::Result<()> {
        let mut sending: Option<SendId> = None;
        self.until(|mailbox| {
            let id = match sending {
                Some(id) => id,
                None => match mailbox.part.send(self.peer, TAG, Arc::clone(message)) {
                    Ok(id) => *sending.insert(id),
                    // The queue is full: completions of earlier messages make room.
                    Err(_) => return drain(mailbox).map(|()| None),
                },
            };
            Ok(mailbox.part.has_gone(id).then_some(()))
        })
    }

    /// Waits for a message of up to `most` bytes.
    ///
    /// # Errors
    /// Fails if the interface does or the other end is gone.
    pub fn receive(&self, most: usize) -> anyhow::Result<Vec<u8>> {
        let mut posted: Option<RecvId> = None;
        self.until(|mailbox| {
            if posted.is_none() {
                posted = Some(mailbox.part.recv(self.peer, TAG, most)?);
            }
            while let Some(completion) = mailbox.part.poll_completion() {
                if let Some(bytes) = received(completion)? {
                    return Ok(Some(bytes));
                }
            }
            Ok(None)
        })
    }

    /// Receives messages of `bytes` bytes, with `ahead` receives posted at a time, and passes each
    /// to `take` until that returns enough.
    ///
    /// # Errors
    /// As [`receive`](Self::receive), or `take`'s.
    pub fn receive_many(
        &self,
        bytes: usize,
        ahead: usize,
        mut take: impl FnMut(Vec<u8>) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let mut posted = 0;
        loop {
            let message = self.until(|mailbox| {
                while posted < ahead {
                    mailbox.part.recv(self.peer, TAG, bytes)?;
                    posted += 1;
                }
                while let Some(completion) = mailbox.part.poll_completion() {
                    if let Some(bytes) = received(completion)? {
                        posted -= 1;
                        return Ok(Some(bytes));
                    }
                }
                Ok(None)
            })?;
            if !take(message)? {
                return Ok(());
            }
        }
    }

    /// Waits until everything sent is known to have arrived.
    ///
    /// # Errors
    /// Fails if the interface does or the other end is gone.
    pub fn settle(&self) -> anyhow::Result<()> {
        self.until(|mailbox| {
            drain(mailbox)?;
            Ok(mailbox.part.is_idle().then_some(()))
        })
    }

    /// Returns the statistics of the mailbox and the port.
    ///
    /// # Errors
    /// Fails if the interface does.
    pub fn counted(&self) -> anyhow::Result<(MailboxStats, Counters)> {
        Ok((self.shared.with(|mailbox, _| mailbox.part.stats())?, self.shared.counters()))
    }

    fn until<T>(&self, mut turn: impl FnMut(&mut Alone<Mailbox>) -> anyhow::Result<Option<T>>) -> anyhow::Result<T> {
        let deadline = self.shared.now() + LIMIT;
        let ended = self.shared.wait(Some(deadline), |mailbox, _| match turn(mailbox).transpose() {
            Some(value) => ControlFlow::Break(value),
            None => ControlFlow::Continue(()),
        })?;
        ended.context("a message was on its way for 30 s")?
    }
}

fn drain(mailbox: &mut Alone<Mailbox>) -> anyhow::Result<()> {
    while let Some(completion) = mailbox.part.poll_completion() {
        ensure!(received(completion)?.is_none(), "a message that nobody waits for");
    }
    Ok(())
}

fn received(completion: Completion) -> anyhow::Result<Option<Vec<u8>>> {
    match completion {
        Completion::Send { outcome: SendOutcome::Sent, .. } => Ok(None),
        Completion::Recv { outcome: RecvOutcome::Received { bytes }, .. } => Ok(Some(bytes)),
        other => anyhow::bail!("{other:?}"),
    }
}
