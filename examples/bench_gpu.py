"""`albert-plus bench gpu` from a checkout, with the Python and the libraries of a machine as they are: nothing is installed or fetched.

python examples/bench_gpu.py --out gpu-output
python examples/bench_gpu.py --out gpu-output --plan
"""

import importlib.util
import sys
from pathlib import Path

# What every part imports. What single parts need besides is named in the table.
NEEDED = (
    "torch", "transformers", "filelock", "lazy_loader", "numpy", "psutil", "safetensors", "scipy", "sklearn", "tqdm", "typing_extensions",
)  # fmt: skip

missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if missing:
    sys.exit(
        f"this Python ({sys.executable}) must have {', '.join(NEEDED)}, and lacks {', '.join(missing)}: install them, or use another"
    )

root = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(root))
import hf_albert_plus  # noqa: E402

# export/ and eval/ at the top of the checkout are packages of this one: an installation maps them.
hf_albert_plus.__path__.append(str(root))
from hf_albert_plus.eval.gpu.__main__ import main  # noqa: E402

if __name__ == "__main__":
    main()
