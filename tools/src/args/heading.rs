//! Headings of `--help` and the man pages, and the options that `-h` shows.
//!
//! clap prints headings in the order in which a command's options first use them, so the fields of an argument struct
//! stand in the order of this list.

use clap::Arg;

/// Hosts that take part in a session.
pub const WHO: &str = "Who takes part";
/// Data at the sender.
pub const WHAT: &str = "What is sent";
/// Data at a receiver.
pub const WRITTEN: &str = "What is written";
/// Measurements that a command makes.
pub const MEASURED: &str = "What is measured";
/// Interface, plan, rate and frames.
pub const HOW: &str = "How it travels";
/// Deadlines and failures.
pub const TROUBLE: &str = "When something goes wrong";
/// Progress, reports and logs.
pub const PRINTED: &str = "What is printed";

/// Hides every option from `-h` except those with an id in `shown`.
pub fn everyday(shown: &'static [&'static str]) -> impl Fn(Arg) -> Arg {
    |arg| {
        let is_shown = shown.contains(&arg.get_id().as_str());
        if is_shown { arg } else { arg.hide_short_help(true) }
    }
}
