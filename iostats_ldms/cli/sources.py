"""
Options and functions shared by the subcommands that read a description or etcd.
"""

from __future__ import annotations

import getpass
import os
import socket

from iostats.base import config as site
from iostats.base.config import Config
from iostats.base.errors import sanitize
from iostats.base.input_files import format_input_name
from iostats.base.messages import print_message
from iostats.cli import CONFIG, Options, option
from iostats.etcd.client import Etcd, from_config
from iostats_ldms.cli.check import print_problems, print_warnings
from iostats_ldms.description import read
from iostats_ldms.description.model import Description
from iostats_ldms.description.problems import DescriptionError
from iostats_ldms.description.read import read_etcd_members, read_text


class EtcdOptions(Options):
    """The options of a subcommand that reads or writes etcd."""

    etcd = option("--etcd URL,URL",
                  "the members of etcd, such as http://mgmt1:2379, or Maestro's etcd.yaml "
                  "(default: [etcd] endpoints of site.cfg)")
    prefix = option("--prefix NAME", "the cluster's name in etcd (default: [etcd] prefix)")
    config = CONFIG


def open_etcd_by_options(options: EtcdOptions) -> Etcd:
    """Make the Etcd of the options and site.cfg; ConfigError."""
    return open_etcd(site.load(options.config), options.etcd, options.prefix)


def open_etcd(config: Config, etcd: str | None, prefix: str | None) -> Etcd:
    """Make the Etcd of site.cfg, overridden by --etcd and --prefix; ConfigError."""
    if etcd and etcd.endswith((".yaml", ".yml")) and "://" not in etcd:
        etcd = ",".join(read_etcd_members(read_text(etcd), format_input_name(etcd)))
    return from_config(config, etcd, prefix, print_message)


def parse_description(text: str, name: str) -> Description | None:
    """Parse a description; print its warnings, or all problems and return None if it is invalid."""
    try:
        result, warnings = read.read_description(text, name)
    except DescriptionError as error:
        print_problems(error)
        return None
    print_warnings(warnings, name)
    return result


def find_current_user() -> str:
    """Return this user and host, for the history."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):                            # an id without a name
        user = str(os.getuid())
    return sanitize(f"{user}@{socket.gethostname().partition('.')[0]}")
