"""What the lectures on attention claim, each to be run: in numbers, and in a picture. One file each."""

#: Name -> module of this package with ``CLAIM`` and ``find``. A new claim is a file and a line here.
CLAIMS = ("scaling", "order", "residuals", "heads", "normalization")

#: The only settings that a claim reads which trains nothing.
READS = {"scaling": ("train.seed", "train.backend"), "order": ("train.seed", "train.backend")}

#: The settings that a claim tries the values of.
SETS = {
    "residuals": ("model.options.residual", "model.options.position_in_every_block"),
    "normalization": ("model.options.norm",),
}
