//! Sending to receivers that already hold part of the data.

use super::heading::{PRINTED, TROUBLE, WHAT};
use clap::{Args, ValueEnum};
use ethbcast_collectives::session::ContentKind;
use ethbcast_collectives::session::verified::{ChunkSize, Cut};
use std::path::PathBuf;

/// Options about an earlier version at receivers, and about the last run.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Method by which receivers find parts of an older version at another offset: fixed (whole chunks, as in images),
    /// cdc (content-defined chunks, as in archives and directories) or none. Default: cdc for directories and sparse
    /// files, otherwise fixed.
    #[arg(long, value_enum, value_name = "fixed|cdc|none", hide_possible_values = true, help_heading = WHAT)]
    pub delta: Option<Delta>,
    /// Chunk size for checking, repair and comparison with an older version: 16K, 32K, 64K or 128K. Smaller chunks
    /// resend less if changes are scattered; hashes add 0.2 % at 16K and 0.05 % at 64K.
    #[arg(long, value_name = "BYTES", value_parser = chunk, default_value = "64K", help_heading = WHAT)]
    pub chunk: ChunkSize,
    /// Send again to the hosts of the last run in --report. Complete receivers verify what they have, the others get
    /// the rest.
    #[arg(long, requires = "report", conflicts_with_all = ["hosts", "only_missing"], help_heading = TROUBLE)]
    pub resume: bool,
    /// Send only to those hosts of the last run in --report that have not verified everything.
    #[arg(long, requires = "report", conflicts_with = "hosts", help_heading = TROUBLE)]
    pub only_missing: bool,
    /// Write the report to FILE: a web page if its name ends in .html, otherwise the object of --json. --resume and
    /// --only-missing read the last run's report from FILE first.
    #[arg(long, value_name = "FILE", help_heading = PRINTED)]
    pub report: Option<PathBuf>,
}

/// Parses a chunk size.
fn chunk(text: &str) -> Result<ChunkSize, String> {
    let bytes = ethbcast_planning::parse_size(text)?;
    ChunkSize::of_bytes(bytes)
        .ok_or_else(|| format!("chunks have 16K, 32K, 64K or 128K, not {bytes} bytes: give one of these"))
}

/// Method of finding moved data: the value of `send --delta`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Delta {
    /// Whole chunks.
    Fixed,
    /// Content-defined chunks.
    Cdc,
    /// Only data that has not moved.
    None,
}

impl ResumeArgs {
    /// Returns the chunking for this kind of content. In a concatenation of files, offsets are no multiples of the
    /// chunk size, so content-defined chunks are the default there.
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
