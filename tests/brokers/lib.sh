# shellcheck shell=bash disable=SC2034
# What the broker scripts share; they set `name` and source this file.
#
#   BROKER_STATE      private folder of this broker  (default ${TMPDIR:-/tmp}/lockstep-<name>)
#   BROKER_BIND       address to listen on           (default 127.0.0.1)
#   BROKER_ADVERTISE  address told to clients        (default BROKER_BIND)
#   BROKER_WAIT       seconds to wait for readiness  (default 120)
#
# A node is one process. $state/<node>.pid holds its pid and its start time, and $state/log/<node>.out its output.
# Its data stays in $state over a restart. Servers are fetched once into ${XDG_CACHE_HOME:-$HOME/.cache}/lockstep.

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[1]}")" && pwd)
state=${BROKER_STATE:-${TMPDIR:-/tmp}/lockstep-$name}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep
bind=${BROKER_BIND:-127.0.0.1}
advertise=${BROKER_ADVERTISE:-$bind}
patience=${BROKER_WAIT:-120}

# Where to reach a server that listens on $bind.
reach=$bind
[ "$bind" != 0.0.0.0 ] || reach=127.0.0.1

say() { printf '%s: %s\n' "$name" "$*"; }
die() { printf '%s: %s\n' "$name" "$*" >&2; exit 1; }

# --- processes -------------------------------------------------------------

# When a process started, in clock ticks since boot; nothing for a dead one, reaped or not. One whose first thread is dead
# lives, and keeps its ports, as long as others do.
born() {
  local threads=("/proc/$1/task/"*)
  sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | awk -v threads=${#threads[@]} '$1 != "Z" || threads > 1 { print $20 }'
}

# The pid of a running node, or failure. The start time tells a recycled pid.
pid_of() {
  local pid since
  read -r pid since 2>/dev/null <"$state/$1.pid" || return 1
  [ -n "$since" ] && [ "$(born "$pid")" = "$since" ] || return 1
  echo "$pid"
}

# spawn NODE COMMAND... : start a node detached from this shell.
spawn() {
  local node=$1
  shift
  mkdir -p "$state/log"
  setsid "$@" </dev/null >>"$state/log/$node.out" 2>&1 &
  echo "$! $(born $!)" >"$state/$node.pid"
}

# await NODE COMMAND... : wait until COMMAND succeeds while the node lives.
await() {
  local node=$1 since=$SECONDS
  shift
  until "$@" >/dev/null 2>&1; do
    pid_of "$node" >/dev/null || give_up "$node" "ended while starting"
    [ $((SECONDS - since)) -lt "$patience" ] || give_up "$node" "not ready after ${patience}s"
    sleep 0.1
  done
}

give_up() {
  tail -n 20 "$state/log/$1.out" >&2 || true
  die "$1 $2, see $state/log"
}

port_open() { (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; }

# stop_node NODE : SIGTERM, then SIGKILL after 30 seconds.
stop_node() {
  local pid i
  if pid=$(pid_of "$1"); then
    kill -CONT "$pid"
    kill -TERM "$pid"
    for ((i = 0; i < 300; i++)); do
      pid_of "$1" >/dev/null || break
      sleep 0.1
    done
    if pid_of "$1" >/dev/null; then
      say "$1 ignored SIGTERM, killing it"
      kill -KILL "$pid"
    fi
  fi
  rm -f "$state/$1.pid"
}

# signal_node SIGNAL NODE : faults. KILL crashes a node, STOP freezes it.
signal_node() {
  local pid
  pid=$(pid_of "$2") || die "$2 is not running"
  kill "-$1" "$pid"
  while [ "$1" = KILL ] && pid_of "$2" >/dev/null; do sleep 0.02; done
}

# kill_node NODE : ends a node at once, where there is one.
kill_node() {
  ! pid_of "$1" >/dev/null || signal_node KILL "$1"
  rm -f "$state/$1.pid"
}

# status_of NODE... : one line each; fails unless all of them run.
status_of() {
  local node pid rss rc=0
  for node in "$@"; do
    if pid=$(pid_of "$node"); then
      rss=$(awk '/^VmRSS/ { print int($2 / 1024) }' "/proc/$pid/status")
      printf '%-12s pid %-7s %s MiB\n' "$node" "$pid" "$rss"
    else
      printf '%-12s stopped\n' "$node"
      rc=1
    fi
  done
  return $rc
}

# --- what is fetched and built ------------------------------------------------

# once DIRECTORY COMMAND... : lets COMMAND fill DIRECTORY.part unless DIRECTORY is there; one process at a time.
once() {
  local dir=$1
  shift
  [ ! -d "$dir" ] || return 0
  mkdir -p "$(dirname "$dir")"
  (
    flock 9
    [ ! -d "$dir" ] || exit 0
    rm -rf "$dir.part"
    "$@" "$dir.part" >&2
    mv "$dir.part" "$dir"
  ) 9>"$dir.lock"
}

# java_peer NAME FOLDER : prints the class path of a Maven project in the folder, built where it is not there.
java_peer() {
  local built
  built=$cache/$1-$(cat "$2/pom.xml" "$2"/src/main/java/lockstep/peer/*.java | sha256sum | cut -c1-16)
  once "$built" build_java "$2"
  printf '%s\n' "$built/target/classes:$built/target/lib/*"
}

build_java() {
  mkdir -p "$2"
  cp -r "$1/." "$2"
  mvn -B -q -f "$2/pom.xml" package dependency:copy-dependencies -DincludeScope=runtime "-DoutputDirectory=$2/target/lib"
}
