"""Keras layers, written in ``keras.ops`` only: they run on TensorFlow, JAX and PyTorch."""
