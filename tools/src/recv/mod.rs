//! `ethbcast recv`: takes what is sent to a group and puts it at DEST.

mod arrival;
mod dest;
mod device;
mod disk;
mod part_file;
mod report;
mod unnamed_file;

use crate::args::{RecvArgs, Verify};
use crate::exit::{Code, WithCode, fail};
use crate::program::run_after;
use crate::progress::Bar;
use crate::session::{failure, open, options, watch};
use crate::signals::Interrupt;
use crate::units;
use arrival::{Arrival, Landed};
use dest::Dest;
use ethbcast_collectives::session::application::Receiving;
use ethbcast_collectives::session::live::write_behind;
use ethbcast_collectives::session::{ReceiveReport, Session};
use ethbcast_content::storage::Target;
use std::ffi::OsString;
use std::time::Duration;

/// How long the disk thread may take to end.
const CLOSE_LIMIT: Duration = Duration::from_millis(500);
/// The same while it puts the file in its place, as what is said of DEST has to be true, or removes half a directory.
const PUBLISH_LIMIT: Duration = Duration::from_secs(60);

/// Runs the command.
///
/// # Errors
/// A [`Failure`](crate::exit::Failure) whose code is the exit code.
pub fn run(args: RecvArgs) -> anyhow::Result<()> {
    if args.wire.json && args.dest == "-" {
        return fail(Code::Usage, "stdout cannot carry both the data and --json: receive into a file");
    }
    if args.verify == Some(Verify::Read) && args.dest == "-" {
        return fail(
            Code::Usage,
            "what went to stdout cannot be read back: receive into a file, or leave out --verify read",
        );
    }
    let dest = Dest::resolve(&args.dest, args.force)?;
    let (mut options, bar) = Bar::show(options(&args.wire), args.wire.quiet);
    let (mut session, interrupt) = open(&args.wire.group, &options, "interrupted by its user")?;
    args.patience.apply(&mut options);
    let _watcher = watch(&session, &mut options);
    options.max_wait = args.max_wait.map(Duration::from_secs_f64);
    options.free_bytes = dest.free_bytes();
    let read_back = args.verify.map_or(dest.is_device(), |verify| verify == Verify::Read);
    let left = if dest.is_device() { "DEST is overwritten in part" } else { "nothing was left at DEST" };
    options.once = args.once;
    bar.wait_for(sender_of(&session));
    let target =
        Target { dest: args.dest.clone().into(), replace: args.force, in_place: args.in_place, delete: args.delete };
    let (arrival, landed) = Arrival::new(dest, target, read_back);
    let (writer, sink) = write_behind(arrival, session.waker());
    // Waited for, but not for long: a disk or a reader of stdout that is stuck must not keep the user.
    std::thread::Builder::new().name("disk".to_owned()).spawn(move || writer.run()).code(Code::System)?;
    interrupt.heed();
    let mut receiving = Receiving::new(sink);
    let receiver = session.run_receiver(&options, &mut receiving).map_err(failure)?;
    bar.finish();
    let is_long = receiving.sink().is_publishing() || landed.is_building();
    let limit = if is_long { PUBLISH_LIMIT } else { CLOSE_LIMIT };
    if !receiving.sink_mut().close(limit) {
        log::warn!("the disk thread is stuck: what it was writing is given up");
        if receiving.sink().is_publishing() {
            let text = "the disk does not answer: DEST may be in place or not; look at it, and receive again";
            return fail(Code::System, text);
        }
    }
    // What was decided in the very last moment.
    receiving.ask_verdict(session.now());
    let report = ReceiveReport::new(&session.station().host, &receiver, &receiving);
    report::print(&report, landed.path(), args.wire.json, args.wire.quiet || args.dest == "-")?;
    verdict(&report, &interrupt, left)?;
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
