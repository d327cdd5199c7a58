//! The thread that drives the machine while the application does other things.
//!
//! The thread naps, and checks now and then whether callers still come. If none does it takes the lead and
//! answers within microseconds, until a caller comes. That caller need not wake it: it notices at
//! its next frame, once, and naps again. So a tight loop of calls costs a wake-up per nap and
//! nothing per call.

use super::leader_followers::{LeaderFollowers, Who};
use crate::Machine;
use crate::link::Link;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Length of a nap: 200 wake-ups a second are 0.1 % of a core; a peer's wait for an answer is as
/// long.
const NAP: Duration = Duration::from_millis(5);
/// Time within which a caller is expected back, longer than any pause between calls that matters
/// for latency.
const RECENTLY: Duration = Duration::from_millis(1);
/// Name in `ps`; at most 15 characters.
const THREAD_NAME: &str = "ethb-progress";

pub(super) struct ProgressThread<L: Link<Error: Clone>, M: Machine> {
    core: Arc<LeaderFollowers<L, M>>,
    thread: Option<JoinHandle<()>>,
}

impl<L: Link<Error: Clone>, M: Machine> ProgressThread<L, M> {
    pub(super) fn start(core: Arc<LeaderFollowers<L, M>>) -> io::Result<ProgressThread<L, M>>
    where
        L: Link<Error: Send, Waiter: Send + Sync> + Send + 'static,
        M: Send + 'static,
    {
        let own = Arc::clone(&core);
        let thread = Builder::new().name(THREAD_NAME.to_owned()).spawn(move || run(&own))?;
        Ok(ProgressThread { core, thread: Some(thread) })
    }
}

impl<L: Link<Error: Clone>, M: Machine> Drop for ProgressThread<L, M> {
    fn drop(&mut self) {
        self.core.stop();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error!("the thread {THREAD_NAME} has panicked");
        }
        self.core.flush();
    }
}

fn run<L: Link<Error: Clone>, M: Machine>(core: &LeaderFollowers<L, M>) {
    let mut driven = core.lock();
    while driven.is_running() {
        let now = core.now();
        if !driven.is_led() {
            core.background_round(&mut driven, now);
        }
        if driven.is_attended(now, RECENTLY) {
            core.nap(&mut driven, NAP);
        } else if driven.is_running() {
            core.rest(Who::ProgressThread, &mut driven, None);
        }
    }
}
