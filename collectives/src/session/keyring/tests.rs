//! Tests of a transfer's keys: what they protect from, without running a transfer.

use super::*;
use crate::keys::{ExchangePair, Secret, Signer};
use crate::session::kind::{
    ABORT, ANNOUNCE, DONE, JOIN, KEYS, LEAVE, READY, REFUSE, RESPONSE, STATUS, VERDICT, VIEW,
};
use crate::session::message::{ContentKind, Stage};
use crate::session::verified::ChunkSize;
use ethbcast_transport::wire::Identity;

const SESSION: u32 = 7;
const GROUP: &str = "g";

struct End {
    ring: Keyring,
    identity: Identity,
}

fn station(host: u8) -> Station {
    Station::new(
        GROUP,
        &format!("n{host}"),
        MacAddr::new(2, 0, 0, 0, 0, host),
        1500,
    )
}

fn secret(byte: u8) -> Secret {
    Secret::new([byte; 32])
}

fn keys() -> Arc<Keys> {
    Arc::new(Keys::new(secret(1), Signer::new(&secret(2)), "n0").expect("a name"))
}

fn root(keys: Arc<Keys>, drawn: u8) -> End {
    let exchange = ExchangePair::new(secret(drawn));
    let own = RootKeys {
        keys,
        random: [drawn; 32],
        exchange,
        group: secret(!drawn),
        hash: PayloadHash::Polyval,
        encrypts: true,
    };
    let ring = Keyring::of_root(own, &station(0), SESSION);
    End {
        ring,
        identity: station(0).identity(SESSION, Rank::ROOT),
    }
}

fn receiver(keys: Arc<Keys>, host: u8) -> (End, u64) {
    let own = ReceiverKeys {
        keys,
        exchange: ExchangePair::new(secret(host)),
    };
    let nonce = own.nonce();
    let ring = Keyring::of_receiver(own, &station(host));
    (
        End {
            ring,
            identity: station(host).identity(SESSION, Rank::NONE),
        },
        nonce,
    )
}

impl End {
    fn mac(&self) -> MacAddr {
        self.identity.mac
    }

    fn says(&mut self, to: MacAddr, kind: Kind, body: &[u8]) -> Vec<u8> {
        let sealed = self
            .ring
            .seal(to, self.identity.header(kind), body)
            .expect("there is a secret for it");
        self.frame(to, sealed)
    }

    fn frame(&self, to: MacAddr, (guard, header, body): SealedMessage) -> Vec<u8> {
        let mut frame = vec![0; guard.overhead_bytes() + body.len()];
        Identity {
            guard,
            ..self.identity.clone()
        }
        .write(&mut frame, to, &header, &body);
        frame
    }

    fn hears(&mut self, frame: &[u8]) -> Result<Vec<u8>, Reject> {
        let mut plain = Vec::new();
        self.ring
            .open(Instant::START, frame, &mut plain)
            .map(|frame| frame.payload.to_vec())
    }
}

fn group() -> MacAddr {
    station(0).group_mac
}

/// Brings a receiver into the session; returns all frames that were sent.
fn join(root: &mut End, receiver: &mut End, nonce: u64) -> Vec<Vec<u8>> {
    let announced = root.says(group(), ANNOUNCE, b"invitation");
    assert_eq!(
        receiver.hears(&announced).as_deref(),
        Ok(&b"invitation"[..])
    );
    receiver.ring.bind(root.mac(), SESSION);
    let body = [&nonce.to_be_bytes()[..], b"request"].concat();
    let asked = receiver.says(root.mac(), JOIN, &body);
    assert_eq!(root.hears(&asked), Ok(body));
    let keys = root
        .ring
        .keys_for(receiver.mac(), nonce)
        .expect("it has asked");
    let given = root.says(receiver.mac(), KEYS, &keys);
    assert_eq!(
        (receiver.ring.group_guard(), receiver.hears(&given)),
        (None, Ok(Vec::new()))
    );
    assert_eq!(receiver.ring.group_guard(), root.ring.group_guard());
    vec![announced, asked, given]
}

#[test]
fn every_message_is_heard_once_and_by_whom_it_is_for() {
    let (mut root, (mut one, nonce), (mut two, other)) =
        (root(keys(), 3), receiver(keys(), 11), receiver(keys(), 12));
    let first = join(&mut root, &mut one, nonce);
    let second = join(&mut root, &mut two, other);
    for (frames, receiver) in [(first, &mut one), (second, &mut two)] {
        let is_new = |frame: &Vec<u8>| root.hears(frame).is_ok() || receiver.hears(frame).is_ok();
        assert!(!frames.iter().any(is_new), "said again");
    }
    (one.identity.rank, two.identity.rank) = (Rank(1), Rank(2));
    let part = [0; 60];
    for (to, kind, body) in [
        (group(), VIEW, &part[..]),
        (group(), STATUS, b"s"),
        (group(), VERDICT, b"v"),
    ] {
        let said = root.says(to, kind, body);
        for member in [&mut one, &mut two] {
            assert_eq!(member.hears(&said).as_deref(), Ok(body));
            assert_eq!(member.hears(&said), Err(Reject::NonMember), "{kind:?}");
        }
    }
    for kind in [READY, STATUS, DONE] {
        let said = one.says(root.mac(), kind, b"of one");
        assert!(two.hears(&said).is_err());
        assert_eq!(
            (root.hears(&said).as_deref(), root.hears(&said).is_err()),
            (Ok(&b"of one"[..]), true)
        );
    }
    let refused = root.says(one.mac(), REFUSE, b"no");
    assert_eq!(
        (one.hears(&refused).as_deref(), one.hears(&refused).is_err()),
        (Ok(&b"no"[..]), true)
    );
}

#[test]
fn whatever_was_said_in_another_session_is_nothing_in_this() {
    let (mut former, (mut before, nonce)) = (root(keys(), 3), receiver(keys(), 11));
    let mut recorded = join(&mut former, &mut before, nonce);
    recorded.push(former.says(group(), VIEW, &[0; 60]));
    recorded.push(former.says(before.mac(), REFUSE, b"no"));
    before.identity.rank = Rank(1);
    recorded.push(before.says(former.mac(), DONE, b"done"));
    // The same numbers, addresses and run, but another session.
    let (mut root, (mut one, nonce)) = (root(keys(), 4), receiver(keys(), 11));
    join(&mut root, &mut one, nonce);
    for frame in &recorded {
        assert!(root.hears(frame).is_err());
        assert!(one.hears(frame).is_err());
    }
    let said = root.says(group(), VIEW, &[0; 60]);
    assert!(
        one.hears(&said).is_ok(),
        "the recorded ones have used up no number"
    );
}

#[test]
fn a_member_that_lies_speaks_neither_as_the_root_nor_as_another_member() {
    let (mut root, (mut one, nonce), (mut liar, other)) =
        (root(keys(), 3), receiver(keys(), 11), receiver(keys(), 12));
    join(&mut root, &mut one, nonce);
    join(&mut root, &mut liar, other);
    let Keyring::Receiver(ring) = &liar.ring else {
        unreachable!("it is a receiver")
    };
    let mut group_secret = ring.group().expect("it has joined").clone();
    let as_root = station(0).identity(SESSION, Rank::ROOT);
    for kind in [VIEW, VERDICT, ABORT, STATUS, RESPONSE] {
        for body in [vec![0; 60], vec![0; 124], Vec::new()] {
            let sealed = group_secret.close(as_root.header(kind), body);
            let frame = root.frame(group(), sealed);
            assert_eq!(
                one.hears(&frame),
                Err(Reject::NonMember),
                "{kind:?}: its signature is the sender's alone"
            );
        }
    }
    liar.identity = Identity {
        mac: one.mac(),
        rank: Rank(1),
        ..liar.identity.clone()
    };
    let done = liar.says(root.mac(), DONE, b"done");
    assert_eq!(
        root.hears(&done),
        Err(Reject::Damaged),
        "the secret of the pair is not its"
    );
}

#[test]
fn a_member_that_lies_uses_up_no_number_of_the_root() {
    let (mut root, (mut one, nonce), (mut liar, other)) =
        (root(keys(), 3), receiver(keys(), 11), receiver(keys(), 12));
    let announced = join(&mut root, &mut one, nonce).swap_remove(0);
    join(&mut root, &mut liar, other);
    let Keyring::Receiver(ring) = &liar.ring else {
        unreachable!("it is a receiver")
    };
    let (group_secret, cluster_secrets) = (
        ring.group().expect("it has joined").clone(),
        ring.clusters().secrets.clone(),
    );
    let as_root = station(0).identity(SESSION, Rank::ROOT);
    // What the root has signed, said again under the last of all numbers.
    let said = root.says(group(), VIEW, &[0; 60]);
    let parsed =
        wire::parse_keyed(&said, |_| Some(group_secret.guard())).expect("its tag is right");
    let signed = group_secret
        .lift(&parsed.header, parsed.payload)
        .expect("it is veiled for all");
    for (kind, body) in [
        (VIEW, signed),
        (STATUS, b"s".to_vec()),
        (RESPONSE, vec![0; 80]),
        (ABORT, vec![0; 80]),
    ] {
        let header = Header {
            sequence: FINAL_NUMBER,
            ..as_root.header(kind)
        };
        let frame = root.frame(group(), group_secret.close_numbered(header, body));
        assert_eq!(one.hears(&frame), Err(Reject::NonMember), "{kind:?}");
    }
    let parsed = wire::parse_keyed(&announced, |_| {
        cluster_secrets.protection(0).map(Protection::guard)
    })
    .expect("its tag is right");
    let signed = cluster_secrets
        .lift(0, &parsed.header, parsed.payload)
        .expect("it is veiled for the cluster");
    let name = root_name(&root);
    let refusals = [
        [&name[..], b"no"].concat(),
        [&name[..], &[0; SIGNATURE_BYTES], b"no"].concat(),
    ];
    for (kind, body) in [(ANNOUNCE, signed)]
        .into_iter()
        .chain(refusals.map(|body| (REFUSE, body)))
    {
        let header = Header {
            sequence: FINAL_NUMBER,
            ..as_root.header(kind)
        };
        let frame = root.frame(
            group(),
            cluster_secrets
                .close_numbered(0, header, body)
                .expect("a secret"),
        );
        assert_eq!(one.hears(&frame), Err(Reject::NonMember), "{kind:?}");
    }
    for (to, kind) in [
        (group(), VIEW),
        (group(), STATUS),
        (group(), RESPONSE),
        (one.mac(), REFUSE),
        (group(), ABORT),
    ] {
        let said = root.says(to, kind, &[0; 60]);
        assert_eq!(one.hears(&said), Ok(vec![0; 60]), "{kind:?}");
    }
    let said = root.says(group(), ANNOUNCE, b"invitation");
    assert!(one.hears(&said).is_ok());
}

#[test]
fn a_member_that_lies_ends_no_stream() {
    let (mut root, (mut one, nonce)) = (root(keys(), 3), receiver(keys(), 11));
    join(&mut root, &mut one, nonce);
    let (Keyring::Root(root), Keyring::Receiver(one)) = (&root.ring, &one.ring) else {
        unreachable!("as they were made")
    };
    let (trailer, veil) = ([7; 40], one.group().expect("it has joined").veil());
    let end = root.close_trailer(&trailer).expect("it may send");
    assert_eq!(one.open_trailer(&end), Some(trailer.to_vec()));
    let signed = veil
        .lift(end_of(SESSION), &end)
        .expect("it is veiled for all");
    let shorter = [&[6; 40][..], &signed[40..]].concat();
    for mut forged in [
        shorter,
        [&trailer[..], &[0; SIGNATURE_BYTES]].concat(),
        trailer.to_vec(),
        Vec::new(),
    ] {
        veil.put(end_of(SESSION), &mut forged);
        assert_eq!(
            one.open_trailer(&forged),
            None,
            "its signature is the sender's alone"
        );
    }
}

fn root_name(root: &End) -> [u8; 32] {
    let Keyring::Root(ring) = &root.ring else {
        unreachable!("it is a root")
    };
    ring.name().0
}

#[test]
fn who_asks_another_root_takes_leave_of_the_first() {
    let (mut first, mut second) = (root(keys(), 3), root(keys(), 4));
    second.identity = Identity {
        mac: MacAddr::new(2, 0, 0, 0, 0, 9),
        ..second.identity
    };
    let own = RootKeys {
        keys: keys(),
        random: [4; 32],
        exchange: ExchangePair::new(secret(4)),
        group: secret(5),
        hash: PayloadHash::Polyval,
        encrypts: true,
    };
    second.ring = Keyring::of_root(
        own,
        &Station {
            mac: second.mac(),
            ..station(0)
        },
        SESSION,
    );
    let (mut one, nonce) = receiver(keys(), 11);
    join(&mut first, &mut one, nonce);
    let announced = second.says(group(), ANNOUNCE, b"another");
    assert!(one.hears(&announced).is_ok());
    one.ring.bind(second.mac(), SESSION);
    let leave = one.says(first.mac(), LEAVE, b"gone");
    assert_eq!(first.hears(&leave).as_deref(), Ok(&b"gone"[..]));
}

#[test]
fn who_is_about_to_ask_has_last_words() {
    let (mut root, (mut one, nonce)) = (root(keys(), 3), receiver(keys(), 11));
    let announced = root.says(group(), ANNOUNCE, b"invitation");
    assert!(one.hears(&announced).is_ok());
    one.ring.bind(root.mac(), SESSION);
    let body = [&nonce.to_be_bytes()[..], b"request"].concat();
    one.ring.prepare(&body);
    let kept = one
        .ring
        .seal_last(one.identity.header(LEAVE), b"gone")
        .expect("it knows the root's key");
    let (leave, asked) = (
        one.frame(root.mac(), kept),
        one.says(root.mac(), JOIN, &body),
    );
    assert!(root.hears(&asked).is_ok() && root.ring.keys_for(one.mac(), nonce).is_some());
    assert_eq!(root.hears(&leave).as_deref(), Ok(&b"gone"[..]));
}

#[test]
fn requests_from_addresses_that_do_not_exist_keep_nobody_out() {
    let (mut root, (mut one, nonce), (mut liar, other)) =
        (root(keys(), 3), receiver(keys(), 11), receiver(keys(), 12));
    join(&mut root, &mut liar, other);
    let body = [&other.to_be_bytes()[..], b"request"].concat();
    for number in 0..9000_u16 {
        let [high, low] = number.to_be_bytes();
        let sealed = liar
            .ring
            .seal(root.mac(), liar.identity.header(JOIN), &body)
            .expect("it has asked");
        liar.identity.mac = MacAddr::new(2, 9, 0, 0, high, low);
        let asked = liar.frame(root.mac(), sealed);
        assert!(root.hears(&asked).is_ok(), "{number}");
    }
    join(&mut root, &mut one, nonce);
}

#[test]
fn a_candidate_that_was_forgotten_hears_the_secret_when_it_asks_again() {
    let (mut root, (mut one, nonce)) = (root(keys(), 3), receiver(keys(), 11));
    join(&mut root, &mut one, nonce);
    root.ring.forget(one.mac());
    let body = [&nonce.to_be_bytes()[..], b"request"].concat();
    let asked = one.says(root.mac(), JOIN, &body);
    assert!(root.hears(&asked).is_ok());
    let keys = root.ring.keys_for(one.mac(), nonce).expect("it asks again");
    let given = root.says(one.mac(), KEYS, &keys);
    assert!(one.hears(&given).is_ok(), "its number goes on");
}

#[test]
fn a_question_is_answered_by_the_secret_under_which_it_came() {
    let mut newer = (*keys()).clone();
    newer.add(secret(8)).expect("there is room");
    let (mut one, _) = receiver(Arc::new(newer), 11);
    let mut asker = ClusterSecrets::new(keys());
    let identity = station(5).identity(0, Rank::NONE);
    let (guard, header, body) = asker
        .close(0, identity.header(WHO), b"who".to_vec())
        .expect("a secret");
    let mut question = vec![0; guard.overhead_bytes() + body.len()];
    Identity { guard, ..identity }.write(&mut question, group(), &header, &body);
    assert_eq!(one.hears(&question).as_deref(), Ok(&b"who"[..]));
    let sealed = one
        .ring
        .seal_reply(one.ring.requested_by(), one.identity.header(HERE), b"here")
        .expect("a secret");
    let reply = one.frame(identity.mac, sealed);
    assert_eq!(
        asker
            .open(&reply, &mut Vec::new())
            .map(|frame| frame.payload.to_vec()),
        Ok(b"here".to_vec())
    );
}

#[test]
fn last_words_are_heard_whatever_came_before_and_nothing_after_them() {
    let (mut root, (mut one, nonce)) = (root(keys(), 3), receiver(keys(), 11));
    join(&mut root, &mut one, nonce);
    let kept = one
        .ring
        .seal_last(one.identity.header(LEAVE), b"gone")
        .expect("it has asked");
    let leave = one.frame(root.mac(), kept);
    (0..200).for_each(|_| assert!(root.hears(&one.says(root.mac(), STATUS, b"here")).is_ok()));
    assert_eq!(root.hears(&leave).as_deref(), Ok(&b"gone"[..]));
    assert!(root.hears(&leave).is_err());
    assert!(root.hears(&one.says(root.mac(), STATUS, b"here")).is_err());
}

#[test]
fn who_has_the_cluster_key_and_is_no_sender_invites_nobody() {
    let non_member = Keys::new(secret(1), Signer::new(&secret(9)), "n9").expect("a name");
    let (mut root, (mut one, _)) = (root(Arc::new(non_member), 3), receiver(keys(), 11));
    let announced = root.says(group(), ANNOUNCE, b"invitation");
    assert_eq!(one.hears(&announced), Err(Reject::NonMember));
    let name = one.ring.name();
    assert_eq!(
        one.ring.difference(root.mac(), name),
        Some(KeyDifference::NoSender)
    );
    let other = KeyName([5; 8]);
    assert_eq!(
        one.ring.difference(root.mac(), other),
        Some(KeyDifference::Both {
            theirs: other,
            own: name
        })
    );
}

#[test]
fn recorded_sessions_beyond_those_that_are_remembered_are_not_checked_at_each_replay() {
    let recorded: Vec<Vec<u8>> = (0..65)
        .map(|host| {
            let mut former = root(keys(), 100 + host);
            former.identity.session = SESSION + 1 + u32::from(host);
            former.ring = Keyring::of_root(
                RootKeys {
                    keys: keys(),
                    random: [host; 32],
                    exchange: ExchangePair::new(secret(100 + host)),
                    group: secret(host),
                    hash: PayloadHash::Polyval,
                    encrypts: true,
                },
                &station(0),
                former.identity.session,
            );
            former.says(group(), ANNOUNCE, b"invitation")
        })
        .collect();
    let (mut one, _) = receiver(keys(), 11);
    let believed = (0..20)
        .flat_map(|_| &recorded)
        .filter(|frame| one.hears(frame).is_ok())
        .count();
    assert_eq!(
        believed, 65,
        "one signature each, and none again within 50 ms"
    );
}

#[test]
fn a_secret_that_was_added_is_understood_and_spoken() {
    let mut newer = (*keys()).clone();
    newer.add(secret(8)).expect("there is room");
    let newer = Arc::new(newer);
    let pairs = [(newer.clone(), newer.clone()), (keys(), newer)];
    for (number, (of_root, of_receiver)) in pairs.into_iter().enumerate() {
        let (mut root, (mut one, nonce)) =
            (root(of_root, 3), receiver(of_receiver, 11 + number as u8));
        join(&mut root, &mut one, nonce);
    }
}

#[test]
fn frames_without_a_tag_are_known_for_it() {
    let (mut one, _) = receiver(keys(), 11);
    let mut frame = [0; 100];
    let length = station(0).identity(SESSION, Rank::ROOT).write(
        &mut frame,
        group(),
        &station(0).identity(SESSION, Rank::ROOT).header(ANNOUNCE),
        b"invitation",
    );
    assert!(matches!(
        one.hears(&frame[..length]),
        Err(Reject::Untagged(_))
    ));
}

#[test]
fn a_request_of_an_earlier_run_is_a_repetition_once_a_later_one_has_spoken() {
    let (mut root, (mut first, nonce)) = (root(keys(), 3), receiver(keys(), 11));
    join(&mut root, &mut first, nonce);
    let body = [&nonce.to_be_bytes()[..], b"request"].concat();
    let [recorded, in_time] = [(), ()].map(|()| first.says(root.mac(), JOIN, &body));
    let (mut later, other) = receiver(keys(), 12);
    let own = ReceiverKeys {
        keys: keys(),
        exchange: ExchangePair::new(secret(12)),
    };
    later.ring = Keyring::of_receiver(own, &station(11));
    later.identity = station(11).identity(SESSION, Rank::NONE);
    join(&mut root, &mut later, other);
    assert!(
        root.hears(&in_time).is_ok(),
        "nobody knows yet which of them lives"
    );
    let said = later.says(root.mac(), READY, b"ready");
    assert!(root.hears(&said).is_ok() && root.hears(&recorded).is_err());
}

#[test]
fn a_root_hears_sessions_of_other_groups_once_and_nobody_else_does() {
    let (mut ours, (mut receiver, _)) = (root(keys(), 3), receiver(keys(), 11));
    let of = |keys: Arc<Keys>, group: &str| {
        let station = Station::new(group, "n9", MacAddr::new(2, 0, 0, 0, 0, 9), 1500);
        let exchange = ExchangePair::new(secret(5));
        let own = RootKeys {
            keys,
            random: [5; 32],
            exchange,
            group: secret(6),
            hash: PayloadHash::Polyval,
            encrypts: true,
        };
        let ring = Keyring::of_root(own, &station, SESSION);
        End {
            ring,
            identity: station.identity(SESSION, Rank::ROOT),
        }
    };
    let body = |group: &str| {
        let (content, chunk) = (ContentKind::Tree, ChunkSize::LONGEST);
        let [group, host, source] = [group, "n9", "x"].map(str::to_owned);
        let (size, mtu_bytes, stage, age_millis) = (None, 1500, Stage::Started, 0);
        Message::Announce {
            group,
            host,
            source,
            size,
            content,
            chunk,
            mtu_bytes,
            stage,
            age_millis,
        }
        .encode()
        .1
    };
    let mut others = of(keys(), "others");
    let said = others.says(MacAddr::BROADCAST, ANNOUNCE, &body("others"));
    assert_eq!(
        (ours.hears(&said), ours.hears(&said)),
        (Ok(body("others")), Err(Reject::NonMember))
    );
    assert_eq!(
        receiver.hears(&said),
        Err(Reject::NonMember),
        "it is invited to nothing"
    );
    let asks = ours.identity.header(JOIN);
    assert!(
        ours.ring.seal(others.mac(), asks, b"joins").is_none(),
        "it is no rival for the group"
    );
    let lie = others.says(MacAddr::BROADCAST, ANNOUNCE, &body("a third"));
    assert_eq!(
        ours.hears(&lie),
        Err(Reject::NonMember),
        "it is signed for another group"
    );
    let non_member = Arc::new(Keys::new(secret(1), Signer::new(&secret(7)), "n9").expect("a name"));
    let said = of(non_member, "others").says(MacAddr::BROADCAST, ANNOUNCE, &body("others"));
    assert_eq!(
        ours.hears(&said),
        Err(Reject::NonMember),
        "it is none of the senders"
    );
}
