//! Runs of other programs for `ethbcast doctor`, such as iproute2 and nftables, with a time limit.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

pub const PATIENCE: Duration = Duration::from_secs(5);

/// Runs `work` on a thread and returns its result, or `None` if it exceeds `patience`. The thread
/// then continues until its end or that of the process.
pub fn within<T: Send + 'static>(
    patience: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, answer) = mpsc::channel();
    // The receiver may no longer wait.
    thread::spawn(move || drop(done.send(work())));
    answer.recv_timeout(patience).ok()
}

pub fn text_of(program: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("LC_ALL", "C")
        .env_remove("ETHBCAST_KEY")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command
        .spawn()
        .map_err(|error| format!("`{program}` does not run: {error}"))?;
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
    let Some(output) = within(PATIENCE, || child.wait_with_output()) else {
        // The child has not been waited for, so that its process id is still valid.
        if let Err(errno) = kill(pid, Signal::SIGKILL) {
            log::debug!("ending {program}: {errno}");
        }
        return Err(format!(
            "`{program} {}` has not ended after {PATIENCE:?}",
            arguments.join(" ")
        ));
    };
    let output = output.map_err(|error| format!("`{program}`: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("BusyBox") {
            return Err(format!(
                "`{program}` is busybox's here, and cannot tell: install iproute2 and ethtool"
            ));
        }
        return Err(format!(
            "`{program} {}`: {}",
            arguments.join(" "),
            said.lines().next().unwrap_or("it failed")
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub fn json_of(program: &str, arguments: &[&str]) -> Result<Value, String> {
    let text = text_of(program, arguments)?;
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(&text).map_err(|error| format!("`{program}` writes no JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_busybox_is_named_as_what_it_is() {
        let why = text_of(
            "sh",
            &["-c", "echo 'BusyBox v1.36.1 multi-call binary' >&2; exit 1"],
        )
        .expect_err("it failed");
        assert!(
            why.contains("is busybox's here") && why.contains("install iproute2"),
            "{why}"
        );
        let why =
            text_of("sh", &["-c", "echo 'no such device' >&2; exit 1"]).expect_err("it failed");
        assert!(why.contains("no such device"), "{why}");
    }

    #[test]
    fn a_program_that_does_not_end_is_not_waited_for() {
        assert_eq!(within(PATIENCE, || 7), Some(7));
        let (stays, never) = mpsc::channel::<()>();
        assert_eq!(
            within(Duration::from_millis(1), move || never.recv().is_ok()),
            None
        );
        drop(stays);
    }
}
