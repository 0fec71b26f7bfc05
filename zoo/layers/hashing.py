"""Random bits without a generator: a hash of where each number stands."""

from keras import ops


def hashed(h):
    """Every bit of the int32 ``h`` comes to depend on every other.

    Reference:
        Appleby, the finalizer of MurmurHash3 (public domain).
    """
    h = ops.bitwise_xor(h, _shift(h, 16)) * odd(0x85EBCA6B)
    h = ops.bitwise_xor(h, _shift(h, 13)) * odd(0xC2B2AE35)
    return ops.bitwise_xor(h, _shift(h, 16))


def odd(multiplier: int) -> int:
    """A 32-bit multiplier as the signed number that wraps around to it."""
    return multiplier - 2**32 if multiplier >= 2**31 else multiplier


def _shift(h, bits: int):
    """A logical shift to the right; that of int32 drags the sign along."""
    return ops.bitwise_and(ops.right_shift(h, bits), (1 << (32 - bits)) - 1)
