//! Presets of protocol parameters, among them those of the EQA paper, and configured broadcast
//! algorithms.

use ethbcast_planning::plan::Via;
use ethbcast_planning::plan::file::SavedPlan;
use ethbcast_transport::Tuning;
use ethbcast_transport::messages::Settings;
use std::fmt;
use std::str::FromStr;

/// Preset of protocol parameters. All ranks of a communicator must use one. Receivers of a session
/// learn it from the root's view, where a preset other than the default selects a cast protocol and
/// nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Preset {
    /// Selective repair, large windows, long pushes: receivers keep frames out of order and name
    /// the holes; each is filled once.
    #[default]
    Default = 0,
    /// The EQA paper's Simple Broadcast (§3.2): strict go-back-n with a window of 16; messages push
    /// BTP 80 + 780 bytes.
    Paper = 1,
    /// Like `Paper`, but only the beginning of a long broadcast is pushed; the rest follows as
    /// receivers grant it (EQA §3.3).
    PushPull = 2,
}

/// Error: no preset has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no preset `{0}`: choose one of default, paper, push-pull")]
pub struct UnknownPreset(String);

impl Preset {
    /// All presets.
    pub const ALL: [Preset; 3] = [Preset::Default, Preset::Paper, Preset::PushPull];

    /// Returns its name on command lines and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Preset::Default => "default",
            Preset::Paper => "paper",
            Preset::PushPull => "push-pull",
        }
    }

    /// Returns the settings of messages.
    pub fn settings(self) -> Settings {
        match self {
            Preset::Default => Settings::default(),
            Preset::Paper | Preset::PushPull => Settings::paper(),
        }
    }

    /// Returns the tuning of streams.
    pub fn tuning(self) -> Tuning {
        match self {
            Preset::Default => Tuning::default(),
            Preset::Paper => Tuning::paper(),
            Preset::PushPull => Tuning::push_pull(),
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Preset {
    type Err = UnknownPreset;

    fn from_str(name: &str) -> Result<Preset, UnknownPreset> {
        let named = Preset::ALL.into_iter().find(|preset| preset.name() == name);
        named.ok_or_else(|| UnknownPreset(name.to_owned()))
    }
}

/// Broadcast algorithm or saved plan that a sender is configured to use.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Route {
    /// The route of least predicted time.
    #[default]
    Auto,
    /// A fixed route, in the segments of least predicted time.
    Via(Via),
    /// A saved plan.
    Saved(Box<SavedPlan>),
}

/// Encodes a route as two bytes: its number, and the children of a k-ary tree.
pub(crate) fn via_to_wire(via: Via) -> (u8, u8) {
    match via {
        Via::Chain => (1, 0),
        Via::Cast => (2, 0),
        Via::Binary => (3, 0),
        Via::Kary(children) => (4, children),
        Via::Flat => (5, 0),
        Via::Binomial => (6, 0),
        Via::ScatterAllgather => (7, 0),
        Via::RecursiveDoubling => (8, 0),
        Via::ChainUnaware => (9, 0),
        Via::BinaryUnaware => (10, 0),
        Via::Latency => (11, 0),
        Via::BinaryBest => (12, 0),
        Via::TwoTree => (13, 0),
    }
}

pub(crate) fn via_from_wire(number: u8, children: u8) -> Option<Via> {
    let via = Via::every().find(|&via| via_to_wire(via).0 == number)?;
    match via {
        Via::Kary(_) => Via::KARY_CHILDREN
            .contains(&children)
            .then_some(Via::Kary(children)),
        via => (children == 0).then_some(via),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_read_as_they_are_written() {
        for preset in Preset::ALL {
            assert_eq!(preset.to_string().parse(), Ok(preset));
        }
        assert!(
            "Paper"
                .parse::<Preset>()
                .is_err_and(|error| error.to_string().contains("push-pull"))
        );
    }
}
