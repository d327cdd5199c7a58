//! `ethbcast send`: sends a file, directory or stdin to every receiver of a group.

pub mod control;
mod learnt;
mod outcome;
mod report;
mod settings;
mod source;
mod start_rule;

use crate::args::SendArgs;
use crate::exit::{Code, Failure, Form, WithCode, fail};
use crate::progress::{Bar, ProgressRole};
use crate::rights::{self, Needs};
use crate::session::{failure, print_called, print_first, watch, with_own_link};
use crate::signals::{Interrupt, reason_to_end, run_after};
use crate::udpcast::print_ignored;
use crate::{doctor, interface, units};
use ethbcast_collectives::session::live::{Reader, SentContent};
use ethbcast_collectives::session::{Error, SendOptions, SendReport, Session};
use ethbcast_content::source::Opened;
use ethbcast_transport::packet::LaneUse;
use learnt::Cache;
use nix::sys::signal::Signal;
use outcome::LeftOut;
use report::Report;
pub use report::{receiver_json, receiver_lines};
use rustix::thread::CapabilitySet;
use settings::Settings;
pub use source::HIDDEN;
pub use start_rule::StartRule;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Message to receivers and user when a signal ends the transfer.
const GIVEN_UP: &str = "the sender gave up: interrupted";
const INTERRUPTED: &str = "interrupted; the receivers have been notified";
const CUT_OFF: &str = "interrupted; as this host has no link, the receivers know it by its silence";

pub fn run(args: SendArgs) -> anyhow::Result<()> {
    args.unused
        .given()
        .into_iter()
        .for_each(|names| print_ignored(&names));
    let bar = Bar::open(ProgressRole::Root, &args.wire, &args.progress)?;
    let result = transfer(args, &bar).map(drop);
    bar.conclude(&result);
    result
}

/// Performs the transfer with its output on `bar`. Returns the wanted hosts that did not take part.
pub fn transfer(args: SendArgs, bar: &Arc<Bar>) -> anyhow::Result<Vec<String>> {
    let (settings, form, began) = (Settings::resolve(&args)?, bar.form(), Instant::now());
    source::check_options(&args)?;
    if settings.options.hosts.is_empty() && args.resume.only_missing {
        return report::print_nothing_missing(form, args.wire.quiet).map(|()| Vec::new());
    }
    let mut options = settings.options.clone();
    bar.attach(&mut options.run);
    let (mut session, interrupt) = control::open(&args.wire.group, &options, bar)?;
    bar.open_on(&session).code(Code::System)?;
    settings.check_station(session.station())?;
    interface::warn_of_receiver(&session, &args.wire.group, args.wire.quiet);
    print_first(
        &session,
        options.wire.keys.as_ref(),
        &args.key,
        args.wire.quiet,
    );
    print_called(&session, args.wire.quiet);
    let _watcher = watch(&session, &mut options.run);
    options.interface_rate = doctor::cable_rate(session.interface());
    let cache = Cache::open(&args, &session, &options);
    options.learnt = cache.as_ref().map(Cache::learnt).unwrap_or_default();
    let cached = cache.as_ref().map(Cache::path);
    let Opened { content, tree } = opened(&args, options.wire.keys.is_some(), cached)?;
    // SOURCE may have taken long to open: a fifo without a writer, a large directory.
    options.run.time_limit = options
        .run
        .time_limit
        .map(|limit| limit.saturating_sub(began.elapsed()));
    content.describe(&mut options);
    options.chunk = Some(args.resume.chunk);
    start_rule::show(bar, &session, &options, args.start_rule);
    if let (true, Some(last)) = (args.resume.only_missing, &settings.last_run) {
        last.check_source(options.size)?;
    }
    let begin = |reader: Reader<_>| -> Result<(), Error> {
        // The thread is detached: a stdin without input must not block the end.
        let started = std::thread::Builder::new()
            .name("reader".to_owned())
            .spawn(move || reader.run());
        let watched = || start_rule::watch(args.start_rule, settings.at_enter, bar, &options);
        started.and_then(|_| watched()).map_err(Error::Resources)?;
        interrupt.begin_polling();
        Ok(())
    };
    let sent = session.send_content(content, &options, args.resume.cut(options.content), begin);
    let SentContent {
        report: sent,
        failed,
        cause,
        has_requested,
    } = sent.map_err(failure)?;
    bar.finish();
    if let (true, Some(choice)) = (
        args.dry_run && (has_requested || failed.is_none()),
        &sent.choice,
    ) {
        let lacking = sent.lacking.filter(|_| has_requested);
        return report::print(choice, lacking, options.size, form).map(|()| Vec::new());
    }
    let given_up = failed.map(|error| match (error, interrupt.signal(), cause) {
        (Error::Cancelled { .. }, Some(signal), _) => interrupted(signal, &session),
        (Error::GaveUp(_), _, Some(error)) => failure(error),
        (error, ..) => bar.with_misfit(with_own_link(failure(error), &session)),
    });
    let left_out = LeftOut::of(&sent.turned_away, &sent.receivers, &options.hosts);
    let lanes = session.lanes();
    print_report(
        &args,
        &settings,
        (&session, &options, lanes.as_ref()),
        (&sent, given_up.as_ref(), &left_out),
        form,
        cache.as_ref().filter(|_| given_up.is_none()),
    )?;
    given_up.map_or(Ok(()), Err)?;
    let sent = sent.all_verified().map_err(|error| {
        with_own_link(
            outcome::failure(error, args.resume.report.as_deref()),
            &session,
        )
    })?;
    bar.settle(sent.bytes());
    let files = tree.map(|tree| tree.left_out()).unwrap_or_default();
    if !files.is_empty() {
        return fail(Code::SomeFailed, files_left_out(&files));
    }
    if let Some(command) = &args.exec_after {
        let must_end = || reason_to_end(&interrupt, began, settings.options.run.time_limit);
        exec_after(
            command,
            (&args.wire.group, &options.source),
            &sent,
            must_end,
        )?;
    }
    Ok(left_out
        .into_iter()
        .filter(LeftOut::is_wanted)
        .map(|one| one.host)
        .collect())
}

/// Opens SOURCE and gives up the rights that are not needed any more. With --user a command runs as
/// that user; this process opens a file, device or pipe with the rights that it was started with,
/// and lists a directory.
fn opened(args: &SendArgs, has_key: bool, cached: Option<&Path>) -> anyhow::Result<Opened> {
    let needs = needs(args, has_key, cached);
    if args.pipe.is_some() {
        rights::confine(&needs)?;
    }
    let Opened { content, tree } = source::open(args)?;
    let content = source::named(content, tree.is_some(), args.name.as_deref())?;
    if args.pipe.is_none() {
        rights::confine(&needs)?;
    }
    Ok(Opened { content, tree })
}

fn needs<'a>(args: &'a SendArgs, has_key: bool, cached: Option<&'a Path>) -> Needs<'a> {
    let mut capabilities = CapabilitySet::empty();
    // Only root sees attributes of the namespace trusted.
    capabilities.set(CapabilitySet::SYS_ADMIN, args.tree.xattrs);
    rights::keep_priority(&mut capabilities, args.priority);
    let files = [
        args.resume.report.as_deref(),
        args.progress.metrics_file.as_deref(),
        cached,
    ];
    Needs {
        has_key,
        has_commands: args.exec_after.is_some() || args.pipe.is_some(),
        user: args.user.as_ref(),
        opens_later: false,
        capabilities,
        dest: None,
        replaces_dest: false,
        files: files.into_iter().flatten().collect(),
    }
}

fn interrupted(signal: Signal, session: &Session) -> Failure {
    Interrupt::failure(
        signal,
        if session.has_link() {
            INTERRUPTED
        } else {
            CUT_OFF
        },
    )
}

fn print_report(
    args: &SendArgs,
    settings: &Settings,
    (session, options, lanes): (&Session, &SendOptions, Option<&[LaneUse; 2]>),
    (sent, given_up, left_out): (&SendReport, Option<&Failure>, &[LeftOut]),
    form: Form,
    cache: Option<&Cache>,
) -> anyhow::Result<()> {
    let (run, verdict) = (
        report::run(sent, session, options, &args.wire.group),
        settings.verdict.as_ref(),
    );
    let is_calibrated = args.calibration.is_some();
    let report = Report {
        sent,
        preset: options.preset,
        verdict,
        run,
        given_up,
        left_out,
        is_calibrated,
        lanes,
    };
    // The report is kept even if no receiver joined: from an older report in its place,
    // --only-missing would conclude that no host lacks anything.
    report.keep(args.resume.report.as_deref())?;
    if given_up.is_some() && sent.receivers.is_empty() {
        return Ok(());
    }
    report.print(form, args.wire.quiet)?;
    // The time of late hosts says nothing of the way.
    if let Some(cache) = cache.filter(|_| !args.late) {
        cache.keep(sent, report.is_of_network());
    }
    if let Some(text) = report
        .interrupted()
        .filter(|_| form == Form::Lines && !args.wire.quiet)
    {
        crate::exit::print_line(text);
    }
    let surprise = report.surprise().filter(|_| given_up.is_none());
    for text in outcome::summary(left_out)
        .into_iter()
        .chain(surprise)
        .filter(|_| !args.wire.quiet)
    {
        crate::exit::print_line(format_args!("ethbcast: {text}"));
    }
    Ok(())
}

fn exec_after(
    command: &str,
    (group, source): (&str, &str),
    sent: &SendReport,
    must_end: impl Fn() -> Option<Failure>,
) -> anyhow::Result<()> {
    let digest = sent
        .trailer
        .map(|trailer| units::hex(&trailer.digest))
        .unwrap_or_default();
    run_after(
        command,
        [
            ("ETHBCAST_GROUP", group.into()),
            ("ETHBCAST_SOURCE", source.into()),
            ("ETHBCAST_BYTES", sent.bytes().to_string().into()),
            ("ETHBCAST_BLAKE3", digest.into()),
            (
                "ETHBCAST_RECEIVERS",
                sent.receivers.len().to_string().into(),
            ),
        ],
        must_end,
    )
}

fn files_left_out(lines: &[String]) -> String {
    let (noun, they) = if lines.len() == 1 {
        ("file was", "it is")
    } else {
        ("files were", "they are")
    };
    let help = "send again, or as they come with --allow-changing";
    format!(
        "{} {noun} left out, all else arrived: {}; when {they} at rest {help}",
        lines.len(),
        lines.join("; ")
    )
}
