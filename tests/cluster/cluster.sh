#!/usr/bin/env bash
# A real Kubernetes of one node for tests: no container engine, no systemd, nothing of it reachable from outside.
#
#   cluster.sh build [PART...]  kube etcd crictl coredns pause helm; without parts all of them
#   cluster.sh up               the whole cluster, as root, one a machine; ends with 77 where a machine can't run it
#   cluster.sh apiserver        etcd and kube-apiserver on loopback: objects, watches and admission are real, nothing
#                               acts on them; any number at a time
#   cluster.sh down [--keep]    ends what up or apiserver started, and removes its folder
#   cluster.sh kill|restart NODE   a node is a process: etcd kube-apiserver kube-controller-manager kube-scheduler
#                                  containerd kubelet kube-proxy
#   cluster.sh load FILE...     puts images into the whole cluster
#   cluster.sh status
#   cluster.sh path             the programs' folders, for PATH
#
# Environment:
#   CLUSTER_STATE      private folder of this cluster (default ${TMPDIR:-/tmp}/lockstep-cluster); admin.kubeconfig lies
#                      there, audit.log (writes only) and log/
#   CLUSTER_API_PORT   default 6443; apiserver: a free one
#   CLUSTER_ETCD_PORT  default 11379; apiserver: a free one; the next one is taken too
#   CLUSTER_WAIT       how long up waits for the end of another cluster on this machine, in seconds (default 0)

name=cluster
BROKER_STATE=${CLUSTER_STATE:-${TMPDIR:-/tmp}/lockstep-cluster}
BROKER_WAIT=${BROKER_WAIT:-120}
. "$(dirname "${BASH_SOURCE[0]}")/../brokers/lib.sh"
. "$here/build.sh"
. "$here/pki.sh"
. "$here/nodes.sh"

part_dirs=$(part_path)
export PATH=$part_dirs:$PATH
export KUBECONFIG=$state/admin.kubeconfig

case ${1:-} in
  build) shift; build "$@" ;;
  up) up ;;
  apiserver) apiserver_only ;;
  down) down "${2:-}" ;;
  kill) signal_node KILL "$2" ;;
  restart) restart "$2" ;;
  load) shift; load "$@" ;;
  status) status_of "${nodes[@]}" ;;
  path) echo "$part_dirs" ;;
  *) sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
