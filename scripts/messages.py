#!/usr/bin/env python3
"""Lists the error messages of the program, one a line with its place, to be read through: scripts/messages.py [CRATE...]"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STRING = r'"((?:[^"\\]|\\.)*)"'
STARTS = re.compile(
    r"#\[error\(|Refused\(|Failure::\w+\(|\.hint\(|refuse\(|anyhow!\(|Invalid\w*\(|bail!\(|Err\(format!\(|ok_or_else\(|map_err\("
)


def arguments(text: str, start: int) -> str:
    """What stands between the parenthesis that opens before `start` and the one that closes it."""
    depth, at, quoted = 1, start, False
    while at < len(text) and depth > 0:
        character = text[at]
        if character == "\\" and quoted:
            at += 1
        elif character == '"':
            quoted = not quoted
        elif not quoted:
            depth += (character == "(") - (character == ")")
        at += 1
    return text[start:at]


def messages(path: Path):
    text = path.read_text()
    text = text.split("#[cfg(test)]\nmod tests")[0]
    seen = set()
    for start in STARTS.finditer(text):
        within = arguments(text, start.end())
        for string in re.finditer(STRING, within, re.S):
            at = start.end() + string.start()
            message = re.sub(r"\\\n\s*", "", string.group(1))
            if at not in seen and " " in message.strip():
                seen.add(at)
                yield text.count("\n", 0, at) + 1, message


def main() -> None:
    crates = sys.argv[1:] or sorted(folder.name for folder in (ROOT / "crates").iterdir())
    for crate in crates:
        for path in sorted((ROOT / "crates" / crate / "src").rglob("*.rs")):
            for line, message in messages(path):
                print(f"{path.relative_to(ROOT / 'crates')}:{line}: {message}")


main()
