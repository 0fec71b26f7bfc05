"""Keras' own multi-head attention as a kind, to be measured beside ours.

zoo bench --attention=multi_head,keras_multi_head --plugin=benchmarks/keras_multi_head.py --lengths=64,256,1024
python benchmarks/in_turn.py --attention=multi_head,keras_multi_head --lengths=64,256,1024
"""

import keras

from zoo import Attention, registry


@registry.attention.register("keras_multi_head")
class KerasMultiHeadAttention(Attention):
    """Scaled dot-product attention by ``keras.layers.MultiHeadAttention``."""

    supports = frozenset({"causal", "bidirectional", "cross", "mask"})

    def build(self, query_shape, value_shape=None):
        self.layer = keras.layers.MultiHeadAttention(
            self.num_heads, self.head_dim, dropout=self.dropout, name="keras", dtype=self.dtype_policy
        )
        self.layer.build(query_shape, query_shape if value_shape is None else value_shape)
        self.built = True

    def call(self, query, value=None, *, attention_mask=None, training=None):
        value = query if value is None else value
        return self.layer(query, value, attention_mask=attention_mask, use_causal_mask=self.causal, training=training)
