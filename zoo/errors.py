"""The one error that means: the input is wrong, and this is how to mend it."""


class InputError(ValueError):
    """Something the caller gave is wrong.

    The message is one line that says what is wrong and what to do. The command line prints it and exits with
    code 2, without a traceback; a library user sees an ordinary ``ValueError``.
    """


class UnknownNameError(InputError):
    """Nothing goes by the name that was given; a plugin that failed to load may be why."""


class MissingMethodError(InputError, NotImplementedError):
    """A class of one's own lacks a method that is needed."""


def said(error: Exception) -> str:
    """What an error says, without what Keras writes around it when a layer raises."""
    import re

    inside = re.search(r"^Exception encountered when calling .*?\x1b\[1m(.*?)\x1b\[0m", str(error), re.DOTALL)
    return " ".join(inside[1].split()) if inside else str(error)


def near(name: str, names) -> str:
    """`` (did you mean 'x'?)`` when ``name`` resembles one of ``names``, else an empty string."""
    import difflib

    close = difflib.get_close_matches(str(name), [str(n) for n in names], n=3, cutoff=0.5)
    return f" (did you mean {' or '.join(repr(c) for c in close)}?)" if close else ""
