//! Errors of creating and using a test network, each with advice.

use std::path::PathBuf;

use crate::names::DEFAULT_LAB;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    #[error(
        "a lab is made of network namespaces, which only root may make: type the same command after `sudo`"
    )]
    NotRoot,

    #[error("the program `{program}` is missing: install it with `apt install {package}`")]
    ToolMissing {
        program: &'static str,
        package: &'static str,
    },

    #[error(
        "this kernel lacks {feature}, so it cannot run this lab (the kernel said: {complaint}); {advice}"
    )]
    KernelLacks {
        feature: &'static str,
        advice: &'static str,
        complaint: String,
    },

    /// A lab of that name is already up, whole or in pieces.
    #[error("the lab `{0}` is already up: type `{down}` first, or choose another name", down = down_command(.0))]
    LabExists(String),

    #[error(
        "no lab `{name}` is up ({}): type `ethbcast lab up` first",
        running_labs(running)
    )]
    NoSuchLab { name: String, running: Vec<String> },

    #[error(
        "the lab `{0}` is incomplete, left over from a crash: type `{down}`, then bring it up again",
        down = down_command(.0)
    )]
    Incomplete(String),

    #[error("the lab `{lab}` has no host `{host}`: choose one of {}", hosts.join(", "))]
    NoSuchHost {
        lab: String,
        host: String,
        hosts: Vec<String>,
    },

    #[error(
        "`{0}` is not a usable rate: write a number of bits per second from 64kbit to 1000gbit, like 100mbit, or \
         `unlimited`"
    )]
    BadRate(String),

    #[error(
        "a loss of {0} is not usable: give a fraction from 0 (none) to below 1, like 0.01 for one frame in a hundred"
    )]
    BadLoss(f64),

    #[error("an MTU of {0} bytes is not usable: choose one from 68 to 65535")]
    BadMtu(u32),

    #[error(
        "a {which} of {queue_bytes} bytes cannot hold one frame: give it at least {least_bytes} bytes"
    )]
    BadQueue {
        which: &'static str,
        queue_bytes: u32,
        least_bytes: u32,
    },

    #[error(
        "`{name}` cannot name a lab: use 1 to {longest} letters, digits, `_` and `.` (a `-` ends the lab's name inside \
         a namespace's)"
    )]
    BadLabName { name: String, longest: usize },

    #[error(
        "the host `{host}` cannot be in a lab: name it with 1 to {longest} letters, digits, `_`, `.`, `:` and `-`, and \
         not `switches`"
    )]
    BadHostName { host: String, longest: usize },

    #[error("a lab of {found} {what} is too large: it can have at most {most}")]
    TooLarge {
        what: &'static str,
        found: usize,
        most: usize,
    },

    /// SIGINT, SIGTERM or SIGHUP arrived while the lab was coming up; it has been removed again.
    #[error("interrupted while the lab was coming up: it has been taken down again")]
    Interrupted,

    #[error(
        "processes {0:?} in the lab do not end even after SIGKILL: see what they wait for in `ps`, then take the \
         lab down again"
    )]
    ProcessesRemain(Vec<i32>),

    #[error(
        "the namespaces {namespaces:?} could not be deleted ({complaint}): type `ip netns delete` for each"
    )]
    NamespacesRemain {
        namespaces: Vec<String>,
        complaint: String,
    },

    #[error("`{program}` failed while {doing}, with the message: {complaint}")]
    Tool {
        program: &'static str,
        doing: String,
        complaint: String,
    },

    #[error("{doing} failed: {source}")]
    System {
        doing: String,
        source: std::io::Error,
    },

    #[error("`{}` does not list the interface {interface}: is it still in its namespace?", path.display())]
    NoInterface {
        path: PathBuf,
        interface: &'static str,
    },
}

impl LabError {
    pub(crate) fn system(doing: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::System {
            doing: doing.into(),
            source: source.into(),
        }
    }
}

fn down_command(name: &str) -> String {
    if name == DEFAULT_LAB {
        "ethbcast lab down".into()
    } else {
        format!("ethbcast lab down --lab {name}")
    }
}

fn running_labs(running: &[String]) -> String {
    match running {
        [] => "none is".into(),
        [one] => format!("`{one}` is"),
        several => format!("`{}` are", several.join("`, `")),
    }
}
