//! The recipes of docs/clusters.md, with stand-ins for cluster tools.

use crate::PROGRAM;
use ethbcast_tests::lab::{LIMIT, Run, Site, content, one_switch};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/clusters.md"));

/// Returns the rest of the code block behind `begin`, at its first occurrence after `heading`.
fn block(heading: &str, begin: &str) -> String {
    let (_, rest) = PAGE.split_once(heading).unwrap_or_else(|| panic!("no {heading}"));
    let (_, rest) = rest.split_once(begin).unwrap_or_else(|| panic!("no {begin} under {heading}"));
    rest.split_once("\n```").expect("its end").0.to_owned()
}

fn program(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}")).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("allowed");
}

/// Runs a script on n0 in a directory that has a subdirectory for each host.
fn run(site: &Site, script: &str) {
    let bin = site.directory("bin");
    std::os::unix::fs::symlink(PROGRAM, bin.join("ethbcast")).expect("linked");
    let lab = site.lab().name();
    let each = |hosts: &str| {
        format!(
            "for host in {hosts}; do\n\
             (cd $host && export SLURMD_NODENAME=$host && exec ethbcast lab exec --lab {lab} $host -- \"$@\") &\n\
             pids=\"$pids $!\"\ndone\nfor pid in $pids; do wait $pid || exit 1; done\n"
        )
    };
    program(&bin, "scontrol", "printf 'n0\\nn1\\nn2\\n'\n");
    program(&bin, "srun", &format!("test \"$1\" = --ntasks-per-node=1 || exit 9\nshift\n{}", each("n0 n1 n2")));
    program(&bin, "clush", &format!("test \"$1 $2\" = '-bw n[1-2]' || exit 9\nshift 2\n{}", each("n1 n2")));
    (0..3).for_each(|host| drop(site.directory(&format!("n{host}"))));
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = site.command("n0", "sh");
    command.args(["-ec", script]).current_dir(site.scratch()).env("PATH", path).env("ETHBCAST_CONFIG", "");
    command.env("SLURM_JOB_NODELIST", "n[0-2]").env("SLURM_JOB_ID", "7").env_remove("ETHBCAST_HOST");
    Run::start("n0", command).end(LIMIT).assert_code(0);
}

#[test]
fn in_a_slurm_job_the_first_host_sends_and_the_others_receive() {
    let site = Site::beside("srun", one_switch(3));
    let bytes = content(1, 300_000);
    let script = block("## In a Slurm job", "```sh\nfirst=").replace("/tmp/data.bin", "data.bin");
    assert!(script.contains("srun --ntasks-per-node=1"), "{script}");
    fs::create_dir(site.path("n0-data")).expect("made");
    let sender = site.file("n0-data/data.bin", &bytes);
    let script = script
        .replace("$SLURM_JOB_ID\" data.bin\n    else", &format!("$SLURM_JOB_ID\" {}\n    else", sender.display()));
    run(&site, &format!("first={script}"));
    for host in ["n1", "n2"] {
        assert!(fs::read(site.path(host).join("data.bin")).expect("it came") == bytes, "{host}");
    }
}

#[test]
fn clush_starts_the_receivers_and_the_sender_names_them() {
    let site = Site::beside("clush", one_switch(3));
    let bytes = content(2, 300_000);
    let source = site.file("source.img", &bytes);
    let script = block("## clush and pdsh", "```sh\n").replace("n[1-500]", "n[1-2]");
    let script = script.replace("/srv/disk.img", "disk.img");
    let script = script.replace("--max-wait 60 disk.img", &format!("--max-wait 60 {}", source.display()));
    run(&site, &script);
    for host in ["n1", "n2"] {
        assert!(fs::read(site.path(host).join("disk.img")).expect("it came") == bytes, "{host}");
    }
}

#[test]
fn the_configuration_that_cloud_init_writes_is_one() {
    let site = Site::beside("cloud", one_switch(2));
    let text = block("## cloud-init", "content: |\n");
    let (text, _) = text.split_once("runcmd:").expect("what runs comes behind it");
    let file = site.file("ethbcast.toml", text.replace("\n      ", "\n"));
    let ended = Run::here(PROGRAM, &["config", "check", file.to_str().expect("UTF-8")]).end(LIMIT);
    ended.assert_code(0);
}
