//! Everything that can be wrong with a lab, each with what to do instead.

use std::path::PathBuf;

use crate::names::DEFAULT_LAB;

/// Why a lab could not be brought up, used or taken down.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The caller is not root.
    #[error("a lab is made of network namespaces, which only root may make: type the same command after `sudo`")]
    NotRoot,

    /// One of the programs the lab is made with is not installed.
    #[error("the program `{program}` is missing: install it with `apt install {package}`")]
    ToolMissing {
        /// The program that was looked for.
        program: &'static str,
        /// The Debian package it comes in.
        package: &'static str,
    },

    /// The kernel was built without something the lab needs.
    #[error("this kernel lacks {feature}, so it cannot run this lab (the kernel said: {complaint}); {advice}")]
    KernelLacks {
        /// What is missing, in words and as a kernel option.
        feature: &'static str,
        /// What to do about it.
        advice: &'static str,
        /// The message of the program that found out.
        complaint: String,
    },

    /// A lab of that name is already up, whole or in pieces.
    #[error("the lab `{0}` is already up: type `{down}` first, or choose another name", down = down_command(.0))]
    LabExists(String),

    /// No lab of that name is up.
    #[error("no lab `{name}` is up ({}): type `ethbcast lab up` first", running_labs(running))]
    NoSuchLab {
        /// The name that was asked for.
        name: String,
        /// The labs that are up.
        running: Vec<String>,
    },

    /// A lab of that name is there in part: a crash left it behind.
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
        /// The host that was asked for.
        host: String,
        /// The hosts there are.
        hosts: Vec<String>,
    },

    /// A rate that cannot be read, or that no cable can be shaped to.
    #[error(
        "`{0}` is not a usable rate: write a number of bits per second from 64kbit to 1000gbit, like 100mbit, or \
         `unlimited`"
    )]
    BadRate(String),

    /// A loss that is no fraction.
    #[error(
        "a loss of {0} is not usable: give a fraction from 0 (none) to below 1, like 0.01 for one frame in a hundred"
    )]
    BadLoss(f64),

    /// An MTU, in bytes, that no veth can have.
    #[error("an MTU of {0} bytes is not usable: choose one from 68 to 65535")]
    BadMtu(u32),

    /// A queue that could not hold a single frame.
    #[error("a {which} of {queue_bytes} bytes cannot hold one frame: give it at least {least_bytes} bytes")]
    BadQueue {
        /// Which queue: the host's or the switch port's.
        which: &'static str,
        /// The size as it was given.
        queue_bytes: u32,
        /// The smallest size that works with this MTU.
        least_bytes: u32,
    },

    /// A lab name that cannot be part of a namespace's name.
    #[error(
        "`{name}` cannot name a lab: use 1 to {longest} letters, digits, `_` and `.` (a `-` ends the lab's name inside \
         a namespace's)"
    )]
    BadLabName {
        /// The name as it was given.
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
        /// The name as it was given.
        host: String,
        /// The longest name allowed, in bytes.
        longest: usize,
    },

    /// More hosts or switches than the lab has addresses for.
    #[error("a lab of {found} {what} is too large: it can have at most {most}")]
    TooLarge {
        /// What there are too many of.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there may be.
        most: usize,
    },

    /// SIGINT, SIGTERM or SIGHUP arrived while the lab was coming up; what was there of it is gone again.
    #[error("interrupted while the lab was coming up: it has been taken down again")]
    Interrupted,

    /// Processes inside the lab survived SIGKILL.
    #[error(
        "processes {0:?} in the lab do not end even after SIGKILL: see what they wait for in `ps`, then take the \
         lab down again"
    )]
    ProcessesRemain(Vec<i32>),

    /// Namespaces are still there after they were deleted.
    #[error("the namespaces {namespaces:?} could not be deleted ({complaint}): type `ip netns delete` for each")]
    NamespacesRemain {
        /// Their names.
        namespaces: Vec<String>,
        /// What `ip` said.
        complaint: String,
    },

    /// `ip`, `tc` or `nft` refused something for a reason the lab does not know.
    #[error("`{program}` failed while {doing}, in the words: {complaint}")]
    Tool {
        /// The program.
        program: &'static str,
        /// What the lab was doing.
        doing: String,
        /// What it wrote to standard error.
        complaint: String,
    },

    /// The operating system refused something.
    #[error("{doing} failed: {source}")]
    System {
        /// What the lab was doing.
        doing: String,
        /// The system's reason.
        source: std::io::Error,
    },

    /// A file of the kernel did not read as expected.
    #[error("`{}` does not list the interface {interface}: is it still in its namespace?", path.display())]
    NoInterface {
        /// The file.
        path: PathBuf,
        /// The interface that is not in it.
        interface: &'static str,
    },
}

impl LabError {
    /// Makes the error for a system call that failed while `doing` something.
    pub(crate) fn system(doing: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::System { doing: doing.into(), source: source.into() }
    }
}

/// The command that takes down the lab `name`.
fn down_command(name: &str) -> String {
    if name == DEFAULT_LAB { "ethbcast lab down".into() } else { format!("ethbcast lab down --lab {name}") }
}

/// The labs that are up, in words.
fn running_labs(running: &[String]) -> String {
    match running {
        [] => "none is".into(),
        [one] => format!("`{one}` is"),
        several => format!("`{}` are", several.join("`, `")),
    }
}
