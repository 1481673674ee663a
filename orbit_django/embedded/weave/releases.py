"""Releases are admitted, and instances of them registered."""

from __future__ import annotations

from typing import Any

from orbit_django.embedded.weave.access import Caller, new_id
from orbit_django.embedded.weave.problems import ProblemError, forbidden, invalid, no_lease, not_found
from orbit_django.embedded.weave.records import ConnectionGrant, Instance, Release, capability_name
from orbit_django.embedded.weave.schemas import is_supported
from orbit_django.embedded.weave.state import State, timestamp
from orbit_django.embedded.weave.values import check_budget, digest

_PRESENCE_SECONDS = 60
_RESERVED = "weave-connector-"


class Releases:
    """The deployer's side, and registration."""

    def __init__(self, state: State) -> None:
        self._state = state

    def admit(self, caller: Caller, body: dict[str, Any]) -> dict[str, Any]:
        """Take in a release, or return the one that was taken in by the same request before."""
        caller.check("release.activate")
        check_budget(body)
        _check_capabilities(body)
        self._check_published(caller.scope, body["capabilities"])
        for known in self._state.releases.values():
            if (known.scope, known.image_digest) == (caller.scope, body["image_digest"]):
                if any(getattr(known, name) != value for name, value in body.items()):
                    raise ProblemError(409, "WV-RELEASE-CONFLICT")
                return release_view(known)
        release = Release(id=new_id(), scope=caller.scope, **body)
        self._state.save(release)
        self._state.commit()
        return release_view(release)

    def register(self, caller: Caller, body: dict[str, Any]) -> dict[str, Any]:
        """Make a new instance, with every call another one."""
        caller.check("worker.register", body["release_id"])
        release = self._state.releases.get(body["release_id"])
        if release is None or release.scope != caller.scope:
            raise no_lease()
        offered = {capability_name(one) for one in release.capabilities}
        names = body["task_types"]
        if len(set(names)) < len(names) or not set(names) <= offered:
            raise forbidden()
        caller.check("worker.register", *names)
        now = self._state.now()
        instance = Instance(id=new_id(), scope=caller.scope, principal_id=caller.principal.id, last_seen_at=now, **body)
        self._state.save(instance)
        self._state.commit()
        return instance_view(instance)

    def grant(self, caller: Caller, body: dict[str, Any]) -> dict[str, Any]:
        """Let a release use a connection for a capability."""
        caller.check("connection.manage")
        self._state.save(ConnectionGrant(**body))
        self._state.commit()
        return {"granted": True}

    def revoke_instance(self, caller: Caller, worker_id: str) -> dict[str, Any]:
        """Take every right from an instance."""
        caller.check("release.retire")
        instance = self._instance(caller, worker_id)
        instance.is_revoked = True
        self._state.save(instance)
        self._state.commit()
        return {"revoked": True}

    def show_release(self, caller: Caller, release_id: str) -> dict[str, Any]:
        """Return one release, for a viewer."""
        caller.check("worker.read")
        release = self._state.releases.get(release_id)
        if release is None or release.scope != caller.scope:
            raise not_found()
        return release_view(release)

    def show_instance(self, caller: Caller, worker_id: str) -> dict[str, Any]:
        """Return one instance with its presence, for a viewer."""
        caller.check("worker.read")
        instance = self._instance(caller, worker_id)
        leases = len(list(self._state.live_leases(worker_id)))
        ends_at = instance.last_seen_at + _PRESENCE_SECONDS
        return instance_view(instance) | {
            "revision": instance.revision,
            "draining": instance.is_draining,
            "presence": "online" if ends_at > self._state.now() else "stale",
            "last_seen_at": timestamp(instance.last_seen_at),
            "presence_expires_at": timestamp(ends_at),
            "presence_ttl_seconds": _PRESENCE_SECONDS,
            "active_leases": leases,
            "available_capacity": max(0, instance.capacity - leases),
        }

    def _instance(self, caller: Caller, worker_id: str) -> Instance:
        instance = self._state.instances.get(worker_id)
        if instance is None or instance.scope != caller.scope:
            raise not_found()
        return instance

    def _check_published(self, scope: str, capabilities: list[dict[str, Any]]) -> None:
        """Refuse a contract that differs from one of the same name anywhere in the project."""
        project = _project(scope)
        published = {
            capability_name(one): one
            for release in self._state.releases.values()
            if _project(release.scope) == project
            for one in release.capabilities
        }
        for one in capabilities:
            known = published.get(capability_name(one))
            if known is not None and digest(known) != digest(one):
                raise ProblemError(409, "WV-CAPABILITY-CONFLICT")


def _project(scope: str) -> str:
    return scope.rpartition("/")[0]


def _check_capabilities(body: dict[str, Any]) -> None:
    names = [capability_name(one) for one in body["capabilities"]]
    if len(set(names)) < len(names) or not set(body["credential_capabilities"]) <= set(names):
        raise invalid()
    if any(name.startswith(_RESERVED) for name in names) and not body["connector_bindings"]:
        raise ProblemError(422, "WV-CONNECTION")
    if not all(is_supported(one[name]) for one in body["capabilities"] for name in ("inputSchema", "outputSchema")):
        raise ProblemError(422, "WV-CAPABILITY-SCHEMA")


def release_view(release: Release) -> dict[str, Any]:
    """Return a release as the wire shows it."""
    shown = {
        "id": release.id,
        "image_digest": release.image_digest,
        "capabilities": release.capabilities,
        "credential_capabilities": release.credential_capabilities,
    }
    return shown | ({"connector_bindings": release.connector_bindings} if release.connector_bindings else {})


def instance_view(instance: Instance) -> dict[str, Any]:
    """Return an instance as registration shows it."""
    return {
        "id": instance.id,
        "principal_id": instance.principal_id,
        "release_id": instance.release_id,
        "task_types": instance.task_types,
        "capacity": instance.capacity,
        "revoked": instance.is_revoked,
    }
