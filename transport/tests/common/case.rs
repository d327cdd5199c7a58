//! Test helper: describes a simulated stream by which host sends to which, and the frames sent.

use super::guard::guard;
use ethbcast_transport::Tuning;
use ethbcast_transport::sim::host_mac;
use ethbcast_transport::stream::{Ending, Outlet, Stream};
use ethbcast_transport::wire::{EtherType, Identity, Peer, Rank, StreamId, group_mac};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    Chain,
    Cast,
    TunedCast,
    /// A cast with an ack tree of this fan-out, at the root and below.
    AckTree(usize),
    Flat,
    Tree(usize),
    /// The hypercube's tree: rank `r` receives from `r` without its lowest bit and sends to the
    /// farthest first.
    Binomial,
}

#[derive(Clone, Debug)]
pub struct Case {
    pub path: Path,
    pub hosts: usize,
    pub frames: u64,
    pub tuning: Tuning,
    /// Frames that may wait for each receiver's application before it takes any (zero: it takes at
    /// once).
    pub lazy_frames: u64,
    pub last_takes: Option<Duration>,
    /// Frames after which the root ends a message and waits until all have consumed it (zero: one
    /// long stream).
    pub message_frames: u64,
}

pub const PAYLOAD_BYTES: usize = 100;

pub fn payload(sequence: u64) -> Vec<u8> {
    let length = 8 + (sequence * 13 % (PAYLOAD_BYTES as u64 - 8)) as usize;
    sequence
        .to_be_bytes()
        .iter()
        .copied()
        .chain((8..length).map(|at| (at as u64 ^ sequence) as u8))
        .collect()
}

pub fn peer(host: usize) -> Peer {
    Peer {
        rank: Rank(host as u16),
        mac: host_mac(host),
    }
}

pub fn identity(host: usize) -> Identity {
    let Peer { rank, mac } = peer(host);
    Identity {
        session: 77,
        stream: StreamId(1),
        rank,
        mac,
        ether_type: EtherType::DEFAULT,
        guard: guard(),
    }
}

impl Case {
    pub fn parent(&self, host: usize) -> usize {
        match self.path {
            Path::Cast | Path::TunedCast | Path::Flat => 0,
            Path::Chain => host.saturating_sub(1),
            Path::Binomial => host & host.saturating_sub(1),
            Path::AckTree(fan_out) | Path::Tree(fan_out) => host.saturating_sub(1) / fan_out,
        }
    }

    fn children(&self, host: usize) -> Vec<usize> {
        let mut children: Vec<usize> = (1..self.hosts)
            .filter(|&child| self.parent(child) == host)
            .collect();
        if self.path == Path::Binomial {
            children.reverse();
        }
        children
    }

    fn tuning(&self, host: usize) -> Tuning {
        match self.path {
            Path::TunedCast => self.tuning.for_cast(self.hosts - 1, host.saturating_sub(1)),
            Path::AckTree(fan_out) => {
                self.tuning
                    .for_ack_tree(self.hosts - 1, fan_out, host.saturating_sub(1) % fan_out)
            }
            _ => self.tuning.clone(),
        }
    }

    pub fn stream(&self, host: usize) -> Stream {
        let children: Vec<Peer> = self.children(host).into_iter().map(peer).collect();
        let outlet = match (self.path, host) {
            (Path::Cast | Path::TunedCast | Path::AckTree(_), 0) => Outlet::Cast {
                group: group_mac("test"),
                listeners: children,
            },
            (Path::AckTree(_), _) => Outlet::RepairChildren(children),
            _ => Outlet::Lanes(children),
        };
        if host == 0 {
            return Stream::origin(identity(host), PAYLOAD_BYTES, &outlet, self.tuning(host));
        }
        let mut stream = Stream::receiver(
            identity(host),
            PAYLOAD_BYTES,
            peer(self.parent(host)),
            &outlet,
            self.tuning(host),
        );
        stream.set_origin(peer(0));
        stream
    }

    pub fn ending(&self, sequence: u64) -> Ending {
        let ends = self.message_frames > 0 && (sequence + 1).is_multiple_of(self.message_frames);
        match sequence + 1 == self.frames {
            true => Ending::Stream,
            false if ends => Ending::Message,
            false => Ending::None,
        }
    }

    /// Pushes frames below `end` as far as the root's stream has room; the next message only once
    /// the one before has been consumed.
    pub fn push(&self, stream: &mut Stream, pushed: &mut u64, end: u64) {
        while *pushed < end.min(self.frames) {
            let starts = self.message_frames > 0 && pushed.is_multiple_of(self.message_frames);
            if starts && stream.consumed() < *pushed {
                break;
            }
            let ending = self.ending(*pushed);
            if !stream.push(&payload(*pushed), ending) {
                break;
            }
            *pushed += 1;
        }
    }
}
