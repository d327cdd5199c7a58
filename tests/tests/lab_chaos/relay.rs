//! A cable that passes through a relay program.

use ethbcast_lab::{Lab, LabGuard};
use ethbcast_tests::lab::{LIMIT, Tap, lab_name, one_switch, require_root, within};

fn tap(lab: &Lab, host: &str) -> Tap {
    lab.run_on(host, || Tap::on("eth0")).expect("a host").expect("a socket")
}

fn frame(text: &[u8; 46]) -> Vec<u8> {
    [&[0xff; 6][..], &[2, 9, 9, 9, 9, 9], &[0x88, 0xb6], text].concat()
}

fn heard(tap: &Tap) -> Option<Vec<u8>> {
    let mut buffer = [0; 2000];
    within(LIMIT, || tap.receive(&mut buffer).expect("a sound cable").map(|length| buffer[..length].to_vec()))
}

#[test]
fn nothing_passes_a_detour_but_what_is_carried() {
    require_root();
    let lab = LabGuard::up(&ethbcast_lab::LabConfig { name: lab_name("detour"), ..one_switch(2) }).expect("a lab");
    let detour = lab.detour("n1").expect("a detour");
    let ends = lab.run_at_switches(|| [&detour.towards_host, &detour.towards_switch].map(|end| Tap::on(end)));
    let [near, far] = ends.expect("the switches").map(|end| end.expect("a socket"));
    let (left, right) = (tap(&lab, "n0"), tap(&lab, "n1"));
    let there = frame(&[b'>'; 46]);
    assert!(left.send(&there).expect("sent"));
    let carried = heard(&far).expect("it comes to the detour");
    assert_eq!(carried, there);
    let mut buffer = [0; 2000];
    assert_eq!(right.receive(&mut buffer).expect("sound"), None, "nobody has carried it");
    assert!(near.send(&carried).expect("carried"));
    assert_eq!(heard(&right), Some(there));
    let back = frame(&[b'<'; 46]);
    assert!(right.send(&back).expect("sent"));
    let carried = heard(&near).expect("it comes to the detour");
    assert!(far.send(&carried).expect("carried"));
    assert_eq!(heard(&left), Some(back));
}
