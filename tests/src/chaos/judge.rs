//! Fault injection: check of a run's result: survivors have the file, reports are true, nothing is
//! left.

use super::campaign::RunReport;
use super::play::{ChaosRun, digest};
use super::scenario::{Class, OUTSIDER, Promise, ROOT, Scenario};
use crate::lab::Process;
use anyhow::Context;
use serde_json::Value;

/// Exit codes of a receiver that lacks the file through no fault of its own.
const KEPT: &[i32] = &[0, 1, 3];
/// Exit codes that forged messages may cause at a receiver.
const DECEIVED: &[i32] = &[0, 1, 3, 4, 5];

#[derive(Clone, Debug)]
pub struct Verdict {
    pub classes: Vec<Class>,
    pub wrong: Vec<String>,
    /// Seconds from the start of the sender to the last end, or the time waited if there is none.
    pub seconds: f64,
    /// Number of receivers that have the file.
    pub exact: usize,
    pub came: bool,
    pub said: String,
}

pub fn judge(play: &mut ChaosRun) -> anyhow::Result<Verdict> {
    let ended = play.ended.unwrap_or_else(std::time::Instant::now);
    let scenario = play.scenario;
    let came = (0..scenario.troubles.len()).all(|trouble| has_come(play, trouble, None));
    let mut wrong: Vec<String> = play
        .hung
        .iter()
        .map(|host| format!("{host} has not ended"))
        .collect();
    if play.left_processes > 0 {
        wrong.push(format!("{} processes are left", play.left_processes));
    }
    for receiver in &play.receivers {
        wrong.extend(
            receiver
                .strays()
                .into_iter()
                .map(|stray| format!("{}: {stray} is left", receiver.host)),
        );
    }
    let said = said(play);
    let sent = [sent(play, ROOT)?, sent(play, OUTSIDER)?];
    let hosts = hosts(play, &sent)?;
    let roots = roots(play)?;
    let senders = [&play.root, &play.second].into_iter().flatten();
    let lines_of = |process: &Process| process.lines().into_iter().map(|line| line.text).collect();
    let root_lines: Vec<Vec<String>> = senders.map(lines_of).collect();
    let claims = Claims {
        scenario,
        hosts: &hosts,
        sent: &sent,
        root_lines: &root_lines,
        said: &said,
    };
    wrong.extend(claims.wrong());
    for (number, (code, report)) in roots.iter().enumerate() {
        wrong.extend(claims.wrong_of_root(number, *code, report));
    }
    Ok(Verdict {
        classes: scenario
            .troubles
            .iter()
            .map(|trouble| trouble.class)
            .collect(),
        wrong,
        seconds: (ended - play.started).as_secs_f64(),
        exact: hosts.iter().filter(|host| host.file.is_whole()).count(),
        came,
        said,
    })
}

fn has_come(play: &ChaosRun, trouble: usize, host: Option<&str>) -> bool {
    let is_of = |host_of: &str| host.is_none_or(|host| host == host_of);
    let mut events = play
        .pending
        .iter()
        .filter(|pending| pending.trouble == trouble && is_of(&pending.event.host));
    events.any(|pending| pending.struck.is_some())
}

fn sent(play: &ChaosRun, host: &str) -> anyhow::Result<Option<(u64, blake3::Hash)>> {
    let path = play.source(host);
    Ok(digest(&path)?.map(|digest| {
        (
            std::fs::metadata(&path).map_or(0, |about| about.len()),
            digest,
        )
    }))
}

fn roots(play: &mut ChaosRun) -> anyhow::Result<Vec<(Option<i32>, RunReport)>> {
    let senders = [&mut play.root, &mut play.second].into_iter().flatten();
    senders
        .map(|process| {
            let code = process
                .ended()
                .context("asking a sender")?
                .map(|(_, code)| code);
            Ok((code, RunReport::read(&process.stdout())))
        })
        .collect()
}

fn hosts(
    play: &mut ChaosRun,
    sent: &[Option<(u64, blake3::Hash)>; 2],
) -> anyhow::Result<Vec<JudgedHost>> {
    let mut hosts = Vec::new();
    for index in 0..play.receivers.len() {
        let (name, dest) = (
            play.receivers[index].host.clone(),
            play.receivers[index].dest.clone(),
        );
        let process = &mut play.receivers[index].process;
        let code = process.ended()?.map(|(_, code)| code);
        let (json, lines) = (
            serde_json::from_str(&process.stdout()).unwrap_or_default(),
            process.lines(),
        );
        let marred = codes_if_marred(play, &name);
        hosts.push(JudgedHost {
            code,
            json,
            is_confirmed: !lines
                .iter()
                .any(|line| line.text.contains("has not confirmed it")),
            admits_doubt: lines
                .iter()
                .any(|line| line.text.contains("DEST may be in place or not")),
            file: match digest(&dest)? {
                None => FileState::Absent,
                Some(found) => (0..2)
                    .find(|&number| sent[number].is_some_and(|(_, digest)| digest == found))
                    .map_or(FileState::Wrong, FileState::Whole),
            },
            may: may_end_with(play.scenario, marred),
            is_marred: marred.is_some(),
            name,
        });
    }
    Ok(hosts)
}

fn codes_if_marred(play: &ChaosRun, host: &str) -> Option<&'static [i32]> {
    let troubles = play.scenario.troubles.iter().enumerate();
    let mut harmful = troubles.filter_map(|(index, trouble)| {
        let (_, codes) = trouble.marred.iter().find(|(of, _)| of == host)?;
        has_come(play, index, Some(host)).then_some(*codes)
    });
    harmful.next()
}

fn may_end_with(scenario: &Scenario, marred: Option<&'static [i32]>) -> Vec<i32> {
    let kept = scenario.promises(Promise::Truth).then_some(KEPT);
    let deceived = scenario.promises(Promise::Forged).then_some(DECEIVED);
    [Some(&[0][..]), kept, deceived, marred]
        .into_iter()
        .flatten()
        .flatten()
        .copied()
        .collect()
}

fn said(play: &mut ChaosRun) -> String {
    let started = play.started;
    let mut said = String::new();
    for pending in &play.pending {
        let at = pending.struck.map_or("never".into(), |at| {
            format!("{:.3}", at.saturating_duration_since(started).as_secs_f64())
        });
        said += &format!("  {at} {:?} {}\n", pending.event.deed, pending.event.host);
    }
    for relay in &play.relays {
        said += &format!(
            "  the relay has carried {} frames\n",
            relay.carried_frames()
        );
    }
    if play.forged_frames > 0 {
        said += &format!("  the attacker has sent {} frames\n", play.forged_frames);
    }
    for (host, process) in play.processes() {
        let code = process.ended().ok().flatten().map(|(at, code)| {
            format!(
                "{code} after {:.3}",
                at.saturating_duration_since(started).as_secs_f64()
            )
        });
        said += &format!("{host}: {}\n", code.unwrap_or_else(|| "still there".into()));
        for line in process.lines() {
            said += &format!(
                "  {:7.3} {}\n",
                line.at.saturating_duration_since(started).as_secs_f64(),
                line.text
            );
        }
        said += &format!("  {}\n", process.stdout().trim());
    }
    said
}

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
pub struct JudgedHost {
    pub name: String,
    pub code: Option<i32>,
    pub json: Value,
    /// Whether the host has the file and knows that the root knows.
    pub is_confirmed: bool,
    /// Whether the host reports that it does not know the outcome.
    pub admits_doubt: bool,
    pub file: FileState,
    pub may: Vec<i32>,
    /// Whether a fault permits the host to lack the file.
    pub is_marred: bool,
}

impl JudgedHost {
    fn is_killed(&self) -> bool {
        self.code == Some(128 + 9)
    }
}

pub struct Claims<'a> {
    pub scenario: &'a Scenario,
    pub hosts: &'a [JudgedHost],
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
            wrong.extend(
                self.wrong_of(host)
                    .into_iter()
                    .map(|what| format!("{}: {what}", host.name)),
            );
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

    fn wrong_of(&self, host: &JudgedHost) -> Vec<String> {
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

    fn wrong_report(&self, host: &JudgedHost, from: usize) -> Option<String> {
        let (bytes, digest) = self.sent[from]?;
        let (status, told) = (&host.json["status"], &host.json["blake3"]);
        let is_right = status == "verified"
            && host.json["bytes"] == bytes
            && *told == digest.to_hex().as_str();
        (!is_right).then(|| format!("prints {}", host.json))
    }

    pub fn wrong_of_root(
        &self,
        number: usize,
        code: Option<i32>,
        report: &RunReport,
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        let Some(code) = code else { return wrong };
        if !self.root_may().contains(&code) {
            wrong.push(format!("sender {number} ended with {code}"));
        }
        let rows = report.rows();
        let all_verified = !rows.is_empty() && rows.iter().all(|(_, status)| status == "verified");
        if report.is_there() && code < 128 && (code == 0) != all_verified {
            wrong.push(format!(
                "sender {number} ended with {code}, and reports {rows:?}"
            ));
        }
        if code <= 1 && !report.is_there() {
            wrong.push(format!(
                "sender {number} ended with {code} without a report"
            ));
        }
        if let (Some((bytes, digest)), Some((told_bytes, told))) =
            (self.sent[number], report.content())
            && (bytes, digest.to_hex().as_str()) != (told_bytes, told.as_str())
        {
            wrong.push(format!(
                "sender {number} reports {told_bytes} bytes, {told}"
            ));
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
        all.iter()
            .filter(|(holds, _)| *holds)
            .flat_map(|(_, codes)| codes.iter().copied())
            .collect()
    }

    fn disagreement(&self, number: usize, name: &str, report: &RunReport) -> Vec<String> {
        let mut wrong = Vec::new();
        if !report.is_there() {
            return wrong;
        }
        let statuses = report.statuses(name);
        let own: Vec<_> = self.hosts.iter().filter(|host| host.name == name).collect();
        let verified = statuses
            .iter()
            .filter(|status| *status == "verified")
            .count();
        let there = own
            .iter()
            .filter(|host| host.file == FileState::Whole(number))
            .count();
        if verified > there {
            wrong.push(format!(
                "{name}: verified, says sender {number}, and the file is not there"
            ));
        }
        let content = FileState::Whole(number);
        let sure = own
            .iter()
            .filter(|host| host.code == Some(0) && host.file == content && host.is_confirmed)
            .count();
        if sure > verified && !self.scenario.promises(Promise::Forged) {
            wrong.push(format!(
                "{name}: has the file for sure, and sender {number} says {statuses:?}"
            ));
        }
        let is_named =
            !statuses.is_empty() || report.leaves_out(name) || self.is_said_of(number, name);
        if there == 0 && !is_named {
            wrong.push(format!(
                "{name}: is without the file, and sender {number} does not name it"
            ));
        }
        wrong
    }

    /// Whether a sender prints more about a host than that it joined, or nothing at all.
    fn is_said_of(&self, number: usize, name: &str) -> bool {
        let is_about = |line: &&String| {
            line.split(|letter: char| !letter.is_alphanumeric())
                .any(|word| word == name)
        };
        let about: Vec<_> = self.root_lines[number].iter().filter(is_about).collect();
        about.is_empty() || about.iter().any(|line| !line.contains(" joined ("))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn digest() -> blake3::Hash {
        blake3::hash(b"what was sent")
    }

    fn scenario() -> Scenario {
        let (seed, only, rate_bits_per_second, troubles) = (1, None, None, Vec::new());
        Scenario {
            seed,
            only,
            via: "chain",
            bytes: 13,
            rate_bits_per_second,
            late: false,
            troubles,
        }
    }

    fn good() -> JudgedHost {
        let json =
            json!({ "status": "verified", "bytes": 13, "blake3": digest().to_hex().as_str() });
        let (file, may) = (FileState::Whole(0), vec![0]);
        JudgedHost {
            name: "n1".into(),
            code: Some(0),
            json,
            is_confirmed: true,
            admits_doubt: false,
            file,
            may,
            is_marred: false,
        }
    }

    fn report(status: &str) -> String {
        let receivers = json!([{ "host": "n1", "status": status }]);
        json!({ "bytes": 13, "blake3": digest().to_hex().as_str(), "receivers": receivers, "left_out": [] }).to_string()
    }

    fn wrong(host: JudgedHost, code: i32, report: &str) -> Vec<String> {
        let (scenario, sent) = (scenario(), [Some((13, digest())), None]);
        let root_lines = [vec!["n1 joined (1)".to_owned()]];
        let claims = Claims {
            scenario: &scenario,
            hosts: &[host],
            sent: &sent,
            root_lines: &root_lines,
            said: "",
        };
        let mut wrong = claims.wrong();
        wrong.extend(claims.wrong_of_root(0, Some(code), &RunReport::read(report)));
        wrong
    }

    #[track_caller]
    fn is_found(host: JudgedHost, code: i32, report: &str, part: &str) {
        let wrong = wrong(host, code, report);
        assert!(
            wrong.iter().any(|line| line.contains(part)),
            "{part:?} is not in {wrong:?}"
        );
    }

    #[test]
    fn a_good_run_is_good_and_a_dead_host_that_is_named_is_too() {
        assert_eq!(wrong(good(), 0, &report("verified")), [""; 0]);
        let dead = JudgedHost {
            code: Some(137),
            file: FileState::Absent,
            may: vec![0, 137],
            is_marred: true,
            ..good()
        };
        assert_eq!(wrong(dead, 1, &report("died")), [""; 0]);
    }

    #[test]
    fn every_lie_of_a_receiver_is_found() {
        let verified = report("verified");
        is_found(
            JudgedHost {
                file: FileState::Wrong,
                ..good()
            },
            0,
            &verified,
            "another file",
        );
        is_found(
            JudgedHost {
                file: FileState::Absent,
                ..good()
            },
            0,
            &verified,
            "ended with 0 without the file",
        );
        is_found(
            JudgedHost {
                code: Some(3),
                file: FileState::Absent,
                ..good()
            },
            1,
            &report("silent"),
            "has not got the file",
        );
        is_found(
            JudgedHost {
                code: Some(1),
                ..good()
            },
            1,
            &report("silent"),
            "and the file is there",
        );
        is_found(
            JudgedHost {
                code: Some(101),
                file: FileState::Absent,
                is_marred: true,
                ..good()
            },
            1,
            &report("died"),
            "101",
        );
        let json =
            json!({ "status": "verified", "bytes": 12, "blake3": digest().to_hex().as_str() });
        is_found(JudgedHost { json, ..good() }, 0, &verified, "prints");
    }

    #[test]
    fn every_lie_of_a_sender_is_found() {
        let gone = || JudgedHost {
            code: Some(137),
            file: FileState::Absent,
            may: vec![137],
            is_marred: true,
            ..good()
        };
        is_found(gone(), 0, &report("verified"), "the file is not there");
        is_found(good(), 1, &report("silent"), "for sure");
        is_found(good(), 1, &report("verified"), "ended with 1, and reports");
        is_found(gone(), 0, &report("died"), "ended with 0, and reports");
        is_found(good(), 0, "", "without a report");
        is_found(good(), 101, &report("verified"), "ended with 101");
        let other = report("verified").replace("13", "14");
        is_found(good(), 0, &other, "reports 14 bytes");
        let nobody = json!({ "bytes": 13, "blake3": digest().to_hex().as_str(), "receivers": [], "left_out": [] });
        is_found(gone(), 1, &nobody.to_string(), "does not name it");
    }
}
