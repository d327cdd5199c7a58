//! Results of a bench.

use ethbcast_transport::wire::{HEADER_BYTES, OVERHEAD_BYTES};

use crate::options::MAX_MESSAGE;
use crate::raw::Ceiling;

/// Settings of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Number of receivers.
    pub receivers: u16,
    /// MTU of the interfaces, in bytes.
    pub mtu_bytes: u32,
    /// Rate of the cables, in bits per second; `None` for unshaped ones.
    pub rate: Option<u64>,
    /// Fraction of frames lost at every host.
    pub loss: f64,
    /// Size of a broadcast, in bytes.
    pub size_bytes: u64,
}

impl Setting {
    /// Returns the least time of one copy on a cable, in frames with our headers as the lab counts
    /// them; none if cables are unshaped.
    pub fn wire_seconds(&self) -> Option<f64> {
        let payload = u64::from(self.mtu_bytes) - HEADER_BYTES as u64;
        let bytes = self.size_bytes + self.size_bytes.div_ceil(payload) * OVERHEAD_BYTES as u64;
        self.rate.map(|rate| bytes as f64 * 8.0 / rate as f64)
    }

    /// Whether the size is sent as a file.
    pub fn is_file(&self) -> bool {
        self.size_bytes > MAX_MESSAGE
    }
}

/// Figures of a tool that finished.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Median time in seconds: for a file from the first data on the sender's cable to the sender's
    /// end, for a message from the call to the end of its barrier.
    pub seconds: f64,
    /// Processor time of all programs per GiB received, in seconds; unknown for messages.
    pub processor_seconds_per_gib: Option<f64>,
    /// Number of receivers with correct data.
    pub verified: u16,
}

/// A tool in a setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Name of the tool.
    pub tool: String,
    /// Whether it is ethbcast.
    pub is_own: bool,
    /// Figures, or the reason of the failure.
    pub outcome: Result<Figures, String>,
}

impl Run {
    /// Returns the time in seconds, if all receivers have correct data.
    pub fn seconds(&self, receivers: u16) -> Option<f64> {
        self.outcome.as_ref().ok().filter(|figures| figures.verified == receivers).map(|figures| figures.seconds)
    }
}

/// All tools in a setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The setting.
    pub setting: Setting,
    /// Goodput of raw frames there, without loss.
    pub raw: Ceiling,
    /// Results of the tools.
    pub runs: Vec<Run>,
}

/// The fastest tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Winner<'a> {
    /// Name of the tool.
    pub tool: &'a str,
    /// Whether it is ethbcast.
    pub is_own: bool,
    /// Ratio of the best other tool's time to the winner's, of ours if the winner is not ours;
    /// `None` if no other finished.
    pub factor: Option<f64>,
}

impl Cell {
    /// Returns the time of raw frames for this size, as a broadcast and as a chain.
    pub fn raw_seconds(&self) -> [(&'static str, f64); 2] {
        let bits = self.setting.size_bytes as f64 * 8.0;
        [("raw broadcast", self.raw.broadcast_bits_per_second), ("raw chain", self.raw.chain_bits_per_second)]
            .map(|(name, rate)| (name, bits / rate))
    }

    /// Returns the fastest of all that finished, compared with others if there are any.
    pub fn winner(&self) -> Option<Winner<'_>> {
        let receivers = self.setting.receivers;
        let best = |own: bool| {
            let runs = self.runs.iter().filter(move |run| run.is_own == own);
            let timed = runs.filter_map(|run| Some((run, run.seconds(receivers)?)));
            timed.min_by(|one, other| one.1.total_cmp(&other.1))
        };
        let (won, other) = match (best(true), best(false)) {
            (Some(ours), Some(theirs)) if ours.1 <= theirs.1 => (ours, Some(theirs)),
            (Some(ours), Some(theirs)) => (theirs, Some(ours)),
            (ours, theirs) => (ours.or(theirs)?, None),
        };
        let (run, seconds) = won;
        Some(Winner { tool: &run.tool, is_own: run.is_own, factor: other.map(|other| other.1 / seconds) })
    }
}

/// A complete report.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The machine: kernel, processors, versions.
    pub machine: Vec<(String, String)>,
    /// Tools that were not measured, with the reason.
    pub skipped: Vec<(String, String)>,
    /// Results by setting.
    pub cells: Vec<Cell>,
}

impl Report {
    /// Whether every run of ethbcast delivered correct data to every receiver.
    pub fn all_verified(&self) -> bool {
        let good = |cell: &Cell| {
            let mut own = cell.runs.iter().filter(|run| run.is_own);
            own.all(|run| run.seconds(cell.setting.receivers).is_some())
        };
        self.cells.iter().all(good)
    }

    /// Returns the names of all tools, in the order of their first occurrence.
    pub fn tools(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for run in self.cells.iter().flat_map(|cell| &cell.runs) {
            if !names.contains(&run.tool.as_str()) {
                names.push(&run.tool);
            }
        }
        names
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Creates a cell with these times. Names that begin with `ethbcast` are ours.
    pub(crate) fn cell(setting: Setting, times: &[(&str, Option<f64>)]) -> Cell {
        let run = |&(tool, seconds): &(&str, Option<f64>)| Run {
            tool: tool.to_owned(),
            is_own: tool.starts_with("ethbcast"),
            outcome: seconds.ok_or_else(|| "it <failed>".to_owned()).map(|seconds| Figures {
                seconds,
                processor_seconds_per_gib: setting.is_file().then_some(1.5),
                verified: setting.receivers,
            }),
        };
        let raw = Ceiling { broadcast_bits_per_second: 1e9, chain_bits_per_second: 5e8 };
        Cell { setting, raw, runs: times.iter().map(run).collect() }
    }

    pub(crate) fn setting(receivers: u16, size_bytes: u64, loss: f64) -> Setting {
        Setting { receivers, mtu_bytes: 1500, rate: Some(100_000_000), loss, size_bytes }
    }

    #[test]
    fn who_was_fastest_is_said_also_where_it_is_not_us() {
        let winner = |times: &[(&str, Option<f64>)]| {
            let cell = cell(setting(3, 1 << 24, 0.0), times);
            cell.winner().map(|winner| (winner.tool.to_owned(), winner.is_own, winner.factor))
        };
        let (chain, cast) = ("ethbcast chain", "ethbcast cast");
        assert_eq!(
            winner(&[(chain, Some(2.0)), (cast, Some(3.0)), ("udpcast", Some(5.0)), ("uftp", None)]),
            Some((chain.to_owned(), true, Some(2.5)))
        );
        assert_eq!(
            winner(&[(chain, Some(2.0)), ("TCP chain", Some(1.0))]),
            Some(("TCP chain".to_owned(), false, Some(2.0)))
        );
        assert_eq!(winner(&[(chain, Some(2.0)), (cast, None)]), Some((chain.to_owned(), true, None)));
        assert_eq!(winner(&[(chain, None)]), None);
    }

    #[test]
    fn a_run_whose_receivers_do_not_all_have_the_bytes_has_no_time() {
        let mut broken = cell(setting(3, 1 << 24, 0.0), &[("ethbcast chain", Some(2.0))]);
        let report = |cell: &Cell| Report { machine: vec![], skipped: vec![], cells: vec![cell.clone()] };
        assert!(report(&broken).all_verified());
        broken.runs[0].outcome.as_mut().expect("finished").verified = 2;
        assert_eq!((broken.winner(), report(&broken).all_verified()), (None, false));
    }

    #[test]
    fn the_wire_limit_counts_every_frames_headers() {
        assert_eq!(setting(1, 1468, 0.0).wire_seconds(), Some(1514.0 * 8.0 / 1e8));
        assert_eq!(Setting { rate: None, ..setting(1, 1468, 0.0) }.wire_seconds(), None);
    }
}
