//! Results and errors of a transfer, as sender and receiver return them.

use super::history::{History, bytes_of};
use crate::membership::ControlStats;
use crate::membership::live::{Forked, StationError};
use crate::session::application::{Receiving, Sink};
use crate::session::message::{Behind, Done, Outcome, Refusal, Trailer};
use crate::session::receiver::{End, Receiver};
use crate::session::root::{
    Damage, Lacking, MemberReport, NamesError, OtherTraffic, Proved, Root, RootFailure, TurnedAway,
};
use crate::session::throttle::Rate;
use crate::session::verified::Form;
use crate::session::view::MemberRole;
use ethbcast_planning::model::Choice;
use ethbcast_planning::plan::Via;
use ethbcast_transport::packet::DriveError;
use ethbcast_transport::stream::StreamStats;
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{Instant, MacAddr, TuningError};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// Report of a session at its sender.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SendReport {
    /// Session number.
    pub session: u32,
    /// Number of sessions that this reports: more than one are rounds of a carousel.
    pub rounds: u32,
    /// Plan, the reason for it, and its predicted time.
    pub choice: Option<Choice>,
    /// Algorithm that replaced the chosen one, if one did.
    pub rerouted: Option<Via>,
    /// Facts measured and proved of the network, for the next transfer.
    pub proved: Proved,
    /// Length and digest of the content sent; `None` unless all of it was read.
    pub trailer: Option<Trailer>,
    /// Bytes sent in a selective session, hash lists included, to all and to single receivers.
    pub sent_bytes: Option<u64>,
    /// Amount that receivers lacked in a selective session.
    pub lacking: Option<Lacking>,
    /// Time from the first data frame to the last verdict.
    pub took: Duration,
    /// Time from the first announcement to the end.
    pub total: Duration,
    /// Frame counters of the streams.
    pub stream: StreamStats,
    /// Counters of control frames.
    pub control: ControlStats,
    /// Report of every receiver, by rank.
    pub receivers: Vec<MemberReport>,
    /// Hosts that were turned away, or came too late.
    pub turned_away: Vec<TurnedAway>,
    /// Ranges that came damaged to some receivers and were re-sent, each with its hop.
    pub damages: Vec<Damage>,
    /// Receivers that were demoted because they held up the others.
    pub demoted: Vec<String>,
    /// Receiver that was blocked most often, if one was.
    pub held_up_by: Option<String>,
    #[doc(hidden)]
    pub history: History,
    /// Rate limit of each host at the end, if there was one.
    pub rate: Option<Rate>,
    /// Other traffic on the link where there was most, if there was some.
    pub other_traffic: Option<OtherTraffic>,
    /// Time for which this host's own interface was away or had no link.
    pub cut_off: Duration,
    pub(super) addresses: Vec<MacAddr>,
}

impl SendReport {
    /// Returns the number of bytes sent.
    pub fn bytes(&self) -> u64 {
        self.trailer.map_or(0, |trailer| trailer.bytes)
    }

    /// Returns the algorithm by which the bytes travelled, the last one if it changed; `None`
    /// before it was chosen.
    pub fn via(&self) -> Option<Via> {
        self.rerouted
            .or_else(|| self.choice.as_ref().map(|choice| choice.plan.via()))
    }

    /// Returns the plan's predicted time in seconds.
    pub fn predicted_seconds(&self) -> Option<f64> {
        self.choice.as_ref().map(|choice| choice.predicted_seconds)
    }

    /// Returns the goodput in bits per second; zero if no time passed.
    pub fn goodput_bits_per_second(&self) -> f64 {
        let seconds = self.took.as_secs_f64();
        if seconds > 0.0 {
            self.bytes() as f64 * 8.0 / seconds
        } else {
            0.0
        }
    }

    /// Returns the number of receivers that have verified the bytes.
    pub fn verified(&self) -> usize {
        self.receivers
            .iter()
            .filter(|member| member.outcome == Outcome::Delivered)
            .count()
    }

    /// Returns the number of hosts of other networks that have verified the bytes, behind relays.
    pub fn behind(&self) -> usize {
        let verified = |member: &&MemberReport| member.outcome == Outcome::Delivered;
        let relays = self.receivers.iter().filter(verified);
        relays.map(|member| member.behind.hosts()).sum()
    }

    /// Returns the reports of the receivers that have not verified the bytes.
    pub fn failed(&self) -> impl Iterator<Item = &MemberReport> + '_ {
        self.receivers
            .iter()
            .filter(|member| member.outcome != Outcome::Delivered)
    }

    /// Returns the report if every receiver has verified the bytes.
    ///
    /// # Errors
    /// [`Error::Undelivered`] with the report, if one has not.
    pub fn all_verified(self) -> Result<SendReport, Error> {
        if self.failed().next().is_none() {
            Ok(self)
        } else {
            Err(Error::Undelivered(Box::new(self)))
        }
    }

    pub(super) fn delivered(&self) -> impl Iterator<Item = (MacAddr, &str)> + '_ {
        let has_it = |report: &&MemberReport| report.outcome == Outcome::Delivered;
        let receivers = self.receivers.iter().filter(has_it);
        receivers.map(|report| (self.addresses[report.rank.index()], report.host.as_str()))
    }

    pub(super) fn turn_away(&mut self, others: Vec<TurnedAway>) {
        for away in others {
            if self.turned_away.iter().all(|one| one.mac != away.mac) {
                self.turned_away.push(away);
            }
        }
    }

    /// Returns the report of all rounds of a carousel, of which this is the newest. Each host has
    /// its newest report; the plan and its course are those of this round, and hosts of earlier
    /// ones have the ranks after those of this one.
    pub(super) fn after(mut self, earlier: SendReport) -> SendReport {
        let passed = |report: &SendReport| report.sent_bytes.unwrap_or_else(|| report.bytes());
        self.sent_bytes = Some(passed(&self) + passed(&earlier));
        self.lacking = None;
        self.rounds += earlier.rounds;
        for report in earlier.receivers {
            let mac = earlier.addresses[report.rank.index()];
            let address = |one: &MemberReport| self.addresses[one.rank.index()];
            if self.receivers.iter().any(|one| address(one) == mac) {
                continue; // It came again.
            }
            let is_shared = self.receivers.iter().any(|one| one.host == report.host);
            let host = match is_shared {
                true => format!("{}@{mac}", report.host),
                false => report.host,
            };
            let rank = Rank(u16::try_from(self.addresses.len()).unwrap_or(u16::MAX));
            self.addresses.push(mac);
            self.receivers.push(MemberReport {
                host,
                rank,
                ..report
            });
        }
        self.turn_away(earlier.turned_away);
        self.trailer = self.trailer.or(earlier.trailer);
        (self.took, self.total) = (self.took + earlier.took, self.total + earlier.total);
        self.stream = self.stream + earlier.stream;
        self.control.sent += earlier.control.sent;
        self.control.received += earlier.control.received;
        self.control.non_members += earlier.control.non_members;
        self.control.malformed += earlier.control.malformed;
        self.damages.extend(earlier.damages);
        self.demoted.extend(earlier.demoted);
        self.held_up_by = self.held_up_by.or(earlier.held_up_by);
        self.other_traffic = self.other_traffic.or(earlier.other_traffic);
        self.cut_off += earlier.cut_off;
        self
    }

    pub(super) fn failures(&self) -> String {
        let names: Vec<String> = self
            .failed()
            .map(|one| {
                format!(
                    "{} ({})",
                    one.host,
                    one.outcome.status_and_reason(&one.text).0
                )
            })
            .collect();
        let (failed, all) = (names.len(), self.receivers.len());
        let at_dest = self.failed().any(|one| one.outcome == Outcome::WriteFailed);
        let help = if at_dest {
            "fix what they report, start `recv` there and "
        } else {
            ""
        };
        format!(
            "{failed} of {all} receivers failed: {}; {help}send again to them",
            names.join(", ")
        )
    }
}

/// Reports of all members of a session that is given up, by rank. Members without a report of their
/// own have been notified of the end.
fn fates(root: &Root, form: Form, now: Instant) -> Vec<MemberReport> {
    let Some(view) = root.view() else {
        return Vec::new();
    };
    let mut fates: BTreeMap<Rank, MemberReport> = root
        .reports()
        .map(|report| (report.rank, report.clone()))
        .collect();
    for (rank, status) in root.states() {
        fates.entry(rank).or_insert_with(|| MemberReport {
            host: view.members[rank.index()].host.clone(),
            rank,
            outcome: Outcome::Interrupted,
            bytes: bytes_of(status.consumed, view, form),
            digest: [0; 32],
            text: "the sender gave up before it had everything".to_owned(),
            took: root.since_first_data(now),
            taken: None,
            behind: Behind::default(),
        });
    }
    fates.into_values().collect()
}

/// Reduces the reports to one per host, the last: a restarted receiver counts with its present
/// state. A host that has verified everything keeps that report, whatever happens to another
/// receiver there.
fn by_host(root: &Root, reports: Vec<MemberReport>) -> Vec<MemberReport> {
    let Some(view) = root.view() else {
        return reports;
    };
    let mut last: BTreeMap<MacAddr, MemberReport> = BTreeMap::new();
    for report in reports {
        let kept = last
            .entry(view.members[report.rank.index()].mac)
            .or_insert_with(|| report.clone());
        if kept.outcome != Outcome::Delivered || report.outcome == Outcome::Delivered {
            *kept = report;
        }
    }
    let mut all: Vec<MemberReport> = last.into_values().collect();
    all.sort_by_key(|report| report.rank);
    all
}

/// Returns the outcome of each host of a session that ended regularly, or was `given_up` at that
/// time.
pub(super) fn of_receivers(
    root: &Root,
    given_up: Option<Instant>,
    form: Form,
) -> Vec<MemberReport> {
    let reports = || root.reports().cloned().collect();
    by_host(
        root,
        given_up.map_or_else(reports, |now| fates(root, form, now)),
    )
}

pub(super) fn demoted(root: &Root) -> Vec<String> {
    let members = root.view().into_iter().flat_map(|view| &view.members);
    members
        .filter(|member| member.standing == MemberRole::Demoted)
        .map(|member| member.host.clone())
        .collect()
}

/// Report of a session at one receiver.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReceiveReport {
    /// Name of this host.
    pub host: String,
    /// Description of the source by the sender; empty if there was no sender.
    pub source: String,
    /// Rank of this host, if it became a member.
    pub rank: Option<Rank>,
    /// Algorithm by which the bytes travelled, if this host became a member.
    pub via: Option<Via>,
    /// Outcome of the bytes, if known.
    pub verdict: Option<Done>,
    /// Bytes that came to all in this session, if this host or another had some of the content
    /// before.
    pub came_bytes: Option<u64>,
    /// Number of ranges that came damaged and were sent again.
    pub pieces_again: u64,
    /// Time from the first bytes to the verdict.
    pub took: Duration,
    /// Frame counters of the streams.
    pub stream: StreamStats,
    /// Counters of control frames.
    pub control: ControlStats,
    /// Outcome of the session for this host.
    pub end: Option<End>,
    /// Whether this host's user ended it.
    pub cancelled: bool,
}

impl ReceiveReport {
    /// Makes the report of `host` at the end of a session.
    pub fn new<K: Sink>(
        host: &str,
        receiver: &Receiver,
        receiving: &Receiving<K>,
    ) -> ReceiveReport {
        let stream = receiver.stream_stats();
        let came = stream.data_received.saturating_sub(stream.duplicates);
        let selective = receiver.view().filter(|view| view.selective);
        ReceiveReport {
            host: host.to_owned(),
            came_bytes: selective.map(|view| came * u64::from(view.payload_bytes)),
            source: receiving.offer().to_owned(),
            rank: receiver.rank(),
            via: receiver.view().map(|view| view.via),
            verdict: receiving.verdict().map(|done| Done {
                bytes: receiver.form().content_bytes(done.bytes),
                ..done.clone()
            }),
            pieces_again: receiving.pieces_again(),
            took: receiving.took(),
            stream,
            control: receiver.control_stats(),
            end: receiving.end().cloned(),
            cancelled: receiving.is_cancelled(),
        }
    }

    /// Returns the number of bytes received.
    pub fn bytes(&self) -> u64 {
        self.verdict.as_ref().map_or(0, |verdict| verdict.bytes)
    }

    /// Whether all bytes are here, verified and in their final place.
    pub fn is_delivered(&self) -> bool {
        self.verdict
            .as_ref()
            .is_some_and(|verdict| verdict.outcome == Outcome::Delivered)
    }

    /// Whether the sender has confirmed the outcome; if not, its own report may differ.
    pub fn is_confirmed(&self) -> bool {
        self.end == Some(End::Confirmed)
    }

    /// Returns `Ok` if the bytes are here and verified.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check(&self) -> Result<(), Error> {
        if self.cancelled {
            return Err(Error::Cancelled {
                delivered: self.is_delivered(),
            });
        }
        let settled = self
            .verdict
            .as_ref()
            .filter(|verdict| verdict.outcome != Outcome::Verified);
        match (settled, &self.end) {
            (Some(verdict), _) => match verdict.outcome {
                Outcome::Delivered => Ok(()),
                Outcome::Damaged => Err(Error::Damaged(verdict.text.clone())),
                outcome => {
                    let text = outcome.status_and_reason(&verdict.text).1.to_owned();
                    Err(Error::Write {
                        outcome,
                        text,
                        cause: None,
                    })
                }
            },
            (None, Some(End::Refused(why, text))) => Err(Error::Refused {
                why: *why,
                text: text.clone(),
            }),
            (None, Some(End::Aborted(text))) => Err(Error::Aborted(text.clone())),
            (None, Some(End::RootSilent)) => Err(Error::SenderSilent),
            (None, Some(End::NobodyThere)) => Err(Error::NobodyThere),
            (None, Some(End::NobodyElse(text))) => Err(Error::NobodyElse(text.clone())),
            (None, Some(End::Dropped)) => Err(Error::Dropped),
            _ if self.verdict.is_some() => Err(Error::Unconfirmed),
            (None, Some(End::Confirmed | End::Unconfirmed) | None) => Err(Error::NoVerdict),
        }
    }
}

/// Reason why a session failed, with what to do about it.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Station(#[from] StationError),
    #[error(transparent)]
    Tuning(#[from] TuningError),
    #[error(transparent)]
    Forked(#[from] Forked),
    #[error(transparent)]
    Drive(#[from] DriveError),
    #[error(
        "the system has no room for a session's threads ({0}): end other programs, or raise `ulimit -n` and `-u`"
    )]
    Resources(#[source] io::Error),
    /// The options of a relay's near session have an admission hook.
    #[error("a relay admits by itself: leave `RecvOptions::admission_hook` out")]
    OwnHook,
    #[error("this key is a receiver's: send from a host whose key file has a `sign` line")]
    MayNotSend,
    #[error(
        "no random number to name the session with ({0}): allow getrandom(2), which Linux has from 3.17 on"
    )]
    Random(#[source] io::Error),
    #[error(
        "a sender must know which receivers to wait for: set `receivers`, `hosts` or `start` of its `SendOptions`"
    )]
    ForWhom,
    #[error(transparent)]
    Names(#[from] NamesError),
    #[error(
        "the topology names no host {host}, only {known}: say which of them this is in `WireOptions::host`"
    )]
    NotInTopology { host: String, known: String },
    #[error(transparent)]
    NotStarted(#[from] RootFailure),
    /// The receivers have been notified.
    #[error("reading {what} failed after {bytes} bytes: {cause}")]
    Read {
        what: String,
        bytes: u64,
        #[source]
        cause: io::Error,
    },
    /// The receivers have been notified.
    #[error(
        "{what} changed while it was read: {announced} bytes at first, {read} in the end; send it again"
    )]
    SizeChanged {
        what: String,
        announced: u64,
        read: u64,
    },
    /// Rounds of a carousel need it once for each.
    #[error(
        "{what} can be read only once, and a carousel sends it several times: send a file or a directory that does not \
         change"
    )]
    OnlyOnce { what: String },
    /// An application's own source has given up, with this text.
    #[error("{0}")]
    GaveUp(String),
    #[error("{}", .0.failures())]
    Undelivered(Box<SendReport>),
    /// Ended by [`Cancel`](super::Cancel); the others have been notified.
    #[error("cancelled{}", if *.delivered { ", but all bytes were already delivered" } else { "" })]
    Cancelled { delivered: bool },
    /// The others have been notified.
    #[error(
        "the session exceeded its time limit; allow more time, or see above what it waited for"
    )]
    TimedOut,
    /// The port must be opened again.
    #[error("interface {interface} has another MTU now: its port is opened anew")]
    OtherMtu { interface: String },
    #[error(
        "the sender of group {group} runs on this host, behind the same interface {interface}, where its frames do not \
         arrive: copy the bytes here without ethbcast, or receive on another host"
    )]
    OwnHost { group: String, interface: String },
    #[error(
        "the receivers of group {group} run on this host, the sender's, behind the same interface {interface}, where \
         its frames do not arrive: start them on other hosts, or copy the bytes here without ethbcast"
    )]
    OwnReceivers { group: String, interface: String },
    #[error("no sender was heard; start one of the same group, or wait longer")]
    NobodyThere,
    /// A relay's two interfaces are in one network.
    #[error(
        "a relay that loops back to its own network: {host} is heard on {near} and on {far}; relay onto an interface \
         of another network"
    )]
    Loop {
        near: String,
        far: String,
        host: String,
    },
    /// A sender ended its session before the start, with this text.
    #[error("{0}; no other sender came")]
    NobodyElse(String),
    /// The sender refused this host, with a text that says what to do.
    #[error("{text}")]
    Refused { why: Refusal, text: String },
    /// The sender gave up, with this text.
    #[error("{0}")]
    Aborted(String),
    #[error("the sender fell silent; start it and this receiver again")]
    SenderSilent,
    #[error("the sender went on without this host; see its report")]
    Dropped,
    /// The bytes were not made visible.
    #[error(
        "all bytes came, but the sender ended without confirming them: nothing was put in place; send again"
    )]
    Unconfirmed,
    #[error("{0}")]
    Damaged(String),
    /// The sender has been notified.
    #[error("{text}")]
    Write {
        /// Outcome reported to the sender.
        outcome: Outcome,
        /// The failure, and what to do.
        text: String,
        #[source]
        cause: Option<io::Error>,
    },
    #[error("the session ended without a verdict")]
    NoVerdict,
}
