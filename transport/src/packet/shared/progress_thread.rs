//! The thread that answers while the application does other things.
//!
//! It naps, and looks now and then whether callers still come by. If none does it takes the lead itself and answers
//! within microseconds, until a caller comes. That caller need not wake it: it finds out at its next frame, once, and
//! naps again. So in a tight loop of calls it costs a wake-up per nap and nothing per call.

use super::leader_followers::{LeaderFollowers, Who};
use crate::Machine;
use crate::link::Link;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How long it naps: 200 times a second a wake-up, 0.1 % of a core; as long as a peer waits before it asks for an
/// answer.
const NAP: Duration = Duration::from_millis(5);
/// A caller that has come by within this time is expected back: it takes longer than any pause between calls that
/// matters for latency.
const RECENTLY: Duration = Duration::from_millis(1);
/// As `ps` shows it; 15 characters at most.
const THREAD_NAME: &str = "ethb-progress";

/// The thread, which ends when this is dropped; then the last frames are sent.
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
