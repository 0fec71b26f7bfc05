"""The command line: ``zoo COMMAND [--flag=value ...]``, flags anywhere.

Nothing here imports Keras or TensorFlow until a command needs it: the flags decide the backend first.
"""

import errno
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from absl import flags

import zoo
from zoo import plugin
from zoo.claims import CLAIMS
from zoo.commands import claiming, exporting, inspecting, looking, measuring, running, searching
from zoo.commands.given import DECODING
from zoo.errors import InputError, near, said
from zoo.recipe import SHORT_FLAGS
from zoo.search.settings import TUNERS

_RECIPE_FLAGS = ("recipe", *SHORT_FLAGS, "set", "plugin")
_TRAINED_FLAGS = ("workdir", "recipe", "checkpoint", "average_last", "backend", "plugin")
_DECODING_FLAGS = (*_TRAINED_FLAGS, "batch_size", *DECODING)
_MEASURING_FLAGS = tuple(name for name in _DECODING_FLAGS if name != "n_best")  # what is measured is the best

_BENCH_FLAGS = ("repeats", "rounds", "output", "backend", "plugin", "format")


@dataclass(frozen=True)
class Command:
    """A command: what it does, the flags it takes and the arguments after its name.

    A flag that means something else to it than to other commands has a text of its own in ``help``.
    """

    run: Callable[[flags.FlagValues, list[str]], int | None]
    summary: str
    flags: tuple[str, ...]
    arguments: str = ""
    help: Mapping[str, str] = field(default_factory=dict)
    formats: tuple[str, ...] = ("table", "tsv", "json")


def main(argv: list[str] | None = None) -> None:
    """Runs a command; exits with 0, 1 when a check failed, 2 when the input is wrong, or 130 when interrupted."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except InputError as error:
        _end(said(error))
    except SystemExit as error:
        _end(f"a plugin or a recipe ended the program by sys.exit({error.code!r})")
    except MemoryError:
        _end("memory ran out; lower batch_tokens, batch_size or the sizes of the model")
    except OSError as error:
        if error.errno == errno.EPIPE:  # the reader, as in `zoo list | head`, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
        if not full and not error.filename:
            _end_in_plugin(error)
        kept = "; nothing that was there is lost" if full else ""
        _end(f"{error.strerror}{f': {error.filename}' if error.filename else ''}{kept}")
    except KeyboardInterrupt as interrupt:
        print("\nzoo:", "; ".join(["interrupted", *map(str, interrupt.args)]), file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        if type(error).__name__ == "ResourceExhaustedError":  # TensorFlow's, which is not imported here
            if os.strerror(errno.ENOSPC) in str(error):
                _end(f"{os.strerror(errno.ENOSPC)}; nothing that was there is lost")
            _end("memory ran out; lower batch_tokens, batch_size, beam, max_length, the texts' or the model's sizes")
        _end_in_plugin(error)
    sys.exit(code)


def _end(line: str) -> NoReturn:
    print(f"zoo: {line}", file=sys.stderr)
    sys.exit(2)


def _end_in_plugin(error: Exception) -> NoReturn:
    """Ends with one line where a plugin failed; what is no plugin's fault is raised on."""
    where = _in_plugin(error)
    if where is None:
        raise error
    _end(f"{where}: {type(error).__name__}: {' '.join(said(error).split())[:300]}")


def _in_plugin(error: BaseException) -> str | None:
    """Where a plugin's file raised an error: its file, line and function; None if no plugin did."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if plugin.is_loaded_file(frame.filename):
            return f"plugin {frame.filename!r} failed in {frame.name}, line {frame.lineno}"
    return None


def _run(argv: list[str]) -> int:
    values = _define_flags()
    try:
        words = values(["zoo", *argv])[1:]
    except flags.UnrecognizedFlagError as error:
        raise InputError(
            f"unknown flag --{error.flagname}{near(error.flagname, list(values))}; see `zoo --help`"
        ) from error
    except flags.Error as error:
        raise InputError(" ".join(str(error).split())) from error
    name, *arguments = words or [""]
    if name in COMMANDS and (values.help or values["help"].present):
        print(_help_of(name, values))
        return 0
    if values.version:
        print(zoo.__version__)
        return 0
    if values.help or not name:
        print(_help())
        return 0 if values.help else 2
    if name not in COMMANDS:
        raise InputError(f"unknown command {name!r}{near(name, COMMANDS)}; there are: {', '.join(COMMANDS)}")
    command = COMMANDS[name]
    for flag in _given(values):
        if values[flag].value == "" and flag not in ("text", "prefix", "target"):
            raise InputError(f"--{flag} is empty; say which, or leave it out")
        if flag not in command.flags:
            takers = [other for other, c in COMMANDS.items() if flag in c.flags]
            raise InputError(f"--{flag} is no flag of `zoo {name}`; it is one of: {', '.join(takers)}")
    if values.format is not None and values.format not in command.formats:
        raise InputError(f"`zoo {name}` has no --format={values.format}; it has: {', '.join(command.formats)}")
    if arguments and not command.arguments:
        raise InputError(f"`zoo {name}` takes no {arguments[0]!r}; a flag is written --flag=value")
    return command.run(values, arguments) or 0


def _define_flags() -> flags.FlagValues:
    """All flags of all commands; each command then takes its own."""
    values = flags.FlagValues()
    values.set_gnu_getopt(True)
    text = {
        "recipe": "a name (see `zoo list`), plugin/name, or the path of a recipe file",
        "workdir": "the run directory; runs/<recipe> when not given",
        "text": "what to decode; several are given by repeating the flag. Without it, lines are read from --input",
        "input": "a file with a source on each line; - for standard input",
        "output": "the files to write, without their endings",
        "source": "a file with a source on each line, in place of the task's split",
        "reference": "a file whose lines are what should come out of those of --source",
        "prefix": "what every output begins with",
        "format": "table, tsv or json; a table in a terminal, tab-separated otherwise",
        "target": "the output to look at; what the model writes when not given",
        "objective": "what trials are compared by; what the recipe monitors when not given",
    }
    changed = {
        "architecture": "transformer, decoder_only, ...",
        "attention": "attention kind (see `zoo list attention`)",
        "position": "positional scheme (see `zoo list position`)",
        "num_heads": "attention heads",
        "depth": "blocks of a stack",
        "width": "of the model",
        "dropout": "share of the units dropped in training",
        "data_dir": "folder that holds the data",
        "batch_tokens": "padded positions in a batch",
        "steps": "optimizer steps",
        "minutes": "training stops at the first validation after so many",
        "learning_rate": "peak of the schedule",
        "seed": "of initial weights, shuffling and dropout; or of drawn outputs",
        "precision": "float32, bfloat16 or float16",
        "backend": "tensorflow, jax or torch",
    }
    for name, meaning in {**text, **changed}.items():
        define = flags.DEFINE_multi_string if name == "text" else flags.DEFINE_string
        define(name, "bench" if name == "output" else None, meaning, flag_values=values)
    choices = {
        "split": (["train", "valid", "test"], "test", "of the data"),
        "checkpoint": (["best", "last"], "best", "which weights: of the best validation, or of the last"),
        "pass": (["forward", "train"], "train", "what is timed: the output, or its gradients"),
        "tuner": (TUNERS, "random", "how the next trial is chosen; random when not given"),
    }
    for name, (known, default, meaning) in choices.items():
        flags.DEFINE_enum(name, default, known, meaning, flag_values=values)
    flags.DEFINE_multi_string("set", [], "path=value of any setting (see `zoo show`); repeatable", flag_values=values)
    flags.DEFINE_multi_string("plugin", [], "a module or a .py file to load; repeatable", flag_values=values)
    flags.DEFINE_multi_string(
        "over", [], "path=values or path=low:high, what to search over; repeatable", flag_values=values
    )
    flags.DEFINE_integer("limit", None, "only the first so many examples", lower_bound=1, flag_values=values)
    flags.DEFINE_integer("batch_size", 64, "sentences decoded at once", lower_bound=1, flag_values=values)
    flags.DEFINE_integer(
        "average_last",
        None,
        "average the weights of so many validations, the last ones",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_list("lengths", "512,1024,2048,4096", "of the sequences to time", flag_values=values)
    flags.DEFINE_integer("repeats", 10, "timed steps of a process", lower_bound=1, flag_values=values)
    flags.DEFINE_integer("rounds", 3, "processes for each kind and length", lower_bound=1, flag_values=values)
    most = {
        "trials": "trials at most; all of a grid, a pass of Hyperband or else 10 when not given",
        "max_parameters": "a model with more is a failed trial",
        "halvings": "how often Hyperband takes a third of the steps, 2 when not given",
        "workers": "processes that train trials at the same time, 1 when not given",
    }
    for name, meaning in most.items():
        flags.DEFINE_integer(name, None, meaning, lower_bound=1, flag_values=values)
    flags.DEFINE_float(
        "max_minutes", None, "a trial that takes longer, by the clock, has failed", lower_bound=0, flag_values=values
    )
    counts = {
        "beam": "hypotheses kept at every step; 1 is greedy",
        "n_best": "outputs for a text at most, with log-probabilities; two may be one text in different subwords",
        "top_k": "draw from so many of the most likely tokens",
        "min_length": "tokens of an output at least",
        "max_length": "tokens of an output at most",
        "no_repeat_ngram": "no sequence of so many tokens comes twice",
    }
    for name, meaning in counts.items():
        flags.DEFINE_integer(name, None, meaning, flag_values=values)
    shares = {
        "length_penalty": "alpha of Wu et al., 2016; 0 compares plain log-probabilities",
        "temperature": "what logits are divided by before a token is drawn",
        "top_p": "draw from the fewest tokens that hold so much of the probability",
    }
    for name, meaning in shares.items():
        flags.DEFINE_float(name, None, meaning, flag_values=values)
    flags.DEFINE_bool("sample", False, "draw outputs rather than search for the most likely", flag_values=values)
    flags.DEFINE_bool("interactive", False, "answer line by line", flag_values=values)
    flags.DEFINE_bool("causal", False, "no query sees a key after it", flag_values=values)
    flags.DEFINE_bool("version", False, "print the version", flag_values=values)
    flags.DEFINE_bool("help", False, "show this", short_name="h", flag_values=values)
    return values


def _given(values: flags.FlagValues) -> list[str]:
    return [name for name in values if values[name].present and name not in ("help", "h", "version")]


COMMANDS = {
    "train": Command(running.train, "train a recipe, or go on with a run", (*_RECIPE_FLAGS, "workdir")),
    "evaluate": Command(
        running.evaluate,
        "measure a trained run, as JSON, on its task or on your files",
        (*_MEASURING_FLAGS, "data_dir", "split", "source", "reference", "limit"),
    ),
    "generate": Command(
        running.generate,
        "decode texts with a trained run",
        (*_DECODING_FLAGS, "prefix", "text", "input", "interactive", "format"),
    ),
    "attend": Command(
        inspecting.attend,
        "show where every head looks, in a picture and a page",
        (*_TRAINED_FLAGS, "text", "target", "output"),
        help={
            "text": "the source to look at",
            "output": "the files to write, without their endings; attention in the run directory when not given",
        },
    ),
    "report": Command(
        inspecting.report,
        "measure a trained run and write its report anew, a page that needs no network",
        (*_MEASURING_FLAGS, "data_dir", "split", "limit"),
        help={"seed": "of drawn outputs"},
    ),
    "export": Command(
        exporting.export,
        "write a trained run for use elsewhere: a SavedModel from texts to texts, ONNX, Keras",
        (*_TRAINED_FLAGS, *DECODING, "format", "output"),
        help={
            "format": "saved_model (when not given), onnx or keras",
            "output": "the folder or file to write; in the run directory when not given",
            "seed": "of drawn outputs",
        },
        formats=tuple(exporting.FORMS),
    ),
    "claim": Command(
        claiming.claim,
        f"try what the lectures claim, in numbers and pictures: {', '.join(CLAIMS)}",
        ("workdir", "steps", "seed", "backend", "set", "format"),
        "[CLAIM ...]",
        help={"workdir": "where runs and pictures go; runs/claims when not given", "steps": "of each run"},
    ),
    "search": Command(
        searching.search,
        "search the settings of a recipe with KerasTuner, or go on with a search",
        (*_RECIPE_FLAGS, *searching.FLAGS, "workdir", "format"),
        help={
            "workdir": "the directory of the search; searches/<recipe> when not given",
            "seed": "of initial weights, shuffling, dropout and the tuner",
        },
    ),
    "list": Command(
        looking.list_,
        "what there is: attention, position, architecture, task, recipe",
        ("plugin", "format"),
        "[KIND ...]",
    ),
    "show": Command(looking.show, "a recipe's docstring and settings", (*_RECIPE_FLAGS, "format"), "RECIPE"),
    "copy": Command(looking.copy, "copy a recipe to a file of your own, to edit", ("plugin",), "RECIPE [FILE]"),
    "check": Command(
        measuring.check,
        "whether an attention kind or a positional scheme keeps its contract",
        ("set", "num_heads", "plugin", "backend", "format"),
        "NAME",
        help={
            "set": "an option, as in model.attention_options.block_length=4; repeatable. Several are tried without",
            "num_heads": "of an attention kind",
        },
    ),
    "bench": Command(
        measuring.bench,
        "time and memory of attention kinds as sequences grow, in a table and a picture",
        ("attention", "lengths", "pass", "causal", "num_heads", "width", *_BENCH_FLAGS),
        help={
            "attention": "kinds and their options, as in multi_head,local:block_length=256,sliding=true",
            "num_heads": "attention heads, 4 when not given",
            "width": "of the layer, 64 for each head when not given",
            "output": "the files to write, without their endings; bench when not given",
        },
    ),
}


def _help() -> str:
    lines = ["attention-zoo: a workbench for attention", "", "usage: zoo COMMAND [--flag=value ...]", ""]
    lines += [f"  {name:<10} {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join([*lines, "", "`zoo COMMAND --help` shows a command's flags, `zoo --version` the version."])


def _help_of(name: str, values: flags.FlagValues) -> str:
    command = COMMANDS[name]
    lines = [f"usage: zoo {name} {command.arguments}".rstrip() + " [--flag=value ...]", "", command.summary, ""]
    for flag in command.flags:
        end = ";\n"  # absl goes on to say how a flag is repeated
        setting = f" ({SHORT_FLAGS[flag]})" if flag in SHORT_FLAGS and "set" in command.flags else ""
        lines.append(f"  --{flag:<14} {command.help.get(flag) or values[flag].help.partition(end)[0] + setting}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
