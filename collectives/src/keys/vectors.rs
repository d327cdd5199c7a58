//! Test vectors of the key derivation in docs/keys.md, which `vectors.py` computes independently.

use super::*;
use ethbcast_transport::MacAddr;
use ethbcast_transport::messages::MessageCipher;
use ethbcast_transport::wire::{
    EtherType, Flags, Header, Identity, Kind, PayloadHash, Rank, StreamId,
};

const KNOWN: &str = include_str!("vectors.txt");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn counted<const N: usize>(first: u8) -> [u8; N] {
    std::array::from_fn(|at| first + at as u8)
}

/// Returns the tags that a frame has from the first host to the second and on to the third.
fn of_frame(secret: &Secret) -> [String; 2] {
    let payload: [u8; 56] = counted(0);
    let guard = secret.guard(PayloadHash::Polyval);
    [(1_u8, 0, 1000), (2, 1, 2000)].map(|(host, rank, stamp)| {
        let [mac, next] = [host, host + 1].map(|last| MacAddr::new(2, 0, 0, 0, 0, last));
        let (session, stream, ether_type) = (0x5e55_0001, StreamId(1), EtherType::DEFAULT);
        let identity = Identity {
            session,
            stream,
            rank: Rank(rank),
            mac,
            ether_type,
            guard: guard.clone(),
        };
        let header = Header {
            epoch: 1,
            flags: Flags::LAST,
            stamp,
            ..identity.header(Kind::DATA)
        };
        let mut frame = [0; 1514];
        let length = identity.write(&mut frame, next, &header, &payload);
        assert!(guard.parse(&frame[..length]).is_ok());
        hex(&frame[28..40])
    })
}

/// Returns 80 bytes of a chunk, a hash list of two chunks, a set of chunks behind its head, and a
/// fragment.
fn of_content(secret: &Secret, hash: PayloadHash) -> [String; 4] {
    let (cipher, offset, stretch) = (ContentCipher::new(secret, hash), 1 << 20, 3);
    let mut chunk: [u8; 80] = counted(0);
    cipher.chunk(&counted(0x20), 65536, &mut chunk);
    let mut list = [&[0, 2, 0, 0, 0, 0, 0, 0][..], &counted::<64>(0x40)].concat();
    let seal = cipher
        .hash_list_seal(&list, offset)
        .expect("there is a key");
    cipher.hash_list_mask(&seal, offset, &mut list[8..]);
    let hash_list = [&list[..], &seal].concat();
    let (head, mut set) = ([2, 0, 0, 5, 0, 0, 0, 0], *b"\x01\0\0\0\x07");
    let seal = cipher
        .section_seal(&head, &set, stretch)
        .expect("there is a key");
    cipher.section_mask(&seal, stretch, &mut set);
    let mut fragments: [u8; 12] = counted(0);
    cipher.fragment_mask(&hash_list, stretch, &mut fragments);
    [
        hex(&chunk),
        hex(&hash_list),
        hex(&[&head[..], &seal, &set].concat()),
        hex(&fragments),
    ]
}

fn of_secret(secret: &Secret) -> Vec<(&'static str, String)> {
    let mut body = b"\x02no".to_vec();
    let context = VeilContext {
        kind: 24,
        session: 0x5e55_0001,
        rank: 0,
        sequence: 5,
    };
    Veil::new(secret).put(context, &mut body);
    let [tag, next_tag] = of_frame(secret);
    let stretch = [
        of_content(secret, PayloadHash::Polyval),
        of_content(secret, PayloadHash::Poly1305),
    ];
    let [[chunk, hash_list, section, fragments], [chacha, ..]] = stretch;
    vec![
        (
            "tag_key",
            hex(Secret::derive("ethbcast 7 tag", &[secret.expose()]).expose()),
        ),
        (
            "hash_key",
            hex(Secret::derive("ethbcast 7 hash", &[secret.expose()]).expose()),
        ),
        ("tag", tag),
        ("tag_of_next_hop", next_tag),
        ("veiled", hex(&body)),
        ("chunk_by_aes", chunk),
        ("chunk_by_chacha20", chacha),
        ("ledger", hash_list),
        ("section", section),
        ("fragments", fragments),
    ]
}

/// Returns 40 bytes behind the signature in a frame of a stream between ranks, and in a message.
fn of_ranks(secret: &Secret) -> Vec<(&'static str, String)> {
    let cipher = RankCipher::new(secret);
    let [mut frame, mut message] = [counted::<40>(0); 2];
    cipher.frame(StreamId(0x0102), 0x0304_0506_0708, 24, &mut frame);
    cipher.apply([Rank(1), Rank(2)], 5, (1 << 36) + 20, &mut message);
    vec![
        ("ranks_frame", hex(&frame)),
        ("ranks_message", hex(&message)),
    ]
}

fn of_phrase() -> Vec<(&'static str, String)> {
    let phrase = Phrase::new(counted(0));
    let keys = phrase.keys();
    let text = keys.text();
    let check = text
        .lines()
        .nth(1)
        .and_then(|line| line.split(' ').nth(2))
        .expect("check digits");
    vec![
        ("phrase", phrase.text().to_string()),
        ("phrase_cluster", hex(keys.clusters()[0].expose())),
        ("phrase_sender", hex(keys.senders()[0].key.bytes())),
        ("cluster_name", hex(&keys.name().0)),
        ("cluster_check", check.to_owned()),
    ]
}

fn of_session(cluster: &Secret) -> Vec<(&'static str, String)> {
    let [root, receiver] =
        [[0x11; 32], [0x22; 32]].map(|drawn| ExchangePair::new(Secret::new(drawn)));
    let signer = Signer::new(&Secret::new([0x33; 32]));
    let [here, there] = [1, 2].map(|last| MacAddr::new(2, 0, 0, 0, 0, last));
    let name = SessionName::of(&SessionFacts {
        session: 0x5e55_0001,
        random: &[0x44; 32],
        exchange: root.public(),
        sender: signer.public().bytes(),
        root: here,
        group: "ethbcast",
    });
    let exchanged = root.agree(receiver.public()).expect("keys of two hosts");
    let signature = signer.sign(Signed::View, &name, &[b"fields"]);
    let list = ContentCipher::default()
        .signed_by(signer, name)
        .sign_hash_list(b"list", 1 << 20)
        .expect("the sender's");
    vec![
        (
            "nonce",
            format!("{:016x}", ExchangePair::nonce(receiver.public())),
        ),
        ("session_name", hex(&name.0)),
        ("exchanged", hex(exchanged.expose())),
        (
            "pair_secret",
            hex(pair_secret(cluster, &exchanged, &name, &request_digest(b"join", there)).expose()),
        ),
        ("signature", hex(&signature)),
        ("ledger_signature", hex(&list)),
    ]
}

#[test]
fn the_vectors_are_those_of_the_second_implementation() {
    let secret = Secret::new(counted(0));
    let computed = [
        of_secret(&secret),
        of_ranks(&secret),
        of_phrase(),
        of_session(&secret),
    ]
    .concat();
    let computed: String = computed
        .iter()
        .map(|(name, value)| format!("{name} {value}\n"))
        .collect();
    assert_eq!(computed, KNOWN);
}
