//! Path MTU check: a receiver must return a full-length frame before it may join.
//!
//! A switch port with a smaller MTU lets control messages pass and drops the data. This is the most
//! common mistake with jumbo frames, and a session with such a member would never end. So each host
//! is sent a PROBE of full length before it counts.
//!
//! A short PROBE goes first where a sender's address may be forged, one for each join request. Its
//! number cannot be guessed, so the ECHO proves the address.

use crate::measure::{FIRST_PING, write_ping};
use crate::membership::Station;
use ethbcast_transport::wire::{ETHERNET_BYTES, Frame, Identity};
use ethbcast_transport::{Deadline, Instant, MacAddr, Timer};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

const ANSWER_LIMIT: Duration = Duration::from_millis(100);
/// Number of PROBEs to a host. Of a thousand hosts behind links with 33 % loss, two to four remain
/// unreached by then; they send their join request again.
const TRIES: u32 = 12;
const MAX_UNANSWERED: u32 = 32;
/// Time after which all credit for PROBEs returns. Existing hosts reply within it, and addresses
/// that do not exist delay nobody. The resulting load is at most 40 Mbit/s at MTU 1500.
const REFILL: Duration = Duration::from_millis(10);
const TRIES_TOGETHER: u32 = 6;
const ALONE: Duration = Duration::from_millis(25);
/// Numbers among which that of a short PROBE is drawn: a host that has to guess it sends more than
/// a check returns.
const NUMBERS: u32 = 1 << 12;
const LATE_ROUND: Duration = Duration::from_millis(800);
/// Time between two PROBEs out of turn to a host.
const BETWEEN_HURRIED: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug)]
struct Check {
    nonce: u64,
    tries: u32,
    /// Number of the first full-length PROBE, or of the short one; zero before it.
    first_test: u32,
    sent_at: Option<Instant>,
    /// Whether a frame to the address has been answered, if that is needed.
    is_proved: bool,
    /// Time of the last PROBE out of turn.
    hurried_at: Option<Instant>,
}

/// Checks of the paths to hosts that have asked to join. PROBEs and ECHOs of many hosts can meet in
/// a short queue the same way each time, so the tries after the first [`TRIES_TOGETHER`] go to one
/// of the `late` hosts at a time. These are [`ALONE`] apart, the round trip of a full-length frame
/// on links of 2 Mbit/s; with many hosts they move closer together, so that a round takes no longer
/// than [`LATE_ROUND`].
#[derive(Clone, Debug)]
pub struct PathChecks {
    identity: Identity,
    payload_bytes: usize,
    checks: BTreeMap<MacAddr, Check>,
    queue: VecDeque<MacAddr>,
    late: VecDeque<MacAddr>,
    late_at: Instant,
    greetings: VecDeque<(MacAddr, u64)>,
    /// Hosts that get a PROBE out of turn, which counts as no try.
    hurried: VecDeque<MacAddr>,
    /// Hosts that have answered no short PROBE.
    unproved: Vec<MacAddr>,
    /// Secret from which the numbers of short PROBEs are derived, if addresses have to be proved.
    secret: Option<u64>,
    sent: VecDeque<(Instant, MacAddr)>,
    credit: u32,
    refill_at: Instant,
    next_test: u32,
    first_hop: usize,
}

impl PathChecks {
    pub fn new(identity: Identity, payload_bytes: usize) -> PathChecks {
        PathChecks {
            identity,
            payload_bytes,
            checks: BTreeMap::new(),
            queue: VecDeque::new(),
            late: VecDeque::new(),
            late_at: Instant::START,
            greetings: VecDeque::new(),
            hurried: VecDeque::new(),
            unproved: Vec::new(),
            secret: None,
            sent: VecDeque::new(),
            credit: MAX_UNANSWERED,
            refill_at: Instant::START,
            next_test: FIRST_PING,
            first_hop: usize::MAX,
        }
    }

    pub fn proving(self, secret: Option<u64>) -> PathChecks {
        PathChecks { secret, ..self }
    }

    pub fn set_first_hop(&mut self, mtu_bytes: usize) {
        self.first_hop = mtu_bytes;
    }

    /// Returns why long frames do not reach `host`, as far as their sender `station` can tell.
    pub fn why_unreached(&self, station: &Station, host: &str) -> String {
        let (mtu_bytes, own, passes) = (
            usize::from(station.mtu_bytes),
            &station.host,
            self.first_hop,
        );
        let bytes = mtu_bytes + ETHERNET_BYTES;
        if passes >= mtu_bytes {
            return format!(
                "control frames arrive, frames of {bytes} bytes do not: look for a smaller MTU on the way to {host}"
            );
        }
        let help = if passes > 0 {
            format!("send with --mtu {passes}, or raise")
        } else {
            "check".to_owned()
        };
        format!(
            "{own} itself sends no frames of {bytes} bytes, whatever the way to {host}: {help} the other end of \
             {own}'s interface (the MTU of a veth, the burst of a token bucket)"
        )
    }

    pub fn begin(&mut self, host: MacAddr, nonce: u64) {
        let is_proved = self.secret.is_none();
        let check = self.checks.entry(host).or_insert_with(|| {
            self.queue.extend(is_proved.then_some(host));
            Check {
                nonce,
                tries: 0,
                first_test: 0,
                sent_at: None,
                is_proved,
                hurried_at: None,
            }
        });
        check.nonce = nonce;
        if check.is_proved {
            return;
        }
        check.tries += 1;
        if check.tries <= TRIES {
            self.greetings.push_back((host, nonce));
        } else {
            self.checks.remove(&host);
            self.unproved.push(host);
        }
    }

    /// Sends `host` one PROBE more at once: by a frame that has just come from it, switches have
    /// learned its port. As that frame may be a replay, there is one such PROBE in
    /// [`BETWEEN_HURRIED`], behind the others.
    pub fn probe_now(&mut self, now: Instant, host: MacAddr) {
        let is_probed = |check: &&mut Check| check.is_proved && check.tries > 0;
        let Some(check) = self.checks.get_mut(&host).filter(is_probed) else {
            return;
        };
        if check
            .hurried_at
            .is_none_or(|at| at + BETWEEN_HURRIED <= now)
        {
            check.hurried_at = Some(now);
            self.hurried.push_back(host);
        }
    }

    pub fn is_open(&self, host: MacAddr, nonce: u64) -> bool {
        self.checks
            .get(&host)
            .is_some_and(|check| check.nonce == nonce)
    }

    pub fn greet(&mut self, host: MacAddr, nonce: u64) {
        self.greetings.push_back((host, nonce));
    }

    pub fn entries(&self) -> usize {
        self.checks.len()
            + self.queue.len()
            + self.late.len()
            + self.greetings.len()
            + self.hurried.len()
            + self.sent.len()
    }

    pub fn forget(&mut self, host: MacAddr) {
        self.checks.remove(&host);
    }

    pub fn on_echo(&mut self, frame: &Frame<'_>) -> Option<MacAddr> {
        let check = self
            .checks
            .get_mut(&frame.source)
            .filter(|check| check.tries > 0)?;
        if !check.is_proved {
            if check.first_test == frame.header.stamp {
                (check.is_proved, check.tries) = (true, 0);
                self.queue.push_back(frame.source);
            }
            return None;
        }
        let own = (check.first_test..self.next_test).contains(&frame.header.stamp);
        if !own || frame.payload.len() < self.payload_bytes {
            return None;
        }
        self.checks.remove(&frame.source);
        self.credit = (self.credit + 1).min(MAX_UNANSWERED);
        Some(frame.source)
    }

    pub fn handle_timeout(&mut self, now: Instant) -> Vec<MacAddr> {
        if self.refill_at <= now {
            (self.credit, self.refill_at) = (MAX_UNANSWERED, now + REFILL);
        }
        let mut unreached = std::mem::take(&mut self.unproved);
        while let Some(&(sent_at, host)) = self
            .sent
            .front()
            .filter(|(at, _)| *at + ANSWER_LIMIT <= now)
        {
            self.sent.pop_front();
            // Only the last PROBE of a check that is still open counts.
            let Some(check) = self
                .checks
                .get(&host)
                .filter(|check| check.sent_at == Some(sent_at))
            else {
                continue;
            };
            if check.tries < TRIES_TOGETHER {
                self.queue.push_back(host);
            } else if check.tries < TRIES {
                self.late.push_back(host);
            } else {
                self.checks.remove(&host);
                unreached.push(host);
            }
        }
        if self.late_at <= now && !self.late.is_empty() {
            self.late_at = now + ALONE.min(LATE_ROUND / self.late.len() as u32);
            self.queue.extend(self.late.pop_front());
        }
        unreached
    }

    pub fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        if let Some((host, nonce)) = self.greetings.pop_front() {
            let test = self.greeting(host, nonce);
            return Some(write_ping(buffer, &self.identity, host, (test, nonce), 0));
        }
        while self.credit > 0 {
            let (host, is_in_turn) = match self.queue.pop_front() {
                Some(host) => (host, true),
                None => (self.hurried.pop_front()?, false),
            };
            let Some(check) = self.checks.get_mut(&host) else {
                continue;
            };
            let test = self.next_test;
            if check.tries == 0 {
                check.first_test = test;
            }
            if is_in_turn {
                (check.tries, check.sent_at) = (check.tries + 1, Some(now));
                self.sent.push_back((now, host));
            }
            let nonce = check.nonce;
            self.credit -= 1;
            self.next_test = after(test);
            return Some(write_ping(
                buffer,
                &self.identity,
                host,
                (test, nonce),
                self.payload_bytes,
            ));
        }
        None
    }

    /// Returns the number of a short PROBE: the same each time until the host has proved its
    /// address. Later PROBEs have higher numbers, as hosts expect.
    fn greeting(&mut self, host: MacAddr, nonce: u64) -> u32 {
        let check = self.checks.get_mut(&host).filter(|check| !check.is_proved);
        if let Some(check) = &check
            && check.first_test != 0
        {
            return check.first_test;
        }
        let jump = self.secret.map_or(0, |secret| {
            let mut hasher = blake3::Hasher::new();
            hasher
                .update(&secret.to_be_bytes())
                .update(&host.octets())
                .update(&nonce.to_be_bytes());
            let hash = hasher.finalize();
            u32::from_be_bytes(hash.as_bytes()[..4].try_into().expect("four bytes")) % NUMBERS
        });
        let test = self.next_test.checked_add(jump).unwrap_or(FIRST_PING);
        self.next_test = after(test);
        check.into_iter().for_each(|check| check.first_test = test);
        test
    }

    pub fn poll_timeout(&self) -> Option<Deadline> {
        let waits = !self.queue.is_empty() || !self.hurried.is_empty();
        let refill = (self.credit == 0 && waits).then_some(self.refill_at);
        let late = (!self.late.is_empty()).then_some(self.late_at);
        let answer = self.sent.front().map(|(at, _)| *at + ANSWER_LIMIT);
        refill
            .into_iter()
            .chain(late)
            .chain(answer)
            .min()
            .map(|at| Deadline {
                at,
                why: Timer("path"),
            })
    }
}

fn after(test: u32) -> u32 {
    test.checked_add(1).unwrap_or(FIRST_PING)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Responder, kind};
    use ethbcast_transport::Part;
    use ethbcast_transport::wire::{EtherType, Guard, Rank, StreamId, parse};

    fn identity(last: u16) -> Identity {
        let mac = MacAddr::new(2, 0, 0, 0, (last >> 8) as u8, last as u8);
        let (stream, ether_type, guard) = (StreamId(0), EtherType::DEFAULT, Guard::Plain);
        Identity {
            session: 7,
            stream,
            rank: Rank::NONE,
            mac,
            ether_type,
            guard,
        }
    }

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    fn run(
        checks: &mut PathChecks,
        now: Instant,
        reaches: impl Fn(u16, usize) -> bool,
    ) -> Vec<MacAddr> {
        let (mut buffer, mut reached) = (vec![0; 9100], Vec::new());
        while let Some(length) = checks.poll_transmit(now, &mut buffer) {
            let to = u16::from_be_bytes([buffer[4], buffer[5]]);
            if !reaches(to, length) {
                continue;
            }
            reached.extend(reply(checks, now, &buffer[..length]));
        }
        reached
    }

    fn reply(checks: &mut PathChecks, now: Instant, probe: &[u8]) -> Option<MacAddr> {
        let to = u16::from_be_bytes([probe[4], probe[5]]);
        let mut responder = Responder::new(identity(to), 9000, None);
        let frame = parse(probe).expect("an own frame");
        assert_eq!(frame.header.kind, kind::PROBE);
        responder.handle_frame(now, &frame);
        let mut echo = vec![0; 9100];
        let length = responder.poll_transmit(now, &mut echo).expect("an answer");
        checks.on_echo(&parse(&echo[..length]).expect("a frame"))
    }

    #[test]
    fn a_thousand_that_are_there_are_reached_at_once_however_many_are_not() {
        let mut checks = PathChecks::new(identity(0), 8968);
        (1..=1000).for_each(|host| checks.begin(identity(host).mac, 1));
        assert_eq!(
            run(&mut checks, at(0), |_, length| length == 9014).len(),
            1000
        );
        assert_eq!(
            checks.poll_timeout().map(|deadline| deadline.at),
            Some(at(100))
        );
        assert!(checks.handle_timeout(at(100)).is_empty());
        // Every second host does not exist: it costs a moment, and no more.
        (1..=1000).for_each(|host| checks.begin(identity(host).mac, 1));
        let mut reached = 0;
        for tick in 0..20 {
            checks.handle_timeout(at(400 + 10 * tick));
            reached += run(&mut checks, at(400 + 10 * tick), |host, _| host % 2 == 0).len();
        }
        assert_eq!(reached, 500);
    }

    #[test]
    fn a_request_that_is_replayed_hurries_few_probes_and_costs_no_try() {
        let mut checks = PathChecks::new(identity(0), 1468);
        let mut buffer = vec![0; 1600];
        let (host, other) = (identity(1).mac, identity(2).mac);
        checks.begin(host, 1);
        let mut sent = BTreeMap::<MacAddr, u32>::new();
        let mut poll = |checks: &mut PathChecks, now| {
            while let Some(length) = checks.poll_transmit(now, &mut buffer) {
                parse(&buffer[..length]).expect("a PROBE");
                let to: [u8; 6] = buffer[..6].try_into().expect("an address");
                *sent.entry(MacAddr::from(to)).or_default() += 1;
            }
        };
        poll(&mut checks, at(0));
        (0..1000).for_each(|_| checks.probe_now(at(1), host));
        checks.begin(other, 1);
        poll(&mut checks, at(1));
        (0..1000).for_each(|_| checks.probe_now(at(40), host));
        poll(&mut checks, at(40));
        assert_eq!(checks.checks[&host].tries, 1);
        assert!(checks.entries() < 10, "{}", checks.entries());
        assert_eq!(sent, BTreeMap::from([(host, 2), (other, 1)]));
    }

    #[test]
    fn a_forged_address_gets_no_more_than_short_frames_and_a_host_that_answers_one_the_long_ones() {
        let mut checks = PathChecks::new(identity(0), 8968).proving(Some(7));
        let mut buffer = vec![0; 9100];
        let mut sent = Vec::new();
        for tick in 0..20 {
            checks.begin(identity(1).mac, 1);
            sent.extend(std::iter::from_fn(|| {
                checks.poll_transmit(at(100 * tick), &mut buffer)
            }));
            // A forger may know the numbers of PROBEs before and after.
            for stamp in FIRST_PING..FIRST_PING + 20 {
                let probe =
                    write_ping(&mut buffer, &identity(0), identity(1).mac, (stamp, 1), 8968);
                let probe = buffer[..probe].to_vec();
                assert_eq!(reply(&mut checks, at(100 * tick), &probe), None);
            }
            let unreached = checks.handle_timeout(at(100 * tick));
            assert_eq!(
                unreached.len(),
                usize::from(tick == 12),
                "after {tick} requests"
            );
        }
        assert!(
            sent.len() == 19 && sent.iter().all(|&bytes| bytes < 100),
            "one for each request: {sent:?}"
        );
        checks.begin(identity(2).mac, 1);
        assert_eq!(
            run(&mut checks, at(3000), |host, _| host == 2),
            [identity(2).mac]
        );
        assert_eq!(run(&mut checks, at(3000), |_, _| true), [], "once");
    }

    #[test]
    fn whom_only_short_frames_reach_is_found_out_after_some_tries() {
        let mut checks = PathChecks::new(identity(0), 8968);
        checks.begin(identity(1).mac, 1);
        for tick in 1..=12 {
            assert!(
                run(&mut checks, at(100 * tick - 100), |_, length| length
                    <= 1514)
                .is_empty()
            );
            let unreached = checks.handle_timeout(at(100 * tick));
            assert_eq!(
                unreached.len(),
                usize::from(tick == 12),
                "after {tick} tries"
            );
        }
        assert!(checks.poll_timeout().is_none());
    }

    #[test]
    fn a_host_whose_probes_are_lost_in_batches_is_probed_alone() {
        let mut checks = PathChecks::new(identity(0), 8968);
        (1..=13).for_each(|host| checks.begin(identity(host).mac, 1));
        let (mut buffer, mut reached, mut last) = (vec![0; 9100], 0, None);
        for now in (0..3000).map(at) {
            assert!(
                checks.handle_timeout(now).is_empty(),
                "{reached} of 13 were reached"
            );
            let mut tested = Vec::new();
            while checks.poll_transmit(now, &mut buffer).is_some() {
                tested.push(
                    parse(&buffer)
                        .map(|frame| frame.header.stamp)
                        .expect("an own frame"),
                );
            }
            // Of several PROBEs in flight at a time, none comes through.
            let alone =
                tested.len() == 1 && last.is_none_or(|before: Instant| now.since(before) >= ALONE);
            last = if tested.is_empty() { last } else { Some(now) };
            reached += u32::from(alone && reply(&mut checks, now, &buffer).is_some());
        }
        assert_eq!((reached, checks.poll_timeout()), (13, None));
    }

    #[test]
    fn a_crowd_that_nothing_reaches_is_found_out_in_seconds() {
        let mut checks = PathChecks::new(identity(0), 8968);
        (1..=1000).for_each(|host| checks.begin(identity(host).mac, 1));
        let (mut unreached, mut seconds) = (0, 0);
        while unreached < 1000 {
            seconds += 1;
            for now in (1000 * (seconds - 1)..1000 * seconds).map(at) {
                unreached += checks.handle_timeout(now).len();
                run(&mut checks, now, |_, _| false);
            }
        }
        assert!(seconds <= 15, "{seconds} s");
    }
}
