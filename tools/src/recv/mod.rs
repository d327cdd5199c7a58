//! `ethbcast recv`: receives the content sent to a group and stores it at DEST.

mod opening;
mod partitions;
mod reception;
mod report;

use crate::args::{RecvArgs, Verify};
use crate::doctor::Fault;
use crate::exit::{Code, Failure, Form, WithCode, fail};
use crate::hosts;
use crate::program::run_after;
use crate::progress::{Bar, ProgressRole};
use crate::same_host;
use crate::session::{interrupt, options, print_interface, watch, with_own_link};
use crate::udpcast::print_ignored;
use ethbcast_collectives::census::About;
use ethbcast_collectives::session::Session;
use ethbcast_content::command::hides_failures;
use ethbcast_content::dest::{Dest, Landed, Over};
use ethbcast_content::disk::Accept;
pub use partitions::read_again;
pub use reception::{Received, Reception};
pub use report::{line, to_json};
use std::sync::Arc;
use std::time::Duration;

pub fn run(args: RecvArgs) -> anyhow::Result<()> {
    args.unused.given().into_iter().for_each(|names| print_ignored(&names));
    let bar = Bar::open(ProgressRole::Receiver, &args.wire, &args.progress)?;
    let result = receive(args, &bar);
    bar.conclude(&result);
    result
}

fn receive(args: RecvArgs, bar: &Arc<Bar>) -> anyhow::Result<()> {
    if args.port_fd.len() > 1 {
        return fail(Code::Usage, "one socket is enough for one group: give --port-fd once, or add --serve");
    }
    let mut options = bar.attach(options(&args.wire));
    options.max_wait = args.max_wait.map(Duration::from_secs_f64);
    let dest = Arc::new(opening::dest(&args, &mut options, bar)?);
    print_warnings(&dest, &args.accepted());
    options.port_fd = args.port_fd.first().copied();
    options.about = Some(About::default());
    args.patience.apply(&mut options);
    options.expects.clone_from(&args.expect);
    let interrupt = interrupt(&options, "interrupted by its user")?;
    let mut session = opening::open(&args.wire, &mut options, bar)?;
    bar.open_on(&session).code(Code::System)?;
    let _receiving = same_host::receive(&session, &args.wire.group, args.wire.quiet);
    print_interface(session.interface(), args.wire.quiet);
    let _watcher = watch(&session, &mut options);
    options.about = Some(hosts::about(session.interface()));
    options.free_bytes = dest.free_bytes();
    options.once = args.once;
    bar.wait_for(sender_of(&session));
    let is_quiet = args.wire.quiet || matches!(*dest, Dest::Stdout);
    let mut reception = Reception::prepare(&session, Arc::clone(&dest), &args)?;
    interrupt.begin_polling();
    let received = loop {
        let received = reception.run(&mut session, &options)?;
        bar.finish();
        if !received.was_only_asked || received.report.cancelled || args.once {
            break received;
        }
        // A dry run is followed by the actual transfer.
        if !is_quiet {
            crate::exit::print_line(format_args!("ethbcast: a sender has asked what is lacking here (--dry-run)"));
        }
        options.had.extend(received.asked);
        bar.wait_for(sender_of(&session));
        reception = Reception::prepare(&session, Arc::clone(&dest), &args)?;
    };
    if received.report.is_delivered() {
        bar.settle(received.report.bytes());
    }
    report::print(&received.report, &received.landed, args.form(), is_quiet)?;
    let left = left_by(&dest, &received.landed);
    received.check(&args, interrupt.signal(), &left).map_err(|error| match error.downcast::<Failure>() {
        Ok(failure) => with_own_link(failure, &session).into(),
        Err(error) => error,
    })?;
    read_again(dest);
    match &args.exec {
        Some(command) => run_after(command, received.environment(&args.wire.group)),
        None => Ok(()),
    }
}

/// Resolves and checks DEST.
///
/// # Errors
/// A [`Failure`] with code 2 or 4.
pub fn dest(args: &RecvArgs) -> anyhow::Result<Dest> {
    let (stdout, read) = (args.dest.as_ref().is_some_and(|dest| dest == "-"), args.verify == Some(Verify::Read));
    let for_programs = match args.form() {
        Form::Lines => None,
        Form::Object => Some("--json"),
        Form::Stream => Some("--json-stream"),
    };
    if let (true, Some(option)) = (stdout, for_programs) {
        return fail(Code::Usage, format!("stdout cannot carry both the data and {option}: receive into a file"));
    }
    if read && (stdout || args.pipe.is_some()) {
        let to = if stdout { "stdout" } else { "a command" };
        let text = format!("what went to {to} cannot be read back: receive into a file, or leave out --verify read");
        return fail(Code::Usage, text);
    }
    match (&args.pipe, &args.dest) {
        (Some(command), _) => {
            if hides_failures(command) {
                crate::exit::print_line(format_args!("ethbcast: {}", crate::send::HIDDEN));
            }
            Ok(Dest::Command(command.clone()))
        }
        (None, dest) => Dest::resolve_over(dest.as_deref().unwrap_or_default(), args.force, over(args))
            .map_err(|error| Failure::new(Code::System, error).found(Fault::Dest).into()),
    }
}

/// Says before anything comes what a user should know of DEST.
pub fn print_warnings(dest: &Dest, accept: &Accept) {
    dest.warnings(accept).iter().for_each(|line| crate::exit::print_line(format_args!("ethbcast: {line}")));
}

fn over(args: &RecvArgs) -> Over {
    if args.in_place { Over::InPlace } else { args.force.into() }
}

/// Describes the data that a failed receiver leaves behind.
pub fn left_by(dest: &Dest, landed: &Landed) -> String {
    if let Some(broken) = landed.broken() {
        return broken;
    }
    let left = match dest {
        Dest::Device { .. } => "DEST is overwritten in part",
        Dest::Command(_) => "the command was ended",
        _ if dest.has_left() => "DEST is as it was; what came is kept beside it, and the next recv goes on with it",
        _ => "nothing was left at DEST",
    };
    left.to_owned()
}

pub fn sender_of(session: &Session) -> String {
    let (station, interface) = (session.station(), &session.interface().name);
    format!("a sender of group {} on {interface} of {}, MTU {}", station.group, station.host, station.mtu_bytes)
}
