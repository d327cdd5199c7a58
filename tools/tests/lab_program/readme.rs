//! The README's commands, unchanged.

use crate::harness::{LIMIT, MEBIBYTE, PROGRAM, content, lab_name, require_root, scratch, shown_in};
use ethbcast_lab::Lab;
use ethbcast_tests::lab::Run;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Returns the README's code block that contains a text.
fn block_with(text: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tree").join("README.md");
    let readme = fs::read_to_string(path).expect("the README is there");
    let block = readme.split("```").find(|block| block.starts_with("sh\n") && block.contains(text));
    block.unwrap_or_else(|| panic!("no block of README.md has {text}"))["sh\n".len()..].to_owned()
}

#[test]
fn the_lab_of_the_readme_brings_an_image_to_seven_hosts() {
    require_root();
    let (directory, name) = (scratch(), lab_name("readme"));
    let image = content(1, 2 * MEBIBYTE);
    fs::write(directory.path().join("image.qcow2"), &image).expect("there is room");
    let place = directory.path().to_str().expect("ours");
    let block = block_with("ethbcast lab up");
    // The name of the tests' lab differs from that of a lab that the user may have up.
    let named = ["up", "each", "exec", "down"].iter().fold(block, |block, command| {
        block.replace(&format!("ethbcast lab {command}"), &format!("ethbcast lab {command} --lab {name}"))
    });
    // ... and the script waits for the receivers' last lines, as a reader would.
    let script = named.replace("/tmp/", &format!("{place}/")).replace("ethbcast lab down", "wait\nethbcast lab down");
    let mut command = Command::new("sh");
    let path = std::env::var("PATH").unwrap_or_default();
    let programs = Path::new(PROGRAM).parent().expect("in a directory").to_str().expect("UTF-8");
    command.args(["-ec", &script]).current_dir(directory.path()).env("PATH", format!("{programs}:{path}"));
    let ended = Run::start("the README", command).end(2 * LIMIT);
    drop(Lab::remove(&name));
    ended.assert_code(0);
    assert!(ended.stdout_text().contains("7 of 7 receivers verified"), "{}", ended.stdout_text());
    let mut expected: Vec<_> = (1..8).map(|host| format!("n{host}.img")).collect();
    expected.push("image.qcow2".into());
    expected.sort();
    assert_eq!(shown_in(directory.path()), expected);
    for name in expected {
        assert!(fs::read(directory.path().join(&name)).is_ok_and(|bytes| bytes == image), "{name}");
    }
}
