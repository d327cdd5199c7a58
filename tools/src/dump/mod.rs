//! `ethbcast dump`: prints each frame of a capture file or an interface.

mod file;
mod line;

use crate::args::DumpArgs;
use crate::doctor::{Fault, of_interface, of_open};
use crate::exit::{Code, Failure, WithCode, print_line};
use crate::signals::Interrupt;
use ethbcast_collectives::inspect::Inspector;
use ethbcast_transport::packet::{Capture, Interface};
use ethbcast_transport::wire::{ETHERNET_BYTES, EtherType, group_mac};
use file::CaptureWriter;
use line::Line;
use std::io;
use std::io::{BufWriter, ErrorKind, Write};
use std::ops::ControlFlow;
use std::time::{Duration, SystemTime};

/// Length of a VLAN tag and its EtherTypes.
const TAG_BYTES: usize = 4;
const TAGGED: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];

pub fn run(args: &DumpArgs) -> anyhow::Result<()> {
    let mut dump = Dump::new(args)?;
    let ended = match (&args.file, &args.interface) {
        (Some(path), _) => file::read(path, &mut dump),
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
    out: BufWriter<io::Stdout>,
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
        let &DumpArgs { ether_type, json, quiet, count, .. } = args;
        let file = args.write.as_deref().map(CaptureWriter::create).transpose()?;
        let (out, most) = (BufWriter::new(io::stdout()), count.unwrap_or(u64::MAX));
        let (inspector, counts) = (Inspector::default(), Counts::default());
        Ok(Dump { inspector, ether_type, out, file, json, quiet, most, counts })
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
            file.write(captured)?;
        }
        if let Some(text) = text {
            match writeln!(self.out, "{text}") {
                Ok(()) => {}
                // The reader, such as `| head`, has enough.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(ControlFlow::Break(())),
                Err(error) => return Err(unwritable(&error)),
            }
        }
        Ok(if self.counts.frames == self.most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
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
            return Some(Line::of(captured, self.inspector.inspect(captured.bytes, captured.wire_bytes)));
        }
        let is_tagged = type_at(own_at).is_some_and(|tag| TAGGED.iter().any(|tagged| tag == tagged));
        let tag = type_at(own_at + 2).filter(|_| is_tagged && type_at(own_at + TAG_BYTES) == Some(&ours))?;
        Some(Line::tagged(captured, u16::from_be_bytes([tag[0] & 0x0f, tag[1]])))
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
        let Counts { frames, cut, refused, others } = self.counts;
        let type_ = self.ether_type;
        let mut text = format!("ethbcast: {frames} frames of EtherType {type_}, {refused} of which no host takes");
        if cut > 0 {
            text += &format!("; {cut} were cut by the capture (capture whole frames: tcpdump -s 0)");
        }
        if others > 0 {
            text += &format!("; {others} of other protocols were passed over");
        }
        print_line(text);
        Ok(())
    }
}

fn unwritable(error: &io::Error) -> anyhow::Error {
    Failure::new(Code::System, format!("cannot write to stdout: {error}")).into()
}

/// Passes frames to `dump` until there are enough, or a signal arrives.
fn listen(args: &DumpArgs, interface: Option<&str>, dump: &mut Dump) -> anyhow::Result<()> {
    let interrupt = Interrupt::watch(true, || {}).code(Code::System)?;
    let interface =
        Interface::find(interface).map_err(|error| Failure::new(Code::System, &error).found(of_interface(&error)))?;
    let groups: Vec<_> = args.group.iter().map(|group| group_mac(group)).collect();
    let mut capture = Capture::open(&interface, args.ether_type, &groups)
        .map_err(|error| Failure::new(Code::System, &error).found(of_open(&error)))?;
    interrupt.begin_polling();
    print_line(format_args!("ethbcast: frames of EtherType {} on {}", args.ether_type, interface.name));
    let mut ended = Ok(ControlFlow::Continue(()));
    while matches!(ended, Ok(ControlFlow::Continue(()))) && interrupt.signal().is_none() {
        let arrived = capture.receive(|bytes| {
            if matches!(ended, Ok(ControlFlow::Continue(()))) {
                let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
                ended = dump.take(Captured { at, wire_bytes: bytes.len(), bytes });
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
        print_line(format_args!("ethbcast: {tagged} more frames came with a VLAN tag, which no host takes"));
    }
    ended.map(drop)
}
