"""What goes to the Hub beside the weights: the code that opens them, and a card where there is none."""

from typing import Any


class PushesCodeAndCard:
    """`push_to_hub` as transformers has it, with a card of the model where the repository has none yet.

    The code comes along by itself: every class is registered for its Auto class, so `save_pretrained` copies the files
    that define it, and the config's `auto_map` names all heads.
    """

    config: Any

    def push_to_hub(self, repo_id: str, *, tags: list[str] | None = None, **options: Any) -> str:
        """Uploads weights, code and card.

        Args:
            repo_id: `user/name`, or `name` for the user of the token. It is made where it does not exist.
            tags: of the card, beside `albert-plus`.
            options: of transformers' `push_to_hub`: `commit_message`, `private`, `token`, `revision`, `create_pr`, ….

        Returns:
            The commit.
        """
        from huggingface_hub import HfApi, ModelCard

        api = HfApi(token=options.get("token"))
        repo_id = api.create_repo(repo_id, private=options.get("private"), exist_ok=True).repo_id
        # A pull request is one commit: its card is transformers' own.
        has_card = options.get("create_pr") or api.file_exists(repo_id, "README.md")
        if not has_card:
            card = ModelCard(describe(self, repo_id=repo_id, tags=["albert-plus", *(tags or [])]))
            card.push_to_hub(repo_id, token=options.get("token"), commit_message="Add a model card")
        return super().push_to_hub(repo_id, tags=tags, **options)  # type: ignore[misc]


def describe(model: Any, *, repo_id: str, tags: list[str]) -> str:
    """A model card with what the config says and how to open the repository. Results are added by whoever measures."""
    config = model.config
    auto_class = type(model)._auto_class
    facts = {
        "layers": config.num_hidden_layers,
        "attention blocks": max(config.attention_map) + 1,
        "feed-forward blocks": max(config.ffn_map) + 1,
        "hidden size": config.hidden_size,
        "embedding size": config.embedding_size,
        "vocabulary": config.vocab_size,
        "parameters": f"{model.num_parameters():,}",
    }
    rows = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    return f"""---
library_name: transformers
tags: [{", ".join(tags)}]
---
# {repo_id.rpartition("/")[2]}

An ALBERT-plus encoder: layers share the blocks counted here.

| | |
|---|---|
{rows}

```python
from transformers import {auto_class}

model = {auto_class}.from_pretrained("{repo_id}", trust_remote_code=True)
```

With `import hf_albert_plus` first, `trust_remote_code` is not needed.

Scores, latency and training data: not measured here.
"""
