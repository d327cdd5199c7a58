//! Sending to receivers that have something already.

use clap::{Args, ValueEnum};
use ethbcast_collectives::session::ContentKind;
use ethbcast_collectives::session::ledger::{ChunkSize, Cut};
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
    /// What receivers with an older version find at another place: what was moved by whole chunks (fixed), as
    /// in images, or by any number of bytes (cdc), as in archives and directories; none: only what is where it was.
    /// Without it, cdc for directories and for files with holes, else fixed.
    #[arg(long, value_enum, value_name = "fixed|cdc|none", hide_possible_values = true)]
    pub delta: Option<Delta>,
    /// What is checked, sent again and looked for at receivers at a time: 16K, 32K, 64K or 128K. Of an old version with
    /// small changes everywhere less is sent by short ones; their ledgers take 0.2 % at 16K, 0.05 % at 64K.
    #[arg(long, value_name = "BYTES", value_parser = chunk, default_value = "64K")]
    pub chunk: ChunkSize,
}

/// Reads how long chunks are.
fn chunk(text: &str) -> Result<ChunkSize, String> {
    let bytes = ethbcast_planning::parse_size(text)?;
    ChunkSize::of_bytes(bytes)
        .ok_or_else(|| format!("chunks have 16K, 32K, 64K or 128K, not {bytes} bytes: give one of these"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_have_four_lengths_and_what_is_none_of_them_is_told_them() {
        for (text, bytes) in [("16K", 16 << 10), ("32768", 32 << 10), ("64k", 64 << 10), ("128KiB", 128 << 10)] {
            assert_eq!(chunk(text).map(ChunkSize::bytes), Ok(bytes), "{text}");
        }
        for text in ["8K", "48K", "256K", "1G", "0"] {
            let told = chunk(text).expect_err("no such chunk");
            assert!(told.contains("16K, 32K, 64K or 128K") && told.contains("give one of these"), "{told}");
        }
        assert!(chunk("many").is_err_and(|told| told.contains("`many` is no size")));
    }
}
