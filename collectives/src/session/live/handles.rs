//! Handles by which other threads control a running transfer: cancel, start now, limit the rate,
//! admit receivers. A transfer's time limits and its prepared abort notification are here too.

use crate::session::application::{Receiving, Sink};
use crate::session::message::Outcome;
use crate::session::receiver::{Admission, Receiver};
use crate::session::root::{Root, RootEvent};
use crate::session::throttle::Rate;
use crate::session::verified::Offered;
use crate::session::view::View;
use ethbcast_transport::lock::Mutex;
use ethbcast_transport::packet::{
    DriveError, Interface, LaneTerms, Over, Recipients, Waker, address_of, stand_in,
};
use ethbcast_transport::{Deadline, Instant, MacAddr, Machine, Policy, Timer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug};
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// Handle that ends sessions from any thread; clones end the same sessions.
///
/// A handle is passed in [`RunOptions::cancel`](super::RunOptions), and may be used before the
/// session starts. The other hosts are notified. A reader or writer that blocks is waited for.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    shared: Arc<CancelState>,
}

#[derive(Debug, Default)]
struct CancelState {
    reason: OnceLock<String>,
    /// Handle that ends these sessions too.
    parent: Option<Cancel>,
    loops: Loops,
}

#[derive(Debug, Default)]
pub(super) struct Loops(Mutex<Vec<Weak<Waker>>>);

impl Loops {
    pub(super) fn wake(&self) {
        self.0
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .for_each(|waker| waker.wake());
    }

    pub(super) fn watch(&self, waker: &Arc<Waker>) {
        let mut wakers = self.0.lock();
        wakers.retain(|waker| waker.strong_count() > 0);
        wakers.push(Arc::downgrade(waker));
    }
}

impl Cancel {
    /// Creates a handle for sessions that are still to be started.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Creates a handle for further sessions, which this one ends too.
    pub(super) fn child(&self) -> Cancel {
        let state = CancelState {
            parent: Some(self.clone()),
            ..CancelState::default()
        };
        Cancel {
            shared: Arc::new(state),
        }
    }

    /// Ends the sessions soon.
    pub fn cancel(&self) {
        self.cancel_because("the sender gave up: cancelled by its user");
    }

    /// Ends the sessions soon; a sender sends `reason` to its receivers.
    pub fn cancel_because(&self, reason: &str) {
        self.shared.reason.get_or_init(|| reason.to_owned());
        self.shared.loops.wake();
    }

    /// Whether the handle was used.
    pub fn is_cancelled(&self) -> bool {
        self.reason().is_some()
    }

    pub(super) fn reason(&self) -> Option<&str> {
        let own = self.shared.reason.get().map(String::as_str);
        own.or_else(|| self.shared.parent.as_ref()?.reason())
    }

    pub(super) fn watch(&self, waker: &Arc<Waker>) {
        self.shared.loops.watch(waker);
        self.shared
            .parent
            .iter()
            .for_each(|parent| parent.watch(waker));
    }
}

/// Handle that starts a sender from any thread with the receivers present; see
/// [`SendOptions::start`](super::SendOptions).
#[derive(Clone, Debug, Default)]
pub struct Start {
    wait: Cancel,
}

impl Start {
    /// Creates a handle for sessions that are still to be started.
    pub fn new() -> Start {
        Start::default()
    }

    /// Starts with the receivers present, or with the first that comes.
    pub fn now(&self) {
        self.wait.cancel();
    }

    pub(super) fn is_now(&self) -> bool {
        self.wait.is_cancelled()
    }

    pub(super) fn watch(&self, waker: &Arc<Waker>) {
        self.wait.watch(waker);
    }
}

/// Rate limit of each host of the sessions sent with it: the sender, and each relay. Clones are the
/// same limit, which can be [set](RateLimit::set) from any thread.
///
/// Every frame counts with its Ethernet header, as interfaces count them. Within any second a host
/// stays within 1 % of the limit plus one frame.
#[derive(Clone, Debug)]
pub struct RateLimit {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    rate: Mutex<Rate>,
    loops: Loops,
}

impl RateLimit {
    /// Creates a limit for sessions that are still to be started.
    pub fn new(rate: Rate) -> RateLimit {
        RateLimit {
            shared: Arc::new(Shared {
                rate: Mutex::new(rate),
                loops: Loops::default(),
            }),
        }
    }

    /// Returns the present limit.
    pub fn rate(&self) -> Rate {
        *self.shared.rate.lock()
    }

    /// Sets another limit, which applies at the sender at once, and at receivers a moment later.
    pub fn set(&self, rate: Rate) {
        *self.shared.rate.lock() = rate;
        self.shared.loops.wake();
    }

    pub(super) fn watch(&self, waker: &Arc<Waker>) {
        self.shared.loops.watch(waker);
    }

    pub(super) fn apply(&self, root: &mut Root, now: Instant) {
        root.set_rate(now, self.rate());
    }
}

pub(super) const TIMED_OUT: &str = "the sender gave up: the session exceeded its time limit";

pub(super) const ROOT_ENDED: &str =
    "the sender's process has ended; start it and this receiver again";
pub(super) const RECEIVER_ENDED: &str = "its process has ended";

/// Callback that gets a frame for another process that outlives this one. That process must send
/// the frame if this one ends without notice; `None` means that it need not any more.
///
/// Peers wait for a silent host; the notification saves them that time.
#[derive(Clone)]
pub struct AbortNotice(Arc<AbortCallback>);

type AbortCallback = dyn Fn(Option<&[u8]>) + Send + Sync;

impl AbortNotice {
    /// Creates a notice that calls `tell` from the session's thread; `tell` must not block.
    pub fn new(tell: impl Fn(Option<&[u8]>) + Send + Sync + 'static) -> AbortNotice {
        AbortNotice(Arc::new(tell))
    }
}

impl fmt::Debug for AbortNotice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LastWords")
    }
}

#[derive(Debug)]
pub(super) struct AbortNotifier {
    abort_notice: Option<AbortNotice>,
    told: Option<Vec<u8>>,
}

impl AbortNotifier {
    pub(super) fn new(abort_notice: Option<AbortNotice>) -> AbortNotifier {
        AbortNotifier {
            abort_notice,
            told: None,
        }
    }

    /// Withdraws the frame, or replaces it if this host's own interface has ended the session.
    /// Returns the thread's result.
    pub(super) fn finish<T>(
        &mut self,
        driven: Result<T, DriveError>,
        why: impl FnOnce(&DriveError) -> Option<Vec<u8>>,
    ) -> Result<T, DriveError> {
        self.update(|| driven.as_ref().err().and_then(why));
        driven
    }

    pub(super) fn update(&mut self, frame: impl FnOnce() -> Option<Vec<u8>>) {
        let Some(AbortNotice(tell)) = &self.abort_notice else {
            return;
        };
        let frame = frame();
        if frame != self.told {
            tell(frame.as_deref());
            self.told = frame;
        }
    }
}

/// Admission hook for the receivers of a host that serves several groups. The session's thread
/// calls it, so it must not block. When its answer changes, the session's loop must be woken.
pub trait AdmissionHook: Debug + Send + Sync {
    /// Whether this host may join now. Called when a sender announces a session, and again in each
    /// turn of the loop until it is true.
    fn admit(&self) -> bool;

    /// Whether the wait for this hook does not count towards the longest wait for a sender.
    fn may_take_long(&self) -> bool {
        false
    }

    /// Returns the free space for any content, in bytes.
    fn free_bytes(&self) -> u64;

    /// Returns the maximum space for the content that is announced, in bytes: some of it may be
    /// here.
    fn most_bytes(&self) -> u64 {
        self.free_bytes()
    }

    /// Ends the admission: the session is over, or did not start.
    fn dismiss(&self);

    /// Called once in each turn of the loop.
    fn came_round(&self) {}

    /// Learns what a root offers, with its address and name, before the hook is asked whether this
    /// host may join.
    fn note_offer(&self, _root: MacAddr, _host: &str, _offered: Offered) {}

    /// Returns the reason why this host can no longer take part, once there is one.
    fn failure(&self) -> Option<(Outcome, String)> {
        None
    }

    /// Returns the number of hosts of another network that have got the content from this one, and
    /// their names and outcomes, once that is known.
    fn take_behind(&self) -> Option<(usize, Vec<(String, Outcome)>)> {
        None
    }
}

/// Hold on the start of a session. The session's thread calls it, so it must not block. When it is
/// released, the session's loop must be woken.
pub trait StartHold: Debug + Send + Sync {
    /// Learns that enough receivers are there; called in each turn of the loop until the start.
    fn note_ready(&self);

    /// Whether the session may start.
    fn is_released(&self) -> bool;
}

#[derive(Debug)]
pub(super) struct HookedAdmission<'a> {
    admission_hook: Option<&'a Arc<dyn AdmissionHook>>,
    is_in: bool,
}

impl<'a> HookedAdmission<'a> {
    pub(super) fn new(admission_hook: Option<&'a Arc<dyn AdmissionHook>>) -> HookedAdmission<'a> {
        HookedAdmission {
            admission_hook,
            is_in: false,
        }
    }

    /// Asks the hook if the receiver waits for permission, and ends an admission that is no longer
    /// used.
    pub(super) fn turn(&mut self, receiver: &mut Receiver, now: Instant) {
        let Some(admission_hook) = self.admission_hook else {
            return;
        };
        admission_hook.came_round();
        if receiver.has_census_query() {
            receiver.set_free_bytes(admission_hook.free_bytes());
        }
        match receiver.admission() {
            Admission::Wanted => {
                for (root, host, offered) in receiver.offers(now) {
                    admission_hook.note_offer(root, host, offered);
                }
                if admission_hook.admit() {
                    self.is_in = true;
                    receiver.set_free_bytes(admission_hook.most_bytes());
                    receiver.admit(now);
                }
            }
            Admission::None => self.leave(),
            Admission::Given => {}
        }
    }

    /// Ends a session that has started and for which the hook knows a failure.
    pub(super) fn end_failed<K: Sink>(
        &self,
        receiving: &mut Receiving<K>,
        receiver: &Receiver,
        now: Instant,
    ) {
        let is_open = receiver.view().is_some() && receiving.verdict().is_none();
        let failure = self
            .admission_hook
            .filter(|_| is_open)
            .and_then(|hook| hook.failure());
        if let Some((outcome, text)) = failure {
            receiving.decline(now, outcome, text);
        }
    }

    /// Passes on the hosts behind this one, after the verdict is known and before it is sent.
    pub(super) fn report_behind(&self, receiver: &mut Receiver) {
        if let Some((hosts, named)) = self.admission_hook.and_then(|hook| hook.take_behind()) {
            receiver.set_behind(hosts, named);
        }
    }

    fn leave(&mut self) {
        if std::mem::take(&mut self.is_in) {
            self.admission_hook
                .iter()
                .for_each(|admission_hook| admission_hook.dismiss());
        }
    }
}

impl Drop for HookedAdmission<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Receivers that have asked for a session, whose sender did not know them: they get what is for
/// all from then on. The port knows the address of IPv6 for which one of these stands.
pub(super) struct Callers(Option<(Recipients, BTreeSet<IpAddr>)>);

impl Callers {
    pub(super) fn of(recipients: Option<Recipients>) -> Callers {
        Callers(recipients.map(|recipients| (recipients, BTreeSet::new())))
    }

    pub(super) fn root_event(&mut self, event: &RootEvent) {
        let Some((recipients, callers)) = &mut self.0 else {
            return;
        };
        match event {
            RootEvent::Joined { mac, .. } => {
                callers.extend(address_of(*mac).map(|address| IpAddr::V4(*address.ip())));
            }
            RootEvent::Left { mac, .. } => {
                if let Some(address) = address_of(*mac) {
                    callers.remove(&IpAddr::V4(*address.ip()));
                }
            }
            _ => return,
        }
        *recipients.lock() = Some(callers.iter().copied().collect());
    }
}

/// Tells a port of two interfaces who hears what is for all.
pub(super) fn tell_lanes(lanes: Option<&Mutex<Option<LaneTerms>>>, view: Option<&View>) {
    let (Some(lanes), Some(view)) = (lanes, view) else {
        return;
    };
    let in_place = view.ranks().map(|rank| view.members[rank.index()].mac);
    *lanes.lock() = Some(LaneTerms {
        members: Some(in_place.collect()),
        in_order: view.policy == Policy::InOrderOnly,
    });
}

/// Bits of a network's prefix where the interface's says that each host is alone.
const USUAL_PREFIX_BITS: u8 = 24;

/// Returns the prefix of this host's network, in bits, if frames leave it through a router. What
/// stands for addresses of IPv6 has none.
pub(super) fn routed(interface: &Interface, over: Over) -> Option<u8> {
    let is_ipv6 = interface.ip().is_some_and(|ip| ip.is_ipv6());
    let bits = || match is_ipv6 {
        true => 32,
        false => interface.prefix_bits().unwrap_or(USUAL_PREFIX_BITS),
    };
    over.is_unicast().then(bits)
}

/// Bits of a network's prefix where the interface's says that each host is alone.
const USUAL_IPV6_PREFIX_BITS: u8 = 64;

/// Returns the numbers of the networks of this host and its peers, if these are of IPv6 and nothing
/// is sent to groups, by what stands for each.
pub(super) fn networks(
    interface: &Interface,
    over: Over,
    peers: impl Iterator<Item = IpAddr>,
) -> BTreeMap<u32, u32> {
    if !over.is_unicast() {
        return BTreeMap::new();
    }
    let bits = interface.prefix_bits().unwrap_or(USUAL_IPV6_PREFIX_BITS);
    let of_ipv6 = peers.chain(interface.ip()).filter_map(|ip| match ip {
        IpAddr::V4(_) => None,
        IpAddr::V6(of) => Some((stand_in(ip).to_bits(), of.to_bits())),
    });
    let mut prefixes = BTreeMap::new();
    of_ipv6
        .map(|(stands_for, address)| {
            let prefix = address >> (128 - u32::from(bits));
            let next = prefixes.len() as u32;
            (stands_for, *prefixes.entry(prefix).or_insert(next))
        })
        .collect()
}

#[test]
fn hosts_of_ipv6_are_numbered_by_their_networks_where_frames_pass_routers() {
    use ethbcast_transport::packet::mac_of;
    use std::net::SocketAddrV4;

    let ips = ["::1", "fd00:1::1", "fd00:1::2", "fd00:2::1"];
    let ips: Vec<IpAddr> = ips
        .iter()
        .map(|ip| ip.parse().expect("an address"))
        .collect();
    let interface = Interface {
        name: "lo".to_owned(),
        index: 1,
        mac: mac_of(SocketAddrV4::new(stand_in(ips[0]), 50_000)).expect("a port of the range"),
        mtu_bytes: 1452,
    };
    let over = |text: &str| text.parse().expect("a carrier");
    let peers = || ips[1..].iter().copied();
    let numbers = networks(&interface, over("unicast"), peers());
    let of = |at: usize| numbers[&stand_in(ips[at]).to_bits()];
    assert_eq!(of(1), of(2));
    assert!(of(1) != of(3) && of(0) != of(1) && of(0) != of(3));
    assert!(networks(&interface, over("udp"), peers()).is_empty());
    let of_ipv4 = [IpAddr::from([10, 0, 0, 1])].into_iter();
    assert_eq!(networks(&interface, over("unicast"), of_ipv4).len(), 1);
}

#[cfg(test)]
mod abort_notice_tests {
    use super::*;
    use ethbcast_transport::lock::Mutex;

    #[test]
    fn only_what_is_new_is_told_and_nobody_is_asked_if_nobody_listens() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&heard);
        let mut abort_notifier = AbortNotifier::new(Some(AbortNotice::new(move |frame| {
            list.lock().push(frame.map(<[u8]>::to_vec))
        })));
        for frame in [
            None,
            Some(vec![1]),
            Some(vec![1]),
            Some(vec![2]),
            None,
            None,
        ] {
            abort_notifier.update(|| frame);
        }
        assert_eq!(*heard.lock(), [Some(vec![1]), Some(vec![2]), None]);
        AbortNotifier::new(None).update(|| panic!("nobody listens"));
    }
}

#[derive(Debug)]
pub(super) struct Limited<M> {
    machine: M,
    until: Option<Instant>,
    session_until: Option<Instant>,
    look_at: Option<Instant>,
}

impl<M> Limited<M> {
    pub(super) fn new(machine: M, began: Instant, limit: Option<Duration>) -> Limited<M> {
        Limited {
            machine,
            until: limit.map(|limit| began + limit),
            session_until: None,
            look_at: None,
        }
    }

    pub(super) fn look_at(&mut self, at: Option<Instant>) {
        self.look_at = at;
    }

    pub(super) fn limit_session(&mut self, until: Option<Instant>) {
        self.session_until = until;
    }

    /// Whether the session's limit has passed; true only once.
    pub(super) fn take_session_over(&mut self, now: Instant) -> bool {
        self.session_until.take_if(|until| *until <= now).is_some()
    }

    /// Whether the run's limit has passed; true only once.
    pub(super) fn take_over(&mut self, now: Instant) -> bool {
        self.until.take_if(|until| *until <= now).is_some()
    }

    pub(super) fn into_inner(self) -> M {
        self.machine
    }
}

impl<M> Deref for Limited<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.machine
    }
}

impl<M> DerefMut for Limited<M> {
    fn deref_mut(&mut self) -> &mut M {
        &mut self.machine
    }
}

impl<M: Machine> Machine for Limited<M> {
    ethbcast_transport::forward!(self => self.machine; handle_frame, handle_timeout, poll_transmit);
    ethbcast_transport::forward!(self => self.machine; poll_transmit_split, payload, is_urgent);

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let limit = self
            .until
            .into_iter()
            .chain(self.session_until)
            .chain(self.look_at)
            .min();
        let limit = limit.map(|at| Deadline {
            at,
            why: Timer("limit"),
        });
        self.machine
            .poll_timeout(now)
            .into_iter()
            .chain(limit)
            .min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_stays_and_loops_that_have_ended_are_forgotten() {
        let cancel = Cancel::new();
        for _ in 0..3 {
            cancel.watch(&Arc::new(Waker::new().expect("a descriptor")));
        }
        assert_eq!(cancel.shared.loops.0.lock().len(), 1);
        let clone = cancel.clone();
        std::thread::spawn(move || clone.cancel_because("enough"))
            .join()
            .expect("a thread");
        cancel.cancel();
        assert_eq!(
            (cancel.is_cancelled(), cancel.reason()),
            (true, Some("enough"))
        );
    }
}
