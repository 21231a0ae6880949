"""`discodvt doctor`: what is installed, what is missing, and how to get it."""

import typer

from discodvt.cli.console import out, print_json
from discodvt.cli.options import Json

NEEDED = (
    "torch", "transformers", "tokenizers", "safetensors", "huggingface-hub", "accelerate", "spacy", "pyarrow",
    "pydantic", "nltk", "sacrebleu", "scipy", "matplotlib", "jinja2", "filelock", "rich",
)  # fmt: skip
EXTRAS = {
    "boto3": "cloud",
    "datasets": "hub",
    "fastapi": "studio",
    "numba": "fast",
    "optuna": "search",
    "peft": "lora",
    "ray": "ray",
    "stanza": "stanza",
    "tensorboard": "tensorboard",
    "mauve-text": "mauve",
}
WRITER = ("config.json", "tokenizer.json", "model.safetensors", "prior/config.json", "prior/model.safetensors")
BUNDLED = {"parser": ("meta.json", "tok2vec/model", "tagger/model", "parser/model"), "storyteller": WRITER}


def doctor(json: Json = False) -> None:
    """Check this installation: libraries, bundled models, devices."""
    import os
    import platform

    report: dict[str, str] = {"python": platform.python_version(), "cores": str(os.cpu_count())}
    for package in NEEDED:
        report[package] = _version(package) or "MISSING: pip install discodvt again"
    for package, extra in EXTRAS.items():
        report[package] = _version(package) or f"not installed (optional: pip install 'discodvt[{extra}]')"
    for model, names in BUNDLED.items():
        missing = [name for name in names if not _is_whole(model, name)]
        report[f"bundled {model}"] = f"MISSING: {', '.join(missing)}; install discodvt again" if missing else "ready"
    if _version("torch"):
        import torch

        report["device"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    if json:
        print_json(report)
    else:
        for name, state in report.items():
            out.print(f"{name:>19}  {state}")
    if any(state.startswith("MISSING") for state in report.values()):
        raise typer.Exit(1)


def _is_whole(model: str, name: str) -> bool:
    """Whether a file that ships is there; of weights also whether all of them are, which their header shows."""
    from importlib.resources import files

    path = files("discodvt") / "assets" / model / name
    if not path.is_file() or not name.endswith(".safetensors"):
        return path.is_file()
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        return True  # reported above as missing
    try:
        with safe_open(str(path), framework="numpy"):
            return True
    except SafetensorError:
        return False


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version  # slow to import, and `--help` needs none of it

    try:
        return version(package)
    except PackageNotFoundError:
        return None
