//! Fuzz targets for everything that takes untrusted bytes: decoders and protocol state machines. A
//! target panics if anything is wrong.
//!
//! `tests/fuzz` runs the targets under libFuzzer. `tests/tests/simulation/swarm.rs` runs the corpus
//! kept in `tests/corpus`, and some seconds of mutations of it, on any compiler.

mod corpus;
mod decoders;
mod machines;

pub use corpus::{Entry, Mutator, keep, load};
pub use machines::make_checksum_fit;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name of its program in `tests/fuzz` and of its corpus file.
    pub name: &'static str,
    /// Runs the target on an input.
    pub run: fn(&[u8]),
    /// Whether its inputs are text.
    pub is_text: bool,
}

impl Target {
    pub fn corpus(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(self.name)
            .with_extension("hex")
    }
}

/// All targets: decoders, and whole machines.
pub const TARGETS: [Target; 15] = [
    Target {
        name: "frame",
        run: decoders::frame,
        is_text: false,
    },
    Target {
        name: "control",
        run: decoders::control,
        is_text: false,
    },
    Target {
        name: "view",
        run: decoders::view,
        is_text: false,
    },
    Target {
        name: "topology",
        run: decoders::topology,
        is_text: true,
    },
    Target {
        name: "network",
        run: decoders::network,
        is_text: true,
    },
    Target {
        name: "plan",
        run: decoders::plan,
        is_text: true,
    },
    Target {
        name: "calibration",
        run: decoders::calibration,
        is_text: true,
    },
    Target {
        name: "manifest",
        run: decoders::manifest,
        is_text: false,
    },
    Target {
        name: "map",
        run: decoders::map,
        is_text: false,
    },
    Target {
        name: "journal",
        run: decoders::journal,
        is_text: false,
    },
    Target {
        name: "sections",
        run: decoders::sections,
        is_text: false,
    },
    Target {
        name: "qcow2",
        run: decoders::qcow2,
        is_text: false,
    },
    Target {
        name: "packed",
        run: decoders::packed,
        is_text: false,
    },
    Target {
        name: "session",
        run: machines::session,
        is_text: false,
    },
    Target {
        name: "group",
        run: machines::group,
        is_text: false,
    },
];

pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target
        .expect("a program of tests/fuzz has the name of a target")
        .run)(bytes);
}
