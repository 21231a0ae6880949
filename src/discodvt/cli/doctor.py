"""`discodvt doctor`: what is installed, what is missing, and how to get it."""

from typing import Annotated

import typer

from discodvt.cli.console import out, print_json

NEEDED = ("torch", "transformers", "accelerate", "spacy", "pyarrow", "pydantic", "nltk", "sacrebleu", "matplotlib")
EXTRAS = {"datasets": "hub", "stanza": "stanza", "tensorboard": "tensorboard"}


def doctor(json: Annotated[bool, typer.Option("--json", help="Print only JSON on standard output.")] = False) -> None:
    """Check this installation: libraries, bundled models, devices."""
    import os
    import platform

    from discodvt.discourse.parsers import bundled_path

    report: dict[str, str] = {"python": platform.python_version(), "cores": str(os.cpu_count())}
    for package in NEEDED:
        report[package] = _version(package) or "MISSING: pip install discodvt again"
    for package, extra in EXTRAS.items():
        report[package] = _version(package) or f"not installed (optional: pip install 'discodvt[{extra}]')"
    report["bundled parser"] = "ready" if (bundled_path() / "meta.json").exists() else "MISSING: install discodvt again"
    if _version("torch"):
        import torch

        report["device"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    if json:
        print_json(report)
    else:
        for name, state in report.items():
            out.print(f"{name:>15}  {state}")
    if any(state.startswith("MISSING") for state in report.values()):
        raise typer.Exit(1)


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version  # slow to import, and `--help` needs none of it

    try:
        return version(package)
    except PackageNotFoundError:
        return None
