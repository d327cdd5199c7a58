//! A receiver of a run: its program, and where its file will be.

use std::path::{Path, PathBuf};

use anyhow::Context;
use ethbcast_lab::Lab;

use super::stage::Stage;
use crate::lab::{Process, Stdout, shown_in};

/// The name of the file of a host's first program, and of the one after a reboot.
const DESTS: [&str; 2] = ["received.bin", "again.bin"];
/// What others put beside it: the file system, and who fills the disk.
const NOT_OURS: [&str; 2] = ["lost+found", "of-somebody-else"];

/// A receiver.
pub struct Receiver {
    /// Its host.
    pub host: String,
    /// Its program.
    pub process: Process,
    /// Where its file will be.
    pub dest: PathBuf,
}

impl Receiver {
    /// Starts the receiver of a host, whose directory is there; `again` after a reboot.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(stage: &Stage, lab: &Lab, host: &str, directory: &Path, again: bool) -> anyhow::Result<Self> {
        let dest = directory.join(DESTS[usize::from(again)]);
        let mut command = stage.program.on(lab, host, "recv")?;
        command.args(["--json", "-i", "eth0", "--max-wait", &stage.terms.receive_wait.as_secs_f64().to_string()]);
        command.args(["--patience", &stage.terms.patience.as_secs_f64().to_string()]).arg(&dest);
        command.env_remove("RUST_LOG").env("RUST_BACKTRACE", "1");
        let process = Process::start(command, Stdout::Kept).with_context(|| format!("the receiver of {host}"))?;
        Ok(Self { host: host.to_owned(), process, dest })
    }

    /// What lies beside its file and ought not to.
    pub fn strays(&self) -> Vec<String> {
        let mut names = self.dest.parent().map(shown_in).unwrap_or_default();
        names.retain(|name| !DESTS.contains(&name.as_str()) && !NOT_OURS.contains(&name.as_str()));
        names
    }
}
