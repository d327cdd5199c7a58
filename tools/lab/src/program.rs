//! Runs `ip`, `tc` and `nft` for a test network, and explains their errors. Ctrl-C is held back
//! meanwhile.

use crate::error::LabError;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Uid;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    name: &'static str,
    package: &'static str,
}

pub(crate) const IP: Program = Program {
    name: "ip",
    package: "iproute2",
};
pub(crate) const TC: Program = Program {
    name: "tc",
    package: "iproute2",
};
pub(crate) const NFT: Program = Program {
    name: "nft",
    package: "nftables",
};

/// Features that a kernel may lack: the program that fails, its message, the feature in words, and
/// advice.
const KERNEL_GAPS: [(Program, &str, &str, &str); 6] = [
    (IP, "Unknown device type", LINK_FEATURE, LINK_ADVICE),
    (IP, "Operation not supported", LINK_FEATURE, LINK_ADVICE),
    (TC, "qdisc kind is unknown", SHAPER_FEATURE, SHAPER_ADVICE),
    (
        TC,
        "No such file or directory",
        SHAPER_FEATURE,
        SHAPER_ADVICE,
    ),
    (NFT, "No such file or directory", LOSS_FEATURE, LOSS_ADVICE),
    (NFT, "Operation not supported", LOSS_FEATURE, LOSS_ADVICE),
];

const LINK_FEATURE: &str = "veth pairs or bridges (CONFIG_VETH, CONFIG_BRIDGE)";
const LINK_ADVICE: &str = "try `modprobe veth bridge`";
const SHAPER_FEATURE: &str = "the token bucket (CONFIG_NET_SCH_TBF)";
const SHAPER_ADVICE: &str = "try `modprobe sch_tbf`, or leave the rate unlimited";
const LOSS_FEATURE: &str =
    "nftables with ingress hooks and random numbers (CONFIG_NF_TABLES_NETDEV, CONFIG_NFT_NUMGEN)";
const LOSS_ADVICE: &str = "try `modprobe nf_tables nft_numgen`, or set the loss to 0";

pub(crate) fn require_root() -> Result<(), LabError> {
    if Uid::effective().is_root() {
        Ok(())
    } else {
        Err(LabError::NotRoot)
    }
}

/// Runs `program` with `arguments` and `input`, and returns its output; `doing` is for the error.
///
/// The program inherits the calling thread's network namespace. It has a process group of its own,
/// so that a Ctrl-C at the terminal never interrupts it within a step.
pub(crate) fn run(
    program: Program,
    arguments: &[&str],
    input: &str,
    doing: &str,
) -> Result<String, LabError> {
    let output = spawn(program, arguments)
        .and_then(|child| feed(child, input))
        .map_err(|source| match source.kind() {
            ErrorKind::NotFound => LabError::ToolMissing {
                program: program.name,
                package: program.package,
            },
            _ => LabError::system(format!("running `{}`", program.name), source),
        })?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(diagnose(
            program,
            &String::from_utf8_lossy(&output.stderr),
            doing,
        ))
    }
}

/// Feeds lines to `ip` or `tc` in batch mode, which stops at the first failure. An empty batch runs
/// nothing.
pub(crate) fn batch(program: Program, lines: &str, doing: &str) -> Result<(), LabError> {
    if lines.is_empty() {
        Ok(())
    } else {
        run(program, &["-batch", "-"], lines, doing).map(drop)
    }
}

fn spawn(program: Program, arguments: &[&str]) -> std::io::Result<Child> {
    Command::new(program.name)
        .args(arguments)
        .env("LC_ALL", "C")
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

/// Writes the input and collects the output.
///
/// A program that fails early stops reading (EPIPE); its own message is more useful than the
/// pipe's. No program here prints more than a pipe holds, so that writing before reading cannot
/// block.
fn feed(mut child: Child, input: &str) -> std::io::Result<Output> {
    if let Some(mut stdin) = child.stdin.take()
        && let Err(error) = stdin.write_all(input.as_bytes())
        && error.kind() != ErrorKind::BrokenPipe
    {
        return Err(error);
    }
    child.wait_with_output()
}

fn diagnose(program: Program, stderr: &str, doing: &str) -> LabError {
    let complaint = first_complaint(stderr);
    let gap = KERNEL_GAPS
        .iter()
        .find(|(finder, symptom, ..)| *finder == program && complaint.contains(symptom));
    match gap {
        Some(&(_, _, feature, advice)) => LabError::KernelLacks {
            feature,
            advice,
            complaint,
        },
        None => LabError::Tool {
            program: program.name,
            doing: doing.to_owned(),
            complaint,
        },
    }
}

fn first_complaint(stderr: &str) -> String {
    let said = stderr
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or("(it said nothing)");
    said.trim_start_matches("Error: ")
        .trim_end_matches('.')
        .to_owned()
}

const STATUS: &str = "/proc/self/status";

/// Blocks SIGINT, SIGTERM and SIGHUP on this thread, except for those that the process ignores.
///
/// A pending signal is delivered on drop and then has its usual effect. In a program with several
/// threads the system may deliver a signal to another thread at once; the clean-up works only if
/// those threads block it as well.
pub(crate) struct InterruptsHeld {
    before: SigSet,
    pending: SignalFd,
}

impl InterruptsHeld {
    pub(crate) fn new() -> Result<Self, LabError> {
        // An ignored signal would become pending once it is blocked, so that signals ignored by
        // `nohup` are left alone.
        let ignored = fs::read_to_string(STATUS).map_or(0, |status| ignored_signals(&status));
        let is_heeded = |signal: &Signal| ignored >> (*signal as u32 - 1) & 1 == 0;
        let held: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]
            .into_iter()
            .filter(is_heeded)
            .collect();
        let failed = |source| LabError::system("holding back interrupts", source);
        let pending = SignalFd::with_flags(&held, SfdFlags::SFD_CLOEXEC).map_err(failed)?;
        let before = held
            .thread_swap_mask(SigmaskHow::SIG_BLOCK)
            .map_err(failed)?;
        Ok(Self { before, pending })
    }

    /// Fails if a signal is pending. The signal is still delivered later.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        let mut watched = [PollFd::new(self.pending.as_fd(), PollFlags::POLLIN)];
        match poll(&mut watched, PollTimeout::ZERO) {
            Ok(0) => Ok(()),
            Ok(_) => Err(LabError::Interrupted),
            Err(source) => Err(LabError::system("looking for interrupts", source)),
        }
    }
}

impl Drop for InterruptsHeld {
    fn drop(&mut self) {
        if let Err(error) = self.before.thread_set_mask() {
            log::error!("cannot let interrupts through again: {error}");
        }
    }
}

/// Returns the mask of ignored signals, signal 1 lowest, from a process's status
/// (proc_pid_status(5)).
fn ignored_signals(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::raise;

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let missing = Program {
            name: "ethbcast-no-such-program",
            package: "nftables",
        };
        let error = run(missing, &[], "", "testing")
            .expect_err("it does not exist")
            .to_string();
        assert!(error.contains("apt install nftables"), "{error}");
    }

    #[test]
    fn a_missing_kernel_feature_is_distinguished_from_a_mistake() {
        let gap = diagnose(
            TC,
            "Error: Specified qdisc kind is unknown.\nCommand failed -:1\n",
            "shaping",
        )
        .to_string();
        assert!(
            gap.contains("CONFIG_NET_SCH_TBF") && gap.contains("modprobe sch_tbf"),
            "{gap}"
        );
        let mistake = diagnose(
            IP,
            "\nRTNETLINK answers: File exists\nCommand failed -:3\n",
            "wiring the lab",
        )
        .to_string();
        assert_eq!(
            mistake,
            "`ip` failed while wiring the lab, with the message: RTNETLINK answers: File exists"
        );
        assert!(
            diagnose(NFT, "", "losing")
                .to_string()
                .contains("said nothing")
        );
    }

    #[test]
    fn a_program_that_stops_reading_early_still_gets_to_say_why() {
        let many_lines = "link add\n".repeat(100_000);
        let shell = Program {
            name: "sh",
            package: "dash",
        };
        let reader = "read line; echo \"there is no $line\" >&2; exit 1";
        let error = run(shell, &["-c", reader], &many_lines, "testing")
            .expect_err("the first line is wrong");
        assert!(
            matches!(error, LabError::Tool { program: "sh", .. }),
            "{error}"
        );
        assert!(
            error.to_string().contains("there is no link add"),
            "{error}"
        );
    }

    #[test]
    fn an_interrupt_is_noticed_without_being_swallowed() {
        let held = InterruptsHeld::new().expect("holding");
        held.check().expect("nothing has come yet");
        raise(Signal::SIGTERM).expect("raise goes to this thread");
        assert!(matches!(held.check(), Err(LabError::Interrupted)));
        assert!(
            matches!(held.check(), Err(LabError::Interrupted)),
            "looking must not take it"
        );
        let taken = held
            .pending
            .read_signal()
            .expect("readable")
            .expect("it is still there");
        assert_eq!(taken.ssi_signo, Signal::SIGTERM as u32);
        held.check()
            .expect("now it is gone, or dropping would end the test run");
    }

    #[test]
    fn ignored_signals_are_read_from_the_processs_status() {
        let status =
            "SigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000004002\n";
        assert_eq!(ignored_signals(status), 1 << 12 | 1, "SIGPIPE and SIGHUP");
        assert_eq!(ignored_signals("Name:\tx\n"), 0);
    }
}
