"""``zoo attend`` and ``zoo report``."""

import os
from pathlib import Path

from absl import flags

from zoo.commands import given
from zoo.errors import InputError


def attend(values: flags.FlagValues, arguments: list[str]) -> None:
    """Writes where every head looks, as a picture and as a page."""
    if not values.text or len(values.text) != 1:
        raise InputError("give one text to look at, as in --text='a man rides a horse'")
    stem = values.output if values["output"].present else str(given.workdir_of(values) / "attention")
    stem = stem.removesuffix(".png").removesuffix(".html")
    if not os.path.basename(stem):
        raise InputError(f"--output={values.output} names no file; give the files to write, without their endings")
    trained = given.trained(values)
    from zoo.inspect.maps import attention_maps
    from zoo.inspect.page import write_page
    from zoo.inspect.picture import write_picture

    text, target = (
        None if said is None else given.decoded(os.fsencode(said), flag)
        for said, flag in ((values.text[0], "--text"), (values.target, "--target"))
    )
    if target is not None and trained.model.layout == "encoder":
        raise InputError("an encoder reads no target; leave out --target")
    maps = attention_maps(trained, text, target)
    for ending, write in ((".png", write_picture), (".html", write_page)):
        write(maps, Path(stem + ending))
        print(stem + ending)
    print(f"{maps.source}  ->  {maps.output}")
    for layer in maps.without:
        print(f"no weights to show: {layer}")


def report(values: flags.FlagValues, arguments: list[str]) -> None:
    """Measures a trained run and writes its report anew."""
    trained = given.trained(values)
    from zoo.training.evaluate import evaluate
    from zoo.training.report import write_report
    from zoo.training.run_directory import RunDirectory

    run = RunDirectory(given.workdir_of(values))
    write_report(run, trained, evaluate(trained, values.split, values.limit, values.batch_size))
    print(run.report_file)
