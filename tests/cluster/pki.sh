# shellcheck shell=bash disable=SC2154
# The cluster's authorities, certificates and kubeconfig files; cluster.sh sources this file.

make_pki() (
  mkdir -p "$state/pki"
  cd "$state/pki" || exit
  [ ! -e "done" ] || exit 0
  authority ca
  authority front-proxy-ca
  local service=kubernetes.default.svc
  certificate apiserver ca /CN=kube-apiserver \
    "DNS:kubernetes,DNS:kubernetes.default,DNS:$service,DNS:$service.$domain,DNS:localhost,IP:$node_ip,IP:$kubernetes_ip"
  certificate apiserver-kubelet-client ca /O=system:masters/CN=kube-apiserver-kubelet-client
  certificate front-proxy-client front-proxy-ca /CN=front-proxy-client
  certificate kubelet-serving ca "/CN=$node" "DNS:$node,IP:$node_ip"
  certificate admin ca /O=system:masters/CN=lockstep-admin
  certificate controller-manager ca /CN=system:kube-controller-manager
  certificate scheduler ca /CN=system:kube-scheduler
  certificate proxy ca /CN=system:kube-proxy
  certificate kubelet ca "/O=system:nodes/CN=system:node:$node"
  openssl genrsa -out sa.key 2048
  openssl rsa -in sa.key -pubout -out sa.pub
  local name
  for name in admin controller-manager scheduler proxy kubelet; do kubeconfig "$name" "$state/$name.kubeconfig"; done
  touch "done"
) 2>"$state/log/pki.out"

private_key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }

authority() {
  private_key "$1"
  openssl req -x509 -new -key "$1.key" -days 30 -subj "/CN=$1" -out "$1.crt" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature
}

# certificate NAME AUTHORITY SUBJECT [ALTERNATIVE_NAMES] : for clients and servers.
certificate() {
  private_key "$1"
  printf 'keyUsage=critical,digitalSignature\nextendedKeyUsage=clientAuth,serverAuth\n' >"$1.ext"
  [ -z "${4:-}" ] || echo "subjectAltName=$4" >>"$1.ext"
  openssl req -new -key "$1.key" -subj "$3" -out "$1.csr"
  openssl x509 -req -in "$1.csr" -CA "$2.crt" -CAkey "$2.key" -CAcreateserial -days 30 -extfile "$1.ext" -out "$1.crt"
}

kubeconfig() {
  (umask 077; cat >"$2") <<YAML
apiVersion: v1
kind: Config
current-context: lockstep
clusters:
- name: lockstep
  cluster: {server: "https://$node_ip:$api_port", certificate-authority-data: $(base64 -w0 ca.crt)}
users:
- name: $1
  user: {client-certificate-data: $(base64 -w0 "$1.crt"), client-key-data: $(base64 -w0 "$1.key")}
contexts:
- name: lockstep
  context: {cluster: lockstep, user: $1}
YAML
}
