#!/usr/bin/env bash
# RabbitMQ for tests: one node or a cluster of three, from Debian's packages in a folder of their own; nothing is
# installed. To run it takes root, or user namespaces.
#
#   rabbitmq.sh fetch                 fetch the server into the cache
#   rabbitmq.sh start [NODE...]       nodes: r1 r2 r3, where r2 and r3 join r1; without nodes r1
#   rabbitmq.sh start-cluster         all three
#   rabbitmq.sh stop [NODE...]        SIGTERM and wait; without nodes all
#   rabbitmq.sh kill [NODE...]        SIGKILL; without nodes all
#   rabbitmq.sh restart [NODE...]     stop, then start; after a kill or of a cluster's members: start
#   rabbitmq.sh freeze|thaw NODE      SIGSTOP, SIGCONT
#   rabbitmq.sh status
#   rabbitmq.sh ctl NODE ARGUMENT...  rabbitmqctl (a second or two each)
#   rabbitmq.sh api METHOD PATH [JSON]
#                                     one request to the management API of the first node that runs (some milliseconds);
#                                     fails and says why when it is refused
#   rabbitmq.sh url NODE              its AMQP address, and that over TLS
#
# Environment beside that of ../lib.sh:
#   RABBITMQ_VERSION    3.10, 4.0 or 4.3 (default 3.10): Debian 12, 13 and the one in the making, so that the last moves
#   RABBITMQ_PORT       the first of 13 neighbouring ports (default 19670): epmd, then AMQP, AMQP over TLS, management and
#                       the port between nodes of r1, of r2 and of r3
#   RABBITMQ_TLS        1 serves TLS too, mutual asks for a client certificate there (default 0). EXTERNAL is offered and
#                       takes the certificate's common name for the user, whom you add. $state/tls holds ca.crt,
#                       server.crt, server.key, client.crt and client.key; put the first three there to have them served
#   RABBITMQ_ACK_MS     the acknowledgement timeout, looked at every second (default: the product's 30 minutes)
#   RABBITMQ_CONF       more lines for rabbitmq.conf, such as heartbeat = 10
#
# User guest, password guest, from anywhere. Memory alarm: ctl r1 set_vm_memory_high_watermark 0, and 0.4 to end it.
# A quorum queue that is younger than two seconds may lose all it has when its node is killed.

name=rabbitmq
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

version=${RABBITMQ_VERSION:-3.10}
port=${RABBITMQ_PORT:-19670}
tls=${RABBITMQ_TLS:-0}
ack_ms=${RABBITMQ_ACK_MS:-}
nodes=(r1 r2 r3)
root=$cache/rabbitmq-$version
scripts=/usr/lib/rabbitmq/bin

# --- the server ------------------------------------------------------------

suite_of() {
  case $1 in
    3.10) echo bookworm ;;
    4.0) echo trixie ;;
    4.3) echo sid ;;
    *) die "no version $1: choose 3.10, 4.0 or 4.3" ;;
  esac
}

# get_packages FOLDER SUITE PACKAGE... : into FOLDER/archives, with all that they need, from where this machine's apt has
# Debian from. What is installed here counts for nothing and stays as it is.
get_packages() {
  local apt=$1 suite=$2 mirror options
  shift 2
  # shellcheck disable=SC2016
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | sed -n 1p)
  [ -n "$mirror" ] || die "apt knows no Debian: run apt-get update on a Debian that has the package rabbitmq-server"
  mkdir -p "$apt/lists/partial" "$apt/archives/partial"
  : >"$apt/status"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$apt/sources.list"
  options=(-qq -o "Dir::State=$apt" -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt"
    -o "Dir::Etc::SourceList=$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null
    -o APT::Sandbox::User= -o Acquire::Languages=none -o APT::Install-Recommends=false)
  apt-get "${options[@]}" update
  apt-get "${options[@]}" --yes --download-only install "$@"
}

# A folder that chroot can enter: the packages' files, without what their installation would do.
make_root() {
  local dir=$1 suite package
  suite=$(suite_of "$version")
  mkdir -p "$dir"
  get_packages "$dir/apt" "$suite" rabbitmq-server bash dash coreutils sed grep mawk libc-bin
  for package in bin sbin lib lib64; do
    mkdir -p "$dir/usr/$package"
    ln -s "usr/$package" "$dir/$package"
  done
  for package in "$dir"/apt/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar --extract --directory "$dir" --keep-directory-symlink --no-same-owner \
      --exclude './usr/share/doc' --exclude './usr/share/man' --exclude './usr/share/locale'
  done
  rm -rf "$dir/apt"
  ln -sf dash "$dir/usr/bin/sh"
  mkdir -p "$dir/dev" "$dir/proc" "$dir/tmp" "$dir/state"
  printf 'root:x:0:0:root:/state/home:/bin/sh\n' >"$dir/etc/passwd"
  printf '127.0.0.1 localhost\n' >"$dir/etc/hosts"
}

# inside COMMAND... : sets `inside`, the command to run it in $root, with this machine's /dev and /proc and with $state as
# /state. They vanish from there with the process.
inside() {
  local unshare=(unshare --mount)
  [ "$(id -u)" = 0 ] || unshare+=(--map-root-user)
  # shellcheck disable=SC2016
  inside=("${unshare[@]}" sh -ec 'root=$1 state=$2; shift 2
    for dir in dev proc; do mount --rbind "/$dir" "$root/$dir"; done
    mount --bind "$state" "$root/state"
    mount --bind "$state/tmp" "$root/tmp"
    PATH=/usr/sbin:/usr/bin exec chroot "$root" "$@"' sh "$root" "$state" "$@")
}

# --- configuration ---------------------------------------------------------

# port_of NODE KIND
port_of() {
  local index
  case $1 in r[123]) index=${1#r} ;; *) die "no node $1" ;; esac
  case $2 in
    amqp) echo $((port + 4 * index - 3)) ;;
    tls) echo $((port + 4 * index - 2)) ;;
    management) echo $((port + 4 * index - 1)) ;;
    nodes) echo $((port + 4 * index)) ;;
  esac
}

# on_node NODE COMMAND... : sets `inside` for the server or one of its tools.
on_node() {
  local node=$1
  shift
  # As under systemd the server is one process, without a shell around it. Tools listen too, on any free port.
  inside env -i PATH=/usr/sbin:/usr/bin HOME=/state/home LANG=C.UTF-8 ERL_EPMD_PORT="$port" ERL_EPMD_ADDRESS=127.0.0.1 \
    RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_NODENAME="$node@localhost" RUNNING_UNDER_SYSTEMD=1 \
    RABBITMQ_CONFIG_FILE="/state/conf/$node.conf" RABBITMQ_ADVANCED_CONFIG_FILE=/state/conf/advanced.config \
    RABBITMQ_ENABLED_PLUGINS_FILE=/state/conf/plugins RABBITMQ_MNESIA_BASE=/state/data RABBITMQ_LOG_BASE=/state/log \
    RABBITMQ_LOGS=- RABBITMQ_NODE_PORT="$(port_of "$node" amqp)" RABBITMQ_DIST_PORT="$(port_of "$node" nodes)" \
    RABBITMQ_CTL_DIST_PORT_MIN=0 RABBITMQ_CTL_DIST_PORT_MAX=0 ERL_CRASH_DUMP="/state/log/$node.crash" \
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1}" "$@"
}

# write_cert NAME SUBJECT EXTENSION : a key and a certificate of our own authority.
write_cert() {
  openssl req -newkey rsa:2048 -nodes -keyout "$1.key" -subj "$2" -out "$1.csr"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 \
    -extfile <(printf '%s\n' "$3") -out "$1.crt"
}

write_tls() {
  [ ! -f "$state/tls/server.crt" ] || return 0
  mkdir -p "$state/tls"
  (
    cd "$state/tls"
    openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -subj "/CN=lockstep test authority" -days 30 -out ca.crt
    write_cert client /CN=lockstep "extendedKeyUsage=clientAuth"
    write_cert server /CN=rabbitmq "subjectAltName=IP:127.0.0.1,IP:$advertise,DNS:localhost"
  ) >/dev/null 2>&1 || die "openssl could not make the certificates"
}

write_conf() {
  local plugins=rabbitmq_management,rabbitmq_consistent_hash_exchange,rabbitmq_sharding
  mkdir -p "$state/conf" "$state/home" "$state/tmp"
  [ "$tls" = 0 ] || { write_tls; plugins+=,rabbitmq_auth_mechanism_ssl; }
  echo "[$plugins]." >"$state/conf/plugins"
  # The API tells of quorum queues, and acknowledgement timeouts are looked for, as seldom as once in 5 s and in a minute
  # otherwise.
  echo '[{rabbit, [{quorum_tick_interval, 1000}, {channel_tick_interval, 1000}]}].' >"$state/conf/advanced.config"
}

# write_node_conf NODE
write_node_conf() {
  cat >"$state/conf/$1.conf" <<CONF
listeners.tcp.1 = $bind:$(port_of "$1" amqp)
management.tcp.ip = $bind
management.tcp.port = $(port_of "$1" management)
loopback_users = none
cluster_formation.peer_discovery_backend = classic_config
cluster_formation.classic_config.nodes.1 = r1@localhost
collect_statistics_interval = 1000
vm_memory_high_watermark.absolute = 1GiB
disk_free_limit.absolute = 50MB
log.console.level = info
${ack_ms:+consumer_timeout = $ack_ms}
CONF
  [ "$tls" = 0 ] || cat >>"$state/conf/$1.conf" <<CONF
listeners.ssl.1 = $bind:$(port_of "$1" tls)
ssl_options.cacertfile = /state/tls/ca.crt
ssl_options.certfile = /state/tls/server.crt
ssl_options.keyfile = /state/tls/server.key
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = $([ "$tls" = mutual ] && echo true || echo false)
ssl_cert_login_from = common_name
auth_mechanisms.1 = PLAIN
auth_mechanisms.2 = EXTERNAL
CONF
  printf '%s\n' "${RABBITMQ_CONF:-}" >>"$state/conf/$1.conf"
}

# --- nodes -------------------------------------------------------------------

# must_be_free PORT : a stranger's server there would be taken for ours.
must_be_free() { ! port_open "$reach" "$1" || die "port $1 of $reach is taken: choose another"; }

start_epmd() {
  pid_of epmd >/dev/null && return 0
  must_be_free "$port"
  inside epmd -port "$port" -address 127.0.0.1
  spawn epmd "${inside[@]}"
  await epmd port_open 127.0.0.1 "$port"
}

launch() {
  local kind
  pid_of "$1" >/dev/null && return 0
  for kind in amqp tls management nodes; do must_be_free "$(port_of "$1" "$kind")"; done
  write_node_conf "$1"
  mkdir -p "$state/log"
  echo "--- starts" >>"$state/log/$1.out"
  on_node "$1" "$scripts/rabbitmq-server"
  spawn "$1" "${inside[@]}"
}

# serves NODE : it has said so since its last start.
serves() {
  awk '/^--- starts/ { up = 0 } /Server startup complete/ { up = 1 } END { exit !up }' "$state/log/$1.out"
}

start() {
  local node
  [ $# -gt 0 ] || set -- r1
  once "$root" make_root
  mkdir -p "$state"
  write_conf
  start_epmd
  # Members of a cluster wait for one another at a restart; new ones join r1, which must be there.
  for node in "$@"; do
    [ ! -d "$state/data/$node@localhost" ] || launch "$node"
  done
  for node in "$@"; do
    launch "$node"
    await "$node" serves "$node"
    say "$version $node ready, AMQP $reach:$(port_of "$node" amqp), management $reach:$(port_of "$node" management)"
  done
}

stop() {
  local i
  [ $# -gt 0 ] || set -- epmd "${nodes[@]}"
  for ((i = $#; i > 0; i--)); do stop_node "${!i}"; done
}

kill_nodes() {
  local node
  [ $# -gt 0 ] || set -- "${nodes[@]}" epmd
  for node in "$@"; do kill_node "$node"; done
}

ctl() {
  on_node "$1" "$scripts/rabbitmqctl" "${@:2}"
  "${inside[@]}"
}

api() {
  local node
  for node in "${nodes[@]}"; do
    ! pid_of "$node" >/dev/null || break
  done
  curl --silent --show-error --fail-with-body --max-time 30 --user guest:guest --header 'content-type: application/json' \
    --request "$1" ${3:+--data "$3"} "http://$reach:$(port_of "$node" management)/api$2"
}

url() {
  echo "amqp://guest:guest@$advertise:$(port_of "$1" amqp)/%2f"
  [ "$tls" = 0 ] || echo "amqps://guest:guest@$advertise:$(port_of "$1" tls)/%2f"
}

case ${1:-} in
  fetch) once "$root" make_root ;;
  start) shift; start "$@" ;;
  start-cluster) start "${nodes[@]}" ;;
  stop) shift; stop "$@" ;;
  kill) shift; kill_nodes "$@" ;;
  restart) shift; [ $# -gt 0 ] || set -- r1; stop "$@"; start "$@" ;;
  freeze) signal_node STOP "$2" ;;
  thaw) signal_node CONT "$2" ;;
  status) status_of epmd "${nodes[@]}" ;;
  ctl) shift; ctl "$@" ;;
  api) shift; api "$@" ;;
  url) url "$2" ;;
  *) sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
