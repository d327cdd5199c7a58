//! `udp-receiver` as `ethbcast recv`.

use super::{piped, shared};
use clap::ArgMatches;
use std::ffi::OsString;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Returns the arguments of `ethbcast recv`.
///
/// # Errors
/// A [`Failure`](crate::exit::Failure) with code 2.
pub fn arguments(matches: &ArgMatches) -> anyhow::Result<Vec<OsString>> {
    let mut arguments = shared("recv", matches)?;
    for (own, ours) in [("start-timeout", "max-wait"), ("receive-timeout", "patience")] {
        if let Some(seconds) = matches.get_one::<u32>(own).filter(|&&seconds| seconds > 0) {
            arguments.push(format!("--{ours}={seconds}").into());
        }
    }
    let file = matches.get_one::<OsString>("file");
    let command = matches.get_one::<String>("pipe").map(String::as_str);
    match (command, file) {
        (Some(command), file) => {
            let command = piped(command, '>', file, std::io::stdout())?;
            // The command's stdout carries data, which a report must not mix with.
            if !matches.get_flag("no-progress") {
                arguments.push("--quiet".into());
            }
            arguments.push(format!("--pipe={command}").into());
        }
        (None, Some(file)) if takes_what_comes(Path::new(file)) => {
            let command = piped("cat", '>', Some(file), std::io::stdout())?;
            arguments.push(format!("--pipe={command}").into());
        }
        // An existing file is overwritten, as by udpcast.
        (None, Some(file)) => arguments.extend(["--force".into(), "--".into(), file.clone()]),
        (None, None) => arguments.extend(["--".into(), "-".into()]),
    }
    Ok(arguments)
}

/// Whether a file is a pipe or character device, which cannot be replaced.
fn takes_what_comes(path: &Path) -> bool {
    path.metadata().is_ok_and(|there| there.file_type().is_fifo() || there.file_type().is_char_device())
}
