"""One small program per public function of JAX and of libraries on it: functions that people call, rather
than primitives."""
