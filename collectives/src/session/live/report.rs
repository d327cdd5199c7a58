//! What a session came to, on either side, and what it can fail with.

use super::History;
use super::history::bytes_of;
use crate::membership::live::StationError;
use crate::session::application::{Receiving, Sink};
use crate::session::ledger::Form;
use crate::session::{
    ControlStats, Damage, Done, End, Lacking, MemberReport, NamesError, Outcome, Rate, Receiver, Refusal, Root,
    RootFailure, Standing, Trailer, TurnedAway,
};
use ethbcast_planning::model::Choice;
use ethbcast_planning::plan::Via;
use ethbcast_transport::packet::DriveError;
use ethbcast_transport::stream::StreamStats;
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{MacAddr, TuningError};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// What a session came to, at its sender.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SendReport {
    /// The session's number.
    pub session: u32,
    /// The plan, why it was chosen, and what it was predicted to take.
    pub choice: Option<Choice>,
    /// The way that it went on by, if that is another than the one chosen.
    pub rerouted: Option<Via>,
    /// What was sent: how many bytes, and their digest. None unless all were read.
    pub trailer: Option<Trailer>,
    /// Bytes that went for it, ledgers included, if receivers had some already: to all, and to single ones.
    pub sent_bytes: Option<u64>,
    /// What receivers lacked, if they had some already.
    pub lacking: Option<Lacking>,
    /// From the first data frame to the last verdict.
    pub took: Duration,
    /// From the first invitation to the end.
    pub total: Duration,
    /// Frames of the streams.
    pub stream: StreamStats,
    /// Control frames.
    pub control: ControlStats,
    /// How every receiver fared, by rank.
    pub receivers: Vec<MemberReport>,
    /// Who asked to join and was turned away, or came too late.
    pub turned_away: Vec<TurnedAway>,
    /// What came damaged to some of them and was sent again, and over which hop.
    pub damages: Vec<Damage>,
    /// Those who were served beside the others, for they held them up.
    pub aside: Vec<String>,
    /// The receiver that most often took frames more slowly than they came, if one did.
    pub held_up_by: Option<String>,
    /// How far each receiver was, moment by moment.
    pub history: History,
    /// How much each host might send at the end, if there was a limit.
    pub rate: Option<Rate>,
    /// How long this host's own interface was away, or had no link.
    pub cut_off: Duration,
}

impl SendReport {
    /// How many bytes were sent.
    pub fn bytes(&self) -> u64 {
        self.trailer.map_or(0, |trailer| trailer.bytes)
    }

    /// How they travelled, once that was decided; the last of them, if it went on another way.
    pub fn via(&self) -> Option<Via> {
        self.rerouted.or_else(|| self.choice.as_ref().map(|choice| choice.plan.via()))
    }

    /// What the plan was predicted to take, in seconds.
    pub fn predicted_seconds(&self) -> Option<f64> {
        self.choice.as_ref().map(|choice| choice.predicted_seconds)
    }

    /// The bytes' bits by the time they took; zero if they took none.
    pub fn goodput_bits_per_second(&self) -> f64 {
        let seconds = self.took.as_secs_f64();
        if seconds > 0.0 { self.bytes() as f64 * 8.0 / seconds } else { 0.0 }
    }

    /// The receivers that have verified the bytes.
    pub fn verified(&self) -> usize {
        self.receivers.iter().filter(|member| member.outcome == Outcome::Delivered).count()
    }

    /// The receivers that have not.
    pub fn failed(&self) -> impl Iterator<Item = &MemberReport> + '_ {
        self.receivers.iter().filter(|member| member.outcome != Outcome::Delivered)
    }

    /// The report, if every receiver has verified the bytes.
    ///
    /// # Errors
    /// [`Error::Undelivered`] with the report, if one has not.
    pub fn all_verified(self) -> Result<SendReport, Error> {
        if self.failed().next().is_none() { Ok(self) } else { Err(Error::Undelivered(Box::new(self))) }
    }

    /// Who failed, and how, in a sentence.
    pub(super) fn failures(&self) -> String {
        let names: Vec<String> =
            self.failed().map(|one| format!("{} ({})", one.host, one.outcome.told(&one.text).0)).collect();
        let (failed, all) = (names.len(), self.receivers.len());
        let at_dest = self.failed().any(|one| one.outcome == Outcome::WriteFailed);
        let help = if at_dest { "mend what they say, start `recv` there and " } else { "" };
        format!("{failed} of {all} receivers failed: {}; {help}send again to them", names.join(", "))
    }
}

/// All members of a session that is given up, by rank: those of whom there is no report have been told.
pub(super) fn fates(root: &Root, form: Form) -> Vec<MemberReport> {
    let Some(view) = root.view() else { return Vec::new() };
    let mut fates: BTreeMap<Rank, MemberReport> = root.reports().map(|report| (report.rank, report.clone())).collect();
    for (rank, status) in root.states() {
        fates.entry(rank).or_insert_with(|| MemberReport {
            host: view.members[rank.index()].host.clone(),
            rank,
            outcome: Outcome::Interrupted,
            bytes: bytes_of(status.consumed, view, form),
            digest: [0; 32],
            text: "the sender gave up before it had everything".to_owned(),
            took: Duration::ZERO,
            taken: None,
        });
    }
    fates.into_values().collect()
}

/// One report for each host, the last: one that was started again and came back is judged by what it has now. A host
/// that has verified everything has it, whatever becomes of another receiver there.
pub(super) fn by_host(root: &Root, reports: Vec<MemberReport>) -> Vec<MemberReport> {
    let Some(view) = root.view() else { return reports };
    let mut last: BTreeMap<MacAddr, MemberReport> = BTreeMap::new();
    for report in reports {
        let kept = last.entry(view.members[report.rank.index()].mac).or_insert_with(|| report.clone());
        if kept.outcome != Outcome::Delivered || report.outcome == Outcome::Delivered {
            *kept = report;
        }
    }
    let mut all: Vec<MemberReport> = last.into_values().collect();
    all.sort_by_key(|report| report.rank);
    all
}

/// Who stands aside at the end.
pub(super) fn aside(root: &Root) -> Vec<String> {
    let members = root.view().into_iter().flat_map(|view| &view.members);
    members.filter(|member| member.standing == Standing::Aside).map(|member| member.host.clone()).collect()
}

/// What a session came to, at one receiver.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReceiveReport {
    /// This host's name.
    pub host: String,
    /// What the sender called its bytes; empty if there was no sender.
    pub source: String,
    /// This host's rank, if it became a member.
    pub rank: Option<Rank>,
    /// How the bytes travelled, if it became a member.
    pub via: Option<Via>,
    /// What became of the bytes, if that is known.
    pub verdict: Option<Done>,
    /// How often bytes came damaged and were sent again.
    pub pieces_again: u64,
    /// From the first bytes to the verdict.
    pub took: Duration,
    /// Frames of the streams.
    pub stream: StreamStats,
    /// Control frames.
    pub control: ControlStats,
    /// How the session ended here.
    pub end: Option<End>,
    /// Whether this host's user ended it.
    pub cancelled: bool,
}

impl ReceiveReport {
    /// What `host` knows at the end.
    pub fn new<K: Sink>(host: &str, receiver: &Receiver, receiving: &Receiving<K>) -> ReceiveReport {
        ReceiveReport {
            host: host.to_owned(),
            source: receiving.offer().to_owned(),
            rank: receiver.rank(),
            via: receiver.view().map(|view| view.via),
            verdict: receiving.content_verdict(),
            pieces_again: receiving.pieces_again(),
            took: receiving.took(),
            stream: receiver.stream_stats(),
            control: receiver.control_stats(),
            end: receiving.end().cloned(),
            cancelled: receiving.is_cancelled(),
        }
    }

    /// How many bytes were taken.
    pub fn bytes(&self) -> u64 {
        self.verdict.as_ref().map_or(0, |verdict| verdict.bytes)
    }

    /// Whether all bytes are here, verified and where they belong.
    pub fn is_delivered(&self) -> bool {
        self.verdict.as_ref().is_some_and(|verdict| verdict.outcome == Outcome::Delivered)
    }

    /// Whether the sender knows of it; if not, its own report may say otherwise.
    pub fn is_confirmed(&self) -> bool {
        self.end == Some(End::Confirmed)
    }

    /// Nothing, if the bytes are here and verified.
    ///
    /// # Errors
    /// What went wrong.
    pub fn check(&self) -> Result<(), Error> {
        if self.cancelled {
            return Err(Error::Cancelled { delivered: self.is_delivered() });
        }
        let settled = self.verdict.as_ref().filter(|verdict| verdict.outcome != Outcome::Verified);
        match (settled, &self.end) {
            (Some(verdict), _) => match verdict.outcome {
                Outcome::Delivered => Ok(()),
                Outcome::Damaged => Err(Error::Damaged(verdict.text.clone())),
                outcome => {
                    let text = outcome.told(&verdict.text).1.to_owned();
                    Err(Error::Write { outcome, text, cause: None })
                }
            },
            (None, Some(End::Refused(why, text))) => Err(Error::Refused { why: *why, text: text.clone() }),
            (None, Some(End::Aborted(text))) => Err(Error::Aborted(text.clone())),
            (None, Some(End::RootSilent)) => Err(Error::SenderSilent),
            (None, Some(End::NobodyThere)) => Err(Error::NobodyThere),
            (None, Some(End::Dropped)) => Err(Error::Dropped),
            _ if self.verdict.is_some() => Err(Error::Unconfirmed),
            (None, Some(End::Confirmed | End::Unconfirmed) | None) => Err(Error::NoVerdict),
        }
    }
}

/// Why a session failed; each sentence says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The group's name or the MTU cannot be, there is no such interface, or no permission.
    #[error(transparent)]
    Station(#[from] StationError),
    /// The engine cannot run on a number in [`Options::tuning`](super::Options::tuning).
    #[error(transparent)]
    Tuning(#[from] TuningError),
    /// The socket failed later.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The system has no thread or no descriptor left.
    #[error("the system has no room for a session's threads ({0}): end other programs, or raise `ulimit -n` and `-u`")]
    Resources(#[source] io::Error),
    /// The system gives no random number, which names a session.
    #[error("no random number to name the session with ({0}): allow getrandom(2), which Linux has from 3.17 on")]
    Random(#[source] io::Error),
    /// A sender was not told for whom to wait.
    #[error("a sender has to know for whom to wait: say how many in `Options::receivers`, or who in `Options::hosts`")]
    ForWhom,
    /// The names do not fit into the frame that invites receivers.
    #[error(transparent)]
    Names(#[from] NamesError),
    /// The topology does not name this host.
    #[error("the topology names no host {host}, only {known}: say which of them this is in `Options::host`")]
    NotInTopology {
        /// This host.
        host: String,
        /// The hosts that it names.
        known: String,
    },
    /// The session did not come about.
    #[error(transparent)]
    NotStarted(#[from] RootFailure),
    /// The reader failed; the receivers have been told.
    #[error("reading {what} failed after {bytes} bytes: {cause}")]
    Read {
        /// What was being read.
        what: String,
        /// Bytes that had been read.
        bytes: u64,
        /// The reader's own error.
        #[source]
        cause: io::Error,
    },
    /// The reader had more or fewer bytes than were announced; the receivers have been told.
    #[error("{what} changed while it was read: {announced} bytes at first, {read} in the end; send it again")]
    SizeChanged {
        /// What was being read.
        what: String,
        /// Bytes that were announced.
        announced: u64,
        /// Bytes that were read.
        read: u64,
    },
    /// A source of one's own has given up, in these words.
    #[error("{0}")]
    GaveUp(String),
    /// Not every receiver has verified the bytes; the report says which.
    #[error("{}", .0.failures())]
    Undelivered(Box<SendReport>),
    /// It was ended before its time, by [`Cancel`](super::Cancel); the others have been told.
    #[error("cancelled{}", if *.delivered { ", but all bytes were already delivered" } else { "" })]
    Cancelled {
        /// Whether all bytes were here and verified by then.
        delivered: bool,
    },
    /// The whole took longer than it may; the others have been told.
    #[error("the session took longer than it may; allow more time, or find out above what it waited for")]
    TimedOut,
    /// The interface has another MTU than when a server's port was opened: it is to be opened anew.
    #[error("interface {interface} has another MTU now: its port is opened anew")]
    OtherMtu {
        /// The interface.
        interface: String,
    },
    /// No sender was heard in time.
    #[error("no sender was heard; start one of the same group, or wait longer")]
    NobodyThere,
    /// The sender turned this host away, and said what to do.
    #[error("{text}")]
    Refused {
        /// Why.
        why: Refusal,
        /// The sender's own words.
        text: String,
    },
    /// The sender gave up, in these words.
    #[error("{0}")]
    Aborted(String),
    /// The sender was not heard any more.
    #[error("the sender fell silent; start it and this receiver again")]
    SenderSilent,
    /// The sender took this host off its list.
    #[error("the sender went on without this host; see its report")]
    Dropped,
    /// All bytes came, and the sender was gone before it said that they are its own: they were not made visible.
    #[error("all bytes came, but the sender ended without confirming them: nothing was put in place; send again")]
    Unconfirmed,
    /// The bytes are not the sender's.
    #[error("{0}")]
    Damaged(String),
    /// The writer failed; the sender has been told.
    #[error("{text}")]
    Write {
        /// What the sender was told.
        outcome: Outcome,
        /// What went wrong, and what to do.
        text: String,
        /// The writer's own error, if it had one.
        #[source]
        cause: Option<io::Error>,
    },
    /// The session is over, and nobody has said what became of the bytes.
    #[error("the session ended without a verdict")]
    NoVerdict,
}
