//! The protocols there are: which numbers streams and messages go by.

use ethbcast_transport::Tuning;
use ethbcast_transport::messages::Settings;
use std::fmt;
use std::str::FromStr;

/// The protocol's numbers. Ranks of a communicator must all use the same; receivers of a session are told by the root's
/// view, where a preset other than the default is a protocol of the cast and of nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Preset {
    /// Hole repair, large windows, long pushes: receivers keep what is out of order and name the holes; each is filled
    /// once.
    #[default]
    Default = 0,
    /// The EQA paper's Simple Broadcast (§3.2): strict go-back-n with a window of 16; messages push BTP 80 + 780 bytes.
    Paper = 1,
    /// As `Paper`, but of a long broadcast only the beginning is pushed; the rest follows as receivers grant it (EQA
    /// §3.3).
    PushPull = 2,
}

/// No preset is called so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no preset `{0}`: choose one of default, paper, push-pull")]
pub struct UnknownPreset(String);

impl Preset {
    /// All of them.
    pub const ALL: [Preset; 3] = [Preset::Default, Preset::Paper, Preset::PushPull];

    /// Its name on command lines and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Preset::Default => "default",
            Preset::Paper => "paper",
            Preset::PushPull => "push-pull",
        }
    }

    /// The numbers of messages.
    pub fn settings(self) -> Settings {
        match self {
            Preset::Default => Settings::default(),
            Preset::Paper | Preset::PushPull => Settings::paper(),
        }
    }

    /// The numbers of streams.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_read_as_they_are_written() {
        for preset in Preset::ALL {
            assert_eq!(preset.to_string().parse(), Ok(preset));
        }
        assert!("Paper".parse::<Preset>().is_err_and(|error| error.to_string().contains("push-pull")));
    }
}
