"""What the lectures on attention claim, each to be run: in numbers, and in a picture. One file each."""

#: Name -> module of this package with ``CLAIM`` and ``find``. A new claim is a file and a line here.
CLAIMS = ("scaling", "order", "residuals", "heads", "normalization")
