//! Judges a run: survivors have the file, all end in time, all reports are true, nothing is left
//! behind.

mod claims;

use anyhow::Context;

use super::class::Class;
use super::play::{Play, digest};
use super::report::Report;
use super::scenario::{Promise, ROOT, STRANGER, Scenario};
use crate::lab::Process;
use claims::{Claims, FileState, Host};

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

pub fn judge(play: &mut Play) -> anyhow::Result<Verdict> {
    let ended = play.ended.unwrap_or_else(std::time::Instant::now);
    let scenario = play.scenario;
    let came = (0..scenario.troubles.len()).all(|trouble| has_come(play, trouble, None));
    let mut wrong: Vec<String> = play.hung.iter().map(|host| format!("{host} has not ended")).collect();
    if play.left_processes > 0 {
        wrong.push(format!("{} processes are left", play.left_processes));
    }
    for receiver in &play.receivers {
        wrong.extend(receiver.strays().into_iter().map(|stray| format!("{}: {stray} is left", receiver.host)));
    }
    let said = said(play);
    let sent = [sent(play, ROOT)?, sent(play, STRANGER)?];
    let hosts = hosts(play, &sent)?;
    let roots = roots(play)?;
    let senders = [&play.root, &play.second].into_iter().flatten();
    let lines_of = |process: &Process| process.lines().into_iter().map(|line| line.text).collect();
    let root_lines: Vec<Vec<String>> = senders.map(lines_of).collect();
    let claims = Claims { scenario, hosts: &hosts, sent: &sent, root_lines: &root_lines, said: &said };
    wrong.extend(claims.wrong());
    for (number, (code, report)) in roots.iter().enumerate() {
        wrong.extend(claims.wrong_of_root(number, *code, report));
    }
    Ok(Verdict {
        classes: scenario.troubles.iter().map(|trouble| trouble.class).collect(),
        wrong,
        seconds: (ended - play.started).as_secs_f64(),
        exact: hosts.iter().filter(|host| host.file.is_whole()).count(),
        came,
        said,
    })
}

fn has_come(play: &Play, trouble: usize, host: Option<&str>) -> bool {
    let is_of = |host_of: &str| host.is_none_or(|host| host == host_of);
    let mut events = play.pending.iter().filter(|pending| pending.trouble == trouble && is_of(&pending.event.host));
    events.any(|pending| pending.struck.is_some())
}

fn sent(play: &Play, host: &str) -> anyhow::Result<Option<(u64, blake3::Hash)>> {
    let path = play.source(host);
    Ok(digest(&path)?.map(|digest| (std::fs::metadata(&path).map_or(0, |about| about.len()), digest)))
}

fn roots(play: &mut Play) -> anyhow::Result<Vec<(Option<i32>, Report)>> {
    let senders = [&mut play.root, &mut play.second].into_iter().flatten();
    senders
        .map(|process| {
            let code = process.ended().context("asking a sender")?.map(|(_, code)| code);
            Ok((code, Report::read(&process.stdout())))
        })
        .collect()
}

fn hosts(play: &mut Play, sent: &[Option<(u64, blake3::Hash)>; 2]) -> anyhow::Result<Vec<Host>> {
    let mut hosts = Vec::new();
    for index in 0..play.receivers.len() {
        let (name, dest) = (play.receivers[index].host.clone(), play.receivers[index].dest.clone());
        let process = &mut play.receivers[index].process;
        let code = process.ended()?.map(|(_, code)| code);
        let (json, lines) = (serde_json::from_str(&process.stdout()).unwrap_or_default(), process.lines());
        let marred = codes_if_marred(play, &name);
        hosts.push(Host {
            code,
            json,
            is_confirmed: !lines.iter().any(|line| line.text.contains("has not confirmed it")),
            admits_doubt: lines.iter().any(|line| line.text.contains("DEST may be in place or not")),
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

fn codes_if_marred(play: &Play, host: &str) -> Option<&'static [i32]> {
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
    [Some(&[0][..]), kept, deceived, marred].into_iter().flatten().flatten().copied().collect()
}

fn said(play: &mut Play) -> String {
    let started = play.started;
    let mut said = String::new();
    for pending in &play.pending {
        let at = pending
            .struck
            .map_or("never".into(), |at| format!("{:.3}", at.saturating_duration_since(started).as_secs_f64()));
        said += &format!("  {at} {:?} {}\n", pending.event.deed, pending.event.host);
    }
    for relay in &play.relays {
        said += &format!("  the relay has carried {} frames\n", relay.carried_frames());
    }
    if play.forged_frames > 0 {
        said += &format!("  the attacker has sent {} frames\n", play.forged_frames);
    }
    for (host, process) in play.processes() {
        let code = process
            .ended()
            .ok()
            .flatten()
            .map(|(at, code)| format!("{code} after {:.3}", at.saturating_duration_since(started).as_secs_f64()));
        said += &format!("{host}: {}\n", code.unwrap_or_else(|| "still there".into()));
        for line in process.lines() {
            said += &format!("  {:7.3} {}\n", line.at.saturating_duration_since(started).as_secs_f64(), line.text);
        }
        said += &format!("  {}\n", process.stdout().trim());
    }
    said
}
