//! How far each receiver was, moment by moment, and what happened to it: what a report draws.

use crate::session::ledger::Form;
use crate::session::{MemberReport, MemberState, Outcome, Root, RootEvent, Status, View};
use ethbcast_transport::Instant;
use ethbcast_transport::wire::HEADER_BYTES;
use std::time::Duration;

/// The least time between two moments: members say where they are as often.
const LEAST_STEP: Duration = Duration::from_millis(100);
/// Of so many moments every second one is forgotten, and half as many are kept from then on.
const MOST_MOMENTS: usize = 200;
/// With many hosts there are fewer moments, so that all of them have no more than so many entries (1 MiB), but no fewer
/// than so many.
const MOST_ENTRIES: usize = 60_000;
const LEAST_MOMENTS: usize = 16;
/// What happens beyond this is counted only.
const MOST_INCIDENTS: usize = 256;

/// A session from its first data frame to its last report, as its root saw it. Of bounded size, however long it was and
/// however many hosts it had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// When the first data frame was seen to have been sent.
    began: Option<Instant>,
    step: Duration,
    moments: Vec<Moment>,
    tracks: Vec<Track>,
    incidents: Vec<Incident>,
    /// How many incidents there was no room for.
    left_out: u64,
    /// Everybody has reported: the next moment is the last.
    is_ending: bool,
    is_over: bool,
}

/// What the root did up to a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Moment {
    /// When that was, from the first data frame on.
    pub at: Duration,
    /// Bytes that it had sent, or held ready to be sent.
    pub sent_bytes: u64,
    /// Data frames that it had sent again.
    pub resent_frames: u64,
}

/// What one receiver had said at each moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Track {
    /// Its name.
    pub host: String,
    /// Bytes that had arrived in order.
    pub bytes: Vec<u64>,
    /// What it was busy with; `None` if it had gone, or had not come yet.
    pub states: Vec<Option<MemberState>>,
}

/// Something that a user would be told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Incident {
    /// When, from the first data frame on.
    pub at: Duration,
    /// Of which kind it is.
    pub kind: IncidentKind,
    /// Whom it concerns; nobody if it is the whole session.
    pub hosts: Vec<String>,
    /// What it was, to be read after the name if there is one.
    pub text: String,
}

/// What can happen to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IncidentKind {
    /// Somebody held up the others.
    HeldUp,
    /// Somebody was put out of the others' way.
    Aside,
    /// Nothing got through between two hosts.
    Apart,
    /// Bytes came damaged.
    Damaged,
    /// The bytes went on another way.
    Rerouted,
    /// Somebody has not got the bytes.
    Failed,
}

impl IncidentKind {
    /// The word for it in reports.
    pub fn word(self) -> &'static str {
        match self {
            IncidentKind::HeldUp => "held-up",
            IncidentKind::Aside => "aside",
            IncidentKind::Apart => "apart",
            IncidentKind::Damaged => "damaged",
            IncidentKind::Rerouted => "rerouted",
            IncidentKind::Failed => "failed",
        }
    }
}

impl History {
    /// What the root did, moment by moment.
    pub fn moments(&self) -> &[Moment] {
        &self.moments
    }

    /// Each receiver by rank, with an entry for each moment.
    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// What happened, in this order.
    pub fn incidents(&self) -> &[Incident] {
        &self.incidents
    }

    /// How many more incidents there were.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Notes where everybody is, once data flows, if that is not too soon after the last time.
    pub(super) fn note(&mut self, root: &Root, form: Form, now: Instant) {
        if self.began.is_none() && root.stream_stats().data_sent > 0 {
            self.began = Some(now);
        }
        let (at, ends) = (self.since_begin(now), self.is_ending);
        let due = self.moments.last().is_none_or(|last| at >= last.at + self.step.max(LEAST_STEP));
        let Some(view) = root.view().filter(|_| !self.is_over && self.began.is_some() && (due || ends)) else { return };
        let sent_bytes = bytes_of(root.streams().map_or(0, |streams| streams.frames()), view, form);
        let at = if ends { root.took() } else { at };
        self.moments.push(Moment { at, sent_bytes, resent_frames: root.stream_stats().data_resent });
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
            self.tracks.push(Track { host: member.host.clone(), bytes, states });
        }
        for (rank, Status { state, arrived, .. }) in root.states() {
            let Some(track) = rank.index().checked_sub(1).and_then(|at| self.tracks.get_mut(at)) else { continue };
            track.bytes.push(bytes_of(arrived, view, form));
            track.states.push(Some(state));
        }
        for track in &mut self.tracks {
            track.bytes.resize(now, track.bytes.last().copied().unwrap_or_default());
            track.states.resize(now, None);
        }
        // Who has it all need not have said so by a sign of life.
        for MemberReport { rank, bytes, .. } in root.reports().filter(|one| one.outcome == Outcome::Delivered) {
            let track = rank.index().checked_sub(1).and_then(|at| self.tracks.get_mut(at));
            track.and_then(|track| track.bytes.last_mut()).into_iter().for_each(|last| *last = *bytes);
        }
    }

    fn most_moments(&self) -> usize {
        (MOST_ENTRIES / self.tracks.len().max(1)).clamp(LEAST_MOMENTS, MOST_MOMENTS)
    }

    /// Forgets every second moment, but not the last.
    fn thin_out(&mut self) {
        self.step = self.step.max(LEAST_STEP) * 2;
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

    /// Notes what has happened, if it is worth it.
    pub(super) fn hear(&mut self, event: &RootEvent, now: Instant) {
        let (kind, hosts, text) = match event {
            RootEvent::HeldUp { host, text } => (IncidentKind::HeldUp, vec![host.clone()], text.clone()),
            RootEvent::Aside { host, text } => (IncidentKind::Aside, vec![host.clone()], text.clone()),
            RootEvent::Apart { one, other } => {
                let text = format!("nothing got through between {one} and {other}, though both were heard");
                (IncidentKind::Apart, vec![one.clone(), other.clone()], text)
            }
            RootEvent::Rerouted { text, .. } => (IncidentKind::Rerouted, Vec::new(), text.clone()),
            RootEvent::Damaged(damage) => (IncidentKind::Damaged, damage.to.clone(), damage.to_string()),
            RootEvent::Reported(report) if report.outcome != Outcome::Delivered => {
                let text = format!("{}: {}", report.outcome.word(), report.text);
                (IncidentKind::Failed, vec![report.host.clone()], text)
            }
            RootEvent::AllReported => {
                self.is_ending = true;
                return;
            }
            _ => return,
        };
        if self.incidents.len() < MOST_INCIDENTS {
            self.incidents.push(Incident { at: self.since_begin(now), kind, hosts, text });
        } else {
            self.left_out += 1;
        }
    }
}

/// Keeps every second entry, and the one at `last`.
fn every_second<T>(entries: &mut Vec<T>, last: usize) {
    let mut at = 0..;
    entries.retain(|_| at.next().is_some_and(|at| at % 2 == 0 || at == last));
}

/// The bytes of the content that so many frames carry.
pub(super) fn bytes_of(frames: u64, view: &View, form: Form) -> u64 {
    let payload_bytes = u64::from(view.payload_bytes).min(u64::from(u16::MAX) - HEADER_BYTES as u64);
    form.content_bytes(frames.saturating_mul(payload_bytes).min(view.size.unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A history of this many moments of so many receivers, 100 ms apart, thinned out as it grew.
    fn of(moments: u32, receivers: usize) -> History {
        let track = |host| Track { host: format!("n{host}"), ..Track::default() };
        let mut history = History { tracks: (0..receivers).map(track).collect(), ..History::default() };
        for number in 1..=moments {
            let at = Duration::from_millis(100) * number;
            if history.moments.last().is_some_and(|last| at < last.at + history.step) {
                continue;
            }
            history.moments.push(Moment { at, sent_bytes: number.into(), resent_frames: 0 });
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
        for (moments, receivers, most) in [(10, 3, 10), (100_000, 3, 200), (5_000, 1000, 60), (5_000, 8000, 16)] {
            let history = of(moments, receivers);
            let kept = history.moments().len();
            assert!(kept <= most && kept > most / 2 - 1, "{kept} of {moments}, {receivers} receivers");
            for track in history.tracks() {
                assert_eq!((track.bytes.len(), track.states.len()), (kept, kept));
                assert!(track.bytes.iter().zip(history.moments()).all(|(bytes, moment)| *bytes == moment.sent_bytes));
            }
            assert!(history.moments().is_sorted_by_key(|moment| moment.at));
            let last = history.moments()[kept - 1].at;
            assert!(Duration::from_millis(100) * moments - last <= 2 * history.step, "{last:?}, {:?}", history.step);
        }
    }

    #[test]
    fn what_happens_all_the_time_is_counted() {
        let mut history = History::default();
        let event = RootEvent::HeldUp { host: "n1".to_owned(), text: "makes no progress".to_owned() };
        (0..MOST_INCIDENTS + 7).for_each(|_| history.hear(&event, Instant::START));
        assert_eq!((history.incidents().len(), history.left_out()), (MOST_INCIDENTS, 7));
        assert_eq!(history.incidents()[0].kind.word(), "held-up");
    }
}
