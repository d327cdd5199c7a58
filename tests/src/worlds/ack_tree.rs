//! Model checking of a broadcast in which receivers acknowledge to each other (acknowledgement
//! tree).
//!
//! The views of a session are imitated: the origin is notified of a death some time after it, the
//! other hosts some time later. Then they graft and remove children and change their parents as
//! `collectives` does.

use super::world::{Fate, Host};
use ethbcast_transport::sim::host_mac;
use ethbcast_transport::stream::{Ending, Outlet, Stream};
use ethbcast_transport::wire::{EtherType, Guard, Identity, Peer, Rank, StreamId, group_mac};
use ethbcast_transport::{Alone, Deadline, Instant, Machine, Timer, Tuning};

const PAYLOAD_BYTES: usize = 40;
/// Takes the place of the EtherType in a notice; no frame of the product has this value.
const NOTICE: [u8; 2] = [0, 0];
const ETHERNET_BYTES: usize = 14;

/// A deliberate mistake, to check that the model finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A host whose parent has died continues to acknowledge to it.
    KeepsParent,
    /// A host that receives nothing does not send requests.
    NeverAsks,
}

/// A host of an ack tree, with its knowledge of dead hosts.
#[derive(Clone, Debug)]
pub struct TreeHost {
    stream: Alone<Stream>,
    host: usize,
    parents: &'static [usize],
    frames: u64,
    pushed: u64,
    taken: u64,
    wrong: Option<String>,
    dead: Vec<usize>,
    notices: Vec<Vec<u8>>,
    mistake: Option<Mistake>,
}

/// Creates the origin and its receivers. `parents` names each one's ack parent; every host makes
/// `mistake`, if any.
pub fn ack_tree(parents: &'static [usize], frames: u64, mistake: Option<Mistake>) -> Vec<TreeHost> {
    let host = |host| TreeHost {
        mistake,
        ..TreeHost::new(host, parents, frames)
    };
    (0..parents.len()).map(host).collect()
}

pub const GROUP: &str = "tree";
/// Number of receivers at which a cast has an ack tree.
const RECEIVERS: usize = 200;

pub fn peer(host: usize) -> Peer {
    Peer {
        rank: Rank(host as u16),
        mac: host_mac(host),
    }
}

/// Creates host `host`'s end of a cast from host 0; `parents` names the ack parent of each host.
pub fn end_of(host: usize, parents: &[usize], payload_bytes: usize, tuning: &Tuning) -> Stream {
    let Peer { rank, mac } = peer(host);
    let identity = Identity {
        session: 77,
        stream: StreamId(1),
        rank,
        mac,
        ether_type: EtherType::DEFAULT,
        guard: Guard::Plain,
    };
    let children = |of: usize| (1..parents.len()).filter(move |&child| parents[child] == of);
    let own: Vec<Peer> = children(host).map(peer).collect();
    if host == 0 {
        let tuning = tuning.for_ack_tree(RECEIVERS, own.len(), 0);
        let outlet = Outlet::Cast {
            group: group_mac(GROUP),
            listeners: own,
        };
        return Stream::origin(identity, payload_bytes, &outlet, tuning);
    }
    let siblings: Vec<usize> = children(parents[host]).collect();
    let order = siblings
        .iter()
        .position(|&sibling| sibling == host)
        .expect("it is its parent's child");
    let tuning = tuning.for_ack_tree(RECEIVERS, siblings.len(), order);
    let (parent, outlet) = (peer(parents[host]), Outlet::RepairChildren(own));
    let mut stream = Stream::receiver(identity, payload_bytes, parent, &outlet, tuning);
    stream.set_origin(peer(0));
    stream
}

fn payload(sequence: u64) -> [u8; 8] {
    (sequence * 0x0101_0101_0101_0101 + 7).to_be_bytes()
}

fn notice(dead: usize, to: usize) -> Vec<u8> {
    [
        &host_mac(to).octets()[..],
        &host_mac(dead).octets()[..],
        &NOTICE,
        &[dead as u8],
    ]
    .concat()
}

impl TreeHost {
    fn new(host: usize, parents: &'static [usize], frames: u64) -> TreeHost {
        TreeHost {
            stream: Alone::new(end_of(host, parents, PAYLOAD_BYTES, &small())),
            host,
            parents,
            frames,
            pushed: 0,
            taken: 0,
            wrong: None,
            dead: Vec::new(),
            notices: Vec::new(),
            mistake: None,
        }
    }

    fn stream(&self) -> &Stream {
        &self.stream.part
    }

    fn parent(&self, host: usize) -> usize {
        let mut at = self.parents[host];
        while self.dead.contains(&at) {
            at = self.parents[at];
        }
        at
    }

    fn learn(&mut self, now: Instant, dead: usize) {
        self.dead.push(dead);
        self.dead.sort_unstable();
        let living = |host: &usize| *host != 0 && *host != self.host && !self.dead.contains(host);
        let others: Vec<usize> = (0..self.parents.len()).filter(living).collect();
        if self.host == 0 {
            self.notices
                .extend(others.iter().map(|&to| notice(dead, to)));
        } else if self.mistake != Some(Mistake::KeepsParent) {
            let parent = peer(self.parent(self.host));
            self.stream.part.set_parent(parent);
        }
        let children: Vec<usize> = others
            .into_iter()
            .filter(|&child| self.parent(child) == self.host)
            .collect();
        let stream = &mut self.stream.part;
        children
            .iter()
            .for_each(|&child| stream.graft_child(now, peer(child)));
        let readers = stream.cursors().into_iter().map(|(rank, _)| rank);
        let non_members: Vec<Rank> = readers
            .filter(|rank| !children.contains(&rank.index()))
            .collect();
        non_members
            .into_iter()
            .for_each(|rank| stream.remove_reader(now, rank));
    }

    fn ending(&self, sequence: u64) -> Ending {
        match self.frames - sequence {
            1 => Ending::Stream,
            2 => Ending::Message,
            _ => Ending::None,
        }
    }

    fn push(&mut self) {
        while self.host == 0 && self.pushed < self.frames {
            if !self
                .stream
                .part
                .push(&payload(self.pushed), self.ending(self.pushed))
            {
                break;
            }
            self.pushed += 1;
        }
    }

    fn take(&mut self, now: Instant) {
        while let Some((bytes, ending)) = self.stream.part.peek() {
            if bytes != payload(self.taken) || ending != self.ending(self.taken) {
                self.wrong
                    .get_or_insert(format!("frame {} is not what was sent", self.taken));
            }
            self.taken += 1;
            self.stream.part.consume(now);
        }
    }
}

fn small() -> Tuning {
    Tuning::default().with_feed_frames(4)
}

impl Machine for TreeHost {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        match frame.split_at_checked(ETHERNET_BYTES) {
            Some((_, &[dead])) if Self::is_notice(frame) => self.learn(now, usize::from(dead)),
            _ => self.stream.handle_frame(now, frame),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.stream.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let Some(notice) = self.notices.pop() else {
            return self.stream.poll_transmit(now, buffer);
        };
        buffer[..notice.len()].copy_from_slice(&notice);
        Some(notice.len())
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let asks = self.mistake != Some(Mistake::NeverAsks);
        self.stream
            .poll_timeout(now)
            .filter(|deadline| asks || deadline.why != Timer::HEARTBEAT)
    }
}

impl Host for TreeHost {
    const SKIPPED: &'static [&'static str] = &["StreamStats"];
    /// Only a session detects the death of the origin.
    const IS_MORTAL: fn(usize) -> bool = |host| host != 0;

    fn notice(dead: usize) -> Option<Vec<u8>> {
        Some(notice(dead, 0))
    }

    fn is_notice(frame: &[u8]) -> bool {
        frame.get(ETHERNET_BYTES - NOTICE.len()..ETHERNET_BYTES) == Some(&NOTICE)
    }

    fn turn(&mut self, now: Instant) -> Option<Instant> {
        self.push();
        self.take(now);
        None
    }

    fn has_begun(&self) -> bool {
        self.pushed > 0
    }

    fn fate(&self) -> Fate {
        let is_done = match self.host {
            // The end of a message is certain to be acknowledged; that of the stream need not be.
            0 => self.stream().is_settled() && self.stream().consumed() + 1 >= self.frames,
            _ => self.taken == self.frames,
        };
        if is_done { Fate::Delivered } else { Fate::Open }
    }

    fn is_over(&self) -> bool {
        false
    }

    fn has_all(&self) -> bool {
        self.host == 0 || self.taken == self.frames
    }

    fn claims(&self) -> Vec<usize> {
        let is_behind = |host: &usize| {
            let mut at = *host;
            while at != 0 && at != self.host {
                at = self.parent(at);
            }
            at == self.host && !self.dead.contains(host)
        };
        let all = self.stream().consumed() == self.frames;
        (1..self.parents.len())
            .filter(is_behind)
            .filter(|_| all)
            .collect()
    }

    fn check(&self, before: &Self) -> Result<(), String> {
        self.stream().audit().map_err(|error| error.to_string())?;
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        if self.stream().consumed() < before.stream().consumed() {
            return Err("what all have consumed has become less".to_owned());
        }
        let mut stream = self.stream().clone();
        let orphan = stream.take_orphans().first().map(|orphan| orphan.rank);
        orphan.map_or(Ok(()), |rank| {
            Err(format!("rank {rank} lacks what nobody keeps"))
        })
    }
}
