//! Measurement of the other traffic on a host's link, by the counters of its interface.

use crate::membership::codec::{BodyReader, BodyWriter};
use ethbcast_transport::{Instant, LinkReading, PassedBytes};
use std::collections::VecDeque;
use std::time::Duration;

const WINDOW: Duration = Duration::from_millis(100);
/// Time after which the newest reading is out of date.
const KEPT: Duration = Duration::from_millis(400);
/// Smallest part of a link, as a divisor, that counts as other traffic: interfaces may count check
/// sequences and tags, and hosts always exchange some frames.
const MIN_PART: u64 = 128;
/// Smallest part, as a divisor, that counts if the host's IP packets explain it. Their rate must be
/// one packet of 500 bytes in 100 ms or more: a flow that gets little through may want much.
const MIN_IP_PART: u64 = 2048;
const MIN_IP_RATE: u64 = 40;
/// Time over which the host's own best rate is measured: a burst into its queues is no rate.
const LASTS: Duration = Duration::from_millis(100);
/// A direction counts if it carries at least this part (a divisor) of this session's bytes in the
/// other direction: acknowledgements delay no other traffic.
const BULK_PART: u64 = 8;

/// Rates in one direction of a link, in kbit/s: of this port's frames, of all other frames, and of
/// the host's IP packets over any interface. The host sends these frames (`is_sent`) or receives
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkShare {
    pub is_sent: bool,
    pub own: u32,
    pub others: u32,
    pub ip: u32,
}

impl LinkShare {
    pub(super) fn write(self, out: &mut BodyWriter) {
        out.u8(u8::from(self.is_sent))
            .u32(self.own)
            .u32(self.others)
            .u32(self.ip);
    }

    pub(super) fn read(from: &mut BodyReader<'_>) -> Option<LinkShare> {
        Some(LinkShare {
            is_sent: from.u8()? != 0,
            own: from.u32()?,
            others: from.u32()?,
            ip: from.u32()?,
        })
    }
}

/// Bytes since the first reading.
#[derive(Clone, Copy, Debug, Default)]
struct Passed {
    own: u64,
    others: u64,
    ip: u64,
}

impl Passed {
    /// Adds what has passed between two readings. Counts never decrease: the interface's counter
    /// may lag behind the port's, which includes an estimate of the frames that wait in its ring.
    fn after(self, first: &PassedBytes, last: &PassedBytes) -> Passed {
        let [all, own, ip] = [
            last.all - first.all,
            last.own.saturating_sub(first.own),
            last.ip.saturating_sub(first.ip),
        ];
        Passed {
            own: self.own.max(own),
            others: self.others.max(all.saturating_sub(own)),
            ip: self.ip.max(ip),
        }
    }
}

/// Readings of a link: the first and the newest (`ends`), and the bytes sent and received by the
/// time of each (`passed`).
#[derive(Clone, Debug, Default)]
pub(super) struct LinkWatch {
    ends: Option<[LinkReading; 2]>,
    passed: VecDeque<(Instant, [Passed; 2])>,
    sent: SentBest,
}

/// Highest rate at which a host has sent, by its own counters, twice in a row. One reading is not
/// enough: at its start a session only fills buffers.
#[derive(Clone, Copy, Debug, Default)]
struct SentBest {
    since: Option<(Instant, PassedBytes)>,
    last: u64,
    kbits: u64,
}

impl SentBest {
    /// Takes a reading. The port also counts frames that wait in the kernel; the interface also
    /// counts other programs' frames and, on some cards, a second's bytes at once. So the smaller
    /// growth is taken as sent.
    fn note(&mut self, now: Instant, sent: PassedBytes) {
        let (at, before) = *self.since.get_or_insert((now, sent));
        if now.since(at) >= LASTS {
            let bytes = sent
                .own
                .saturating_sub(before.own)
                .min(sent.all - before.all);
            let last = std::mem::replace(&mut self.last, kbits(bytes, now.since(at)));
            self.kbits = self.kbits.max(self.last.min(last));
            self.since = Some((now, sent));
        }
    }
}

fn kbits(bytes: u64, lasts: Duration) -> u64 {
    // Bytes in a nanosecond are 8 000 000 kbit in a second.
    u64::try_from(u128::from(bytes) * 8_000_000 / lasts.as_nanos().max(1)).unwrap_or(u64::MAX)
}

impl LinkWatch {
    pub(super) fn note(&mut self, now: Instant, reading: LinkReading) {
        // An interface that was pulled out counts from zero.
        let is_sound = |last: &LinkReading| {
            reading.sent.all >= last.sent.all && reading.received.all >= last.received.all
        };
        let first = match self.ends {
            Some([first, last]) if is_sound(&last) => first,
            _ => {
                (self.passed, self.sent.since) = (VecDeque::new(), None);
                reading
            }
        };
        self.ends = Some([first, reading]);
        let [sent, received] = self
            .passed
            .back()
            .map_or_else(Default::default, |(_, passed)| *passed);
        let passed = [
            sent.after(&first.sent, &reading.sent),
            received.after(&first.received, &reading.received),
        ];
        self.sent.note(now, reading.sent);
        self.passed.push_back((now, passed));
        while self
            .passed
            .get(1)
            .is_some_and(|(at, _)| *at + WINDOW <= now)
        {
            self.passed.pop_front();
        }
    }

    /// Returns the highest rate of the host's own frames so far, in kbit/s; 0 if unknown.
    pub(super) fn best_sent(&self) -> u64 {
        self.sent.kbits
    }

    pub(super) fn sees_others(&self, now: Instant) -> bool {
        let rates = self.rates(now).unwrap_or_default();
        let bulk = rates.iter().map(|way| way.own).max().unwrap_or(0);
        rates
            .iter()
            .any(|way| u64::from(way.others) * MIN_PART > u64::from(bulk))
    }

    /// Returns the rates of the direction in which other traffic is highest, if there is some.
    pub(super) fn share(&self, now: Instant) -> Option<LinkShare> {
        let both = self.rates(now)?;
        let bulk = both.iter().map(|way| u64::from(way.own)).max().unwrap_or(0);
        let counts = |way: &LinkShare| {
            let (own, others) = (u64::from(way.own), u64::from(way.others));
            let (explained, all) = (others.min(way.ip.into()), own + others);
            let is_explained = explained >= MIN_IP_RATE && explained * MIN_IP_PART > all;
            own * BULK_PART >= bulk && (others * MIN_PART > all || is_explained)
        };
        both.into_iter().filter(counts).max_by_key(|way| way.others)
    }

    /// Returns the present rates: of sent frames, and of received ones.
    fn rates(&self, now: Instant) -> Option<[LinkShare; 2]> {
        let (Some((from, before)), Some((to, after))) = (self.passed.front(), self.passed.back())
        else {
            return None;
        };
        let lasts = to.since(*from);
        if lasts < WINDOW / 2 || now.since(*to) > KEPT {
            return None;
        }
        let rate = |bytes: u64| u32::try_from(kbits(bytes, lasts)).unwrap_or(u32::MAX);
        let of = |at: usize| LinkShare {
            is_sent: at == 0,
            own: rate(after[at].own - before[at].own),
            others: rate(after[at].others - before[at].others),
            ip: rate(after[at].ip - before[at].ip),
        };
        Some([of(0), of(1)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    fn reading(sent: [u64; 3], received: [u64; 3]) -> LinkReading {
        let of = |[all, own, ip]: [u64; 3]| PassedBytes { all, own, ip };
        LinkReading {
            sent: of(sent),
            received: of(received),
        }
    }

    #[test]
    fn an_estimate_of_own_bytes_that_falls_is_no_rate() {
        let of = |own| ([0; 3], [2_000_000 + own, own, 0]);
        assert!(
            share(&[of(0), of(900_000), of(800_000), of(800_000)])
                .is_none_or(|share| share.own < 1_000_000)
        );
    }

    /// Returns the share after readings every 50 ms with these counters of each direction.
    fn share(readings: &[([u64; 3], [u64; 3])]) -> Option<LinkShare> {
        let mut watch = LinkWatch::default();
        for (&(sent, received), turn) in readings.iter().zip(0..) {
            watch.note(at(turn * 50), reading(sent, received));
        }
        watch.share(at((readings.len() as u64 - 1) * 50))
    }

    #[test]
    fn all_that_is_not_the_ports_own_is_of_others() {
        let none = [0; 3];
        // 1 MB each 50 ms is 160 Mbit/s.
        let alone: Vec<_> = (0..5)
            .map(|turn| (none, [turn * 1_000_000, turn * 1_000_000, 0]))
            .collect();
        assert_eq!(share(&alone), None);
        let beside: Vec<_> = (0..5)
            .map(|turn| (none, [turn * 1_000_000, turn * 750_000, turn * 240_000]))
            .collect();
        let expected = LinkShare {
            is_sent: false,
            own: 120_000,
            others: 40_000,
            ip: 38_400,
        };
        assert_eq!(share(&beside), Some(expected));
        assert_eq!(share(&beside[..1]), None, "one reading is no rate");
    }

    #[test]
    fn the_best_rate_sent_is_neither_what_waits_in_the_kernel_nor_what_others_send() {
        let mut watch = LinkWatch::default();
        // The port hands over 4 MB at once, of which 1 MB leaves each 50 ms; then others send as
        // well.
        for turn in 0..30_u64 {
            let (own, left) = ((turn + 3).min(20) * 1_000_000, turn.min(20) * 1_000_000);
            watch.note(
                at(turn * 50),
                reading([left + turn.saturating_sub(20) * 9_000_000, own, 0], [0; 3]),
            );
        }
        assert!(
            (150_000..=170_000).contains(&watch.best_sent()),
            "{}",
            watch.best_sent()
        );
    }

    #[test]
    fn the_best_rate_sent_is_none_that_a_card_counts_at_once_or_that_fills_a_buffer() {
        let of = |readings: &mut dyn Iterator<Item = (u64, u64)>| {
            let mut watch = LinkWatch::default();
            for ((own, all), turn) in readings.zip(0..) {
                watch.note(at(turn * 50), reading([all, own, 0], [0; 3]));
            }
            watch.best_sent()
        };
        // 1 MB each 50 ms is 160 Mbit/s; the card tells of it each second.
        let steps = of(&mut (0..200).map(|turn| (turn * 1_000_000, turn / 20 * 20_000_000)));
        assert!(steps <= 170_000, "{steps}");
        let burst = of(&mut (0..40).map(|turn| {
            (
                turn.min(1) * 6_000_000 + turn * 1_000_000,
                turn.min(1) * 6_000_000 + turn * 1_000_000,
            )
        }));
        assert!((150_000..=170_000).contains(&burst), "{burst}");
    }

    #[test]
    fn acknowledgements_hold_nobody_up_and_check_sequences_are_no_traffic() {
        let data = |turn: u64| [turn * 1_000_000, turn * 1_000_000, 0];
        let acks: Vec<_> = (0..5)
            .map(|turn| (data(turn), [turn * 900_000, turn * 10_000, turn * 890_000]))
            .collect();
        assert_eq!(share(&acks), None);
        let mut watch = LinkWatch::default();
        acks.iter().zip(0..).for_each(|((sent, received), turn)| {
            watch.note(at(turn * 50), reading(*sent, *received))
        });
        assert!(watch.sees_others(at(200)) && !watch.sees_others(at(900)));
        let sums: Vec<_> = (0..5)
            .map(|turn| ([turn * 1_002_700, turn * 1_000_000, 0], [0; 3]))
            .collect();
        assert_eq!(share(&sums), None);
    }

    #[test]
    fn frames_that_the_kernel_still_holds_and_counters_that_lag_are_nobody_elses() {
        // Own frames count when the kernel takes them; the interface counts them when they leave.
        let waiting = [0, 400_000, 100_000, 600_000, 0, 300_000, 0];
        let queue: Vec<_> = waiting
            .iter()
            .zip(0..)
            .map(|(waits, turn)| ([turn * 1_000_000, turn * 1_000_000 + waits, 0], [0; 3]))
            .collect();
        assert!((1..=queue.len()).all(|readings| share(&queue[..readings]).is_none()));
        let lagging: Vec<_> = (0..9_u64)
            .map(|turn| ([turn / 4 * 4_000_000, turn * 1_000_000, 0], [0; 3]))
            .collect();
        assert!((1..=lagging.len()).all(|readings| share(&lagging[..readings]).is_none()));
    }

    #[test]
    fn an_interface_that_counts_from_zero_again_is_begun_anew() {
        for (begun, again) in [(5, 0), (0, 2)] {
            let mut readings: Vec<_> = (0..4)
                .map(|turn| {
                    (
                        [(begun + turn) * 1_000_000, (begun + turn) * 1_000_000, 0],
                        [0; 3],
                    )
                })
                .collect();
            readings.extend((0..9).map(|turn| {
                let (own, others) = ((turn + 9) * 1_000_000, turn * 250_000);
                ([(turn + again) * 1_000_000 + others, own, others], [0; 3])
            }));
            let expected = LinkShare {
                is_sent: true,
                own: 160_000,
                others: 40_000,
                ip: 40_000,
            };
            assert_eq!(share(&readings), Some(expected), "from {begun}, {again}");
        }
    }
}
