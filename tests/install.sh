#!/usr/bin/env bash
# Installs what the tests need beside Rust: a C and C++ compiler, a JDK, Maven, openssl, shellcheck, curl, dpkg, tar,
# kill. Does nothing where all of it is there.
#
#   install.sh          for the tests
#   install.sh bench    wrk too
#   install.sh cluster  what a Kubernetes of one node needs too: a container runtime, network tools, Go and Python; to run
#                       it takes root and cgroup v1, which nothing installs
#
# Only apt is used, so a new Debian or Ubuntu is enough. Elsewhere it says what is missing.

set -euo pipefail

declare -A package=([cc]=build-essential [c++]=build-essential [kill]=procps [java]=openjdk-17-jdk-headless
  [javac]=openjdk-17-jdk-headless [mvn]=maven [openssl]=openssl [flock]=util-linux [curl]=curl [dpkg-deb]=dpkg [tar]=tar
  [unshare]=util-linux [shellcheck]=shellcheck [wrk]=wrk
  [containerd]=containerd [runc]=runc [nft]=nftables [iptables]=iptables [conntrack]=conntrack [ip]=iproute2
  [go]=golang-go [python3]=python3 [pip3]=python3-pip [/usr/lib/cni/bridge]=containernetworking-plugins)

wanted=(cc c++ kill java javac mvn openssl flock curl dpkg-deb tar unshare shellcheck)
[ "${1:-}" != bench ] || wanted+=(wrk)
[ "${1:-}" != cluster ] || wanted+=(containerd runc nft iptables conntrack ip go python3 pip3 /usr/lib/cni/bridge)

missing=()
for tool in "${wanted[@]}"; do
  # Programs, not what the shell has built in.
  type -P "$tool" >/dev/null || missing+=("${package[$tool]}")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
  echo "install.sh: missing: ${missing[*]} (install them, or run this as root on Debian or Ubuntu)" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# Later releases have no 17.
apt-cache show openjdk-17-jdk-headless >/dev/null 2>&1 || missing=("${missing[@]/openjdk-17-jdk-headless/default-jdk-headless}")
echo "install.sh: installing ${missing[*]}"
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
