#!/usr/bin/env bash
# Run a make target in a Debian 12 that has nothing but make and git: is the set-up complete?
#
#   scripts/fresh_check.sh [TARGET]     (default: test)
#
# Needs root, debootstrap and a network; says "skipped" without. Checks what is committed, not what is in the working tree.
# FRESH_CCACHE=FOLDER lends it a compiler cache, to try the set-up without waiting for the compiler.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:-test}

skip() { echo "skipped: $*"; exit 0; }
((EUID == 0)) || skip "needs root"
command -v debootstrap >/dev/null || skip "needs debootstrap (apt-get install debootstrap)"
unshare --mount true 2>/dev/null || skip "needs the right to mount"

work=$(mktemp -d "${TMPDIR:-/tmp}/sardonyx-fresh-XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root
echo "making a Debian 12 in $root"
debootstrap --variant=minbase --include=make,git,ca-certificates bookworm "$root" >"$work/log" 2>&1 ||
  { tail -20 "$work/log"; echo "error: debootstrap failed"; exit 1; }
git clone -q --no-hardlinks . "$root/root/sardonyx"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"

# The machine's own certificates and proxies, as its network may need them.
environment=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 CI=true)
if [[ -e ${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt} ]]; then
  cp -L "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$root/etc/ssl/machine.crt"
  environment+=(PIP_CERT=/etc/ssl/machine.crt SSL_CERT_FILE=/etc/ssl/machine.crt)
fi
for name in http_proxy https_proxy no_proxy; do
  [[ -n ${!name:-} ]] && environment+=("$name=${!name}")
done
if [[ -n ${FRESH_CCACHE:-} ]]; then
  mkdir -p "$root/ccache"
  environment+=(CCACHE_DIR=/ccache)
fi

# Mounts live in a namespace of their own and end with it.
export root target FRESH_CCACHE=${FRESH_CCACHE:-}
unshare --mount --propagation private --pid --fork bash -euc '
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  [[ -z $FRESH_CCACHE ]] || mount --bind "$FRESH_CCACHE" "$root/ccache"
  exec chroot "$root" /usr/bin/env -i "$@" bash -c "cd /root/sardonyx && exec make $target </dev/null"
' bash "${environment[@]}"
