//! SOURCE: a file, a device, stdin, a directory, or several.

use crate::args::{SendArgs, TreeArgs};
use crate::exit::{Code, Failure, WithCode, fail};
use ethbcast_collectives::session::live::{ReadAt, RestOfFile};
use ethbcast_collectives::session::{ContentKind, FileAttributes};
use ethbcast_content::command::CommandOutput;
use ethbcast_content::source::{Exclusion, Owners, Selection, SourceError, Tree};
use ethbcast_content::unchanged::{Unchanged, WholeFile};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// SOURCE, opened.
pub struct Input {
    /// Its bytes.
    pub reader: Box<dyn Read + Send>,
    /// The same bytes at any position, if it has positions.
    pub rest: io::Result<Box<dyn ReadAt>>,
    /// What errors call it.
    pub what: String,
    /// Its own name, for receivers that were given a directory.
    pub name: String,
    /// Its size, if known in advance.
    pub size: Option<u64>,
    /// What its bytes are.
    pub content: ContentKind,
    /// The directory, if it is one.
    pub tree: Option<Tree>,
}

impl Input {
    /// Opens SOURCE. A file that changes while it is read fails with an error, unless that is allowed.
    ///
    /// # Errors
    /// A [`Failure`]: 4 if it is missing or unreadable, 2 if it cannot be sent so.
    pub fn open(args: &SendArgs) -> anyhow::Result<Input> {
        if let Some(command) = &args.pipe {
            return Input::command(command, args.size);
        }
        if args.size.is_some() && args.source.iter().any(|one| one != "-") {
            return fail(Code::Usage, "--size is for stdin and --pipe: a file has a size of its own, leave it out");
        }
        match &args.source[..] {
            [one] if one == "-" => Input::stdin(args.size),
            [one] if !Path::new(one).is_dir() => Input::file(one, args.allow_changing),
            several if several.iter().any(|one| one == "-") => {
                fail(Code::Usage, "stdin cannot be sent with other SOURCEs: send it alone, or give its file a name")
            }
            trees => Input::tree(trees.iter().map(PathBuf::from).collect(), &args.tree, args.allow_changing),
        }
    }

    fn stdin(size: Option<u64>) -> anyhow::Result<Input> {
        let what = "SOURCE -".to_owned();
        // Not through the standard library's buffer, so that the position is the true one where there is one.
        let file = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(|error| unreadable(&what, error))?);
        let (rest, content) = (boxed(RestOfFile::of(&file)), ContentKind::Stream);
        Ok(Input { reader: Box::new(file), rest, what, name: "stdin".to_owned(), size, content, tree: None })
    }

    fn command(command: &str, size: Option<u64>) -> anyhow::Result<Input> {
        let what = format!("the output of `{command}`");
        let output = CommandOutput::start(command).map_err(|error| unreadable(&what, error))?;
        let name = "stdout".to_owned();
        let (rest, content) = (Err(io::ErrorKind::Unsupported.into()), ContentKind::Stream);
        Ok(Input { reader: Box::new(output), rest, what, name, size, content, tree: None })
    }

    fn file(source: &OsStr, allow_changing: bool) -> anyhow::Result<Input> {
        let path = Path::new(source);
        let what = format!("SOURCE {}", path.display());
        let file = File::open(path).map_err(|error| unreadable(&what, error))?;
        let metadata = file.metadata().map_err(|error| unreadable(&what, error))?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let rest = boxed(RestOfFile::of(&file));
        // A device or a pipe says 0, and its times say nothing of its content.
        let size = metadata.is_file().then_some(metadata.len());
        let content = size.map_or(ContentKind::Stream, |_| ContentKind::File(attributes(&metadata)));
        let reader: Box<dyn Read + Send> = match size {
            Some(size) if allow_changing => Box::new(file.take(size)),
            Some(_) => Box::new(WholeFile::new(file, Unchanged::new(path, &metadata))),
            None => Box::new(file),
        };
        Ok(Input { reader, rest, what, name, size, content, tree: None })
    }

    fn tree(sources: Vec<PathBuf>, args: &TreeArgs, allow_changing: bool) -> anyhow::Result<Input> {
        let owners = match (args.numeric, args.owner) {
            (true, _) => Some(Owners::Numbers),
            (false, true) => Some(Owners::Names),
            (false, false) => None,
        };
        let exclusion = exclusion(args)?;
        let selection = Selection { exclusion, owners, xattrs: args.xattrs, devices: args.devices, allow_changing };
        let tree = Tree::list(&sources, &selection).map_err(refused)?;
        let names: Vec<String> = sources.iter().map(|source| source.display().to_string()).collect();
        let what = format!("SOURCE {}", names.join(" "));
        log::info!("{what}: {} entries, {} bytes", tree.entries(), tree.bytes());
        let name = Some(tree.name()).filter(|name| !name.is_empty()).unwrap_or_else(|| "files".to_owned());
        Ok(Input {
            reader: Box::new(tree.reader()),
            rest: Ok(Box::new(tree.again())),
            what,
            name,
            size: Some(tree.bytes()),
            content: ContentKind::Tree,
            tree: Some(tree),
        })
    }
}

fn refused(error: SourceError) -> Failure {
    Failure::new(if error.is_usage() { Code::Usage } else { Code::System }, error)
}

fn unreadable(what: &str, error: io::Error) -> Failure {
    Failure::new(Code::System, format!("cannot read {what}: {error}"))
}

fn boxed(rest: io::Result<RestOfFile>) -> io::Result<Box<dyn ReadAt>> {
    rest.map(|rest| Box::new(rest) as Box<dyn ReadAt>)
}

/// What a file keeps at the receivers.
fn attributes(file: &Metadata) -> FileAttributes {
    FileAttributes {
        mode: (file.mode() & 0o7777) as u16,
        modified_seconds: file.mtime(),
        modified_nanoseconds: file.mtime_nsec() as u32,
    }
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
