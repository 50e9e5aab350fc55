#!/usr/bin/env bash
# The tests, with what they need installed or built by itself.
#
#   run.sh           the normal run: lint unit sim fuzz brokers cluster
#   run.sh LAYER...  only these:
#     lint     formatting, clippy, licences and bans, house rules
#     unit     every crate's own tests; needs no broker
#     sim      the whole sidecar on simulated time, by seed
#     fuzz     the decoders, a few seconds each
#     brokers  real brokers (RocketMQ, RabbitMQ, ActiveMQ Classic and Artemis) and real processes
#     bench    the table of ratios; LOCKSTEP_BENCH_ONLY=rabbitmq only these rows, with commas between several: strict, wide,
#              keys, latency, idle, rocketmq, rabbitmq, activemq
#     cluster  the chart, the operator and its pods on a real Kubernetes; needs root and cgroup v1
#     soak     sim, fuzz, brokers and cluster with the full counts of the acceptance lists
#
# The last line says how much passed and how much failed. Nothing is retried. Caches lie in
# ${XDG_CACHE_HOME:-$HOME/.cache}/lockstep: fetched servers, tools, and one build folder per checkout
# (CARGO_TARGET_DIR overrides it). Ports and folders are private, so several runs may go on at once; a machine bears one
# cluster, so its layer waits for that of another run.

set -uo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep
tools=$cache/tools
run=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-run-XXXXXX")
mkdir "$run/tmp"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$cache/target-$(printf %s "$root" | sha256sum | cut -c1-12)}
export PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin:$tools/bin
# Every process of this run is known by the first, and leaves its files below the second.
export LOCKSTEP_RUN_DIR=$run TMPDIR=$run/tmp
export LOCKSTEP_SIDECAR=$CARGO_TARGET_DIR/debug/lockstep-sidecar

usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; }

# --- the end ----------------------------------------------------------------------

# Ends what is left of this run, each process by its pid: servers leave the process group, but not the environment.
end_leftovers() {
  local file pid
  for file in /proc/[0-9]*/environ; do
    if grep -qsaF "LOCKSTEP_RUN_DIR=$run" "$file"; then
      pid=${file//[^0-9]/}
      [ "$pid" = $$ ] || kill -KILL "$pid" 2>/dev/null
    fi
  done
}

# Pods are no children of the run, so their cluster must end them.
end_clusters() {
  local settings
  for settings in "$run"/lockstep-cluster-*/settings; do
    [ ! -e "$settings" ] || CLUSTER_STATE=$(dirname "$settings") bash tests/cluster/cluster.sh down --keep >/dev/null 2>&1
  done
}

clean_up() {
  [ -z "$job" ] || kill -KILL -- "-$job" 2>/dev/null
  end_clusters
  end_leftovers
  [ -n "$failed" ] || rm -rf "$run"
}

interrupted() {
  trap - INT TERM HUP
  echo "run.sh: interrupted"
  exit 130
}

# --- tools ------------------------------------------------------------------------

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

# --- layers -----------------------------------------------------------------------

# All of them choose tests of the whole workspace, so that nothing is built twice with other features.
build() { cargo test --quiet --workspace --no-run; }

# holds WHAT COMMAND... : one rule, counted as a test.
holds() {
  local what=$1
  shift
  "$@" || { echo "not ok: $what"; return 1; }
  echo "ok: $what"
}

lint() {
  holds formatting cargo fmt --all --check || return
  holds clippy cargo clippy --quiet --workspace --all-targets -- -D warnings || return
  tool cargo-deny 0.20.2 || return
  holds "licences, bans and sources" cargo deny --log-level error check bans licenses sources || return
  holds shellcheck find tests .ci \( -name '*.sh' -o -path .ci/run \) -exec shellcheck -x -P SCRIPTDIR -S warning {} + || return
  cargo test --quiet --workspace --test tidy
}

unit() {
  local suites
  build || return
  mapfile -t suites < <(find crds operator sidecar tests/support -path '*/tests/*/main.rs' -printf '%h\n' | sed 's#.*/##' | sort -u)
  cargo test --quiet --workspace --lib --bins "${suites[@]/#/--test=}" || return
  cargo test --quiet --package lockstep-history --doc
}

sim() { cargo test --quiet --workspace --test sim; }

fuzz() {
  tool cargo-fuzz 0.13.2 || return
  bash tests/fuzz.sh "${LOCKSTEP_FUZZ_SECONDS:-3}"
}

brokers() {
  build || return
  bash tests/brokers/rocketmq/rocketmq.sh fetch || return
  ROCKETMQ_VERSION=4.9.7 bash tests/brokers/rocketmq/rocketmq.sh fetch || return
  bash tests/brokers/rocketmq/rocketmq.sh peer-classpath >/dev/null || return
  bash tests/brokers/rabbitmq/rabbitmq.sh fetch || return
  RABBITMQ_VERSION=4.0 bash tests/brokers/rabbitmq/rabbitmq.sh fetch || return
  ACTIVEMQ_VERSION=6.3.1 bash tests/brokers/activemq/activemq.sh fetch || return
  ACTIVEMQ_VERSION=5.17.2 bash tests/brokers/activemq/activemq.sh fetch || return
  ARTEMIS_VERSION=2.40.0 bash tests/brokers/activemq/artemis.sh fetch || return
  local -x LOCKSTEP_BROKERS=${LOCKSTEP_LENGTH:-normal}
  # Side by side, since all mostly wait.
  local rc=0 job jobs=()
  cargo test --quiet --workspace --test rocketmq &
  jobs+=($!)
  cargo test --quiet --workspace --test rabbitmq -- new_ &
  jobs+=($!)
  cargo test --quiet --workspace --test rabbitmq -- --skip=new_ &
  jobs+=($!)
  cargo test --quiet --workspace --test activemq -- --skip=old_ --skip=artemis_ &
  jobs+=($!)
  cargo test --quiet --workspace --test activemq -- old_ artemis_ &
  jobs+=($!)
  for job in "${jobs[@]}"; do
    wait "$job" || rc=1
  done
  return $rc
}

bench() {
  local only=${LOCKSTEP_BENCH_ONLY:-} words
  bash tests/install.sh bench || return
  # Alone: beside the operator the sidecar would be built with features that it does not ship with.
  cargo build --quiet --release -p lockstep-sidecar -p lockstep-tests-bench || return
  words=("sidecar=$CARGO_TARGET_DIR/release/lockstep-sidecar" "folder=$TMPDIR/bench" "pairs=${LOCKSTEP_BENCH_PAIRS:-10}"
    "only=$only")
  case ,${only:-rocketmq}, in *,rocketmq,*)
    bash tests/brokers/rocketmq/rocketmq.sh fetch || return
    words+=("rocketmq_java=$(bash tests/brokers/rocketmq/rocketmq.sh peer-classpath)") || return
    ;;
  esac
  case ,${only:-rabbitmq}, in *,rabbitmq,*)
    bash tests/brokers/rabbitmq/rabbitmq.sh fetch || return
    words+=("rabbitmq_java=$(bash tests/brokers/rabbitmq/java-peer/classpath.sh)") || return
    ;;
  esac
  case ,${only:-activemq}, in *,activemq,*)
    ACTIVEMQ_VERSION=6.3.1 bash tests/brokers/activemq/activemq.sh fetch || return
    words+=("activemq_java=$(bash tests/brokers/activemq/java-peer/classpath.sh)") || return
    ;;
  esac
  "$CARGO_TARGET_DIR/release/lockstep-bench" table "${words[@]}" && echo "ok: bench"
}

soak() {
  local -x LOCKSTEP_LENGTH=soak LOCKSTEP_SIM_SEEDS=2000 LOCKSTEP_CASES=200000 LOCKSTEP_FUZZ_SECONDS=120
  # Memory is that of what ships.
  local -x LOCKSTEP_IMAGE_PROFILE=release
  sim && cargo test --quiet --workspace --test model && fuzz && brokers && cluster
}

cluster() {
  local -x LOCKSTEP_CLUSTER=${LOCKSTEP_LENGTH:-normal} LOCKSTEP_IMAGES=$CARGO_TARGET_DIR/images LOCKSTEP_OPERATOR
  # Another run of this machine may have it.
  local -x CLUSTER_WAIT=3600
  bash tests/install.sh cluster || return
  bash tests/cluster/cluster.sh build || return
  bash tests/brokers/rocketmq/rocketmq.sh fetch || return
  bash tests/brokers/rabbitmq/rabbitmq.sh fetch || return
  bash tests/cluster/images.sh "$LOCKSTEP_IMAGES" || return
  # The one of the image: memory is measured.
  LOCKSTEP_OPERATOR=$CARGO_TARGET_DIR/$(rustc -vV | sed -n 's/^host: //p')/release/lockstep-operator
  local rc=0
  holds "the chart" bash tests/cluster/chart.sh || rc=1
  cargo test --quiet --workspace --test apiserver || rc=1
  cargo test --quiet --workspace --test cluster || rc=1
  return $rc
}

# --- the run ----------------------------------------------------------------------

# tally LOG : adds what a layer's log says to the sums.
tally() {
  local more
  more=$(awk '/^test result: / { p += $4; f += $6 } /^ok: / { p += 1 } /^not ok: / { f += 1 } END { print p + 0, f + 0 }' "$1")
  passed=$((passed + ${more% *}))
  failures=$((failures + ${more#* }))
}

# run_layer NAME : in a process group of its own, so that an interrupted run ends it at once.
run_layer() {
  local rc
  set -m
  { "$1" 2>&1 | tee "$run/$1.log"; exit "${PIPESTATUS[0]}"; } </dev/null &
  job=$!
  set +m
  wait "$job"
  rc=$?
  job=
  return $rc
}

for layer in "$@"; do
  case $layer in
    lint | unit | sim | fuzz | brokers | bench | soak | cluster) ;;
    *) rm -rf "$run"; usage; exit 2 ;;
  esac
done
[ $# -gt 0 ] || set -- lint unit sim fuzz brokers cluster

failed=
job=
passed=0
failures=0
trap clean_up EXIT
trap interrupted INT TERM HUP

summary=()
# What failed, said once more at the end: a log may be cut to its last lines.
wrongs=
bash tests/install.sh || { echo "0 passed, 1 failed"; exit 1; }
for layer in "$@"; do
  echo "== $layer"
  since=$SECONDS
  before=$failures
  if run_layer "$layer"; then outcome=passed; else outcome=FAILED failed="$failed $layer"; fi
  tally "$run/$layer.log"
  # What broke before a test could fail is a failure too.
  [ $outcome = passed ] || [ "$failures" -gt "$before" ] || failures=$((failures + 1))
  [ $outcome = passed ] || wrongs+=$(grep -hE '^not ok: | --- FAILED$|^test result: FAILED.*\[.' "$run/$layer.log")$'\n'
  line=$(printf '%-8s %s in %d s' "$layer" "$outcome" $((SECONDS - since)))
  echo "== $line"
  summary+=("$line")
done

end_clusters
end_leftovers
echo
printf '%s\n' "${summary[@]}" "all in $SECONDS s"
[ -z "$failed" ] || printf '%sFAILED:%s; logs are kept in %s\n' "$wrongs" "$failed" "$run"
echo "$passed passed, $failures failed"
[ -z "$failed" ]
