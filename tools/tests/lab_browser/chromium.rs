//! Headless Chromium: layout faults of a page, and screenshots.

use ethbcast_tests::lab::Run;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

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
pub struct Look {
    /// Width of the window, in pixels.
    pub width: u32,
    /// Whether dark colours are preferred.
    pub is_dark: bool,
}

impl fmt::Display for Look {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.width, if self.is_dark { "dark" } else { "light" })
    }
}

pub struct Chromium {
    directory: PathBuf,
}

impl Chromium {
    /// Keeps the profile in `directory`.
    pub fn new(directory: &Path) -> Chromium {
        Chromium { directory: directory.to_owned() }
    }

    /// Returns the layout faults of a page, one per line.
    pub fn look(&self, page: &Path, look: Look) -> Vec<String> {
        let around = self.around(page, look);
        let shown = self.run(look, 900, &["--dump-dom", &around]);
        let found = shown.split_once("FOUND\n").and_then(|(_, rest)| rest.split_once("END</pre>"));
        let (found, _) = found.unwrap_or_else(|| panic!("the page was not looked at: {shown}"));
        found.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// Takes a screenshot of a page.
    pub fn picture(&self, page: &Path, look: Look) -> PathBuf {
        let picture = self.directory.join(format!("{look}.png"));
        let around = self.around(page, look).replace("look-", "picture-");
        let text = fs::read_to_string(self.directory.join(format!("look-{look}.html"))).expect("written before");
        let tall = text.replace("height:900px", &format!("height:{HEIGHT}px"));
        fs::write(self.directory.join(format!("picture-{look}.html")), tall).expect("written");
        self.run(look, HEIGHT, &[&format!("--screenshot={}", picture.display()), "--hide-scrollbars", &around]);
        picture
    }

    /// Returns the address of the embedding page.
    fn around(&self, page: &Path, Look { width, is_dark }: Look) -> String {
        let around = self.directory.join(format!("look-{}.html", Look { width, is_dark }));
        let text = AROUND.replace("PAGE", &format!("file://{}", page.display()));
        let text = text.replace("WIDTH", &width.to_string()).replace("DARK", &is_dark.to_string());
        fs::write(&around, text).expect("written");
        format!("file://{}", around.display())
    }

    /// Runs the browser and returns its stdout.
    fn run(&self, look: Look, height: u32, arguments: &[&str]) -> String {
        let mut command = Command::new("chromium");
        // The sandbox does not work as root. Access from one local file to another must be allowed
        // explicitly.
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]);
        command.args(["--virtual-time-budget=5000", "--disable-dev-shm-usage", "--no-first-run"]);
        command.arg(format!("--user-data-dir={}", self.directory.join("profile").display()));
        command.arg(format!("--window-size={},{height}", look.width.max(500)));
        command.arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!look.is_dark)));
        command.args(arguments);
        let ended = Run::to_end(command, LOOK_LIMIT);
        ended.assert_code(0);
        ended.stdout_text()
    }
}

/// Returns the faults of a screenshot.
pub fn faults_of(picture: &Path, look: Look) -> impl Iterator<Item = String> {
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
