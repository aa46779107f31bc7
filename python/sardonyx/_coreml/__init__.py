"""To Core ML, and its passes on coremltools' programs."""
