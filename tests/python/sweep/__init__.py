"""One small program per public function of JAX and of the libraries on it: what people call, rather than what JAX makes of it."""
