//! SOURCE, as the command line says it: a file, a device, stdin, a command, a directory, or several.

use crate::args::{Decompress, SendArgs, TreeArgs};
use crate::exit::{Code, Failure, WithCode, fail};
use ethbcast_collectives::session::live::Content;
use ethbcast_content::source::{Exclusion, Opened, Opening, Owners, Selection, SourceError, Unpack, has_xattrs};
use std::path::{Path, PathBuf};

/// Opens SOURCE. A file that changes while it is read fails with an error, unless that is allowed.
///
/// # Errors
/// A [`Failure`]: 4 if it is missing or unreadable, 2 if it cannot be sent so.
pub fn open(args: &SendArgs) -> anyhow::Result<Opened> {
    let unpack = args.decompress.map(|by| match by {
        Decompress::Root => Unpack::Root,
        Decompress::Receivers => Unpack::Receivers,
    });
    let opening = Opening { allow_changing: args.allow_changing, unpack };
    // What is unpacked here is longer than what is announced.
    if args.size.is_some() && unpack == Some(Unpack::Root) {
        return fail(Code::Usage, "--size is that of what is sent, which is known when it is unpacked: leave it out");
    }
    let opened = match (&args.pipe, &args.source[..]) {
        (Some(command), _) => Opened::command(command, args.size, opening),
        (None, sources) if args.size.is_some() && sources.iter().any(|one| one != "-") => {
            return fail(Code::Usage, "--size is for stdin and --pipe: a file has a size of its own, leave it out");
        }
        (None, [one]) if one == "-" => Opened::stdin(args.size, opening),
        (None, [one]) if !Path::new(one).is_dir() => {
            check_kept(Path::new(one), &args.tree)?;
            Opened::file(Path::new(one), opening)
        }
        (None, several) if several.iter().any(|one| one == "-") => {
            let text = "stdin cannot be sent with other SOURCEs: send it alone, or give its file a name";
            return fail(Code::Usage, text);
        }
        (None, _) if unpack.is_some() => {
            return fail(Code::Usage, "--decompress is for one image: send the files of a directory as they are");
        }
        (None, trees) => {
            let trees: Vec<PathBuf> = trees.iter().map(PathBuf::from).collect();
            Opened::tree(&trees, &selection(&args.tree, args.allow_changing)?)
        }
    };
    Ok(opened.map_err(refused)?)
}

/// SOURCE under another name, if one is given.
///
/// # Errors
/// A [`Failure`] with code 2 if it is a directory's, or no name of a file.
pub fn named<'a>(content: Content<'a>, is_tree: bool, name: Option<&str>) -> anyhow::Result<Content<'a>> {
    let Some(name) = name else { return Ok(content) };
    if is_tree {
        return fail(Code::Usage, "--as is a name for one file: directories keep theirs, leave it out");
    }
    if name.is_empty() || name.contains('/') || name == "." || name == ".." {
        return fail(Code::Usage, format!("--as {name:?} is no name of a file: give one without a directory"));
    }
    Ok(content.named(name, name))
}

/// Fails if a single file has what its user wants to be sent, and only directories keep.
fn check_kept(file: &Path, args: &TreeArgs) -> anyhow::Result<()> {
    let lost = match () {
        () if !file.is_file() => return Ok(()),
        () if args.numeric => "its owner (--numeric)",
        () if args.owner => "its owner (--owner)",
        () if args.xattrs && has_xattrs(file) => "its extended attributes (--xattrs)",
        () => return Ok(()),
    };
    let text = format!(
        "{} would arrive without {lost}, which only what is in a directory keeps: send the directory it is in, others \
         left out with --exclude, or leave out the option",
        file.display()
    );
    fail(Code::Usage, text)
}

fn selection(args: &TreeArgs, allow_changing: bool) -> anyhow::Result<Selection> {
    let owners = match (args.numeric, args.owner) {
        (true, _) => Some(Owners::Numbers),
        (false, true) => Some(Owners::Names),
        (false, false) => None,
    };
    let exclusion = exclusion(args)?;
    Ok(Selection {
        exclusion,
        owners,
        xattrs: args.xattrs,
        devices: args.devices,
        allow_changing,
        ..Selection::default()
    })
}

fn refused(error: SourceError) -> Failure {
    Failure::new(if error.is_usage() { Code::Usage } else { Code::System }, error)
}

/// The patterns of the command line, and those of the files that it names before them.
fn exclusion(args: &TreeArgs) -> anyhow::Result<Exclusion> {
    let mut patterns = Vec::new();
    for path in &args.exclude_from {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::new(Code::System, format!("cannot read {}: {error}", path.display())))?;
        patterns.extend(text.lines().map(str::to_owned));
    }
    patterns.extend(args.exclude.iter().cloned());
    Exclusion::new(patterns.iter().map(String::as_str)).code(Code::Usage)
}
