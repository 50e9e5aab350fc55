#!/usr/bin/env bash
# Runs each fuzz target for so many seconds:  fuzz.sh [SECONDS]
#
# An installed nightly toolchain is taken, else the stable one with RUSTC_BOOTSTRAP=1. What a run finds new stays in
# a temporary folder: the corpus in the repository is kept small by hand. Expects cargo-fuzz on the PATH.

set -euo pipefail

seconds=${1:-10}
root=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}/fuzz
found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT

cargo=(cargo)
if rustup toolchain list 2>/dev/null | grep -q '^nightly-'; then
  cargo=(cargo +nightly)
else
  export RUSTC_BOOTSTRAP=1
fi

targets=0
for manifest in "$root"/sidecar/*/fuzz/Cargo.toml "$root"/sidecar/*/*/fuzz/Cargo.toml; do
  [ -f "$manifest" ] || continue
  folder=$(dirname "$manifest")
  for name in $("${cargo[@]}" fuzz list --fuzz-dir "$folder"); do
    targets=$((targets + 1))
    corpus=("$found/$name")
    mkdir -p "${corpus[0]}"
    [ ! -d "$folder/corpus/$name" ] || corpus+=("$folder/corpus/$name")
    # Without a sanitizer: the code has no unsafe blocks of its own, and a panic or a hang shows without one.
    if ! "${cargo[@]}" fuzz run --fuzz-dir "$folder" --target-dir "$target" --sanitizer none "$name" "${corpus[@]}" -- \
      "-max_total_time=$seconds" -rss_limit_mb=1024 -timeout=10 -print_final_stats=1 >"$found/$name.out" 2>&1; then
      tail -n 60 "$found/$name.out" >&2
      echo "fuzz.sh: $name failed" >&2
      exit 1
    fi
    echo "ok: $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$found/$name.out") runs"
  done
done
[ "$targets" -gt 0 ] || { echo "fuzz.sh: there are no fuzz targets" >&2; exit 1; }
