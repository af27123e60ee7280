//! `buildinfo.json`: what is needed to get and check the same build again. A host that has the package installed reads it
//! as well, and finds the build by its spec.

use crate::{DEBIAN_ARCHITECTURE, Obtained};
use serde_json::json;

use crate::package::TOOL_VERSION;
use crate::package::documents::Facts;

const SCHEMA_VERSION: u32 = 1;

pub(crate) fn text(facts: &Facts, obtained: &Obtained) -> serde_json::Result<String> {
    let info = json!({
        "schema_version": SCHEMA_VERSION,
        "package": facts.name,
        "package_version": facts.version,
        "architecture": DEBIAN_ARCHITECTURE,
        "spec": facts.spec,
        "version": obtained.version,
        "library": {
            "path": facts.library,
            "bytes": facts.library_bytes,
            "sha256": obtained.sha256,
            "build_id": obtained.build_id,
            "depends": facts.depends,
        },
        "source": obtained.provenance,
        "heaptrial": TOOL_VERSION,
    });
    Ok(serde_json::to_string_pretty(&info)? + "\n")
}
