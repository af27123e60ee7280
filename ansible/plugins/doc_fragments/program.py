"""Options that modules share."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type


class ModuleDocFragment(object):
    """The program of a host, and where it takes allocators from."""

    DOCUMENTATION = r"""
options:
  program:
    description: The program.
    type: path
    default: heaptrial
"""

    SOURCES = r"""
options:
  offline:
    description: Use only what is on the host.
    type: bool
    default: false
  mirror:
    description: Where sources of allocators are cloned from, instead of upstream.
    type: str
"""
