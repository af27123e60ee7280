"""Whether a host's clock is that of the machine that controls it."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type


def why_not(clock, asked, answered, allowed):
    """What is wrong with a host's clock that showed C(clock) somewhere between question and answer; None where it is right."""
    ahead = max(clock - answered, min(clock - asked, 0))
    if abs(ahead) <= allowed:
        return None
    how = "ahead of" if ahead > 0 else "behind"
    return "its clock is %d s %s this machine's: what is measured would have wrong times; set it, or allow more with heaptrial_clock_seconds" % (
        abs(ahead),
        how,
    )
