//! Option `--metrics-file`: progress as metrics for Prometheus' node exporter.

use super::ProgressRole;
use super::course::TransferCourse;
use crate::exit::{Code, Failure, print_line};
use crate::whole_file;
use parking_lot::Mutex;
use std::fmt::{Display, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// File mode, which lets the collector's user read.
const MODE: u32 = 0o644;
/// Longest wait for the final write, so that a hanging disk does not hold the user up.
const LAST_WRITE: Duration = Duration::from_secs(2);
/// States of a transfer in order; the last two are final.
const STATES: [&str; 4] = ["waiting", "transferring", "done", "failed"];

#[derive(Clone, Debug)]
pub struct Labels {
    pub group: String,
    pub role: ProgressRole,
    pub began: SystemTime,
}

#[derive(Debug)]
pub struct Metrics {
    writer: Option<Writer>,
    thread: Option<(SyncSender<u8>, JoinHandle<()>)>,
}

impl Metrics {
    pub fn open(
        path: &Path,
        labels: Labels,
        course: Arc<Mutex<TransferCourse>>,
    ) -> anyhow::Result<Metrics> {
        let writer = Writer {
            path: path.to_owned(),
            labels,
            course,
            has_warned: false,
        };
        writer.write(None).map_err(|error| {
            let help = "name a file in a directory that can be written with --metrics-file";
            Failure::new(
                Code::System,
                format!(
                    "cannot write the metrics to {}: {error}; {help}",
                    path.display()
                ),
            )
        })?;
        Ok(Metrics {
            writer: Some(writer),
            thread: None,
        })
    }

    /// Starts the thread, which rewrites the file every `period`, if there is one. Signals must be
    /// blocked already. Fails if the system has no room for a thread.
    pub fn start(&mut self, period: Option<Duration>) -> std::io::Result<()> {
        let Some(writer) = self.writer.take() else {
            return Ok(());
        };
        let (ends, ended) = sync_channel(1);
        let thread = std::thread::Builder::new().name("metrics".to_owned());
        let thread = thread.spawn(move || writer.run(&ended, period.unwrap_or(Duration::MAX)))?;
        self.thread = Some((ends, thread));
        Ok(())
    }

    pub fn end(self, exit_code: u8) {
        if let Some(mut writer) = self.writer {
            writer.renew(Some(exit_code));
        }
        let Some((ends, thread)) = self.thread else {
            return;
        };
        ends.send(exit_code).ok();
        let end = Instant::now() + LAST_WRITE;
        while !thread.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[derive(Debug)]
struct Writer {
    path: PathBuf,
    labels: Labels,
    course: Arc<Mutex<TransferCourse>>,
    has_warned: bool,
}

impl Writer {
    fn run(mut self, ended: &Receiver<u8>, period: Duration) {
        loop {
            match ended.recv_timeout(period) {
                Ok(exit_code) => return self.renew(Some(exit_code)),
                Err(RecvTimeoutError::Timeout) => self.renew(None),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Rewrites the file. Only the first failure is reported, because a full disk is no failure of
    /// the transfer.
    fn renew(&mut self, exit_code: Option<u8>) {
        let written = self.write(exit_code.map(|exit_code| Ending {
            at: SystemTime::now(),
            exit_code,
        }));
        if let Some(error) = written
            .err()
            .filter(|_| !std::mem::replace(&mut self.has_warned, true))
        {
            print_line(format_args!(
                "ethbcast: the metrics are not written to {} any more: {error}",
                self.path.display()
            ));
        }
    }

    fn write(&self, ending: Option<Ending>) -> std::io::Result<()> {
        let text = text(&self.labels, &self.course.lock(), Instant::now(), ending);
        whole_file::renew(&self.path, &text, MODE)
    }
}

#[derive(Clone, Copy, Debug)]
struct Ending {
    at: SystemTime,
    exit_code: u8,
}

/// Returns the file's text in Prometheus' format 0.0.4.
fn text(labels: &Labels, course: &TransferCourse, now: Instant, ending: Option<Ending>) -> String {
    let interface = if course.interface.is_empty() {
        String::new()
    } else {
        format!("interface=\"{}\",", escaped(&course.interface))
    };
    let labels_text = format!(
        "group=\"{}\",{interface}role=\"{}\"",
        escaped(&labels.group),
        labels.role.word()
    );
    let mut page = Page {
        labels: labels_text,
        text: String::new(),
    };
    let is_root = labels.role == ProgressRole::Root;
    page.gauge(
        "start_time_seconds",
        "When the run began, in seconds since 1970.",
        Some(unix_seconds(labels.began)),
    );
    let end = ending.map(|ending| unix_seconds(ending.at));
    page.gauge(
        "end_time_seconds",
        "When the run ended, in seconds since 1970.",
        end,
    );
    page.gauge(
        "exit_code",
        "The exit code of the run, once it has ended.",
        ending.map(|ending| ending.exit_code),
    );
    page.states(state(course, ending));
    page.gauge(
        "size_bytes",
        "How many bytes there are to transfer, if that is known.",
        course.size,
    );
    let bytes = "Bytes that have arrived; of a root, at the slowest receiver.";
    page.counter("transferred_bytes_total", bytes, course.bytes);
    let rate = if ending.is_some() {
        course.average(now)
    } else {
        course.rate(now)
    };
    let help = "Bytes per second over the last seconds; after the end, average of the whole run.";
    page.gauge(
        "rate_bytes_per_second",
        help,
        Some(rate.unwrap_or(0.0) / 8.0),
    );
    let left = course.left(now).filter(|_| ending.is_none());
    page.gauge(
        "left_seconds",
        "Seconds until all bytes have arrived, if the rest is like the last seconds.",
        left.map(|left| left.as_secs_f64()),
    );
    let known = (is_root || course.has_started()).then_some(course.receivers);
    page.gauge("receivers", "Receivers that have joined.", known);
    let of_root = |count: usize| is_root.then_some(count);
    page.gauge(
        "receivers_delivered",
        "Receivers that have verified everything.",
        of_root(course.delivered),
    );
    page.gauge(
        "receivers_failed",
        "Receivers that have not got it and will not.",
        of_root(course.failed),
    );
    let resent = "Data frames that this host has sent again.";
    page.counter("resent_frames_total", resent, course.resent_frames);
    page.text
}

fn state(course: &TransferCourse, ending: Option<Ending>) -> &'static str {
    match ending {
        Some(Ending { exit_code: 0, .. }) => "done",
        Some(_) => "failed",
        None if course.has_started() => "transferring",
        None => "waiting",
    }
}

struct Page {
    labels: String,
    text: String,
}

impl Page {
    fn gauge(&mut self, name: &str, help: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.head(name, help, "gauge");
            self.sample(name, "", value);
        }
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, help, "counter");
        self.sample(name, "", value);
    }

    fn states(&mut self, now: &str) {
        self.head(
            "state",
            "1 for the state that the run is in, 0 for the others.",
            "gauge",
        );
        for state in STATES {
            self.sample(
                "state",
                &format!(",state=\"{state}\""),
                u8::from(state == now),
            );
        }
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        write!(
            self.text,
            "# HELP ethbcast_{name} {help}\n# TYPE ethbcast_{name} {kind}\n"
        )
        .expect("it is a string");
    }

    fn sample(&mut self, name: &str, more: &str, value: impl Display) {
        let Page { labels, text } = self;
        writeln!(text, "ethbcast_{name}{{{labels}{more}}} {value}").expect("it is a string");
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace('\n', r"\n")
}

fn unix_seconds(time: SystemTime) -> f64 {
    let millis = time
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis();
    millis as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::super::course::tests::{moved, sending};
    use super::*;

    fn labels(role: ProgressRole) -> Labels {
        let began = UNIX_EPOCH + Duration::from_millis(1_700_000_000_250);
        Labels {
            group: "a\\\"b\nc".to_owned(),
            role,
            began,
        }
    }

    #[test]
    fn a_root_that_sends_has_all_figures_but_those_of_its_end() {
        let begin = Instant::now();
        let mut course = sending(begin);
        course.interface = "eth0".to_owned();
        let now = begin + Duration::from_secs(2);
        moved(&mut course, 16 << 20, now);
        let expected = r##"# HELP ethbcast_start_time_seconds When the run began, in seconds since 1970.
# TYPE ethbcast_start_time_seconds gauge
ethbcast_start_time_seconds{group="a\\\"b\nc",interface="eth0",role="root"} 1700000000.25
# HELP ethbcast_state 1 for the state that the run is in, 0 for the others.
# TYPE ethbcast_state gauge
ethbcast_state{group="a\\\"b\nc",interface="eth0",role="root",state="waiting"} 0
ethbcast_state{group="a\\\"b\nc",interface="eth0",role="root",state="transferring"} 1
ethbcast_state{group="a\\\"b\nc",interface="eth0",role="root",state="done"} 0
ethbcast_state{group="a\\\"b\nc",interface="eth0",role="root",state="failed"} 0
# HELP ethbcast_size_bytes How many bytes there are to transfer, if that is known.
# TYPE ethbcast_size_bytes gauge
ethbcast_size_bytes{group="a\\\"b\nc",interface="eth0",role="root"} 67108864
# HELP ethbcast_transferred_bytes_total Bytes that have arrived; of a root, at the slowest receiver.
# TYPE ethbcast_transferred_bytes_total counter
ethbcast_transferred_bytes_total{group="a\\\"b\nc",interface="eth0",role="root"} 16777216
# HELP ethbcast_rate_bytes_per_second Bytes per second over the last seconds; after the end, average of the whole run.
# TYPE ethbcast_rate_bytes_per_second gauge
ethbcast_rate_bytes_per_second{group="a\\\"b\nc",interface="eth0",role="root"} 8388608
# HELP ethbcast_left_seconds Seconds until all bytes have arrived, if the rest is like the last seconds.
# TYPE ethbcast_left_seconds gauge
ethbcast_left_seconds{group="a\\\"b\nc",interface="eth0",role="root"} 6
# HELP ethbcast_receivers Receivers that have joined.
# TYPE ethbcast_receivers gauge
ethbcast_receivers{group="a\\\"b\nc",interface="eth0",role="root"} 3
# HELP ethbcast_receivers_delivered Receivers that have verified everything.
# TYPE ethbcast_receivers_delivered gauge
ethbcast_receivers_delivered{group="a\\\"b\nc",interface="eth0",role="root"} 0
# HELP ethbcast_receivers_failed Receivers that have not got it and will not.
# TYPE ethbcast_receivers_failed gauge
ethbcast_receivers_failed{group="a\\\"b\nc",interface="eth0",role="root"} 0
# HELP ethbcast_resent_frames_total Data frames that this host has sent again.
# TYPE ethbcast_resent_frames_total counter
ethbcast_resent_frames_total{group="a\\\"b\nc",interface="eth0",role="root"} 12
"##;
        assert_eq!(
            text(&labels(ProgressRole::Root), &course, now, None),
            expected
        );
    }

    #[test]
    fn the_end_of_a_run_that_never_began_has_its_exit_code() {
        let ending = Ending {
            at: UNIX_EPOCH + Duration::from_secs(1_700_000_009),
            exit_code: 3,
        };
        let text = text(
            &labels(ProgressRole::Receiver),
            &TransferCourse::default(),
            Instant::now(),
            Some(ending),
        );
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let of = r#"{group="a\\\"b\nc",role="receiver""#;
        let expected = [
            format!("ethbcast_start_time_seconds{of}}} 1700000000.25"),
            format!("ethbcast_end_time_seconds{of}}} 1700000009"),
            format!("ethbcast_exit_code{of}}} 3"),
            format!("ethbcast_state{of},state=\"waiting\"}} 0"),
            format!("ethbcast_state{of},state=\"transferring\"}} 0"),
            format!("ethbcast_state{of},state=\"done\"}} 0"),
            format!("ethbcast_state{of},state=\"failed\"}} 1"),
            format!("ethbcast_transferred_bytes_total{of}}} 0"),
            format!("ethbcast_rate_bytes_per_second{of}}} 0"),
            format!("ethbcast_resent_frames_total{of}}} 0"),
        ];
        assert_eq!(samples, expected);
    }
}
