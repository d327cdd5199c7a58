//! Settings of this MPI add-on, read once from environment variables.

use ethbcast_collectives::keys::Keys;
use ethbcast_collectives::membership::live::key_of_host;
use ethbcast_transport::lock::Mutex;
use ethbcast_transport::packet::Over;
use std::collections::BTreeMap;
use std::env;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Limit of bytes in a call: that of the MPI's own functions, which pack and forward.
const MAX_BYTES: u64 = i32::MAX as u64;
/// Fewest hosts: between two hosts only one copy is sent in any case.
const MIN_HOSTS: usize = 3;
/// Limit of communicators on the wire at a time: each has its own ring and feeds.
const MAX_GROUPS: usize = 16;

/// Words for `ETHBCAST_MPI_TAKE` beside the names of calls.
const ALL: &str = "all";
const FLOATS: &str = "floats";

/// Calls that can be taken over, by their names in the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Broadcast,
    Barrier,
    Allgather,
    Scatter,
    Gather,
    Allreduce,
    Reduce,
}

impl Operation {
    pub const ALL: [Operation; 7] = [
        Operation::Broadcast,
        Operation::Barrier,
        Operation::Allgather,
        Operation::Scatter,
        Operation::Gather,
        Operation::Allreduce,
        Operation::Reduce,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Operation::Broadcast => "bcast",
            Operation::Barrier => "barrier",
            Operation::Allgather => "allgather",
            Operation::Scatter => "scatter",
            Operation::Gather => "gather",
            Operation::Allreduce => "allreduce",
            Operation::Reduce => "reduce",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub is_on: bool,
    pub is_verbose: bool,
    pub stats: Stats,
    pub interface: Option<String>,
    pub back_ends: Option<PathBuf>,
    pub topology: Option<PathBuf>,
    pub calibration: Option<PathBuf>,
    /// Whether the user asserts that every rank has the drop-in, for launchers that cannot check.
    pub is_everywhere: bool,
    pub agreed: Agreed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stats {
    None,
    First,
    All,
}

/// Settings that decide about a call, and must be equal on all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    pub taken: Vec<Operation>,
    /// Whether floats are reduced, in another order than the MPI's.
    pub takes_floats: bool,
    pub least_bytes: u64,
    pub most_bytes: u64,
    pub least_hosts: usize,
    pub most_groups: usize,
    /// Whether lengths at which the MPI is faster are found by trials.
    pub tries: bool,
    pub over: Over,
    pub key: Result<Option<Key>, String>,
}

/// Beginning of the reason that is always printed: this host has a key that cannot be used.
pub const UNUSABLE_KEY: &str = "E-UNKEYED";

#[derive(Clone, Debug)]
pub struct Key(pub Arc<Keys>);

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.0.name() == other.0.name()
    }
}

impl Eq for Key {}

fn key() -> Result<Option<Key>, String> {
    let keys = key_of_host()
        .map_err(|error| format!("{UNUSABLE_KEY}: this host's key cannot be used: {error}"));
    Ok(keys?.map(|keys| Key(Arc::new(keys))))
}

impl Settings {
    /// Reads the environment; an error names the first invalid value and the valid ones.
    pub fn read() -> Result<Settings, String> {
        let mut settings =
            Settings::from(|name| env::var(name).ok().filter(|value| !value.is_empty()))?;
        if settings.is_on {
            settings.agreed.key = key();
        }
        Ok(settings)
    }

    fn from(value: impl Fn(&str) -> Option<String>) -> Result<Settings, String> {
        let is_off = |name: &str| matches!(value(name).as_deref(), Some("0" | "off" | "no"));
        let is_on = !is_off("ETHBCAST_MPI");
        // If the drop-in is switched off, the other variables are not checked.
        let given = |name: &str| value(name).filter(|_| is_on);
        let number = |name: &str, otherwise: u64| {
            let Some(text) = given(name) else {
                return Ok(otherwise);
            };
            text.parse().map_err(|_| {
                format!("{name}={text} is no number: say how many, such as {otherwise}")
            })
        };
        let stats = match value("ETHBCAST_MPI_STATS").as_deref() {
            None | Some("0") => Stats::None,
            Some("all") => Stats::All,
            Some(_) => Stats::First,
        };
        let (taken, takes_floats) = taken(given("ETHBCAST_MPI_TAKE").as_deref().unwrap_or(ALL))?;
        let agreed = Agreed {
            taken,
            takes_floats,
            least_bytes: number("ETHBCAST_MPI_MIN_BYTES", 0)?,
            most_bytes: number("ETHBCAST_MPI_MAX_BYTES", MAX_BYTES)?.min(MAX_BYTES),
            least_hosts: number("ETHBCAST_MPI_MIN_HOSTS", MIN_HOSTS as u64)?.max(2) as usize,
            most_groups: number("ETHBCAST_MPI_COMMUNICATORS", MAX_GROUPS as u64)? as usize,
            tries: !is_off("ETHBCAST_MPI_TRIAL"),
            over: given("ETHBCAST_MPI_OVER").map_or(Ok(Over::Ethernet), |name| over(&name))?,
            key: Ok(None),
        };
        Ok(Settings {
            is_on,
            is_verbose: value("ETHBCAST_MPI_VERBOSE").is_some_and(|text| text != "0"),
            stats,
            interface: value("ETHBCAST_MPI_INTERFACE"),
            back_ends: value("ETHBCAST_MPI_BACKENDS").map(PathBuf::from),
            topology: value("ETHBCAST_MPI_TOPOLOGY").map(PathBuf::from),
            calibration: value("ETHBCAST_MPI_CALIBRATION").map(PathBuf::from),
            is_everywhere: value("ETHBCAST_MPI_EVERYWHERE").is_some_and(|text| text != "0"),
            agreed,
        })
    }
}

impl Agreed {
    pub fn fingerprint(&self) -> String {
        let Agreed {
            taken,
            takes_floats,
            least_bytes,
            most_bytes,
            least_hosts,
            most_groups,
            tries,
            over,
            key,
        } = self;
        let floats = takes_floats.then_some(FLOATS);
        let taken = taken.iter().map(|operation| operation.name());
        let taken: Vec<_> = taken.chain(floats).collect();
        let tries = u8::from(*tries);
        let key = key
            .iter()
            .flatten()
            .map(|Key(keys)| format!(" {}", keys.name()))
            .collect::<String>();
        let over = match over {
            Over::Ethernet => String::new(),
            over => format!(" {over}"),
        };
        format!(
            "{} {least_bytes} {most_bytes} {least_hosts} {most_groups} {tries}{over}{key}",
            taken.join(",")
        )
    }
}

/// Reads the carrier, which all ranks share: none of a single host, and no port, which only one
/// process of a host could have.
fn over(name: &str) -> Result<Over, String> {
    match name.parse() {
        Ok(
            over @ (Over::Ethernet
            | Over::Udp {
                port: None,
                unicast: false,
            }),
        ) => Ok(over),
        _ => Err(format!("ETHBCAST_MPI_OVER={name}: write ethernet or udp")),
    }
}

/// Returns the calls that are taken, and whether reductions of floats are among them.
fn taken(names: &str) -> Result<(Vec<Operation>, bool), String> {
    let (mut taken, mut takes_floats) = (Vec::new(), false);
    let each = names
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    for name in each {
        let mut known = Operation::ALL.into_iter();
        match (name, known.find(|operation| operation.name() == name)) {
            (ALL, _) => taken = Operation::ALL.to_vec(),
            (FLOATS, _) => takes_floats = true,
            (_, Some(operation)) => taken.push(operation),
            (_, None) => {
                let all = Operation::ALL.map(Operation::name).join(",");
                return Err(format!(
                    "ETHBCAST_MPI_TAKE={names}: there is no {name}, only {all},{FLOATS} and {ALL}"
                ));
            }
        }
    }
    Ok((taken, takes_floats))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    Off,
    NoBackEnd,
    NotNow,
    Intercommunicator,
    OneRank,
    FewHosts,
    NotEverywhere,
    NotJoined,
    TooMany,
    Failed,
    Differed,
    Faster,
    Early,
    OtherWorld,
    NotAsked,
    Empty,
    Size,
    Arguments,
    SharedHosts,
    Function,
    Floats,
    Bits,
}

impl Reason {
    pub const fn text(self) -> &'static str {
        match self {
            Reason::Off => "switched off",
            Reason::NoBackEnd => "no back end for this MPI",
            Reason::NotNow => "no communicator, or MPI is not running",
            Reason::Intercommunicator => "an intercommunicator",
            Reason::OneRank => "a communicator of one rank",
            Reason::FewHosts => "too few hosts",
            Reason::NotEverywhere => "not every rank can",
            Reason::NotJoined => "the ranks did not meet on the wire",
            Reason::TooMany => "too many communicators at a time",
            Reason::Failed => "the wire has failed before",
            Reason::Differed => "the ranks' calls have differed before",
            Reason::Early => "the wire has not paid yet",
            Reason::Faster => "the MPI is faster at this length",
            Reason::OtherWorld => "processes of another MPI_COMM_WORLD",
            Reason::NotAsked => "not among ETHBCAST_MPI_TAKE",
            Reason::Empty => "no bytes",
            Reason::Size => "outside ETHBCAST_MPI_MIN_BYTES and _MAX_BYTES",
            Reason::Arguments => "arguments that are for the MPI to judge",
            Reason::SharedHosts => "ranks that share hosts",
            Reason::Function => "neither sum, minimum nor maximum of numbers",
            Reason::Floats => "floats, which are not asked for",
            Reason::Bits => "a reduction in which MPIs differ",
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    calls: u64,
    bytes: u64,
    took: Duration,
}

#[derive(Debug, Default)]
pub struct Statistics {
    sums: Mutex<Sums>,
}

#[derive(Debug, Default)]
struct Sums {
    taken: BTreeMap<&'static str, Taken>,
    passed: BTreeMap<(&'static str, Reason), u64>,
}

impl Statistics {
    pub fn took(&self, operation: Operation, bytes: usize, took: Duration) {
        let mut sums = self.sums.lock();
        let taken = sums.taken.entry(operation.name()).or_default();
        taken.calls += 1;
        taken.bytes += bytes as u64;
        taken.took += took;
    }

    pub fn passed(&self, operation: Operation, why: Reason) {
        *self
            .sums
            .lock()
            .passed
            .entry((operation.name(), why))
            .or_default() += 1;
    }

    pub fn lines(&self, beginning: &str) -> String {
        let sums = self.sums.lock();
        let mut text = String::new();
        for (name, Taken { calls, bytes, took }) in &sums.taken {
            let seconds = took.as_secs_f64();
            // Writing to a text does not fail.
            let _ = writeln!(
                text,
                "{beginning}{name}: {calls} calls taken, {bytes} bytes, {seconds:.6} s"
            );
        }
        for ((name, why), calls) in &sums.passed {
            let _ = writeln!(
                text,
                "{beginning}{name}: {calls} calls passed on: {}",
                why.text()
            );
        }
        text
    }
}

#[test]
fn sums_are_printed_by_call_and_by_reason() {
    let statistics = Statistics::default();
    statistics.took(Operation::Broadcast, 100, Duration::from_millis(2));
    statistics.took(Operation::Broadcast, 50, Duration::from_millis(1));
    statistics.passed(Operation::Gather, Reason::SharedHosts);
    let text = statistics.lines("rank 0: ");
    assert_eq!(
        text,
        "rank 0: bcast: 2 calls taken, 150 bytes, 0.003000 s\n\
         rank 0: gather: 1 calls passed on: ranks that share hosts\n"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Settings, String> {
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        Settings::from(move |wanted| {
            pairs
                .iter()
                .find(|(name, _)| name == wanted)
                .map(|(_, value)| value.clone())
        })
    }

    #[test]
    fn an_empty_environment_takes_everything_between_three_hosts() {
        let settings = read(&[]).expect("nothing is wrong");
        assert!(settings.is_on && !settings.is_verbose && settings.stats == Stats::None);
        assert_eq!(
            settings.agreed.fingerprint(),
            "bcast,barrier,allgather,scatter,gather,allreduce,reduce 0 2147483647 3 16 1"
        );
    }

    #[test]
    fn floats_are_reduced_where_it_is_asked_for() {
        let taken = |names| {
            let settings = read(&[("ETHBCAST_MPI_TAKE", names)]).expect("good");
            (settings.agreed.takes_floats, settings.agreed.fingerprint())
        };
        let (takes_floats, all) = taken("all");
        assert!(!takes_floats && all == read(&[]).expect("good").agreed.fingerprint());
        let (takes_floats, some) = taken("bcast, floats,reduce");
        assert!(takes_floats && some.starts_with("bcast,reduce,floats 0"));
        assert!(taken("all,floats").1.contains(",reduce,floats "));
    }

    #[test]
    fn invalid_settings_are_refused_with_the_valid_values() {
        let error = |name, value| read(&[(name, value)]).expect_err("it cannot be");
        assert!(error("ETHBCAST_MPI_TAKE", "bcast,scan").contains("no scan, only bcast,barrier"));
        assert!(error("ETHBCAST_MPI_MIN_BYTES", "4K").contains("is no number"));
        for name in ["tcp", "unicast", "udp:50000"] {
            assert!(error("ETHBCAST_MPI_OVER", name).contains("write ethernet or udp"));
        }
        let over = |name| {
            read(&[("ETHBCAST_MPI_OVER", name)])
                .expect("good")
                .agreed
                .fingerprint()
        };
        assert!(over("udp").ends_with(" udp") && !over("ethernet").contains("ethernet"));
        let settings = read(&[("ETHBCAST_MPI_MAX_BYTES", "99999999999")]).expect("good");
        assert!(settings.is_on && settings.agreed.most_bytes == i32::MAX as u64);
        let off = read(&[("ETHBCAST_MPI", "off"), ("ETHBCAST_MPI_TAKE", "scan")])
            .expect("nothing is taken");
        assert!(!off.is_on);
    }
}
