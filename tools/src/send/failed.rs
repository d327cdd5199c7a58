//! The last word of a run in which receivers failed: who, why, and what gets it to them.

use crate::doctor::of_outcome;
use crate::exit::Failure;
use crate::report::is_page;
use crate::session;
use crate::units;
use ethbcast_collectives::session::{Error, MemberReport, Outcome};
use std::path::Path;

/// The failure for an error; for receivers that failed, with the command that works. `report` is where the report is
/// kept.
pub fn failure(error: Error, report: Option<&Path>) -> Failure {
    let text = match &error {
        Error::Undelivered(sent) => Some(sentence(&sent.receivers, report.is_some_and(|path| !is_page(path)))),
        _ => None,
    };
    let failure = session::failure(error);
    match text {
        Some(text) => Failure::new(failure.code(), text).found(failure.fault()),
        None => failure,
    }
}

fn sentence(all: &[MemberReport], is_reported: bool) -> String {
    let failed: Vec<&MemberReport> = all.iter().filter(|one| one.outcome != Outcome::Delivered).collect();
    let words = |one: &MemberReport| one.outcome.status_and_reason(&one.text).0;
    let names: Vec<String> = failed.iter().map(|one| format!("{} ({})", one.host, words(one))).collect();
    let mut text = format!("{} of {} receivers failed: {}", failed.len(), all.len(), names.join(", "));
    let refused = |one: &&MemberReport| words(one) == Outcome::REFUSED;
    if let Some(first) = failed.iter().copied().find(refused) {
        text += &format!("; {} says: {}", first.host, first.outcome.status_and_reason(&first.text).1);
    }
    // Whoever is not there any more has left what it had where it was, if it was a file or a directory.
    let is_gone = |one: &&&MemberReport| matches!(one.outcome, Outcome::Died | Outcome::Silent | Outcome::Interrupted);
    let had = failed.iter().filter(is_gone).filter(|one| one.bytes > 0);
    let had: Vec<String> = had.map(|one| format!("{} had {} of it", one.host, units::bytes(one.bytes))).collect();
    if !had.is_empty() {
        text += &format!("; {}", had.join(", "));
    }
    let is_theirs = failed.iter().any(|one| of_outcome(one.outcome).is_some());
    let mend = if is_theirs { "mend there what they say, " } else { "" };
    let them = if failed.len() == 1 { "it" } else { "them" };
    let again = if is_reported {
        "`send --only-missing` with the same --report".to_owned()
    } else {
        format!("send again to {them} (`send --only-missing` knows whom, if each run has --report FILE)")
    };
    text + &format!("; {mend}start `recv` there again, then {again}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_transport::wire::Rank;
    use std::time::Duration;

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
             --force; n2 had 26.00 MiB of it; mend there what they say, start `recv` there again, then `send \
             --only-missing` with the same --report"
        );
        let killed = [receiver("n2", Outcome::Died, 0, "its process was killed")];
        assert_eq!(
            sentence(&killed, false),
            "1 of 1 receivers failed: n2 (died); start `recv` there again, then send again to it (`send \
             --only-missing` knows whom, if each run has --report FILE)"
        );
        let failed = [receiver("n1", Outcome::WriteFailed, 7, "cannot write: Input/output error")];
        let text = sentence(&failed, true);
        assert!(text.contains("n1 (write-failed)") && text.contains("mend there"), "{text}");
    }
}
