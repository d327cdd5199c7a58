//! Test helper: runs messages between simulated hosts, checks contents and order, and returns the
//! cost in frames.

use crate::guard::guard;
use crate::key;
use ethbcast_transport::messages::{
    Completion, Mailbox, MailboxStats, RecvId, RecvOutcome, SendId, SendOutcome, Settings,
};
use ethbcast_transport::sim::{
    Cable, Faults, HostSettings, Network, Outcome, Simulation, host_mac,
};
use ethbcast_transport::wire::{EtherType, Identity, Peer, Rank, StreamId};
use ethbcast_transport::{Alone, Instant, Machine};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub from: u16,
    pub to: u16,
    pub tag: u32,
    pub length: usize,
    pub received_at: Option<Duration>,
    pub max_bytes: usize,
    pub sent_at: Duration,
    pub patience: Option<Duration>,
}

impl Message {
    pub fn new(from: u16, to: u16, tag: u32, length: usize, received_at: Duration) -> Message {
        let received_at = Some(received_at);
        Message {
            from,
            to,
            tag,
            length,
            received_at,
            max_bytes: length,
            sent_at: Duration::ZERO,
            patience: None,
        }
    }
}

#[derive(Debug)]
pub struct Price {
    pub quiesced_at: Duration,
    pub frames: u64,
    pub totals: MailboxStats,
    pub sends: BTreeMap<usize, SendOutcome>,
    pub receives: BTreeMap<usize, RecvOutcome>,
}

pub fn mailbox(
    rank: u16,
    hosts: usize,
    payload_bytes: usize,
    settings: &Settings,
) -> Alone<Mailbox> {
    let peers: Vec<Peer> = (0..hosts)
        .map(|host| Peer {
            rank: Rank(host as u16),
            mac: host_mac(host),
        })
        .collect();
    let identity = Identity {
        session: 77,
        stream: StreamId(0),
        rank: Rank(rank),
        mac: host_mac(rank.into()),
        ether_type: EtherType::DEFAULT,
        guard: guard(),
    };
    key::alone(Mailbox::new(
        identity,
        &peers,
        payload_bytes,
        settings.clone(),
    ))
}

pub fn content(number: usize, length: usize) -> Vec<u8> {
    let row: [u8; 256] = std::array::from_fn(|at| (at * 7) as u8);
    let rows = (0..length.div_ceil(row.len())).map(|block| (block + number * 31) as u8);
    let mut content: Vec<u8> = rows
        .flat_map(|first| row.map(|byte| byte.wrapping_add(first)))
        .collect();
    content.truncate(length);
    content
}

#[derive(Default)]
struct Application {
    /// Numbers of the messages to send and to receive, in order of time, last first.
    to_send: Vec<usize>,
    to_receive: Vec<usize>,
    sending: BTreeMap<SendId, usize>,
    receiving: BTreeMap<RecvId, usize>,
}

pub fn network(hosts: usize) -> Network {
    let network = Network::star(hosts, Cable::GIGABIT, &HostSettings::default());
    network.with_mtu_bytes(guard().header_bytes() + 1468)
}

pub fn play(
    hosts: usize,
    settings: &Settings,
    messages: &[Message],
    faults: impl Faults,
    replay: &str,
) -> Price {
    let network = network(hosts);
    let machines = (0..hosts)
        .map(|host| mailbox(host as u16, hosts, 1468, settings))
        .collect();
    let mut simulation: Simulation<Alone<Mailbox>, _> = Simulation::new(&network, machines, faults);
    simulation.set_event_limit(5_000_000);
    let mut applications: Vec<Application> = (0..hosts)
        .map(|host| Application::of(host, messages))
        .collect();
    let (mut sends, mut receives) = (BTreeMap::new(), BTreeMap::new());
    let mut turn = |host: usize, mailbox: &mut Alone<Mailbox>, now: Instant| {
        let application = &mut applications[host];
        let next = application.act(mailbox, messages, now);
        application.collect(mailbox, &mut sends, &mut receives);
        mailbox
            .part
            .audit()
            .unwrap_or_else(|why| panic!("{replay}: host {host}: {why}"));
        next
    };
    let outcome = simulation.run(Instant::from_nanos(60_000_000_000), &mut turn);
    let Outcome::Quiet { at } = outcome else {
        panic!(
            "{replay}: not quiet: {outcome:?} {:?} {sends:?}",
            simulation.next_deadline()
        )
    };
    let totals = simulation
        .machines()
        .iter()
        .map(|machine| machine.part.stats())
        .fold(MailboxStats::default(), |sum, one| sum + one);
    assert!(
        simulation
            .machines()
            .iter()
            .all(|machine| machine.poll_timeout(Instant::START).is_none()),
        "{replay}: a timer is left"
    );
    let frames = (0..hosts)
        .map(|host| simulation.stats().hosts[host].sent_frames)
        .sum();
    Price {
        quiesced_at: at.since(Instant::START),
        frames,
        totals,
        sends,
        receives,
    }
}

impl Application {
    fn of(host: usize, messages: &[Message]) -> Application {
        let numbers = |mine: &dyn Fn(&Message) -> bool| {
            (0..messages.len())
                .filter(|&at| mine(&messages[at]))
                .collect::<Vec<_>>()
        };
        let mut to_send = numbers(&|message| usize::from(message.from) == host);
        let mut to_receive =
            numbers(&|message| usize::from(message.to) == host && message.received_at.is_some());
        to_send.sort_by_key(|&at| messages[at].sent_at);
        to_receive.sort_by_key(|&at| messages[at].received_at);
        to_send.reverse();
        to_receive.reverse();
        Application {
            to_send,
            to_receive,
            ..Application::default()
        }
    }

    fn act(
        &mut self,
        mailbox: &mut Alone<Mailbox>,
        messages: &[Message],
        now: Instant,
    ) -> Option<Instant> {
        let at = |after: Duration| Instant::START + after;
        while let Some(&number) = self
            .to_send
            .last()
            .filter(|&&number| at(messages[number].sent_at) <= now)
        {
            let Message {
                to,
                tag,
                length,
                patience,
                ..
            } = messages[number];
            let Ok(id) = mailbox.part.send_until(
                Rank(to),
                tag,
                content(number, length),
                patience.map(|patience| now + patience),
            ) else {
                break;
            };
            self.to_send.pop();
            self.sending.insert(id, number);
        }
        let due = |number: usize| messages[number].received_at.map(at);
        while let Some(&number) = self
            .to_receive
            .last()
            .filter(|&&number| due(number) <= Some(now))
        {
            let Message {
                from,
                tag,
                max_bytes,
                ..
            } = messages[number];
            let Ok(id) = mailbox.part.recv(Rank(from), tag, max_bytes) else {
                break;
            };
            self.to_receive.pop();
            self.receiving.insert(id, number);
        }
        let next_send = self
            .to_send
            .last()
            .map(|&number| at(messages[number].sent_at));
        let next_receive = self.to_receive.last().and_then(|&number| due(number));
        [next_send, next_receive]
            .into_iter()
            .flatten()
            .filter(|&at| at > now)
            .min()
    }

    fn collect(
        &mut self,
        mailbox: &mut Alone<Mailbox>,
        sends: &mut BTreeMap<usize, SendOutcome>,
        receives: &mut BTreeMap<usize, RecvOutcome>,
    ) {
        while let Some(completion) = mailbox.part.poll_completion() {
            match completion {
                Completion::Send { id, outcome } => sends
                    .insert(self.sending.remove(&id).expect("asked for"), outcome)
                    .is_none(),
                Completion::Recv { id, outcome } => receives
                    .insert(self.receiving.remove(&id).expect("asked for"), outcome)
                    .is_none(),
            };
        }
    }
}

pub fn assert_delivered(price: &Price, messages: &[Message], replay: &str) {
    for (number, message) in messages.iter().enumerate() {
        assert_eq!(
            price.sends.get(&number),
            Some(&SendOutcome::Sent),
            "{replay}: message {number} {message:?}"
        );
        let expected = RecvOutcome::Received {
            bytes: content(number, message.length),
        };
        assert!(
            price.receives.get(&number) == Some(&expected),
            "{replay}: message {number} {message:?} differs"
        );
    }
    let MailboxStats {
        forged_acks,
        non_members,
        malformed,
        ..
    } = price.totals;
    // Damage can make one version of another.
    assert!(
        forged_acks == 0 && non_members <= malformed + 1,
        "{replay}: {:?}",
        price.totals
    );
}
