//! Compares the reports of hosts and root with the files on disk.

use serde_json::Value;

use crate::chaos::report::Report;
use crate::chaos::scenario::{Promise, Scenario};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    Absent,
    /// The complete file of this sender.
    Whole(usize),
    Wrong,
}

impl FileState {
    pub fn is_whole(self) -> bool {
        matches!(self, FileState::Whole(_))
    }
}

#[derive(Clone, Debug)]
pub struct Host {
    pub name: String,
    pub code: Option<i32>,
    pub json: Value,
    /// Whether it has the file and knows that the root knows.
    pub is_confirmed: bool,
    /// Whether it reports that it does not know.
    pub admits_doubt: bool,
    pub file: FileState,
    pub may: Vec<i32>,
    /// Whether it has been harmed so much that it may lack the file.
    pub is_marred: bool,
}

impl Host {
    fn is_killed(&self) -> bool {
        self.code == Some(128 + 9)
    }
}

pub struct Claims<'a> {
    pub scenario: &'a Scenario,
    pub hosts: &'a [Host],
    pub sent: &'a [Option<(u64, blake3::Hash)>; 2],
    pub root_lines: &'a [Vec<String>],
    pub said: &'a str,
}

impl Claims<'_> {
    pub fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.said.contains("panicked at") {
            wrong.push("a program panicked".to_owned());
        }
        for host in self.hosts {
            wrong.extend(self.wrong_of(host).into_iter().map(|what| format!("{}: {what}", host.name)));
        }
        if self.scenario.promises(Promise::Either) {
            let mut from: Vec<_> = self.hosts.iter().map(|host| host.file).collect();
            from.dedup();
            if from.len() > 1 {
                wrong.push("not all have the same file".to_owned());
            }
        }
        wrong
    }

    fn wrong_of(&self, host: &Host) -> Vec<String> {
        let mut wrong = Vec::new();
        if host.file == FileState::Wrong {
            wrong.push("another file is there".to_owned());
        }
        let is_promised = self.scenario.promises_files() && !host.is_marred;
        if is_promised && !host.file.is_whole() {
            wrong.push("has not got the file".to_owned());
        }
        // A host that has not ended is reported elsewhere.
        let Some(code) = host.code else { return wrong };
        if !host.may.contains(&code) {
            wrong.push(format!("ended with {code}, not one of {:?}", host.may));
        }
        match (code, host.file) {
            (0, FileState::Whole(from)) => wrong.extend(self.wrong_report(host, from)),
            (0, _) => wrong.push("ended with 0 without the file".to_owned()),
            (_, FileState::Whole(_)) if !host.is_killed() && !host.admits_doubt => {
                wrong.push(format!("ended with {code}, and the file is there"));
            }
            _ => {}
        }
        if code != 0 && !host.is_killed() && host.json["status"] == "verified" {
            wrong.push(format!("ended with {code}, and prints \"verified\""));
        }
        wrong
    }

    fn wrong_report(&self, host: &Host, from: usize) -> Option<String> {
        let (bytes, digest) = self.sent[from]?;
        let (status, told) = (&host.json["status"], &host.json["blake3"]);
        let is_right = status == "verified" && host.json["bytes"] == bytes && *told == digest.to_hex().as_str();
        (!is_right).then(|| format!("prints {}", host.json))
    }

    pub fn wrong_of_root(&self, number: usize, code: Option<i32>, report: &Report) -> Vec<String> {
        let mut wrong = Vec::new();
        let Some(code) = code else { return wrong };
        if !self.root_may().contains(&code) {
            wrong.push(format!("sender {number} ended with {code}"));
        }
        let rows = report.rows();
        let all_verified = !rows.is_empty() && rows.iter().all(|(_, status)| status == "verified");
        if report.is_there() && code < 128 && (code == 0) != all_verified {
            wrong.push(format!("sender {number} ended with {code}, and reports {rows:?}"));
        }
        if code <= 1 && !report.is_there() {
            wrong.push(format!("sender {number} ended with {code} without a report"));
        }
        if let (Some((bytes, digest)), Some((told_bytes, told))) = (self.sent[number], report.content())
            && (bytes, digest.to_hex().as_str()) != (told_bytes, told.as_str())
        {
            wrong.push(format!("sender {number} reports {told_bytes} bytes, {told}"));
        }
        let mut names: Vec<_> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        names.dedup();
        names.sort_unstable();
        names.dedup();
        for name in names {
            wrong.extend(self.disagreement(number, name, report));
        }
        wrong
    }

    fn root_may(&self) -> Vec<i32> {
        let all: [(bool, &[i32]); 5] = [
            (!self.scenario.promises(Promise::Either), &[0, 1]),
            (self.scenario.kept_out() > 0, &[3]),
            (self.scenario.promises(Promise::Either), &[0, 3]),
            (self.scenario.promises(Promise::Truth), &[3, 137, 143]),
            (self.scenario.promises(Promise::Forged), &[3, 4, 5]),
        ];
        all.iter().filter(|(holds, _)| *holds).flat_map(|(_, codes)| codes.iter().copied()).collect()
    }

    fn disagreement(&self, number: usize, name: &str, report: &Report) -> Vec<String> {
        let mut wrong = Vec::new();
        if !report.is_there() {
            return wrong;
        }
        let statuses = report.statuses(name);
        let own: Vec<_> = self.hosts.iter().filter(|host| host.name == name).collect();
        let verified = statuses.iter().filter(|status| *status == "verified").count();
        let there = own.iter().filter(|host| host.file == FileState::Whole(number)).count();
        if verified > there {
            wrong.push(format!("{name}: verified, says sender {number}, and the file is not there"));
        }
        let content = FileState::Whole(number);
        let sure = own.iter().filter(|host| host.code == Some(0) && host.file == content && host.is_confirmed).count();
        if sure > verified && !self.scenario.promises(Promise::Forged) {
            wrong.push(format!("{name}: has the file for sure, and sender {number} says {statuses:?}"));
        }
        let is_named = !statuses.is_empty() || report.leaves_out(name) || self.is_said_of(number, name);
        if there == 0 && !is_named {
            wrong.push(format!("{name}: is without the file, and sender {number} does not name it"));
        }
        wrong
    }

    /// Whether a sender prints more about a host than that it joined, or nothing at all.
    fn is_said_of(&self, number: usize, name: &str) -> bool {
        let is_about = |line: &&String| line.split(|letter: char| !letter.is_alphanumeric()).any(|word| word == name);
        let about: Vec<_> = self.root_lines[number].iter().filter(is_about).collect();
        about.is_empty() || about.iter().any(|line| !line.contains(" joined ("))
    }
}

#[cfg(test)]
mod tests;
