//! A receiver that stays.

use clap::Args;

/// What `recv --serve` is told.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// Stay: take one session after another, and several groups' at once, into the directory DEST, until SIGTERM.
    /// SIGHUP reads the configuration again. With --json, an object on a line of its own for each session.
    #[arg(long, conflicts_with_all = ["once", "max_wait", "timeout", "stat_period", "metrics_file", "json_stream"])]
    pub serve: bool,
    /// With --serve: take what is sent to these groups, such as images or rack[1-4], instead of to that of -g. May be
    /// given several times.
    #[arg(long, value_name = "GROUPS", requires = "serve")]
    pub allow_group: Vec<String>,
    /// With --serve: take part in so many sessions at once; whoever sends in another group meanwhile waits.
    #[arg(long, value_name = "N", requires = "serve", default_value_t = 64,
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub max_sessions: u16,
}
