"""When a host's clock is wrong."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import unittest

from ansible_collections.heaptrial.fleet.plugins.module_utils.clock import why_not


class Clock(unittest.TestCase):
    """A question at 1000 s, and its answer."""

    def test_is_right_somewhere_between_question_and_answer(self):
        # A host that is slow, or comes late among many, is not wrong for that.
        for clock in (970, 1000, 1300, 1600, 1630):
            self.assertIsNone(why_not(clock, 1000, 1600, 30))
        self.assertIn("31 s behind", why_not(969, 1000, 1600, 30))
        self.assertIn("31 s ahead of", why_not(1631, 1000, 1600, 30))


if __name__ == "__main__":
    unittest.main()
