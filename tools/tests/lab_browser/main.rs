//! Tests of the HTML report in headless Chromium: wide and narrow, light and dark. Overflow,
//! overlap and unreadable text are found by the positions and colours that the browser computes.
//!
//! The tests need `chromium`, and fail without it. `ETHBCAST_PICTURES=DIR` keeps the screenshots.

use ethbcast_tests::lab::{LIMIT, Run, scratch};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fmt, fs};

/// Widths of a desktop window and of a telephone, in pixels.
const WIDTHS: [u32; 2] = [1280, 375];

fn page(directory: &Path, name: &str, report: &serde_json::Value) -> PathBuf {
    let (json, html) = (
        directory.join(format!("{name}.json")),
        directory.join(format!("{name}.html")),
    );
    fs::write(&json, report.to_string()).expect("written");
    let paths = [&json, &html].map(|path| path.to_str().expect("a path in UTF-8").to_owned());
    let ended = Run::here(
        env!("CARGO_BIN_EXE_ethbcast"),
        &["report", &paths[0], "--out", &paths[1]],
    )
    .end(LIMIT);
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
            wrong.extend(
                found
                    .into_iter()
                    .map(|problem| format!("{name} at {look}: {problem}")),
            );
            let picture = chromium.picture(&page, look);
            if let Some(directory) = &kept {
                fs::copy(&picture, directory.join(format!("{name}-{look}.png"))).expect("kept");
            }
            wrong.extend(
                faults_of(&picture, look).map(|problem| format!("{name} at {look}: {problem}")),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_run_in_which_a_host_died_and_another_stood_still_is_legible_light_and_dark_wide_and_narrow() {
    look_at("died", &run_of(7, true));
}

/// Further pages, run by `./test --full`.
mod full {
    use super::{look_at, run_of};

    #[test]
    fn a_run_of_seven_hosts_in_which_all_went_well_is_legible() {
        look_at("seven", &run_of(7, false));
    }

    #[test]
    fn a_run_of_a_hundred_hosts_is_legible() {
        look_at("hundred", &run_of(100, true));
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
    let found = Chromium::new(directory.path())
        .look(
            &page,
            Look {
                width: 375,
                is_dark: true,
            },
        )
        .join("\n");
    for part in ["3000 wide", "faint", "one label", "is not dark or light"] {
        assert!(found.contains(part), "{part}: {found}");
    }
}

/// Samples of a run.
const MOMENTS: usize = 200;
const SECONDS: f64 = 20.0;
const BYTES: u64 = 1 << 30;

/// Creates a run to `receivers` receivers on two switches; `with_trouble` adds deaths and stalls.
fn run_of(receivers: usize, with_trouble: bool) -> Value {
    let hosts: Vec<String> = (1..=receivers).map(|at| format!("n{at}")).collect();
    let dead = with_trouble.then_some(receivers / 2);
    let seconds: Vec<f64> = (1..=MOMENTS)
        .map(|at| at as f64 / MOMENTS as f64 * SECONDS)
        .collect();
    let tracks: Vec<Value> = (0..receivers)
        .map(|at| track(at, &hosts[at], dead, with_trouble))
        .collect();
    let outcomes = hosts.iter().enumerate().map(|(at, host)| {
        let is_dead = dead == Some(at);
        let status = if is_dead { "died" } else { "verified" };
        let end = if is_dead { SECONDS / 2.0 } else { SECONDS - 0.5 + 0.5 * at as f64 / receivers as f64 };
        let reason = is_dead.then_some("its process has ended: killed");
        json!({ "host": host, "rank": at + 1, "status": status, "bytes": if is_dead { 0 } else { BYTES },
                "seconds": end, "reason": reason, "frames": 731_500,
                "repaired_frames": if with_trouble && at == 0 { 14_000 } else { 0 } })
    });
    let chain: Vec<&str> = std::iter::once("n0")
        .chain(hosts.iter().map(String::as_str))
        .collect();
    let edges: Vec<Value> = chain
        .windows(2)
        .map(|two| json!({ "from": two[0], "to": two[1], "order": 0 }))
        .collect();
    let (half, last) = (receivers / 2, receivers);
    let topology = format!(
        "schema = 1\n[[switch]]\nname = \"s0\"\nhosts = \"n[0-{half}]\"\nlinks = [\"s1\"]\n[[switch]]\nname = \
         \"s1\"\nhosts = \"n[{}-{last}]\"\n",
        half + 1
    );
    let incident = |at: usize| {
        json!(
        { "seconds": SECONDS / 2.0, "kind": "failed", "hosts": [hosts[at]],
            "text": "died: killed" })
    };
    let command = [
        "ethbcast",
        "send",
        "-i",
        "eth0",
        "--hosts",
        "n[1-100]",
        "--report",
        "run.html",
        "image.raw",
    ];
    json!({
        "schema": 1, "session": "0000002a", "bytes": BYTES, "seconds": SECONDS, "total_seconds": SECONDS + 1.0,
        "goodput_bits_per_second": BYTES as f64 * 8.0 / SECONDS, "via": "chain", "preset": "default",
        "blake3": "9f2b1c".repeat(10) + "ab12", "segment_bytes": 1468, "predicted_seconds": SECONDS * 0.9,
        "reason": "chain: 18.0 s predicted, next cast 19.1 s (+6 %); segment 1 frame",
        "frames": { "data_sent": 731_500, "data_resent": 3120, "control_sent": 900, "control_received": 88_000 },
        "receivers": outcomes.collect::<Vec<_>>(), "left_out": [],
        "damaged": [{ "at": 0, "bytes": 65536, "from": "n1", "to": ["n2"] }],
        "run": {
            "version": "0.1.0", "command": command, "began": "2026-01-01T00:00:00Z", "source": "image.raw",
            "group": "ethbcast", "root": "n0", "interface": "eth0", "mtu_bytes": 1500, "topology": topology,
            "plan": { "via": "chain", "hosts": chain, "edges": edges }, "held_up_by": "n2",
            "candidates": [{ "via": "chain", "predicted_seconds": 18.0 }, { "via": "cast", "predicted_seconds": 19.1 }],
            "timeline": {
                "seconds": seconds, "sent_bytes": seconds.iter().map(|at| sent(*at)).collect::<Vec<_>>(),
                "resent_frames": vec![0; MOMENTS], "receivers": tracks,
                "incidents": dead.map(incident).into_iter().collect::<Vec<_>>(),
            },
        },
    })
}

fn sent(seconds: f64) -> u64 {
    (BYTES as f64 * (seconds / SECONDS * 1.04).min(1.0)) as u64
}

/// Creates the progress of a receiver, slightly behind its predecessor, some with a pause.
fn track(at: usize, host: &str, dead: Option<usize>, with_trouble: bool) -> Value {
    let rests = with_trouble && at % 5 == 1;
    let moment = |moment: usize| {
        let seconds = (moment + 1) as f64 / MOMENTS as f64 * SECONDS;
        let is_resting = rests && (6.0..9.0).contains(&seconds);
        let wave = ((moment * 37 + at * 11) % 17) as f64 / 100.0;
        let there = sent(if is_resting {
            6.0
        } else {
            (seconds - 0.02 * at as f64 - wave).max(0.0)
        });
        let gone = dead == Some(at) && seconds > SECONDS / 2.0;
        (
            if gone { sent(SECONDS / 2.0) } else { there },
            if gone {
                '-'
            } else if is_resting {
                'b'
            } else {
                'a'
            },
        )
    };
    let (bytes, states): (Vec<u64>, String) = (0..MOMENTS).map(moment).unzip();
    json!({ "host": host, "bytes": bytes, "states": states })
}

/// A page that embeds the examined one.
const AROUND: &str = include_str!("look.html");
/// Limit on one run of the browser on a busy machine.
const LOOK_LIMIT: Duration = Duration::from_secs(300);
/// Height of a screenshot, in pixels.
const HEIGHT: u32 = 2400;
/// Number of colours below which a screenshot is not a page with text and lines.
const MIN_COLOURS: usize = 30;

/// Settings of the browser.
#[derive(Clone, Copy, Debug)]
struct Look {
    /// Width of the window, in pixels.
    pub width: u32,
    /// Whether dark colours are preferred.
    pub is_dark: bool,
}

impl fmt::Display for Look {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}-{}",
            self.width,
            if self.is_dark { "dark" } else { "light" }
        )
    }
}

struct Chromium {
    directory: PathBuf,
}

impl Chromium {
    /// Keeps the profile in `directory`.
    fn new(directory: &Path) -> Chromium {
        Chromium {
            directory: directory.to_owned(),
        }
    }

    /// Returns the layout faults of a page, one per line.
    fn look(&self, page: &Path, look: Look) -> Vec<String> {
        let around = self.around(page, look);
        let shown = self.run(look, 900, &["--dump-dom", &around]);
        let found = shown
            .split_once("FOUND\n")
            .and_then(|(_, rest)| rest.split_once("END</pre>"));
        let (found, _) = found.unwrap_or_else(|| panic!("the page was not looked at: {shown}"));
        found
            .lines()
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// Takes a screenshot of a page.
    fn picture(&self, page: &Path, look: Look) -> PathBuf {
        let picture = self.directory.join(format!("{look}.png"));
        let around = self.around(page, look).replace("look-", "picture-");
        let text = fs::read_to_string(self.directory.join(format!("look-{look}.html")))
            .expect("written before");
        let tall = text.replace("height:900px", &format!("height:{HEIGHT}px"));
        fs::write(self.directory.join(format!("picture-{look}.html")), tall).expect("written");
        self.run(
            look,
            HEIGHT,
            &[
                &format!("--screenshot={}", picture.display()),
                "--hide-scrollbars",
                &around,
            ],
        );
        picture
    }

    /// Returns the address of the embedding page.
    fn around(&self, page: &Path, Look { width, is_dark }: Look) -> String {
        let around = self
            .directory
            .join(format!("look-{}.html", Look { width, is_dark }));
        let text = AROUND.replace("PAGE", &format!("file://{}", page.display()));
        let text = text
            .replace("WIDTH", &width.to_string())
            .replace("DARK", &is_dark.to_string());
        fs::write(&around, text).expect("written");
        format!("file://{}", around.display())
    }

    /// Runs the browser and returns its stdout.
    fn run(&self, look: Look, height: u32, arguments: &[&str]) -> String {
        let mut command = Command::new("chromium");
        // The sandbox does not work as root. Access from one local file to another must be allowed
        // explicitly.
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--allow-file-access-from-files",
        ]);
        command.args([
            "--virtual-time-budget=5000",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ]);
        command.arg(format!(
            "--user-data-dir={}",
            self.directory.join("profile").display()
        ));
        command.arg(format!("--window-size={},{height}", look.width.max(500)));
        command.arg(format!(
            "--blink-settings=preferredColorScheme={}",
            u8::from(!look.is_dark)
        ));
        command.args(arguments);
        let ended = Run::to_end(command, LOOK_LIMIT);
        ended.assert_code(0);
        ended.stdout_text()
    }
}

/// Returns the faults of a screenshot.
fn faults_of(picture: &Path, look: Look) -> impl Iterator<Item = String> {
    let file = std::io::BufReader::new(fs::File::open(picture).expect("it was taken"));
    let mut reader = png::Decoder::new(file).read_info().expect("a picture");
    let mut bytes = vec![0; reader.output_buffer_size().expect("it has a size")];
    let shape = reader.next_frame(&mut bytes).expect("a picture");
    let pixel_bytes = shape.line_size / shape.width as usize;
    let pixel = |x: u32, y: u32| {
        let at = y as usize * shape.line_size + x as usize * pixel_bytes;
        [bytes[at], bytes[at + 1], bytes[at + 2]]
    };
    let all = (0..shape.height).flat_map(|y| (0..look.width).map(move |x| (x, y)));
    let colours: std::collections::HashSet<[u8; 3]> = all.map(|(x, y)| pixel(x, y)).collect();
    let ground = pixel(2, 2);
    let is_dark = ground.iter().map(|&part| u32::from(part)).sum::<u32>() < 3 * 128;
    let few = (colours.len() < MIN_COLOURS).then(|| format!("only {} colours", colours.len()));
    let other = (is_dark != look.is_dark).then(|| format!("its ground is {ground:?}"));
    few.into_iter().chain(other)
}
