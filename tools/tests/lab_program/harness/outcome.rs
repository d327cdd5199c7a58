//! A finished transfer and the checks on it.

use super::{Ended, PAYLOAD_BYTES, names_in, shown_in};
use ethbcast_planning::plan::Via;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// A finished transfer, whose files are removed on drop.
pub struct Outcome {
    pub root: Ended,
    /// Each receiving host with the end of its process and the directory of its file.
    pub(super) receivers: Vec<(String, Ended, PathBuf)>,
    pub(super) _directory: TempDir,
    pub(super) via: &'static str,
    pub(super) content: Arc<Vec<u8>>,
}

impl Outcome {
    pub fn receiver(&self, host: &str) -> &Ended {
        &self.of(host).1
    }

    fn of(&self, host: &str) -> &(String, Ended, PathBuf) {
        self.receivers.iter().find(|(name, ..)| name == host).unwrap_or_else(|| panic!("{host} did not receive"))
    }

    /// Fails unless all succeeded, every receiver has exactly the sent bytes, and the report
    /// agrees.
    #[track_caller]
    pub fn assert_verified(&self) {
        self.root.assert_code(0);
        for (host, ..) in &self.receivers {
            self.assert_delivered(host);
        }
        self.assert_report(&self.root.json());
    }

    /// Fails unless a receiver succeeded and has exactly the sent bytes, with nothing beside them.
    #[track_caller]
    pub fn assert_delivered(&self, host: &str) {
        let (_, ended, directory) = self.of(host);
        ended.assert_code(0);
        assert_eq!(names_in(directory), ["received.bin"], "on {host}");
        let received = fs::read(directory.join("received.bin")).expect("it is there");
        assert_eq!(received.len(), self.content.len(), "bytes on {host}");
        let wrong = received.iter().zip(self.content.iter()).position(|(received, sent)| received != sent);
        assert_eq!(wrong, None, "first wrong byte on {host}");
        let report = ended.json();
        assert_eq!(report["status"], "verified", "{report}");
        assert_eq!(report["bytes"], self.content.len(), "{report}");
        assert_eq!(report["blake3"], self.digest().as_str(), "{report}");
    }

    /// Fails unless a receiver ended with this code and left no visible file.
    #[track_caller]
    pub fn assert_nothing(&self, host: &str, code: i32) {
        let (_, ended, directory) = self.of(host);
        ended.assert_code(code);
        assert_eq!(shown_in(directory), [""; 0], "on {host}");
    }

    /// Fails unless a receiver left no data to resume.
    #[track_caller]
    pub fn assert_nothing_hidden(&self, host: &str) {
        assert_eq!(names_in(&self.of(host).2), [""; 0], "on {host}");
    }

    /// Fails unless every receiver but one has exactly the sent bytes. That one must have them too,
    /// or fail without a file and be named on the root's stderr with one of these words.
    #[track_caller]
    pub fn assert_all_but(&self, culprit: &str, words: &[&str]) {
        let others = self.receivers.iter().map(|(host, ..)| host).filter(|host| *host != culprit);
        others.for_each(|host| self.assert_delivered(host));
        let ended = self.receiver(culprit);
        if ended.code() == 0 {
            self.assert_delivered(culprit);
            return self.root.assert_code(0);
        }
        assert!([1, 3].contains(&ended.code()), "{culprit} ended with {}:\n{}", ended.code(), ended.stderr);
        self.assert_nothing(culprit, ended.code());
        self.root.assert_code(1);
        assert_ne!(self.status(culprit), "verified");
        self.assert_named(culprit, words);
    }

    /// Fails unless a line of the root's stderr names a host and contains one of these words.
    #[track_caller]
    pub fn assert_named(&self, host: &str, words: &[&str]) {
        let is_named = |line: &str| line.split(|letter: char| !letter.is_alphanumeric()).any(|word| word == host);
        let says = |line: &str| words.iter().any(|word| line.contains(word));
        let named = self.root.stderr.lines().any(|line| is_named(line) && says(line));
        assert!(named, "no line names {host} with one of {words:?}:\n{}", self.root.stderr);
    }

    /// Returns a host's status in the root's report.
    pub fn status(&self, host: &str) -> String {
        self.row(host)["status"].as_str().expect("a word").to_owned()
    }

    /// Returns a host's entry in the root's report.
    pub fn row(&self, host: &str) -> Value {
        let report = self.root.json();
        let receivers = report["receivers"].as_array().expect("a list");
        let found = receivers.iter().find(|receiver| receiver["host"] == host);
        found.unwrap_or_else(|| panic!("{host} is not in {report}")).clone()
    }

    /// Fails unless a host was killed and left no visible file.
    pub fn forget_dead(&self, host: &str) {
        self.assert_nothing(host, 128 + Signal::SIGKILL as i32);
    }

    fn digest(&self) -> String {
        blake3::hash(&self.content).to_hex().to_string()
    }

    /// Checks all documented fields of a successful transfer's report and their consistency.
    #[track_caller]
    fn assert_report(&self, report: &Value) {
        let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value} is no number in {report}"));
        let bytes = self.content.len();
        let (seconds, total_seconds) = (number(&report["seconds"]), number(&report["total_seconds"]));
        assert_eq!(report["schema"], 1, "{report}");
        let session = report["session"].as_str().expect("the session is a text");
        assert!(session.len() == 8 && u32::from_str_radix(session, 16).is_ok(), "{session}");
        assert_eq!(report["bytes"], bytes, "{report}");
        assert!(0.0 < seconds && seconds <= total_seconds, "{report}");
        let goodput = bytes as f64 * 8.0 / seconds;
        assert!((number(&report["goodput_bits_per_second"]) - goodput).abs() <= goodput * 1e-6, "{goodput}: {report}");
        assert_eq!(report["blake3"], self.digest().as_str(), "{report}");
        let via = report["via"].as_str().expect("a word");
        assert!(if self.via == "auto" { via.parse::<Via>().is_ok() } else { via == self.via }, "{report}");
        assert!(report["segment_bytes"].as_u64().is_some_and(|segment_bytes| segment_bytes > 0), "{report}");
        assert!(report.get("predicted_seconds").is_some_and(|value| value.is_null() || value.is_f64()), "{report}");
        for name in ["data_sent", "data_resent", "control_sent", "control_received"] {
            assert!(report["frames"][name].is_u64(), "{name}: {report}");
        }
        self.assert_receivers(report, total_seconds);
    }

    #[track_caller]
    fn assert_receivers(&self, report: &Value, total_seconds: f64) {
        let listed = report["receivers"].as_array().expect("a list");
        let ranks: Vec<_> = listed.iter().map(|receiver| receiver["rank"].as_u64().expect("a number")).collect();
        assert_eq!(ranks, (1..=self.receivers.len() as u64).collect::<Vec<_>>(), "ranks, in this order: {report}");
        let mut hosts: Vec<_> = listed.iter().map(|receiver| receiver["host"].as_str().expect("a name")).collect();
        let mut expected: Vec<_> = self.receivers.iter().map(|(host, ..)| host.as_str()).collect();
        hosts.sort_unstable();
        expected.sort_unstable();
        assert_eq!(hosts, expected);
        for receiver in listed {
            assert_eq!(receiver["status"], "verified", "{report}");
            assert_eq!(receiver["bytes"], self.content.len(), "{report}");
            assert_eq!(receiver["blake3"], self.digest().as_str(), "{report}");
            let seconds = receiver["seconds"].as_f64().expect("a number");
            assert!((0.0..=total_seconds).contains(&seconds), "{report}");
            let own = self.receiver(receiver["host"].as_str().expect("a name")).json();
            assert_eq!(own["rank"], receiver["rank"], "what a receiver says of itself: {own}");
        }
    }

    /// Returns the time at which a host was done, in seconds from the first frame, by the root's
    /// report.
    pub fn seconds_of(&self, host: &str) -> f64 {
        self.row(host)["seconds"].as_f64().expect("a number")
    }

    /// Returns a frame count of the root's report.
    pub fn frames(&self, name: &str) -> u64 {
        self.root.json()["frames"][name].as_u64().expect("a number")
    }

    /// Returns the payload of a full frame. With a segment shorter than the content, which the
    /// sender derives from its probe, all frames of a segment have equal length (docs/protocol/limits.md,
    /// segments).
    pub fn payload_bytes(&self) -> usize {
        self.payload_bytes_of(PAYLOAD_BYTES)
    }

    /// Returns the payload of a full frame if a frame holds `most` bytes.
    pub fn payload_bytes_of(&self, most: usize) -> usize {
        let segment = self.root.json()["segment_bytes"].as_u64().expect("a number") as usize;
        let alike = segment.div_ceil(segment.div_ceil(most)).clamp(64, most);
        if segment < self.content.len() { alike } else { most }
    }

    /// Returns the `seconds` of the root's report.
    pub fn seconds(&self) -> f64 {
        self.root.json()["seconds"].as_f64().expect("a number")
    }
}
