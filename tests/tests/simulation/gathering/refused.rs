//! Simulated tests of what those hear who do not take part in a transfer.

use super::scene::{GatheringPlay, Scene, at, forged, join};
use super::{decline_once_asked, within};
use ethbcast_collectives::session::{End, ReceiverConfig, Refusal, RootConfig, Wanted};
use ethbcast_transport::sim::{NoFaults, host_mac};

/// Regression: of three hosts, of which one would do, it said "0 of 1 receivers joined", and to ask for fewer.
#[test]
fn a_root_to_which_nobody_came_says_how_many_were_wanted_and_not_how_few_would_do() {
    let wanted = Wanted { at_least: 1, enough: Some(3), patience: within(3) };
    let hosts = ["n1", "n2", "n3"].map(str::to_owned).to_vec();
    let scene = Scene::new(1500)
        .root_with(0, 1000, |config| RootConfig { wanted, hosts: hosts.clone(), ..config })
        .receivers(1);
    let played = scene.play(NoFaults, |simulation| decline_once_asked(simulation, 1));
    let text = "0 of 3 receivers joined within 3 s (not n[2-3]; refused n1 (02:eb:00:00:00:01): cannot hold it; n1 \
                says: DEST exists); start `ethbcast recv` on the missing hosts";
    assert_eq!(played.failure(0), text);
}

/// Regression: who had asked when the others were enough heard nothing, waited for the start for half a minute, and
/// ended as if no sender had been heard.
#[test]
fn who_asked_when_enough_had_joined_hears_why_it_did_not() {
    let wanted = Wanted { patience: within(5), ..Wanted::exactly(1) };
    let end = |played: &GatheringPlay, host: usize| played.hosts[host].receiving().and_then(|one| one.end().cloned());
    for (hosts, expected) in [(&[][..], Refusal::Late), (&["pc"], Refusal::Twin)] {
        let hosts: Vec<String> = hosts.iter().map(|host: &&str| (*host).to_owned()).collect();
        let config = |config| RootConfig { wanted, hosts: hosts.clone(), ..config };
        let scene = Scene::new(1500).root_with(0, 1000, config);
        let called_pc = |mut config: ReceiverConfig| {
            config.station.host = "pc".to_owned();
            ReceiverConfig { patience: Some(within(5)), ..config }
        };
        let played = scene.receivers_with(2, called_pc).play(NoFaults, |_| {});
        let (with, without) = if played.has(1).is_some() { (1, 2) } else { (2, 1) };
        assert_eq!((played.has(with), played.has(without)), (Some(0), None), "{}", played.failure(0));
        let Some(End::Refused(why, text)) = end(&played, without) else { panic!("{:?}", end(&played, without)) };
        assert_eq!(why, expected, "{text}");
        let told: Vec<_> = played.root(0).turned_away().map(|away| away.why).collect();
        assert_eq!(told, [expected]);
    }
}

/// Regression: a host that was not among those named, and asked again after the start, counted as one that came too
/// late, and `cp` failed for want of it.
#[test]
fn who_is_not_among_the_named_hosts_is_unwanted_whenever_it_asks() {
    let named = |config| RootConfig { wanted: Wanted::exactly(1), hosts: vec!["n1".to_owned()], ..config };
    let played = Scene::new(1500).root_with(0, 10_000_000, named).receivers(1).play(NoFaults, |simulation| {
        for millis in [1, 150, 300, 450, 600] {
            let frame = forged(host_mac(7), host_mac(0), 0x1000, &join("n7", millis));
            simulation.inject(at(millis), 0, &frame);
        }
    });
    assert_eq!(played.has(1), Some(0), "{}", played.failure(0));
    let told: Vec<_> = played.root(0).turned_away().map(|away| (&*away.host, away.why)).collect();
    assert_eq!(told, [("n7", Refusal::NotWanted)]);
}
