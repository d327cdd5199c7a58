//! Directories, devices and commands without the tool: contents and storages of a program.

use super::{Own, receiver, sender};
use ethbcast_collectives::session::{ContentKind, Session};
use ethbcast_content::command::CommandOutput;
use ethbcast_content::dest::{Arrival, Dest, Handling, Landed};
use ethbcast_content::source::{Opened, Opening, Selection};
use ethbcast_content::storage::Target;
use ethbcast_tests::lab::{Site, content, one_switch};
use std::fs;
use std::path::Path;
use std::thread;

fn transfer(site: &Site, opened: Opened, dest: Dest, target: Target) -> Landed {
    let (arrival, landed) = Arrival::new(dest, target, Handling { read_back: true, ..Handling::default() });
    thread::scope(|scope| {
        let receive = || Session::receive_into("test", arrival, &receiver());
        let receiver = scope.spawn(|| site.lab().run_on("n1", receive).expect("a host of this lab"));
        let send = || Session::send("test", opened.content, &sender());
        let sent = site.lab().run_on("n0", send).expect("a host of this lab").expect("sent");
        let received = receiver.join().expect("no panic").expect("received");
        assert_eq!((sent.verified(), received.bytes()), (1, sent.bytes()));
    });
    landed
}

fn dest(path: &Path) -> (Dest, Target) {
    let target = Target { dest: path.to_owned(), ..Target::default() };
    (Dest::resolve(path.as_os_str(), false).expect("it can be written"), target)
}

#[test]
fn a_program_sends_files_directories_and_what_a_command_writes_and_puts_them_where_the_tool_would() {
    let site = Own::up("contents", one_switch(2));
    let tree = site.directory("tree");
    fs::create_dir(tree.join("sub")).and_then(|()| fs::write(tree.join("sub/file"), "text")).expect("room");
    let file = site.file("file", content(1, 3_000_000));
    let opened = Opened::tree(&[tree], &Selection::default()).expect("readable");
    assert_eq!(opened.tree.as_ref().map(|tree| tree.entries()), Some(2));
    let (to, target) = dest(&site.path("copy"));
    let landed = transfer(&site, opened, to, target);
    assert_eq!(landed.path(), Some(&site.path("copy")));
    assert_eq!(fs::read_to_string(site.path("copy/sub/file")).expect("there"), "text");
    let opened = Opened::file(&file, Opening::default()).expect("readable");
    let (to, target) = dest(&site.directory("there"));
    transfer(&site, opened, to, target);
    assert!(fs::read(site.path("there/file")).is_ok_and(|copy| copy == content(1, 3_000_000)));
    // A reader of the program's own, as content with a name, into a command.
    let output = CommandOutput::start("printf abc").expect("a shell");
    let content = ethbcast_collectives::session::live::Content::of(output).named("letters", "the letters");
    let said = site.path("said");
    let to = Dest::Command(format!("echo $ETHBCAST_SOURCE $(cat) > {}", said.display()));
    let opened = Opened { content: content.kind(ContentKind::Stream).sized(Some(3)), tree: None };
    transfer(&site, opened, to, Target::default());
    assert_eq!(fs::read_to_string(said).expect("it ran"), "letters abc\n");
}
