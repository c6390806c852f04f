"""What we change or read inside other people's libraries is there as we rely on it: a release that moves it fails here, not in a run."""

import importlib
import importlib.util
import inspect

import pytest
import torch
from torch.nn import functional

from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.training import onednn


def test_pipelines_look_for_a_models_class_by_its_name():
    """An engine is called as its model's class, since pipelines compare names; they read no other place."""
    base = importlib.import_module("transformers.pipelines.base")
    assert "self.model.__class__.__name__" in inspect.getsource(base.Pipeline.check_model_type)


def test_a_class_can_be_given_a_name_of_a_model():
    class Model(Engine):
        def run(self, tensors):
            raise NotImplementedError

    engine = Model()
    engine.__class__ = type("AlbertPlusModel", (Model,), {"__module__": Model.__module__})
    assert type(engine).__name__ == "AlbertPlusModel"
    assert isinstance(engine, Model)


def test_a_linear_module_looks_its_product_up_where_it_is_replaced(monkeypatch):
    """oneDNN's products take the place of `torch.nn.functional.linear`, which every `torch.nn.Linear` calls."""
    calls = []
    plain = functional.linear
    monkeypatch.setattr(functional, "linear", lambda *given: calls.append(len(given)) or plain(*given))
    torch.nn.Linear(2, 3)(torch.zeros(1, 2))
    assert calls == [3]


def test_onednns_product_takes_what_we_give_it():
    schema = torch.ops.mkldnn._linear_pointwise.default._schema
    assert [argument.type.kind() for argument in schema.arguments[:2]] == ["TensorType", "TensorType"]
    assert [argument.name for argument in schema.arguments][3:] == ["attr", "scalars", "algorithm"]
    if torch.backends.mkldnn.is_available():
        source, weight, bias = torch.randn(4, 3), torch.randn(5, 3), torch.randn(5)
        product = onednn._multiply(source, weight, bias)
        torch.testing.assert_close(product, source @ weight.T + bias)


def test_a_replica_of_ray_serve_opens_its_port_by_the_function_that_is_replaced():
    """Ray Serve has no switch for the address: the port is opened through this name of the module, with the server and `[::]:PORT`."""
    pytest.importorskip("ray.serve")
    replica = importlib.import_module("ray.serve._private.replica")
    assert list(inspect.signature(replica.add_port_to_grpc_server).parameters) == ["server", "address"]
    assert 'add_port_to_grpc_server(self._server, "[::]:' in inspect.getsource(replica)


def test_ray_has_the_switch_that_keeps_a_node_to_loopback():
    pytest.importorskip("ray")
    constants = importlib.import_module("ray._private.ray_constants")
    assert "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER" in inspect.getsource(constants)


def test_the_trainer_keeps_its_sum_of_losses_where_a_resumed_run_puts_it_back():
    trainer = inspect.getsource(importlib.import_module("transformers.trainer"))
    assert "self._tr_loss" in trainer
    assert "self._globalstep_last_logged" in trainer


def test_training_arguments_keep_their_number_of_gpus_where_we_set_it():
    arguments = inspect.getsource(importlib.import_module("transformers.training_args"))
    assert "self._n_gpu" in arguments


def test_exporters_log_under_the_names_that_are_held_back():
    """The logger of torch's registration is inside torch."""
    assert importlib.util.find_spec("torch.onnx._internal.exporter._registration") is not None
    assert importlib.util.find_spec("transformers.exporters") is not None
