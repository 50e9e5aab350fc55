#!/usr/bin/env bash
# Makes a container image that holds one static program and nothing else, without a container engine.
#
#   image.sh FILE.tar NAME:TAG PROGRAM
#
# FILE is a docker-archive: load it with `ctr images import`, `docker load` or `podman load`. The program lies in the
# image's root and is its entry point; the user is 65532. The same input gives the same bytes.

set -euo pipefail

[ $# = 3 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
file=$1 tag=$2 program=$3
name=$(basename "$program")

if ldd "$program" 2>/dev/null | grep -q '=>'; then
  echo "image.sh: $program needs shared libraries, which the image would lack: build it static" >&2
  exit 1
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-image-XXXXXX")
trap 'rm -rf "$work"' EXIT

pack() { tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=gnu "$@"; }
digest() { sha256sum "$1" | cut -d' ' -f1; }

mkdir -p "$work/layer/etc" "$work/archive"
printf 'root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n' >"$work/layer/etc/passwd"
printf 'root:x:0:\nnonroot:x:65532:\n' >"$work/layer/etc/group"
cp "$program" "$work/layer/$name"
chmod -R u=rwX,go=rX "$work/layer"
chmod 755 "$work/layer/$name"
pack -C "$work/layer" -cf "$work/archive/layer.tar" etc "$name"

case $(uname -m) in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) arch=$(uname -m) ;; esac
cat >"$work/config.json" <<JSON
{"architecture":"$arch","os":"linux","created":"1970-01-01T00:00:00Z",
 "config":{"User":"65532:65532","Entrypoint":["/$name"],"WorkingDir":"/"},
 "rootfs":{"type":"layers","diff_ids":["sha256:$(digest "$work/archive/layer.tar")"]}}
JSON
config=$(digest "$work/config.json").json
mv "$work/config.json" "$work/archive/$config"
printf '[{"Config":"%s","RepoTags":["%s"],"Layers":["layer.tar"]}]\n' "$config" "$tag" >"$work/archive/manifest.json"
pack -C "$work/archive" -cf "$work/image.tar" manifest.json "$config" layer.tar
mkdir -p "$(dirname "$file")"
mv "$work/image.tar" "$file"
