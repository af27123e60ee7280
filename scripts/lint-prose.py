#!/usr/bin/env python3
"""Checks the prose of README, CONTRIBUTING and docs: `lint-prose.py [FILE...]`.

A mean sentence has at most 17 words and none has more than 40; code, tables and headings do not count. All pages together
have at most 34,000 words. The parts for users name no source file. Some words have a better one.
"""

import re
import sys
from pathlib import Path

MOST_IN_A_SENTENCE = 40
MOST_ON_AVERAGE = 17
MOST_WORDS = 34_000
# What is not written, and what is.
BETTER = {
    "told": "reported, printed",
    "tells": "reports, prints",
    "anew": "again",
    "beside": "next to, alongside",
    "in place of": "instead of",
    "for want of": "for lack of",
    "foretell": "predict",
    "hastened": "accelerated",
}
# The parts of docs/SUMMARY.md that are for users.
FOR_USERS = ("Start", "Use")

ROOT = Path(__file__).resolve().parent.parent


def pages():
    book = sorted(path for path in (ROOT / "docs").glob("*.md") if path.name not in ("SUMMARY.md", "commands.md"))
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "ansible/README.md", *book]


def for_users():
    """The pages under the headings FOR_USERS of the summary."""
    part, found = None, []
    for line in (ROOT / "docs/SUMMARY.md").read_text().splitlines():
        if line.startswith("# "):
            part = line.removeprefix("# ")
        elif part in FOR_USERS:
            found += [ROOT / "docs" / target for target in re.findall(r"\]\(([^)]+)\)", line)]
    return found


def paragraphs(text):
    """Running text: each paragraph, and each item of a list, as one line."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    fenced, lines = False, []
    for line in text.splitlines():
        line = re.sub(r"^\s*>\s?", "", line)
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        if fence or fenced or re.match(r"\s*\|", line) or line.startswith("#"):
            line = ""
        item = re.match(r"\s*(?:[-*]|\d+\.)\s+(.*)", line)
        if item:
            lines += ["", item.group(1)]
        else:
            lines.append(line.strip())
    return [" ".join(part.split("\n")) for part in re.split(r"\n\s*\n", "\n".join(lines)) if part.strip()]


def sentences(text):
    for paragraph in paragraphs(text):
        paragraph = re.sub(r"!\[[^]]*\]\([^)]*\)", "", paragraph)
        paragraph = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", paragraph)
        # Code counts as one word, and what is in it ends no sentence.
        paragraph = re.sub(r"`[^`]*`", "CODE", paragraph).replace("**", "").replace("e.g.", "eg")
        for sentence in re.split(r"(?<=[.!?])[)\"”]*\s+|(?<=:)\s+(?=[A-Z])", paragraph):
            words = re.findall(r"\w[\w’'.,%-]*", sentence)
            if words:
                yield sentence.strip(), len(words)


def main():
    faults = []
    names = [Path(name).resolve() for name in sys.argv[1:]]
    total = 0
    for path in names or pages():
        name = path.relative_to(ROOT)
        text = path.read_text()
        total += len(text.split())
        counted = list(sentences(text))
        for sentence, words in counted:
            for word, better in BETTER.items():
                if re.search(rf"\b{word}\b", sentence, re.IGNORECASE):
                    faults.append(f"{name}: `{word}` ({better}): {sentence[:90]}...")
            if words > MOST_IN_A_SENTENCE:
                faults.append(f"{name}: a sentence of {words} words: {sentence[:90]}...")
        mean = sum(words for _, words in counted) / max(len(counted), 1)
        if mean > MOST_ON_AVERAGE:
            faults.append(f"{name}: sentences have {mean:.1f} words on average, more than {MOST_ON_AVERAGE}")
    for path in for_users():
        if re.search(r"crates/\w+/(?:src|tests)", path.read_text()):
            faults.append(f"{path.relative_to(ROOT)}: a page for users names a source file")
    if not names and total > MOST_WORDS:
        faults.append(f"the pages have {total:,} words, more than {MOST_WORDS:,}")
    print("\n".join(faults), file=sys.stderr, end="\n" if faults else "")
    if faults:
        sys.exit(1)
    print(f"{total:,} words")


main()
