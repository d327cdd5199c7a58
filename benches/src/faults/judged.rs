//! What came of a run, and of all runs of a cell.

use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use ethbcast_tests::lab::{Line, Process};
use serde_json::{Value, json};

use super::cell::{Cell, Moment, Promise};
use super::play::{Play, ROOT, Receiver};
use crate::payload::same_bytes;
use crate::table::median;

/// What came of a run. Times are seconds since the root was started.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The seed that says which hosts and when.
    pub seed: u64,
    /// To whom the trouble came.
    pub victims: Vec<String>,
    /// When.
    pub trouble_seconds: Option<f64>,
    /// Frames that faults took.
    pub taken_frames: u64,
    /// Who has exactly what was sent.
    pub exact: Vec<String>,
    /// Who has not, and was to have it by the promise.
    pub lost: Vec<String>,
    /// Who has something else under the file's name, or says or is said to have it and has not.
    pub lies: Vec<String>,
    /// Who had not ended when the time was over.
    pub hung: Vec<String>,
    /// Who had the trouble and failed, and is not named on the root's stderr.
    pub unnamed: Vec<String>,
    /// How each ended; the root first.
    pub codes: Vec<(String, Option<i32>)>,
    /// When the last ended.
    pub seconds: f64,
    /// When the last of those without trouble had its file in place, if all had.
    pub others_seconds: Option<f64>,
    /// What the root said of who has the trouble, first of all, and how long after it came.
    pub first_word: Option<(f64, String)>,
    /// All that everybody said on stderr.
    pub said: String,
}

impl Judged {
    /// Looks at a run that is over.
    ///
    /// # Errors
    /// If a file cannot be compared, or a process not be asked.
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

    /// Whether all that matters is as it must be.
    pub fn is_good(&self) -> bool {
        [&self.lost, &self.lies, &self.hung, &self.unnamed].into_iter().all(Vec::is_empty)
    }

    /// By how many seconds those without trouble came later than undisturbed.
    pub fn late_seconds(&self, undisturbed_seconds: f64) -> Option<f64> {
        self.others_seconds.map(|seconds| seconds - undisturbed_seconds)
    }

    /// For programs.
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

/// Every process with its host; the root first.
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

/// When the last of those whom nothing happened to had its file.
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

/// What the root has printed at its end.
struct Report(Value);

impl Report {
    fn of(play: &Play) -> Self {
        Self(serde_json::from_str(&play.root.stdout()).unwrap_or_default())
    }

    /// What became of a host.
    fn status(&self, host: &str) -> Option<&str> {
        self.0["receivers"].as_array()?.iter().find(|of| of["host"] == host)?["status"].as_str()
    }

    /// Whether the root answers for a host: for all, unless a trouble at the start has kept it from joining.
    fn is_taken(&self, cell: &Cell, host: &str) -> bool {
        !matches!(cell.moment, Moment::Start | Moment::Joined) || self.status(host).is_some()
    }
}

/// Claims of success that are wrong.
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

/// The lines after the trouble that name one of these hosts, and not only as one who joins.
fn words_about(hosts: &[String], lines: &[Line], since: Option<Instant>) -> Vec<Line> {
    let Some(since) = since else { return Vec::new() };
    let is_about = |line: &&Line| {
        line.at >= since && !line.text.contains(" joined") && hosts.iter().any(|host| names(&line.text, host))
    };
    lines.iter().filter(is_about).cloned().collect()
}

/// Whether a line names a host, as a word of its own.
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

/// All runs of a cell.
#[derive(Clone, Debug)]
pub struct Summary {
    runs: Vec<Judged>,
    undisturbed_seconds: f64,
}

impl Summary {
    /// The columns of [`Summary::row`].
    pub const HEADING: &str =
        "cell, runs, good, hung, lost live, lies, unnamed, late, exact, seconds, x, worst, taken, named after, as";

    /// Of no runs yet.
    pub fn new(undisturbed_seconds: f64) -> Self {
        Self { runs: Vec::new(), undisturbed_seconds }
    }

    /// One more.
    pub fn push(&mut self, run: Judged) {
        self.runs.push(run);
    }

    /// Whether all runs are good, and nobody was late.
    pub fn is_good(&self, cell: &Cell) -> bool {
        self.runs.iter().all(Judged::is_good) && self.late(cell) == 0
    }

    /// The median time that a run took.
    pub fn seconds(&self) -> f64 {
        median(self.runs.iter().map(|run| run.seconds).collect()).unwrap_or(f64::NAN)
    }

    /// The median time until the last of those without trouble had its file.
    pub fn placed_seconds(&self) -> Option<f64> {
        median(self.runs.iter().filter_map(|run| run.others_seconds).collect())
    }

    fn late(&self, cell: &Cell) -> usize {
        let most = cell.allowance.as_secs_f64() + 0.15 * self.undisturbed_seconds;
        let late = |run: &&Judged| run.late_seconds(self.undisturbed_seconds).is_some_and(|late| late > most);
        self.runs.iter().filter(late).count()
    }

    /// A row of the table.
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
