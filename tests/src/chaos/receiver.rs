//! A receiver of a run: its program and its destination file.

use std::path::{Path, PathBuf};

use anyhow::Context;
use ethbcast_lab::Lab;

use super::stage::Stage;
use crate::lab::{Process, Stdout, shown_in};

const DESTS: [&str; 2] = ["received.bin", "again.bin"];
/// Names that others put beside the file: the file system, and the process that fills the disk.
const NOT_OURS: [&str; 2] = ["lost+found", "of-somebody-else"];

pub struct Receiver {
    pub host: String,
    pub process: Process,
    pub dest: PathBuf,
}

impl Receiver {
    pub fn start(stage: &Stage, lab: &Lab, host: &str, directory: &Path, again: bool) -> anyhow::Result<Self> {
        let dest = directory.join(DESTS[usize::from(again)]);
        let mut command = stage.program.on(lab, host, "recv")?;
        command.args(["--json", "-i", "eth0", "--max-wait", &stage.terms.receive_wait.as_secs_f64().to_string()]);
        command.args(["--patience", &stage.terms.patience.as_secs_f64().to_string()]).arg(&dest);
        command.env_remove("RUST_LOG").env("RUST_BACKTRACE", "1");
        let process = Process::start(command, Stdout::Kept).with_context(|| format!("the receiver of {host}"))?;
        Ok(Self { host: host.to_owned(), process, dest })
    }

    pub fn strays(&self) -> Vec<String> {
        let mut names = self.dest.parent().map(shown_in).unwrap_or_default();
        names.retain(|name| !DESTS.contains(&name.as_str()) && !NOT_OURS.contains(&name.as_str()));
        names
    }
}
