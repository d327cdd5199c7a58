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

macro_rules! targets {
    ($($module:ident::$name:ident, $is_text:literal;)*) => {
        [$(Target {
            name: stringify!($name),
            run: $module::$name,
            is_text: $is_text,
        }),*]
    };
}

/// All targets: decoders, and whole machines.
pub const TARGETS: [Target; 15] = targets! {
    decoders::frame, false;
    decoders::control, false;
    decoders::view, false;
    decoders::topology, true;
    decoders::network, true;
    decoders::plan, true;
    decoders::calibration, true;
    decoders::manifest, false;
    decoders::map, false;
    decoders::journal, false;
    decoders::sections, false;
    decoders::qcow2, false;
    decoders::packed, false;
    machines::session, false;
    machines::group, false;
};

pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target
        .expect("a program of tests/fuzz has the name of a target")
        .run)(bytes);
}
