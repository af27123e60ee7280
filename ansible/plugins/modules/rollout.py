#!/usr/bin/python
"""A rollout on a host."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: rollout
short_description: Roll out by a verdict on a host, pause it, judge it, or put it back
version_added: "0.1.0"
description:
  - Brings what a trial found to the services of a host, in waves behind gates. A transient unit of systemd carries it out, so
    that the task returns once it is begun; the same task again reports how far it is.
  - What was cut short, also before its first step, is gone on with. What a gate stopped, or somebody paused, fails the task unless O(resume=true).
options:
  name:
    description: The rollout's name.
    type: str
    required: true
  verdict:
    description: The verdict, a file on the host as C(heaptrial trial verdict) wrote it; needed to begin.
    type: path
  services:
    description: Patterns of services, such as C(tor@*); needed to begin.
    type: list
    elements: str
    default: []
  options:
    description: Further options of C(heaptrial rollout start), such as C(--soak) and C(1d).
    type: list
    elements: str
    default: []
  force:
    description:
      - Begin it though something speaks against it, for this reason. What is accepted so is kept in the rollout's record.
    type: str
  resume:
    description: Go on with what a gate stopped or somebody paused.
    type: bool
    default: false
  state:
    description:
      - V(started) begins the rollout or goes on with it.
      - V(paused) stops it before its next restart; what was changed stays.
      - V(judged) asks what its gate would say now, and changes nothing.
      - V(rolled_back) puts every service back as it was, or those of one wave.
    type: str
    choices: [started, paused, judged, rolled_back]
    default: started
  wave:
    description: With O(state=rolled_back) only the services of this wave, counted from 1.
    type: int
extends_documentation_fragment:
  - heaptrial.fleet.program
attributes:
  check_mode:
    description: What would be done is reported by the program's own C(--dry-run).
    support: full
  diff_mode:
    description: Shows the files that a start writes.
    support: partial
author:
  - The Heaptrial authors (@heaptrial)
"""

EXAMPLES = r"""
- name: Begin the rollout, or report how far it is
  heaptrial.fleet.rollout:
    name: five-way-rollout
    verdict: /var/lib/heaptrial-fleet/five-way-mimalloc.verdict.json
    services: ["tor@*"]
  register: rollout
  until: rollout.standing == "complete"
  retries: 10000
  delay: 60

- name: Put everything back
  heaptrial.fleet.rollout:
    name: five-way-rollout
    state: rolled_back
"""

RETURN = r"""
standing:
  description: Where the rollout stands after the task, such as C(in progress) or C(complete); C(none) where there is none.
  returned: always
  type: str
rollout:
  description: What C(heaptrial rollout status) reports of it.
  returned: where there is one
  type: dict
judged:
  description: What the gate would say now, which C(heaptrial rollout judge --hosts) takes together with that of other hosts.
  returned: with O(state=judged), where there is a rollout
  type: dict
nothing_to_do:
  description: Whether all services run already what would be rolled out, so that there is no rollout.
  returned: with O(state=started)
  type: bool
outcome:
  description: What the program printed.
  returned: where something was done, or would be in check mode
  type: dict
"""

import json

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.heaptrial.fleet.plugins.module_utils import heaptrial


def status(module, name):
    """What the host reports of the rollout, or None."""
    # 1: it stopped or was cut short, or another one did.
    rollouts = heaptrial.run(module, ["rollout", "status"], also=(1,))[1]["rollouts"]
    return next((rollout for rollout in rollouts if rollout["rollout"] == name), None)


def why(found):
    """Why a rollout does not go on."""
    reasons = [str(reason) for reason in found.get("reasons") or []]
    return "; ".join(reasons) or found.get("cut_short") or "its status has no reason"


def check_verdict(module, name, found):
    """Refuses a rollout of that name that goes by another verdict."""
    if not module.params["verdict"]:
        return
    try:
        with open(module.params["verdict"]) as file:
            wanted = json.load(file)["sha256"]
    except (IOError, OSError, ValueError, KeyError) as error:
        module.fail_json(msg="cannot read the verdict: %s" % error)
    if found["verdict"] != wanted:
        by = "verdict %s" % found["verdict"] if found["verdict"] else "a trial of its own"
        module.fail_json(
            msg="rollout %s of this host goes by %s, and not by %s (%s); another name begins one by that"
            % (name, by, module.params["verdict"], wanted),
            standing=found["standing"],
        )


def is_back(module, found, wave):
    """Whether a wave is as before."""
    if not 1 <= wave <= len(found["waves"]):
        module.fail_json(msg="rollout %s has waves 1 to %d, and no %d" % (found["rollout"], len(found["waves"]), wave))
    found_wave = found["waves"][wave - 1]
    # The first word of a rollback is that of the wave; its services follow one by one.
    stages = [found["services"][name]["stage"] for name in found_wave["names"] if name in found["services"]]
    return found_wave["stage"] in ("waiting", "rolled_back") and all(stage == "reverted" for stage in stages)


def what_is_missing(module, name, found):
    """The command that brings the rollout to the state, if one is needed."""
    wanted = module.params["state"]
    standing = found["standing"] if found else "none"
    if wanted == "paused":
        # What was cut short may be resumed by the host itself, after it was booted.
        return ["rollout", "pause", name] if standing in ("in progress", "cut short", "not begun") else None
    if wanted == "rolled_back":
        wave = module.params["wave"]
        if standing in ("none", "rolled back") or wave and is_back(module, found, wave):
            return None
        return ["rollout", "rollback", name, "--yes"] + (["--wave", str(wave)] if wave else [])
    if standing == "none":
        if not module.params["verdict"] or not module.params["services"]:
            module.fail_json(msg="to begin a rollout it takes a verdict and services", standing=standing)
        words = ["rollout", "start", module.params["verdict"], "--name", name, "--yes", "--services"] + module.params["services"]
        return words + (["--force", module.params["force"]] if module.params["force"] else []) + module.params["options"]
    check_verdict(module, name, found)
    if standing in ("in progress", "complete"):
        return None
    if standing in ("rolled back", "being rolled back"):
        module.fail_json(msg="rollout %s is %s on this host; another name begins it again" % (name, standing), standing=standing)
    # No process works on either, and it was not meant to stand.
    if standing in ("not begun", "cut short") or module.params["resume"]:
        return ["rollout", "resume", name]
    module.fail_json(msg="rollout %s is %s: %s" % (name, standing, why(found)), standing=standing, rollout=found)


def main():
    options = {
        "name": {"type": "str", "required": True},
        "verdict": {"type": "path"},
        "services": {"type": "list", "elements": "str", "default": []},
        "options": {"type": "list", "elements": "str", "default": []},
        "force": {"type": "str"},
        "resume": {"type": "bool", "default": False},
        "state": {"type": "str", "choices": ["started", "paused", "judged", "rolled_back"], "default": "started"},
        "wave": {"type": "int"},
    }
    options.update(heaptrial.PROGRAM)
    module = AnsibleModule(options, supports_check_mode=True)
    name = module.params["name"]
    found = status(module, name)
    standing = found["standing"] if found else "none"
    if module.params["state"] == "judged":
        # 1: it says stop. 4: something is not known.
        judged = heaptrial.run(module, ["rollout", "judge", name], also=(1, 4))[1] if found else None
        if judged:
            # It may have stopped since it was asked for its status.
            module.exit_json(changed=False, standing=judged["standing"], judged=judged)
        module.exit_json(changed=False, standing=standing)
    words = what_is_missing(module, name, found)
    if words is None:
        module.exit_json(changed=False, standing=standing, **({"rollout": found} if found else {}))
    result = {"changed": True, "standing": standing}
    action = words[1]
    if module._diff and action == "start":
        _code, text, _error = module.run_command([module.params["program"]] + words + ["--dry-run"])
        result["diff"] = {"prepared": text}
    if module.check_mode:
        if action in ("start", "rollback"):
            result["outcome"] = heaptrial.run(module, words + ["--dry-run"])[1]
        if action == "start" and result["outcome"].get("waves") == []:
            result.update(changed=False, nothing_to_do=True)
        module.exit_json(**result)
    if action in ("start", "resume"):
        words.append("--detach")
    result["outcome"] = heaptrial.run(module, words)[1]
    found = status(module, name)
    if found:
        result.update(rollout=found, standing=found["standing"])
    if action == "start":
        result["nothing_to_do"] = not found
        result["changed"] = bool(found)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
