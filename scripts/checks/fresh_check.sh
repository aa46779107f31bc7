#!/usr/bin/env bash
# Run a make target in a Debian 12 that has nothing but make and git: is the set-up complete?
#
#   scripts/checks/fresh_check.sh [TARGET]     (default: test)
#
# Needs root, debootstrap and a network; says "skipped" without. Checks what is committed, not what is in the working tree.
# Ends with the seconds of each stage. FRESH_CCACHE=FOLDER lends it a compiler cache, to try the set-up without waiting for the compiler.
set -euo pipefail
cd "$(dirname "$0")/../.."
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
  environment+=(PIP_CERT=/etc/ssl/machine.crt SSL_CERT_FILE=/etc/ssl/machine.crt NODE_EXTRA_CA_CERTS=/etc/ssl/machine.crt)
fi
for file in /etc/npmrc /root/.npmrc; do
  if [[ -e $file ]]; then cp -L "$file" "$root$file"; fi
done
for name in http_proxy https_proxy no_proxy; do
  [[ -n ${!name:-} ]] && environment+=("$name=${!name}")
done
if [[ -n ${FRESH_CCACHE:-} ]]; then
  mkdir -p "$root/ccache"
  environment+=(CCACHE_DIR=/ccache)
fi

# Passes lines on, and lists in the end when each stage began: what setup.sh says, and the first line after the build.
stages() {
  local line stage="" begins=() names=() i end
  while IFS= read -r line; do
    printf '%s\n' "$line"
    case $line in
      "[setup] "*) stage=${line#"[setup] "} ;;
      "["*) continue ;;
      *) [[ $stage == building* ]] && stage="running $target" || continue ;;
    esac
    begins+=("$SECONDS")
    names+=("$stage")
  done
  echo "stages, in seconds (Python packages arrive during the build):"
  for i in "${!names[@]}"; do
    end=${begins[i + 1]:-$SECONDS}
    printf '%6d  %s\n' $((end - begins[i])) "${names[i]:0:90}"
  done
}

# Mounts live in a namespace of their own and end with it.
export root target FRESH_CCACHE=${FRESH_CCACHE:-}
unshare --mount --propagation private --pid --fork bash -euc '
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  [[ -z $FRESH_CCACHE ]] || mount --bind "$FRESH_CCACHE" "$root/ccache"
  exec chroot "$root" /usr/bin/env -i "$@" bash -c "cd /root/sardonyx && exec make $target </dev/null"
' bash "${environment[@]}" 2>&1 | stages
