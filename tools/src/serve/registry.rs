//! List of the daemon's running transfers, which limits their number.

use crate::exit::{Code, Failure, fail};
use crate::progress::percent;
use crate::session::MAX_GROUP_BYTES;
use crate::units;
use ethbcast_planning::topology::nodeset;
use ethbcast_transport::packet::Waker;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running {
    pub host: String,
    pub source: String,
    pub size: Option<u64>,
    pub bytes: u64,
}

impl Running {
    /// Formats the progress as `disk.img of n0, 12.0 MiB of 64.0 MiB (18 %)`.
    pub fn status_line(&self) -> String {
        let Running {
            host,
            source,
            size,
            bytes,
        } = self;
        let (source, of) = (
            if source.is_empty() {
                "a stream"
            } else {
                source
            },
            size.map(units::bytes),
        );
        let percent = size.map_or(0, |size| percent(*bytes, size));
        let of = of.map_or(String::new(), |size| format!(" of {size} ({percent} %)"));
        format!("{source} of {host}, {}{of}", units::bytes(*bytes))
    }
}

#[derive(Debug)]
pub struct Registry {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    most: usize,
    running: BTreeMap<String, Running>,
    wakers: BTreeMap<String, Arc<Waker>>,
}

impl Registry {
    pub fn new(most: usize) -> Registry {
        Registry {
            state: Mutex::new(State {
                most,
                ..State::default()
            }),
        }
    }

    /// Sets the limit. Sessions beyond it continue.
    pub fn set_most(&self, most: usize) {
        self.state.lock().most = most;
        self.wake();
    }

    /// Registers a group's session, or returns the limit if it is reached.
    pub fn enter(&self, group: &str) -> Result<(), usize> {
        let mut state = self.state.lock();
        if state.running.len() >= state.most && !state.running.contains_key(group) {
            return Err(state.most);
        }
        state.running.entry(group.to_owned()).or_default();
        Ok(())
    }

    pub fn leave(&self, group: &str) {
        self.state.lock().running.remove(group);
        self.wake();
    }

    pub fn note(&self, group: &str, change: impl FnOnce(&mut Running)) {
        if let Some(running) = self.state.lock().running.get_mut(group) {
            change(running);
        }
    }

    pub fn running(&self) -> BTreeMap<String, Running> {
        self.state.lock().running.clone()
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.state.lock().running.contains_key(group)
    }

    /// Sets the waker of a group's loop; none when the loop has ended.
    pub fn set_waker(&self, group: &str, waker: Option<Arc<Waker>>) {
        let wakers = &mut self.state.lock().wakers;
        match waker {
            Some(waker) => drop(wakers.insert(group.to_owned(), waker)),
            None => drop(wakers.remove(group)),
        }
    }

    pub fn wake(&self) {
        self.state
            .lock()
            .wakers
            .values()
            .for_each(|waker| waker.wake());
    }
}

/// Limit on the ports of this process, each of which has a receive ring of 8 MiB.
const MAX_GROUPS: usize = 256;

/// Returns the groups of `--allow-group`, without duplicates and in order, or that of `-g`.
pub fn served(group: &str, allowed: &[String]) -> anyhow::Result<Vec<String>> {
    if allowed.is_empty() {
        return Ok(vec![group.to_owned()]);
    }
    let (mut groups, mut known) = (Vec::new(), BTreeSet::new());
    for names in allowed {
        let expanded = nodeset::expand(names);
        let names = expanded.map_err(|error| {
            Failure::new(Code::Usage, format!("--allow-group {names}: {error}"))
        })?;
        groups.extend(names.into_iter().filter(|name| known.insert(name.clone())));
    }
    if let Some(name) = groups
        .iter()
        .find(|name| name.is_empty() || name.len() > MAX_GROUP_BYTES)
    {
        let text = format!(
            "the group name {name} has {} bytes: choose one of 1 to {MAX_GROUP_BYTES}",
            name.len()
        );
        return fail(Code::Usage, text);
    }
    if groups.is_empty() || groups.len() > MAX_GROUPS {
        return fail(
            Code::Usage,
            format!(
                "{} groups: serve 1 to {MAX_GROUPS} with --allow-group",
                groups.len()
            ),
        );
    }
    Ok(groups)
}

/// Formats the groups as `group images` or `3 groups (rack[1-3])`.
pub fn shown(groups: &[String]) -> String {
    match groups {
        [group] => format!("group {group}"),
        groups => format!("{} groups ({})", groups.len(), nodeset::fold(groups)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_up_to_the_limit_are_admitted_and_the_next_when_one_ends() {
        let registry = Registry::new(2);
        assert_eq!(
            ["a", "b", "c", "a"].map(|group| registry.enter(group)),
            [Ok(()), Ok(()), Err(2), Ok(())]
        );
        registry.leave("b");
        assert_eq!((registry.enter("c"), registry.enter("b")), (Ok(()), Err(2)));
        registry.set_most(1);
        assert_eq!(
            (registry.running().len(), registry.enter("d")),
            (2, Err(1)),
            "what runs goes on"
        );
        registry.set_most(3);
        assert_eq!(registry.enter("d"), Ok(()));
    }

    #[test]
    fn running_sessions_are_described_as_far_as_known() {
        let registry = Registry::new(1);
        registry.note("a", |running| running.bytes = 1);
        assert!(
            registry.running().is_empty(),
            "who is not in has nothing to say"
        );
        registry.enter("a").expect("room");
        let known = Running {
            host: "n0".into(),
            source: "disk.img".into(),
            size: Some(64 << 20),
            bytes: 12 << 20,
        };
        registry.note("a", |running| *running = known);
        assert_eq!(
            registry.running()["a"].status_line(),
            "disk.img of n0, 12.00 MiB of 64.00 MiB (18 %)"
        );
        registry.note("a", |running| {
            (running.size, running.source) = (None, String::new())
        });
        assert_eq!(
            registry.running()["a"].status_line(),
            "a stream of n0, 12.00 MiB"
        );
    }

    #[test]
    fn groups_are_named_one_by_one_or_as_a_set_and_each_counts_once() {
        let allowed = ["images", "rack[1-3]", "rack2,images"].map(str::to_owned);
        assert_eq!(
            served("g", &allowed).expect("names"),
            ["images", "rack1", "rack2", "rack3"]
        );
        assert_eq!(served("g", &[]).expect("a name"), ["g"]);
        assert_eq!(shown(&["g".to_owned()]), "group g");
        assert_eq!(
            shown(&served("g", &["rack[1-3]".to_owned()]).expect("names")),
            "3 groups (rack[1-3])"
        );
        let refused = |allowed: &str| {
            served("g", &[allowed.to_owned()])
                .expect_err("it cannot be")
                .to_string()
        };
        assert!(
            refused("rack[1-").contains("--allow-group rack[1-"),
            "{}",
            refused("rack[1-")
        );
        assert!(
            refused("a[1-257]").contains("257 groups: serve 1 to 256"),
            "{}",
            refused("a[1-257]")
        );
        assert!(
            refused(&"a".repeat(65)).contains("65 bytes"),
            "{}",
            refused(&"a".repeat(65))
        );
    }
}
