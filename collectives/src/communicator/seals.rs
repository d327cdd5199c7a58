//! Keys of one rank of a communicator, and the counters that reject replays.
//!
//! | frames | secret |
//! |---|---|
//! | CALL | the cluster's |
//! | all others | the group's, in which are the cluster's and the roster: of every rank its address and nonce |
//!
//! Bodies of CALL, ALIVE, BYE and SHRINK are veiled and numbered. Contents of streams and messages
//! are encrypted, too; all other frames only have a tag. Ranks believe each other: all have the
//! group's secret.

use super::kind;
use super::roster::Roster;
use crate::keys::{
    CLUSTER_NAME_BYTES, ClusterSecrets, KeyName, Keys, Protection, RankCipher, SealedMessage,
    Secret, VEIL_BYTES, name_of,
};
use crate::membership::{KeyDifference, OtherBuild};
use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::{
    self, CounterWindow, Frame, Guard, Header, KEYED_VERSION, Kind, OtherVersion, PayloadHash,
    Reject,
};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const CALL_GROWTH_BYTES: usize = CLUSTER_NAME_BYTES + VEIL_BYTES;

/// Processes whose CALLs are distinguished from replays, for each rank of the group: the others are
/// of former runs.
const RUNS_EACH: usize = 4;
const SPARE_RUNS: usize = 64;

/// Hash of all groups: ranks do not tell each other what their processors compute fastest.
const HASH: PayloadHash = PayloadHash::Polyval;

#[derive(Clone, Debug)]
pub(super) struct Seals {
    clusters: ClusterSecrets,
    /// Runs by address and nonce.
    runs: BTreeMap<(MacAddr, u64), Run>,
    most_runs: usize,
    /// New CALLs so far, of all runs.
    calls: u64,
    /// Place of the secret that the last frame was protected by, if that is the cluster's.
    called_by: usize,
    /// Name of the cluster's secret that the group's follows from.
    cluster: KeyName,
    group: Option<GroupSeal>,
    former: Option<GroupSeal>,
}

/// A process that has called.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    window: CounterWindow,
    /// Place of its secret in the key file.
    cluster_index: usize,
    /// The count of new CALLs at its last one.
    called_at: u64,
}

/// The secret of a group, at one rank.
#[derive(Clone, Debug)]
struct GroupSeal {
    roster: Roster,
    secret: Secret,
    protection: Protection,
    cipher: Arc<RankCipher>,
    windows: Vec<CounterWindow>,
}

impl GroupSeal {
    /// Creates the seal of a group: no other list of ranks has this one's digest, so that no two
    /// groups have one key.
    fn new(above: &Secret, roster: &Roster) -> GroupSeal {
        let secret = Secret::derive("ethbcast 7 ranks", &[above.expose(), &roster.digest()]);
        let (protection, windows) = (
            Protection::new(&secret, HASH),
            vec![<_>::default(); roster.size().into()],
        );
        GroupSeal {
            roster: roster.clone(),
            cipher: Arc::new(RankCipher::new(&secret)),
            secret,
            protection,
            windows,
        }
    }

    /// Returns the body of a message whose tag is right, if its number is new.
    fn admit(&mut self, frame: &Frame<'_>) -> Option<Vec<u8>> {
        let Header { rank, sequence, .. } = frame.header;
        let window = self
            .windows
            .get_mut(rank.index())
            .filter(|_| self.roster.is(rank, frame.source))?;
        let body = self.protection.lift(&frame.header, frame.payload)?;
        window.take(sequence).then_some(body)
    }
}

impl Seals {
    pub(super) fn new(keys: Arc<Keys>, size: u16) -> Seals {
        let most_runs = RUNS_EACH * usize::from(size) + SPARE_RUNS;
        let cluster = keys.name();
        Seals {
            clusters: ClusterSecrets::new(keys),
            runs: BTreeMap::new(),
            most_runs,
            calls: 0,
            called_by: 0,
            cluster,
            group: None,
            former: None,
        }
    }

    fn seal(&self, above: &Secret, roster: &Roster) -> GroupSeal {
        let group = GroupSeal::new(above, roster);
        self.clusters
            .keys()
            .note(roster.session(), HASH, &group.secret);
        group
    }

    pub(super) fn cluster_guard(&self) -> Guard {
        self.clusters
            .protection(0)
            .map(|cluster| cluster.guard().clone())
            .unwrap_or_default()
    }

    /// Makes the secret of the group with this roster, unless it is there. All ranks take the
    /// secret by which rank 0 calls: all have heard it.
    pub(super) fn expect(&mut self, roster: &Roster) {
        if self
            .group
            .as_ref()
            .is_some_and(|group| group.roster.digest() == roster.digest())
        {
            return;
        }
        let first = roster
            .entries()
            .first()
            .and_then(|first| self.runs.get(&(first.mac, first.nonce)));
        let secret = self
            .clusters
            .secret(first.map_or(0, |run| run.cluster_index));
        let group = self.seal(secret, roster);
        (self.cluster, self.group) = (KeyName::of(secret), Some(group));
    }

    /// Goes on in a group that was shrunk.
    pub(super) fn shrink(&mut self, roster: &Roster) {
        let smaller = self
            .group
            .as_ref()
            .map(|group| self.seal(&group.secret, roster));
        self.former = std::mem::replace(&mut self.group, smaller);
    }

    /// Returns the seals of a group that is made without CALLs; `None` if the keys do not have the
    /// cluster's secret.
    pub(super) fn of(keys: Arc<Keys>, cluster: KeyName, roster: &Roster) -> Option<Seals> {
        let at = keys.names().position(|name| name == cluster)?;
        let seals = Seals::new(keys, roster.size());
        let group = Some(seals.seal(seals.clusters.secret(at), roster));
        Some(Seals {
            cluster,
            group,
            ..seals
        })
    }

    pub(super) fn cluster(&self) -> KeyName {
        self.cluster
    }

    pub(super) fn group_guard(&self) -> Guard {
        self.group
            .as_ref()
            .map(|group| group.protection.guard().clone())
            .unwrap_or_default()
    }

    /// Returns the cipher of the group's contents.
    ///
    /// # Panics
    /// If the group has no secret yet: its contents would be sent in the clear.
    pub(super) fn cipher(&self) -> Arc<RankCipher> {
        let group = self.group.as_ref().expect("a group's secret is made first");
        Arc::clone(&group.cipher)
    }

    /// Protects a message; `None` if there is no secret for it.
    pub(super) fn close(&mut self, header: Header, body: Vec<u8>) -> Option<SealedMessage> {
        if header.kind == kind::CALL {
            return self.clusters.close(0, header, body);
        }
        Some(
            self.group_of(header.session)?
                .protection
                .close(header, body),
        )
    }

    fn group_of(&mut self, session: u32) -> Option<&mut GroupSeal> {
        self.group
            .iter_mut()
            .chain(&mut self.former)
            .find(|group| group.roster.session() == session)
    }

    /// Parses a frame and checks its tag, and of a message of the group that its number is new. The
    /// body is put into `plain`.
    pub(super) fn open<'a>(
        &mut self,
        bytes: &'a [u8],
        plain: &'a mut Vec<u8>,
    ) -> Result<Frame<'a>, Reject> {
        let mut cluster_index = None;
        let (clusters, group, former) = (&self.clusters, &self.group, &self.former);
        let frame = wire::parse_keyed(bytes, |unproven| {
            let protection = if unproven.header.kind == kind::CALL {
                cluster_index = clusters.named(unproven.payload);
                clusters.protection(cluster_index?)
            } else {
                let mut groups = group.iter().chain(former);
                let session = unproven.header.session;
                groups
                    .find(|group| group.roster.session() == session)
                    .map(|group| &group.protection)
            };
            protection.map(Protection::guard)
        })?;
        let body = match cluster_index {
            Some(cluster_index) => {
                self.called_by = cluster_index;
                self.clusters
                    .lift(cluster_index, &frame.header, frame.payload)
            }
            None if !is_numbered(frame.header.kind) => return Ok(frame),
            None => self
                .group_of(frame.header.session)
                .and_then(|group| group.admit(&frame)),
        };
        *plain = body.ok_or(Reject::NonMember)?;
        Ok(Frame {
            payload: plain,
            ..frame
        })
    }

    /// Takes the number of a CALL that was just opened; returns whether it is new. Where there are
    /// too many runs, the one that has called nothing new for longest is forgotten, but none that
    /// is listed as a caller of the group: recorded CALLs of former runs displace no rank.
    pub(super) fn take_call(
        &mut self,
        (mac, nonce): (MacAddr, u64),
        number: u64,
        is_listed: impl Fn(MacAddr, u64) -> bool,
    ) -> bool {
        if self.runs.len() >= self.most_runs && !self.runs.contains_key(&(mac, nonce)) {
            let unlisted = self
                .runs
                .iter()
                .filter(|&(&(mac, nonce), _)| !is_listed(mac, nonce));
            let oldest = unlisted
                .min_by_key(|(_, run)| run.called_at)
                .map(|(&run, _)| run);
            oldest.and_then(|oldest| self.runs.remove(&oldest));
        }
        let run = self.runs.entry((mac, nonce)).or_default();
        let is_new = run.window.take(number);
        if is_new {
            self.calls += 1;
            (run.cluster_index, run.called_at) = (self.called_by, self.calls);
        }
        is_new
    }

    fn name(&self) -> KeyName {
        self.clusters.keys().name()
    }
}

/// Whether frames of a kind are messages of the group, with numbers that count up.
pub(super) fn is_numbered(kind: Kind) -> bool {
    matches!(kind, kind::ALIVE | kind::BYE | kind::SHRINK)
}

/// Returns the caller of this group (whose address is `to`) that has another key than this process,
/// or none, or the only one.
pub(super) fn other_keys(
    seals: Option<&Seals>,
    frame: &[u8],
    to: MacAddr,
    why: Reject,
) -> Option<OtherBuild> {
    let (unproven, _) = wire::parse_headers(frame).ok()?;
    if unproven.header.kind != kind::CALL || wire::destination(frame) != Some(to) {
        return None;
    }
    let theirs = || name_of(unproven.payload);
    let (version, keys) = match why {
        Reject::Untagged(OtherVersion { version, .. }) => {
            (version, KeyDifference::OnlyOwn(seals?.name()))
        }
        Reject::Tagged(OtherVersion { version, .. }) => {
            (version, KeyDifference::OnlyTheirs(theirs()?))
        }
        Reject::NonMember => {
            let theirs = theirs()
                .filter(|theirs| seals.is_some_and(|seals| !seals.clusters.has(*theirs)))?;
            (
                KEYED_VERSION,
                KeyDifference::Both {
                    theirs,
                    own: seals?.name(),
                },
            )
        }
        _ => return None,
    };
    Some(OtherBuild {
        mac: unproven.source,
        host: None,
        version,
        keys: Some(keys),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;
    use crate::communicator::roster::{RankSet, RosterEntry};
    use crate::keys::{Secret, Signer};
    use ethbcast_transport::wire::{EtherType, Identity, Rank, StreamId};
    use std::collections::BTreeSet;

    fn seals(secret: u8) -> Seals {
        let keys = Keys::new(
            Secret::new([secret; 32]),
            Signer::new(&Secret::new([9; 32])),
            "n0",
        );
        Seals::new(Arc::new(keys.expect("a name")), 2)
    }

    fn mac(rank: u8) -> MacAddr {
        MacAddr::new(2, 0, 0, 0, 0, rank)
    }

    fn roster(nonce: u64) -> Roster {
        let entry = |rank: u8| RosterEntry {
            mac: mac(rank),
            nonce,
            host: format!("n{rank}"),
        };
        Roster::new("g", vec![entry(0), entry(1)], 1500, Preset::Default)
    }

    fn sent(seals: &mut Seals, from: u8, kind: Kind, session: u32) -> Vec<u8> {
        let (stream, ether_type) = (StreamId(0), EtherType::DEFAULT);
        let rank = if kind == kind::CALL {
            Rank::NONE
        } else {
            Rank(from.into())
        };
        let plain = Identity {
            session,
            stream,
            rank,
            mac: mac(from),
            ether_type,
            guard: Guard::Plain,
        };
        let (guard, header, body) = seals
            .close(plain.header(kind), b"body".to_vec())
            .expect("there is a secret");
        let mut frame = vec![0; 200];
        let length = Identity { guard, ..plain }.write(&mut frame, mac(9), &header, &body);
        frame.truncate(length);
        frame
    }

    fn opened(seals: &mut Seals, frame: &[u8]) -> Result<Vec<u8>, Reject> {
        seals
            .open(frame, &mut Vec::new())
            .map(|frame| frame.payload.to_vec())
    }

    #[test]
    fn a_message_counts_once_and_in_its_group_alone() {
        let (mut one, mut other) = (seals(1), seals(1));
        let roster = roster(7);
        one.expect(&roster);
        other.expect(&roster);
        let session = roster.session();
        let frames: Vec<Vec<u8>> = (0..3)
            .map(|_| sent(&mut one, 0, kind::ALIVE, session))
            .collect();
        for at in [1, 0, 2] {
            assert_eq!(opened(&mut other, &frames[at]), Ok(b"body".to_vec()));
            assert_eq!(
                opened(&mut other, &frames[at]),
                Err(Reject::NonMember),
                "it has come"
            );
        }
        assert!(
            !frames[0].windows(4).any(|part| part == b"body"),
            "it is veiled"
        );
        other.shrink(&self::roster(8));
        assert_eq!(
            opened(&mut other, &sent(&mut one, 0, kind::SHRINK, session)),
            Ok(b"body".to_vec()),
            "the former"
        );
        let mut third = seals(1);
        third.expect(&self::roster(8));
        assert_eq!(
            opened(&mut third, &sent(&mut one, 0, kind::BYE, session)),
            Err(Reject::NonMember)
        );
        let mut non_member = seals(2);
        non_member.expect(&roster);
        assert_eq!(
            opened(&mut non_member, &sent(&mut one, 0, kind::BYE, session)),
            Err(Reject::Damaged)
        );
    }

    #[test]
    fn a_subgroup_that_is_made_twice_and_what_is_made_in_each_have_secrets_of_their_own() {
        let keys = seals(1).clusters.shared_keys();
        let both = [Rank(0), Rank(1)];
        let again = [0, 1].map(|earlier| roster(7).within(("s", earlier), &both));
        let below = again
            .each_ref()
            .map(|roster| roster.within(("t", 0), &both));
        let lost = RankSet::none(2);
        let shrunk = again.each_ref().map(|roster| roster.without(&lost));
        let streams: BTreeSet<[u8; 64]> = [again, below, shrunk]
            .concat()
            .iter()
            .map(|roster| {
                let mut bytes = [0; 64];
                let seals = Seals::of(Arc::clone(&keys), keys.name(), roster).expect("its key");
                seals.cipher().frame(StreamId(1), 0, 0, &mut bytes);
                bytes
            })
            .collect();
        assert_eq!(streams.len(), 6);
    }

    #[test]
    fn a_call_counts_once_for_each_run_and_tells_whose_key_differs() {
        let (mut one, mut other) = (seals(1), seals(1));
        let call = sent(&mut one, 0, kind::CALL, 0);
        assert_eq!(opened(&mut other, &call), Ok(b"body".to_vec()));
        let mut take = |mac, nonce, number| other.take_call((mac, nonce), number, |_, _| false);
        assert!(take(mac(0), 5, 1) && !take(mac(0), 5, 1) && take(mac(0), 6, 1));
        let mut non_member = seals(2);
        assert_eq!(opened(&mut non_member, &call), Err(Reject::NonMember));
        let found =
            other_keys(Some(&non_member), &call, mac(9), Reject::NonMember).expect("another key");
        assert!(
            found.to_string().contains("copy one file to both"),
            "{found}"
        );
        assert_eq!(
            other_keys(Some(&non_member), &call, mac(8), Reject::NonMember),
            None,
            "another group"
        );
        assert_eq!(
            other_keys(Some(&one), &call, mac(9), Reject::NonMember),
            None,
            "the same key"
        );
    }

    #[test]
    fn recorded_calls_of_former_runs_displace_the_oldest_and_no_caller_of_the_group() {
        let mut seals = seals(1);
        let take =
            |seals: &mut Seals, nonce| seals.take_call((mac(0), nonce), 1, |_, nonce| nonce == 2);
        assert!([1, 2, 3].into_iter().all(|nonce| take(&mut seals, nonce)));
        let most_runs = seals.most_runs as u64;
        assert!(
            (0..most_runs - 2).all(|run| take(&mut seals, u64::MAX - run)),
            "one more than there is room for"
        );
        assert_eq!(seals.runs.len(), seals.most_runs);
        assert!(!take(&mut seals, 3), "later than the oldest");
        assert!((0..most_runs).all(|run| take(&mut seals, 1 << 32 | run)));
        assert!(!take(&mut seals, 2), "a caller of the group");
        assert!(take(&mut seals, 1) && take(&mut seals, 3), "forgotten");
        assert_eq!(seals.runs.len(), seals.most_runs);
    }

    #[test]
    fn the_secret_of_rank_0_is_known_however_many_former_runs_are_heard() {
        let mut one = seals(1);
        let mut keys = one.clusters.keys().clone();
        keys.add(Secret::new([2; 32]))
            .expect("room for a second secret");
        let mut other = Seals::new(Arc::new(keys), 2);
        let (roster, call) = (roster(7), sent(&mut one, 0, kind::CALL, 0));
        assert_eq!(opened(&mut other, &call), Ok(b"body".to_vec()));
        let rank_0 = roster.entries()[0].clone();
        let mut take = |mac, nonce| {
            other.take_call((mac, nonce), 1, |mac, nonce| {
                (mac, nonce) == (rank_0.mac, rank_0.nonce)
            })
        };
        assert!(take(rank_0.mac, rank_0.nonce) && (100..1100).all(|nonce| take(mac(1), nonce)));
        one.expect(&roster);
        other.expect(&roster);
        let frame = sent(&mut one, 0, kind::ALIVE, roster.session());
        assert_eq!(opened(&mut other, &frame), Ok(b"body".to_vec()));
    }
}
