//! `ethbcast recv`: takes what is sent to a group and puts it at DEST.

mod report;

use crate::args::{RecvArgs, Verify};
use crate::doctor::Fault;
use crate::exit::{Code, Failure, WithCode, fail};
use crate::program::run_after;
use crate::progress::Bar;
use crate::session::{failure, open, options, watch};
use crate::signals::Interrupt;
use crate::units;
use ethbcast_collectives::session::application::Receiving;
use ethbcast_collectives::session::live::{WriteBehind, write_behind};
use ethbcast_collectives::session::{ReceiveReport, Session};
use ethbcast_content::command::Signal;
use ethbcast_content::dest::{Arrival, Dest, Handling, Landed};
use ethbcast_content::holdings::Held;
use ethbcast_content::storage::Target;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

/// How long the disk thread may take to end.
const CLOSE_LIMIT: Duration = Duration::from_millis(500);
/// The same while it puts the file in its place, as what is said of DEST has to be true, or removes half a directory.
const PUBLISH_LIMIT: Duration = Duration::from_secs(60);

/// Runs the command.
///
/// # Errors
/// A [`Failure`] whose code is the exit code.
pub fn run(args: RecvArgs) -> anyhow::Result<()> {
    let dest = Arc::new(dest(&args)?);
    let (mut options, bar) = Bar::show(options(&args.wire), args.wire.quiet);
    let (mut session, interrupt) = open(&args.wire.group, &options, "interrupted by its user")?;
    args.patience.apply(&mut options);
    let _watcher = watch(&session, &mut options);
    options.max_wait = args.max_wait.map(Duration::from_secs_f64);
    options.free_bytes = dest.free_bytes();
    options.once = args.once;
    bar.wait_for(sender_of(&session));
    let is_quiet = args.wire.quiet || matches!(*dest, Dest::Stdout);
    let read_back = args.verify.map_or(dest.is_device(), |verify| verify == Verify::Read);
    let target = Target {
        dest: args.dest.clone().unwrap_or_default().into(),
        replace: args.force,
        in_place: args.in_place,
        delete: args.delete,
    };
    let at_dest = target.dest.clone();
    let held = Arc::new(Held::new(&args.basis, dest.directory().map(|_| at_dest)).code(Code::System)?);
    let looks = !args.basis.is_empty() || dest.may_have_some(args.force || args.in_place);
    let (arrival, landed) = Arrival::new(Arc::clone(&dest), target, Handling { read_back, sparse: args.sparse });
    let (writer, sink) = write_behind(arrival.holding(&held, !args.no_resume), session.waker());
    // Who has nothing is sent all, and nobody asks which chunks he lacks.
    let (writer, sink) = if looks { (writer.holding(held), sink.holding()) } else { (writer, sink) };
    // Waited for, but not for long: a disk or a reader of stdout that is stuck must not keep the user.
    std::thread::Builder::new().name("disk".to_owned()).spawn(move || writer.run()).code(Code::System)?;
    interrupt.heed();
    let mut receiving = Receiving::new(sink);
    let receiver = session.run_receiver(&options, &mut receiving).map_err(failure)?;
    bar.finish();
    let was_ended = close(&mut receiving, &landed)?;
    if !was_ended {
        // What was decided in the very last moment.
        receiving.ask_verdict(session.now());
    }
    let report = ReceiveReport::new(&session.station().host, &receiver, &receiving);
    report::print(&report, landed.path(), args.wire.json, is_quiet)?;
    verdict(&report, &interrupt, left_by(&dest)).map_err(|failed| of_command(failed, &args, &landed, was_ended))?;
    whole(&landed)?;
    let Some(command) = &args.exec else { return Ok(()) };
    run_after(
        command,
        [
            ("ETHBCAST_PATH", landed.path().map(OsString::from).unwrap_or_default()),
            ("ETHBCAST_GROUP", args.wire.group.into()),
            ("ETHBCAST_SOURCE", report.source.clone().into()),
            ("ETHBCAST_BYTES", report.bytes().to_string().into()),
            ("ETHBCAST_BLAKE3", report.verdict.as_ref().map(|own| units::hex(&own.digest)).unwrap_or_default().into()),
        ],
    )
}

/// Where the bytes go, checked.
fn dest(args: &RecvArgs) -> anyhow::Result<Dest> {
    let (stdout, read) = (args.dest.as_ref().is_some_and(|dest| dest == "-"), args.verify == Some(Verify::Read));
    if args.wire.json && stdout {
        return fail(Code::Usage, "stdout cannot carry both the data and --json: receive into a file");
    }
    if read && (stdout || args.pipe.is_some()) {
        let to = if stdout { "stdout" } else { "a command" };
        let text = format!("what went to {to} cannot be read back: receive into a file, or leave out --verify read");
        return fail(Code::Usage, text);
    }
    match (&args.pipe, &args.dest) {
        (Some(command), _) => Ok(Dest::Command(command.clone())),
        (None, dest) => Dest::resolve(dest.as_deref().unwrap_or_default(), args.force)
            .map_err(|error| Failure::new(Code::System, error).found(Fault::Dest).into()),
    }
}

/// A failure, with what the command has to do with it.
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

/// What a receiver that fails leaves behind.
fn left_by(dest: &Dest) -> &'static str {
    match dest {
        Dest::Device { .. } => "DEST is overwritten in part",
        Dest::Command(_) => "the command was ended",
        _ if dest.has_left() => "DEST is as it was; what came is kept beside it, and the next recv goes on with it",
        _ => "nothing was left at DEST",
    }
}

/// Ends the disk thread, and the command that it feeds if there is one; whether this was still running: what it says
/// of its end is none of the transfer's.
fn close(receiving: &mut Receiving<WriteBehind>, landed: &Landed) -> anyhow::Result<bool> {
    let is_long = receiving.sink().is_publishing() || landed.is_building();
    let limit = if is_long { PUBLISH_LIMIT } else { CLOSE_LIMIT };
    // Whatever still runs has not got all of it: it must not see the end of the process as that of its input.
    let is_fed = landed.command().end(Signal::TERM);
    if receiving.sink_mut().close(limit) || is_fed && landed.command().end(Signal::KILL) {
        return Ok(is_fed);
    }
    log::warn!("the disk thread is stuck: what it was writing is given up");
    if receiving.sink().is_publishing() {
        let text = "the disk does not answer: DEST may be in place or not; look at it, and receive again";
        return fail(Code::System, text);
    }
    Ok(is_fed)
}

/// Whose bytes are waited for.
fn sender_of(session: &Session) -> String {
    let (station, interface) = (session.station(), &session.interface().name);
    format!("a sender of group {} on {interface} of {}, MTU {}", station.group, station.host, station.mtu_bytes)
}

/// Fails if files of a directory were left out.
fn whole(landed: &Landed) -> anyhow::Result<()> {
    let lines = landed.left_out();
    if lines.is_empty() {
        return Ok(());
    }
    let noun = if lines.len() == 1 { "file was" } else { "files were" };
    fail(Code::SomeFailed, format!("{} {noun} left out, all else is at DEST: {}", lines.len(), lines.join("; ")))
}

/// What the run comes to; `left` is what it leaves where it fails.
fn verdict(report: &ReceiveReport, interrupt: &Interrupt, left: &str) -> anyhow::Result<()> {
    if let Some(signal) = interrupt.signal().filter(|_| report.cancelled) {
        let text = if report.is_delivered() {
            "interrupted, but all was delivered and is at DEST".to_owned()
        } else {
            format!("interrupted; {left}")
        };
        return Err(Interrupt::failure(signal, &text).into());
    }
    report.check().map_err(failure)?;
    if !report.is_confirmed() {
        crate::exit::say(format_args!(
            "ethbcast: verified and in place, but the sender has not confirmed it: its report may say otherwise"
        ));
    }
    Ok(())
}
