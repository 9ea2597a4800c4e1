"""The build hook of wheels: every wheel contains the documentation site; an editable install builds none."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

IN_WHEEL = "meshplan/_tree/app/static/docs"


class SiteHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds the site in a temporary folder, so that tests never read half of a checkout's site."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self._scratch = tempfile.TemporaryDirectory()
        site = Path(self._scratch.name) / "site"
        found = importlib.util.spec_from_file_location("build_site", Path(self.root) / "scripts/packaging/build_site.py")
        assert found is not None
        assert found.loader is not None
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        module.build(site)
        build_data["force_include"][str(site)] = IN_WHEEL

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self._scratch.cleanup()
