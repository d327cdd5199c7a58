//! Sending to receivers that have something already.

use clap::{Args, ValueEnum};
use ethbcast_collectives::session::ContentKind;
use ethbcast_collectives::session::ledger::Cut;
use std::path::PathBuf;

/// What `send` makes of receivers that have some of SOURCE, and of the last run.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Write the report of this run to FILE: as a page for people if its name ends in .html, else as --json prints it
    /// (`ethbcast report` makes the page of that). --resume and --only-missing read that of the last run there before.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Send again to the hosts of the last run: who has everything verifies it, who has a part gets the rest.
    #[arg(long, requires = "report", conflicts_with_all = ["hosts", "only_missing"])]
    pub resume: bool,
    /// Send to those hosts of the last run alone that had not verified everything.
    #[arg(long, requires = "report", conflicts_with = "hosts")]
    pub only_missing: bool,
    /// What receivers with an older version find at another place: what was moved by whole chunks of 64 KiB (fixed), as
    /// in images, or by any number of bytes (cdc), as in archives and directories; none: only what is where it was.
    /// Without it, cdc for directories and for files with holes, else fixed.
    #[arg(long, value_enum, value_name = "fixed|cdc|none", hide_possible_values = true)]
    pub delta: Option<Delta>,
}

/// What `send --delta` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Delta {
    /// By whole chunks.
    Fixed,
    /// By any number of bytes.
    Cdc,
    /// Nothing.
    None,
}

impl ResumeArgs {
    /// How such a content is cut: of one that is put together of parts nothing is at a multiple of a chunk's length.
    pub fn cut(&self, content: ContentKind) -> Cut {
        let is_gathered = matches!(content, ContentKind::Tree | ContentKind::Sparse(_));
        self.delta.unwrap_or(if is_gathered { Delta::Cdc } else { Delta::Fixed }).into()
    }
}

impl From<Delta> for Cut {
    fn from(delta: Delta) -> Cut {
        match delta {
            Delta::Fixed => Cut::Fixed,
            Delta::Cdc => Cut::ContentDefined,
            Delta::None => Cut::None,
        }
    }
}
