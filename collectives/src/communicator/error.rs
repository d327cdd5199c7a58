//! Errors of a communicator (a group of processes as in MPI).

use super::roster::Roster;
use super::signature::Signature;
use crate::membership::OtherBuild;
use crate::membership::codec::{BodyReader, BodyWriter};
use ethbcast_transport::messages::{RecvError, SendError};
use ethbcast_transport::packet::OptionName;
use ethbcast_transport::wire::Rank;
use std::fmt;
use std::time::Duration;
use thiserror::Error;

/// A rank and the name of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The rank.
    pub rank: Rank,
    /// Its host.
    pub host: String,
}

impl fmt::Display for Named {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "rank {} ({})", self.rank, self.host)
    }
}

/// Rank that keeps a collective from finishing, as far as known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Culprit {
    /// A rank that is alive has not made the call.
    NotEntered(Named),
    /// A rank that is alive and waits for no other takes no frames from the second.
    TakesNothing(Named, Named),
    /// Two ranks that are alive wait for each other.
    Between(Named, Named),
}

impl fmt::Display for Culprit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Culprit::NotEntered(rank) => write!(out, "{rank} has not entered it"),
            Culprit::TakesNothing(rank, from) => write!(out, "{rank} takes no frames from {from}"),
            Culprit::Between(one, other) => {
                write!(out, "nothing gets through between {one} and {other}")
            }
        }
    }
}

/// Error of joining a communicator or of a call on it. Each sentence says what to do.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CommunicatorError {
    #[error("the {what} name has {bytes} bytes: choose one of 1 to {most}")]
    Name {
        what: &'static str,
        bytes: usize,
        most: usize,
    },
    #[error("there cannot be {size} ranks: ask for 1 to {most}")]
    Size { size: u16, most: u16 },
    #[error(
        "frames of {mtu_bytes} bytes are too short: raise the interface's MTU to {least} or more"
    )]
    Mtu { mtu_bytes: u16, least: u16 },
    #[error(
        "{size} ranks cannot be missed after {} s of silence: give {} {} or more", given.as_secs_f64(),
        OptionName("dead-after"),
        least.as_secs_f64()
    )]
    DeadAfter {
        given: Duration,
        size: u16,
        least: Duration,
    },
    #[error(
        "{host} waits for {theirs} ranks, this process for {ours}: give all processes of a group the same size"
    )]
    SizesDiffer {
        host: String,
        theirs: u16,
        ours: u16,
    },
    #[error("{host} runs another preset than this process: give all processes of a group the same")]
    PresetsDiffer { host: String },
    #[error("{why}")]
    Network {
        /// The fault, with file and line where it was read from one, and what to do.
        why: String,
    },
    #[error(
        "{host} cannot take part: its network files are not about this group; its own message says what is wrong"
    )]
    Unfit { host: String },
    #[error(
        "{one} and {other} have different network settings (topology, calibration, plan or way): give both \
         the same files and options, or only one of them any"
    )]
    NetworksDiffer { one: String, other: String },
    #[error("{0}")]
    OtherBuild(OtherBuild),
    #[error(
        "two hosts are called {host}: give each process a host name of its own, ranks follow them"
    )]
    Namesakes { host: String },
    #[error(
        "two processes of this group run on {host} and do not see each other: let both have the same /dev/shm (in \
         containers, too), end one, or give them groups of their own"
    )]
    TwoProcesses { host: String },
    #[error(
        "{} processes want to be one of {size} ranks ({}): end those that are too many, or raise the size",
        hosts.len(), hosts.join(", ")
    )]
    TooMany { size: u16, hosts: Vec<String> },
    #[error(
        "{} of {size} were there: {}; start the others, one on each host, and see whether they use this group, \
         size and network{}",
        hosts.len(), hosts.join(", "), besides(other)
    )]
    Missing {
        size: u16,
        hosts: Vec<String>,
        /// The last caller with other keys or of another version. Its frame may be forged.
        other: Option<Box<OtherBuild>>,
    },
    #[error("the group is already running on {}: wait until it has ended, or choose another group", hosts.join(", "))]
    Running { hosts: Vec<String> },
    #[error(
        "all {size} have called, but {} did not confirm the list of all: check whether every host receives frames of \
         every other",
        hosts.join(", ")
    )]
    Unconfirmed { size: u16, hosts: Vec<String> },
    #[error(
        "rank 0 ({host}) has not sent its measurement of the network: see whether its frames arrive here, or join \
         without a probe"
    )]
    Unmeasured { host: String },
    #[error("not all ranks are there yet: wait until the group is joined")]
    NotJoined,
    #[error("this rank has left the group: join again")]
    Closed,
    #[error("{signature} is in progress on this rank: finish or abandon it first")]
    Busy { signature: Signature },
    #[error("there is no rank {rank} among {size}: name a rank from 0 to {}", size - 1)]
    NoSuchRank { rank: Rank, size: u16 },
    #[error(
        "this process is not one of the ranks of group {group}, or lacks its key, or a rank is named twice: let only \
         those ranks create it, each named once"
    )]
    NotOfSubgroup { group: String },
    #[error(
        "{blocks_bytes} bytes are not {size} blocks of {block_bytes}: pass a buffer of as many bytes as all blocks \
         together"
    )]
    Length {
        blocks_bytes: usize,
        block_bytes: usize,
        size: u16,
    },
    #[error(
        "{bytes} bytes are no whole number of elements of {element_bytes}: pass only whole ones"
    )]
    Elements { bytes: usize, element_bytes: usize },
    #[error("tag {tag} is reserved: use tags below 2147483648")]
    Tag { tag: u32 },
    #[error("too many messages wait: take the outcomes of earlier ones first ({0})")]
    Sends(SendError),
    #[error("too many receives wait: take the outcomes of earlier ones first ({0})")]
    Receives(RecvError),
    #[error(
        "the ranks' calls differ: {one} is in {}, {other} is in {}; call the same collectives in the same order \
         with the same root and length on all ranks",
        signatures.0, signatures.1
    )]
    Mismatch {
        one: Named,
        other: Named,
        signatures: Box<(Signature, Signature)>,
    },
    #[error(
        "{0} is silent: see what became of its process and its cable, then start the group again"
    )]
    Gone(Named),
    #[error(
        "the others had no frame from this rank for too long, and count it as gone: do not stop its process, then \
         start the group again"
    )]
    Outlawed,
    #[error("{0} has left the group: let all ranks make the same calls before they leave")]
    Left(Named),
    #[error(
        "{signature} was not done in time{}{}: let all ranks call it, or allow more time",
        missing(missing_ranks),
        because(culprit, missing_ranks)
    )]
    TimedOut {
        signature: Signature,
        missing_ranks: Vec<Named>,
        culprit: Option<Box<Culprit>>,
    },
    #[error(
        "the group was not shrunk in time{}: let all ranks that live call it, or allow more time",
        missing(missing_ranks)
    )]
    Unshrunk { missing_ranks: Vec<Named> },
    #[error(
        "{rank} has given up {signature}{}, so that the ranks are out of step: start the group again, with more time \
         for that call",
        because(culprit, &[])
    )]
    Abandoned {
        rank: Named,
        signature: Signature,
        culprit: Option<Box<Culprit>>,
    },
    #[error(
        "nothing gets through between {0} and {1}: see the cables and the switch between them, then start again"
    )]
    Cut(Named, Named),
    #[error(
        "{0} receives nothing from the others: see its cable, or what became of them, then start the group again"
    )]
    Deaf(Named),
    #[error(
        "{0} sends what does not belong to this call: make the same calls on all ranks, and run the same version \
         everywhere"
    )]
    Garbled(Named),
}

impl CommunicatorError {
    /// Whether a queue is full: earlier messages have to end first.
    pub fn is_queue_full(&self) -> bool {
        use CommunicatorError::{Receives, Sends};
        matches!(
            self,
            Sends(SendError::QueueFull { .. }) | Receives(RecvError::QueueFull { .. })
        )
    }
}

fn besides(other: &Option<Box<OtherBuild>>) -> String {
    other
        .as_ref()
        .map_or(String::new(), |other| format!("; besides, {other}"))
}

fn missing(ranks: &[Named]) -> String {
    let names: Vec<String> = ranks.iter().map(Named::to_string).collect();
    if names.is_empty() {
        String::new()
    } else {
        format!(", {} had not called it", names.join(", "))
    }
}

fn because(culprit: &Option<Box<Culprit>>, missing: &[Named]) -> String {
    match culprit.as_deref() {
        Some(Culprit::NotEntered(rank)) if missing.contains(rank) => String::new(),
        Some(culprit) => format!(", {culprit}"),
        None => String::new(),
    }
}

/// Failure: a cause, and the first collective that it prevents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Collectives with lower numbers may still succeed.
    pub from: u64,
    pub cause: Cause,
}

/// Cause of a failure; see the variants of [`CommunicatorError`] with these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Mismatch {
        one: (Rank, Signature),
        other: (Rank, Signature),
    },
    Gone {
        rank: Rank,
    },
    Left {
        rank: Rank,
    },
    Abandoned {
        rank: Rank,
        signature: Signature,
        blame: Option<Blame>,
    },
    Garbled {
        rank: Rank,
    },
    Cut {
        one: Rank,
        other: Rank,
    },
    Deaf {
        rank: Rank,
    },
}

/// Cause named by a rank that abandons a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    NotEntered { rank: Rank },
    TakesNothing { rank: Rank, from: Rank },
    Between { one: Rank, other: Rank },
}

impl Blame {
    fn to_wire(self) -> (u8, Rank, Rank) {
        match self {
            Blame::NotEntered { rank } => (1, rank, Rank(0)),
            Blame::TakesNothing { rank, from } => (2, rank, from),
            Blame::Between { one, other } => (3, one, other),
        }
    }

    fn from_wire(code: u8, one: Rank, other: Rank) -> Option<Option<Blame>> {
        Some(match code {
            0 => None,
            1 => Some(Blame::NotEntered { rank: one }),
            2 => Some(Blame::TakesNothing {
                rank: one,
                from: other,
            }),
            3 => Some(Blame::Between { one, other }),
            _ => return None,
        })
    }

    pub(super) fn named(self, named: impl Fn(Rank) -> Named) -> Culprit {
        match self {
            Blame::NotEntered { rank } => Culprit::NotEntered(named(rank)),
            Blame::TakesNothing { rank, from } => Culprit::TakesNothing(named(rank), named(from)),
            Blame::Between { one, other } => Culprit::Between(named(one), named(other)),
        }
    }
}

impl Failure {
    pub(super) fn mismatch(one: (Rank, Signature), other: (Rank, Signature)) -> Failure {
        Failure {
            from: one.1.number.min(other.1.number),
            cause: Cause::Mismatch { one, other },
        }
    }

    /// Writes the failure's code, the blame's code, the ranks, the first number and the signatures;
    /// zeros stand for absent values.
    pub(super) fn write(failure: Option<Failure>, out: &mut BodyWriter) {
        let none = (0, Rank(0), Rank(0));
        let (mut blame, mut signatures) = (none, [None, None]);
        let (code, rank, other) = match failure.map(|failure| failure.cause) {
            None => none,
            Some(Cause::Mismatch { one, other }) => {
                signatures = [Some(one.1), Some(other.1)];
                (1, one.0, other.0)
            }
            Some(Cause::Gone { rank }) => (2, rank, Rank(0)),
            Some(Cause::Left { rank }) => (3, rank, Rank(0)),
            Some(Cause::Abandoned {
                rank,
                signature,
                blame: culprit,
            }) => {
                (signatures[0], blame) = (Some(signature), culprit.map_or(none, Blame::to_wire));
                (4, rank, blame.1)
            }
            Some(Cause::Garbled { rank }) => (5, rank, Rank(0)),
            Some(Cause::Cut { one, other }) => (6, one, other),
            Some(Cause::Deaf { rank }) => (7, rank, Rank(0)),
        };
        out.u8(code)
            .u8(blame.0)
            .u16(rank.0)
            .u16(other.0)
            .u16(blame.2.0);
        out.u64(failure.map_or(0, |failure| failure.from));
        signatures
            .into_iter()
            .for_each(|signature| Signature::write_or_zeros(signature, out));
    }

    pub(super) fn read(from: &mut BodyReader<'_>, size: u16) -> Option<Option<Failure>> {
        let (code, blame) = (from.u8()?, from.u8()?);
        let (rank, other, third) = (Rank(from.u16()?), Rank(from.u16()?), Rank(from.u16()?));
        let (first, one) = (from.u64()?, from.bytes(Signature::BYTES)?);
        let signatures = [one, from.bytes(Signature::BYTES)?];
        let signature =
            |at: usize| Signature::split(signatures[at]).map(|(signature, _)| signature);
        let cause = match code {
            0 => return Some(None),
            1 => Cause::Mismatch {
                one: (rank, signature(0)?),
                other: (other, signature(1)?),
            },
            2 => Cause::Gone { rank },
            3 => Cause::Left { rank },
            4 => {
                let blame = Blame::from_wire(blame, other, third)?;
                Cause::Abandoned {
                    rank,
                    signature: signature(0)?,
                    blame,
                }
            }
            5 => Cause::Garbled { rank },
            6 => Cause::Cut { one: rank, other },
            7 => Cause::Deaf { rank },
            _ => return None,
        };
        (rank.max(other).max(third).0 < size).then_some(Some(Failure { from: first, cause }))
    }

    pub(super) fn error(&self, own: Rank, roster: &Roster) -> CommunicatorError {
        let named = |rank: Rank| Named {
            rank,
            host: roster.host(rank).to_owned(),
        };
        match self.cause {
            Cause::Mismatch { one, other } => CommunicatorError::Mismatch {
                one: named(one.0),
                other: named(other.0),
                signatures: Box::new((one.1, other.1)),
            },
            Cause::Gone { rank } if rank == own => CommunicatorError::Outlawed,
            Cause::Gone { rank } => CommunicatorError::Gone(named(rank)),
            Cause::Left { rank } => CommunicatorError::Left(named(rank)),
            Cause::Abandoned {
                rank,
                signature,
                blame,
            } => {
                let culprit = blame.map(|blame| Box::new(blame.named(named)));
                CommunicatorError::Abandoned {
                    rank: named(rank),
                    signature,
                    culprit,
                }
            }
            Cause::Garbled { rank } => CommunicatorError::Garbled(named(rank)),
            Cause::Cut { one, other } => CommunicatorError::Cut(named(one), named(other)),
            Cause::Deaf { rank } => CommunicatorError::Deaf(named(rank)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::communicator::signature::Operation;

    fn signature(number: u64) -> Signature {
        Signature {
            number,
            operation: Operation::Gather,
            root: Rank(3),
            bytes: 9,
        }
    }

    #[test]
    fn every_failure_is_read_as_it_was_written_and_ranks_that_do_not_exist_are_refused() {
        let between = Blame::Between {
            one: Rank(2),
            other: Rank(3),
        };
        let causes = [
            Cause::Mismatch {
                one: (Rank(3), signature(7)),
                other: (Rank(1), signature(8)),
            },
            Cause::Gone { rank: Rank(3) },
            Cause::Left { rank: Rank(3) },
            Cause::Abandoned {
                rank: Rank(3),
                signature: signature(1),
                blame: None,
            },
            Cause::Abandoned {
                rank: Rank(1),
                signature: signature(1),
                blame: Some(between),
            },
            Cause::Abandoned {
                rank: Rank(0),
                signature: signature(1),
                blame: Some(Blame::NotEntered { rank: Rank(3) }),
            },
            Cause::Garbled { rank: Rank(3) },
            Cause::Cut {
                one: Rank(1),
                other: Rank(3),
            },
            Cause::Deaf { rank: Rank(3) },
        ];
        let write = |failure| {
            let mut out = BodyWriter::default();
            Failure::write(failure, &mut out);
            out.into_bytes()
        };
        let read = |wire: &[u8], size| Failure::read(&mut BodyReader::new(wire), size);
        for failure in causes.map(|cause| Failure { from: 7, cause }) {
            let wire = write(Some(failure));
            assert_eq!(wire.len(), 16 + 2 * Signature::BYTES);
            assert_eq!(read(&wire, 4), Some(Some(failure)));
            assert_eq!(read(&wire, 3), None, "there is no rank 3");
        }
        assert_eq!(read(&write(None), 4), Some(None));
    }
}
