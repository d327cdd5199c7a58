//! Tests of how planning time grows with the number of hosts.

use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

fn time(work: &impl Fn()) -> Duration {
    let now = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has it"));
    let started = now();
    work();
    now() - started
}

/// Compares the least times of `tenth` and `whole`: other load on the machine only adds to a time.
/// Work that grows quadratically never meets the bound.
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
