//! What a trial writes into a torrc.

use std::collections::BTreeMap;

use heaptrial_relay::{TorrcEdit, TorrcRefusal};

/// The torrc with the options in a marked block at its end.
pub(crate) fn edited(
    present: &[u8],
    options: &BTreeMap<String, String>,
    marker: &str,
) -> Result<Vec<u8>, TorrcRefusal> {
    TorrcEdit::new(marker, options)?.apply(present)
}

/// Whether a torrc has a block of Heaptrial's.
pub(crate) fn is_edited(present: &[u8]) -> bool {
    TorrcEdit::remove(present).is_some()
}
