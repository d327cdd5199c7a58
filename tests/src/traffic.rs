//! Test helper: simulated traffic beside a transfer, as TCP Reno (RFC 5681, 6582) or at a fixed
//! rate.

use crate::session::{Host, turn};
use ethbcast_collectives::session::application::Participant;
use ethbcast_transport::sim::{Random, host_mac};
use ethbcast_transport::wire::group_mac;
use ethbcast_transport::{
    Deadline, Instant, LinkReading, MacAddr, Machine, PassedBytes, Timer, TokenBucket,
};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Duration;

/// EtherType of IPv4: none of ours.
const IP: [u8; 2] = [0x08, 0x00];
const OURS: [u8; 2] = [0x88, 0xB5];
const FULL_BYTES: usize = 1514;
const SHORT_BYTES: usize = 66;
const MAX_TIMEOUT: Duration = Duration::from_secs(3);
const READING: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub struct Flow {
    pub from: usize,
    pub to: usize,
    /// Time in which the flow has data to send.
    pub lasts: Range<Duration>,
    /// Bits per second of a flow that does not adapt.
    pub fixed: Option<u64>,
    /// Shortest time without an answer after which it begins anew: longer than any round trip.
    pub timeout: Duration,
    /// Longest time for which it answers late, drawn anew each time.
    pub jitter: Duration,
}

impl Flow {
    pub fn new(from: usize, to: usize, lasts: Range<Duration>) -> Flow {
        Flow {
            from,
            to,
            lasts,
            fixed: None,
            timeout: Duration::from_millis(200),
            jitter: Duration::ZERO,
        }
    }
}

#[derive(Debug)]
struct End {
    id: u8,
    own: MacAddr,
    peer: MacAddr,
    part: Part,
}

#[derive(Debug)]
enum Part {
    Source(Box<Source>),
    Sink {
        expected: u64,
        beyond: BTreeSet<u64>,
        acks: VecDeque<u64>,
        came: Vec<Instant>,
    },
}

#[derive(Debug)]
struct Source {
    from: Instant,
    until: Instant,
    fixed: Option<(TokenBucket, Duration)>,
    next: u64,
    acked: u64,
    window: f64,
    threshold: f64,
    doubles: u32,
    /// End of the present recovery.
    recover: Option<u64>,
    again: Option<u64>,
    first_timeout: Duration,
    timeout: Duration,
    expires_at: Option<Instant>,
    /// Longest time for which an answer waits for a processor, drawn anew for each: without it the
    /// places at a full queue fall to the same senders again and again.
    jitter: Duration,
    random: Random,
    held_until: Instant,
}

impl Source {
    fn new(flow: &Flow) -> Source {
        let fixed = flow
            .fixed
            .map(|bits| Duration::from_nanos(FULL_BYTES as u64 * 8_000_000_000 / bits));
        Source {
            from: Instant::START + flow.lasts.start,
            until: Instant::START + flow.lasts.end,
            fixed: fixed.map(|gap| (TokenBucket::default(), gap)),
            next: 0,
            acked: 0,
            window: 10.0,
            // The flow begins as if it knew its path's capacity, without a slow start that fills
            // every queue.
            threshold: 64.0,
            doubles: 0,
            recover: None,
            again: None,
            first_timeout: flow.timeout,
            timeout: flow.timeout,
            expires_at: None,
            jitter: flow.jitter,
            random: Random::new(1),
            held_until: Instant::START,
        }
    }

    fn on_ack(&mut self, now: Instant, below: u64) {
        if self.fixed.is_some() {
            return;
        }
        if !self.jitter.is_zero() {
            let late = self.random.below(self.jitter.as_nanos() as u64);
            self.held_until = self.held_until.max(now + Duration::from_nanos(late));
        }
        if below > self.acked {
            let new = (below - self.acked) as f64;
            (self.acked, self.doubles, self.timeout) = (below, 0, self.first_timeout);
            match self.recover {
                Some(end) if below < end => {
                    self.again = Some(below);
                    self.window = (self.window - new + 1.0).max(2.0);
                }
                Some(_) => (self.recover, self.window) = (None, self.threshold),
                None if self.window < self.threshold => self.window += new,
                None => self.window += new / self.window,
            }
            self.next = self.next.max(below);
            self.expires_at = (self.acked < self.next).then(|| now + self.timeout);
        } else if self.acked < self.next {
            self.doubles += 1;
            if self.recover.is_some() {
                self.window += 1.0;
            } else if self.doubles == 3 {
                self.threshold = ((self.next - self.acked) as f64 / 2.0).max(2.0);
                self.window = self.threshold + 3.0;
                (self.recover, self.again) = (Some(self.next), Some(self.acked));
                self.expires_at = Some(now + self.timeout);
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.expires_at.take_if(|at| *at <= now).is_some() && self.acked < self.next {
            self.threshold = ((self.next - self.acked) as f64 / 2.0).max(2.0);
            (self.window, self.recover, self.next, self.doubles) = (1.0, None, self.acked, 0);
            self.timeout = (self.timeout * 2).min(MAX_TIMEOUT);
        }
    }

    fn poll(&mut self, now: Instant) -> Option<u64> {
        if now < self.from {
            return None;
        }
        if let Some((bucket, gap)) = &mut self.fixed {
            if now >= self.until || bucket.ready_at(now).is_some() {
                return None;
            }
            bucket.spend(now, *gap, Duration::from_millis(2));
            self.next += 1;
            return Some(self.next - 1);
        }
        if now < self.held_until {
            return None;
        }
        let number = match self.again.take() {
            Some(number) => number,
            None if now < self.until && self.next < self.acked + self.window as u64 => {
                self.next += 1;
                self.next - 1
            }
            None => return None,
        };
        self.expires_at.get_or_insert(now + self.timeout);
        Some(number)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let begins = Some(self.from).filter(|&at| at > now);
        let paced = self
            .fixed
            .as_ref()
            .filter(|_| now < self.until)
            .and_then(|(bucket, _)| bucket.ready_at(now));
        let held = Some(self.held_until).filter(|&at| at > now);
        let waits = begins.into_iter().chain(paced).chain(held);
        waits.chain(self.expires_at).min()
    }
}

impl End {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        if frame[14] != self.id || frame[..6] != self.own.octets() {
            return;
        }
        let number = u64::from_be_bytes(frame[15..23].try_into().expect("eight bytes"));
        match &mut self.part {
            Part::Source(source) => source.on_ack(now, number),
            Part::Sink {
                expected,
                beyond,
                acks,
                came,
            } => {
                came.push(now);
                beyond.insert(number);
                while beyond.remove(expected) {
                    *expected += 1;
                }
                // Repeated frames are acknowledged, but not kept.
                *beyond = beyond.split_off(expected);
                acks.push_back(*expected);
            }
        }
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let (number, bytes) = match &mut self.part {
            Part::Source(source) => (source.poll(now)?, FULL_BYTES),
            Part::Sink { acks, .. } => (acks.pop_front()?, SHORT_BYTES),
        };
        buffer[..bytes].fill(0);
        buffer[..6].copy_from_slice(&self.peer.octets());
        buffer[6..12].copy_from_slice(&self.own.octets());
        buffer[12..14].copy_from_slice(&IP);
        buffer[14] = self.id;
        buffer[15..23].copy_from_slice(&number.to_be_bytes());
        Some(bytes)
    }
}

/// A host with a member of a session, ends of flows, or both, and the counters of its interface.
#[derive(Debug)]
pub struct BusyHost {
    member: Option<Host>,
    address: MacAddr,
    group: MacAddr,
    ends: Vec<End>,
    counted: LinkReading,
    read_at: Instant,
    turn: usize,
    /// Whether the interface's counters include frames that are lost behind it, one in this number.
    pub loses_one_in: Option<u64>,
    arrived: u64,
}

impl BusyHost {
    /// Creates host `number` with a member of `group` and its ends of `flows`.
    pub fn new(number: usize, group: &str, member: Option<Host>, flows: &[Flow]) -> BusyHost {
        let end = |(id, flow): (usize, &Flow)| {
            let sink = || Part::Sink {
                expected: 0,
                beyond: BTreeSet::new(),
                acks: VecDeque::new(),
                came: Vec::new(),
            };
            let (peer, part) = match () {
                () if flow.from == number => (flow.to, Part::Source(Box::new(Source::new(flow)))),
                () if flow.to == number => (flow.from, sink()),
                () => return None,
            };
            Some(End {
                id: id as u8,
                own: host_mac(number),
                peer: host_mac(peer),
                part,
            })
        };
        BusyHost {
            member,
            address: host_mac(number),
            group: group_mac(group),
            ends: flows.iter().enumerate().filter_map(end).collect(),
            counted: LinkReading::default(),
            read_at: Instant::START,
            turn: 0,
            loses_one_in: None,
            arrived: 0,
        }
    }

    pub fn member(&self) -> Option<&Host> {
        self.member.as_ref()
    }

    pub fn turn(&mut self, now: Instant) -> Option<Instant> {
        self.member.as_mut().and_then(|member| turn(member, now))
    }

    /// Returns the bits of the flow to this host that arrived `within` a period.
    pub fn came_bits(&self, within: Range<Duration>) -> f64 {
        let came = self.ends.iter().filter_map(|end| {
            if let Part::Sink { came, .. } = &end.part {
                Some(came)
            } else {
                None
            }
        });
        let (from, to) = (Instant::START + within.start, Instant::START + within.end);
        let frames: usize = came
            .map(|came| came.iter().filter(|&&at| from <= at && at < to).count())
            .sum();
        (frames * FULL_BYTES * 8) as f64
    }

    fn is_over(&self) -> bool {
        match &self.member {
            Some(Participant::Root(root, _)) => root.is_over(),
            Some(Participant::Receiver(receiver, _)) => receiver.is_over(),
            None => true,
        }
    }

    fn read_link(&mut self, now: Instant) {
        if self.read_at > now || self.is_over() {
            return;
        }
        self.read_at = now + READING;
        match &mut self.member {
            Some(Participant::Root(root, _)) => root.note_link(now, self.counted),
            Some(Participant::Receiver(receiver, _)) => receiver.note_link(now, self.counted),
            None => {}
        }
    }
}

fn count(passed: &mut PassedBytes, frame: &[u8], is_own: bool) {
    passed.all += frame.len() as u64;
    passed.own += if is_own { frame.len() as u64 } else { 0 };
    passed.ip += if frame[12..14] == IP {
        frame.len() as u64 - 14
    } else {
        0
    };
}

impl Machine for BusyHost {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        let is_for_us = [
            self.address.octets(),
            self.group.octets(),
            MacAddr::BROADCAST.octets(),
        ]
        .iter()
        .any(|address| frame[..6] == *address);
        let is_own = frame[12..14] == OURS && is_for_us;
        self.arrived += 1;
        if is_own
            && self
                .loses_one_in
                .is_some_and(|one_in| self.arrived.is_multiple_of(one_in))
        {
            self.counted.received.all += frame.len() as u64;
            return;
        }
        count(&mut self.counted.received, frame, is_own);
        match &mut self.member {
            Some(member) if is_own => member.handle_frame(now, frame),
            _ if frame[12..14] == IP => self
                .ends
                .iter_mut()
                .for_each(|end| end.handle_frame(now, frame)),
            _ => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.member
            .iter_mut()
            .for_each(|member| member.handle_timeout(now));
        for end in &mut self.ends {
            if let Part::Source(source) = &mut end.part {
                source.handle_timeout(now);
            }
        }
        self.read_link(now);
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let parts = self.ends.len() + 1;
        for _ in 0..parts {
            self.turn = (self.turn + 1) % parts;
            let is_own = self.turn == 0;
            let length = match &mut self.member {
                Some(member) if is_own => member.poll_transmit(now, buffer),
                None if is_own => None,
                _ => self.ends[self.turn - 1].poll_transmit(now, buffer),
            };
            if let Some(length) = length {
                count(&mut self.counted.sent, &buffer[..length], is_own);
                return Some(length);
            }
        }
        None
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let member = self
            .member
            .as_ref()
            .and_then(|member| member.poll_timeout(now));
        let ends = self.ends.iter().filter_map(|end| match &end.part {
            Part::Source(source) => source.poll_timeout(now),
            Part::Sink { .. } => None,
        });
        let read = Some(self.read_at).filter(|_| !self.is_over());
        let own = ends.chain(read).min().map(|at| Deadline {
            at,
            why: Timer("traffic"),
        });
        member.into_iter().chain(own).min()
    }
}
