//! A cable that loses one kind of frame in one direction: every rank's call ends, and names the
//! rank behind it.

use super::{on_all_with, options};
use ethbcast_collectives::communicator::{Communicator, Error, Options, kind::ALIVE};
use ethbcast_lab::LinkFault;
use ethbcast_tests::lab::{LIMIT, Site, one_switch, within};
use ethbcast_transport::wire::Kind;
use std::time::Duration;

const RANKS: u16 = 4;
const WITHIN: Duration = Duration::from_secs(3);
const KIND_AT: usize = 17;

fn until_failure(all: &Communicator) -> Error {
    let mut buffer = vec![7; 300_000];
    let failed = within(LIMIT, || all.broadcast(0, &mut buffer).and_then(|()| all.barrier()).err());
    failed.expect("nothing has failed")
}

#[test]
fn a_cable_that_loses_one_kind_of_frame_ends_every_call_and_its_host_is_named() {
    let site = Site::beside("calls_links", one_switch(RANKS.into()));
    let faults = [
        LinkFault::arriving().byte(KIND_AT, &[Kind::DATA.0]),
        LinkFault::leaving().byte(KIND_AT, &[Kind::ACK.0]),
        LinkFault::leaving().byte(KIND_AT, &[Kind::PUSH.0]),
        LinkFault::leaving().byte(KIND_AT, &[Kind::PUSH.0, Kind::ACK.0, ALIVE.0]),
        LinkFault::arriving(),
        LinkFault::leaving(),
    ];
    let options = Options { call_within: WITHIN, ..options() };
    for fault in faults {
        site.lab().set_faults("n2", &[]).expect("nft takes it");
        let ends = on_all_with(&site, RANKS, &options, |all| {
            all.barrier().expect("the cable is still good");
            if all.rank() == 0 {
                site.lab().set_faults("n2", std::slice::from_ref(&fault)).expect("nft takes it");
            }
            until_failure(all)
        });
        for (rank, error) in ends.iter().enumerate() {
            let text = error.to_string();
            assert!(rank == 2 || text.contains("rank 2 (n2)"), "{fault:?}: rank {rank} blames another: {text}");
        }
    }
}
