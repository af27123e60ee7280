"""A rollout on several hosts at once, a process for each of them; what each sees lies in a folder that all of them read."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import json
import os
import subprocess
import time

from ansible import constants as C
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

# Anything else is no longer on its way.
ON_ITS_WAY = ("in progress", "complete")
# Of these it may be that the host is being booted, or that its unit waits for what else changes services there.
MAY_COME_BACK = ("cut short", "unreachable", "failed", "not begun")
STOP = 1
NOT_ENOUGH = 4


def told_at_start(begun):
    """What the task tells of the start: whether it changed something, and what the program warned of."""
    told = {"changed": begun.get("changed", False)}
    if begun.get("warnings"):
        told["warnings"] = begun["warnings"]
    return told


def may_have_begun(begun, waited):
    """Whether a start whose answer was lost is one: there is a rollout."""
    return begun["standing"] == "unreachable" and waited["standing"] not in MAY_COME_BACK + ("none",)


class ActionModule(ActionBase):
    """One host's part."""

    def run(self, tmp=None, task_vars=None):
        result = super(ActionModule, self).run(tmp, task_vars)
        _spec, self.options = self.validate_argument_spec(
            {
                "name": {"type": "str", "required": True},
                "verdict": {"type": "path"},
                "services": {"type": "list", "elements": "str", "default": []},
                "options": {"type": "list", "elements": "str", "default": []},
                "despite_findings": {"type": "bool", "default": False},
                "resume": {"type": "bool", "default": False},
                "offline": {"type": "bool", "default": False},
                "mirror": {"type": "str"},
                "poll": {"type": "int", "default": 30},
                "lost": {"type": "int", "default": 600},
                "timeout": {"type": "int", "default": 5184000},
                "local_program": {"type": "path", "default": "heaptrial"},
                "program": {"type": "path", "default": "heaptrial"},
            }
        )
        if self._task.check_mode:
            return dict(result, skipped=True, changed=False)
        self.host = task_vars["inventory_hostname"]
        # Ansible removes it when the playbook ends.
        self.folder = os.path.join(C.DEFAULT_LOCAL_TMP, "heaptrial-" + self.options["name"])
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        self.check_local_program()
        begun = self.begin(task_vars)
        result.update(told_at_start(begun))
        if begun.get("nothing_to_do"):
            return dict(result, standing="none", nothing_to_do=True)
        waited = self.wait(begun, task_vars)
        return dict(result, changed=result["changed"] or may_have_begun(begun, waited), **waited)

    def check_local_program(self):
        """Begins nothing that could not be judged together."""
        done = self.run_local(["--version"])
        if done.returncode != 0:
            raise AnsibleActionFail("the hosts could not be judged together, and nothing was begun on this one: %s; install heaptrial "
                                    "on this machine, or name it with heaptrial_local_program" % done.stderr.strip())

    def run_local(self, words, said=None):
        """What the program of this machine does."""
        words = [self.options["local_program"]] + words
        try:
            return subprocess.run(words, input=said, capture_output=True, text=True, check=False)
        except OSError as error:
            return subprocess.CompletedProcess(words, 127, "", "cannot run %s: %s" % (words[0], error))

    def begin(self, task_vars):
        """Begins it or goes on with it."""
        words = ("verdict", "services", "options", "despite_findings", "resume", "offline", "mirror")
        return self.ask("started", task_vars, dict((word, self.options[word]) for word in words))

    def wait(self, begun, task_vars):
        """Looks until this host is complete, or all are to stop."""
        began = well = time.monotonic()
        while True:
            told = begun if begun["standing"] == "failed" else self.ask("judged", task_vars)
            now = time.monotonic()
            if told["standing"] in ON_ITS_WAY:
                well = now
            is_over = told["standing"] not in ON_ITS_WAY + MAY_COME_BACK or now - well > self.options["lost"]
            self.tell(told, is_over or told is begun)
            against = self.against()
            if against:
                return self.stop(told, against, task_vars)
            if told["standing"] == "complete":
                return {"standing": "complete"}
            if now - began > self.options["timeout"]:
                raise AnsibleActionFail("rollout %s is %s after %d s" % (self.options["name"], told["standing"], now - began))
            time.sleep(self.options["poll"])

    def ask(self, state, task_vars, further=None):
        """What the host tells of its rollout; a host that does not answer is told as such."""
        words = dict(further or {}, name=self.options["name"], program=self.options["program"], state=state)
        try:
            told = self._execute_module(module_name="heaptrial.fleet.rollout", module_args=words, task_vars=task_vars)
        except AnsibleConnectionFailure as error:
            # A host that was booted may have another one.
            self._connection._shell.tmpdir = None
            return {"standing": "unreachable", "why": str(error)}
        if told.get("unreachable"):
            return {"standing": "unreachable", "why": told.get("msg", "")}
        if told.get("failed"):
            return {"standing": "failed", "why": told.get("msg", "")}
        return told

    def tell(self, told, is_over):
        """Puts what this host sees where the others read it; what it saw last is not lost with its connection."""
        path = os.path.join(self.folder, self.host)
        judged = told.get("judged")
        if judged is None:
            judged = read(path).get("judged")
        over = "%s: rollout %s is %s%s" % (self.host, self.options["name"], told["standing"], because(told)) if is_over else None
        # No host's name begins with a dot.
        half = os.path.join(self.folder, "." + self.host)
        with open(half, "w") as file:
            json.dump({"judged": judged, "over": over}, file)
        os.rename(half, path)

    def against(self):
        """What speaks against going on, of all hosts."""
        names = [name for name in sorted(os.listdir(self.folder)) if not name.startswith(".")]
        told = [read(os.path.join(self.folder, name)) for name in names]
        over = [one["over"] for one in told if one["over"]]
        judged = [one["judged"] for one in told if one["judged"]]
        if over or not judged:
            return over
        done = self.run_local(["--json", "rollout", "judge", "--hosts", "-"], json.dumps(judged))
        if done.returncode not in (0, STOP, NOT_ENOUGH):
            return ["the hosts cannot be judged together: %s" % done.stderr.strip()]
        gate = json.loads(done.stdout)["gate"]
        return [reason["what"] for reason in gate["reasons"]] if gate["outcome"] == "stop" else []

    def stop(self, told, against, task_vars):
        """Pauses this host, so that it restarts nothing more, and tells how it stands once nothing is being restarted."""
        # A host that does not answer now may do so in a moment, and goes on then by itself.
        if told["standing"] in ("in progress",) + MAY_COME_BACK:
            paused = self.pause(task_vars)
            if paused["standing"] == "paused" or paused["standing"] in MAY_COME_BACK:
                how = "paused" if paused["standing"] == "paused" else "NOT paused (%s)" % paused.get("why", paused["standing"])
                words = "rollout %s of this host is %s, since %s" % (self.options["name"], how, "; ".join(against))
                return {"failed": True, "standing": paused["standing"], "reasons": against, "msg": words}
            if paused["standing"] != "none":
                # It came to its end by itself before it saw that it is to pause.
                told = self.ask("judged", task_vars)
                self.tell(told, told["standing"] != "complete")
                against = self.against() or against
        return {"failed": True, "standing": told["standing"], "reasons": against, "msg": "; ".join(against)}

    def pause(self, task_vars):
        """Tells the host to pause, and waits for its process, which brings to a known state what it restarts just then."""
        began = time.monotonic()
        while True:
            paused = self.ask("paused", task_vars)
            at_work = paused.get("rollout", {}).get("process_at_work", False)
            if not at_work or time.monotonic() - began > self.options["lost"]:
                return paused
            time.sleep(min(self.options["poll"], 1))


def read(path):
    """What a host told last."""
    try:
        with open(path) as file:
            return json.load(file)
    except (IOError, OSError):
        return {"judged": None, "over": None}


def because(told):
    """Why, where the host told it."""
    reasons = (told.get("judged") or {}).get("reasons") or []
    words = ["%s: %s" % (reason["service"], reason["what"]) if reason["service"] else reason["what"] for reason in reasons]
    return "".join(": " + text for text in ["; ".join(words) or told.get("why", "")] if text)
