//! Errors of a lab, each with advice.

use std::path::PathBuf;

use crate::names::DEFAULT_LAB;

/// Reason why a lab could not be brought up, used or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The caller is not root.
    #[error("a lab is made of network namespaces, which only root may make: type the same command after `sudo`")]
    NotRoot,

    /// A required program is not installed.
    #[error("the program `{program}` is missing: install it with `apt install {package}`")]
    ToolMissing {
        /// Name of the program.
        program: &'static str,
        /// Debian package that contains it.
        package: &'static str,
    },

    /// The kernel lacks a required feature.
    #[error("this kernel lacks {feature}, so it cannot run this lab (the kernel said: {complaint}); {advice}")]
    KernelLacks {
        /// The feature, in plain text and as a kernel option.
        feature: &'static str,
        /// Advice.
        advice: &'static str,
        /// Message of the program that failed.
        complaint: String,
    },

    /// A lab of that name is already up, whole or in pieces.
    #[error("the lab `{0}` is already up: type `{down}` first, or choose another name", down = down_command(.0))]
    LabExists(String),

    /// A lab of that name is not up.
    #[error("no lab `{name}` is up ({}): type `ethbcast lab up` first", running_labs(running))]
    NoSuchLab {
        /// The given name.
        name: String,
        /// The labs that are up.
        running: Vec<String>,
    },

    /// The lab is incomplete after a crash.
    #[error(
        "the lab `{0}` is incomplete, left over from a crash: type `{down}`, then bring it up again",
        down = down_command(.0)
    )]
    Incomplete(String),

    /// The lab has no such host.
    #[error("the lab `{lab}` has no host `{host}`: choose one of {}", hosts.join(", "))]
    NoSuchHost {
        /// The lab's name.
        lab: String,
        /// The given host.
        host: String,
        /// The existing hosts.
        hosts: Vec<String>,
    },

    /// A rate that cannot be read, or to which no cable can be shaped.
    #[error(
        "`{0}` is not a usable rate: write a number of bits per second from 64kbit to 1000gbit, like 100mbit, or \
         `unlimited`"
    )]
    BadRate(String),

    /// A loss outside 0 to below 1.
    #[error(
        "a loss of {0} is not usable: give a fraction from 0 (none) to below 1, like 0.01 for one frame in a hundred"
    )]
    BadLoss(f64),

    /// An MTU in bytes that no veth supports.
    #[error("an MTU of {0} bytes is not usable: choose one from 68 to 65535")]
    BadMtu(u32),

    /// A queue that cannot hold a single frame.
    #[error("a {which} of {queue_bytes} bytes cannot hold one frame: give it at least {least_bytes} bytes")]
    BadQueue {
        /// The host's or the switch port's queue.
        which: &'static str,
        /// The given size.
        queue_bytes: u32,
        /// The smallest size for this MTU.
        least_bytes: u32,
    },

    /// A lab name that cannot be part of a namespace's name.
    #[error(
        "`{name}` cannot name a lab: use 1 to {longest} letters, digits, `_` and `.` (a `-` ends the lab's name inside \
         a namespace's)"
    )]
    BadLabName {
        /// The given name.
        name: String,
        /// The longest name allowed, in bytes.
        longest: usize,
    },

    /// A host name that cannot be part of a namespace's name.
    #[error(
        "the host `{host}` cannot be in a lab: name it with 1 to {longest} letters, digits, `_`, `.`, `:` and `-`, and \
         not `switches`"
    )]
    BadHostName {
        /// The given name.
        host: String,
        /// The longest name allowed, in bytes.
        longest: usize,
    },

    /// More hosts or switches than the lab has addresses for.
    #[error("a lab of {found} {what} is too large: it can have at most {most}")]
    TooLarge {
        /// Hosts or switches, in words.
        what: &'static str,
        /// The given number.
        found: usize,
        /// The limit.
        most: usize,
    },

    /// SIGINT, SIGTERM or SIGHUP arrived while the lab was coming up; it has been removed again.
    #[error("interrupted while the lab was coming up: it has been taken down again")]
    Interrupted,

    /// Processes inside the lab survived SIGKILL.
    #[error(
        "processes {0:?} in the lab do not end even after SIGKILL: see what they wait for in `ps`, then take the \
         lab down again"
    )]
    ProcessesRemain(Vec<i32>),

    /// Namespaces still exist after their deletion.
    #[error("the namespaces {namespaces:?} could not be deleted ({complaint}): type `ip netns delete` for each")]
    NamespacesRemain {
        /// The remaining namespaces.
        namespaces: Vec<String>,
        /// Message of `ip`.
        complaint: String,
    },

    /// `ip`, `tc` or `nft` failed for an unknown reason.
    #[error("`{program}` failed while {doing}, with the message: {complaint}")]
    Tool {
        /// The program.
        program: &'static str,
        /// The lab's operation.
        doing: String,
        /// The program's error output.
        complaint: String,
    },

    /// A system call failed.
    #[error("{doing} failed: {source}")]
    System {
        /// The lab's operation.
        doing: String,
        /// The system's error.
        source: std::io::Error,
    },

    /// A file of the kernel has no line for the interface.
    #[error("`{}` does not list the interface {interface}: is it still in its namespace?", path.display())]
    NoInterface {
        /// Path of the file.
        path: PathBuf,
        /// The missing interface.
        interface: &'static str,
    },
}

impl LabError {
    pub(crate) fn system(doing: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::System { doing: doing.into(), source: source.into() }
    }
}

fn down_command(name: &str) -> String {
    if name == DEFAULT_LAB { "ethbcast lab down".into() } else { format!("ethbcast lab down --lab {name}") }
}

fn running_labs(running: &[String]) -> String {
    match running {
        [] => "none is".into(),
        [one] => format!("`{one}` is"),
        several => format!("`{}` are", several.join("`, `")),
    }
}
