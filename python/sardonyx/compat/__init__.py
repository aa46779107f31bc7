"""Other tools' functions under their own names and keywords, by Sardonyx: change the import and keep the call.

`sardonyx.compat.onnxsim`, `sardonyx.compat.onnxslim`, `sardonyx.compat.jax2onnx` and
`sardonyx.compat.coremltools`, each imported by its name.
"""
