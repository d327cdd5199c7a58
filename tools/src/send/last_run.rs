//! The report of the last run, with its receivers and their outcome.

use super::left_out::{ABSENT, REFUSED};
use crate::args::ResumeArgs;
use crate::exit::{Code, Failure, fail};
use crate::report;
use crate::whole_file;
use serde_json::Value;
use std::path::Path;
use std::{fs, io};

const VERIFIED: &str = "verified";

#[derive(Debug, PartialEq, Eq)]
pub struct LastRun {
    /// Number of bytes sent, if the end was reached.
    pub bytes: Option<u64>,
    /// Receivers, and whether each has verified the bytes.
    pub receivers: Vec<(String, bool)>,
}

impl LastRun {
    /// Reads the report that the arguments name, if they need one.
    ///
    /// # Errors
    /// A [`Failure`] with code 4 if it cannot be read, 2 if it is none.
    pub fn read(args: &ResumeArgs) -> anyhow::Result<Option<LastRun>> {
        let Some(path) = args.report.as_ref().filter(|_| args.resume || args.only_missing) else { return Ok(None) };
        if report::is_page(path) {
            let text = "--resume and --only-missing read the last report, and a page is for people: keep reports as \
                        JSON, --report run.json, and make pages of them by `ethbcast report run.json --out run.html`";
            return fail(Code::Usage, text);
        }
        let text = fs::read_to_string(path).map_err(|error| {
            let help = "send once with --report FILE, or name the hosts with --hosts";
            Failure::new(Code::System, format!("cannot read the last report {}: {error}; {help}", path.display()))
        })?;
        match LastRun::parse(&text) {
            Ok(last) => Ok(Some(last)),
            Err(why) => fail(
                Code::Usage,
                format!("{} {why}; name the hosts with --hosts, or send to all with -n", path.display()),
            ),
        }
    }

    fn parse(text: &str) -> Result<LastRun, String> {
        let report = report::object(text)?;
        let receiver = |one: &Value| Some((one["host"].as_str()?.to_owned(), one["status"].as_str()? == VERIFIED));
        let receivers = report["receivers"].as_array().and_then(|all| all.iter().map(receiver).collect());
        let mut receivers: Vec<(String, bool)> = receivers.ok_or("is no report of `send`: it names no receivers")?;
        if receivers.is_empty() {
            return Err("is the report of a run without receivers".to_owned());
        }
        // Hosts that were wanted and did not take part lack the bytes as well.
        let is_wanted = |one: &&Value| [REFUSED, ABSENT].map(Some).contains(&one["status"].as_str());
        let left_out = report["left_out"].as_array().into_iter().flatten().filter(is_wanted);
        receivers.extend(left_out.filter_map(|one| Some((one["host"].as_str()?.to_owned(), false))));
        Ok(LastRun { bytes: report["bytes"].as_u64().filter(|_| !report["blake3"].is_null()), receivers })
    }

    /// Returns the hosts of this run: all, or those that have not verified the bytes.
    pub fn hosts(&self, only_missing: bool) -> Vec<String> {
        let wanted = self.receivers.iter().filter(|(_, verified)| !(only_missing && *verified));
        wanted.map(|(host, _)| host.clone()).collect()
    }

    /// Checks that SOURCE has the length of the last run's content, which some receivers have
    /// verified.
    ///
    /// # Errors
    /// A [`Failure`] with code 2.
    pub fn check_source(&self, bytes: Option<u64>) -> anyhow::Result<()> {
        match self.bytes.zip(bytes).filter(|(before, now)| before != now) {
            Some((before, now)) => fail(
                Code::Usage,
                format!(
                    "the last report is of {before} bytes, SOURCE has {now}: it is another; send it to all, without \
                     --only-missing"
                ),
            ),
            None => Ok(()),
        }
    }
}

/// Writes a report to a file atomically.
///
/// # Errors
/// A [`Failure`] with code 4.
pub fn save(path: &Path, report: &str) -> anyhow::Result<()> {
    whole_file::save(path, &format!("{report}\n")).map_err(|error| unwritable(path, &error))
}

/// Checks before the transfer that the report's file can be written.
///
/// # Errors
/// A [`Failure`] with code 4.
pub fn try_place(path: Option<&Path>) -> anyhow::Result<()> {
    path.map_or(Ok(()), |path| whole_file::try_place(path).map_err(|error| unwritable(path, &error)))
}

fn unwritable(path: &Path, error: &io::Error) -> anyhow::Error {
    let text = format!("cannot write the report to {}: {error}; give --report another FILE", path.display());
    Failure::new(Code::System, text).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report_text(schema: u64, blake3: &str) -> String {
        format!(
            r#"{{"schema":{schema},"bytes":7,"blake3":{blake3},"receivers":[
                {{"host":"n1","status":"verified"}},{{"host":"n2","status":"died"}},
                {{"host":"n3","status":"verified"}}],"left_out":[{{"host":"n4","status":"absent"}},
                {{"host":"n5","status":"refused"}},{{"host":"n6","status":"unwanted"}},{{"host":"n7"}}]}}"#
        )
    }

    #[test]
    fn a_report_says_who_is_missing_and_of_what() {
        let last = LastRun::parse(&report_text(1, "\"ab\"")).expect("a report");
        assert_eq!(last.hosts(true), ["n2", "n4", "n5"]);
        assert_eq!(last.hosts(false), ["n1", "n2", "n3", "n4", "n5"]);
        assert!(last.check_source(Some(7)).is_ok() && last.check_source(None).is_ok());
        let text = last.check_source(Some(8)).expect_err("another").to_string();
        assert!(text.contains("7 bytes, SOURCE has 8") && text.contains("without --only-missing"), "{text}");
        let unfinished = LastRun::parse(&report_text(1, "null")).expect("a report");
        assert!(unfinished.check_source(Some(8)).is_ok(), "its end was not reached");
    }

    #[test]
    fn what_is_no_report_or_of_another_version_is_refused_by_name() {
        for (text, word) in [
            (report_text(2, "null"), "version 2"),
            ("{}".to_owned(), "names no schema"),
            ("no json".to_owned(), "no report of `send`"),
            (r#"{"schema":1}"#.to_owned(), "names no receivers"),
            (r#"{"schema":1,"receivers":[]}"#.to_owned(), "without receivers"),
            (r#"{"schema":1,"receivers":[{"host":3}]}"#.to_owned(), "names no receivers"),
        ] {
            let why = LastRun::parse(&text).expect_err("it is none");
            assert!(why.contains(word), "{why}");
        }
    }
}
