//! The result of a run, and of all runs of a cell.

use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use ethbcast_tests::lab::{Line, Process};
use serde_json::{Value, json};

use super::cell::{Cell, Moment, Promise};
use super::play::{Play, ROOT, Receiver};
use crate::payload::same_bytes;
use crate::table::median;

/// Result of a run. Times are seconds since the root was started.
#[derive(Clone, Debug)]
pub struct Judged {
    /// Seed of the hosts and moments.
    pub seed: u64,
    pub victims: Vec<String>,
    pub trouble_seconds: Option<f64>,
    pub taken_frames: u64,
    /// Hosts with exactly the sent bytes.
    pub exact: Vec<String>,
    /// Hosts that lack the file against the promise.
    pub lost: Vec<String>,
    /// False claims: another file under the name, or a report of a file that is not there.
    pub lies: Vec<String>,
    /// Hosts that had not ended at the time limit.
    pub hung: Vec<String>,
    /// Hosts in trouble that failed and are not named on the root's stderr.
    pub unnamed: Vec<String>,
    /// Exit code of each host, the root first.
    pub codes: Vec<(String, Option<i32>)>,
    /// Moment of the last end.
    pub seconds: f64,
    /// Moment at which the last of the unaffected hosts had its file in place, if all had.
    pub others_seconds: Option<f64>,
    /// The root's first line about the hosts in trouble, and its delay in seconds.
    pub first_word: Option<(f64, String)>,
    pub said: String,
}

impl Judged {
    /// Judges a run that is over.
    ///
    /// # Errors
    /// Fails if a file cannot be compared, or a process cannot be queried.
    pub fn new(play: &mut Play, source: &Path, seed: u64) -> anyhow::Result<Self> {
        let hung = hung(play)?;
        let codes = codes(play)?;
        let last_end = last_end(play)?.filter(|_| hung.is_empty()).unwrap_or_else(Instant::now);
        play.root.hear_out();
        let since = |at: Instant| (at - play.started).as_secs_f64();
        let is_exact = |receiver: &&Receiver| same_bytes(source, &receiver.dest).unwrap_or(false);
        let exact: Vec<String> = play.receivers.iter().filter(is_exact).map(|of| of.host.clone()).collect();
        let words = words_about(&play.victims, &play.root.lines(), play.troubled);
        let troubled = play.troubled.unwrap_or(play.started);
        let report = Report::of(play);
        let unnamed = |host: &&String| {
            play.cell.promise != Promise::End
                && *host != ROOT
                && !exact.contains(host)
                && report.is_taken(play.cell, host)
                && !words.iter().any(|line| names(&line.text, host))
        };
        Ok(Self {
            seed,
            trouble_seconds: play.troubled.map(since),
            taken_frames: play.taken_frames,
            lost: lost(play, &exact),
            lies: lies(play, &report, &exact, &codes),
            unnamed: play.victims.iter().filter(unnamed).cloned().collect(),
            victims: play.victims.clone(),
            seconds: since(last_end),
            others_seconds: others_placed(play, &exact).map(since),
            first_word: words.first().map(|line| ((line.at - troubled).as_secs_f64(), line.text.clone())),
            said: said(play),
            exact,
            hung,
            codes,
        })
    }

    /// Whether every promise was kept.
    pub fn is_good(&self) -> bool {
        [&self.lost, &self.lies, &self.hung, &self.unnamed].into_iter().all(Vec::is_empty)
    }

    /// Returns the delay of the unaffected hosts in seconds, compared with a run without trouble.
    pub fn late_seconds(&self, undisturbed_seconds: f64) -> Option<f64> {
        self.others_seconds.map(|seconds| seconds - undisturbed_seconds)
    }

    /// Returns the result as JSON.
    pub fn json(&self, cell: &Cell, undisturbed_seconds: f64) -> Value {
        let codes: serde_json::Map<_, _> = self.codes.iter().map(|(host, code)| (host.clone(), json!(code))).collect();
        json!({
            "cell": cell.name, "seed": self.seed, "good": self.is_good(), "victims": self.victims,
            "trouble_seconds": self.trouble_seconds, "taken_frames": self.taken_frames, "exact": self.exact,
            "lost": self.lost, "lies": self.lies, "hung": self.hung, "unnamed": self.unnamed, "codes": codes,
            "seconds": self.seconds, "others_seconds": self.others_seconds, "undisturbed_seconds": undisturbed_seconds,
            "named_after_seconds": self.first_word.as_ref().map(|(after, _)| after),
            "named_as": self.first_word.as_ref().map(|(_, line)| line),
        })
    }
}

fn processes<'a>(play: &'a mut Play) -> impl Iterator<Item = (&'a str, &'a mut Process)> {
    let receivers = play.receivers.iter_mut().map(|receiver| (receiver.host.as_str(), &mut receiver.process));
    [(ROOT, &mut play.root)].into_iter().chain(receivers)
}

fn hung(play: &mut Play) -> anyhow::Result<Vec<String>> {
    if !play.is_over_time {
        return Ok(Vec::new());
    }
    let excused =
        if play.cell.lasts.is_none() && play.cell.trouble.ends_nothing() { play.victims.clone() } else { Vec::new() };
    let mut hung = Vec::new();
    for (host, process) in processes(play) {
        if process.ended()?.is_none() && !excused.iter().any(|victim| victim == host) {
            hung.push(host.to_owned());
        }
    }
    Ok(hung)
}

fn codes(play: &mut Play) -> anyhow::Result<Vec<(String, Option<i32>)>> {
    let code = |(host, process): (&str, &mut Process)| Ok((host.to_owned(), process.ended()?.map(|(_, code)| code)));
    processes(play).map(code).collect()
}

fn last_end(play: &mut Play) -> anyhow::Result<Option<Instant>> {
    let ends = processes(play).map(|(_, process)| process.ended()).collect::<anyhow::Result<Vec<_>>>();
    Ok(ends.context("asking for ends")?.into_iter().flatten().map(|(at, _)| at).max())
}

fn others_placed(play: &Play, exact: &[String]) -> Option<Instant> {
    let others = play.receivers.iter().filter(|receiver| !play.victims.contains(&receiver.host));
    let placed = others.map(|other| other.placed.filter(|_| exact.contains(&other.host)));
    placed.collect::<Option<Vec<_>>>()?.into_iter().max()
}

fn lost(play: &Play, exact: &[String]) -> Vec<String> {
    let hosts = play.receivers.iter().map(|receiver| receiver.host.clone()).filter(|host| !exact.contains(host));
    match play.cell.promise {
        Promise::All => hosts.collect(),
        Promise::Others => hosts.filter(|host| !play.victims.contains(host)).collect(),
        Promise::End => Vec::new(),
    }
}

struct Report(Value);

impl Report {
    fn of(play: &Play) -> Self {
        Self(serde_json::from_str(&play.root.stdout()).unwrap_or_default())
    }

    fn status(&self, host: &str) -> Option<&str> {
        self.0["receivers"].as_array()?.iter().find(|of| of["host"] == host)?["status"].as_str()
    }

    /// Whether the root counts a host as a member: all hosts, unless a trouble at the start has
    /// kept one from joining.
    fn is_taken(&self, cell: &Cell, host: &str) -> bool {
        !matches!(cell.moment, Moment::Start | Moment::Joined) || self.status(host).is_some()
    }
}

fn lies(play: &Play, report: &Report, exact: &[String], codes: &[(String, Option<i32>)]) -> Vec<String> {
    let mut lies = Vec::new();
    for receiver in play.receivers.iter().filter(|receiver| !exact.contains(&receiver.host)) {
        let host = &receiver.host;
        let is_piped = *host == play.cell.host && play.cell.trouble.is_of_reader();
        if receiver.dest.exists() && !is_piped {
            lies.push(format!("{host}: another file is there"));
        }
        if report.status(host) == Some("verified") {
            lies.push(format!("{host}: verified, says the root"));
        }
        if codes.iter().any(|(of, code)| of == host && *code == Some(0)) {
            lies.push(format!("{host}: ends with 0"));
        }
    }
    let missing = |receiver: &Receiver| !exact.contains(&receiver.host) && report.is_taken(play.cell, &receiver.host);
    if play.receivers.iter().any(missing) && codes.first().is_some_and(|(_, code)| *code == Some(0)) {
        lies.push("the root ends with 0".to_owned());
    }
    lies
}

fn words_about(hosts: &[String], lines: &[Line], since: Option<Instant>) -> Vec<Line> {
    let Some(since) = since else { return Vec::new() };
    let is_about = |line: &&Line| {
        line.at >= since && !line.text.contains(" joined") && hosts.iter().any(|host| names(&line.text, host))
    };
    lines.iter().filter(is_about).cloned().collect()
}

fn names(line: &str, host: &str) -> bool {
    line.split(|letter: char| !letter.is_alphanumeric()).any(|word| word == host)
}

fn said(play: &Play) -> String {
    let receivers = play.receivers.iter().map(|receiver| (receiver.host.as_str(), &receiver.process));
    let all = [(ROOT, &play.root)].into_iter().chain(receivers);
    let line =
        |line: Line| format!("  {:7.3} {}\n", (line.at.max(play.started) - play.started).as_secs_f64(), line.text);
    all.map(|(host, process)| format!("{host}:\n{}", process.lines().into_iter().map(line).collect::<String>()))
        .collect()
}

/// Results of all runs of a cell.
#[derive(Clone, Debug)]
pub struct Summary {
    runs: Vec<Judged>,
    undisturbed_seconds: f64,
}

impl Summary {
    pub const HEADING: &str =
        "cell, runs, good, hung, lost live, lies, unnamed, late, exact, seconds, x, worst, taken, named after, as";

    /// Creates a summary without runs.
    pub fn new(undisturbed_seconds: f64) -> Self {
        Self { runs: Vec::new(), undisturbed_seconds }
    }

    pub fn push(&mut self, run: Judged) {
        self.runs.push(run);
    }

    /// Whether all runs are good, and no unaffected host was late.
    pub fn is_good(&self, cell: &Cell) -> bool {
        self.runs.iter().all(Judged::is_good) && self.late(cell) == 0
    }

    /// Returns the median duration of a run.
    pub fn seconds(&self) -> f64 {
        median(self.runs.iter().map(|run| run.seconds).collect()).unwrap_or(f64::NAN)
    }

    /// Returns the median moment at which the last of the unaffected hosts had its file.
    pub fn placed_seconds(&self) -> Option<f64> {
        median(self.runs.iter().filter_map(|run| run.others_seconds).collect())
    }

    fn late(&self, cell: &Cell) -> usize {
        let most = cell.allowance.as_secs_f64() + 0.15 * self.undisturbed_seconds;
        let late = |run: &&Judged| run.late_seconds(self.undisturbed_seconds).is_some_and(|late| late > most);
        self.runs.iter().filter(late).count()
    }

    /// Returns a row of the table.
    pub fn row(&self, cell: &Cell) -> Vec<String> {
        let count = |of: fn(&Judged) -> usize| self.runs.iter().map(of).sum::<usize>().to_string();
        let exact = self.runs.iter().map(|run| run.exact.len());
        let worst = self.runs.iter().map(|run| run.seconds).fold(0.0, f64::max);
        let named = median(self.runs.iter().filter_map(|run| Some(run.first_word.as_ref()?.0)).collect());
        let words = self.runs.iter().find_map(|run| Some(run.first_word.as_ref()?.1.clone()));
        vec![
            cell.name.clone(),
            self.runs.len().to_string(),
            self.runs.iter().filter(|run| run.is_good()).count().to_string(),
            self.runs.iter().filter(|run| !run.hung.is_empty()).count().to_string(),
            count(|run| run.lost.len()),
            count(|run| run.lies.len()),
            count(|run| run.unnamed.len()),
            self.late(cell).to_string(),
            format!("{}-{}", exact.clone().min().unwrap_or(0), exact.max().unwrap_or(0)),
            format!("{:.2}", self.seconds()),
            format!("{:.2}", self.seconds() / self.undisturbed_seconds),
            format!("{worst:.2}"),
            median(self.runs.iter().map(|run| run.taken_frames as f64).collect()).unwrap_or(0.0).to_string(),
            named.map_or_else(|| "-".into(), |after| format!("{after:.2}")),
            words.map_or_else(String::new, |words| words.chars().take(100).collect()),
        ]
    }
}
