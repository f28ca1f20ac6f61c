# SPDX-License-Identifier: Apache-2.0
"""The objects of a scripted Kubernetes API, of any kind, with resourceVersion, preconditions and watches.

`Objects` knows no HTTP: admin.py answers requests with it, and tests prepare and examine the cluster with it.
"""

import copy
import random
import threading
import urllib.parse
import uuid

from common import pki
from common.apiserver import Reply, expired_event, status
from common.csrs import timestamp

# Seconds; less than LOOK_MS of decision.c, so that a test still shows that the controller is told and need not look.
PATIENCE = 18
# Resources whose kind is not the name without its last letter.
KINDS = {"certificatesigningrequests": "CertificateSigningRequest", "clusterrolebindings": "ClusterRoleBinding",
         "clusterroles": "ClusterRole", "configmaps": "ConfigMap", "endpoints": "Endpoints", "endpointslices": "EndpointSlice",
         "rolebindings": "RoleBinding", "serviceaccounts": "ServiceAccount"}
SUFFIX = "bcdfghjklmnpqrstvwxz2456789"      # of generateName


class Refusal(Exception):
    """An answer with a Status."""

    def __init__(self, code, reason, message, **details):
        super().__init__(message)
        self.reply = status(code, reason, message, **details)


class Place:
    """Where a request goes to: /api/v1/namespaces/NAMESPACE/RESOURCE/NAME/SUBRESOURCE and its shorter forms."""

    def __init__(self, path):
        words = [urllib.parse.unquote(word) for word in path.strip("/").split("/")]
        count = {"api": 2, "apis": 3}.get(words[0], len(words))
        self.group = words[1] if words[0] == "apis" and len(words) > 2 else ""
        self.version = "/".join(words[1:count])         # apiVersion
        rest = words[count:]
        self.namespace = None
        if len(rest) > 2 and rest[0] == "namespaces":
            self.namespace, rest = rest[1], rest[2:]
        self.resource, self.name, self.subresource = (*rest, None, None, None)[:3]
        self.qualified = f"{self.resource}.{self.group}" if self.group else self.resource
        self.full = "/".join(filter(None, (self.resource, self.subresource)))

    @property
    def kind(self):
        return KINDS.get(self.resource, self.resource[:-1].capitalize())

    def missing(self):
        return Refusal(404, "NotFound", f'{self.qualified} "{self.name}" not found', name=self.name, kind=self.resource,
                       **({"group": self.group} if self.group else {}))

    def conflict(self, why):
        return Refusal(409, "Conflict", f'Operation cannot be fulfilled on {self.qualified} "{self.name}": {why}', name=self.name,
                       kind=self.resource)


def get_field(obj, path):
    for word in path.split("."):
        obj = obj.get(word, {}) if isinstance(obj, dict) else {}
    return obj if isinstance(obj, str) else ""


def selects(selector, obj):
    """A fieldSelector: "type=x,metadata.name!=y"."""
    for term in filter(None, (selector or "").split(",")):
        name, _, value = term.replace("==", "=").partition("=")
        if (get_field(obj, name.rstrip("!")) == value) == name.endswith("!"):
            return False
    return True


def merge(target, patch):
    """A JSON merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = merge(target.get(key), value)
    return target


class Objects:
    def __init__(self, stopping):
        self._stopping = stopping
        self._changed = threading.Condition(threading.RLock())
        self._log = []              # (resourceVersion, event type, key, snapshot)
        self._objects = {}          # (group, resource, namespace, name) -> object
        self.version = 1000
        self.oldest = 1000          # older versions are answered with 410
        self.bookmark_after = 0.2   # seconds without an event
        self.on_change = []         # callables(type, object), after each change

    # What tests call.

    def put(self, path, obj=None, **fields):
        """Creates or replaces the object at this path, as another client would."""
        place, obj = Place(path), merge(copy.deepcopy(obj or {}), fields)
        with self._changed:
            old = self._objects.get(self._key(place, place.name))
            if old is None:
                return self.create(place, merge(obj, {"metadata": {"name": place.name}}))
            obj.setdefault("metadata", {}).pop("resourceVersion", None)
            return self._store(place, merge(obj, {"metadata": {k: old["metadata"][k] for k in ("name", "uid", "creationTimestamp")}}))

    def look(self, path):
        """A copy of the object at this path, or None."""
        place = Place(path)
        with self._changed:
            return copy.deepcopy(self._objects.get(self._key(place, place.name)))

    def all(self, path):
        """Copies of the objects of one resource, in one or all namespaces, by name."""
        with self._changed:
            return [copy.deepcopy(obj) for _, obj in self._matching(Place(path))]

    def remove(self, path):
        self.delete(Place(path), {})

    def compact(self):
        """Forgets old versions: watches and lists that continue from them are answered with 410."""
        with self._changed:
            self.oldest = self.version
            self._changed.notify_all()

    def wait(self, condition, timeout=PATIENCE):
        """Waits until condition() is true; called again after each change. Returns its result."""
        with self._changed:
            result = self._changed.wait_for(condition, timeout)
            assert result, "the cluster never came into the expected state"
            return result

    def wake(self):
        with self._changed:
            self._changed.notify_all()

    # What the API does.

    @staticmethod
    def _key(place, name):
        return place.group, place.resource, place.namespace or "", name

    def _matching(self, place, selector=None):
        """(key, object) in the order of lists; without a namespace, of all of them."""
        found = [(key, obj) for key, obj in self._objects.items() if key[:2] == (place.group, place.resource) and
                 place.namespace in (None, key[2]) and selects(selector, obj)]
        return sorted(found, key=lambda item: item[0])

    def _find(self, place):
        obj = self._objects.get(self._key(place, place.name))
        if obj is None:
            raise place.missing()
        return obj

    def _store(self, place, obj, kind="MODIFIED"):
        key = self._key(place, obj["metadata"]["name"])
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        if kind == "DELETED":
            del self._objects[key]
        else:
            self._objects[key] = obj
        self._log.append((self.version, kind, key, copy.deepcopy(obj)))
        self._changed.notify_all()
        for callback in self.on_change:
            callback(kind, copy.deepcopy(obj))
        return copy.deepcopy(obj)

    def create(self, place, obj, user=None, groups=()):
        obj = copy.deepcopy(obj)
        metadata = obj.setdefault("metadata", {})
        with self._changed:
            if not metadata.get("name"):
                if not metadata.get("generateName"):
                    raise Refusal(422, "Invalid", f'{place.kind} "" is invalid: metadata.name: Required value')
                metadata["name"] = metadata["generateName"] + "".join(random.choices(SUFFIX, k=5))
            if self._key(place, metadata["name"]) in self._objects:
                raise Refusal(409, "AlreadyExists", f'{place.qualified} "{metadata["name"]}" already exists', name=metadata["name"],
                              kind=place.resource)
            metadata.setdefault("creationTimestamp", timestamp())
            metadata["uid"] = metadata.get("uid") or str(uuid.uuid4())
            if place.namespace:
                metadata["namespace"] = place.namespace
            obj.update(kind=place.kind, apiVersion=place.version)
            for key, text in obj.pop("stringData", {}).items():
                obj.setdefault("data", {})[key] = pki.base64.b64encode(text.encode()).decode()
            if place.resource == "certificatesigningrequests" and user:
                obj["spec"].update(username=user, groups=list(groups))
            return self._store(place, obj, "ADDED")

    def get(self, place):
        with self._changed:
            return copy.deepcopy(self._find(place))

    def _check(self, place, old, metadata, why):
        if metadata.get("uid") not in (None, old["metadata"]["uid"]):
            raise place.conflict(f'Precondition failed: UID in precondition: {metadata["uid"]}, UID in object meta: {old["metadata"]["uid"]}')
        if metadata.get("resourceVersion") not in (None, "", old["metadata"]["resourceVersion"]):
            raise place.conflict(why)

    def update(self, place, obj, is_patch):
        """PUT, or PATCH with a merge patch. Of a subresource only the status is taken."""
        with self._changed:
            old = self._find(place)
            self._check(place, old, obj.get("metadata") or {},
                        "the object has been modified; please apply your changes to the latest version and try again")
            new = merge(old, obj) if is_patch else copy.deepcopy(obj)
            if place.subresource:
                new = {**copy.deepcopy(old), "status": new.get("status", {})}
            if place.subresource == "approval":
                for condition in new["status"].get("conditions", []):
                    condition.setdefault("lastUpdateTime", timestamp())
            new["metadata"] = {**new.get("metadata", {}),
                               **{key: old["metadata"][key] for key in ("name", "namespace", "uid", "creationTimestamp") if key in old["metadata"]}}
            return self._store(place, new)

    def delete(self, place, options):
        with self._changed:
            old = self._find(place)
            self._check(place, old, options.get("preconditions") or {}, "Precondition failed: ResourceVersion in precondition")
            uid = old["metadata"]["uid"]
            self._store(place, old, "DELETED")
            for key, obj in list(self._objects.items()):        # what Kubernetes' garbage collector does
                if any(owner["uid"] == uid for owner in obj["metadata"].get("ownerReferences", ())):
                    owned = Place("/apis/" + obj["apiVersion"]) if "/" in obj["apiVersion"] else Place("/api/" + obj["apiVersion"])
                    owned.resource, owned.namespace = key[1], key[2]
                    self._store(owned, obj, "DELETED")

    def list(self, place, query):
        limit, after = int(query.get("limit") or 0), None
        with self._changed:
            version = self.version
            if query.get("continue"):
                version, after = pki.json.loads(pki.base64.urlsafe_b64decode(query["continue"] + "=="))
                if version < self.oldest:
                    reply = status(410, "Expired", "The provided continue parameter is too old to display a consistent list result.")
                    document = pki.json.loads(reply.body)
                    document["metadata"]["continue"] = pki.b64url(pki.json.dumps([self.version, after]).encode())
                    return Reply(410, pki.compact(document), reply.headers)
            found = [(key, obj) for key, obj in self._matching(place, query.get("fieldSelector")) if after is None or list(key) > after]
            metadata = {"resourceVersion": str(version)}
            if limit and len(found) > limit:
                metadata["remainingItemCount"] = len(found) - limit
                found = found[:limit]
                metadata["continue"] = pki.b64url(pki.json.dumps([version, found[-1][0]]).encode())
            items = [{key: value for key, value in obj.items() if key not in ("kind", "apiVersion")} for _, obj in found]
            return Reply(200, pki.compact({"kind": place.kind + "List", "apiVersion": place.version, "metadata": metadata, "items": items}))

    def watch(self, place, query):
        """The lines of a watch, as an API server writes them. No lock is held while one is sent: the connection may have ended."""
        selector, version = query.get("fieldSelector"), int(query.get("resourceVersion") or 0)
        position, present = 0, []
        with self._changed:
            if version == 0:
                position, version = len(self._log), self.version
                present = [obj for _, obj in self._matching(place, selector)]
        for obj in present:
            yield pki.compact({"type": "ADDED", "object": obj})
        while not self._stopping.is_set():
            with self._changed:
                oldest = self.oldest
                events = [entry for entry in self._log[position:] if entry[0] > version]
                position = len(self._log)
                # A change while the lock was awaited again is not behind a bookmark.
                if not events and version >= oldest and not self._changed.wait(self.bookmark_after) and len(self._log) == position and \
                        query.get("allowWatchBookmarks") == "true":
                    version = max(version, self.version)
                    events = [(version, "BOOKMARK", None, {"kind": place.kind, "apiVersion": place.version,
                                                           "metadata": {"resourceVersion": str(version), "creationTimestamp": None}})]
            if version < oldest:
                yield pki.compact(expired_event(version, oldest))
                return
            for version, kind, key, obj in events:
                if key is None or (key[:2] == (place.group, place.resource) and place.namespace in (None, key[2]) and selects(selector, obj)):
                    yield pki.compact({"type": kind, "object": obj})
