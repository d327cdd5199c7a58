//! One transfer at a receiver: from joining it to the stored file.

use super::left_by;
use crate::args::{RecvArgs, Verify};
use crate::exit::{Code, Failure, WithCode, fail, one_line, print_line};
use crate::session::failure;
use crate::signals::Interrupt;
use crate::units;
use ethbcast_collectives::session::application::Receiving;
use ethbcast_collectives::session::live::{OfferCheck, WriteBehind, write_behind};
use ethbcast_collectives::session::{Error, Outcome, ReceiveReport, RecvOptions, Session};
use ethbcast_content::command::Signal as Ending;
use ethbcast_content::dest::{Arrival, Dest, Handling, Landed};
use ethbcast_content::have_set::Held;
use ethbcast_content::storage::Target;
use ethbcast_transport::MacAddr;
use nix::sys::signal::Signal;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::Duration;

const CLOSE_LIMIT: Duration = Duration::from_millis(500);
/// Longest wait while the file is put in place, so that the report on DEST is correct, or while a
/// partial directory is removed.
const PUBLISH_LIMIT: Duration = Duration::from_secs(60);

pub struct Reception {
    receiving: Receiving<WriteBehind>,
    dest: Arc<Dest>,
    landed: Landed,
    offer_check: OfferCheck,
}

pub struct Received {
    pub report: ReceiveReport,
    pub landed: Landed,
    /// Sender and session of the last join request.
    pub asked: Option<(MacAddr, u32)>,
    was_ended: bool,
    pub was_dry_run: bool,
}

impl Reception {
    pub fn prepare(session: &Session, dest: Arc<Dest>, args: &RecvArgs) -> anyhow::Result<Reception> {
        let read_back = args.verify.map_or(dest.is_device(), |verify| verify == Verify::Read);
        let target = Target {
            dest: args.dest.clone().unwrap_or_default().into(),
            replace: args.force,
            in_place: args.in_place,
            delete: args.delete,
            stays: args.serve.serve,
            accept: args.accepted(),
        };
        let at_dest = target.dest.clone();
        let held = Arc::new(Held::new(&args.basis, dest.directory().map(|_| at_dest)).code(Code::System)?);
        let looks = !args.basis.is_empty() || dest.may_have_some(args.force || args.in_place);
        let offer_check = Dest::offer_check(&dest, &target);
        let (arrival, landed) = Arrival::new(
            Arc::clone(&dest),
            target,
            Handling { read_back, sparse: args.sparse, any_sectors: args.any_sectors },
        );
        let (writer, sink) = write_behind(arrival.holding(&held, !args.no_resume), session.waker());
        // Without any data here there is no have-set to report.
        let (writer, sink) = if looks { (writer.holding(held), sink.held()) } else { (writer, sink) };
        // The wait for its end is limited: a stuck disk or reader must not block the user.
        std::thread::Builder::new().name("disk".to_owned()).spawn(move || writer.run()).code(Code::System)?;
        Ok(Reception { receiving: Receiving::new(sink), dest, landed, offer_check })
    }

    pub fn run(self, session: &mut Session, options: &RecvOptions) -> anyhow::Result<Received> {
        let Reception { mut receiving, dest, landed, offer_check } = self;
        let options = RecvOptions { offer_check: Some(offer_check), ..options.clone() };
        let ended = session.run_receiver(&options, &mut receiving).map_err(failure);
        // Also after a failure, so that no command outlives this process.
        let was_ended = close(&mut receiving, &landed)?;
        let has_begun = !receiving.offer().is_empty();
        let receiver = ended.map_err(|failed| match has_begun {
            true => Failure::new(failed.code(), format!("{failed}; {}", left_by(&dest, &landed))).found(failed.fault()),
            false => failed,
        })?;
        if !was_ended {
            // The verdict may have come at the last moment.
            receiving.request_verdict(session.now());
        }
        let report = ReceiveReport::new(&session.station().host, &receiver, &receiving);
        let was_dry_run = receiving.sink().is_on_request() && receiver.asked().is_some();
        Ok(Received { report, landed, asked: receiver.asked(), was_ended, was_dry_run })
    }
}

impl Received {
    /// Fails unless all bytes are at DEST. `left` describes the data that a failure leaves behind.
    pub fn check(&self, args: &RecvArgs, signal: Option<Signal>, left: &str) -> anyhow::Result<()> {
        say_what_remains(&self.landed);
        let is_file = args.pipe.is_none() && args.dest.as_deref() != Some(OsStr::new("-"));
        verdict(&self.report, signal, left, is_file)
            .map_err(|failed| of_command(failed, args, &self.landed, self.was_ended))?;
        whole(&self.landed)
    }

    pub fn environment(&self, group: &str) -> [(&'static str, OsString); 5] {
        let digest = self.report.verdict.as_ref().map(|own| units::hex(&own.digest)).unwrap_or_default();
        [
            ("ETHBCAST_PATH", self.landed.path().map(OsString::from).unwrap_or_default()),
            ("ETHBCAST_GROUP", group.into()),
            ("ETHBCAST_SOURCE", self.report.source.clone().into()),
            ("ETHBCAST_BYTES", self.report.bytes().to_string().into()),
            ("ETHBCAST_BLAKE3", digest.into()),
        ]
    }
}

fn of_command(failed: anyhow::Error, args: &RecvArgs, landed: &Landed, was_ended: bool) -> anyhow::Error {
    let failure = failed.downcast_ref::<Failure>();
    let (code, fault) = (failure.map_or(Code::System, Failure::code), failure.and_then(Failure::fault));
    match (&args.pipe, landed.command().failed_with()) {
        (Some(_), Some(own)) => Failure::new(Code::Command(own), failed).into(),
        (Some(command), None) if was_ended && !matches!(code, Code::Interrupted | Code::Terminated) => {
            Failure::new(code, format!("{failed}; `{command}` had not taken all, and was ended")).found(fault).into()
        }
        _ => failed,
    }
}

/// Ends the disk thread and the command that it feeds. Returns whether the command was still
/// running, whose exit status is then irrelevant.
fn close(receiving: &mut Receiving<WriteBehind>, landed: &Landed) -> anyhow::Result<bool> {
    let is_long = receiving.sink().is_publishing() || landed.is_building();
    let limit = if is_long { PUBLISH_LIMIT } else { CLOSE_LIMIT };
    // A running command lacks data, and must not mistake the end of this process for the end of its
    // input.
    let is_fed = landed.give_up();
    if receiving.sink_mut().close(limit) || is_fed && landed.command().end(Ending::KILL) {
        return Ok(is_fed);
    }
    log::warn!("the disk thread is stuck: what it was writing is given up");
    if receiving.sink().is_publishing() {
        let text = "the disk does not answer: DEST may be in place or not; look at it, and receive again";
        return fail(Code::System, text);
    }
    Ok(is_fed)
}

fn whole(landed: &Landed) -> anyhow::Result<()> {
    let lines = landed.left_out();
    if lines.is_empty() {
        return Ok(());
    }
    let noun = if lines.len() == 1 { "file was" } else { "files were" };
    fail(Code::SomeFailed, format!("{} {noun} left out, all else is at DEST: {}", lines.len(), lines.join("; ")))
}

/// Logs attributes that are not accepted or that DEST could not keep, and replaced entries that could not be removed.
fn say_what_remains(landed: &Landed) {
    let left_out = landed.not_accepted().sentences();
    for line in left_out.into_iter().chain(landed.lacks()).chain(landed.remains()) {
        print_line(format_args!("ethbcast: {}", one_line(&line)));
    }
}

/// Converts a report to the run's result. `left` describes the data that a failure leaves behind.
fn verdict(report: &ReceiveReport, signal: Option<Signal>, left: &str, is_file: bool) -> anyhow::Result<()> {
    if let Some(signal) = signal.filter(|_| report.cancelled) {
        let text = if report.is_delivered() {
            "interrupted, but all was delivered and is at DEST".to_owned()
        } else {
            format!("interrupted; {left}")
        };
        return Err(Interrupt::failure(signal, &text).into());
    }
    report.check().map_err(|error| {
        let was_cut_off = matches!(error, Error::Aborted(_) | Error::SenderSilent) && report.rank.is_some();
        let failure = failure(error);
        // A path in it may have a name of the sender's.
        let text = one_line(&failure.to_string());
        if was_cut_off && is_file {
            return Failure::new(failure.code(), format!("{text}; {left}")).found(failure.fault());
        }
        match report.verdict.as_ref().map(|verdict| verdict.outcome) {
            Some(Outcome::Interrupted) => Failure::new(Code::Nobody, format!("{text} (--max-session-time); {left}")),
            _ => Failure::new(failure.code(), text).found(failure.fault()),
        }
    })?;
    if !report.is_confirmed() {
        print_line(
            "ethbcast: verified and in place, but the sender has not confirmed it: its report may say otherwise",
        );
    }
    Ok(())
}
