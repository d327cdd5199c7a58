//! Option `--json-stream`: a transfer's events as JSON objects on stdout, one per line.

use super::ProgressRole;
use super::course::TransferCourse;
use crate::doctor;
use crate::exit::event;
use ethbcast_collectives::session::{
    MemberReport, MemberState, Outcome, Progress, ReceiverEvent, RootEvent, Session,
};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

/// Number of waiting lines above which progress events are dropped for a slow reader.
const MAX_WAITING: usize = 64;

/// The thread that writes events to stdout, so that a slow reader does not delay the session.
#[derive(Debug)]
pub struct Events {
    lines: Sender<String>,
    waiting: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Events {
    pub fn start() -> std::io::Result<Events> {
        let (lines, queue) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let left = Arc::clone(&waiting);
        let thread = std::thread::Builder::new()
            .name("events".to_owned())
            .spawn(move || write(&queue, &left))?;
        Ok(Events {
            lines,
            waiting,
            thread,
        })
    }

    /// Writes an event. Progress events are dropped before the stream begins and while too many
    /// lines wait; all others are bounded by the number of receivers and their events.
    pub fn record(&self, progress: &Progress<'_>, course: &TransferCourse, now: Instant) {
        let says_nothing =
            !course.has_started() || self.waiting.load(Ordering::Relaxed) >= MAX_WAITING;
        if says_nothing && matches!(progress, Progress::Moved { .. }) {
            return;
        }
        if let Some((name, fields)) = happened(progress, course, now) {
            self.put(name, fields);
        }
    }

    pub fn open(&self, role: ProgressRole, session: &Session) {
        let station = session.station();
        let fields = json!({
            "role": role.word(),
            "host": station.host,
            "group": station.group,
            "interface": session.interface().name,
            "mtu_bytes": station.mtu_bytes,
        });
        self.put("opened", fields);
    }

    fn put(&self, name: &str, fields: Value) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Fails only after stdout was closed.
        drop(self.lines.send(format!("{}\n", event(name, fields))));
    }

    /// Waits until all events are written, because they are data that readers must get completely.
    pub fn finish(self) {
        drop(self.lines);
        drop(self.thread.join());
    }
}

fn write(queue: &Receiver<String>, waiting: &AtomicUsize) {
    for line in queue {
        let mut out = std::io::stdout().lock();
        if out
            .write_all(line.as_bytes())
            .and_then(|()| out.flush())
            .is_err()
        {
            return;
        }
        waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

fn happened(
    progress: &Progress<'_>,
    course: &TransferCourse,
    now: Instant,
) -> Option<(&'static str, Value)> {
    match progress {
        Progress::Sender(event) => of_sender(event),
        Progress::Receiver(event) => of_receiver(event),
        Progress::Interface { away } => Some(("interface", json!({ "away": away }))),
        Progress::Link { lost } => Some(("link", json!({ "lost": lost }))),
        Progress::Moved { .. } => Some(("progress", of_course(course, now))),
        _ => None,
    }
}

fn of_sender(event: &RootEvent) -> Option<(&'static str, Value)> {
    let incident = |kind: &str, hosts: &[String], reason: &str| {
        (
            "incident",
            json!({ "kind": kind, "hosts": hosts, "reason": reason }),
        )
    };
    let one = std::slice::from_ref;
    Some(match event {
        RootEvent::Joined {
            host, receivers, ..
        } => ("joined", json!({ "host": host, "receivers": receivers })),
        RootEvent::Left { host, text, .. } => ("left", json!({ "host": host, "reason": text })),
        RootEvent::Refused { host, mac, text } => (
            "refused",
            json!({ "host": host, "mac": mac.to_string(), "reason": text }),
        ),
        RootEvent::CompetingSender { host, mac } => {
            ("rival", json!({ "host": host, "mac": mac.to_string() }))
        }
        RootEvent::Started {
            receivers,
            via,
            size,
            selective,
        } => (
            "planned",
            json!({ "receivers": receivers, "via": via.to_string(), "bytes": size, "selective": selective }),
        ),
        RootEvent::HeldUp { host, text } => incident("held-up", one(host), text),
        RootEvent::Demoted { host, text } => incident("aside", one(host), text),
        RootEvent::Apart { one, other } => {
            let reason = "nothing gets through between them, though both are heard";
            incident("apart", &[one.clone(), other.clone()], reason)
        }
        RootEvent::Rerouted { text, .. } => incident("rerouted", &[], text),
        RootEvent::Damaged(damage) => incident("damaged", &damage.to, &damage.to_string()),
        RootEvent::Reported(report) => ("host", of_member(report)),
        _ => return None,
    })
}

fn of_member(report: &MemberReport) -> Value {
    let failed = report.outcome != Outcome::Delivered;
    let (word, text) = report.outcome.status_and_reason(&report.text);
    json!({
        "host": report.host,
        "status": word,
        "delivered": !failed,
        "bytes": report.bytes,
        "seconds": report.took.as_secs_f64(),
        "reason": failed.then_some(text),
        "finding": doctor::of_outcome(report.outcome).map(|fault| fault.code()),
    })
}

fn of_receiver(event: &ReceiverEvent) -> Option<(&'static str, Value)> {
    Some(match event {
        ReceiverEvent::Invited {
            host, source, size, ..
        } => (
            "invited",
            json!({ "host": host, "source": source, "bytes": size }),
        ),
        ReceiverEvent::LeftOut { host, text } => {
            ("refused", json!({ "host": host, "reason": text }))
        }
        ReceiverEvent::Started {
            rank,
            receivers,
            via,
            size,
            selective,
            ..
        } => (
            "planned",
            json!({ "rank": rank.0, "receivers": receivers, "via": via.to_string(), "bytes": size,
                    "selective": selective }),
        ),
        ReceiverEvent::RootSilent { silence, left } => (
            "root_silent",
            json!({ "seconds": silence.as_secs_f64(), "left_seconds": left.as_secs_f64() }),
        ),
        _ => return None,
    })
}

fn word(state: MemberState) -> &'static str {
    match state {
        MemberState::Alive => "receiving",
        MemberState::Blocked => "blocked",
        MemberState::Starved => "starved",
        MemberState::WaitsForChild => "waits-for-child",
        MemberState::Verifying => "verifying",
        MemberState::Syncing => "syncing",
        MemberState::Settled => "settled",
        MemberState::Done => "done",
    }
}

fn of_course(course: &TransferCourse, now: Instant) -> Value {
    let slowest =
        |(host, state): &(String, MemberState)| json!({ "host": host, "state": word(*state) });
    json!({
        "bytes": course.bytes,
        "size": course.size,
        "rate_bits_per_second": course.rate(now),
        "left_seconds": course.left(now).map(|left| left.as_secs_f64()),
        "resent_frames": course.resent_frames,
        "delivered": course.delivered,
        "failed": course.failed,
        "slowest": course.slowest.as_ref().map(slowest),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::course::tests::{moved, sending};
    use ethbcast_collectives::session::Behind;
    use ethbcast_transport::wire::Rank;
    use std::time::Duration;

    #[test]
    fn progress_events_have_what_a_user_is_shown() {
        let begin = Instant::now();
        let mut course = sending(begin);
        let now = begin + Duration::from_secs(2);
        moved(&mut course, 16 << 20, now);
        let progress = Progress::Moved {
            bytes: 16 << 20,
            came: 16 << 20,
            slowest: None,
            members: &[],
            resent_frames: 12,
        };
        let expected = json!({
            "bytes": 16_777_216, "size": 67_108_864, "rate_bits_per_second": 67_108_864.0, "left_seconds": 6.0,
            "resent_frames": 12, "delivered": 0, "failed": 0, "slowest": { "host": "n3", "state": "starved" },
        });
        assert_eq!(
            happened(&progress, &course, now),
            Some(("progress", expected))
        );
    }

    #[test]
    fn a_failed_receiver_is_reported_with_the_reason_and_its_code() {
        let report = |outcome, text: &str| MemberReport {
            host: "n1".to_owned(),
            rank: Rank(1),
            outcome,
            bytes: 7,
            digest: [0; 32],
            text: text.to_owned(),
            took: Duration::from_millis(1500),
            taken: None,
            behind: Behind::default(),
        };
        let told = |report| of_sender(&RootEvent::Reported(report)).expect("it is told");
        let failed = json!({ "host": "n1", "status": "no-space", "delivered": false, "bytes": 7, "seconds": 1.5,
                             "reason": "it is full", "finding": "E-SPACE" });
        assert_eq!(
            told(report(Outcome::NoSpace, "it is full")),
            ("host", failed)
        );
        let delivered = json!({ "host": "n1", "status": "verified", "delivered": true, "bytes": 7, "seconds": 1.5,
                                "reason": null, "finding": null });
        assert_eq!(told(report(Outcome::Delivered, "")), ("host", delivered));
    }
}
