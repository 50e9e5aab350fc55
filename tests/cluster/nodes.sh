# shellcheck shell=bash disable=SC2154,SC2034
# Starts and ends a cluster's processes; cluster.sh sources this file.

nodes=(etcd kube-apiserver kube-controller-manager kube-scheduler containerd kubelet kube-proxy)

bridge=lockstep0          # the CNI plugin plugs pods into it
node=lockstep-node
node_ip=10.244.0.1        # the bridge's own address: node, API server, and servers of this machine that pods may reach
pod_cidr=10.244.0.0/24
service_cidr=10.96.0.0/16
kubernetes_ip=10.96.0.1   # the first of service_cidr
dns_ip=10.96.0.10
domain=cluster.local
cni_bin=${CNI_BIN:-/usr/lib/cni}
cgroup=$(basename "$state")   # the kubelet's cgroups lie below it
containerd_sock=$state/containerd/containerd.sock
# The folder of the machine's one whole cluster.
owner=/run/lockstep-cluster
api_port=${CLUSTER_API_PORT:-6443}
# Below the range that the tests take free ports from.
etcd_port=${CLUSTER_ETCD_PORT:-11379}

# --- control plane ------------------------------------------------------------

# start_etcd and start_apiserver take their ports and addresses from $state/settings, so that they can be started again.
settings() {
  [ ! -e "$state/settings" ] || return 0
  mkdir -p "$state/log"
  printf 'node_ip=%s\napi_port=%s\netcd_port=%s\nwhole=%s\n' "$node_ip" "$api_port" "$etcd_port" "$1" >"$state/settings"
}

# shellcheck source=/dev/null
read_settings() { . "$state/settings"; }

start_etcd() {
  local client=http://127.0.0.1:$etcd_port peer=http://127.0.0.1:$((etcd_port + 1))
  pid_of etcd >/dev/null || spawn etcd etcd --data-dir "$state/etcd" --name lockstep --unsafe-no-fsync --log-level warn \
    --listen-client-urls "$client" --advertise-client-urls "$client" \
    --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "lockstep=$peer"
}

start_apiserver() {
  local pki=$state/pki more=()
  # In a lone API server no controller makes the service account that this plugin wants.
  [ "$whole" = yes ] || more=(--disable-admission-plugins ServiceAccount)
  pid_of kube-apiserver >/dev/null || spawn kube-apiserver kube-apiserver \
    --etcd-servers "http://127.0.0.1:$etcd_port" \
    --bind-address "$node_ip" --advertise-address "$node_ip" --secure-port "$api_port" \
    --service-cluster-ip-range "$service_cidr" --allow-privileged \
    --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction \
    --audit-policy-file "$here/conf/audit.yaml" --audit-log-path "$state/audit.log" \
    --client-ca-file "$pki/ca.crt" --tls-cert-file "$pki/apiserver.crt" --tls-private-key-file "$pki/apiserver.key" \
    --service-account-issuer "https://kubernetes.default.svc.$domain" \
    --service-account-key-file "$pki/sa.pub" --service-account-signing-key-file "$pki/sa.key" \
    --kubelet-certificate-authority "$pki/ca.crt" --kubelet-preferred-address-types InternalIP \
    --kubelet-client-certificate "$pki/apiserver-kubelet-client.crt" \
    --kubelet-client-key "$pki/apiserver-kubelet-client.key" \
    --requestheader-client-ca-file "$pki/front-proxy-ca.crt" \
    --requestheader-allowed-names front-proxy-client --requestheader-username-headers X-Remote-User \
    --requestheader-group-headers X-Remote-Group --requestheader-extra-headers-prefix X-Remote-Extra- \
    --proxy-client-cert-file "$pki/front-proxy-client.crt" --proxy-client-key-file "$pki/front-proxy-client.key" \
    "${more[@]}"
}

apiserver_only() {
  local free
  need etcd kube
  node_ip=127.0.0.1
  # All at once: two searches might find the same.
  free=$(free_ports 3)
  api_port=${CLUSTER_API_PORT:-$free}
  etcd_port=${CLUSTER_ETCD_PORT:-$((free + 1))}
  settings no
  read_settings
  make_pki
  start_etcd
  start_apiserver
  await kube-apiserver kubectl get --raw /readyz
  say "API server ready, KUBECONFIG=$KUBECONFIG"
}

# free_ports COUNT : the first of so many neighbouring ports of loopback that nobody listens on.
free_ports() {
  local first i
  while :; do
    first=$((20000 + RANDOM % 11000))
    for ((i = 0; i < $1; i++)); do ! port_open 127.0.0.1 $((first + i)) || continue 2; done
    echo "$first"
    return
  done
}

need() {
  local part
  for part in "$@"; do
    [ -d "$(part_dir "$part")" ] || die "$part is not built: run tests/cluster/cluster.sh build $part"
  done
}

# --- the whole cluster --------------------------------------------------------

# Ends with 77 where this machine can't run a cluster.
unable() { printf 'cluster: this machine cannot run a whole cluster: %s\n' "$*" >&2; exit 77; }

check_machine() {
  local program
  [ "$(id -u)" = 0 ] || unable "not root"
  [ -w /sys/fs/cgroup/memory ] || unable "no writable cgroup v1 hierarchies"
  for program in containerd ctr runc nft iptables conntrack ip openssl "$cni_bin/bridge"; do
    command -v "$program" >/dev/null || unable "$program is missing: run tests/install.sh cluster"
  done
}

# One cluster a machine: the names of its bridge and tables and some of its ports are fixed.
claim_machine() {
  local other since=$SECONDS
  while [ -s "$owner" ]; do
    other=$(cat "$owner")
    [ "$other" != "$state" ] || return 0
    (state=$other; pid_of kube-apiserver || pid_of containerd || pid_of kubelet) >/dev/null || break
    if [ $((SECONDS - since)) -ge "${CLUSTER_WAIT:-0}" ]; then
      die "another cluster runs on this machine, in $other: end it with CLUSTER_STATE=$other $here/cluster.sh down"
    fi
    [ $SECONDS -gt "$since" ] || say "waiting for the end of another cluster on this machine, in $other"
    sleep 2
  done
  if [ -s "$owner" ]; then
    say "clearing away what a killed cluster left, in $other"
    CLUSTER_STATE=$other bash "$here/cluster.sh" down
  fi
  ! ip link show "$bridge" >/dev/null 2>&1 || die "a network device $bridge is there, and no cluster of ours made it"
  echo "$state" >"$owner"
}

# render NAME FILE : fills in a configuration. An unchanged file is left alone: kube-proxy ends when its own is written.
render() {
  local text
  text=$(sed -e "s|@STATE@|$state|g; s|@NODE@|$node|g; s|@NODE_IP@|$node_ip|g; s|@POD_CIDR@|$pod_cidr|g" \
    -e "s|@BRIDGE@|$bridge|g; s|@CNI_BIN@|$cni_bin|g; s|@DOMAIN@|$domain|g; s|@DNS_IP@|$dns_ip|g; s|@CGROUP@|$cgroup|g" \
    "$here/conf/$1")
  [ "$text" = "$(cat "$2" 2>/dev/null)" ] || echo "$text" >"$2"
}

# A bridge of our own; what pods send beyond it is refused.
make_network() {
  # The kubelet changes these; they are put back at the end.
  [ -e "$state/sysctl.saved" ] || sysctl -e net.ipv4.ip_forward vm.overcommit_memory kernel.panic kernel.panic_on_oops \
    kernel.keys.root_maxkeys kernel.keys.root_maxbytes | tr -d ' ' >"$state/sysctl.saved"
  sysctl -qw net.ipv4.ip_forward=1
  if ! ip link show "$bridge" >/dev/null 2>&1; then
    ip link add "$bridge" address 02:10:24:40:00:01 type bridge forward_delay 0
    ip addr add "$node_ip/24" dev "$bridge"
  fi
  ip link set "$bridge" up
  nft -f - <<NFT
add table ip lockstep
delete table ip lockstep
table ip lockstep {
  chain forward {
    type filter hook forward priority filter - 10
    iifname "$bridge" oifname != "$bridge" reject
  }
}
NFT
}

start_node() {
  local config=$state/${1#kube-}.kubeconfig
  ! pid_of "$1" >/dev/null || return 0
  case $1 in
    etcd) start_etcd ;;
    kube-apiserver) start_apiserver ;;
    containerd) spawn containerd containerd --config "$state/containerd/config.toml" ;;
    kube-controller-manager)
      # Without the higher limits the default service account comes 5 s later.
      spawn "$1" "$1" --bind-address 127.0.0.1 --leader-elect=false --kube-api-qps 200 --kube-api-burst 400 \
        --kubeconfig "$config" --authentication-kubeconfig "$config" --authorization-kubeconfig "$config" \
        --use-service-account-credentials \
        --service-account-private-key-file "$state/pki/sa.key" --root-ca-file "$state/pki/ca.crt" \
        --cluster-signing-cert-file "$state/pki/ca.crt" --cluster-signing-key-file "$state/pki/ca.key"
      ;;
    kube-scheduler)
      spawn "$1" "$1" --bind-address 127.0.0.1 --leader-elect=false \
        --kubeconfig "$config" --authentication-kubeconfig "$config" --authorization-kubeconfig "$config"
      ;;
    kubelet)
      spawn kubelet kubelet --config "$state/kubelet.yaml" --kubeconfig "$state/kubelet.kubeconfig" \
        --root-dir "$state/kubelet" --cert-dir "$state/kubelet/pki" --hostname-override "$node" --node-ip "$node_ip"
      ;;
    kube-proxy) spawn kube-proxy kube-proxy --config "$state/kube-proxy.yaml" ;;
    *) die "no node $1: there are ${nodes[*]}" ;;
  esac
}

restart() {
  read_settings
  kill_node "$1"
  start_node "$1"
  await "$1" kubectl get --raw /readyz
}

up() {
  local file
  check_machine
  need kube etcd crictl coredns pause
  exec 8>"$owner.lock"
  flock 8
  claim_machine
  settings yes
  read_settings
  mkdir -p "$state"/{cni,containerd,kubelet}
  make_pki
  render containerd.toml "$state/containerd/config.toml"
  render cni.conflist "$state/cni/10-lockstep.conflist"
  for file in kubelet.yaml kube-proxy.yaml dns.yaml; do render "$file" "$state/$file"; done
  make_network
  # What goes on in the background must not keep the lock.
  up_nodes 8>&-
}

up_nodes() {
  local hierarchy
  start_node etcd
  start_node kube-apiserver
  start_node containerd
  await containerd ctr -a "$containerd_sock" version
  if ! ctr -a "$containerd_sock" -n k8s.io images ls -q | grep -qx localhost/pause:1; then
    load "$(part_dir pause)/pause.tar" "$(part_dir coredns)/coredns.tar"
  fi
  await kube-apiserver kubectl get --raw /readyz
  kubectl apply -f "$state/dns.yaml" >/dev/null
  start_node kube-controller-manager
  start_node kube-scheduler
  for hierarchy in cpu cpuacct cpuset memory pids systemd; do mkdir -p "/sys/fs/cgroup/$hierarchy/$cgroup"; done
  start_node kubelet
  start_node kube-proxy
  await kubelet kubectl wait --for=condition=Ready "node/$node" --timeout=1s
  await kube-controller-manager kubectl -n default get serviceaccount default
  await kubelet kubectl -n kube-system rollout status deployment/coredns --timeout=1s
  say "ready, KUBECONFIG=$KUBECONFIG"
}

load() {
  local file
  for file in "$@"; do ctr -a "$containerd_sock" -n k8s.io images import "$file" >/dev/null; done
}

# --- the end --------------------------------------------------------------------

down() {
  local node
  [ -e "$state/settings" ] || return 0
  read_settings
  if [ "$whole" = yes ]; then
    # The kubelet first, or it would start the pods anew; the pods while their network plugin still works.
    for node in kubelet kube-proxy kube-scheduler kube-controller-manager; do stop_node "$node"; done
    remove_pods
    stop_node containerd
  fi
  stop_node kube-apiserver
  stop_node etcd
  if [ "$whole" = yes ]; then
    kill_shims
    remove_network
    [ "$(cat "$owner" 2>/dev/null)" != "$state" ] || rm -f "$owner"
  fi
  [ "$1" = --keep ] || rm -rf "$state"
}

# Where everything was killed, the runtime still knows what to clear away.
remove_pods() {
  [ -e "$state/containerd/config.toml" ] || return 0
  start_node containerd
  await containerd ctr -a "$containerd_sock" version
  timeout 60 crictl --runtime-endpoint "unix://$containerd_sock" --timeout 30s rmp -fa >>"$state/log/down.out" 2>&1 ||
    say "some pods did not go, see $state/log/down.out"
}

# A shim outlives containerd on purpose; one is left, with its containers, only if a pod did not go. Both are told by
# this cluster's own socket and cgroup.
kill_shims() {
  local file pid mount
  for file in /proc/[0-9]*/cmdline; do
    if tr '\0' ' ' <"$file" 2>/dev/null | grep -q "^[^ ]*containerd-shim-runc-v2 .*-address $containerd_sock"; then
      kill -KILL "${file//[^0-9]/}" 2>/dev/null || true
    fi
  done
  find "/sys/fs/cgroup/pids/$cgroup" -name cgroup.procs -exec cat {} + 2>/dev/null | while read -r pid; do
    kill -KILL "$pid" 2>/dev/null || true
  done
  awk -v below="$state/" 'index($5, below) == 1 { print $5 }' /proc/self/mountinfo | sort -r | while read -r mount; do
    umount -l "$mount" || true
  done
  find /sys/fs/cgroup/*/"$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null || true
}

remove_network() {
  local table tool rules
  for table in "ip lockstep" "ip kube-proxy" "ip6 kube-proxy"; do
    # shellcheck disable=SC2086
    nft delete table $table 2>/dev/null || true
  done
  # What the portmap plugin makes for host ports.
  for tool in iptables ip6tables; do
    rules=$("$tool-save" 2>/dev/null) || continue
    ! grep -q 'CNI-' <<<"$rules" || grep -v 'CNI-' <<<"$rules" | "$tool-restore"
  done
  ip link delete "$bridge" 2>/dev/null || true
  [ ! -e "$state/sysctl.saved" ] || sysctl -qp "$state/sysctl.saved" || true
}
