//! Consensuses of the past, as a relay has them in its folder `diff-cache`.
//!
//! A relay that starts with them makes diffs from all of them to the first consensus that it fetches, as one that has run for days
//! does. The format is that of Tor's src/feature/dircache/consdiffmgr.c and src/lib/fs/storagedir.c: a file for each document, with
//! labels, a NUL, and the compressed text.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use hyper::body::Bytes;
use sha3::{Digest, Sha3_256};

use super::Unpublished;
use super::serve::Encoded;
use heaptrial_relay::TorError;

/// Tor holds 256 files of consensuses and diffs: of each flavour a file for each consensus that it retains, four for the diffs from
/// it, and two more for the latest. When a diff finds no place, the oldest consensus goes.
pub const RETAINED_AT_MOST: u32 = 25;

const FOLDER: &str = "diff-cache";
/// In the order in which snapshots have them.
const FLAVORS: [&str; 2] = ["ns", "microdesc"];
/// Longer than the labels of any document.
const LABELS_BYTES: u64 = 2048;

#[derive(Debug, Default)]
pub struct Past {
    documents: Vec<Document>,
}

#[derive(Debug)]
struct Document {
    labels: String,
    deflated: Bytes,
}

impl Past {
    pub(super) fn add(&mut self, made: &Unpublished) {
        for ((flavor, encoded), signed_digest) in
            FLAVORS.into_iter().zip(&made.encoded).zip(&made.snapshot.signed_digests)
        {
            self.documents.push(Document::new(made, flavor, encoded, signed_digest));
        }
    }

    /// Puts them into a relay's data folder, before it starts.
    pub(crate) fn write(&self, data: &Path) -> Result<(), TorError> {
        let folder = folder(data);
        let mut builder = fs::DirBuilder::new();
        builder.mode(0o700).create(&folder).map_err(TorError::file(&folder))?;
        for (number, document) in self.documents.iter().enumerate() {
            let path = folder.join(number.to_string());
            let bytes = [document.labels.as_bytes(), b"\0", &document.deflated].concat();
            fs::write(&path, bytes).map_err(TorError::file(&path))?;
        }
        Ok(())
    }
}

impl Document {
    fn new(made: &Unpublished, flavor: &str, encoded: &Encoded, signed_digest: &str) -> Self {
        let time = |seconds| {
            let time = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
            time.strftime("%Y-%m-%dT%H:%M:%S").to_string()
        };
        let digest = |bytes: &[u8]| hex::encode_upper(Sha3_256::digest(bytes));
        let labels = [
            ("compression", "deflate".to_owned()),
            ("sha3-digest", digest(&encoded.deflated)),
            ("document-type", "consensus".to_owned()),
            ("consensus-flavor", flavor.to_owned()),
            ("sha3-digest-as-signed", signed_digest.to_owned()),
            ("sha3-digest-uncompressed", digest(&encoded.plain)),
            ("consensus-valid-after", time(made.validity.valid_after)),
            ("consensus-fresh-until", time(made.validity.fresh_until)),
            ("consensus-valid-until", time(made.validity.valid_until)),
        ];
        let labels = labels.map(|(name, value)| format!("{name} {value}\n")).concat();
        Self { labels, deflated: encoded.deflated.clone() }
    }
}

/// From how many older consensuses a relay has diffs, by what is in its data folder; 0 where it makes none.
pub(crate) fn diffs_from(data: &Path) -> io::Result<usize> {
    let entries = match fs::read_dir(folder(data)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let mut from = BTreeSet::new();
    for entry in entries {
        // The relay removes and replaces them meanwhile.
        let Ok(file) = fs::File::open(entry?.path()) else { continue };
        let mut start = Vec::new();
        file.take(LABELS_BYTES).read_to_end(&mut start)?;
        let labels = start.split(|byte| *byte == 0).next().unwrap_or_default();
        let labels = String::from_utf8_lossy(labels);
        from.extend(
            labels.lines().find_map(|line| line.strip_prefix("from-valid-after ")).map(str::to_owned),
        );
    }
    Ok(from.len())
}

fn folder(data: &Path) -> PathBuf {
    data.join(FOLDER)
}
