//! `ethbcast recv`: receives what a sender of the same group sends.

use crate::args::{RecvArgs, Verify, WireArgs};
use crate::doctor::Fault;
use crate::exit::{
    Code, Failure, Form, WithCode, fail, one_line, print_line, report, report_object,
};
use crate::interface::{self, chosen};
use crate::progress::{Bar, ProgressRole};
use crate::rights::{self, Needs};
use crate::session::{
    failure, interfaces, interrupt, lane_words, lanes_json, may_pass, print_first, watch, wire,
    with_own_link,
};
use crate::signals::{Interrupt, quiet, reason_to_end, run_after};
use crate::udpcast::print_ignored;
use crate::{config, hosts, key, units};
use ethbcast_collectives::census::About;
use ethbcast_collectives::session::application::Receiving;
use ethbcast_collectives::session::live::{OfferCheck, WriteBehind, write_behind};
use ethbcast_collectives::session::{
    Error, Outcome, ReceiveReport, RecvOptions, Session, WireOptions,
};
use ethbcast_content::command::{Signal as Ending, hides_failures};
use ethbcast_content::dest::{Arrival, Dest, Handling, Landed, Over, lacking_device};
use ethbcast_content::disk::{Accept, Privilege};
use ethbcast_content::have_set::Held;
use ethbcast_content::name::shown;
use ethbcast_content::storage::Target;
use ethbcast_transport::MacAddr;
use ethbcast_transport::packet::LaneUse;
use nix::sys::signal::Signal;
use rustix::thread::CapabilitySet;
use serde_json::{Map, Value, json};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

pub fn run(args: RecvArgs) -> anyhow::Result<()> {
    args.unused
        .given()
        .into_iter()
        .for_each(|names| print_ignored(&names));
    let bar = Bar::open(ProgressRole::Receiver, &args.wire, &args.progress)?;
    let result = receive(args, &bar);
    bar.conclude(&result);
    result
}

fn receive(args: RecvArgs, bar: &Arc<Bar>) -> anyhow::Result<()> {
    if args.port_fd.len() > 1 {
        return fail(
            Code::Usage,
            "one socket is enough for one group: give --port-fd once, or add --serve",
        );
    }
    let (began, max_wait) = (Instant::now(), args.max_wait.map(Duration::from_secs_f64));
    let mut options = RecvOptions {
        wire: keyed_wire(&args)?,
        sender: args.from.clone(),
        max_wait,
        once: args.once,
        ..RecvOptions::new()
    };
    bar.attach(&mut options.run);
    args.patience.apply(&mut options.run);
    let dest = Arc::new(awaited_dest(&args, &mut options, bar)?);
    print_warnings(&dest, &args.accepted());
    options.wire.port_fd = args.port_fd.first().copied();
    options.about = Some(About::default());
    options.session_limit = args.max_session_time.map(Duration::from_secs_f64);
    options.expects.clone_from(&args.expect);
    let interrupt = interrupt(&options.run, "interrupted by its user")?;
    let mut session = open(&args.wire, &mut options, bar)?;
    bar.open_on(&session).code(Code::System)?;
    let _receiving = interface::mark_receiver(&session, &args.wire.group);
    print_first(
        &session,
        options.wire.keys.as_ref(),
        &args.key,
        args.wire.quiet,
    );
    let _watcher = watch(&session, &mut options.run);
    let dest = confined(&args, dest, options.wire.keys.is_some())?;
    options.about = Some(hosts::about(session.interface()));
    options.free_bytes = dest.free_bytes();
    bar.wait_for(sender_of(&session));
    let is_quiet = args.wire.quiet || matches!(*dest, Dest::Stdout);
    let mut reception = Reception::prepare(&session, Arc::clone(&dest), &args)?;
    interrupt.begin_polling();
    let received = loop {
        let received = reception.run(&mut session, &options)?;
        bar.finish();
        if !received.was_dry_run || received.report.cancelled || args.once {
            break received;
        }
        // A dry run is followed by the actual transfer.
        if !is_quiet {
            crate::exit::print_line(format_args!(
                "ethbcast: a sender asked which data is missing here (--dry-run)"
            ));
        }
        options.had.extend(received.asked);
        bar.wait_for(sender_of(&session));
        reception = Reception::prepare(&session, Arc::clone(&dest), &args)?;
    };
    if received.report.is_delivered() {
        bar.settle(received.report.bytes());
    }
    let lanes = session.lanes();
    print(
        &received.report,
        &received.landed,
        lanes.as_ref(),
        (args.form(), is_quiet),
    )?;
    let left = left_by(&dest, &received.landed);
    received
        .check(&args, interrupt.signal(), &left)
        .map_err(|error| match error.downcast::<Failure>() {
            Ok(failure) => bar.with_misfit(with_own_link(failure, &session)).into(),
            Err(error) => error,
        })?;
    read_again(dest);
    match &args.exec {
        Some(command) => {
            let timeout = args.patience.timeout.map(Duration::from_secs_f64);
            let must_end = || reason_to_end(&interrupt, began, timeout);
            run_after(command, received.environment(&args.wire.group), must_end)
        }
        None => Ok(()),
    }
}

fn keyed_wire(args: &RecvArgs) -> anyhow::Result<WireOptions> {
    Ok(WireOptions {
        keys: key::resolve(&args.key)?,
        priority: args.priority,
        ..wire(&args.wire)
    })
}

pub fn dest(args: &RecvArgs) -> anyhow::Result<Dest> {
    let (stdout, read) = (
        args.dest.as_ref().is_some_and(|dest| dest == "-"),
        args.verify == Some(Verify::Read),
    );
    let for_programs = match args.form() {
        Form::Lines => None,
        Form::Object => Some("--json"),
        Form::Stream => Some("--json-stream"),
    };
    if let (true, Some(option)) = (stdout, for_programs) {
        return fail(
            Code::Usage,
            format!("stdout cannot carry both the data and {option}: receive into a file"),
        );
    }
    if read && (stdout || args.pipe.is_some()) {
        let to = if stdout { "stdout" } else { "a command" };
        let text = format!(
            "what went to {to} cannot be read back: receive into a file, or leave out --verify read"
        );
        return fail(Code::Usage, text);
    }
    let of_files = [
        ("--in-place", args.in_place),
        ("--force", args.force),
        ("--sparse", args.sparse),
        ("--any-sectors", args.any_sectors),
    ];
    let is_stream = stdout || args.pipe.is_some();
    // Options of the configuration are meant for all that is received.
    let is_typed = |(option, is): &(&str, bool)| *is && !config::is_configured(option);
    if let Some((option, _)) = of_files.into_iter().find(|one| is_stream && is_typed(one)) {
        return fail(
            Code::Usage,
            format!("{option} is about a file or device, and DEST is none: leave it out"),
        );
    }
    match (&args.pipe, &args.dest) {
        (Some(command), _) => {
            if hides_failures(command) {
                crate::exit::print_line(format_args!("ethbcast: {}", crate::send::HIDDEN));
            }
            Ok(Dest::Command(command.clone()))
        }
        (None, dest) => {
            Dest::resolve_over(dest.as_deref().unwrap_or_default(), args.force, over(args))
                .map_err(|error| Failure::new(Code::System, error).found(Fault::Dest).into())
        }
    }
}

/// Gives up what is not needed; returns DEST as the user sees it who remains.
fn confined(args: &RecvArgs, dest: Arc<Dest>, has_key: bool) -> anyhow::Result<Arc<Dest>> {
    rights::confine(&needs(args, has_key, Some(&dest)))?;
    // What root could write, this user may not.
    let is_other = args.user.is_some() && dest.directory().is_some();
    Ok(if is_other {
        Arc::new(self::dest(args)?)
    } else {
        dest
    })
}

/// Returns what a receiver needs once its port and key are open, and DEST if it is one.
pub fn needs<'a>(args: &'a RecvArgs, has_key: bool, dest: Option<&Dest>) -> Needs<'a> {
    let accept = args.accepted();
    let mut capabilities = CapabilitySet::empty();
    capabilities.set(CapabilitySet::MKNOD, accept.devices);
    // Attributes of the namespace trusted are root's.
    let has_xattrs = accept.xattrs || !accept.named_xattrs.is_empty();
    capabilities.set(CapabilitySet::SETFCAP, has_xattrs);
    // To read the partition table again.
    capabilities.set(
        CapabilitySet::SYS_ADMIN,
        has_xattrs || dest.is_some_and(Dest::is_device),
    );
    rights::keep_priority(&mut capabilities, args.priority);
    Needs {
        has_key,
        has_commands: args.exec.is_some() || args.pipe.is_some(),
        user: args.user.as_ref(),
        opens_later: args.serve.serve,
        capabilities,
        dest: args
            .dest
            .as_deref()
            .map(Path::new)
            .filter(|dest| *dest != Path::new("-")),
        replaces_dest: !args.serve.serve && !dest.is_some_and(Dest::is_device),
        files: args.progress.metrics_file.as_deref().into_iter().collect(),
    }
}

pub fn print_warnings(dest: &Dest, accept: &Accept) {
    dest.warnings(accept)
        .iter()
        .for_each(|line| crate::exit::print_line(format_args!("ethbcast: {}", one_line(line))));
}

fn over(args: &RecvArgs) -> Over {
    if args.in_place {
        Over::InPlace
    } else {
        args.force.into()
    }
}

pub fn left_by(dest: &Dest, landed: &Landed) -> String {
    if let Some(broken) = landed.broken() {
        return broken;
    }
    let left = match dest {
        Dest::Device { .. } => "DEST is overwritten in part",
        Dest::Command(_) => "the command was ended",
        _ if dest.has_left() => {
            "DEST is unchanged; the received data is kept beside it, and the next recv continues it"
        }
        _ => "nothing was left at DEST",
    };
    left.to_owned()
}

pub fn sender_of(session: &Session) -> String {
    let (station, interface) = (session.station(), interfaces(session));
    format!(
        "a sender of group {} on {interface} of {}, MTU {}",
        station.group, station.host, station.mtu_bytes
    )
}

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Resolves DEST. With --max-wait it waits for a missing device, whose driver may be late.
pub fn awaited_dest(args: &RecvArgs, options: &mut RecvOptions, bar: &Bar) -> anyhow::Result<Dest> {
    let (began, mut told) = (Instant::now(), false);
    let limit = limit(options).unwrap_or_default();
    let path = args
        .dest
        .as_deref()
        .map(Path::new)
        .filter(|path| path.is_absolute());
    loop {
        let error = match dest(args) {
            Ok(dest) => {
                take_off(options, began.elapsed());
                return Ok(dest);
            }
            Err(error) => error,
        };
        let left = limit.saturating_sub(began.elapsed());
        let is_late = path.is_some_and(|path| !path.exists() && lacking_device(path).is_some());
        if left.is_zero() || !is_late {
            return Err(error);
        }
        if !std::mem::replace(&mut told, true) {
            bar.line(format!("{error}; it is waited for"));
        }
        thread::sleep(left.min(POLL_INTERVAL));
    }
}

fn limit(options: &RecvOptions) -> Option<Duration> {
    options.max_wait.map(|limit| {
        options
            .run
            .time_limit
            .map_or(limit, |other| limit.min(other))
    })
}

/// Opens the port. With --max-wait or --timeout it waits for a missing interface, and subtracts the
/// wait from both.
pub fn open(args: &WireArgs, options: &mut RecvOptions, bar: &Bar) -> anyhow::Result<Session> {
    let (began, mut told) = (Instant::now(), false);
    let limit = limit(options);
    loop {
        let error = match Session::open_receiver(&args.group, options) {
            Ok(session) => {
                take_off(options, began.elapsed());
                return Ok(session);
            }
            Err(error) => error,
        };
        let left = limit.unwrap_or_default().saturating_sub(began.elapsed());
        if left.is_zero() || !may_pass(&error) {
            return Err(failure(error).into());
        }
        if !std::mem::replace(&mut told, true) {
            bar.line(format!("{error}; it is waited for"));
        }
        thread::sleep(left.min(POLL_INTERVAL));
        options.wire.interface = chosen(args.interface.as_deref(), args.over, args.quiet);
    }
}

fn take_off(options: &mut RecvOptions, passed: Duration) {
    for limit in [&mut options.max_wait, &mut options.run.time_limit] {
        *limit = limit.map(|limit| limit.saturating_sub(passed));
    }
}

/// Makes the kernel reread the partition table of DEST, if it is a whole disk with one. A refusal
/// is logged.
pub fn read_again(dest: Arc<Dest>) {
    let Dest::Device { path, device } = &*dest else {
        return;
    };
    if !device.has_new_partitions() {
        return;
    }
    let path = path.clone();
    // The kernel refuses while this process has the device open exclusively.
    if Arc::into_inner(dest).is_none() {
        log::warn!(
            "{} is still open: its partitions are not looked for",
            path.display()
        );
        return;
    }
    if let Err(why) = quiet("blockdev", &["--rereadpt".as_ref(), path.as_os_str()]) {
        crate::exit::print_line(format_args!(
            "ethbcast: the kernel has not read the partition table of {0} ({why}): `blockdev --rereadpt {0}`, or \
             restart the machine, before its partitions are used",
            path.display()
        ));
    }
}

pub fn print(
    received: &ReceiveReport,
    landed: &Landed,
    lanes: Option<&[LaneUse; 2]>,
    (form, quiet): (Form, bool),
) -> anyhow::Result<()> {
    if form != Form::Lines {
        let mut object = to_json(received, landed);
        if let Some(lanes) = lanes {
            object["interfaces"] = lanes_json(lanes);
        }
        return report_object(&object, form);
    }
    if quiet || !received.is_delivered() {
        return Ok(());
    }
    let by = lanes.map_or(String::new(), |lanes| format!("\n{}", lane_words(lanes)));
    report(&format!("{}{by}", line(received, landed)))
}

pub fn line(received: &ReceiveReport, landed: &Landed) -> String {
    let seconds = received.took.as_secs_f64();
    // Bytes that were here before have no rate.
    let came = received.came_bytes.map(|came| came.min(received.bytes()));
    let rate = units::rate(came.unwrap_or(received.bytes()) as f64 * 8.0 / seconds.max(1e-9));
    let came = came.map_or(String::new(), |came| {
        format!(" ({} received)", units::bytes(came))
    });
    // A command has no path, and a path may contain characters that a line cannot show.
    let path = landed.path().map_or(received.source.as_bytes(), |path| {
        path.as_os_str().as_encoded_bytes()
    });
    let (path, bytes) = (shown(path), units::bytes(received.bytes()));
    let again = match received.pieces_again {
        0 => String::new(),
        1 => "; 1 piece came damaged and was sent again".to_owned(),
        pieces => format!("; {pieces} pieces came damaged and were sent again"),
    };
    format!("{path}: {bytes} verified in {seconds:.3} s, {rate}{came}{again}")
}

pub fn to_json(received: &ReceiveReport, landed: &Landed) -> Value {
    let ReceiveReport {
        verdict,
        stream,
        control,
        ..
    } = received;
    let left_out = landed.not_accepted();
    let not_accepted: Map<String, Value> = Privilege::ALL
        .into_iter()
        .map(|one| (one.word().to_owned(), left_out.count(one).into()))
        .collect();
    json!({
        "schema": 1,
        "host": received.host,
        "source": received.source,
        "rank": received.rank.map(|rank| rank.0),
        "via": received.via.map(|via| via.to_string()),
        "status": verdict.as_ref().map_or("failed", |verdict| verdict.outcome.status_and_reason(&verdict.text).0),
        "bytes": received.bytes(),
        "blake3": verdict.as_ref().map(|verdict| units::hex(&verdict.digest)),
        "reason": received.check().err().map(|error| error.to_string()),
        "path": landed.path().map(|path| path.display().to_string()),
        "not_accepted": not_accepted,
        "note": verdict.as_ref().filter(|own| received.is_delivered() && !own.text.is_empty()).map(|own| &own.text),
        "came_bytes": received.came_bytes,
        "pieces_again": received.pieces_again,
        "seconds": received.took.as_secs_f64(),
        "frames": {
            "data_received": stream.data_received,
            "duplicates": stream.duplicates,
            "out_of_order_dropped": stream.out_of_order_dropped,
            "data_sent": stream.data_sent,
            "data_resent": stream.data_resent,
            "control_sent": control.sent + stream.acks_sent + stream.heartbeats_sent,
            "control_received": control.received + stream.acks_received + stream.heartbeats_received,
            "strangers": control.non_members,
            "malformed": control.malformed + stream.malformed,
        },
    })
}

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
    pub fn prepare(
        session: &Session,
        dest: Arc<Dest>,
        args: &RecvArgs,
    ) -> anyhow::Result<Reception> {
        let read_back = args
            .verify
            .map_or(dest.is_device(), |verify| verify == Verify::Read);
        let target = Target {
            dest: args.dest.clone().unwrap_or_default().into(),
            replace: args.force,
            in_place: args.in_place,
            delete: args.delete,
            stays: args.serve.serve,
            accept: args.accepted(),
        };
        let at_dest = target.dest.clone();
        let held =
            Arc::new(Held::new(&args.basis, dest.directory().map(|_| at_dest)).code(Code::System)?);
        let looks = !args.basis.is_empty() || dest.may_have_some(args.force || args.in_place);
        let offer_check = Dest::offer_check(&dest, &target);
        let (arrival, landed) = Arrival::new(
            Arc::clone(&dest),
            target,
            Handling {
                read_back,
                sparse: args.sparse,
                any_sectors: args.any_sectors,
            },
        );
        let (writer, sink) = write_behind(arrival.holding(&held, !args.no_resume), session.waker());
        // Without any data here there is no have-set to report.
        let (writer, sink) = if looks {
            (writer.holding(held), sink.held())
        } else {
            (writer, sink)
        };
        // The wait for its end is limited: a stuck disk or reader must not block the user.
        std::thread::Builder::new()
            .name("disk".to_owned())
            .spawn(move || writer.run())
            .code(Code::System)?;
        Ok(Reception {
            receiving: Receiving::new(sink),
            dest,
            landed,
            offer_check,
        })
    }

    pub fn run(self, session: &mut Session, options: &RecvOptions) -> anyhow::Result<Received> {
        let Reception {
            mut receiving,
            dest,
            landed,
            offer_check,
        } = self;
        let options = RecvOptions {
            offer_check: Some(offer_check),
            ..options.clone()
        };
        let ended = session
            .run_receiver(&options, &mut receiving)
            .map_err(failure);
        // Also after a failure, so that no command outlives this process.
        let was_ended = close(&mut receiving, &landed)?;
        let has_begun = !receiving.offer().is_empty();
        let receiver = ended.map_err(|failed| match has_begun {
            true => Failure::new(
                failed.code(),
                format!("{failed}; {}", left_by(&dest, &landed)),
            )
            .found(failed.fault()),
            false => failed,
        })?;
        if !was_ended {
            // The verdict may have come at the last moment.
            receiving.request_verdict(session.now());
        }
        let report = ReceiveReport::new(&session.station().host, &receiver, &receiving);
        let was_dry_run = receiving.sink().is_on_request() && receiver.asked().is_some();
        Ok(Received {
            report,
            landed,
            asked: receiver.asked(),
            was_ended,
            was_dry_run,
        })
    }
}

impl Received {
    /// Fails unless all bytes are at DEST. `left` describes the data that a failure leaves behind.
    pub fn check(&self, args: &RecvArgs, signal: Option<Signal>, left: &str) -> anyhow::Result<()> {
        print_remains(&self.landed);
        let is_file = args.pipe.is_none() && args.dest.as_deref() != Some(OsStr::new("-"));
        verdict(&self.report, signal, left, is_file)
            .map_err(|failed| of_command(failed, args, &self.landed, self.was_ended))?;
        whole(&self.landed)
    }

    pub fn environment(&self, group: &str) -> [(&'static str, OsString); 5] {
        let digest = self
            .report
            .verdict
            .as_ref()
            .map(|own| units::hex(&own.digest))
            .unwrap_or_default();
        [
            (
                "ETHBCAST_PATH",
                self.landed.path().map(OsString::from).unwrap_or_default(),
            ),
            ("ETHBCAST_GROUP", group.into()),
            ("ETHBCAST_SOURCE", self.report.source.clone().into()),
            ("ETHBCAST_BYTES", self.report.bytes().to_string().into()),
            ("ETHBCAST_BLAKE3", digest.into()),
        ]
    }
}

fn of_command(
    failed: anyhow::Error,
    args: &RecvArgs,
    landed: &Landed,
    was_ended: bool,
) -> anyhow::Error {
    let failure = failed.downcast_ref::<Failure>();
    let (code, fault) = (
        failure.map_or(Code::System, Failure::code),
        failure.and_then(Failure::fault),
    );
    match (&args.pipe, landed.command().failed_with()) {
        (Some(_), Some(own)) => Failure::new(Code::Command(own), failed).into(),
        (Some(command), None)
            if was_ended && !matches!(code, Code::Interrupted | Code::Terminated) =>
        {
            Failure::new(
                code,
                format!("{failed}; `{command}` had not taken all, and was ended"),
            )
            .found(fault)
            .into()
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
    log::warn!("the disk thread is stuck: its data is given up");
    if receiving.sink().is_publishing() {
        let text =
            "the disk does not answer: DEST may be in place or not; look at it, and receive again";
        return fail(Code::System, text);
    }
    Ok(is_fed)
}

fn whole(landed: &Landed) -> anyhow::Result<()> {
    let lines = landed.left_out();
    if lines.is_empty() {
        return Ok(());
    }
    let noun = if lines.len() == 1 {
        "file was"
    } else {
        "files were"
    };
    fail(
        Code::SomeFailed,
        format!(
            "{} {noun} left out, all else is at DEST: {}",
            lines.len(),
            lines.join("; ")
        ),
    )
}

/// Logs attributes that are not accepted or that DEST could not keep, and replaced entries that
/// could not be removed.
fn print_remains(landed: &Landed) {
    let left_out = landed.not_accepted().sentences();
    for line in left_out
        .into_iter()
        .chain(landed.lacks())
        .chain(landed.remains())
    {
        print_line(format_args!("ethbcast: {}", one_line(&line)));
    }
}

/// Converts a report to the run's result. `left` describes the data that a failure leaves behind.
fn verdict(
    report: &ReceiveReport,
    signal: Option<Signal>,
    left: &str,
    is_file: bool,
) -> anyhow::Result<()> {
    if let Some(signal) = signal.filter(|_| report.cancelled) {
        let text = if report.is_delivered() {
            "interrupted, but all was delivered and is at DEST".to_owned()
        } else {
            format!("interrupted; {left}")
        };
        return Err(Interrupt::failure(signal, &text).into());
    }
    report.check().map_err(|error| {
        let was_cut_off =
            matches!(error, Error::Aborted(_) | Error::SenderSilent) && report.rank.is_some();
        let failure = failure(error);
        // A path in it may have a name of the sender's.
        let text = one_line(&failure.to_string());
        if was_cut_off && is_file {
            return Failure::new(failure.code(), format!("{text}; {left}")).found(failure.fault());
        }
        match report.verdict.as_ref().map(|verdict| verdict.outcome) {
            Some(Outcome::Interrupted) => {
                Failure::new(Code::Nobody, format!("{text} (--max-session-time); {left}"))
            }
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
