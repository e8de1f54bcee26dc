"""Watch the program's own parsers of arguments: which options there are, and what they are in this run.

Those of argparse, and so of what is built on it (jsonargparse, tyro, Hugging Face's HfArgumentParser, simple_parsing),
those of click and typer, settings of Hydra, those of OmegaConf that words `name=value` change (torchtune), and without
a parser, what such words set (words.py).
"""

import contextlib
import itertools
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from torch.optim import optimizer as hooks

from coopsim.fitting.inside import words
from coopsim.fitting.inside.words import PLAIN
from coopsim.record.observe.private import hooked
from coopsim.run.probes.imports import after_import

_MOST = 500  #: options, as of the largest programs


class Arguments:
    """Records, from its creation on, the options of every parser that has parsed."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, Any]] = {}
        self._main = getattr(sys.modules["__main__"], "__file__", None) or ""  # gone when the program has ended
        after_import("argparse", self._see_argparse)
        after_import("tyro._calling", self._see_tyro)
        for name in ("click.core", "typer._click.core"):
            after_import(name, self._see_click)
        after_import("omegaconf.omegaconf", self._see_omegaconf)
        after_import("hydra.core.utils", self._see_hydra)
        self._step = hooks.register_optimizer_step_pre_hook(self._see_words)

    def _see_argparse(self, module: ModuleType) -> None:
        kind = module.ArgumentParser

        def parsed(parse: Any, parser: Any, *args: Any, **kwargs: Any) -> Any:
            result = parse(parser, *args, **kwargs)
            for action in parser._actions:
                truth = action.const is True or "bool" in getattr(action.type, "__name__", "")  # as string_to_bool
                takes = "no" if action.nargs == 0 else "perhaps" if truth else "a"
                self._add(action.option_strings, _value(result[0], action.dest), takes, action.choices)
            return result

        kind._parse_known_args = hooked(kind._parse_known_args, parsed)  # to which parse_args of all come

    def _see_tyro(self, module: ModuleType) -> None:
        def made(make: Any, function: Any, parser: Any, default: Any, values: Any, *args: Any, **kwargs: Any) -> Any:
            with contextlib.suppress(AttributeError, TypeError):  # what it is made of has changed
                for one in parser.args:
                    takes = "no" if one.lowered.action in ("store_true", "boolean_optional_action") else "a"
                    said = _of_words(values.get(one.get_output_key()))
                    value = said if said is not None and isinstance(said, PLAIN) else one.field.default
                    self._add(list(one.lowered.name_or_flags), value, takes, one.lowered.choices)
            return make(function, parser, default, values, *args, **kwargs)

        module.callable_with_args = hooked(module.callable_with_args, made)  # type: ignore[attr-defined]

    def _see_click(self, module: ModuleType) -> None:
        def invoked(invoke: Any, command: Any, ctx: Any) -> Any:
            for one in command.params:
                takes = "no" if getattr(one, "is_flag", False) else "a"
                names = [name for name in one.opts if name.startswith("-")]
                self._add(names, ctx.params.get(one.name), takes, getattr(getattr(one, "type", None), "choices", ()))
            return invoke(command, ctx)

        module.Command.invoke = hooked(module.Command.invoke, invoked)

    def _see_omegaconf(self, module: ModuleType) -> None:
        kind = module.OmegaConf
        of: list[Any] = []  # what has been made of words

        def made(of_words: Any, *args: Any, **kwargs: Any) -> Any:
            of.append(of_words(*args, **kwargs))
            return of[-1]

        def merged(merge: Any, *configs: Any) -> Any:
            result = merge(*configs)
            if any(one is config for one in of for config in configs):
                self._add_settings(result)
            return result

        kind.from_dotlist = staticmethod(hooked(kind.from_dotlist, made))
        kind.merge = staticmethod(hooked(kind.merge, merged))

    def _see_hydra(self, module: ModuleType) -> None:
        def runs(run: Any, task: Any, config: Any, *args: Any, **kwargs: Any) -> Any:
            self._add_settings(config)
            return run(task, config, *args, **kwargs)

        module.run_job = hooked(module.run_job, runs)  # type: ignore[attr-defined]

    def _see_words(self, *_: Any) -> None:
        """At the first step, when the program still has its settings."""
        self._step.remove()
        if not self._found:
            for name, value in words.settings(sys.argv[1:]).items():
                self._add([name], value, "a", ())

    def _add_settings(self, config: Any) -> None:
        """Add what an OmegaConf has, as words `name=value`; Hydra's own are left out."""
        found = sys.modules["omegaconf"].OmegaConf.to_container(config)
        for name, value in words.leaves({key: value for key, value in found.items() if key != "hydra"}):
            self._add([f"{name}="], value, "a", ())

    def _add(self, names: list[str], value: Any, takes: str, choices: Any) -> None:
        value = getattr(value, "value", value)  # of an enum
        if not names or not isinstance(value, PLAIN) or len(self._found) >= _MOST:
            return
        plain = (getattr(one, "value", one) for one in itertools.islice(choices or (), 100))  # of enums, too
        said = [str(one) for one in plain if isinstance(one, PLAIN)]
        self._found[max(names, key=len)] = {"names": list(names), "value": value, "takes": takes, "choices": said}

    def found(self) -> list[dict[str, Any]]:
        """Return the options for the report, in the form of options.Option."""
        if not self._found:
            for name, value in words.of_main_module(Path(self._main)).items():
                self._add([name], value, "a", ())
        return list(self._found.values())


def _of_words(said: Any) -> Any:
    """Return the value that a word, or a list with one, stands for."""
    word = said[0] if isinstance(said, list) and len(said) == 1 else said
    return int(word) if isinstance(word, str) and word.isdecimal() else word


def _value(namespace: Any, dest: str) -> Any:
    """Return a value of a namespace, in which jsonargparse has others: "train.batch"."""
    for name in [dest] if hasattr(namespace, dest) else dest.split("."):
        namespace = getattr(namespace, name, None)
    return namespace
