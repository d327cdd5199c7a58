//! Comparison of two paths' rates during a transfer, by a short burst of frames on each. The paths
//! are those to two hosts, or those of broadcast and unicast: the latter tell whether a switch
//! polices broadcasts.

use super::body::{ProbeBody, ReportBody, Task};
use super::kind;
use super::probe::{Probe, ProbeWriter};
use ethbcast_transport::wire::{Flags, Frame, Identity};
use ethbcast_transport::{Deadline, Instant, MacAddr, Timer};
use std::time::Duration;

/// Frames of a train: enough for 5 ms, within these limits. The longest proves slow a host of 1
/// Gbit/s among others of 10: its frames take 5.7 ms longer.
const TRAIN: Duration = Duration::from_millis(5);
const MIN_FRAMES: u64 = 16;
const MAX_FRAMES: u64 = 512;
const FIRST_REQUEST_AFTER: Duration = Duration::from_millis(40);
/// Interval of requests after the first: a full queue may drop nine of ten.
const REQUEST_INTERVAL: Duration = Duration::from_millis(10);
const MAX_TIME: Duration = Duration::from_millis(1500);
/// Difference of arrival times that a host's pauses and its scheduler can explain.
const NAP_NANOS: f64 = 3e6;

/// Short trains of full frames to two hosts, one behind the other. Both hosts time the arrivals.
#[derive(Clone, Debug)]
pub(crate) struct RateComparison {
    writer: ProbeWriter,
    payload_bytes: usize,
    frames: u64,
    trains: [TrainToOne; 2],
    request_at: Instant,
    ends_at: Instant,
}

#[derive(Clone, Debug)]
struct TrainToOne {
    to: MacAddr,
    test: u32,
    next: u64,
    asks: bool,
    arrived: Option<ReportBody>,
    answered_at: Option<Instant>,
}

impl TrainToOne {
    /// Whether most frames were lost, though those to another host were not: the path is full.
    fn is_mostly_lost(&self, frames: u64) -> bool {
        self.arrived.is_some_and(|body| body.arrived * 2 <= frames)
    }

    /// Returns the gap between frames, in nanoseconds: of both halves, and of the whole train.
    fn gaps(&self) -> Option<([f64; 2], f64)> {
        let ReportBody {
            arrived,
            arrived_late,
            first_nanos,
            late_nanos,
            last_nanos,
            ..
        } = self.arrived?;
        let (early, late) = (
            arrived.checked_sub(arrived_late)?,
            arrived_late.checked_sub(1)?,
        );
        let is_enough = early.min(late) >= MIN_FRAMES / 4;
        let gap = |nanos: u64, frames: u64| nanos.max(1) as f64 / frames as f64;
        let halves = [
            gap(late_nanos.checked_sub(first_nanos)?, early.max(1)),
            gap(last_nanos.checked_sub(late_nanos)?, late.max(1)),
        ];
        is_enough.then(|| (halves, gap(last_nanos - first_nanos, arrived - 1)))
    }
}

/// The gaps between full frames at the two hosts, in nanoseconds. The suspect's is that of the half
/// of its train with the smaller gap; infinite if most frames were lost, or have not arrived. The
/// comparison is sure if the difference is more than a host's pauses can explain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ComparedGaps {
    pub usual_nanos: f64,
    pub suspect_nanos: f64,
    pub is_sure: bool,
}

impl RateComparison {
    /// Returns the number of frames of one train if a frame takes `frame_time` and `most` are
    /// affordable; `None` if that is too few.
    pub(crate) fn train_frames(frame_time: Duration, most: u64) -> Option<u64> {
        let wanted = TRAIN.as_nanos() / frame_time.as_nanos().max(1);
        let frames = u64::try_from(wanted)
            .unwrap_or(MAX_FRAMES)
            .clamp(MIN_FRAMES, MAX_FRAMES)
            .min(most);
        (frames >= MIN_FRAMES).then_some(frames)
    }

    pub(crate) fn new(
        now: Instant,
        identity: Identity,
        hosts: [MacAddr; 2],
        (frames, payload_bytes): (u64, usize),
    ) -> RateComparison {
        let mut writer = ProbeWriter::new(identity, now.as_micros() as u32);
        let trains = hosts.map(|to| TrainToOne {
            to,
            test: writer.draw(),
            next: 0,
            asks: false,
            arrived: None,
            answered_at: None,
        });
        let payload_bytes = payload_bytes.max(ProbeBody::BYTES);
        RateComparison {
            writer,
            payload_bytes,
            frames,
            trains,
            request_at: now + FIRST_REQUEST_AFTER,
            ends_at: now + MAX_TIME,
        }
    }

    pub(crate) fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        let header = &frame.header;
        let own = |train: &&mut TrainToOne| train.to == frame.source && train.test == header.stamp;
        let Some(train) = self
            .trains
            .iter_mut()
            .find(own)
            .filter(|_| header.kind == kind::REPORT)
        else {
            return;
        };
        // The reply comes behind all frames that were not lost.
        let is_whole = header.sequence == self.frames || header.flags.has(Flags::LAST);
        let body = ReportBody::decode(frame.payload)
            .filter(|body| is_whole && body.arrived <= self.frames);
        if let (None, Some(body)) = (train.arrived, body) {
            (train.arrived, train.answered_at) = (Some(body), Some(now));
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.request_at <= now && !self.is_over(now) {
            self.request_at = now + REQUEST_INTERVAL;
            self.trains
                .iter_mut()
                .for_each(|train| train.asks = train.arrived.is_none());
        }
    }

    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.ends_at <= now || self.trains.iter().all(|train| train.arrived.is_some())
    }

    pub(crate) fn lacks_second_since(&self) -> Option<Instant> {
        self.trains[0]
            .answered_at
            .filter(|_| self.trains[1].answered_at.is_none())
    }

    /// Returns the measured gaps, if both hosts have reported enough. A slow cable shows in both
    /// halves of a train, a host that was kept from its processor in one.
    pub(crate) fn gaps(&self) -> Option<ComparedGaps> {
        let [usual, suspect] = &self.trains;
        let (_, usual_nanos) = usual
            .gaps()
            .filter(|_| !usual.is_mostly_lost(self.frames))?;
        if suspect.arrived.is_none() || suspect.is_mostly_lost(self.frames) {
            return Some(ComparedGaps {
                usual_nanos,
                suspect_nanos: f64::INFINITY,
                is_sure: true,
            });
        }
        let (halves, _) = suspect.gaps()?;
        let suspect_nanos = halves[0].min(halves[1]);
        let is_sure = (suspect_nanos - usual_nanos) * self.frames as f64 >= NAP_NANOS;
        Some(ComparedGaps {
            usual_nanos,
            suspect_nanos,
            is_sure,
        })
    }

    pub(crate) fn poll_transmit(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let frames = self.frames;
        if let Some(train) = self.trains.iter_mut().find(|train| train.next < frames) {
            let index = train.next;
            train.next += 1;
            // Of two requests one may be lost.
            let flags = if index + 2 >= frames {
                Flags::ACK_NOW
            } else {
                Flags::default()
            };
            let body = ProbeBody {
                number: (frames / 2) as u32,
                ..ProbeBody::plain(Task::Train)
            };
            let probe = Probe {
                to: train.to,
                test: train.test,
                index,
                flags,
                body,
                payload_bytes: self.payload_bytes,
            };
            return Some(self.writer.write(buffer, &probe));
        }
        let train = self.trains.iter_mut().find(|train| train.asks)?;
        train.asks = false;
        Some(
            self.writer
                .write(buffer, &Probe::request(train.to, train.test, frames)),
        )
    }

    pub(crate) fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let deadline = Deadline {
            at: self.request_at.min(self.ends_at),
            why: Timer("rate comparison"),
        };
        (!self.is_over(now)).then_some(deadline)
    }
}

/// Share of the expected arrivals below which a train counts as policed. At 10 % loss, 64 frames
/// stay above it in 99 of 100 cases. In the shorter trains of a gentle ramp 16 frames count, and
/// the share is smaller.
pub(super) const POLICED_BELOW: f64 = 0.85;
pub(super) const GENTLY_POLICED_BELOW: f64 = 0.7;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RampPace {
    pub frames_per_second: f64,
    pub frames: u64,
}

impl RampPace {
    /// Returns the first frame of the second half. Only that half counts, because a policer lets a
    /// burst pass first.
    pub(super) fn mark(self) -> u64 {
        self.frames / 2
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct UnicastKnowledge {
    pub frames_per_second: f64,
    pub loss: f64,
}

/// Returns the rate at which frames got through to a target, if they were policed; `None` if at
/// least `least_part` of those expected from unicast arrived.
pub(super) fn policed(
    pace: RampPace,
    known: UnicastKnowledge,
    report: &ReportBody,
    least_part: f64,
) -> Option<f64> {
    let expected = (known.frames_per_second / pace.frames_per_second).min(1.0) * (1.0 - known.loss);
    let late_frames = pace.frames - pace.mark();
    let part = report.arrived_late as f64 / late_frames.max(1) as f64;
    (part < expected * least_part).then(|| passed(pace, report, part))
}

/// Returns the rate by the receiver's clock, from the first to the last arrival of the second half.
/// If few arrive, the train's pace is used instead.
fn passed(pace: RampPace, report: &ReportBody, part: f64) -> f64 {
    let nanos = report.last_nanos.saturating_sub(report.late_nanos);
    match report.arrived_late {
        0..=8 => part * pace.frames_per_second,
        _ if nanos == 0 => part * pace.frames_per_second,
        frames => (frames - 1) as f64 * 1e9 / nanos as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Responder;
    use ethbcast_transport::Part;
    use ethbcast_transport::wire::{EtherType, OVERHEAD_BYTES, Rank, StreamId, parse};

    const FRAMES: u64 = 40;

    fn identity(last: u8) -> Identity {
        let mac = MacAddr::new(2, 0, 0, 0, 0, last);
        let (stream, rank) = (StreamId(0), Rank(last.into()));
        Identity {
            session: 7,
            stream,
            rank,
            mac,
            ether_type: EtherType::DEFAULT,
            guard: Default::default(),
        }
    }

    /// Compares host 2, on whose cable a frame takes `gap_micros`, with host 1, on which it takes
    /// 120 µs. Of the frames to host 2 each `lost`-th is lost; for `naps_micros` it takes none.
    /// Reports count only if they were requested.
    fn compared(gap_micros: u64, lost: u64, naps_micros: u64) -> Option<ComparedGaps> {
        let at = |micros: u64| Instant::START + Duration::from_micros(micros);
        let hosts = [1, 2].map(|host| identity(host).mac);
        let mut comparison = RateComparison::new(at(9), identity(0), hosts, (FRAMES, 1400));
        let mut responders = [1, 2].map(|host| Responder::new(identity(host), 1500, None));
        let (mut buffer, mut count) = (vec![0; 1500 + OVERHEAD_BYTES], [0, 0]);
        for now in [1_000, 100_000, 200_000, 1_600_000] {
            comparison.handle_timeout(at(now));
            while let Some(length) = comparison.poll_transmit(&mut buffer) {
                let host = usize::from(buffer[5]) - 1;
                count[host] += 1;
                let nap = if host == 1 && count[host] > FRAMES / 4 {
                    naps_micros
                } else {
                    0
                };
                let arrives = now + count[host] * [120, gap_micros][host] + nap;
                let is_lost = host == 1 && length > 1000 && count[host].is_multiple_of(lost);
                if !is_lost {
                    responders[host]
                        .handle_frame(at(arrives), &parse(&buffer[..length]).expect("a frame"));
                }
            }
            for responder in &mut responders {
                let mut answer = vec![0; 1500 + OVERHEAD_BYTES];
                while let Some(length) = responder.poll_transmit(at(now), &mut answer) {
                    let frame = parse(&answer[..length]).expect("a frame");
                    if frame.header.flags.has(Flags::LAST) {
                        comparison.handle_frame(at(now), &frame);
                    }
                }
            }
        }
        assert!(comparison.is_over(at(1_600_000)));
        comparison.gaps()
    }

    #[test]
    fn a_slow_cable_is_told_from_one_that_is_not_and_from_a_nap() {
        for lost in [u64::MAX, 7, 3] {
            let slow = compared(600, lost, 0).expect("both have said enough");
            assert!(
                (580.0..1_000.0).contains(&(slow.suspect_nanos / 1e3)) && slow.is_sure,
                "{lost}: {slow:?}"
            );
            assert_eq!(slow.usual_nanos, 120_000.0);
            assert!(
                !compared(120, lost, 0).expect("both have").is_sure,
                "{lost}"
            );
            assert!(
                !compared(120, lost, 30_000).expect("both have").is_sure,
                "{lost}, with a nap"
            );
        }
        assert_eq!(
            compared(600, 2, 0).map(|gaps| gaps.is_sure),
            Some(true),
            "most was lost"
        );
    }

    #[test]
    fn a_train_has_as_many_frames_as_say_something_and_are_affordable() {
        let frames =
            |micros, most| RateComparison::train_frames(Duration::from_micros(micros), most);
        assert_eq!(
            [
                frames(121, 1000),
                frames(12, 1000),
                frames(2, 1000),
                frames(12, 100)
            ],
            [41, 416, 512, 100].map(Some)
        );
        assert_eq!([frames(6000, 1000), frames(121, 15)], [Some(16), None]);
    }

    /// On cables of 10 Gbit/s a frame takes 1230 ns, behind one of 1 Gbit/s ten times that.
    #[test]
    fn the_longest_train_proves_a_cable_of_a_tenth_of_10_gbits_slow() {
        let frames = RateComparison::train_frames(Duration::from_nanos(1230), u64::MAX)
            .expect("many are affordable");
        let mut comparison = RateComparison::new(
            Instant::START,
            identity(0),
            [1, 2].map(|host| identity(host).mac),
            (frames, 1400),
        );
        for (train, gap) in comparison.trains.iter_mut().zip([1_230, 12_300]) {
            let half = frames / 2 * gap;
            train.arrived = Some(ReportBody {
                arrived: frames,
                arrived_late: frames - frames / 2,
                first_nanos: 0,
                late_nanos: half,
                last_nanos: (frames - 1) * gap,
                worked_nanos: 0,
                computer: None,
            });
        }
        let gaps = comparison.gaps().expect("both have said enough");
        assert!(gaps.is_sure, "{gaps:?}");
        assert_eq!([gaps.usual_nanos, gaps.suspect_nanos], [1_230.0, 12_300.0]);
    }

    const KNOWN: UnicastKnowledge = UnicastKnowledge {
        frames_per_second: 8000.0,
        loss: 0.01,
    };

    fn report(pace: RampPace, arrived_late: u64) -> ReportBody {
        let half_nanos = (pace.mark() as f64 * 1e9 / pace.frames_per_second) as u64;
        ReportBody {
            arrived: arrived_late,
            arrived_late,
            first_nanos: 0,
            late_nanos: half_nanos,
            last_nanos: half_nanos * 2,
            worked_nanos: 0,
            computer: None,
        }
    }

    #[test]
    fn broadcast_that_arrives_like_unicast_is_not_policed() {
        let pace = RampPace {
            frames_per_second: 8000.0,
            frames: 800,
        };
        for arrived in [400, 396, 350] {
            assert_eq!(
                policed(pace, KNOWN, &report(pace, arrived), POLICED_BELOW),
                None,
                "{arrived} of 400"
            );
        }
    }

    #[test]
    fn a_slow_receiver_is_no_policer() {
        let pace = RampPace {
            frames_per_second: 8000.0,
            frames: 800,
        };
        let slow = UnicastKnowledge {
            frames_per_second: 4000.0,
            loss: 0.0,
        };
        assert_eq!(policed(pace, slow, &report(pace, 200), POLICED_BELOW), None);
        assert!(policed(pace, slow, &report(pace, 100), POLICED_BELOW).is_some());
    }

    #[test]
    fn the_rate_that_gets_through_is_taken_from_the_receivers_clock() {
        let pace = RampPace {
            frames_per_second: 8000.0,
            frames: 800,
        };
        let rate =
            policed(pace, KNOWN, &report(pace, 100), POLICED_BELOW).expect("a quarter arrived");
        assert!((rate - 2000.0).abs() < 40.0, "{rate}");
        assert_eq!(
            policed(pace, KNOWN, &ReportBody::default(), POLICED_BELOW),
            Some(0.0),
            "nothing at all"
        );
    }
}
