//! Cache of what transfers learnt of the network, for the next one between the same hosts: costs
//! that were measured, loss, slow hosts, limits of broadcast, ways that took longer than predicted.
//!
//! The cache is one small file of JSON in the user's cache directory. Each fact has its own age. What is damaged,
//! foreign, or from the future is left out, with the reason: no transfer fails because of it, or
//! waits for it.

use crate::args::SendArgs;
use crate::doctor::megabits_per_second;
use crate::exit::print_line;
use crate::whole_file;
use ethbcast_collectives::Preset;
use ethbcast_collectives::session::{Learnt, Proved, SendOptions, SendReport, Session, size_class};
use ethbcast_planning::model::{Broadcast, Calibration, HostCost, WayTimes};
use ethbcast_planning::plan::Via;
use ethbcast_planning::topology::nodeset;
use ethbcast_transport::packet::Over;
use nix::fcntl::{Flock, FlockArg};
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{env, io, thread};

/// Folder of the file, in place of that of the user's caches; empty for none.
const VARIABLE: &str = "ETHBCAST_CACHE";
const FOLDER_OF_ROOT: &str = "/var/cache/ethbcast";
const FILE_NAME: &str = "learnt.json";
const LOCK_NAME: &str = "learnt.lock";
const SCHEMA: u64 = 1;
const MAX_NETWORKS: usize = 16;
const MAX_NETWORK_BYTES: usize = 16 << 10;
const MAX_FILE_BYTES: u64 = 2 * (MAX_NETWORKS * MAX_NETWORK_BYTES) as u64;
const MAX_FACTS: usize = 64;
/// Attempts to get the lock, each after a short sleep. Without it nothing is kept.
const MAX_ATTEMPTS: u32 = 20;
const ATTEMPT_AFTER: Duration = Duration::from_millis(5);
const DAY: u64 = 86_400;
/// Ages, in seconds, from which on a fact is not used: one that is a fault may be repaired soon.
const MAX_AGE: u64 = 30 * DAY;
const MAX_AGE_OF_FAULTS: u64 = 7 * DAY;

/// Least content, in bytes, and least time of a transfer that shows more than its beginning and its
/// end.
const MIN_BYTES: u64 = 4 << 20;
const MIN_TIME: Duration = Duration::from_millis(100);
const MIN_FRAMES: u64 = 1000;
/// Loss below this share is an accident.
const MIN_LOSS: f64 = 1e-5;
const MAX_LOSS: f64 = 0.9;
/// Largest factor of a way that is kept.
const MAX_TIMES: f64 = 16.0;
/// Least factor of a tree that was left for a cast, over the factor of that.
const LEFT: f64 = 1.5;
/// Largest spread of costs that are kept.
const MAX_SPREAD: f64 = 0.5;
/// Number of transfers in which a host must have been slow: once, its processor may have been busy.
const MIN_SLOW: u32 = 2;
/// Number of earlier transfers that count, together, beside the last one.
const MAX_WEIGHT: u32 = 3;

/// The file, and the network of this transfer.
#[derive(Debug)]
pub struct Cache {
    path: PathBuf,
    network: Network,
    entries: Vec<Entry>,
}

/// Fingerprint of what costs depend on. An update of the program may change them, too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Network {
    version: String,
    host: String,
    interface: String,
    address: String,
    /// Rate of the interface, if its driver knows it.
    mbit: Option<u64>,
    link: String,
    mtu_bytes: u16,
    /// BLAKE3 of the topology as a file; empty without one.
    topology: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    network: Network,
    /// The sender and the receivers, as a node set.
    hosts: String,
    facts: Vec<Fact>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Fact {
    /// Seconds since the epoch.
    at: u64,
    /// Number of transfers that showed it.
    count: u32,
    #[serde(flatten)]
    what: What,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
enum What {
    Costs {
        calibration: String,
    },
    Loss {
        share: f64,
    },
    /// Broadcast that is policed above a rate, or else slower than unicast.
    Broadcast {
        is_policed: bool,
        frames_per_second: u64,
    },
    SlowHost {
        name: String,
        injection_ns: u64,
    },
    Way {
        via: String,
        size_class: u32,
        times: f64,
    },
}

/// Facts that a transfer showed, and those that it disproved.
#[derive(Debug, Default)]
struct Shown {
    facts: Vec<What>,
    fast: Vec<String>,
    can_cast: bool,
}

impl Cache {
    /// Reads the cache; `None` if this transfer neither uses nor keeps anything.
    pub fn open(args: &SendArgs, session: &Session, options: &SendOptions) -> Option<Cache> {
        let is_used = !args.no_cache
            && args.calibration.is_none()
            && args.preset == Preset::Default
            // Another user may not write where this one may.
            && args.user.is_none();
        let folder = folder().filter(|_| is_used)?;
        let station = session.station();
        let topology = options.topology.as_ref().map(|topology| {
            let digest = blake3::hash(topology.to_toml().as_bytes());
            digest.to_hex().to_string()
        });
        let network = Network {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: station.host.clone(),
            interface: session.interface().name.clone(),
            address: station.mac.to_string(),
            mbit: megabits_per_second(session.interface()),
            link: link(session.over()).to_owned(),
            mtu_bytes: station.mtu_bytes,
            topology: topology.unwrap_or_default(),
        };
        let (cache, ignored) = Cache::at(&folder, network);
        let path = folder.join(FILE_NAME);
        match ignored {
            Some(why) if !args.wire.quiet && path.exists() => {
                let path = path.display();
                print_line(format_args!(
                    "ethbcast: note: what was learnt before is not used: {path} {why}"
                ));
            }
            Some(why) => log::info!("nothing is learnt: {} {why}", path.display()),
            None => {}
        }
        cache
    }

    fn at(folder: &Path, network: Network) -> (Option<Cache>, Option<String>) {
        let folder = match whole_file::private_folder(folder) {
            Ok(folder) => folder,
            Err(why) => return (None, Some(why)),
        };
        let path = folder.join(FILE_NAME);
        let (entries, ignored) = read(&path).unwrap_or_else(|why| (Vec::new(), Some(why)));
        let cache = Cache {
            path,
            network,
            entries,
        };
        (Some(cache), ignored)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what was learnt between this host and others, for each set of them.
    pub fn learnt(&self) -> Vec<Learnt> {
        let of_network = self.entries.iter();
        of_network
            .filter(|entry| entry.network == self.network)
            .filter_map(|entry| entry.learnt(now()))
            .collect()
    }

    /// Keeps what a transfer showed. `is_of_network` says whether its time may be due to the
    /// network: nothing at a host took it.
    pub fn keep(&self, sent: &SendReport, is_of_network: bool) {
        let receivers = sent.receivers.iter().map(|member| member.host.as_str());
        let hosts: Vec<&str> = receivers.chain([self.network.host.as_str()]).collect();
        if let Err(why) = self.merge(&hosts, &Shown::by(sent, is_of_network), now()) {
            log::info!(
                "what was learnt is not kept: {}: {why}",
                self.path.display()
            );
        }
    }

    /// Adds to the file as it is now: other transfers may have written it since it was read.
    fn merge(&self, hosts: &[&str], shown: &Shown, now: u64) -> Result<(), String> {
        if shown.is_nothing() {
            return Ok(());
        }
        let hosts = node_set(hosts).ok_or("names of hosts are no node set")?;
        let _lock = lock(&self.path.with_file_name(LOCK_NAME))?;
        let mut entries = read(&self.path).map_or_else(|_| Vec::new(), |(entries, _)| entries);
        let is_own = |entry: &Entry| (&entry.network, &entry.hosts) == (&self.network, &hosts);
        let mut entry = match entries.iter().position(is_own) {
            Some(at) => entries.remove(at),
            None => Entry {
                network: self.network.clone(),
                hosts: hosts.clone(),
                facts: Vec::new(),
            },
        };
        entry.take(shown, now);
        entries.push(entry);
        whole_file::renew(&self.path, &text(entries, now), 0o600).map_err(|error| error.to_string())
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

fn link(over: Over) -> &'static str {
    match over {
        Over::Ethernet => "ethernet",
        Over::Udp { unicast: true, .. } => "udp-unicast",
        _ => "udp",
    }
}

/// Returns the folder of the user's caches. Root's is not taken from the environment, which may be
/// another user's.
fn folder() -> Option<PathBuf> {
    if let Some(folder) = env::var_os(VARIABLE) {
        return (!folder.is_empty()).then(|| folder.into());
    }
    if geteuid().is_root() {
        return Some(FOLDER_OF_ROOT.into());
    }
    let variable = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let caches = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")))?;
    Some(caches.join("ethbcast"))
}

fn lock(path: &Path) -> Result<Flock<File>, String> {
    let mut options = File::options();
    options.write(true).create(true).mode(0o600);
    let opened = options.custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path);
    let mut file = opened.map_err(|error| error.to_string())?;
    for attempt in 0..MAX_ATTEMPTS {
        if attempt > 0 {
            thread::sleep(ATTEMPT_AFTER);
        }
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((back, _)) => file = back,
        }
    }
    Err("others write it".to_owned())
}

type Sound = (Vec<Entry>, Option<String>);

/// Reads the entries that are sound, and the reason why another is not; or fails with the reason
/// why none is. No file is no error.
fn read(path: &Path) -> Result<Sound, String> {
    // What is no file, such as a pipe, is not waited for.
    let opened = File::options()
        .read(true)
        .custom_flags(O_NOFOLLOW | O_NONBLOCK)
        .open(path);
    let unread = |error: io::Error| format!("cannot be read: {error}");
    let file = match opened {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((Vec::new(), None)),
        opened => opened.map_err(unread)?,
    };
    let about = file.metadata().map_err(unread)?;
    if !about.is_file() || about.len() > MAX_FILE_BYTES {
        return Err("is no such file".to_owned());
    }
    if !whole_file::is_own_alone(&about) {
        return Err("can be changed by other users".to_owned());
    }
    let mut text = String::new();
    let mut file = file.take(MAX_FILE_BYTES);
    file.read_to_string(&mut text).map_err(unread)?;
    parse(&text)
}

fn parse(text: &str) -> Result<Sound, String> {
    let file: Value = serde_json::from_str(text).map_err(|error| format!("is no JSON: {error}"))?;
    if file["schema"].as_u64() != Some(SCHEMA) {
        return Err("is of another version of ethbcast".to_owned());
    }
    let networks = file["networks"].as_array();
    let networks = networks.ok_or("has no list of networks")?;
    let (mut entries, mut ignored) = (Vec::new(), None);
    for (at, network) in networks.iter().enumerate() {
        match Entry::deserialize(network) {
            Ok(entry) => entries.push(entry),
            Err(why) => ignored = Some(format!("has a network that is not sound, {at}: {why}")),
        }
    }
    Ok((entries, ignored))
}

/// Writes the newest entries. One that is too long is left out, not the others.
fn text(mut entries: Vec<Entry>, now: u64) -> String {
    for entry in &mut entries {
        entry.facts.retain(|fact| fact.is_valid(now));
    }
    entries.sort_by_key(|entry| Reverse(entry.facts.iter().map(|fact| fact.at).max()));
    let written = entries.iter().filter(|entry| !entry.facts.is_empty());
    let written = written.filter_map(|entry| serde_json::to_value(entry).ok());
    let is_short = |entry: &Value| entry.to_string().len() <= MAX_NETWORK_BYTES;
    let networks: Vec<Value> = written.filter(is_short).take(MAX_NETWORKS).collect();
    format!("{}\n", json!({ "schema": SCHEMA, "networks": networks }))
}

/// Returns the hosts in a certain order; `None` if a name cannot be written as a node set.
fn node_set(hosts: &[&str]) -> Option<String> {
    let mut hosts = hosts.to_vec();
    hosts.sort_by(|one, other| ethbcast_planning::natural_order(one, other));
    let text = nodeset::fold(&hosts);
    let is_whole = nodeset::expand(&text).is_ok_and(|read| read == hosts);
    is_whole.then_some(text)
}

impl Entry {
    fn learnt(&self, now: u64) -> Option<Learnt> {
        let mut learnt = Learnt {
            hosts: nodeset::expand(&self.hosts).ok()?,
            costs: None,
            proved: Proved::default(),
            ways: Vec::new(),
            when: String::new(),
        };
        let mut oldest = None;
        for fact in self.facts.iter().filter(|fact| fact.is_valid(now)) {
            if fact.add_to(&mut learnt).is_some() {
                oldest = oldest.max(Some(now - fact.at));
            }
        }
        learnt.when = when(oldest?);
        Some(learnt)
    }

    fn take(&mut self, shown: &Shown, now: u64) {
        self.facts
            .retain(|fact| fact.is_valid(now) && !shown.disproves(&fact.what));
        for what in &shown.facts {
            let key = what.key();
            let old = self.facts.iter().position(|fact| fact.what.key() == key);
            let old = old.map(|at| self.facts.remove(at));
            self.facts.push(Fact::new(old, what.clone(), now));
        }
        self.facts.sort_by_key(|fact| Reverse(fact.at));
        self.facts.truncate(MAX_FACTS);
    }
}

/// Returns the age of the oldest fact in words.
fn when(seconds: u64) -> String {
    match seconds / DAY {
        0 => "today".to_owned(),
        1 => "1 day ago".to_owned(),
        days => format!("{days} days ago"),
    }
}

impl What {
    fn key(&self) -> (u8, &str, u32) {
        match self {
            What::Costs { .. } => (0, "", 0),
            What::Loss { .. } => (1, "", 0),
            What::Broadcast { .. } => (2, "", 0),
            What::SlowHost { name, .. } => (3, name, 0),
            What::Way {
                via, size_class, ..
            } => (4, via, *size_class),
        }
    }
}

impl Fact {
    fn new(old: Option<Fact>, what: What, at: u64) -> Fact {
        let count = old.as_ref().map_or(0, |old| old.count);
        let weight = f64::from(count.min(MAX_WEIGHT));
        let mean = |old: f64, new: f64| (old * weight + new) / (weight + 1.0);
        let what = match (old.map(|old| old.what), what) {
            (Some(What::Loss { share: old }), What::Loss { share }) => What::Loss {
                share: mean(old, share),
            },
            (
                Some(What::Way { times: old, .. }),
                What::Way {
                    via,
                    size_class,
                    times,
                },
            ) => What::Way {
                via,
                size_class,
                times: mean(old, times),
            },
            (_, what) => what,
        };
        Fact {
            at,
            count: count.saturating_add(1),
            what,
        }
    }

    /// Whether it is neither too old nor from the future: a clock may have been set back.
    fn is_valid(&self, now: u64) -> bool {
        let most = match self.what {
            What::Broadcast { .. } | What::SlowHost { .. } => MAX_AGE_OF_FAULTS,
            _ => MAX_AGE,
        };
        now.checked_sub(self.at).is_some_and(|age| age <= most)
    }

    /// Adds the fact, if it is sound and sure.
    fn add_to(&self, learnt: &mut Learnt) -> Option<()> {
        let proved = &mut learnt.proved;
        match &self.what {
            What::Costs { calibration } => {
                learnt.costs = Some(Calibration::parse(calibration, "it").ok()?);
            }
            What::Loss { share } => {
                proved.loss = Some(*share).filter(|share| (0.0..=MAX_LOSS).contains(share));
                proved.loss?;
            }
            &What::Broadcast {
                is_policed,
                frames_per_second,
            } => {
                let limit = if is_policed {
                    Broadcast::Policed
                } else {
                    Broadcast::Slower
                };
                proved.broadcast = (frames_per_second > 0).then(|| limit(frames_per_second));
                proved.broadcast?;
            }
            What::SlowHost { name, injection_ns } => {
                let is_sure = self.count >= MIN_SLOW && *injection_ns > 0;
                proved.slow.push(is_sure.then(|| HostCost {
                    name: name.clone(),
                    injection_ns: *injection_ns,
                })?);
            }
            What::Way {
                via,
                size_class,
                times,
            } => {
                let (via, times) = (via.parse().ok()?, Some(*times));
                let times = times.filter(|times| (1.0..=MAX_TIMES).contains(times))?;
                learnt.ways.push((*size_class, WayTimes { via, times }));
            }
        }
        Some(())
    }
}

impl Shown {
    /// Returns what a transfer showed. A limited rate is that of the limit, and beside other
    /// traffic the network shows less than it has.
    fn by(sent: &SendReport, is_of_network: bool) -> Shown {
        let mut shown = Shown::default();
        let is_alone = sent.rounds == 1
            && sent.other_traffic.is_none()
            && sent.rate.is_none()
            && sent.cut_off.is_zero();
        let Some(choice) = sent.choice.as_ref().filter(|_| is_alone) else {
            return shown;
        };
        let measured = sent.proved.costs.as_ref();
        if let Some(costs) = measured.filter(|costs| costs.spread() <= MAX_SPREAD) {
            let calibration = costs.to_toml();
            shown.facts.push(What::Costs { calibration });
        }
        let is_whole = sent.sent_bytes.is_none() && sent.verified() == sent.receivers.len();
        let is_long = sent.bytes() >= MIN_BYTES && sent.took >= MIN_TIME;
        if !is_whole || !is_long {
            return shown;
        }
        let slow = &sent.proved.slow;
        shown.facts.extend(slow.iter().map(|host| What::SlowHost {
            name: host.name.clone(),
            injection_ns: host.injection_ns,
        }));
        let is_undisturbed = is_of_network && sent.demoted.is_empty() && sent.held_up_by.is_none();
        if !is_undisturbed {
            return shown;
        }
        // All were served in place, so each took what the others took. Of a host that was known to
        // be slow, and served last, that is not sure.
        let known = choice.calibration();
        let hosts = sent.receivers.iter().map(|member| &member.host);
        let hosts = hosts.filter(|host| known.injection_ns(host).is_none());
        shown.fast = hosts.cloned().collect();
        shown.facts.extend(loss(sent));
        let broadcast = sent.proved.broadcast;
        shown.facts.extend(broadcast.and_then(limit));
        shown.take_ways(sent, choice.plan.via());
        shown
    }

    fn take_ways(&mut self, sent: &SendReport, via: Via) {
        let Some((choice, size)) = sent
            .choice
            .as_ref()
            .filter(|choice| choice.is_known())
            .and_then(|choice| Some((choice, choice.size_bytes?)))
        else {
            return;
        };
        let before = |via: Via| choice.calibration().times(via);
        let mut add = |via: Via, times: f64| {
            self.facts.push(What::Way {
                via: via.to_string(),
                size_class: size_class(size),
                times: times.clamp(1.0, MAX_TIMES),
            });
        };
        match sent.rerouted {
            None if sent.proved.broadcast.is_none() => {
                let predicted = choice.predicted_seconds / before(via);
                let times = sent.took.as_secs_f64() / predicted;
                if times.is_finite() {
                    add(via, times);
                    self.can_cast = via == Via::Cast && times < LEFT;
                }
            }
            // Only a tree that is slower than it is left for a cast.
            Some(Via::Cast) => add(via, before(via).max(before(Via::Cast) * LEFT)),
            // A cast that was left shows a limit of broadcast, not of the way.
            _ => {}
        }
    }

    fn is_nothing(&self) -> bool {
        self.facts.is_empty() && self.fast.is_empty()
    }

    fn disproves(&self, what: &What) -> bool {
        match what {
            What::SlowHost { name, .. } => self.fast.contains(name),
            What::Broadcast { .. } => self.can_cast,
            _ => false,
        }
    }
}

fn loss(sent: &SendReport) -> Option<What> {
    // What one receiver says counts no more than what another does.
    let taken = sent.receivers.iter().filter_map(|member| member.taken);
    let long = taken.filter(|taken| taken.frames() >= MIN_FRAMES);
    let shares: Vec<f64> = long
        .map(|taken| taken.repaired() as f64 / taken.frames() as f64)
        .collect();
    let share = shares.iter().sum::<f64>() / shares.len() as f64;
    let share = if share < MIN_LOSS { 0.0 } else { share };
    (!shares.is_empty()).then(|| What::Loss {
        share: share.min(MAX_LOSS),
    })
}

fn limit(broadcast: Broadcast) -> Option<What> {
    let (is_policed, frames_per_second) = match broadcast {
        Broadcast::Policed(rate) => (true, rate),
        Broadcast::Slower(rate) => (false, rate),
        Broadcast::Untried | Broadcast::FullRate => return None,
    };
    Some(What::Broadcast {
        is_policed,
        frames_per_second,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use tempfile::TempDir;

    const HOSTS: [&str; 3] = ["n0", "n1", "n2"];

    fn network() -> Network {
        Network {
            version: "0.1.0".to_owned(),
            host: "n0".to_owned(),
            interface: "eth0".to_owned(),
            address: "02:00:00:00:00:01".to_owned(),
            mbit: Some(1000),
            link: "ethernet".to_owned(),
            mtu_bytes: 1500,
            topology: String::new(),
        }
    }

    fn scratch() -> TempDir {
        tempfile::tempdir().expect("a folder")
    }

    fn opened(folder: &Path) -> (Cache, Option<String>) {
        let (cache, why) = Cache::at(folder, network());
        (cache.unwrap_or_else(|| panic!("{why:?}")), why)
    }

    fn costs(rate: u64) -> What {
        let calibration = Calibration::assumed(rate, 1468).to_toml();
        What::Costs { calibration }
    }

    fn way(via: Via, bytes: u64, times: f64) -> What {
        What::Way {
            via: via.to_string(),
            size_class: size_class(bytes),
            times,
        }
    }

    fn slow(name: &str) -> What {
        What::SlowHost {
            name: name.to_owned(),
            injection_ns: 600_000,
        }
    }

    fn policed() -> What {
        What::Broadcast {
            is_policed: true,
            frames_per_second: 500,
        }
    }

    fn shown(facts: &[What]) -> Shown {
        Shown {
            facts: facts.to_vec(),
            ..Shown::default()
        }
    }

    fn keep(folder: &Path, facts: &[What], day: u64) {
        let (cache, why) = opened(folder);
        assert_eq!(why, None);
        cache
            .merge(&HOSTS, &shown(facts), day * DAY)
            .expect("written");
    }

    /// Returns what is known of the first network on that day.
    fn known(folder: &Path, day: u64) -> Option<Learnt> {
        let (cache, _) = opened(folder);
        let mut own = cache
            .entries
            .iter()
            .filter(|entry| entry.network == cache.network);
        own.next().and_then(|entry| entry.learnt(day * DAY))
    }

    #[test]
    fn each_fact_has_its_own_age_and_another_transfer_renews_only_what_it_showed() {
        let folder = scratch();
        let at = folder.path();
        assert!(known(at, 5).is_none(), "no file is no error");
        let cast = way(Via::Cast, 8 << 20, 3.0);
        let facts = [
            costs(100_000_000),
            cast,
            policed(),
            What::Loss { share: 0.01 },
        ];
        keep(at, &facts, 10);
        for day in 11..50 {
            keep(at, &[way(Via::Chain, 8 << 20, 2.0)], day);
        }
        let all = |day: u64| {
            let learnt = known(at, day).expect("some is");
            let Learnt {
                costs,
                proved,
                ways,
                when,
                ..
            } = learnt;
            let ways: Vec<Via> = ways.iter().map(|(_, way)| way.via).collect();
            (costs.is_some(), proved.broadcast, proved.loss, ways, when)
        };
        let chain = vec![Via::Chain];
        assert_eq!(all(49), (false, None, None, chain, "today".to_owned()));
        keep(at, &facts, 49);
        assert_eq!(all(50).4, "1 day ago");
        assert_eq!(all(56).1, Some(Broadcast::Policed(500)));
        assert_eq!((all(57).1, all(57).2), (None, Some(0.01)));
        assert!(known(at, 80).is_none(), "it is old");
        assert!(known(at, 48).is_none(), "the clock was set back");
        // What is from the future is not kept either.
        keep(at, &[costs(100_000_000)], 40);
        let (cache, _) = opened(at);
        assert_eq!(cache.entries[0].facts.len(), 1);
    }

    #[test]
    fn only_the_same_network_and_hosts_share_what_was_learnt() {
        let folder = scratch();
        keep(folder.path(), &[costs(100_000_000)], 1);
        let (cache, _) = opened(folder.path());
        let of = |network: Network| {
            let entries = cache.entries.iter();
            entries.filter(|entry| entry.network == network).count()
        };
        assert_eq!(of(network()), 1);
        let fields = serde_json::to_value(network()).expect("an object");
        for (field, value) in fields.as_object().expect("an object") {
            let mut other = fields.clone();
            other[field] = if value.is_number() {
                json!(7)
            } else {
                json!("other")
            };
            let other = serde_json::from_value(other).expect("a network");
            assert_eq!(of(other), 0, "{field}");
        }
        let other = ["n0", "n1", "n3"];
        let kept = cache.merge(&other, &shown(&[costs(1_000_000_000)]), DAY);
        kept.expect("written");
        let (cache, _) = opened(folder.path());
        let sets: Vec<&str> = cache
            .entries
            .iter()
            .map(|entry| entry.hosts.as_str())
            .collect();
        assert_eq!(sets, ["n[0-2]", "n[0-1,3]"]);
    }

    #[test]
    fn ways_are_kept_by_size_and_repeated_facts_count_together() {
        let folder = scratch();
        let at = folder.path();
        for times in [2.0, 4.0, 2.0] {
            let facts = [way(Via::Cast, 8 << 20, times), way(Via::Cast, 1 << 30, 1.0)];
            keep(at, &facts, 3);
        }
        let cast = |times: f64| WayTimes {
            via: Via::Cast,
            times,
        };
        let mut ways = known(at, 3).expect("learnt").ways;
        ways.sort_by_key(|(class, _)| *class);
        let expected = [
            (size_class(8 << 20), cast(8.0 / 3.0)),
            (size_class(1 << 30), cast(1.0)),
        ];
        assert!(
            ways.iter()
                .zip(expected)
                .all(|(found, expected)| found.0 == expected.0
                    && (found.1.times - expected.1.times).abs() < 1e-9),
            "{ways:?}"
        );
    }

    #[test]
    fn a_host_is_slow_once_two_transfers_proved_it_until_one_disproves_it() {
        let folder = scratch();
        let at = folder.path();
        let slow_hosts = |day: u64| {
            let learnt = known(at, day);
            learnt.map_or(Vec::new(), |learnt| learnt.proved.slow)
        };
        keep(at, &[slow("n1")], 1);
        assert_eq!(slow_hosts(1), []);
        keep(at, &[slow("n1"), slow("n2")], 2);
        let [HostCost { name, .. }] = &slow_hosts(2)[..] else {
            panic!("{:?}", slow_hosts(2));
        };
        assert_eq!(name, "n1");
        let (cache, _) = opened(at);
        let fast = Shown {
            fast: vec!["n1".to_owned()],
            can_cast: true,
            ..Shown::default()
        };
        keep(at, &[policed()], 2);
        cache.merge(&HOSTS, &fast, 2 * DAY).expect("written");
        let learnt = known(at, 2);
        assert!(learnt.is_none(), "{learnt:?}");
        keep(at, &[slow("n2")], 3);
        assert_eq!(slow_hosts(3).len(), 1);
    }

    #[test]
    fn transfers_at_once_do_not_lose_what_the_other_showed() {
        let folder = scratch();
        let at = folder.path();
        // All have read the file before one writes it.
        let caches: Vec<Cache> = (0..4).map(|_| opened(at).0).collect();
        let vias = [Via::Cast, Via::Chain, Via::Binary, Via::Latency];
        for (cache, via) in caches.iter().zip(vias) {
            let kept = cache.merge(&HOSTS, &shown(&[way(via, 8 << 20, 2.0)]), DAY);
            kept.expect("written");
        }
        assert_eq!(known(at, 1).expect("learnt").ways.len(), 4);
        // While another holds the lock, nothing is kept, and nothing is waited for.
        let held = lock(&at.join(LOCK_NAME)).expect("free");
        let why = caches[0].merge(&HOSTS, &shown(&[policed()]), DAY);
        assert_eq!(why, Err("others write it".to_owned()));
        drop(held);
        keep(at, &[policed()], 1);
        let learnt = known(at, 1).expect("learnt");
        assert_eq!(
            (learnt.ways.len(), learnt.proved.broadcast.is_some()),
            (4, true)
        );
    }

    #[test]
    fn a_file_that_is_damaged_is_left_out_with_the_reason() {
        let folder = scratch();
        let at = folder.path();
        keep(at, &[costs(100_000_000), way(Via::Cast, 8 << 20, 2.5)], 5);
        let path = at.join(FILE_NAME);
        let good = fs::read_to_string(&path).expect("text");
        let long = " ".repeat(MAX_FILE_BYTES as usize) + &good;
        let odd = good.replace("\"networks\":[", "\"networks\":[7,");
        for (text, word, is_known) in [
            ("", "is no JSON", false),
            ("[7]", "another version", false),
            ("{\"schema\":2,\"networks\":[]}", "another version", false),
            ("{\"schema\":1}", "no list of networks", false),
            (&"[".repeat(1000), "is no JSON", false),
            (&long, "no such file", false),
            (&odd, "not sound, 0", true),
        ] {
            fs::write(&path, text).expect("written");
            let (cache, why) = opened(at);
            assert_eq!(!cache.entries.is_empty(), is_known, "{word}");
            assert!(
                why.as_ref().is_some_and(|why| why.contains(word)),
                "{why:?}"
            );
        }
        // One fact that is not sound does not harm the others.
        for (from, to) in [
            ("gap_ns = 1", "gap_ns = -1"),
            ("\"times\":2.5", "\"times\":1e300"),
            ("\"times\":2.5", "\"times\":0.5"),
            ("\"via\":\"cast\"", "\"via\":\"carrier\""),
        ] {
            let damaged = good.replace(from, to);
            assert_ne!(damaged, good, "{from}");
            fs::write(&path, damaged).expect("written");
            let learnt = known(at, 5).expect("the other");
            assert_eq!(
                u32::from(learnt.costs.is_some()) + learnt.ways.len() as u32,
                1,
                "{to}"
            );
        }
        let hosts = good.replace("n[0-2]", "n[0-99999999]");
        fs::write(&path, hosts).expect("written");
        assert!(known(at, 5).is_none());
        fs::remove_file(&path).expect("removed");
        fs::create_dir(&path).expect("a folder");
        assert!(opened(at).1.is_some_and(|why| why.contains("no such file")));
        fs::remove_dir(&path).expect("removed");
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).expect("a pipe");
        assert!(opened(at).1.is_some_and(|why| why.contains("no such file")));
    }

    #[test]
    fn one_network_that_is_too_long_drops_no_other() {
        let folder = scratch();
        let at = folder.path();
        let (cache, _) = opened(at);
        let many: Vec<String> = (0..20_000).map(|host| format!("n{}", host * 2)).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for day in 0..50 {
            let other = format!("m{day}");
            let kept = cache.merge(
                &["n0", &other],
                &shown(&[costs(100_000_000)]),
                day * DAY / 2,
            );
            kept.expect("written");
        }
        let kept = cache.merge(&many, &shown(&[costs(100_000_000)]), 25 * DAY);
        kept.expect("the others are written");
        let (cache, why) = opened(at);
        assert_eq!((cache.entries.len(), why), (MAX_NETWORKS, None));
        let days: Vec<u64> = (0..50).rev().take(MAX_NETWORKS as u64 as usize).collect();
        let ages: Vec<u64> = cache
            .entries
            .iter()
            .map(|entry| entry.facts[0].at * 2 / DAY)
            .collect();
        assert_eq!(ages, days);
    }

    #[test]
    fn a_folder_or_file_that_others_can_change_is_not_trusted() {
        let mode = |path: &Path, mode: u32| {
            let mode = fs::Permissions::from_mode(mode);
            fs::set_permissions(path, mode).expect("its mode");
        };
        let folder = scratch();
        let own = folder.path().join("ethbcast");
        keep(&own, &[costs(100_000_000)], 1);
        let file = own.join(FILE_NAME);
        assert_eq!(file.metadata().expect("there").mode() & 0o777, 0o600);
        mode(&file, 0o622);
        assert!(
            opened(&own)
                .1
                .is_some_and(|why| why.contains("other users"))
        );
        mode(&file, 0o600);
        let moved = folder.path().join("moved.json");
        fs::rename(&file, &moved).expect("moved");
        symlink(&moved, &file).expect("a link");
        assert!(
            opened(&own)
                .1
                .is_some_and(|why| why.contains("cannot be read"))
        );
        mode(&own, 0o777);
        let (cache, why) = Cache::at(&own, network());
        assert!(cache.is_none() && why.is_some_and(|why| why.contains("other users")));
    }
}
