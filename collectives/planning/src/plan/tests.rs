//! A measure of growth for tests of plans: ten times the hosts are about ten times the work, or a hundred times.

use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Returns the processor time of a piece of work, without what passes while others have the processor.
fn time(work: &impl Fn()) -> Duration {
    let now = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has it"));
    let started = now();
    work();
    now() - started
}

/// Holds what takes ten times the hosts against what takes a tenth of them, by their least times: whatever else the
/// machine does only adds to a time. Work that grows with the square of the hosts never meets the bound.
#[track_caller]
pub(crate) fn assert_about_ten_times(tenth: impl Fn(), whole: impl Fn()) {
    let few = (0..5).map(|_| time(&tenth)).min().expect("five").max(Duration::from_micros(10));
    let mut least = Duration::MAX;
    let is_met = (0..100).any(|_| {
        least = least.min(time(&whole));
        least < 40 * few
    });
    assert!(is_met, "{few:?} for a tenth of the hosts, {least:?} for all");
}
