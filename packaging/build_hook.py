"""
Hatchling's build hook: adds man pages and shell completion to the wheel, and to wheel and source
distribution the commit, so that `iostats --version` can print it where there is no git checkout.
"""

import os
import sys
import tempfile

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface):
    def initialize(self, version, build_data):
        if self.target_name not in ("wheel", "sdist") or version == "editable":
            return
        self.temporary = tempfile.TemporaryDirectory()
        if self.target_name == "wheel":
            self._add_pages(build_data)
        sys.path.insert(0, self.root)
        from iostats.base.version import COMMIT_FILE, find_commit
        path = os.path.join(self.temporary.name, COMMIT_FILE)
        with open(path, "w", encoding="ascii") as file:
            file.write(find_commit() + "\n")
        build_data["force_include"][path] = os.path.join("iostats", COMMIT_FILE)

    def _add_pages(self, build_data):
        """Man pages and shell completion, made from the documents."""
        sys.path.insert(0, os.path.join(self.root, "packaging"))
        import pages
        share = os.path.join(self.temporary.name, "share")
        for path in pages.write_below(share):
            build_data["shared_data"][path] = os.path.join("share", os.path.relpath(path, share))

    def finalize(self, version, build_data, artifact_path):
        if hasattr(self, "temporary"):
            self.temporary.cleanup()
