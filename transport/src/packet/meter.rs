//! Byte counters of an interface: all its traffic, and that of one socket of this program.

use super::interface::{netlink, passed_bytes};
use super::{Counters, Interface};
use crate::Instant;
use crate::link::{LinkReading, PassedBytes};
use crate::lock::Mutex;
use crate::wire::ETHERNET_BYTES;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Interval of readings, each of which takes a tenth of a millisecond.
const INTERVAL: Duration = Duration::from_millis(50);
const ANSWER_BYTES: usize = 1 << 15;

/// Readings of a port's [meter](super::Port::meter): the newest one, until it is taken.
#[derive(Clone, Debug, Default)]
pub struct LinkReadings(Arc<Mutex<Option<LinkReading>>>);

impl LinkReadings {
    pub fn take(&self) -> Option<LinkReading> {
        self.0.lock().take()
    }
}

#[derive(Debug)]
pub(super) struct Meter {
    netlink: OwnedFd,
    answer: Vec<u8>,
    due_at: Instant,
    readings: LinkReadings,
}

impl Meter {
    pub(super) fn new() -> Option<Meter> {
        let (netlink, answer) = (netlink().ok()?, vec![0; ANSWER_BYTES]);
        Some(Meter {
            netlink,
            answer,
            due_at: Instant::START,
            readings: LinkReadings::default(),
        })
    }

    pub(super) fn readings(&self) -> LinkReadings {
        self.readings.clone()
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due_at <= now
    }

    /// Reads the interface, and only then the port's counters: bytes that pass meanwhile count as
    /// the port's own, never as those of others. Each frame has `ip_bytes` of headers of IP and UDP
    /// on the wire, and those that have any are no IP packets of others.
    pub(super) fn read(
        &mut self,
        now: Instant,
        interface: &Interface,
        ip_bytes: usize,
        counters: impl FnOnce() -> Counters,
    ) {
        self.due_at = now + INTERVAL;
        let passed = passed_bytes(self.netlink.as_fd(), interface, &mut self.answer);
        let Some([received, sent]) = passed else {
            return;
        };
        let [received_ip, sent_ip] = passed_ip_bytes();
        let counters = counters();
        let reading = |all, ip, own_bytes: u64, frames: u64| {
            let own = own_bytes + frames * ip_bytes as u64;
            let own_ip = if ip_bytes > 0 {
                own.saturating_sub(frames * ETHERNET_BYTES as u64)
            } else {
                0
            };
            PassedBytes {
                all,
                own,
                ip: u64::saturating_sub(ip, own_ip),
            }
        };
        let sent = reading(sent, sent_ip, counters.bytes_sent, counters.frames_sent);
        let received = reading(
            received,
            received_ip,
            accepted_bytes(&counters),
            counters.kernel_accepted,
        );
        *self.readings.0.lock() = Some(LinkReading { sent, received });
    }
}

/// Returns the bytes that passed the filter in the kernel. Frames that still wait, or were dropped,
/// count by the mean length.
fn accepted_bytes(counters: &Counters) -> u64 {
    let waiting = counters
        .kernel_accepted
        .saturating_sub(counters.frames_received);
    let mean = counters.bytes_received / counters.frames_received.max(1);
    counters.bytes_received + waiting * mean
}

/// Returns the bytes of IP packets received and sent in the calling thread's network namespace.
fn passed_ip_bytes() -> [u64; 2] {
    let read = |name: &str| {
        fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default()
    };
    let (four, six) = (of_netstat(&read("netstat")), of_snmp6(&read("snmp6")));
    [four[0] + six[0], four[1] + six[1]]
}

fn of_netstat(text: &str) -> [u64; 2] {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("IpExt:"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else {
        return [0; 2];
    };
    let numbers = |wanted: &str| {
        let mut pairs = names.split_whitespace().zip(values.split_whitespace());
        pairs
            .find(|(name, _)| *name == wanted)
            .and_then(|(_, value)| value.parse().ok())
            .unwrap_or(0)
    };
    [numbers("InOctets"), numbers("OutOctets")]
}

fn of_snmp6(text: &str) -> [u64; 2] {
    let number = |wanted: &str| {
        let mut lines = text.lines().map(str::split_whitespace);
        lines
            .find_map(|mut words| (words.next()? == wanted).then(|| words.next()?.parse().ok())?)
            .unwrap_or(0)
    };
    [number("Ip6InOctets"), number("Ip6OutOctets")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_ip_are_found_by_their_names() {
        let netstat = "TcpExt: A InOctets\nTcpExt: 1 99\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 0 77 88\n";
        assert_eq!(of_netstat(netstat), [77, 88]);
        assert_eq!(
            of_snmp6("Ip6InReceives   5\nIp6InOctets \t 41\nIp6OutOctets 42\n"),
            [41, 42]
        );
        for odd in [
            "",
            "IpExt:",
            "IpExt: InOctets\nIpExt:\n",
            "Ip6InOctets\nIp6OutOctets x",
        ] {
            assert_eq!(
                (of_netstat(odd), of_snmp6(odd)),
                ([0; 2], [0; 2]),
                "{odd:?}"
            );
        }
    }

    #[test]
    fn frames_that_wait_in_the_ring_are_the_ports_own() {
        let counters = Counters {
            frames_received: 10,
            bytes_received: 1000,
            kernel_accepted: 15,
            ..Counters::default()
        };
        assert_eq!(accepted_bytes(&counters), 1500);
        assert_eq!(accepted_bytes(&Counters::default()), 0);
    }
}
