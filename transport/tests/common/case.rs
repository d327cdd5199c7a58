//! Who has a stream's frames from whom, in the paths that tests take: each host's end of it, and what the root pushes.

use ethbcast_transport::Tuning;
use ethbcast_transport::sim::host_mac;
use ethbcast_transport::stream::{Ending, Outlet, Stream};
use ethbcast_transport::wire::{EtherType, Identity, Peer, Rank, StreamId, group_mac};
use std::time::Duration;

/// The path a broadcast takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    Chain,
    /// As the case's numbers have it, whatever the number of receivers.
    Cast,
    /// With the numbers of a cast to so many receivers.
    TunedCast,
    /// A cast in which so many receivers acknowledge to each host, and to the root.
    AckTree(usize),
    /// The root to each of the others.
    Flat,
    /// A tree in which each host sends to so many others.
    Tree(usize),
    /// The hypercube's tree: rank `r` receives from `r` without its lowest bit and sends to the farthest first.
    Binomial,
}

/// A broadcast to be simulated.
#[derive(Clone, Debug)]
pub struct Case {
    pub path: Path,
    pub hosts: usize,
    pub frames: u64,
    pub tuning: Tuning,
    /// What each receiver's application may have waiting before it takes anything (zero: it takes at once).
    pub lazy_frames: u64,
    /// The last host's application takes a frame in so long a time, and no more.
    pub last_takes: Option<Duration>,
    /// The root ends a message after so many frames and waits until everybody has consumed it (zero: one long stream).
    pub message_frames: u64,
}

pub const PAYLOAD_BYTES: usize = 100;

/// Frame `sequence` of every test stream: its number, then a pattern, of varying length.
pub fn payload(sequence: u64) -> Vec<u8> {
    let length = 8 + (sequence * 13 % (PAYLOAD_BYTES as u64 - 8)) as usize;
    sequence.to_be_bytes().iter().copied().chain((8..length).map(|at| (at as u64 ^ sequence) as u8)).collect()
}

/// A host as the others know it.
pub fn peer(host: usize) -> Peer {
    Peer { rank: Rank(host as u16), mac: host_mac(host) }
}

/// A host's end of a test stream.
pub fn identity(host: usize) -> Identity {
    let Peer { rank, mac } = peer(host);
    Identity { session: 77, stream: StreamId(1), rank, mac, ether_type: EtherType::DEFAULT }
}

impl Case {
    /// The host to which `host` acknowledges, and from which it gets its frames unless all of them come by cast.
    pub fn parent(&self, host: usize) -> usize {
        match self.path {
            Path::Cast | Path::TunedCast | Path::Flat => 0,
            Path::Chain => host.saturating_sub(1),
            Path::Binomial => host & host.saturating_sub(1),
            Path::AckTree(fan_out) | Path::Tree(fan_out) => host.saturating_sub(1) / fan_out,
        }
    }

    /// In sending order: down the binomial tree the farthest first.
    fn children(&self, host: usize) -> Vec<usize> {
        let mut children: Vec<usize> = (1..self.hosts).filter(|&child| self.parent(child) == host).collect();
        if self.path == Path::Binomial {
            children.reverse();
        }
        children
    }

    fn tuning(&self, host: usize) -> Tuning {
        match self.path {
            Path::TunedCast => self.tuning.for_cast(self.hosts - 1, host.saturating_sub(1)),
            Path::AckTree(fan_out) => {
                self.tuning.for_ack_tree(self.hosts - 1, fan_out, host.saturating_sub(1) % fan_out)
            }
            _ => self.tuning.clone(),
        }
    }

    /// A host's end of the stream.
    pub fn stream(&self, host: usize) -> Stream {
        let children: Vec<Peer> = self.children(host).into_iter().map(peer).collect();
        let outlet = match (self.path, host) {
            (Path::Cast | Path::TunedCast | Path::AckTree(_), 0) => {
                Outlet::Cast { group: group_mac("test"), listeners: children }
            }
            (Path::AckTree(_), _) => Outlet::RepairChildren(children),
            _ => Outlet::Lanes(children),
        };
        if host == 0 {
            return Stream::origin(identity(host), PAYLOAD_BYTES, &outlet, self.tuning(host));
        }
        let mut stream =
            Stream::receiver(identity(host), PAYLOAD_BYTES, peer(self.parent(host)), &outlet, self.tuning(host));
        stream.set_origin(peer(0));
        stream
    }

    /// What ends with frame `sequence`.
    pub fn ending(&self, sequence: u64) -> Ending {
        let ends = self.message_frames > 0 && (sequence + 1).is_multiple_of(self.message_frames);
        match sequence + 1 == self.frames {
            true => Ending::Stream,
            false if ends => Ending::Message,
            false => Ending::None,
        }
    }

    /// Pushes what the root's stream has room for of the frames below `end`; the next message only once the one before
    /// has been consumed.
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
