#!/usr/bin/env bash
# Make models with real exporters, optimize them with Sardonyx and its rivals, and hold the results to onnxruntime.
#
#   scripts/test_exporters.sh [--only TEXT ...]     (without: everything, and docs/exporters.md is written anew)
#
# Environments lie in .venv-exporters, or are those whose Pythons EXPORTERS_PYTHON and TENSORFLOW_PYTHON name; models, and what rivals
# made of them, in build/exporters. All is kept, so a run that was stopped goes on where it was. Needs a built release preset.
set -euo pipefail
cd "$(dirname "$0")/.."
models=build/exporters
mkdir -p "$models" .venv-exporters

# environment NAME LIST: its Python; fails where the packages cannot be installed.
environment() {
  local env=.venv-exporters/$1 stamp
  stamp=$env/$(sha256sum "$2" | cut -c1-16)
  [[ -x $env/bin/python ]] || .venv/bin/python -m venv "$env"
  if [[ ! -e $stamp ]]; then
    echo "[exporters] installing $2; the first time this downloads about $3" >&2
    "$env/bin/python" -m pip install -q --disable-pip-version-check -r "$2" >&2 || return 1
    touch "$stamp"
  fi
  echo "$env/bin/python"
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
(($#)) || page=(--page docs/exporters.md)
"$python" tests/exporters/compare.py "$models" "$@" "${page[@]}"
