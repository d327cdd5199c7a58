//! Final output of `ethbcast send`: one line for each receiver and a total, or a JSON object.

use super::outcome::LeftOut;
use super::settings;
use crate::exit::{Code, Failure, Form, report, report_object};
use crate::report::{Circumstances, Limits, is_of_network, is_page, limits, page_of, record};
use crate::session::{lane_words, lanes_json};
use crate::units;
use ethbcast_collectives::Preset;
use ethbcast_collectives::session::{
    Damage, Lacking, MemberReport, Outcome, Rate, SendOptions, SendReport, Session, Taken,
};
use ethbcast_planning::duration;
use ethbcast_planning::model::{Choice, Estimate};
use ethbcast_planning::plan::{CableLoad, CheckReport};
use ethbcast_planning::topology::nodeset;
use ethbcast_transport::packet::LaneUse;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Relative error of a prediction above which it is called wrong.
const MAX_ERROR: f64 = 0.25;
/// Length up to which nothing is predicted, in bytes.
const MIN_PREDICTED_BYTES: u64 = 64 << 10;
const MIN_SURPRISE_SECONDS: f64 = 0.05;

#[derive(Debug)]
pub struct Report<'a> {
    pub sent: &'a SendReport,
    pub preset: Preset,
    pub verdict: Option<&'a CheckReport>,
    pub run: Value,
    pub given_up: Option<&'a Failure>,
    pub is_calibrated: bool,
    pub left_out: &'a [LeftOut],
    /// Use of each interface, if there are two.
    pub lanes: Option<&'a [LaneUse; 2]>,
}

impl Report<'_> {
    fn via(&self) -> String {
        self.sent
            .via()
            .map(|via| via.to_string())
            .unwrap_or_default()
    }

    fn seconds(&self) -> f64 {
        self.sent.took.as_secs_f64()
    }

    /// Returns the predicted duration. A stream of unknown length is predicted by its final length.
    /// `None` for a delta transfer, because the prediction covers all bytes; if nothing was
    /// measured; and for short content, most of whose time is the beginning and the end.
    fn predicted_seconds(&self) -> Option<f64> {
        let is_told =
            |choice: &&Choice| choice.is_known() && self.sent.bytes() > MIN_PREDICTED_BYTES;
        let choice = self
            .sent
            .choice
            .as_ref()
            .filter(|_| self.sent.sent_bytes.is_none())
            .filter(is_told)?;
        Some(choice.size_bytes.map_or_else(
            || choice.predicted_for(self.sent.bytes()),
            |_| choice.predicted_seconds,
        ))
    }

    /// Returns the least and the most predicted seconds if the measurements leave them far apart.
    fn predicted_range(&self) -> Option<[f64; 2]> {
        let choice = self
            .sent
            .choice
            .as_ref()
            .filter(|choice| choice.size_bytes.is_some())?;
        self.predicted_seconds().and(choice.unsure_range_seconds())
    }

    pub fn print(&self, form: Form, quiet: bool) -> anyhow::Result<()> {
        match (form, quiet) {
            (Form::Object | Form::Stream, _) => report_object(&self.to_json(), form),
            (Form::Lines, false) if self.given_up.is_none() => report(&self.to_lines()),
            (Form::Lines, _) => Ok(()),
        }
    }

    pub fn interrupted(&self) -> Option<String> {
        let is_user = |why: &&Failure| matches!(why.code(), Code::Interrupted | Code::Terminated);
        self.given_up.filter(is_user)?;
        let part = self.sent.sent_bytes;
        let lines: String = self
            .sent
            .receivers
            .iter()
            .map(|report| receiver_lines(report, part, None))
            .collect();
        let (verified, all) = (self.sent.verified(), self.sent.receivers.len());
        Some(format!(
            "{lines}interrupted: {verified} of {all} receivers have verified everything"
        ))
    }

    fn to_lines(&self) -> String {
        let limits = self.limits(&self.to_json());
        let limit = |at: usize| {
            limits
                .as_ref()
                .and_then(|limits| limits.receivers.get(at)?.as_deref())
        };
        let lines = self
            .sent
            .receivers
            .iter()
            .enumerate()
            .map(|(at, report)| receiver_lines(report, self.sent.sent_bytes, limit(at)));
        let lines: String = lines.collect();
        let limited = limits.as_ref().map_or(String::new(), |limits| {
            format!("\nlimited by: {}", limits.whole)
        });
        let others = limits
            .as_ref()
            .and_then(|limits| limits.others.as_ref())
            .filter(|others| !limited.contains(*others));
        let others = others.map_or(String::new(), |others| format!("\nbeside it: {others}"));
        let away: String = self.left_out.iter().map(LeftOut::to_line).collect();
        let damaged: String = self.damaged().map(|line| format!("{line}\n")).collect();
        let plan = self
            .sent
            .choice
            .as_ref()
            .map_or(String::new(), |choice| format!("\n{}", choice.reason));
        let predicted = self.predicted_seconds().map_or(String::new(), |seconds| {
            match self.predicted_range() {
                Some([least, most]) => format!(" (not sure: {least:.3} to {most:.3} predicted)"),
                None => format!(" ({seconds:.3} predicted)"),
            }
        });
        let part = self.sent.sent_bytes.map_or(String::new(), |bytes| {
            format!(" ({} sent)", units::bytes(bytes))
        });
        let rate = self.sent.sent_bytes.map_or_else(
            || self.sent.goodput_bits_per_second(),
            |part| part.min(self.sent.bytes()) as f64 * 8.0 / self.seconds().max(1e-9),
        );
        let lanes = self
            .lanes
            .map_or(String::new(), |lanes| format!("\n{}", lane_words(lanes)));
        let preset = if self.preset == Preset::Default {
            String::new()
        } else {
            format!(" (preset {})", self.preset)
        };
        format!(
            "{lines}{away}{damaged}{} of {} receivers verified {}{part} via {}{preset} in {:.3} s{predicted}: {} ({} \
             frames sent, {} again){lanes}{plan}{others}{limited}",
            self.sent.verified(),
            self.sent.receivers.len(),
            units::bytes(self.sent.bytes()),
            self.via(),
            self.seconds(),
            units::rate(rate),
            self.sent.stream.data_sent,
            self.sent.stream.data_resent,
        )
    }

    fn damaged(&self) -> impl Iterator<Item = String> {
        let mut hops: BTreeMap<(Option<&str>, String), (usize, u64)> = BTreeMap::new();
        for Damage {
            bytes,
            is_hash_list,
            from,
            to,
        } in &self.sent.damages
        {
            let (pieces, most) = hops
                .entry((from.as_deref(), nodeset::fold(to)))
                .or_default();
            let bytes = if *is_hash_list {
                0
            } else {
                bytes.end - bytes.start
            };
            (*pieces, *most) = (*pieces + 1, bytes.max(*most));
        }
        hops.into_iter().map(|((from, to), (pieces, most))| {
            let (noun, were) = if pieces == 1 {
                ("piece", "was")
            } else {
                ("pieces", "were")
            };
            let most = if most == 0 {
                String::new()
            } else {
                format!(" of {}", units::bytes(most))
            };
            let from = from.map_or(String::new(), |from| format!("{from} "));
            format!("{from}-> {to}: {pieces} {noun}{most} came damaged and {were} sent again")
        })
    }

    pub fn to_json(&self) -> Value {
        let receivers: Vec<_> = self.sent.receivers.iter().map(receiver_json).collect();
        let mut object = json!({
            "schema": 1,
            "session": format!("{:08x}", self.sent.session),
            "bytes": self.sent.bytes(),
            "seconds": self.seconds(),
            "total_seconds": self.sent.total.as_secs_f64(),
            "goodput_bits_per_second": self.sent.goodput_bits_per_second(),
            "sent_bytes": self.sent.sent_bytes,
            "blake3": self.sent.trailer.map(|trailer| units::hex(&trailer.digest)),
            "via": self.via(),
            "rerouted": self.sent.rerouted.is_some(),
            "preset": self.preset.to_string(),
            "segment_bytes": self.sent.choice.as_ref().map(|choice| choice.segment_bytes),
            "predicted_seconds": self.predicted_seconds(),
            "predicted_range_seconds": self.predicted_range(),
            "rate_limit_bits_per_second": self.sent.rate.and_then(Rate::limit),
            "nice": self.sent.rate.is_some_and(Rate::is_yielding),
            "reason": self.sent.choice.as_ref().map(|choice| choice.reason.as_str()),
            "surprise": self.surprise(),
            "contention": self.verdict.map(contention_json),
            "frames": {
                "data_sent": self.sent.stream.data_sent,
                "data_resent": self.sent.stream.data_resent,
                "control_sent": self.sent.control.sent + self.sent.stream.heartbeats_sent,
                "control_received": self.sent.control.received + self.sent.stream.acks_received,
            },
            "receivers": receivers,
            "damaged": self.sent.damages.iter().map(damage_json).collect::<Vec<_>>(),
            "left_out": self.left_out.iter().map(LeftOut::to_json).collect::<Vec<_>>(),
            "run": self.run,
        });
        if let Some(lanes) = self.lanes {
            object["interfaces"] = lanes_json(lanes);
        }
        if let Some(failure) = self.given_up {
            let Value::Object(fields) = failure.to_json() else {
                unreachable!("it is an object")
            };
            object
                .as_object_mut()
                .expect("it is an object")
                .extend(fields);
        } else if let Some(limits) = self.limits(&object) {
            object["limited_by"] = json!(limits.whole);
            for (at, limit) in limits.receivers.into_iter().enumerate() {
                object["receivers"][at]["limited_by"] = json!(limit);
            }
        }
        object
    }

    /// Whether nothing at a host took the time, as far as the times of one round show it.
    pub fn is_of_network(&self) -> bool {
        self.sent.rounds == 1 && is_of_network(&self.to_json())
    }

    /// Returns what limited the receivers. The times of several rounds show nothing of a cable.
    fn limits(&self, object: &Value) -> Option<Limits> {
        (self.sent.rounds == 1).then(|| limits(object)).flatten()
    }

    pub fn keep(&self, path: Option<&Path>) -> anyhow::Result<()> {
        let Some(path) = path else { return Ok(()) };
        let text = if is_page(path) {
            page_of(self.to_json())?
        } else {
            self.to_json().to_string()
        };
        settings::save(path, &text)
    }

    pub fn surprise(&self) -> Option<String> {
        // The model covers the default protocol, one interface and all bytes only.
        let is_priced =
            self.sent.verified() > 0 && self.preset == Preset::Default && self.lanes.is_none();
        let predicted = self.predicted_seconds().filter(|_| is_priced)?;
        let error = self.seconds() / predicted - 1.0;
        // The model does not include joining, verifying and syncing.
        let range = self
            .sent
            .choice
            .as_ref()
            .map_or([predicted; 2], |choice| choice.range_seconds());
        let is_within = (range[0]..=range[1]).contains(&self.seconds());
        if is_within || !is_surprising(self.seconds(), predicted) {
            return None;
        }
        // The bytes may have come slowly, as those of a pipe do.
        let is_of_known_length = self
            .sent
            .choice
            .as_ref()
            .is_some_and(|choice| choice.size_bytes.is_some());
        let help = match error < 0.0 {
            true if self.is_calibrated => {
                ": the calibration is of a slower network; measure again with `ethbcast probe`"
            }
            true => ": the measurement before the start found a slower network",
            false if is_of_known_length => "",
            false => return None,
        };
        let (actual, times) = (duration(self.seconds()), format!("{:+.0} %", error * 100.0));
        Some(format!(
            "took {actual}, {times} of the {} predicted{help}",
            duration(predicted)
        ))
    }
}

fn is_surprising(seconds: f64, predicted: f64) -> bool {
    let difference = (seconds - predicted).abs();
    difference > predicted * MAX_ERROR && difference >= MIN_SURPRISE_SECONDS
}

pub fn run(sent: &SendReport, session: &Session, options: &SendOptions, group: &str) -> Value {
    let station = session.station();
    let about = Circumstances {
        group,
        source: &options.source,
        root: &station.host,
        interface: &session.interface().name,
        mtu_bytes: u32::from(station.mtu_bytes),
        topology: options.topology.as_ref(),
    };
    record(sent, &about)
}

pub fn print_nothing_missing(form: Form, quiet: bool) -> anyhow::Result<()> {
    match (form, quiet) {
        (Form::Lines, false) => {
            report("nothing is missing: by the last report all receivers have verified everything")
        }
        (Form::Lines, true) => Ok(()),
        (Form::Object | Form::Stream, _) => {
            report_object(&json!({ "schema": 1, "receivers": [] }), form)
        }
    }
}

fn contention_json(report: &CheckReport) -> Value {
    report.contended().into_iter().map(contended_json).collect()
}

fn contended_json(load: &CableLoad) -> Value {
    json!({ "from": load.from.name(), "to": load.to.name(), "flows": load.flows, "senders": load.senders })
}

fn damage_json(damage: &Damage) -> Value {
    let Damage {
        bytes,
        is_hash_list,
        from,
        to,
    } = damage;
    json!({ "at": bytes.start, "bytes": bytes.end - bytes.start, "ledger": is_hash_list, "from": from, "to": to })
}

/// A receiver, its outcome, the cause that limited it, and the hosts behind it if it is a relay. If
/// only a `part` of the bytes was sent, the rate is of that part.
pub fn receiver_lines(report: &MemberReport, part: Option<u64>, limit: Option<&str>) -> String {
    let named = report.behind.named();
    let behind = named.iter().map(|(name, outcome)| {
        let host = format!("{}/{name}", report.host);
        format!("{host:<16} {}\n", outcome.word())
    });
    let mut lines = receiver_line(report, part, limit);
    lines.extend(behind);
    match report.behind.hosts().saturating_sub(named.len()) {
        0 => {}
        more => {
            lines += &format!(
                "{}/… {more} more, which its report has no room for\n",
                report.host
            )
        }
    }
    lines
}

fn receiver_line(report: &MemberReport, part: Option<u64>, limit: Option<&str>) -> String {
    let MemberReport {
        host,
        outcome,
        bytes,
        took,
        text,
        ..
    } = report;
    let (word, text) = outcome.status_and_reason(text);
    let seconds = took.as_secs_f64();
    let is_rated = *outcome == Outcome::Delivered && seconds > 0.0;
    let carried = part.map_or(*bytes, |part| part.min(*bytes));
    let rate = if is_rated {
        units::rate(carried as f64 * 8.0 / seconds)
    } else {
        String::new()
    };
    let text = if text.is_empty() {
        String::new()
    } else {
        format!("  {text}")
    };
    let limit = limit.map_or(String::new(), |limit| format!("  limited by {limit}"));
    let line = format!(
        "{host:<16} {word:<12} {:>12}  {seconds:>8.3} s  {rate:>12}{text}{limit}",
        units::bytes(*bytes)
    );
    format!("{}\n", line.trim_end())
}

pub fn receiver_json(report: &MemberReport) -> Value {
    let (word, text) = report.outcome.status_and_reason(&report.text);
    let mut object = json!({
        "host": report.host,
        "rank": report.rank.0,
        "status": word,
        "bytes": report.bytes,
        "blake3": (report.digest != [0; 32]).then(|| units::hex(&report.digest)),
        "seconds": report.took.as_secs_f64(),
        "reason": (report.outcome != Outcome::Delivered).then_some(text),
        "note": (report.outcome == Outcome::Delivered && !text.is_empty()).then_some(text),
        "frames": report.taken.map(Taken::frames),
        "repaired_frames": report.taken.map(Taken::repaired),
    });
    if report.behind.hosts() > 0 {
        let of =
            |(name, outcome): &(String, Outcome)| json!({ "host": name, "status": outcome.word() });
        object["behind"] = json!({
            "hosts": report.behind.hosts(),
            "named": report.behind.named().iter().map(of).collect::<Vec<_>>(),
        });
    }
    object
}

/// Prints the choice and its alternatives, and the missing bytes out of `size` if receivers have
/// some already.
pub fn print(
    choice: &Choice,
    lacking: Option<Lacking>,
    size: Option<u64>,
    form: Form,
) -> anyhow::Result<()> {
    if form != Form::Lines {
        return report_object(&to_json(choice, lacking), form);
    }
    let lines: Vec<String> = choice.candidates.iter().map(line).collect();
    let lacking = lacking.map_or(String::new(), |lacking| {
        format!("{}\n", words(lacking, size))
    });
    let without = left_out_of(choice);
    report(&format!(
        "{lacking}{}\nnot predicted: {without}\n{:<20} {:>12} {:>10} {:>7} {:>7}\n{}",
        choice.reason,
        "via",
        "predicted",
        "segment",
        "height",
        "degree",
        lines.join("\n")
    ))
}

/// Returns the parts of a transfer that its prediction leaves out. How long earlier ones took is
/// known with their ends.
fn left_out_of(choice: &Choice) -> &'static str {
    let ways = choice.calibration().ways();
    if ways.iter().any(|way| way.via == choice.plan.via()) {
        "joining"
    } else {
        "joining, verifying and syncing"
    }
}

fn line(candidate: &Estimate) -> String {
    let Estimate {
        via,
        segment_bytes,
        predicted_seconds,
        height,
        degree,
        ..
    } = candidate;
    let (predicted, segment) = (duration(*predicted_seconds), units::bytes(*segment_bytes));
    format!(
        "{:<20} {predicted:>12} {segment:>10} {height:>7} {degree:>7}",
        via.to_string()
    )
}

fn words(
    Lacking {
        together_bytes,
        alone_bytes,
    }: Lacking,
    size: Option<u64>,
) -> String {
    let bytes = together_bytes + alone_bytes;
    let of = size.filter(|&size| size > 0).map_or(String::new(), |size| {
        format!(
            " of {} ({:.2} %)",
            units::bytes(size),
            bytes as f64 * 100.0 / size as f64
        )
    });
    let alone = match alone_bytes {
        0 => String::new(),
        alone => format!(
            ", {} of them to single receivers, as nobody else lacks them",
            units::bytes(alone)
        ),
    };
    format!(
        "{}{of} would be sent: receivers have the rest{alone}; predicted is all of it",
        units::bytes(bytes)
    )
}

fn to_json(choice: &Choice, lacking: Option<Lacking>) -> serde_json::Value {
    let candidate = |candidate: &Estimate| {
        json!({
            "via": candidate.via.to_string(),
            "segment_bytes": candidate.segment_bytes,
            "predicted_seconds": candidate.predicted_seconds,
            "height": candidate.height,
            "degree": candidate.degree,
        })
    };
    json!({
        "schema": 1,
        "via": choice.plan.via().to_string(),
        "segment_bytes": choice.segment_bytes,
        "predicted_seconds": choice.predicted_seconds,
        "reason": choice.reason,
        "lacking_bytes": lacking.map(|lacking| lacking.together_bytes + lacking.alone_bytes),
        "lacking_alone_bytes": lacking.map(|lacking| lacking.alone_bytes),
        "candidates": choice.candidates.iter().map(candidate).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_collectives::session::Behind;
    use ethbcast_transport::wire::Rank;
    use std::time::Duration;

    #[test]
    fn a_time_is_news_if_it_is_a_quarter_and_more_than_a_moment_off() {
        for (seconds, predicted, expected) in [
            (0.04, 0.000_014, false),
            (2.0, 1.0, true),
            (1.2, 1.0, false),
            (0.5, 1.0, true),
            (0.051, 0.000_014, true),
        ] {
            assert_eq!(
                is_surprising(seconds, predicted),
                expected,
                "{seconds} s, {predicted} s predicted"
            );
        }
    }

    #[test]
    fn a_line_has_how_a_receiver_fared_how_fast_and_what_limited_it() {
        let report = |outcome, text: &str| MemberReport {
            host: "n1".to_owned(),
            rank: Rank(1),
            outcome,
            bytes: 64 << 20,
            digest: [1; 32],
            text: text.to_owned(),
            took: Duration::from_millis(5588),
            taken: None,
            behind: Behind::default(),
        };
        let delivered = report(Outcome::Delivered, "");
        assert_eq!(
            receiver_line(&delivered, None, None),
            "n1               verified        64.00 MiB     5.588 s   96.1 Mbit/s\n"
        );
        assert_eq!(
            receiver_line(&delivered, None, Some("a host behind it")),
            "n1               verified        64.00 MiB     5.588 s   96.1 Mbit/s  limited by a host behind it\n"
        );
        let part = receiver_line(&delivered, Some(16 << 20), None);
        assert!(
            part.contains("64.00 MiB") && part.contains("24.0 Mbit/s"),
            "the rate of what was sent: {part}"
        );
        assert_eq!(
            receiver_line(&report(Outcome::Died, "its process has ended"), None, None),
            "n1               died            64.00 MiB     5.588 s                its process has ended\n"
        );
    }
}
