"""
Where subcommands have a description from: a file, or etcd.
"""

from __future__ import annotations

import argparse
import getpass
import os
import socket

from iostats.base import config as site
from iostats.base.errors import one_line
from iostats.base.input_files import name_of
from iostats.cli.ldms.check import print_problems, print_warnings
from iostats.cli.parser import say
from iostats.etcd.client import Etcd, from_config
from iostats.ldms.description import read
from iostats.ldms.description.problems import DescriptionError
from iostats.ldms.description.read_members import etcd_members
from iostats.ldms.description_file import text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iostats.base.config import Config
    from iostats.ldms.description.normal import Description

ETCD_OPTIONS = ("--etcd", "--prefix", "--config")
ETCD_HELP = """\
  --etcd URL,URL   the members of etcd, such as http://mgmt1:2379, or Maestro's
                   etcd.yaml (default: [etcd] endpoints of site.cfg)
  --prefix NAME    the cluster's name in etcd (default: [etcd] prefix)
  --config FILE    the configuration (default: site.cfg)
"""


def etcd_of(options: argparse.Namespace) -> Etcd:
    """The Etcd of ETCD_OPTIONS and site.cfg; ConfigError."""
    return etcd_from(site.load(options.config), options.etcd, options.prefix)


def etcd_from(config: Config, etcd: str | None, prefix: str | None) -> Etcd:
    """The Etcd of site.cfg, with --etcd and --prefix instead where they are given; ConfigError."""
    if etcd and etcd.endswith((".yaml", ".yml")) and "://" not in etcd:
        etcd = ",".join(etcd_members(text_of(etcd), name_of(etcd)))
    return from_config(config, etcd, prefix, say)


def described(text: str, name: str) -> Description | None:
    """
    The Description in `text`; its warnings, or all problems and None, are told on standard error.
    """
    try:
        found, warnings = read.description(text, name)
    except DescriptionError as error:
        print_problems(error)
        return None
    print_warnings(warnings, name)
    return found


def who() -> str:
    """This user at this host, for the history."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):                            # an id without a name
        user = str(os.getuid())
    return one_line(f"{user}@{socket.gethostname().partition('.')[0]}")
