//! On which CPUs the two ends run: that decides what a wake-up costs, and left to itself the kernel moves them about.

use std::thread::{Scope, ScopedJoinHandle};

use anyhow::Context;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Where both ends of a conversation run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On one CPU: a wake-up is a switch between threads.
    Together,
    /// On two CPUs: a wake-up is an interrupt from one to the other, and both may spin.
    Apart,
    /// Wherever the kernel puts them.
    Anywhere,
}

impl Place {
    /// Starts a thread for end 0 or 1 in its place.
    pub fn spawn<'scope, T: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        end: usize,
        work: impl FnOnce() -> anyhow::Result<T> + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, anyhow::Result<T>> {
        scope.spawn(move || {
            match self {
                Place::Together => pin(0)?,
                Place::Apart => pin(end)?,
                Place::Anywhere => {}
            }
            work()
        })
    }
}

/// Ties this thread to one of the CPUs it may run on.
fn pin(nth: usize) -> anyhow::Result<()> {
    let this_thread = Pid::from_raw(0);
    let allowed = sched_getaffinity(this_thread)?;
    let mut cpus = (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap_or(false));
    let cpu = cpus.nth(nth).context("two ends need two CPUs")?;
    let mut only = CpuSet::new();
    only.set(cpu)?;
    Ok(sched_setaffinity(this_thread, &only)?)
}
