use crate::harness::{LIMIT, here, names_in, namespaces, require_root, within};
use nix::sys::signal::Signal;
use std::path::Path;

/// Returns the files of running demos in memory.
fn demo_files() -> Vec<String> {
    let places = [Path::new("/dev/shm"), &std::env::temp_dir()].map(Path::to_owned);
    let names = places.iter().filter(|place| place.is_dir()).flat_map(|place| names_in(place));
    names.filter(|name| name.starts_with("ethbcast-demo-")).collect()
}

#[test]
fn the_demo_shows_both_paths_and_cleans_up_also_when_interrupted() {
    require_root();
    let before = demo_files();
    let demo = here(&["lab", "demo", "--mebibytes", "1", "--hosts", "3"]);
    let prefix = format!("ethbcast-demo{}-", demo.pid());
    let demo = demo.end(LIMIT);
    demo.assert_code(0);
    let table = demo.stdout_text();
    for via in ["chain", "cast"] {
        assert!(table.lines().any(|line| line.starts_with(via) && line.ends_with("2 of 2")), "{table}");
    }
    assert_eq!(namespaces(&prefix), [""; 0]);
    let demo = here(&["lab", "demo", "--mebibytes", "256", "--hosts", "3"]);
    let prefix = format!("ethbcast-demo{}-", demo.pid());
    demo.wait_for_line("via chain");
    assert_eq!(namespaces(&prefix).len(), 4, "three hosts and the switches");
    demo.signal(Signal::SIGINT);
    demo.end(LIMIT).assert_refusal(130, &["interrupted", "taken down"]);
    assert_eq!(namespaces(&prefix), [""; 0]);
    // Other demos may run meanwhile.
    let clean = within(LIMIT, || demo_files().iter().all(|name| before.contains(name)).then_some(()));
    assert!(clean.is_some(), "{:?}", demo_files());
}
