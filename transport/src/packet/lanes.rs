//! Two interfaces of one host (*lanes*): by which of them a host is reached, and a frame leaves.
//!
//! A host is known by the address of its first interface: frames are written, and their checksums
//! and tags made, with the first interfaces' addresses. On the second interface frames travel
//! between the addresses there, and to groups of their own; the port that receives them puts the
//! first interfaces' addresses back. Hosts learn each other's second addresses from LANE frames
//! (docs/protocol/frames.md §4), which also say which interfaces work.

use crate::Instant;
use crate::wire::{
    ETHERNET_BYTES, EtherType, EthernetHeader, Flags, Header, Kind, MacAddr, OVERHEAD_BYTES, Rank,
    StreamId, parse, seal,
};
use std::collections::HashMap;
use std::time::Duration;

pub(super) const LANES: usize = 2;
/// Interval of LANE frames among few hosts: the loss of an interface elsewhere is known after
/// `LASTS` of them. Per `HOSTS` hosts the interval grows by as much again, so that no host hears
/// more than some 256 of them in a second.
const INTERVAL: Duration = Duration::from_millis(250);
const HOSTS: usize = 64;
const LASTS: u32 = 4;
/// Least interval of LANE frames when there is news.
const AT_ONCE: Duration = Duration::from_millis(20);
/// Validity of an answer whether all members hear a lane.
const GROUP_LASTS: Duration = Duration::from_millis(10);
const MAX_PEERS: usize = 1 << 14;
const MAX_HEARD: usize = 1 << 10;
const BODY_BYTES: usize = 9;
const KIND_AT: usize = ETHERNET_BYTES + 3;
/// Bits of a group address's first byte that set the groups of second interfaces, and those of
/// LANE frames on first interfaces, apart. Groups here have neither.
const OF_SECOND: u8 = 0x04;
const OF_FIRST: u8 = 0x08;

/// Ways of a frame out of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    Either,
    One(usize),
    /// A copy by each: some hosts are reached by one only, others by the other.
    Both,
    /// Loss, as on a cable: nobody there is reached.
    None,
}

/// News of a session for its port of two interfaces: the hosts that hear what is for all, and
/// whether receivers drop what comes out of order, so that only one lane may carry data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneTerms {
    /// Addresses of the hosts, if they are known.
    pub members: Option<Vec<MacAddr>>,
    /// Whether data leave by one interface only.
    pub in_order: bool,
}

#[derive(Clone, Copy, Debug)]
struct PeerLanes {
    second: MacAddr,
    /// Time until which it is believed to hear each interface.
    until: [Option<Instant>; LANES],
    lasts: Duration,
    /// Length of the last LANE frame that its second interface sent: longer frames may not pass.
    passes: usize,
}

/// Interfaces by which hosts are reached, and the length of the frames that surely pass by the
/// second.
type Reach = ([bool; LANES], usize);

/// State of both lanes of this host. Arrivals are noted without a clock, and dated by `turn`.
#[derive(Debug)]
pub(super) struct InterfacePair {
    own: [MacAddr; LANES],
    group: MacAddr,
    ether_type: EtherType,
    up: [bool; LANES],
    peers: HashMap<MacAddr, PeerLanes>,
    first_of: HashMap<MacAddr, MacAddr>,
    heard: Vec<(usize, MacAddr)>,
    has_news: bool,
    said_at: Option<Instant>,
    says_at: Instant,
    terms: LaneTerms,
    group_heard: Option<(Instant, Reach)>,
    /// Length of the longest frame heard.
    longest: usize,
}

impl InterfacePair {
    pub(super) fn new(
        own: [MacAddr; LANES],
        group: MacAddr,
        ether_type: EtherType,
    ) -> InterfacePair {
        InterfacePair {
            own,
            group,
            ether_type,
            up: [true; LANES],
            peers: HashMap::new(),
            first_of: HashMap::new(),
            heard: Vec::new(),
            has_news: true,
            said_at: None,
            says_at: Instant::START,
            terms: LaneTerms::default(),
            group_heard: None,
            longest: 0,
        }
    }

    pub(super) fn set_terms(&mut self, terms: LaneTerms) {
        (self.terms, self.group_heard) = (terms, None);
    }

    pub(super) fn up(&self) -> [bool; LANES] {
        self.up
    }

    /// Dates what was heard since the last call; `up` says which own interfaces work. Returns
    /// whether a LANE frame is due on each of those.
    pub(super) fn turn(&mut self, now: Instant, up: [bool; LANES]) -> bool {
        for (lane, first) in std::mem::take(&mut self.heard) {
            if let Some(peer) = self.peers.get_mut(&first) {
                peer.until[lane] = Some(now + peer.lasts);
            }
        }
        if std::mem::replace(&mut self.up, up) != up {
            (self.has_news, self.group_heard) = (true, None);
        }
        let soon = self.said_at.is_none_or(|at| now >= at + AT_ONCE);
        let is_due = now >= self.says_at || (self.has_news && soon);
        if is_due {
            (self.has_news, self.said_at) = (false, Some(now));
            self.says_at = now + self.interval();
        }
        is_due
    }

    /// Has LANE frames sent again soon, as one found no room.
    pub(super) fn say_again(&mut self) {
        self.has_news = true;
    }

    fn interval(&self) -> Duration {
        INTERVAL * (1 + self.peers.len() / HOSTS) as u32
    }

    /// Writes the LANE frame of an interface; returns its length. The second interface's is as long
    /// as the longest frame heard: its network may have a smaller MTU.
    pub(super) fn write(&self, lane: usize, buffer: &mut [u8]) -> usize {
        let lasts = (self.interval() * LASTS).as_millis().min(u16::MAX.into()) as u16;
        let longest = if lane == 0 { 0 } else { self.longest };
        let payload_bytes = longest
            .min(buffer.len())
            .saturating_sub(OVERHEAD_BYTES)
            .max(BODY_BYTES);
        let body = &mut buffer[OVERHEAD_BYTES..][..payload_bytes];
        body.fill(0);
        body[..6].copy_from_slice(&self.own[0].octets());
        body[6] = (0..LANES).map(|at| u8::from(self.up[at]) << at).sum();
        body[7..BODY_BYTES].copy_from_slice(&lasts.to_be_bytes());
        let ethernet = EthernetHeader {
            source: self.own[lane],
            destination: lane_group(self.group, lane),
            ether_type: self.ether_type,
        };
        let header = Header {
            kind: Kind::LANE,
            session: 0,
            stream: StreamId(lane as u16 + 1),
            rank: Rank::NONE,
            epoch: 0,
            flags: Flags::default(),
            sequence: 0,
            stamp: 0,
        };
        seal(buffer, ethernet, &header, payload_bytes)
    }

    /// Takes a frame that came by a lane: a LANE frame itself, else only its source. Returns
    /// whether it is for the machine.
    pub(super) fn hear(&mut self, lane: usize, frame: &[u8]) -> bool {
        if frame.get(KIND_AT) == Some(&Kind::LANE.0) {
            self.learn(lane, frame);
            return false;
        }
        let Some(source) = address(frame, 6) else {
            return false;
        };
        if frame.len() > self.longest {
            (self.longest, self.has_news) = (frame.len(), true);
        }
        let first = if lane == 0 {
            Some(source)
        } else {
            self.first_of.get(&source).copied()
        };
        if let Some(first) = first {
            self.note(lane, first);
        }
        first.is_some()
    }

    fn note(&mut self, lane: usize, first: MacAddr) {
        if self.heard.last() != Some(&(lane, first)) && self.heard.len() < MAX_HEARD {
            self.heard.push((lane, first));
        }
    }

    fn learn(&mut self, lane: usize, frame: &[u8]) {
        let bytes = frame.len();
        let Ok(frame) = parse(frame) else { return };
        let (source, Some(body)) = (frame.source, frame.payload.first_chunk::<BODY_BYTES>()) else {
            return;
        };
        let [a, b, c, d, e, f, up, lasts @ ..] = *body;
        let first = MacAddr::new(a, b, c, d, e, f);
        let is_of_lane = usize::from(frame.header.stream.0) == lane + 1;
        let is_known = self.peers.contains_key(&first);
        let is_host = |mac: MacAddr| !mac.is_multicast() && mac != MacAddr::ZERO;
        let is_sound = is_host(first)
            && is_host(source)
            && first != self.own[0]
            && (lane > 0 || source == first)
            && (is_known || self.peers.len() < MAX_PEERS);
        if !is_of_lane || !is_sound {
            return;
        }
        let lasts = Duration::from_millis(u16::from_be_bytes(lasts).into());
        let peer = self.peers.entry(first).or_insert(PeerLanes {
            second: MacAddr::ZERO,
            until: [None; LANES],
            lasts,
            passes: 0,
        });
        peer.lasts = lasts.max(INTERVAL);
        if lane > 0 {
            // What another host has claimed since is not this one's to take away.
            if self.first_of.get(&peer.second) == Some(&first) {
                self.first_of.remove(&peer.second);
            }
            self.first_of.insert(source, first);
            (peer.second, peer.passes) = (source, bytes);
        }
        for at in (0..LANES).filter(|at| up >> at & 1 == 0) {
            peer.until[at] = None;
        }
        self.group_heard = None;
        // Of a new host the other interface's frame is not far behind; and this one is new to it.
        self.has_news |= !is_known;
        for at in (0..LANES).filter(|&at| (at == lane || !is_known) && up >> at & 1 == 1) {
            self.note(at, first);
        }
    }

    fn reach(&self, now: Instant, first: MacAddr) -> Reach {
        let alone = ([self.up[0], false], 0);
        let Some(peer) = self.peers.get(&first) else {
            return alone;
        };
        let is_heard = |lane: usize| peer.until[lane].is_some_and(|until| now <= until);
        let by_second = self.up[1] && is_heard(1) && peer.second != MacAddr::ZERO;
        let reach = [self.up[0] && is_heard(0), by_second];
        // A host of which nothing is heard by either is tried by the first.
        if reach == [false; LANES] {
            alone
        } else {
            (reach, peer.passes)
        }
    }

    fn group_reach(&mut self, now: Instant) -> Reach {
        if let Some((at, reach)) = self.group_heard
            && now.since(at) < GROUP_LASTS
        {
            return reach;
        }
        let all = |members: &mut dyn Iterator<Item = MacAddr>| {
            members
                .filter(|member| *member != self.own[0])
                .map(|member| self.reach(now, member))
                .fold((self.up, usize::MAX), |(all, least), (one, passes)| {
                    ([0, 1].map(|lane| all[lane] && one[lane]), least.min(passes))
                })
        };
        let reach = match &self.terms.members {
            Some(members) => all(&mut members.iter().copied()),
            // Those without a second interface are not known by their frames.
            None => ([all(&mut self.peers.keys().copied()).0[0], false], 0),
        };
        self.group_heard = Some((now, reach));
        reach
    }

    /// Returns by which interface a frame of a length, as the machine wrote it, leaves.
    pub(super) fn exit(&mut self, now: Instant, frame: &[u8], bytes: usize) -> Exit {
        let Some(to) = address(frame, 0) else {
            return Exit::None;
        };
        let is_data = frame
            .get(KIND_AT)
            .is_some_and(|&kind| [Kind::DATA, Kind::PARITY].contains(&Kind(kind)));
        let (mut reach, passes) = if to.is_multicast() {
            self.group_reach(now)
        } else {
            self.reach(now, to)
        };
        if to.is_multicast() && reach == [false; LANES] {
            if self.up == [true; LANES] {
                return Exit::Both;
            }
            reach = self.up;
        }
        let is_split = is_data && !self.terms.in_order && bytes <= passes;
        match reach {
            [true, true] if is_split => Exit::Either,
            [true, _] => Exit::One(0),
            [false, true] => Exit::One(1),
            [false, false] => Exit::None,
        }
    }

    /// Puts the addresses of the second interfaces into a frame that leaves by it.
    pub(super) fn address_second(&self, frame: &mut [u8]) {
        let Some(to) = address(frame, 0) else { return };
        let to = if to == MacAddr::BROADCAST {
            to
        } else if to.is_multicast() {
            second_group(to)
        } else {
            self.peers.get(&to).map_or(to, |peer| peer.second)
        };
        frame[..6].copy_from_slice(&to.octets());
        frame[6..12].copy_from_slice(&self.own[1].octets());
    }

    /// Writes into `whole` the frame that came by the second interface as it was written, with the
    /// first interfaces' addresses; returns its length, if its sender is known.
    pub(super) fn address_first(&self, frame: &[u8], whole: &mut [u8]) -> Option<usize> {
        let (to, source) = (address(frame, 0)?, address(frame, 6)?);
        let from = self.first_of.get(&source)?;
        let whole = whole.get_mut(..frame.len())?;
        whole.copy_from_slice(frame);
        let to = if to == self.own[1] {
            self.own[0]
        } else if to == MacAddr::BROADCAST {
            to
        } else {
            second_group(to)
        };
        whole[..6].copy_from_slice(&to.octets());
        whole[6..12].copy_from_slice(&from.octets());
        Some(frame.len())
    }
}

fn address(frame: &[u8], at: usize) -> Option<MacAddr> {
    let (octets, _) = frame.get(at..)?.split_first_chunk::<6>()?;
    Some(MacAddr::from(*octets))
}

fn with_bit(mac: MacAddr, bit: u8) -> MacAddr {
    let [a, b, c, d, e, f] = mac.octets();
    MacAddr::new(a ^ bit, b, c, d, e, f)
}

/// Returns the group of second interfaces that stands for a group, and the reverse.
pub(super) fn second_group(group: MacAddr) -> MacAddr {
    with_bit(group, OF_SECOND)
}

/// Returns the group of the LANE frames of an interface.
pub(super) fn lane_group(group: MacAddr, lane: usize) -> MacAddr {
    with_bit(group, if lane == 0 { OF_FIRST } else { OF_SECOND })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Guard;
    use crate::wire::Identity;

    const GROUP: MacAddr = MacAddr::new(3, 1, 2, 3, 4, 5);

    fn mac(lane: u8, host: u8) -> MacAddr {
        MacAddr::new(2, 0, 0, lane, 0, host)
    }

    fn host(host: u8) -> InterfacePair {
        InterfacePair::new([mac(0, host), mac(1, host)], GROUP, EtherType::DEFAULT)
    }

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    fn lane_frame(of: &InterfacePair, lane: usize) -> Vec<u8> {
        let mut frame = vec![0; 1514];
        let length = of.write(lane, &mut frame);
        frame.truncate(length);
        frame
    }

    fn framed(kind: Kind, from: u8, to: MacAddr) -> Vec<u8> {
        let identity = Identity {
            session: 7,
            stream: StreamId(1),
            rank: Rank(3),
            mac: mac(0, from),
            ether_type: EtherType::DEFAULT,
            guard: Guard::Plain,
        };
        let mut frame = vec![0; 1514];
        let length = identity.write(&mut frame, to, &identity.header(kind), b"few bytes");
        frame.truncate(length);
        frame
    }

    fn exit(of: &mut InterfacePair, millis: u64, frame: &[u8]) -> Exit {
        of.exit(at(millis), frame, frame.len())
    }

    /// Two hosts that have heard each other on these lanes.
    fn acquainted(lanes: &[usize]) -> [InterfacePair; 2] {
        let [mut one, mut other] = [1, 2].map(host);
        for &lane in lanes {
            other.hear(lane, &lane_frame(&one, lane));
            one.hear(lane, &lane_frame(&other, lane));
        }
        one.turn(at(0), [true; 2]);
        other.turn(at(0), [true; 2]);
        [one, other]
    }

    #[test]
    fn a_frame_of_the_second_interface_arrives_as_it_was_written() {
        let [one, mut other] = acquainted(&[0, 1]);
        for to in [mac(0, 2), GROUP, MacAddr::BROADCAST] {
            let frame = framed(Kind::DATA, 1, to);
            let mut on_wire = frame.clone();
            one.address_second(&mut on_wire);
            assert_eq!(on_wire[6..12], mac(1, 1).octets());
            assert_ne!(on_wire[..6], GROUP.octets(), "a group of its own");
            assert!(other.hear(1, &on_wire));
            let mut whole = vec![0; 1514];
            let length = other.address_first(&on_wire, &mut whole);
            assert_eq!(length.map(|length| &whole[..length]), Some(&frame[..]));
            assert!(parse(&whole[..frame.len()]).is_ok());
        }
        let mut stranger = host(3);
        let mut on_wire = framed(Kind::DATA, 1, GROUP);
        one.address_second(&mut on_wire);
        assert!(!stranger.hear(1, &on_wire), "it has not heard of that host");
        assert_eq!(stranger.address_first(&on_wire, &mut [0; 1514]), None);
    }

    #[test]
    fn a_forged_lane_frame_does_no_harm_beyond_the_next_true_one() {
        let [one, mut other] = acquainted(&[0, 1]);
        let first_of_one = |other: &InterfacePair| other.first_of.get(&mac(1, 1)).copied();
        other.hear(1, &lane_frame(&forger(), 1));
        assert_eq!(first_of_one(&other), Some(mac(0, 9)));
        other.hear(1, &lane_frame(&one, 1));
        assert_eq!(first_of_one(&other), Some(mac(0, 1)));
        // Nor does the forger take it away when it changes its own address.
        other.hear(1, &lane_frame(&host(9), 1));
        assert_eq!(first_of_one(&other), Some(mac(0, 1)));
    }

    /// A host that claims the second address of host 1.
    fn forger() -> InterfacePair {
        InterfacePair::new([mac(0, 9), mac(1, 1)], GROUP, EtherType::DEFAULT)
    }

    #[test]
    fn data_take_either_lane_and_the_rest_the_first() {
        let [mut one, _] = acquainted(&[0, 1]);
        let mut leaves = |kind, to| exit(&mut one, 10, &framed(kind, 1, to));
        assert_eq!(leaves(Kind::DATA, mac(0, 2)), Exit::Either);
        assert_eq!(leaves(Kind::PARITY, mac(0, 2)), Exit::Either);
        assert_eq!(leaves(Kind::ACK, mac(0, 2)), Exit::One(0));
        assert_eq!(
            leaves(Kind::DATA, mac(0, 3)),
            Exit::One(0),
            "that host has one interface, for all that is known"
        );
        assert_eq!(leaves(Kind::DATA, GROUP), Exit::One(0), "nobody is named");
        let members = |members: &[u8]| LaneTerms {
            members: Some(members.iter().map(|&host| mac(0, host)).collect()),
            in_order: false,
        };
        one.set_terms(members(&[1, 2]));
        assert_eq!(
            exit(&mut one, 20, &framed(Kind::DATA, 1, GROUP)),
            Exit::Either
        );
        assert_eq!(
            exit(&mut one, 20, &framed(Kind(19), 1, GROUP)),
            Exit::One(0)
        );
        one.set_terms(members(&[1, 2, 3]));
        assert_eq!(
            exit(&mut one, 20, &framed(Kind::DATA, 1, GROUP)),
            Exit::One(0)
        );
        one.set_terms(LaneTerms {
            in_order: true,
            ..members(&[1, 2])
        });
        assert_eq!(
            exit(&mut one, 20, &framed(Kind::DATA, 1, GROUP)),
            Exit::One(0)
        );
        assert_eq!(
            exit(&mut one, 20, &framed(Kind::DATA, 1, mac(0, 2))),
            Exit::One(0)
        );
    }

    #[test]
    fn what_left_by_an_interface_that_is_lost_leaves_by_the_other() {
        let data = |to| framed(Kind::DATA, 1, to);
        for lost in 0..LANES {
            // Here.
            let [mut one, mut other] = acquainted(&[0, 1]);
            let up = [0, 1].map(|lane| lane != lost);
            assert!(one.turn(at(100), up), "it says so at once");
            assert_eq!(exit(&mut one, 100, &data(mac(0, 2))), Exit::One(1 - lost));
            assert_eq!(exit(&mut one, 100, &data(GROUP)), Exit::One(1 - lost));
            // There, when it is notified, and when nothing is heard any more.
            other.hear(1 - lost, &lane_frame(&one, 1 - lost));
            other.turn(at(100), [true; 2]);
            let to_one = |lanes: &mut InterfacePair, millis| {
                exit(lanes, millis, &framed(Kind::ACK, 2, mac(0, 1)))
            };
            assert_eq!(to_one(&mut other, 100), Exit::One(1 - lost));
            let [mut other, one] = acquainted(&[0, 1]);
            other.hear(1 - lost, &lane_frame(&one, 1 - lost));
            other.turn(at(900), [true; 2]);
            let mut to_one = |millis| exit(&mut other, millis, &data(mac(0, 2)));
            assert_eq!(to_one(1000), Exit::Either);
            assert_eq!([1001, 1900].map(to_one), [Exit::One(1 - lost); 2]);
        }
    }

    #[test]
    fn data_take_the_second_only_if_frames_as_long_pass_there() {
        let [mut one, mut other] = acquainted(&[0, 1]);
        let mut data = framed(Kind::DATA, 1, mac(0, 2));
        assert_eq!(exit(&mut one, 10, &data), Exit::Either);
        data.resize(1514, 0);
        assert_eq!(exit(&mut one, 10, &data), Exit::One(0), "that is not known");
        other.hear(0, &data);
        assert!(other.turn(at(20), [true; 2]), "it answers at once");
        let (short, long) = (lane_frame(&other, 0), lane_frame(&other, 1));
        assert_eq!(
            (short.len(), long.len()),
            (OVERHEAD_BYTES + BODY_BYTES, 1514)
        );
        // The longer one does not pass.
        one.hear(0, &short);
        one.turn(at(20), [true; 2]);
        assert_eq!(exit(&mut one, 20, &data), Exit::One(0));
        one.hear(1, &long);
        one.set_terms(LaneTerms {
            members: Some(vec![mac(0, 1), mac(0, 2)]),
            in_order: false,
        });
        assert_eq!(exit(&mut one, 20, &data), Exit::Either);
        let mut to_all = framed(Kind::DATA, 1, GROUP);
        to_all.resize(1515, 0);
        assert_eq!(exit(&mut one, 20, &to_all[..1514]), Exit::Either);
        assert_eq!(exit(&mut one, 20, &to_all), Exit::One(0));
        // Where the first is lost there is no choice.
        one.turn(at(30), [false, true]);
        assert_eq!(exit(&mut one, 30, &to_all), Exit::One(1));
    }

    #[test]
    fn some_that_lack_the_first_and_some_that_lack_the_second_get_a_copy_by_each() {
        let [mut one, two] = acquainted(&[0, 1]);
        let mut three = host(3);
        three.turn(at(0), [false, true]);
        one.hear(1, &lane_frame(&three, 1));
        one.turn(at(0), [true; 2]);
        let members = [two.own[0], three.own[0], mac(0, 4)];
        one.set_terms(LaneTerms {
            members: Some(members.into()),
            in_order: false,
        });
        assert_eq!(exit(&mut one, 1, &framed(Kind::DATA, 1, GROUP)), Exit::Both);
    }

    #[test]
    fn lane_frames_are_rare_and_greet_who_is_new() {
        let [mut one, _] = acquainted(&[0, 1]);
        let said = (1..=1000).filter(|&millis| one.turn(at(millis), [true; 2]));
        assert_eq!(said.count(), 4, "in a second");
        one.hear(1, &lane_frame(&host(3), 1));
        let said = (1001..=1100).filter(|&millis| one.turn(at(millis), [true; 2]));
        assert_eq!(said.count(), 1, "for the new one");
        for other in 4..132 {
            one.hear(1, &lane_frame(&host(other), 1));
        }
        let said = (1101..=11_100).filter(|&millis| one.turn(at(millis), [true; 2]));
        assert!(
            (13..=15).contains(&said.count()),
            "130 hosts in ten seconds"
        );
    }

    #[test]
    fn lane_frames_that_cannot_be_are_of_no_effect() {
        let mut one = host(1);
        let frame = lane_frame(&host(2), 1);
        assert!(!one.hear(0, &frame), "it came by the other interface");
        for changed in 0..frame.len() {
            let mut damaged = frame.clone();
            damaged[changed] ^= 1;
            assert!(!one.hear(1, &damaged), "byte {changed}");
        }
        assert!(!one.hear(1, &frame[..20]) && !one.hear(1, &[]));
        one.hear(1, &lane_frame(&host(1), 1));
        let group = InterfacePair::new([GROUP, mac(1, 2)], GROUP, EtherType::DEFAULT);
        one.hear(1, &lane_frame(&group, 1));
        assert!(one.peers.is_empty() && one.first_of.is_empty());
        one.hear(1, &frame);
        assert_eq!(one.first_of.get(&mac(1, 2)), Some(&mac(0, 2)));
    }
}
