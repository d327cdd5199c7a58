//! Placement of the two ends on CPUs. It decides the cost of a wake-up, and by default the kernel
//! moves threads about.

use std::thread::{Scope, ScopedJoinHandle};

use anyhow::Context;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On one CPU: a wake-up is a switch between threads.
    Together,
    /// On two CPUs: a wake-up is an interrupt from one to the other, and both may spin.
    Apart,
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

fn pin(nth: usize) -> anyhow::Result<()> {
    let this_thread = Pid::from_raw(0);
    let allowed = sched_getaffinity(this_thread)?;
    let mut cpus = (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap_or(false));
    let cpu = cpus.nth(nth).context("two ends need two CPUs")?;
    let mut only = CpuSet::new();
    only.set(cpu)?;
    Ok(sched_setaffinity(this_thread, &only)?)
}
