//! What the groups of a server share: how many of their sessions run at once, and which do.

use crate::units;
use ethbcast_transport::packet::Waker;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A session that this host takes part in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// The sender.
    pub host: String,
    /// What it sends.
    pub source: String,
    /// Its bytes, if they are known in advance.
    pub size: Option<u64>,
    /// What has come of them.
    pub bytes: u64,
}

impl Running {
    /// `disk.img of n0, 12.0 MiB of 64.0 MiB`.
    pub fn says(&self) -> String {
        let Running { host, source, size, bytes } = self;
        let (source, of) = (if source.is_empty() { "a stream" } else { source }, size.map(units::bytes));
        let of = of.map_or(String::new(), |size| format!(" of {size}"));
        format!("{source} of {host}, {}{of}", units::bytes(*bytes))
    }
}

/// The sessions that run, by group, and the loops of all groups.
#[derive(Debug)]
pub struct Hall {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    most: usize,
    running: BTreeMap<String, Running>,
    wakers: BTreeMap<String, Arc<Waker>>,
}

impl Hall {
    /// Room for so many sessions at once.
    pub fn new(most: usize) -> Hall {
        Hall { state: Mutex::new(State { most, ..State::default() }) }
    }

    /// Room for so many from now on; more that run already go on.
    pub fn set_most(&self, most: usize) {
        self.state.lock().most = most;
        self.wake();
    }

    /// Lets a group's session in if there is room; the rooms there are, if not.
    pub fn enter(&self, group: &str) -> Result<(), usize> {
        let mut state = self.state.lock();
        if state.running.len() >= state.most && !state.running.contains_key(group) {
            return Err(state.most);
        }
        state.running.entry(group.to_owned()).or_default();
        Ok(())
    }

    /// A group's session is over: another may come in.
    pub fn leave(&self, group: &str) {
        self.state.lock().running.remove(group);
        self.wake();
    }

    /// Takes note of what a group's session is about, if it is in.
    pub fn note(&self, group: &str, change: impl FnOnce(&mut Running)) {
        if let Some(running) = self.state.lock().running.get_mut(group) {
            change(running);
        }
    }

    /// The sessions that run, by group.
    pub fn running(&self) -> BTreeMap<String, Running> {
        self.state.lock().running.clone()
    }

    /// Whether a group's session runs.
    pub fn is_in(&self, group: &str) -> bool {
        self.state.lock().running.contains_key(group)
    }

    /// A group's loop, which is woken when there is something new; none when it has ended.
    pub fn set_waker(&self, group: &str, waker: Option<Arc<Waker>>) {
        let wakers = &mut self.state.lock().wakers;
        match waker {
            Some(waker) => drop(wakers.insert(group.to_owned(), waker)),
            None => drop(wakers.remove(group)),
        }
    }

    /// Has all loops come round.
    pub fn wake(&self) {
        self.state.lock().wakers.values().for_each(|waker| waker.wake());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_sessions_as_there_is_room_for_are_let_in_and_the_next_when_one_is_over() {
        let hall = Hall::new(2);
        assert_eq!(["a", "b", "c", "a"].map(|group| hall.enter(group)), [Ok(()), Ok(()), Err(2), Ok(())]);
        hall.leave("b");
        assert_eq!((hall.enter("c"), hall.enter("b")), (Ok(()), Err(2)));
        hall.set_most(1);
        assert_eq!((hall.running().len(), hall.enter("d")), (2, Err(1)), "what runs goes on");
        hall.set_most(3);
        assert_eq!(hall.enter("d"), Ok(()));
    }

    #[test]
    fn what_runs_is_said_as_far_as_it_is_known() {
        let hall = Hall::new(1);
        hall.note("a", |running| running.bytes = 1);
        assert!(hall.running().is_empty(), "who is not in has nothing to say");
        hall.enter("a").expect("room");
        let known = Running { host: "n0".into(), source: "disk.img".into(), size: Some(64 << 20), bytes: 12 << 20 };
        hall.note("a", |running| *running = known);
        assert_eq!(hall.running()["a"].says(), "disk.img of n0, 12.00 MiB of 64.00 MiB");
        hall.note("a", |running| (running.size, running.source) = (None, String::new()));
        assert_eq!(hall.running()["a"].says(), "a stream of n0, 12.00 MiB");
    }
}
