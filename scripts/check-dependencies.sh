#!/bin/sh
# Licences, sources and duplicates of all crates, by cargo-deny where it is installed; without it, the
# licences as cargo itself knows them.
set -eu
cd "$(dirname "$0")/.."
if cargo deny --version >/dev/null 2>&1; then
    exec cargo deny --offline check bans licenses sources
fi
python3 - <<'PYTHON'
import json, re, subprocess, sys

allowed = {"MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Zlib",
           "Unicode-3.0", "0BSD", "Unlicense", "MIT-0", "CC0-1.0", "BSL-1.0", "MPL-2.0"}
metadata = json.loads(subprocess.check_output(["cargo", "metadata", "--locked", "--format-version", "1"]))
bad = []
for package in metadata["packages"]:
    licence = (package["license"] or "").replace("/", " OR ")
    source = package["source"]
    if source is not None and not source.startswith("registry+"):
        bad.append(f"{package['name']}: comes from {source}")
    alternatives = [re.sub(r"[()]", "", part).strip() for part in licence.split(" OR ")]
    fits = any(all(word.strip() in allowed for word in part.split(" AND ")) for part in alternatives)
    if not fits and not package["license_file"]:
        bad.append(f"{package['name']}: licence {licence!r}")
print(f"{len(metadata['packages'])} crates, {len(bad)} with a licence or source that is not allowed")
print("\n".join(bad))
sys.exit(bool(bad))
PYTHON
