//! List of the hosts that lack the content at the end, with the command that sends it to them.

use crate::doctor::of_outcome;
use crate::exit::Failure;
use crate::report::is_page;
use crate::{session, units};
use ethbcast_collectives::session::{Error, MemberReport, Outcome, Refusal, TurnedAway};
use ethbcast_planning::HostNames;
use ethbcast_planning::topology::nodeset;
use ethbcast_transport::MacAddr;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

pub const REFUSED: &str = "refused";
/// Status of a named host that never sent a join request.
pub const ABSENT: &str = "absent";
/// Status of a refused host that was not wanted, or whose name another host has.
const UNWANTED: &str = "unwanted";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Host name, with the MAC address if another host has the same name.
    pub host: String,
    mac: Option<MacAddr>,
    status: &'static str,
    reason: String,
}

impl LeftOut {
    /// Returns the refused hosts without a participating receiver, and the named hosts that are
    /// absent.
    pub fn of(
        turned_away: &[TurnedAway],
        receivers: &[MemberReport],
        named: &[String],
    ) -> Vec<LeftOut> {
        let took_part = HostNames::new(receivers.iter().map(|one| one.host.as_str()));
        let mut names = BTreeSet::new();
        let mut shared: BTreeSet<String> = receivers
            .iter()
            .map(|one| one.host.to_ascii_lowercase())
            .collect();
        for away in turned_away {
            let name = away.host.to_ascii_lowercase();
            if !names.insert(name.clone()) {
                shared.insert(name);
            }
        }
        let mut all = Vec::new();
        let mut there: BTreeSet<usize> = BTreeSet::new();
        let wanted = HostNames::new(named.iter().map(String::as_str));
        there.extend(receivers.iter().filter_map(|one| wanted.find(&one.host)));
        for TurnedAway {
            host,
            mac,
            why,
            text,
        } in turned_away
        {
            let node = format!("{host}@{mac}");
            there.extend(wanted.find(&node));
            let is_unwanted = matches!(why, Refusal::NotWanted | Refusal::Twin);
            // A receiver that joined later, or a second one on its host.
            if !is_unwanted && took_part.find(&node).is_some() {
                continue;
            }
            let is_known_by_address = wanted.find(&node) != wanted.find(host);
            let is_shared = shared.contains(&host.to_ascii_lowercase()) || is_known_by_address;
            let (status, reason) = (if is_unwanted { UNWANTED } else { REFUSED }, text.clone());
            let host = if is_shared { node } else { host.clone() };
            all.push(LeftOut {
                host,
                mac: Some(*mac),
                status,
                reason,
            });
        }
        let absent = named
            .iter()
            .enumerate()
            .filter(|(at, _)| !there.contains(at));
        all.extend(absent.map(|(_, host)| {
            let reason = "it never asked to join: is `ethbcast recv` running there, in this group?"
                .to_owned();
            LeftOut {
                host: host.clone(),
                mac: None,
                status: ABSENT,
                reason,
            }
        }));
        all
    }

    pub fn is_wanted(&self) -> bool {
        self.status != UNWANTED
    }

    pub fn to_line(&self) -> String {
        let address = self
            .mac
            .filter(|_| !self.host.contains('@'))
            .map_or(String::new(), |mac| format!(" ({mac})"));
        format!("{:<16} left out: {}{address}\n", self.host, self.reason)
    }

    pub fn to_json(&self) -> Value {
        let mac = self.mac.map(|mac| mac.to_string());
        json!({ "host": self.host, "mac": mac, "status": self.status, "reason": self.reason })
    }
}

pub fn summary(all: &[LeftOut]) -> Option<String> {
    let hosts: Vec<&str> = all
        .iter()
        .filter(|one| one.is_wanted())
        .map(|one| one.host.as_str())
        .collect();
    let (they, have) = if hosts.len() == 1 {
        ("it", "has not got it")
    } else {
        ("them", "have not got it")
    };
    let text = format!(
        "{} {have}: with --report FILE, `send --only-missing` sends to {they} alone",
        nodeset::fold(&hosts)
    );
    (!hosts.is_empty()).then_some(text)
}

/// Returns the failure for an error; for failed receivers, with the command that sends to them
/// again. `report` is the path of the kept report.
pub fn failure(error: Error, report: Option<&Path>) -> Failure {
    let text = match &error {
        Error::Undelivered(sent) => Some(sentence(
            &sent.receivers,
            report.is_some_and(|path| !is_page(path)),
        )),
        _ => None,
    };
    let failure = session::failure(error);
    match text {
        Some(text) => Failure::new(failure.code(), text).found(failure.fault()),
        None => failure,
    }
}

fn sentence(all: &[MemberReport], is_reported: bool) -> String {
    let failed: Vec<&MemberReport> = all
        .iter()
        .filter(|one| one.outcome != Outcome::Delivered)
        .collect();
    let words = |one: &MemberReport| one.outcome.status_and_reason(&one.text).0;
    let names: Vec<String> = failed
        .iter()
        .map(|one| format!("{} ({})", one.host, words(one)))
        .collect();
    let mut text = format!(
        "{} of {} receivers failed: {}",
        failed.len(),
        all.len(),
        names.join(", ")
    );
    let refused = |one: &&MemberReport| words(one) == Outcome::REFUSED;
    if let Some(first) = failed.iter().copied().find(refused) {
        text += &format!(
            "; {} says: {}",
            first.host,
            first.outcome.status_and_reason(&first.text).1
        );
    }
    // A host that no longer takes part has left its data in place, if it was a file or a directory.
    let is_gone = |one: &&&MemberReport| {
        matches!(
            one.outcome,
            Outcome::Died | Outcome::Silent | Outcome::Interrupted
        )
    };
    let had = failed.iter().filter(is_gone).filter(|one| one.bytes > 0);
    let had: Vec<String> = had
        .map(|one| format!("{} had {} of it", one.host, units::bytes(one.bytes)))
        .collect();
    if !had.is_empty() {
        text += &format!("; {}", had.join(", "));
    }
    let is_theirs = failed.iter().any(|one| of_outcome(one.outcome).is_some());
    let mend = if is_theirs {
        "fix what they report there, "
    } else {
        ""
    };
    let them = if failed.len() == 1 { "it" } else { "them" };
    let again = if is_reported {
        "`send --only-missing` with the same --report".to_owned()
    } else {
        format!(
            "send again to {them} (`send --only-missing` finds them, if each run has --report FILE)"
        )
    };
    text + &format!("; {mend}start `recv` there again, then {again}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_collectives::session::Behind;
    use ethbcast_transport::wire::Rank;
    use std::time::Duration;

    #[test]
    fn who_asked_and_did_not_get_in_is_refused_who_never_asked_is_absent_and_each_is_named_once() {
        let mac = |last| MacAddr::new(2, 0, 0, 0, 0, last);
        let away = |host: &str, last, why| TurnedAway {
            host: host.to_owned(),
            mac: mac(last),
            why,
            text: "x".into(),
        };
        let receiver = |host: &str| MemberReport {
            host: host.to_owned(),
            rank: Rank(1),
            outcome: Outcome::Delivered,
            bytes: 1,
            digest: [1; 32],
            text: String::new(),
            took: Duration::ZERO,
            taken: None,
            behind: Behind::default(),
        };
        let named = ["n1", "n2", "n3", "n4", "pc@02:00:00:00:00:07"].map(str::to_owned);
        let turned_away = [
            away("n2.lab", 2, Refusal::NoSpace),
            away("n1", 1, Refusal::Late),
            away("n9", 9, Refusal::NotWanted),
            away("pc", 7, Refusal::Path),
            away("pc", 8, Refusal::NotWanted),
        ];
        let all = LeftOut::of(&turned_away, &[receiver("n1.lab"), receiver("n4")], &named);
        let told: Vec<_> = all
            .iter()
            .map(|one| (one.host.as_str(), one.status))
            .collect();
        let expected = [
            ("n2.lab", REFUSED),
            ("n9", UNWANTED),
            ("pc@02:00:00:00:00:07", REFUSED),
            ("pc@02:00:00:00:00:08", UNWANTED),
            ("n3", ABSENT),
        ];
        assert_eq!(told, expected);
        let word = summary(&all).expect("some");
        assert!(
            word.starts_with("n2.lab,pc@02:00:00:00:00:07,n3 have not got it"),
            "{word}"
        );
        assert_eq!(
            summary(&LeftOut::of(&turned_away[1..3], &[receiver("n1")], &[])),
            None
        );
    }

    fn receiver(host: &str, outcome: Outcome, bytes: u64, text: &str) -> MemberReport {
        MemberReport {
            host: host.to_owned(),
            rank: Rank(1),
            outcome,
            bytes,
            digest: [0; 32],
            text: text.to_owned(),
            took: Duration::ZERO,
            taken: None,
            behind: Behind::default(),
        }
    }

    #[test]
    fn who_refused_says_why_who_was_killed_had_a_part_and_the_command_that_works_is_named() {
        let exists = "refused: DEST out exists: remove it, or replace it with --force";
        let all = [
            receiver("n1", Outcome::WriteFailed, 0, exists),
            receiver("n2", Outcome::Died, 26 << 20, "its process was killed"),
            receiver("n3", Outcome::Delivered, 50 << 20, ""),
        ];
        assert_eq!(
            sentence(&all, true),
            "2 of 3 receivers failed: n1 (refused), n2 (died); n1 says: DEST out exists: remove it, or replace it with \
             --force; n2 had 26.00 MiB of it; fix what they report there, start `recv` there again, then `send \
             --only-missing` with the same --report"
        );
        let killed = [receiver("n2", Outcome::Died, 0, "its process was killed")];
        assert_eq!(
            sentence(&killed, false),
            "1 of 1 receivers failed: n2 (died); start `recv` there again, then send again to it (`send \
             --only-missing` finds them, if each run has --report FILE)"
        );
        let failed = [receiver(
            "n1",
            Outcome::WriteFailed,
            7,
            "cannot write: Input/output error",
        )];
        let text = sentence(&failed, true);
        assert!(
            text.contains("n1 (write-failed)") && text.contains("fix what they report there"),
            "{text}"
        );
    }
}
