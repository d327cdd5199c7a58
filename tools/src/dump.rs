//! `ethbcast dump`: prints each frame of a capture file or an interface. Captures in pcap and
//! pcapng are read, and pcap is written.

use crate::args::DumpArgs;
use crate::doctor::{Fault, of_interface, of_open};
use crate::exit::{Code, Failure, WithCode, print_line};
use crate::signals::Interrupt;
use ethbcast_collectives::inspect::{FieldValue, Fields, Inspected, Inspector};
use ethbcast_transport::packet::{Capture, Interface};
use ethbcast_transport::wire::{
    ETHERNET_BYTES, EtherType, Header, MacAddr, Rank, Reject, StreamId, VERSION, group_mac,
};
use pcap_parser::pcapng::Block;
use pcap_parser::{Linktype, PcapBlockOwned, PcapError, create_reader};
use serde_json::{Map, Value, json};
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Cursor, ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use zeroize::Zeroizing;

/// Length of a VLAN tag and its EtherTypes.
const TAG_BYTES: usize = 4;
const TAGGED: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];

pub fn run(args: &DumpArgs) -> anyhow::Result<()> {
    let mut dump = Dump::new(args)?;
    let ended = match (&args.file, &args.interface) {
        (Some(path), _) => read(path, &mut dump),
        (None, interface) => listen(args, interface.as_deref(), &mut dump),
    };
    // Shown even after an error.
    dump.finish()?;
    ended
}

#[derive(Clone, Copy, Debug)]
struct Captured<'a> {
    /// Time since 1970.
    at: Duration,
    wire_bytes: usize,
    bytes: &'a [u8],
}

struct Dump {
    inspector: Inspector,
    ether_type: EtherType,
    out: BufWriter<Box<dyn Write>>,
    file: Option<CaptureWriter>,
    json: bool,
    quiet: bool,
    most: u64,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    frames: u64,
    cut: u64,
    refused: u64,
    others: u64,
}

impl Dump {
    fn new(args: &DumpArgs) -> anyhow::Result<Dump> {
        let &DumpArgs {
            ether_type,
            json,
            quiet,
            count,
            ..
        } = args;
        let file = args
            .write
            .as_deref()
            .map(CaptureWriter::create)
            .transpose()?;
        let out = BufWriter::new(Box::new(io::stdout()) as Box<dyn Write>);
        let most = count.unwrap_or(u64::MAX);
        let (inspector, counts) = (inspector(args.key_log.as_deref())?, Counts::default());
        Ok(Dump {
            inspector,
            ether_type,
            out,
            file,
            json,
            quiet,
            most,
            counts,
        })
    }

    fn take(&mut self, captured: Captured<'_>) -> anyhow::Result<ControlFlow<()>> {
        if self.counts.frames >= self.most {
            return Ok(ControlFlow::Break(()));
        }
        let Some(line) = self.line(captured) else {
            return Ok(self.pass_over());
        };
        self.counts.frames += 1;
        self.counts.cut += u64::from(line.is_cut());
        self.counts.refused += u64::from(line.is_refused());
        let text = match (self.quiet, self.json) {
            (true, _) => None,
            (false, true) => Some(line.json().to_string()),
            (false, false) => Some(line.to_string()),
        };
        if let Some(file) = &mut self.file {
            match line
                .what
                .as_ref()
                .ok()
                .and_then(|seen| seen.unkeyed(captured.bytes))
            {
                Some(plain) => file.write(Captured {
                    wire_bytes: plain.len(),
                    bytes: &plain,
                    ..captured
                })?,
                None => file.write(captured)?,
            }
        }
        if let Some(text) = text {
            match writeln!(self.out, "{text}") {
                Ok(()) => {}
                // The reader, such as `| head`, has enough.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                    return Ok(ControlFlow::Break(()));
                }
                Err(error) => return Err(unwritable(&error)),
            }
        }
        Ok(if self.counts.frames == self.most {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    }

    fn pass_over(&mut self) -> ControlFlow<()> {
        self.counts.others += 1;
        ControlFlow::Continue(())
    }

    fn line<'a>(&mut self, captured: Captured<'a>) -> Option<Line<'a>> {
        let ours = self.ether_type.octets();
        let type_at = |at: usize| captured.bytes.get(at..at + 2);
        let own_at = ETHERNET_BYTES - 2;
        if type_at(own_at) == Some(&ours) {
            return Some(Line::of(
                captured,
                self.inspector.inspect(captured.bytes, captured.wire_bytes),
            ));
        }
        let is_tagged =
            type_at(own_at).is_some_and(|tag| TAGGED.iter().any(|tagged| tag == tagged));
        let tag = type_at(own_at + 2)
            .filter(|_| is_tagged && type_at(own_at + TAG_BYTES) == Some(&ours))?;
        Some(Line::tagged(
            captured,
            u16::from_be_bytes([tag[0] & 0x0f, tag[1]]),
        ))
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        match self.out.flush() {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(unwritable(&error)),
            _ => Ok(()),
        }
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.flush()?;
        if let Some(file) = &mut self.file {
            file.finish()?;
        }
        let Counts {
            frames,
            cut,
            refused,
            others,
        } = self.counts;
        let type_ = self.ether_type;
        let mut text = format!(
            "ethbcast: {frames} frames of EtherType {type_}, {refused} of which no host takes"
        );
        if cut > 0 {
            text +=
                &format!("; {cut} were cut by the capture (capture whole frames: tcpdump -s 0)");
        }
        if others > 0 {
            text += &format!("; {others} of other protocols were passed over");
        }
        print_line(text);
        Ok(())
    }
}

fn inspector(log: Option<&Path>) -> anyhow::Result<Inspector> {
    let Some(path) = log else {
        return Ok(Inspector::default());
    };
    let shown = path.display();
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {shown}: {error}"));
    let text = Zeroizing::new(text.code(Code::System)?);
    Inspector::with_log(&text).map_err(|line| {
        Failure::new(
            Code::Usage,
            format!("{shown}: line {line} is none of a log of secrets"),
        )
        .into()
    })
}

fn unwritable(error: &io::Error) -> anyhow::Error {
    Failure::new(Code::System, format!("cannot write to stdout: {error}")).into()
}

fn listen(args: &DumpArgs, interface: Option<&str>, dump: &mut Dump) -> anyhow::Result<()> {
    let interrupt = Interrupt::watch(true, || {}).code(Code::System)?;
    let interface = Interface::find(interface)
        .map_err(|error| Failure::new(Code::System, &error).found(of_interface(&error)))?;
    let groups: Vec<_> = args.group.iter().map(|group| group_mac(group)).collect();
    let mut capture = Capture::open(&interface, args.ether_type, &groups)
        .map_err(|error| Failure::new(Code::System, &error).found(of_open(&error)))?;
    interrupt.begin_polling();
    print_line(format_args!(
        "ethbcast: frames of EtherType {} on {}",
        args.ether_type, interface.name
    ));
    let mut ended = Ok(ControlFlow::Continue(()));
    while matches!(ended, Ok(ControlFlow::Continue(()))) && interrupt.signal().is_none() {
        let arrived = capture.receive(|bytes| {
            if matches!(ended, Ok(ControlFlow::Continue(()))) {
                let at = SystemTime::now()
                    .duration_since(SystemTime::UNIX_EPOCH)
                    .unwrap_or(Duration::ZERO);
                ended = dump.take(Captured {
                    at,
                    wire_bytes: bytes.len(),
                    bytes,
                });
            }
        });
        arrived.map_err(|errno| {
            let name = &interface.name;
            let text = format!("interface {name} has gone ({errno}): see `ip link show {name}`");
            Failure::new(Code::System, text).found(Fault::Down)
        })?;
        dump.flush()?;
    }
    let (missed, tagged) = (capture.missed(), capture.tagged());
    if missed > 0 {
        print_line(format_args!(
            "ethbcast: {missed} more frames came faster than they were printed; try --quiet --write FILE"
        ));
    }
    if tagged > 0 {
        print_line(format_args!(
            "ethbcast: {tagged} more frames came with a VLAN tag, which no host takes"
        ));
    }
    ended.map(drop)
}

struct Line<'a> {
    captured: Captured<'a>,
    what: Result<Inspected<'a>, String>,
}

impl<'a> Line<'a> {
    fn of(captured: Captured<'a>, inspected: Result<Inspected<'a>, Reject>) -> Line<'a> {
        let what = inspected.map_err(|reject| match reject {
            Reject::Short if captured.bytes.len() < captured.wire_bytes => {
                format!(
                    "cut to {} bytes by the capture, less than its headers",
                    captured.bytes.len()
                )
            }
            Reject::Short => "shorter than it says it is".to_owned(),
            Reject::Foreign => "of another protocol with this EtherType".to_owned(),
            Reject::Tagged(_) => "protected by a key".to_owned(),
            Reject::Version(other) => format!(
                "of version {} of the protocol; this is {VERSION}",
                other.version
            ),
            Reject::Damaged => "damaged: its checksum is wrong".to_owned(),
            other => format!("refused: {other:?}"),
        });
        Line { captured, what }
    }

    fn tagged(captured: Captured<'a>, vlan: u16) -> Line<'a> {
        let why = format!("tagged for VLAN {vlan}: capture on the VLAN's own interface to read it");
        Line {
            captured,
            what: Err(why),
        }
    }

    /// Whether the capture has less of the frame than was on the wire.
    fn is_cut(&self) -> bool {
        self.captured.bytes.len() < self.captured.wire_bytes
    }

    fn is_refused(&self) -> bool {
        !self.is_cut() && self.fault().is_some()
    }

    fn fault(&self) -> Option<String> {
        match &self.what {
            Err(why) => Some(why.clone()),
            Ok(seen) if seen.is_cut() => {
                let (here, whole) = (seen.frame.payload.len(), seen.payload_bytes);
                Some(format!(
                    "cut by the capture: {here} of {whole} bytes of payload"
                ))
            }
            Ok(seen) => match &seen.spelled {
                None => Some(format!(
                    "of kind {}, which there is not",
                    seen.frame.header.kind.0
                )),
                Some(spelled) if spelled.fields.is_none() => {
                    Some("malformed: its body is not one of its kind".to_owned())
                }
                Some(_) => None,
            },
        }
    }

    fn addresses(&self) -> Option<[MacAddr; 2]> {
        let at = |at: usize| {
            let octets: [u8; 6] = self.captured.bytes.get(at..at + 6)?.try_into().ok()?;
            Some(MacAddr::from(octets))
        };
        let own = || self.what.as_ref().ok().map(|seen| seen.frame.source);
        Some([own().or_else(|| at(6))?, at(0)?])
    }

    fn json(&self) -> Value {
        let mut object = Map::new();
        let mut put = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
        let Captured {
            at,
            wire_bytes,
            bytes,
        } = self.captured;
        put(
            "time",
            json!(format!("{}.{:09}", at.as_secs(), at.subsec_nanos())),
        );
        put("wire_bytes", json!(wire_bytes));
        put("captured_bytes", json!(bytes.len()));
        if let Some([source, destination]) = self.addresses() {
            put("source", json!(source.to_string()));
            put("destination", json!(destination.to_string()));
        }
        if let Ok(seen) = &self.what {
            let Header {
                kind,
                session,
                stream,
                rank,
                epoch,
                flags,
                sequence,
                stamp,
            } = seen.frame.header;
            let name = seen.spelled.as_ref().map(|spelled| spelled.kind);
            put("kind", name.map_or(json!(kind.0), |name| json!(name)));
            put("session", json!(format!("{session:08x}")));
            put("stream", json!(stream.0));
            put(
                "rank",
                if rank == Rank::NONE {
                    Value::Null
                } else {
                    json!(rank.0)
                },
            );
            put("epoch", json!(epoch));
            put("flags", json!(flags.names().collect::<Vec<_>>()));
            put("sequence", json!(sequence));
            put("stamp", json!(stamp));
            put("payload_bytes", json!(seen.payload_bytes));
            if let Some(fields) = self.fields() {
                let fields = fields.iter().map(|(name, value)| match value {
                    FieldValue::Number(number) => ((*name).to_owned(), json!(number)),
                    FieldValue::Text(text) => ((*name).to_owned(), json!(text)),
                });
                put("fields", Value::Object(fields.collect()));
            }
        }
        if let Some(fault) = self.fault() {
            put("fault", json!(fault));
        }
        Value::Object(object)
    }

    fn fields(&self) -> Option<&Fields> {
        self.what.as_ref().ok()?.spelled.as_ref()?.fields.as_ref()
    }
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Captured { at, wire_bytes, .. } = self.captured;
        write!(out, "{}", clock(at))?;
        if let Some([source, destination]) = self.addresses() {
            write!(out, " {source} > {destination}")?;
        }
        if let Ok(seen) = &self.what {
            let header = &seen.frame.header;
            match &seen.spelled {
                Some(spelled) => write!(out, " {}", spelled.kind)?,
                None => write!(out, " kind {}", header.kind.0)?,
            }
            write_header(out, header)?;
        }
        write!(
            out,
            ", length {}",
            wire_bytes.saturating_sub(ETHERNET_BYTES)
        )?;
        let mut before = ": ";
        for (name, value) in self.fields().into_iter().flatten() {
            match value {
                FieldValue::Number(number) => write!(out, "{before}{name} {number}")?,
                // Untrusted text, whose control characters were removed at parsing.
                FieldValue::Text(text) => write!(out, "{before}{name} {text:?}")?,
            }
            before = ", ";
        }
        match self.fault() {
            Some(fault) => write!(out, " [{fault}]"),
            None => Ok(()),
        }
    }
}

fn write_header(out: &mut fmt::Formatter<'_>, header: &Header) -> fmt::Result {
    let Header {
        session,
        stream,
        rank,
        flags,
        sequence,
        stamp,
        ..
    } = *header;
    write!(out, " session {session:08x}")?;
    if rank != Rank::NONE {
        write!(out, " rank {rank}")?;
    }
    if stream != StreamId(0) {
        write!(out, " stream {stream}")?;
    }
    if sequence != 0 || stamp != 0 {
        write!(out, " seq {sequence} stamp {stamp}")?;
    }
    let names: Vec<_> = flags.names().collect();
    if names.is_empty() {
        Ok(())
    } else {
        write!(out, " [{}]", names.join(" "))
    }
}

fn clock(at: Duration) -> String {
    let seconds = at.as_secs() % 86_400;
    format!(
        "{:02}:{:02}:{:02}.{:06}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        at.subsec_micros()
    )
}

/// Buffer for the longest block, a jumbo frame with its options.
const BUFFER_BYTES: usize = 1 << 20;
/// Bytes of a file by which its kind is detected, including its first block.
const HEAD_BYTES: u64 = 4096;
const NANOS_PER_SECOND: u128 = 1_000_000_000;

#[derive(Debug, Default)]
struct Interfaces {
    nanos_per_fraction: u32,
    known: Vec<Clock>,
}

#[derive(Clone, Copy, Debug)]
struct Clock {
    is_ethernet: bool,
    ticks_per_second: u64,
    offset_seconds: i64,
    most_bytes: u32,
}

/// Passes the frames of a file to `dump`; `-` is stdin.
fn read(path: &Path, dump: &mut Dump) -> anyhow::Result<()> {
    let name = path.display().to_string();
    let unreadable =
        |error: io::Error| Failure::new(Code::System, format!("cannot read {name}: {error}"));
    let input: Box<dyn Read + Send> = match path == Path::new("-") {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path).map_err(unreadable)?),
    };
    read_from(input, &name, dump)
}

fn read_from(mut input: Box<dyn Read + Send>, name: &str, dump: &mut Dump) -> anyhow::Result<()> {
    let unreadable =
        |error: io::Error| Failure::new(Code::System, format!("cannot read {name}: {error}"));
    let mut head = Vec::new();
    input
        .by_ref()
        .take(HEAD_BYTES)
        .read_to_end(&mut head)
        .map_err(unreadable)?;
    let mut reader = create_reader(BUFFER_BYTES, Cursor::new(head).chain(input)).map_err(|_| {
        let text = "neither pcap nor pcapng; write one with `tcpdump -w FILE` or `ethbcast dump -i IFACE -w FILE`";
        Failure::new(Code::Usage, format!("{name} is {text}"))
    })?;
    let mut interfaces = Interfaces::default();
    loop {
        let at = reader.consumed();
        let taken = match reader.next() {
            Ok((bytes, block)) => {
                let flow = interfaces.take(&block, dump, name)?;
                (flow, bytes)
            }
            Err(PcapError::Eof) => return Ok(()),
            Err(PcapError::Incomplete(_)) => {
                reader
                    .refill()
                    .map_err(|error| unreadable(io::Error::other(error.to_string())))?;
                continue;
            }
            Err(PcapError::UnexpectedEof) => {
                let text = format!(
                    "{name} ends in the middle of what begins at byte {at}: the capture was cut short"
                );
                return Err(Failure::new(Code::Usage, text).into());
            }
            Err(_) => {
                let text = format!("{name} is damaged at byte {at}: there is no captured frame");
                return Err(Failure::new(Code::Usage, text).into());
            }
        };
        reader.consume(taken.1);
        if taken.0.is_break() {
            return Ok(());
        }
    }
}

impl Interfaces {
    fn take(
        &mut self,
        block: &PcapBlockOwned<'_>,
        dump: &mut Dump,
        name: &str,
    ) -> anyhow::Result<ControlFlow<()>> {
        match block {
            PcapBlockOwned::LegacyHeader(header) if header.network != Linktype::ETHERNET => {
                let text = format!(
                    "{name} was not captured on an Ethernet interface: its link type is {}",
                    header.network
                );
                return Err(
                    Failure::new(Code::Usage, format!("{text}; capture with -i of one")).into(),
                );
            }
            PcapBlockOwned::LegacyHeader(header) => {
                self.nanos_per_fraction = if header.is_nanosecond_precision() {
                    1
                } else {
                    1000
                };
            }
            PcapBlockOwned::Legacy(frame) => {
                let nanos = u64::from(frame.ts_usec) * u64::from(self.nanos_per_fraction);
                let at = Duration::from_secs(frame.ts_sec.into()) + Duration::from_nanos(nanos);
                return dump.take(captured(at, frame.origlen, frame.caplen, frame.data));
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => self.known.clear(),
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => self.known.push(Clock {
                is_ethernet: interface.linktype == Linktype::ETHERNET,
                ticks_per_second: interface.ts_resolution().unwrap_or(1_000_000).max(1),
                offset_seconds: interface.if_tsoffset,
                most_bytes: if interface.snaplen == 0 {
                    u32::MAX
                } else {
                    interface.snaplen
                },
            }),
            PcapBlockOwned::NG(Block::EnhancedPacket(frame)) => {
                let clock = self
                    .known
                    .get(frame.if_id as usize)
                    .filter(|clock| clock.is_ethernet);
                let Some(clock) = clock else {
                    return Ok(dump.pass_over());
                };
                let ticks = u64::from(frame.ts_high) << 32 | u64::from(frame.ts_low);
                return dump.take(captured(
                    clock.time(ticks),
                    frame.origlen,
                    frame.caplen,
                    frame.data,
                ));
            }
            PcapBlockOwned::NG(Block::SimplePacket(frame)) => {
                let Some(clock) = self.known.first().filter(|clock| clock.is_ethernet) else {
                    return Ok(dump.pass_over());
                };
                let bytes = frame.origlen.min(clock.most_bytes);
                return dump.take(captured(Duration::ZERO, frame.origlen, bytes, frame.data));
            }
            PcapBlockOwned::NG(_) => {}
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl Clock {
    fn time(&self, ticks: u64) -> Duration {
        let nanos = u128::from(ticks) * NANOS_PER_SECOND / u128::from(self.ticks_per_second);
        let seconds = (nanos / NANOS_PER_SECOND) as u64;
        let seconds = seconds.checked_add_signed(self.offset_seconds).unwrap_or(0);
        Duration::new(seconds, (nanos % NANOS_PER_SECOND) as u32)
    }
}

/// Returns a frame without the padding of its block.
fn captured(at: Duration, wire_bytes: u32, here_bytes: u32, data: &[u8]) -> Captured<'_> {
    let bytes = &data[..data.len().min(here_bytes as usize)];
    Captured {
        at,
        wire_bytes: (wire_bytes as usize).max(bytes.len()),
        bytes,
    }
}

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const PCAP_VERSION: [u16; 2] = [2, 4];
/// Snapshot length in the header, as in tcpdump.
const MAX_BYTES: u32 = 262_144;
const LINKTYPE_ETHERNET: u32 = 1;

struct CaptureWriter {
    out: BufWriter<File>,
    path: PathBuf,
}

impl CaptureWriter {
    fn create(path: &Path) -> anyhow::Result<CaptureWriter> {
        let out = File::create(path).map_err(|error| unwritable_file(path, &error))?;
        let mut writer = CaptureWriter {
            out: BufWriter::new(out),
            path: path.to_owned(),
        };
        let [major, minor] = PCAP_VERSION.map(u32::from);
        let header = [
            MAGIC_NANOSECONDS,
            major << 16 | minor,
            0,
            0,
            MAX_BYTES,
            LINKTYPE_ETHERNET,
        ];
        writer.words(&header)?;
        Ok(writer)
    }

    fn write(&mut self, frame: Captured<'_>) -> anyhow::Result<()> {
        let Captured {
            at,
            wire_bytes,
            bytes,
        } = frame;
        self.words(&[
            at.as_secs() as u32,
            at.subsec_nanos(),
            bytes.len() as u32,
            wire_bytes as u32,
        ])?;
        self.out
            .write_all(bytes)
            .map_err(|error| unwritable_file(&self.path, &error))
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.out
            .flush()
            .map_err(|error| unwritable_file(&self.path, &error))
    }

    fn words(&mut self, words: &[u32]) -> anyhow::Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        self.out
            .write_all(&bytes)
            .map_err(|error| unwritable_file(&self.path, &error))
    }
}

fn unwritable_file(path: &Path, error: &io::Error) -> anyhow::Error {
    Failure::new(
        Code::System,
        format!(
            "cannot write {}: {error}; choose another with --write",
            path.display()
        ),
    )
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_tests::fuzz::{Entry, Mutator};

    fn block(kind: u32, body: &[u8]) -> Vec<u8> {
        let bytes = 12 + body.len() as u32;
        [
            &kind.to_le_bytes()[..],
            &bytes.to_le_bytes(),
            body,
            &bytes.to_le_bytes(),
        ]
        .concat()
    }

    /// The first frames of a capture of a lab, and one of them as pcapng.
    #[test]
    fn captures_altered_in_any_way_are_read_or_refused() {
        let pcap = &include_bytes!("../tests/captures/lab.pcap")[..2000];
        let (lengths, frame) = ([96, 0, 0, 0, 96, 0, 0, 0], &pcap[24 + 16..24 + 16 + 96]);
        let ng = [
            block(
                0x0a0d_0d0a,
                &[&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[255; 8]].concat(),
            ),
            block(1, &[1, 0, 0, 0, 0, 0, 0, 0]),
            block(6, &[&[0; 8][..], &[7, 0, 0, 0], &lengths, frame].concat()),
            block(3, &[&lengths[4..], frame].concat()),
        ];
        let bytes = [pcap.to_vec(), ng.concat()];
        let corpus = bytes.map(|bytes| Entry {
            name: String::new(),
            bytes,
        });
        let (mut mutator, mut frames) = (Mutator::new(&corpus, 1), [0; 2]);
        for number in 0..500 {
            let args = DumpArgs {
                file: None,
                interface: None,
                group: Vec::new(),
                ether_type: EtherType::DEFAULT,
                count: None,
                write: None,
                key_log: None,
                json: number % 2 == 0,
                quiet: false,
            };
            let mut dump = Dump::new(&args).expect("nothing is opened");
            dump.out = BufWriter::new(Box::new(io::sink()));
            let input = mutator.next_input();
            let is_whole = read_from(Box::new(Cursor::new(input)), "altered", &mut dump).is_ok();
            frames[usize::from(is_whole)] += dump.counts.frames;
        }
        assert!(
            frames.iter().all(|frames| *frames > 50),
            "of refused captures and of others: {frames:?}"
        );
    }

    #[test]
    fn a_clock_of_any_resolution_gives_nanoseconds() {
        let clock = |ticks_per_second, offset_seconds| Clock {
            is_ethernet: true,
            ticks_per_second,
            offset_seconds,
            most_bytes: u32::MAX,
        };
        assert_eq!(
            clock(1_000_000, 0).time(1_500_000),
            Duration::from_millis(1500)
        );
        assert_eq!(
            clock(1 << 20, 10).time(1 << 19),
            Duration::new(10, 500_000_000)
        );
        assert_eq!(clock(1, -5).time(3), Duration::ZERO, "before 1970");
        assert_eq!(
            clock(1, i64::MAX).time(u64::MAX),
            Duration::ZERO,
            "no time that can be"
        );
    }
}
