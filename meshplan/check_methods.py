"""Methods of both clients for capacity checks: of a job, and of checks that the server keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from meshplan.client_methods import call, listing
from meshplan.request_steps import Flow, Pages, RequestSteps, present
from meshplan.server_records import CheckStatus, JsonObject, Visibility


class CheckMethods(RequestSteps):
    """Checks that are answered only, checks that the server keeps, and their histories."""

    @call
    def check(
        self,
        job: Mapping[str, Any],
        *,
        budget: Mapping[str, Any] | None = None,
        baseline: Mapping[str, Any] | None = None,
        pin: bool = False,
        hardware_profile: Mapping[str, Any] | None = None,
        calibration: Mapping[str, Any] | None = None,
    ) -> Flow[JsonObject]:
        """Compares the job with a budget, an earlier answer or both; ``status`` and ``exit_code`` are as in ``meshplan check``.

        Give ``hardware_profile`` and ``calibration`` in full if the job names one that the server does not have.
        """
        parts = {"hardware_profile": hardware_profile, "calibration": calibration}
        held = present({"budget": budget, "baseline": baseline, **parts})
        return self._json("POST", "/v1/checks", {**job, **held, "pin": pin})

    @call
    def keep_check(
        self,
        job: Mapping[str, Any],
        name: str,
        *,
        budget: Mapping[str, Any] | None = None,
        baseline: Mapping[str, Any] | None = None,
        pin: bool = False,
        hardware_profile: Mapping[str, Any] | None = None,
        calibration: Mapping[str, Any] | None = None,
        commit: str | None = None,
        branch: str | None = None,
        change_url: str | None = None,
        taken_from: Mapping[str, str] | None = None,
        baseline_name: str | None = None,
        visibility: Visibility = "private",
        idempotency_key: str | None = None,
    ) -> Flow[JsonObject]:
        """Run a check on the server and keep it in the history ``name``: ``id``, ``status``, ``check``.

        ``commit``, ``branch`` and ``change_url`` name the change; ``taken_from`` says where each of these values comes from.
        """
        change = {"commit": commit, "branch": branch, "change_url": change_url, "baseline_name": baseline_name}
        said = {"name": name, "visibility": visibility, "taken_from": {**(taken_from or {})}, **present(change)}
        parts = {"hardware_profile": hardware_profile, "calibration": calibration}
        held = present({"budget": budget, "baseline": baseline, **parts})
        headers = {"Idempotency-Key": idempotency_key or uuid4().hex}
        return self._json("POST", "/v1/checks:keep", {**job, **held, "pin": pin, "history": said}, headers)

    @listing
    def checks(
        self,
        *,
        name: str | None = None,
        branch: str | None = None,
        status: CheckStatus | None = None,
        owner: str | None = None,
        archived: bool | None = False,
    ) -> Pages[JsonObject]:
        """Kept checks, newest first; ``archived`` True lists the archived ones, None all."""
        wanted = {"name": name, "branch": branch, "status": status, "owner": owner}
        return self._items("/v1/checks", {**wanted, "archived": {None: "any", True: "true"}.get(archived)})

    @listing
    def histories(self) -> Pages[JsonObject]:
        """Histories of checks, each with its last check; the one with the newest check first."""
        return self._items("/v1/histories")

    @call
    def kept_check(self, check_id: str) -> Flow[JsonObject]:
        """One kept check with the whole answer."""
        return self._json("GET", f"/v1/checks/{check_id}")

    @call
    def change_check(
        self, check_id: str, *, archived: bool | None = None, visibility: Visibility | None = None
    ) -> Flow[JsonObject]:
        """Archives or shares a kept check; None leaves a value unchanged."""
        return self._json("PATCH", f"/v1/checks/{check_id}", present({"archived": archived, "visibility": visibility}))

    @call
    def delete_check(self, check_id: str) -> Flow[None]:
        """Deletes a kept check."""
        yield from self._request("DELETE", f"/v1/checks/{check_id}")
