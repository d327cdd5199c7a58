//! State of a running transfer for its progress output: bytes, rates, slowest receiver, time left.

use ethbcast_collectives::session::live::ProgressPlace;
use ethbcast_collectives::session::{MemberState, Outcome, Progress, ReceiverEvent, RootEvent};
use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_secs(3);

/// Limit on the receivers that are shown individually; beyond it only the slowest is named.
pub const MAX_HOSTS: usize = 8;

/// Course of a transfer. At a sender only: the slowest receiver and its state, the numbers of
/// receivers that have verified everything, and that failed and have not returned, and the
/// receivers by rank, if they are few.
#[derive(Clone, Debug, Default)]
pub struct TransferCourse {
    pub interface: String,
    /// Receivers that have joined, and once the stream has begun, members. A receiver knows their
    /// number only then.
    pub receivers: usize,
    pub via: Option<String>,
    pub size: Option<u64>,
    /// Bytes present, those of earlier runs included; at a sender, those of the slowest receiver.
    pub bytes: u64,
    /// Whether only missing data is sent, so that the remaining time is unknown until the end.
    pub is_selective: bool,
    pub slowest: Option<(String, MemberState)>,
    pub resent_frames: u64,
    pub delivered: usize,
    pub failed: usize,
    failed_hosts: BTreeSet<String>,
    pub hosts: Vec<HostProgress>,
    began: Option<Instant>,
    came: Meter,
    meter: Meter,
}

#[derive(Clone, Debug)]
pub struct HostProgress {
    pub name: String,
    pub state: MemberState,
    pub bytes: u64,
    pub end: Option<&'static str>,
    pub meter: Meter,
}

impl TransferCourse {
    pub fn record(&mut self, progress: &Progress<'_>, now: Instant) {
        match progress {
            Progress::Sender(RootEvent::Joined { receivers, .. }) => self.receivers = *receivers,
            Progress::Sender(RootEvent::Left { .. }) => {
                self.receivers = self.receivers.saturating_sub(1)
            }
            Progress::Sender(RootEvent::Started {
                receivers,
                via,
                size,
                selective,
            }) => {
                self.start(*receivers, via.to_string(), (*size, *selective), now);
            }
            Progress::Sender(RootEvent::Rerouted { via, .. }) => self.via = Some(via.to_string()),
            Progress::Sender(RootEvent::Reported(report)) => {
                let is_delivered = report.outcome == Outcome::Delivered;
                if is_delivered {
                    self.delivered += 1;
                    // It has returned and completed after all.
                    self.failed_hosts.remove(&report.host);
                } else {
                    self.failed_hosts.insert(report.host.clone());
                }
                self.failed = self.failed_hosts.len();
                if let Some(host) = self.hosts.iter_mut().find(|host| host.name == report.host) {
                    host.end = Some(report.outcome.status_and_reason(&report.text).0);
                    host.bytes = if is_delivered {
                        report.bytes
                    } else {
                        host.bytes
                    };
                }
            }
            Progress::Receiver(ReceiverEvent::Started {
                receivers,
                via,
                size,
                selective,
                ..
            }) => {
                self.start(*receivers, via.to_string(), (*size, *selective), now);
            }
            Progress::Moved {
                bytes,
                came,
                slowest,
                resent_frames,
                members,
            } => {
                if members.len() <= MAX_HOSTS {
                    members.iter().for_each(|place| self.place(place, now));
                }
                (self.bytes, self.resent_frames) = (*bytes, *resent_frames);
                self.slowest = slowest.map(|(host, state)| (host.to_owned(), state));
                self.meter.note(now, *bytes);
                self.came.note(now, *came);
            }
            _ => {}
        }
    }

    fn start(
        &mut self,
        receivers: usize,
        via: String,
        (size, selective): (Option<u64>, bool),
        now: Instant,
    ) {
        (self.receivers, self.via, self.began) = (receivers, Some(via), Some(now));
        self.delivered = 0; // Those of an earlier round are not among these receivers.
        (self.size, self.is_selective) = (size, selective);
        self.meter.note(now, 0);
        self.came.note(now, 0);
    }

    fn place(&mut self, place: &ProgressPlace<'_>, now: Instant) {
        let at = self
            .hosts
            .iter()
            .position(|host| host.name == place.host)
            .unwrap_or_else(|| {
                let (name, meter) = (place.host.to_owned(), Meter::default());
                self.hosts.push(HostProgress {
                    name,
                    state: place.state,
                    bytes: 0,
                    end: None,
                    meter,
                });
                self.hosts.len() - 1
            });
        let host = &mut self.hosts[at];
        // A failed receiver has returned.
        host.end = host.end.filter(|end| *end == Outcome::Delivered.word());
        (host.state, host.bytes) = (place.state, place.bytes);
        host.meter.note(now, place.came);
    }

    pub fn has_started(&self) -> bool {
        self.began.is_some()
    }

    /// Returns the current rate in bits per second of data that arrives in this run, once it can be
    /// measured.
    pub fn rate(&self, now: Instant) -> Option<f64> {
        self.came.rate(now)
    }

    pub fn average(&self, now: Instant) -> Option<f64> {
        let seconds = now.duration_since(self.began?).as_secs_f64();
        let came = self.came.samples.back().map_or(0, |&(_, came)| came);
        (seconds > 0.0).then(|| came as f64 * 8.0 / seconds)
    }

    pub fn percent(&self) -> Option<u128> {
        self.size.map(|size| percent(self.bytes, size))
    }

    /// Returns the estimated remaining time, if the rest is like the last seconds. Data already
    /// present passes faster than data that must come.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        let rate = self.meter.rate(now).filter(|&rate| rate > 0.0)?;
        let seconds = self.size?.saturating_sub(self.bytes) as f64 * 8.0 / rate;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

pub fn percent(bytes: u64, size: u64) -> u128 {
    (u128::from(bytes) * 100)
        .checked_div(u128::from(size))
        .unwrap_or(100)
}

#[derive(Clone, Debug, Default)]
pub struct Meter {
    samples: VecDeque<(Instant, u64)>,
}

impl Meter {
    fn note(&mut self, now: Instant, bytes: u64) {
        while self.samples.len() > 1 && now.duration_since(self.samples[1].0) >= WINDOW {
            self.samples.pop_front();
        }
        self.samples.push_back((now, bytes));
    }

    pub fn rate(&self, now: Instant) -> Option<f64> {
        let (&(begin, before), &(_, bytes)) = (self.samples.front()?, self.samples.back()?);
        let seconds = now.duration_since(begin).as_secs_f64();
        (seconds > 0.0).then(|| bytes.saturating_sub(before) as f64 * 8.0 / seconds)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use ethbcast_planning::plan::Via;

    /// Creates the state of a sender that sends 64 MiB to three receivers by a chain since `begin`.
    pub fn sending(begin: Instant) -> TransferCourse {
        let mut course = TransferCourse::default();
        let started = RootEvent::Started {
            receivers: 3,
            via: Via::Chain,
            size: Some(64 << 20),
            selective: false,
        };
        course.record(&Progress::Sender(&started), begin);
        course
    }

    pub fn moved(course: &mut TransferCourse, bytes: u64, now: Instant) {
        let slowest = Some(("n3", MemberState::Starved));
        course.record(
            &Progress::Moved {
                bytes,
                came: bytes,
                slowest,
                members: &[],
                resent_frames: 12,
            },
            now,
        );
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds_and_says_what_is_left() {
        let begin = Instant::now();
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        let mut course = sending(begin);
        assert_eq!(
            (course.rate(begin), course.left(begin)),
            (None, None),
            "nothing can be said yet"
        );
        assert_eq!(
            (
                course.average(begin),
                TransferCourse::default().average(begin)
            ),
            (None, None)
        );
        for second in 1..=4 {
            moved(&mut course, second << 20, at(second));
        }
        assert_eq!(course.rate(at(4)), Some((8 << 20).into()));
        assert_eq!(course.left(at(4)), Some(Duration::from_secs(60)));
        for second in 5..=8 {
            moved(&mut course, 4 << 20, at(second));
        }
        assert_eq!(
            (course.rate(at(8)), course.left(at(8))),
            (Some(0.0), None),
            "it stands still"
        );
        assert_eq!(course.average(at(8)), Some((4 << 20).into()));
    }

    #[test]
    fn in_a_selective_session_present_bytes_count_and_the_rate_is_that_of_received_ones() {
        let (mut course, begin) = (TransferCourse::default(), Instant::now());
        let started = RootEvent::Started {
            receivers: 1,
            via: Via::Cast,
            size: Some(1 << 20),
            selective: true,
        };
        course.record(&Progress::Sender(&started), begin);
        let moved = Progress::Moved {
            bytes: 1 << 19,
            came: 1 << 10,
            slowest: None,
            members: &[],
            resent_frames: 0,
        };
        let now = begin + Duration::from_secs(2);
        course.record(&moved, now);
        assert_eq!(
            (course.percent(), course.rate(now)),
            (Some(50), Some(4096.0))
        );
        assert_eq!(
            (course.left(now), course.average(now)),
            (Some(Duration::from_secs(2)), Some(4096.0))
        );
    }
}
