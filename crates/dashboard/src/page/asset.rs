//! The files that pages refer to. Their addresses hold the digest of their content.

use std::sync::LazyLock;

use heaptrial_report::embedded;
use sha2::{Digest, Sha256};

pub(super) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    let content = format!("{}\n{}", embedded::style_sheet(), include_str!("../assets/dashboard.css"));
    Asset::new("dashboard.css", "text/css; charset=utf-8", content)
});
pub(super) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("live.js", "text/javascript; charset=utf-8", include_str!("../assets/live.js").to_owned())
});
pub(super) static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon.svg", "image/svg+xml", include_str!("../assets/icon.svg").to_owned()));

pub(super) struct Asset {
    file: String,
    kind: &'static str,
    content: String,
}

impl Asset {
    fn new(name: &str, kind: &'static str, content: String) -> Self {
        let digest = hex::encode(&Sha256::digest(content.as_bytes())[..6]);
        Self { file: format!("{digest}-{name}"), kind, content }
    }

    pub(super) fn address(&self) -> String {
        format!("/static/{}", self.file)
    }
}

/// The media type and content of the file of this name.
pub(crate) fn asset(file: &str) -> Option<(&'static str, &'static str)> {
    let asset = [&*STYLE, &*SCRIPT, &*ICON].into_iter().find(|asset| asset.file == file)?;
    Some((asset.kind, &asset.content))
}
