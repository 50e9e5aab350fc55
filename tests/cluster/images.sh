#!/usr/bin/env bash
# Builds the images of the sidecar, the operator and the tests' application, without a container engine.
#
#   images.sh FOLDER [TAG]     lockstep-sidecar.tar, lockstep-operator.tar, lockstep-test-app.tar, named
#                              localhost/lockstep-sidecar:TAG and so on (default TAG: test)
#
# The programs are static. For tests they are optimised a little only, since that builds in a fraction of the time;
# LOCKSTEP_IMAGE_PROFILE=release builds what a release does.

set -euo pipefail

[ $# -ge 1 ] || { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../..
mkdir -p "$1"
folder=$(cd "$1" && pwd)
tag=${2:-test}
target=$(rustc -vV | sed -n 's/^host: //p')

if [ "${LOCKSTEP_IMAGE_PROFILE:-test}" = test ]; then
  export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
fi
# Without a target, the flags would hold for procedural macros too, which can't be static.
export RUSTFLAGS="-C target-feature=+crt-static"
cd "$root"
cargo build --quiet --release --target "$target" -p lockstep-sidecar -p lockstep-operator -p lockstep-test-app --bins
built=${CARGO_TARGET_DIR:-target}/$target/release
for program in lockstep-sidecar lockstep-operator lockstep-test-app; do
  bash "$here/image.sh" "$folder/$program.tar" "localhost/$program:$tag" "$built/$program"
done
