//! Cables that lose one kind of frame in one direction: reachable hosts get the file, the transfer
//! ends, and the root names the host of the bad cable.

use super::{CULPRIT, QUARTER_BYTES, impatient, relays};
use crate::harness::{LIMIT, Site};
use ethbcast_collectives::session::kind;
use ethbcast_lab::{LabConfig, LinkFault};
use ethbcast_tests::lab::KIND_BYTE;
use ethbcast_transport::wire::Kind;

/// Words by which the root may report the host.
const WORDS: [&str; 10] =
    ["silent", "stall", "progress", "acknowledg", "waits", "waiting", "reach", "starved", "verif", "nothing"];

fn of(fault: LinkFault, kind: Kind) -> LinkFault {
    fault.byte(KIND_BYTE, &[kind.0])
}

/// Runs a transfer in whose first quarter the relay's cable begins to lose these frames.
fn one_way_loss(story: &str, via: &'static str, fault: LinkFault) {
    let site = Site::beside(story, relays());
    let session = impatient(&site, via).start();
    session.wait_for_sent(QUARTER_BYTES);
    site.lab().set_faults(CULPRIT, &[fault]).expect("nft takes it");
    let outcome = session.end(LIMIT);
    assert!(site.lab().faulted_frames(CULPRIT).expect("counters") > 0, "nothing was lost");
    outcome.assert_all_but(CULPRIT, &WORDS);
}

#[test]
fn all_acknowledgements_of_a_relay_are_lost() {
    one_way_loss("acks", "chain", of(LinkFault::leaving(), Kind::ACK));
}

#[test]
fn all_acknowledgements_of_a_receiver_of_a_cast_are_lost() {
    one_way_loss("castacks", "cast", of(LinkFault::leaving(), Kind::ACK));
}

#[test]
fn all_data_to_a_relay_is_lost() {
    one_way_loss("data", "chain", of(LinkFault::arriving(), Kind::DATA));
}

#[test]
fn all_data_to_a_receiver_of_a_cast_is_lost() {
    one_way_loss("castdata", "cast", of(LinkFault::arriving(), Kind::DATA));
}

#[test]
fn what_a_relay_says_at_its_end_is_lost() {
    let site = Site::beside("done", relays());
    // It sends none before its end.
    site.lab().set_faults(CULPRIT, &[of(LinkFault::leaving(), kind::DONE)]).expect("nft takes it");
    let outcome = impatient(&site, "chain").start().end(LIMIT);
    assert!(site.lab().faulted_frames(CULPRIT).expect("counters") > 0, "nothing was lost");
    outcome.assert_all_but(CULPRIT, &WORDS);
}

#[test]
fn all_unicast_to_a_relay_is_lost() {
    one_way_loss("unicast", "chain", LinkFault::arriving().unicast());
}

#[test]
fn a_relay_that_hears_only_its_own_address_gets_the_file() {
    let site = Site::beside("multicast", relays());
    let session = impatient(&site, "chain").start();
    session.wait_for_sent(QUARTER_BYTES);
    site.lab().set_faults(CULPRIT, &[LinkFault::arriving().multicast()]).expect("nft takes it");
    session.end(LIMIT).assert_verified();
}

#[test]
fn two_neighbours_of_a_chain_that_may_not_talk_to_each_other_both_get_the_file() {
    let site = Site::beside("pair", relays());
    let session = impatient(&site, "chain").start();
    session.wait_for_sent(QUARTER_BYTES);
    let before = site.lab().mac("n2").expect("an address");
    let faults = [LinkFault::arriving().peer(before.clone()), LinkFault::leaving().peer(before)];
    site.lab().set_faults(CULPRIT, &faults).expect("nft takes it");
    session.end(LIMIT).assert_verified();
}

#[test]
fn who_never_hears_the_view_does_not_keep_the_others_from_starting() {
    let site = Site::beside("view", relays());
    site.lab().set_faults(CULPRIT, &[of(LinkFault::arriving(), kind::VIEW)]).expect("nft takes it");
    // Limit on its wait for another sender.
    let transfer = impatient(&site, "chain").receive_option("--max-wait").receive_option("5");
    transfer.start().end(LIMIT).assert_all_but(CULPRIT, &WORDS);
}

#[test]
fn a_cable_that_takes_no_large_frames_is_found_before_the_start() {
    let site = Site::beside("mtu", LabConfig { mtu_bytes: 9000, ..relays() });
    let small = [LinkFault::arriving().longer_than(1500), LinkFault::leaving().longer_than(1500)];
    site.lab().set_faults(CULPRIT, &small).expect("nft takes it");
    // Five are wanted, and four suffice after --max-wait.
    let transfer = impatient(&site, "chain").send_option("--min-receivers").send_option("4").max_wait("3");
    let outcome = transfer.receive_option("--max-wait").receive_option("6").start().end(LIMIT);
    ["n1", "n2", "n4", "n5"].into_iter().for_each(|host| outcome.assert_delivered(host));
    outcome.assert_named(CULPRIT, &["MTU", "1500", "9000", "large"]);
    // The MTU is the reason after the start, too.
    outcome.assert_nothing(CULPRIT, 4);
}

#[test]
fn a_cable_that_is_cut_for_good_costs_the_patience_and_is_named() {
    let site = Site::beside("cut", relays());
    let session = impatient(&site, "chain").start();
    session.wait_for_sent(QUARTER_BYTES);
    site.lab().set_port(CULPRIT, false).expect("down");
    let outcome = session.end(LIMIT);
    outcome.assert_all_but(CULPRIT, &["silent"]);
    outcome.assert_nothing(CULPRIT, 3);
}
