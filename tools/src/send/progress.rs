//! What `send` shows on stderr while it works.

use crate::units;
use ethbcast_collectives::session::Root;
use ethbcast_transport::wire::HEADER_BYTES;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar for what all receivers have, and lines for what happens; nothing at all under --quiet.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    quiet: bool,
}

const WITH_SIZE: &str = "{bytes:>10} / {total_bytes} [{wide_bar}] {binary_bytes_per_sec} {eta} {msg}";
const WITHOUT_SIZE: &str = "{bytes:>10} {spinner} {binary_bytes_per_sec} {msg}";

impl Progress {
    /// Shows nothing until something happens.
    pub fn new(quiet: bool) -> Progress {
        Progress { bar: ProgressBar::hidden(), quiet }
    }

    /// A line above the bar.
    pub fn line(&self, text: &str) {
        if self.quiet {
            return;
        }
        self.bar.suspend(|| eprintln!("{text}"));
    }

    /// The stream begins.
    pub fn start(&mut self, root: &Root, receivers: usize, size: Option<u64>) {
        let via = root.view().map(|view| view.via.to_string()).unwrap_or_default();
        let what = size.map_or("a stream".to_owned(), units::bytes);
        self.line(&format!("sending {what} to {receivers} receivers via {via}"));
        if self.quiet {
            return;
        }
        // On a stderr that is no terminal indicatif draws nothing.
        self.bar = ProgressBar::with_draw_target(size, ProgressDrawTarget::stderr_with_hz(5));
        let template = if size.is_some() { WITH_SIZE } else { WITHOUT_SIZE };
        self.bar.set_style(ProgressStyle::with_template(template).expect("the template is a constant"));
    }

    /// Moves the bar to what the slowest receiver has taken.
    pub fn update(&self, root: &Root) {
        if self.bar.is_hidden() {
            return;
        }
        let Some(view) = root.view() else { return };
        let slowest = root.states().min_by_key(|&(_, _, frames)| frames);
        if let Some((rank, state, frames)) = slowest {
            let payload_bytes = u64::from(view.payload_bytes).min(u64::from(u16::MAX) - HEADER_BYTES as u64);
            let bytes = (frames * payload_bytes).min(view.size.unwrap_or(u64::MAX));
            self.bar.set_position(bytes);
            self.bar.set_message(format!("slowest {} ({state:?})", view.members[usize::from(rank)].host).to_lowercase());
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
