"""Harbor's own environment for podman, with boxes that have no network at all.

Harbor's guard of the network is a second image, which it builds from a registry. Imported by Harbor's Python, not by the tests'.
"""

from harbor.environments.docker import COMPOSE_NO_NETWORK_PATH
from harbor.environments.podman import PodmanEnvironment


class NoNetwork(PodmanEnvironment):
    @property
    def capabilities(self):
        return super().capabilities.model_copy(update={"disable_internet": True})

    @property
    def _docker_compose_paths(self):
        return [*super()._docker_compose_paths, COMPOSE_NO_NETWORK_PATH]
