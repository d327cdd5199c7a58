//! `ethbcast port --serve`: passes packet sockets to processes without the permission to open one.

use crate::args::PortArgs;
use crate::exit::{Code, Failure, WithCode, print_line};
use crate::signals::Interrupt;
use ethbcast_transport::packet::PortServer;
use nix::unistd::{Gid, chown};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

/// Number of clients that are served side by side.
const MAX_AT_A_TIME: usize = 64;

/// Runs the command until it is interrupted.
///
/// # Errors
/// If the socket's file exists, or the permission is missing.
pub fn run(args: &PortArgs) -> anyhow::Result<()> {
    let path = &args.serve;
    let (at, file) = (path.display(), path.clone());
    let interrupt = Interrupt::watch(false, move || {
        // The last action; clients wait in the kernel.
        drop(fs::remove_file(&file));
        print_line("ethbcast: no more ports are served");
        std::process::exit(0);
    });
    let interrupt = interrupt.code(Code::System)?;
    interrupt.begin_polling();
    let server = PortServer::bind(path, args.ether_type).map_err(|error| {
        Failure::new(
            Code::System,
            format!("cannot serve ports at {at}: {error}; remove what is left there, or name another place"),
        )
    })?;
    chown(path, None, args.gid.map(Gid::from_raw)).code(Code::System)?;
    fs::set_permissions(path, Permissions::from_mode(args.mode)).code(Code::System)?;
    print_line(format_args!("ethbcast: ports are served at {at}: give processes ETHBCAST_PORT={at}"));
    let all = Arc::new(());
    loop {
        let client = server.accept().code(Code::System)?;
        let own = Arc::clone(&all);
        let serve = move || {
            log::info!("{}", client.serve());
            drop(own);
        };
        // One that is slow does not delay the others, unless there are very many.
        if Arc::strong_count(&all) > MAX_AT_A_TIME {
            serve();
        } else {
            std::thread::Builder::new().name("port".to_owned()).spawn(serve).code(Code::System)?;
        }
    }
}
