//! What a bench measures.

use std::path::PathBuf;
use std::time::Duration;

/// Broadcasts up to this are measured as messages, in memory; larger ones as files.
pub const LONGEST_MESSAGE: u64 = 1 << 20;
/// The largest file: eight copies of it have to fit in memory.
pub const LARGEST_BYTES: u64 = 1 << 30;
/// The ways that can be measured.
pub const WAYS: [&str; 6] = ["chain", "cast", "binary", "binomial", "flat", "auto"];
/// The most receivers, all on this machine.
pub const MOST_RECEIVERS: u16 = 63;
/// The largest MTU: what a veth has at most.
pub const LARGEST_MTU_BYTES: u32 = 65_535;
/// The smallest that is measured: what every Ethernet has, so that other tools fit.
pub const SMALLEST_MTU_BYTES: u32 = 576;

/// What is to be measured: each of these with each other.
#[derive(Clone, Debug)]
pub struct Options {
    /// Ways of ours, out of [`WAYS`].
    pub ways: Vec<&'static str>,
    /// Receivers.
    pub receivers: Vec<u16>,
    /// Bytes of a broadcast.
    pub sizes: Vec<u64>,
    /// MTU of the interfaces, in bytes.
    pub mtus: Vec<u32>,
    /// Shares of frames lost at every host.
    pub losses: Vec<f64>,
    /// Rates of all cables, in bits per second; `None` for as fast as the machine copies.
    pub rates: Vec<Option<u64>>,
    /// Whether other tools are measured, as far as they are installed.
    pub peers: bool,
    /// Broadcasts of a message that are timed; the report has their median.
    pub iterations: u32,
    /// Transfers of a file that are timed; the report has their median.
    pub runs: u32,
    /// How long raw frames are sent for each ceiling.
    pub raw_time: Duration,
    /// How long one run may take before it counts as failed; without it, ten times what the wire needs and 30 s.
    pub limit: Option<Duration>,
    /// The name of the lab that comes up.
    pub lab: String,
    /// The program `ethbcast`; without it, the one beside this program.
    pub program: Option<PathBuf>,
}

impl Options {
    /// What takes about a minute: two ways, two numbers of receivers, a message of two sizes and a file, with and
    /// without loss.
    pub fn short(lab: String) -> Self {
        Self {
            ways: vec!["chain", "cast"],
            receivers: vec![3, 7],
            sizes: vec![4 << 10, 1 << 20, 16 << 20],
            mtus: vec![1500],
            losses: vec![0.0, 0.01],
            rates: vec![Some(100_000_000)],
            peers: false,
            iterations: 20,
            runs: 1,
            raw_time: Duration::from_millis(300),
            limit: None,
            lab,
            program: None,
        }
    }

    /// Refuses what cannot be measured, in a sentence that says what can.
    ///
    /// # Errors
    /// That sentence.
    pub fn check(&self) -> Result<(), String> {
        if let Some(receivers) = self.receivers.iter().find(|&&count| count == 0 || count > MOST_RECEIVERS) {
            return Err(format!(
                "{receivers} receivers cannot be measured on one machine: choose 1 to {MOST_RECEIVERS}"
            ));
        }
        if let Some(size) = self.sizes.iter().find(|&&size| size == 0 || size > LARGEST_BYTES) {
            return Err(format!("a broadcast of {size} bytes cannot be measured: choose --sizes from 1 to 1G"));
        }
        if let Some(mtu) = self.mtus.iter().find(|&&mtu| !(SMALLEST_MTU_BYTES..=LARGEST_MTU_BYTES).contains(&mtu)) {
            return Err(format!(
                "an MTU of {mtu} is not one of the lab's interfaces, which are veth: choose {SMALLEST_MTU_BYTES} to \
                 {LARGEST_MTU_BYTES}"
            ));
        }
        if let Some(loss) = self.losses.iter().find(|loss| !(0.0..=0.5).contains(*loss)) {
            return Err(format!(
                "a loss of {loss} is no share of frames to measure with: choose 0 to 0.5, such as 0.01"
            ));
        }
        Ok(())
    }

    /// The sizes that are sent as messages, and those that are sent as files.
    pub fn messages_and_files(&self) -> (Vec<u64>, Vec<u64>) {
        self.sizes.iter().partition(|&&size| size <= LONGEST_MESSAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut Options)) -> String {
        let mut options = Options::short("lab".to_owned());
        options.check().expect("the defaults");
        change(&mut options);
        options.check().expect_err("it should be refused")
    }

    #[test]
    fn what_cannot_be_measured_is_refused_in_a_sentence_that_says_what_can() {
        assert!(refusal(|options| options.mtus = vec![1500, 65_536]).contains("576 to 65535"));
        assert!(refusal(|options| options.receivers = vec![64]).contains("1 to 63"));
        assert!(refusal(|options| options.sizes = vec![0]).contains("1 to 1G"));
        assert!(refusal(|options| options.losses = vec![f64::NAN]).contains("such as 0.01"));
    }
}
