"""`optimum-cli export albert-plus`: installed as `optimum/commands/register/`, where optimum looks for commands."""

from argparse import ArgumentParser
from pathlib import Path

from optimum.commands.base import BaseOptimumCLICommand, CommandInfo
from optimum.commands.export.base import ExportCommand

# The head of a model -> the task under which optimum's TasksManager knows it.
TASKS = {
    "Model": "feature-extraction",
    "ForPreTraining": "feature-extraction",
    "ForMaskedLM": "fill-mask",
    "ForMultipleChoice": "multiple-choice",
    "ForQuestionAnswering": "question-answering",
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
}


class AlbertPlusExportCommand(BaseOptimumCLICommand):
    """Exports a model directory or Hub id through hf-albert-plus, verified and counted."""

    COMMAND = CommandInfo(
        name="albert-plus",
        help="Export an encoder to ONNX (fp32, fp16, bf16, int8) or OpenVINO through hf-albert-plus.",
    )

    @staticmethod
    def parse_args(parser: ArgumentParser) -> None:
        parser.add_argument("-m", "--model", required=True, help="Model directory or Hub id.")
        parser.add_argument(
            "--task",
            default="auto",
            help="The model's task, to be sure: text-classification, token-classification, question-answering, fill-mask, "
            "multiple-choice, feature-extraction, or a synonym that optimum knows. Default: the head it was saved with.",
        )
        parser.add_argument(
            "--to",
            action="append",
            help="onnx (default), onnx-fp16, onnx-bf16, onnx-int8, openvino or triton; repeat for several.",
        )
        parser.add_argument("output", type=Path, help="Directory to make.")

    def run(self) -> None:
        import sys

        from hf_albert_plus.errors import AlbertPlusError

        assert self.args is not None
        try:
            export_model(self.args.model, task=self.args.task, to=self.args.to or ["onnx"], output=self.args.output)
        except AlbertPlusError as error:
            sys.exit(f"error: {error}")


def export_model(model: str, *, task: str, to: list[str], output: Path) -> None:
    """Exports a model directory or Hub id whose head is of the task.

    Raises:
        InvalidInput: the head is of another task, or the task is none that optimum knows.
    """
    from huggingface_hub import snapshot_download

    from hf_albert_plus.config_files import load_config
    from hf_albert_plus.export.stage import export
    from hf_albert_plus.heads import architecture_of, head_of

    source = Path(model) if Path(model).is_dir() else None
    config = load_config(model, option="--model")
    check_task(task, head=head_of(architecture_of(config), option="--model"))
    record = export(source or Path(snapshot_download(model)), to=to, output=output)
    for name, facts in record.result["exports"].items():
        print(name, facts.get("file", ", ".join(facts.get("models", []))))


def check_task(task: str, *, head: str) -> None:
    """Refuses a task that a head is not for; synonyms are those of optimum's TasksManager."""
    from optimum.exporters.tasks import TasksManager

    from hf_albert_plus.errors import InvalidInput, suggest

    if task == "auto":
        return
    wanted = TasksManager.map_from_synonym(task)
    if wanted not in TASKS.values():
        known = sorted(
            {*TASKS.values(), *(name for own in TASKS.values() for name in TasksManager.synonyms_for_task(own))}
        )
        raise InvalidInput("--task must be one of an encoder's", got=repr(task), repair=suggest(task, known))
    if TASKS[head] != wanted:
        raise InvalidInput(
            f"--task must be {TASKS[head]} for this model, whose head is {head}",
            got=repr(task),
            repair="leave --task out, or open the model with another head and save it first",
        )


REGISTER_COMMANDS = [(AlbertPlusExportCommand, ExportCommand)]
