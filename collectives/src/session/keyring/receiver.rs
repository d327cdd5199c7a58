//! Keys of a receiver in an encrypted or authenticated transfer.

use super::{
    Clusters, KnownSessions, SUITES, Secrecy, SessionKeys, Slot, end_of, is_numbered, secrecy,
};
use crate::census::kind::WHO;
use crate::keys::{
    ContentCipher, ExchangePair, Keys, Protection, SIGNATURE_BYTES, SealedMessage, Secret, Signed,
    pair_secret, request_digest,
};
use crate::membership::Station;
use crate::session::kind::{ANNOUNCE, JOIN, KEYS, REFUSE};
use ethbcast_transport::wire::{
    CounterWindow, Frame, Header, Kind, PayloadHash, Rank, UnprovenFrame,
};
use ethbcast_transport::{Instant, MacAddr};
use std::sync::Arc;

const MAX_SESSIONS: usize = 64;

/// Keys of a receiver, with what was drawn at random for one run: `exchange`, from which the run's
/// nonce follows.
#[derive(Clone, Debug)]
pub struct ReceiverKeys {
    pub keys: Arc<Keys>,
    pub exchange: ExchangePair,
}

impl ReceiverKeys {
    pub(in crate::session) fn nonce(&self) -> u64 {
        ExchangePair::nonce(self.exchange.public())
    }
}

/// A session that this host has asked to join, and the secrets that it shares with it. The join
/// request never changes.
#[derive(Clone, Debug)]
struct RequestedSession {
    own: Arc<Keys>,
    keys: SessionKeys,
    request: Vec<u8>,
    pair: Protection,
    pair_window: CounterWindow,
    group: Option<Protection>,
    cipher: ContentCipher,
    group_window: CounterWindow,
}

#[derive(Clone, Debug)]
pub struct ReceiverRing {
    clusters: Clusters,
    exchange: ExchangePair,
    mac: MacAddr,
    heard: KnownSessions,
    /// Sessions asked; that of the root that this host is bound to, if it has been asked, is the
    /// first.
    asked: Vec<RequestedSession>,
    bound: Option<(MacAddr, u32)>,
    asked_by: usize,
    /// Index of the secret under which a root was last sought.
    sought: usize,
}

impl ReceiverRing {
    pub(super) fn new(own: ReceiverKeys, station: &Station) -> ReceiverRing {
        let clusters = Clusters::new(own.keys, &station.group);
        let (heard, asked, bound) = (KnownSessions::new(MAX_SESSIONS), Vec::new(), None);
        ReceiverRing {
            clusters,
            exchange: own.exchange,
            mac: station.mac,
            heard,
            asked,
            bound,
            asked_by: 0,
            sought: 0,
        }
    }

    pub(super) fn bind(&mut self, root: MacAddr, session: u32) {
        self.bound = Some((root, session));
        if let Some(at) = self
            .asked
            .iter()
            .position(|asked| asked.keys.is_of(root, session))
        {
            self.asked[..=at].rotate_right(1);
        }
    }

    fn bound(&self) -> Option<&RequestedSession> {
        let (root, session) = self.bound?;
        self.asked
            .first()
            .filter(|asked| asked.keys.is_of(root, session))
    }

    /// Makes the join request and the pair's secret of the session that this host is bound to.
    pub(super) fn prepare(&mut self, request: &[u8]) {
        let Some(keys) = self
            .bound
            .and_then(|(root, session)| self.heard.of(root, session))
            .copied()
        else {
            return;
        };
        if !self.asked.iter().any(|asked| asked.keys == keys) {
            let _nothing_to_send_yet = self.request(keys, request);
        }
    }

    pub(super) fn requested_by(&self) -> usize {
        self.asked_by
    }

    pub(super) fn seal_reply(
        &mut self,
        cluster_index: usize,
        header: Header,
        body: &[u8],
    ) -> Option<SealedMessage> {
        self.clusters
            .secrets
            .close(cluster_index, header, body.to_vec())
    }

    fn bound_mut(&mut self) -> Option<&mut RequestedSession> {
        let (root, session) = self.bound?;
        self.asked
            .first_mut()
            .filter(|asked| asked.keys.is_of(root, session))
    }

    pub(super) fn has_heard(&self, host: MacAddr) -> bool {
        host == self.mac || self.heard.has_root(host)
    }

    pub(super) fn clusters(&self) -> &Clusters {
        &self.clusters
    }

    pub(super) fn group(&self) -> Option<&Protection> {
        self.bound()?.group.as_ref()
    }

    pub(super) fn content_cipher(&self) -> ContentCipher {
        self.bound()
            .map(|session| session.cipher.clone())
            .unwrap_or_default()
    }

    pub(super) fn open_trailer(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let RequestedSession { keys, group, .. } = self.bound()?;
        let mut plain = group.as_ref()?.veil().lift(end_of(keys.session), bytes)?;
        let signature = plain.split_off(plain.len().checked_sub(SIGNATURE_BYTES)?);
        let signature = signature.first_chunk()?;
        keys.sender
            .has_signed(Signed::Trailer, &keys.name, &[&plain], signature)
            .then_some(plain)
    }

    pub(super) fn seal(
        &mut self,
        to: MacAddr,
        header: Header,
        body: &[u8],
    ) -> Option<SealedMessage> {
        match (secrecy(&header, to), header.kind) {
            (Secrecy::Cluster, JOIN) => self.seal_request(to, header, body),
            (Secrecy::Cluster, WHO) => {
                // The root may have any of this host's keys.
                self.sought = (self.sought + 1) % self.clusters.secrets.count();
                self.seal_reply(self.sought, header, body)
            }
            (Secrecy::Pair, _) => {
                // Not only the bound session: a host that asks another root also says goodbye to
                // the first.
                let root = if to.is_multicast() { self.bound?.0 } else { to };
                let asked = self
                    .asked
                    .iter_mut()
                    .find(|asked| asked.keys.is_of(root, header.session))?;
                Some(asked.pair.close(header, body.to_vec()))
            }
            _ => None,
        }
    }

    pub(super) fn seal_last(&self, header: Header, body: &[u8]) -> Option<SealedMessage> {
        Some(self.bound()?.pair.close_numbered(header, body.to_vec()))
    }

    fn seal_request(&mut self, to: MacAddr, header: Header, body: &[u8]) -> Option<SealedMessage> {
        let sessions = self.heard.sessions.iter().map(|(keys, _)| *keys);
        let mut sessions = sessions.filter(|keys| keys.session == header.session);
        let keys = sessions.find(|keys| keys.root == to || to.is_multicast())?;
        let known = self
            .asked
            .iter()
            .find(|asked| asked.keys == keys)
            .map(|asked| asked.request.clone());
        let request = match known {
            Some(request) => request,
            None => self.request(keys, body)?,
        };
        self.clusters
            .secrets
            .close(keys.cluster_index, header, request)
    }

    /// Makes the join request and the pair's secret; `None` for a root whose exchange key would
    /// decide the secret.
    fn request(&mut self, keys: SessionKeys, body: &[u8]) -> Option<Vec<u8>> {
        let request = [&keys.name.0[..], self.exchange.public(), body].concat();
        let exchanged = self.exchange.agree(&keys.exchange)?;
        let digest = request_digest(&request, self.mac);
        let secret = pair_secret(
            self.clusters.secrets.secret(keys.cluster_index),
            &exchanged,
            &keys.name,
            &digest,
        );
        let own = self.clusters.secrets.shared_keys();
        own.note(keys.session, PayloadHash::Blake3, &secret);
        let session = RequestedSession {
            own,
            keys,
            request: request.clone(),
            pair: Protection::new(&secret, PayloadHash::Blake3),
            pair_window: CounterWindow::default(),
            group: None,
            cipher: ContentCipher::default(),
            group_window: CounterWindow::default(),
        };
        self.asked.truncate(MAX_SESSIONS - 1);
        let is_bound = self.bound == Some((keys.root, keys.session));
        // The bound session stays first.
        let at = if is_bound || self.asked.is_empty() {
            0
        } else {
            1
        };
        self.asked.insert(at, session);
        Some(request)
    }

    pub(super) fn slot(&self, frame: &UnprovenFrame<'_>, tried: usize) -> Option<Slot> {
        let Header {
            kind,
            session,
            rank,
            ..
        } = frame.header;
        let is_of_root = self.bound == Some((frame.source, session)) && rank == Rank::ROOT;
        match secrecy(&frame.header, frame.destination) {
            _ if tried > 0 => None,
            Secrecy::Cluster => self
                .clusters
                .secrets
                .named(frame.payload)
                .map(Slot::Cluster),
            Secrecy::Pair => is_of_root.then_some(Slot::Pair(0)),
            Secrecy::Group if is_numbered(kind) => is_of_root.then_some(Slot::Group),
            Secrecy::Group => self
                .bound
                .is_some_and(|(_, bound)| bound == session)
                .then_some(Slot::Group),
        }
    }

    pub(super) fn protection(&self, slot: Slot) -> Option<&Protection> {
        match slot {
            Slot::Cluster(cluster_index) => self.clusters.secrets.protection(cluster_index),
            Slot::Pair(_) => self.bound().map(|session| &session.pair),
            Slot::Group => self.group(),
        }
    }

    /// Returns the body of a message whose tag is right, if its number is new and it has the
    /// signature that its kind needs.
    pub(super) fn admit(&mut self, now: Instant, slot: Slot, frame: &Frame<'_>) -> Option<Vec<u8>> {
        let Frame {
            source,
            header,
            payload,
            ..
        } = *frame;
        match (slot, header.kind) {
            (Slot::Cluster(cluster_index), ANNOUNCE) => {
                let (keys, body, _) =
                    self.clusters
                        .invitation(now, cluster_index, frame, (&self.heard, None))?;
                let kept = self.bound().map(|asked| asked.keys.name);
                self.heard
                    .record(keys, header.sequence, kept)
                    .then_some(body)
            }
            (Slot::Cluster(cluster_index), REFUSE) => {
                let plain = self
                    .clusters
                    .secrets
                    .lift(cluster_index, &header, payload)?;
                self.heard.take_refusal(source, &header, &plain)
            }
            // A repeated census query gets a repeated reply, within the limits of the census.
            (Slot::Cluster(cluster_index), WHO) => {
                self.asked_by = cluster_index;
                self.clusters.secrets.lift(cluster_index, &header, payload)
            }
            (Slot::Cluster(_), _) => None,
            (Slot::Pair(_), kind) => self.bound_mut()?.admit_alone(kind, &header, payload),
            (Slot::Group, _) => self.bound_mut()?.admit_to_all(&header, payload),
        }
    }
}

impl RequestedSession {
    fn admit_alone(&mut self, kind: Kind, header: &Header, payload: &[u8]) -> Option<Vec<u8>> {
        let body = self
            .pair
            .lift(header, payload)
            .filter(|_| self.pair_window.take(header.sequence))?;
        if kind != KEYS {
            return Some(body);
        }
        self.take_keys(&body)?;
        Some(Vec::new())
    }

    fn admit_to_all(&mut self, header: &Header, payload: &[u8]) -> Option<Vec<u8>> {
        let plain = self.group.as_ref()?.lift(header, payload)?;
        self.keys
            .take_signed(header, &plain, &mut self.group_window)
    }

    /// Takes the group's secret; later ones are ignored.
    fn take_keys(&mut self, body: &[u8]) -> Option<()> {
        let (group, rest) = body.split_first_chunk()?;
        let [suite, encrypted @ (0 | 1)] = *rest else {
            return None;
        };
        let hash = *SUITES.get(usize::from(suite.checked_sub(1)?))?;
        if self.group.is_none() {
            let secret = Secret::new(*group);
            self.own.note(self.keys.session, hash, &secret);
            let cipher = if encrypted == 1 {
                ContentCipher::new(&secret, hash)
            } else {
                ContentCipher::default()
            };
            self.cipher = cipher.sent_by(self.keys.sender, self.keys.name);
            self.group = Some(Protection::new(&secret, hash));
        }
        Some(())
    }
}
