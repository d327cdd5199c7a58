//! How far a transfer is, by what this host has heard up to now.

use ethbcast_collectives::session::live::Place;
use ethbcast_collectives::session::{MemberState, Outcome, Progress, ReceiverEvent, RootEvent};
use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// The rate is that of the last so long.
const WINDOW: Duration = Duration::from_secs(3);

/// So many receivers are told apart; of more only the slowest is named.
pub const MOST_HOSTS: usize = 8;

/// How far a transfer is.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// The interface, once it is known.
    pub interface: String,
    /// Receivers that have joined; from the start on, those that take part. A receiver knows it from the start on.
    pub receivers: usize,
    /// How the bytes travel, from the start on.
    pub via: Option<String>,
    /// How many bytes there will be, if that is known.
    pub size: Option<u64>,
    /// How many are here; at a sender, at the slowest receiver.
    pub bytes: u64,
    /// At a sender: the slowest receiver, and what it is busy with.
    pub slowest: Option<(String, MemberState)>,
    /// Data frames that this host has sent again.
    pub resent_frames: u64,
    /// At a sender: receivers that have verified everything.
    pub delivered: usize,
    /// At a sender: receivers that have not got it, and will not unless they come back.
    pub failed: usize,
    /// Their names.
    failed_hosts: BTreeSet<String>,
    /// At a sender with few receivers: each of them, by rank.
    pub hosts: Vec<Host>,
    /// When the stream began.
    began: Option<Instant>,
    meter: Meter,
}

/// How far a receiver is.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// What it is busy with.
    pub state: MemberState,
    /// Bytes that it has taken.
    pub bytes: u64,
    /// What has become of it, once that is known.
    pub end: Option<&'static str>,
    /// How fast they come.
    pub meter: Meter,
}

impl Course {
    /// Something has happened.
    pub fn hear(&mut self, progress: &Progress<'_>, now: Instant) {
        match progress {
            Progress::Sender(RootEvent::Joined { receivers, .. }) => self.receivers = *receivers,
            Progress::Sender(RootEvent::Left { .. }) => self.receivers = self.receivers.saturating_sub(1),
            Progress::Sender(RootEvent::Started { receivers, via, size, selective }) => {
                self.start(*receivers, via.to_string(), size.filter(|_| !selective), now);
            }
            Progress::Sender(RootEvent::Rerouted { via, .. }) => self.via = Some(via.to_string()),
            Progress::Sender(RootEvent::Reported(report)) => {
                let is_delivered = report.outcome == Outcome::Delivered;
                if is_delivered {
                    self.delivered += 1;
                    // It has come back, and has it after all.
                    self.failed_hosts.remove(&report.host);
                } else {
                    self.failed_hosts.insert(report.host.clone());
                }
                self.failed = self.failed_hosts.len();
                if let Some(host) = self.hosts.iter_mut().find(|host| host.name == report.host) {
                    host.end = Some(report.outcome.told(&report.text).0);
                    host.bytes = if is_delivered { report.bytes } else { host.bytes };
                }
            }
            Progress::Receiver(ReceiverEvent::Started { receivers, via, size, selective, .. }) => {
                self.start(*receivers, via.to_string(), size.filter(|_| !selective), now);
            }
            Progress::Moved { bytes, slowest, resent_frames, members } => {
                if members.len() <= MOST_HOSTS {
                    members.iter().for_each(|place| self.place(place, now));
                }
                (self.bytes, self.resent_frames) = (*bytes, *resent_frames);
                self.slowest = slowest.map(|(host, state)| (host.to_owned(), state));
                self.meter.note(now, *bytes);
            }
            _ => {}
        }
    }

    fn start(&mut self, receivers: usize, via: String, size: Option<u64>, now: Instant) {
        (self.receivers, self.via, self.size, self.began) = (receivers, Some(via), size, Some(now));
        self.meter.note(now, 0);
    }

    /// A receiver says where it is.
    fn place(&mut self, place: &Place<'_>, now: Instant) {
        let at = self.hosts.iter().position(|host| host.name == place.host).unwrap_or_else(|| {
            let (name, meter) = (place.host.to_owned(), Meter::default());
            self.hosts.push(Host { name, state: place.state, bytes: 0, end: None, meter });
            self.hosts.len() - 1
        });
        let host = &mut self.hosts[at];
        // One that had failed has come back.
        host.end = host.end.filter(|end| *end == Outcome::Delivered.word());
        (host.state, host.bytes) = (place.state, place.bytes);
        host.meter.note(now, place.bytes);
    }

    /// Whether the stream has begun.
    pub fn has_started(&self) -> bool {
        self.began.is_some()
    }

    /// How fast the bytes come, in bits per second, once there is something to tell it by.
    pub fn rate(&self, now: Instant) -> Option<f64> {
        self.meter.rate(now)
    }

    /// How fast they came over the whole, in bits per second, if they have come until now.
    pub fn average(&self, now: Instant) -> Option<f64> {
        let seconds = now.duration_since(self.began?).as_secs_f64();
        (seconds > 0.0).then(|| self.bytes as f64 * 8.0 / seconds)
    }

    /// How long it takes until all are there, if it goes on so.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        let rate = self.rate(now).filter(|&rate| rate > 0.0)?;
        let seconds = self.size?.saturating_sub(self.bytes) as f64 * 8.0 / rate;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

/// How fast bytes come.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    samples: VecDeque<(Instant, u64)>,
}

impl Meter {
    /// So many are there.
    fn note(&mut self, now: Instant, bytes: u64) {
        while self.samples.len() > 1 && now.duration_since(self.samples[1].0) >= WINDOW {
            self.samples.pop_front();
        }
        self.samples.push_back((now, bytes));
    }

    /// In bits per second.
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

    /// A sender that has begun to send 64 MiB to three receivers by a chain at `begin`.
    pub fn sending(begin: Instant) -> Course {
        let mut course = Course::default();
        let started = RootEvent::Started { receivers: 3, via: Via::Chain, size: Some(64 << 20), selective: false };
        course.hear(&Progress::Sender(&started), begin);
        course
    }

    /// So many bytes are at the slowest.
    pub fn moved(course: &mut Course, bytes: u64, now: Instant) {
        let slowest = Some(("n3", MemberState::Starved));
        course.hear(&Progress::Moved { bytes, slowest, members: &[], resent_frames: 12 }, now);
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds_and_says_what_is_left() {
        let begin = Instant::now();
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        let mut course = sending(begin);
        assert_eq!((course.rate(begin), course.left(begin)), (None, None), "nothing can be said yet");
        assert_eq!((course.average(begin), Course::default().average(begin)), (None, None));
        for second in 1..=4 {
            moved(&mut course, second << 20, at(second));
        }
        assert_eq!(course.rate(at(4)), Some((8 << 20).into()));
        assert_eq!(course.left(at(4)), Some(Duration::from_secs(60)));
        for second in 5..=8 {
            moved(&mut course, 4 << 20, at(second));
        }
        assert_eq!((course.rate(at(8)), course.left(at(8))), (Some(0.0), None), "it stands still");
        assert_eq!(course.average(at(8)), Some((4 << 20).into()));
    }

    #[test]
    fn a_stream_of_which_only_a_part_is_sent_has_no_end_that_is_known() {
        let mut course = Course::default();
        let started = RootEvent::Started { receivers: 1, via: Via::Cast, size: Some(9), selective: true };
        course.hear(&Progress::Sender(&started), Instant::now());
        assert_eq!((course.size, course.via.as_deref()), (None, Some("cast")));
    }
}
