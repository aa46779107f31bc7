#!/usr/bin/env bash
# Run the Python tests with the oldest supported companions (JAX, Flax, Equinox, onnx, onnxruntime) and with the newest.
#
#   scripts/checks/test_matrix.sh [oldest|newest] ... [-- PYTEST ARGUMENTS]      (default: both)
#
# Environments live in build/matrix and are kept; the newest is looked up again each time. Needs a built release preset.
set -euo pipefail
cd "$(dirname "$0")/../.."
names=()
while (($#)) && [[ $1 != -- ]]; do names+=("$1"); shift; done
[[ ${1:-} == -- ]] && shift
((${#names[@]})) || names=(oldest newest)

# With the names of pyproject.toml's test group, whatever version is newest.
newest=(coremltools dm-haiku equinox flax jax mpmath onnx onnxruntime optax psutil pytest pytest-xdist)
failed=()
for name in "${names[@]}"; do
  env=build/matrix/$name
  case $name in
    oldest) wanted=(-r scripts/packages/requirements-oldest.txt) ;;
    newest) wanted=(--upgrade --upgrade-strategy eager "${newest[@]}") ;;
    *) echo "error: '$name' is neither oldest nor newest" >&2; exit 2 ;;
  esac
  [[ -x $env/bin/python ]] || .venv/bin/python -m venv "$env"
  echo "[matrix] $name: installing"
  "$env/bin/python" -m pip install -q --disable-pip-version-check "${wanted[@]}"
  "$env/bin/python" -m pip list --disable-pip-version-check 2>/dev/null |
    grep -E '^(coremltools|equinox|flax|jax|jaxlib|ml_dtypes|numpy|onnx|onnxruntime) ' | xargs -n2 | paste -sd' ' | sed "s/^/[matrix] $name: /"
  PYTHONPATH=$PWD/build/release/python "$env/bin/python" -m pytest -n2 -m "not slow and not wheel" "$@" tests/python ||
    failed+=("$name")
done
((${#failed[@]} == 0)) || { echo "[matrix] failed with: ${failed[*]}" >&2; exit 1; }
