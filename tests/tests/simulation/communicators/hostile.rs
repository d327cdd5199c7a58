//! Invalid frames: forged, from non-members, or no message of the protocol.

use ethbcast_tests::communicator::{Case, GROUP, Play, Step};
use ethbcast_transport::sim::{NoFaults, Random, host_mac};
use ethbcast_transport::wire::{
    AckBody, EtherType, EthernetHeader, Flags, Header, Kind, OVERHEAD_BYTES, Rank, StreamId, group_mac, seal,
};
use std::time::Duration;

fn group() -> Play<NoFaults> {
    let case = Case { leave: false, ..Case::new(3, &[Step::Broadcast { root: 0, bytes: 100 }, Step::Barrier]) };
    let mut play = Play::new(&case, 1, NoFaults, "hostile");
    play.run(Duration::from_millis(300));
    play.assert_done();
    play
}

fn frame(from: usize, header: Header, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; OVERHEAD_BYTES + body.len()];
    frame[OVERHEAD_BYTES..].copy_from_slice(body);
    let link = EthernetHeader { source: host_mac(from), destination: group_mac(GROUP), ether_type: EtherType::DEFAULT };
    seal(&mut frame, link, &header, body.len());
    frame
}

fn header(play: &mut Play<NoFaults>, kind: Kind, stream: u16, sequence: u64) -> Header {
    let session = play.member(0).session().expect("it has joined");
    Header {
        kind,
        session,
        stream: StreamId(stream),
        rank: Rank(1),
        epoch: 0,
        flags: Flags::default(),
        sequence,
        stamp: 0,
    }
}

#[test]
fn an_acknowledgement_of_data_that_was_never_sent_is_counted_and_ignored() {
    let mut play = group();
    let mut body = [0; AckBody::BYTES];
    AckBody { limit: 1000, below: 100, consumed: 100, held_us: 0 }.write(100, &mut body, 0);
    // For frame 99 of rank 0's cast, which has sent two, and of its chain, which has sent none.
    let chain = 1 + play.processes().len() as u16;
    for stream in [1, chain] {
        let header = header(&mut play, Kind::ACK, stream, 100);
        let now = play.simulation().now();
        play.simulation().inject(now, 0, &frame(1, header, &body));
    }
    play.run(Duration::from_millis(10));
    assert_eq!(play.stats()[0].streams.forged_acks, 2);
    play.go_on(&[Step::Broadcast { root: 0, bytes: 50_000 }, Step::Barrier]);
    play.run(Duration::from_millis(500));
    play.assert_done();
}

#[test]
fn frames_of_strangers_are_counted_and_ignored() {
    let mut play = group();
    let before = play.stats()[0].strangers;
    let sign = header(&mut play, ethbcast_collectives::communicator::kind::ALIVE, 0, 0);
    let another_session = Header { session: sign.session ^ 1, ..sign };
    let another_rank = Header { rank: Rank(2), ..sign };
    let no_rank = Header { rank: Rank(77), ..sign };
    let oneself = Header { rank: Rank(0), ..sign };
    let another_kind = Header { kind: ethbcast_collectives::session::kind::VERDICT, ..sign };
    for header in [another_session, another_rank, no_rank, oneself, another_kind] {
        let now = play.simulation().now();
        play.simulation().inject(now, 0, &frame(1, header, &[0; 96]));
    }
    play.run(Duration::from_millis(10));
    assert_eq!(play.stats()[0].strangers, before + 5);
}

#[test]
fn bytes_of_any_kind_from_a_member_neither_panic_nor_end_anything_but_collectives() {
    let kinds = [Kind::DATA, Kind::ACK, Kind::HEARTBEAT, Kind::PUSH, Kind::PULL, Kind::NOTE, Kind::RECEIPT, Kind::ASK];
    let controls = [
        ethbcast_collectives::communicator::kind::CALL,
        ethbcast_collectives::communicator::kind::ALIVE,
        ethbcast_collectives::communicator::kind::BYE,
        ethbcast_collectives::session::kind::JOIN,
        ethbcast_collectives::session::kind::VIEW,
    ];
    for seed in 0..300 {
        let mut play = group();
        let mut random = Random::new(seed);
        for _ in 0..40 {
            let kind = kinds.iter().chain(&controls).nth(random.below(13) as usize).copied().expect("one of thirteen");
            let mut body = vec![0; random.below(544) as usize];
            random.fill(&mut body);
            let header = Header {
                stamp: random.next_u64() as u32,
                flags: Flags(random.next_u64() as u8),
                sequence: random.below(80),
                ..header(&mut play, kind, random.below(9) as u16, 0)
            };
            let now = play.simulation().now();
            play.simulation().inject(now, 0, &frame(1, header, &body));
        }
        play.run(Duration::from_millis(300));
        // The traffic between ranks 0 and 2 is unharmed.
        let message = [Step::Message { from: 2, to: 0, tag: 1, bytes: 20_000 }];
        play.go_on_at(0, &message);
        play.go_on_at(2, &message);
        play.run(Duration::from_secs(1));
        assert_eq!((&play.ends()[0], &play.ends()[2]), (&Some(Ok(())), &Some(Ok(()))), "seed {seed}");
    }
}
