//! Reasons to refuse a receiver that asks to join, and a memory of those refused.

use crate::membership::Station;
use crate::membership::codec::MAX_NAME_BYTES;
use crate::session::keyring::CONTROL_GROWTH_BYTES;
use crate::session::message::{Message, Refusal};
use crate::session::root::config::{Carousel, RootConfig, RootEndpoint, RootEvent, TurnedAway};
use crate::session::verified::{Form, sizes};
use crate::session::view::MAX_MEMBERS;
use ethbcast_planning::HostNames;
use ethbcast_planning::topology::Topology;
use ethbcast_transport::{Instant, MacAddr};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Names {
    wanted: Option<HostNames>,
    known: Option<HostNames>,
}

impl Names {
    pub fn new(config: &RootConfig) -> Names {
        let known = |topology: &Topology| table(topology.hosts());
        let wanted = (!config.hosts.is_empty()).then(|| table(&config.hosts));
        Names {
            wanted,
            known: config.topology.as_ref().map(known),
        }
    }

    pub fn offer<'a>(&'a self, config: &'a RootConfig) -> SessionParameters<'a> {
        SessionParameters {
            root: &config.station.host,
            mtu_bytes: config.station.mtu_bytes,
            size: config.size,
            form: config.form,
            wanted_hosts: self.wanted.as_ref(),
            known_hosts: self.known.as_ref(),
            carousel: config.carousel.as_ref(),
            most: most_receivers(&config.station),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct SessionParameters<'a> {
    pub root: &'a str,
    pub mtu_bytes: u16,
    pub size: Option<u64>,
    pub form: Form,
    pub wanted_hosts: Option<&'a HostNames>,
    pub known_hosts: Option<&'a HostNames>,
    pub carousel: Option<&'a Carousel>,
    pub most: usize,
}

impl SessionParameters<'_> {
    pub fn needs_names(&self) -> bool {
        self.known_hosts.is_some() || self.wanted_hosts.is_some()
    }

    /// Returns the claims of a host: another host that holds one of them excludes it. If neither
    /// wanted hosts nor a topology are given, the only claim is the name.
    pub fn claims(&self, host: &str, mac: MacAddr) -> Vec<HostClaim> {
        let node = node_name(host, mac);
        let wanted = self
            .wanted_hosts
            .and_then(|wanted| wanted.find(&node))
            .map(HostClaim::Wanted);
        let known = self
            .known_hosts
            .and_then(|known| known.find(&node))
            .map(HostClaim::Known);
        if self.needs_names() {
            wanted.into_iter().chain(known).collect()
        } else {
            vec![HostClaim::name(host)]
        }
    }

    /// Returns the refusal of a host whose only place one of the members has, each given by name
    /// and address.
    pub fn twin<'b>(
        &self,
        (host, mac): (&str, MacAddr),
        mut members: impl Iterator<Item = (&'b str, MacAddr)>,
    ) -> Option<(Refusal, String)> {
        let claims = if self.needs_names() {
            self.claims(host, mac)
        } else {
            Vec::new()
        };
        let is_claimed = |(other, of): (&str, MacAddr)| {
            let bare = other.strip_suffix(&format!("@{of}")).unwrap_or(other);
            of != mac
                && self
                    .claims(bare, of)
                    .iter()
                    .any(|claim| claims.contains(claim))
        };
        members
            .any(is_claimed)
            .then(|| (Refusal::Twin, namesake_text(host, mac)))
    }

    pub fn knows_by_address(&self, host: &str, mac: MacAddr) -> bool {
        let node = node_name(host, mac);
        [self.wanted_hosts, self.known_hosts]
            .into_iter()
            .flatten()
            .any(|names| names.find(&node) != names.find(host))
    }

    pub fn root_claims(&self) -> Vec<HostClaim> {
        let known = self
            .known_hosts
            .and_then(|known| known.find(self.root))
            .map(HostClaim::Known);
        known
            .into_iter()
            .chain([HostClaim::name(self.root)])
            .collect()
    }

    // Texts of refusals are read at other hosts, whatever front end those have: they name the
    // program's options.

    /// Returns the refusal of a host that is not among those that the user has named, or that has
    /// the content from an earlier round.
    pub fn unwanted(&self, host: &str, mac: MacAddr) -> Option<(Refusal, String)> {
        if self
            .carousel
            .is_some_and(|carousel| carousel.has_served(mac))
        {
            let text = format!("{host} has had everything in an earlier round of the carousel");
            return Some((Refusal::Late, text));
        }
        let is_wanted = self
            .wanted_hosts
            .is_none_or(|wanted| wanted.find(&node_name(host, mac)).is_some());
        let text = || {
            format!(
                "{} sends only to its --hosts, and {host} is not among them",
                self.root
            )
        };
        (!is_wanted).then(|| (Refusal::NotWanted, text()))
    }

    pub fn refusal(
        &self,
        (host, mac): (&str, MacAddr),
        mtu_bytes: u16,
        free_bytes: u64,
    ) -> Option<(Refusal, String)> {
        if host.is_empty() || host.len() > MAX_NAME_BYTES {
            let text = "its host name is empty, or too long after escaping: set one with --host"
                .to_owned();
            return Some((Refusal::Twin, text));
        }
        if let Some(unwanted) = self.unwanted(host, mac) {
            return Some(unwanted);
        }
        if mtu_bytes < self.mtu_bytes {
            let text = format!(
                "{host} has MTU {mtu_bytes}, the sender {}; raise it on {host}, or send with --mtu {mtu_bytes}",
                self.mtu_bytes
            );
            return Some((Refusal::SmallMtu, text));
        }
        let free_bytes = self.form.content_bytes(free_bytes);
        if let Some(size) = self.size.filter(|&size| size > free_bytes) {
            let [free, size] = sizes(free_bytes, size);
            let text = format!(
                "{host} has room for {free} at DEST, the file has {size}; make room there, or choose another DEST"
            );
            return Some((Refusal::NoSpace, text));
        }
        if self
            .known_hosts
            .is_some_and(|known| known.find(&node_name(host, mac)).is_none())
        {
            let text = format!(
                "the topology file names no host {host}; add it, or start `ethbcast recv` with --host NAME as it is \
                 spelt there"
            );
            return Some((Refusal::NotInTopology, text));
        }
        None
    }
}

/// Maximum number of receivers of a session: a verdict has two bits per rank and fits into one
/// frame.
fn most_receivers(station: &Station) -> usize {
    let growth_bytes = if station.guard.is_keyed() {
        CONTROL_GROWTH_BYTES
    } else {
        0
    };
    let bytes = (usize::from(station.payload_bytes()) - growth_bytes - VERDICT_BYTES) / 2;
    (bytes * 8 - 1).min(MAX_MEMBERS - 1)
}

/// Bytes of a verdict beside its two bitmaps: over, flags, bytes, digest, their length.
const VERDICT_BYTES: usize = 1 + 1 + 8 + 32 + 2;

pub fn twin_text(host: &str, other: &str, mac: MacAddr) -> String {
    if host == other
        || other
            .strip_prefix(host)
            .is_some_and(|rest| rest.starts_with('@'))
    {
        return format!(
            "another receiver of this group already runs on {host}; end it, or choose another group with -g"
        );
    }
    format!(
        "two hosts use the address {mac}, {other} and {host}: give each interface an address of its own"
    )
}

pub fn namesake_text(host: &str, mac: MacAddr) -> String {
    format!(
        "another host of this session is {host}, too: give each a name of its own with --host NAME, or name it with \
         its address, --hosts {host}@{mac}"
    )
}

/// A place in a session that only one host can take.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostClaim {
    Name(String),
    Wanted(usize),
    Known(usize),
}

impl HostClaim {
    pub fn name(host: &str) -> HostClaim {
        HostClaim::Name(host.to_ascii_lowercase())
    }
}

pub fn node_name(host: &str, mac: MacAddr) -> String {
    format!("{host}@{mac}")
}

pub fn table(names: &[String]) -> HostNames {
    HostNames::new(names.iter().map(String::as_str))
}

const REFUSAL_INTERVAL: Duration = Duration::from_secs(1);
const MAX_REMEMBERED: usize = 4096;

#[derive(Clone, Debug)]
struct RefusalEntry {
    last: TurnedAway,
    nonce: u64,
    refused_at: Instant,
}

#[derive(Clone, Debug, Default)]
pub struct Refusals {
    entries: BTreeMap<MacAddr, RefusalEntry>,
}

impl Refusals {
    /// Sends a refusal, unless one was sent just now, or the receiver itself has refused, which it
    /// says several times. The user is notified once per reason.
    pub fn refuse(
        &mut self,
        now: Instant,
        to: MacAddr,
        nonce: u64,
        away: TurnedAway,
        endpoint: &mut RootEndpoint,
    ) {
        let known = self.entries.get(&to);
        if known.is_some_and(|entry| entry.last.why.is_by_receiver() && entry.nonce == nonce) {
            return;
        }
        if known.is_some_and(|entry| {
            now < entry.refused_at + REFUSAL_INTERVAL && entry.last.why == away.why
        }) {
            return;
        }
        endpoint.reply(
            to,
            &Message::Refuse {
                nonce,
                why: away.why,
                text: away.text.clone(),
            },
        );
        self.note(now, nonce, away, endpoint);
    }

    pub fn note(
        &mut self,
        now: Instant,
        nonce: u64,
        away: TurnedAway,
        endpoint: &mut RootEndpoint,
    ) {
        let known = self.entries.get(&away.mac);
        let is_news = known
            .as_ref()
            .is_none_or(|entry| entry.last.why != away.why || entry.last.host != away.host);
        if known.is_none() && self.entries.len() >= MAX_REMEMBERED {
            return;
        }
        if is_news {
            endpoint.push_event(RootEvent::Refused {
                host: away.host.clone(),
                mac: away.mac,
                text: away.text.clone(),
            });
        }
        self.entries.insert(
            away.mac,
            RefusalEntry {
                last: away,
                nonce,
                refused_at: now,
            },
        );
    }

    pub fn forget(&mut self, host: MacAddr) {
        self.entries.remove(&host);
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn all(&self) -> impl Iterator<Item = &TurnedAway> + '_ {
        self.entries.values().map(|entry| &entry.last)
    }
}
