//! Formation of a communicator: its processes find each other without a coordinator. Each sends
//! CALLs until all have the identical list.

use super::body::CallBody;
use super::config::{Config, period};
use super::error::CommunicatorError;
use super::kind;
use super::network::{Network, Spread, SpreadMessage, SpreadSource, contradiction};
use super::roster::{Roster, RosterDigest, RosterEntry};
use super::seals::CALL_GROWTH_BYTES;
use crate::membership::{MIN_MTU_BYTES, OtherBuild, Station};
use ethbcast_transport::wire::{self, OtherVersion, Rank};
use ethbcast_transport::{Instant, MacAddr};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Returns of an old nonce after which two processes are taken to share an interface. Late frames
/// of a former process cause one return.
const TWIN_RETURNS: u32 = 2;

const SPARE_CALLERS: usize = 16;

/// Calls of a process with another key that a running group answers. Their end keeps two groups
/// with one name from answering each other for ever.
const MISFITS_ANSWERED: u32 = 8;

/// Calls of a process before its claims can prevent the group: a single frame may be forged.
const CREDIBLE_CALLS: u32 = 2;

const MAX_MISFITS: usize = 64;

#[derive(Clone, Debug)]
struct Caller {
    nonce: u64,
    calls: u32,
    replaced: Option<u64>,
    returns: u32,
    host: String,
    mtu_bytes: u16,
    digest: RosterDigest,
    joined: bool,
    network: SpreadMessage,
    said: u32,
    last_received_at: Instant,
}

#[derive(Clone, Debug)]
pub(super) struct Assembly {
    config: Config,
    callers: BTreeMap<MacAddr, Caller>,
    misfits: BTreeMap<MacAddr, u32>,
    list: Option<Roster>,
    spread: Spread,
    /// List of ranks with the network description's number, once both are known.
    roster: Option<Roster>,
    /// The last caller that has another key, or the only one.
    other_build: Option<OtherBuild>,
    warned: BTreeSet<MacAddr>,
    due: Instant,
}

impl Assembly {
    pub(super) fn new(now: Instant, config: Config) -> Assembly {
        let mut assembly = Assembly {
            config,
            callers: BTreeMap::new(),
            misfits: BTreeMap::new(),
            list: None,
            spread: Spread::default(),
            roster: None,
            other_build: None,
            warned: BTreeSet::new(),
            due: now,
        };
        assembly.recount(now);
        assembly
    }

    pub(super) fn roster(&self) -> Option<&Roster> {
        self.roster.as_ref()
    }

    pub(super) fn due(&self) -> Instant {
        self.config
            .join_by
            .map_or(self.due, |join_by| self.due.min(join_by))
    }

    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        let due = self.due <= now;
        if due {
            self.due = now + period(self.config.size);
        }
        due
    }

    pub(super) fn network(&self) -> Option<&Arc<Network>> {
        self.spread.known().map(|(network, _)| network)
    }

    /// Returns the number of calls to send now: several from the process that distributes the
    /// network description.
    pub(super) fn calls(&self) -> u16 {
        if self.distributes() {
            self.spread.pieces(self.piece_bytes())
        } else {
            1
        }
    }

    fn piece_bytes(&self) -> usize {
        let station = &self.config.station;
        let growth_bytes = if station.guard.is_keyed() {
            CALL_GROWTH_BYTES
        } else {
            0
        };
        let call_bytes = station.guard.header_bytes()
            + growth_bytes
            + CallBody::bytes(&station.group, &station.host);
        usize::from(station.mtu_bytes.min(MIN_MTU_BYTES))
            .saturating_sub(call_bytes)
            .max(1)
    }

    fn distributes(&self) -> bool {
        let lacks = |caller: &Caller| {
            caller.network.list == self.spread.list() && caller.network.network == 0
        };
        self.distributor() == Some(self.config.station.mac) && self.callers.values().any(lacks)
    }

    fn distributor(&self) -> Option<MacAddr> {
        let was_told = |mac: &MacAddr| match self.callers.get(mac) {
            Some(caller) => caller.network.told,
            None => self.config.describes_network(),
        };
        self.list
            .as_ref()?
            .entries()
            .iter()
            .map(|entry| entry.mac)
            .find(was_told)
    }

    pub(super) fn call(&mut self, joined: bool) -> CallBody {
        let (tells, room_bytes) = (self.distributes(), self.piece_bytes());
        let network = self
            .spread
            .next_message(self.config.describes_network(), tells, room_bytes);
        let Config {
            station,
            size,
            nonce,
            preset,
            ..
        } = &self.config;
        CallBody {
            nonce: *nonce,
            size: *size,
            mtu_bytes: station.mtu_bytes,
            preset: *preset as u8,
            joined,
            digest: self.roster.as_ref().map_or([0; 32], Roster::digest),
            group: station.group.clone(),
            host: station.host.clone(),
            network,
        }
    }

    pub(super) fn on_call(
        &mut self,
        now: Instant,
        mac: MacAddr,
        call: CallBody,
    ) -> Result<(), CommunicatorError> {
        let Config { size, preset, .. } = self.config;
        if call.size != size || call.preset != preset as u8 {
            let CallBody {
                host, size: theirs, ..
            } = call;
            let differ = CommunicatorError::SizesDiffer {
                host: host.clone(),
                theirs,
                ours: size,
            };
            let why = if theirs == size {
                CommunicatorError::PresetsDiffer { host }
            } else {
                differ
            };
            return self.on_misfit(mac, why);
        }
        self.misfits.remove(&mac);
        if self.note(now, mac, call) {
            self.recount(now);
        }
        if self.distributor() == Some(mac)
            && !self.config.describes_network()
            && let Some(caller) = self.callers.get(&mac)
            && self
                .spread
                .take(&caller.network, caller.said >= CREDIBLE_CALLS, size)
        {
            self.due = now;
            self.complete();
        }
        self.check(now)
    }

    pub(super) fn is_caller(&self, mac: MacAddr, nonce: u64) -> bool {
        self.callers
            .get(&mac)
            .is_some_and(|caller| caller.nonce == nonce)
    }

    pub(super) fn fault(&self) -> Option<CommunicatorError> {
        self.spread.fault().cloned()
    }

    pub(super) fn on_other_version(
        &mut self,
        other: OtherVersion,
        frame: &[u8],
        is_keyed: bool,
    ) -> Result<(), CommunicatorError> {
        let OtherVersion {
            version,
            kind,
            source,
        } = other;
        let names = wire::older_payload(frame).and_then(CallBody::names);
        let is_foreign = names
            .as_ref()
            .is_some_and(|(group, _)| *group != self.config.station.group);
        if kind != kind::CALL || is_foreign {
            return Ok(());
        }
        let host = names.map(|(_, host)| host);
        let other = OtherBuild {
            mac: source,
            host,
            version,
            keys: None,
        };
        if is_keyed {
            // No tag shows who sent it.
            self.on_other_build(other);
            return Ok(());
        }
        self.on_misfit(source, CommunicatorError::OtherBuild(other))
    }

    /// Records a caller with other keys or of another version after some calls, unless it is one of
    /// the group. Anybody may have sent its frames: it only explains in the end who is missing.
    pub(super) fn on_other_build(&mut self, other: OtherBuild) {
        let is_credible = |calls| calls >= CREDIBLE_CALLS;
        if self.callers.contains_key(&other.mac)
            || !self.count_misfit(other.mac).is_some_and(is_credible)
        {
            return;
        }
        if self.warned.len() < MAX_MISFITS && self.warned.insert(other.mac) {
            log::warn!("{other}");
        }
        self.other_build = Some(other);
    }

    /// Counts a call of a process with another key; returns whether it is answered.
    pub(super) fn is_told(&mut self, mac: MacAddr) -> bool {
        self.count_misfit(mac)
            .is_some_and(|calls| calls <= MISFITS_ANSWERED)
    }

    fn count_misfit(&mut self, mac: MacAddr) -> Option<u32> {
        if self.misfits.len() >= MAX_MISFITS && !self.misfits.contains_key(&mac) {
            return None;
        }
        let calls = self.misfits.entry(mac).or_default();
        *calls = calls.saturating_add(1);
        Some(*calls)
    }

    fn on_misfit(&mut self, mac: MacAddr, why: CommunicatorError) -> Result<(), CommunicatorError> {
        match self.count_misfit(mac) {
            Some(calls) if calls >= CREDIBLE_CALLS => Err(why),
            _ => Ok(()),
        }
    }

    fn note(&mut self, now: Instant, mac: MacAddr, call: CallBody) -> bool {
        let CallBody {
            nonce,
            mtu_bytes,
            joined,
            digest,
            host,
            network,
            ..
        } = call;
        let mtu_bytes = mtu_bytes.max(MIN_MTU_BYTES);
        if self.callers.len() >= usize::from(self.config.size) + SPARE_CALLERS
            && !self.callers.contains_key(&mac)
        {
            return false;
        }
        let known = self.callers.remove(&mac);
        let same = known.as_ref().is_some_and(|known| {
            (known.nonce, known.mtu_bytes, &known.host) == (nonce, mtu_bytes, &host)
        }) && known
            .as_ref()
            .is_some_and(|known| known.network.told == network.told);
        let said = known
            .as_ref()
            .filter(|known| known.network.is_same(&network));
        let said = said.map_or(0, |known| known.said).saturating_add(1);
        let (calls, replaced, returns) = match known {
            Some(known) if known.nonce == nonce => {
                (known.calls.saturating_add(1), known.replaced, known.returns)
            }
            Some(known) => (
                1,
                Some(known.nonce),
                known.returns + u32::from(known.replaced == Some(nonce)),
            ),
            None => (1, None, 0),
        };
        let caller = Caller {
            nonce,
            calls,
            replaced,
            returns,
            host,
            mtu_bytes,
            digest,
            joined,
            network,
            said,
            last_received_at: now,
        };
        self.callers.insert(mac, caller);
        !same
    }

    fn recount(&mut self, now: Instant) {
        let complete = self.callers.len() + 1 == usize::from(self.config.size);
        let list = complete.then(|| {
            let station = &self.config.station;
            let own = RosterEntry {
                mac: station.mac,
                nonce: self.config.nonce,
                host: station.host.clone(),
            };
            let others = self.callers.iter();
            let others = others.map(|(&mac, caller)| RosterEntry {
                mac,
                nonce: caller.nonce,
                host: caller.host.clone(),
            });
            let mtu_bytes = self
                .callers
                .values()
                .map(|caller| caller.mtu_bytes)
                .min()
                .unwrap_or(u16::MAX)
                .min(station.mtu_bytes);
            Roster::new(
                &station.group,
                std::iter::once(own).chain(others).collect(),
                mtu_bytes,
                self.config.preset,
            )
        });
        if list != self.list {
            let hosts: Vec<&str> = list
                .iter()
                .flat_map(Roster::entries)
                .map(|entry| entry.host.as_str())
                .collect();
            self.spread.restart(
                list.as_ref().map_or(0, Roster::number),
                &self.config,
                &hosts,
            );
            self.due = if list.is_some() { now } else { self.due };
            self.list = list;
        }
        self.complete();
    }

    fn complete(&mut self) {
        if self.list.is_some() && self.distributor().is_none() {
            self.spread.settle_unknown();
        }
        let known = self.list.as_ref().zip(self.spread.known());
        self.roster = known.map(|(list, (_, network))| list.with_network(network));
    }

    fn check(&self, now: Instant) -> Result<(), CommunicatorError> {
        let fresh_for = period(self.config.size) * 5 / 2;
        let is_fresh = |caller: &&Caller| {
            caller.calls >= CREDIBLE_CALLS && now.since(caller.last_received_at) < fresh_for
        };
        let fresh = || self.callers.values().filter(is_fresh);
        if let Some(fault) = self.fault() {
            return Err(fault);
        }
        self.check_network(now, fresh_for)?;
        if let Some(caller) =
            fresh().find(|caller| caller.network.unfit && caller.said >= CREDIBLE_CALLS)
        {
            return Err(CommunicatorError::Unfit {
                host: caller.host.clone(),
            });
        }
        // Each return resets the count of calls.
        let twin = |caller: &&Caller| {
            caller.returns >= TWIN_RETURNS && now.since(caller.last_received_at) < fresh_for
        };
        if let Some(caller) = self.callers.values().find(twin) {
            return Err(CommunicatorError::TwoProcesses {
                host: caller.host.clone(),
            });
        }
        if let Some(host) = self.namesake(is_fresh) {
            return Err(CommunicatorError::Namesakes { host });
        }
        // The running group may end; only processes that want to join it count.
        let unjoined_callers = fresh().filter(|caller| !caller.joined).count() + 1;
        if unjoined_callers > usize::from(self.config.size) {
            return Err(CommunicatorError::TooMany {
                size: self.config.size,
                hosts: self.hosts(),
            });
        }
        Ok(())
    }

    fn namesake(&self, is_fresh: impl Fn(&&Caller) -> bool) -> Option<String> {
        let Station { host, mac, .. } = &self.config.station;
        let fresh = self.callers.iter().filter(|(_, caller)| is_fresh(caller));
        let mut hosts: Vec<(&str, [u8; 6])> = fresh
            .map(|(mac, caller)| (caller.host.as_str(), mac.octets()))
            .chain([(host.as_str(), mac.octets())])
            .collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
            .windows(2)
            .find(|pair| pair[0].0 == pair[1].0)
            .map(|pair| pair[0].0.to_owned())
    }

    fn check_network(&self, now: Instant, fresh_for: Duration) -> Result<(), CommunicatorError> {
        let own = self
            .spread
            .known()
            .filter(|_| self.config.describes_network());
        let own = own.map(|(_, network)| SpreadMessage {
            told: true,
            list: self.spread.list(),
            network,
            ..SpreadMessage::default()
        });
        let station = &self.config.station;
        let own = own.as_ref().map(|word| SpreadSource {
            host: &station.host,
            word,
        });
        let fresh = |caller: &&Caller| {
            caller.said >= CREDIBLE_CALLS && now.since(caller.last_received_at) < fresh_for
        };
        let others = self.callers.values().filter(fresh);
        let others = others.map(|caller| SpreadSource {
            host: &caller.host,
            word: &caller.network,
        });
        match contradiction(self.spread.list(), own.into_iter().chain(others)) {
            Some((one, other)) => Err(CommunicatorError::NetworksDiffer {
                one: one.to_owned(),
                other: other.to_owned(),
            }),
            None => Ok(()),
        }
    }

    /// Whether a frame belongs to this list's session. Its sender then knows that all have the
    /// list.
    pub(super) fn is_of_session(&self, session: u32, rank: Rank, mac: MacAddr) -> bool {
        self.roster.as_ref().is_some_and(|roster| {
            roster.session() == session && roster.is(rank, mac) && mac != self.config.station.mac
        })
    }

    pub(super) fn is_confirmed(&self) -> bool {
        self.roster.as_ref().is_some_and(|roster| {
            self.callers
                .values()
                .all(|caller| caller.digest == roster.digest())
        })
    }

    /// Forgets callers that have been silent for long. Fails, naming the missing processes, once
    /// `join_by` has passed.
    pub(super) fn on_timeout(&mut self, now: Instant) -> Result<(), CommunicatorError> {
        let silence_limit = self.config.silence_limit(self.config.size);
        let before = self.callers.len();
        self.callers
            .retain(|_, caller| now.since(caller.last_received_at) < silence_limit);
        if self.callers.len() != before {
            self.recount(now);
        }
        let late = self.config.join_by.is_some_and(|join_by| join_by <= now);
        if late { Err(self.lateness()) } else { Ok(()) }
    }

    fn lateness(&self) -> CommunicatorError {
        let (size, digest) = (self.config.size, self.roster.as_ref().map(Roster::digest));
        let running = |caller: &Caller| caller.joined && Some(caller.digest) != digest;
        if self.callers.values().any(running) {
            return CommunicatorError::Running {
                hosts: self.names(running),
            };
        }
        match digest {
            Some(digest) => CommunicatorError::Unconfirmed {
                size,
                hosts: self.names(|caller| caller.digest != digest),
            },
            None if self.list.is_some() => CommunicatorError::Unconfirmed {
                size,
                hosts: self.names(|caller| caller.network.told),
            },
            None => {
                let other = self.other_build.clone();
                let other = other.filter(|other| !self.callers.contains_key(&other.mac));
                let other = other.map(Box::new);
                CommunicatorError::Missing {
                    size,
                    hosts: self.hosts(),
                    other,
                }
            }
        }
    }

    fn names(&self, which: impl Fn(&Caller) -> bool) -> Vec<String> {
        self.callers
            .values()
            .filter(|caller| which(caller))
            .map(|caller| caller.host.clone())
            .collect()
    }

    fn hosts(&self) -> Vec<String> {
        let mut hosts = self.names(|_| true);
        hosts.push(self.config.station.host.clone());
        hosts.sort_by(|a, b| ethbcast_planning::natural_order(a, b));
        hosts
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_ranks_are_an_error_that_also_names_a_caller_of_another_build() {
        let station = |host: u8| {
            Station::new(
                "g",
                &format!("n{host}"),
                MacAddr::new(2, 0, 0, 0, 0, host),
                1500,
            )
        };
        let join_by = Instant::START + Duration::from_secs(1);
        let config = |host: u8| Config {
            join_by: Some(join_by),
            ..Config::new(station(host), 4, host.into())
        };
        let mut assembly = Assembly::new(Instant::START, config(0));
        for host in [1, 2] {
            let call = Assembly::new(Instant::START, config(host)).call(false);
            assembly
                .on_call(join_by, station(host).mac, call)
                .expect("one of the group");
        }
        let other = |host: u8| OtherBuild {
            mac: station(host).mac,
            host: None,
            version: host,
            keys: None,
        };
        // Frames under the address of one of the group, and a single one, are no evidence.
        for host in [9, 9, 2, 2, 8] {
            assembly.on_other_build(other(host));
        }
        let text = assembly
            .on_timeout(join_by)
            .expect_err("one is missing")
            .to_string();
        assert!(text.contains("3 of 4 were there: n0, n1, n2;"), "{text}");
        assert!(
            text.contains("; besides, 02:00:00:00:00:09 speaks version 9 of the protocol"),
            "{text}"
        );
    }
}
