//! The arguments of `ethbcast doctor` and `ethbcast explain`.

use super::WireArgs;
use crate::doctor::Fault;
use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::error::{Error, ErrorKind};
use clap::{Arg, Args, Command};
use std::ffi::OsStr;
use std::path::PathBuf;

/// `ethbcast doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Options that all commands on the network share.
    #[command(flatten)]
    pub wire: WireArgs,
    /// Check a destination: whether it exists, is writable, has room and is fast. 16 MiB are written to an unnamed
    /// file.
    #[arg(long, value_name = "PATH")]
    pub dest: Option<PathBuf>,
    /// With --dest, room that is needed, such as 40G. Default: 64M.
    #[arg(long, value_name = "BYTES", requires = "dest", value_parser = ethbcast_planning::parse_size)]
    pub size: Option<u64>,
    /// Also measure the path to these hosts, which run `ethbcast probe --answer`. Without a name, all that answer.
    #[arg(long, value_name = "HOST", num_args = 0..)]
    pub peer: Option<Vec<String>>,
    /// Run the fixes that are safe (switch an interface on, create a directory), and check again.
    #[arg(long)]
    pub fix: bool,
}

/// `ethbcast explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Code of a message, such as E-MTU. Without it, all codes are listed.
    #[arg(value_name = "CODE", ignore_case = true, hide_possible_values = true, value_parser = CodeParser)]
    pub code: Option<Fault>,
}

/// Parser of a code. The possible values are for completions; a mistake does not list all of them.
#[derive(Clone, Debug)]
struct CodeParser;

impl TypedValueParser for CodeParser {
    type Value = Fault;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Fault, Error> {
        EnumValueParser::<Fault>::new().parse_ref(command, arg, value).map_err(|_| {
            let text = format!("there is no code {}: `ethbcast explain` lists them\n", value.display());
            Error::raw(ErrorKind::ValueValidation, text).with_cmd(command)
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        EnumValueParser::<Fault>::new()
            .possible_values()
            .map(|values| Box::new(values.collect::<Vec<_>>().into_iter()) as _)
    }
}
