//! The protocols a cast can run by: which numbers the engine takes, and when they can be asked for.

use crate::exit::{Code, Failure};
use clap::ValueEnum;
use ethbcast_collectives::session::Route;
use ethbcast_planning::plan::Via;
use ethbcast_transport::Tuning;
use std::fmt;

/// The protocol of a cast. Receivers need not be told: the root's view says what they have to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// Receivers keep what is out of order and name the holes; each is filled once.
    #[default]
    Default,
    /// The EQA paper's Simple Broadcast (§3.2): receivers keep nothing out of order, the root goes back, window 16.
    Paper,
    /// The EQA paper's Push-Pull Broadcast (§3.3): the first frames at once, the rest when a designated receiver has answered.
    PushPull,
}

impl Preset {
    /// Fails unless this protocol has a meaning on `route`: the default on every one, the others on the cast alone.
    ///
    /// # Errors
    /// A [`Failure`] with code 2.
    pub fn check(self, route: &Route) -> anyhow::Result<()> {
        if self == Preset::Default || matches!(route, Route::Via(Via::Cast)) {
            return Ok(());
        }
        let text = format!("--preset {self} is a protocol of the cast and of nothing else: add --via cast");
        Err(Failure::new(Code::Usage, text).into())
    }

    /// The numbers of this protocol, with the buffer of `wire`, whose ring was made for it.
    pub fn tuning(self, wire: &Tuning) -> Tuning {
        let numbers = match self {
            Preset::Default => Tuning::default(),
            Preset::Paper => Tuning::paper(),
            Preset::PushPull => Tuning::push_pull(),
        };
        Tuning { feed: wire.feed.clone(), ..numbers }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Preset::Default => "default",
            Preset::Paper => "paper",
            Preset::PushPull => "push-pull",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_transport::Policy;

    #[test]
    fn presets_are_read_as_they_are_written() {
        for &preset in Preset::value_variants() {
            assert_eq!(Preset::from_str(&preset.to_string(), false), Ok(preset));
        }
    }

    #[test]
    fn only_a_cast_has_a_choice_of_protocols() {
        let routes = [Route::Auto, Route::Via(Via::Chain), Route::Via(Via::Cast)];
        let allowed = |preset: Preset| routes.each_ref().map(|route| preset.check(route).is_ok());
        assert_eq!(allowed(Preset::Default), [true, true, true]);
        for preset in [Preset::Paper, Preset::PushPull] {
            assert_eq!(allowed(preset), [false, false, true]);
        }
        let refusal = Preset::Paper.check(&Route::Auto).expect_err("auto may not be a cast").to_string();
        assert_eq!(refusal, "--preset paper is a protocol of the cast and of nothing else: add --via cast");
    }

    #[test]
    fn a_protocol_leaves_the_buffer_as_large_as_the_ring() {
        let wire = Tuning::default().with_feed_frames(256);
        let paper = Preset::Paper.tuning(&wire);
        assert_eq!((paper.policy, paper.window.max_frames, paper.feed.frames), (Policy::InOrderOnly, 16, 256));
        assert_eq!(Preset::Default.tuning(&wire), wire);
        assert_eq!(Preset::PushPull.tuning(&wire), Tuning::push_pull().with_feed_frames(256));
    }
}
