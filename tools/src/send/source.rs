//! Source of `ethbcast send` (SOURCE): a file, a device, stdin, a command's output, or directories.

use crate::args::{Decompress, SendArgs, TreeArgs};
use crate::config;
use crate::exit::{Code, Failure, WithCode, fail, print_line};
use ethbcast_collectives::membership::is_shown;
use ethbcast_collectives::session::live::Content;
use ethbcast_content::command::hides_failures;
use ethbcast_content::source::{
    Exclusion, Losses, Opened, Opening, Order, Owners, Selection, SourceError, Unpack, has_rights,
    has_xattrs,
};
use std::ffi::OsStr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait for receivers and for a fifo's writer without --max-wait.
const PATIENCE: Duration = Duration::from_secs(60);
pub const HIDDEN: &str = "neither sh nor bash here has the option pipefail: of a pipeline `a | b` only the failure of \
                          b is found";

/// Fails for options of directories where SOURCE is one file, or no file at all: they would do
/// nothing. --follow and --one-file-system hold for one file, too.
pub fn check_options(args: &SendArgs) -> anyhow::Result<()> {
    let (one, is_stream) = match (&args.pipe, &args.source[..]) {
        (Some(_), _) => ("the output of --pipe", true),
        (None, [one]) if one == "-" => ("stdin", true),
        (None, [one]) if !Path::new(one).is_dir() => ("one file", false),
        _ => return Ok(()),
    };
    let TreeArgs {
        exclude,
        exclude_from,
        order,
        owner,
        numeric,
        xattrs,
        devices,
        ..
    } = &args.tree;
    let useless = [
        ("--exclude", !exclude.is_empty()),
        ("--exclude-from", !exclude_from.is_empty()),
        ("--order", !order.is_empty()),
        ("--devices", *devices),
        ("--owner", is_stream && *owner),
        ("--numeric", is_stream && *numeric),
        ("--xattrs", is_stream && *xattrs),
    ];
    // Options of the configuration are meant for all that is sent.
    let is_typed = |(option, is_given): &(&str, bool)| *is_given && !config::is_configured(option);
    match useless.into_iter().find(is_typed) {
        Some((option, _)) => fail(
            Code::Usage,
            format!(
                "{option} is about the files in a directory, and SOURCE is {one}: leave it out, or send a directory"
            ),
        ),
        None => Ok(()),
    }
}

/// Opens SOURCE. A file that changes while it is read is an error, unless that is allowed.
pub fn open(args: &SendArgs) -> anyhow::Result<Opened> {
    let unpack = args.decompress.map(|by| match by {
        Decompress::Root => Unpack::Root,
        Decompress::Receivers => Unpack::Receivers,
    });
    let limits = [args.max_wait, args.patience.timeout].into_iter().flatten();
    let patience = Some(
        limits
            .reduce(f64::min)
            .map_or(PATIENCE, Duration::from_secs_f64),
    );
    let opening = Opening {
        allow_changing: args.allow_changing,
        unpack,
        patience,
    };
    // The decompressed size is not the announced one.
    if args.size.is_some() && unpack == Some(Unpack::Root) {
        return fail(
            Code::Usage,
            "--size is the length of the unpacked data, which is known only at the end: leave it out",
        );
    }
    let opened = match (&args.pipe, &args.source[..]) {
        (Some(command), _) => {
            if hides_failures(command) {
                print_line(format_args!("ethbcast: {HIDDEN}"));
            }
            Opened::command(command, args.size, opening)
        }
        (None, sources) if args.size.is_some() && sources.iter().any(|one| one != "-") => {
            return fail(
                Code::Usage,
                "--size is for stdin and --pipe: a file has a size of its own, leave it out",
            );
        }
        (None, [one]) if one == "-" => Opened::stdin(args.size, opening),
        (None, [one]) if !Path::new(one).is_dir() => {
            let path = Path::new(one);
            check_kept(path, &args.tree)?;
            check_name(path, args)?;
            if !args.tree.xattrs && has_rights(path) {
                warn(
                    args,
                    "SOURCE has capabilities or access lists (ACLs), which a single file is sent without",
                );
            }
            if path.metadata().is_ok_and(|one| one.file_type().is_fifo()) {
                warn(
                    args,
                    &format!(
                        "SOURCE {} is a fifo: waiting for a process that writes to it",
                        path.display()
                    ),
                );
            }
            Opened::file(path, opening)
        }
        (None, several) if several.iter().any(|one| one == "-") => {
            let text =
                "stdin cannot be sent with other SOURCEs: send it alone, or give its file a name";
            return fail(Code::Usage, text);
        }
        (None, _) if unpack.is_some() => {
            return fail(
                Code::Usage,
                "--decompress is for one image: send the files of a directory as they are",
            );
        }
        (None, trees) => {
            let trees: Vec<PathBuf> = trees.iter().map(PathBuf::from).collect();
            Opened::tree(&trees, &selection(&args.tree, args.allow_changing)?)
        }
    };
    let opened = opened.map_err(refused)?;
    opened
        .tree
        .iter()
        .flat_map(|tree| words(tree.losses(), args.tree.follow))
        .for_each(|text| warn(args, &text));
    Ok(opened)
}

fn warn(args: &SendArgs, text: &str) {
    if !args.wire.quiet {
        print_line(format_args!("ethbcast: {text}"));
    }
}

fn words(losses: &Losses, follows: bool) -> Vec<String> {
    let counted = |count: usize, one: &str, several: &str| {
        if count == 1 {
            format!("1 {one}")
        } else {
            format!("{count} {several}")
        }
    };
    let mut words = Vec::new();
    let links = &losses.links_out;
    if let Some((at, target)) = &links.first {
        let count = counted(
            links.count,
            "link leads out of SOURCE and is sent as it is",
            "links lead out of SOURCE and are sent as they are",
        );
        let help = if follows {
            "what they lead to is not there"
        } else {
            "--follow sends what they lead to"
        };
        words.push(format!(
            "{count}, the first is {} -> {}: {help}",
            at.display(),
            target.display()
        ));
    }
    let rights = &losses.unsent_rights;
    if let Some(at) = &rights.first {
        let count = counted(
            rights.count,
            "file or directory has",
            "files or directories have",
        );
        let help = "which are sent with --xattrs alone";
        words.push(format!(
            "{count} capabilities or access lists (ACLs), {help}; the first is {}",
            at.display()
        ));
    }
    words
}

/// Fails if a single file's name would be changed at the receiver.
fn check_name(file: &Path, args: &SendArgs) -> anyhow::Result<()> {
    let is_plain = |name: &OsStr| name.to_str().is_some_and(|name| name.chars().all(is_shown));
    if args.name.is_some() || file.file_name().is_none_or(is_plain) {
        return Ok(());
    }
    let text = format!(
        "the name {:?} has control characters, or some that turn its direction, or is no UTF-8, and a single file's \
         cannot arrive so: give it another with --as NAME, or send the directory it is in",
        file.file_name().unwrap_or_default()
    );
    fail(Code::Usage, text)
}

pub fn named<'a>(
    content: Content<'a>,
    is_tree: bool,
    name: Option<&str>,
) -> anyhow::Result<Content<'a>> {
    let Some(name) = name else { return Ok(content) };
    if is_tree {
        return fail(
            Code::Usage,
            "--as is a name for one file: directories keep theirs, leave it out",
        );
    }
    if name.is_empty()
        || name.contains('/')
        || name == "."
        || name == ".."
        || !name.chars().all(is_shown)
    {
        return fail(
            Code::Usage,
            format!("--as {name:?} is no name of a file: give one without a directory"),
        );
    }
    Ok(content.named(name, name))
}

/// Fails if a single file has attributes that the user wants to send and only directories keep.
fn check_kept(file: &Path, args: &TreeArgs) -> anyhow::Result<()> {
    let lost = match () {
        () if !file.is_file() => return Ok(()),
        () if args.numeric => "its owner (--numeric)",
        () if args.owner => "its owner (--owner)",
        () if args.xattrs && has_xattrs(file) => "its extended attributes (--xattrs)",
        () => return Ok(()),
    };
    let text = format!(
        "{} would arrive without {lost}, which only files in a directory keep: send its directory, with --exclude for \
         the other files, or leave out the option",
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
        order: Order::new(args.order.iter().map(String::as_str)).code(Code::Usage)?,
        owners,
        xattrs: args.xattrs,
        devices: args.devices,
        one_file_system: args.one_file_system,
        follow: args.follow,
        allow_changing,
    })
}

fn refused(error: SourceError) -> Failure {
    Failure::new(
        if error.is_usage() {
            Code::Usage
        } else {
            Code::System
        },
        error,
    )
}

/// Returns the patterns of the command line, preceded by those of the files that it names.
fn exclusion(args: &TreeArgs) -> anyhow::Result<Exclusion> {
    let mut patterns = Vec::new();
    for path in &args.exclude_from {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::new(
                Code::System,
                format!("cannot read {}: {error}", path.display()),
            )
        })?;
        patterns.extend(text.lines().map(str::to_owned));
    }
    patterns.extend(args.exclude.iter().cloned());
    Exclusion::new(patterns.iter().map(String::as_str)).code(Code::Usage)
}
