//! Options by name and value text, for bindings of other languages: new options need no new layout.

use crate::communicator::Options as JoinOptions;
use crate::route::Route;
use crate::session::{Progress, RecvOptions, RunOptions, SendOptions, WireOptions};
use ethbcast_planning::host_list;
use ethbcast_planning::model::Calibration;
use ethbcast_planning::plan::file::SavedPlan;
use ethbcast_planning::topology::Topology;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

/// Options of joining, sending and receiving, set by name. The defaults fit hosts with distinct
/// names and one Ethernet interface each.
#[derive(Clone, Debug, Default)]
pub struct NamedOptions {
    join: JoinOptions,
    wire: WireOptions,
    run: RunOptions,
    send: SendOptions,
    max_wait: Option<Duration>,
    /// Option set that applies to communicators only, and one that applies to sessions only.
    only_join: Option<&'static str>,
    only_session: Option<&'static str>,
}

/// Highest priority of IEEE 802.1p.
const MAX_PRIORITY: u8 = 7;

#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    Both,
    Join,
    Session,
}

const NAMES: [(&str, For); 20] = [
    ("interface", For::Both),
    ("host", For::Both),
    ("ether-type", For::Both),
    ("topology", For::Both),
    ("calibration", For::Both),
    ("plan", For::Both),
    ("via", For::Both),
    ("probe", For::Both),
    ("join-within", For::Join),
    ("call-within", For::Join),
    ("spin", For::Join),
    ("casts", For::Join),
    ("receivers", For::Session),
    ("min-receivers", For::Session),
    ("hosts", For::Session),
    ("max-wait", For::Session),
    ("time-limit", For::Session),
    ("source", For::Session),
    ("greedy", For::Session),
    ("priority", For::Session),
];

/// An invalid option. The sentence says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OptionError(String);

impl OptionError {
    fn new(text: impl Display) -> OptionError {
        OptionError(text.to_string())
    }
}

impl NamedOptions {
    /// Returns the names of all options.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }

    /// Rewrites a sentence of the library, replacing names of the program's flags: `spell` returns
    /// how the caller writes an option. Flags that only the program has are marked as such.
    pub fn reworded(sentence: &str, spell: impl Fn(&str) -> String) -> String {
        let word = |word: &str| {
            let end = word.trim_end_matches(|letter: char| ",;:.)`".contains(letter)).len();
            let (option, rest) = word.split_at(end);
            let name = match option {
                "-i" => "interface",
                "-n" => "receivers",
                _ => option.strip_prefix("--").unwrap_or_default(),
            };
            match NAMES.iter().any(|(known, _)| *known == name) {
                true => format!("{}{rest}", spell(name)),
                false if name.is_empty() => word.to_owned(),
                false => format!("the program's {word}"),
            }
        };
        sentence.split(' ').map(word).collect::<Vec<_>>().join(" ")
    }

    /// Returns the options of a communicator.
    ///
    /// # Errors
    /// If one was set that applies to sessions only.
    pub fn join(&self) -> Result<JoinOptions, OptionError> {
        self.only_session.map_or(Ok(()), |name| misplaced(name, "sending and receiving"))?;
        Ok(self.join.clone())
    }

    /// Returns the options of a sender.
    ///
    /// # Errors
    /// If one was set that applies to communicators only.
    pub fn send(&self) -> Result<SendOptions, OptionError> {
        self.check_session()?;
        let (wire, run, max_wait) = (self.wire.clone(), self.run.clone(), self.max_wait);
        Ok(SendOptions { wire, run, max_wait, ..self.send.clone() })
    }

    /// Returns the options of a receiver; those that only a sender has are ignored.
    ///
    /// # Errors
    /// If one was set that applies to communicators only.
    pub fn receive(&self) -> Result<RecvOptions, OptionError> {
        self.check_session()?;
        let (wire, run, max_wait) = (self.wire.clone(), self.run.clone(), self.max_wait);
        Ok(RecvOptions { wire, run, max_wait, ..RecvOptions::new() })
    }

    fn check_session(&self) -> Result<(), OptionError> {
        self.only_join.map_or(Ok(()), |name| misplaced(name, "communicators"))
    }

    /// Sets the progress callback of sessions. It runs in their threads, and must not block.
    pub fn on_progress(&mut self, tell: impl Fn(Progress<'_>) + Send + Sync + 'static) {
        self.run.on_progress(tell);
    }

    /// Ends all sessions that were begun with these options, now and later.
    pub fn cancel(&self) {
        self.run.cancel.cancel();
    }

    /// Sets one option.
    ///
    /// # Errors
    /// If there is no such option, or the value is invalid.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let Some(&(name, whose)) = NAMES.iter().find(|(known, _)| *known == name) else {
            let known = NAMES.map(|(name, _)| name).join(", ");
            return Err(OptionError::new(format_args!("there is no option {name}: use one of {known}")));
        };
        let (join, send, wire) = (&mut self.join, &mut self.send, &mut self.wire);
        match name {
            "interface" => (join.interface, wire.interface) = (Some(value.into()), Some(value.into())),
            "host" => (join.host, wire.host) = (Some(value.into()), Some(value.into())),
            "ether-type" => {
                join.ether_type = parsed(name, value)?;
                wire.ether_type = join.ether_type;
            }
            "topology" => {
                join.topology = Some(Topology::load(value).map_err(OptionError::new)?.topology);
                send.topology.clone_from(&join.topology);
            }
            "calibration" => {
                join.calibration = Some(Calibration::load(value).map_err(OptionError::new)?);
                send.calibration.clone_from(&join.calibration);
            }
            "plan" | "via" => {
                join.route = route(name, value)?;
                send.route = join.route.clone();
            }
            "probe" => (join.probe, send.probe) = (parsed(name, value)?, parsed(name, value)?),
            "join-within" => join.join_within = seconds(name, value)?,
            "call-within" => join.call_within = seconds(name, value)?,
            "spin" => join.spin = seconds(name, value)?,
            "casts" => join.casts = parsed(name, value)?,
            "receivers" => send.receivers = Some(parsed(name, value)?),
            "min-receivers" => send.min_receivers = Some(parsed(name, value)?),
            "hosts" => send.hosts = host_list::read(value).map_err(OptionError::new)?,
            "max-wait" => self.max_wait = Some(seconds(name, value)?),
            "greedy" => send.greedy = parsed(name, value)?,
            "priority" => {
                let priority = Some(parsed::<u8>(name, value)?).filter(|&priority| priority <= MAX_PRIORITY);
                let refusal = || OptionError::new(format_args!("the option {name} is 0 to {MAX_PRIORITY}"));
                wire.priority = Some(priority.ok_or_else(refusal)?);
            }
            "time-limit" => self.run.time_limit = Some(seconds(name, value)?),
            _ => send.source = value.into(),
        }
        match whose {
            For::Both => {}
            For::Join => self.only_join = Some(name),
            For::Session => self.only_session = Some(name),
        }
        Ok(())
    }
}

fn misplaced(name: &str, whom: &str) -> Result<(), OptionError> {
    Err(OptionError::new(format_args!("the option {name} is for {whom}: use options of their own for this call")))
}

fn parsed<T: FromStr<Err: Display>>(name: &str, value: &str) -> Result<T, OptionError> {
    value.parse().map_err(|error| OptionError::new(format_args!("the option {name} cannot be {value:?}: {error}")))
}

fn seconds(name: &str, value: &str) -> Result<Duration, OptionError> {
    Duration::try_from_secs_f64(parsed(name, value)?)
        .map_err(|_| OptionError::new(format_args!("the option {name} cannot be {value:?}: give seconds, such as 2.5")))
}

fn route(name: &str, value: &str) -> Result<Route, OptionError> {
    Ok(match (name, value) {
        ("plan", path) => Route::Saved(Box::new(SavedPlan::load(path).map_err(OptionError::new)?)),
        (_, "auto") => Route::Auto,
        (_, via) => Route::Via(parsed(name, via)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_for_whom_it_is_and_says_what_it_can_be() {
        let mut options = NamedOptions::default();
        let said = |error: Result<(), OptionError>| error.expect_err("it cannot be").to_string();
        assert!(said(options.set("colour", "red")).contains("use one of interface, host, "));
        assert!(said(options.set("max-wait", "-1")).contains("give seconds"));
        assert!(said(options.set("receivers", "all")).contains("receivers cannot be \"all\""));
        options.set("host", "n7").expect("a name");
        let (join, receive) = (options.join().expect("for both"), options.receive().expect("for both"));
        assert_eq!((join.host.as_deref(), receive.wire.host.as_deref()), (Some("n7"), Some("n7")));
        options.set("hosts", "n[1-3]").expect("names");
        assert_eq!(options.send().expect("for sessions").hosts.len(), 3);
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "n1 # the first\nn[2-3]\n").expect("written");
        for sign in ["^", "@"] {
            options.set("hosts", &format!("{sign}{},n3,n9", file.path().display())).expect("a file of names");
            assert_eq!(options.send().expect("for sessions").hosts, ["n1", "n2", "n3", "n9"], "{sign}");
        }
        assert!(said(options.set("hosts", "^/no/such/file")).contains("cannot read the list of hosts /no/such/file"));
        assert!(said(options.set("hosts", "@rack")).contains("name the hosts, or a file of them with ^FILE"));
        assert!(options.join().expect_err("not for these").to_string().contains("hosts is for sending and receiving"));
    }

    #[test]
    fn a_sentence_names_options_as_the_caller_knows_them() {
        let python = |sentence| NamedOptions::reworded(sentence, |name| format!("{}=…", name.replace('-', "_")));
        assert_eq!(python("choose one of eth0, eth1 with -i"), "choose one of eth0, eth1 with interface=…");
        assert_eq!(
            python("start with fewer with --min-receivers, or wait"),
            "start with fewer with min_receivers=…, or wait"
        );
        assert_eq!(python("leave it out with --exclude"), "leave it out with the program's --exclude");
        assert_eq!(python("raise `ulimit -f` - or not"), "raise `ulimit -f` - or not");
    }
}
