//! Capture files for `ethbcast dump`: reads pcap and pcapng, writes pcap.

use super::{Captured, Dump};
use crate::exit::{Code, Failure};
use pcap_parser::pcapng::Block;
use pcap_parser::{Linktype, PcapBlockOwned, PcapError, create_reader};
use std::fs::File;
use std::io;
use std::io::{BufWriter, Cursor, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
pub fn read(path: &Path, dump: &mut Dump) -> anyhow::Result<()> {
    let name = path.display().to_string();
    let unreadable = |error: io::Error| Failure::new(Code::System, format!("cannot read {name}: {error}"));
    let mut input: Box<dyn Read + Send> = match path == Path::new("-") {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path).map_err(unreadable)?),
    };
    let mut head = Vec::new();
    input.by_ref().take(HEAD_BYTES).read_to_end(&mut head).map_err(unreadable)?;
    let mut reader = create_reader(BUFFER_BYTES, Cursor::new(head).chain(input)).map_err(|_| {
        let text = "neither pcap nor pcapng; write one with `tcpdump -w FILE` or `ethbcast dump -i IFACE -w FILE`";
        Failure::new(Code::Usage, format!("{name} is {text}"))
    })?;
    let mut interfaces = Interfaces::default();
    loop {
        let at = reader.consumed();
        let taken = match reader.next() {
            Ok((bytes, block)) => {
                let flow = interfaces.take(&block, dump, &name)?;
                (flow, bytes)
            }
            Err(PcapError::Eof) => return Ok(()),
            Err(PcapError::Incomplete(_)) => {
                reader.refill().map_err(|error| unreadable(io::Error::other(error.to_string())))?;
                continue;
            }
            Err(PcapError::UnexpectedEof) => {
                let text = format!("{name} ends in the middle of what begins at byte {at}: the capture was cut short");
                return Err(Failure::new(Code::Usage, text).into());
            }
            Err(_) => {
                let text = format!("{name} is damaged at byte {at}: what is there is no frame of a capture");
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
    fn take(&mut self, block: &PcapBlockOwned<'_>, dump: &mut Dump, name: &str) -> anyhow::Result<ControlFlow<()>> {
        match block {
            PcapBlockOwned::LegacyHeader(header) if header.network != Linktype::ETHERNET => {
                let text =
                    format!("{name} was not captured on an Ethernet interface: its link type is {}", header.network);
                return Err(Failure::new(Code::Usage, format!("{text}; capture with -i of one")).into());
            }
            PcapBlockOwned::LegacyHeader(header) => {
                self.nanos_per_fraction = if header.is_nanosecond_precision() { 1 } else { 1000 };
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
                most_bytes: if interface.snaplen == 0 { u32::MAX } else { interface.snaplen },
            }),
            PcapBlockOwned::NG(Block::EnhancedPacket(frame)) => {
                let clock = self.known.get(frame.if_id as usize).filter(|clock| clock.is_ethernet);
                let Some(clock) = clock else { return Ok(dump.pass_over()) };
                let ticks = u64::from(frame.ts_high) << 32 | u64::from(frame.ts_low);
                return dump.take(captured(clock.time(ticks), frame.origlen, frame.caplen, frame.data));
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
    Captured { at, wire_bytes: (wire_bytes as usize).max(bytes.len()), bytes }
}

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const VERSION: [u16; 2] = [2, 4];
/// Snapshot length in the header, as in tcpdump.
const MAX_BYTES: u32 = 262_144;
const LINKTYPE_ETHERNET: u32 = 1;

pub struct CaptureWriter {
    out: BufWriter<File>,
    path: PathBuf,
}

impl CaptureWriter {
    pub fn create(path: &Path) -> anyhow::Result<CaptureWriter> {
        let out = File::create(path).map_err(|error| unwritable(path, &error))?;
        let mut writer = CaptureWriter { out: BufWriter::new(out), path: path.to_owned() };
        let [major, minor] = VERSION.map(u32::from);
        let header = [MAGIC_NANOSECONDS, major << 16 | minor, 0, 0, MAX_BYTES, LINKTYPE_ETHERNET];
        writer.words(&header)?;
        Ok(writer)
    }

    pub fn write(&mut self, frame: Captured<'_>) -> anyhow::Result<()> {
        let Captured { at, wire_bytes, bytes } = frame;
        self.words(&[at.as_secs() as u32, at.subsec_nanos(), bytes.len() as u32, wire_bytes as u32])?;
        self.out.write_all(bytes).map_err(|error| unwritable(&self.path, &error))
    }

    pub fn finish(&mut self) -> anyhow::Result<()> {
        self.out.flush().map_err(|error| unwritable(&self.path, &error))
    }

    fn words(&mut self, words: &[u32]) -> anyhow::Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        self.out.write_all(&bytes).map_err(|error| unwritable(&self.path, &error))
    }
}

fn unwritable(path: &Path, error: &io::Error) -> anyhow::Error {
    Failure::new(Code::System, format!("cannot write {}: {error}; choose another with --write", path.display())).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_of_any_resolution_gives_nanoseconds() {
        let clock = |ticks_per_second, offset_seconds| Clock {
            is_ethernet: true,
            ticks_per_second,
            offset_seconds,
            most_bytes: u32::MAX,
        };
        assert_eq!(clock(1_000_000, 0).time(1_500_000), Duration::from_millis(1500));
        assert_eq!(clock(1 << 20, 10).time(1 << 19), Duration::new(10, 500_000_000));
        assert_eq!(clock(1, -5).time(3), Duration::ZERO, "before 1970");
        assert_eq!(clock(1, i64::MAX).time(u64::MAX), Duration::ZERO, "no time that can be");
    }
}
