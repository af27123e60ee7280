#!/bin/sh
# Licences and sources of all crates, as cargo knows them.
set -eu
cd "$(dirname "$0")/.."
python3 - <<'PYTHON'
import json, re, subprocess, sys

allowed = {"MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Zlib",
           "Unicode-3.0", "0BSD", "Unlicense", "MIT-0", "CC0-1.0", "BSL-1.0", "MPL-2.0",
           # Data: the list of root certificates.
           "CDLA-Permissive-2.0"}


def allows(expression):
    """Whether an SPDX expression can be met with allowed licences alone."""
    words = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))
    python, word = [], iter(words)
    for item in word:
        if item in ("(", ")"):
            python.append(item)
        elif item in ("AND", "OR"):
            python.append(item.lower())
        elif item == "WITH":
            python[-1] = str(f"{licence} WITH {next(word)}" in allowed)
        else:
            licence = item
            python.append(str(item in allowed))
    return bool(python) and eval(" ".join(python))


metadata = json.loads(subprocess.check_output(["cargo", "metadata", "--locked", "--format-version", "1"]))
bad = []
for package in metadata["packages"]:
    if package["source"] is not None and not package["source"].startswith("registry+"):
        bad.append(f"{package['name']}: comes from {package['source']}")
    if not allows(package["license"] or ""):
        bad.append(f"{package['name']}: licence {package['license']!r}")
print(f"{len(metadata['packages'])} crates, {len(bad)} with a licence or source that is not allowed")
print("\n".join(bad))
sys.exit(bool(bad))
PYTHON
