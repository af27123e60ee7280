"""Runs the heaptrial program of a host and reads what it says as JSON."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import json

PROGRAM = {"program": {"type": "path", "default": "heaptrial"}}
SOURCES = {
    "offline": {"type": "bool", "default": False},
    "mirror": {"type": "str"},
}


def sources(module):
    """Where allocators come from, as options of the program."""
    words = ["--offline"] if module.params["offline"] else []
    if module.params["mirror"]:
        words += ["--mirror", module.params["mirror"]]
    return words


def message(error):
    """What an error says: under --json it is the last line of standard error."""
    lines = [line for line in error.splitlines() if line.strip()]
    try:
        said = json.loads(lines[-1])
        parts = [said["message"]] + said.get("causes", [])
        if said.get("hint"):
            parts.append(said["hint"])
        return "\n".join(parts)
    except (IndexError, KeyError, ValueError, TypeError):
        return error.strip() or "heaptrial said nothing"


def run(module, words, also=()):
    """Runs it with --json. Fails the task unless it ends with 0 or a code of `also`; gives code, document, warnings."""
    code, output, error = module.run_command([module.params["program"], "--json"] + words)
    for line in error.splitlines():
        if line.startswith("warning: "):
            module.warn(line[len("warning: "):])
        elif line.startswith("left out: "):
            module.warn(line)
    if code != 0 and code not in also:
        module.fail_json(msg=message(error), rc=code, cmd=words, stdout=output, stderr=error)
    try:
        return code, json.loads(output)
    except ValueError:
        module.fail_json(msg="heaptrial wrote no JSON", rc=code, cmd=words, stdout=output, stderr=error)
