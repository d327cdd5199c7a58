//! The examples, as programs.

use super::Own;
use ethbcast_tests::lab::{LIMIT, Run, Site, content, names_in, one_switch};

fn start(site: &Site, host: &str, program: &str, arguments: &[&str]) -> Run {
    let mut command = site.command(host, program);
    command.args(arguments);
    Run::start(host, command)
}

#[test]
fn the_examples_send_a_file_to_all_who_want_it() {
    let site = Own::up("send_file", one_switch(4));
    let bytes = content(1, 5 << 20);
    let file = site.file("image", &bytes);
    let dests = ["n1", "n2", "n3"].map(|host| (host, site.path(host)));
    let text = |path: &std::path::Path| path.to_str().expect("a path in ASCII").to_owned();
    let receive = |(host, dest): &(&str, std::path::PathBuf)| {
        start(&site, host, env!("CARGO_BIN_EXE_receive_file"), &["images", &text(dest)])
    };
    let receivers: Vec<Run> = dests.iter().map(receive).collect();
    let sender = start(&site, "n0", env!("CARGO_BIN_EXE_send_file"), &["images", "3", &text(&file)]).end(LIMIT);
    sender.assert_code(0);
    assert!(sender.stdout_text().starts_with("5242880 bytes at 3 receivers after"), "{}", sender.stdout_text());
    receivers.into_iter().for_each(|receiver| receiver.end(LIMIT).assert_code(0));
    for (host, dest) in &dests {
        assert!(std::fs::read(dest).expect("it is there") == bytes, "{host} has other bytes");
    }
    assert_eq!(names_in(file.parent().expect("it has one")).len(), 4, "something is left beside the files");
}

#[test]
fn the_examples_say_what_to_do_when_they_are_used_wrongly() {
    let site = Own::up("send_file_wrong", one_switch(1));
    let sender = start(&site, "n0", env!("CARGO_BIN_EXE_send_file"), &["images"]).end(LIMIT);
    sender.assert_refusal(1, &["usage: send_file GROUP RECEIVERS FILE"]);
    let dest = site.path("there");
    let dest = dest.to_str().expect("a path in ASCII");
    let receiver = start(&site, "n0", env!("CARGO_BIN_EXE_receive_file"), &[&"g".repeat(65), dest]).end(LIMIT);
    receiver.assert_refusal(1, &["the group name has 65 bytes", "1 to 64"]);
    assert!(names_in(site.path("").as_path()).is_empty(), "something is left");
}
