"""Tasks: data, loss and metrics of a job, one file each. A new task is a file and a line here."""

from zoo import registry

__getattr__ = registry.task.declare(
    __name__,
    {
        "number_words": "NumberWords",
        "translation": "Translation",
        "copy": "algorithmic:Copy",
        "reverse": "algorithmic:Reverse",
    },
)
