//! `ethbcast relay`: receives in one network what it sends in another.

use crate::args::RelayArgs;
use crate::exit::{Code, Form, WithCode, print_line, report, report_object};
use crate::rights::{self, Needs};
use crate::send::{receiver_json, receiver_lines};
use crate::session::{
    failure, print_called, print_first, print_interface, watch, wire, with_own_link,
};
use crate::signals::Interrupt;
use crate::{inputs, interface, key, progress, units};
use ethbcast_collectives::session::{
    Cancel, OnSlow, Progress, RateLimit, RecvOptions, Relay, RunOptions, SendOptions, SendReport,
    WireOptions,
};
use rustix::thread::CapabilitySet;
use serde_json::{Value, json};
use std::time::Duration;

/// Shorter than a sender's default, so that it can start without those that are missing.
const WAIT_BEHIND: Duration = Duration::from_secs(45);
const GIVEN_UP: &str = "the relay gave up: interrupted";
const INTERRUPTED: &str = "interrupted; the hosts in both networks have been notified";

pub fn run(args: &RelayArgs) -> anyhow::Result<()> {
    let (mut near, mut far) = options(args)?;
    let cancels = [near.run.cancel.clone(), far.run.cancel.clone()];
    let end_both = move || {
        cancels
            .iter()
            .for_each(|cancel| cancel.cancel_because(GIVEN_UP))
    };
    let interrupt = Interrupt::watch(true, end_both).code(Code::System)?;
    let mut relay = Relay::open(&args.wire.group, &near, &far).map_err(failure)?;
    let quiet = args.wire.quiet;
    print_first(relay.near(), near.wire.keys.as_ref(), &args.key, quiet);
    print_interface(relay.far().interface(), quiet);
    print_called(relay.far(), quiet);
    print_events(&mut near.run, &relay.near().interface().name, quiet);
    print_events(&mut far.run, &relay.far().interface().name, quiet);
    let _watchers = [
        watch(relay.near(), &mut near.run),
        watch(relay.far(), &mut far.run),
    ];
    rights::confine(&Needs {
        has_key: near.wire.keys.is_some(),
        has_commands: false,
        user: None,
        opens_later: false,
        capabilities: CapabilitySet::empty(),
        dest: None,
        replaces_dest: false,
        files: Vec::new(),
    })?;
    interrupt.begin_polling();
    let relayed = relay.run(&near, &far);
    // A session that failed before the sender had confirmed all has nothing to report.
    let has_outcomes = |sent: &&SendReport| {
        let all_came = relayed.failed.is_none() || sent.trailer.is_some();
        all_came && !sent.receivers.is_empty()
    };
    if let Some(sent) = relayed.sent.as_ref().filter(has_outcomes) {
        print(sent, args, &relay)?;
    }
    relayed
        .check()
        .map(drop)
        .map_err(|error| match interrupt.signal() {
            Some(signal) => Interrupt::failure(signal, INTERRUPTED).into(),
            None => with_own_link(failure(error), relay.near()).into(),
        })
}

fn options(args: &RelayArgs) -> anyhow::Result<(RecvOptions, SendOptions)> {
    let max_wait = args.max_wait.map(Duration::from_secs_f64);
    let keys = key::sending(&args.key)?;
    let mut near = RecvOptions {
        wire: WireOptions {
            keys: keys.clone(),
            ..wire(&args.wire)
        },
        sender: args.from.clone(),
        max_wait,
        ..RecvOptions::new()
    };
    args.patience.apply(&mut near.run);
    let over = args.onto_over.unwrap_or(args.wire.over);
    let mut far = SendOptions {
        wire: WireOptions {
            interface: interface::chosen(Some(&args.onto), over, args.wire.quiet),
            over,
            ..near.wire.clone()
        },
        run: RunOptions {
            cancel: Cancel::new(),
            ..near.run.clone()
        },
        receivers: args.receivers.map(usize::from),
        max_wait: max_wait.or(Some(WAIT_BEHIND)),
        // What comes cannot be read a second time.
        on_slow: OnSlow::Wait,
        rate: args.rate.map(RateLimit::new),
        ..SendOptions::new()
    };
    if let Some(hosts) = &args.to {
        far.hosts = inputs::hosts(hosts).map_err(|failure| failure.of_option("--to"))?;
    }
    Ok((near, far))
}

/// Prints the events of one network, each behind the name of its interface.
fn print_events(run: &mut RunOptions, interface: &str, quiet: bool) {
    let interface = interface.to_owned();
    run.on_progress(move |progress: Progress<'_>| {
        let line = progress::line(&progress).filter(|_| !quiet);
        line.into_iter()
            .for_each(|line| print_line(format_args!("ethbcast: {interface}: {line}")));
    });
}

fn print(sent: &SendReport, args: &RelayArgs, relay: &Relay) -> anyhow::Result<()> {
    let names = [relay.near(), relay.far()].map(|session| session.interface().name.as_str());
    if args.wire.json {
        return report_object(&to_json(sent, names), Form::Object);
    }
    if args.wire.quiet {
        return Ok(());
    }
    let lines: String = sent
        .receivers
        .iter()
        .map(|one| receiver_lines(one, None, None))
        .collect();
    let [near, far] = names;
    report(&format!(
        "{lines}{} of {} receivers verified {} from {near} on {far} in {:.3} s",
        sent.verified(),
        sent.receivers.len(),
        units::bytes(sent.bytes()),
        sent.took.as_secs_f64(),
    ))
}

fn to_json(sent: &SendReport, [near, far]: [&str; 2]) -> Value {
    let receivers: Vec<Value> = sent.receivers.iter().map(receiver_json).collect();
    json!({
        "schema": 1,
        "from": near,
        "onto": far,
        "bytes": sent.bytes(),
        "blake3": sent.trailer.map(|trailer| units::hex(&trailer.digest)),
        "seconds": sent.took.as_secs_f64(),
        "via": sent.via().map(|via| via.to_string()),
        "receivers": receivers,
    })
}
