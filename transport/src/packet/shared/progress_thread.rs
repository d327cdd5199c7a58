//! The thread that answers while the application does other things.
//!
//! It naps, and looks now and then whether callers still come by. If none does it takes the lead itself and answers within
//! microseconds, until a caller comes. That caller need not wake it: it finds out at its next frame, once, and naps again. So in a tight
//! loop of calls it costs a wake-up per nap and nothing per call.

use super::leader_followers::{LeaderFollowers, Who};
use crate::Machine;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How long it naps: 200 times a second a wake-up, 0.1 % of a core; as long as a peer waits before it asks for an answer.
const NAP: Duration = Duration::from_millis(5);
/// A caller that has come by within this time is expected back: it takes longer than any pause between calls that matters for latency.
const RECENTLY: Duration = Duration::from_millis(1);
/// As `ps` shows it; 15 characters at most.
const THREAD_NAME: &str = "ethbcast-bg";

/// The thread, which ends when this is dropped.
pub(super) struct ProgressThread<M: Machine + Send + 'static> {
    core: Arc<LeaderFollowers<M>>,
    thread: Option<JoinHandle<()>>,
}

impl<M: Machine + Send + 'static> ProgressThread<M> {
    pub(super) fn start(core: Arc<LeaderFollowers<M>>) -> io::Result<ProgressThread<M>> {
        let kept = Arc::clone(&core);
        let thread = Builder::new().name(THREAD_NAME.to_owned()).spawn(move || keep(&kept))?;
        Ok(ProgressThread { core, thread: Some(thread) })
    }
}

impl<M: Machine + Send + 'static> Drop for ProgressThread<M> {
    fn drop(&mut self) {
        self.core.lock().stopped = true;
        self.core.rouse_thread();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error!("the thread {THREAD_NAME} has panicked");
        }
        self.core.finish();
    }
}

fn keep<M: Machine>(core: &LeaderFollowers<M>) {
    let mut state = core.lock();
    while state.is_kept() {
        let now = core.clock.now();
        if !state.is_led() {
            core.keep(&mut state, now);
        }
        if state.is_tended(now, RECENTLY) {
            core.nap.wait_for(&mut state, NAP);
        } else if state.is_kept() {
            core.rest(Who::ProgressThread, &mut state, None);
        }
    }
}
