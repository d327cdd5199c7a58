//! Encryption of frames outside any transfer, with a secret that all hosts of a cluster share.

use super::contents::{Veil, VeilContext};
use super::file::{KeyName, Keys};
use super::schedule::Secret;
use ethbcast_transport::wire::{self, Counter, Frame, Guard, Header, PayloadHash, Reject};
use std::sync::Arc;

const NAME_BYTES: usize = size_of::<KeyName>();
pub(crate) const CLUSTER_NAME_BYTES: usize = NAME_BYTES;

pub(crate) type SealedMessage = (Guard, Header, Vec<u8>);

/// One secret: the guard of its frames, the veil of their bodies, and the number of the last frame
/// sent.
#[derive(Clone, Debug)]
pub(crate) struct Protection {
    guard: Guard,
    veil: Veil,
    counter: Counter,
}

impl Protection {
    pub(crate) fn new(secret: &Secret, hash: PayloadHash) -> Protection {
        Protection {
            guard: secret.guard(hash),
            veil: Veil::new(secret),
            counter: Counter::default(),
        }
    }

    pub(crate) fn guard(&self) -> &Guard {
        &self.guard
    }

    pub(crate) fn veil(&self) -> &Veil {
        &self.veil
    }

    pub(crate) fn close(&mut self, header: Header, body: Vec<u8>) -> SealedMessage {
        let header = self.number(header);
        self.close_numbered(header, body)
    }

    pub(crate) fn number(&mut self, header: Header) -> Header {
        Header {
            sequence: self.counter.draw(),
            ..header
        }
    }

    pub(crate) fn close_numbered(&self, header: Header, mut body: Vec<u8>) -> SealedMessage {
        self.veil.put(context(&header), &mut body);
        (self.guard.clone(), header, body)
    }

    pub(crate) fn lift(&self, header: &Header, body: &[u8]) -> Option<Vec<u8>> {
        self.veil.lift(context(header), body)
    }
}

fn context(header: &Header) -> VeilContext {
    let Header {
        kind,
        session,
        rank,
        sequence,
        ..
    } = *header;
    VeilContext {
        kind: kind.0,
        session,
        rank: rank.0,
        sequence,
    }
}

impl Keys {
    /// Returns the guards of measurements outside any transfer, one for each secret of the cluster.
    /// Frames are sent with the first, and accepted with all.
    pub fn probe_guards(&self) -> Vec<Guard> {
        let secret = |cluster: &Secret| Secret::derive("ethbcast 7 probe", &[cluster.expose()]);
        self.clusters()
            .iter()
            .map(|cluster| secret(cluster).guard(PayloadHash::Polyval))
            .collect()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ClusterSecrets {
    keys: Arc<Keys>,
    secrets: Vec<(KeyName, Protection)>,
}

impl ClusterSecrets {
    pub(crate) fn new(keys: Arc<Keys>) -> ClusterSecrets {
        let protected = |secret: &Secret| {
            (
                KeyName::of(secret),
                Protection::new(secret, PayloadHash::Blake3),
            )
        };
        let secrets = keys.clusters().iter().map(protected).collect();
        ClusterSecrets { keys, secrets }
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(crate) fn shared_keys(&self) -> Arc<Keys> {
        Arc::clone(&self.keys)
    }

    pub(crate) fn count(&self) -> usize {
        self.secrets.len()
    }

    pub(crate) fn secret(&self, at: usize) -> &Secret {
        &self.keys.clusters()[at]
    }

    pub(crate) fn protection(&self, at: usize) -> Option<&Protection> {
        self.secrets.get(at).map(|(_, protection)| protection)
    }

    pub(crate) fn has(&self, name: KeyName) -> bool {
        self.secrets.iter().any(|(known, _)| *known == name)
    }

    pub(crate) fn named(&self, payload: &[u8]) -> Option<usize> {
        let name = name_of(payload)?;
        self.secrets.iter().position(|(known, _)| *known == name)
    }

    /// Protects a message to or from a host with no other secret yet; the secret's name precedes
    /// it.
    pub(crate) fn close(
        &mut self,
        at: usize,
        header: Header,
        body: Vec<u8>,
    ) -> Option<SealedMessage> {
        let header = self.number(at, header)?;
        self.close_numbered(at, header, body)
    }

    pub(crate) fn number(&mut self, at: usize, header: Header) -> Option<Header> {
        self.secrets
            .get_mut(at)
            .map(|(_, protection)| protection.number(header))
    }

    pub(crate) fn close_numbered(
        &self,
        at: usize,
        header: Header,
        body: Vec<u8>,
    ) -> Option<SealedMessage> {
        let (name, protection) = self.secrets.get(at)?;
        let (guard, header, veiled) = protection.close_numbered(header, body);
        Some((guard, header, [&name.0[..], &veiled].concat()))
    }

    pub(crate) fn lift(&self, at: usize, header: &Header, payload: &[u8]) -> Option<Vec<u8>> {
        self.protection(at)?
            .lift(header, payload.get(NAME_BYTES..)?)
    }

    pub(crate) fn open<'a>(
        &self,
        bytes: &'a [u8],
        plain: &'a mut Vec<u8>,
    ) -> Result<Frame<'a>, Reject> {
        let guard = |at: usize| self.protection(at).map(Protection::guard);
        let frame = wire::parse_keyed(bytes, |unproven| {
            self.named(unproven.payload).and_then(guard)
        })?;
        let body = self
            .named(frame.payload)
            .and_then(|at| self.lift(at, &frame.header, frame.payload));
        *plain = body.ok_or(Reject::NonMember)?;
        Ok(Frame {
            payload: plain,
            ..frame
        })
    }
}

/// Returns the name of the secret, which precedes announcements, join requests and census messages.
pub(crate) fn name_of(payload: &[u8]) -> Option<KeyName> {
    payload.first_chunk().map(|name| KeyName(*name))
}
