//! Detection of the sector size of an image's partition table, which is useless on a disk with
//! other sectors.

use ethbcast_collectives::session::live::StorageError;

const HEAD_BYTES: usize = 4096 + 8;
const GPT: &[u8] = b"EFI PART";
const MBR: [u8; 2] = [0x55, 0xaa];
const ENTRIES: std::ops::Range<usize> = 446..510;
const ENTRY_BYTES: usize = 16;
/// Partition type of the protective entry in front of a GPT.
const PROTECTIVE: u8 = 0xee;

/// Fails if the partition table of the image that begins with `head` is made for other sectors than
/// the device's, which have `own` bytes.
pub(super) fn check_sectors(own: u64, head: &[u8], image_bytes: u64) -> Result<(), StorageError> {
    match made_for(head, image_bytes) {
        Some(made) if made != own => Err(StorageError::refused(format!(
            "what comes has a partition table for sectors of {made} bytes, and those of DEST have {own}: no machine \
             would find its partitions; nothing was written: send an image that is made for them, or write it all the \
             same with --any-sectors"
        ))),
        _ => Ok(()),
    }
}

/// Returns the sector size of an image's partition table in bytes, or none if there is no table or
/// it is valid for both sizes. A master boot record is certain to count in 512 bytes only if its
/// partitions would exceed the image in sectors of 4096 bytes.
fn made_for(head: &[u8], image_bytes: u64) -> Option<u64> {
    let has = |at: usize| head.get(at..at + GPT.len()) == Some(GPT);
    match (has(512), has(4096)) {
        (true, false) => return Some(512),
        (false, true) => return Some(4096),
        (true, true) => return None,
        (false, false) => {}
    }
    if head.get(ENTRIES.end..ENTRIES.end + MBR.len()) != Some(&MBR[..]) || head.len() < HEAD_BYTES {
        return None;
    }
    let entries: Vec<&[u8]> = head[ENTRIES].chunks(ENTRY_BYTES).collect();
    // A file system's boot sector has the signature too, but program code at that offset.
    let is_table = entries.iter().all(|entry| matches!(entry[0], 0 | 0x80) && entry[4] != PROTECTIVE);
    let number = |entry: &[u8], at: usize| u64::from(u32::from_le_bytes([0, 1, 2, 3].map(|byte| entry[at + byte])));
    let used = entries.iter().filter(|entry| entry[4] != 0);
    let end = used.map(|entry| number(entry, 8) + number(entry, 12)).max().filter(|_| is_table)?;
    (end * 512 <= image_bytes && end * 4096 > image_bytes).then_some(512)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(gpt_at: Option<usize>, partition: Option<(u32, u32)>) -> Vec<u8> {
        let mut head = vec![0; 8192];
        head[510..512].copy_from_slice(&MBR);
        if let Some(at) = gpt_at {
            head[at..at + 8].copy_from_slice(GPT);
            head[446 + 4] = PROTECTIVE;
        }
        if let Some((begin, sectors)) = partition {
            head[446 + 4] = 0x83;
            head[446 + 8..446 + 12].copy_from_slice(&begin.to_le_bytes());
            head[446 + 12..446 + 16].copy_from_slice(&sectors.to_le_bytes());
        }
        head
    }

    #[test]
    fn the_sectors_of_a_table_are_known_by_where_it_stands_or_by_where_its_partitions_would_end() {
        let mebibyte = 1 << 20;
        assert_eq!(made_for(&head(Some(512), None), mebibyte), Some(512));
        assert_eq!(made_for(&head(Some(4096), None), mebibyte), Some(4096));
        assert_eq!(made_for(&head(None, Some((256, 1792))), mebibyte), Some(512));
        assert_eq!(made_for(&head(None, Some((16, 64))), mebibyte), None, "it may be of both");
        assert_eq!(made_for(&head(None, None), mebibyte), None, "nothing is in it");
        let mut boot_sector = head(None, Some((256, 1792)));
        boot_sector[446 + 16] = 0xe8;
        assert_eq!(made_for(&boot_sector, mebibyte), None, "it is a program");
        assert_eq!((made_for(&[0; 8192], mebibyte), made_for(&[], mebibyte)), (None, None));
    }
}
