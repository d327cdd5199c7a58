//! What `recv` shows on stderr while it works.

use crate::units;
use ethbcast_collectives::session::Receiver;
use ethbcast_planning::plan::Via;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar for what has been taken, and lines for what happens; nothing at all under --quiet.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    quiet: bool,
}

impl Progress {
    /// Shows nothing until something happens.
    pub fn new(quiet: bool) -> Progress {
        Progress { bar: ProgressBar::hidden(), quiet }
    }

    /// A sender was found.
    pub fn invited(&self, host: &str, source: &str, size: Option<u64>) {
        if !self.quiet {
            let size = size.map_or("a stream of unknown length".to_owned(), units::bytes);
            eprintln!("{host} offers {source}, {size}");
        }
    }

    /// The stream begins.
    pub fn start(&mut self, rank: u16, receivers: usize, via: Via, size: Option<u64>) {
        if self.quiet {
            return;
        }
        log::info!("receiving as rank {rank} of {receivers} via {via}");
        self.bar = ProgressBar::with_draw_target(size, ProgressDrawTarget::stderr_with_hz(5));
        let template = match size {
            Some(_) => "{bytes:>10} / {total_bytes} [{wide_bar}] {binary_bytes_per_sec} {eta}",
            None => "{bytes:>10} {spinner} {binary_bytes_per_sec}",
        };
        self.bar.set_style(ProgressStyle::with_template(template).expect("the template is a constant"));
    }

    /// Moves the bar to what has arrived in order.
    pub fn update(&self, receiver: &Receiver) {
        if self.bar.is_hidden() {
            return;
        }
        if let Some(streams) = receiver.streams() {
            let bytes = streams.frames() * streams.payload_bytes() as u64;
            self.bar.set_position(self.bar.length().map_or(bytes, |length| bytes.min(length)));
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
