"""Pods of manifests as containers: what a kubelet makes of a StatefulSet or a Job, as far as ours use it.

Commands, variables, mounts, users, rights, limits of memory, probes and hooks are taken from the manifests. A
pod is one container, found by its name and by its name below the headless service. There is no scheduler, no
policy of networks, and nothing is started again by itself.
"""

from __future__ import annotations

import json
import re
import secrets
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from herdpy.testing.process import await_until
from tests.images.engine import BASE, PATIENCE_S, Engine

Manifest = dict[str, Any]
Objects = Mapping[tuple[str, str], Manifest]
_MEMORY = {"Mi": "m", "Gi": "g"}


class PodCluster:
    """The objects of manifests on one network.

    Attributes:
        images: the engine.
        secrets: by name what is mounted of a secret: file names and texts.
    """

    def __init__(
        self, images: Engine, objects: Objects, directory: Path, given: Mapping[str, Mapping[str, str]]
    ) -> None:
        self.images, self.secrets = images, given
        self._objects, self._directory = objects, directory
        self._network = f"pods-{secrets.token_hex(4)}"
        images.run("network", "create", self._network)

    def close(self) -> None:
        """Remove the pods, their volumes and the network."""
        self.images.close()

    def pods(self, name: str) -> list[str]:
        """The pods of a StatefulSet."""
        count = self._objects["StatefulSet", name]["spec"]["replicas"]
        return [f"{name}-{number}" for number in range(count)]

    def run_job(self, name: str) -> None:
        """Run a job to its end; AssertionError where it fails."""
        template = self._objects["Job", name]["spec"]["template"]["spec"]
        (container,) = template["containers"]
        self.images.run("run", "--rm", *self._options(name, template, container, {}))

    def start(self, pod: str) -> None:
        """Make a pod, with the volumes that it had if it was there, and run the hook after its start."""
        own, template, container = self._parts(pod)
        claims = {one["metadata"]["name"]: pod for one in own["volumeClaimTemplates"]}
        for name in claims:
            self._provide(f"{pod}-{name}", template["securityContext"]["fsGroup"])
        for first in template.get("initContainers", ()):
            self.images.run("run", "--rm", *self._options(pod, template, first, claims, prefix="init-"))
        service = f"{pod}.{own['serviceName']}.herdpy.svc.cluster.local"
        network = f"--network={self._network}:alias={service}"
        self.images.run("run", "--detach", network, *self._options(pod, template, container, claims))
        hook = container.get("lifecycle", {}).get("postStart")
        if hook is not None:
            self.images.run("exec", pod, *hook["exec"]["command"])

    def _provide(self, volume: str, group: int) -> None:
        """A volume as a new disk is: with lost+found, and for the pod's group (fsGroup)."""
        if self.images.run("volume", "exists", volume, check=False).returncode != 0:
            script = f"mkdir -m 0700 /v/lost+found && chgrp {group} /v && chmod 2775 /v"
            self.images.run("run", "--rm", f"--volume={volume}:/v", BASE, "sh", "-c", script)

    def stop(self, pod: str) -> int:
        """End a pod as a kubelet does: the hook, SIGTERM, and the time that it has; its exit code."""
        _own, template, container = self._parts(pod)
        hook = container.get("lifecycle", {}).get("preStop")
        if hook is not None:
            self.images.run("exec", pod, *hook["exec"]["command"])
        self.images.run("stop", "--time", template["terminationGracePeriodSeconds"], pod)
        code: int = self.images.state(pod)["State"]["ExitCode"]
        self.images.run("rm", pod)
        return code

    def await_ready(self, pod: str) -> None:
        """Until all of its probes say so."""
        _own, _template, container = self._parts(pod)
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            passes = lambda found=container[probe]: self._passes(pod, container, found)  # noqa: E731
            assert await_until(passes, PATIENCE_S), f"{probe} of {pod}: {self.images.logs(pod)}"

    def address(self, pod: str) -> str:
        """Its address on the network of these containers."""
        found: str = self.images.state(pod)["NetworkSettings"]["Networks"][self._network]["IPAddress"]
        return found

    def _parts(self, pod: str) -> tuple[Manifest, Manifest, Manifest]:
        own = self._objects["StatefulSet", pod.rpartition("-")[0]]["spec"]
        template = own["template"]["spec"]
        (container,) = template["containers"]
        return own, template, container

    def _passes(self, pod: str, container: Manifest, probe: Manifest) -> bool:
        if "exec" in probe:
            return self.images.run("exec", pod, *probe["exec"]["command"], check=False).returncode == 0
        ports = {one["name"]: one["containerPort"] for one in container["ports"]}
        place = (self.address(pod), ports[(probe.get("tcpSocket") or probe["httpGet"])["port"]])
        try:
            if "tcpSocket" in probe:
                socket.create_connection(place, timeout=3).close()
            else:
                url = f"http://{place[0]}:{place[1]}{probe['httpGet']['path']}"
                urllib.request.urlopen(url, timeout=3).close()
        except (OSError, urllib.error.URLError):
            return False
        return True

    def _options(
        self, pod: str, template: Manifest, container: Manifest, claims: Mapping[str, str], prefix: str = ""
    ) -> list[str]:
        """What `podman run` takes for a container of a pod."""
        whole, own = template["securityContext"], container["securityContext"]
        assert own["readOnlyRootFilesystem"]
        assert not own["allowPrivilegeEscalation"]
        amount = re.fullmatch(r"(\d+)(Mi|Gi)", container["resources"]["limits"]["memory"])
        assert amount is not None
        options = [
            f"--name={prefix}{pod}", f"--hostname={pod}", "--read-only", "--cap-drop=ALL",
            "--security-opt=no-new-privileges", f"--user={whole['runAsUser']}:{whole['runAsGroup']}",
            f"--memory={amount[1]}{_MEMORY[amount[2]]}",
        ]  # fmt: skip
        if prefix or not claims:
            options.append(f"--network={self._network}")
        options += self._mounts(template, container, claims)
        options += [f"--env={name}={value}" for name, value in environment(pod, container).items()]
        if "command" in container:
            options.append(f"--entrypoint={json.dumps(container['command'])}")
        return [*options, container["image"], *container.get("args", ())]

    def _mounts(self, template: Manifest, container: Manifest, claims: Mapping[str, str]) -> list[str]:
        volumes = {one["name"]: one for one in template["volumes"]}
        found = []
        for mount in container["volumeMounts"]:
            name, path = mount["name"], mount["mountPath"]
            if name in claims:
                found.append(f"--volume={claims[name]}-{name}:{path}")
            elif "emptyDir" in volumes[name]:
                found.append(f"--tmpfs={path}:mode=1777")
            else:
                source = self._files(volumes[name])
                found.append(f"--volume={source / mount.get('subPath', '')}:{path}:ro")
        return found

    def _files(self, volume: Manifest) -> Path:
        """A directory with what a ConfigMap or a secret has."""
        if "configMap" in volume:
            name = volume["configMap"]["name"]
            texts = self._objects["ConfigMap", name]["data"]
        else:
            name = volume["secret"]["secretName"]
            texts = self.secrets[name]
        place = self._directory / name
        place.mkdir(exist_ok=True)
        for file, text in texts.items():
            (place / file).write_text(text)
        return place


def environment(pod: str, container: Manifest) -> dict[str, str]:
    """The variables of a container, in their order: later ones may name earlier ones."""
    found: dict[str, str] = {}
    for one in container.get("env", ()):
        if "value" in one:
            value = str(one["value"])
            found[one["name"]] = re.sub(r"\$\((\w+)\)", lambda match: found[match[1]], value)
        else:
            assert one["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
            found[one["name"]] = pod
    return found
