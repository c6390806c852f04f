"""Models as deployments of Ray Serve, in processes of their own or on machines of their own: the way to serve from several."""

from typing import Any

from ..errors import InvalidInput, need
from .catalogue import AskableModel
from .cluster import join, leave, ray_library
from .repository import ServedModel
from .settings import ServeSettings

_POLL_S = 0.1


class ClusterHost:
    """Has Ray Serve run models. Its own proxy would be a process more on the way of every request, and is not used."""

    def __init__(self, settings: ServeSettings, *, replicas: int, address: str | None):
        """
        Args:
            replicas: processes of each model.
            address: address of a Ray cluster to join; None for a cluster of its own, on loopback.
        """
        self.settings, self.replicas, self.address = settings, replicas, address

    def start(self) -> None:
        """Starts or joins the cluster.

        Raises:
            InvalidInput: Ray is not installed, or nobody answers at the address.
        """
        serve: Any = ray_library("ray.serve", extra="cluster", address=self.address)
        join(self.address)
        serve.start(proxy_location="Disabled")

    def open(self, model: ServedModel) -> AskableModel:
        """The model, whose replicas are warm.

        Raises:
            InvalidInput: it is not fit to serve.
        """
        from .deployments import ModelReplica, RemoteModel

        serve, settings = _ray_serve(), self.settings
        deployment = serve.deployment(ModelReplica).options(
            name=model.name,
            num_replicas=self.replicas,
            max_ongoing_requests=10_000,
            ray_actor_options={"num_cpus": 0},
            health_check_period_s=2,
            health_check_timeout_s=10,
            graceful_shutdown_timeout_s=settings.deadline_s,
            graceful_shutdown_wait_loop_s=_POLL_S,
        )
        application = deployment.bind(str(model.directory), model.runtime, settings, model.content)
        try:
            serve.run(application, name=model.application, route_prefix=None)
        except RuntimeError:
            why = _last_words(serve.status().applications[model.application])
            serve.delete(model.application)
            raise InvalidInput(
                f"{model.directory} must open in the processes that serve it",
                got=why,
                repair="mend that, and move it in again",
            ) from None
        handle = serve.get_app_handle(model.application)
        facts = handle.facts.remote().result()
        return RemoteModel(handle, facts, replicas=self.replicas, deadline_s=settings.deadline_s)

    def close(self, model: ServedModel) -> None:
        """Ends the replicas of a model, once they have answered what they have."""
        _ray_serve().delete(model.application)

    def end(self) -> None:
        _ray_serve().shutdown()
        leave()


def _ray_serve() -> Any:
    return need("ray.serve", extra="cluster")


def _last_words(application: Any) -> str:
    """What the replicas of an application that did not start failed with: the last line of their traceback."""
    messages = [deployment.message for deployment in application.deployments.values()]
    lines = [line for message in messages for line in message.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else str(application.message)
