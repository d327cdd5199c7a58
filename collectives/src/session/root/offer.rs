//! What a root offers, and the words for those it does not suit.

use super::RootConfig;
use crate::membership::codec::MAX_NAME_BYTES;
use crate::session::ledger::Form;
use crate::session::message::Refusal;
use crate::session::view::MAX_MEMBERS;
use ethbcast_planning::topology::Topology;
use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::HEADER_BYTES;
use std::collections::BTreeSet;

/// The names that matter: of the hosts that are wanted, and of those of the topology.
#[derive(Clone, Debug)]
pub(super) struct HostNames {
    wanted: BTreeSet<String>,
    known: Option<BTreeSet<String>>,
}

impl HostNames {
    pub(super) fn new(config: &RootConfig) -> HostNames {
        let known = |topology: &Topology| topology.hosts().iter().cloned().collect();
        HostNames { wanted: config.hosts.iter().cloned().collect(), known: config.topology.as_ref().map(known) }
    }

    /// What a root with this configuration offers.
    pub(super) fn offer<'a>(&'a self, config: &'a RootConfig) -> Offer<'a> {
        Offer {
            root: &config.station.host,
            mtu_bytes: config.station.mtu_bytes,
            size: config.size,
            form: config.form,
            wanted_hosts: &self.wanted,
            known_hosts: self.known.as_ref(),
            most: most_receivers(config.station.mtu_bytes),
        }
    }
}

/// What the root offers, which decides who is refused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer<'a> {
    /// The root's own name.
    pub root: &'a str,
    pub mtu_bytes: u16,
    pub size: Option<u64>,
    pub form: Form,
    /// The only hosts that are wanted, if they were named.
    pub wanted_hosts: &'a BTreeSet<String>,
    /// The hosts of the topology, if there is one.
    pub known_hosts: Option<&'a BTreeSet<String>>,
    /// More than so many do not fit.
    pub most: usize,
}

impl Offer<'_> {
    /// Whether a host is known by its name alone.
    pub(super) fn needs_names(&self) -> bool {
        self.known_hosts.is_some() || !self.wanted_hosts.is_empty()
    }

    /// Why a host that says this of itself cannot take part, if it cannot.
    pub(super) fn refusal(&self, host: &str, mtu_bytes: u16, free_bytes: u64) -> Option<(Refusal, String)> {
        if host.is_empty() || host.len() > MAX_NAME_BYTES {
            let text =
                "its name is empty, or too long with what cannot be shown of it: choose one with --host".to_owned();
            return Some((Refusal::Twin, text));
        }
        if !self.wanted_hosts.is_empty() && !self.wanted_hosts.contains(host) {
            return Some((
                Refusal::NotWanted,
                format!("{} sends to the hosts of its --hosts, {host} is none", self.root),
            ));
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
            let text = format!(
                "{host} has room for {free_bytes} bytes at DEST, the file has {size}; make room there, or choose \
                 another DEST"
            );
            return Some((Refusal::NoSpace, text));
        }
        if self.known_hosts.is_some_and(|known| !known.contains(host)) {
            let text = format!(
                "the topology file names no host {host}; add it, or start `ethbcast recv` with --host NAME as it is \
                 spelt there"
            );
            return Some((Refusal::NotInTopology, text));
        }
        None
    }
}

/// So many receivers a session can have: a verdict has two bits for each rank and goes into one frame.
fn most_receivers(mtu_bytes: u16) -> usize {
    let bytes = (usize::from(mtu_bytes) - HEADER_BYTES - VERDICT_BYTES) / 2;
    (bytes * 8 - 1).min(MAX_MEMBERS - 1)
}

/// Bytes of a verdict beside its two bitmaps: over, flags, bytes, digest, their length.
const VERDICT_BYTES: usize = 1 + 1 + 8 + 32 + 2;

/// That `host` speaks from the address of `other`.
pub(super) fn twin_text(host: &str, other: &str, mac: MacAddr) -> String {
    if host == other || other.strip_prefix(host).is_some_and(|rest| rest.starts_with('@')) {
        return format!(
            "another receiver of this group already runs on {host}; end it, or choose another group with -g"
        );
    }
    format!("two hosts use the address {mac}, {other} and {host}: give each interface an address of its own")
}

/// That another host of the session is called `host`.
pub(super) fn namesake_text(host: &str) -> String {
    format!(
        "another host of this session is called {host}, too; give each the name the topology file has for it, with \
         --host NAME"
    )
}
