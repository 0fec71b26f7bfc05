"""Architectures, one file each. A new architecture is a file and a line here."""

from zoo import registry

__getattr__ = registry.architecture.declare(
    __name__,
    {
        "transformer": "Transformer",
        "decoder_only": "DecoderOnly",
        "encoder_only": "EncoderOnly",
    },
)
