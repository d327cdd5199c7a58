//! Pages of reports in a real browser, headless Chromium: wide and narrow, light and dark.
//! Overflow, overlap and unreadable text are found by the positions and colours that the browser
//! computes.
//!
//! These tests need `chromium`, and fail without it. `ETHBCAST_PICTURES=DIR` keeps the screenshots.

mod chromium;
mod report;

use chromium::{Chromium, Look};
use ethbcast_tests::lab::{LIMIT, Run, scratch};
use std::fs;
use std::path::{Path, PathBuf};

/// Widths of a desktop window and of a telephone, in pixels.
const WIDTHS: [u32; 2] = [1280, 375];

/// Writes a report, and returns its page.
fn page(directory: &Path, name: &str, report: &serde_json::Value) -> PathBuf {
    let (json, html) = (directory.join(format!("{name}.json")), directory.join(format!("{name}.html")));
    fs::write(&json, report.to_string()).expect("written");
    let paths = [&json, &html].map(|path| path.to_str().expect("a path in UTF-8").to_owned());
    let ended = Run::here(env!("CARGO_BIN_EXE_ethbcast"), &["report", &paths[0], "--out", &paths[1]]).end(LIMIT);
    ended.assert_code(0);
    html
}

/// Fails if a page has faults with any settings.
fn look_at(name: &str, report: &serde_json::Value) {
    let directory = scratch();
    let page = page(directory.path(), name, report);
    let kept = std::env::var_os("ETHBCAST_PICTURES").map(PathBuf::from);
    let chromium = Chromium::new(directory.path());
    let mut wrong = Vec::new();
    for width in WIDTHS {
        for is_dark in [false, true] {
            let look = Look { width, is_dark };
            let found = chromium.look(&page, look);
            wrong.extend(found.into_iter().map(|problem| format!("{name} at {look}: {problem}")));
            let picture = chromium.picture(&page, look);
            if let Some(directory) = &kept {
                fs::copy(&picture, directory.join(format!("{name}-{look}.png"))).expect("kept");
            }
            wrong.extend(chromium::faults_of(&picture, look).map(|problem| format!("{name} at {look}: {problem}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_run_in_which_a_host_died_and_another_stood_still_is_legible_light_and_dark_wide_and_narrow() {
    look_at("died", &report::run_of(7, true));
}

/// Further pages, run by `./test --full`.
mod full {
    use super::{look_at, report};

    #[test]
    fn a_run_of_seven_hosts_in_which_all_went_well_is_legible() {
        look_at("seven", &report::run_of(7, false));
    }

    #[test]
    fn a_run_of_a_hundred_hosts_is_legible() {
        look_at("hundred", &report::run_of(100, true));
    }
}

#[test]
fn a_page_that_cannot_be_read_is_found() {
    let directory = scratch();
    let page = directory.path().join("bad.html");
    let body = "<body style='background:#fff;margin:0'><p style='color:#eee'>faint</p>\
                <p style='white-space:nowrap;width:3000px'>wide</p><div class=across style='position:relative'>\
                <span style='position:absolute;left:0'>one label</span>\
                <span style='position:absolute;left:9px'>another</span></div>";
    fs::write(&page, format!("<!DOCTYPE html><meta charset=utf-8>{body}")).expect("written");
    let found = Chromium::new(directory.path()).look(&page, Look { width: 375, is_dark: true }).join("\n");
    for part in ["3000 wide", "faint", "one label", "is not dark or light"] {
        assert!(found.contains(part), "{part}: {found}");
    }
}
