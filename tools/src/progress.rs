//! What `send` and `recv` show on stderr while they work.

use crate::units;
use ethbcast_collectives::session::{Options, Outcome, Progress, ReceiverEvent, RootEvent};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::{Arc, OnceLock};

const WITH_SIZE: &str = "{bytes:>10} / {total_bytes} [{wide_bar}] {binary_bytes_per_sec} {eta} {msg}";
const WITHOUT_SIZE: &str = "{bytes:>10} {spinner} {binary_bytes_per_sec} {msg}";

/// A bar for what has been taken, by all receivers or by this one, and lines for what happens.
#[derive(Debug, Default)]
pub struct Bar {
    bar: OnceLock<ProgressBar>,
}

impl Bar {
    /// Shows what happens to sessions with these options; nothing at all if `quiet`.
    pub fn show(options: Options, quiet: bool) -> (Options, Arc<Bar>) {
        let bar = Arc::new(Bar::default());
        let shown = Arc::clone(&bar);
        let options = if quiet { options } else { options.on_progress(move |progress| shown.update(&progress)) };
        (options, bar)
    }

    fn update(&self, progress: &Progress<'_>) {
        match progress {
            Progress::Sender(RootEvent::Joined { host, receivers }) => {
                self.line(&format!("{host} joined ({receivers})"))
            }
            Progress::Sender(RootEvent::Refused { host, text }) => self.line(&format!("{host} turned away: {text}")),
            Progress::Sender(RootEvent::Left { host }) => self.line(&format!("{host} left before the start")),
            Progress::Receiver(ReceiverEvent::Invited { host, source, size }) => {
                let size = size.map_or("a stream of unknown length".to_owned(), units::bytes);
                self.line(&format!("{host} offers {source}, {size}"));
            }
            Progress::Sender(RootEvent::Started { receivers, via, size }) => {
                let what = size.map_or("a stream".to_owned(), units::bytes);
                self.line(&format!("sending {what} to {receivers} receivers via {via}"));
                self.start(*size);
            }
            Progress::Receiver(ReceiverEvent::Started { rank, receivers, via, size }) => {
                log::info!("receiving as rank {rank} of {receivers} via {via}");
                self.start(*size);
            }
            Progress::Moved { bytes, slowest } => {
                let Some(bar) = self.bar.get().filter(|bar| !bar.is_hidden()) else { return };
                bar.set_position(*bytes);
                if let Some((host, state)) = slowest {
                    bar.set_message(format!("slowest {host} ({state:?})").to_lowercase());
                }
            }
            Progress::Sender(RootEvent::Reported(report)) if report.outcome != Outcome::Delivered => {
                self.line(&format!("{} failed: {} {}", report.host, report.outcome.word(), report.text));
            }
            _ => {}
        }
    }

    /// A line above the bar.
    fn line(&self, text: &str) {
        match self.bar.get() {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }

    /// The stream begins.
    fn start(&self, size: Option<u64>) {
        self.bar.get_or_init(|| {
            // On a stderr that is no terminal indicatif draws nothing.
            let bar = ProgressBar::with_draw_target(size, ProgressDrawTarget::stderr_with_hz(5));
            let template = if size.is_some() { WITH_SIZE } else { WITHOUT_SIZE };
            bar.set_style(ProgressStyle::with_template(template).expect("the template is a constant"));
            bar
        });
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}
