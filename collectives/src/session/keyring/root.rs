//! Keys of the sender (root) in an encrypted or authenticated transfer.

use super::{
    Clusters, KnownSessions, SUITES, Secrecy, Slot, end_of, is_numbered, numbered, secrecy, signed,
};
use crate::census::kind::WHO;
use crate::keys::{
    ContentCipher, ExchangePair, Keys, Protection, SealedMessage, Secret, SessionFacts, SessionName,
};
use crate::keys::{Signed, pair_secret, request_digest};
use crate::membership::Station;
use crate::session::kind::{ANNOUNCE, JOIN, REFUSE};
use ethbcast_transport::wire::{
    Counter, CounterWindow, Frame, Guard, Header, PayloadHash, Rank, UnprovenFrame,
};
use ethbcast_transport::{Instant, MacAddr};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of addresses whose runs are remembered, and of runs of one address. Only hosts
/// with the cluster's secret have entries. If there is no room, an address is dropped that shares
/// no secret with this root.
const MAX_ADDRESSES: usize = 8192;
const MAX_RUNS: usize = 8;
const MAX_COMPETITORS: usize = 16;

/// Keys of a root, which may send, with what was drawn at random for one session. The bytes
/// `random` make it differ from every other one.
#[derive(Clone, Debug)]
pub struct RootKeys {
    pub keys: Arc<Keys>,
    pub random: [u8; 32],
    pub exchange: ExchangePair,
    pub group: Secret,
    pub hash: PayloadHash,
    pub encrypts: bool,
}

impl RootKeys {
    pub(in crate::session) fn guard(&self) -> Guard {
        self.group.guard(self.hash)
    }
}

/// Run of a receiver. `request` is the digest of its join request, which never changes, and its
/// address; `said` is the number of the root's last message to it, `window` has the numbers of its
/// own, and `heard` counts the runs before it.
#[derive(Clone, Debug)]
struct Run {
    nonce: u64,
    exchange: [u8; 32],
    request: [u8; 32],
    cluster_index: usize,
    asked: CounterWindow,
    said: Counter,
    window: CounterWindow,
    /// Made when the group's secret is first sent.
    pair: Option<Box<Protection>>,
    heard: u64,
    /// Whether a later run at this address has used its pair's secret: frames of this run are then
    /// repetitions.
    is_over: bool,
}

/// Keyring of a root. Messages go to the first of the runs of an address; sessions of
/// `other_groups` only share the links.
#[derive(Clone, Debug)]
pub struct RootRing {
    clusters: Clusters,
    own: RootKeys,
    name: SessionName,
    mac: MacAddr,
    session: u32,
    group: Protection,
    runs: BTreeMap<MacAddr, Vec<Run>>,
    heard: u64,
    competing_sessions: KnownSessions,
    other_groups: KnownSessions,
}

impl RootRing {
    /// # Panics
    /// If the keys are a receiver's.
    pub(super) fn new(own: RootKeys, station: &Station, session: u32) -> RootRing {
        let sender = own.keys.signer().expect("a root's keys may send").public();
        let (random, exchange, sender) = (&own.random, own.exchange.public(), sender.bytes());
        let (root, group) = (station.mac, &*station.group);
        let name = SessionName::of(&SessionFacts {
            session,
            random,
            exchange,
            sender,
            root,
            group,
        });
        own.keys.note(session, own.hash, &own.group);
        RootRing {
            clusters: Clusters::new(own.keys.clone(), group),
            name,
            mac: station.mac,
            session,
            group: Protection::new(&own.group, own.hash),
            runs: BTreeMap::new(),
            heard: 0,
            competing_sessions: KnownSessions::new(MAX_COMPETITORS),
            other_groups: KnownSessions::new(MAX_COMPETITORS),
            own,
        }
    }

    pub(super) fn clusters(&self) -> &Clusters {
        &self.clusters
    }

    #[cfg(test)]
    pub(super) fn name(&self) -> SessionName {
        self.name
    }

    pub(super) fn group(&self) -> &Protection {
        &self.group
    }

    pub(super) fn content_cipher(&self) -> ContentCipher {
        let RootKeys {
            keys,
            group,
            hash,
            encrypts,
            ..
        } = &self.own;
        let cipher = if *encrypts {
            ContentCipher::new(group, *hash)
        } else {
            ContentCipher::default()
        };
        cipher.signed_by(
            keys.signer().expect("a root's keys may send").clone(),
            self.name,
        )
    }

    pub(super) fn close_trailer(&self, trailer: &[u8]) -> Option<Vec<u8>> {
        let signature = self
            .own
            .keys
            .signer()?
            .sign(Signed::Trailer, &self.name, &[trailer]);
        let mut end = [trailer, &signature].concat();
        self.group.veil().put(end_of(self.session), &mut end);
        Some(end)
    }

    pub(super) fn keys_for(&mut self, to: MacAddr, nonce: u64) -> Option<Vec<u8>> {
        let runs = self.runs.get_mut(&to)?;
        let at = runs.iter().position(|run| run.nonce == nonce)?;
        let run = &mut runs[at];
        if run.pair.is_none() {
            // The nonce of another root, which only probes this one, does not follow from its key.
            let exchange =
                Some(&run.exchange).filter(|exchange| ExchangePair::nonce(exchange) == nonce)?;
            let (exchanged, cluster) = (
                self.own.exchange.agree(exchange)?,
                self.clusters.secrets.secret(run.cluster_index),
            );
            let secret = pair_secret(cluster, &exchanged, &self.name, &run.request);
            self.own
                .keys
                .note(self.session, PayloadHash::Blake3, &secret);
            run.pair = Some(Box::new(Protection::new(&secret, PayloadHash::Blake3)));
        }
        runs[..=at].rotate_right(1);
        let suite = SUITES
            .iter()
            .position(|hash| *hash == self.own.hash)
            .map_or(0, |at| at as u8 + 1);
        Some(
            [
                &self.own.group.expose()[..],
                &[suite, u8::from(self.own.encrypts)],
            ]
            .concat(),
        )
    }

    pub(super) fn forget(&mut self, host: MacAddr) {
        self.runs
            .get_mut(&host)
            .into_iter()
            .flatten()
            .for_each(|run| run.pair = None);
    }

    pub(super) fn seal(
        &mut self,
        to: MacAddr,
        header: Header,
        body: &[u8],
    ) -> Option<SealedMessage> {
        match (secrecy(&header, to), header.kind) {
            (Secrecy::Cluster, ANNOUNCE) => {
                let sender = self.own.keys.signer()?.public();
                let fields = [
                    &self.own.random[..],
                    self.own.exchange.public(),
                    sender.bytes(),
                    body,
                ]
                .concat();
                let header = self.clusters.secrets.number(0, header)?;
                let plain = self.with_signature(Signed::Announce, &header, &fields)?;
                self.clusters.secrets.close_numbered(0, header, plain)
            }
            (Secrecy::Cluster, JOIN) => {
                let other = self.competing_sessions.of(to, header.session)?;
                let plain = [&other.name.0[..], self.own.exchange.public(), body].concat();
                self.clusters
                    .secrets
                    .close(other.cluster_index, header, plain)
            }
            (Secrecy::Cluster, REFUSE) => {
                let header = self.clusters.secrets.number(0, header)?;
                let signed = self.with_signature(Signed::Refuse, &header, body)?;
                self.clusters.secrets.close_numbered(
                    0,
                    header,
                    [&self.name.0[..], &signed].concat(),
                )
            }
            (Secrecy::Cluster, _) => None,
            (Secrecy::Pair, _) => {
                let run = self.runs.get_mut(&to)?.first_mut()?;
                let pair = run.pair.as_ref()?;
                Some(pair.close_numbered(
                    Header {
                        sequence: run.said.draw(),
                        ..header
                    },
                    body.to_vec(),
                ))
            }
            (Secrecy::Group, _) => {
                let header = self.group.number(header);
                self.seal_to_all(header, body)
            }
        }
    }

    pub(super) fn seal_to_all(&self, header: Header, body: &[u8]) -> Option<SealedMessage> {
        Some(self.group.close_numbered(
            header,
            self.with_signature(signed(header.kind)?, &header, body)?,
        ))
    }

    fn with_signature(&self, what: Signed, header: &Header, fields: &[u8]) -> Option<Vec<u8>> {
        let signer = self.own.keys.signer()?;
        let signature = signer.sign(what, &self.name, &[fields, &numbered(header.sequence)]);
        Some([&signature[..], fields].concat())
    }

    pub(super) fn slot(&self, frame: &UnprovenFrame<'_>, tried: usize) -> Option<Slot> {
        let Header {
            kind,
            session,
            rank,
            ..
        } = frame.header;
        match secrecy(&frame.header, frame.destination) {
            Secrecy::Pair => {
                let runs = self
                    .runs
                    .get(&frame.source)
                    .filter(|_| session == self.session && rank != Rank::ROOT)?;
                let pairs = runs
                    .iter()
                    .enumerate()
                    .filter(|(_, run)| run.pair.is_some());
                pairs.map(|(at, _)| Slot::Pair(at)).nth(tried)
            }
            _ if tried > 0 => None,
            Secrecy::Cluster if kind == JOIN && session != self.session => None,
            // This root's own announcement, replayed by another host.
            Secrecy::Cluster
                if kind == ANNOUNCE && (frame.source, session) == (self.mac, self.session) =>
            {
                None
            }
            Secrecy::Cluster => self
                .clusters
                .secrets
                .named(frame.payload)
                .map(Slot::Cluster),
            // Only streams and measurements: of control messages to all, only those of the root use
            // this secret.
            Secrecy::Group => {
                (session == self.session && !is_numbered(kind)).then_some(Slot::Group)
            }
        }
    }

    pub(super) fn protection(&self, slot: Slot, source: MacAddr) -> Option<&Protection> {
        match slot {
            Slot::Cluster(cluster_index) => self.clusters.secrets.protection(cluster_index),
            Slot::Pair(at) => self.runs.get(&source)?.get(at)?.pair.as_deref(),
            Slot::Group => Some(&self.group),
        }
    }

    /// Returns the body of a message whose tag is right, if its number is new.
    pub(super) fn admit(&mut self, now: Instant, slot: Slot, frame: &Frame<'_>) -> Option<Vec<u8>> {
        let Frame {
            source,
            header,
            payload,
            ..
        } = *frame;
        match (slot, header.kind) {
            (Slot::Cluster(cluster_index), ANNOUNCE) => {
                let known = (&self.competing_sessions, Some(&self.other_groups));
                let (keys, body, is_of_group) =
                    self.clusters.invitation(now, cluster_index, frame, known)?;
                let heard = if is_of_group {
                    &mut self.competing_sessions
                } else {
                    &mut self.other_groups
                };
                heard.record(keys, header.sequence, None).then_some(body)
            }
            (Slot::Cluster(cluster_index), JOIN) => self.admit_request(cluster_index, frame),
            // A repeated one gets a repeated announcement, which is no longer.
            (Slot::Cluster(cluster_index), WHO) => {
                self.clusters.secrets.lift(cluster_index, &header, payload)
            }
            (Slot::Cluster(cluster_index), REFUSE) => {
                let plain = self
                    .clusters
                    .secrets
                    .lift(cluster_index, &header, payload)?;
                self.competing_sessions
                    .take_refusal(source, &header, &plain)
            }
            (Slot::Cluster(_), _) => None,
            (Slot::Pair(at), _) => {
                let runs = self.runs.get_mut(&source)?;
                let run = runs.get_mut(at)?;
                let body = run.pair.as_ref()?.lift(&header, payload)?;
                let (is_new, heard) = (run.window.take(header.sequence), run.heard);
                runs.iter_mut()
                    .for_each(|run| run.is_over |= is_new && run.heard < heard);
                is_new.then_some(body)
            }
            (Slot::Group, _) => None,
        }
    }

    /// Reads a join request: for this session, from a run whose nonce follows from its exchange
    /// key. A run's request never changes.
    fn admit_request(&mut self, cluster_index: usize, frame: &Frame<'_>) -> Option<Vec<u8>> {
        let Frame {
            source,
            header,
            payload,
            ..
        } = *frame;
        let plain = self
            .clusters
            .secrets
            .lift(cluster_index, &header, payload)?;
        let (name, rest) = plain.split_first_chunk::<32>()?;
        let (exchange, body) = rest.split_first_chunk::<32>()?;
        let nonce = u64::from_be_bytes(*body.first_chunk()?);
        if *name != self.name.0 {
            return None;
        }
        let request = request_digest(&plain, source);
        let known = self
            .runs
            .get_mut(&source)
            .and_then(|runs| runs.iter_mut().find(|run| run.nonce == nonce));
        if let Some(run) = known {
            let is_right = run.request == request && !run.is_over;
            return (is_right && run.asked.take(header.sequence)).then(|| body.to_vec());
        }
        let mut asked = CounterWindow::default();
        if !asked.take(header.sequence) || !self.make_room(source) {
            return None;
        }
        let (said, window) = (Counter::default(), CounterWindow::default());
        let (exchange, heard) = (*exchange, self.heard);
        self.heard += 1;
        let run = Run {
            nonce,
            exchange,
            request,
            cluster_index,
            asked,
            said,
            window,
            pair: None,
            heard,
            is_over: false,
        };
        let runs = self.runs.entry(source).or_default();
        if runs.len() >= MAX_RUNS {
            // The first run stays: messages go to it.
            runs.remove(1);
        }
        runs.push(run);
        Some(body.to_vec())
    }

    pub(super) fn has_heard(&self, host: MacAddr) -> bool {
        let sessions = [&self.competing_sessions, &self.other_groups];
        host == self.mac
            || self.runs.contains_key(&host)
            || sessions.iter().any(|sessions| sessions.has_root(host))
    }

    fn make_room(&mut self, source: MacAddr) -> bool {
        if self.runs.len() < MAX_ADDRESSES || self.runs.contains_key(&source) {
            return true;
        }
        let is_idle = |runs: &[Run]| runs.iter().all(|run| run.pair.is_none());
        let idle = self
            .runs
            .iter()
            .find(|(_, runs)| is_idle(runs))
            .map(|(&address, _)| address);
        idle.is_some_and(|address| self.runs.remove(&address).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_with_the_clusters_secret_makes_a_root_keep_is_as_small_as_documented() {
        assert!(size_of::<Run>() <= 184, "{}", size_of::<Run>());
        assert!(
            size_of::<Protection>() <= 1536,
            "{}",
            size_of::<Protection>()
        );
        const { assert!(MAX_ADDRESSES * MAX_RUNS * 184 <= 12 << 20) };
    }
}
