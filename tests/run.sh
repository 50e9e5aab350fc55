#!/usr/bin/env bash
# The tests, with what they need installed or built by itself.
#
#   run.sh           the normal run: lint unit sim fuzz brokers
#   run.sh LAYER...  only these:
#     lint     formatting, clippy, licences and bans, house rules
#     unit     every crate's own tests; needs no broker
#     sim      the whole sidecar on simulated time, by seed
#     fuzz     the decoders, a few seconds each
#     brokers  real brokers and real processes
#     bench    the table of ratios
#     soak     sim, fuzz and brokers with the full counts of the acceptance lists
#     cluster  comes with the operator
#
# Nothing is retried. Caches lie in ${XDG_CACHE_HOME:-$HOME/.cache}/lockstep: fetched servers, tools, and one build
# folder per checkout (CARGO_TARGET_DIR overrides it). Ports and folders are private, so several runs may go on at once.

set -uo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep
tools=$cache/tools
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$cache/target-$(printf %s "$root" | sha256sum | cut -c1-12)}
export PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin:$tools/bin
LOCKSTEP_RUN_DIR=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-run-XXXXXX")
export LOCKSTEP_RUN_DIR
export LOCKSTEP_SIDECAR=$CARGO_TARGET_DIR/debug/lockstep-sidecar

usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; }

# Ends what a killed test left over, each process by its pid.
clean_up() {
  local state
  for state in "$LOCKSTEP_RUN_DIR"/*/; do
    if compgen -G "$state*.pid" >/dev/null; then
      BROKER_STATE=${state%/} bash tests/brokers/rocketmq/rocketmq.sh kill
    fi
  done
  if [ -n "$failed" ]; then
    echo "run.sh: logs of this run are kept in $LOCKSTEP_RUN_DIR"
  else
    rm -rf "$LOCKSTEP_RUN_DIR"
  fi
}

# tool NAME VERSION : a cargo command, built into the cache where it is not there. Optimising them little builds them
# in a third of the time.
tool() {
  [ -f "$tools/$1-$2" ] && [ -x "$tools/bin/$1" ] && return 0
  mkdir -p "$tools"
  (
    flock 9
    [ ! -f "$tools/$1-$2" ] || exit 0
    echo "run.sh: building $1 $2 (once; it is kept in the cache)"
    cd "$tools" || exit 1
    CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
      CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_TARGET_DIR=$tools/build \
      cargo install --quiet --locked --force --root "$tools" "$1" --version "=$2" || exit 1
    rm -rf "$tools/build"
    touch "$tools/$1-$2"
  ) 9>"$tools/lock"
}

# --- layers ---------------------------------------------------------------------

build() { cargo build --quiet --workspace --bins; }

lint() {
  cargo fmt --all --check || return
  cargo clippy --quiet --workspace --all-targets -- -D warnings || return
  tool cargo-deny 0.20.2 || return
  cargo deny --log-level error check bans licenses sources || return
  if command -v shellcheck >/dev/null; then
    find tests .ci -name '*.sh' -exec shellcheck -x -S warning {} + || return
  fi
  cargo test --quiet --package lockstep-tests-tidy
}

unit() {
  build || return
  cargo test --quiet --workspace --exclude lockstep-tests-tidy --exclude lockstep-tests-sim \
    --exclude lockstep-tests-rocketmq --exclude lockstep-tests-bench
}

sim() { cargo test --quiet --package lockstep-tests-sim; }

fuzz() {
  tool cargo-fuzz 0.13.2 || return
  bash tests/fuzz.sh "${LOCKSTEP_FUZZ_SECONDS:-3}"
}

brokers() {
  build || return
  bash tests/brokers/rocketmq/rocketmq.sh fetch || return
  ROCKETMQ_VERSION=4.9.7 bash tests/brokers/rocketmq/rocketmq.sh fetch || return
  bash tests/brokers/rocketmq/rocketmq.sh peer-classpath >/dev/null || return
  LOCKSTEP_BROKERS=${LOCKSTEP_LENGTH:-normal} cargo test --quiet --package lockstep-tests-rocketmq
}

bench() {
  bash tests/install.sh bench || return
  bash tests/brokers/rocketmq/rocketmq.sh fetch || return
  cargo build --quiet --release --workspace --bins || return
  LOCKSTEP_SIDECAR=$CARGO_TARGET_DIR/release/lockstep-sidecar cargo run --quiet --release --package lockstep-tests-bench
}

soak() {
  local -x LOCKSTEP_LENGTH=soak LOCKSTEP_FUZZ_SECONDS=120
  sim && fuzz && brokers
}

cluster() { echo "run.sh: the cluster layer comes with the operator; there is nothing to run yet"; }

# --- the run ----------------------------------------------------------------------

for layer in "$@"; do
  case $layer in
    lint | unit | sim | fuzz | brokers | bench | soak | cluster) ;;
    *) usage; exit 2 ;;
  esac
done
[ $# -gt 0 ] || set -- lint unit sim fuzz brokers

failed=
trap clean_up EXIT
trap 'failed=interrupted; exit 130' INT TERM

summary=()
bash tests/install.sh || { failed=install; exit 1; }
for layer in "$@"; do
  echo "== $layer"
  since=$SECONDS
  if "$layer"; then outcome=passed; else outcome=FAILED failed="$failed $layer"; fi
  line=$(printf '%-8s %s in %d s' "$layer" "$outcome" $((SECONDS - since)))
  echo "== $line"
  summary+=("$line")
done

echo
printf '%s\n' "${summary[@]}"
if [ -n "$failed" ]; then
  echo "FAILED:$failed"
  exit 1
fi
echo "all passed in $SECONDS s"
