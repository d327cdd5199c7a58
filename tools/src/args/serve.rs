//! The receiver as a service.

use super::heading::WHO;
use super::number;
use clap::Args;

/// Options of `recv --serve`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = WHO)]
pub struct ServeArgs {
    /// Keep running and receive one session after another.
    ///
    /// Sessions of several groups run at the same time, into the directory DEST, until SIGTERM. SIGHUP reloads the
    /// configuration. --json prints one object per session, each on its own line.
    #[arg(long, conflicts_with_all = ["once", "max_wait", "timeout", "stat_period", "metrics_file", "json_stream"])]
    pub serve: bool,
    /// With --serve, accept these groups, such as images or rack[1-4], instead of the group of -g. May be repeated.
    #[arg(long, value_name = "GROUPS", requires = "serve")]
    pub allow_group: Vec<String>,
    /// With --serve, largest number of sessions at the same time. Senders of further groups wait.
    #[arg(long, value_name = "N", requires = "serve", default_value_t = 64,
        value_parser = number(1..=1024_u16))]
    pub max_sessions: u16,
}
