//! `ethbcast cp` to named hosts with a server.

use crate::{ethbcast, serve, wait_for_file};
use ethbcast_tests::lab::{Ended, LIMIT, Run, Site, one_switch, shown_in, within};
use nix::sys::signal::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn cp(site: &Site, arguments: &[&str], environment: &[(&str, &str)]) -> Ended {
    let mut command = ethbcast(site, "n0", &[&["cp", "-i", "eth0", "--max-wait", "2"], arguments].concat());
    command.env_remove("SLURM_JOB_NODELIST").envs(environment.iter().copied());
    Run::start("n0", command).end(LIMIT)
}

#[test]
fn hosts_that_serve_have_it_and_those_that_do_not_are_named() {
    let site = Site::beside("cp", one_switch(5));
    let dirs = ["d1", "d2", "d3"].map(|name| site.directory(name));
    let servers = [1, 2, 3].map(|host| serve(&site, &format!("n{host}"), &["--force"], &dirs[host - 1]));
    let file = site.file("image", "an image");
    let path = file.to_str().expect("UTF-8");
    // n3 serves and is not wanted; n4 does not serve; n0 is the sender.
    let ended = cp(&site, &[path, "n[0-2,4]:"], &[]);
    ended.assert_code(1);
    for part in ["n0 is this host", "not serving: n4", "1 of 3 hosts does not serve: n4; the others have it"] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
    dirs[..2].iter().for_each(|dir| wait_for_file(&dir.join("image"), b"an image"));
    assert_eq!(shown_in(&dirs[2]), [""; 0]);
    cp(&site, &["-p", "-w", "n[1-3]", path, "copy"], &[]).assert_code(0);
    dirs.iter().for_each(|dir| wait_for_file(&dir.join("copy"), b"an image"));
    let ended = cp(&site, &["-f", "--fanout", "4", path, "in-a-job"], &[("SLURM_JOB_NODELIST", "n[1,3]")]);
    ended.assert_code(0);
    assert!(ended.stderr.contains("-f does nothing here") && ended.stderr.contains("--fanout does nothing"));
    wait_for_file(&dirs[2].join("in-a-job"), b"an image");
    assert!(!dirs[1].join("in-a-job").exists(), "n2 is not in the job");
    let ended = cp(&site, &[path, "n4:"], &[]);
    ended.assert_refusal(3, &["none of n4 serves group ethbcast", "recv --serve", "[E-NOBODY]"]);
    let tree = site.directory("tree");
    fs::write(tree.join("file"), "in a tree").expect("written");
    cp(&site, &[tree.to_str().expect("UTF-8"), "n1:"], &[]).assert_code(0);
    wait_for_file(&dirs[0].join("tree/file"), b"in a tree");
    let (one, two) = (site.file("one", "the first"), site.directory("two"));
    fs::write(two.join("file"), "the second").expect("written");
    let several = [one.to_str().expect("UTF-8"), two.to_str().expect("UTF-8")];
    // Several sources would replace the served directory, unless they are put into it.
    let refused = cp(&site, &[several[0], several[1], "n1:"], &[]);
    assert!(refused.code() != 0 && !dirs[0].join("one").exists(), "{refused:?}");
    let inside = site.directory("d4");
    let fourth = serve(&site, "n4", &["--in-place"], &inside);
    cp(&site, &[several[0], several[1], "n4:"], &[]).assert_code(0);
    wait_for_file(&inside.join("two/file"), b"the second");
    wait_for_file(&inside.join("one"), b"the first");
    cp(&site, &["-w", "n4", several[0], several[1], ":"], &[]).assert_code(0);
    for (arguments, part) in [
        (&[path][..], "to which hosts?"),
        (&[several[0], several[1], "n1:other"], "several keep their own names"),
        (&[path, "n1:/tmp/x"], "is a path"),
        (&["-w", "n1", path, "n2:"], "hosts twice"),
        (&[path, "n0:"], "no other host"),
        (&[tree.to_str().expect("UTF-8"), "n1:other"], "directories keep theirs"),
    ] {
        cp(&site, arguments, &[]).assert_refusal(2, &[part]);
    }
    for server in servers.into_iter().chain([fourth]) {
        server.signal(Signal::SIGTERM);
        server.end(LIMIT).assert_code(0);
    }
}

#[test]
fn groups_of_hosts_are_clustershells_to_know() {
    let site = Site::beside("groups", one_switch(3));
    let dir = site.directory("dest");
    let server = serve(&site, "n1", &[], &dir);
    let bin = site.directory("bin");
    // As in ClusterShell: -e expands, -S separates.
    fs::write(bin.join("nodeset"), "#!/bin/sh\ntest \"$1 $2\" = '-e -S' && test \"$4\" = @rack && echo n1\n")
        .expect("written");
    fs::set_permissions(bin.join("nodeset"), fs::Permissions::from_mode(0o755)).expect("allowed");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let file = site.file("file", "bytes");
    let file = file.to_str().expect("UTF-8");
    cp(&site, &["-w", "@rack", file], &[("PATH", &path)]).assert_code(0);
    wait_for_file(&dir.join("file"), b"bytes");
    cp(&site, &["-w", "@row", file], &[("PATH", &path)]).assert_refusal(2, &["@row has a group", "nodeset"]);
    server.signal(Signal::SIGTERM);
    server.end(LIMIT).assert_code(0);
}

#[test]
fn hosts_that_share_a_name_are_named_by_their_addresses() {
    let site = Site::beside("shared", one_switch(3));
    let dirs = ["d1", "d2"].map(|name| site.directory(name));
    let servers = [1, 2].map(|host| serve(&site, &format!("n{host}"), &["--host", "pc"], &dirs[host - 1]));
    let file = site.file("image", "an image");
    let path = file.to_str().expect("UTF-8");
    let listed = Run::start("n0", ethbcast(&site, "n0", &["hosts", "-i", "eth0"])).end(LIMIT).stdout_text();
    let nodes: Vec<&str> = listed.split_whitespace().filter(|word| word.starts_with("pc@")).collect();
    assert_eq!(nodes.len(), 2, "{listed}");
    // A late reply is found by the next attempt.
    let refused = within(LIMIT, || Some(cp(&site, &[path, "pc:"], &[])).filter(|ended| ended.code() != 0));
    refused.expect("refused").assert_refusal(2, &["pc are 2 hosts", &nodes.join(" or ")]);
    cp(&site, &[path, &format!("{}:copy", nodes[1])], &[]).assert_code(0);
    let dir = dirs.iter().find(|dir| dir.join("copy").exists()).expect("one has it");
    assert_eq!(fs::read(dir.join("copy")).expect("read"), b"an image");
    for server in servers {
        server.signal(Signal::SIGTERM);
        server.end(LIMIT).assert_code(0);
    }
}
