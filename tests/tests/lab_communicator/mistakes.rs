//! Calls that are wrong, or do not match those of the other ranks: each is named, and no rank
//! hangs.

use super::on_all;
use ethbcast_collectives::communicator::{Communicator, CommunicatorError, Error};
use ethbcast_tests::lab::{Site, one_switch};
use std::time::Duration;

#[test]
fn what_is_wrong_with_a_message_is_said_to_whom_it_concerns() {
    let site = Site::beside("mistakes_messages", one_switch(2));
    on_all(&site, 2, |all| {
        let error = |result: Result<(), Error>| result.expect_err("refused").to_string();
        assert_eq!(error(all.send(2, 0, b"x")), "there is no rank 2 among 2: name a rank from 0 to 1");
        assert_eq!(error(all.send(0, 1 << 31, b"x")), "tag 2147483648 is reserved: use tags below 2147483648");
        assert!(error(all.broadcast(9, &mut [0])).contains("no rank 9"));
        assert!(error(all.allgather(&[0; 4], &mut [0; 7])).contains("7 bytes are not 2 blocks of 4"));

        let mut buffer = [0; 100];
        all.send(all.rank(), 3, b"to myself").expect("there is room");
        assert_eq!(all.recv(all.rank(), 3, &mut buffer).expect("it is here"), 9);
        if all.rank() == 0 {
            all.send(1, 4, &[1; 101]).expect("a short message is sent, whatever becomes of it");
            let refused = all.send(1, 4, &[1; 1 << 20]).expect_err("only a part of a long one is");
            assert!(matches!(refused, Error::Refused { .. }), "{refused}");
            all.send(1, 4, &[]).expect("an empty message");
            all.send(1, 4, &[2; 100]).expect("one that fits");
        } else {
            for bytes in [101, 1 << 20] {
                let too_long = all.recv(0, 4, &mut buffer).expect_err("the buffer is too short");
                assert!(
                    matches!(too_long, Error::TooLong { message_bytes, .. } if message_bytes == bytes),
                    "{too_long}"
                );
            }
            assert_eq!(all.recv(0, 4, &mut buffer).expect("empty"), 0);
            assert_eq!(all.recv(0, 4, &mut buffer).expect("it fits"), 100);
        }
        all.barrier().expect("the ranks still agree");
    });
}

#[test]
fn a_tag_that_nobody_receives_holds_its_sender_up_until_the_deadline_and_nobody_else() {
    let site = Site::beside("mistakes_tag", one_switch(3));
    on_all(&site, 3, |all| {
        match all.rank() {
            0 => {
                let within = Duration::from_millis(200);
                let blocked = (0..100_000).find_map(|_| all.send_within(1, 6, &[0; 4096], within).err());
                let blocked = blocked.expect("the pushed buffer is bounded");
                assert!(matches!(blocked, Error::TimedOut { .. }), "{blocked}");
            }
            1 => assert_eq!(all.recv(2, 7, &mut [0; 10]).expect("another's message has room"), 10),
            _ => all.send(1, 7, &[0; 10]).expect("there is room"),
        }
        all.barrier().expect("barrier");
    });
}

/// Panics unless every rank fails with a mismatch, not at a deadline.
fn assert_mismatch(story: &str, call: impl Fn(&Communicator) -> Result<(), Error> + Sync) -> Vec<String> {
    let site = Site::beside(story, one_switch(4));
    let ends = on_all(&site, 4, |all| {
        all.barrier().expect("so far they agree");
        // A rank that only sends may detect it at the next call.
        call(all).and_then(|()| all.barrier())
    });
    let check = |(rank, end): (usize, Result<(), Error>)| {
        let error = end.expect_err("calls that differ fail");
        assert!(matches!(error, Error::Call(CommunicatorError::Mismatch { .. })), "rank {rank}: {error}");
        error.to_string()
    };
    ends.into_iter().enumerate().map(check).collect()
}

#[test]
fn different_roots_are_named_on_every_rank() {
    let texts = assert_mismatch("mistakes_root", |all| all.broadcast(u16::from(all.rank() == 3), &mut [0; 64]));
    assert!(texts.iter().any(|text| text.contains("rank 3 (n3)")), "{texts:#?}");
}

#[test]
fn different_lengths_are_named_on_every_rank() {
    let texts =
        assert_mismatch("mistakes_length", |all| all.broadcast(0, &mut vec![0; if all.rank() == 2 { 65 } else { 64 }]));
    assert!(texts.iter().all(|text| text.contains("65 bytes") && text.contains("64 bytes")), "{texts:#?}");
}

#[test]
fn different_operations_are_named_on_every_rank() {
    let texts = assert_mismatch("mistakes_operation", |all| match all.rank() {
        1 => all.gather(0, &[0; 8], &mut []),
        _ => all.barrier(),
    });
    assert!(texts.iter().all(|text| text.contains("barrier") && text.contains("gather")), "{texts:#?}");
}
