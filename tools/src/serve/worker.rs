//! Thread of the daemon that takes the transfers of one group, one after the other.

use super::Served;
use super::registry::Registry;
use super::supervisor::{ServeEvent, ServeLog, Severity};
use crate::args::{RecvArgs, WireArgs};
use crate::exit::{Code, Failure, report};
use crate::recv::{Received, Reception};
use crate::session::{failure, may_pass, print_interface, watch};
use crate::signals::run_after;
use crate::{hosts, interface, progress, recv, session};
use ethbcast_collectives::census::{About, LastSession};
use ethbcast_collectives::keys::Keys;
use ethbcast_collectives::session::live::AdmissionHook;
use ethbcast_collectives::session::{Cancel, Progress, ReceiverEvent, RecvOptions, Session};
use ethbcast_content::dest::Dest;
use ethbcast_transport::MacAddr;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Delay before a retry after a transient error, such as a missing interface or an unwritable
/// directory.
const TRY_AGAIN: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Number of finished sessions that are remembered, because a sender's last invitations may arrive
/// late.
const MAX_HAD: usize = 8;

#[derive(Debug)]
pub struct Worker {
    served: Served,
    keys: Option<Arc<Keys>>,
    registry: Arc<Registry>,
    args: Mutex<Arc<RecvArgs>>,
    port_fd: Option<i32>,
    cancel: Cancel,
    is_last: AtomicBool,
    serve_log: ServeLog,
    dest: Mutex<Option<Arc<Dest>>>,
    is_in_loop: AtomicBool,
    turns: AtomicU64,
    /// Whether the wait of a sender for a free session has been logged.
    has_said_full: AtomicBool,
    last: Mutex<Option<(LastSession, Instant)>>,
}

impl Worker {
    pub fn new(
        served: Served,
        registry: Arc<Registry>,
        args: Arc<RecvArgs>,
        keys: Option<Arc<Keys>>,
        port_fd: Option<i32>,
        serve_log: ServeLog,
    ) -> Worker {
        Worker {
            served,
            keys,
            registry,
            args: Mutex::new(args),
            port_fd,
            cancel: Cancel::new(),
            is_last: AtomicBool::new(false),
            serve_log,
            dest: Mutex::new(None),
            is_in_loop: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            has_said_full: AtomicBool::new(false),
            last: Mutex::new(None),
        }
    }

    pub fn set_args(&self, args: Arc<RecvArgs>) {
        *self.args.lock() = args;
    }

    pub fn end(&self) {
        self.cancel.cancel_because("its server ends");
    }

    /// Ends the worker after the running session, or at once if there is none.
    pub fn end_after_session(&self) {
        self.is_last.store(true, Ordering::SeqCst);
        if !self.registry.is_in(&self.served.name) {
            self.end();
        }
    }

    pub fn turns(&self) -> Option<u64> {
        self.is_in_loop
            .load(Ordering::Relaxed)
            .then(|| self.turns.load(Ordering::Relaxed))
    }

    /// Runs one session after another. Returns the error if the worker ends by itself.
    pub fn run(self: &Arc<Worker>) -> anyhow::Result<()> {
        let (mut had, mut said) = (VecDeque::new(), String::new());
        while !self.is_ending() {
            let Some((mut session, mut options)) = self.open()? else {
                break;
            };
            self.registry
                .set_waker(&self.served.name, Some(Arc::clone(session.waker())));
            let _watcher = watch(&session, &mut options.run);
            let is_quiet = self.args.lock().wire.quiet;
            let _receiving = interface::mark_receiver(&session, &self.served.group);
            print_interface(session.interface(), is_quiet);
            self.serve_log
                .send(ServeEvent::Open(self.served.name.clone()));
            let served = self.serve(&mut session, &options, &mut had);
            self.registry.set_waker(&self.served.name, None);
            let Err(error) = served else { continue };
            let text = format!("{error:#}");
            // A lasting error is logged once.
            if said != text {
                self.log(Severity::Warning, &format!("{text}; it is tried again"));
            }
            said = text;
            self.pause();
        }
        Ok(())
    }

    fn is_ending(&self) -> bool {
        self.cancel.is_cancelled()
    }

    fn open(self: &Arc<Worker>) -> anyhow::Result<Option<(Session, RecvOptions)>> {
        let mut said = String::new();
        while !self.is_ending() {
            let args = self.args();
            let wire = WireArgs {
                over: self.served.over,
                ..args.wire.clone()
            };
            let mut options = RecvOptions {
                wire: session::wire(&wire),
                sender: args.from.clone().filter(|_| wire.over.is_unicast()),
                ..RecvOptions::new()
            };
            options.wire.keys.clone_from(&self.keys);
            args.patience.apply(&mut options.run);
            // The limit is the whole server's.
            options.run.time_limit = None;
            options.wire.port_fd = self.port_fd;
            options.run.cancel = self.cancel.clone();
            options.admission_hook = Some(Arc::<Worker>::clone(self));
            // Filled anew for each session; the port needs to know that it exists.
            options.about = Some(About::default());
            let worker = Arc::clone(self);
            options
                .run
                .on_progress(move |progress| worker.note_progress(&progress));
            match Session::open_receiver(&self.served.group, &options) {
                Ok(session) => return Ok(Some((session, options))),
                Err(error) if !may_pass(&error) => return Err(failure(error).into()),
                Err(error) => {
                    let text = error.to_string();
                    if text != said {
                        self.log(Severity::Warning, &format!("{text}; it is waited for"));
                        self.serve_log
                            .send(ServeEvent::Waits(self.served.name.clone()));
                        said = text;
                    }
                }
            }
            self.pause();
        }
        Ok(None)
    }

    fn serve(
        &self,
        session: &mut Session,
        options: &RecvOptions,
        had: &mut VecDeque<(MacAddr, u32)>,
    ) -> anyhow::Result<()> {
        while !self.is_ending() {
            let args = self.args();
            let dest = Arc::new(recv::dest(&args)?);
            *self.dest.lock() = Some(Arc::clone(&dest));
            let reception = Reception::prepare(session, Arc::clone(&dest), &args)?;
            let about = Some(About {
                last: self.last_session(),
                ..hosts::about(session.interface())
            });
            let session_limit = args.max_session_time.map(Duration::from_secs_f64);
            let options = RecvOptions {
                had: had.iter().copied().collect(),
                about,
                session_limit,
                ..options.clone()
            };
            self.is_in_loop.store(true, Ordering::SeqCst);
            let received = reception.run(session, &options);
            self.is_in_loop.store(false, Ordering::SeqCst);
            let received = received?;
            if let Some(asked) = received.asked {
                had.truncate(MAX_HAD - 1);
                had.push_front(asked);
                if received.was_dry_run {
                    self.log(
                        Severity::Info,
                        "a sender asked which data is missing here (--dry-run)",
                    );
                } else {
                    let left = recv::left_by(&dest, &received.landed);
                    *self.dest.lock() = None;
                    recv::read_again(dest);
                    self.conclude(&received, &args, &left);
                }
            }
            if self.is_last.load(Ordering::SeqCst) {
                self.end();
            }
        }
        Ok(())
    }

    fn conclude(&self, received: &Received, args: &RecvArgs, left: &str) {
        let checked = received.check(args, None, left);
        let why = checked.as_ref().err().map(|error| format!("{error:#}"));
        let said = if args.wire.json {
            let mut object = recv::to_json(&received.report, &received.landed);
            object["group"] = json!(self.served.group);
            object["error"] = json!(why);
            report(&object.to_string())
        } else if received.report.is_delivered() {
            report(&format!(
                "{}: {}",
                self.served.group,
                recv::line(&received.report, &received.landed)
            ))
        } else {
            Ok(())
        };
        if let Err(error) = said {
            self.log(Severity::Error, &error.to_string());
        }
        if let Some(why) = &why {
            self.log(
                Severity::Error,
                &format!("{} was not received: {why}", received.report.source),
            );
        }
        let source = received.report.source.clone();
        let last = LastSession {
            is_delivered: checked.is_ok(),
            source,
            seconds_ago: 0,
        };
        *self.last.lock() = Some((last, Instant::now()));
        self.serve_log.send(ServeEvent::Over {
            is_delivered: checked.is_ok(),
        });
        let command = args.exec.as_ref().filter(|_| checked.is_ok());
        let must_end = || {
            let text = "the command after it was ended: the server ends";
            self.is_ending()
                .then(|| Failure::new(Code::Terminated, text))
        };
        let environment = received.environment(&self.served.group);
        let ran = command.map_or(Ok(()), |command| run_after(command, environment, must_end));
        if let Err(error) = ran {
            self.log(Severity::Error, &format!("{error:#}"));
        }
    }

    fn note_progress(&self, progress: &Progress<'_>) {
        match progress {
            Progress::Receiver(ReceiverEvent::Invited {
                host, source, size, ..
            }) => {
                self.registry.note(&self.served.name, |running| {
                    (running.host, running.source, running.size) =
                        (host.clone(), source.clone(), *size);
                });
            }
            Progress::Moved { bytes, .. } => self
                .registry
                .note(&self.served.name, |running| running.bytes = *bytes),
            _ => {}
        }
        if let Some(text) = progress::line(progress) {
            self.log(Severity::Info, &text);
        }
    }

    fn log(&self, how: Severity, text: &str) {
        let is_quiet = self.args.lock().wire.quiet && how == Severity::Info;
        if !is_quiet {
            how.print(&format!("group {}: {text}", self.served.name));
        }
    }

    fn last_session(&self) -> Option<LastSession> {
        let last = self.last.lock().clone();
        last.map(|(last, ended)| LastSession {
            seconds_ago: ended.elapsed().as_secs() as u32,
            ..last
        })
    }

    fn args(&self) -> Arc<RecvArgs> {
        Arc::clone(&self.args.lock())
    }

    fn pause(&self) {
        let mut left = TRY_AGAIN;
        while !left.is_zero() && !self.is_ending() {
            sleep(POLL_INTERVAL);
            left = left.saturating_sub(POLL_INTERVAL);
        }
    }
}

impl AdmissionHook for Worker {
    fn admit(&self) -> bool {
        if self.is_last.load(Ordering::SeqCst) {
            return false;
        }
        match self.registry.enter(&self.served.name) {
            Ok(()) => {
                self.has_said_full.store(false, Ordering::Relaxed);
                true
            }
            Err(most) => {
                if !self.has_said_full.swap(true, Ordering::Relaxed) {
                    let text = format!(
                        "a sender invites, and waits: {most} sessions run, as --max-sessions allows"
                    );
                    self.log(Severity::Info, &text);
                }
                false
            }
        }
    }

    fn free_bytes(&self) -> u64 {
        self.dest
            .lock()
            .as_ref()
            .map_or(0, |dest| dest.unused_bytes())
    }

    fn most_bytes(&self) -> u64 {
        self.dest
            .lock()
            .as_ref()
            .map_or(0, |dest| dest.free_bytes())
    }

    fn dismiss(&self) {
        self.registry.leave(&self.served.name);
    }

    fn came_round(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }
}

pub fn lost(group: &str, error: &anyhow::Error) -> Failure {
    let known = error.downcast_ref::<Failure>();
    let (code, fault) = (
        known.map_or(Code::System, Failure::code),
        known.and_then(Failure::fault),
    );
    Failure::new(code, format!("group {group}: {error:#}")).found(fault)
}
