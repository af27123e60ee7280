"""What the module does about a rollout, by what the host reports of it."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import json
import tempfile
import unittest

from ansible_collections.heaptrial.fleet.plugins.modules import rollout


STANDINGS = [
    "not begun",
    "in progress",
    "paused",
    "stopped",
    "cut short",
    "complete",
    "complete but for waves that were rolled back",
    "being rolled back",
    "rolled back",
]


class Failed(Exception):
    """The module ended with an error."""


class Module:
    """What is asked for."""

    def __init__(self, **params):
        asked = {"state": "started", "resume": False, "wave": None, "verdict": None, "services": [], "options": []}
        asked.update({"force": None})
        self.params = dict(asked, **params)

    def fail_json(self, msg, **_more):
        raise Failed(msg)


def host(standing, stage="passed", services=None, **more):
    """What a host reports of a rollout of one wave."""
    found = {
        "rollout": "r",
        "standing": standing,
        "verdict": "0123",
        "process_at_work": False,
        "waves": [{"stage": stage, "names": ["a.service", "b.service"]}],
        "services": dict((name, {"stage": stage}) for name, stage in (services or {}).items()),
    }
    return dict(found, **more)


def done(found, **params):
    """The command by which the module brings about what is asked for; None where nothing is to be done."""
    words = rollout.what_is_missing(Module(**params), "r", found)
    return words and words[1]


class AWave(unittest.TestCase):
    """One wave that is put back."""

    def back(self, stage, services):
        return done(host("complete but for waves that were rolled back", stage, services), state="rolled_back", wave=1)

    def test_is_back_once_each_of_its_services_is(self):
        self.assertEqual(self.back("passed", {"a.service": "committed", "b.service": "committed"}), "rollback")
        for other in ("committed", "reverting", "revert_failed"):
            self.assertEqual(self.back("rolled_back", {"a.service": "reverted", "b.service": other}), "rollback")
        self.assertIsNone(self.back("rolled_back", {"a.service": "reverted", "b.service": "reverted"}))
        # Of one that was never changed the journal has nothing.
        self.assertIsNone(self.back("rolled_back", {"a.service": "reverted"}))
        self.assertIsNone(self.back("waiting", {}))


class Paused(unittest.TestCase):
    """A rollout that is to do nothing more."""

    def test_is_what_could_go_on_by_itself(self):
        told = dict((standing, done(host(standing), state="paused")) for standing in STANDINGS)
        self.assertEqual([standing for standing in STANDINGS if told[standing]], ["not begun", "in progress", "cut short"])


class Started(unittest.TestCase):
    """A rollout that is to be on its way."""

    def test_is_gone_on_with_where_nobody_works_on_it(self):
        for resume in (False, True):
            for standing in ("not begun", "cut short"):
                self.assertEqual(done(host(standing), resume=resume), "resume")
            for standing in ("in progress", "complete"):
                self.assertIsNone(done(host(standing), resume=resume))
        for standing in ("paused", "stopped"):
            self.assertEqual(done(host(standing), resume=True), "resume")
            self.assertRaises(Failed, done, host(standing))

    def test_is_none_that_goes_by_another_verdict(self):
        with tempfile.NamedTemporaryFile("w") as file:
            json.dump({"sha256": "0123"}, file)
            file.flush()
            for standing in ("in progress", "complete"):
                self.assertIsNone(done(host(standing), verdict=file.name))
                for other in ("4567", None):
                    self.assertRaisesRegex(Failed, "another name", done, host(standing, verdict=other), verdict=file.name)
        self.assertRaisesRegex(Failed, "cannot read", done, host("complete"), verdict=file.name)

    def test_is_begun_against_a_verdict_only_where_that_is_wanted(self):
        for reason in (None, "a pilot"):
            module = Module(verdict="v.json", services=["tor@*"], options=["--soak", "1d"], force=reason)
            words = rollout.what_is_missing(module, "r", None)
            self.assertEqual(words[2], "v.json")
            self.assertEqual("--force" in words and words[words.index("--force") + 1], reason or False)
            # Patterns take all words up to the next option.
            self.assertTrue(words[words.index("tor@*") + 1].startswith("--"))


if __name__ == "__main__":
    unittest.main()
