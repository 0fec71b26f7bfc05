"""Reserved token ids, the same in every vocabulary."""

PAD, BEGIN, END, UNKNOWN = RESERVED = 0, 1, 2, 3
