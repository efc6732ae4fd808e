"""The command `mulo`: its subcommands, and where each is."""

from __future__ import annotations

import click

from mulo_tools.lazy import LazyCommand, LazyGroup

__all__ = ["main"]

_HELP = """Make images from a bundle by multi-scale local speculative decoding, and measure it.

Bundles are made by `mulo-export`. Exit codes: 0 done; 1 an engine, the system or an unforeseen error; 2 wrong usage or
request; 3 the bundle is refused; 4 a graph differs from its reference, or a backend from another; 130 interrupted.

Options may be set by environment variables: MULO_BENCH_IMAGES=5 stands for `mulo bench --images 5`.
"""

_COMMANDS = {
    "generate": LazyCommand(
        "mulo_tools.generate", "generate_command", "Make one image, or those of a file of prompts."
    ),
    "triton-repository": LazyCommand(
        "mulo_tools.triton_repository", "triton_command", "Write a model repository for NVIDIA's Triton."
    ),
    "encode-text": LazyCommand(
        "mulo_tools.text.command", "encode_text_group", "Make the condition of published models from a prompt.", "text"
    ),
    "serve": LazyCommand("mulo_tools.serve", "serve_command", "Serve images over HTTP, with a page.", "cpu,service"),
    "canary": LazyCommand("mulo_tools.canary", "canary_command", "Tell, or record, how test images are accepted."),
    "inspect": LazyCommand("mulo_tools.inspect", "inspect_command", "Show what a bundle holds and needs."),
    "bench": LazyCommand(
        "mulo_tools.bench.command", "bench_command", "Measure quality and time of every method.", "cpu,export,bench"
    ),
    "bench-step": LazyCommand(
        "mulo_tools.bench.step_cost", "step_command", "Compare a step of plain decoding with bare engines.", "cpu,bench"
    ),
    "bench-batch": LazyCommand(
        "mulo_tools.bench.batch_equality",
        "batch_command",
        "Compare images of a batch with those alone.",
        "cpu,bench",
    ),
    "bench-torch": LazyCommand(
        "mulo_tools.bench.torch_baseline", "torch_command", "Compare plain decoding with PyTorch.", "cpu,bench,torch"
    ),
    "profile": LazyCommand(
        "mulo_tools.profile.command", "profile_command", "Show where the time goes and what limits it.", "cpu,export"
    ),
    "verify": LazyCommand(
        "mulo_tools.verify.command", "verify_command", "Compare two backends, or two exports, token by token."
    ),
    "gpu-check": LazyCommand(
        "mulo_tools.gpu_check.command",
        "gpu_check_command",
        "Check whether and how fast a machine runs mulo.",
        "cpu,export",
    ),
    "calibrate": LazyCommand(
        "mulo_tools.calibrate", "calibrate_command", "Measure what enters linear layers, for 8 bits.", "cpu,export"
    ),
    "evaluate": LazyCommand(
        "mulo_tools.evaluate.command", "evaluate_group", "Measure images of real models.", "metrics,export"
    ),
    "predict": LazyCommand(
        "mulo_tools.predict.command",
        "predict_group",
        "Predict seconds per image, here and on GPUs.",
        "cpu,export,bench",
    ),
    "soak": LazyCommand("mulo_tools.bench.soak", "soak_command", "Watch memory over many images.", "cpu,bench"),
    "prove-load": LazyCommand(
        "mulo_tools.prove.load", "load_command", "Ask a service for more than it can do.", "cpu,service,load"
    ),
    "prove-storm": LazyCommand(
        "mulo_tools.prove.storm", "storm_command", "Storm a service with clients of every kind.", "cpu,service,load"
    ),
    "demo": LazyCommand("mulo_tools.demo", "demo_command", "Draw how images come about, step by step."),
    "train": LazyCommand("mulo_tools.train", "train_group", "Train a family of models."),
}

_SETTINGS = {"auto_envvar_prefix": "MULO"}
"""Every option may be set by the environment, too: MULO_BENCH_IMAGES=5 for `mulo bench --images 5`."""

main = click.version_option(package_name="mulo")(
    LazyGroup(_COMMANDS, name="mulo", help=_HELP, context_settings=_SETTINGS)
)
