//! `udp-sender` as `ethbcast send`.

use super::{piped, shared};
use crate::exit::{Code, fail};
use crate::send::StartRule;
use clap::ArgMatches;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::time::Duration;

/// Wait for the first receiver without --start-timeout, the longest that `send` accepts, in
/// seconds.
const FOR_EVER: u32 = 1_000_000_000;
/// Interval of udpcast's hello messages, in milliseconds.
const HELLO_MS: u32 = 1000;

/// Returns the arguments of `ethbcast send`.
///
/// # Errors
/// A [`Failure`](crate::exit::Failure) with code 2.
pub fn arguments(matches: &ArgMatches) -> anyhow::Result<Vec<OsString>> {
    let mut arguments = shared("send", matches)?;
    arguments.push(format!("--min-receivers={}", least(matches)).into());
    arguments.push(format!("--max-wait={}", seconds(matches, "start-timeout").unwrap_or(FOR_EVER)).into());
    if let Some(rate) = matches.get_one::<String>("max-bitrate") {
        arguments.push(format!("--rate={rate}").into());
    }
    if matches.get_flag("streaming") {
        arguments.push("--late".into());
    }
    let file = matches.get_one::<OsString>("file");
    match matches.get_one::<String>("pipe") {
        Some(command) => {
            let command = piped(command, '<', file, std::io::stdin())?;
            arguments.push(format!("--pipe={command}").into());
        }
        None => arguments.extend(["--".into(), file.cloned().unwrap_or_else(|| "-".into())]),
    }
    Ok(arguments)
}

/// Returns the start conditions.
///
/// # Errors
/// A [`Failure`](crate::exit::Failure) with code 2 if nothing ever would.
pub fn start_rule(matches: &ArgMatches) -> anyhow::Result<Option<StartRule>> {
    let is_given = |name: &str| matches.contains_id(name);
    let counts = ["min-receivers", "min-wait", "max-wait"].into_iter().any(is_given);
    let autostart = matches.get_one::<u32>("autostart").copied();
    let at_enter = !matches.get_flag("nokbd") && matches.contains_id("file") && std::io::stdin().is_terminal();
    if !counts && autostart.is_none() && !at_enter {
        let text = "nothing says when to start: add --min-receivers N, or run it with --file on a terminal without \
                    --nokbd and press Enter; keys at receivers are not heard";
        return fail(Code::Usage, text);
    }
    let hello = matches.get_one::<u32>("rexmit-hello-interval").copied().unwrap_or(HELLO_MS);
    Ok(Some(StartRule {
        receivers: counts.then(|| usize::from(least(matches))),
        min_wait: Duration::from_secs(seconds(matches, "min-wait").unwrap_or(0).into()),
        max_wait: seconds(matches, "max-wait").map(|seconds| Duration::from_secs(seconds.into())),
        after: autostart.map(|hellos| Duration::from_millis(u64::from(hellos) * u64::from(hello))),
        at_enter,
    }))
}

/// Returns a number of seconds; 0 counts as not given.
fn seconds(matches: &ArgMatches, name: &str) -> Option<u32> {
    matches.get_one::<u32>(name).copied().filter(|&seconds| seconds > 0)
}

fn least(matches: &ArgMatches) -> u16 {
    matches.get_one::<u16>("min-receivers").copied().unwrap_or(1).max(1)
}
