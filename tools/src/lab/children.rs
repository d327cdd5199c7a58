//! Commands on several hosts of a lab, which are awaited together.

use crate::signals::Interrupt;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::{Child, ExitStatus};
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Exit status of each command, and the signal that ended them, if there was one.
pub struct Ended {
    /// Exit statuses by host, in starting order.
    pub statuses: Vec<(String, ExitStatus)>,
    /// Signal that this process received.
    pub signal: Option<Signal>,
}

/// Waits for all commands, and ends them once this process is interrupted.
pub fn wait(mut children: Vec<(String, Child)>, interrupt: &Interrupt) -> std::io::Result<Ended> {
    let mut told = None;
    loop {
        let mut are_over = true;
        for (_, child) in &mut children {
            are_over &= child.try_wait()?.is_some();
        }
        if are_over {
            break;
        }
        if let (None, Some(signal)) = (told, interrupt.signal()) {
            told = Some(signal);
            for (host, child) in &mut children {
                // After its end the process id may belong to another process.
                if child.try_wait()?.is_none()
                    && let Err(error) = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM)
                {
                    log::debug!("what runs on {host} has just ended: {error}");
                }
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
    let status = |(host, mut child): (String, Child)| Ok((host, child.wait()?));
    let statuses = children.into_iter().map(status).collect::<std::io::Result<_>>()?;
    Ok(Ended { statuses, signal: told })
}
