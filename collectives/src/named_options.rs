//! Options set by name and value as text, for C and Python.

use crate::communicator::Options as JoinOptions;
use crate::keys::Keys;
use crate::membership::live::{
    KeyError, UnusedKey, check_unkeyed, key_of_file, key_of_host, key_of_phrase,
};
use crate::preset::Route;
use crate::session::verified::ChunkSize;
use crate::session::{
    Progress, Rate, RateLimit, RecvOptions, RunOptions, SendOptions, WireOptions,
};
use ethbcast_planning::host_list;
use ethbcast_planning::model::Calibration;
use ethbcast_planning::plan::file::SavedPlan;
use ethbcast_planning::topology::Topology;
use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// Options of joining, sending and receiving, set by name. The defaults fit hosts with distinct
/// names and one Ethernet interface each.
#[derive(Clone, Debug, Default)]
pub struct NamedOptions {
    join: JoinOptions,
    wire: WireOptions,
    run: RunOptions,
    send: SendOptions,
    sender: Option<String>,
    max_wait: Option<Duration>,
    rate: Option<Rate>,
    nice: bool,
    delta: bool,
    once: bool,
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

#[derive(Clone, Copy)]
struct Given<'a> {
    name: &'a str,
    value: &'a str,
}

type Setter = fn(&mut NamedOptions, Given<'_>) -> Result<(), OptionError>;

const TABLE: [(&str, For, Setter); 41] = [
    ("interface", For::Both, |all, given| {
        (all.join.interface, all.wire.interface) = (given.text(), given.text());
        Ok(())
    }),
    ("host", For::Both, |all, given| {
        (all.join.host, all.wire.host) = (given.text(), given.text());
        Ok(())
    }),
    ("ether-type", For::Both, |all, given| {
        (all.join.ether_type, all.wire.ether_type) = (given.parsed()?, given.parsed()?);
        Ok(())
    }),
    ("over", For::Both, |all, given| {
        (all.join.over, all.wire.over) = (given.parsed()?, given.parsed()?);
        Ok(())
    }),
    ("topology", For::Both, |all, given| {
        all.join.topology = Some(
            Topology::load(given.value)
                .map_err(OptionError::new)?
                .topology,
        );
        all.send.topology.clone_from(&all.join.topology);
        Ok(())
    }),
    ("calibration", For::Both, |all, given| {
        all.join.calibration = Some(Calibration::load(given.value).map_err(OptionError::new)?);
        all.send.calibration.clone_from(&all.join.calibration);
        Ok(())
    }),
    ("plan", For::Both, |all, given| {
        let plan = SavedPlan::load(given.value).map_err(OptionError::new)?;
        all.go_by(Route::Saved(Box::new(plan)));
        Ok(())
    }),
    ("via", For::Both, |all, given| {
        all.go_by(if given.value == "auto" {
            Route::Auto
        } else {
            Route::Via(given.parsed()?)
        });
        Ok(())
    }),
    ("probe", For::Both, |all, given| {
        (all.join.probe, all.send.probe) = (given.parsed()?, given.parsed()?);
        Ok(())
    }),
    ("preset", For::Both, |all, given| {
        (all.join.preset, all.send.preset) = (given.parsed()?, given.parsed()?);
        Ok(())
    }),
    ("unkeyed", For::Both, |all, given| {
        given.parsed().map(|unkeyed| all.join.unkeyed = unkeyed)
    }),
    ("key", For::Both, |all, given| {
        let key = if given.value == "auto" {
            key_of_host()
        } else {
            key_of_file(Path::new(given.value)).map(Some)
        };
        let key = key?.ok_or_else(|| given.wrong("this host has none"))?;
        all.set_key(key);
        Ok(())
    }),
    ("key-phrase", For::Both, |all, given| {
        all.set_key(key_of_phrase(given.value)?);
        Ok(())
    }),
    ("join-within", For::Join, |all, given| {
        given.seconds().map(|time| all.join.join_within = time)
    }),
    ("call-within", For::Join, |all, given| {
        given.seconds().map(|time| all.join.call_within = time)
    }),
    ("spin", For::Join, |all, given| {
        given.seconds().map(|time| all.join.spin = time)
    }),
    ("casts", For::Join, |all, given| {
        given.parsed().map(|casts| all.join.casts = casts)
    }),
    ("receivers", For::Session, |all, given| {
        given.parsed().map(|count| all.send.receivers = Some(count))
    }),
    ("min-receivers", For::Session, |all, given| {
        given
            .parsed()
            .map(|count| all.send.min_receivers = Some(count))
    }),
    ("hosts", For::Session, |all, given| {
        host_list::read(given.value)
            .map(|hosts| all.send.hosts = hosts)
            .map_err(OptionError::new)
    }),
    ("sender", For::Session, |all, given| {
        all.sender = given.text();
        Ok(())
    }),
    ("late", For::Session, |all, given| {
        given.parsed().map(|late| all.send.late = late)
    }),
    ("carousel", For::Session, |all, given| {
        given.seconds().map(|time| all.send.carousel = Some(time))
    }),
    ("max-wait", For::Session, |all, given| {
        given.seconds().map(|time| all.max_wait = Some(time))
    }),
    ("time-limit", For::Session, |all, given| {
        given.seconds().map(|time| all.run.time_limit = Some(time))
    }),
    ("patience", For::Session, |all, given| {
        given.seconds().map(|time| all.run.timing.patience = time)
    }),
    ("dead-after", For::Both, |all, given| {
        let dead_after = given.seconds()?;
        let timing = all.run.timing.with_dead(dead_after);
        all.run.timing = timing.ok_or_else(|| given.wrong("expected 0.05 to 30 seconds"))?;
        all.join.dead_after = Some(dead_after);
        Ok(())
    }),
    ("stall", For::Session, |all, given| {
        given.seconds().map(|time| all.run.timing.stall = time)
    }),
    ("sync-timeout", For::Session, |all, given| {
        given.seconds().map(|time| all.run.timing.sync = time)
    }),
    ("slow-after", For::Session, |all, given| {
        given.seconds().map(|time| all.run.timing.slow = time)
    }),
    ("on-slow", For::Session, |all, given| {
        given.parsed().map(|on_slow| all.send.on_slow = on_slow)
    }),
    ("rate", For::Session, |all, given| {
        given.parsed().map(|rate| all.rate = Some(rate))
    }),
    ("nice", For::Session, |all, given| {
        given.parsed().map(|nice| all.nice = nice)
    }),
    ("greedy", For::Session, |all, given| {
        given.parsed().map(|greedy| all.send.greedy = greedy)
    }),
    ("priority", For::Both, |all, given| {
        let priority = Some(given.parsed::<u8>()?).filter(|&priority| priority <= MAX_PRIORITY);
        all.wire.priority = Some(
            priority.ok_or_else(|| given.wrong(format_args!("expected 0 to {MAX_PRIORITY}")))?,
        );
        all.join.priority = all.wire.priority;
        Ok(())
    }),
    ("ttl", For::Both, |all, given| {
        let ttl = Some(given.parsed::<u8>()?).filter(|&ttl| ttl > 0);
        all.wire.ttl = ttl.ok_or_else(|| given.wrong("expected 1 to 255"))?;
        all.join.ttl = all.wire.ttl;
        Ok(())
    }),
    ("mtu", For::Both, |all, given| {
        (all.join.mtu_bytes, all.wire.mtu_bytes) = (Some(given.parsed()?), Some(given.parsed()?));
        Ok(())
    }),
    ("chunk", For::Session, |all, given| {
        given.parsed().map(|chunk| all.send.chunk = Some(chunk))
    }),
    ("delta", For::Session, |all, given| {
        given.parsed().map(|delta| all.delta = delta)
    }),
    ("once", For::Session, |all, given| {
        given.parsed().map(|once| all.once = once)
    }),
    ("source", For::Session, |all, given| {
        all.send.source = given.value.into();
        Ok(())
    }),
];

impl Given<'_> {
    fn text(self) -> Option<String> {
        Some(self.value.to_owned())
    }

    fn wrong(self, why: impl Display) -> OptionError {
        let Given { name, value } = self;
        OptionError::new(format_args!("the option {name} cannot be {value:?}: {why}"))
    }

    fn parsed<T: FromStr<Err: Display>>(self) -> Result<T, OptionError> {
        self.value.parse().map_err(|error| self.wrong(error))
    }

    fn seconds(self) -> Result<Duration, OptionError> {
        Duration::try_from_secs_f64(self.parsed()?)
            .map_err(|_| self.wrong("give seconds, such as 2.5"))
    }
}

/// An invalid option. The sentence says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OptionError(String);

impl OptionError {
    fn new(text: impl Display) -> OptionError {
        OptionError(text.to_string())
    }
}

impl From<KeyError> for OptionError {
    fn from(error: KeyError) -> OptionError {
        OptionError::new(error)
    }
}

impl From<UnusedKey> for OptionError {
    fn from(error: UnusedKey) -> OptionError {
        OptionError::new(error)
    }
}

impl NamedOptions {
    pub fn names() -> impl Iterator<Item = &'static str> {
        TABLE.iter().map(|(name, ..)| *name)
    }

    /// Returns the options of a communicator.
    ///
    /// # Errors
    /// If one was set that applies to sessions only.
    pub fn join(&self) -> Result<JoinOptions, OptionError> {
        self.only_session
            .map_or(Ok(()), |name| misplaced(name, "sending and receiving"))?;
        Ok(self.join.clone())
    }

    /// Returns the options of a sender.
    ///
    /// # Errors
    /// If one was set that applies to communicators only, or this host has a key that is not used.
    pub fn send(&self) -> Result<SendOptions, OptionError> {
        self.check_session()?;
        let (wire, run, max_wait) = (self.wire.clone(), self.run.clone(), self.max_wait);
        let yielding = self
            .nice
            .then(|| self.rate.unwrap_or(Rate::HIGHEST).yielding());
        let rate = yielding.or(self.rate).map(RateLimit::new);
        let chunk = self
            .send
            .chunk
            .or(self.delta.then_some(ChunkSize::SHORTEST));
        Ok(SendOptions {
            wire,
            run,
            max_wait,
            rate,
            chunk,
            ..self.send.clone()
        })
    }

    /// Returns the options of a receiver; those that only a sender has are ignored.
    ///
    /// # Errors
    /// If one was set that applies to communicators only, or this host has a key that is not used.
    pub fn receive(&self) -> Result<RecvOptions, OptionError> {
        self.check_session()?;
        let (wire, run, max_wait) = (self.wire.clone(), self.run.clone(), self.max_wait);
        Ok(RecvOptions {
            wire,
            run,
            max_wait,
            sender: self.sender.clone(),
            once: self.once,
            ..RecvOptions::new()
        })
    }

    fn check_session(&self) -> Result<(), OptionError> {
        self.only_join
            .map_or(Ok(()), |name| misplaced(name, "communicators"))?;
        if self.wire.keys.is_none() && !self.join.unkeyed {
            check_unkeyed()?;
        }
        Ok(())
    }

    fn set_key(&mut self, keys: Keys) {
        self.wire.keys = Some(Arc::new(keys));
        self.join.keys.clone_from(&self.wire.keys);
    }

    /// Sets the progress callback of sessions. It runs in their threads, and must not block.
    pub fn on_progress(&mut self, tell: impl Fn(Progress<'_>) + Send + Sync + 'static) {
        self.run.on_progress(tell);
    }

    /// Ends all sessions that were begun with these options, now and later.
    pub fn cancel(&self) {
        self.run.cancel.cancel();
    }

    /// Whether receivers hold an earlier version of the content, so that only changed chunks are
    /// sent.
    pub fn is_delta(&self) -> bool {
        self.delta
    }

    fn go_by(&mut self, route: Route) {
        self.send.route = route.clone();
        self.join.route = route;
    }

    /// Sets one option.
    ///
    /// # Errors
    /// If there is no such option, or the value is invalid.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let Some(&(name, whose, set)) = TABLE.iter().find(|(known, ..)| *known == name) else {
            let known = TABLE.map(|(name, ..)| name).join(", ");
            return Err(OptionError::new(format_args!(
                "there is no option {name}: use one of {known}"
            )));
        };
        set(self, Given { name, value })?;
        match whose {
            For::Both => {}
            For::Join => self.only_join = Some(name),
            For::Session => self.only_session = Some(name),
        }
        Ok(())
    }
}

fn misplaced(name: &str, whom: &str) -> Result<(), OptionError> {
    Err(OptionError::new(format_args!(
        "the option {name} is for {whom}: use options of their own for this call"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;
    use crate::session::OnSlow;

    #[test]
    fn an_option_is_for_whom_it_is_and_says_what_it_can_be() {
        let mut options = NamedOptions::default();
        let said = |error: Result<(), OptionError>| error.expect_err("it cannot be").to_string();
        assert!(said(options.set("colour", "red")).contains("use one of interface, host, "));
        assert!(said(options.set("max-wait", "-1")).contains("give seconds"));
        assert!(said(options.set("receivers", "all")).contains("receivers cannot be \"all\""));
        for (name, value, hint) in [
            ("dead-after", "0.001", "0.05 to 30"),
            ("on-slow", "hurry", "demote, wait or evict"),
            ("rate", "0.5mbit", "at least 1mbit"),
            ("chunk", "20K", "16K, 32K, 64K or 128K"),
            ("nice", "very", "`true` or `false`"),
        ] {
            let text = said(options.set(name, value));
            assert!(text.contains(name) && text.contains(hint), "{text}");
        }
        assert!(said(options.set("key", "/nowhere")).contains("/nowhere: No such file"));
        assert!(said(options.set("key-phrase", "babad")).contains("nine words"));
        options.set("host", "n7").expect("a name");
        let (join, receive) = (
            options.join().expect("for both"),
            options.receive().expect("for both"),
        );
        assert_eq!(
            (join.host.as_deref(), receive.wire.host.as_deref()),
            (Some("n7"), Some("n7"))
        );
        options.set("hosts", "n[1-3]").expect("names");
        assert_eq!(options.send().expect("for sessions").hosts.len(), 3);
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "n1 # the first\nn[2-3]\n").expect("written");
        for sign in ["^", "@"] {
            options
                .set("hosts", &format!("{sign}{},n3,n9", file.path().display()))
                .expect("a file of names");
            assert_eq!(
                options.send().expect("for sessions").hosts,
                ["n1", "n2", "n3", "n9"],
                "{sign}"
            );
        }
        assert!(
            said(options.set("hosts", "^/no/such/file"))
                .contains("cannot read the list of hosts /no/such/file")
        );
        assert!(
            said(options.set("hosts", "@rack"))
                .contains("name the hosts, or a file of them with ^FILE")
        );
        assert!(
            options
                .join()
                .expect_err("not for these")
                .to_string()
                .contains("hosts is for sending and receiving")
        );
    }

    #[test]
    fn options_of_the_program_are_options_here() {
        let mut options = NamedOptions::default();
        let given = [
            ("rate", "400mbit"),
            ("nice", "true"),
            ("mtu", "1400"),
            ("patience", "3"),
            ("dead-after", "0.5"),
            ("on-slow", "evict"),
            ("chunk", "32K"),
            ("delta", "true"),
            ("once", "true"),
            ("late", "true"),
            ("preset", "paper"),
        ];
        given
            .into_iter()
            .for_each(|(name, value)| options.set(name, value).expect("it can be"));
        let (send, receive) = (
            options.send().expect("for sessions"),
            options.receive().expect("for sessions"),
        );
        let rate = send.rate.as_ref().expect("a limit").rate();
        assert_eq!(
            (rate.limit(), rate.is_yielding(), send.wire.mtu_bytes),
            (Some(400_000_000), true, Some(1400))
        );
        let timing = send.run.timing;
        assert_eq!(
            (
                timing.patience.as_secs(),
                timing.dead.as_millis(),
                timing.suspect.as_millis()
            ),
            (3, 500, 250)
        );
        assert_eq!(
            (send.on_slow, send.late, send.preset),
            (OnSlow::Evict, true, Preset::Paper)
        );
        assert_eq!(
            (
                send.chunk.map(ChunkSize::bytes),
                receive.once,
                options.is_delta()
            ),
            (Some(32 << 10), true, true)
        );
    }

    #[test]
    fn communicators_have_what_their_engine_has_and_refuse_the_rest_by_name() {
        let mut options = NamedOptions::default();
        let given = [
            ("mtu", "1400"),
            ("priority", "5"),
            ("ttl", "3"),
            ("dead-after", "4"),
            ("interface", "10.1.0.0/16"),
        ];
        given
            .into_iter()
            .for_each(|(name, value)| options.set(name, value).expect("it can be"));
        let join = options.join().expect("for both");
        assert_eq!(
            (join.mtu_bytes, join.priority, join.ttl, join.dead_after),
            (Some(1400), Some(5), 3, Some(Duration::from_secs(4)))
        );
        assert_eq!(options.send().expect("for both").wire.ttl, 3);
        assert!(options.set("ttl", "0").is_err());
        assert_eq!(
            options.send().expect("for both").run.timing.dead.as_secs(),
            4
        );
        for (name, value) in [
            ("rate", "400mbit"),
            ("patience", "3"),
            ("on-slow", "wait"),
            ("chunk", "32K"),
        ] {
            let mut options = NamedOptions::default();
            options.set(name, value).expect("it can be");
            let text = options.join().expect_err("not for these").to_string();
            assert!(
                text.contains(&format!("the option {name} is for sending and receiving")),
                "{text}"
            );
        }
    }

    /// Names of the fields of a struct.
    fn fields(of: &impl std::fmt::Debug) -> Vec<String> {
        let text = format!("{of:#?}");
        let own = text
            .lines()
            .filter_map(|line| line.strip_prefix("    ")?.split_once(": "));
        own.map(|(name, _)| name)
            .filter(|name| !name.starts_with(' '))
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn options_of_rust_have_names_or_are_no_text() {
        let (join, send) = (JoinOptions::default(), SendOptions::new());
        let structs = [
            fields(&join),
            fields(&send),
            fields(&send.wire),
            fields(&send.run),
            fields(&send.run.timing),
        ];
        let mut found: Vec<String> = structs
            .into_iter()
            .flatten()
            .chain(fields(&RecvOptions::new()))
            .collect();
        let names: Vec<&str> = NamedOptions::names().collect();
        assert!(found.len() > names.len(), "{found:?}");
        let renamed = [
            ("mtu_bytes", "mtu"),
            ("route", "via"),
            ("dead", "dead-after"),
            ("sync", "sync-timeout"),
        ];
        let renamed = renamed
            .into_iter()
            .chain([("slow", "slow-after"), ("keys", "key")]);
        let renamed: std::collections::BTreeMap<&str, &str> = renamed.collect();
        found.iter_mut().for_each(|field| {
            *field = renamed
                .get(&**field)
                .map_or_else(|| field.replace('_', "-"), |name| (*name).to_owned());
        });
        // Structs of options; handles and callbacks, which the bindings have in their own form;
        // what a content decides.
        let parts = [
            "wire",
            "run",
            "timing",
            "cancel",
            "progress",
            "progress-every",
            "meanwhile",
            "start",
        ];
        let content = [
            "content",
            "size",
            "expects",
            "offer-check",
            "free-bytes",
            "push-bytes",
            "tuning",
            "contention",
        ];
        // What the program alone has: clear contents, plans without a transfer, daemons, the cache,
        // the interface's rate; intervals of the protocol.
        let program = [
            "auth-only",
            "dry-run",
            "port-fd",
            "session-limit",
            "abort-notice",
            "about",
            "had",
            "learnt",
            "interface-rate",
            "hold",
        ];
        let protocol = [
            "admission-hook",
            "announce",
            "join",
            "view",
            "status",
            "suspect",
            "forgotten",
            "verdict",
        ];
        let others = [&parts[..], &content, &program, &protocol, &["farewells"]].concat();
        let unnamed: Vec<&String> = found
            .iter()
            .filter(|field| !names.contains(&&***field) && !others.contains(&&***field))
            .collect();
        assert!(
            unnamed.is_empty(),
            "no name, and no reason for none: {unnamed:?}"
        );
        let composed = ["plan", "nice", "delta", "key-phrase"];
        let unknown: Vec<&&str> = names
            .iter()
            .filter(|name| !found.iter().any(|field| field == *name) && !composed.contains(*name))
            .collect();
        assert!(unknown.is_empty(), "no field: {unknown:?}");
    }
}
