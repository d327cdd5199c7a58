//! The small worlds of an ack tree: a cast in which receivers acknowledge to each other, without a session.
//!
//! The views of a session are played here: the origin learns of a death some time after it, each other host some time
//! later, and then they graft, drop and change their parents as `collectives` does.

use super::host::{Fate, Host};
use crate::stream::peer;
use ethbcast_transport::sim::host_mac;
use ethbcast_transport::stream::{Ending, Stream};
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{Alone, Deadline, Instant, Machine, Timer, Tuning};

const PAYLOAD_BYTES: usize = 40;
/// What stands where a frame has its EtherType, in a notice: no frame of ours.
const NOTICE: [u8; 2] = [0, 0];
const ETHERNET_BYTES: usize = 14;

/// What can be made wrong on purpose, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Whose parent has died goes on acknowledging to it.
    KeepsParent,
    /// Who hears nothing does not ask.
    NeverAsks,
}

/// A host of an ack tree, and who of the others is known to be dead.
#[derive(Clone, Debug)]
pub struct TreeHost {
    stream: Alone<Stream>,
    host: usize,
    /// To whom each host acknowledges.
    parents: &'static [usize],
    frames: u64,
    pushed: u64,
    taken: u64,
    wrong: Option<String>,
    dead: Vec<usize>,
    /// Notices to be sent.
    notices: Vec<Vec<u8>>,
    mistake: Option<Mistake>,
}

/// The origin and its receivers, of which `parents` says to whom each acknowledges, and so many frames; with a mistake
/// that all hosts make, if any.
pub fn ack_tree(parents: &'static [usize], frames: u64, mistake: Option<Mistake>) -> Vec<TreeHost> {
    let host = |host| TreeHost { mistake, ..TreeHost::new(host, parents, frames) };
    (0..parents.len()).map(host).collect()
}

/// What frame `sequence` carries.
fn payload(sequence: u64) -> [u8; 8] {
    (sequence * 0x0101_0101_0101_0101 + 7).to_be_bytes()
}

/// Tells host `to` that host `dead` is.
fn notice(dead: usize, to: usize) -> Vec<u8> {
    [&host_mac(to).octets()[..], &host_mac(dead).octets()[..], &NOTICE, &[dead as u8]].concat()
}

impl TreeHost {
    fn new(host: usize, parents: &'static [usize], frames: u64) -> TreeHost {
        TreeHost {
            stream: Alone::new(crate::stream::ack_tree(host, parents, PAYLOAD_BYTES, &small())),
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

    /// The nearest host above `host` that is not known to be dead.
    fn parent(&self, host: usize) -> usize {
        let mut at = self.parents[host];
        while self.dead.contains(&at) {
            at = self.parents[at];
        }
        at
    }

    /// Learns that a host is dead, and the origin passes it on.
    fn learn(&mut self, now: Instant, dead: usize) {
        self.dead.push(dead);
        self.dead.sort_unstable();
        let living = |host: &usize| *host != 0 && *host != self.host && !self.dead.contains(host);
        let others: Vec<usize> = (0..self.parents.len()).filter(living).collect();
        if self.host == 0 {
            self.notices.extend(others.iter().map(|&to| notice(dead, to)));
        } else if self.mistake != Some(Mistake::KeepsParent) {
            let parent = peer(self.parent(self.host));
            self.stream.part.set_parent(parent);
        }
        let children: Vec<usize> = others.into_iter().filter(|&child| self.parent(child) == self.host).collect();
        let stream = &mut self.stream.part;
        children.iter().for_each(|&child| stream.graft_child(now, peer(child)));
        let readers = stream.cursors().into_iter().map(|(rank, _)| rank);
        let strangers: Vec<Rank> = readers.filter(|rank| !children.contains(&rank.index())).collect();
        strangers.into_iter().for_each(|rank| stream.remove_reader(now, rank));
    }

    /// The last but one ends a message.
    fn ending(&self, sequence: u64) -> Ending {
        match self.frames - sequence {
            1 => Ending::Stream,
            2 => Ending::Message,
            _ => Ending::None,
        }
    }

    fn push(&mut self) {
        while self.host == 0 && self.pushed < self.frames {
            if !self.stream.part.push(&payload(self.pushed), self.ending(self.pushed)) {
                break;
            }
            self.pushed += 1;
        }
    }

    fn take(&mut self, now: Instant) {
        while let Some((bytes, ending)) = self.stream.part.peek() {
            if bytes != payload(self.taken) || ending != self.ending(self.taken) {
                self.wrong.get_or_insert(format!("frame {} is not what was sent", self.taken));
            }
            self.taken += 1;
            self.stream.part.consume(now);
        }
    }
}

/// The engine's numbers with a small feed.
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
        let Some(notice) = self.notices.pop() else { return self.stream.poll_transmit(now, buffer) };
        buffer[..notice.len()].copy_from_slice(&notice);
        Some(notice.len())
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let asks = self.mistake != Some(Mistake::NeverAsks);
        self.stream.poll_timeout(now).filter(|deadline| asks || deadline.why != Timer::HEARTBEAT)
    }
}

impl Host for TreeHost {
    const SKIPPED: &'static [&'static str] = &["StreamStats"];
    /// Nobody but a session finds out that the origin is dead.
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
            // That the end of a message was consumed is certain to be told; that of the stream need not be.
            0 => self.stream().is_settled() && self.stream().consumed() + 1 >= self.frames,
            _ => self.taken == self.frames,
        };
        if is_done { Fate::Delivered } else { Fate::Open }
    }

    /// It goes on acknowledging and repairing for whoever asks.
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
        (1..self.parents.len()).filter(is_behind).filter(|_| all).collect()
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
        orphan.map_or(Ok(()), |rank| Err(format!("rank {rank} lacks what nobody keeps")))
    }
}
