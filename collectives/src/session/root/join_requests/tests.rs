//! Tests of admission, refusal and the cost of a flood of requests.

use super::*;
use crate::session::verified::Form;
use ethbcast_planning::HostNames;

fn join(host: &str, nonce: u64) -> Message {
    Message::Join { nonce, group: "g".into(), host: host.into(), mtu_bytes: 1500, free_bytes: 1000, features: 0 }
}

const OFFER: SessionParameters<'_> = SessionParameters {
    root: "n0",
    mtu_bytes: 1500,
    size: Some(1000),
    form: Form::Plain,
    wanted_hosts: None,
    known_hosts: None,
    most: 9,
};
const GREET: Duration = Duration::from_secs(1);

fn mac(last: u8) -> MacAddr {
    MacAddr::new(2, 0, 0, 0, 0, last)
}

fn at(millis: u64) -> Instant {
    Instant::START + Duration::from_millis(millis)
}

fn enter(
    applicants: &mut JoinRequests,
    last: u8,
    host: &str,
    nonce: u64,
    offer: SessionParameters<'_>,
) -> Result<String, Refusal> {
    match applicants.on_join(at(0), mac(last), &join(host, nonce), offer, GREET) {
        JoinDecision::Check => assert!(applicants.set_reached(mac(last))),
        JoinDecision::Refused(why, _) => return Err(why),
        answer => panic!("{answer:?}"),
    }
    applicants.admit(mac(last), offer).expect("reached").map_err(|(away, _)| away.why)
}

#[test]
fn ranks_follow_the_numbers_in_the_names() {
    let mut applicants = JoinRequests::default();
    for (host, last) in [("n10", 1), ("n2", 2), ("n1", 3), ("m7", 4)] {
        assert_eq!(enter(&mut applicants, last, host, 9, OFFER).as_deref(), Ok(host));
    }
    assert_eq!(applicants.names(), ["m7", "n1", "n2", "n10"]);
}

#[test]
fn a_restarted_receiver_takes_the_place_of_its_silent_former_self_only() {
    let mut applicants = JoinRequests::default();
    enter(&mut applicants, 1, "n1", 1, OFFER).expect("the first");
    let ask = |applicants: &mut JoinRequests, millis, host: &str, nonce| {
        applicants.on_join(at(millis), mac(1), &join(host, nonce), OFFER, GREET)
    };
    assert_eq!(ask(&mut applicants, 50, "n1", 2), JoinDecision::Wait);
    assert_eq!(ask(&mut applicants, 120, "n1", 1), JoinDecision::Wait, "both speak");
    let JoinDecision::Refused(Refusal::Twin, text) = ask(&mut applicants, 130, "n1", 2) else { panic!("a twin") };
    assert!(text.contains("another receiver of this group already runs on n1"), "{text}");
    assert_eq!(ask(&mut applicants, 140, "n7", 3), JoinDecision::Wait);
    assert_eq!(ask(&mut applicants, 150, "n1", 1), JoinDecision::Wait);
    let JoinDecision::Refused(Refusal::Twin, text) = ask(&mut applicants, 160, "n7", 3) else { panic!("one address") };
    assert!(text.contains("two hosts use the address 02:00:00:00:00:01, n1 and n7"), "{text}");
    // The first one is silent from here on.
    assert_eq!(ask(&mut applicants, 200, "n1", 4), JoinDecision::Wait);
    assert_eq!(ask(&mut applicants, 400, "n1", 4), JoinDecision::Wait);
    assert_eq!((applicants.len(), ask(&mut applicants, 450, "n1", 4)), (1, JoinDecision::Check));
    assert_eq!(applicants.len(), 0, "it has to be reached first");
}

#[test]
fn one_that_has_ended_frees_its_place_and_only_its_own() {
    let mut applicants = JoinRequests::default();
    enter(&mut applicants, 1, "n1", 1, OFFER).expect("the first");
    assert_eq!(applicants.on_leave(mac(1), 2), None, "another run");
    assert_eq!(applicants.on_leave(mac(2), 1), None, "another address");
    let gone = Gone { mac: mac(1), host: "n1".to_owned(), nonce: 1, admitted: true };
    assert_eq!((applicants.on_leave(mac(1), 1), applicants.len()), (Some(gone), 0));
    assert_eq!(enter(&mut applicants, 1, "n1", 2, OFFER).as_deref(), Ok("n1"));
    let gone = applicants.drop_silent(at(1500), Duration::from_millis(500), Duration::from_millis(1500));
    assert_eq!(gone.len(), 1);
}

#[test]
fn namesakes_are_told_apart_by_address_unless_they_are_known_by_name() {
    let mut applicants = JoinRequests::default();
    assert_eq!(enter(&mut applicants, 1, "n1", 1, OFFER).as_deref(), Ok("n1"));
    assert_eq!(enter(&mut applicants, 2, "n1", 1, OFFER).as_deref(), Ok("n1@02:00:00:00:00:02"));
    let long = "n".repeat(250);
    assert_eq!(enter(&mut applicants, 3, &long, 1, OFFER).as_deref(), Ok(long.as_str()), "whole");
    assert_eq!(enter(&mut applicants, 4, &long, 1, OFFER), Err(Refusal::Twin), "no room for the address");
    let known = HostNames::new(["n0", "n1"]);
    let offer = SessionParameters { known_hosts: Some(&known), ..OFFER };
    assert_eq!(enter(&mut applicants, 9, "n0", 1, offer), Err(Refusal::Twin), "the root");
    assert_eq!(enter(&mut applicants, 8, "n1", 1, offer).as_deref(), Ok("n1@02:00:00:00:00:08"));
    assert_eq!(enter(&mut applicants, 9, "N1.lab", 1, offer), Err(Refusal::Twin));
    // Once they are known to share a name, all of them are called by their addresses.
    let names = applicants.names();
    assert!(names.contains(&"n1@02:00:00:00:00:01".to_owned()) && !names.contains(&"n1".to_owned()), "{names:?}");
}

#[test]
fn a_host_is_wanted_by_its_short_name_its_full_one_or_its_address_and_each_place_is_one_host_s() {
    let mut applicants = JoinRequests::default();
    let wanted = HostNames::new(["n1", "n2.lab", "pc@02:00:00:00:00:05", "pc@02:00:00:00:00:06"]);
    let offer = SessionParameters { wanted_hosts: Some(&wanted), ..OFFER };
    let mut enter = |last, host| enter(&mut applicants, last, host, 1, offer);
    assert_eq!(enter(1, "N1.lab").as_deref(), Ok("N1.lab"));
    assert_eq!(enter(2, "n1.other"), Err(Refusal::Twin), "it would be n1, too");
    assert_eq!(enter(3, "n2").as_deref(), Ok("n2"));
    assert_eq!(enter(4, "n2.other"), Err(Refusal::NotWanted));
    assert_eq!(enter(5, "pc").as_deref(), Ok("pc@02:00:00:00:00:05"), "by address, and so it is called");
    assert_eq!(enter(7, "pc"), Err(Refusal::NotWanted), "another address");
    assert_eq!(enter(6, "pc").as_deref(), Ok("pc@02:00:00:00:00:06"));
}

#[test]
fn who_cannot_take_part_is_told_why_and_what_to_do() {
    let mut applicants = JoinRequests::default();
    let known = HostNames::new(["n1", "n2"]);
    let offer = SessionParameters { mtu_bytes: 9000, size: Some(2000), known_hosts: Some(&known), ..OFFER };
    let mut refused = |host: &str, offer: SessionParameters<'_>| match applicants.on_join(
        at(0),
        mac(1),
        &join(host, 1),
        offer,
        GREET,
    ) {
        JoinDecision::Refused(why, text) => (why, text),
        answer => panic!("{answer:?}"),
    };
    let (why, text) = refused("n1", offer);
    assert!(why == Refusal::SmallMtu && text.contains("--mtu 1500"), "{text}");
    let offer = SessionParameters { mtu_bytes: 1500, ..offer };
    let (why, text) = refused("n1", offer);
    assert!(why == Refusal::NoSpace && text.contains("2000"), "{text}");
    let offer = SessionParameters { size: None, ..offer };
    let (why, text) = refused("n7", offer);
    assert!(why == Refusal::NotInTopology && text.contains("n7"), "{text}");
    let wanted = HostNames::new(["n2"]);
    let (why, text) = refused("n1", SessionParameters { wanted_hosts: Some(&wanted), ..offer });
    assert!(why == Refusal::NotWanted && text.contains("n1"), "{text}");
    assert_eq!(enter(&mut applicants, 1, "n1", 1, offer).as_deref(), Ok("n1"));
    assert_eq!(enter(&mut applicants, 2, "n2", 1, SessionParameters { most: 1, ..offer }), Err(Refusal::Late));
}

#[test]
fn a_hundred_thousand_forged_requests_take_no_more_room_than_some_thousands_and_keep_nobody_out() {
    let mut applicants = JoinRequests::default();
    let mut checked = 0;
    for number in 0..100_000_u32 {
        let [a, b, c, d] = number.to_be_bytes();
        let answer = applicants.on_join(at(0), MacAddr::new(2, 1, a, b, c, d), &join("x", 1), OFFER, GREET);
        checked += usize::from(answer == JoinDecision::Check);
        applicants.evict();
    }
    assert!(applicants.candidates.len() <= MAX_UNREACHED && checked == FEW_UNREACHED, "{checked}");
    // A host that has asked before repeats its request and is reached.
    assert_eq!(applicants.on_join(at(1), mac(1), &join("n1", 1), OFFER, GREET), JoinDecision::Wait);
    assert_eq!(applicants.on_join(at(90), mac(1), &join("n1", 1), OFFER, GREET), JoinDecision::Check);
    assert!(applicants.set_reached(mac(1)) && applicants.admit(mac(1), OFFER).is_some_and(|entry| entry.is_ok()));
    applicants.drop_silent(at(550), Duration::from_millis(500), Duration::from_millis(1500));
    assert_eq!((applicants.candidates.len(), applicants.unreached_count), (1, 0));
}

#[test]
fn the_queue_of_those_who_wait_to_be_reached_does_not_remember_who_came_and_went() {
    let mut applicants = JoinRequests::default();
    // Each request from a new run of the receiver, or always from the same one.
    for nonce in (0..1000).chain([7; 1000]) {
        assert_eq!(applicants.on_join(at(nonce), mac(1), &join("n1", nonce), OFFER, GREET), JoinDecision::Check);
        applicants.on_leave(mac(1), nonce).expect("it was there");
        assert!(applicants.entries() <= SPARE_PLACES + 2, "{}", applicants.entries());
    }
    applicants.on_join(at(1000), mac(1), &join("n1", 1000), OFFER, GREET);
    assert!(applicants.set_reached(mac(1)), "who waits is still known");
}
