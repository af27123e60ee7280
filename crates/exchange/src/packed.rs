//! Files of `export --format heaptrial` as they travel: compressed by Zstandard, with a checksum of the content.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::path::Path;

use tempfile::NamedTempFile;

/// Readings repeat themselves: a third of the time of level 9, and hardly more bytes.
const LEVEL: i32 = 3;
/// What a Zstandard frame begins with (RFC 8878, 3.1.1).
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Writes a file compressed to another one, which is on the disk afterwards.
pub fn pack(from: &Path, to: &Path) -> io::Result<()> {
    let mut encoder = zstd::Encoder::new(BufWriter::new(File::create(to)?), LEVEL)?;
    encoder.include_checksum(true)?;
    io::copy(&mut File::open(from)?, &mut encoder)?;
    let mut writer = encoder.finish()?;
    writer.flush()?;
    writer.get_ref().sync_all()
}

/// The content of a file that [`pack`] wrote, as a file in `folder` that goes with its handle; `None` for another file. What is torn
/// or changed is an error.
pub fn unpack(from: &Path, folder: &Path) -> io::Result<Option<NamedTempFile>> {
    let mut begins = Vec::new();
    File::open(from)?.take(MAGIC.len() as u64).read_to_end(&mut begins)?;
    if begins != MAGIC {
        return Ok(None);
    }
    let mut decoder = zstd::Decoder::with_buffer(BufReader::new(File::open(from)?))?;
    let mut content = tempfile::Builder::new().prefix(".heaptrial").suffix(".db").tempfile_in(folder)?;
    io::copy(&mut decoder, content.as_file_mut())?;
    Ok(Some(content))
}
