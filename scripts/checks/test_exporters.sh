#!/usr/bin/env bash
# Make models with real exporters, optimize them with Sardonyx and its rivals, and hold the results to onnxruntime.
#
#   scripts/checks/test_exporters.sh [--only TEXT ...]     (without: everything, and docs/generated/exporters.md is written anew)
#
# Environments lie in .venv-exporters, or are those whose Pythons EXPORTERS_PYTHON and TENSORFLOW_PYTHON name; models, and what rivals
# made of them, in build/exporters. All is kept, so a run that was stopped goes on where it was. Needs a built release preset.
set -euo pipefail
cd "$(dirname "$0")/../.."
models=build/exporters
mkdir -p "$models"

# environment NAME LIST SIZE: its Python; fails where the packages cannot be installed.
environment() {
  scripts/setup.sh environment ".venv-exporters/$1" "$2" "$3" >&2 || return 1
  echo ".venv-exporters/$1/bin/python"
}

python=${EXPORTERS_PYTHON:-$(environment main tests/exporters/requirements.txt "3 GB")}
export PYTHONPATH=$PWD/build/release/python CUDA_VISIBLE_DEVICES=
for family in runtime trees torch; do
  "$python" "tests/exporters/make_$family.py" "$models" "$@"
done
if tensorflow=${TENSORFLOW_PYTHON:-$(environment tensorflow tests/exporters/requirements-tensorflow.txt "300 MB")}; then
  "$tensorflow" tests/exporters/make_tensorflow.py "$models" "$@" 2>"$models/tensorflow.log"
else
  echo "[exporters] tf2onnx cannot be installed here: its models are left out"
fi
page=()
(($#)) || page=(--page docs/generated/exporters.md)
"$python" tests/exporters/compare.py "$models" "$@" "${page[@]}"
"$python" tests/exporters/narrow.py "$models" "$@"
