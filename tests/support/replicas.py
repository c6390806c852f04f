"""A model as a server of a cluster sees it, without the cluster: what crosses to a replica and back is pickled, as it is on the way."""

import asyncio
import pickle

import pytest


def behind_a_replica(model, *, slowness_s=0.0, deadline_s=5):
    """A model that a server asks through calls to a replica: small requests share them."""
    deployments = pytest.importorskip("hf_albert_plus.serving.deployments")
    replica = deployments.ModelReplica.__new__(deployments.ModelReplica)
    replica.model = model

    class Answer:
        async def remote(self, requests):
            await asyncio.sleep(slowness_s)
            answers = await replica.answer(pickle.loads(pickle.dumps(requests)))
            return pickle.loads(pickle.dumps(answers))

    class Handle:
        answer = Answer()

    return deployments.RemoteModel(Handle(), model.facts, replicas=1, deadline_s=deadline_s)
