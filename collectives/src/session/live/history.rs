//! Record of each receiver's progress over time and of incidents, for the charts of the report.

use crate::session::message::{MemberState, Outcome, Status};
use crate::session::root::{MemberReport, Root, RootEvent};
use crate::session::verified::Form;
use crate::session::view::View;
use ethbcast_transport::Instant;
use ethbcast_transport::wire::HEADER_BYTES;
use std::time::Duration;

/// Minimum time between two moments; members report as often.
const MIN_STEP: Duration = Duration::from_millis(100);
/// Maximum number of moments. Beyond it, every second moment is dropped and the interval doubled.
const MAX_MOMENTS: usize = 200;
/// Maximum number of entries over all hosts (1 MiB); if it limits the number of moments, at least
/// [`MIN_MOMENTS`] remain.
const MAX_ENTRIES: usize = 60_000;
const MIN_MOMENTS: usize = 16;
/// Maximum number of incidents kept; further ones are counted.
const MAX_INCIDENTS: usize = 256;

/// Course of a session from its first data frame to its last report, as its root saw it. Its size
/// is bounded, whatever the length of the session and the number of hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    began: Option<Instant>,
    step: Duration,
    moments: Vec<Moment>,
    tracks: Vec<Track>,
    incidents: Vec<Incident>,
    left_out: u64,
    is_ending: bool,
    is_over: bool,
}

/// Counters of the root at one moment, a time since the first data frame. Bytes that are ready to
/// be sent count as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Moment {
    pub at: Duration,
    pub sent_bytes: u64,
    pub resent_frames: u64,
}

/// Progress of the receiver of one rank, with an entry for each moment: the bytes that had arrived
/// in order, and its state, which is `None` before it joined and once it was gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Track {
    pub host: String,
    pub bytes: Vec<u64>,
    pub states: Vec<Option<MemberState>>,
}

/// Event worth reporting to a user, at a time since the first data frame. It concerns `hosts`, or
/// the whole session if there are none; `text` is read after their names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Incident {
    pub at: Duration,
    pub kind: IncidentKind,
    pub hosts: Vec<String>,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IncidentKind {
    HeldUp,
    /// A receiver was demoted.
    Demoted,
    /// A pair of hosts could not exchange frames.
    Apart,
    Damaged,
    Rerouted,
    Failed,
}

impl IncidentKind {
    pub fn name(self) -> &'static str {
        match self {
            IncidentKind::HeldUp => "held-up",
            IncidentKind::Demoted => "aside",
            IncidentKind::Apart => "apart",
            IncidentKind::Damaged => "damaged",
            IncidentKind::Rerouted => "rerouted",
            IncidentKind::Failed => "failed",
        }
    }
}

impl History {
    pub fn moments(&self) -> &[Moment] {
        &self.moments
    }

    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    pub fn incidents(&self) -> &[Incident] {
        &self.incidents
    }

    /// Returns the number of incidents that were not kept.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    pub(super) fn note(&mut self, root: &Root, form: Form, now: Instant) {
        if self.began.is_none() && root.stream_stats().data_sent > 0 {
            self.began = Some(now);
        }
        let (at, ends) = (self.since_begin(now), self.is_ending);
        let due = self
            .moments
            .last()
            .is_none_or(|last| at >= last.at + self.step.max(MIN_STEP));
        let Some(view) = root
            .view()
            .filter(|_| !self.is_over && self.began.is_some() && (due || ends))
        else {
            return;
        };
        let sent_bytes = bytes_of(
            root.streams().map_or(0, |streams| streams.frames()),
            view,
            form,
        );
        let at = if ends { root.took() } else { at };
        self.moments.push(Moment {
            at,
            sent_bytes,
            resent_frames: root.stream_stats().data_resent,
        });
        self.note_members(root, view, form);
        self.is_over = ends;
        if self.moments.len() > self.most_moments() {
            self.thin_out();
        }
    }

    fn note_members(&mut self, root: &Root, view: &View, form: Form) {
        let now = self.moments.len();
        for member in view.members.iter().skip(1 + self.tracks.len()) {
            let (bytes, states) = (vec![0; now - 1], vec![None; now - 1]);
            self.tracks.push(Track {
                host: member.host.clone(),
                bytes,
                states,
            });
        }
        for (rank, Status { state, arrived, .. }) in root.states() {
            let Some(track) = rank
                .index()
                .checked_sub(1)
                .and_then(|at| self.tracks.get_mut(at))
            else {
                continue;
            };
            track.bytes.push(bytes_of(arrived, view, form));
            track.states.push(Some(state));
        }
        for track in &mut self.tracks {
            track
                .bytes
                .resize(now, track.bytes.last().copied().unwrap_or_default());
            track.states.resize(now, None);
        }
        // A receiver that has everything need not have sent a status report about it.
        for MemberReport { rank, bytes, .. } in root
            .reports()
            .filter(|one| one.outcome == Outcome::Delivered)
        {
            let track = rank
                .index()
                .checked_sub(1)
                .and_then(|at| self.tracks.get_mut(at));
            track
                .and_then(|track| track.bytes.last_mut())
                .into_iter()
                .for_each(|last| *last = *bytes);
        }
    }

    fn most_moments(&self) -> usize {
        (MAX_ENTRIES / self.tracks.len().max(1)).clamp(MIN_MOMENTS, MAX_MOMENTS)
    }

    fn thin_out(&mut self) {
        self.step = self.step.max(MIN_STEP) * 2;
        let last = self.moments.len() - 1;
        every_second(&mut self.moments, last);
        for track in &mut self.tracks {
            every_second(&mut track.bytes, last);
            every_second(&mut track.states, last);
        }
    }

    fn since_begin(&self, now: Instant) -> Duration {
        self.began.map(|began| now.since(began)).unwrap_or_default()
    }

    pub(super) fn record(&mut self, event: &RootEvent, now: Instant) {
        let (kind, hosts, text) = match event {
            RootEvent::HeldUp { host, text } => {
                (IncidentKind::HeldUp, vec![host.clone()], text.clone())
            }
            RootEvent::Demoted { host, text } => {
                (IncidentKind::Demoted, vec![host.clone()], text.clone())
            }
            RootEvent::Apart { one, other } => {
                let text = format!(
                    "nothing got through between {one} and {other}, though both were heard"
                );
                (IncidentKind::Apart, vec![one.clone(), other.clone()], text)
            }
            RootEvent::Rerouted { text, .. } => (IncidentKind::Rerouted, Vec::new(), text.clone()),
            RootEvent::Damaged(damage) => {
                (IncidentKind::Damaged, damage.to.clone(), damage.to_string())
            }
            RootEvent::Reported(report) if report.outcome != Outcome::Delivered => {
                let (word, text) = report.outcome.status_and_reason(&report.text);
                let text = format!("{word}: {text}");
                (IncidentKind::Failed, vec![report.host.clone()], text)
            }
            RootEvent::AllReported => {
                self.is_ending = true;
                return;
            }
            _ => return,
        };
        if self.incidents.len() < MAX_INCIDENTS {
            self.incidents.push(Incident {
                at: self.since_begin(now),
                kind,
                hosts,
                text,
            });
        } else {
            self.left_out += 1;
        }
    }
}

fn every_second<T>(entries: &mut Vec<T>, last: usize) {
    let mut at = 0..;
    entries.retain(|_| at.next().is_some_and(|at| at % 2 == 0 || at == last));
}

pub(super) fn bytes_of(frames: u64, view: &View, form: Form) -> u64 {
    let payload_bytes =
        u64::from(view.payload_bytes).min(u64::from(u16::MAX) - HEADER_BYTES as u64);
    form.content_bytes(
        frames
            .saturating_mul(payload_bytes)
            .min(view.size.unwrap_or(u64::MAX)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(moments: u32, receivers: usize) -> History {
        let track = |host| Track {
            host: format!("n{host}"),
            ..Track::default()
        };
        let mut history = History {
            tracks: (0..receivers).map(track).collect(),
            ..History::default()
        };
        for number in 1..=moments {
            let at = Duration::from_millis(100) * number;
            if history
                .moments
                .last()
                .is_some_and(|last| at < last.at + history.step)
            {
                continue;
            }
            history.moments.push(Moment {
                at,
                sent_bytes: number.into(),
                resent_frames: 0,
            });
            for track in &mut history.tracks {
                track.bytes.push(number.into());
                track.states.push(Some(MemberState::Alive));
            }
            if history.moments.len() > history.most_moments() {
                history.thin_out();
            }
        }
        history
    }

    #[test]
    fn a_long_run_of_many_hosts_takes_no_more_room_than_a_short_one() {
        for (moments, receivers, most) in [
            (10, 3, 10),
            (100_000, 3, 200),
            (5_000, 1000, 60),
            (5_000, 8000, 16),
        ] {
            let history = of(moments, receivers);
            let kept = history.moments().len();
            assert!(
                kept <= most && kept > most / 2 - 1,
                "{kept} of {moments}, {receivers} receivers"
            );
            for track in history.tracks() {
                assert_eq!((track.bytes.len(), track.states.len()), (kept, kept));
                assert!(
                    track
                        .bytes
                        .iter()
                        .zip(history.moments())
                        .all(|(bytes, moment)| *bytes == moment.sent_bytes)
                );
            }
            assert!(history.moments().is_sorted_by_key(|moment| moment.at));
            let last = history.moments()[kept - 1].at;
            assert!(
                Duration::from_millis(100) * moments - last <= 2 * history.step,
                "{last:?}, {:?}",
                history.step
            );
        }
    }

    #[test]
    fn incidents_beyond_the_limit_are_counted() {
        let mut history = History::default();
        let event = RootEvent::HeldUp {
            host: "n1".to_owned(),
            text: "makes no progress".to_owned(),
        };
        (0..MAX_INCIDENTS + 7).for_each(|_| history.record(&event, Instant::START));
        assert_eq!(
            (history.incidents().len(), history.left_out()),
            (MAX_INCIDENTS, 7)
        );
        assert_eq!(history.incidents()[0].kind.name(), "held-up");
    }
}
