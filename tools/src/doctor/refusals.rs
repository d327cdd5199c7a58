//! Mapping of library errors to faults, so that each refusal has the doctor's code.

use super::Fault;
use ethbcast_collectives::communicator::{CommunicatorError, Error as CallError};
use ethbcast_collectives::membership::live::StationError;
use ethbcast_collectives::session::{Error, Outcome, Refusal, RootFailure};
use ethbcast_transport::packet::{DriveError, InterfaceError, NodeError, OpenError};

/// Returns the fault of a session error, if it has a code; mistakes on the command line have none.
pub fn of_session(error: &Error) -> Option<Fault> {
    Some(match error {
        Error::Station(error) => return of_station(error),
        Error::Drive(error) => of_drive(error),
        Error::Resources(_) => Fault::Limit,
        Error::Random(_) => Fault::Kernel,
        Error::NotInTopology { .. } => Fault::Topology,
        Error::NotStarted(RootFailure::TooFew { missing, refused, .. }) => {
            // Refused receivers were present.
            let why = only(refused.iter().map(|away| Some(of_refusal(away.why))));
            why.filter(|_| missing.is_empty()).unwrap_or(Fault::Nobody)
        }
        Error::NobodyThere => Fault::Nobody,
        Error::Undelivered(report) => return only(report.failed().map(|member| of_outcome(member.outcome))),
        Error::NotStarted(RootFailure::GroupTaken { .. }) => Fault::Group,
        Error::Refused { why, .. } => of_refusal(*why),
        Error::SenderSilent | Error::Unconfirmed => Fault::Silent,
        Error::Damaged(_) => Fault::Damaged,
        Error::Write { outcome, .. } => return of_outcome(*outcome),
        _ => return None,
    })
}

pub fn of_call(error: &CallError) -> Option<Fault> {
    Some(match error {
        CallError::Station(error) => return of_station(error),
        CallError::Node(NodeError::Open(error)) => of_open(error),
        CallError::Drive(error) => of_drive(error),
        CallError::Thread(_) => Fault::Limit,
        CallError::Random(_) => Fault::Kernel,
        CallError::OtherGroups { .. } | CallError::Call(CommunicatorError::Missing { .. }) => Fault::Nobody,
        CallError::Call(CommunicatorError::Mtu { .. }) => Fault::Mtu,
        _ => return None,
    })
}

pub fn of_station(error: &StationError) -> Option<Fault> {
    Some(match error {
        StationError::LargeMtu { .. } | StationError::SmallMtu { .. } => Fault::Mtu,
        StationError::Interface(error) => of_interface(error),
        StationError::Open(error) => of_open(error),
        _ => return None,
    })
}

pub fn of_interface(error: &InterfaceError) -> Fault {
    if matches!(error, InterfaceError::Down { .. }) { Fault::Down } else { Fault::Interface }
}

pub fn of_open(error: &OpenError) -> Fault {
    match error {
        OpenError::Permission { .. } => Fault::Capability,
        OpenError::Served { .. } | OpenError::Inherited { .. } => Fault::Port,
        OpenError::Down { .. } => Fault::Down,
        OpenError::Memory { .. } => Fault::Memory,
        _ => Fault::Kernel,
    }
}

fn of_drive(error: &DriveError) -> Fault {
    match error {
        DriveError::InterfaceDown { .. } => Fault::Down,
        DriveError::NothingLeaves { .. } => Fault::Filter,
        DriveError::FirstHop { .. } => Fault::Path,
        DriveError::MtuLowered { .. } | DriveError::FrameTooLong { .. } => Fault::Mtu,
        _ => Fault::Interface,
    }
}

/// Returns the common fault of all, if they are equal.
fn only(mut faults: impl Iterator<Item = Option<Fault>>) -> Option<Fault> {
    let first = faults.next()?;
    faults.all(|other| other == first).then_some(first)?
}

pub fn of_outcome(outcome: Outcome) -> Option<Fault> {
    Some(match outcome {
        Outcome::NoSpace => Fault::Space,
        Outcome::WriteFailed => Fault::Dest,
        Outcome::Damaged => Fault::Damaged,
        _ => return None,
    })
}

fn of_refusal(why: Refusal) -> Fault {
    match why {
        Refusal::SmallMtu => Fault::Mtu,
        Refusal::NoSpace => Fault::Space,
        Refusal::Late => Fault::Late,
        Refusal::Twin => Fault::Twin,
        Refusal::NotInTopology => Fault::Topology,
        Refusal::Path => Fault::Path,
        Refusal::NotWanted => Fault::Unwanted,
    }
}
