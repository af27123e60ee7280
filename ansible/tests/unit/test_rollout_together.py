"""What one host's part does where all are to stop."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import shutil
import tempfile
import unittest

from ansible.errors import AnsibleActionFail
from ansible_collections.heaptrial.fleet.plugins.action.rollout_together import ActionModule, may_have_begun, told_at_start


class Part(ActionModule):
    """The part of a host that answers as it is told here, and keeps what it was asked."""

    def __init__(self, folder, answers=(), local_program="heaptrial"):
        self.options = {"name": "r", "lost": 600, "poll": 0, "local_program": local_program}
        self.host, self.folder = "a", folder
        self.answers, self.asked = dict(answers), []

    def ask(self, state, task_vars, further=None):
        self.asked.append(state)
        return self.answers[state]


class Stop(unittest.TestCase):
    """All hosts are to stop."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def stopped(self, standing, answers):
        part = Part(self.folder, answers)
        return part.asked, part.stop({"standing": standing}, ["b: rollout r is stopped"], {})

    def test_a_host_that_may_go_on_by_itself_is_paused(self):
        for standing in ("in progress", "cut short", "unreachable", "not begun"):
            asked, result = self.stopped(standing, {"paused": {"standing": "paused"}})
            self.assertEqual((asked, result["standing"]), (["paused"], "paused"))
            self.assertIn("is paused, since b: rollout r is stopped", result["msg"])

    def test_a_host_that_cannot_be_told_is_said_not_to_be_paused(self):
        _asked, result = self.stopped("cut short", {"paused": {"standing": "unreachable", "why": "no route"}})
        self.assertIn("NOT paused (no route)", result["msg"])

    def test_a_host_that_is_over_is_left_alone(self):
        for standing in ("complete", "stopped", "rolled back"):
            asked, result = self.stopped(standing, {})
            self.assertEqual((asked, result["standing"], result["msg"]), ([], standing, "b: rollout r is stopped"))

    def test_why_a_host_could_not_begin_is_kept(self):
        _asked, result = self.stopped("failed", {"paused": {"standing": "none"}})
        self.assertEqual((result["standing"], result["reasons"]), ("failed", ["b: rollout r is stopped"]))


class Start(unittest.TestCase):
    """What was said when a host began."""

    def test_warnings_are_those_of_the_task(self):
        begun = {"changed": True, "standing": "in progress", "warnings": ["mimalloc gives up what glibc does"]}
        self.assertEqual(told_at_start(begun), {"changed": True, "warnings": begun["warnings"]})
        self.assertEqual(told_at_start({"standing": "failed"}), {"changed": False})


    def test_a_start_whose_answer_was_lost_changed_something_if_there_is_a_rollout(self):
        lost = {"standing": "unreachable"}
        for standing, changed in (("complete", True), ("stopped", True), ("none", False), ("unreachable", False)):
            self.assertEqual(may_have_begun(lost, {"standing": standing}), changed)
        self.assertFalse(may_have_begun({"standing": "complete"}, {"standing": "complete"}))


class Folder(unittest.TestCase):
    """What the hosts tell each other."""

    def test_any_name_of_a_host_is_heard(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        other = Part(folder)
        other.host = "relay.new"
        other.tell({"standing": "stopped"}, True)
        self.assertEqual(Part(folder).against(), ["relay.new: rollout r is stopped"])


class LocalProgram(unittest.TestCase):
    """The machine that controls the hosts lacks the program."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def test_nothing_is_begun_without_it(self):
        Part(self.folder, local_program="true").check_local_program()
        for program in ("/no/heaptrial", "false"):
            part = Part(self.folder, local_program=program)
            self.assertRaisesRegex(AnsibleActionFail, "nothing was begun", part.check_local_program)
            self.assertEqual(part.asked, [])

    def test_all_hosts_stop_where_it_is_gone_later(self):
        part = Part(self.folder, local_program="/no/heaptrial")
        part.tell({"standing": "in progress", "judged": {"gate": {}}}, False)
        self.assertIn("cannot be judged together: cannot run /no/heaptrial", part.against()[0])


if __name__ == "__main__":
    unittest.main()
